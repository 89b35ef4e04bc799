// tests/core/jobs/identity.c -- core/jobs/identity.c: the settings with which a run may resume.
#include "core/jobs/identity.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/lists.h"

static int same(const char *then, const char *now, struct err *err)
{
    const struct identity was = { .settings = then }, is = { .settings = now };
    return identity_same(&was, &is, err);
}

static void refused(const char *then, const char *now, const char *message)
{
    struct err err;
    assert_int_equal(same(then, now, &err), -1);
    assert_string_equal(err.text, message);
}

static void test_order(void **state)
{
    struct err err;
    assert_int_equal(same("prune.keep=0.5\nffn.eta=0.9\n", "ffn.eta=0.9\nprune.keep=0.5\n", &err),
                     0);
}

// A record of an older version lacks settings; they must have their defaults now.
static void test_newer(void **state)
{
    struct err err;
    assert_int_equal(same("ffn.eta=0.9\n", "sample.top_k=0\nffn.eta=0.9\n", &err), 0);
    refused(
        "ffn.eta=0.9\n", "sample.top_k=7\nffn.eta=0.9\n",
        "the run started with fewer settings, but now it is sample.top_k=7: restore it, or train "
        "into another folder");
}

static void test_values(void **state)
{
    refused(
        "prune.keep=0.5\nffn.eta=0.9\n", "ffn.eta=0.8\nprune.keep=0.5\n",
        "the run started with ffn.eta=0.9, but now it is ffn.eta=0.8: restore it, or train into "
        "another folder");
    refused("gone=1\nffn.eta=0.9\n", "ffn.eta=0.9\n",
            "the run started with gone=1, but now it is without: restore it, or train into another "
            "folder");
}

int main(void)
{
    lists_register();
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_order), cmocka_unit_test(test_newer),
                                        cmocka_unit_test(test_values) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
