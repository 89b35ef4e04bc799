// core/probes/dice.c -- how well the answer's attention covers an object: soft Dice between the
// attention map (scaled to a maximum of 1) and a box or mask (IRA's paper, App. A.1):
//
//   tokens: 2 sum(a m) / (sum(a^2) + sum(m^2)),        m = the share of the token's cell that the
//                                                          object covers
//   pixels: 2 sum(w a m) / (sum(w a^2) + sum(w m)),    w = the cell's area: sums over pixels, each
//                                                          either inside or outside the object
//
// The sums over pixels exclude a thumbnail beside tiles, which covers the same pixels.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/picture/image.h"
#include "core/positions/positions.h"
#include "core/probes/attention_sum.h"
#include "core/probes/dice.h"
#include "core/probes/kit.h"
#include "core/template/message.h"

static const char *const spaces[] = { "tokens", "pixels", NULL };

const struct setting dice_settings[] = {
    { .key = "dice.space",
      .type = SETTING_CHOICE,
      .def = "tokens",
      .choices = spaces,
      .stale = STALE_MEASURED,
      .help = "Which soft Dice /dice lists first, and with --data correlates with the score: over "
              "the grid of tokens, or over the pixels of the picture (for tiled pictures, without "
              "the thumbnail)." },
    { 0 },
};

double dice_soft(const float *map, const float *mask, int64_t n)
{
    double most = 0, both = 0, squares = 0;
    for (int64_t i = 0; i < n; i++)
        if (isfinite(map[i])) most = fmax(most, (double)map[i]);
    for (int64_t i = 0; i < n; i++) {
        if (!isfinite(map[i])) continue;
        const double a = most > 0 ? (double)map[i] / most : 0, m = (double)mask[i];
        both += a * m;
        squares += a * a + m * m;
    }
    return squares > 0 ? 2 * both / squares : NAN;
}

// Returns the soft Dice over pixels; area[n]: area of each cell. NaN if both are empty.
static double dice_pixels(const float *map, const float *mask, const double *area, int64_t n)
{
    double most = 0, both = 0, sum = 0;
    for (int64_t i = 0; i < n; i++)
        if (isfinite(map[i]) && area[i] > 0) most = fmax(most, (double)map[i]);
    for (int64_t i = 0; i < n; i++) {
        if (!isfinite(map[i])) continue;
        const double a = most > 0 ? (double)map[i] / most : 0, m = (double)mask[i];
        both += area[i] * a * m;
        sum += area[i] * (a * a + m);
    }
    return sum > 0 ? 2 * both / sum : NAN;
}

void dice_mask(const struct probe_env *env, int picture, const struct result_map *map, float *mask)
{
    const struct picture *p = &env->pictures[picture];
    const double w = (map->area[2] - map->area[0]) / map->cols;
    const double h = (map->area[3] - map->area[1]) / map->rows;
    for (int r = 0; r < map->rows; r++)
        for (int c = 0; c < map->cols; c++) {
            const double cell[4] = { map->area[0] + c * w, map->area[1] + r * h,
                                     map->area[0] + (c + 1) * w, map->area[1] + (r + 1) * h };
            mask[r * map->cols + c] =
                (float)(env->options->mask
                            ? positions_mask_share(env->options->mask, (double)p->image.width,
                                                   (double)p->image.height, cell)
                            : positions_box_share(env->options->box, cell));
        }
}

// Clips a map's area to its picture: left, top, right, bottom.
static void inside(const struct probe_env *env, const struct result_map *m, double area[4])
{
    const struct image *image = &env->pictures[m->picture].image;
    const double right = (double)image->width, bottom = (double)image->height;
    area[0] = fmax(m->area[0], 0), area[1] = fmax(m->area[1], 0);
    area[2] = fmin(m->area[2], right), area[3] = fmin(m->area[3], bottom);
}

static bool covers(const double area[4], const double other[4])
{
    const double slack = 1e-6;
    return other[0] >= area[0] - slack && other[1] >= area[1] - slack &&
           other[2] <= area[2] + slack && other[3] <= area[3] + slack;
}

// True if the map covers the area of all other tiles of its picture. If two tiles cover the whole
// picture (LLaVA-Next), the thumbnail is the first.
static bool is_thumbnail(const struct probe_env *env, const struct results *maps, size_t which)
{
    const struct result_map *m = &maps->maps[which];
    double area[4], other[4];
    size_t others = 0;
    inside(env, m, area);
    for (size_t i = 0; i < maps->map_count; i++) {
        if (i == which || maps->maps[i].picture != m->picture) continue;
        inside(env, &maps->maps[i], other);
        others++;
        if (!covers(area, other) || (i < which && covers(other, area))) return false;
    }
    return others > 0;
}

