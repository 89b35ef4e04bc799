// tests/sessions/store.c -- sessions/store.c: opening, the schema's versions, files that are not
// vlmsh's databases.
#include "tests/sessions/fixture.h"

#include <sys/stat.h>
#include <sys/wait.h>

#include "core/base/cancel.h"
#include "core/base/file_in.h"

static void write_file(const char *path, const void *bytes, size_t size)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, size, f), size);
    fclose(f);
}

static void refuses(const char *path, const char *reason)
{
    struct err err = { 0 };
    assert_null(store_open(path, &err));
    assert_contains(err.text, path);
    assert_contains(err.text, reason);
}

static void test_creates(void **state)
{
    char path[512];
    struct err err = { 0 };
    struct stat st;
    snprintf(path, sizeof path, "%s/vlmsh.db", folder);
    struct store *s = store_open(path, &err);
    assert_non_null(s);
    assert_string_equal(store_path(s), path);
    assert_null(store_session(s));
    assert_int_equal(number(s, "PRAGMA user_version"), store_version());
    assert_int_equal(number(s, "PRAGMA foreign_keys"), 1);
    assert_int_equal(number(s, "PRAGMA synchronous"), 2);
    assert_int_equal(number(s, "SELECT count(*) FROM sqlite_master WHERE name = 'sessions'"), 1);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 077, 0);
    store_close(s);
    s = store_open(path, &err);
    assert_non_null(s);
    store_close(s);
}

// Only the default folder is created: a name given by the user may be mistyped.
static void test_no_folder(void **state)
{
    char path[512], made[512], reason[512];
    snprintf(path, sizeof path, "%s/a/b/vlmsh.db", folder);
    snprintf(made, sizeof made, "%s/a", folder);
    snprintf(reason, sizeof reason, "there is no folder '%s/a/b': create it", folder);
    refuses(path, reason);
    assert_int_equal(access(made, F_OK), -1);
}

static void test_default_place(void **state)
{
    struct err err = { 0 };
    char expected[512];
    setenv("XDG_STATE_HOME", folder, 1);
    struct store *s = store_open(NULL, &err);
    assert_non_null(s);
    snprintf(expected, sizeof expected, "%s/vlmsh/vlmsh.db", folder);
    assert_string_equal(store_path(s), expected);
    store_close(s);
    unsetenv("XDG_STATE_HOME");
    unsetenv("HOME");
    assert_null(store_open(NULL, &err));
    assert_contains(err.text, "--db");
}

static void test_migrates(void **state)
{
    const char *const steps[] = {
        "CREATE TABLE t(a)",
        "INSERT INTO t VALUES(1)",
        "ALTER TABLE t ADD COLUMN b DEFAULT 7",
    };
    struct err err = { 0 };
    for (int from = 0; from <= 3; from++) {
        sqlite3 *db;
        sqlite3_stmt *q;
        assert_int_equal(sqlite3_open(":memory:", &db), SQLITE_OK);
        assert_int_equal(store_migrate(db, steps, from, "x.db", &err), 0);
        assert_int_equal(store_migrate(db, steps, 3, "x.db", &err), 0);
        assert_int_equal(sqlite3_prepare_v2(db, "SELECT sum(a), sum(b) FROM t", -1, &q, NULL), 0);
        assert_int_equal(sqlite3_step(q), SQLITE_ROW);
        assert_int_equal(sqlite3_column_int(q, 0), 1);
        assert_int_equal(sqlite3_column_int(q, 1), 7);
        sqlite3_finalize(q);
        assert_int_equal(store_migrate(db, steps, 2, "x.db", &err), -1);
        assert_contains(err.text, "newer");
        sqlite3_close(db);
    }
}

