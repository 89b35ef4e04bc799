// tests/sessions/turns.c -- sessions/turns.c: each event is on disk once, in order, even if the
// program is killed, the file is locked or the disk is full.
#include "tests/sessions/fixture.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "core/base/file_in.h"

static void test_begins(void **state)
{
    struct store *s = open_store();
    model("tests/goldens", "f00d");
    set("sample.top_k", "5");
    set("sample.top_p", "1"); // the default, so no change
    say(ROLE_SYSTEM, "Be brief.");
    assert_null(store_session(s));
    assert_int_equal(number(s, "SELECT count(*) FROM sessions"), 0);
    say(ROLE_USER, "What is THIS, Örjan's?");
    const char *name = store_session(s);
    assert_non_null(name);
    assert_int_equal(strlen(name), strlen("2026-11-21-what-is-this-örjans"));
    assert_string_equal(name + 10, "-what-is-this-örjans");
    char *real = realpath("tests/goldens", NULL);
    char *expected = xasprintf("%s=f00d sample.top_k=5 system:Be brief. user:What is THIS, "
                               "Örjan's?",
                               real);
    assert_kept(name, expected);
    reply("A cat.");
    set("sample.top_k", "0");
    free(expected);
    expected = xasprintf("%s=f00d sample.top_k=5 system:Be brief. user:What is THIS, Örjan's? "
                         "assistant:A cat. sample.top_k=0",
                         real);
    assert_kept(name, expected);
    free(expected);
    free(real);
    store_close(s);
}

static void test_answer_numbers(void **state)
{
    struct store *s = open_store();
    struct saved saved;
    struct err err;
    say(ROLE_USER, "hi");
    reply("ho");
    assert_int_equal(saved_read(s, store_session(s), &saved, &err), 0);
    assert_int_equal(saved.count, 2);
    assert_false(saved.list[0].timed);
    const struct saved_entry *e = &saved.list[1];
    assert_true(e->timed && e->message.generated);
    assert_int_equal(e->message.ids.count, 3);
    assert_int_equal(e->message.ids.data[2], 7);
    assert_int_equal(e->answer.prompt_tokens, 40);
    assert_int_equal(e->answer.visual_tokens, 16);
    assert_int_equal(e->answer.computed_tokens, 24);
    assert_true(e->answer.prefill_s == 0.5 && e->answer.decode_s == 0.25);
    assert_string_equal(e->stop, "eos");
    saved_release(&saved);
    store_close(s);
}

static void test_not_kept(void **state)
{
    struct store *s = open_store();
    const struct event_answer a = { .text = "batch", .stop = "eos" };
    tell(&(struct event){ .kind = EVENT_ANSWER, .answer = &a });
    tell(&(struct event){ .kind = EVENT_TOKEN, .text = "x" });
    tell(&(struct event){ .kind = EVENT_UNDO, .count = 2 });
    tell(&(struct event){ .kind = EVENT_CLEAR });
    tell(&(struct event){ .kind = EVENT_DONE, .ok = true });
    assert_int_equal(number(s, "SELECT count(*) FROM sessions"), 0);
    assert_null(notices.length ? notices.data : NULL);
    store_close(s);
}

static void test_given_answers(void **state)
{
    struct store *s = open_store();
    say(ROLE_USER, "a");
    say(ROLE_ASSISTANT, "b");
    assert_kept(store_session(s), "user:a");
    tell(&(struct event){ .kind = EVENT_DONE, .ok = true });
    assert_kept(store_session(s), "user:a assistant:b");
    store_close(s);
}

