// tests/sessions/manage.c -- sessions/manage.c and names.c: list, begin, fork, rename, delete.
#include "sessions/drafts.h"
#include "tests/sessions/fixture.h"

static void fails(int status, const struct err *err, const char *reason)
{
    assert_int_equal(status, -1);
    assert_contains(err->text, reason);
}

static void test_list(void **state)
{
    struct err err = { 0 };
    struct session_row *rows;
    size_t count;
    struct store *s = open_store();
    assert_int_equal(store_list(s, &rows, &count, &err), 0);
    assert_int_equal(count, 0);
    store_list_free(rows, count);
    model("/models/a", "f00d");
    say(ROLE_SYSTEM, "not the title");
    say_picture("a.png", "bytes", 5, "  What\n is   this?");
    reply("A cat.");
    say(ROLE_USER, "gone");
    tell(&(struct event){ .kind = EVENT_UNDO, .count = 1 });
    model("/models/b", "beef");
    tell(&(struct event){ .kind = EVENT_CLEAR });
    assert_int_equal(store_begin(s, "second", &err), 0);
    say(ROLE_USER, "x");
    assert_int_equal(store_list(s, &rows, &count, &err), 0);
    assert_int_equal(count, 2);
    assert_string_equal(rows[0].name, "second");
    assert_string_equal(rows[1].title, "What is this?");
    assert_string_equal(rows[1].model, "/models/b");
    assert_int_equal(rows[1].turns, 1);
    assert_int_equal(rows[1].pictures, 1);
    assert_true(rows[1].began >= 1763000000 &&
                rows[1].began <= rows[1].ended); // seconds since 1970
    store_list_free(rows, count);
    store_close(s);
}

static void shell_dies(struct store *s, const char *session)
{
    struct draft_owner o = draft_owner_begin(s);
    assert_int_equal(store_shell_note(s, &o, session, NULL), 0);
    draft_owner_end(&o);
}

// Each session of a dead shell is offered once, the latest first; sessions of live shells are not
// offered.
static void test_crashed(void **state)
{
    static const char *const names[] = { "first", "alive", "last" };
    struct err err = { 0 };
    struct store *s = open_store();
    for (int i = 0; i < 3; i++) {
        assert_int_equal(store_begin(s, names[i], &err), 0);
        say(ROLE_USER, "x");
        char *at = xasprintf("%d", i + 1);
        assert_int_equal(store_run(s, &err, "UPDATE sessions SET touched = ? WHERE name = ?", "tt",
                                   at, names[i]),
                         0);
        free(at);
    }
    struct draft_owner alive = draft_owner_begin(s), me = draft_owner_begin(s);
    assert_int_equal(store_shell_note(s, &alive, "alive", &err), 0);
    for (int i = 0; i < 2; i++) shell_dies(s, "first"), shell_dies(s, "last");
    char *name = store_shell_crashed(s, &me);
    assert_string_equal(name, "last");
    free(name);
    name = store_shell_crashed(s, &me);
    assert_string_equal(name, "first");
    free(name);
    assert_null(store_shell_crashed(s, &me));
    draft_owner_end(&alive);
    name = store_shell_crashed(s, &me);
    assert_string_equal(name, "alive");
    free(name);
    draft_owner_end(&me);
    store_close(s);
}

static void test_names(void **state)
{
    struct err err = { 0 };
    char *name = xmalloc(NAME_LONGEST + 2);
    memset(name, 'x', NAME_LONGEST + 1);
    name[NAME_LONGEST + 1] = 0;
    fails(name_check(name, &err), &err, "200");
    name[NAME_LONGEST] = 0;
    assert_int_equal(name_check(name, &err), 0);
    free(name);
    assert_int_equal(name_check("猫 and 'quotes\"; DROP TABLE sessions", &err), 0);
    fails(name_check("", &err), &err, "empty");
    fails(name_check("a\nb", &err), &err, "control");
    fails(name_check("a\xc2\x85z", &err), &err, "control");
    fails(name_check("a\xff", &err), &err, "UTF-8");
    fails(name_check(" a", &err), &err, "space");
    static const char *const made[][2] = {
        { "What is this?", "-what-is-this" },
        { "", "-session" },
        { "?!\n", "-session" },
        { "ÄÖ 猫\xff!", "-äö-猫" },
        { "a very long question that does not fit", "-a-very-long-question-that-does" },
        { "äääääääääääääääääääää", "-ääääääääääääääää" },
    };
    for (size_t i = 0; i < sizeof made / sizeof made[0]; i++) {
        name = name_make(1795000000, made[i][0]);
        assert_memory_equal(name, "2026-11-1", 9);
        if (i != 4) assert_string_equal(name + 10, made[i][1]);
        assert_true(strlen(name) <= 10 + 1 + 32);
        assert_int_equal(name_check(name, &err), 0);
        free(name);
    }
}

