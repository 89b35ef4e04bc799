// tests/core/template/message.c -- core/template/message.c: roles, content, copies, releases.
#include "core/template/message.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void test_roles(void **state)
{
    for (int i = 0; i < ROLE_COUNT; i++) assert_int_equal(role_parse(role_name((enum role)i)), i);
    assert_int_equal(role_parse("User"), -1);
    assert_int_equal(role_parse(""), -1);
}

static void test_content(void **state)
{
    struct message m = { .role = ROLE_USER };
    char *text = message_text(&m);
    assert_string_equal(text, "");
    free(text);
    message_add_text(&m, "a ");
    message_add_picture(&m, 7);
    message_add_text(&m, "b");
    text = message_text(&m);
    assert_string_equal(text, "a b");
    free(text);
    assert_int_equal(m.content_count, 3);
    assert_null(m.content[1].text);
    assert_int_equal(m.content[1].picture, 7);
    assert_int_equal(m.content[2].picture, -1);
    message_release(&m);
    assert_int_equal(m.content_count, 0);
    message_release(&m);
}

static void test_copy(void **state)
{
    struct message m = { .role = ROLE_ASSISTANT, .generated = true }, copy;
    message_add_text(&m, "answer");
    message_add_picture(&m, 2);
    ids_add(&m.ids, 42);
    message_copy(&copy, &m);
    assert_ptr_not_equal(copy.content[0].text, m.content[0].text);
    message_release(&m);
    assert_int_equal(copy.role, ROLE_ASSISTANT);
    assert_true(copy.generated);
    assert_string_equal(copy.content[0].text, "answer");
    assert_int_equal(copy.content[1].picture, 2);
    assert_int_equal(copy.ids.count, 1);
    assert_int_equal(copy.ids.data[0], 42);
    message_release(&copy);
}

static void test_picture(void **state)
{
    struct picture p = { .path = xstrdup("a.png"), .bytes = xmalloc(3), .size = 3 };
    p.image.pixels = xmalloc(12);
    picture_release(&p);
    assert_null(p.path);
    picture_release(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_roles),
        cmocka_unit_test(test_content),
        cmocka_unit_test(test_copy),
        cmocka_unit_test(test_picture),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
