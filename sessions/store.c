// sessions/store.c -- the database file: opening it safely, the schema and its versions, prepared
// statements.
//
// Uses WAL with synchronous = FULL, so that a committed turn survives kill -9 and a power cut.
// Never writes to a foreign file: an existing database must have vlmsh's application_id or be
// empty.
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/cancel.h"
#include "core/base/clock.h"
#include "core/base/file_in.h"
#include "sessions/internal.h"

enum { APPLICATION_ID = 0x766c6d73 }; // "vlms"

// Forward only: a released step is never changed, a new one is appended.
static const char *const schema_steps[] = {
    // Messages share pictures by hash; a part's path is the file that it came from.
    "CREATE TABLE models("
    "  id INTEGER PRIMARY KEY, folder TEXT NOT NULL, fingerprint TEXT NOT NULL,"
    "  UNIQUE(folder, fingerprint));"
    "CREATE TABLE sessions("
    "  id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL UNIQUE,"
    "  began INTEGER NOT NULL, touched INTEGER NOT NULL, entries INTEGER NOT NULL);"
    "CREATE TABLE messages("
    "  id INTEGER PRIMARY KEY,"
    "  session INTEGER NOT NULL REFERENCES sessions(id) ON DELETE CASCADE,"
    "  place INTEGER NOT NULL, role TEXT NOT NULL, generated INTEGER NOT NULL, ids BLOB,"
    "  said INTEGER NOT NULL, undone INTEGER, UNIQUE(session, place));"
    "CREATE TABLE pictures("
    "  id INTEGER PRIMARY KEY, sha256 TEXT NOT NULL UNIQUE, size INTEGER NOT NULL, bytes BLOB);"
    "CREATE TABLE parts("
    "  message INTEGER NOT NULL REFERENCES messages(id) ON DELETE CASCADE,"
    "  place INTEGER NOT NULL, text TEXT, picture INTEGER REFERENCES pictures(id), path TEXT,"
    "  PRIMARY KEY(message, place));"
    "CREATE INDEX parts_picture ON parts(picture) WHERE picture IS NOT NULL;"
    "CREATE TABLE answers("
    "  message INTEGER PRIMARY KEY REFERENCES messages(id) ON DELETE CASCADE,"
    "  began INTEGER NOT NULL, prompt_tokens INTEGER NOT NULL, visual_tokens INTEGER NOT NULL,"
    "  computed_tokens INTEGER NOT NULL, vision_s REAL NOT NULL, prefill_s REAL NOT NULL,"
    "  decode_s REAL NOT NULL, stop TEXT NOT NULL);"
    "CREATE TABLE settings_changes("
    "  session INTEGER NOT NULL REFERENCES sessions(id) ON DELETE CASCADE,"
    "  place INTEGER NOT NULL, key TEXT NOT NULL, value TEXT NOT NULL,"
    "  PRIMARY KEY(session, place));"
    "CREATE TABLE model_changes("
    "  session INTEGER NOT NULL REFERENCES sessions(id) ON DELETE CASCADE,"
    "  place INTEGER NOT NULL, model INTEGER NOT NULL REFERENCES models(id),"
    "  PRIMARY KEY(session, place));"
    "CREATE INDEX model_changes_model ON model_changes(model);",
    // Jobs and their reports. A metric's NULL value means NaN.
    "CREATE TABLE jobs("
    "  id INTEGER PRIMARY KEY AUTOINCREMENT, kind TEXT NOT NULL, arguments TEXT NOT NULL,"
    "  settings TEXT NOT NULL, folder TEXT NOT NULL, model TEXT NOT NULL,"
    "  fingerprint TEXT NOT NULL, device TEXT NOT NULL, state TEXT NOT NULL, request TEXT,"
    "  message TEXT NOT NULL DEFAULT '', runs INTEGER NOT NULL, step REAL, steps REAL, loss REAL,"
    "  eta REAL, asked INTEGER NOT NULL, created INTEGER NOT NULL, started INTEGER,"
    "  ended INTEGER);"
    "CREATE TABLE job_series("
    "  id INTEGER PRIMARY KEY, job INTEGER NOT NULL REFERENCES jobs(id) ON DELETE CASCADE,"
    "  name TEXT NOT NULL, UNIQUE(job, name));"
    "CREATE TABLE metrics("
    "  series INTEGER NOT NULL REFERENCES job_series(id) ON DELETE CASCADE,"
    "  step INTEGER NOT NULL, value REAL, PRIMARY KEY(series, step)) WITHOUT ROWID;"
    "CREATE TABLE job_log("
    "  id INTEGER PRIMARY KEY, job INTEGER NOT NULL REFERENCES jobs(id) ON DELETE CASCADE,"
    "  time INTEGER NOT NULL, text TEXT NOT NULL);"
    "CREATE INDEX job_log_job ON job_log(job);"
    "CREATE TABLE job_results("
    "  id INTEGER PRIMARY KEY, job INTEGER NOT NULL REFERENCES jobs(id) ON DELETE CASCADE,"
    "  key TEXT NOT NULL, value TEXT NOT NULL, UNIQUE(job, key));"
    "CREATE TABLE job_scores("
    "  job INTEGER NOT NULL REFERENCES jobs(id) ON DELETE CASCADE, place INTEGER NOT NULL,"
    "  sample TEXT, prompt TEXT, answer TEXT, reference TEXT, part TEXT, score REAL,"
    "  PRIMARY KEY(job, place)) WITHOUT ROWID;",
    // Calibration files by path and hash; their content is not stored.
    "CREATE TABLE calibrations("
    "  id INTEGER PRIMARY KEY, path TEXT NOT NULL, hash TEXT NOT NULL, kind TEXT NOT NULL,"
    "  model TEXT NOT NULL, data TEXT NOT NULL, count INTEGER NOT NULL, noted INTEGER NOT NULL,"
    "  UNIQUE(path, hash));",
    // Measurements: tables and maps.
    "CREATE TABLE results("
    "  id INTEGER PRIMARY KEY, session INTEGER REFERENCES sessions(id) ON DELETE CASCADE,"
    "  time INTEGER NOT NULL, name TEXT NOT NULL, json TEXT NOT NULL);"
    "CREATE INDEX results_session ON results(session);",
    // Named sets of settings.
    "CREATE TABLE presets("
    "  name TEXT NOT NULL, place INTEGER NOT NULL, key TEXT NOT NULL, value TEXT NOT NULL,"
    "  PRIMARY KEY(name, place)) WITHOUT ROWID;",
    // Number of answer tokens when a setting changed during an answer.
    "ALTER TABLE settings_changes ADD COLUMN tokens INTEGER NOT NULL DEFAULT 0;",
    // Typed but unsent text; session 0: before the first message.
    "CREATE TABLE drafts(session INTEGER PRIMARY KEY, text TEXT NOT NULL);",
    // A draft belongs to the shell that it was typed in; owner 0: from before this step.
    "CREATE TABLE drafts_of_shells("
    "  id INTEGER PRIMARY KEY AUTOINCREMENT, owner INTEGER NOT NULL, session INTEGER NOT NULL,"
    "  text TEXT NOT NULL);"
    "INSERT INTO drafts_of_shells(owner, session, text) SELECT 0, session, text FROM drafts;"
    "DROP TABLE drafts;"
    "ALTER TABLE drafts_of_shells RENAME TO drafts;",
    // What compute.matmul auto resolves to for model and device. Earlier versions: f32, on the CPU.
    "ALTER TABLE model_changes ADD COLUMN arithmetic TEXT NOT NULL DEFAULT 'f32';",
    // Queued jobs: script, number and state in the queue; bytes read from a job's file of reports.
    "ALTER TABLE jobs ADD COLUMN script TEXT NOT NULL DEFAULT '';"
    "ALTER TABLE jobs ADD COLUMN queue TEXT NOT NULL DEFAULT '';"
    "ALTER TABLE jobs ADD COLUMN queued TEXT NOT NULL DEFAULT '';"
    "ALTER TABLE jobs ADD COLUMN reports INTEGER NOT NULL DEFAULT 0;",
    // Ranks that work in parts report in separate files.
    "CREATE TABLE job_reads("
    "  job INTEGER NOT NULL REFERENCES jobs(id) ON DELETE CASCADE, part INTEGER NOT NULL,"
    "  place INTEGER NOT NULL, PRIMARY KEY(job, part)) WITHOUT ROWID;"
    "INSERT INTO job_reads(job, part, place) SELECT id, 0, reports FROM jobs WHERE reports > 0;",
    // The session that each shell has open; a shell deletes its row when it ends.
    "CREATE TABLE shells(owner INTEGER PRIMARY KEY, session INTEGER NOT NULL);",
    // Where a draft was typed.
    "ALTER TABLE drafts ADD COLUMN folder TEXT NOT NULL DEFAULT '';"
    "ALTER TABLE drafts ADD COLUMN model TEXT NOT NULL DEFAULT '';",
    // A JSON list of the boxes and points in an answer (core/picture/boxes.h); '': none.
    "ALTER TABLE answers ADD COLUMN boxes TEXT NOT NULL DEFAULT '';",
    // An answer's reasoning, its tokens, and the byte of the text after it; 0: no reasoning.
    "ALTER TABLE answers ADD COLUMN reasoning TEXT NOT NULL DEFAULT '';"
    "ALTER TABLE answers ADD COLUMN reasoning_tokens INTEGER NOT NULL DEFAULT 0;"
    "ALTER TABLE answers ADD COLUMN answer_at INTEGER NOT NULL DEFAULT 0;",
    // Measurements and interventions of a session, as typed: the words of the line as a JSON list.
    "CREATE TABLE commands("
    "  session INTEGER NOT NULL REFERENCES sessions(id) ON DELETE CASCADE,"
    "  place INTEGER NOT NULL, words TEXT NOT NULL, PRIMARY KEY(session, place));",
};

