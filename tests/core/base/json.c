// tests/core/base/json.c -- core/base/json.c: files, parsing, members with types and ranges,
// numbers as they were written, repeated and crafted keys, and their number.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/file_in.h"
#include "tests/core/quick.h"
#include "tests/core/scratch.h"

static void parses_and_refuses(void **state)
{
    struct err err = { "" };
    cJSON *json = json_parse(" {\"a\": [1, 2]}\n\t ", 17, "x.json", &err);
    assert_non_null(json);
    cJSON_Delete(json);
    static const struct {
        const char *text, *why;
    } bad[] = {
        { "", "line 1" },      { "{", "line 1" },        { "{\n\"a\": 1,\n}", "line 3" },
        { "{} x", "line 1" },  { "{}\n\n{}", "line 3" }, { "{\"a\" 1}", "x.json" },
        { "[1, 2", "x.json" }, { "nul", "x.json" },      { "\"\\ud800\"", "x.json" },
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_null(json_parse(bad[i].text, strlen(bad[i].text), "x.json", &err));
        if (!strstr(err.text, bad[i].why)) fail_msg("%s: %s", bad[i].text, err.text);
    }
    assert_null(json_parse("{}\0{}", 5, "x.json", &err)); // nothing hides behind a NUL
    assert_null(json_parse("[\n\"a\0b\"]", 8, "x.json", &err));
    assert_non_null(strstr(err.text, "line 2"));
    char deep[20000];
    memset(deep, '[', sizeof deep);
    assert_null(json_parse(deep, sizeof deep, "x.json", &err));
}

static void reads_files(void **state)
{
    char *folder = scratch_new(), *path = xasprintf("%s/a.json", folder);
    struct err err = { "" };
    size_t size;
    assert_null(json_read(path, 100, &err));
    assert_non_null(strstr(err.text, path));
    assert_null(file_read(folder, 100, &size, &err));
    assert_non_null(strstr(err.text, "is a folder"));
    scratch_text(folder, "a.json", "{\"k\": true}");
    assert_null(file_read(path, 10, &size, &err));
    assert_non_null(strstr(err.text, "too large"));
    char *text = file_read(path, 11, &size, &err);
    assert_string_equal(text, "{\"k\": true}");
    assert_int_equal(size, 11);
    free(text);
    cJSON *json = json_read(path, 11, &err);
    assert_true(cJSON_IsTrue(json_get(json, "k")));
    cJSON_Delete(json);
    scratch_text(folder, "a.json", "");
    text = file_read(path, 10, &size, &err);
    assert_string_equal(text, "");
    free(text);
    free(path);
    scratch_remove(folder);
}

static const char members[] =
    "{\"int\": 7, \"neg\": -3, \"real\": 0.5, \"big\": 1e30, \"edge\": 9223372036854775808,"
    "\"inf\": 1e999, \"odd\": 9007199254740993, \"yes\": true, \"text\": \"t\", \"null\": null, "
    "\"Int\": 8}";

static void reads_numbers(void **state)
{
    cJSON *json = json_parse(members, strlen(members), "m", NULL);
    struct err err = { "" };
    int64_t n;
    double x;
    assert_int_equal(json_int(json, "int", 0, 7, 1, &n, &err), 0);
    assert_int_equal(n, 7);
    assert_int_equal(json_int(json, "null", 0, 9, 5, &n, &err), 0);
    assert_int_equal(n, 5);
    assert_int_equal(json_int(json, "absent", 0, 9, -5, &n, &err), 0);
    assert_int_equal(n, -5);
    assert_int_equal(json_int(NULL, "int", 0, 9, 4, &n, &err), 0);
    assert_int_equal(n, 4);
    assert_int_equal(json_int(json, "int", 0, 6, 1, &n, &err), -1);
    assert_string_equal(err.text, "\"int\" must be a whole number from 0 to 6");
    assert_int_equal(json_int(json, "neg", 0, 6, 1, &n, &err), -1);
    assert_int_equal(json_int(json, "real", 0, 6, 1, &n, &err), -1);
    assert_int_equal(json_int(json, "big", INT64_MIN, INT64_MAX, 1, &n, &err), -1);
    assert_int_equal(json_int(json, "edge", INT64_MIN, INT64_MAX, 1, &n, &err), -1);
    assert_int_equal(json_int(json, "text", 0, 6, 1, &n, &err), -1);
    // Without the stored text, a double does not determine the original number.
    assert_int_equal(json_int(json, "odd", 0, INT64_MAX, 1, &n, &err), -1);
    cJSON_Delete(json);
    json = json_parse_exact(members, strlen(members), "members", &err);
    assert_int_equal(json_int(json, "odd", 0, INT64_MAX, 1, &n, &err), 0);
    assert_int_equal(n, 9007199254740993);
    assert_int_equal(json_int(json, "edge", INT64_MIN, INT64_MAX, 1, &n, &err), -1);
    assert_int_equal(json_real(json, "real", 1, &x, &err), 0);
    assert_true(x == 0.5);
    assert_int_equal(json_real(json, "absent", 1.5, &x, &err), 0);
    assert_true(x == 1.5);
    assert_int_equal(json_real(json, "inf", 1, &x, &err), -1);
    assert_int_equal(json_real(json, "text", 1, &x, &err), -1);
    cJSON_Delete(json);
}

