// tui/panel_image.c -- the picture and its map: overlaid, side by side, or only one of them.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/base/text.h"
#include "core/draw/ramp.h"
#include "core/probes/results.h"
#include "tui/chips.h"
#include "tui/image_parts.h"
#include "tui/maps.h"
#include "tui/panel.h"

static const char *const mode_names[] = { "over the picture", "beside the picture", "map alone",
                                          "picture alone" };

void picture_draw(const struct preview *p, struct canvas *c, struct area area)
{
    struct drawing d = { .picture = &p->image, .picture_key = p->key };
    drawing_show(&d, c, area);
}

enum { BAR_LEAST = 3, BAR_MOST = 8, EIGHT = 5 };

static bool few_colours(const struct canvas *c)
{
    return c->mono && c->colours >= 8 && !c->ascii;
}

static void draw_bar(const struct view *v, struct canvas *c, struct area line, int x, int width)
{
    if (few_colours(c)) {
        for (int i = 0; i < EIGHT; i++) {
            const int paper = step_of_eight((i + 0.5) / EIGHT);
            canvas_put(c, line, x + i, 0, STYLE_TEXT, paper < 0 ? '.' : ' ');
            struct cell *cell = canvas_at(c, line.x + x + i, line.y);
            if (cell && paper >= 0) cell->paper = CELL_RGB | colour_of(paper);
        }
        return;
    }
    if (c->mono) {
        canvas_text(c, line, x, 0, STYLE_DIM, "...");
        return;
    }
    for (int i = 0; i < width && x + i < line.width; i++) {
        canvas_put(c, line, x + i, 0, STYLE_TEXT, ' ');
        struct cell *cell = canvas_at(c, line.x + x + i, line.y);
        const double share = (double)i / (width - 1);
        const uint32_t colour = ramp_colour(view_setting(v, "screen.map"), share);
        if (cell) cell->paper = CELL_RGB | (c->colours >= 256 ? colour_cube(colour) : colour);
    }
}

// "attention layer 3 head 0 token 12", "attention L3 H0 t12" or "L3 H0 t12".
enum naming { NAME_FULL, NAME_BRIEF, NAME_NUMBERS };

static bool has_numbers(const struct map *m)
{
    return m->layer >= 0 || m->head >= 0 || m->token >= 0;
}

static void name_map(struct buf *b, const struct map *m, enum naming naming)
{
    const bool brief = naming != NAME_FULL;
    const struct result_kind *k = m->picture < 0 ? result_kind(m->name) : NULL;
    if (naming != NAME_NUMBERS || !has_numbers(m)) buf_printf(b, "%s ", m->name);
    if (k && k->map && k->rows && !brief)
        buf_printf(b, "%s x %s ", map_axis_name(k->rows), map_axis_name(k->cols));
    if (m->layer >= 0) buf_printf(b, brief ? "L%d " : "layer %d ", m->layer);
    if (m->head >= 0) buf_printf(b, brief ? "H%d " : "head %d ", m->head);
    if (m->token >= 0) buf_printf(b, brief ? "t%d " : "token %d ", m->token);
}

// Returns whether a setting that affects the maps differs from the last answer's.
static bool settings_differ(const struct view *v)
{
    const struct setting *row;
    for (int i = 0; v->answered && (row = settings_row(i)); i++)
        if (row->stale >= STALE_MEASURED && !setting_is_pattern(row) &&
            strcmp(settings_text(v->answered, row->key), settings_text(v->settings, row->key)) != 0)
            return true;
    return false;
}

// After a setting has changed, the answer's own maps still show the pass that wrote it; maps that
// the panel measures show the present settings.
static void name_settings(struct buf *b, const struct view *v, const struct map *m)
{
    if (v->answering || !maps_steps(m) || !settings_differ(v)) return;
    if (results_live(m->name)) buf_puts(b, "(settings of the answer) ");
    if (m->quick) buf_puts(b, "(changed settings) ");
}

