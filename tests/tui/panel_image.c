// tests/tui/panel_image.c -- tui/panel_image.c, maps.c and image_*.c: steps and requests of the
// picture panel, its grid of heads, hidden tokens, sinks that are left out.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/tui/news.h"
#include "tui/maps.h"
#include "tui/panel.h"
#include "tui/snapshot.h"

// Sends a map of two halves.
static void tell_map(struct sink to, const char *name, int layer, int token, float left)
{
    const float values[] = { left, 1 };
    const struct event_heatmap map = { .name = name,
                                       .layer = layer,
                                       .head = -1,
                                       .token = token,
                                       .rows = 1,
                                       .cols = 2,
                                       .values = values,
                                       .max = 1,
                                       .area = { 0, 0, 1, 1 } };
    to.emit(to.self, &(struct event){ .kind = EVENT_HEATMAP, .heatmap = &map });
}

// Expects this line as the one that computes in the background.
static void check_quiet(struct view *v, const char *line)
{
    if (line)
        assert_string_equal(v->quiet, line);
    else
        assert_null(v->quiet);
    free(v->quiet);
    v->quiet = NULL;
}

// Shows which words attend to one half of the picture: one line requests all missing maps.
static void test_looks(void **state)
{
    struct news_queue *q = news_queue_new();
    struct view *v = view_new();
    const double left[] = { 0, 0, 0.4, 1 }, right[] = { 0.6, 0, 1, 1 };
    const struct sink maps = news_map_sink(q);
    struct snapshot *s = xcalloc(1, sizeof *s);
    s->settings = settings_copy(NULL);
    s->layers = 4, s->heads = 2;
    say(q, "What?", (const char *const[]){ "A ", "black ", "cat", NULL });
    news_post(q, NEWS_SNAPSHOT, NULL, s, snapshot_free);
    tell_map(news_sink(q), "live", 1, 0, 0.5F);
    take_all(v, q);
    maps_select_box(v, left);
    assert_true(maps_box_attention(v, 0) == 1 && maps_box_attention(v, 1) < 0);
    check_quiet(v, "/attention --picture 0 --layer 1 --token each --head mean");
    for (int token = 0; token < 3; token++)
        tell_map(maps, "attention", 1, token, 0.5F * (float)(token + 1));
    take_all(v, q);
    assert_int_equal(view_map(v)->token, 0); // the shown map stays
    for (int token = 0; token < 3; token++)
        assert_float_equal(maps_box_attention(v, (size_t)token), (token + 1) / 3.0, 1e-6);
    check_quiet(v, NULL);
    maps_select_box(v, right); // the maps exist
    assert_true(maps_box_attention(v, 0) == 1 && maps_box_attention(v, 2) == 1);
    check_quiet(v, NULL);

    // Maps of another layer are requested; a step made meanwhile takes precedence.
    maps_step(v, AXIS_LAYER, 1);
    check_quiet(v, "/attention --picture 0 --layer 2 --token 0 --head mean");
    tell_map(maps, "attention", 2, 0, 0.5F);
    take_all(v, q);
    maps_select_box(v, left);
    maps_step(v, AXIS_LAYER, 1);
    check_quiet(v, "/attention --picture 0 --layer 3 --token 0 --head mean");
    tell_map(maps, "attention", 3, 0, 0.5F);
    take_all(v, q);
    check_quiet(v, "/attention --picture 0 --layer 2 --token each --head mean");

    // While playing, the first missing map requests all.
    v->image.playing = true;
    assert_true(maps_play(v));
    check_quiet(v, "/attention --picture 0 --layer 3 --token each --head mean");
    view_free(v);
    news_queue_free(q);
}

static void tell_setting(struct news_queue *q, const char *key, const char *value)
{
    emit(q, (struct event){ .kind = EVENT_SETTING, .key = key, .value = value, .ok = true });
}

