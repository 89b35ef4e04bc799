// core/picture/boxes.h -- boxes and points in answers, in pixels of the original picture.
//
//   struct boxes b = { 0 };
//   boxes_read(&b, answer, box_style_named("qwen2.5-vl"), &config, width, height);
//   ... b.list[0].x ...
//   boxes_release(&b);
//
// All formats are read for every family: JSON ("bbox_2d", "point_2d"), lists of four numbers, the
// marks of all families. The reasoning in an answer is skipped. Only the unit of the numbers
// depends on the family, unless the marks determine the unit (<loc0123>, <point x="61.5" ...>).
#ifndef CORE_PICTURE_BOXES_H
#define CORE_PICTURE_BOXES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cjson/cJSON.h>

struct image;
struct picture_config;

enum box_unit {
    BOX_GUESS,  // by the largest number: shares up to 1.5, thousandths up to 1000, else pixels
    BOX_SHARES, // 0 to 1 of the picture
    BOX_PADDED, // 0 to 1 of a square with the picture in its middle
    BOX_SEEN, // 0 to 1 of what the encoder sees: the padded square, the crop, or the whole picture
    BOX_PERCENT,     // 0 to 100 of the picture
    BOX_BINS,        // 0 to 1023 of the picture, vertical coordinates first
    BOX_999,         // 0 to 999 of the picture
    BOX_THOUSANDTHS, // 0 to 1000 of the picture
    BOX_RESIZED,     // pixels of the resized picture
    BOX_PIXELS,      // pixels of the original
};

// How a family writes boxes. `box` and `point` are templates with the placeholders LABEL (the
// object's name) and X1, Y1, X2, Y2 (the coordinates).
struct box_style {
    const char *name;
    enum box_unit unit;
    int decimals; // decimal places of the numbers
    const char *box;
    const char *point; // NULL: not known
    const char *of;    // the models that use this style
};

extern const struct box_style box_styles[]; // ended by a row without a name
extern const char *const box_choices[];     // "auto" and the styles' names, for image.boxes
const struct box_style *box_style_named(const char *name); // NULL: unknown
const char *box_unit_text(enum box_unit unit);

struct picture_box {
    char *label;       // "": none
    double x, y, w, h; // pixels of the original, within it; w and h of a point are 0
    bool point;
};

struct boxes {
    struct picture_box *list; // [count], in the order of the answer
    size_t count;
    size_t outside; // boxes and points left out, because they are empty, do not fit the unit or
                    // lie outside the picture
};

// Reads all boxes and points of a text. config: the preprocessing of the picture, for BOX_SEEN and
// BOX_RESIZED; NULL: no preprocessing, so the encoder sees the whole picture at its own size.
void boxes_read(struct boxes *b, const char *text, const struct box_style *style,
                const struct picture_config *config, int64_t width, int64_t height);
void boxes_copy(struct boxes *to, const struct boxes *from);
void boxes_release(struct boxes *b);
// Returns a box as {"label", "x", "y", "w", "h"}, a point as {"label", "x", "y"}.
cJSON *box_json(const struct picture_box *box);
// Reads a list of objects in the format of box_json; leaves out all other items.
void boxes_from_json(struct boxes *b, const cJSON *list);
// Returns the RGB colour of box i, the same in all drawings.
uint32_t box_colour(size_t i);
// Draws the outlines of boxes, and points, on `image`, the picture at any size; width and height
// are those of the original.
void boxes_paint(struct image *image, const struct boxes *b, int64_t width, int64_t height);

#endif
