// core/scenes/exist.c -- yes/no questions of existence, as POPE asks them: for each strategy one
// object that is there and one that is not.
#include "core/scenes/scene.h"

enum { NAME = HAS_SHAPE | HAS_GLYPH | HAS_COLOUR };

static void ask(struct turns *t, const char *strategy, const struct query *q, bool yes,
                struct dice *d)
{
    static const char *const forms[][2] = { { "Is there ", "?" },
                                            { "Is there ", " in the picture?" },
                                            { "Do you see ", "?" },
                                            { "Does the picture show ", "?" } };
    const int form = dice_roll(d, 4);
    struct turn *turn = turns_add(t, "yesno", "yesno");
    turn->strategy = strategy;
    buf_puts(&turn->question, forms[form][0]);
    put_article(&turn->question, q);
    buf_puts(&turn->question, forms[form][1]);
    buf_puts(&turn->answer, yes ? "yes" : "no");
}

static struct query any_kind(struct dice *d)
{
    struct query q = { .has = NAME };
    q.is.colour = dice_roll(d, COLOURS);
    q.is.shape = dice_roll(d, SHAPES);
    if (q.is.shape == SHAPE_DIGIT) q.is.glyph = glyph_digits[dice_roll(d, DIGITS)];
    if (q.is.shape == SHAPE_LETTER) q.is.glyph = glyph_letters[dice_roll(d, LETTERS)];
    return q;
}

struct query absent_random(const struct scene *s, struct dice *d)
{
    struct query q;
    do {
        q = any_kind(d);
    } while (query_count(&q, s));
    return q;
}

// There are eight common kinds and at most seven objects.
struct query absent_popular(const struct scene *s, struct dice *d)
{
    struct query q = { .has = NAME };
    do {
        q.is.colour = dice_roll(d, COLOURS);
        q.is.shape = common_shape(q.is.colour);
    } while (query_count(&q, s));
    return q;
}

// A shape and a colour of two objects that do not stand together; when all do, a shape of the
// picture in a colour that it does not have here.
struct query absent_adversarial(const struct scene *s, struct dice *d)
{
    const int start = dice_roll(d, s->count * s->count);
    for (int k = 0; k < s->count * s->count; k++) {
        const int pair = (start + k) % (s->count * s->count);
        struct query q = object_query(&s->objects[pair / s->count], NAME);
        q.is.colour = s->objects[pair % s->count].is.colour;
        if (!query_count(&q, s)) return q;
    }
    struct query q = object_query(&s->objects[dice_roll(d, s->count)], NAME);
    do {
        q.is.colour = dice_roll(d, COLOURS);
    } while (query_count(&q, s));
    return q;
}

void ask_existence(struct turns *t, const struct scene *s, struct dice *d)
{
    static const char *const strategies[] = { "random", "popular", "adversarial" };
    int order[OBJECTS_MAX];
    dice_shuffle(d, order, s->count);
    for (int i = 0; i < 3; i++) {
        const struct query there = object_query(&s->objects[order[i % s->count]], NAME);
        const struct query absent = i == 0   ? absent_random(s, d)
                                    : i == 1 ? absent_popular(s, d)
                                             : absent_adversarial(s, d);
        const bool first = dice_roll(d, 2);
        ask(t, strategies[i], first ? &there : &absent, first, d);
        ask(t, strategies[i], first ? &absent : &there, !first, d);
    }
}
