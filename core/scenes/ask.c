// core/scenes/ask.c -- questions about a scene, some with a reason in the answer.
//
// A question about one object names it uniquely, without the trait that it asks for.
#include <stdlib.h>

#include "core/scenes/scene.h"

static void put_the(struct buf *b, const struct query *q)
{
    buf_puts(b, "the ");
    put_query(b, q, false);
}

// Asks "BEGINNING the red circle?".
static struct turn *ask_about(struct turns *t, const char *kind, const char *beginning,
                              const struct query *q)
{
    struct turn *turn = turns_add(t, kind, "exact");
    buf_puts(&turn->question, beginning);
    put_the(&turn->question, q);
    buf_putc(&turn->question, '?');
    return turn;
}

enum { COLOUR, SHAPE, SIZE, PLACE, TRAITS };

static bool ask_trait(struct turns *t, const struct scene *s, int i, int trait, struct dice *d)
{
    static const struct {
        const char *kind;
        unsigned has;
        int forms;
        const char *form[3];
    } questions[TRAITS] = {
        { "colour", HAS_COLOUR, 3, { "What colour is ", "What color is ", "Which colour is " } },
        { "shape", HAS_SHAPE, 2, { "What shape is ", "Which shape is " } },
        { "size", HAS_SIZE, 2, { "How big is ", "What size is " } },
        { "place", HAS_PLACE, 2, { "Where is ", "In which place is " } },
    };
    const struct traits *is = &s->objects[i].is;
    const char *const answers[TRAITS] = { colour_names[is->colour], shape_names[is->shape],
                                          size_names[is->size], place_names[is->place] };
    struct query q;
    if (trait == SHAPE && is->glyph) return false;
    if (!referent(s, i, questions[trait].has, d, &q)) return false;
    const char *form = questions[trait].form[dice_roll(d, questions[trait].forms)];
    buf_puts(&ask_about(t, questions[trait].kind, form, &q)->answer, answers[trait]);
    return true;
}

// Asks which digit or letter an object is.
static bool ask_glyph(struct turns *t, const struct scene *s, int i, struct dice *d)
{
    struct query q;
    for (int k = 0; k < s->count && !s->objects[i].is.glyph; k++) i = (i + 1) % s->count;
    const struct object *o = &s->objects[i];
    if (!o->is.glyph || !referent(s, i, HAS_GLYPH, d, &q)) return false;
    const bool digit = o->is.shape == SHAPE_DIGIT;
    struct turn *turn = ask_about(t, "read", digit ? "Which digit is " : "Which letter is ", &q);
    buf_putc(&turn->answer, o->is.glyph);
    return true;
}

// Asks for a count: in a tenth of the questions, of a shape that does not occur. Otherwise picks
// each occurring number with equal probability, because most answers would be 1.
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
    if (dice_chance(d, 10)) { // the answer 0
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

// Asks on which side of another object an object is; the two differ in column or row.
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

// Asks which object is directly beside, above or below another one, if there is one.
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
        char *beginning = xasprintf("What is directly %s ", side);
        struct turn *turn = ask_about(t, "next", beginning, &q);
        free(beginning);
        q = object_query(o, HAS_NAME);
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
    static bool (*const others[])(struct turns *, const struct scene *, int, struct dice *) = {
        ask_glyph, ask_count, ask_side, ask_next, ask_background,
    };
    enum { KINDS = TRAITS + sizeof others / sizeof *others, WANTED = 6 };
    int order[KINDS], asked = 0;
    dice_shuffle(d, order, KINDS);
    for (int k = 0; k < KINDS && asked < WANTED; k++) {
        const int kind = order[k], i = dice_roll(d, s->count);
        asked += kind < TRAITS ? ask_trait(t, s, i, kind, d) : others[kind - TRAITS](t, s, i, d);
    }
}

// --- reasons ------------------------------------------------------------------------------------

// Comparisons and differences. The reason precedes "so" and the verdict, so that a small model can
// derive the verdict from its own words. The metric searches for "so VERDICT".
static void conclude(struct turn *turn, const char *verdict)
{
    buf_printf(&turn->answer, ", so %s", verdict);
    buf_printf(&turn->key, "so %s", verdict);
}

