// tests/core/base/options.c -- core/base/options.c: values in their fields, and refusals.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/mem.h"
#include "core/base/names.h"
#include "core/base/options.h"

struct mine {
    const char *folder, *file, *title;
    int64_t seed;
    int size;
    double share;
    bool once;
    struct names kinds;
    int lines;
};

static int take_line(void *self, const char *value, struct err *err)
{
    struct mine *m = self;
    m->lines++;
    return !strcmp(value, "stop") ? 1 : !strcmp(value, "bad") ? err_set(err, "bad line") : 0;
}

static int check_title(const char *value, struct err *err)
{
    return *value ? 0 : err_set(err, "an empty title");
}

static const struct option_row rows[] = {
    { "DIR", NULL, "the output folder", OPTION_TEXT, .at = offsetof(struct mine, folder) },
    { "FILE", NULL, NULL, OPTION_TEXT, .at = offsetof(struct mine, file), .optional = true },
    { "--seed", "N", NULL, OPTION_WHOLE, .at = offsetof(struct mine, seed), 0, INT64_MAX },
    { "--size", "N", NULL, OPTION_INT, .at = offsetof(struct mine, size), 1, 9 },
    { "--share", "X", NULL, OPTION_REAL, .at = offsetof(struct mine, share), 0, 1 },
    { "--title", "TEXT", NULL, OPTION_TEXT, .at = offsetof(struct mine, title),
      .check = check_title },
    { "--name", "TEXT", NULL, OPTION_TEXT, .at = offsetof(struct mine, title), .former = true },
    { "--once", NULL, NULL, OPTION_FLAG, .at = offsetof(struct mine, once) },
    { "--kind", "K,...", NULL, OPTION_NAMES, .at = offsetof(struct mine, kinds) },
    { "-c", "LINE", NULL, .take = take_line, .many = true },
    { .name = "--ranks", .argument = "N" },
    { 0 },
};

static int parse(const struct option_row *table, struct mine *m, const char *line, struct err *err)
{
    char text[200], *words[20], *rest = NULL;
    int count = 0;
    *m = (struct mine){ .seed = 42 };
    snprintf(text, sizeof text, "%s", line);
    for (char *w = strtok_r(text, " ", &rest); w; w = strtok_r(NULL, " ", &rest))
        words[count++] = w;
    const int status = options_parse(table, m, count, words, err);
    m->folder = m->folder ? "given" : NULL; // `text` ends with this function
    m->file = m->file && !strcmp(m->file, "-") ? "-" : m->file ? "given" : NULL;
    m->title = m->title && !strcmp(m->title, "b") ? "b" : m->title ? "given" : NULL;
    return status;
}

static void values_are_read_in_their_types(void **state)
{
    struct mine m;
    struct err err;
    assert_int_equal(parse(rows, &m,
                           "--seed=7 out --size 9 --share 0.5 --once --once --title b "
                           "--kind x,y,x -c1 -c 2 -",
                           &err),
                     16);
    assert_string_equal(m.folder, "given");
    assert_string_equal(m.file, "-");
    assert_string_equal(m.title, "b");
    assert_int_equal(m.seed, 7);
    assert_int_equal(m.size, 9);
    assert_true(m.share == 0.5 && m.once);
    assert_int_equal(m.kinds.count, 2);
    assert_int_equal(m.lines, 2);
    names_release(&m.kinds);
    assert_int_equal(parse(rows, &m, "-- --seed", &err), 2); // --seed is an argument here
    assert_int_equal(m.seed, 42);
    // The caller reads the rest.
    assert_int_equal(parse(rows, &m, "out -c stop --nothing", &err), 3);
    assert_int_equal(parse(rows, &m, "out --name old", &err), 3);
}

// Without short names, a word with one dash is an argument, unless it is a misspelt option.
static void one_dash_begins_arguments(void **state)
{
    static const struct option_row plain[] = {
        { "N", NULL, "a number", OPTION_WHOLE, .at = offsetof(struct mine, seed), -9, 9 },
        { "FILE", NULL, NULL, OPTION_TEXT, .at = offsetof(struct mine, file), .optional = true },
        { "--once", NULL, NULL, OPTION_FLAG, .at = offsetof(struct mine, once) },
        { 0 },
    };
    struct mine m;
    struct err err;
    assert_int_equal(parse(plain, &m, "-5 -.png", &err), 2);
    assert_int_equal(m.seed, -5);
    assert_string_equal(m.file, "given");
    assert_int_equal(parse(plain, &m, "-5 -once", &err), -1);
    assert_string_equal(err.text, "unknown option '-once': did you mean --once?");
    assert_int_equal(parse(rows, &m, "out -x", &err), -1);
    assert_non_null(strstr(err.text, "unknown option '-x'"));
}

static void refuse(const struct option_row *table, const char *line, const char *message)
{
    struct mine m;
    struct err err;
    assert_int_equal(parse(table, &m, line, &err), -1);
    assert_string_equal(err.text, message);
    names_release(&m.kinds);
}

static void errors_name_the_option(void **state)
{
    static const struct option_row none[] = { { 0 } };
    refuse(rows, "out --sede 3",
           "unknown option '--sede': did you mean --seed? Others are --size, --share, --title, "
           "--once, --kind, -c, --ranks");
    refuse(rows, "out --x",
           "unknown option '--x': options are --seed, --size, --share, --title, --once, --kind, "
           "-c, --ranks");
    refuse(rows, "out --once=yes",
           "unknown option '--once=yes': options are --seed, --size, --share, --title, --once, "
           "--kind, -c, --ranks");
    refuse(none, "--x", "unknown option '--x': no options are allowed here");
    refuse(none, "x", "unexpected 'x'");
    refuse(rows, "", "give DIR, the output folder");
    refuse(rows, "a b c", "unexpected 'c' after DIR FILE");
    refuse(rows, "out --seed", "--seed needs N");
    refuse(rows, "out --title --once",
           "--title needs TEXT, not the option '--once' (to mean that text, write --title=--once)");
    refuse(rows, "out -c --once",
           "-c needs LINE, not the option '--once' (to mean that text, write -c--once)");
    refuse(rows, "out --seed -1", "--seed must be a whole number of at least 0, not '-1'");
    refuse(rows, "out --seed 9223372036854775808",
           "--seed must be a whole number of at least 0, not '9223372036854775808'");
    refuse(rows, "out --size 10", "--size must be a whole number from 1 to 9, not '10'");
    refuse(rows, "out --share nan", "--share must be a number from 0 to 1, not 'nan'");
    refuse(rows, "out --title=", "an empty title");
    refuse(rows, "out --kind ,", "--kind needs K,..., not ','");
    refuse(rows, "out -c bad", "bad line");
    refuse(rows, "out --ranks 2", "--ranks cannot be used here");
    refuse(rows, "out --size 3 --size 4", "--size is given twice: it takes one value");
    refuse(rows, "--title=a out --title b", "--title is given twice: it takes one value");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_are_read_in_their_types),
        cmocka_unit_test(one_dash_begins_arguments),
        cmocka_unit_test(errors_name_the_option),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
