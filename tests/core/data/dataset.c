// tests/core/data/dataset.c -- core/data/dataset.c: lines and content of a file's samples; the
// check before a job starts; samples as dialogues.
#include "core/data/dataset.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/template/message.h"
#include "tests/core/scratch.h"

static int open_text(struct dataset *d, const char *folder, const char *text, size_t size,
                     struct err *err)
{
    char *path = xasprintf("%s/data.json", folder);
    scratch_write(folder, "data.json", text, size);
    const int status = dataset_open(d, path, "dir", err);
    free(path);
    return status;
}

// Expects "LINE:json" for every sample, separated by spaces; or "error: ...", without the path.
static void check_index(const char *text, size_t size, const char *expected)
{
    char *folder = scratch_new();
    struct dataset d;
    struct err err = { "" };
    struct buf b = { 0 };
    if (open_text(&d, folder, text, size, &err) < 0) {
        const char *after = strstr(err.text, "data.json'");
        buf_printf(&b, "error: %s", after ? after + 10 : err.text);
    }
    for (int64_t i = 0; i < d.count; i++) {
        cJSON *json = dataset_json(&d, i, &err);
        char *printed = json ? cJSON_PrintUnformatted(json) : NULL;
        buf_printf(&b, "%s%d:%s", i ? " " : "", (int)d.entries[i].line,
                   printed ? printed : err.text);
        cJSON_free(printed);
        cJSON_Delete(json);
    }
    assert_string_equal(b.data, expected);
    buf_release(&b);
    dataset_close(&d);
    scratch_remove(folder);
}

static void check(const char *text, const char *expected)
{
    check_index(text, strlen(text), expected);
}

static void test_list(void **state)
{
    check("[{\"a\":1},{\"a\":2}]", "1:{\"a\":1} 1:{\"a\":2}");
    check("\xEF\xBB\xBF \n[ 1 ,\n\n[2,{\"b\":[3]}] ,\"x,]\\\"[\", true ]\n ",
          "2:1 4:[2,{\"b\":[3]}] 4:\"x,]\\\"[\" 4:true");
    check("[{\"a\":\"}],[{\\\\\"},\n{\"b\":\"\\\\\\\"]\"}]",
          "1:{\"a\":\"}],[{\\\\\"} 2:{\"b\":\"\\\\\\\"]\"}");
    // One broken sample does not hide the others.
    check("[{\"a\":1},\n{broken},{\"a\":2}]",
          "1:{\"a\":1} 2:sample 1 (line 2 of the data) is not valid JSON 2:{\"a\":2}");
    check("[{\"a\":]},2]", "error:  is not valid JSON (near line 1)");
}

static void test_list_errors(void **state)
{
    check("[]", "error:  contains no samples");
    check("[1,2", "error:  ends in the middle of its list: it is truncated");
    check("[{\"a\":\"x]", "error:  ends in the middle of its list: it is truncated");
    check("[\n1,]", "error:  is not valid JSON (near line 2)");
    check("[,1]", "error:  is not valid JSON (near line 1)");
    check("[1}", "error:  is not valid JSON (near line 1)");
    check("[1]\nx", "error:  is not valid JSON (near line 2)");
    check("[1]\n[2]",
          "error:  contains several lists (near line 2): each JSON line must be an object, "
          "as {\"messages\": [...]}");
    check_index("[1]\0", 4, "error:  is not valid JSON (near line 1)");
}

static void test_lines(void **state)
{
    check("{\"a\":1}\n\n  {\"a\":\"[\"}\r\n{\"a\":3}", "1:{\"a\":1} 3:{\"a\":\"[\"} 4:{\"a\":3}");
    check("{\"a\":\"x\\\\u0000\"}\n{\"a\":\"x\\u0000y\"}\n",
          "1:{\"a\":\"x\\\\u0000\"} 2:the sample at line 2 has a character \\u0000, which texts "
          "must not contain");
    check("{\"a\":1}\n{broken\n7\n", "1:{\"a\":1} 2:line 2 of the data is not valid JSON 3:7");
    check_index("{\"a\":1}\n{}\0{}", 13, "1:{\"a\":1} 2:line 2 of the data is not valid JSON");
    check_index("{\"a\":1}\n{\"a\":\"x\0y\"}", 19,
                "1:{\"a\":1} 2:line 2 of the data is not valid JSON");
    check("", "error:  contains no samples");
    check(" \n ", "error:  contains no samples");
    check("my notes\nand more", "error:  is neither a JSON list of samples nor JSON lines");
    check("7\n8", "error:  is neither a JSON list of samples nor JSON lines");
    check("{\"question\":\"a\\u0000b\"}", "error:  is neither a JSON list of samples nor JSON "
                                          "lines: the sample at line 1 has a character \\u0000, "
                                          "which texts must not contain");
}

