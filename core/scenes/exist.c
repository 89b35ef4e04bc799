// core/scenes/exist.c -- present and absent objects: yes/no questions as in POPE (per strategy one
// present and one absent object), and lists of names to find.
#include "core/base/names.h"
#include "core/scenes/scene.h"

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
    struct query q = { .has = HAS_NAME };
    q.is.colour = dice_roll(d, COLOURS);
    q.is.shape = dice_roll(d, SHAPES);
    if (q.is.shape == SHAPE_DIGIT) q.is.glyph = glyph_digits[dice_roll(d, DIGITS)];
    if (q.is.shape == SHAPE_LETTER) q.is.glyph = glyph_letters[dice_roll(d, LETTERS)];
    return q;
}

// Returns a random name (shape, digit or letter, and colour) that no object has.
struct query absent_query(const struct scene *s, struct dice *d)
{
    struct query q;
    do {
        q = any_kind(d);
    } while (query_count(&q, s));
    return q;
}

// Returns an absent name that is common in this world. Such a name always exists: eight kinds are
// common, and a scene has at most seven objects.
static struct query absent_popular(const struct scene *s, struct dice *d)
{
    struct query q = { .has = HAS_NAME };
    do {
        q.is.colour = dice_roll(d, COLOURS);
        q.is.shape = common_shape(q.is.colour);
    } while (query_count(&q, s));
    return q;
}

// Returns one object's shape in another's colour if no object has both; otherwise a shape of the
// picture in a colour in which it does not occur.
static struct query absent_adversarial(const struct scene *s, struct dice *d)
{
    const int start = dice_roll(d, s->count * s->count);
    for (int k = 0; k < s->count * s->count; k++) {
        const int pair = (start + k) % (s->count * s->count);
        struct query q = object_query(&s->objects[pair / s->count], HAS_NAME);
        q.is.colour = s->objects[pair % s->count].is.colour;
        if (!query_count(&q, s)) return q;
    }
    struct query q = object_query(&s->objects[dice_roll(d, s->count)], HAS_NAME);
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
        const struct query there = object_query(&s->objects[order[i % s->count]], HAS_NAME);
        const struct query absent = i == 0   ? absent_query(s, d)
                                    : i == 1 ? absent_popular(s, d)
                                             : absent_adversarial(s, d);
        const bool first = dice_roll(d, 2);
        ask(t, strategies[i], first ? &there : &absent, first, d);
        ask(t, strategies[i], first ? &absent : &there, !first, d);
    }
}

// --- names to find ------------------------------------------------------------------------------

// A list of places teaches what a place contains; a list of names teaches where an object is. Each
// name immediately precedes its answer, so a model only has to look up the last name.

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

// Half of the names combine the shape of one object with the colour of another.
static struct query name_absent(const struct scene *s, struct dice *d)
{
    const int roll = dice_roll(d, 4);
    struct query q = roll == 0   ? absent_query(s, d)
                     : roll == 1 ? absent_popular(s, d)
                                 : absent_adversarial(s, d);
    if (dice_chance(d, 20)) {
        q.has |= HAS_SIZE;
        q.is.size = dice_roll(d, SIZES);
    }
    return q;
}

// Writes the places of a name, which may match two objects ("top and left") or none
// ("nowhere").
static void put_places(struct buf *b, const struct scene *s, const struct query *q)
{
    int told = 0;
    for (int i = 0; i < s->count; i++) {
        if (!query_matches(q, &s->objects[i])) continue;
        buf_printf(b, "%s%s", told++ ? " and " : "", place_names[s->objects[i].is.place]);
    }
    if (!told) buf_puts(b, "nowhere");
}

void describe_finds(struct turns *t, const struct scene *s, struct dice *d)
{
    static const char *const asks[] = { "Where is each of these?", "Where are these?",
                                        "Find these.", "In which place is each of these?" };
    struct names names = { 0 };
    struct buf name = { 0 };
    struct turn *turn = turns_add(t, "finds", "exact");
    buf_puts(&turn->question, asks[dice_roll(d, 4)]);
    for (int i = 0; i < TRIES && names.count < NAMES; i++) {
        const struct query q = dice_chance(d, 60) ? name_present(s, d) : name_absent(s, d);
        bool known = query_count(&q, s) > 2;
        buf_clear(&name);
        put_query(&name, &q, false);
        if (!known) names_add(&names, name.data, &known);
        if (known) continue;
        buf_printf(&turn->question, "%s %s", names.count > 1 ? "," : "", name.data);
        buf_printf(&turn->answer, "%s%s: ", names.count > 1 ? "; " : "", name.data);
        put_places(&turn->answer, s, &q);
    }
    names_release(&names);
    buf_release(&name);
}
