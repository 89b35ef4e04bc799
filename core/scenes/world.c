// core/scenes/world.c -- draws a scene: the number of objects, their traits and places.
//
// Some scenes have a theme (a repeated shape or colour); otherwise counts above 2 would be rare. A
// sixth of the objects are drawn from the common kinds (a red circle, an orange square ...), so
// that this world has a prior and an evaluation can detect guesses from it.
#include "core/base/hash.h"
#include "core/base/random.h"
#include "core/scenes/scene.h"
#include "core/scenes/scenes.h"

static const uint8_t colour_rgb[COLOURS][3] = { { 222, 32, 38 },  { 250, 138, 10 },
                                                { 250, 226, 36 }, { 34, 164, 62 },
                                                { 48, 210, 226 }, { 36, 76, 228 },
                                                { 142, 48, 190 }, { 250, 150, 200 } };
static const uint8_t background_rgb[BACKGROUNDS][3] = {
    { 22, 22, 24 }, { 112, 114, 118 }, { 240, 240, 238 }, { 96, 62, 36 }
};

int dice_roll(struct dice *d, int sides)
{
    return (int)(random_bits(d->seed, RANDOM_SCENE, d->place++) % (unsigned)sides);
}

void dice_shuffle(struct dice *d, int *list, int count)
{
    for (int i = 0; i < count; i++) {
        const int j = dice_roll(d, i + 1);
        list[i] = i;
        list[i] = list[j];
        list[j] = i;
    }
}

int common_shape(int colour)
{
    return (colour + (colour >= COLOURS / 2)) % PLAIN_SHAPES;
}

static int draw_number(int most, struct dice *d)
{
    static const int percent[OBJECTS_MAX] = { 11, 16, 20, 19, 15, 11, 8 };
    int all = percent[0], number = 0;
    for (int i = 1; i < most; i++) all += percent[i];
    int left = dice_roll(d, all);
    while (left >= percent[number]) left -= percent[number++];
    return number + 1;
}

static void draw_shape(struct traits *is, struct dice *d)
{
    is->glyph = 0;
    is->colour = dice_roll(d, COLOURS);
    is->shape = dice_roll(d, PLAIN_SHAPES);
    const int special = dice_roll(d, 100);
    if (special < 16)
        is->shape = common_shape(is->colour);
    else if (special < 25)
        is->shape = SHAPE_DIGIT;
    else if (special < 34)
        is->shape = SHAPE_LETTER;
    if (is->shape == SHAPE_DIGIT) is->glyph = glyph_digits[dice_roll(d, DIGITS)];
    if (is->shape == SHAPE_LETTER) is->glyph = glyph_letters[dice_roll(d, LETTERS)];
}

static void jitter(uint8_t to[3], const uint8_t from[3], int by, struct dice *d)
{
    for (int c = 0; c < 3; c++) {
        const int value = from[c] + dice_roll(d, 2 * by + 1) - by;
        to[c] = (uint8_t)(value < 0 ? 0 : value > 255 ? 255 : value);
    }
}

// Draws size and position inside the cell; small objects have more freedom.
static void draw_body(struct object *o, struct dice *d)
{
    enum { PIXEL = SCENE_SIDE / 96, CELL = SCENE_SIDE / 3 };
    static const int least[SIZES] = { 13, 20, 29 }, free_way[SIZES] = { 7, 6, 5 };
    if (o->is.glyph && !o->is.size) o->is.size = 1; // a small glyph is illegible
    const int way = free_way[o->is.size] * PIXEL;
    o->radius = (least[o->is.size] * PIXEL + dice_roll(d, 3 * PIXEL)) / 2;
    int at[2] = { o->is.place % 3 * CELL + CELL / 2, o->is.place / 3 * CELL + CELL / 2 };
    for (int i = 0; i < 2; i++) {
        at[i] += dice_roll(d, 2 * way + 1) - way;
        if (at[i] < o->radius + PIXEL / 2) at[i] = o->radius + PIXEL / 2;
        if (at[i] > SCENE_SIDE - o->radius - PIXEL / 2) at[i] = SCENE_SIDE - o->radius - PIXEL / 2;
    }
    o->x = at[0];
    o->y = at[1];
    o->upright = dice_roll(d, 2);
    jitter(o->rgb, colour_rgb[o->is.colour], 14, d);
}

void scene_draw(struct scene *s, int most, struct dice *d)
{
    int layers[OBJECTS_MAX] = { 0 }, places[PLACES], leader = -1;
    *s = (struct scene){ .background = dice_roll(d, BACKGROUNDS), .count = draw_number(most, d) };
    jitter(s->rgb, background_rgb[s->background], 12, d);
    dice_shuffle(d, layers, s->count);
    dice_shuffle(d, places, PLACES);
    const int theme = dice_roll(d, 100); // repeats a shape, a colour, both or neither
    for (int place = 0, i = 0; place < PLACES; place++) {
        if (places[place] >= s->count) continue;
        struct object *o = &s->objects[i];
        draw_shape(&o->is, d);
        o->is.size = dice_roll(d, SIZES);
        o->is.place = place;
        o->layer = layers[i];
        if (leader < 0) {
            leader = i;
        } else if (dice_chance(d, 75)) {
            const struct traits *first = &s->objects[leader].is;
            if (theme < 35) {
                o->is.shape = first->shape;
                o->is.glyph = first->glyph;
            }
            if (theme >= 25 && theme < 55) o->is.colour = first->colour;
        }
        draw_body(o, d);
        i++;
    }
}

bool scene_in_world(const struct scene *s, int world)
{
    char hex[HASH_HEX];
    struct buf b = { 0 };
    put_description(&b, s);
    hash_hex(b.data, b.length, hex);
    buf_release(&b);
    return hex[0] == "0123456789abcdef"[world % SCENES_WORLDS];
}