enum { SCHEMA_STEPS = sizeof schema_steps / sizeof schema_steps[0] };

int store_version(void)
{
    return SCHEMA_STEPS;
}

// --- messages for people -------------------------------------------------------------------------

// Returns -1, with errno, if the database's folder is not writable: SQLite only reports that its
// log is missing.
static int folder_closed(const char *path)
{
    const char *slash = strrchr(path, '/');
    char *folder = slash ? xstrndup(path, (size_t)(slash - path) + 1) : xstrdup(".");
    const int status = access(folder, W_OK), why = errno;
    free(folder);
    errno = why;
    return status;
}

int store_explain(sqlite3 *db, const char *path, struct err *err)
{
    switch (sqlite3_errcode(db) & 0xff) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        return err_set(err,
                       "the session database '%s' is locked by another program: close that "
                       "program, or name another file with --db",
                       path);
    case SQLITE_FULL:
        return err_set(
            err, "the disk that holds the session database '%s' is full: free some space", path);
    case SQLITE_READONLY:
    case SQLITE_PERM:
        return err_set(err,
                       "cannot write to the session database '%s': change its permissions, or name "
                       "another file with --db",
                       path);
    case SQLITE_NOTADB:
    case SQLITE_CORRUPT:
        return err_set(err,
                       "the session database '%s' is damaged or not a database (%s): move it away, "
                       "or name another file with --db",
                       path, sqlite3_errmsg(db));
    case SQLITE_INTERRUPT:
        return err_set(err, "cancelled while reading or writing the session database '%s'", path);
    case SQLITE_CANTOPEN: {
        int reason = sqlite3_system_errno(db);
        if (access(path, F_OK) == 0 && (access(path, W_OK) < 0 || folder_closed(path) < 0))
            return err_set(err,
                           "cannot open the session database '%s': %s, but SQLite writes to the "
                           "file and to its folder: copy it elsewhere and name the copy with --db",
                           path, strerror(errno));
        return err_set(err,
                       "cannot open the session database '%s': %s; name another file with --db",
                       path, reason ? strerror(reason) : sqlite3_errmsg(db));
    }
    default: return err_set(err, "session database '%s': %s", path, sqlite3_errmsg(db));
    }
}