// Shortens the words, then the bar; draws both ends of the scale. Never cuts a number: "t11" must
// not become "t1". While the mouse pointer is over the map, the patch below it takes the place of
// the map's name, and if need be of the scale.
static void draw_map_legend(const struct view *v, struct canvas *c, struct area line,
                            const struct map *m)
{
    char low[16], high[16];
    float min, max;
    struct buf b = { 0 };
    image_range(v, m, &min, &max);
    snprintf(low, sizeof low, "%.3g", (double)min);
    snprintf(high, sizeof high, "%.3g", (double)max);
    const int numbers = (int)(strlen(low) + strlen(high)) + 2;
    const int least = few_colours(c) ? EIGHT : BAR_LEAST;
    const bool hover =
        m == view_map(v) && image_hover_name(v, line.width - numbers - least - 1, &b);
    if (hover && (int)b.length + 1 + numbers + least > line.width) {
        canvas_text(c, line, 0, 0, STYLE_TEXT, b.data);
        buf_release(&b);
        return;
    }
    if (hover) buf_putc(&b, ' ');
    for (enum naming naming = NAME_FULL; !hover && naming <= NAME_NUMBERS; naming++) {
        buf_clear(&b);
        name_map(&b, m, naming);
        name_settings(&b, v, m);
        if ((int)b.length + numbers + least <= line.width) break;
    }
    int bar = few_colours(c) ? EIGHT : c->mono ? BAR_LEAST : line.width - (int)b.length - numbers;
    bar = bar < BAR_LEAST ? BAR_LEAST : bar > BAR_MOST ? BAR_MOST : bar;
    const int width = numbers + bar;
    int x = line.width > width ? line.width - width : 0;
    x = canvas_text(c, line, x, 0, STYLE_DIM, low) + 1;
    draw_bar(v, c, line, x, bar);
    canvas_text(c, line, x + bar + 1, 0, STYLE_DIM, high);
    line.width -= width;
    if ((int)b.length <= line.width || (line.width > 0 && !has_numbers(m)))
        canvas_text_n(c, line, 0, 0, hover ? STYLE_TEXT : STYLE_DIM, b.data,
                      b.length - 1); // no space at the end
    buf_release(&b);
}

static void draw_legend(const struct view *v, struct canvas *c, struct area area,
                        const struct preview *p, const struct map *m)
{
    const struct area line = { area.x, area.y + area.height - 1, area.width, 1 };
    struct buf b = { 0 };
    if (m) {
        draw_map_legend(v, c, line, m);
        return;
    }
    if (!p) return;
    buf_printf(&b, "%s %lldx%lld", text_file_name(p->path), (long long)p->width,
               (long long)p->height);
    if (p->tokens) buf_printf(&b, ", %lld tokens", (long long)p->tokens);
    canvas_text(c, line, 0, 0, STYLE_DIM, b.data);
    buf_release(&b);
}

void image_tiles(const struct view *v, const struct image_view *i, const struct map *m,
                 struct drawing *d)
{
    drawing_ramp(d, view_setting(v, "screen.map"));
    for (size_t k = 0; m && k < i->map_count && d->map_count < TILES_MAX; k++) {
        const struct map *o = &i->maps[k];
        if (!strcmp(o->name, m->name) && o->picture == m->picture && o->layer == m->layer &&
            o->head == m->head && o->token == m->token)
            d->maps[d->map_count++] = o;
    }
}

static const struct preview *picture_at(const struct view *v, int index)
{
    for (size_t i = 0; i < v->image.picture_count; i++)
        if (v->image.pictures[i]->index == index && v->image.pictures[i]->image.pixels)
            return v->image.pictures[i];
    return NULL;
}

