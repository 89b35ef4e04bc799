// tui/view_parts.c -- copies the contents of events (maps, pictures, comparisons, flips, tables)
// into the view.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/text.h"
#include "core/probes/results.h"
#include "tui/view.h"

// --- pictures and maps ---------------------------------------------------------------------------

void image_drop_maps(struct image_view *i, bool (*drops)(const struct map *m))
{
    size_t kept = 0;
    for (size_t k = 0; k < i->map_count; k++)
        if (!drops || drops(&i->maps[k]))
            map_release(&i->maps[k]);
        else
            i->maps[kept++] = i->maps[k];
    if (kept != i->map_count) i->map = -1;
    i->map_count = kept;
}

void image_clear(struct image_view *i)
{
    image_drop_maps(i, NULL);
    for (size_t k = 0; k < i->picture_count; k++) preview_free(i->pictures[k]);
    i->picture_count = i->picture = 0;
}

void image_view_release(struct image_view *i)
{
    image_clear(i);
    free(i->maps);
    free(i->attention);
    free(i->pictures);
}

void image_take_picture(struct image_view *i, struct preview *p)
{
    size_t at = 0;
    while (at < i->picture_count && i->pictures[at]->index != p->index) at++;
    const bool known = at < i->picture_count;
    if (known) preview_free(i->pictures[at]);
    if (p->path) {
        if (!known)
            i->pictures = xreallocarray(i->pictures, ++i->picture_count, sizeof *i->pictures);
        i->pictures[at] = p;
        i->picture = at;
        return;
    }
    preview_free(p); // the picture was detached
    if (!known) return;
    memmove(i->pictures + at, i->pictures + at + 1,
            (--i->picture_count - at) * sizeof *i->pictures);
    if (i->picture >= i->picture_count) i->picture = i->picture_count ? i->picture_count - 1 : 0;
}

bool map_is(const struct map *m, const struct event_heatmap *h)
{
    return m->picture == h->picture && m->layer == h->layer && m->head == h->head &&
           m->token == h->token && !strcmp(m->name, h->name) &&
           !strcmp(m->tile ? m->tile : "", h->tile ? h->tile : "");
}

static void remove_map(struct image_view *i, size_t at)
{
    map_release(&i->maps[at]);
    i->map_count--;
    memmove(i->maps + at, i->maps + at + 1, (i->map_count - at) * sizeof *i->maps);
    if (i->map == (int)at) i->map = -1;
    if (i->map > (int)at) i->map--;
}

void image_take_map(struct image_view *i, const struct event_heatmap *h)
{
    const size_t count = (size_t)h->rows * (size_t)h->cols;
    size_t at = 0;
    if (h->rows < 1 || h->cols < 1) return;
    while (at < i->map_count && !map_is(&i->maps[at], h)) at++;
    if (at < i->map_count)
        remove_map(i, at); // the new version goes to the end, because the newest map is last
    else if (i->map_count >= MAPS_MAX)
        remove_map(i, 0);
    i->maps = xreallocarray(i->maps, i->map_count + 1, sizeof *i->maps);
    struct map *m = &i->maps[i->map_count++];
    *m = (struct map){ .name = xstrdup(h->name),
                       .picture = h->picture,
                       .layer = h->layer,
                       .head = h->head,
                       .token = h->token,
                       .rows = h->rows,
                       .cols = h->cols,
                       .min = h->min,
                       .max = h->max };
    m->values = xreallocarray(NULL, count, sizeof *m->values);
    memcpy(m->values, h->values, count * sizeof *m->values);
    for (size_t k = 0; k < count; k++) m->sum += isfinite(h->values[k]) ? (double)h->values[k] : 0;
    memcpy(m->area, h->area, sizeof m->area);
    m->tile = h->tile ? xstrdup(h->tile) : NULL;
    // Shows the map's picture, except for live maps: they arrive unrequested.
    for (size_t k = 0; !results_live(h->name) && k < i->picture_count; k++)
        if (i->pictures[k]->index == h->picture) i->picture = k;
    m->words = h->words ? xcalloc(count + 1, sizeof *m->words) : NULL;
    for (size_t k = 0; h->words && k < count; k++)
        m->words[k] = h->words[k] ? xstrdup(h->words[k]) : NULL;
    if (!h->dropped) return;
    m->dropped = xmalloc(count);
    memcpy(m->dropped, h->dropped, count);
}

const struct preview *view_picture(const struct view *v)
{
    const struct image_view *i = &v->image;
    return i->picture < i->picture_count ? i->pictures[i->picture] : NULL;
}

// Returns whether the map can be drawn over the shown picture (NULL: no picture), or needs none.
static bool fits(const struct map *m, const struct preview *shown)
{
    return !shown || m->picture < 0 || m->picture == shown->index;
}

const struct map *view_map(const struct view *v)
{
    const struct image_view *i = &v->image;
    const struct preview *shown = view_picture(v);
    if (i->mode == MAP_NONE) return NULL;
    if (i->map >= 0 && fits(&i->maps[i->map], shown)) return &i->maps[i->map];
    for (size_t k = i->map_count; k-- > 0;)
        if (fits(&i->maps[k], shown)) return &i->maps[k];
    return NULL;
}

// --- two answers ---------------------------------------------------------------------------------

void compare_release(struct compare_view *k)
{
    for (int i = 0; i < 2; i++) {
        free(k->title[i]);
        free(k->text[i]);
        free(k->starts[i]);
    }
    word_diff_release(&k->differs);
    image_view_release(&k->maps);
    image_view_release(&k->coming);
    *k = (struct compare_view){ 0 };
}

int compare_first_difference(const struct compare_view *k)
{
    size_t at = 0;
    while (at + 1 < k->tokens[0] && k->starts[0][at + 1] <= k->common) at++;
    return (int)at;
}

