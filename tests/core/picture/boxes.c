// tests/core/picture/boxes.c -- core/picture/boxes.c: the true boxes of scenes written in every
// style whose unit is known and read again, answers of many forms, mapping to the original picture.
#include "core/picture/boxes.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/mem.h"
#include "core/picture/preprocess.h"
#include "core/scenes/scene.h"
#include "tests/core/quick.h"

static const struct picture_config padded = {
    .square = true, .resize = true, .crop = true, .shortest = 336, .width = 336, .height = 336
};
static const struct picture_config cropped = { .fit = FIT_SHORTEST_CROP,
                                               .resize = true,
                                               .crop = true,
                                               .shortest = 336,
                                               .width = 336,
                                               .height = 336 };
static const struct picture_config native = { .fit = FIT_NATIVE,
                                              .resize = true,
                                              .multiple = 28,
                                              .min_pixels = 3136,
                                              .max_pixels = 12845056,
                                              .frames = 1 };

// --- the scenes' true boxes ----------------------------------------------------------------------

// The number with which a model of this style describes an edge at `at` of `size` pixels (axis 0:
// x), by the definition of the unit.
static double number_of(enum box_unit unit, double at, const int64_t size[2],
                        const int64_t resized[2], int axis)
{
    const double side = (double)size[axis],
                 longest = (double)(size[0] > size[1] ? size[0] : size[1]);
    switch (unit) {
    case BOX_SEEN:
    case BOX_PADDED: return (at + (longest - side) / 2) / longest;
    case BOX_PERCENT: return 100 * at / side;
    case BOX_BINS: return 1023 * at / side;
    case BOX_999: return 999 * at / side;
    case BOX_THOUSANDTHS: return 1000 * at / side;
    case BOX_RESIZED: return at * (double)resized[axis] / side;
    case BOX_PIXELS: return at;
    default: return at / side;
    }
}

static char *written(const struct box_style *s, const char *form, const char *label,
                     const double *n)
{
    struct buf b = { 0 };
    static const char *const names[] = { "X1", "Y1", "X2", "Y2" };
    while (*form) {
        int i = 0;
        while (i < 4 && strncmp(form, names[i], 2) != 0) i++;
        if (i < 4 && s->unit == BOX_BINS)
            buf_printf(&b, "%04d", (int)lround(n[i]));
        else if (i < 4)
            buf_printf(&b, "%.*f", s->decimals, n[i]);
        else if (!strncmp(form, "LABEL", 5))
            buf_puts(&b, label);
        else
            buf_putc(&b, *form);
        form += i < 4 ? 2 : !strncmp(form, "LABEL", 5) ? 5 : 1;
    }
    return buf_take(&b);
}

static void check_scene(const struct box_style *s, const int box[4], int left, int top,
                        const int64_t size[2])
{
    const struct picture_config *c = s->unit == BOX_RESIZED ? &native : &padded;
    int64_t resized[2];
    double n[4];
    struct boxes got;
    struct err err;
    assert_int_equal(preprocess_size(&native, size[0], size[1], &resized[0], &resized[1], &err), 0);
    const double corner[2] = { box[0] + left, box[1] + top };
    for (int i = 0; i < 4; i++)
        n[i] = number_of(s->unit, corner[i % 2] + (i > 1 ? box[i] : 0), size, resized, i % 2);
    // The numbers are rounded by at most half of the last decimal.
    const double longest = (double)(size[0] > size[1] ? size[0] : size[1]);
    const double unit =
        number_of(s->unit, longest, (int64_t[2]){ (int64_t)longest, (int64_t)longest },
                  (int64_t[2]){ resized[0] < resized[1] ? resized[0] : resized[1], resized[1] }, 0);
    const double slack = 0.51 * pow(10, -s->decimals) * longest / unit;
    for (int point = 0; point < 2; point++) {
        const char *form = point ? s->point : s->box;
        if (!form) continue;
        char *text = written(s, form, "green letter H", n);
        boxes_read(&got, text, s, c, size[0], size[1]);
        if (got.count != 1) fail_msg("%s: %zu boxes in '%s'", s->name, got.count, text);
        const struct picture_box *b = &got.list[0];
        assert_int_equal(b->point, point);
        if (strstr(form, "LABEL")) assert_string_equal(b->label, "green letter H");
        if (fabs(b->x - corner[0]) > slack || fabs(b->y - corner[1]) > slack ||
            (!point && (fabs(b->x + b->w - corner[0] - box[2]) > slack ||
                        fabs(b->y + b->h - corner[1] - box[3]) > slack)))
            fail_msg("%s: '%s' is %g %g %g %g, not %g %g %d %d within %g", s->name, text, b->x,
                     b->y, b->w, b->h, corner[0], corner[1], box[2], box[3], slack);
        boxes_release(&got);
        free(text);
    }
}

