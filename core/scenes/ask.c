// core/scenes/ask.c -- short questions with one right answer. What is asked about is never in the
// question, and what the question names is in the picture once.
#include <stdlib.h>

#include "core/scenes/scene.h"

static void put_the(struct buf *b, const struct query *q)
{
    buf_puts(b, "the ");
    put_query(b, q, false);
}

static bool ask_colour(struct turns *t, const struct scene *s, int i, struct dice *d)
{
    static const char *const forms[] = { "What colour is ", "What color is ", "Which colour is " };
    struct query q;
    if (!referent(s, i, HAS_COLOUR, d, &q)) return false;
    struct turn *turn = turns_add(t, "colour", "exact");
    buf_puts(&turn->question, forms[dice_roll(d, 3)]);
    put_the(&turn->question, &q);
    buf_putc(&turn->question, '?');
    buf_puts(&turn->answer, colour_names[s->objects[i].is.colour]);
    return true;
}

static bool ask_shape(struct turns *t, const struct scene *s, int i, struct dice *d)
{
    static const char *const forms[] = { "What shape is ", "Which shape is " };
    struct query q;
    if (s->objects[i].is.glyph || !referent(s, i, HAS_SHAPE, d, &q)) return false;
    struct turn *turn = turns_add(t, "shape", "exact");
    buf_puts(&turn->question, forms[dice_roll(d, 2)]);
    put_the(&turn->question, &q);
    buf_putc(&turn->question, '?');
    buf_puts(&turn->answer, shape_names[s->objects[i].is.shape]);
    return true;
}

static bool ask_size(struct turns *t, const struct scene *s, int i, struct dice *d)
{
    static const char *const forms[] = { "How big is ", "What size is " };
    struct query q;
    if (!referent(s, i, HAS_SIZE, d, &q)) return false;
    struct turn *turn = turns_add(t, "size", "exact");
    buf_puts(&turn->question, forms[dice_roll(d, 2)]);
    put_the(&turn->question, &q);
    buf_putc(&turn->question, '?');
    buf_puts(&turn->answer, size_names[s->objects[i].is.size]);
    return true;
}

static bool ask_place(struct turns *t, const struct scene *s, int i, struct dice *d)
{
    static const char *const forms[] = { "Where is ", "In which place is " };
    struct query q;
    if (!referent(s, i, HAS_PLACE, d, &q)) return false;
    struct turn *turn = turns_add(t, "place", "exact");
    buf_puts(&turn->question, forms[dice_roll(d, 2)]);
    put_the(&turn->question, &q);
    buf_putc(&turn->question, '?');
    buf_puts(&turn->answer, place_names[s->objects[i].is.place]);
    return true;
}

// Digits and letters: read.
static bool ask_glyph(struct turns *t, const struct scene *s, int i, struct dice *d)
{
    struct query q;
    for (int k = 0; k < s->count && !s->objects[i].is.glyph; k++) i = (i + 1) % s->count;
    const struct object *o = &s->objects[i];
    if (!o->is.glyph || !referent(s, i, HAS_GLYPH, d, &q)) return false;
    struct turn *turn = turns_add(t, "read", "exact");
    buf_printf(&turn->question, "Which %s is ", shape_names[o->is.shape]);
    put_the(&turn->question, &q);
    buf_putc(&turn->question, '?');
    buf_putc(&turn->answer, o->is.glyph);
    return true;
}

