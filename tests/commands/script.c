// tests/commands/script.c -- commands/script.c: logical lines, scripts that stop at errors, the
// config file, /run.
#include "commands/script.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "commands/command.h"
#include "kernels/backend.h"

// Expects these logical lines of the physical ones, each in []; "..." if the last one continues.
static void check_lines(const char *const *lines, const char *expected)
{
    struct line_reader r = { 0 };
    struct buf b = { 0 };
    for (; *lines; lines++)
        if (line_reader_add(&r, *lines)) buf_printf(&b, "[%s]", r.text.length ? r.text.data : "");
    if (line_reader_open(&r)) buf_puts(&b, "...");
    assert_string_equal(b.data, expected);
    buf_release(&b);
    line_reader_release(&r);
}
#define LINES(...) ((const char *const[]){ __VA_ARGS__, NULL })

static void test_reader(void **state)
{
    check_lines(LINES("a", "", "/b c"), "[a][][/b c]");
    check_lines(LINES("a\\", "b\\", "c", "d"), "[a\nb\nc][d]");
    check_lines(LINES("a\\\\", "b"), "[a\\\\][b]");
    check_lines(LINES("# note \\", "b"), "[# note \\][b]");
    check_lines(LINES("\"\"\"", "/load x", "# y\\", "\"\"\"", "z"),
                "[\"\"\"\n/load x\n# y\\\n\"\"\"][z]");
    check_lines(LINES("\"\"\"one\"\"\"", "z"), "[\"\"\"one\"\"\"][z]");
    check_lines(LINES("/system \"\"\"a", "b\"\"\" "), "[/system \"\"\"a\nb\"\"\" ]");
    check_lines(LINES("x \"\"\" y", "z"), "[x \"\"\" y][z]");
    check_lines(LINES("\\", " \\", "# c\\", "\\", "x\\", "# d"), "[\n \n# c\\][\nx\n# d]");
    check_lines(LINES("\"\"\"", "a"), "...");
    check_lines(LINES("a\\"), "...");
}

// The events, one line each.
static void record(void *self, const struct event *e)
{
    struct buf *said = self;
    if (e->kind == EVENT_TEXT) buf_printf(said, "text %.6s;", e->text);
    if (e->kind == EVENT_DONE) buf_printf(said, "done %d;", e->ok);
    if (e->kind == EVENT_SETTING) buf_printf(said, "%s=%s;", e->key, e->value);
}

struct fixture {
    struct sinks sinks;
    struct buf said;
    struct shell shell;
    char path[256];
};

static void fixture_begin(struct fixture *f, const char *script)
{
    const char *base = getenv("TMPDIR");
    *f = (struct fixture){ 0 };
    snprintf(f->path, sizeof f->path, "%s/vlmsh-script-XXXXXX", base ? base : "/tmp");
    const int file = mkstemp(f->path);
    assert_true(file >= 0);
    assert_int_equal(write(file, script, strlen(script)), (ssize_t)strlen(script));
    close(file);
    sinks_add(&f->sinks, (struct sink){ .emit = record, .self = &f->said });
    f->shell = (struct shell){ .engine = engine_new(backend_cpu(), &f->sinks), .sinks = &f->sinks };
}

static void fixture_end(struct fixture *f)
{
    engine_free(f->shell.engine);
    buf_release(&f->said);
    unlink(f->path);
}

// Runs the script. error NULL: it must succeed; otherwise the message must be "PATH:ERROR".
static void check_script(const char *script, const char *said, const char *error)
{
    struct fixture f;
    struct err err = { "" };
    fixture_begin(&f, script);
    const int status = shell_script(&f.shell, f.path, &err);
    if (!error && status < 0) fail_msg("%s", err.text);
    if (error) {
        assert_int_equal(status, -1);
        assert_memory_equal(err.text, f.path, strlen(f.path));
        assert_string_equal(err.text + strlen(f.path), error);
    }
    assert_string_equal(f.said.data ? f.said.data : "", said);
    fixture_end(&f);
}

static void test_script(void **state)
{
    check_script("", "", NULL);
    check_script("\xef\xbb\xbf# comment\r\n\r\n/version\r\n", "done 1;done 1;text vlmsh ;done 1;",
                 NULL);
    check_script("/version", "text vlmsh ;done 1;", NULL);
    check_script("/quit\n/version\n", "done 1;", NULL);
    check_script("/set sample.seed 7\n/set sample.seed=8\n/get sample.seed\n",
                 "sample.seed=7;done 1;sample.seed=8;done 1;sample.seed=8;done 1;", NULL);
}

