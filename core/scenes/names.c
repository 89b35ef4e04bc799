// core/scenes/names.c -- words for a scene's objects, and queries, which select objects by some of
// their traits.
#include "core/scenes/scene.h"

#include <string.h>

const char *const shape_names[SHAPES] = { "circle", "square", "triangle", "star",  "cross",
                                          "ring",   "bar",    "diamond",  "digit", "letter" };
const char *const colour_names[COLOURS] = { "red",  "orange", "yellow", "green",
                                            "cyan", "blue",   "purple", "pink" };
const char *const size_names[SIZES] = { "small", "medium", "large" };
const char *const place_names[PLACES] = { "top left",    "top",    "top right",
                                          "left",        "middle", "right",
                                          "bottom left", "bottom", "bottom right" };
const char *const background_names[BACKGROUNDS] = { "black", "grey", "white", "brown" };

bool query_matches(const struct query *q, const struct object *o)
{
    return (!(q->has & HAS_SHAPE) || q->is.shape == o->is.shape) &&
           (!(q->has & HAS_GLYPH) || q->is.glyph == o->is.glyph) &&
           (!(q->has & HAS_COLOUR) || q->is.colour == o->is.colour) &&
           (!(q->has & HAS_SIZE) || q->is.size == o->is.size) &&
           (!(q->has & HAS_PLACE) || q->is.place == o->is.place);
}

int query_count(const struct query *q, const struct scene *s)
{
    int count = 0;
    for (int i = 0; i < s->count; i++) count += query_matches(q, &s->objects[i]);
    return count;
}

// Writes "at the top left" or "in the middle".
static void put_place(struct buf *b, int place)
{
    buf_printf(b, "%s the %s", place == PLACES / 2 ? "in" : "at", place_names[place]);
}

void put_query(struct buf *b, const struct query *q, bool plural)
{
    if (q->has & HAS_SIZE) buf_printf(b, "%s ", size_names[q->is.size]);
    if (q->has & HAS_COLOUR) buf_printf(b, "%s ", colour_names[q->is.colour]);
    buf_puts(b, q->has & HAS_SHAPE ? shape_names[q->is.shape] : "object");
    if (plural) buf_puts(b, q->has & HAS_SHAPE && q->is.shape == SHAPE_CROSS ? "es" : "s");
    if (q->has & HAS_GLYPH && q->is.glyph) buf_printf(b, " %c", q->is.glyph);
    if (q->has & HAS_PLACE) {
        buf_putc(b, ' ');
        put_place(b, q->is.place);
    }
}

void put_article(struct buf *b, const struct query *q)
{
    struct buf name = { 0 };
    put_query(&name, q, false);
    buf_printf(b, "%s %s", strchr("aeiou", name.data[0]) ? "an" : "a", name.data);
    buf_release(&name);
}

void put_counted(struct buf *b, const struct query *q, int number)
{
    buf_printf(b, "%d ", number);
    put_query(b, q, number != 1);
}

bool referent(const struct scene *s, int index, unsigned hidden, struct dice *d, struct query *q)
{
    static const unsigned ways[] = { HAS_SHAPE | HAS_GLYPH,
                                     HAS_SHAPE,
                                     HAS_COLOUR,
                                     HAS_SHAPE | HAS_GLYPH | HAS_COLOUR,
                                     HAS_SHAPE | HAS_COLOUR,
                                     HAS_SHAPE | HAS_GLYPH | HAS_SIZE,
                                     HAS_SHAPE | HAS_GLYPH | HAS_SIZE | HAS_COLOUR,
                                     HAS_PLACE };
    enum { WAYS = sizeof ways / sizeof *ways };
    int order[WAYS];
    dice_shuffle(d, order, WAYS);
    for (int i = 0; i < WAYS; i++) {
        *q = object_query(&s->objects[index], ways[order[i]]);
        if (!(q->has & hidden) && query_count(q, s) == 1) return true;
    }
    return false;
}

void put_description(struct buf *b, const struct scene *s)
{
    buf_printf(b, "%s:", background_names[s->background]);
    for (int i = 0; i < s->count; i++) {
        const struct query q =
            object_query(&s->objects[i], HAS_SHAPE | HAS_GLYPH | HAS_COLOUR | HAS_SIZE);
        buf_printf(b, "%s %s ", i ? ";" : "", place_names[q.is.place]);
        put_query(b, &q, false);
    }
}

struct turn *turns_add(struct turns *t, const char *kind, const char *metric)
{
    struct turn *turn = &t->list[t->count++];
    turn->kind = kind;
    turn->metric = metric;
    turn->strategy = NULL;
    buf_clear(&turn->question);
    buf_clear(&turn->answer);
    buf_clear(&turn->key);
    return turn;
}

void turns_release(struct turns *t)
{
    for (int i = 0; i < TURNS_MAX; i++) {
        buf_release(&t->list[i].question);
        buf_release(&t->list[i].answer);
        buf_release(&t->list[i].key);
    }
}