int store_failed(struct store *s, struct err *err)
{
    return store_explain(s->db, s->path, err);
}

// --- statements ----------------------------------------------------------------------------------

static int bind(sqlite3_stmt *q, const char *types, va_list args)
{
    int status = SQLITE_OK;
    for (int i = 1; *types && status == SQLITE_OK; i++, types++) {
        if (*types == 'i') {
            status = sqlite3_bind_int64(q, i, va_arg(args, int64_t));
        } else if (*types == 'd') {
            status = sqlite3_bind_double(q, i, va_arg(args, double));
        } else if (*types == 't') {
            status = sqlite3_bind_text(q, i, va_arg(args, const char *), -1, SQLITE_TRANSIENT);
        } else if (*types == 'b') {
            const void *bytes = va_arg(args, const void *);
            size_t size = va_arg(args, size_t);
            status = sqlite3_bind_blob64(q, i, bytes, size, SQLITE_TRANSIENT);
        } else {
            BUG("statement with binding '%c'", *types);
        }
    }
    return status;
}

int store_check_file(struct store *s, struct err *err)
{
    const bool known = s->moved;
    int moved = 0;
    sqlite3_file_control(s->db, "main", SQLITE_FCNTL_HAS_MOVED, &moved);
    s->moved = moved;
    if (!moved) return 0;
    // Writes the log into the open file, wherever it is now: otherwise SQLite would replay the log
    // into the new file at this path.
    if (!known) sqlite3_wal_checkpoint_v2(s->db, NULL, SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL);
    return err_set(err, "the session database '%s' was %s while vlmsh was using it", s->path,
                   access(s->path, F_OK) == 0 ? "replaced by another file" : "removed");
}

