// tests/commands/tested.c -- every command, probe and method has a test: one that runs the command,
// one that measures with the probe, one with the method's name. The usages of probes name the
// options of their maps.
#include <ctype.h>
#include <glob.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "commands/command.h"
#include "core/base/file_in.h"
#include "core/methods/method.h"
#include "core/probes/probe.h"
#include "core/probes/results.h"

// The text of all files that match these patterns, except this one.
static char *read_tests(const char *const *patterns)
{
    struct buf all = { 0 };
    for (; *patterns; patterns++) {
        glob_t files;
        assert_int_equal(glob(*patterns, 0, NULL, &files), 0);
        for (size_t i = 0; i < files.gl_pathc; i++) {
            struct err err;
            size_t size;
            if (strstr(files.gl_pathv[i], "/tested.c")) continue;
            char *text = file_read(files.gl_pathv[i], 1 << 24, &size, &err);
            if (!text) fail_msg("%s", err.text);
            buf_add(&all, text, size);
            free(text);
        }
        globfree(&files);
    }
    return buf_take(&all);
}

static bool is_word(char c)
{
    return isalnum((unsigned char)c) || c == '_' || c == '-' || c == '/';
}

// True if the text contains the word by itself, not as part of a longer word or of a path.
static bool names(const char *text, const char *word)
{
    const size_t n = strlen(word);
    for (const char *p = text; (p = strstr(p, word)); p += n)
        if ((p == text || (!is_word(p[-1]) && p[-1] != '.')) && !is_word(p[n])) return true;
    return false;
}

// Lists all missing tests at once.
static void finish(struct buf *missing)
{
    if (missing->length) fail_msg("missing:\n%s", missing->data);
    buf_release(missing);
}

static void test_commands(void **state)
{
    static const char *const where[] = { "tests/commands/*.sh", "tests/commands/*.c",
                                         "tests/tui/*.sh", "tests/sessions/*.c", NULL };
    char *text = read_tests(where);
    const struct command *c;
    struct buf missing = { 0 };
    for (int i = 0; (c = command_at(i)); i++) {
        char *line = xasprintf("/%s", c->name);
        if (!names(text, line))
            buf_printf(&missing, "%s: write tests/commands/%s.sh, which runs it\n", line, c->name);
        free(line);
    }
    assert_false(names(text, "/toy")); // a command of tests/toys/, which these files do not use
    free(text);
    finish(&missing);
}

static void test_probes(void **state)
{
    static const char *const where[] = { "tests/core/probes/*.c", "tests/core/interventions/*.c",
                                         NULL };
    char *text = read_tests(where);
    const struct probe *p;
    struct buf missing = { 0 };
    for (int i = 0; (p = probe_at(i)); i++) {
        char *name = xasprintf("probe_%s", p->name);
        for (char *c = name; *c; c++)
            if (*c == '-') *c = '_';
        if (!names(text, name))
            buf_printf(&missing, "/%s: write tests/core/probes/%s.c, which runs %s\n", p->name,
                       name + strlen("probe_"), name);
        free(name);
    }
    free(text);
    finish(&missing);
}

static void test_methods(void **state)
{
    const struct method *m;
    struct buf missing = { 0 };
    for (int i = 0; (m = method_at(i)); i++) {
        char *path = xasprintf("tests/core/methods/%s.c", m->name);
        if (access(path, R_OK) < 0) buf_printf(&missing, "%s: write %s\n", m->title, path);
        free(path);
    }
    finish(&missing);
}

// The screen requests maps with these options.
static void test_maps(void **state)
{
    static const struct {
        unsigned each;
        const char *option;
    } options[] = { { EACH_LAYER, "--layer" }, { EACH_HEAD, "--head" }, { EACH_TOKEN, "each" } };
    const struct result_kind *k;
    const char *name;
    struct buf missing = { 0 };
    for (int i = 0; (k = result_map_kind(i, &name)); i++) {
        const char *usage = command_find(name)->usage;
        if (k->rows == MAP_PATCHES && !strstr(usage, "--picture"))
            buf_printf(&missing, "/%s: its usage does not name --picture\n", name);
        for (size_t n = 0; n < sizeof options / sizeof *options; n++)
            if ((k->each & options[n].each) && !strstr(usage, options[n].option))
                buf_printf(&missing, "/%s: its usage does not name %s, and %s has a map for each\n",
                           name, options[n].option, k->name);
    }
    finish(&missing);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_commands),
        cmocka_unit_test(test_probes),
        cmocka_unit_test(test_methods),
        cmocka_unit_test(test_maps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