static void test_undo_clear(void **state)
{
    struct store *s = open_store();
    say(ROLE_USER, "one");
    reply("1");
    say(ROLE_SYSTEM, "Be brief.");
    say(ROLE_USER, "two");
    reply("2");
    tell(&(struct event){ .kind = EVENT_UNDO, .count = 1 });
    reply("zwei");
    char *first = xstrdup(store_session(s));
    assert_kept(first, "user:one assistant:1 system:Be brief. user:two assistant:zwei");
    // The system message does not count as undone.
    tell(&(struct event){ .kind = EVENT_UNDO, .count = 3 });
    assert_kept(first, "user:one system:Be brief.");
    assert_int_equal(number(s, "SELECT count(*) FROM messages"), 6); // no message is deleted
    tell(&(struct event){ .kind = EVENT_CLEAR });
    assert_null(store_session(s));
    say(ROLE_USER, "one");
    assert_string_not_equal(store_session(s), first);
    char *second = xasprintf("%s-2", first);
    assert_string_equal(store_session(s), second);
    assert_kept(second, "user:one");
    assert_kept(first, "user:one system:Be brief.");
    free(first);
    free(second);
    store_close(s);
}

static void test_pictures(void **state)
{
    struct store *s = open_store();
    size_t size = STORED_PICTURE + 1;
    char *large = xcalloc(size, 1);
    say_picture("small.png", "bytes", 5, "one");
    reply("1");
    say_picture("other/path.png", "bytes", 5, "two");
    reply("2");
    say_picture("edge.png", large, STORED_PICTURE, "three");
    say_picture("large.png", large, size, "four");
    // Pictures with the same hash are shared.
    assert_int_equal(number(s, "SELECT count(*) FROM pictures"), 3);
    assert_int_equal(number(s, "SELECT count(*) FROM pictures WHERE bytes IS NULL"), 1);
    assert_int_equal(number(s, "SELECT size FROM pictures WHERE bytes IS NULL"), size);
    struct saved saved;
    struct err err = { 0 };
    char *bytes;
    assert_int_equal(saved_read(s, store_session(s), &saved, &err), 0);
    assert_int_equal(saved.picture_count, 4);
    assert_string_equal(saved.pictures[1].path, "other/path.png");
    assert_int_equal(saved_bytes(s, &saved.pictures[1], &bytes, &size, &err), 0);
    assert_int_equal(size, 5);
    assert_memory_equal(bytes, "bytes", 5);
    free(bytes);
    assert_int_equal(saved_bytes(s, &saved.pictures[3], &bytes, &size, &err), -1);
    assert_contains(err.text, "large.png");
    saved_release(&saved);
    free(large);
    store_close(s);
}

// After kill -9 during an answer, the question is stored, the unfinished answer is not.
static void test_killed(void **state)
{
    int ready[2];
    assert_int_equal(pipe(ready), 0);
    pid_t child = fork();
    if (child == 0) {
        open_store();
        say(ROLE_USER, "first");
        reply("answer");
        say(ROLE_USER, "second");
        for (int i = 0; i < 10; i++) tell(&(struct event){ .kind = EVENT_TOKEN, .text = "x" });
        if (write(ready[1], "x", 1) != 1) _exit(1);
        pause();
    }
    char c;
    assert_int_equal(read(ready[0], &c, 1), 1);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    close(ready[0]);
    close(ready[1]);
    struct store *s = open_store();
    struct session_row *rows;
    size_t count;
    assert_int_equal(store_list(s, &rows, &count, NULL), 0);
    assert_int_equal(count, 1);
    assert_kept(rows[0].name, "user:first assistant:answer user:second");
    store_list_free(rows, count);
    store_close(s);
}

// If the program is killed inside a transaction, none of it is stored.
static void test_killed_writing(void **state)
{
    int ready[2];
    assert_int_equal(pipe(ready), 0);
    pid_t child = fork();
    if (child == 0) {
        struct store *s = open_store();
        say(ROLE_USER, "first");
        if (store_lock(s, NULL) < 0 ||
            store_run(s, NULL, "UPDATE messages SET undone = 1", "") < 0 ||
            write(ready[1], "x", 1) != 1)
            _exit(1);
        pause();
    }
    char c;
    assert_int_equal(read(ready[0], &c, 1), 1);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    close(ready[0]);
    close(ready[1]);
    struct store *s = open_store();
    assert_int_equal(number(s, "SELECT count(*) FROM messages WHERE undone IS NULL"), 1);
    say(ROLE_USER, "after");
    assert_int_equal(number(s, "SELECT count(*) FROM messages"), 2);
    store_close(s);
}

