// tests/commands/table.c -- commands/table.c: every command is complete, names are found and
// suggested.
#include <ctype.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "commands/command.h"

// The usage names the command's own options, each followed by a space if it takes an argument.
static void check_options(const struct command *c, const struct option_row *rows)
{
    for (; rows && rows->name; rows++) {
        const bool before = rows->type == OPTION_CALL && !rows->take; // an option of every job
        if (rows->name[0] != '-' || rows->former || before) continue;
        char *option = xasprintf("%s%s", rows->name, rows->argument ? " " : "");
        if (!strstr(c->usage, option)) fail_msg("usage of /%s: no %s", c->name, rows->name);
        if (rows->type != OPTION_CALL) assert_true(!rows->argument == (rows->type == OPTION_FLAG));
        free(option);
    }
}

// A measurement has all options that its usage names.
static void check_usage(const struct command *c)
{
    for (const char *p = c->usage; (p = strstr(p, "--"));) {
        const size_t length = strcspn(p, " ]|");
        const struct option_row *row = c->options;
        while (row->name && (strlen(row->name) != length || strncmp(row->name, p, length) != 0))
            row++;
        if (!row->name) fail_msg("/%s has no option %.*s", c->name, (int)length, p);
        p += length;
    }
}

static void check_complete(const struct command *c)
{
    assert_non_null(c->name);
    assert_true(c->run || c->actions);
    assert_non_null(c->usage);
    assert_non_null(c->help);
    assert_true(c->usage[0] == '/' && !strncmp(c->usage + 1, c->name, strlen(c->name)));
    assert_true(isupper((unsigned char)c->help[0]));
    assert_int_equal(c->help[strlen(c->help) - 1], '.');
    assert_null(strchr(c->help, '\n'));
    assert_true(strlen(c->help) <= 90);
    assert_true(c->max < 0 || c->options || c->actions || c->min <= c->max);
    if (c->rest && !c->options) assert_int_equal(c->max, 1);
    if (c->complete == COMPLETE_WORDS) assert_true(c->words || c->actions);
    check_options(c, c->options);
    if (c->probe) check_usage(c);
    for (const struct command_action *a = c->actions; a && a->name; a++) {
        if (!strstr(c->usage, a->name)) fail_msg("usage of /%s: no %s", c->name, a->name);
        assert_non_null(a->run);
        assert_non_null(a->help);
        check_options(c, a->options);
    }
}

static void test_complete(void **state)
{
    const struct command *c;
    int count = 0;
    for (; (c = command_at(count)); count++) {
        check_complete(c);
        // No earlier command has this command's name as name or alias.
        assert_ptr_equal(command_find(c->name), c);
    }
    assert_true(count >= 25);
    assert_null(command_at(-1));
    assert_null(command_at(count + 100));
}

static void test_aliases(void **state)
{
    assert_string_equal(command_find("exit")->name, "quit");
    assert_string_equal(command_find("q")->name, "quit");
    assert_string_equal(command_find("bye")->name, "quit");
    assert_null(command_find("exit bye"));
    assert_null(command_find(""));
    assert_null(command_find("ex"));
    assert_null(command_find("Load"));
}

static void test_nearest(void **state)
{
    assert_string_equal(command_nearest("lod"), "load");
    assert_string_equal(command_nearest("laod"), "load");
    assert_string_equal(command_nearest("imgae"), "image");
    assert_string_equal(command_nearest("tok"), "tokenizer");
    assert_string_equal(command_nearest("detokenise"), "detokenize");
    assert_string_equal(command_nearest("quti"), "quit");
    assert_null(command_nearest("xyzzy"));
    assert_null(command_nearest(""));
    assert_null(command_nearest("z"));
    char word[4096];
    memset(word, 'a', sizeof word - 1);
    word[sizeof word - 1] = 0;
    assert_null(command_nearest(word));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_complete),
        cmocka_unit_test(test_aliases),
        cmocka_unit_test(test_nearest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
