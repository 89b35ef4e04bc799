// sessions/drafts.c -- one draft per shell; the newest row is the latest draft.
#include "sessions/drafts.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/random.h>
#include <unistd.h>

#include "core/base/mem.h"
#include "sessions/internal.h"
#include "sessions/job_internal.h"

// --- owners --------------------------------------------------------------------------------------

static struct flock byte_of(int64_t id, short type)
{
    return (struct flock){ .l_type = type, .l_whence = SEEK_SET, .l_start = id, .l_len = 1 };
}

struct draft_owner draft_owner_begin(const struct store *s)
{
    struct draft_owner o = { .fd = open_beside(s, "shells") };
    if (o.fd < 0 || getrandom(&o.id, sizeof o.id, 0) != (ssize_t)sizeof o.id) return o;
    o.id = (o.id & (INT64_MAX >> 1)) + 1;
    struct flock lock = byte_of(o.id, F_WRLCK);
    fcntl(o.fd, F_OFD_SETLK, &lock); // on failure, other shells assume that this one has ended
    return o;
}

void draft_owner_end(struct draft_owner *o)
{
    if (o->fd >= 0) close(o->fd);
    *o = (struct draft_owner){ .fd = -1 };
}

// These locks belong to the open file, so F_OFD_GETLK does not report those of this process.
static bool is_alive(const struct draft_owner *o, int64_t id)
{
    struct flock lock = byte_of(id, F_WRLCK);
    if (!id || o->fd < 0) return false;
    return fcntl(o->fd, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

// --- drafts --------------------------------------------------------------------------------------

void draft_release(struct draft *d)
{
    free(d->text);
    free(d->folder);
    free(d->model);
    *d = (struct draft){ 0 };
}

int store_draft_keep(struct store *s, const struct draft_owner *o, const char *session,
                     const struct draft *d, struct err *err)
{
    if (s->unsaved) return 0;
    int64_t id = 0;
    if (session && session_find(s, session, &id, NULL) < 0) id = 0;
    if (store_lock(s, err) < 0) return -1;
    int status =
        store_run(s, err, "DELETE FROM drafts WHERE owner = ? OR id = ?", "ii", o->id, d->id);
    if (status == 0 && *d->text)
        status = store_run(s, err,
                           "INSERT INTO drafts(owner, session, text, folder, model) "
                           "VALUES(?, ?, ?, ?, ?)",
                           "iittt", o->id, id, d->text, d->folder ? d->folder : "",
                           d->model ? d->model : "");
    return store_unlock(s, status, err);
}

int store_draft_find(struct store *s, const struct draft_owner *o, const char *session,
                     struct draft *d, struct err *err)
{
    int64_t of = 0;
    int row = 0;
    *d = (struct draft){ 0 };
    if (session && session_find(s, session, &of, NULL) < 0) of = 0;
    sqlite3_stmt *q = store_query(s, err,
                                  "SELECT id, owner, text, folder, model FROM drafts"
                                  " WHERE owner != ?"
                                  " AND (session = ? OR ?) ORDER BY id DESC",
                                  "iii", o->id, of, (int64_t)!session);
    if (!q) return -1;
    while (!d->text && (row = store_step(s, q, err)) > 0) {
        if (is_alive(o, sqlite3_column_int64(q, 1))) continue;
        *d = (struct draft){ column_text(q, 2), column_text(q, 3), column_text(q, 4),
                             sqlite3_column_int64(q, 0) };
    }
    sqlite3_finalize(q);
    return row < 0 ? -1 : d->text != NULL;
}

// --- sessions of shells --------------------------------------------------------------------------

int store_shell_note(struct store *s, const struct draft_owner *o, const char *session,
                     struct err *err)
{
    int64_t id = 0;
    if (!o->id) return 0;
    if (session && session_find(s, session, &id, NULL) < 0) id = 0;
    if (store_lock(s, err) < 0) return -1;
    int status = store_run(s, err, "DELETE FROM shells WHERE owner = ?", "i", o->id);
    if (status == 0 && id)
        status =
            store_run(s, err, "INSERT INTO shells(owner, session) VALUES(?, ?)", "ii", o->id, id);
    return store_unlock(s, status, err);
}

char *store_shell_crashed(struct store *s, const struct draft_owner *o)
{
    int64_t gone[64], session = 0;
    size_t count = 0;
    char *name = NULL;
    if (o->fd < 0) return NULL;
    sqlite3_stmt *q =
        store_query(s, NULL,
                    "SELECT owner, name, session FROM shells JOIN sessions ON sessions.id = "
                    "session WHERE owner != ? ORDER BY sessions.touched DESC",
                    "i", o->id);
    while (q && count < 64 && store_step(s, q, NULL) > 0) {
        if (is_alive(o, sqlite3_column_int64(q, 0))) continue;
        if (!name) {
            name = column_text(q, 1);
            session = sqlite3_column_int64(q, 2);
        }
        if (sqlite3_column_int64(q, 2) != session) continue; // left for the next call
        gone[count++] = sqlite3_column_int64(q, 0);
    }
    sqlite3_finalize(q);
    for (size_t i = 0; i < count; i++)
        store_run(s, NULL, "DELETE FROM shells WHERE owner = ?", "i", gone[i]);
    return name;
}