static void test_two_programs(void **state)
{
    enum { TURNS = 25 };
    pid_t children[2];
    for (int k = 0; k < 2; k++) {
        children[k] = fork();
        if (children[k]) continue;
        struct store *s = open_store();
        for (int i = 0; i < TURNS; i++) {
            say(ROLE_USER, "same words");
            reply("answer");
        }
        _exit(s->pending_count ? 1 : 0);
    }
    for (int k = 0; k < 2; k++) {
        int status;
        waitpid(children[k], &status, 0);
        assert_int_equal(status, 0);
    }
    struct store *s = open_store();
    struct session_row *rows;
    size_t count;
    assert_int_equal(store_list(s, &rows, &count, NULL), 0);
    assert_int_equal(count, 2);
    assert_string_not_equal(rows[0].name, rows[1].name);
    assert_int_equal(rows[0].turns, TURNS);
    assert_int_equal(rows[1].turns, TURNS);
    store_list_free(rows, count);
    store_close(s);
}

// While the database is locked, nothing is lost, and there is one notice; the next turn writes
// everything.
static void test_locked(void **state)
{
    struct err err;
    struct store *s = open_store();
    struct store *other = store_open(database, &err);
    sqlite3_busy_timeout(s->db, 50);
    say(ROLE_USER, "one");
    char *name = xstrdup(store_session(s));
    assert_int_equal(store_lock(other, &err), 0);
    reply("1");
    say(ROLE_USER, "two");
    assert_contains(notices.data, "locked");
    assert_contains(notices.data, database);
    assert_null(strstr(strchr(notices.data, '\n') + 1, "locked"));
    assert_kept(name, "user:one");
    store_unlock(other, 0, &err);
    buf_clear(&notices);
    reply("2");
    assert_kept(name, "user:one assistant:1 user:two assistant:2");
    assert_contains(notices.data, "again");
    free(name);
    store_close(other);
    store_close(s);
}

static void test_locked_from_the_start(void **state)
{
    struct err err;
    struct store *s = open_store();
    struct store *other = store_open(database, &err);
    sqlite3_busy_timeout(s->db, 50);
    assert_int_equal(store_lock(other, &err), 0);
    say(ROLE_USER, "one");
    reply("1");
    tell(&(struct event){ .kind = EVENT_CLEAR });
    say(ROLE_USER, "two");
    store_unlock(other, 0, &err);
    store_close(s); // writes the waiting turns
    assert_int_equal(number(other, "SELECT count(*) FROM sessions"), 2);
    assert_int_equal(number(other, "SELECT count(*) FROM messages"), 3);
    store_close(other);
}

static void test_full_disk(void **state)
{
    struct store *s = open_store();
    say(ROLE_USER, "one");
    reply("1");
    char *name = xstrdup(store_session(s)), *words = xcalloc(1 << 20, 1);
    memset(words, 'x', (1 << 20) - 1);
    number(s, "PRAGMA max_page_count = 20");
    say(ROLE_USER, words);
    reply("2");
    assert_contains(notices.data, "full");
    assert_kept(name, "user:one assistant:1");
    number(s, "PRAGMA max_page_count = 100000");
    say(ROLE_USER, "three");
    char *expected = xasprintf("user:one assistant:1 user:%s assistant:2 user:three", words);
    assert_kept(name, expected);
    free(expected);
    free(words);
    free(name);
    store_close(s);
}

static void measured(const char *json)
{
    tell(&(struct event){ .kind = EVENT_MEASURED, .key = "norms", .text = json });
}