static void reads_whole_numbers(void **state)
{
    static const struct {
        const char *text;
        int64_t whole;
    } cases[] = { { "7", 7 },      { "-7.9", -3 },  { "9007199254740993", -3 },
                  { "-8.0", -8 },  { "1e3", 1000 }, { "9007199254740991", (1ll << 53) - 1 },
                  { "1e40", -3 },  { "-1e40", -3 }, { "9223372036854775808", -3 },
                  { "\"7\"", -3 }, { "null", -3 },  { "1e999", -3 } };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        cJSON *json = cJSON_Parse(cases[i].text);
        assert_int_equal(json_whole(json, -3), cases[i].whole);
        cJSON_Delete(json);
    }
    assert_int_equal(json_whole(NULL, -3), -3);
}

// Follows Python's rule for duplicate keys; numbers keep the text of the member that counts.
static void takes_the_last_of_a_key(void **state)
{
    static const char text[] = "{\"a\": 1, \"b\": {\"c\": [1.0], \"c\": [2.0, {\"d\": 3.0, \"d\": "
                               "9007199254740993}]}, \"A\": 4, \"a\": \"five\", \"a\": 6.50}";
    cJSON *json = json_parse_data(text, strlen(text), "data", NULL);
    char *all = json_print(json);
    assert_string_equal(all, "{\"b\":{\"c\":[2.0,{\"d\":9007199254740993}]},\"A\":4,\"a\":6.50}");
    free(all);
    cJSON_Delete(json);
    struct buf many = { 0 };
    for (int i = 0; i < 4000; i++) buf_printf(&many, "%s\"k%d\":%d", i ? "," : "{", i % 1000, i);
    buf_putc(&many, '}');
    json = json_parse(many.data, many.length, "many", NULL);
    assert_int_equal(cJSON_GetArraySize(json), 1000);
    assert_int_equal(json_whole(json_get(json, "k7"), -1), 3007);
    cJSON_Delete(json);
    buf_release(&many);
}

// Whole numbers beyond 2^53 and other notations keep their text.
static void keeps_numbers_as_written(void **state)
{
    static const char text[] =
        "{\"n\": [9007199254740993, 8999999999999999, -1234567890123456789, 1.0, 1e3, 7, "
        "\"8 \\\" 9\", true, 123456789012345678901234567890], \"3\": {\"x\": 0.10}}";
    cJSON *json = json_parse_data(text, strlen(text), "data", NULL);
    const cJSON *n = json_get(json, "n");
    char *all = json_print(json);
    assert_string_equal(all, "{\"n\":[9007199254740993,8999999999999999,-1234567890123456789,1.0,"
                             "1e3,7,\"8 \\\" 9\",true,123456789012345678901234567890],"
                             "\"3\":{\"x\":0.10}}");
    free(all);
    assert_int_equal(json_whole(cJSON_GetArrayItem(n, 0), -3), 9007199254740993);
    assert_int_equal(json_whole(cJSON_GetArrayItem(n, 8), -3), -3);
    char *one = json_number_text(cJSON_GetArrayItem(n, 2));
    assert_string_equal(one, "-1234567890123456789");
    free(one);
    cJSON_Delete(json);
    // Numbers that only cJSON accepts are written as valid JSON.
    json = json_parse_data("[007, 1.]", 9, "data", NULL);
    all = json_print(json);
    assert_string_equal(all, "[7,1]");
    free(all);
    cJSON_Delete(json);
    json = json_whole_new(INT64_MAX);
    all = json_print(json);
    assert_string_equal(all, "9223372036854775807");
    free(all);
    cJSON_Delete(json);
}

