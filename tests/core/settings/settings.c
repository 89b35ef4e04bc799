// tests/core/settings/settings.c -- core/settings/settings.c and settings_values.c: the table, and
// the values that /set accepts.
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/base/mem.h"
#include "core/settings/settings.h"

static void every_row_is_complete_and_accepts_its_default(void **state)
{
    struct settings *s = settings_new();
    for (int i = 0; i < settings_count(); i++) {
        const struct setting *row = settings_row(i);
        struct err err;
        assert_true(strlen(row->key) > 2);
        assert_true(strlen(row->help) > 10);
        assert_int_equal(settings_set(s, row->key, row->def, &err), 0);
        assert_string_equal(settings_text(s, row->key), row->def);
        assert_false(settings_changed(s, row->key));
        for (int k = 0; k < i; k++) assert_string_not_equal(settings_row(k)->key, row->key);
    }
    assert_null(settings_row(settings_count()));
    settings_free(s);
}

static void check_value(struct settings *s, const char *typed, const char *spelled,
                        const char *json)
{
    struct err err;
    assert_int_equal(settings_set(s, "chat.template.x", typed, &err), 0);
    assert_string_equal(settings_text(s, "chat.template.x"), spelled);
    char *text = settings_json(s, "chat.template.x");
    assert_string_equal(text ? text : "none", json);
    free(text);
    // Setting the spelling gives the same spelling.
    assert_int_equal(settings_set(s, "chat.template.x", spelled, &err), 0);
    assert_string_equal(settings_text(s, "chat.template.x"), spelled);
}

static void values_have_types(void **state)
{
    struct settings *s = settings_new();
    check_value(s, "off", "false", "false");
    check_value(s, "True", "true", "true");
    check_value(s, "yes", "true", "true");
    check_value(s, "1", "1", "1");
    check_value(s, "-2.50", "-2.50", "-2.50");
    check_value(s, "12 km", "12 km", "\"12 km\"");
    check_value(s, "high", "high", "\"high\"");
    check_value(s, "say \"x\"", "say \"x\"", "\"say \\\"x\\\"\"");
    check_value(s, "\"high\"", "high", "\"high\"");
    check_value(s, "\"off\"", "\"off\"", "\"off\"");
    check_value(s, "\"7\"", "\"7\"", "\"7\"");
    check_value(s, "\"default\"", "\"default\"", "\"default\"");
    check_value(s, "", "\"\"", "\"\"");
    check_value(s, "[1, {\"a\":true}]", "[1,{\"a\":true}]", "[1,{\"a\":true}]");
    check_value(s, "[1", "[1", "\"[1\"");
    check_value(s, "default", "default", "none");
    settings_free(s);
}

// Rows of a pattern are made when they are set, in any set of values.
static void pattern_has_rows(void **state)
{
    static const char *const names[] = { "b", "a" };
    struct settings *old = settings_new();
    struct err err;
    const int count = settings_count();
    const struct setting *pattern = settings_find("chat.template.one");
    assert_string_equal(pattern->key, "chat.template.*");
    assert_string_equal(settings_text(old, "chat.template.one"), "default");
    assert_null(settings_find("chat.template."));
    assert_null(settings_find("chat.template.1a"));
    assert_null(settings_find("chat.template.a b"));
    struct settings *s = settings_new();
    assert_int_equal(settings_set(s, "chat.template.one", "1", &err), 0);
    assert_int_equal(settings_count(), count + 1);
    assert_string_equal(settings_find("chat.template.one")->key, "chat.template.one");
    assert_string_equal(settings_text(old, "chat.template.one"), "default");
    settings_swap(old, s);
    assert_string_equal(settings_text(old, "chat.template.one"), "1");
    struct settings *copy = settings_copy(old);
    assert_true(settings_changed(copy, "chat.template.one"));
    settings_reset(copy, "chat.template.one");
    assert_false(settings_changed(copy, "chat.template.one"));
    // Only offered rows are shown, after the row before the pattern.
    settings_offer("chat.template.*", names, 2);
    int i = 0;
    while (strcmp(settings_shown(i)->key, "chat.template") != 0) i++;
    assert_string_equal(settings_shown(i + 1)->key, "chat.template.b");
    assert_string_equal(settings_shown(i + 2)->key, "chat.template.a");
    assert_string_equal(settings_shown(i + 3)->key, "chat.date");
    settings_offer("chat.template.*", names + 1, 1);
    assert_string_equal(settings_shown(i + 1)->key, "chat.template.a");
    assert_string_equal(settings_shown(i + 2)->key, "chat.date");
    settings_offer("chat.template.*", NULL, 0);
    assert_string_equal(settings_shown(i + 1)->key, "chat.date");
    assert_non_null(settings_find("chat.template.default_allow_parallel_tool_calls"));
    settings_free(copy);
    settings_free(old);
    settings_free(s);
}

static void other_words_find_settings(void **state)
{
    assert_non_null(strstr(settings_find("train.lr")->also, "learning"));
    for (int i = 0; i < settings_count(); i++) {
        const struct setting *row = settings_row(i);
        if (row->also) assert_true(row->also[0] && !strstr(row->key, row->also));
    }
}