// A failing step leaves the file in its former version.
static void test_migration_fails(void **state)
{
    const char *const steps[] = { "CREATE TABLE t(a)", "CREATE TABLE u(a); CREATE TABLE t(a)" };
    struct err err = { 0 };
    sqlite3 *db;
    assert_int_equal(sqlite3_open(":memory:", &db), SQLITE_OK);
    assert_int_equal(store_migrate(db, steps, 1, "x.db", &err), 0);
    assert_int_equal(store_migrate(db, steps, 2, "x.db", &err), -1);
    assert_contains(err.text, "x.db");
    assert_int_equal(sqlite3_exec(db, "SELECT * FROM u", NULL, NULL, NULL), SQLITE_ERROR);
    assert_int_equal(store_migrate(db, steps, 1, "x.db", &err), 0);
    sqlite3_close(db);
}

static void test_newer(void **state)
{
    struct store *s = open_store();
    assert_int_equal(sqlite3_exec(s->db, "PRAGMA user_version = 999", NULL, NULL, NULL), 0);
    store_close(s);
    refuses(database, "newer");
}

// Foreign triggers and views in the schema could run forever, or change written data.
static void test_foreign_schema(void **state)
{
    static const struct {
        const char *sql, *reason;
    } cases[] = {
        { "ALTER TABLE sessions RENAME TO s2; CREATE VIEW sessions AS WITH RECURSIVE c(x) AS "
          "(SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT x id, x name, 1 began, 1 touched, "
          "1 entries FROM c",
          "'sessions' is a view" },
        { "DROP TABLE presets; CREATE TABLE presets(name TEXT, place INTEGER, key TEXT, "
          "value TEXT AS (hex(zeroblob(100000000))))",
          "'presets' has a different definition" },
        { "DROP TABLE drafts", "'drafts' is missing" },
        { "CREATE TRIGGER t AFTER INSERT ON messages BEGIN DELETE FROM sessions; END",
          "'t' is a trigger on 'messages' that vlmsh did not make" },
        { "CREATE INDEX i ON messages(hex(zeroblob(100000000)))",
          "'i' is an index on 'messages' that vlmsh did not make" },
        { "ALTER TABLE results RENAME TO old; CREATE TABLE RESULTS(id, session, time, name, json)",
          "'results' is missing" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        store_close(open_store());
        sqlite3 *db;
        assert_int_equal(sqlite3_open(database, &db), SQLITE_OK);
        assert_int_equal(sqlite3_exec(db, cases[i].sql, NULL, NULL, NULL), SQLITE_OK);
        sqlite3_close(db);
        refuses(database, cases[i].reason);
        unlink(database);
    }
}

// Tables and indexes of the user's own are left alone.
static void test_schema_of_the_user(void **state)
{
    struct store *s = open_store();
    assert_int_equal(sqlite3_exec(s->db, "CREATE TABLE mine(a); CREATE INDEX on_mine ON mine(a)",
                                  NULL, NULL, NULL),
                     SQLITE_OK);
    store_close(s);
    store_close(open_store());
}

static bool interrupted(struct store *s)
{
    struct err err = { 0 };
    int64_t value;
    return store_number(s, &err, 0, &value,
                        "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) "
                        "SELECT count(*) FROM c",
                        "") < 0 &&
           strstr(err.text, "cancelled");
}

static void test_cancel(void **state)
{
    struct store *s = open_store();
    const atomic_bool flag = true;
    cancel_watch(&flag, NULL);
    assert_true(interrupted(s));
    assert_int_equal(number(s, "SELECT 3"), 3); // short statements still work
    cancel_unwatch(&flag);
    store_close(s);
}

static void test_damaged(void **state)
{
    write_file(database, "this is not a database, it is a letter to somebody............", 60);
    refuses(database, "damaged");
}

// If all bytes after the first 4096 are overwritten, opening or reading the database fails with a
// message.
static void test_damaged_inside(void **state)
{
    struct store *s = open_store();
    for (int i = 0; i < 50; i++) say(ROLE_USER, "some words that fill a page of the database file");
    char *name = xstrdup(store_session(s));
    store_close(s);
    size_t size;
    char *bytes = file_read(database, 1 << 30, &size, NULL);
    assert_non_null(bytes);
    memset(bytes + 4096, 0x5a, size - 4096);
    write_file(database, bytes, size);
    free(bytes);
    struct err err = { 0 };
    struct saved saved;
    s = store_open(database, &err);
    if (s) {
        assert_int_equal(saved_read(s, name, &saved, &err), -1);
        store_close(s);
    }
    assert_contains(err.text, "damaged");
    free(name);
}

// A page with 400 entries that all lead to `child` (sqlite.org/fileformat2.html, table interior
// page).
static void write_interior_page(unsigned char *page, unsigned char child)
{
    memset(page, 0, 4096);
    page[0] = 5;
    page[3] = 400 >> 8, page[4] = 400 & 255;
    page[5] = 2096 >> 8, page[6] = 2096 & 255; // the entries, 5 bytes each, end with the page
    page[11] = child;
    for (int i = 0; i < 400; i++) {
        const int place = 4096 - 5 * (i + 1);
        page[12 + 2 * i] = (unsigned char)(place >> 8), page[13 + 2 * i] = (unsigned char)place;
        page[place + 3] = child, page[place + 4] = 1;
    }
}

// Pages that lead to the same page 400 times, five levels deep: a table with 10^13 rows in a small
// file.
static void test_endless_table(void **state)
{
    struct store *s = open_store();
    say(ROLE_USER, "hello");
    const size_t root =
        (size_t)number(s, "SELECT rootpage FROM sqlite_master WHERE name = 'sessions'");
    store_close(s);
    size_t size;
    unsigned char *bytes = (unsigned char *)file_read(database, 1 << 30, &size, NULL);
    assert_non_null(bytes);
    const size_t pages = size / 4096;
    assert_in_range(pages, root, 200);
    bytes = xrealloc(bytes, size + 5 * 4096);
    memcpy(bytes + size, bytes + (root - 1) * 4096, 4096);
    for (size_t level = 1; level < 5; level++)
        write_interior_page(bytes + size + level * 4096, (unsigned char)(pages + level));
    write_interior_page(bytes + (root - 1) * 4096, (unsigned char)(pages + 5));
    bytes[31] = (unsigned char)(pages + 5); // the number of pages
    write_file(database, bytes, size + 5 * 4096);
    free(bytes);
    s = open_store();
    s->slow_s = 0.01;
    struct err err = { 0 };
    int64_t value;
    assert_int_equal(store_number(s, &err, 0, &value, "SELECT max(touched) FROM sessions", ""), -1);
    assert_contains(err.text, "damaged (On tree page");
    store_close(s);
}

// A slow read of a sound file continues once the file was checked.
static void test_slow_read(void **state)
{
    struct store *s = open_store();
    s->slow_s = 0;
    assert_int_equal(number(s,
                            "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c LIMIT "
                            "100000) SELECT count(*) FROM c"),
                     100000);
    assert_true(s->pages_checked);
    store_close(s);
}

static void test_foreign(void **state)
{
    sqlite3 *db;
    assert_int_equal(sqlite3_open(database, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, "CREATE TABLE bookmarks(a)", NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
    refuses(database, "another program");
}

static bool other_started;

// Another program starts for the first time while this program checks whose file it is.
static int start_other(unsigned what, void *self, void *statement, void *text)
{
    struct err err = { 0 };
    if (other_started || !strstr(text, "sqlite_master")) return 0;
    if (!sqlite3_get_autocommit(sqlite3_db_handle(statement))) return 0;
    other_started = true;
    struct store *other = store_open(database, &err);
    if (!other) print_message("%s\n", err.text);
    store_close(other);
    return 0;
}

static int watch(sqlite3 *db, char **message, const struct sqlite3_api_routines *api)
{
    return sqlite3_trace_v2(db, SQLITE_TRACE_STMT, start_other, NULL);
}

static void test_first_start_meanwhile(void **state)
{
    other_started = false;
    sqlite3_auto_extension((void (*)(void))watch);
    struct err err = { 0 };
    struct store *s = store_open(database, &err);
    sqlite3_reset_auto_extension();
    if (!s) print_message("%s\n", err.text);
    assert_non_null(s);
    store_close(s);
}

// Several first starts at the same time: each program opens the new database, and none takes it for
// a file of another kind of program.
static void test_first_starts(void **state)
{
    enum { PROGRAMS = 4, ROUNDS = 40 };
    for (int round = 0; round < ROUNDS; round++) {
        int gate[2];
        char path[512], byte = 0;
        pid_t child[PROGRAMS];
        snprintf(path, sizeof path, "%s/%d.db", folder, round);
        assert_int_equal(pipe(gate), 0);
        for (int i = 0; i < PROGRAMS; i++) {
            if ((child[i] = fork())) continue;
            struct err err = { 0 };
            close(gate[1]);
            // All start at once when the pipe is closed.
            const bool ready = read(gate[0], &byte, 1) == 0;
            struct store *s = ready ? store_open(path, &err) : NULL;
            if (!s) print_message("%s\n", err.text);
            store_close(s);
            _exit(!s);
        }
        close(gate[0]);
        close(gate[1]);
        for (int i = 0; i < PROGRAMS; i++) {
            int status;
            assert_int_equal(waitpid(child[i], &status, 0), child[i]);
            assert_int_equal(status, 0);
        }
    }
}

static void test_unwritable(void **state)
{
    refuses("/dev/null/x/vlmsh.db", "there is no folder '/dev/null/x'");
    refuses("/dev/null/x/vlmsh.db", "--db");
    setenv("XDG_STATE_HOME", "/dev/null/x", 1);
    struct err err = { 0 };
    assert_null(store_open(NULL, &err));
    assert_contains(err.text, "cannot create the folder '/dev/null/x'");
    assert_contains(err.text, "--db");
    unsetenv("XDG_STATE_HOME");
    refuses(folder, "it is a folder");
    if (geteuid() == 0) {
        printf("SKIPPED: a read-only database: root can write everywhere\n");
        return;
    }
    struct store *s = open_store();
    store_close(s);
    chmod(database, 0400);
    refuses(database, "read-only");
}

static void test_open_while_locked(void **state)
{
    struct store *s = open_store();
    struct err err = { 0 };
    assert_int_equal(store_lock(s, &err), 0);
    // Read access is enough if the version is current.
    struct store *other = store_open(database, &err);
    assert_non_null(other);
    store_close(other);
    store_unlock(s, 0, &err);
    store_close(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_creates, setup, teardown),
        cmocka_unit_test_setup_teardown(test_no_folder, setup, teardown),
        cmocka_unit_test_setup_teardown(test_default_place, setup, teardown),
        cmocka_unit_test_setup_teardown(test_migrates, setup, teardown),
        cmocka_unit_test_setup_teardown(test_foreign_schema, setup, teardown),
        cmocka_unit_test_setup_teardown(test_schema_of_the_user, setup, teardown),
        cmocka_unit_test_setup_teardown(test_cancel, setup, teardown),
        cmocka_unit_test_setup_teardown(test_migration_fails, setup, teardown),
        cmocka_unit_test_setup_teardown(test_newer, setup, teardown),
        cmocka_unit_test_setup_teardown(test_damaged, setup, teardown),
        cmocka_unit_test_setup_teardown(test_damaged_inside, setup, teardown),
        cmocka_unit_test_setup_teardown(test_endless_table, setup, teardown),
        cmocka_unit_test_setup_teardown(test_slow_read, setup, teardown),
        cmocka_unit_test_setup_teardown(test_foreign, setup, teardown),
        cmocka_unit_test_setup_teardown(test_first_start_meanwhile, setup, teardown),
        cmocka_unit_test_setup_teardown(test_first_starts, setup, teardown),
        cmocka_unit_test_setup_teardown(test_unwritable, setup, teardown),
        cmocka_unit_test_setup_teardown(test_open_while_locked, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
