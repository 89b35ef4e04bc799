// tests/tui/complete.c -- tui/complete.c: completions by position in the line.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "tui/complete.h"

static const struct shell shell; // without a database

// Returns the completions of the word at the end of `line`.
static struct candidates at_end(const char *line)
{
    struct candidates c;
    size_t start = strlen(line);
    while (start && line[start - 1] != ' ') start--;
    complete_find(&shell, line, start, &c);
    return c;
}

static bool has(const struct candidates *c, const char *text)
{
    for (size_t i = 0; i < c->count; i++)
        if (strcmp(c->list[i], text) == 0) return true;
    return false;
}

static void expect(const char *line, const char *offered, enum candidate_paths paths)
{
    struct candidates c = at_end(line);
    assert_true(offered ? has(&c, offered) : c.count == 0);
    assert_int_equal(c.paths, paths);
    candidates_release(&c);
}

static void test_places(void **state)
{
    expect("/lo", "/load", PATHS_NONE);
    expect("", "/image", PATHS_NONE);
    expect("  /lo", "/load", PATHS_NONE);
    expect("/load ", NULL, PATHS_MODELS);
    expect("/load m.gguf ", "--mmproj", PATHS_NONE);
    expect("/load m.gguf ", "--ignore-weights", PATHS_NONE);
    expect("/load m.gguf --mmproj ", NULL, PATHS_MODELS);
    expect("/image a.png b", NULL, PATHS_ALL);
    expect("/help ", "load", PATHS_NONE);
    expect("/help ", "sample.top_p", PATHS_NONE);
    expect("/get sam", "sample.seed", PATHS_NONE);
    expect("/set ", "sample.seed", PATHS_NONE);
    expect("/set sample.ignore_eos ", "on", PATHS_NONE);
    expect("/set adapter ", "none", PATHS_ALL);
    expect("/set sample.seed ", "0",
           PATHS_NONE); // no choices: the default is offered as an example
    expect("/session ", "resume", PATHS_NONE);
    expect("/session export ", NULL, PATHS_ALL);
    expect("/ask --each pi", NULL, PATHS_ALL);
    expect("/ask --each pics What --out ", NULL, PATHS_ALL);
    expect("/ask --limit ", NULL, PATHS_NONE);
    expect("/compare off | now --data ", NULL, PATHS_ALL);
    expect("/later ", NULL, PATHS_NONE);
    expect("/later 3 ", "sample.seed", PATHS_NONE);
    expect("/reset sample.ignore_eos ", NULL, PATHS_NONE); // takes no value
    expect("/session list ", NULL, PATHS_NONE);
    expect("/preset save fast ", "prune.keep", PATHS_NONE);
    expect("/preset load capa ", NULL, PATHS_NONE);
    expect("/memory --", "--force", PATHS_NONE);
    expect("/nosuch ", NULL, PATHS_NONE);
    expect("What is ", NULL, PATHS_NONE);
    expect("/set \"sample.ignore_eos\" ", NULL, PATHS_NONE);
}

// As many commands and settings are offered as the tables have.
static void test_tables(void **state)
{
    struct candidates c = at_end("/");
    int commands = 0;
    while (command_at(commands)) commands++;
    assert_int_equal(c.count, commands);
    candidates_release(&c);
    c = at_end("/set ");
    assert_int_equal(c.count, settings_count() - 1); // all but chat.template.*
    candidates_release(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_places),
        cmocka_unit_test(test_tables),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