static void compares_numbers(void **state)
{
    static const char *const cases[][2] = {
        { "1.0", "1" },   { "1e3", "1000" }, { "9007199254740993", "9007199254740993" },
        { "0.5", "0.5" }, { "a", "a" },      { "1e40", "1e40" },
        { "01", "01" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *key = json_number_key(cases[i][0]);
        assert_string_equal(key, cases[i][1]);
        free(key);
    }
}

static void reads_booleans_and_texts(void **state)
{
    cJSON *json = json_parse(members, strlen(members), "m", NULL);
    struct err err = { "" };
    bool yes;
    const char *text;
    assert_int_equal(json_bool(json, "yes", false, &yes, &err), 0);
    assert_true(yes);
    assert_int_equal(json_bool(json, "null", true, &yes, &err), 0);
    assert_true(yes);
    assert_int_equal(json_bool(json, "int", true, &yes, &err), -1);
    assert_int_equal(json_text(json, "text", "o", &text, &err), 0);
    assert_string_equal(text, "t");
    assert_int_equal(json_text(json, "absent", "o", &text, &err), 0);
    assert_string_equal(text, "o");
    assert_int_equal(json_text(json, "yes", "o", &text, &err), -1);
    assert_null(json_get(json, "null"));
    assert_null(json_get(NULL, "int"));
    assert_int_equal(json_get(json, "Int")->valueint, 8);
    cJSON_Delete(json);
}

// Keys that an unseeded hash would put into one five-hundredth of the table, so that each lookup
// would compare all earlier ones.
static void crafted_keys_are_no_slower(void **state)
{
    enum { KEYS = 1 << 15, SLOTS = 1 << 17, WINDOW = 256 };
    struct buf text = { 0 };
    struct err err;
    buf_puts(&text, "{");
    int found = 0;
    for (unsigned i = 0; found < KEYS; i++) {
        char key[16];
        snprintf(key, sizeof key, "%u", i);
        uint64_t h = 14695981039346656037u;
        for (const char *p = key; *p; p++) h = (h ^ (unsigned char)*p) * 1099511628211u;
        if (((h ^ h >> 32) & (SLOTS - 1)) >= WINDOW) continue;
        buf_printf(&text, "%s\"%s\":%d", found ? "," : "", key, found);
        found++;
    }
    buf_puts(&text, "}");
    const clock_t before = clock();
    cJSON *json = json_parse(text.data, text.length, "crafted", &err);
    const double seconds = processor_seconds(before);
    assert_non_null(json);
    assert_int_equal(cJSON_GetArraySize(json), KEYS);
    cJSON_Delete(json);
    buf_release(&text);
    if (seconds > 0.5) fail_msg("%d keys took %g s", KEYS, seconds);
}

// Small values need 40 times the memory of their text. Commas in strings are no values.
static void bounds_the_values(void **state)
{
    enum { VALUES = 9 << 20 };
    struct buf text = { 0 }, string = { 0 };
    struct err err;
    buf_puts(&text, "[");
    buf_puts(&string, "[\"\\\"");
    for (int i = 0; i < VALUES; i++) buf_puts(&text, "0,"), buf_puts(&string, ",");
    buf_puts(&text, "0]");
    buf_puts(&string, "\",0]");
    assert_null(json_parse_file(text.data, text.length, "many.json", &err));
    assert_string_equal(
        err.text, "'many.json' has more than the supported 8388608 values: is it the right file?");
    cJSON *json = json_parse_file(string.data, string.length, "long.json", &err);
    assert_int_equal(cJSON_GetArraySize(json), 2);
    cJSON_Delete(json);
    buf_release(&text);
    buf_release(&string);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parses_and_refuses),
        cmocka_unit_test(reads_files),
        cmocka_unit_test(reads_numbers),
        cmocka_unit_test(reads_whole_numbers),
        cmocka_unit_test(reads_booleans_and_texts),
        cmocka_unit_test(takes_the_last_of_a_key),
        cmocka_unit_test(keeps_numbers_as_written),
        cmocka_unit_test(compares_numbers),
        cmocka_unit_test(crafted_keys_are_no_slower),
        cmocka_unit_test(bounds_the_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
