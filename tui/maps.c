// tui/maps.c -- the maps of the last answer by kind, layer, head and token.
//
// The live maps of an answer are attention maps of one layer. The panel requests other maps from
// the worker, by the commands of the probes that describe them (core/probes/results.h). The
// requested map is the one selected by the steps so far; the shown map stays until the requested
// one arrives.
#include "tui/maps.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/probes/results.h"

static int kind_of(const struct map *m)
{
    const struct result_kind *k;
    const char *command;
    for (int i = 0; (k = result_map_kind(i, &command)); i++)
        if (!strcmp(m->name, k->name) || (k->live && !strcmp(m->name, k->live))) return i;
    return -1;
}

static const struct result_kind *kind_at(int kind)
{
    const char *command;
    return result_map_kind(kind, &command);
}

// Returns the kind of the live maps, which an answer emits while it is generated; -1: none.
static int live_kind(void)
{
    const struct result_kind *k;
    for (int i = 0; (k = kind_at(i)); i++)
        if (k->live) return i;
    return -1;
}

static bool over_picture(const struct result_kind *k)
{
    return k->rows == MAP_PATCHES;
}

// --- available maps ------------------------------------------------------------------------------

// A map without a layer or picture gets the layer or picture of the last requested map.
static struct map_id id_of(const struct view *v, const struct map *m)
{
    const int kind = kind_of(m);
    const struct result_kind *k = kind_at(kind);
    return (struct map_id){ .kind = kind,
                            .picture = over_picture(k) ? m->picture : v->image.requested.picture,
                            .layer = k->each & EACH_LAYER ? m->layer : v->image.requested.layer,
                            .head = m->head < 0 ? -1 : m->head,
                            .token = m->token < 0 ? -1 : m->token };
}

static bool matches(const struct map *m, const struct map_id *w)
{
    const struct result_kind *k = kind_at(w->kind);
    return (!over_picture(k) || m->picture == w->picture) &&
           (!(k->each & EACH_LAYER) || m->layer == w->layer) &&
           (!(k->each & EACH_HEAD) || (m->head < 0 ? -1 : m->head) == w->head) &&
           (!(k->each & EACH_TOKEN) || m->token == w->token) && kind_of(m) == w->kind;
}

// True if the map belongs to the last answer; a map that the user's command measured may be older.
static bool is_current(const struct map *m)
{
    return m->quick || results_live(m->name);
}

static bool has_id(const struct map *m, const struct map_id *w)
{
    return matches(m, w) && is_current(m);
}

static int find(const struct image_view *i, const struct map_id *w)
{
    for (size_t k = i->map_count; k-- > 0;)
        if (has_id(&i->maps[k], w)) return (int)k;
    return -1;
}

// Returns the number of tokens of the last answer. Its last token has no map unless an end token
// followed, because that token was not fed back to the model.
static int token_count(const struct view *v)
{
    const struct chat_view *c = &v->chat;
    for (size_t i = c->count; i-- > 0;)
        if (c->entries[i].kind == ENTRY_ANSWER || c->entries[i].kind == ENTRY_REASONING)
            return (int)(c->entries[i].first_token + c->entries[i].token_count);
    return 0;
}

// --- requests ------------------------------------------------------------------------------------

// Returns whether the command of this kind measures all layers at once, over the picture.
static bool spans_layers(const struct result_kind *k)
{
    return over_picture(k) && (k->each & EACH_LAYER) && !(k->each & EACH_ALONE);
}