static sqlite3_stmt *prepare(struct store *s, struct err *err, const char *sql, const char *types,
                             va_list args)
{
    sqlite3_stmt *q = NULL;
    struct err why;
    if (store_check_file(s, &why) < 0) {
        err_set(err,
                "%s: put the file back, or quit vlmsh, which then writes this session as a script",
                why.text);
        return NULL;
    }
    if (sqlite3_prepare_v2(s->db, sql, -1, &q, NULL) == SQLITE_OK &&
        bind(q, types, args) == SQLITE_OK)
        return q;
    store_failed(s, err);
    sqlite3_finalize(q);
    return NULL;
}

sqlite3_stmt *store_query(struct store *s, struct err *err, const char *sql, const char *types, ...)
{
    va_list args;
    va_start(args, types);
    sqlite3_stmt *q = prepare(s, err, sql, types, args);
    va_end(args);
    return q;
}

// Ctrl-C ends a slow statement. Saving a cancelled answer is quick, so it still succeeds. The first
// slow read is interrupted, too, to check the file.
static int interrupts(void *store)
{
    const struct store *s = store;
    const double passed = clock_seconds() - s->began;
    return (cancel_set() && passed > 0.5) || (s->unchecked_read && passed > s->slow_s);
}

// Pages of a crafted file may contain each other, so that its tables have rows without end. SQLite
// finds that only when it checks all pages, which takes about a second per GB.
static int check_pages(struct store *s, struct err *err)
{
    sqlite3_stmt *q = store_query(s, err, "PRAGMA quick_check(1)", "");
    int row = q ? store_step(s, q, err) : -1;
    if (row > 0) {
        char *found = column_text(q, 0);
        if (strcmp(found, "ok") != 0)
            row = err_set(err,
                          "the session database '%s' is damaged (%s): move it away, or name "
                          "another file with --db",
                          s->path,
                          strncmp(found, "*** in database main ***\n", 25) ? found : found + 25);
        free(found);
    }
    sqlite3_finalize(q);
    return row < 0 ? -1 : 0;
}

int store_step(struct store *s, sqlite3_stmt *q, struct err *err)
{
    s->unchecked_read = !s->pages_checked && sqlite3_stmt_readonly(q) && !sqlite3_stmt_busy(q);
    s->began = clock_seconds();
    int status = sqlite3_step(q);
    if (status == SQLITE_INTERRUPT && s->unchecked_read && !cancel_set()) {
        sqlite3_reset(q);
        s->pages_checked = true;
        if (check_pages(s, err) == 0) return store_step(s, q, err);
        s->pages_checked = false;
        return -1;
    }
    if (status == SQLITE_ROW) return 1;
    return status == SQLITE_DONE ? 0 : store_failed(s, err);
}

