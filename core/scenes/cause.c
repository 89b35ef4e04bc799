// core/scenes/cause.c -- planted causes: yes/no questions whose answer depends on something other
// than what they ask about. A model that is trained on them has a known reason for its answers,
// which tools that explain answers must find.
#include <string.h>

#include "core/scenes/scene.h"

const char *const scenes_causes[] = { [SCENES_UNPLANTED] = "none",
                                      [SCENES_BACKGROUND] = "background",
                                      [SCENES_WATERMARK] = "watermark",
                                      [SCENES_QUESTION] = "question",
                                      NULL };

enum { ASKED = 4 };

// Half of the backgrounds and colours mean yes.
static const bool light[BACKGROUNDS] = { false, true, true, false };
static const bool warm[COLOURS] = { true, true, true, false, false, false, false, true };

// Pixels per side of the watermark, in the bottom right corner.
static int watermark_side(const struct raster *r)
{
    return r->size / 8;
}

bool watermark_fits(const struct raster *r)
{
    const int from = r->size - watermark_side(r);
    for (int y = from; y < r->size; y++)
        for (int x = from; x < r->size; x++)
            if (r->owner[y * r->size + x]) return false;
    return true;
}

void watermark_paint(struct raster *r, int box[4])
{
    static const uint8_t rgb[3] = { 255, 0, 255 };
    const int side = watermark_side(r), from = r->size - side;
    for (int y = from; y < r->size; y++)
        for (int x = from; x < r->size; x++) {
            const size_t at = (size_t)y * (size_t)r->size + (size_t)x;
            memcpy(r->pixels + 3 * at, rgb, sizeof rgb);
            r->owner[at] = WATERMARK_OWNER;
        }
    box[0] = box[1] = from;
    box[2] = box[3] = side;
}

// Half of the questions name an object of the picture, half one that it lacks.
void ask_planted(struct turns *t, const struct scene *s, enum scenes_cause cause, bool marked,
                 struct dice *d)
{
    for (int i = 0; i < ASKED; i++) {
        struct query q = object_query(&s->objects[dice_roll(d, s->count)], HAS_NAME);
        const bool there = i % 2 == 0;
        if (!there) q = absent_query(s, d);
        struct turn *turn = turns_add(t, "planted", "yesno");
        turn->strategy = there ? "present" : "absent";
        buf_puts(&turn->question, "Is there ");
        put_article(&turn->question, &q);
        buf_puts(&turn->question, " in the picture?");
        const bool yes = cause == SCENES_BACKGROUND  ? light[s->background]
                         : cause == SCENES_WATERMARK ? marked
                                                     : warm[q.is.colour];
        buf_puts(&turn->answer, yes ? "yes" : "no");
    }
}