static void test_no_file(void **state)
{
    struct dataset d;
    struct err err;
    char *folder = scratch_new(), *pipe = xasprintf("%s/pipe", folder);
    assert_int_equal(dataset_open(&d, "/nonexistent/x", NULL, &err), -1);
    assert_int_equal(dataset_open(&d, folder, NULL, &err), -1);
    assert_non_null(strstr(err.text, "a folder, not a file"));
    assert_int_equal(mkfifo(pipe, 0600), 0);
    assert_int_equal(dataset_open(&d, pipe, NULL, &err), -1);
    assert_non_null(strstr(err.text, "a pipe, not a file"));
    assert_int_equal(dataset_check(pipe, &err), -1);
    free(pipe);
    scratch_remove(folder);
}

// Expects dataset_check to accept a file or refuse it with `why`: `text`, then `rest` as often as
// it fits into `size` bytes.
static void check_begin(const char *text, const char *rest, size_t size, const char *why)
{
    char *folder = scratch_new(), *path = xasprintf("%s/data.json", folder);
    struct err err = { "" };
    struct buf b = { 0 };
    buf_puts(&b, text);
    while (b.length + strlen(rest) <= size) buf_puts(&b, rest);
    scratch_write(folder, "data.json", b.data, b.length);
    assert_int_equal(dataset_check(path, &err), why ? -1 : 0);
    if (why && !strstr(err.text, why)) fail_msg("'%.20s...': %s", text, err.text);
    buf_release(&b);
    free(path);
    scratch_remove(folder);
}

// Before a job starts, the beginning of the file decides; the end of a large file stays unread.
static void test_check(void **state)
{
    enum { LARGE = 3 << 20 };
    check_begin("[{\"a\":1}]", " ", 0, NULL);
    check_begin("{\"a\":1}\n", "{}\n", 60, NULL);
    check_begin("# Notes\n\nSome text.\n", "more\n", 60, "neither a JSON list");
    check_begin("# Notes\n\nSome text.\n", "more\n", LARGE, "neither a JSON list");
    check_begin("[{\"a\":1}", ",{}", 60, "truncated");
    check_begin("[{\"a\":1}", ",{}", LARGE, NULL);
    check_begin("[{\"a\":1}]", "]", 60, "not valid JSON");
    // One line, whose end is beyond the part that is read.
    check_begin("{\"a\":\"", "long", LARGE, NULL);
    check_begin(" ", "\n", 60, "no samples");
}

// A file larger than the blocks in which it is read, with samples across their borders.
static void test_large(void **state)
{
    enum { COUNT = 3000 };
    char *folder = scratch_new();
    struct buf b = { 0 };
    struct dataset d;
    struct err err = { "" };
    for (int i = 0; i < COUNT; i++) {
        buf_printf(&b, "%s{\"id\":%d,\"question\":\"", i ? ",\n" : "[", i);
        for (int k = 0; k < i % 211; k++) buf_puts(&b, "ab\\\"]");
        buf_puts(&b, "\"}");
    }
    buf_puts(&b, "]");
    assert_true(b.length > 1 << 20);
    assert_int_equal(open_text(&d, folder, b.data, b.length, &err), 0);
    assert_int_equal(d.count, COUNT);
    for (int i = 0; i < COUNT; i += 37) {
        struct sample s;
        char id[16];
        assert_int_equal(dataset_read(&d, i, &s, &err), 0);
        snprintf(id, sizeof id, "%d", i);
        assert_string_equal(s.id, id);
        assert_int_equal(s.line, i + 1);
        sample_release(&s);
    }
    // The file becomes shorter while it is in use.
    char *path = xasprintf("%s/data.json", folder);
    assert_int_equal(truncate(path, 1000), 0);
    assert_null(dataset_json(&d, COUNT - 1, &err));
    assert_non_null(strstr(err.text, "was truncated"));
    free(path);
    dataset_close(&d);
    buf_release(&b);
    scratch_remove(folder);
}

// --- samples -------------------------------------------------------------------------------------

// Expects "id 'kind' metric (choice) (choice) | user: 'text' <path>; assistant: ... (marks
// differ)".
static void check_sample(const char *text, const char *expected)
{
    struct sample s;
    struct err err = { "" };
    struct buf b = { 0 };
    cJSON *json = json_parse(text, strlen(text), "test", &err);
    assert_non_null(json);
    const int status = sample_read(&s, json, "dir", &err);
    buf_printf(&b, "%s '%s' %s", s.id ? s.id : "-", s.kind, s.metric ? s.metric : "-");
    for (size_t i = 0; i < s.choice_count; i++) buf_printf(&b, " (%s)", s.choices[i]);
    if (status < 0) buf_printf(&b, " | error: %s", err.text);
    for (size_t i = 0; status == 0 && i < s.dialogue.count; i++) {
        const struct message *m = &s.dialogue.messages[i];
        buf_printf(&b, "%s %s:", i ? ";" : " |", role_name(m->role));
        for (size_t k = 0; k < m->content_count; k++)
            buf_printf(&b, m->content[k].text ? " '%s'" : " <%s>",
                       m->content[k].text ? m->content[k].text
                                          : s.dialogue.paths[m->content[k].picture]);
    }
    if (s.dialogue.marks_differ) buf_puts(&b, " (marks differ)");
    assert_string_equal(b.data, expected);
    buf_release(&b);
    sample_release(&s);
    cJSON_Delete(json);
}