// A measurement waits like the turns around it, for the session in which it was made.
static void test_full_disk_measured(void **state)
{
    struct store *s = open_store();
    say(ROLE_USER, "one");
    reply("1");
    number(s, "PRAGMA max_page_count = 20");
    char *words = xcalloc(1 << 20, 1);
    memset(words, 'x', (1 << 20) - 1);
    say(ROLE_USER, words);
    measured("{\"a\":1}");
    tell(&(struct event){ .kind = EVENT_CLEAR });
    measured("{\"a\":2}");
    say(ROLE_USER, "three");
    measured("{\"a\":3}");
    assert_int_equal(number(s, "SELECT count(*) FROM results"), 0);
    number(s, "PRAGMA max_page_count = 100000");
    reply("3");
    assert_contains(notices.data, "nothing was lost");
    const char *const whose = "SELECT count(*) FROM results r WHERE json = '{\"a\":%d}' AND "
                              "(SELECT count(*) FROM messages WHERE session = r.session) = %d";
    for (int i = 1; i <= 3; i++) {
        char *sql = xasprintf(whose, i, i == 1 ? 3 : i == 2 ? 0 : 2);
        assert_int_equal(number(s, sql), 1);
        free(sql);
    }
    free(words);
    store_close(s);
}

// A measurement that the database never accepts does not block turns.
static void test_measured_too_much(void **state)
{
    struct store *s = open_store();
    sqlite3_limit(s->db, SQLITE_LIMIT_LENGTH, 10000);
    char *json = xcalloc(1, 20000);
    memset(json, '1', 19999);
    measured(json);
    assert_contains(notices.data, "too large");
    say(ROLE_USER, "one");
    char *name = xstrdup(store_session(s));
    assert_kept(name, "user:one");
    free(name);
    free(json);
    store_close(s);
}

// Returns the text of the script that `said` names after "again: ", and removes the script's
// folder.
static char *script_in(const char *said)
{
    const char *from = strstr(said, "again: '");
    assert_non_null(from);
    from += strlen("again: '");
    char *path = xstrndup(from, strcspn(from, "'"));
    size_t size;
    char *text = file_read(path, 1 << 20, &size, NULL);
    assert_non_null(text);
    char *command = xasprintf("rm -r \"$(dirname '%s')\"", path);
    assert_int_equal(system(command), 0);
    free(command);
    free(path);
    return text;
}

// If the user leaves with a full disk, a script holds the stored turns, then the waiting ones.
static void test_finish_full_disk(void **state)
{
    static const unsigned char bytes[] = { 1, 2, 3 };
    struct err err = { 0 };
    struct store *s = open_store();
    model("/m", "f00d");
    say(ROLE_SYSTEM, "Be brief.");
    say(ROLE_USER, "one");
    reply("1");
    assert_int_equal(store_finish(s, &err), 0);
    number(s, "PRAGMA max_page_count = 20");
    set("sample.top_k", "9");
    char *words = xcalloc(1 << 18, 1);
    memset(words, 'x', (1 << 18) - 1);
    say_picture("/gone/cat.png", bytes, sizeof bytes, words);
    reply("2");
    say(ROLE_USER, "three");
    measured("{}");
    assert_int_equal(store_finish(s, &err), -1);
    assert_contains(err.text, "2 questions and 1 measurement were not saved");
    assert_contains(err.text, "full");
    char *script = script_in(err.text);
    static const char *const parts[] = { "/load /m", "Be brief.", "\none\n",   "sample.top_k 9",
                                         "cat.png",  "xxxx",      "/messages " };
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) assert_contains(script, parts[i]);
    assert_int_equal(store_finish(s, &err), 0); // nothing waits now
    free(script);
    free(words);
    store_close(s);
}