// Returns the command that measures a map: of the token w->token, or of each token; of one layer,
// or of all; of the head w->head, or of each. free() it.
static char *line_of(const struct map_id *w, bool each, bool all, bool heads)
{
    const char *command;
    const struct result_kind *k = result_map_kind(w->kind, &command);
    struct buf b = { 0 };
    buf_printf(&b, "/%s", command);
    if (over_picture(k)) buf_printf(&b, " --picture %d", w->picture);
    if ((k->each & EACH_LAYER) && all) buf_puts(&b, " --layer all");
    if ((k->each & EACH_LAYER) && !all) buf_printf(&b, " --layer %d", w->layer);
    if ((k->each & EACH_TOKEN) && each) buf_puts(&b, " --token each");
    if ((k->each & EACH_TOKEN) && !each && w->token < 0) buf_puts(&b, " --token answer");
    if ((k->each & EACH_TOKEN) && !each && w->token >= 0) buf_printf(&b, " --token %d", w->token);
    if (heads)
        buf_puts(&b, " --head each");
    else if ((k->each & EACH_HEAD) && w->head >= 0)
        buf_printf(&b, " --head %d", w->head);
    else if (k->each & EACH_HEAD)
        buf_puts(&b, " --head mean");
    return buf_take(&b);
}

char *maps_line(const struct view *v)
{
    const struct map *now = view_map(v);
    if (!now || kind_of(now) < 0) return NULL;
    const struct map_id w = v->image.requesting ? v->image.requested : id_of(v, now);
    return line_of(&w, false, false, false);
}

// Requests the map of the token w->token, or the maps of all tokens. If the strip of layers or the
// grid of heads is shown, requests one token's maps of all layers or heads: they cost the same
// pass.
static void ask(struct view *v, const struct map_id *w, bool each)
{
    const struct result_kind *k = kind_at(w->kind);
    const bool heads = v->image.grid != GRID_OFF && !each && (k->each & EACH_HEAD);
    const bool all =
        !each && spans_layers(k) && (heads ? v->image.grid == GRID_ALL : v->image.strip.height > 0);
    free(v->quiet);
    v->quiet = line_of(w, each, all, heads);
}

static void show_or_request(struct view *v, struct map_id w)
{
    struct image_view *i = &v->image;
    const int at = find(i, &w);
    i->requested = w;
    i->requesting = at < 0;
    if (at >= 0) {
        i->map = at;
        return;
    }
    ask(v, &w, i->playing); // playing needs the maps of the following tokens too
}

static int clamp(int value, int count)
{
    return value < 0 ? 0 : value >= count ? count - 1 : value;
}

// Returns the nearest layer in the direction (0: both) for which the kind has a map; -1: none.
static int near_layer(const struct view *v, const struct result_kind *k, int layer, int direction)
{
    const int layers = v->snapshot ? (int)v->snapshot->layers : 0;
    for (int away = 0; away < layers; away++)
        for (int side = -1; side <= 1; side += 2) {
            const int at = layer + side * away;
            if (direction && side != direction) continue;
            if (at >= 0 && at < layers && (!k->has || k->has(v->snapshot->settings, layers, at)))
                return at;
        }
    return -1;
}

static void move(const struct view *v, struct map_id *w, enum axis axis, int direction)
{
    const int heads = v->snapshot ? (int)v->snapshot->heads : 0;
    const struct result_kind *k = kind_at(w->kind);
    const unsigned each = k->each;
    const bool far = direction == 2 || direction == -2;
    if (axis == AXIS_TOKEN && (each & EACH_TOKEN))
        w->token =
            clamp(far ? (direction > 0 ? 1 << 20 : 0) : w->token + direction, token_count(v));
    const int layer = near_layer(v, k, w->layer + direction, direction);
    if (axis == AXIS_LAYER && (each & EACH_LAYER) && layer >= 0) w->layer = layer;
    if (axis == AXIS_HEAD && (each & EACH_HEAD) && heads)
        w->head = w->head + 1 >= heads ? -1 : w->head + 1;
}

void maps_step(struct view *v, enum axis axis, int direction)
{
    const struct map *now = view_map(v);
    if (!now || kind_of(now) < 0) return;
    struct map_id w = v->image.requesting ? v->image.requested : id_of(v, now);
    if (w.token < 0 && axis == AXIS_TOKEN) w.token = direction < 0 ? token_count(v) : -1;
    move(v, &w, axis, direction);
    show_or_request(v, w);
}

