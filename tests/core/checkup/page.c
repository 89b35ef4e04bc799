// tests/core/checkup/page.c -- core/checkup/html.c, markdown.c, compare.c: text of a foreign record
// is escaped, the page requests nothing from a network, and a comparison lists the entries that
// differ.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/event.h"
#include "core/checkup/checkup_parts.h"
#include "tests/core/scratch.h"

static const char first[] =
    "{\"format\":\"vlmsh checkup 1\",\"program\":\"vlmsh 1\",\"machine\":{\"device\":\"cpu\","
    "\"memory GiB\":8},\"quick\":false,\"models\":[{\"name\":\"a<b>\",\"family\":\"llava\","
    "\"checks\":[{\"name\":\"opens\",\"shows\":\"S & T\",\"rows\":["
    "{\"name\":\"files\",\"verdict\":\"fails\",\"text\":\"<script>\\\"x\\\"|</script>\","
    "\"numbers\":[{\"name\":\"load time\",\"value\":0.0025,\"unit\":\"s\",\"samples\":2},"
    "{\"name\":\"weights\",\"value\":1234567,\"unit\":\"tensors\"},"
    "{\"name\":\"loss\",\"value\":null,\"unit\":\"\"}]}],"
    "\"figures\":[{\"title\":\"F\",\"text\":\"T\",\"svg\":\"<svg onload='x'/>\"}]}]}]}";
// Differs from the first record in device, verdict, numbers and figures. The comparison ignores
// figures, and numbers within 0.5%, here the weights.
static const char second[] =
    "{\"format\":\"vlmsh checkup 1\",\"program\":\"vlmsh 1\",\"machine\":{\"device\":\"gpu\","
    "\"memory GiB\":8},\"quick\":false,\"models\":[{\"name\":\"a<b>\",\"family\":\"llava\","
    "\"checks\":[{\"name\":\"opens\",\"shows\":\"S & T\",\"rows\":["
    "{\"name\":\"files\",\"verdict\":\"works\",\"text\":\"<script>\\\"x\\\"|</script>\","
    "\"numbers\":[{\"name\":\"load time\",\"value\":0.005,\"unit\":\"s\",\"samples\":2},"
    "{\"name\":\"weights\",\"value\":1234568,\"unit\":\"tensors\"},"
    "{\"name\":\"loss\",\"value\":1,\"unit\":\"\"}]}],\"figures\":[]}]}]}";

static void the_page_escapes_text_and_loads_nothing(void **state)
{
    (void)state;
    struct buf b = { 0 };
    cJSON *record = cJSON_Parse(first);
    checkup_html(record, &b);
    assert_null(strstr(b.data, "<script"));
    assert_null(strstr(b.data, "onload"));
    assert_null(strstr(b.data, "http"));
    assert_non_null(strstr(b.data, "<title>Check-up of a&lt;b&gt;</title>"));
    assert_non_null(strstr(b.data, "&lt;script&gt;&quot;x&quot;|&lt;/script&gt;"));
    assert_non_null(strstr(b.data, "2.5 ms"));
    assert_non_null(strstr(b.data, "n = 2"));
    assert_non_null(strstr(b.data, "1,234,567 tensors"));
    assert_non_null(strstr(b.data, "not a number"));
    assert_non_null(strstr(b.data, "alt=\"F\""));
    buf_clear(&b);
    checkup_markdown(record, &b);
    assert_non_null(strstr(b.data, "| files | fails | &lt;script>\"x\"\\|&lt;/script> |"));
    assert_non_null(strstr(b.data, "### opens: fails"));
    buf_release(&b);
    cJSON_Delete(record);
}

// A record that lacks the fields that the page reads still gives a page.
static void an_empty_record_is_a_page(void **state)
{
    (void)state;
    static const char *const records[] = { "{}", "{\"models\":[{}]}",
                                           "{\"models\":[{\"checks\":[{\"rows\":[{}]}]}]}",
                                           "{\"models\":[1,\"x\",{\"checks\":3}]}" };
    for (size_t i = 0; i < sizeof records / sizeof *records; i++) {
        struct buf b = { 0 };
        cJSON *record = cJSON_Parse(records[i]);
        checkup_html(record, &b);
        assert_non_null(strstr(b.data, "</html>"));
        buf_clear(&b);
        checkup_markdown(record, &b);
        assert_non_null(strstr(b.data, "# Check-up"));
        buf_release(&b);
        cJSON_Delete(record);
    }
}

static void keep_cells(void *self, const struct event *event)
{
    struct buf *b = self;
    const struct event_table *t = event->table;
    for (int r = 0; t && r < t->row_count; r++)
        for (int c = 0; c < t->column_count; c++)
            buf_printf(b, "%s%s", t->cells[r * t->column_count + c],
                       c + 1 < t->column_count ? "|" : "\n");
}

static void comparison_shows_each_difference(void **state)
{
    (void)state;
    struct err err = { 0 };
    char *folder = scratch_new(), *a = xasprintf("%s/a.json", folder);
    char *b = xasprintf("%s/b.json", folder);
    struct buf cells = { 0 };
    struct sinks sinks = { 0 };
    sinks_add(&sinks, (struct sink){ .emit = keep_cells, .self = &cells });
    scratch_write(folder, "a.json", first, sizeof first - 1);
    scratch_write(folder, "b.json", second, sizeof second - 1);
    if (checkup_compare(a, b, &sinks, &err) < 0) fail_msg("%s", err.text);
    assert_string_equal(cells.data, "||device|cpu|gpu|\n"
                                    "a<b>|opens|files|fails|works|\n"
                                    "a<b>|opens|files: load time|2.5 ms|5 ms|+100%\n"
                                    "a<b>|opens|files: loss|not a number|1|\n");
    assert_int_equal(checkup_compare(a, folder, &sinks, &err), -1);
    assert_non_null(strstr(err.text, "checkup.json"));
    buf_release(&cells);
    free(a);
    free(b);
    scratch_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_page_escapes_text_and_loads_nothing),
        cmocka_unit_test(an_empty_record_is_a_page),
        cmocka_unit_test(comparison_shows_each_difference),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