// If several sessions have turns that are not stored, each gets a script; a session that was stored
// completely gets none.
static void test_finish_several(void **state)
{
    struct err err = { 0 };
    struct store *s = open_store();
    say(ROLE_USER, "one");
    reply("1");
    number(s, "PRAGMA max_page_count = 1");
    char *words = xcalloc(1 << 18, 1);
    memset(words, 'x', (1 << 18) - 1);
    tell(&(struct event){ .kind = EVENT_CLEAR });
    say(ROLE_USER, words);
    reply("2");
    tell(&(struct event){ .kind = EVENT_CLEAR });
    say(ROLE_USER, "three");
    reply("3");
    assert_int_equal(store_finish(s, &err), -1);
    assert_contains(err.text, "2 questions were not saved");
    assert_null(strstr(err.text, "-one.vlmsh"));
    assert_contains(err.text, "-three.vlmsh");
    char *script = script_in(err.text);
    assert_contains(script, words);
    assert_null(strstr(script, "three"));
    free(script);
    free(words);
    store_close(s);
}

// A script cannot hold measurements: if only they wait, no script is written.
static void test_finish_measured(void **state)
{
    struct err err = { 0 };
    struct store *s = open_store();
    number(s, "PRAGMA max_page_count = 1");
    char *json = xcalloc(1 << 18, 1);
    memset(json, '1', (1 << 18) - 1);
    measured(json);
    assert_int_equal(store_finish(s, &err), -1);
    assert_contains(err.text, "1 measurement was not saved");
    assert_null(strstr(err.text, "script"));
    free(json);
    store_close(s);
}

// If no folder can hold the script, a message says so.
static void test_finish_nowhere(void **state)
{
    struct err err = { 0 };
    struct store *s = open_store();
    char *words = xcalloc(1 << 18, 1);
    memset(words, 'x', (1 << 18) - 1);
    number(s, "PRAGMA max_page_count = 20");
    say(ROLE_USER, words);
    struct rlimit before, none;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    none = before;
    none.rlim_cur = 1000;
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &none);
    assert_int_equal(store_finish(s, &err), -1);
    setrlimit(RLIMIT_FSIZE, &before);
    assert_contains(err.text, "no script of it could be written");
    free(words);
    store_close(s);
}

// If the file is removed or replaced, the next turn reports it, and the script holds the whole
// session. The log of the new file contains nothing of the old one.
static void removed_or_replaced(bool replaced)
{
    struct err err = { 0 };
    struct stat log;
    char *aside = xasprintf("%s.aside", database), *log_path = xasprintf("%s-wal", database);
    struct store *s = open_store();
    say(ROLE_USER, "one");
    reply("1");
    assert_int_equal(rename(database, aside), 0);
    if (replaced) {
        FILE *f = fopen(database, "w");
        assert_non_null(f);
        fclose(f);
    }
    say(ROLE_USER, "two");
    assert_contains(notices.data, "not saved yet");
    assert_contains(notices.data, replaced ? "replaced by another file" : "removed");
    assert_int_equal(store_rename(s, store_session(s), "other", &err), -1);
    assert_contains(err.text, "put the file back");
    reply("2");
    assert_int_equal(stat(log_path, &log), 0);
    assert_int_equal(log.st_size, 0);
    assert_int_equal(store_finish(s, &err), -1);
    assert_contains(err.text, "the session was not saved");
    char *script = script_in(err.text);
    assert_contains(script, "\none\n");
    assert_contains(script, "\ntwo\n");
    free(script);
    store_close(s);
    free(aside);
    free(log_path);
}

static void test_removed(void **state)
{
    removed_or_replaced(false);
}

static void test_replaced(void **state)
{
    removed_or_replaced(true);
}

// If the file is restored before the program ends, nothing is lost.
static void test_put_back(void **state)
{
    struct err err = { 0 };
    char *aside = xasprintf("%s.aside", database);
    struct store *s = open_store();
    say(ROLE_USER, "one");
    assert_int_equal(rename(database, aside), 0);
    reply("1");
    assert_int_equal(rename(aside, database), 0);
    say(ROLE_USER, "two");
    assert_contains(notices.data, "nothing was lost");
    char *name = xstrdup(store_session(s));
    assert_int_equal(store_finish(s, &err), 0);
    store_close(s);
    assert_kept(name, "user:one assistant:1 user:two");
    free(name);
    free(aside);
}