bool maps_steps(const struct map *m)
{
    return kind_of(m) >= 0;
}

void maps_go(struct view *v, int token)
{
    const struct map *now = view_map(v);
    if (!now || kind_of(now) < 0) return;
    struct map_id w = v->image.requesting ? v->image.requested : id_of(v, now);
    if (!(kind_at(w.kind)->each & EACH_TOKEN)) w.kind = live_kind();
    if (w.kind < 0) return;
    w.token = clamp(token, token_count(v));
    show_or_request(v, w);
}

void maps_kind(struct view *v)
{
    const struct map *now = view_map(v);
    if (!now || kind_of(now) < 0) return;
    struct map_id w = v->image.requesting ? v->image.requested : id_of(v, now);
    const struct result_kind *k = kind_at(w.kind);
    int layer = -1;
    for (int n = 0; layer < 0 && kind_at(n); n++) {
        if (!kind_at(++w.kind)) w.kind = 0;
        k = kind_at(w.kind);
        if (!over_picture(k) || now->picture >= 0 || v->image.picture_count)
            layer = near_layer(v, k, w.layer, 0);
    }
    w.layer = layer < 0 ? w.layer : layer;
    if ((k->each & EACH_TOKEN) && w.token < 0) w.token = clamp(1 << 20, token_count(v));
    if (!(k->each & EACH_HEAD)) w.head = -1;
    show_or_request(v, w);
}

// A fast model emits live maps of some tokens only: at the end, shows the map of the last token.
void maps_last(struct view *v, int token)
{
    const struct map *now = view_map(v);
    if (!now || v->image.map >= 0 || !results_live(now->name) || now->token >= token) return;
    maps_go(v, token);
}

// --- the strip of layers -------------------------------------------------------------------------

int maps_layer(const struct view *v, const struct map *now, int layer)
{
    const struct image_view *i = &v->image;
    struct map_id w = id_of(v, now);
    w.layer = layer;
    for (size_t k = i->map_count; k-- > 0;)
        if (matches(&i->maps[k], &w) && (is_current(&i->maps[k]) || !is_current(now)))
            return (int)k;
    return -1;
}

int maps_layers(const struct view *v, const struct map *now)
{
    const int kind = kind_of(now);
    if (kind < 0 || now->layer < 0 || !v->snapshot || v->snapshot->layers < 2) return 0;
    return spans_layers(kind_at(kind)) ? (int)v->snapshot->layers : 0;
}

bool maps_go_layer(struct view *v, int layer)
{
    const struct map *now = view_map(v);
    if (!now || kind_of(now) < 0 || v->answering) return false;
    const struct result_kind *k = kind_at(kind_of(now));
    if (!(k->each & EACH_LAYER) || near_layer(v, k, layer, 0) != layer) return false;
    struct map_id w = id_of(v, now);
    w.layer = layer;
    const int at = spans_layers(k) ? maps_layer(v, now, layer) : -1;
    if (at < 0) {
        show_or_request(v, w);
        return true;
    }
    v->image.map = at;
    v->image.requested = w;
    v->image.requesting = false;
    return true;
}

// Returns whether the maps requested last contain those that belong to w.
static bool same_set(const struct image_view *i, const struct map_id *w)
{
    const struct map_id *f = &i->filled;
    return f->kind == w->kind && f->picture == w->picture && f->token == w->token &&
           (i->grid != GRID_OFF || f->head == w->head) &&
           (i->grid != GRID_LAYER || f->layer == w->layer);
}

// Requests the map that was shown when a setting changed.
static bool renew(struct view *v)
{
    struct image_view *i = &v->image;
    if (!i->renews) return false;
    i->renews = false;
    i->requested = i->outdated;
    i->requesting = true;
    ask(v, &i->requested, false);
    return true;
}

