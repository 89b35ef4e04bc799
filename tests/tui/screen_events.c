// tests/tui/screen_events.c -- tui/screen_events.c, view.c and the panels: events are copied, the
// view follows them, and every layout draws at many sizes.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/template/message.h"
#include "tui/chart.h"
#include "tui/layout.h"
#include "tui/maps.h"
#include "tui/snapshot.h"
#include "tui/status.h"

static void take_all(struct view *v, struct news_queue *q)
{
    struct news *n;
    while ((n = news_next(q))) {
        view_take(v, n);
        news_free(n);
    }
}

static void emit(struct news_queue *q, struct event event)
{
    const struct sink sink = news_sink(q);
    sink.emit(sink.self, &event);
}

static bool readable(const struct news_queue *q)
{
    struct pollfd p = { .fd = news_fd(q), .events = POLLIN };
    return poll(&p, 1, 0) == 1;
}

// An event's data may no longer exist when the screen reads it.
static void test_copies(void **state)
{
    struct news_queue *q = news_queue_new();
    char name[] = "norms", column[] = "layer", cell[] = "3", text[] = "hello";
    const char *columns[] = { column }, *cells[] = { cell };
    const bool numeric[] = { true };
    float values[] = { 1, 2 };
    uint8_t dropped[] = { 0, 1 };
    struct image image = { .width = 10, .height = 20 };
    const struct event_table table = { .name = name,
                                       .columns = columns,
                                       .column_count = 1,
                                       .row_count = 1,
                                       .cells = cells,
                                       .numeric = numeric };
    const struct event_heatmap map = { .name = name,
                                       .rows = 1,
                                       .cols = 2,
                                       .values = values,
                                       .dropped = dropped,
                                       .image = &image,
                                       .area = { 0, 5, 10, 20 } };
    assert_false(readable(q));
    const struct event_job job = { .kind = name };
    emit(q, (struct event){ .kind = EVENT_TOKEN, .text = text, .job = &job });
    emit(q, (struct event){ .kind = EVENT_TABLE, .table = &table });
    emit(q, (struct event){ .kind = EVENT_HEATMAP, .heatmap = &map });
    assert_true(readable(q));
    memset(name, 'x', 5), memset(cell, 'x', 1), memset(text, 'x', 5), memset(column, 'x', 5);
    values[1] = dropped[1] = 9;
    struct news *n = news_next(q);
    assert_string_equal(n->event.text, "hello");
    assert_null(n->event.job);
    news_free(n);
    n = news_next(q);
    assert_string_equal(n->event.table->name, "norms");
    assert_string_equal(n->event.table->columns[0], "layer");
    assert_string_equal(n->event.table->cells[0], "3");
    news_free(n);
    n = news_next(q);
    assert_true(n->event.heatmap->values[1] == 2);
    assert_int_equal(n->event.heatmap->dropped[1], 1);
    assert_null(n->event.heatmap->image);
    assert_true(n->event.heatmap->area[1] == 0.25 && n->event.heatmap->area[2] == 1);
    news_free(n);
    assert_null(news_next(q));
    assert_false(readable(q));
    // This event is freed with the queue.
    emit(q, (struct event){ .kind = EVENT_TOKEN, .text = "left over" });
    news_queue_free(q);
}

enum { PER_THREAD = 2000 };

static void *post_many(void *queue)
{
    for (int i = 0; i < PER_THREAD; i++)
        emit(queue, (struct event){ .kind = EVENT_NOTICE, .text = "n" });
    return NULL;
}

static void test_threads(void **state)
{
    struct news_queue *q = news_queue_new();
    pthread_t threads[3];
    int count = 0;
    struct news *n;
    for (int i = 0; i < 3; i++) pthread_create(&threads[i], NULL, post_many, q);
    while (count < 3 * PER_THREAD) {
        struct pollfd p = { .fd = news_fd(q), .events = POLLIN };
        assert_int_equal(poll(&p, 1, 5000), 1);
        for (; (n = news_next(q)); count++) news_free(n);
    }
    for (int i = 0; i < 3; i++) pthread_join(threads[i], NULL);
    assert_int_equal(count, 3 * PER_THREAD);
    news_queue_free(q);
}

