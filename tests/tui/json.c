// tests/tui/json.c -- tui/json.c: the lines of events: their fields, and valid JSON whatever bytes
// the texts hold.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/json.h"
#include "core/picture/boxes.h"
#include "tui/json.h"

// Returns the line that the sink writes for an event, without its newline; NULL if none.
static char *line_of(const struct event *event)
{
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    struct json_sink *j = json_sink_new(out);
    struct sink sink = json_sink(j);
    sink.emit(sink.self, event);
    json_sink_free(j);
    fclose(out);
    if (!size) {
        free(text);
        return NULL;
    }
    assert_int_equal(text[size - 1], '\n');
    text[size - 1] = '\0';
    assert_null(strchr(text, '\n'));
    return text;
}

static void expect(const struct event *event, const char *line)
{
    char *got = line_of(event);
    assert_string_equal(got, line);
    free(got);
}

static void test_texts(void **state)
{
    expect(&(struct event){ .kind = EVENT_TOKEN, .text = "", .id = 7 },
           "{\"event\":\"token\",\"text\":\"\",\"id\":7}");
    const struct event_token unshared = { 0.25, 1.38629436, NAN }, shared = { 1, 0, 0.123456789 };
    expect(&(struct event){ .kind = EVENT_TOKEN, .text = "", .id = 7, .token = &unshared },
           "{\"event\":\"token\",\"text\":\"\",\"id\":7,\"probability\":0.25,\"entropy\":1.38629}");
    expect(&(struct event){ .kind = EVENT_TOKEN, .text = "", .id = 7, .token = &shared },
           "{\"event\":\"token\",\"text\":\"\",\"id\":7,\"probability\":1,\"entropy\":0,"
           "\"picture_share\":0.123457}");
    expect(&(struct event){ .kind = EVENT_NOTICE, .text = "a\n\"b\"\\\x01" },
           "{\"event\":\"notice\",\"text\":\"a\\n\\\"b\\\"\\\\\\u0001\"}");
    // Terminal control characters.
    expect(&(struct event){ .kind = EVENT_TEXT,
                            .text = "a\x7f\xc2\x9b"
                                    "2J\xc3\xa9" },
           "{\"event\":\"text\",\"text\":\"a\\u007f\\u009b2J\xc3\xa9\"}");
    // A truncated character of which two bytes are left, and a stray byte.
    expect(&(struct event){ .kind = EVENT_TEXT, .text = "x\xe2\x82y\xff" },
           "{\"event\":\"text\",\"text\":\"x\xef\xbf\xbd\xef\xbf\xbdy\xef\xbf\xbd\"}");
    expect(&(struct event){ .kind = EVENT_TEXT, .text = "\xc3\xa9\xf0\x9f\x90\xb1" },
           "{\"event\":\"text\",\"text\":\"\xc3\xa9\xf0\x9f\x90\xb1\"}");
    expect(&(struct event){ .kind = EVENT_ERROR, .where = "a.vlmsh:3", .text = "no" },
           "{\"event\":\"error\",\"where\":\"a.vlmsh:3\",\"message\":\"no\"}");
    expect(&(struct event){ .kind = EVENT_ERROR, .text = "no" },
           "{\"event\":\"error\",\"where\":\"\",\"message\":\"no\"}");
    expect(&(struct event){ .kind = EVENT_SETTING, .key = "sample.seed", .value = "3" },
           "{\"event\":\"setting\",\"key\":\"sample.seed\",\"value\":\"3\"}");
    expect(&(struct event){ .kind = EVENT_RENDERED, .text = "<|im_start|>\nhi\n" },
           "{\"event\":\"rendered\",\"text\":\"<|im_start|>\\nhi\\n\"}");
    expect(&(struct event){ .kind = EVENT_DONE, .ok = true }, "{\"event\":\"done\",\"ok\":true}");
}