// If only data stored earlier are lost, the program reports this at its end.
static void test_removed_at_the_end(void **state)
{
    struct err err = { 0 };
    struct store *s = open_store();
    say(ROLE_USER, "one");
    reply("1");
    assert_int_equal(unlink(database), 0);
    assert_int_equal(store_finish(s, &err), -1);
    char *script = script_in(err.text);
    assert_contains(script, "\none\n");
    free(script);
    store_close(s);
}

// If another program writes into the session, this one continues in a copy with its own turns.
static void test_second_writer_forks_session(void **state)
{
    struct err err;
    struct store *s = open_store();
    say(ROLE_USER, "one");
    reply("1");
    say(ROLE_USER, "two");
    reply("2");
    char *name = xstrdup(store_session(s));
    struct store *other = store_open(database, &err);
    position_set(&other->current, s->current.session, s->current.entries, name);
    other->begun = true;
    struct sink sink = store_sink(other, &sinks);
    sink.emit(sink.self, &(struct event){ .kind = EVENT_UNDO, .count = 2 });
    store_close(other);
    say(ROLE_USER, "three");
    char *copy = xasprintf("%s-2", name);
    assert_string_equal(store_session(s), copy);
    assert_contains(notices.data, copy);
    assert_kept(name, "user:one assistant:1");
    assert_kept(copy, "user:one assistant:1 user:two assistant:2 user:three");
    free(copy);
    free(name);
    store_close(s);
}

static void test_deleted_elsewhere(void **state)
{
    struct err err;
    struct store *s = open_store();
    model("/m", "f00d");
    say(ROLE_SYSTEM, "Be brief.");
    say(ROLE_USER, "one");
    char *name = xstrdup(store_session(s));
    struct store *other = store_open(database, &err);
    assert_int_equal(store_delete(other, name, &err), 0);
    store_close(other);
    reply("1");
    assert_contains(notices.data, "deleted");
    // The state that still applies is stored again.
    assert_kept(name, "/m=f00d system:Be brief. assistant:1");
    free(name);
    store_close(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_begins, setup, teardown),
        cmocka_unit_test_setup_teardown(test_answer_numbers, setup, teardown),
        cmocka_unit_test_setup_teardown(test_not_kept, setup, teardown),
        cmocka_unit_test_setup_teardown(test_given_answers, setup, teardown),
        cmocka_unit_test_setup_teardown(test_undo_clear, setup, teardown),
        cmocka_unit_test_setup_teardown(test_pictures, setup, teardown),
        cmocka_unit_test_setup_teardown(test_killed, setup, teardown),
        cmocka_unit_test_setup_teardown(test_killed_writing, setup, teardown),
        cmocka_unit_test_setup_teardown(test_two_programs, setup, teardown),
        cmocka_unit_test_setup_teardown(test_locked, setup, teardown),
        cmocka_unit_test_setup_teardown(test_locked_from_the_start, setup, teardown),
        cmocka_unit_test_setup_teardown(test_full_disk, setup, teardown),
        cmocka_unit_test_setup_teardown(test_full_disk_measured, setup, teardown),
        cmocka_unit_test_setup_teardown(test_measured_too_much, setup, teardown),
        cmocka_unit_test_setup_teardown(test_finish_measured, setup, teardown),
        cmocka_unit_test_setup_teardown(test_finish_full_disk, setup, teardown),
        cmocka_unit_test_setup_teardown(test_finish_several, setup, teardown),
        cmocka_unit_test_setup_teardown(test_finish_nowhere, setup, teardown),
        cmocka_unit_test_setup_teardown(test_removed, setup, teardown),
        cmocka_unit_test_setup_teardown(test_replaced, setup, teardown),
        cmocka_unit_test_setup_teardown(test_put_back, setup, teardown),
        cmocka_unit_test_setup_teardown(test_removed_at_the_end, setup, teardown),
        cmocka_unit_test_setup_teardown(test_second_writer_forks_session, setup, teardown),
        cmocka_unit_test_setup_teardown(test_deleted_elsewhere, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
