// tests/core/settings.c -- core/settings.c: the table and what /set accepts.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "core/settings.h"

static void every_row_is_complete_and_accepts_its_default(void **state)
{
    struct settings *s = settings_new();
    for (int i = 0; i < settings_count(); i++) {
        const struct setting *row = settings_row(i);
        struct err err;
        assert_non_null(strchr(row->key, '.'));
        assert_true(strlen(row->help) > 10);
        assert_int_equal(settings_set(s, row->key, row->def, &err), 0);
        assert_string_equal(settings_text(s, row->key), row->def);
        assert_false(settings_changed(s, row->key));
        for (int k = 0; k < i; k++) assert_string_not_equal(settings_row(k)->key, row->key);
    }
    assert_null(settings_row(settings_count()));
    settings_free(s);
}

static void refuse(struct settings *s, const char *key, const char *value, const char *hint)
{
    struct err err;
    char before[64];
    const char *text = settings_find(key) ? settings_text(s, key) : "";
    strncpy(before, text, sizeof before - 1);
    before[sizeof before - 1] = 0;
    assert_int_equal(settings_set(s, key, value, &err), -1);
    if (!strstr(err.text, hint)) fail_msg("'%s' does not say '%s'", err.text, hint);
    if (settings_find(key)) assert_string_equal(settings_text(s, key), before);
}

static void bad_values_are_refused_and_change_nothing(void **state)
{
    struct settings *s = settings_new();
    struct err err;
    assert_int_equal(settings_set(s, "sample.top_p", "0.5", &err), 0);
    refuse(s, "sample.top_p", "1.5", "from 0 to 1");
    refuse(s, "sample.seed", "1e17", "from 0 to 9007199254740991");
    refuse(s, "sample.top_p", "nan", "number");
    refuse(s, "sample.top_p", "", "number");
    refuse(s, "sample.top_p", "0.5x", "number");
    refuse(s, "sample.top_k", "2.5", "whole number");
    refuse(s, "sample.top_k", "-1", "from 0");
    refuse(s, "sample.ignore_eos", "maybe", "on or off");
    refuse(s, "compute.matmul", "int3", "f32, bf16");
    refuse(s, "ctx.max", "many", "or auto");
    refuse(s, "sample.topp", "1", "did you mean 'sample.top_p'");
    refuse(s, "top_p", "1", "did you mean 'sample.top_p'");
    refuse(s, "no.such.thing", "1", "/settings");
    assert_string_equal(settings_text(s, "sample.top_p"), "0.5");
    settings_free(s);
}

static void values_are_read_in_their_type(void **state)
{
    struct settings *s = settings_new();
    struct err err;
    assert_int_equal(settings_set(s, "sample.temperature", "0.70", &err), 0);
    assert_string_equal(settings_text(s, "sample.temperature"), "0.7");
    assert_true(settings_real(s, "sample.temperature") == 0.7);
    assert_int_equal(settings_set(s, "sample.ignore_eos", "YES", &err), 0);
    assert_true(settings_flag(s, "sample.ignore_eos"));
    assert_int_equal(settings_set(s, "ctx.max", "4096", &err), 0);
    assert_int_equal(settings_integer(s, "ctx.max"), 4096);
    assert_int_equal(settings_set(s, "ctx.max", "AUTO", &err), 0);
    assert_true(settings_is(s, "ctx.max", "auto"));
    assert_int_equal(settings_set(s, "sample.seed", "9007199254740991", &err), 0);
    assert_int_equal(settings_integer(s, "sample.seed"), 9007199254740991);
    settings_free(s);
}

static void a_reset_brings_the_default_back(void **state)
{
    struct settings *s = settings_new();
    struct err err;
    assert_int_equal(settings_set(s, "sample.top_k", "7", &err), 0);
    assert_true(settings_changed(s, "sample.top_k"));
    settings_reset(s, "sample.top_k");
    assert_int_equal(settings_integer(s, "sample.top_k"), 0);
    settings_free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_row_is_complete_and_accepts_its_default),
        cmocka_unit_test(bad_values_are_refused_and_change_nothing),
        cmocka_unit_test(values_are_read_in_their_type),
        cmocka_unit_test(a_reset_brings_the_default_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
