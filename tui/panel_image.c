// tui/panel_image.c -- the picture in half blocks, the map over it.
//
// A cell is two pixels: "▀" in the colour of the upper one on paper of the lower one. Without
// colours it is a letter whose ink grows with the brightness (of the map, where there is one).
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tui/panel.h"

static const char shades[] = " .:-=+*#%@";

// --- what is at a place --------------------------------------------------------------------------

static double map_value(const struct map *m, int row, int col)
{
    if (row < 0) row = 0;
    if (col < 0) col = 0;
    if (row >= m->rows) row = m->rows - 1;
    if (col >= m->cols) col = m->cols - 1;
    const float value = m->values[(size_t)row * (size_t)m->cols + (size_t)col];
    const float span = m->max - m->min;
    const float share = isfinite(value) && span > 0 ? (value - m->min) / span : 0;
    return share > 0 ? share < 1 ? share : 1 : 0;
}

// Share of the map at u, v in 0..1; smooth: between the middles of the patches.
static double map_at(const struct map *m, double u, double v, bool smooth)
{
    const double x = u * m->cols, y = v * m->rows;
    if (!smooth) return map_value(m, (int)y, (int)x);
    const int col = (int)floor(x - 0.5), row = (int)floor(y - 0.5);
    const double fx = x - 0.5 - col, fy = y - 0.5 - row;
    const double top = map_value(m, row, col) * (1 - fx) + map_value(m, row, col + 1) * fx;
    const double bottom =
        map_value(m, row + 1, col) * (1 - fx) + map_value(m, row + 1, col + 1) * fx;
    return top * (1 - fy) + bottom * fy;
}

// The mean of the pixels that u..u+du, v..v+dv covers.
static uint32_t picture_at(const struct image *p, double u, double v, double du, double dv)
{
    const int64_t x0 = (int64_t)(u * (double)p->width), y0 = (int64_t)(v * (double)p->height);
    int64_t x1 = (int64_t)((u + du) * (double)p->width),
            y1 = (int64_t)((v + dv) * (double)p->height);
    uint64_t sum[3] = { 0 }, count = 0;
    if (x1 <= x0) x1 = x0 + 1;
    if (y1 <= y0) y1 = y0 + 1;
    for (int64_t y = y0; y < y1 && y < p->height; y++)
        for (int64_t x = x0; x < x1 && x < p->width; x++, count++) {
            const uint8_t *pixel = p->pixels + (size_t)(y * p->width + x) * (size_t)p->channels;
            for (int k = 0; k < 3; k++) sum[k] += pixel[k];
        }
    if (!count) return 0;
    return (uint32_t)(sum[0] / count) << 16 | (uint32_t)(sum[1] / count) << 8 |
           (uint32_t)(sum[2] / count);
}

static double brightness(uint32_t rgb)
{
    return (0.299 * (rgb >> 16) + 0.587 * (rgb >> 8 & 255) + 0.114 * (rgb & 255)) / 255;
}

enum { TILES_MAX = 32, SHADES = 256 };

struct drawing {
    const struct image *picture;       // NULL: the map alone
    const struct map *maps[TILES_MAX]; // tiles of one map
    int map_count;                     // 0: the picture alone
    uint32_t ramp[SHADES + 1];         // colours of the map, from its least to its most
    bool smooth;
    int width, height; // in pixels: columns and twice the lines
};

static double tile_size(const struct map *m)
{
    return (m->area[2] - m->area[0]) * (m->area[3] - m->area[1]);
}

// The smallest tile that covers the place (shares of the picture, made shares of the tile).
static const struct map *tile_at(const struct drawing *d, double *u, double *v)
{
    const struct map *best = NULL;
    for (int i = 0; i < d->map_count; i++) {
        const double *a = d->maps[i]->area;
        const bool covers = *u >= a[0] && *u < a[2] && *v >= a[1] && *v < a[3];
        if (covers && (!best || tile_size(d->maps[i]) < tile_size(best))) best = d->maps[i];
    }
    if (!best) return NULL;
    *u = (*u - best->area[0]) / (best->area[2] - best->area[0]);
    *v = (*v - best->area[1]) / (best->area[3] - best->area[1]);
    return best;
}

static bool is_bare(const struct map *m, double u, double v)
{
    const int row = (int)(v * m->rows), col = (int)(u * m->cols);
    const size_t at = (size_t)(row < m->rows ? row : m->rows - 1) * (size_t)m->cols +
                      (size_t)(col < m->cols ? col : m->cols - 1);
    return !isfinite(m->values[at]) || (m->dropped && m->dropped[at]);
}

