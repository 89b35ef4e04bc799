// tests/commands/reference.c -- commands/reference.c: the manual lists every command and
// setting, as valid roff.
#include "commands/reference.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "commands/command.h"

static void test_man(void **state)
{
    struct buf b = { 0 };
    const struct command *c;
    const struct setting *row;
    int heads = 0, expected = 0;
    reference_write(&b);
    for (const char *p = b.data; (p = strstr(p, "\n.TP\n.B ")); p++) heads++;
    for (int i = 0; (c = command_at(i)); i++, expected++) {
        struct buf head = { 0 };
        buf_puts(&head, ".B /");
        for (const char *p = c->name; *p; p++) buf_printf(&head, *p == '-' ? "\\%c" : "%c", *p);
        assert_non_null(strstr(b.data, head.data));
        buf_release(&head);
    }
    for (int i = 0; (row = settings_row(i)); i++, expected++) {
        char *head = xasprintf(".B %s\n", row->key);
        assert_non_null(strstr(b.data, head));
        free(head);
    }
    assert_int_equal(heads, expected);
    assert_non_null(strstr(b.data, ".SH COMMANDS\n"));
    assert_non_null(strstr(b.data, ".SH SETTINGS\n"));
    buf_release(&b);
}

// Every line that begins with a dot is a request that the manual uses; no line begins with a quote.
static void test_man_requests(void **state)
{
    static const char *const requests[] = { ".SH ",  ".TP\n", ".B ",   ".nf\n",
                                            ".fi\n", ".RS\n", ".RE\n", ".PP\n" };
    struct buf b = { 0 };
    reference_write(&b);
    for (const char *p = b.data; p && *p; p = strchr(p, '\n'), p = p ? p + 1 : NULL) {
        bool known = *p != '.' && *p != '\'';
        for (size_t i = 0; i < sizeof requests / sizeof *requests; i++)
            known |= !strncmp(p, requests[i], strlen(requests[i]));
        if (!known) fail_msg("not a request: %.40s", p);
    }
    buf_release(&b);
}

static void check_allowed(struct setting row, const char *expected)
{
    char *text = setting_allowed(&row);
    assert_string_equal(text, expected);
    free(text);
}

static void test_allowed(void **state)
{
    static const char *const words[] = { "auto", NULL }, *const kinds[] = { "a", "b", NULL };
    check_allowed((struct setting){ .type = SETTING_FLAG }, "on | off");
    check_allowed((struct setting){ .type = SETTING_INTEGER, .min = 0, .max = 1e15 }, "0 or more");
    check_allowed((struct setting){ .type = SETTING_REAL, .max = 1, .choices = words },
                  "0..1 | auto");
    check_allowed((struct setting){ .type = SETTING_CHOICE, .choices = kinds }, "a | b");
    check_allowed(
        (struct setting){ .type = SETTING_INTEGER, .min = 1, .max = 64, .unit = "tokens" },
        "1..64 tokens");
    check_allowed(
        (struct setting){
            .type = SETTING_INTEGER, .min = 1, .max = 1e15, .unit = "steps", .choices = words },
        "1 or more steps | auto");
    check_allowed((struct setting){ .type = SETTING_REALS, .max = 1 },
                  "0..1, or several separated by commas");
    check_allowed((struct setting){ .type = SETTING_FACTORS, .choices = words },
                  "FILE=NUMBER, or several separated by commas | auto");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_man),
        cmocka_unit_test(test_man_requests),
        cmocka_unit_test(test_allowed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