// A key may change several settings: the map that was shown is measured again, and the legend says
// under which settings.
static void test_changed_settings(void **state)
{
    struct news_queue *q = news_queue_new();
    struct view *v = view_new();
    const struct sink maps = news_map_sink(q);
    struct canvas c = { .mono = true };
    struct buf text = { 0 };
    struct snapshot *s = xcalloc(1, sizeof *s);
    s->settings = settings_copy(NULL);
    s->layers = 4, s->heads = 2;
    say(q, "What?", (const char *const[]){ "A ", "black ", "cat", NULL });
    news_post(q, NEWS_SNAPSHOT, NULL, s, snapshot_free);
    tell_map(news_sink(q), "live", 1, 0, 0.5F);
    take_all(v, q);
    maps_go(v, 2);
    check_quiet(v, "/attention --picture 0 --layer 1 --token 2 --head mean");
    tell_map(maps, "attention", 1, 2, 0.5F);
    tell_setting(q, "norm.init", "text");
    tell_setting(q, "norm.align", "on");
    take_all(v, q);
    assert_string_equal(view_map(v)->name, "live");
    v->busy = false;
    canvas_resize(&c, 12, 60);
    panel_at(PANEL_image)->draw(v, &c, (struct area){ 0, 0, 60, 12 }, true);
    check_quiet(v, "/attention --picture 0 --layer 1 --token 2 --head mean");
    tell_map(maps, "attention", 1, 2, 0.25F);
    s = xcalloc(1, sizeof *s); // without cached rows, which these settings have dropped
    s->settings = settings_copy(NULL);
    settings_set(s->settings, "norm.init", "text", NULL);
    settings_set(s->settings, "norm.align", "on", NULL);
    s->layers = 4, s->heads = 2, s->counted = true;
    news_post(q, NEWS_SNAPSHOT, NULL, s, snapshot_free);
    take_all(v, q);
    canvas_release(&c);
    c = (struct canvas){ .mono = true };
    canvas_resize(&c, 12, 70);
    panel_at(PANEL_image)->draw(v, &c, (struct area){ 0, 0, 70, 12 }, true);
    canvas_write(&c, &text);
    if (!strstr(text.data, "layer 1 token 2 (changed settings)")) fail_msg("%s", text.data);
    buf_release(&text);
    canvas_release(&c);
    view_free(v);
    news_queue_free(q);
}

// Stepping follows the probes' description of maps; words are drawn over their cells.
static void test_kinds(void **state)
{
    struct news_queue *q = news_queue_new();
    struct view *v = view_new();
    const char *const words[] = { "left", "right" };
    const float values[] = { 0, 1 };
    struct snapshot *s = xcalloc(1, sizeof *s);
    s->settings = settings_copy(NULL);
    s->layers = 4, s->heads = 2;
    say(q, "What?", (const char *const[]){ "A", NULL });
    news_post(q, NEWS_SNAPSHOT, NULL, s, snapshot_free);
    tell_map(news_sink(q), "live", 1, 0, 0.5F);
    take_all(v, q);
    size_t answer = v->chat.count - 1;
    while (v->chat.entries[answer].kind != ENTRY_ANSWER) answer--;
    assert_int_equal(v->chat.entries[answer].token_count, 1);
    maps_kind(v);
    check_quiet(v, "/contribution --picture 0 --layer 1 --token 0");
    maps_kind(v);
    check_quiet(v, "/stream --picture 0 --layer 1");
    settings_set(s->settings, "ira.on", "on", NULL);
    settings_set(s->settings, "ira.layers", "3", NULL);
    settings_set(s->settings, "prune.score", "cls", NULL);
    for (int i = 0; i < 3; i++) maps_kind(v);
    check_quiet(v, "/kl --picture 0 --layer 3");
    maps_kind(v);
    check_quiet(v, "/pruned --picture 0");
    for (int i = 0; i < 20 && strncmp(v->quiet ? v->quiet : "", "/attention ", 11) != 0; i++)
        maps_kind(v);
    check_quiet(v, "/attention --picture 0 --layer 3 --token 0 --head mean");

    // A matrix is not drawn over a picture.
    const struct event_heatmap map = { .name = "similarity",
                                       .picture = -1,
                                       .layer = -1,
                                       .head = -1,
                                       .token = -1,
                                       .rows = 1,
                                       .cols = 2,
                                       .values = values,
                                       .words = words,
                                       .max = 1 };
    struct canvas c = { .mono = true };
    struct buf text = { 0 };
    canvas_resize(&c, 12, 60);
    emit(q, (struct event){ .kind = EVENT_HEATMAP, .heatmap = &map });
    take_all(v, q);
    panel_at(PANEL_image)->draw(v, &c, (struct area){ 0, 0, 60, 12 }, true);
    canvas_write(&c, &text);
    if (!strstr(text.data, "left") || !strstr(text.data, "right") ||
        !strstr(text.data, "similarity layer x layer"))
        fail_msg("%s", text.data);
    buf_release(&text);
    canvas_release(&c);
    view_free(v);
    news_queue_free(q);
}

