// tests/core/eval/score_plan.c -- core/eval/score_plan.c: rows that lines multiply.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/mem.h"
#include "core/eval/score_plan.h"

static void test_seeds(void **state)
{
    static const char text[] = "set a: x\n"
                               "row one: adapter={seed}/{seed}-a model=m{seed}\n"
                               "row two: off\n"
                               "seeds 1 {seed}\n";
    struct score_plan p;
    struct err err = { 0 };
    if (score_plan_parse(&p, text, "plan", 0, &err) < 0) fail_msg("%s", err.text);
    assert_int_equal(p.row_count, 3);
    assert_string_equal(p.rows[0].words, "adapter=1/1-a");
    assert_string_equal(p.rows[0].model, "m1");
    assert_string_equal(p.rows[1].words, "adapter={seed}/{seed}-a");
    assert_string_equal(p.rows[2].words, "off");
    score_plan_release(&p);
}

static void refused(struct buf *text, const char *reason)
{
    struct score_plan p;
    struct err err = { 0 };
    assert_int_equal(score_plan_parse(&p, text->data, "plan", 0, &err), -1);
    if (!strstr(err.text, reason)) fail_msg("'%s' lacks '%s'", err.text, reason);
    buf_release(text);
}

// A plan of 1 MB must not become rows of many GB.
static void test_size(void **state)
{
    struct buf b = { 0 };
    buf_puts(&b, "set a: x\nrow r: ");
    for (int i = 0; i < 50000; i++) buf_puts(&b, "{seed}");
    buf_puts(&b, "\nseeds ");
    for (int i = 0; i < 300000; i++) buf_putc(&b, 's');
    refused(&b, "seed 'ssssssssssssssssssss...' has more than 100 bytes");
    buf_puts(&b, "set a: x\nrow r: {seed}");
    for (int i = 0; i < 300000; i++) buf_putc(&b, 'v');
    buf_puts(&b, "\nseeds");
    for (int i = 0; i < 9000; i++) buf_printf(&b, " %d", i);
    refused(&b, "more than 64 MB");
    buf_puts(&b, "set a: x\nrow r: ");
    for (int i = 0; i < 300000; i++) buf_putc(&b, 'v');
    for (int i = 0; i < 9000; i++) buf_printf(&b, "\nmodel m%d: x", i);
    refused(&b, "more than 64 MB");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_seeds),
        cmocka_unit_test(test_size),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
