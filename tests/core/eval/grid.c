// tests/core/eval/grid.c -- core/eval/grid.c: which cells are run, which are left as they were
// kept, what a failure ends; and how samples are dealt to a team in rounds.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
// after those it needs
#include <cmocka.h>

#include "core/base/mem.h"
#include "core/eval/grid.h"
#include "core/jobs/job.h"
#include "core/lists.h"

static char ran[64];

static int run(struct grid *g, size_t cell, struct err *err)
{
    const char *name = g->cells[cell].name;
    strcat(ran, name);
    if (*name == 'x') return err_set(err, "%s fails", name);
    return *name == 's' ? JOB_STOPPED : 0;
}

static int kept(struct grid *g, size_t cell, struct err *err)
{
    return *g->cells[cell].name == 'k';
}

static bool broken(const struct grid *g)
{
    return g->self != NULL;
}

static struct grid grid_named(const char *names)
{
    struct grid g = { 0 };
    for (; *names; names++) grid_add(&g, (const char[]){ *names, 0 }, settings_new());
    *ran = 0;
    return g;
}

static void cells_are_run_once(void **state)
{
    struct err err;
    const struct grid_plan plan = { .run = run, .kept = kept };
    struct grid g = grid_named("akb");
    assert_int_equal(grid_run(&g, &plan, &err), 0);
    assert_string_equal(ran, "ab");
    grid_release(&g);
    const struct grid_plan together = { .run = run, .together = true };
    g = grid_named("ab");
    assert_int_equal(grid_run(&g, &together, &err), 0);
    assert_string_equal(ran, "a");
    grid_release(&g);
    g = grid_named("asb");
    assert_int_equal(grid_run(&g, &plan, &err), JOB_STOPPED);
    assert_string_equal(ran, "as");
    grid_release(&g);
}

static void a_failure_ends_what_it_must(void **state)
{
    struct err err;
    const struct grid_plan first = { .run = run }, alone = { .run = run, .broken = broken };
    struct grid g = grid_named("axb");
    assert_int_equal(grid_run(&g, &first, &err), -1);
    assert_string_equal(ran, "ax");
    grid_release(&g);
    g = grid_named("axb");
    assert_int_equal(grid_run(&g, &alone, &err), 0);
    assert_string_equal(ran, "axb");
    assert_string_equal(g.cells[1].why, "x fails");
    assert_null(g.cells[2].why);
    grid_release(&g);
    g = grid_named("axb");
    g.self = &g;
    assert_int_equal(grid_run(&g, &alone, &err), -1);
    assert_string_equal(ran, "ax");
    grid_release(&g);
}

static void samples_are_dealt_in_rounds(void **state)
{
    char whose[25] = "";
    for (int64_t i = 0; i < 24; i++)
        for (int k = 0; k < 3; k++)
            if (grid_deals(i, 3, k)) whose[i] = (char)('0' + k);
    assert_string_equal(whose, "000011112222000011112222");
    assert_true(grid_ends_round(12, 3));
    assert_false(grid_ends_round(13, 3));
    struct buf own = { 0 };
    buf_puts(&own, "own");
    grid_gather(NULL, &own);
    assert_string_equal(own.data, "own");
    buf_release(&own);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(cells_are_run_once),
                                        cmocka_unit_test(a_failure_ends_what_it_must),
                                        cmocka_unit_test(samples_are_dealt_in_rounds) };
    lists_hand_over();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