static void say(struct news_queue *q, const char *question, const char *const *tokens)
{
    struct message m = { .role = ROLE_USER };
    const struct event_answer answer = { .text = "",
                                         .stop = "eos",
                                         .in_conversation = true,
                                         .count = 2,
                                         .prompt_tokens = 9,
                                         .drafted = 4,
                                         .accepted = 3,
                                         .decode_s = 0.5 };
    message_add_text(&m, question);
    news_post(q, NEWS_BUSY, question, NULL, NULL);
    emit(q, (struct event){ .kind = EVENT_MESSAGE, .message = &m });
    emit(q, (struct event){ .kind = EVENT_ANSWERING, .ok = true });
    for (int i = 0; tokens[i]; i++)
        emit(q, (struct event){ .kind = EVENT_TOKEN, .text = tokens[i] });
    emit(q, (struct event){ .kind = EVENT_TOKEN, .id = -1, .text = "" }); // not a token
    emit(q, (struct event){ .kind = EVENT_ANSWERING });
    emit(q, (struct event){ .kind = EVENT_ANSWER, .answer = &answer });
    emit(q, (struct event){ .kind = EVENT_DONE, .ok = true });
    news_post(q, NEWS_IDLE, NULL, NULL, NULL);
    message_release(&m);
}

// Each token belongs to the reasoning or to the answer; their entries are removed together.
static void test_reasoning(void **state)
{
    static const struct event tokens[2][7] = {
        { { .text = "" }, // <think>
          { .text = "", .reasoning = "so" },
          { .text = "", .reasoning = " it" },
          { .text = "" }, // </think>
          { .text = "yes", .reasoning = " is" },
          { .text = "!" },
          { .kind = EVENT_DONE } },
        { { .text = " so" },
          { .text = " it" },
          { .text = "yes", .ok = true },
          { .text = "!" },
          { .kind = EVENT_DONE } },
    };
    struct news_queue *q = news_queue_new();
    struct view *v = view_new();
    for (int i = 0; i < 2; i++) {
        const struct event_answer answer = { .text = "yes!", .stop = "eos", .count = 6 };
        emit(q, (struct event){ .kind = EVENT_ANSWERING, .ok = true });
        for (const struct event *e = tokens[i]; e->kind == EVENT_TOKEN; e++) emit(q, *e);
        emit(q, (struct event){ .kind = EVENT_ANSWER, .answer = &answer });
        emit(q, (struct event){ .kind = EVENT_ANSWERING });
        take_all(v, q);
        assert_int_equal(v->chat.count, 3);
        const struct entry *e = v->chat.entries;
        assert_int_equal(e[0].kind, ENTRY_REASONING);
        assert_string_equal(e[0].text.data, i ? "so it" : "so it is");
        assert_int_equal(e[0].token_count, i ? 2 : 5);
        assert_int_equal(e[1].kind, ENTRY_ANSWER);
        assert_string_equal(e[1].text.data, "yes!");
        assert_int_equal(e[1].first_token, i ? 2 : 5);
        assert_int_equal(e[1].token_count, i ? 2 : 1);
        emit(q, (struct event){ .kind = EVENT_UNDO, .count = 1 });
        take_all(v, q);
        assert_int_equal(v->chat.count, 0);
    }
    view_free(v);
    news_queue_free(q);
}

static void test_conversation(void **state)
{
    struct news_queue *q = news_queue_new();
    struct view *v = view_new();
    say(q, "What?", (const char *const[]){ "A ", "cat", NULL });
    take_all(v, q);
    assert_int_equal(v->chat.count, 3);
    assert_int_equal(v->chat.entries[0].kind, ENTRY_USER);
    assert_string_equal(v->chat.entries[0].text.data, "What?");
    assert_string_equal(v->chat.entries[1].text.data, "A cat");
    assert_int_equal(v->chat.entries[1].token_count, 2);
    assert_int_equal(v->chat.entries[1].tokens[1], 2);
    assert_int_equal(v->chat.entries[2].kind, ENTRY_MEASURES);
    assert_non_null(strstr(v->chat.entries[2].text.data, "0.5 s, 3 of 4 drafts accepted"));
    assert_true(v->drafts == 0.75);
    assert_false(v->busy);
    emit(q, (struct event){ .kind = EVENT_UNDO, .count = 2 });
    take_all(v, q);
    // An undo without /undo: the question has failed, and its entries stay, marked.
    assert_true(v->chat.entries[0].undone && v->chat.entries[1].undone);
    say(q, "And?", (const char *const[]){ "\n It", " is", NULL });
    take_all(v, q);
    assert_int_equal(v->chat.count, 6);
    assert_string_equal(v->chat.entries[4].text.data, "It is"); // without leading spaces
    assert_int_equal(v->chat.entries[4].tokens[1], 2);
    news_post(q, NEWS_BUSY, "/undo", NULL, NULL);
    emit(q, (struct event){ .kind = EVENT_UNDO, .count = 2 });
    news_post(q, NEWS_IDLE, NULL, NULL, NULL);
    take_all(v, q);
    assert_int_equal(v->chat.count, 4); // both entries are removed, with the line of measures
    assert_int_equal(v->chat.entries[3].kind, ENTRY_COMMAND);
    emit(q,
         (struct event){ .kind = EVENT_SETTING, .key = "norm.align", .value = "on", .ok = true });
    take_all(v, q);
    assert_string_equal(view_setting(v, "norm.align"), "on");
    assert_true(v->stale);
    view_free(v);
    news_queue_free(q);
}

