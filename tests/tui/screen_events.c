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
#include <stdlib.h>
#include <string.h>

#include "tests/core/quick.h"
#include "tests/tui/news.h"
#include "tui/layout.h"
#include "tui/snapshot.h"
#include "tui/status.h"

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

static void draw_chat(struct view *v, int times, struct buf *text)
{
    struct canvas c = { .ascii = true };
    canvas_resize(&c, 50, 100);
    for (int i = 0; i < times; i++) {
        canvas_clear(&c);
        panel_at(PANEL_chat)->draw(v, &c, (struct area){ 0, 0, 100, 50 }, true);
    }
    canvas_write(&c, text);
    canvas_release(&c);
}

// Each takes half a minute if lines search all tokens, or if their time depends on the text around.
static void test_long_texts(void **state)
{
    const clock_t since = clock();
    enum { TOKENS = 100000, LONG = 1 << 22, ROW = 300000, DRAWN = 50 };
    static const struct event_token sure = { 0.5, 1, 0.5 };
    struct news_queue *q = news_queue_new();
    struct view *v = view_new();
    struct buf text = { 0 }, word = { 0 };
    settings_set(v->settings, "screen.tint", "probability", NULL);
    for (int i = 0; i < TOKENS; i++)
        emit(q, (struct event){ .kind = EVENT_TOKEN, .id = 1, .text = "word ", .token = &sure });
    take_all(v, q);
    draw_chat(v, DRAWN, &text);
    assert_non_null(strstr(text.data, "word word"));
    for (int i = 0; i < LONG; i++) buf_putc(&word, i % 10 ? 'x' : ' ');
    view_add(v, ENTRY_USER, word.data);
    word.data[ROW] = '\0';
    view_add(v, ENTRY_TABLE, word.data);
    buf_puts(&v->chat.search, "x");
    draw_chat(v, 1, &text);
    assert_non_null(strstr(text.data, " xxxxxxxxx xxx"));
    buf_release(&word);
    buf_release(&text);
    view_free(v);
    news_queue_free(q);
    assert_true(processor_seconds(since) < QUICK);
}

// In a table that is scrolled sideways, a match is marked where it is shown.
static void test_found_in_scrolled_table(void **state)
{
    enum { AT = 60, PAN = 40, GUTTER = 2 };
    struct view *v = view_new();
    struct canvas c = { .mono = true };
    struct buf row = { 0 };
    for (int i = 0; i < 200; i++) buf_putc(&row, i < AT || i > AT + 5 ? 'a' : 'n');
    view_add(v, ENTRY_TABLE, row.data)->pan = PAN;
    buf_puts(&v->chat.search, "nnnnnn");
    canvas_resize(&c, 10, 100);
    panel_at(PANEL_chat)->draw(v, &c, (struct area){ 0, 0, 100, 10 }, true);
    for (int x = GUTTER; x < 90; x++) {
        const struct cell *cell = canvas_at(&c, x, 0);
        assert_int_equal(cell->style == STYLE_MATCH, cell->code == 'n');
    }
    assert_int_equal(canvas_at(&c, GUTTER + AT - PAN, 0)->style, STYLE_MATCH);
    buf_release(&row);
    canvas_release(&c);
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
        cmocka_unit_test(test_copies),       cmocka_unit_test(test_threads),
        cmocka_unit_test(test_conversation), cmocka_unit_test(test_reasoning),
        cmocka_unit_test(test_keys),         cmocka_unit_test(test_attached),
        cmocka_unit_test(test_all_sizes),    cmocka_unit_test(test_cut_cell),
        cmocka_unit_test(test_long_texts),   cmocka_unit_test(test_found_in_scrolled_table),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