// Requests the sinks of the shown map's layer, once.
static bool fill_sinks(struct view *v, const struct map *now)
{
    struct image_view *i = &v->image;
    if (!i->corrected || !maps_has_sinks(now) || maps_phi(i, now) ||
        (i->sinks_asked && i->sinks_layer == now->layer && i->sinks_picture == now->picture))
        return false;
    i->sinks_asked = true;
    i->sinks_layer = now->layer;
    i->sinks_picture = now->picture;
    free(v->quiet);
    v->quiet = xasprintf("/sinks --layer %d --picture %d", now->layer, now->picture);
    return true;
}

void maps_fill(struct view *v)
{
    struct image_view *i = &v->image;
    const struct map *now = view_map(v);
    const bool heads = i->grid != GRID_OFF;
    if (v->busy || v->answering || i->requesting || i->playing || v->quiet || renew(v)) return;
    if (!v->snapshot || !now || kind_of(now) < 0 || fill_sinks(v, now)) return;
    const struct map_id w = id_of(v, now);
    const struct result_kind *k = kind_at(w.kind);
    const int layers = heads ? (int)v->snapshot->layers : i->strip.height ? maps_layers(v, now) : 0;
    const int tokens = token_count(v);
    const bool answered = tokens && w.token < tokens; // else the token belongs to the prompt
    const bool again = i->filled_once && i->filled_grid == i->grid && same_set(i, &w);
    if (!layers || ((k->each & EACH_TOKEN) && !answered) || again) return;
    i->filled = w;
    i->filled_grid = i->grid;
    i->filled_once = true;
    bool missing = heads;
    for (int l = 0; !missing && l < layers; l++)
        missing = maps_layer(v, now, l) < 0 && (!k->has || k->has(v->settings, layers, l));
    if (missing) ask(v, &w, false);
}

void maps_outdate(struct view *v)
{
    struct image_view *i = &v->image;
    const struct map *now = view_map(v);
    const bool pending = i->renews; // of several settings, the first finds the shown map
    const bool again =
        !v->answering && now && kind_of(now) >= 0 && is_current(now) && token_count(v) > 0;
    if (again && !pending) i->outdated = i->requesting ? i->requested : id_of(v, now);
    maps_forget(v);
    i->renews = again || pending;
}

// --- the grid of heads ---------------------------------------------------------------------------

bool maps_has_sinks(const struct map *m)
{
    const int kind = kind_of(m);
    return kind >= 0 && over_picture(kind_at(kind)) && (kind_at(kind)->each & EACH_TOKEN) &&
           m->layer >= 0;
}

static bool same_area(const struct map *a, const struct map *b)
{
    bool same = a->rows == b->rows && a->cols == b->cols;
    for (int i = 0; i < 4; i++) same &= a->area[i] == b->area[i];
    return same;
}

const struct map *maps_phi(const struct image_view *i, const struct map *m)
{
    for (size_t k = i->map_count; k-- > 0;) {
        const struct map *o = &i->maps[k];
        if (o->layer == m->layer && o->picture == m->picture && !strcmp(o->name, "sinks.phi") &&
            same_area(o, m))
            return o;
    }
    return NULL;
}

bool maps_share(const struct map *m)
{
    const int kind = kind_of(m);
    return kind >= 0 && kind_at(kind)->each & EACH_HEAD;
}

double maps_sum(const struct image_view *i, const struct map *m)
{
    double sum = 0;
    if (!m->tile) return m->sum;
    for (size_t k = 0; k < i->map_count; k++) {
        const struct map *o = &i->maps[k];
        if (o->layer == m->layer && o->head == m->head && o->token == m->token &&
            o->picture == m->picture && !strcmp(o->name, m->name))
            sum += o->sum;
    }
    return sum;
}

struct ranked {
    int index;
    double sum;
};

static int by_sum(const void *a, const void *b)
{
    const struct ranked *x = a, *y = b;
    return x->sum < y->sum ? 1 : x->sum > y->sum ? -1 : x->index - y->index;
}