// Draws the words of a map's cells, cut to the width of the cells.
static void draw_words(struct canvas *c, struct area place, const struct map *m)
{
    const double wide = (m->area[2] - m->area[0]) * place.width / m->cols;
    const double high = (m->area[3] - m->area[1]) * place.height / m->rows;
    for (int i = 0; m->words && i < m->rows * m->cols; i++) {
        const double x = m->area[0] * place.width + i % m->cols * wide;
        const int row = i / m->cols;
        const double y = m->area[1] * place.height + (row + 0.5) * high;
        const int left = (int)x, right = (int)(x + wide);
        const struct area cell = { place.x + left, place.y + (int)y, right - left, 1 };
        if (m->words[i] && cell.width > 0) canvas_text(c, cell, 0, 0, STYLE_TEXT, m->words[i]);
    }
}

// --- the picture and its map ---------------------------------------------------------------------

static struct area show(const struct view *v, const struct image_view *maps, const struct map *m,
                        const struct preview *p, struct canvas *c, struct area area)
{
    enum { GAP = 1 };
    struct drawing d = { .smooth = v->image.smooth, .bare = v->image.mode == MAP_ALONE };
    if (p && p->image.pixels) {
        d.picture = &p->image;
        d.picture_key = p->key;
    }
    if (m && d.picture && v->image.mode == MAP_BESIDE && area.width > 8) {
        struct area left = area, right = area;
        left.width = (area.width - GAP) / 2;
        right.x += area.width - left.width; // as wide as the picture, so as high, too
        right.width = left.width;
        drawing_show(&d, c, left);
        area = right;
        d.bare = true;
    }
    image_tiles(v, maps, m, &d);
    if (maps == &v->image) image_mark(v, &d);
    if (!m || !m->words) return image_show(v, &d, c, area);
    struct painter *painter = c->painter; // words need cells: no picture may replace them
    c->painter = NULL;
    const struct area place = drawing_show(&d, c, area);
    c->painter = painter;
    for (int k = 0; k < d.map_count; k++) draw_words(c, place, d.maps[k]);
    return place;
}

void map_draw(const struct view *v, const struct image_view *maps, const struct map *m,
              struct canvas *c, struct area area)
{
    const struct area inner = { area.x, area.y, area.width, area.height - 1 };
    show(v, maps, m, picture_at(v, m->picture), c, inner);
    draw_legend(v, c, area, NULL, m);
}

// Names a layer of the strip, with the share of attention that goes to the picture: "12 28%", or on
// two lines below a narrow map. m: the layer's map; NULL: not measured yet.
static void label_layer(const struct view *v, struct canvas *c, struct area label, enum style style,
                        int layer, const struct map *m)
{
    char lines[2][16] = { "", "" };
    const bool narrow = label.height > 1;
    snprintf(lines[0], sizeof lines[0], "%d", layer);
    if (m && maps_share(m))
        snprintf(lines[1], sizeof lines[1], "%.0f%%", 100 * maps_sum(&v->image, m));
    char *both = xasprintf("%s%s%s", lines[0], *lines[1] ? " " : "", lines[1]);
    for (int y = 0; y < label.height; y++) {
        const char *text = narrow ? lines[y] : both;
        canvas_text(c, label, (label.width - (int)strlen(text)) / 2, y, style, text);
    }
    free(both);
}

