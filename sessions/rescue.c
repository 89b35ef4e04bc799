// sessions/rescue.c -- if the database cannot be written at exit, saves the session as a script.
//
//   stored session + pending events -> a database in memory -> script on another disk
//
// A database that cannot be written can usually still be read, so the script has the whole session,
// because an answer depends on all earlier messages. If the session cannot be read either, the
// script starts with the pending events.
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/folder.h"
#include "sessions/internal.h"

// --- a database in memory ------------------------------------------------------------------------

#define MESSAGES_OF_SESSION "message IN (SELECT id FROM messages WHERE session = ?)"

// Copies one session through the open connection, which still reads a file that was removed. Rows
// keep their ids.
static int copy_session(sqlite3 *from, struct store *memory, int64_t session)
{
    static const struct {
        const char *table, *which;
    } copies[] = {
        { "sessions", "id = ?" },
        { "messages", "session = ?" },
        { "settings_changes", "session = ?" },
        { "model_changes", "session = ?" },
        { "commands", "session = ?" },
        { "models", "id IN (SELECT model FROM model_changes WHERE session = ?)" },
        { "parts", MESSAGES_OF_SESSION },
        { "answers", MESSAGES_OF_SESSION },
        { "pictures", "id IN (SELECT picture FROM parts WHERE " MESSAGES_OF_SESSION ")" },
    };
    int status = store_run(memory, NULL, "BEGIN", "");
    for (size_t k = 0; k < sizeof copies / sizeof *copies && status == 0; k++) {
        sqlite3_stmt *in = NULL, *out = NULL;
        struct buf insert = { 0 };
        char *select = xasprintf("SELECT * FROM %s WHERE %s", copies[k].table, copies[k].which);
        int code = sqlite3_prepare_v2(from, select, -1, &in, NULL);
        const int columns = sqlite3_column_count(in);
        buf_printf(&insert, "INSERT INTO %s VALUES(", copies[k].table);
        for (int i = 0; i < columns; i++) buf_puts(&insert, i ? ", ?" : "?");
        buf_puts(&insert, ")");
        if (code == SQLITE_OK) code = sqlite3_prepare_v2(memory->db, insert.data, -1, &out, NULL);
        if (code == SQLITE_OK) sqlite3_bind_int64(in, 1, session);
        while (code == SQLITE_OK && (code = sqlite3_step(in)) == SQLITE_ROW) {
            for (int i = 0; i < columns; i++)
                sqlite3_bind_value(out, i + 1, sqlite3_column_value(in, i));
            sqlite3_step(out);
            code = sqlite3_reset(out);
        }
        if (code != SQLITE_DONE) status = -1;
        sqlite3_finalize(in);
        sqlite3_finalize(out);
        buf_release(&insert);
        free(select);
    }
    return store_unlock(memory, status, NULL);
}

// Copies the stored part of the session into `memory`, then writes the pending events after it.
// *from: the session and the number of entries that the database file has; 0: the events continue
// no stored session, or the file was removed or cannot be read.
static int write_pending(struct store *s, struct store *memory, struct position *from,
                         struct err *err)
{
    *from = (struct position){ 0 };
    *memory = *s;
    memory->db = NULL;
    memory->sinks = NULL;
    memory->current = (struct position){ 0 };
    position_set(&memory->current, s->current.session, s->current.entries, s->current.name);
    if (sqlite3_open_v2(":memory:", &memory->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_FULLMUTEX,
                        NULL) != SQLITE_OK)
        return store_failed(memory, err);
    if (store_migrate_to(memory->db, store_version(), s->path, err) < 0) return -1;
    const bool copied = s->current.session && (s->moved || store_continues(s)) &&
                        copy_session(s->db, memory, s->current.session) == 0;
    if (copied && !s->moved) {
        from->session = s->current.session;
        if (store_number(memory, err, 0, &from->entries, "SELECT entries FROM sessions", "") < 0)
            return -1;
    }
    if (store_flush(memory, err) < 0) return -1;
    s->pending = NULL;
    s->pending_count = s->pending_capacity = 0;
    return 0;
}