int maps_grid(const struct view *v, const struct map *now, int *list, int most)
{
    const struct image_view *i = &v->image;
    if (!now || kind_of(now) < 0 || most < 1) return 0;
    struct map_id w = id_of(v, now);
    struct ranked *found = xreallocarray(NULL, i->map_count + 1, sizeof *found);
    int count = 0;
    for (size_t k = 0; k < i->map_count; k++) {
        const struct map *m = &i->maps[k];
        const bool listed = i->grid == GRID_ALL ? m->head >= 0 : m->layer == now->layer;
        const bool further = m->tile && strncmp(m->tile, "tile 1 of", 9) != 0;
        w.layer = m->layer;
        w.head = m->head < 0 ? -1 : m->head;
        if (!listed || further || results_live(m->name) || !has_id(m, &w)) continue;
        // In a layer, the mean comes first, then the heads by number.
        found[count++] =
            (struct ranked){ (int)k, i->grid == GRID_ALL ? maps_sum(i, m) : -(double)w.head };
    }
    qsort(found, (size_t)count, sizeof *found, by_sum);
    if (count > most) count = most;
    for (int k = 0; k < count; k++) list[k] = found[k].index;
    free(found);
    return count;
}

void maps_next_grid(struct view *v)
{
    enum { MOST = MAPS_MAX / 2 };
    struct image_view *i = &v->image;
    const struct map *now = view_map(v);
    const int kind = now ? kind_of(now) : -1;
    const int64_t all = v->snapshot ? v->snapshot->layers * v->snapshot->heads : 0;
    if (kind < 0 || !(kind_at(kind)->each & EACH_HEAD)) {
        i->grid = GRID_OFF;
        view_hint(v, now ? "this kind of map has no heads: k shows attention again"
                         : "no map yet: ask about a picture first");
        return;
    }
    i->grid = (i->grid + 1) % GRIDS;
    if (i->grid == GRID_ALL && all > MOST) {
        i->grid = GRID_OFF;
        view_hint(v, "%lld heads are too many to show at once: g shows those of a layer",
                  (long long)all);
    }
    i->filled_once = false;
    if (i->grid == GRID_LAYER)
        view_hint(v, "heads of layer %d: arrows choose, Enter shows; g: heads of all layers",
                  now->layer);
    if (i->grid == GRID_ALL)
        view_hint(v, "heads of all layers (layer.head), the most attention to the picture first");
}

void maps_go_to(struct view *v, int index)
{
    struct image_view *i = &v->image;
    if (index < 0 || (size_t)index >= i->map_count) return;
    i->map = index;
    i->requested = id_of(v, &i->maps[index]);
    i->requesting = false;
}

// --- attention of tokens to a part of the picture ------------------------------------------------

// Returns the map's mean over the patches that the box touches.
static double mean_in(const struct map *m, const double box[4])
{
    const double *a = m->area, w = a[2] - a[0], h = a[3] - a[1];
    double sum = 0;
    int count = 0;
    for (int r = 0; r < m->rows; r++)
        for (int c = 0; c < m->cols; c++) {
            const double left = a[0] + w * c / m->cols, right = a[0] + w * (c + 1) / m->cols;
            const double top = a[1] + h * r / m->rows, bottom = a[1] + h * (r + 1) / m->rows;
            const float value = m->values[(size_t)r * (size_t)m->cols + (size_t)c];
            const bool in = left <= box[2] && right > box[0] && top <= box[3] && bottom > box[1];
            if (!in || !isfinite(value)) continue;
            sum += (double)value;
            count++;
        }
    return count ? sum / count : 0;
}

// Records how much the token of an arrived map attends to the box: the maximum over the map's
// tiles.
static void record_attention(struct image_view *i, const struct map *m)
{
    struct map_id w = i->box_map;
    w.token = m->token;
    if (!i->boxed || m->token < 0 || (size_t)m->token >= i->attention_count || !has_id(m, &w))
        return;
    const float mean = (float)mean_in(m, i->box);
    if (mean > i->attention[m->token]) i->attention[m->token] = mean;
    if (mean > i->attention_max) i->attention_max = mean;
}

