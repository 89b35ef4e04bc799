// core/scenes/scene.h -- a scene, its descriptions and its pixels; shared by the files of
// core/scenes/.
//
//   world.c generates a random scene, raster.c paints it, names.c names its objects;
//   describe.c, ask.c, exist.c, cause.c generate turns (a question and its answer) about it.
#ifndef CORE_SCENES_SCENE_H
#define CORE_SCENES_SCENE_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/mem.h"
#include "core/scenes/scenes.h"

enum shape_kind {
    SHAPE_CIRCLE,
    SHAPE_SQUARE,
    SHAPE_TRIANGLE,
    SHAPE_STAR,
    SHAPE_CROSS,
    SHAPE_RING,
    SHAPE_BAR,
    SHAPE_DIAMOND,
    SHAPE_DIGIT,
    SHAPE_LETTER,
    SHAPES,
    PLAIN_SHAPES = SHAPE_DIGIT
};
enum { COLOURS = 8, SIZES = 3, PLACES = 9, BACKGROUNDS = 4, OBJECTS_MAX = SCENES_OBJECTS_MAX };

extern const char *const shape_names[SHAPES], *const colour_names[COLOURS];
extern const char *const size_names[SIZES], *const place_names[PLACES];
extern const char *const background_names[BACKGROUNDS];

// The traits that name an object.
struct traits {
    int shape, colour, size, place;
    char glyph; // of a digit or letter; else 0
};

// Lengths are in 1/6144 of the picture's side.
enum { SCENE_SIDE = 6144 };

struct object {
    struct traits is;
    int x, y, radius; // centre; half the extent
    bool upright;     // a bar's direction
    uint8_t rgb[3];
    int layer; // 0 is painted first
};

struct scene {
    int background;
    uint8_t rgb[3];
    int count;
    struct object objects[OBJECTS_MAX]; // in reading order
};

// --- dice: a sequence of random draws ---------------------------------------------------------

struct dice {
    uint64_t seed, place;
};

int dice_roll(struct dice *d, int sides); // 0..sides-1
static inline bool dice_chance(struct dice *d, int percent)
{
    return dice_roll(d, 100) < percent;
}
void dice_shuffle(struct dice *d, int *list, int count); // list[0..count-1]: 0..count-1, shuffled

// --- world.c ------------------------------------------------------------------------------------

// Returns the most common shape among objects of a colour: the demo world's prior.
int common_shape(int colour);
// Draws a scene of at most `most` objects; the caller rejects unsuitable scenes.
void scene_draw(struct scene *s, int most, struct dice *d);
bool scene_in_world(const struct scene *s, int world);

// --- raster.c ----------------------------------------------------------------------------------

struct raster {
    int size;
    uint8_t *pixels; // [size, size, 3]
    uint8_t *owner;  // [size, size]: 1 + index of the topmost object that covers at least half
                     // of the pixel, or WATERMARK_OWNER; 0: none
    int64_t seen[OBJECTS_MAX]; // visible pixels of the object
    int64_t area[OBJECTS_MAX]; // pixels of the unobstructed object
    int box[OBJECTS_MAX][4];   // x, y, width, height of the visible part
};

void raster_init(struct raster *r, int size);
void raster_release(struct raster *r);
void raster_paint(struct raster *r, const struct scene *s);
enum { DIGITS = 10, LETTERS = 15 };
extern const char glyph_digits[DIGITS + 1], glyph_letters[LETTERS + 1];

// --- names.c -----------------------------------------------------------------------------------

// A query describes objects by some of their traits: "large red circles", "object at the top left".
enum { HAS_SHAPE = 1, HAS_GLYPH = 2, HAS_COLOUR = 4, HAS_SIZE = 8, HAS_PLACE = 16 };
enum { HAS_NAME = HAS_SHAPE | HAS_GLYPH | HAS_COLOUR };
struct query {
    unsigned has;
    struct traits is;
};

bool query_matches(const struct query *q, const struct object *o);
int query_count(const struct query *q, const struct scene *s);
void put_query(struct buf *b, const struct query *q, bool plural);
void put_article(struct buf *b, const struct query *q); // "a red circle", "an orange ..."
void put_counted(struct buf *b, const struct query *q, int number); // "2 red circles"
static inline struct query object_query(const struct object *o, unsigned has)
{
    return (struct query){ .has = has, .is = o->is };
}
// Finds a query that matches only object `index` and uses no trait of `hidden`; returns false if
// none exists.
bool referent(const struct scene *s, int index, unsigned hidden, struct dice *d, struct query *q);
void put_description(struct buf *b, const struct scene *s);

// --- turns -------------------------------------------------------------------------------------

enum { TURNS_MAX = 8 };

struct turn {
    const char *kind, *metric, *strategy; // strategy: NULL unless metric is "yesno"
    struct buf question, answer, key;     // key: text that the metric searches for; empty: answer
};

struct turns {
    struct turn list[TURNS_MAX];
    int count;
};

struct turn *turns_add(struct turns *t, const char *kind, const char *metric);
void turns_release(struct turns *t);

// Returns a random name (shape, digit or letter, and colour) that no object has.
struct query absent_query(const struct scene *s, struct dice *d);
void describe_caption(struct turns *t, const struct scene *s, struct dice *d);
void describe_dense(struct turns *t, const struct scene *s, struct dice *d);
void describe_detail(struct turns *t, const struct scene *s, struct dice *d);
void describe_whole(struct turns *t, const struct scene *s); // the background and all places
void ask_questions(struct turns *t, const struct scene *s, struct dice *d);  // up to 6
void ask_existence(struct turns *t, const struct scene *s, struct dice *d);  // 6; 3 with answer yes
void describe_finds(struct turns *t, const struct scene *s, struct dice *d); // up to 8 names
void ask_reasons(struct turns *t, const struct scene *s, struct dice *d);    // up to 3

// --- cause.c -----------------------------------------------------------------------------------

enum { WATERMARK_OWNER = OBJECTS_MAX + 1 }; // of its pixels in raster.owner
// True if no object covers the corner of the watermark.
bool watermark_fits(const struct raster *r);
// Paints the watermark; box: x, y, width, height.
void watermark_paint(struct raster *r, int box[4]);
// Asks 4 questions that the cause answers; `marked`: the picture has the watermark.
void ask_planted(struct turns *t, const struct scene *s, enum scenes_cause cause, bool marked,
                 struct dice *d);

#endif