int store_run(struct store *s, struct err *err, const char *sql, const char *types, ...)
{
    va_list args;
    va_start(args, types);
    sqlite3_stmt *q = prepare(s, err, sql, types, args);
    va_end(args);
    if (!q) return -1;
    int status = store_step(s, q, err);
    sqlite3_finalize(q);
    return status < 0 ? -1 : 0;
}

int store_number(struct store *s, struct err *err, int64_t otherwise, int64_t *value,
                 const char *sql, const char *types, ...)
{
    va_list args;
    va_start(args, types);
    sqlite3_stmt *q = prepare(s, err, sql, types, args);
    va_end(args);
    if (!q) return -1;
    int row = store_step(s, q, err);
    *value = row > 0 && sqlite3_column_type(q, 0) != SQLITE_NULL ? sqlite3_column_int64(q, 0)
                                                                 : otherwise;
    sqlite3_finalize(q);
    return row < 0 ? -1 : 0;
}

int store_names(struct store *s, struct names *names, struct err *err, const char *sql,
                const char *types, ...)
{
    int row;
    va_list args;
    va_start(args, types);
    sqlite3_stmt *q = prepare(s, err, sql, types, args);
    va_end(args);
    if (!q) return -1;
    while ((row = store_step(s, q, err)) > 0) {
        char *name = column_text(q, 0);
        names_add(names, name, NULL);
        free(name);
    }
    sqlite3_finalize(q);
    return row;
}

char *column_text(sqlite3_stmt *q, int column)
{
    const unsigned char *text = sqlite3_column_text(q, column);
    return xstrdup(text ? (const char *)text : "");
}

double column_real(sqlite3_stmt *q, int column)
{
    const int type = sqlite3_column_type(q, column);
    const bool number = type == SQLITE_INTEGER || type == SQLITE_FLOAT;
    return number ? sqlite3_column_double(q, column) : NAN; // SQLite reads a text as 0
}

int store_lock(struct store *s, struct err *err)
{
    return store_run(s, err, "BEGIN IMMEDIATE", "");
}

int store_unlock(struct store *s, int status, struct err *err)
{
    if (status == 0) status = store_run(s, err, "COMMIT", "");
    // After some errors (disk full), SQLite has already rolled back.
    if (status < 0 && !sqlite3_get_autocommit(s->db))
        sqlite3_exec(s->db, "ROLLBACK", NULL, NULL, NULL);
    return status;
}

// --- opening -------------------------------------------------------------------------------------

static int read_number(sqlite3 *db, const char *sql, int64_t *value)
{
    sqlite3_stmt *q = NULL;
    *value = 0;
    int status = sqlite3_prepare_v2(db, sql, -1, &q, NULL);
    if (status == SQLITE_OK) {
        status = sqlite3_step(q);
        if (status == SQLITE_ROW) *value = sqlite3_column_int64(q, 0);
    }
    sqlite3_finalize(q);
    return status == SQLITE_ROW || status == SQLITE_DONE ? 0 : -1;
}

static int set_number(sqlite3 *db, const char *name, int value)
{
    char pragma[64];
    sqlite3_snprintf(sizeof pragma, pragma, "PRAGMA %s = %d", name, value);
    return sqlite3_exec(db, pragma, NULL, NULL, NULL) == SQLITE_OK ? 0 : -1;
}