// Many maps of one answer: steps over tokens, to both ends and not before the first; hiding the
// maps.
static void test_maps(void **state)
{
    struct news_queue *q = news_queue_new();
    struct view *v = view_new();
    const struct panel *panel = panel_at(PANEL_image);
    const float values[] = { 0, 1 };
    for (int token = 0; token < 5; token++) {
        const struct event_heatmap map = { .name = "live",
                                           .layer = 1,
                                           .head = -1,
                                           .token = token,
                                           .rows = 1,
                                           .cols = 2,
                                           .values = values,
                                           .max = 1 };
        emit(q, (struct event){ .kind = EVENT_HEATMAP, .heatmap = &map });
    }
    take_all(v, q);
    assert_int_equal(view_map(v)->token, 4);
    panel->act(v, "token-back");
    assert_int_equal(view_map(v)->token, 3);
    panel->act(v, "token-first");
    assert_int_equal(view_map(v)->token, 0);
    panel->act(v, "token-back");
    assert_int_equal(view_map(v)->token, 0);
    panel->act(v, "token-last");
    assert_int_equal(view_map(v)->token, 4);
    panel->act(v, "map");
    assert_null(view_map(v));
    view_free(v);
    news_queue_free(q);
}

static struct preview *new_preview(int index)
{
    struct preview *p = xcalloc(1, sizeof *p);
    p->path = xstrdup("cat.png");
    p->index = index;
    return p;
}

// A chosen map of another picture must not hide the newest map of the shown picture.
static void test_chosen_map(void **state)
{
    struct view *v = view_new();
    const float value = 1;
    for (int k = 0; k < 2; k++) {
        image_take_picture(&v->image, new_preview(k));
        image_take_map(&v->image,
                       &(struct event_heatmap){
                           .name = "live", .picture = k, .rows = 1, .cols = 1, .values = &value });
    }
    v->image.map = 0;
    assert_int_equal(view_map(v)->picture, 1);
    panel_at(PANEL_image)->act(v, "picture-back");
    assert_int_equal(view_map(v)->picture, 0);
    v->image.map = 1;
    assert_int_equal(view_map(v)->picture, 0);
    view_free(v);
}

// --- hidden tokens and sinks ---------------------------------------------------------------------

enum { PATCHES = 12 }; // of a row and of a column

static void take_map_of(struct view *v, const char *name, int picture, int head,
                        const float *values)
{
    image_take_map(&v->image, &(struct event_heatmap){ .name = name,
                                                       .picture = picture,
                                                       .layer = 2,
                                                       .head = head,
                                                       .token = -1,
                                                       .rows = PATCHES,
                                                       .cols = PATCHES,
                                                       .values = values,
                                                       .min = 0,
                                                       .max = 1,
                                                       .area = { 0, 0, 1, 1 } });
}

static void take_map(struct view *v, const char *name, int picture, const float *values)
{
    take_map_of(v, name, picture, -1, values);
}

// Returns the patch of the line /hide toggle picture:0[X,Y,W,H]; fails if the box touches several.
static int hidden_patch(const struct view *v)
{
    double x, y, w, h;
    if (!v->run ||
        sscanf(v->run, "/hide toggle picture:0[%lf%%,%lf%%,%lf%%,%lf%%]", &x, &y, &w, &h) != 4)
        fail_msg("%s", v->run ? v->run : "no line");
    const int col = (int)(x / 100 * PATCHES), row = (int)(y / 100 * PATCHES);
    assert_int_equal((int)((x + w) / 100 * PATCHES), col);
    assert_int_equal((int)((y + h) / 100 * PATCHES), row);
    return row * PATCHES + col;
}