static void test_script_errors(void **state)
{
    check_script("/version\n\n/lod x\n/version\n", "text vlmsh ;done 1;done 1;",
                 ":3: unknown command '/lod': did you mean '/load'?");
    check_script("/load\n", "",
                 ":1: usage: /load MODEL [--mmproj FILE] [--ignore-weights] (/help load)");
    check_script("# c\nhello\n", "done 1;",
                 ":2: no model is loaded: use '/load MODEL' (a folder, a GGUF file, or "
                 "org/name from the local hub cache)");
    check_script("/version\n\"\"\"\nabc\n", "text vlmsh ;done 1;",
                 ":2: the file ends before the closing \"\"\"");
    check_script("a \\\nb\\\n", "", ":1: the file ends after a \\ at the end of a line");
    check_script("/version\n/raw \\\n1 \\\n2\n", "text vlmsh ;done 1;",
                 ":2: no model is loaded: use '/load MODEL' (a folder, a GGUF file, or "
                 "org/name from the local hub cache)");
}

static void test_missing(void **state)
{
    struct fixture f;
    struct err err;
    fixture_begin(&f, "");
    assert_int_equal(shell_script(&f.shell, "/nonexistent/x.vlmsh", &err), -1);
    assert_non_null(strstr(err.text, "'/nonexistent/x.vlmsh'"));
    assert_int_equal(shell_script(&f.shell, "/tmp", &err), -1);
    assert_non_null(strstr(err.text, "/tmp': it is a folder, not a file"));
    fixture_end(&f);
}

static void add_error(void *self, const struct err *err)
{
    buf_printf(self, "%s\n", err->text);
}

// Every failing line of the user's own file is reported with its line number; the others apply.
static void test_config(void **state)
{
    struct fixture f;
    struct buf told = { 0 };
    fixture_begin(&f, "/nosuch\n/set sample.top_k 3\n/set sample.top_k \\\n-1\n# none\n"
                      "/set sample.seed 9\n\"\"\"open\n/set sample.seed 1\n");
    shell_config(&f.shell, f.path, add_error, &told);
    char *line = strtok(told.data, "\n");
    static const char *const wanted[] = { ":1: unknown command '/nosuch'", ":3: sample.top_k",
                                          ":7: the file ends before the closing" };
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++, line = strtok(NULL, "\n"))
        if (!line || strncmp(line, f.path, strlen(f.path)) != 0 || !strstr(line, wanted[i]))
            fail_msg("%s, not %s", line, wanted[i]);
    assert_null(line);
    assert_int_equal(settings_integer(engine_settings(f.shell.engine), "sample.top_k"), 3);
    assert_int_equal(settings_integer(engine_settings(f.shell.engine), "sample.seed"), 9);
    buf_clear(&told);
    shell_config(&f.shell, "/nonexistent/config", add_error, &told);
    assert_non_null(strstr(told.data, "'/nonexistent/config'"));
    buf_release(&told);
    fixture_end(&f);
}

// A script that runs itself ends with a message; inner lines give no `done` events of their own.
static void test_nested(void **state)
{
    struct fixture f;
    struct err err = { "" };
    fixture_begin(&f, "/version\n/run ${SELF}\n");
    struct variable self = { .name = (char *)"SELF", .value = f.path };
    f.shell.variables = &self;
    f.shell.variable_count = 1;
    assert_int_equal(shell_script(&f.shell, f.path, &err), -1);
    assert_non_null(strstr(err.text, ":2: "));
    assert_int_equal(f.shell.depth, 0);
    const char *p = f.said.data;
    int versions = 0, done = 0;
    for (; *p; p++)
        versions += *p == 't' && !strncmp(p, "text ", 5), done += !strncmp(p, "done ", 5);
    assert_int_equal(versions, 17);
    assert_int_equal(done, 1);
    fixture_end(&f);
}

static void test_zero_byte(void **state)
{
    struct fixture f;
    struct err err = { "" };
    fixture_begin(&f, "/version\n");
    FILE *file = fopen(f.path, "w");
    assert_non_null(file);
    fwrite("/ver\0sion\n", 1, 10, file);
    fclose(file);
    assert_int_equal(shell_script(&f.shell, f.path, &err), -1);
    assert_non_null(strstr(err.text, ":1: the line contains a zero byte"));
    fixture_end(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reader),        cmocka_unit_test(test_script),
        cmocka_unit_test(test_script_errors), cmocka_unit_test(test_missing),
        cmocka_unit_test(test_config),        cmocka_unit_test(test_nested),
        cmocka_unit_test(test_zero_byte),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