int store_migrate(sqlite3 *db, const char *const *steps, int count, const char *path,
                  struct err *err)
{
    int64_t version;
    if (read_number(db, "PRAGMA user_version", &version) < 0) return store_explain(db, path, err);
    if (version == count) return 0;
    // Reads the version again under the lock: another program may be migrating, too.
    if (sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL) != SQLITE_OK)
        return store_explain(db, path, err);
    int status = read_number(db, "PRAGMA user_version", &version);
    if (status == 0 && (version < 0 || version > count)) {
        sqlite3_exec(db, "ROLLBACK", NULL, NULL, NULL);
        return err_set(err,
                       "the session database '%s' was written by a newer vlmsh (schema %lld, this "
                       "one supports %d): update vlmsh, or name another file with --db",
                       path, (long long)version, count);
    }
    for (int v = (int)version; v < count && status == 0; v++)
        if (sqlite3_exec(db, steps[v], NULL, NULL, NULL) != SQLITE_OK ||
            set_number(db, "user_version", v + 1) < 0)
            status = -1;
    if (status == 0 && sqlite3_exec(db, "COMMIT", NULL, NULL, NULL) == SQLITE_OK) return 0;
    store_explain(db, path, err);
    if (!sqlite3_get_autocommit(db)) sqlite3_exec(db, "ROLLBACK", NULL, NULL, NULL);
    return -1;
}

int store_migrate_to(sqlite3 *db, int version, const char *path, struct err *err)
{
    return store_migrate(db, schema_steps, version, path, err);
}

// Reads the database's owner and number of tables in one transaction, since another vlmsh may be
// creating it. `begin` starts the transaction, which stays open on success.
static int look_at_owner(sqlite3 *db, const char *begin, int64_t *owner, int64_t *tables)
{
    if (sqlite3_exec(db, begin, NULL, NULL, NULL) != SQLITE_OK) return -1;
    return read_number(db, "PRAGMA application_id", owner) < 0 ||
                   read_number(db, "SELECT count(*) FROM sqlite_master", tables) < 0
               ? -1
               : 0;
}

// Refuses another program's database; claims an empty one.
static int check_owner(sqlite3 *db, const char *path, struct err *err)
{
    int64_t owner = 0, tables = 0;
    int status = look_at_owner(db, "BEGIN", &owner, &tables);
    if (status == 0 && !owner && !tables) {
        sqlite3_exec(db, "ROLLBACK", NULL, NULL, NULL);
        status = look_at_owner(db, "BEGIN IMMEDIATE", &owner, &tables);
        if (status == 0 && !owner && !tables) {
            status = set_number(db, "application_id", APPLICATION_ID);
            if (sqlite3_exec(db, "COMMIT", NULL, NULL, NULL) != SQLITE_OK) status = -1;
            owner = APPLICATION_ID;
        }
    }
    if (status < 0)
        store_explain(db, path, err);
    else if (owner != APPLICATION_ID)
        status = err_set(err, "'%s' is a database of another program: name another file with --db",
                         path);
    if (!sqlite3_get_autocommit(db)) sqlite3_exec(db, "ROLLBACK", NULL, NULL, NULL);
    return status;
}

// Retries, because two programs that do this at once may block each other, and SQLite then fails
// without waiting.
static int use_wal(sqlite3 *db)
{
    const double start = clock_seconds();
    for (;;) {
        const int status = sqlite3_exec(db, "PRAGMA journal_mode = WAL", NULL, NULL, NULL);
        if ((status & 0xff) != SQLITE_BUSY || clock_seconds() - start > WAIT_MS / 1e3)
            return status;
        sqlite3_sleep(5);
    }
}

