// tests/tui/maps.c -- tui/maps.c: the maps that arrive, and those of the strip of layers;
// tui/panel_image.c: the name of a box.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "commands/reference.h"
#include "tui/maps.h"
#include "tui/panel.h"

static struct event_heatmap heatmap(int layer, int token, const float *value)
{
    return (struct event_heatmap){ .name = "attention",
                                   .layer = layer,
                                   .head = -1,
                                   .token = token,
                                   .rows = 1,
                                   .cols = 1,
                                   .max = 1,
                                   .values = value,
                                   .area = { 0, 0, 1, 1 } };
}

// Adds a map that a command of the user measured.
static void measure(struct view *v, int layer, int token, float value)
{
    const struct event_heatmap h = heatmap(layer, token, &value);
    image_take_map(&v->image, &h);
}

// Adds a map that the panel requested.
static void fill(struct view *v, int layer, int token, float value)
{
    const struct event_heatmap h = heatmap(layer, token, &value);
    maps_take(v, &h);
}

// A map of the strip that replaces the shown map is shown in its place.
static void test_replaced(void **state)
{
    struct view *v = view_new();
    measure(v, 4, 0, 1);
    measure(v, 0, 2, 1);
    assert_int_equal(view_map(v)->layer, 0);
    for (int l = 0; l < 8; l++) fill(v, l, 2, 2);
    assert_int_equal(view_map(v)->layer, 0);
    assert_int_equal(view_map(v)->token, 2);
    view_free(v);
}

// The strip beside a map of the last answer ignores maps that may belong to an earlier one.
static void test_earlier(void **state)
{
    struct view *v = view_new();
    for (int l = 0; l < 4; l++) measure(v, l, 0, 1);
    assert_int_equal(maps_layer(v, view_map(v), 1), 1);
    fill(v, 3, 0, 2);
    assert_int_equal(maps_layer(v, &v->image.maps[3], 1), -1);
    fill(v, 1, 0, 2);
    const int at = maps_layer(v, &v->image.maps[2], 1);
    assert_int_equal(at, 3);
    assert_float_equal(v->image.maps[at].values[0], 2, 0);
    view_free(v);
}

// Too many maps drop the oldest one, and the shown map stays.
static void test_too_many(void **state)
{
    struct view *v = view_new();
    for (int i = 0; i < MAPS_MAX; i++) measure(v, i, 0, 1);
    v->image.map = MAPS_MAX / 2;
    fill(v, MAPS_MAX, 0, 1);
    assert_int_equal(v->image.map_count, MAPS_MAX);
    assert_int_equal(v->image.maps[0].layer, 1);
    assert_int_equal(view_map(v)->layer, MAPS_MAX / 2);
    view_free(v);
}

// A box on a picture has the picture's number in the conversation, which counts removed pictures.
static void test_box(void **state)
{
    const struct area area = { 0, 0, 40, 12 };
    struct view *v = view_new();
    struct canvas c = { 0 };
    for (int i = 1; i < 3; i++) { // picture 0 was removed by /undo
        struct preview *p = xcalloc(1, sizeof *p);
        p->index = i;
        p->path = xstrdup("picture.png");
        p->image = (struct image){ 1, 1, 3, xcalloc(3, 1) };
        image_take_picture(&v->image, p);
    }
    canvas_resize(&c, area.height, area.width);
    panel_at(PANEL_image)->draw(v, &c, area, true);
    const struct area at = v->image.map_area;
    v->image.commanding = true;
    panel_at(PANEL_image)->click(v, area, at.x, at.y, 1);
    panel_at(PANEL_image)->click(v, area, at.x, at.y, 0);
    assert_ptr_equal(strstr(v->image.dragged, "picture:2["), v->image.dragged);
    canvas_release(&c);
    view_free(v);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_replaced),
        cmocka_unit_test(test_earlier),
        cmocka_unit_test(test_too_many),
        cmocka_unit_test(test_box),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
