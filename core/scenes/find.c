// core/scenes/find.c -- lists of names: where is each? Some of them are nowhere in the picture.
//
// A list by place teaches what is at a place, one of names where a thing is: each name stands right
// before its answer, so that a model has only to find there what it has just read.
#include <string.h>

#include "core/scenes/scene.h"

enum { NAMES = 8, TRIES = 40 };

static struct query name_present(const struct scene *s, struct dice *d)
{
    static const unsigned ways[] = { HAS_SHAPE,
                                     HAS_COLOUR | HAS_SHAPE,
                                     HAS_COLOUR | HAS_SHAPE,
                                     HAS_COLOUR,
                                     HAS_SIZE | HAS_SHAPE,
                                     HAS_SIZE | HAS_COLOUR | HAS_SHAPE,
                                     HAS_SIZE | HAS_COLOUR };
    enum { WAYS = sizeof ways / sizeof *ways };
    unsigned has = ways[dice_roll(d, WAYS)];
    if (has & HAS_SHAPE && dice_chance(d, 60)) has |= HAS_GLYPH;
    return object_query(&s->objects[dice_roll(d, s->count)], has);
}

// Half of them have the shape of one object and the colour of another.
static struct query name_absent(const struct scene *s, struct dice *d)
{
    const int roll = dice_roll(d, 4);
    struct query q = roll == 0   ? absent_random(s, d)
                     : roll == 1 ? absent_popular(s, d)
                                 : absent_adversarial(s, d);
    if (dice_chance(d, 20)) {
        q.has |= HAS_SIZE;
        q.is.size = dice_roll(d, SIZES);
    }
    return q;
}

// A name may stand for two objects: "top and bottom left".
static void put_places(struct buf *b, const struct scene *s, const struct query *q)
{
    int told = 0;
    for (int i = 0; i < s->count; i++) {
        if (!query_matches(q, &s->objects[i])) continue;
        buf_printf(b, "%s%s", told++ ? " and " : "", place_names[s->objects[i].is.place]);
    }
    if (!told) buf_puts(b, "nowhere");
}

static bool known(const struct buf *names, int count, const struct buf *name)
{
    for (int i = 0; i < count; i++)
        if (!strcmp(names[i].data, name->data)) return true;
    return false;
}

void describe_finds(struct turns *t, const struct scene *s, struct dice *d)
{
    static const char *const asks[] = { "Where is each of these?", "Where are these?",
                                        "Find these.", "In which place is each of these?" };
    struct buf names[NAMES] = { 0 };
    struct turn *turn = turns_add(t, "finds", "exact");
    buf_puts(&turn->question, asks[dice_roll(d, 4)]);
    for (int i = 0, told = 0; i < TRIES && told < NAMES; i++) {
        const struct query q = dice_chance(d, 60) ? name_present(s, d) : name_absent(s, d);
        struct buf *name = &names[told];
        buf_clear(name);
        put_query(name, &q, false);
        if (query_count(&q, s) > 2 || known(names, told, name)) continue;
        buf_printf(&turn->question, "%s %s", told ? "," : "", name->data);
        buf_printf(&turn->answer, "%s%s: ", told++ ? "; " : "", name->data);
        put_places(&turn->answer, s, &q);
    }
    for (int i = 0; i < NAMES; i++) buf_release(&names[i]);
}
