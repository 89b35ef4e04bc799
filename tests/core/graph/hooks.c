// tests/core/graph/hooks.c -- core/graph/hooks.c: the changes and requests that listeners may make
// at each site.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/graph/graph.h"
#include "core/graph/hooks.h"
#include "kernels/tensor.h"

static const struct site own[1] = { { "OWN", HAS_ROWS, MAY_X, "one tensor" } };
static struct tensor one, other;
static const int32_t some[1];

// What the listener does; `self` points to it.
enum deed {
    NOTHING,
    NEW_X,
    NEW_V,
    NEW_ROWS,
    NEW_ONLY,
    NEW_SEEN,
    NEW_KEYS,
    ASK_ROW,
    ASK_VISUAL,
    ASK_KEY
};

static bool everywhere(void *self, const struct site *site, int layer)
{
    return true;
}

static int act(void *self, struct graph *g, const struct site *site, struct site_args *args)
{
    switch (*(const enum deed *)self) {
    case NEW_X: args->x = &other; break;
    case NEW_V: args->v = &other; break;
    case NEW_ROWS: args->rows = some; break;
    case NEW_ONLY: args->only_count = 3; break;
    case NEW_SEEN: args->seen.from = 2; break;
    case NEW_KEYS: args->keys = some; break;
    case ASK_ROW: return site_row(args, 0) < 0 ? -1 : 0;
    case ASK_VISUAL: return site_visual(args, 0) ? -1 : 0;
    case ASK_KEY: return site_key(args, 0) < 0 ? -1 : 0;
    default: break;
    }
    return 0;
}

// The arguments that the pass gives at a site.
static struct site_args given(const struct site *site)
{
    static int32_t text[] = { -1 };
    static const struct sequence sequence = { .n = 1, .picture = text };
    struct site_args args = { .x = &one, .v = &one };
    if (site->has & HAS_ROWS) args.sequence = &sequence;
    if (site->has & HAS_KEYS) args.q = args.k = &one;
    return args;
}

// True if the site runs in a child process without a bug, which would end the child, or an error.
static bool survives(const struct site *site, enum deed deed, bool changes)
{
    const pid_t child = fork();
    if (!child) {
        struct hooks hooks = { 0 };
        struct graph g = { .hooks = &hooks };
        struct site_args args = given(site);
        close(STDERR_FILENO);
        hooks_add(&hooks, &(struct hook){
                              .wants = everywhere, .run = act, .self = &deed, .changes = changes });
        _exit(hooks_run(&g, site, &args) == 0 ? 0 : 1);
    }
    int status;
    waitpid(child, &status, 0);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static void methods_change_only_allowed_tensors(void **state)
{
    assert_true(survives(SITE_VISUAL, NEW_X, true));
    assert_false(survives(SITE_VALUES, NEW_V, true)); // the rows of v are written in place
    assert_true(survives(SITE_VALUES, NEW_SEEN, true));
    assert_true(survives(SITE_FFN, NEW_ONLY, true));
    assert_true(survives(SITE_LAYER_OUT, NEW_ROWS, true));
    assert_false(survives(SITE_LAYER_IN, NEW_X, true));
    assert_false(survives(SITE_VISUAL, NEW_V, true));
    assert_false(survives(SITE_FFN, NEW_ROWS, true));
    assert_false(survives(SITE_LAYER_OUT, NEW_ONLY, true));
    assert_false(survives(SITE_LAYER_OUT, NEW_SEEN, true));
    for (const struct site *const *site = pass_sites; *site; site++)
        assert_false(survives(*site, NEW_KEYS, true));
    assert_true(survives(own, NEW_X, true)); // a site of a method
    assert_false(survives(own, NEW_ROWS, true));
}

static void probes_change_nothing(void **state)
{
    for (const struct site *const *site = pass_sites; *site; site++) {
        assert_true(survives(*site, NOTHING, false));
        for (enum deed deed = NEW_X; deed <= NEW_KEYS; deed++)
            assert_false(survives(*site, deed, false));
    }
}

// At sites without rows of a sequence, such as those of a vision encoder, asking for a row or a key
// is a bug.
static void hooks_get_only_a_sites_tensors(void **state)
{
    for (const struct site *const *site = pass_sites; *site; site++) {
        const bool rows = (*site)->has & HAS_ROWS;
        assert_int_equal(survives(*site, ASK_ROW, false), rows);
        assert_int_equal(survives(*site, ASK_VISUAL, true), rows);
        assert_int_equal(survives(*site, ASK_KEY, true), rows);
    }
    assert_false(SITE_VISION_LAYER->has & HAS_ROWS);
    assert_false(SITE_FFN->has & HAS_KEYS);
}

// A pass that gives fewer tensors than the table lists ends the program.
static void a_site_without_its_tensors_is_a_bug(void **state)
{
    const pid_t child = fork();
    if (!child) {
        struct hooks hooks = { 0 };
        struct graph g = { .hooks = &hooks };
        struct site_args args = { .x = &one };
        close(STDERR_FILENO);
        _exit(hooks_run(&g, SITE_LAYER_IN, &args) == 0 ? 0 : 1);
    }
    int status;
    waitpid(child, &status, 0);
    assert_true(WIFSIGNALED(status));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(methods_change_only_allowed_tensors),
        cmocka_unit_test(probes_change_nothing),
        cmocka_unit_test(hooks_get_only_a_sites_tensors),
        cmocka_unit_test(a_site_without_its_tensors_is_a_bug),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