// Records the attention to the box for all available maps.
static void record_all_attention(struct view *v)
{
    struct image_view *i = &v->image;
    i->attention_count = (size_t)token_count(v);
    i->attention = xreallocarray(i->attention, i->attention_count + 1, sizeof *i->attention);
    for (size_t t = 0; t < i->attention_count; t++) i->attention[t] = -1;
    i->attention_max = 0;
    for (size_t k = 0; k < i->map_count; k++) record_attention(i, &i->maps[k]);
}

// Requests all missing maps in one pass, once no requested step is pending.
static void request_missing(struct view *v)
{
    const struct image_view *i = &v->image;
    for (size_t t = 0; i->boxed && !i->requesting && t < i->attention_count; t++)
        if (i->attention[t] < 0) {
            ask(v, &i->box_map, true);
            return;
        }
}

// --- arriving maps -------------------------------------------------------------------------------

void maps_take(struct view *v, const struct event_heatmap *h)
{
    struct image_view *i = &v->image;
    const int shown = i->map;
    const bool newest = i->map_count && map_is(&i->maps[i->map_count - 1], h);
    image_take_map(i, h);
    if (!i->map_count) return;
    struct map *m = &i->maps[i->map_count - 1];
    m->quick = true;
    record_attention(i, m);
    if (i->requesting && has_id(m, &i->requested)) {
        i->map = (int)i->map_count - 1;
        i->requesting = false;
        request_missing(v);
    } else if (shown < 0 && !newest) { // the shown map stays
        i->map = i->map_count > 1 ? (int)i->map_count - 2 : -1;
    }
}

void maps_failed(struct view *v, const char *why)
{
    struct image_view *i = &v->image;
    const bool asked = i->requesting || i->boxed; // by the user, not by maps_fill
    i->requesting = i->boxed = i->playing = false;
    if (!why) { // maps_fill requests its maps again
        i->filled_once = false;
        i->sinks_asked = false;
    }
    if (why)
        view_hint(v, "%s", why);
    else if (asked) // not as a hint, which would cover what the other line prints
        view_add(v, ENTRY_NOTICE, "the map was not computed: another line was queued");
}

static bool is_quick(const struct map *m)
{
    return m->quick;
}

void maps_forget(struct view *v)
{
    image_drop_maps(&v->image, is_quick);
    v->image.requesting = v->image.boxed = v->image.playing = v->image.filled_once = false;
    v->image.renews = false;
    v->image.sinks_asked = false;
}

// --- from a part of the picture to the answer ----------------------------------------------------

void maps_select_box(struct view *v, const double box[4])
{
    const struct map *now = view_map(v);
    struct image_view *i = &v->image;
    if (!now || kind_of(now) < 0 || !(kind_at(kind_of(now))->each & EACH_TOKEN)) {
        view_hint(v, "first choose a kind of map that has one map per token (k): then a click "
                     "shows the words that attend there");
        return;
    }
    i->box_map = id_of(v, now);
    memcpy(i->box, box, sizeof i->box);
    i->boxed = true;
    record_all_attention(v);
    request_missing(v);
    view_hint(v, "coloured words attend here (%s, layer %d); Esc removes the colours",
              kind_at(i->box_map.kind)->name, i->box_map.layer);
}

double maps_box_attention(const struct view *v, size_t token)
{
    const struct image_view *i = &v->image;
    if (!i->boxed || token >= i->attention_count || i->attention[token] < 0 ||
        i->attention_max <= 0)
        return -1;
    return (double)(i->attention[token] / i->attention_max);
}

// --- play ----------------------------------------------------------------------------------------

bool maps_play(struct view *v)
{
    struct image_view *i = &v->image;
    const struct map *now = view_map(v);
    const bool more = i->playing && now && kind_of(now) >= 0 && now->token + 1 < token_count(v);
    if (more && !i->requesting) maps_step(v, AXIS_TOKEN, 1);
    i->playing = more;
    return more;
}
