// sessions/drafts.c -- one draft a session.
#include "sessions/drafts.h"

#include "core/mem.h"
#include "sessions/internal.h"

int store_draft_keep(struct store *s, const char *text, struct err *err)
{
    const int64_t id = s->current.session;
    if (store_run(s, err, "DELETE FROM drafts WHERE session = ?", "i", id) < 0) return -1;
    if (!*text) return 0;
    return store_run(s, err, "INSERT INTO drafts(session, text) VALUES(?, ?)", "it", id, text);
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