// Draws the maps of as many layers as fit, with the current one in the middle and framed. Returns
// the number of lines.
static int draw_strip(struct view *v, struct canvas *c, struct area area, const struct map *m)
{
    enum { TALL = 28, LEAST = 14 };
    struct image_view *i = &v->image;
    const int lines = area.height >= TALL ? 4 : 2, wide = 2 * lines;
    const int label = lines == 2 && maps_share(m) ? 2 : 1;
    const int layers = area.height >= LEAST ? maps_layers(v, m) : 0;
    int count = (area.width - 1) / (wide + 1);
    if (count > layers) count = layers;
    if (count < 2) return 0;
    int first = m->layer - count / 2;
    first = first < 0 ? 0 : first > layers - count ? layers - count : first;
    const int height = lines + label;
    i->strip = (struct area){ area.x, area.y + area.height - height, area.width, height };
    i->strip_first = first;
    i->strip_wide = wide + 1;
    struct painter *painter = c->painter;
    c->painter = NULL; // too small for pictures of the terminal
    for (int k = 0; k < count; k++) {
        const int layer = first + k, at = maps_layer(v, m, layer), x = k * (wide + 1);
        struct drawing d = { .bare = true };
        const struct map *own = layer == m->layer ? m : at >= 0 ? &i->maps[at] : NULL;
        image_tiles(v, i, own, &d);
        if (d.map_count)
            drawing_show(&d, c, (struct area){ i->strip.x + x + 1, i->strip.y, wide, lines });
        label_layer(v, c, (struct area){ i->strip.x + x + 1, i->strip.y + lines, wide, label },
                    layer == m->layer ? STYLE_FOCUS : STYLE_DIM, layer, own);
        for (int y = 0; layer == m->layer && y < lines; y++) {
            canvas_text(c, i->strip, x, y, STYLE_FOCUS, c->ascii ? "|" : "│");
            canvas_text(c, i->strip, x + wide + 1, y, STYLE_FOCUS, c->ascii ? "|" : "│");
        }
    }
    c->painter = painter;
    return height;
}

static void draw(struct view *v, struct canvas *c, struct area area, bool focused)
{
    const struct map *m = view_map(v);
    const struct preview *p = view_picture(v);
    struct image_view *i = &v->image;
    area.height -= chips_draw(v, c, area, area.height >= 18 ? 2 : area.height >= 8);
    i->tiles.height = 0;
    i->map_area = (struct area){ 0 }; // a click elsewhere hides nothing
    if (m && !i->grid) area.height -= draw_strip(v, c, area, m);
    maps_fill(v);
    if (m && i->grid) {
        image_grid_draw(v, c, (struct area){ area.x, area.y, area.width, area.height - 1 }, m);
        draw_legend(v, c, area, p, m);
        return;
    }
    if (m && i->pointing && area.height >= 6)
        image_cursor_draw(v, c, (struct area){ area.x, area.y + --area.height, area.width, 1 });
    if (m && i->corrected && area.height >= 6)
        image_sinks_draw(v, c, (struct area){ area.x, area.y + --area.height, area.width, 1 }, m);
    const struct area inner = { area.x, area.y, area.width, area.height - 1 };
    if (!(p && p->image.pixels) && !m) {
        canvas_text(c, area, 0, 0, STYLE_DIM, "no picture yet");
        canvas_text(c, area, 0, 1, STYLE_DIM, "/image FILE, Ctrl-O,");
        canvas_text(c, area, 0, 2, STYLE_DIM, "or drop one here");
        return;
    }
    v->image.map_area = show(v, &v->image, m, m && m->picture < 0 ? NULL : p, c, inner);
    draw_legend(v, c, area, p, m);
}

// --- stepping through maps -----------------------------------------------------------------------

// Returns the map's position along an axis.
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

// Finds the nearest map along the axis in the direction (+1, -1), or the farthest (+2, -2); -1:
// none.
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

// During an answer, other layers and heads of the live map arrive with the next tokens. Steps start
// from the setting, which may be ahead of the shown map.
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
        view_run(v, true, "/set %s mean", key);
    else if (next >= 0 && next < most)
        view_run(v, true, "/set %s %d", key, (int)next);
}

static void hint_no_map(struct view *v)
{
    const bool hidden = v->image.mode == MAP_NONE && v->image.map_count;
    view_hint(v, hidden ? "the picture is shown alone: o shows its maps" : "no map yet");
}