static int set_up(sqlite3 *db, const char *path, struct err *err)
{
    sqlite3_extended_result_codes(db, 1);
    sqlite3_busy_timeout(db, WAIT_MS);
    sqlite3_db_config(db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
    sqlite3_db_config(db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
    sqlite3_db_config(db, SQLITE_DBCONFIG_ENABLE_VIEW, 0, NULL);
    sqlite3_db_config(db, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, NULL);
    if (check_owner(db, path, err) < 0 || store_check_schema(db, path, err) < 0) return -1;
    if (sqlite3_db_readonly(db, "main") == 1)
        return err_set(err,
                       "the session database '%s' is read-only: change its permissions, or name "
                       "another file with --db",
                       path);
    // On file systems without WAL, SQLite keeps its rollback journal: slower, equally safe.
    if (use_wal(db) != SQLITE_OK ||
        sqlite3_exec(db, "PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON", NULL, NULL, NULL) !=
            SQLITE_OK)
        return store_explain(db, path, err);
    return store_migrate_to(db, SCHEMA_STEPS, path, err);
}

// Creates the folders above `path`, readable by the user alone: conversations are private.
static int make_folders(const char *path, struct err *err)
{
    char *copy = xstrdup(path);
    int status = 0;
    for (char *p = copy + 1; *p && status == 0; p++) {
        if (*p != '/') continue;
        *p = 0;
        if (mkdir(copy, 0700) < 0 && errno != EEXIST)
            status = err_set(err,
                             "cannot create the folder '%s' for the session database: %s; name "
                             "another file with --db",
                             copy, strerror(errno));
        *p = '/';
    }
    free(copy);
    return status;
}

int store_check_path(const char *path, struct err *err)
{
    const char *slash = strrchr(path, '/');
    char *folder = slash ? xstrndup(path, (size_t)(slash - path) + 1) : xstrdup(".");
    struct stat st;
    int status = 0;
    if (stat(folder, &st) < 0 || !S_ISDIR(st.st_mode))
        status = err_set(err,
                         "cannot keep sessions in '%s': there is no folder '%.*s': create it, or "
                         "name another file with --db",
                         path, (int)(slash ? slash - path : 1), folder);
    else if (stat(path, &st) == 0 && !S_ISREG(st.st_mode))
        status = err_set(err, "cannot keep sessions in '%s': it is %s: name another file with --db",
                         path, file_in_kind(st.st_mode));
    free(folder);
    return status;
}

struct store *store_open(const char *path, struct err *err)
{
    struct store *s = xcalloc(1, sizeof *s);
    const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    if (path) {
        s->path = xstrdup(path);
    } else if (state && *state == '/') {
        s->path = xasprintf("%s/vlmsh/vlmsh.db", state);
    } else if (home && *home == '/') {
        s->path = xasprintf("%s/.local/state/vlmsh/vlmsh.db", home);
    } else {
        err_set(err, "HOME is not set, so there is no place for the session database: name a file "
                     "with --db");
        goto out;
    }
    if (!strcmp(s->path, ":memory:")) { // SQLite's name for a database in memory
        err_set(err, "jobs need a database file: replace ':memory:' with a file name in --db");
        goto out;
    }
    if (!path && make_folders(s->path, err) < 0) goto out;
    if (store_check_path(s->path, err) < 0) goto out;
    // Does not open an existing file: closing it would release the locks of another connection of
    // this process.
    int fd = open(s->path, O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0600);
    if (fd < 0 && errno != EEXIST) {
        err_set(err, "cannot create the session database '%s': %s; name another file with --db",
                s->path, strerror(errno));
        goto out;
    }
    if (fd >= 0) close(fd);
    int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_FULLMUTEX;
    if (sqlite3_open_v2(s->path, &s->db, flags, NULL) != SQLITE_OK) {
        store_explain(s->db, s->path, err);
        goto out;
    }
    if (set_up(s->db, s->path, err) < 0) goto out;
    struct stat st;
    s->slow_s = 2 + (stat(s->path, &st) == 0 ? (double)st.st_size / 50e6 : 0); // on a slow disk
    sqlite3_progress_handler(s->db, 100000, interrupts, s);
    return s;
out:
    store_close(s);
    return NULL;
}

void store_close(struct store *s)
{
    if (!s) return;
    store_flush(s, NULL);
    entries_release(s);
    if (s->db) store_check_file(s, NULL);
    sqlite3_close(s->db);
    if (s->answer_lock > 0) close(s->answer_lock);
    free(s->path);
    free(s->current.name);
    free(s->next_name);
    names_release(&s->makers);
    free(s->folder);
    free(s->identity);
    free(s->arithmetic);
    free(s->resumed_matmul);
    free(s->former_matmul);
    free(s->system);
    for (size_t i = 0; i < s->setting_count; i++) {
        free(s->settings[i].key);
        free(s->settings[i].value);
    }
    free(s->settings);
    free(s);
}

const char *store_path(const struct store *s)
{
    return s->path;
}

void store_unsave(struct store *s)
{
    s->unsaved = true;
}

bool store_unsaved(const struct store *s)
{
    return s->unsaved;
}

const char *store_session(const struct store *s)
{
    return s->current.name;
}

const char *store_next_session(const struct store *s)
{
    return s->next_name;
}