static void *dice_start(const struct probe_env *env, struct err *err)
{
    if (!env->options->box && !env->options->mask) {
        err_set(err, "/dice needs the object's position: --box LEFT,TOP,WIDTH,HEIGHT, --mask "
                     "FILE, or, with --data, --objects FILE");
        return NULL;
    }
    return attention_sum_start(env, err);
}

// Treats the tiles of a picture as one map. Sums over pixels use each cell's area inside the
// picture, and the share of that area that the object covers.
static int dice_finish(void *state, struct results *r, struct err *err)
{
    struct attention_sum *s = state;
    const struct probe_env *env = s->env;
    const int only = env->options->picture < 0 ? 0 : env->options->picture;
    const float *values = attention_sum_map(s, env->from, env->options->head, 0);
    struct results maps = { 0 };
    int64_t n = 0, at = 0, pixels = 0;
    double covered = 0;
    probe_maps(env, &maps, "dice", env->from, env->options->head, -1, values);
    for (size_t i = 0; i < maps.map_count; i++) n += (int64_t)maps.maps[i].rows * maps.maps[i].cols;
    float *map = xreallocarray(NULL, 4 * (size_t)n + 1, sizeof *map), *mask = map + n;
    float *pixel_map = mask + n, *pixel_mask = pixel_map + n;
    double *area = xreallocarray(NULL, (size_t)n + 1, sizeof *area);
    for (size_t i = 0; i < maps.map_count; i++) {
        const struct result_map *m = &maps.maps[i];
        const int cells = m->rows * m->cols;
        const double w = (m->area[2] - m->area[0]) / m->cols;
        const double h = (m->area[3] - m->area[1]) / m->rows;
        const bool weighed = !is_thumbnail(env, &maps, i);
        double in[4];
        if (m->picture != only) continue;
        inside(env, m, in);
        memcpy(map + at, m->values, (size_t)cells * sizeof *map);
        dice_mask(env, only, m, mask + at);
        for (int k = 0; k < cells; k++, at++) {
            const int row = k / m->cols;
            const double x = m->area[0] + k % m->cols * w, y = m->area[1] + row * h;
            covered += (double)mask[at];
            if (!weighed) continue;
            const double cell = fmax(0, fmin(x + w, in[2]) - fmax(x, in[0])) *
                                fmax(0, fmin(y + h, in[3]) - fmax(y, in[1]));
            pixel_map[pixels] = map[at];
            pixel_mask[pixels] = cell > 0 ? (float)fmin((double)mask[at] * w * h / cell, 1) : 0;
            area[pixels++] = cell;
        }
    }
    struct result_table *t = results_table(r, "dice", "what|value");
    const double by_token = dice_soft(map, mask, at);
    const double by_pixel = dice_pixels(pixel_map, pixel_mask, area, pixels);
    // --data lists and correlates the first number.
    const bool first = env->options->pixels || settings_is(env->settings, "dice.space", "pixels");
    result_row(t, first ? "soft Dice, pixels" : "soft Dice")[0] = first ? by_pixel : by_token;
    result_row(t, first ? "soft Dice" : "soft Dice, pixels")[0] = first ? by_token : by_pixel;
    result_row(t, "share of the map that is covered")[0] = at ? covered / (double)at : NAN;
    free(area);
    free(map);
    results_release(&maps);
    probe_maps(env, r, "dice", env->from, env->options->head, env->token, values);
    return 0;
}

static const struct result_kind dice_results[] = {
    { "dice", "share of attention", .map = true, .on_request = true }, // needs a box or mask
    { "dice.samples", "soft Dice", .columns = "value" },
    { 0 },
};

const struct probe probe_dice = {
    .name = "dice",
    .also = "overlap box mask grounding measure probe",
    .usage =
        "/dice [--box LEFT,TOP,WIDTH,HEIGHT | --mask FILE | --objects FILE [--boxes]] [--layer K] "
        "[--head H] [--picture I]" PROBE_USAGE,
    .former = "--pixels",
    .help = "Soft Dice between the answer's attention and a box or mask.",
    .details =
        "Shows Dice over the token grid and over the pixels of the picture (for tiled pictures,\n"
        "without the thumbnail), for the last layer and the conversation's first picture unless\n"
        "the options name others. With --data, also scores the answers and shows the rank\n"
        "correlation of score and Dice. With --objects, uses the objects named in the sample's\n"
        "text, or all objects if it names none; an object's region is its mask or polygons if\n"
        "the file has them, otherwise its box." PROBE_DETAILS,
    .pictures = true,
    .answered = true,
    .scalar = "dice",
    .results = dice_results,
    .layers = LAST_LAYER,
    .attends = true,
    .one_layer = true,
    .token = PROBE_TOKEN_ANSWER,
    .start = dice_start,
    .release = attention_sum_release,
    .sites = { SITE_VALUES },
    .run = attention_sum_run,
    .finish = dice_finish,
};