// The map in colour over the picture in grey, which shines through most where the map is low; what
// was dropped, or not covered, is darker grey.
static uint32_t colour_at(const struct drawing *d, int x, int y)
{
    const double du = 1.0 / d->width, dv = 1.0 / d->height;
    double u = x * du, v = y * dv;
    const uint32_t below = d->picture ? picture_at(d->picture, u, v, du, dv) : 0x303030;
    if (!d->map_count) return below;
    u += du / 2;
    v += dv / 2;
    const struct map *m = tile_at(d, &u, &v);
    const uint32_t grey = (uint32_t)(brightness(below) * 255 + 0.5) * 0x010101;
    if (!m || is_bare(m, u, v)) return colour_mix(grey, 0, 0.4);
    const double share = map_at(m, u, v, d->smooth);
    const uint32_t colour = d->ramp[(int)(share * SHADES + 0.5)];
    return d->picture ? colour_mix(grey, colour, 0.4 + 0.4 * share) : colour;
}

static double ink_at(const struct drawing *d, int x, int y)
{
    double u = (x + 0.5) / d->width, v = (y + 0.5) * 2 / d->height;
    if (!d->map_count) return brightness(colour_at(d, x, 2 * y));
    const struct map *m = tile_at(d, &u, &v);
    return m && !is_bare(m, u, v) ? map_at(m, u, v, d->smooth) : 0;
}

static void draw_letters(const struct drawing *d, struct canvas *c, struct area area)
{
    for (int y = 0; y < d->height / 2; y++)
        for (int x = 0; x < d->width; x++) {
            const int shade = (int)(ink_at(d, x, y) * 9 + 0.5);
            canvas_put(c, area, x, y, STYLE_TEXT,
                       (uint32_t)shades[shade < 0   ? 0
                                        : shade > 9 ? 9
                                                    : shade]);
        }
}

static void draw_blocks(const struct drawing *d, struct canvas *c, struct area area)
{
    for (int y = 0; y < d->height / 2; y++)
        for (int x = 0; x < d->width; x++) {
            canvas_put(c, area, x, y, STYLE_TEXT, 0x2580);
            struct cell *cell = canvas_at(c, area.x + x, area.y + y);
            if (!cell) continue;
            cell->ink = CELL_RGB | colour_at(d, x, 2 * y);
            cell->paper = CELL_RGB | colour_at(d, x, 2 * y + 1);
        }
}

// --- the panel -----------------------------------------------------------------------------------

// Width and height of what is shown, kept in proportion. A cell is twice as high as wide.
static void fit(struct drawing *d, struct area area)
{
    const struct map *m = d->maps[0];
    const double w = d->picture ? (double)d->picture->width : m ? m->cols : 1;
    const double h = d->picture ? (double)d->picture->height : m ? m->rows : 1;
    d->width = area.width;
    d->height = (int)(area.width * h / w + 0.5);
    if (d->height > 2 * area.height) {
        d->height = 2 * area.height;
        d->width = (int)(d->height * w / h + 0.5);
    }
    d->height = (d->height + 1) / 2 * 2;
    if (d->width < 1) d->width = 1;
    if (d->height < 2) d->height = 2;
    if (d->width > area.width) d->width = area.width;
    if (d->height > 2 * area.height) d->height = 2 * area.height;
}

static void draw_pixels(struct drawing *d, struct canvas *c, struct area area)
{
    if (area.height < 1 || area.width < 1) return;
    fit(d, area);
    area.x += (area.width - d->width) / 2;
    if (c->mono || c->ascii)
        draw_letters(d, c, area);
    else
        draw_blocks(d, c, area);
}

void picture_draw(const struct image *picture, struct canvas *c, struct area area)
{
    struct drawing d = { .picture = picture };
    draw_pixels(&d, c, area);
}

