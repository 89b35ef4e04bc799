// sessions/drafts.c -- one draft a session.
#include "sessions/drafts.h"

#include "core/mem.h"
#include "sessions/internal.h"

static int keep(struct store *s, int64_t id, const char *text, struct err *err)
{
    if (!*text) return store_run(s, err, "DELETE FROM drafts WHERE session = ?", "i", id);
    return store_run(s, err, "INSERT OR REPLACE INTO drafts(session, text) VALUES(?, ?)", "it", id,
                     text);
}

int store_draft_keep(struct store *s, const char *text, struct err *err)
{
    return keep(s, s->current.session, text, err);
}

int store_draft_keep_of(struct store *s, const char *session, const char *text, struct err *err)
{
    int64_t id = 0;
    if (session && session_find(s, session, &id, err) < 0) return -1;
    return keep(s, id, text, err);
}

char *store_draft_take(struct store *s, struct err *err)
{
    const int64_t id = s->current.session;
    sqlite3_stmt *q = store_query(s, err, "SELECT text FROM drafts WHERE session = ?", "i", id);
    if (!q) return NULL;
    const int found = store_step(s, q, err);
    char *text = found > 0 ? column_text(q, 0) : found == 0 ? xstrdup("") : NULL;
    sqlite3_finalize(q);
    if (text && *text) store_run(s, NULL, "DELETE FROM drafts WHERE session = ?", "i", id);
    return text;
}