// --- the scripts ---------------------------------------------------------------------------------

// Returns FOLDER/NAME.vlmsh; NAME has harmless characters only.
static char *script_path(const char *folder, const char *name)
{
    struct buf b = { 0 };
    buf_printf(&b, "%s/", folder);
    for (size_t i = 0; i < 80 && name[i]; i++) {
        const char c = name[i];
        buf_putc(&b, (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                             c == '-'
                         ? c
                         : '_');
    }
    buf_puts(&b, ".vlmsh");
    return buf_take(&b);
}

// Exports each session that has grown since the copy; *paths: 'A', 'B'.
static int export_all(struct store *memory, const struct position *from, const char *folder,
                      struct buf *paths, struct err *err)
{
    // If another program wrote into the current session, store_flush wrote the pending events into
    // a copy of the session.
    sqlite3_stmt *q = store_query(memory, err,
                                  "SELECT name FROM sessions WHERE entries > ? OR id <> ? "
                                  "ORDER BY id",
                                  "ii", from->entries, from->session);
    int status = q ? 0 : -1, row;
    while (status == 0 && (row = store_step(memory, q, err)) != 0) {
        char *name = row > 0 ? column_text(q, 0) : NULL;
        char *path = name ? script_path(folder, name) : NULL;
        status = path ? store_export(memory, name, path, err) : -1;
        if (status == 0) buf_printf(paths, "%s'%s'", paths->length ? ", " : "", path);
        free(name);
        free(path);
    }
    sqlite3_finalize(q);
    return status;
}

static int rescue(struct store *s, struct buf *paths, struct err *err)
{
    const char *const bases[] = { getenv("TMPDIR"), "/tmp", getenv("HOME"), "." };
    struct store memory;
    struct position from;
    int status = write_pending(s, &memory, &from, err);
    if (status == 0) {
        status = -1;
        for (size_t i = 0; i < sizeof bases / sizeof *bases && status < 0; i++) {
            if (!bases[i] || !*bases[i]) continue;
            char *folder = xasprintf("%s/vlmsh-unkept-XXXXXX", bases[i]);
            status = mkdtemp(folder) ? export_all(&memory, &from, folder, paths, err)
                                     : err_set(err, "'%s': %s", bases[i], strerror(errno));
            if (status < 0) {
                folder_remove(folder);
                buf_clear(paths);
            }
            free(folder);
        }
    }
    sqlite3_close(memory.db);
    free(memory.current.name);
    return status;
}

// Returns "3 questions and 1 measurement were not saved".
static char *name_unsaved(const struct store *s)
{
    const size_t questions = store_questions(s), measured = store_measurements(s);
    struct buf b = { 0 };
    if (questions)
        buf_printf(&b, "%zu question%s", questions, questions == 1 ? "" : "s");
    else if (measured < s->pending_count)
        buf_puts(&b, "the last changes of the session");
    if (measured)
        buf_printf(&b, "%s%zu measurement%s", b.length ? " and " : "", measured,
                   measured == 1 ? "" : "s");
    const bool one = measured == s->pending_count ? measured == 1 : !measured && questions == 1;
    buf_puts(&b, one ? " was not saved" : " were not saved");
    return buf_take(&b);
}

int store_finish(struct store *s, struct err *err)
{
    struct err why = { 0 }, other = { 0 };
    struct buf paths = { 0 };
    if (!s) return 0;
    const bool lost = s->begun && store_check_file(s, &why) < 0; // even the saved turns
    if (!lost && store_flush(s, &why) == 0) return 0;
    char *what = lost ? xstrdup("the session was not saved") : name_unsaved(s);
    if (!lost && store_measurements(s) == s->pending_count)
        err_set(err, "%s (%s): measure again", what, why.text);
    else if (rescue(s, &paths, &other) == 0)
        err_set(err, "%s (%s); a script that asks the session again: %s", what, why.text,
                paths.data ? paths.data : "");
    else
        err_set(err, "%s (%s), and no script of it could be written elsewhere: %s", what, why.text,
                other.text);
    free(what);
    buf_release(&paths);
    return -1;
}