void compare_take(struct compare_view *k, const struct event_columns *c)
{
    const struct image_view coming = k->coming;
    k->coming = (struct image_view){ 0 };
    compare_release(k);
    *k = (struct compare_view){ .maps = coming, .fresh = true };
    for (int i = 0; i < 2; i++) {
        k->title[i] = xstrdup(c->title[i]);
        const char *text = text_trimmed(c->text[i]);
        const size_t blanks = (size_t)(text - c->text[i]);
        k->text[i] = xstrdup(text);
        if (!i) k->common = c->common > blanks ? c->common - blanks : 0;
        k->tokens[i] = c->starts[i] ? c->tokens[i] : 0;
        k->starts[i] = xreallocarray(NULL, k->tokens[i] + 1, sizeof *k->starts[i]);
        for (size_t t = 0; t < k->tokens[i]; t++)
            k->starts[i][t] = c->starts[i][t] > blanks ? c->starts[i][t] - blanks : 0;
    }
    k->differs = word_diff_of(k->text[0], k->text[1]);
    k->token = compare_first_difference(k);
}

const struct map *compare_map(const struct view *v, int side)
{
    const struct image_view *i = &v->compare.maps;
    const char *name = side ? "compare.B" : "compare.A";
    const struct preview *shown = view_picture(v);
    const int picture = shown ? shown->index : -1;
    const struct map *found = NULL;
    for (size_t k = 0; k < i->map_count; k++) {
        const struct map *m = &i->maps[k];
        if (strcmp(m->name, name) != 0 || m->token != v->compare.token) continue;
        if (!found || m->picture == picture) found = m;
    }
    return found;
}

// --- a flip --------------------------------------------------------------------------------------

void changed_release(struct changed_view *k)
{
    char *const texts[] = { k->which,    k->name,      k->title[0],  k->title[1],
                            k->question, k->reference, k->answer[0], k->answer[1] };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) free(texts[i]);
    previews_free(k->pictures);
    *k = (struct changed_view){ 0 };
}

void changed_take(struct changed_view *k, const struct event_changed *e, struct previews *pictures)
{
    const int asked = k->asked;
    changed_release(k);
    k->asked = strcmp(e->which, "all") ? asked : 0;
    k->which = xstrdup(e->which);
    k->name = *e->kind ? xasprintf("%s (%s)", e->id, e->kind) : xstrdup(e->id);
    k->question = xstrdup(e->question);
    k->reference = xstrdup(e->reference);
    for (int i = 0; i < 2; i++) {
        k->title[i] = xstrdup(e->title[i]);
        k->answer[i] = xstrdup(e->answer[i]);
        k->score[i] = e->score[i];
        k->better[i] = e->better[i];
    }
    k->number = e->number;
    k->count = e->count;
    k->pictures = pictures;
    k->fresh = true;
}

// --- tables --------------------------------------------------------------------------------------

static void series_release(struct series *s)
{
    for (int i = 0; i < s->column_count; i++) free(s->columns[i]);
    free(s->columns);
    free(s->values);
    free(s->name);
    *s = (struct series){ 0 };
}

void dynamics_release(struct dynamics_view *d)
{
    for (size_t i = 0; i < d->count; i++)
        for (int k = 0; k < RUNS; k++) series_release(&d->series[i][k]);
    free(d->series);
}

static struct series read_series(const struct event_table *t)
{
    struct series s = { .name = xstrdup(t->name), .row_count = t->row_count };
    const size_t cells = (size_t)t->row_count * (size_t)t->column_count;
    s.columns = xcalloc((size_t)t->column_count, sizeof *s.columns);
    s.values = xreallocarray(NULL, cells + 1, sizeof *s.values);
    for (; s.column_count < t->column_count; s.column_count++)
        s.columns[s.column_count] = xstrdup(t->columns[s.column_count]);
    for (size_t i = 0; i < cells; i++) {
        const bool numeric = t->numeric && t->numeric[i % (size_t)t->column_count];
        const char *cell = numeric && t->cells[i] ? t->cells[i] : "";
        char *end;
        s.values[i] = strtod(cell, &end);
        if (end == cell) s.values[i] = NAN;
    }
    return s;
}

// Keeps a table for curves if its first column counts layers, steps or tokens.
void dynamics_take(struct dynamics_view *d, const struct event_table *t)
{
    static const char *const axes[] = { "layer", "step", "token", NULL };
    if (t->column_count < 2 || t->row_count < 2 || !t->numeric || !t->numeric[0]) return;
    if (!text_listed(axes, t->columns[0])) return;
    size_t at = 0;
    while (at < d->count && strcmp(d->series[at][0].name, t->name) != 0) at++;
    if (at == d->count) {
        d->series = xreallocarray(d->series, d->count + 1, sizeof *d->series);
        memset(d->series[d->count++], 0, sizeof *d->series);
    }
    struct series *runs = d->series[at];
    series_release(&runs[RUNS - 1]);
    memmove(runs + 1, runs, (RUNS - 1) * sizeof *runs);
    runs[0] = read_series(t);
    if (d->fresh && d->shown != at) d->unit = 0, d->pointed = false;
    if (d->fresh) d->shown = at; // of several tables of one command, shows the first
    d->fresh = false;
}

void item_release(struct item *item)
{
    free(item->label);
    free(item->note);
    free(item->value);
    free(item->about);
}

void list_release(struct list_view *l)
{
    for (size_t i = 0; i < l->count; i++) item_release(&l->items[i]);
    free(l->items);
    free(l->shown);
    free(l->title);
    free(l->what);
    free(l->folder);
    buf_release(&l->filter);
    preview_free(l->preview);
    *l = (struct list_view){ 0 };
}