// All numbers that occur are equally likely, else most answers were 1.
static bool ask_count(struct turns *t, const struct scene *s, int i, struct dice *d)
{
    static const unsigned ways[] = { 0, HAS_SHAPE, HAS_COLOUR, HAS_SIZE, HAS_SHAPE | HAS_COLOUR };
    struct query found[5 * OBJECTS_MAX + 1];
    int number[5 * OBJECTS_MAX + 1], count = 0, want[OBJECTS_MAX + 1], choice = 0;
    for (int k = 0; k < s->count; k++)
        for (int w = 0; w < 5; w++) {
            found[count] = object_query(&s->objects[k], ways[w]);
            number[count] = query_count(&found[count], s);
            count++;
        }
    if (dice_chance(d, 10)) { // none of them
        struct query *q = &found[0];
        *q = (struct query){ .has = HAS_SHAPE };
        do {
            q->is.shape = dice_roll(d, PLAIN_SHAPES);
        } while (query_count(q, s));
    } else {
        dice_shuffle(d, want, OBJECTS_MAX + 1);
        int start = dice_roll(d, count);
        for (int w = 0, hit = 0; w <= OBJECTS_MAX && !hit; w++)
            for (int k = 0; k < count && !hit; k++) {
                choice = (start + k) % count;
                hit = number[choice] == want[w];
            }
    }
    const struct query *q = &found[choice];
    struct turn *turn = turns_add(t, "count", "exact");
    buf_puts(&turn->question, "How many ");
    put_query(&turn->question, q, true);
    buf_puts(&turn->question, dice_roll(d, 2) ? " are there?" : " do you see?");
    buf_printf(&turn->answer, "%d", query_count(q, s));
    return true;
}

// Two objects in different columns, or rows; which side?
static bool ask_side(struct turns *t, const struct scene *s, int i, struct dice *d)
{
    struct query a, b;
    if (s->count < 2) return false;
    const int k = (i + 1 + dice_roll(d, s->count - 1)) % s->count;
    const int from = s->objects[i].is.place, to = s->objects[k].is.place;
    bool across = dice_roll(d, 2);
    if (across ? from % 3 == to % 3 : from / 3 == to / 3) across = !across;
    if (!referent(s, i, HAS_PLACE, d, &a) || !referent(s, k, HAS_PLACE, d, &b)) return false;
    struct turn *turn = turns_add(t, "relation", "exact");
    buf_puts(&turn->question, "Is ");
    put_the(&turn->question, &a);
    buf_puts(&turn->question, across ? " left or right of " : " above or below ");
    put_the(&turn->question, &b);
    buf_putc(&turn->question, '?');
    buf_puts(&turn->answer, across ? (from % 3 < to % 3 ? "left" : "right")
                                   : (from / 3 < to / 3 ? "above" : "below"));
    return true;
}

// What stands in the next place of the grid.
static bool ask_next(struct turns *t, const struct scene *s, int i, struct dice *d)
{
    struct query q;
    const int from = s->objects[i].is.place, start = dice_roll(d, s->count);
    for (int n = 0; n < s->count; n++) {
        const struct object *o = &s->objects[(start + n) % s->count];
        const int dx = o->is.place % 3 - from % 3, dy = o->is.place / 3 - from / 3;
        if (abs(dx) + abs(dy) != 1) continue;
        if (!referent(s, i, HAS_PLACE, d, &q)) return false;
        const char *side = dx ? (dx < 0 ? "left of" : "right of") : (dy < 0 ? "above" : "below");
        struct turn *turn = turns_add(t, "next", "exact");
        buf_printf(&turn->question, "What is directly %s ", side);
        put_the(&turn->question, &q);
        buf_putc(&turn->question, '?');
        q = object_query(o, HAS_SHAPE | HAS_GLYPH | HAS_COLOUR);
        put_query(&turn->answer, &q, false);
        return true;
    }
    return false;
}

static bool ask_background(struct turns *t, const struct scene *s, int i, struct dice *d)
{
    struct turn *turn = turns_add(t, "background", "exact");
    buf_puts(&turn->question,
             dice_roll(d, 2) ? "What colour is the background?" : "What is the background colour?");
    buf_puts(&turn->answer, background_names[s->background]);
    return true;
}

void ask_questions(struct turns *t, const struct scene *s, struct dice *d)
{
    static bool (*const kinds[])(struct turns *, const struct scene *, int, struct dice *) = {
        ask_colour, ask_shape, ask_size, ask_place,      ask_glyph,
        ask_count,  ask_side,  ask_next, ask_background,
    };
    enum { KINDS = sizeof kinds / sizeof *kinds, WANTED = 6 };
    int order[KINDS], asked = 0;
    dice_shuffle(d, order, KINDS);
    for (int k = 0; k < KINDS && asked < WANTED; k++)
        asked += kinds[order[k]](t, s, dice_roll(d, s->count), d);
}