static void free_settings(void *settings)
{
    settings_free(settings);
}

static void key_done(struct news_queue *q, const char *temperature)
{
    struct settings *now = settings_copy(NULL);
    assert_int_equal(settings_set(now, "sample.temperature", temperature, NULL), 0);
    news_post(q, NEWS_KEY_DONE, NULL, now, free_settings);
}

// Keys pressed between two tokens: their requests are shown until their lines have run, however
// many settings each line changes.
static void test_keys(void **state)
{
    struct news_queue *q = news_queue_new();
    struct view *v = view_new();
    const struct event set = {
        .kind = EVENT_SETTING, .key = "sample.temperature", .value = "0.5", .ok = true
    };
    emit(q, (struct event){ .kind = EVENT_ANSWERING, .ok = true });
    take_all(v, q);
    settings_set(v->settings, "sample.temperature", "0.9", NULL);
    v->keys_waiting = 2;
    emit(q, set);
    emit(q,
         (struct event){ .kind = EVENT_SETTING, .key = "sample.seed", .value = "7", .ok = true });
    emit(q, (struct event){ .kind = EVENT_NOTICE, .text = "not changed: of something else" });
    key_done(q, "0.5");
    take_all(v, q);
    assert_int_equal(v->keys_waiting, 1);
    assert_string_equal(view_setting(v, "sample.temperature"), "0.9");
    key_done(q, "0.7"); // the request was refused or had no effect
    take_all(v, q);
    assert_int_equal(v->keys_waiting, 0);
    assert_string_equal(view_setting(v, "sample.temperature"), "0.7");
    emit(q, set);
    take_all(v, q);
    assert_string_equal(view_setting(v, "sample.temperature"), "0.5");
    view_free(v);
    news_queue_free(q);
}

// An attached picture is shown small until the next line in the conversation.
static void test_attached(void **state)
{
    struct news_queue *q = news_queue_new();
    struct view *v = view_new();
    const size_t waiting[] = { 0, 1, 1, 2, 1 };
    const bool shown[] = { false, true, true, true, false };
    for (int i = 0; i < 5; i++) {
        struct snapshot *s = xcalloc(1, sizeof *s);
        s->settings = settings_copy(NULL);
        s->waiting = waiting[i];
        if (i == 4) view_add(v, ENTRY_TEXT, "removed");
        news_post(q, NEWS_SNAPSHOT, NULL, s, snapshot_free);
        take_all(v, q);
        assert_int_equal(v->attached, shown[i]);
    }
    view_free(v);
    news_queue_free(q);
}

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

// Shows which words attend to one half of the picture: missing maps are requested at once.
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

static void test_all_sizes(void **state)
{
    struct news_queue *q = news_queue_new();
    struct view *v = view_new();
    const char *columns[] = { "layer", "visual" }, *cells[] = { "0", "1", "1", "nan", "2", "3" };
    const bool numeric[] = { true, true };
    const struct event_table table = { .name = "norms",
                                       .columns = columns,
                                       .column_count = 2,
                                       .row_count = 3,
                                       .cells = cells,
                                       .numeric = numeric };
    const float values[] = { 0, 1, 2, __builtin_nanf("") };
    const struct event_heatmap map = { .name = "live",
                                       .layer = -1,
                                       .head = -1,
                                       .token = 1,
                                       .rows = 2,
                                       .cols = 2,
                                       .values = values,
                                       .max = 2 };
    say(q, "one\ttwo \xe7\x8c\xab",
        (const char *const[]){ "\xe7\x8c\xab\xf0\x9f\x98\x80", "\033[2J", NULL });
    emit(q, (struct event){ .kind = EVENT_TABLE, .table = &table });
    emit(q, (struct event){ .kind = EVENT_TABLE, .table = &table });
    emit(q, (struct event){ .kind = EVENT_HEATMAP, .heatmap = &map });
    take_all(v, q);
    for (int lines = 1; lines < 40; lines += 3)
        for (int wide = 1; wide < 140; wide += 7)
            for (int layout = 0; layout_names[layout]; layout++)
                for (int focus = PANEL_NONE; focus < PANEL_COUNT; focus += 2) {
                    struct canvas c = { .mono = wide % 2 };
                    struct placed_panel placed[PANEL_COUNT];
                    canvas_resize(&c, lines, wide);
                    const struct area all = { 0, 0, wide, lines };
                    const int count = layout_place(layout, focus, PANEL_NONE, all, placed);
                    for (int i = 0; i < count; i++) {
                        const struct area a = placed[i].area;
                        assert_true(a.x >= 0 && a.y >= 0 && a.x + a.width <= wide &&
                                    a.y + a.height <= lines);
                        panel_at(placed[i].panel)->draw(v, &c, a, placed[i].panel == focus);
                    }
                    status_draw(v, &c, (struct area){ 0, lines - 1, wide, 1 }, "F1 keys");
                    for (int y = 0; y < lines; y++)
                        for (int x = 0; x < wide; x++)
                            if (canvas_at(&c, x, y)->code == '\033') fail_msg("an escape is drawn");
                    canvas_release(&c);
                }
    view_free(v);
    news_queue_free(q);
}