// Other code finds these rows by their role.
static void rows_of_sampler_and_precision_have_roles(void **state)
{
    int of[USE_ARITHMETIC + 1] = { 0 };
    for (int i = 0; i < settings_count(); i++) {
        const struct setting *row = settings_row(i);
        of[row->use]++;
        if (row->stale == STALE_NEXT && !strncmp(row->key, "sample.", 7))
            assert_int_not_equal(row->use, USE_OTHER);
    }
    assert_true(setting_in(settings_find("train.lr"), "train"));
    assert_false(setting_in(settings_find("train.lr"), "tra"));
    assert_string_equal(settings_used(USE_SEED)->key, "sample.seed");
    assert_string_equal(settings_used(USE_LENGTH)->key, "sample.max_tokens");
    assert_string_equal(settings_used(USE_ARITHMETIC)->key, "compute.matmul");
    assert_int_equal(of[USE_SEED] + of[USE_LENGTH] + of[USE_ARITHMETIC], 3);
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

// -0 is a different double but the same value.
static void minus_zero_is_zero(void **state)
{
    static const char *const rows[][3] = { { "train.weight_decay", "-0", "0" },
                                           { "train.weight_decay", "-0.0e3", "0" },
                                           { "train.seed", "-0", "0" },
                                           { "prune.keep", "-0,0.5", "0,0.5" } };
    struct settings *s = settings_new();
    struct err err;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_int_equal(settings_set(s, rows[i][0], rows[i][1], &err), 0);
        assert_string_equal(settings_text(s, rows[i][0]), rows[i][2]);
    }
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

// Checks the stored form of a list of layers, and which layers of a model it names ("refused": an
// error).
static void check_layers(const char *typed, const char *kept, int layers, const char *named)
{
    struct err err;
    bool set[64];
    struct buf b = { 0 };
    struct settings *s = settings_new();
    if (settings_set(s, "ffn.layers", typed, &err) < 0) fail_msg("'%s': %s", typed, err.text);
    assert_string_equal(settings_text(s, "ffn.layers"), kept);
    const int count = settings_layers(s, "ffn.layers", layers, set, &err);
    int listed = 0;
    for (int i = 0; count >= 0 && i < layers; i++)
        if (set[i]) {
            buf_printf(&b, "%s%d", b.length ? " " : "", i);
            listed++;
        }
    if (count >= 0) assert_int_equal(listed, count);
    char *list = buf_take(&b);
    assert_string_equal(count < 0 ? "refused" : list, named);
    free(list);
    settings_free(s);
}

static void lists_of_layers_are_resolved(void **state)
{
    check_layers("3", "3", 8, "3");
    check_layers(" 2-4 , 7", "2-4,7", 8, "2 3 4 7");
    check_layers("60%-80%", "60%-80%", 16, "10 11 12");
    check_layers("60%-80%", "60%-80%", 32, "19 20 21 22 23 24 25");
    check_layers("60%-80%", "60%-80%", 3, "2"); // 1.8 to 2.4: the layer in the middle
    check_layers("40%-45%", "40%-45%", 32, "13");
    check_layers("1%-2%", "1%-2%", 1, "0");
    check_layers("98%-100%", "98%-100%", 2, "1");
    check_layers("0%-40%,40%-60%", "0%-40%,40%-60%", 1, "0");
    check_layers("25%", "25%", 10, "2"); // 2.5: ties are rounded to even
    check_layers("37.5%,75%-100%", "37.5%,75%-100%", 4, "2 3");
    // 1.5 rounds to 2, which would occur twice.
    check_layers("37.5%,50%-100%", "37.5%,50%-100%", 4, "refused");
}

static void lists_are_checked_against_the_model(void **state)
{
    check_layers("7-8", "7-8", 8, "refused");
    check_layers("100%", "100%", 8, "refused");
    check_layers("0,50%", "0,50%", 1, "refused"); // 50% of 1 layer is 0, too
}

static void bad_lists_are_refused(void **state)
{
    static const char *const bad[] = { "",    ",",   "1,",    ",1",      "x",    "-1",
                                       "1.5", "5-2", "1-2-3", "10-80%",  "120%", "1e3",
                                       "3,3", "5,2", "2-5,5", "50%-50%", "1;2",  "nan" };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct err err;
        char *text = setting_spell(settings_find("ffn.layers"), bad[i], &err);
        if (text) fail_msg("'%s' was accepted as '%s'", bad[i], text);
        assert_non_null(strstr(err.text, "ffn.layers cannot be"));
    }
    // Would be written as 100%-100%, which is no list.
    assert_null(setting_spell(settings_find("ffn.layers"), "99.99999999999999%-100%", NULL));
}

static void lists_of_numbers_are_checked(void **state)
{
    const struct setting row = { .key = "x.keep", .type = SETTING_REALS, .min = 0, .max = 1 };
    static const char *const bad[] = { "", "0.5,", "0.5 0.2", "1.5", "nan", "0.5,,1", "a" };
    struct err err;
    char *text = setting_spell(&row, "0.50 ,1e-1,1", &err);
    assert_string_equal(text, "0.5,0.1,1");
    free(text);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        text = setting_spell(&row, bad[i], &err);
        if (text) fail_msg("'%s' was accepted as '%s'", bad[i], text);
        assert_non_null(strstr(err.text, "from 0 to 1"));
    }
}

