// tests/core/draw/heatmap_words.c -- core/draw/heatmap_words.c: where the values of a map are, in
// words.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/draw/heatmap_words.h"
#include "core/picture/boxes.h"
#include "core/picture/image.h"

enum { SIDE = 6 };

static void says(const struct event_heatmap *h, const struct boxes *objects, const char *text)
{
    struct buf b = { 0 };
    buf_puts(&b, "");
    heatmap_say(h, objects, &b);
    assert_string_equal(b.data, text);
    buf_release(&b);
}

static struct event_heatmap map_of(float *values, float at)
{
    for (int i = 0; i < SIDE * SIDE; i++) values[i] = at;
    return (struct event_heatmap){ .name = "attention",
                                   .unit = "share of attention",
                                   .rows = SIDE,
                                   .cols = SIDE,
                                   .values = values,
                                   .max = 1 };
}

static void ninths_of_the_picture(void **state)
{
    float v[SIDE * SIDE];
    struct event_heatmap h = map_of(v, 0.0f);
    says(&h, NULL, "highest: left (mean 0); lowest: upper right (mean 0)");
    v[0] = 0.6f;
    v[SIDE * SIDE - 1] = 0.2f;
    says(&h, NULL, "looks at: upper left 75%, lower right 25%");
    h.unit = "nats";
    says(&h, NULL, "mostly in: upper left 75%, lower right 25%");
    v[0] = NAN;
    says(&h, NULL, "mostly in: lower right 100%");
    v[2 * SIDE + 2] = -1;
    says(&h, NULL, "highest: lower right (mean 0.05); lowest: middle (mean -0.25)");
    for (int i = 0; i < SIDE * SIDE; i++) v[i] = NAN;
    says(&h, NULL, "");
}

// The map of a tile that covers the picture's right half: the ninths are those of the whole
// picture.
static void tiles_and_objects(void **state)
{
    float v[SIDE * SIDE];
    struct event_heatmap h = map_of(v, 0.0f);
    const struct image image = { .width = 120, .height = 60, .channels = 3 };
    char dog[] = "the dog", cat[] = "a cat", none[] = "";
    struct picture_box list[] = { { .label = cat, .x = 0, .y = 0, .w = 30, .h = 30 },
                                  { .label = dog, .x = 100, .y = 40, .w = 20, .h = 20 },
                                  { .label = none, .x = 60, .y = 0, .w = 60, .h = 60 },
                                  { .label = dog, .x = 110, .y = 50, .point = true } };
    const struct boxes boxes = { .list = list, .count = 4 };
    h.image = &image;
    h.area[0] = 60, h.area[2] = 120, h.area[3] = 60;
    v[SIDE * SIDE - 1] = 0.5f; // pixels 110 to 120, 50 to 60
    v[0] = 0.5f;               // pixels 60 to 70, 0 to 10
    says(&h, &boxes, "looks at: the dog 50%, lower right 50%, upper middle 50%");
}

static void other_maps_have_axes(void **state)
{
    float v[SIDE * SIDE];
    struct event_heatmap h = map_of(v, 0.0f);
    h.axes[0] = "layer";
    h.axes[1] = "head";
    v[3 * SIDE + 4] = 0.85f;
    says(&h, NULL, "highest: layer 3, head 4: 0.85");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ninths_of_the_picture),
        cmocka_unit_test(tiles_and_objects),
        cmocka_unit_test(other_maps_have_axes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