static void test_hidden_tokens(void **state)
{
    struct view *v = view_new();
    const struct panel *panel = panel_at(PANEL_image);
    struct area area = { 0, 0, 60, 30 };
    struct canvas c = { .mono = true };
    float values[PATCHES * PATCHES] = { [5] = 1 };
    canvas_resize(&c, area.height, area.width);
    image_take_picture(&v->image, new_preview(0));
    take_map(v, "attention", 0, values);

    // A click on the edge of two patches hides one: the middle of column 1 of 18 is at 1/12.
    v->image.map_area = (struct area){ 0, 0, 18, 9 };
    panel->click(v, area, 1, 0, 3);
    assert_int_equal(hidden_patch(v), 1);
    panel->act(v, "hide");
    assert_int_equal(hidden_patch(v), 5);

    // Nothing is hidden by the grid of heads, nor by a map that lies over no picture.
    free(v->run);
    v->run = NULL;
    v->image.grid = GRID_LAYER;
    panel->draw(v, &c, area, true);
    panel->click(v, area, 1, 0, 3);
    assert_null(v->run);
    v->image.grid = GRID_OFF;
    take_map(v, "similarity", -1, values);
    panel->draw(v, &c, area, true);
    assert_true(v->image.map_area.width > 0);
    panel->click(v, area, v->image.map_area.x + 1, v->image.map_area.y, 3);
    panel->act(v, "hide");
    assert_null(v->run);
    canvas_release(&c);
    view_free(v);
}

// Without attention sinks, the legend, the cursor and `x` choose among the other patches.
static void test_without_sinks(void **state)
{
    struct view *v = view_new();
    const struct panel *panel = panel_at(PANEL_image);
    struct area area = { 0, 0, 60, 30 };
    struct canvas c = { .mono = true };
    struct buf text = { 0 };
    float values[PATCHES * PATCHES] = { [5] = 1, [17] = 0.625F }, phi[PATCHES * PATCHES] = { 0 };
    phi[5] = 3;
    v->snapshot = xcalloc(1, sizeof *v->snapshot);
    v->snapshot->width = 8;
    v->snapshot->layers = 4;
    assert_int_equal(settings_set(v->settings, "sinks.tau", "2", NULL), 0);
    canvas_resize(&c, area.height, area.width);
    image_take_picture(&v->image, new_preview(0));
    take_map(v, "sinks.phi", 0, phi);
    take_map(v, "attention", 0, values);
    v->image.corrected = true;
    panel->act(v, "cursor");
    panel->draw(v, &c, area, true);
    canvas_write(&c, &text);
    if (!strstr(text.data, "1 sink left out") || !strstr(text.data, "token 17 (") ||
        !strstr(text.data, " 0.625\n"))
        fail_msg("%s", text.data);
    panel->act(v, "cursor"); // ends
    panel->act(v, "hide");
    assert_int_equal(hidden_patch(v), 17);
    buf_release(&text);
    canvas_release(&c);
    view_free(v);
}

// The grid of heads, the cursor and the line of sinks draw at many sizes, and take clicks and keys.
static void test_grid_at_all_sizes(void **state)
{
    struct view *v = view_new();
    const struct panel *panel = panel_at(PANEL_image);
    float values[PATCHES * PATCHES] = { [5] = 1 };
    v->snapshot = xcalloc(1, sizeof *v->snapshot);
    v->snapshot->width = v->snapshot->layers = v->snapshot->heads = 4;
    image_take_picture(&v->image, new_preview(0));
    take_map(v, "sinks.phi", 0, values);
    for (int head = -1; head < 4; head++) take_map_of(v, "attention", 0, head, values);
    for (size_t k = 0; k < v->image.map_count; k++) v->image.maps[k].quick = true;
    for (int lines = 1; lines < 30; lines++)
        for (int columns = 1; columns < 60; columns += 3)
            for (int way = 0; way < 8; way++) {
                const struct area area = { 0, 0, columns, lines };
                struct canvas c = { .mono = way % 2 };
                v->image.grid = way < 2 ? GRID_OFF : way < 5 ? GRID_LAYER : GRID_ALL;
                v->image.pointing = v->image.corrected = way % 2;
                canvas_resize(&c, lines, columns);
                panel->draw(v, &c, area, true);
                for (int at = 0; at < columns; at += 5) {
                    panel->click(v, area, at, at % lines, 1);
                    panel->click(v, area, at, at % lines, 0);
                }
                for (int k = 0; k < 3; k++)
                    panel->act(v, k == 0 ? "layer-down" : k == 1 ? "token-next" : "layer-up");
                assert_non_null(view_map(v));
                canvas_release(&c);
            }
    view_free(v);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_looks),         cmocka_unit_test(test_changed_settings),
        cmocka_unit_test(test_kinds),         cmocka_unit_test(test_maps),
        cmocka_unit_test(test_chosen_map),    cmocka_unit_test(test_hidden_tokens),
        cmocka_unit_test(test_without_sinks), cmocka_unit_test(test_grid_at_all_sizes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