static void test_reasoning(void **state)
{
    const struct event_answer answer = { .text = "yes",
                                         .reasoning = "so",
                                         .whole = "<think>so</think>yes",
                                         .reasoning_tokens = 3,
                                         .stop = "eos" };
    char *line = line_of(&(struct event){ .kind = EVENT_ANSWER, .answer = &answer });
    assert_non_null(strstr(line, "\"text\":\"yes\",\"reasoning\":\"so\",\"reasoning_tokens\":3,"));
    assert_null(strstr(line, "think"));
    free(line);
    expect(&(struct event){ .kind = EVENT_TOKEN, .id = 4, .text = "", .reasoning = "so" },
           "{\"event\":\"token\",\"text\":\"\",\"reasoning\":\"so\",\"id\":4}");
    expect(&(struct event){ .kind = EVENT_TOKEN, .id = 4, .text = "", .ok = true },
           "{\"event\":\"token\",\"text\":\"\",\"was_reasoning\":true,\"id\":4}");
}

static void test_answer(void **state)
{
    const int32_t ids[] = { 5, 2147483647 };
    const struct event_answer answer = {
        .text = "hi",
        .ids = ids,
        .count = 2,
        .prompt_tokens = 600,
        .visual_tokens = 576,
        .computed_tokens = 24,
        .drafted = 21,
        .accepted = 18,
        .prefill_s = 0.1,
        .decode_s = 1e-7,
        .vision_s = 0,
        .stop = "eos",
    };
    expect(&(struct event){ .kind = EVENT_ANSWER, .answer = &answer },
           "{\"event\":\"answer\",\"text\":\"hi\",\"ids\":[5,2147483647],\"prompt_tokens\":600,"
           "\"visual_tokens\":576,\"computed_tokens\":24,\"drafted\":21,\"accepted\":18,"
           "\"vision_s\":0,\"prefill_s\":0.1,\"decode_s\":1e-07,\"stop\":\"eos\"}");
    struct picture_box list[] = { { .label = "a dog", .x = 1, .y = 2.5, .w = 3, .h = 4 },
                                  { .label = "", .x = 5, .y = 6, .point = true } };
    const struct boxes boxes = { .list = list, .count = 2 };
    const struct event_answer boxed = { .text = "", .stop = "eos", .boxes = &boxes, .boxed = 1 };
    char *drawn = line_of(&(struct event){ .kind = EVENT_ANSWER, .answer = &boxed });
    assert_non_null(strstr(drawn,
                           "\"picture\":1,\"boxes\":[{\"label\":\"a dog\",\"x\":1,\"y\":2.5,"
                           "\"w\":3,\"h\":4}],\"points\":[{\"label\":\"\",\"x\":5,\"y\":6}]"));
    free(drawn);
    const struct event_answer empty = { .text = "", .stop = "cancelled" };
    char *line = line_of(&(struct event){ .kind = EVENT_ANSWER, .answer = &empty });
    assert_non_null(strstr(line, "\"ids\":[]"));
    free(line);
}

static void test_table(void **state)
{
    static const char *const columns[] = { "name", "value" };
    static const bool numeric[] = { false, true };
    static const char *const cells[] = {
        "a", "12345678901234567", "1", "-0.5e3", "b", "", "c", "nan", "d", "1 MB"
    };
    const struct event_table table = { .name = "t",
                                       .columns = columns,
                                       .column_count = 2,
                                       .row_count = 5,
                                       .cells = cells,
                                       .numeric = numeric };
    expect(&(struct event){ .kind = EVENT_TABLE, .table = &table },
           "{\"event\":\"table\",\"name\":\"t\",\"columns\":[\"name\",\"value\"],\"rows\":"
           "[[\"a\",12345678901234567],[\"1\",-0.5e3],[\"b\",null],[\"c\",\"nan\"],"
           "[\"d\",\"1 MB\"]]}");
}

