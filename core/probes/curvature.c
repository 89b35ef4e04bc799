// core/probes/curvature.c -- curvature of the visual token trajectory (IRA's paper, Figs. 3 and 7):
// the mean angle between u_k and u_{k+1}, where u_k = h_{k+1} - h_k; this angle minus that of layer
// 0; and V, the total change in the angle over the layers.
#include "core/probes/curvature.h"

#include <math.h>
#include <stdlib.h>

#include "core/model/families/family.h"
#include "core/probes/kit.h"

struct curvature {
    const struct probe_env *env;
    int layers;
    struct tally *angle, *split; // [L+1]
    int32_t *run; // [N] the tile or grid row that a visual token belongs to; -1: text, or none
    bool cut;     // ends of tiles or rows interrupt the tokens of at least one picture
};

// Returns the number of a token's tile, or of its row in pictures whose rows end with an extra
// token or have text between them.
static int run_of(const struct picture_tile *tiles, int count, int64_t cell)
{
    int first = 0;
    for (int t = 0; t < count; t++) {
        const struct picture_tile *a = &tiles[t];
        const int64_t at = cell - a->first, row = at >= 0 ? at / a->pitch : -1;
        const bool split = a->pitch > a->cols || a->rows_apart;
        if (row >= 0 && row < a->rows && at % a->pitch < a->cols)
            return first + (split ? (int)row : 0);
        first += split ? (int)a->rows : 1;
    }
    return -1;
}

void *curvature_new(const struct probe_env *env, struct err *err)
{
    struct curvature *c = xcalloc(1, sizeof *c);
    const struct sequence *s = env->sequence;
    struct picture_tile *tiles = NULL;
    int picture = -1, count = 0;
    c->env = env;
    c->layers = env->model->decoder.config.layers;
    c->angle = xcalloc((size_t)c->layers + 1, sizeof *c->angle);
    c->split = xcalloc((size_t)c->layers + 1, sizeof *c->split);
    c->run = xreallocarray(NULL, (size_t)s->n + 1, sizeof *c->run);
    for (int64_t i = 0; i < s->n; i++) {
        c->run[i] = -1;
        if (s->picture[i] < 0) continue;
        if (s->picture[i] != picture) {
            free(tiles);
            tiles = probe_tiles(env, picture = s->picture[i], &count);
        }
        c->run[i] = run_of(tiles, count, s->cell[i]);
        c->cut |= c->run[i] != 0;
    }
    free(tiles);
    return c;
}

void curvature_free(void *curvature)
{
    struct curvature *c = curvature;
    free(c->angle);
    free(c->split);
    free(c->run);
    free(c);
}

static double bend(const float *a, const float *b, const float *c, int64_t n)
{
    double uv = 0, uu = 0, vv = 0;
    for (int64_t k = 0; k < n; k++) {
        const double u = (double)b[k] - (double)a[k], v = (double)c[k] - (double)b[k];
        uv += u * v;
        uu += u * u;
        vv += v * v;
    }
    if (!(uu > 0) || !(vv > 0)) return NAN;
    return acos(fmin(fmax(uv / sqrt(uu * vv), -1), 1)) * 180 / M_PI;
}

static int add_layer(void *self, const struct site *site, const struct site_args *args,
                     struct err *err)
{
    struct curvature *c = self;
    const struct sequence *s = site_sequence(args);
    const int64_t n = args->x->shape[0], width = args->x->shape[1];
    const int only = c->env->options->picture, layer = site == SITE_FINAL ? c->layers : args->layer;
    const float *h = args->x->data; // [N,D]
    int64_t at[3] = { -1, -1, -1 }; // the last three visual tokens so far
    for (int64_t i = 0; i < n; i++) {
        if (s->picture[site_row(args, i)] < 0) continue;
        at[0] = at[1], at[1] = at[2], at[2] = i;
        if (at[0] < 0) continue;
        int64_t row[3];
        for (int k = 0; k < 3; k++) row[k] = site_row(args, at[k]);
        // Needs three successive tokens of one picture, perhaps with text between them; pruning may
        // have dropped one.
        const int picture = s->picture[row[0]];
        if ((only >= 0 && picture != only) || picture != s->picture[row[2]] ||
            s->cell[row[2]] != s->cell[row[0]] + 2)
            continue;
        const double degrees = bend(h + at[0] * width, h + at[1] * width, h + at[2] * width, width);
        if (isnan(degrees)) continue;
        tally_add(&c->angle[layer], degrees);
        if (c->run[row[0]] >= 0 && c->run[row[0]] == c->run[row[1]] &&
            c->run[row[0]] == c->run[row[2]])
            tally_add(&c->split[layer], degrees);
    }
    return 0;
}

int curvature_add(struct curvature *c, struct graph *g, const struct site *site,
                  const struct site_args *args)
{
    return readback(g, args->x, site, args, add_layer, c);
}

double curvature_angle(const struct curvature *c, int layer, bool split)
{
    return tally_mean(split ? &c->split[layer] : &c->angle[layer]);
}

double curvature_total(const struct curvature *c, bool split)
{
    double sum = 0;
    for (int l = 0; l < c->layers; l++)
        sum += fabs(curvature_angle(c, l + 1, split) - curvature_angle(c, l, split));
    return sum;
}

// --- the probe -----------------------------------------------------------------------------------

static int curvature_finish(void *state, struct results *r, struct err *err)
{
    const struct curvature *c = state;
    struct result_table *t =
        results_table(r, "curvature",
                      c->cut ? "layer|minus layer 0|degrees|degrees within tiles and rows"
                             : "layer|minus layer 0|degrees");
    t->curve = true;
    for (int l = 0; l <= c->layers; l++) {
        double *v = result_row(t, "%d", l);
        v[1] = curvature_angle(c, l, false);
        v[0] = v[1] - curvature_angle(c, 0, false);
        if (c->cut) v[2] = curvature_angle(c, l, true);
    }
    t = results_table(r, "curvature.total", "what|degrees");
    result_row(t, "V")[0] = curvature_total(c, false);
    if (c->cut) result_row(t, "V within tiles and rows")[0] = curvature_total(c, true);
    return 0;
}

static const struct result_kind curvature_results[] = {
    { "curvature", .unit = "degrees" },
    { "curvature.samples", "degrees", .columns = "value" },
    { 0 },
};

const struct probe probe_curvature = {
    .name = "curvature",
    .also = "trajectory bend measure probe",
    .usage = "/curvature [--picture I]" PROBE_USAGE,
    .help = "Curvature of the visual token trajectory by layer, and its total variation V.",
    .details =
        "Curvature is the mean angle, in degrees, between consecutive steps from one visual token\n"
        "to the next. V sums the absolute changes in curvature from layer to layer." PROBE_DETAILS,
    .pictures = true,
    .scalar = "curvature.total",
    .results = curvature_results,
    .start = curvature_new,
    .release = curvature_free,
    .sites = { SITE_LAYER_IN, SITE_FINAL },
    .take = add_layer,
    .finish = curvature_finish,
};