static void draw_legend(const struct view *v, struct canvas *c, struct area area,
                        const struct preview *p, const struct map *m)
{
    struct buf b = { 0 };
    if (m) {
        buf_printf(&b, "%s", m->name);
        if (m->layer >= 0) buf_printf(&b, " layer %d", m->layer);
        if (m->head >= 0) buf_printf(&b, " head %d", m->head);
        if (m->token >= 0) buf_printf(&b, " token %d", m->token);
        buf_printf(&b, "  %.3g", (double)m->min);
    } else if (p) {
        const char *slash = strrchr(p->path, '/');
        buf_printf(&b, "%s %lldx%lld", slash ? slash + 1 : p->path, (long long)p->width,
                   (long long)p->height);
        if (p->tokens) buf_printf(&b, ", %lld tokens", (long long)p->tokens);
    }
    int x = canvas_text(c, area, 0, area.height - 1, STYLE_DIM, b.data ? b.data : "");
    for (int i = 0; m && i < 8 && !c->mono; i++, x++) {
        canvas_put(c, area, x + 1, area.height - 1, STYLE_TEXT, ' ');
        struct cell *cell = canvas_at(c, area.x + x + 1, area.y + area.height - 1);
        if (cell && x + 1 < area.width)
            cell->paper = CELL_RGB | ramp_colour(view_setting(v, "screen.map"), i / 7.0);
    }
    if (m) canvas_printf(c, area, x + 2, area.height - 1, STYLE_DIM, "%.3g", (double)m->max);
    buf_release(&b);
}

// All tiles of the map: the same but for the part of the picture.
static void add_tiles(const struct view *v, const struct image_view *i, const struct map *m,
                      struct drawing *d)
{
    const char *ramp = view_setting(v, "screen.map");
    for (int k = 0; k <= SHADES; k++) d->ramp[k] = ramp_colour(ramp, (double)k / SHADES);
    for (size_t k = 0; m && k < i->map_count && d->map_count < TILES_MAX; k++) {
        const struct map *o = &i->maps[k];
        if (!strcmp(o->name, m->name) && o->picture == m->picture && o->layer == m->layer &&
            o->head == m->head && o->token == m->token)
            d->maps[d->map_count++] = o;
    }
}

void map_draw(const struct view *v, const struct image_view *maps, const struct map *m,
              struct canvas *c, struct area area)
{
    struct drawing d = { .smooth = v->image.smooth };
    const struct area inner = { area.x, area.y, area.width, area.height - 1 };
    for (size_t i = 0; i < v->image.picture_count; i++)
        if (v->image.pictures[i]->index == m->picture && v->image.pictures[i]->image.pixels)
            d.picture = &v->image.pictures[i]->image;
    add_tiles(v, maps, m, &d);
    draw_pixels(&d, c, inner);
    draw_legend(v, c, area, NULL, m);
}

static const struct preview *shown_picture(const struct image_view *i)
{
    return i->picture < i->picture_count ? i->pictures[i->picture] : NULL;
}

static void draw(struct view *v, struct canvas *c, struct area area, bool focused)
{
    const struct map *m = view_map(v);
    const struct preview *p = shown_picture(&v->image);
    struct drawing d = { .smooth = v->image.smooth };
    const struct area inner = { area.x, area.y, area.width, area.height - 1 };
    add_tiles(v, &v->image, m, &d);
    if (p && p->image.pixels) d.picture = &p->image;
    if (!d.picture && !m) {
        canvas_text(c, area, 0, 0, STYLE_DIM, "no picture yet");
        canvas_text(c, area, 0, 1, STYLE_DIM, "/image FILE, Ctrl-O,");
        canvas_text(c, area, 0, 2, STYLE_DIM, "or drop one here");
        return;
    }
    draw_pixels(&d, c, inner);
    draw_legend(v, c, area, p, m);
}

// --- stepping through maps -----------------------------------------------------------------------

// How far map m is from the shown one along what is stepped; only the others must agree.
enum axis { AXIS_TOKEN, AXIS_LAYER, AXIS_HEAD };

static int coordinate(const struct map *m, enum axis axis)
{
    return axis == AXIS_TOKEN ? m->token : axis == AXIS_LAYER ? m->layer : m->head;
}

static bool agrees(const struct map *a, const struct map *b, enum axis but)
{
    if (strcmp(a->name, b->name) != 0 || a->picture != b->picture) return false;
    for (enum axis k = AXIS_TOKEN; k <= AXIS_HEAD; k++)
        if (k != but && coordinate(a, k) != coordinate(b, k)) return false;
    return true;
}

// The nearest along the axis in the direction (+1, -1), the far end (+2, -2), or -1.
static int find_step(const struct image_view *i, const struct map *now, enum axis axis,
                     int direction)
{
    const int from = coordinate(now, axis);
    int best = -1;
    for (size_t k = 0; k < i->map_count; k++) {
        const struct map *m = &i->maps[k];
        const int at = coordinate(m, axis);
        if (!agrees(m, now, axis) || (direction > 0 ? at <= from : at >= from)) continue;
        const bool far = direction == 2 || direction == -2;
        const bool nearer =
            best < 0 || ((direction > 0) == (at < coordinate(&i->maps[best], axis)));
        if (best < 0 || nearer != far) best = (int)k;
    }
    return best;
}

