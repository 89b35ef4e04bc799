// core/scenes/describe.c -- descriptions of a scene: a caption, lists of all objects, a paragraph.
#include "core/scenes/scene.h"

enum { FULL_NAME = HAS_NAME | HAS_SIZE };

static const char *pick(const char *const *list, int count, struct dice *d)
{
    return list[dice_roll(d, count)];
}

// Names equal objects once, with their number, in reading order: "a red circle, 2 blue stars and a
// green digit 7".
void describe_caption(struct turns *t, const struct scene *s, struct dice *d)
{
    static const char *const asks[] = { "What is in the picture?", "Describe the picture briefly.",
                                        "Give a short caption.", "What do you see?" };
    struct turn *turn = turns_add(t, "caption", "exact");
    buf_puts(&turn->question, pick(asks, 4, d));
    int names = 0, named = 0;
    struct query list[OBJECTS_MAX];
    for (int i = 0; i < s->count; i++) {
        bool known = false;
        for (int k = 0; k < names; k++) known |= query_matches(&list[k], &s->objects[i]);
        if (!known) list[names++] = object_query(&s->objects[i], HAS_NAME);
    }
    for (; named < names; named++) {
        const int count = query_count(&list[named], s);
        buf_puts(&turn->answer, !named ? "" : named + 1 == names ? " and " : ", ");
        if (count == 1)
            put_article(&turn->answer, &list[named]);
        else
            put_counted(&turn->answer, &list[named], count);
    }
}

// Lists all places: "top left: small red circle; top: nothing; ...".
static void put_places(struct buf *b, const struct scene *s)
{
    for (int place = 0, i = 0; place < PLACES; place++) {
        buf_printf(b, "%s%s: ", place ? "; " : "", place_names[place]);
        if (i == s->count || s->objects[i].is.place != place) {
            buf_puts(b, "nothing");
            continue;
        }
        const struct query q = object_query(&s->objects[i++], FULL_NAME);
        put_query(b, &q, false);
    }
}

// Lists everything that questions ask about, including the background.
void describe_whole(struct turns *t, const struct scene *s)
{
    struct turn *turn = turns_add(t, "whole", "exact");
    buf_puts(&turn->question, "List the background and all places.");
    buf_printf(&turn->answer, "background: %s; ", background_names[s->background]);
    put_places(&turn->answer, s);
}

// Writes how many objects have a given shape, colour or size, then the other traits of each: "2
// small red top, large blue left".
static void put_group(struct buf *b, const struct scene *s, const struct query *group)
{
    const int count = query_count(group, s);
    buf_printf(b, "%d", count);
    for (int i = 0, told = 0; told < count; i++) {
        const struct object *o = &s->objects[i];
        if (!query_matches(group, o)) continue;
        if (told++) buf_putc(b, ',');
        if (!(group->has & HAS_SIZE)) buf_printf(b, " %s", size_names[o->is.size]);
        if (!(group->has & HAS_COLOUR)) buf_printf(b, " %s", colour_names[o->is.colour]);
        if (!(group->has & HAS_SHAPE)) buf_printf(b, " %s", shape_names[o->is.shape]);
        if (o->is.glyph) buf_printf(b, " %c", o->is.glyph);
        buf_printf(b, " %s", place_names[o->is.place]);
    }
}

// `has`: the trait that `names` lists, HAS_SHAPE, HAS_COLOUR or HAS_SIZE.
static void describe_groups(struct turns *t, const struct scene *s, const char *kind,
                            const char *question, unsigned has, const char *const *names, int count)
{
    struct turn *turn = turns_add(t, kind, "exact");
    buf_puts(&turn->question, question);
    for (int i = 0; i < count; i++) {
        const struct query q = { .has = has, .is = { .shape = i, .colour = i, .size = i } };
        buf_printf(&turn->answer, "%s%s: ", i ? "; " : "", names[i]);
        put_group(&turn->answer, s, &q);
    }
}

// Lists all objects in four orders. The first list answers "what is where?", the others "which are
// red, how many, and where?", so that a model learns to look up by place and by content.
void describe_dense(struct turns *t, const struct scene *s, struct dice *d)
{
    static const char *const asks[] = { "Name what is at every place.", "List all places.",
                                        "What is at each place of the picture?" };
    struct turn *turn = turns_add(t, "dense", "exact");
    buf_puts(&turn->question, pick(asks, 3, d));
    put_places(&turn->answer, s);
    describe_groups(t, s, "by-shape", "List all shapes.", HAS_SHAPE, shape_names, SHAPES);
    describe_groups(t, s, "by-colour", "List all colours.", HAS_COLOUR, colour_names, COLOURS);
    describe_groups(t, s, "by-size", "List all sizes.", HAS_SIZE, size_names, SIZES);
}

void describe_detail(struct turns *t, const struct scene *s, struct dice *d)
{
    static const char *const asks[] = { "Describe the picture in detail.",
                                        "Describe everything you see.",
                                        "Write a detailed description." };
    const struct query any = { 0 };
    struct turn *turn = turns_add(t, "detail", "exact");
    buf_puts(&turn->question, pick(asks, 3, d));
    buf_printf(&turn->answer, "The background is %s. The picture has ",
               background_names[s->background]);
    put_counted(&turn->answer, &any, s->count);
    buf_putc(&turn->answer, '.');
    for (int i = 0; i < s->count; i++) {
        const struct query q = object_query(&s->objects[i], FULL_NAME);
        buf_puts(&turn->answer, q.is.place == PLACES / 2 ? " In the " : " At the ");
        buf_printf(&turn->answer, "%s is ", place_names[q.is.place]);
        put_article(&turn->answer, &q);
        buf_putc(&turn->answer, '.');
    }
}