static void test_begin(void **state)
{
    struct err err = { 0 };
    struct store *s = open_store();
    assert_int_equal(store_begin(s, "mine", &err), 0);
    assert_null(store_session(s));
    say(ROLE_USER, "hello");
    assert_string_equal(store_session(s), "mine");
    fails(store_begin(s, "mine", &err), &err, "already");
    assert_string_equal(store_session(s), "mine");
    fails(store_begin(s, "", &err), &err, "empty");
    assert_int_equal(store_begin(s, NULL, &err), 0);
    say(ROLE_USER, "hello");
    assert_string_equal(store_session(s) + 10, "-hello");
    store_close(s);
}

static void test_fork(void **state)
{
    struct err err = { 0 };
    struct store *s = open_store();
    fails(store_fork(s, "copy", &err), &err, "first message");
    assert_int_equal(store_begin(s, "origin", &err), 0);
    model("/m", "f00d");
    say_picture("a.png", "bytes", 5, "one");
    reply("1");
    say(ROLE_USER, "two");
    tell(&(struct event){ .kind = EVENT_UNDO, .count = 1 });
    set("sample.top_k", "3");
    assert_int_equal(store_fork(s, "copy", &err), 0);
    assert_string_equal(store_session(s), "copy");
    say(ROLE_USER, "three");
    assert_kept("origin", "/m=f00d user:one assistant:1 sample.top_k=3");
    assert_kept("copy", "/m=f00d user:one assistant:1 sample.top_k=3 user:three");
    assert_int_equal(number(s, "SELECT count(*) FROM answers"), 2);
    assert_int_equal(number(s, "SELECT count(*) FROM parts WHERE picture IS NOT NULL"), 2);
    fails(store_fork(s, "origin", &err), &err, "already");
    assert_int_equal(store_fork(s, NULL, &err), 0);
    assert_string_equal(store_session(s), "copy-2");
    store_close(s);
}

static void test_rename(void **state)
{
    struct err err = { 0 };
    struct store *s = open_store();
    assert_int_equal(store_begin(s, "a", &err), 0);
    say(ROLE_USER, "one");
    assert_int_equal(store_begin(s, "b", &err), 0);
    say(ROLE_USER, "two");
    fails(store_rename(s, "none", "c", &err), &err, "no session 'none'");
    fails(store_rename(s, "a", "b", &err), &err, "already");
    fails(store_rename(s, "a", "x\ty", &err), &err, "control");
    assert_int_equal(store_rename(s, "b", "b", &err), 0);
    assert_int_equal(store_rename(s, "b", "猫", &err), 0);
    assert_string_equal(store_session(s), "猫");
    reply("2");
    assert_kept("猫", "user:two assistant:2");
    assert_int_equal(store_rename(s, "a", "b", &err), 0);
    assert_kept("b", "user:one");
    store_close(s);
}

// Another program renames the session: later turns still go into it.
static void test_renamed_elsewhere(void **state)
{
    struct err err = { 0 };
    struct store *s = open_store();
    assert_int_equal(store_begin(s, "a", &err), 0);
    say(ROLE_USER, "one");
    struct store *other = store_open(database, &err);
    assert_int_equal(store_rename(other, "a", "b", &err), 0);
    store_close(other);
    reply("1");
    assert_string_equal(store_session(s), "b");
    assert_kept("b", "user:one assistant:1");
    store_close(s);
}

static void test_delete(void **state)
{
    struct err err = { 0 };
    struct store *s = open_store();
    assert_int_equal(store_begin(s, "a", &err), 0);
    model("/a", "f00d");
    say_picture("shared.png", "shared", 6, "one");
    say_picture("own.png", "own", 3, "two");
    assert_int_equal(store_begin(s, "b", &err), 0);
    model("/b", "beef");
    say_picture("shared.png", "shared", 6, "one");
    fails(store_delete(s, "b", &err), &err, "the current session");
    fails(store_delete(s, "none", &err), &err, "no session 'none'");
    assert_int_equal(number(s, "SELECT count(*) FROM pictures"), 2);
    assert_int_equal(store_delete(s, "a", &err), 0);
    assert_int_equal(number(s, "SELECT count(*) FROM sessions"), 1);
    assert_int_equal(number(s, "SELECT count(*) FROM messages"), 1);
    assert_int_equal(number(s, "SELECT count(*) FROM parts"), 2);
    assert_int_equal(number(s, "SELECT count(*) FROM pictures WHERE size = 6"), 1);
    assert_int_equal(number(s, "SELECT count(*) FROM pictures"), 1);
    assert_kept("a", "no session 'a' (/session list)");
    store_close(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_list, setup, teardown),
        cmocka_unit_test_setup_teardown(test_crashed, setup, teardown),
        cmocka_unit_test_setup_teardown(test_names, setup, teardown),
        cmocka_unit_test_setup_teardown(test_begin, setup, teardown),
        cmocka_unit_test_setup_teardown(test_fork, setup, teardown),
        cmocka_unit_test_setup_teardown(test_rename, setup, teardown),
        cmocka_unit_test_setup_teardown(test_renamed_elsewhere, setup, teardown),
        cmocka_unit_test_setup_teardown(test_delete, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