// Square, wide and high pictures: each contains the scene at a known position.
static void scenes_survive_every_style(void **state)
{
    static const struct {
        int size, left, top;
        int64_t width, height;
    } places[] = { { 96, 0, 0, 96, 96 },
                   { 448, 0, 0, 448, 448 },
                   { 320, 300, 60, 1000, 400 },
                   { 320, 33, 517, 399, 901 },
                   { 640, 700, 100, 1920, 1080 } };
    for (size_t p = 0; p < sizeof places / sizeof *places; p++) {
        const int64_t size[2] = { places[p].width, places[p].height };
        struct raster r;
        raster_init(&r, places[p].size);
        for (uint64_t seed = 1; seed < 6; seed++) {
            struct scene scene;
            scene_draw(&scene, OBJECTS_MAX, &(struct dice){ .seed = seed });
            raster_paint(&r, &scene);
            for (int i = 0; i < scene.count; i++)
                for (const struct box_style *s = box_styles; s->name && r.seen[i]; s++)
                    if (s->unit != BOX_GUESS)
                        check_scene(s, r.box[i], places[p].left, places[p].top, size);
        }
        raster_release(&r);
    }
}

// --- answers -------------------------------------------------------------------------------------

// Expects "label x y w h; ...", points without w and h; then the number of boxes outside of the
// picture.
static void expect(const char *style, const struct picture_config *c, int64_t width, int64_t height,
                   const char *answer, const char *want)
{
    struct boxes got;
    struct buf b = { 0 };
    boxes_read(&got, answer, box_style_named(style), c, width, height);
    for (size_t i = 0; i < got.count; i++) {
        const struct picture_box *x = &got.list[i];
        buf_printf(&b, "%s%s %.4g %.4g", i ? "; " : "", x->label, x->x, x->y);
        if (!x->point) buf_printf(&b, " %.4g %.4g", x->w, x->h);
    }
    buf_printf(&b, " /%zu", got.outside);
    if (strcmp(b.data, want) != 0)
        fail_msg("%s: '%s'\n got %s\nwant %s", style, answer, b.data, want);
    buf_release(&b);
    boxes_release(&got);
}

