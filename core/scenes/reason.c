// core/scenes/reason.c -- comparisons and sums. The reason comes first, "so" and the verdict last:
// a small model can then read the verdict off its own words. The metric looks for "so VERDICT".
#include "core/scenes/scene.h"

static void conclude(struct turn *turn, const char *verdict)
{
    buf_printf(&turn->answer, ", so %s", verdict);
    buf_printf(&turn->key, "so %s", verdict);
}

// Two kinds that are told apart by one trait: objects of the scene, sometimes one that is absent.
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
    if (dice_roll(d, 2)) {
        const struct query first = two[0];
        two[0] = two[1];
        two[1] = first;
    }
    const int a = query_count(&two[0], s), b = query_count(&two[1], s);
    struct turn *turn = turns_add(t, "reasoning", "contains");
    buf_puts(&turn->question, "Are there more ");
    put_query(&turn->question, &two[0], true);
    buf_puts(&turn->question, " than ");
    put_query(&turn->question, &two[1], true);
    buf_putc(&turn->question, '?');
    put_counted(&turn->answer, &two[0], a);
    buf_puts(&turn->answer, " and ");
    put_counted(&turn->answer, &two[1], b);
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
    buf_puts(&turn->question, "Is the ");
    put_query(&turn->question, &q[0], false);
    buf_puts(&turn->question, " larger than the ");
    put_query(&turn->question, &q[1], false);
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