static void files_with_factors_are_checked(void **state)
{
    static const char *const words[] = { "none", NULL };
    const struct setting row = {
        .key = "x.files", .type = SETTING_FACTORS, .min = -10, .max = 10, .choices = words
    };
    static const char *const bad[] = { "",         "a",    "a=",    "=1",   "a=1,",   ",a=1",
                                       "a=1,,b=2", "a=11", "a=nan", "a=1x", "a=1,a=2" };
    static const char *const good[][2] = { { "a=1", "a=1" },
                                           { " a=b=2.50 , c/d.e=-1e0 ", "a=b=2.5,c/d.e=-1" },
                                           { "a=0", "none" },
                                           { "a=0,b=3", "b=3" },
                                           { "NONE", "none" } };
    struct err err;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        char *text = setting_spell(&row, good[i][0], &err);
        if (!text) fail_msg("%s", err.text);
        assert_string_equal(text, good[i][1]);
        free(text);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char *text = setting_spell(&row, bad[i], &err);
        if (text) fail_msg("'%s' was accepted as '%s'", bad[i], text);
        assert_non_null(strstr(err.text, "x.files cannot be"));
    }
    struct buf many = { 0 };
    for (int i = 0; i < 100; i++) buf_printf(&many, "%sf%d=1", i ? "," : "", i);
    char *text = setting_spell(&row, many.data, &err);
    assert_string_equal(text, many.data);
    free(text);
    buf_puts(&many, ",more=1");
    assert_null(setting_spell(&row, many.data, &err));
    buf_release(&many);
    size_t count;
    struct file_factor *list = file_factors("a=b=2.5,c=-1", &count);
    assert_int_equal(count, 2);
    assert_string_equal(list[0].path, "a=b");
    assert_true(list[0].factor == 2.5 && list[1].factor == -1);
    file_factors_free(list, count);
    list = file_factors("none", &count);
    assert_int_equal(count, 0);
    file_factors_free(list, count);
    char here[4096], *stored = settings_stored("steer.vectors", "Makefile=2,no/such=1");
    assert_non_null(getcwd(here, sizeof here));
    char *want = xasprintf("%s/Makefile=2,no/such=1", here);
    assert_string_equal(stored, want);
    free(want);
    free(stored);
    // A folder with a comma would make the list unreadable: the path stays relative.
    char comma[] = "/tmp/vlmsh-a,b-XXXXXX";
    assert_non_null(mkdtemp(comma));
    assert_int_equal(chdir(comma), 0);
    assert_int_equal(close(creat("v", 0600)), 0);
    stored = settings_stored("steer.vectors", "v=2");
    assert_int_equal(unlink("v"), 0);
    assert_int_equal(chdir(here), 0);
    assert_int_equal(rmdir(comma), 0);
    assert_string_equal(stored, "v=2");
    free(stored);
}

static void a_copy_is_independent(void **state)
{
    struct err err;
    struct settings *s = settings_new();
    assert_int_equal(settings_set(s, "sample.top_k", "7", &err), 0);
    struct settings *copy = settings_copy(s);
    settings_reset(s, "sample.top_k");
    assert_int_equal(settings_integer(copy, "sample.top_k"), 7);
    settings_free(copy);
    settings_free(s);
}

// Rows of names stay until the program ends, so their number has a limit.
static void too_many_names_are_refused(void **state)
{
    struct settings *s = settings_new();
    struct err err;
    int status = 0;
    for (int i = 0; i < 2048 && status == 0; i++) {
        char *key = xasprintf("chat.template.v%d", i);
        status = settings_set(s, key, "1", &err);
        free(key);
    }
    assert_int_equal(status, -1);
    assert_non_null(strstr(err.text, "vlmsh has used 2048 settings since it started"));
    assert_int_equal(settings_count(), 2048);
    assert_int_equal(settings_set(s, "chat.template.v1", "2", &err), 0);
    settings_free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_have_types),
        cmocka_unit_test(pattern_has_rows),
        cmocka_unit_test(every_row_is_complete_and_accepts_its_default),
        cmocka_unit_test(other_words_find_settings),
        cmocka_unit_test(rows_of_sampler_and_precision_have_roles),
        cmocka_unit_test(bad_values_are_refused_and_change_nothing),
        cmocka_unit_test(values_are_read_in_their_type),
        cmocka_unit_test(minus_zero_is_zero),
        cmocka_unit_test(a_reset_brings_the_default_back),
        cmocka_unit_test(lists_of_layers_are_resolved),
        cmocka_unit_test(lists_are_checked_against_the_model),
        cmocka_unit_test(bad_lists_are_refused),
        cmocka_unit_test(lists_of_numbers_are_checked),
        cmocka_unit_test(files_with_factors_are_checked),
        cmocka_unit_test(a_copy_is_independent),
        cmocka_unit_test(too_many_names_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
