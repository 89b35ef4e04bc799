// tests/core/base/program.c -- core/base/program.c: programs that write, fail, hang, die or do not
// exist.
#include "core/base/program.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static struct err err;

static int run(char *script, struct program p, struct buf *out)
{
    char *const argv[] = { "sh", "-c", script, NULL };
    *out = (struct buf){ 0 };
    err.text[0] = '\0';
    if (!p.argv) p.argv = argv;
    if (p.patience_s == 0) p.patience_s = 30;
    if (!p.most) p.most = 1 << 20;
    const int status = program_run(&p, out, &err);
    buf_puts(out, "");
    return status;
}

static void test_output(void **state)
{
    struct buf out;
    assert_int_equal(run("cat; echo one; echo two >&2", (struct program){ 0 }, &out), 0);
    assert_string_equal(out.data, "one\n"); // standard input was empty
    buf_release(&out);
    assert_int_equal(
        run("echo one; echo two >&2; exit 3", (struct program){ .errors = true }, &out), 3);
    assert_string_equal(out.data, "one\ntwo\n");
    buf_release(&out);
    // Excess output is read and dropped: the program ends by itself.
    assert_int_equal(run("seq 100000", (struct program){ .most = 5 }, &out), 0);
    assert_string_equal(out.data, "1\n2\n3");
    buf_release(&out);
}

static void test_no_end(void **state)
{
    atomic_bool cancel = true;
    struct buf out;
    assert_int_equal(run("echo one; exec sleep 60", (struct program){ .patience_s = 0.3 }, &out),
                     -1);
    assert_string_equal(err.text, "sh has not answered for 0.3 s");
    assert_string_equal(out.data, "one\n");
    buf_release(&out);
    assert_int_equal(run("exec sleep 60", (struct program){ .cancel = &cancel }, &out), -1);
    assert_string_equal(err.text, "stopped");
    buf_release(&out);
    assert_int_equal(run("kill -9 $$", (struct program){ 0 }, &out), -1);
    assert_string_equal(err.text, "sh was killed by a signal");
    buf_release(&out);
}

static void test_no_program(void **state)
{
    char *const argv[] = { "vlmsh-no-such-program", NULL };
    struct buf out;
    assert_int_equal(run(NULL, (struct program){ .argv = argv }, &out), PROGRAM_MISSING);
    buf_release(&out);
    assert_int_equal(run("exit 127", (struct program){ 0 }, &out), PROGRAM_MISSING);
    buf_release(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_output),
                                        cmocka_unit_test(test_no_end),
                                        cmocka_unit_test(test_no_program) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