// Other layers and heads of the live map come with the next tokens: from where the setting is, it
// may be ahead of the map that is shown.
static void step_live(struct view *v, const struct map *now, enum axis axis, int direction)
{
    const struct snapshot *s = v->snapshot;
    const int64_t most = !s ? 0 : axis == AXIS_LAYER ? s->layers : s->heads;
    const char *key = axis == AXIS_LAYER ? "screen.live_layer" : "screen.live_head";
    char *end;
    const char *set = view_setting(v, key);
    const long from = strtol(set, &end, 10);
    const int64_t next = (*set && !*end ? from : coordinate(now, axis)) + direction;
    if (axis == AXIS_HEAD && next >= most)
        view_run(v, "/set %s mean", key);
    else if (next >= 0 && next < most)
        view_run(v, "/set %s %d", key, (int)next);
    if (v->run && !v->answering)
        view_hint(
            v, "applies from the next answer; /attention --layer all shows all layers of this one");
}

static void step(struct view *v, enum axis axis, int direction, bool around)
{
    const struct map *now = view_map(v);
    if (!now) {
        view_hint(v, "no map yet");
        return;
    }
    int next = find_step(&v->image, now, axis, direction);
    if (next < 0 && !strcmp(now->name, "live") && axis != AXIS_TOKEN) {
        step_live(v, now, axis, direction);
        return;
    }
    if (next < 0 && around) next = find_step(&v->image, now, axis, -2);
    if (next >= 0) v->image.map = next;
}

static void next_kind(struct view *v)
{
    struct image_view *i = &v->image;
    const struct map *now = view_map(v);
    if (!now) return;
    const size_t from = (size_t)(now - i->maps);
    for (size_t k = 1; k <= i->map_count; k++) {
        const size_t at = (from + k) % i->map_count;
        if (!strcmp(i->maps[at].name, now->name) && i->maps[at].picture == now->picture) continue;
        i->map = (int)at;
        return;
    }
}

static void next_ramp(struct view *v)
{
    const char *now = view_setting(v, "screen.map");
    int i = 0;
    while (ramp_names[i] && strcmp(ramp_names[i], now) != 0) i++;
    const char *next = ramp_names[i] && ramp_names[i + 1] ? ramp_names[i + 1] : ramp_names[0];
    view_run(v, "/set screen.map %s", next);
}

static unsigned act(struct view *v, const char *action)
{
    static const struct {
        const char *action;
        enum axis axis;
        int direction;
        bool around;
    } steps[] = { { "token-back", AXIS_TOKEN, -1, false },
                  { "token-next", AXIS_TOKEN, 1, false },
                  { "token-first", AXIS_TOKEN, -2, false },
                  { "token-last", AXIS_TOKEN, 2, false },
                  { "layer-up", AXIS_LAYER, 1, true },
                  { "layer-down", AXIS_LAYER, -1, false },
                  { "head", AXIS_HEAD, 1, true } };
    struct image_view *i = &v->image;
    for (size_t k = 0; k < sizeof steps / sizeof steps[0]; k++)
        if (!strcmp(action, steps[k].action)) {
            step(v, steps[k].axis, steps[k].direction, steps[k].around);
            return PANEL_DONE;
        }
    if (!strcmp(action, "map"))
        i->hidden = !i->hidden;
    else if (!strcmp(action, "smooth"))
        i->smooth = !i->smooth;
    else if (!strcmp(action, "kind"))
        next_kind(v);
    else if (!strcmp(action, "ramp"))
        next_ramp(v);
    else if (!strcmp(action, "picture-back"))
        i->picture -= i->picture > 0;
    else if (!strcmp(action, "picture-next"))
        i->picture += i->picture + 1 < i->picture_count;
    else if (!strcmp(action, "back"))
        return PANEL_DONE | PANEL_BACK;
    else
        return PANEL_IGNORED;
    return PANEL_DONE;
}

static void click(struct view *v, struct area area, int x, int y, int button)
{
    if (button == 4) step(v, AXIS_TOKEN, -1, false);
    if (button == 5) step(v, AXIS_TOKEN, 1, false);
}

const struct panel panel_image = {
    .name = "image",
    .title = "picture",
    .min_width = 16,
    .min_height = 6,
    .draw = draw,
    .act = act,
    .click = click,
};