static void step(struct view *v, enum axis axis, int direction, bool around)
{
    const struct map *now = view_map(v);
    if (!now) return hint_no_map(v);
    if (!v->answering && maps_steps(now) && v->snapshot) {
        maps_step(v, axis, direction);
        return;
    }
    int next = find_step(&v->image, now, axis, direction);
    if (next < 0 && results_live(now->name) && axis != AXIS_TOKEN) {
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
    if (!now) return hint_no_map(v);
    if (!v->answering && maps_steps(now)) {
        maps_kind(v);
        return;
    }
    const size_t from = (size_t)(now - i->maps);
    for (size_t k = 1; k <= i->map_count; k++) {
        const size_t at = (from + k) % i->map_count;
        if (!strcmp(i->maps[at].name, now->name) && i->maps[at].picture == now->picture) continue;
        i->map = (int)at;
        return;
    }
}

// Starts or stops playing, from the shown token on; from the first if the last is shown.
static void play(struct view *v)
{
    struct image_view *i = &v->image;
    if (!view_map(v)) return hint_no_map(v);
    i->playing = !i->playing;
    i->play_at = clock_seconds();
    if (!i->playing || maps_play(v)) return;
    i->playing = true;
    maps_step(v, AXIS_TOKEN, -2);
}

// Hides the visual tokens in a box, in fractions of the picture, or shows them again.
static void toggle_box(struct view *v, const double box[4])
{
    const struct preview *p = view_picture(v);
    const struct map *m = view_map(v);
    if (m && m->picture < 0)
        view_hint(v, "this map does not lie over a picture: k shows another one");
    else if (p)
        view_run(v, true, "/hide toggle picture:%d[%.4g%%,%.4g%%,%.4g%%,%.4g%%]", p->index,
                 100 * box[0], 100 * box[1], 100 * (box[2] - box[0]), 100 * (box[3] - box[1]));
}

// Hides the visual token at a point of the picture, or shows it again.
static void toggle_point(struct view *v, double x, double y)
{
    int row, col;
    const struct map *m = image_patch(v, x, y, &row, &col);
    if (!m) return toggle_box(v, (const double[4]){ x, y, x + 1e-4, y + 1e-4 });
    // The middle of the patch: the point may be at its edge, and then touch other patches.
    const double wide = (m->area[2] - m->area[0]) / m->cols;
    const double high = (m->area[3] - m->area[1]) / m->rows;
    const double left = m->area[0] + (col + 0.4) * wide, top = m->area[1] + (row + 0.4) * high;
    toggle_box(v, (const double[4]){ left, top, left + 0.2 * wide, top + 0.2 * high });
}

// Hides the token at the cursor, else the tokens in the selected box, else the token with the map's
// highest value.
static void toggle_tokens(struct view *v)
{
    const struct image_view *i = &v->image;
    double x = i->point_x, y = i->point_y;
    if (i->boxed && !i->pointing)
        toggle_box(v, i->box);
    else if (!view_map(v) || (!i->pointing && !image_highest(v, &x, &y)))
        hint_no_map(v);
    else
        toggle_point(v, x, y);
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
    unsigned done = PANEL_IGNORED;
    if (i->grid && view_map(v))
        done = image_grid_act(v, action);
    else if (i->pointing && view_map(v))
        done = image_cursor_act(v, action);
    if (done != PANEL_IGNORED) return done;
    for (size_t k = 0; k < sizeof steps / sizeof steps[0]; k++)
        if (!strcmp(action, steps[k].action)) {
            step(v, steps[k].axis, steps[k].direction, steps[k].around);
            return PANEL_DONE;
        }
    if (!strcmp(action, "map"))
        i->mode = i->mode == MAP_NONE ? MAP_OVER : MAP_NONE;
    else if (!strcmp(action, "mode")) {
        i->mode = (i->mode + 1) % MAP_MODES;
        view_hint(v, "%s", mode_names[i->mode]);
    } else if (!strcmp(action, "play"))
        play(v);
    else if (!strcmp(action, "smooth"))
        i->smooth = !i->smooth;
    else if (!strcmp(action, "hide"))
        toggle_tokens(v);
    else if (!strcmp(action, "kind"))
        i->grid = GRID_OFF, next_kind(v);
    else if (!strcmp(action, "grid"))
        maps_next_grid(v);
    else if (!strcmp(action, "sinks"))
        i->corrected = !i->corrected;
    else if (!strcmp(action, "cursor") && view_map(v)) {
        image_cursor_set(v);
    } else if (!strcmp(action, "cursor"))
        hint_no_map(v);
    else if (!strcmp(action, "show"))
        return PANEL_DONE; // only the grid has something to choose
    else if (!strcmp(action, "ramp"))
        view_run_next(v, "screen.map", ramp_names);
    else if (!strcmp(action, "picture-back"))
        i->picture -= i->picture > 0;
    else if (!strcmp(action, "picture-next"))
        i->picture += i->picture + 1 < i->picture_count;
    else if (!strcmp(action, "back") && i->boxed)
        i->boxed = false;
    else if (!strcmp(action, "back"))
        return PANEL_DONE | PANEL_BACK;
    else
        return PANEL_IGNORED;
    return PANEL_DONE;
}

static int smaller(int a, int b)
{
    return a < b ? a : b;
}

// Names the positions in a box, in fractions of the picture, for the command in the input line.
static void name_box(struct view *v, const double box[4])
{
    struct image_view *i = &v->image;
    const struct preview *p = view_picture(v);
    char number[16] = "";
    if (p && i->picture_count > 1) snprintf(number, sizeof number, ":%d", p->index);
    snprintf(i->dragged, sizeof i->dragged, "picture%s[%.3g%%,%.3g%%,%.3g%%,%.3g%%]", number,
             100 * box[0], 100 * box[1], 100 * (box[2] - box[0]), 100 * (box[3] - box[1]));
}

// Selects the box between mouse press and release, in fractions of the picture.
static void select_box(struct view *v, int x, int y)
{
    struct image_view *i = &v->image;
    const struct area a = i->map_area;
    const int width = abs(x - i->press_x), height = abs(y - i->press_y);
    const double left = smaller(x, i->press_x) - a.x, top = smaller(y, i->press_y) - a.y;
    const bool point = !width && !height; // a click: the middle of the cell
    const double box[4] = { (left + (point ? 0.5 : 0)) / a.width,
                            (top + (point ? 0.5 : 0)) / a.height,
                            (left + width + (point ? 0.5 : 1)) / a.width,
                            (top + height + (point ? 0.5 : 1)) / a.height };
    if (i->commanding) {
        name_box(v, box);
        return;
    }
    i->pointing = point;
    i->point_x = box[0];
    i->point_y = box[1];
    maps_select_box(v, box);
}

static void click(struct view *v, struct area area, int x, int y, int button)
{
    struct image_view *i = &v->image;
    const struct area a = i->map_area;
    const int column = area.x + x, line = area.y + y;
    const bool on = area_has(a, column, line);
    if (button == 4) step(v, AXIS_TOKEN, -1, false);
    if (button == 5) step(v, AXIS_TOKEN, 1, false);
    const struct area strip = i->strip;
    if (button == 1 && image_grid_click(v, column, line)) return;
    if (button == 1 && strip.height && line >= strip.y && line < strip.y + strip.height &&
        view_map(v))
        maps_go_layer(v, i->strip_first + (column - strip.x) / i->strip_wide);
    if (button == 1 && on && (view_map(v) || (i->commanding && view_picture(v)))) {
        i->press_x = column;
        i->press_y = line;
    }
    if (button == 3 && on)
        toggle_point(v, (column - a.x + 0.5) / a.width, (line - a.y + 0.5) / a.height);
    if (button == 0 && i->press_x >= 0 && on) select_box(v, column, line);
    if (button != 1) i->press_x = -1;
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