static void answers_of_many_forms(void **state)
{
    static const struct {
        const char *style, *answer, *want;
    } cases[] = {
        { "internvl", "<ref>a dog</ref><box>[[100, 200, 300, 400], [0, 0, 1000, 1000]]</box>",
          "a dog 200 200 400 200; a dog 0 0 2000 1000 /0" },
        { "internvl", "<ref>a</ref><box>[[1,2,3,4]]</box> and <ref>b</ref><box>[[5,6,7,8]]</box>",
          "a 2 2 4 2; b 10 6 4 2 /0" },
        { "qwen3-vl",
          "```json\n[\n\t{\"bbox_2d\": [100, 200, 300, 400], \"label\": \"a \\\"red\\\" dog\"},\n"
          "\t{\"label\": \"cat\", \"bbox_2d\": [0, 0, 10, 10]}\n]\n```",
          "a \"red\" dog 200 200 400 200; cat 0 0 20 10 /0" },
        { "qwen3-vl", "[{\"bbox_2d\": [100, 200, 300, 400], \"label\": \"cut o",
          " 200 200 400 200 /0" },
        { "qwen3-vl", "{\"point_2d\": [500, 500], \"label\": \"nose\"}", "nose 1000 500 /0" },
        { "qwen3-vl", "{\"dog\": [100, 200, 300, 400]}", "dog 200 200 400 200 /0" },
        { "glm-4.1v",
          "<think>first [[1,1,2,2]], no</think><answer><|begin_of_box|>[[100,200,300,400]]"
          "<|end_of_box|></answer>",
          " 200 200 400 200 /0" },
        { "glm-4.1v", "<|begin_of_box|>100 200 300 400<|end_of_box|>", " 200 200 400 200 /0" },
        { "cogvlm", "A dog: [[100,200,300,400;000,000,010,010]]",
          "A dog 200 200 400 200;  0 0 20 10 /0" },
        { "qwen2-vl",
          "<|object_ref_start|>the "
          "dog<|object_ref_end|><|box_start|>(100,200),(300,400)<|box_end|>",
          "the dog 200 200 400 200 /0" },
        { "qwen-vl", "<box>(999,999),(0,0)</box>", " 0 0 2000 1000 /0" },
        { "paligemma",
          "<loc0000><loc0000><loc1023><loc1023> cat ; <loc0512><loc0000><loc1023><loc0512> dog",
          "cat 0 0 2000 1000; dog 0 500.5 1001 499.5 /0" },
        { "molmo",
          "<points x1=\"10.0\" y1=\"20.0\" x2=\"30.5\" y2=\"40\" alt=\"eyes\">eyes</points>",
          "eyes 200 200; eyes 610 400 /0" },
        { "kimi-vl", "- dog: [0.1, 0.2, 0.3, 0.4]\n- cat: [.5, .5, 1, 1.]",
          "dog 200 200 400 200; cat 1000 500 1000 500 /0" },
        { "guess", "[0.1, 0.2, 0.3, 0.4] [100, 200, 300, 400] [1500, 0, 2000, 100]",
          " 200 200 400 200;  200 200 400 200;  1500 0 500 100 /0" },
        { "pixels", "[10 20 30 40]", " 10 20 20 20 /0" },
        { "thousandths", "from 1 to [1, 2, 3] and (4, 5), not [1, 2, 3, 4, 5]", " /0" },
        { "shares", "[10, 20, 30, 40] is in other units, [0.5, 0.5, 0.5, 0.9] is empty", " /2" },
        { "shares", "[-0.01, 0, 1.01, 1]", " 0 0 2000 1000 /0" },
        { "shares", "", " /0" },
        { "shares", "[0.1, 0.2, 0.3", " /0" },
        { "shares", "[1e999, 0, 1, 1] [nan, 0, 1, 1] [0.1, 0.2, 0.3, 4e-1]",
          " 200 200 400 200 /1" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        expect(cases[i].style, NULL, 2000, 1000, cases[i].answer, cases[i].want);
}

// Takes a minute if the search for a label reads the whole answer, and much memory if labels share
// their text.
static void many_boxes_are_found(void **state)
{
    const clock_t since = clock();
    static const char *const forms[] = {
        "[1, 2, 3, 4] ",
        "<ref> [1, 2, 3, 4] ",
        "<m x=\"1\" y=\"2\" alt=' {\"label\" ",
        "(1,2),(3,4) ",
    };
    enum { COUNT = 60000 };
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        struct boxes got;
        struct buf b = { 0 };
        for (int k = 0; k < COUNT; k++) buf_puts(&b, forms[i]);
        buf_puts(&b, "' alt='> </ref>");
        boxes_read(&got, b.data, box_style_named("thousandths"), NULL, 2000, 1000);
        assert_in_range(got.count, COUNT - 1, COUNT);
        assert_true(strlen(got.list[0].label) < 10000);
        boxes_release(&got);
        buf_release(&b);
    }
    assert_true(processor_seconds(since) < QUICK);
}

// The space in which a label is searched may end within the label, or before it.
static void distant_labels_are_left_out(void **state)
{
    for (int i = 4060; i < 4110; i++) {
        char *answer = xasprintf("{[1, 2, 3, 4], \"label\": %*s\"dog\"}", i, "");
        struct boxes got;
        boxes_read(&got, answer, box_style_named("thousandths"), NULL, 2000, 1000);
        assert_int_equal(got.count, 1);
        assert_string_equal(got.list[0].label, i < 4080 ? "dog" : "");
        boxes_release(&got);
        free(answer);
    }
}

// A crowd: one label in marks, many boxes.
static void many_boxes_share_a_label(void **state)
{
    enum { COUNT = 1000 };
    struct buf b = { 0 };
    struct boxes got;
    buf_puts(&b, "<ref>a chair</ref><box>[[1, 2, 3, 4]]</box><ref>people</ref><box>[");
    for (int k = 0; k < COUNT; k++) buf_printf(&b, "%s[1, 2, 3, 4]", k ? ", " : "");
    buf_puts(&b, "]</box>");
    boxes_read(&got, b.data, box_style_named("thousandths"), NULL, 2000, 1000);
    assert_int_equal(got.count, COUNT + 1);
    assert_string_equal(got.list[0].label, "a chair");
    for (int k = 1; k <= COUNT; k++) assert_string_equal(got.list[k].label, "people");
    boxes_release(&got);
    buf_release(&b);
}

static void frames_of_the_encoder(void **state)
{
    const char *all = "[0.25, 0.25, 0.75, 0.75]";
    // Padded: the square has a side of 2000; the picture's rows begin at row 500 of it.
    expect("llava", &padded, 2000, 1000, all, " 500 0 1000 1000 /0");
    expect("llava", &padded, 2000, 1000, "[0.25, 0.5, 0.75, 0.6]", " 500 500 1000 200 /0");
    expect("llava-next", NULL, 1000, 2000, "[0.5, 0.25, 0.6, 0.75]", " 500 500 200 1000 /0");
    // Cropped: the 1000 columns in the middle remain.
    expect("llava", &cropped, 2000, 1000, all, " 750 250 500 500 /0");
    // A box that lies only in the border covers nothing of the picture.
    expect("llava", &padded, 2000, 1000, "[0, 0, 1, 0.2]", " /1");
    // 1000 x 700 becomes 1008 x 700.
    expect("qwen2.5-vl", &native, 1000, 700, "[504, 350, 1008, 700]", " 500 350 500 350 /0");
    struct picture_config small = native;
    small.max_pixels = 28 * 28 * 4;
    expect("qwen2.5-vl", &small, 1000, 1000, "[28, 0, 56, 28]", " 500 0 500 500 /0");
}

static void painting_stays_inside(void **state)
{
    uint8_t pixels[8 * 6 * 3] = { 0 };
    struct image image = { .width = 8, .height = 6, .channels = 3, .pixels = pixels };
    struct picture_box list[] = { { .x = 0, .y = 0, .w = 80, .h = 60 },
                                  { .x = 80, .y = 60, .point = true },
                                  { .x = 20, .y = 20, .w = 20, .h = 20 } };
    boxes_paint(&image, &(struct boxes){ .list = list, .count = 1 }, 80, 60);
    for (int i = 0; i < 48; i++) {
        const bool edge = i % 8 == 0 || i % 8 == 7 || i / 8 == 0 || i / 8 == 5;
        assert_int_equal(pixels[3 * i], edge ? box_colour(0) >> 16 : 0);
    }
    boxes_paint(&image, &(struct boxes){ .list = list, .count = 3 }, 80, 60);
    assert_int_equal(pixels[3 * (2 * 8 + 2)], box_colour(2) >> 16 & 0xff);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scenes_survive_every_style),  cmocka_unit_test(answers_of_many_forms),
        cmocka_unit_test(many_boxes_share_a_label),    cmocka_unit_test(many_boxes_are_found),
        cmocka_unit_test(distant_labels_are_left_out), cmocka_unit_test(frames_of_the_encoder),
        cmocka_unit_test(painting_stays_inside),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
