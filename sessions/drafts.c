// sessions/drafts.c -- one draft a shell; the newest row is the one that was kept last.
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
    struct draft_owner o = { .fd = shells_open(s) };
    if (o.fd < 0 || getrandom(&o.id, sizeof o.id, 0) != (ssize_t)sizeof o.id) return o;
    o.id = (o.id & (INT64_MAX >> 1)) + 1;
    struct flock lock = byte_of(o.id, F_WRLCK);
    fcntl(o.fd, F_OFD_SETLK, &lock); // refused: others see the draft of a shell that is gone
    return o;
}

void draft_owner_end(struct draft_owner *o)
{
    if (o->fd >= 0) close(o->fd);
    *o = (struct draft_owner){ .fd = -1 };
}

// Locks of this kind belong to the open file: our own do not show.
static bool is_alive(const struct draft_owner *o, int64_t id)
{
    struct flock lock = byte_of(id, F_WRLCK);
    if (!id || o->fd < 0) return false;
    return fcntl(o->fd, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

// --- drafts --------------------------------------------------------------------------------------

static int keep(struct store *s, int64_t owner, int64_t session, const char *text, int64_t taken,
                struct err *err)
{
    if (store_run(s, err, "DELETE FROM drafts WHERE owner = ? OR id = ?", "ii", owner, taken) < 0)
        return -1;
    if (!*text) return 0;
    return store_run(s, err, "INSERT INTO drafts(owner, session, text) VALUES(?, ?, ?)", "iit",
                     owner, session, text);
}

int store_draft_keep(struct store *s, const struct draft_owner *o, const char *session,
                     const char *text, int64_t taken, struct err *err)
{
    int64_t id = 0;
    if (session && session_find(s, session, &id, NULL) < 0) id = 0;
    if (store_lock(s, err) < 0) return -1;
    return store_unlock(s, keep(s, o->id, id, text, taken, err), err);
}

char *store_draft_find(struct store *s, const struct draft_owner *o, const char *session,
                       int64_t *id, struct err *err)
{
    int64_t of = 0;
    int row = 0;
    char *text = NULL;
    if (session && session_find(s, session, &of, NULL) < 0) of = 0;
    sqlite3_stmt *q = store_query(s, err,
                                  "SELECT id, owner, text FROM drafts WHERE owner != ?"
                                  " AND (session = ? OR ?) ORDER BY id DESC",
                                  "iii", o->id, of, (int64_t)!session);
    if (!q) return NULL;
    while (!text && (row = store_step(s, q, err)) > 0) {
        if (is_alive(o, sqlite3_column_int64(q, 1))) continue;
        *id = sqlite3_column_int64(q, 0);
        text = column_text(q, 2);
    }
    sqlite3_finalize(q);
    if (row < 0) return NULL;
    return text ? text : xstrdup("");
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
        if (sqlite3_column_int64(q, 2) != session) continue; // for the next call
        gone[count++] = sqlite3_column_int64(q, 0);
    }
    sqlite3_finalize(q);
    for (size_t i = 0; i < count; i++)
        store_run(s, NULL, "DELETE FROM shells WHERE owner = ?", "i", gone[i]);
    return name;
}