// A noisy curve of very many points becomes a thin line of means with faint dots around it, in
// ASCII characters too.
static void test_crowd(void **state)
{
    enum { COUNT = 8000 };
    double *x = xcalloc(COUNT, sizeof *x), *y = xcalloc(COUNT, sizeof *y);
    for (int i = 0; i < COUNT; i++) {
        x[i] = i;
        y[i] = 0.5 + (i % 2 ? 0.4 : -0.4);
    }
    for (int ascii = 0; ascii < 2; ascii++) {
        struct canvas c = { .ascii = ascii };
        const struct area all = { 0, 0, 50, 21 };
        int line = 0, faint = 0;
        canvas_resize(&c, 21, 50);
        canvas_fill(&c, all, STYLE_TEXT, ' ');
        const struct chart chart = chart_begin(&c, all, 0, COUNT - 1, 0, 1);
        chart_crowd(&chart, STYLE_CURVE1, x, y, COUNT);
        for (int v = 0; v < chart.area.height; v++)
            for (int u = 0; u < chart.area.width; u++) {
                const struct cell *cell = canvas_at(&c, chart.area.x + u, chart.area.y + v);
                line += cell->style == STYLE_CURVE1;
                faint += cell->style == STYLE_GHOST;
                if (cell->style == STYLE_CURVE1) assert_in_range(v, 9, 10);
            }
        assert_in_range(line, chart.area.width - 2, 2 * chart.area.width);
        assert_in_range(faint, 12 * chart.area.width, 17 * chart.area.width);
        canvas_release(&c);
    }
    free(x);
    free(y);
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

// --- jobs ----------------------------------------------------------------------------------------

// A cell is cut between characters.
static void test_cut_cell(void **state)
{
    static const char letter[] = "\xd1\x8f"; // of two bytes
    struct view *v = view_new();
    struct jobs_news *n = v->jobs.news = xcalloc(1, sizeof *n);
    struct canvas c = { .mono = true };
    struct buf name = { 0 }, text = { 0 };
    for (int i = 0; i < 30; i++) buf_puts(&name, letter);
    n->rows = xcalloc(1, sizeof *n->rows);
    n->memory = xcalloc(1, sizeof *n->memory);
    n->count = 1;
    struct job_row *row = &n->rows[0];
    row->id = 1;
    row->kind = xstrdup("train");
    row->settings = settings_copy(NULL);
    row->argc = 1;
    row->argv = xcalloc(2, sizeof *row->argv);
    row->argv[0] = xstrdup(name.data);
    row->loss = row->step = row->steps = row->eta_s = NAN;
    canvas_resize(&c, 10, 120);
    panel_at(PANEL_jobs)->draw(v, &c, (struct area){ 0, 0, 120, 10 }, true);
    canvas_write(&c, &text);
    name.data[24 * strlen(letter)] = '\0';
    const char *cell = strstr(text.data, name.data);
    if (!cell || (cell[strlen(name.data)] != ' ' && cell[strlen(name.data)] != '\n'))
        fail_msg("%s", text.data);
    buf_release(&name);
    buf_release(&text);
    canvas_release(&c);
    view_free(v);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_copies),
        cmocka_unit_test(test_threads),
        cmocka_unit_test(test_conversation),
        cmocka_unit_test(test_reasoning),
        cmocka_unit_test(test_kinds),
        cmocka_unit_test(test_maps),
        cmocka_unit_test(test_chosen_map),
        cmocka_unit_test(test_all_sizes),
        cmocka_unit_test(test_crowd),
        cmocka_unit_test(test_keys),
        cmocka_unit_test(test_attached),
        cmocka_unit_test(test_looks),
        cmocka_unit_test(test_hidden_tokens),
        cmocka_unit_test(test_without_sinks),
        cmocka_unit_test(test_cut_cell),
        cmocka_unit_test(test_changed_settings),
        cmocka_unit_test(test_grid_at_all_sizes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