// Floats are read back exactly; NaN and infinities become null.
static void test_heatmap(void **state)
{
    const float values[] = { 0.1f, 1.17549435e-38f, 3.4028235e38f, -1.0f / 3, NAN, 7 };
    const struct event_heatmap map = { .name = "m",
                                       .picture = 0,
                                       .layer = 3,
                                       .head = -1,
                                       .token = -1,
                                       .rows = 2,
                                       .cols = 3,
                                       .values = values,
                                       .min = -1.0f / 3,
                                       .max = INFINITY };
    char *line = line_of(&(struct event){ .kind = EVENT_HEATMAP, .heatmap = &map });
    cJSON *object = cJSON_Parse(line);
    assert_non_null(object);
    const cJSON *list = json_get(object, "values");
    assert_int_equal(cJSON_GetArraySize(list), 6);
    for (int i = 0; i < 6; i++) {
        const cJSON *value = cJSON_GetArrayItem(list, i);
        if (i == 4)
            assert_true(cJSON_IsNull(value));
        else
            assert_true((float)value->valuedouble == values[i]);
    }
    assert_true(cJSON_IsNull(cJSON_GetObjectItem(object, "max")));
    cJSON_Delete(object);
    free(line);
}

static void test_database_events_are_silent(void **state)
{
    assert_null(line_of(&(struct event){ .kind = EVENT_MODEL, .text = "m", .value = "f" }));
    assert_null(line_of(&(struct event){ .kind = EVENT_UNDO, .count = 1 }));
    assert_null(line_of(&(struct event){ .kind = EVENT_CLEAR }));
}

// A burst of progress events is reduced to a few lines, with the first and the last.
static void test_progress_is_throttled(void **state)
{
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    struct json_sink *j = json_sink_new(out);
    struct sink sink = json_sink(j);
    for (int i = 0; i <= 1000; i++) {
        const struct event_progress p = {
            .what = "loading", .step = i, .steps = 1000, .loss = NAN, .eta_s = NAN
        };
        sink.emit(sink.self, &(struct event){ .kind = EVENT_PROGRESS, .progress = &p });
    }
    fclose(out);
    json_sink_free(j);
    int lines = 0;
    for (const char *c = text; *c; c++) lines += *c == '\n';
    assert_in_range(lines, 2, 4);
    assert_non_null(strstr(text, "\"step\":0,"));
    assert_non_null(strstr(text, "\"step\":1000,\"steps\":1000,\"loss\":null"));
    free(text);
}

// docs/events.schema.json equals the table. UPDATE=1 writes it.
static void test_schema(void **state)
{
    static const char path[] = "docs/events.schema.json";
    char *text = NULL, stored[65536] = "";
    size_t size;
    FILE *out = open_memstream(&text, &size);
    json_schema(out);
    fclose(out);
    if (getenv("UPDATE")) {
        FILE *file = fopen(path, "w");
        assert_non_null(file);
        fputs(text, file);
        fclose(file);
    }
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    stored[fread(stored, 1, sizeof stored - 1, file)] = '\0';
    fclose(file);
    assert_string_equal(stored, text);
    free(text);
}

// The id of a line is only in the events of that line.
static void test_request(void **state)
{
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    struct json_sink *j = json_sink_new(out);
    struct sink sink = json_sink(j);
    sink.emit(sink.self, &(struct event){ .kind = EVENT_REQUEST, .text = "{\"a\":[1]}" });
    sink.emit(sink.self, &(struct event){ .kind = EVENT_NOTICE, .text = "x" });
    sink.emit(sink.self, &(struct event){ .kind = EVENT_REQUEST });
    sink.emit(sink.self, &(struct event){ .kind = EVENT_DONE, .ok = true });
    json_sink_free(j);
    fclose(out);
    assert_string_equal(text, "{\"event\":\"notice\",\"text\":\"x\",\"request\":{\"a\":[1]}}\n"
                              "{\"event\":\"done\",\"ok\":true}\n");
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_texts),
        cmocka_unit_test(test_answer),
        cmocka_unit_test(test_reasoning),
        cmocka_unit_test(test_table),
        cmocka_unit_test(test_heatmap),
        cmocka_unit_test(test_database_events_are_silent),
        cmocka_unit_test(test_progress_is_throttled),
        cmocka_unit_test(test_schema),
        cmocka_unit_test(test_request),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