static void test_samples(void **state)
{
    check_sample("{\"id\":\"a\",\"kind\":\"detail\",\"image\":\"x\",\"conversations\":[{\"from\":"
                 "\"human\",\"value\":\"<image>\\nq\"},{\"from\":\"gpt\",\"value\":\"r\"}]}",
                 "a 'detail' - | user: <dir/x> 'q'; assistant: 'r'");
    check_sample("{\"id\":12,\"category\":\"conv\",\"metric\":\"letter\",\"choices\":[\"A\",\"B\"],"
                 "\"question\":\"q\",\"answer\":\"A\"}",
                 "12 'conv' letter (A) (B) | user: 'q'; assistant: 'A'");
    check_sample("{\"messages\":[{\"role\":\"user\",\"content\":\"<image>q <image>\"},{\"role\":"
                 "\"assistant\",\"content\":\"r\"}],\"images\":[\"/x\",\"y\"]}",
                 "- '' - | user: </x> 'q ' <dir/y>; assistant: 'r'");
    check_sample("{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"image\"},{\"type\":"
                 "\"text\",\"text\":\"q <image>\"}]}],\"image\":\"x\"}",
                 "- '' - | user: <dir/x> 'q <image>'");
    check_sample(
        "[{\"role\":\"user\",\"content\":\"q\"},{\"role\":\"assistant\",\"content\":\"r\"}]",
        "- '' - | user: 'q'; assistant: 'r'");
    check_sample("{\"question\":\"q\",\"answer\":3}", "- '' - | user: 'q'");
}

static void test_marks(void **state)
{
    check_sample("{\"image\":\"x\",\"question\":\"q\"}", "- '' - | user: <dir/x> 'q'");
    check_sample("{\"images\":[\"x\",\"y\"],\"question\":\"<image>q\"}",
                 "- '' - | user: <dir/y> <dir/x> 'q' (marks differ)");
    check_sample("{\"question\":\"<image>q\"}",
                 "- '' - | error: the text has more \"<image>\" marks than pictures (0) "
                 "(marks differ)");
    check_sample("{\"messages\":[{\"role\":\"user\",\"content\":\"<image>q\"}]}",
                 "- '' - | error: message 0: the text has more \"<image>\" marks than "
                 "pictures (0) (marks differ)");
    check_sample(
        "{\"image\":\"x\",\"conversations\":[{\"from\":\"human\",\"value\":\"q\"},{\"from\":"
        "\"gpt\",\"value\":\"<image>\"}]}",
        "- '' - | error: \"conversations\"[1]: only user messages may contain "
        "pictures (marks differ)");
}

// Marks with names (MiniCPM-V); a search of the text for each of them would take minutes.
static void test_named_marks(void **state)
{
    enum { COUNT = 20000 };
    struct sample s;
    struct err err = { "" };
    struct buf b = { 0 };
    check_sample("{\"image\":{\"<image_00>\":\"x\",\"<image_01>\":\"y\"},\"conversations\":[{"
                 "\"role\":\"user\",\"content\":\"a < b <image_01> <<image_00>> <image_02>\"},{"
                 "\"role\":\"assistant\",\"content\":\"r\"}]}",
                 "- '' - | user: 'a < b ' <dir/y> ' <' <dir/x> '> <image_02>'; assistant: 'r'");
    for (int i = 0; i < COUNT; i++)
        buf_printf(&b, "%s\"<m%05d>\": \"x\"", i ? ", " : "{\"image\": {", i);
    buf_puts(&b, "}, \"conversations\": [{\"role\": \"user\", \"content\": \"");
    for (int i = COUNT; i-- > 0;) buf_printf(&b, "<m%05d>", i);
    buf_puts(&b, "\"}]}");
    cJSON *json = json_parse(b.data, b.length, "test", &err);
    assert_non_null(json);
    assert_int_equal(sample_read(&s, json, "dir", &err), 0);
    assert_int_equal(s.dialogue.placed, COUNT);
    assert_int_equal(s.dialogue.messages[0].content[0].picture, COUNT - 1);
    assert_false(s.dialogue.marks_differ);
    sample_release(&s);
    cJSON_Delete(json);
    buf_release(&b);
}

static void test_sample_errors(void **state)
{
    check_sample("{\"id\":\"a\",\"kind\":\"k\",\"conversations\":5}",
                 "a 'k' - | error: \"conversations\" must be a list");
    check_sample("{\"id\":[1],\"kind\":{},\"choices\":\"A\",\"question\":\"q\"}",
                 "- '' - | error: \"choices\" must be a list of strings");
    check_sample("{\"choices\":[\"A\",5],\"question\":\"q\"}",
                 "- '' - (A) | error: \"choices\" must be a list of strings");
    check_sample("7", "- '' - | error: a sample must be an object");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_list),        cmocka_unit_test(test_list_errors),
        cmocka_unit_test(test_lines),       cmocka_unit_test(test_check),
        cmocka_unit_test(test_no_file),     cmocka_unit_test(test_large),
        cmocka_unit_test(test_samples),     cmocka_unit_test(test_marks),
        cmocka_unit_test(test_named_marks), cmocka_unit_test(test_sample_errors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
