// tests/core/new/new_text.c -- core/new/new_text.c: the dialogues of data sets; plain files stay
// unchanged; broken files are refused.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
// needs the headers above
#include <cmocka.h>

#include "core/new/new_model.h"
#include "tests/core/scratch.h"

static int read_file(const char *folder, const char *name, struct buf *text, struct err *err)
{
    char *path = xasprintf("%s/%s", folder, name);
    const int status = new_text_read(text, path, err);
    free(path);
    return status;
}

static void reads_text_of_data_sets(void **state)
{
    char *folder = scratch_new();
    struct buf text = { 0 };
    struct err err;
    scratch_text(folder, "a.json",
                 "[{\"id\": \"zebra\", \"image\": \"x.png\", \"conversations\": ["
                 "{\"from\": \"human\", \"value\": \"<image>\\nWho?\"}, "
                 "{\"from\": \"gpt\", \"value\": \"me\"}]}]");
    scratch_text(folder, "b.jsonl", "{\"question\": \"Why?\", \"answer\": \"so\"}\n");
    scratch_text(folder, "c.txt", "as it \"is\"");
    if (read_file(folder, "a.json", &text, &err) < 0) fail_msg("%s", err.text);
    assert_non_null(strstr(text.data, "USER: "));
    assert_non_null(strstr(text.data, "Who? ASSISTANT: me\n"));
    assert_null(strstr(text.data, "zebra"));
    assert_null(strstr(text.data, "<image>"));
    if (read_file(folder, "b.jsonl", &text, &err) < 0) fail_msg("%s", err.text);
    assert_non_null(strstr(text.data, " USER: Why? ASSISTANT: so\n"));
    if (read_file(folder, "c.txt", &text, &err) < 0) fail_msg("%s", err.text);
    assert_string_equal(text.data + text.length - 10, "as it \"is\"");
    buf_release(&text);
    scratch_remove(folder);
}

static void refuses_broken_text(void **state)
{
    char *folder = scratch_new();
    struct buf text = { 0 };
    struct err err;
    scratch_write(folder, "zero.txt", "a\0b", 3);
    scratch_text(folder, "broken.json", "[{\"question\": ");
    assert_int_equal(read_file(folder, "zero.txt", &text, &err), -1);
    assert_non_null(strstr(err.text, "zero.txt"));
    assert_int_equal(read_file(folder, "broken.json", &text, &err), -1);
    assert_int_equal(read_file(folder, "none.txt", &text, &err), -1);
    assert_non_null(strstr(err.text, "none.txt"));
    buf_release(&text);
    scratch_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_text_of_data_sets),
        cmocka_unit_test(refuses_broken_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