// Draws two queries that differ in one trait; sometimes one of them matches nothing.
static void draw_two(const struct scene *s, unsigned has, struct query two[2], struct dice *d)
{
    for (int k = 0; k < 2; k++) two[k] = object_query(&s->objects[dice_roll(d, s->count)], has);
    for (int tries = 0; tries < 6 && two[0].is.shape == two[1].is.shape && has == HAS_SHAPE;
         tries++)
        two[1] = object_query(&s->objects[dice_roll(d, s->count)], has);
    if (has == HAS_SHAPE && two[0].is.shape == two[1].is.shape)
        two[1].is.shape = (two[0].is.shape + 1 + dice_roll(d, SHAPES - 1)) % SHAPES;
    if (has == HAS_COLOUR && two[0].is.colour == two[1].is.colour)
        two[1].is.colour = (two[0].is.colour + 1 + dice_roll(d, COLOURS - 1)) % COLOURS;
}

static void compare(struct turns *t, const struct scene *s, unsigned has, struct dice *d)
{
    struct query two[2];
    draw_two(s, has, two, d);
    const bool swapped = dice_roll(d, 2);
    const struct query *first = &two[swapped], *second = &two[!swapped];
    const int a = query_count(first, s), b = query_count(second, s);
    struct turn *turn = turns_add(t, "reasoning", "contains");
    buf_puts(&turn->question, "Are there more ");
    put_query(&turn->question, first, true);
    buf_puts(&turn->question, " than ");
    put_query(&turn->question, second, true);
    buf_putc(&turn->question, '?');
    put_counted(&turn->answer, first, a);
    buf_puts(&turn->answer, " and ");
    put_counted(&turn->answer, second, b);
    conclude(turn, a > b ? "yes" : "no");
}

static void take_away(struct turns *t, const struct scene *s, struct dice *d)
{
    const struct query any = { 0 };
    const unsigned has = dice_roll(d, 2) ? HAS_SHAPE : HAS_COLOUR;
    const struct query q = object_query(&s->objects[dice_roll(d, s->count)], has);
    const int count = query_count(&q, s);
    struct turn *turn = turns_add(t, "reasoning", "contains");
    buf_puts(&turn->question, "How many objects are left without the ");
    put_query(&turn->question, &q, true);
    buf_putc(&turn->question, '?');
    put_counted(&turn->answer, &any, s->count);
    buf_puts(&turn->answer, " and ");
    put_counted(&turn->answer, &q, count);
    const char verdict[] = { (char)('0' + s->count - count), 0 };
    conclude(turn, verdict);
}

static void larger(struct turns *t, const struct scene *s, struct dice *d)
{
    int order[OBJECTS_MAX];
    struct query q[2];
    dice_shuffle(d, order, s->count);
    const struct object *a = &s->objects[order[0]], *b = NULL;
    for (int i = 1; i < s->count && !b; i++)
        if (s->objects[order[i]].is.size != a->is.size) {
            b = &s->objects[order[i]];
            if (!referent(s, order[i], HAS_SIZE, d, &q[1])) b = NULL;
        }
    if (!b || !referent(s, order[0], HAS_SIZE, d, &q[0])) return;
    struct turn *turn = turns_add(t, "reasoning", "contains");
    buf_puts(&turn->question, "Is ");
    put_the(&turn->question, &q[0]);
    buf_puts(&turn->question, " larger than ");
    put_the(&turn->question, &q[1]);
    buf_putc(&turn->question, '?');
    buf_printf(&turn->answer, "%s and %s", size_names[a->is.size], size_names[b->is.size]);
    conclude(turn, a->is.size > b->is.size ? "yes" : "no");
}

void ask_reasons(struct turns *t, const struct scene *s, struct dice *d)
{
    compare(t, s, dice_roll(d, 2) ? HAS_SHAPE : HAS_COLOUR, d);
    take_away(t, s, d);
    larger(t, s, d);
}
