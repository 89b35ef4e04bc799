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
// or of all. free() it.
static char *line_of(const struct map_id *w, bool each, bool all)
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
    if ((k->each & EACH_HEAD) && w->head >= 0) buf_printf(&b, " --head %d", w->head);
    if ((k->each & EACH_HEAD) && w->head < 0) buf_puts(&b, " --head mean");
    return buf_take(&b);
}

char *maps_line(const struct view *v)
{
    const struct map *now = view_map(v);
    if (!now || kind_of(now) < 0) return NULL;
    const struct map_id w = v->image.requesting ? v->image.requested : id_of(v, now);
    return line_of(&w, false, false);
}

// Requests the map of the token w->token, or the maps of all tokens. If the strip of layers is
// shown, requests one token's maps of all layers: they cost the same pass.
static void ask(struct view *v, const struct map_id *w, bool each)
{
    const bool all = v->image.strip.height > 0 && !each && spans_layers(kind_at(w->kind));
    free(v->quiet);
    v->quiet = line_of(w, each, all);
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

void maps_go_layer(struct view *v, int layer)
{
    const struct map *now = view_map(v);
    const int at = now && layer < maps_layers(v, now) ? maps_layer(v, now, layer) : -1;
    if (at < 0) return;
    v->image.map = at;
    v->image.requested = id_of(v, now);
    v->image.requested.layer = layer;
    v->image.requesting = false;
}

static bool same_but_layer(const struct map_id *a, const struct map_id *b)
{
    return a->kind == b->kind && a->picture == b->picture && a->head == b->head &&
           a->token == b->token;
}

void maps_fill(struct view *v)
{
    struct image_view *i = &v->image;
    const struct map *now = view_map(v);
    const int layers = now ? maps_layers(v, now) : 0;
    if (!layers || v->busy || v->answering || i->requesting || i->playing || v->quiet) return;
    const struct map_id w = id_of(v, now);
    const struct result_kind *k = kind_at(w.kind);
    const int tokens = token_count(v);
    const bool answered = tokens && w.token < tokens; // else it belongs to a row of the prompt
    if (((k->each & EACH_TOKEN) && !answered) || (i->filled_once && same_but_layer(&i->filled, &w)))
        return;
    i->filled = w;
    i->filled_once = true;
    for (int l = 0; l < layers; l++)
        if (maps_layer(v, now, l) < 0 && (!k->has || k->has(v->settings, layers, l))) {
            ask(v, &w, false);
            return;
        }
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
    v->image.requesting = v->image.boxed = false;
    v->image.playing = false;
    view_hint(v, "%s", why);
}

static bool is_quick(const struct map *m)
{
    return m->quick;
}

void maps_forget(struct view *v)
{
    image_drop_maps(&v->image, is_quick);
    v->image.requesting = v->image.boxed = v->image.playing = v->image.filled_once = false;
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
