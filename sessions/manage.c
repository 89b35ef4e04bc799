// sessions/manage.c -- lists, begins, forks, renames and deletes sessions.
#include <stdlib.h>
#include <string.h>

#include "sessions/internal.h"

int session_find(struct store *s, const char *name, int64_t *id, struct err *err)
{
    if (store_number(s, err, 0, id, "SELECT id FROM sessions WHERE name = ?", "t", name) < 0)
        return -1;
    return *id ? 0 : err_set(err, "no session '%s' (/session list)", name);
}

static int check_free(struct store *s, const char *name, struct err *err)
{
    int64_t id;
    if (name_check(name, err) < 0 ||
        store_number(s, err, 0, &id, "SELECT id FROM sessions WHERE name = ?", "t", name) < 0)
        return -1;
    return id ? err_set(err, "a session '%s' already exists: choose another name", name) : 0;
}

int store_begin(struct store *s, const char *name, struct err *err)
{
    if (name && check_free(s, name, err) < 0) return -1;
    if (store_flush(s, err) < 0) return err_in(err, "the previous session is not saved yet");
    position_set(&s->current, 0, 0, NULL);
    s->begun = false;
    free(s->next_name);
    s->next_name = name ? xstrdup(name) : NULL;
    return 0;
}

// --- list ----------------------------------------------------------------------------------------

int store_list(struct store *s, struct session_row **rows, size_t *count, struct err *err)
{
    *rows = NULL;
    *count = 0;
    sqlite3_stmt *q = store_query(
        s, err,
        "SELECT name," // a damaged database may have a long folder
        " (SELECT substr(folder, 1, 4096) FROM model_changes c JOIN models m ON m.id = c.model"
        "  WHERE c.session = s.id ORDER BY c.place DESC LIMIT 1),"
        " began, touched,"
        " (SELECT count(*) FROM messages WHERE session = s.id AND undone IS NULL"
        "  AND role IN ('user', 'raw')),"
        " (SELECT count(*) FROM messages m JOIN parts p ON p.message = m.id"
        "  WHERE m.session = s.id AND m.undone IS NULL AND p.picture IS NOT NULL),"
        " (SELECT substr(p.text, 1, 200) FROM messages m JOIN parts p ON p.message = m.id"
        "  WHERE m.session = s.id AND m.role <> 'system' AND p.text <> ''"
        "  ORDER BY m.undone IS NOT NULL, m.place, p.place LIMIT 1)"
        " FROM sessions s ORDER BY touched DESC, id DESC",
        "");
    if (!q) return -1;
    int row;
    while ((row = store_step(s, q, err)) > 0) {
        *rows = xreallocarray(*rows, *count + 1, sizeof **rows);
        char *words = column_text(q, 6);
        (*rows)[(*count)++] = (struct session_row){
            .name = column_text(q, 0),
            .model = column_text(q, 1),
            .began = sqlite3_column_int64(q, 2),
            .ended = sqlite3_column_int64(q, 3),
            .turns = sqlite3_column_int64(q, 4),
            .pictures = sqlite3_column_int64(q, 5),
            .title = first_words(words, 60),
        };
        free(words);
    }
    sqlite3_finalize(q);
    if (row == 0) return 0;
    store_list_free(*rows, *count);
    *rows = NULL;
    *count = 0;
    return -1;
}

void store_list_free(struct session_row *rows, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        free(rows[i].name);
        free(rows[i].model);
        free(rows[i].title);
    }
    free(rows);
}

// --- fork, rename, delete ------------------------------------------------------------------------

// Matches a message with its copy by `place`, which both share.
static const char *const copy_rows[] = {
    "INSERT INTO messages(session, place, role, generated, ids, said, undone) "
    "SELECT ?1, place, role, generated, ids, said, CASE WHEN undone <= ?3 THEN undone END "
    "FROM messages WHERE session = ?2 AND place <= ?3",
    "INSERT INTO parts(message, place, text, picture, path) "
    "SELECT n.id, p.place, p.text, p.picture, p.path FROM messages o "
    "JOIN parts p ON p.message = o.id JOIN messages n ON n.session = ?1 AND n.place = o.place "
    "WHERE o.session = ?2 AND o.place <= ?3",
    "INSERT INTO answers(message, began, prompt_tokens, visual_tokens, computed_tokens, vision_s, "
    "prefill_s, decode_s, stop, boxes, reasoning, reasoning_tokens, answer_at) "
    "SELECT n.id, a.began, a.prompt_tokens, a.visual_tokens, a.computed_tokens, a.vision_s, "
    "a.prefill_s, a.decode_s, a.stop, a.boxes, a.reasoning, a.reasoning_tokens, a.answer_at FROM "
    "messages o "
    "JOIN answers a ON a.message = o.id JOIN messages n ON n.session = ?1 AND n.place = o.place "
    "WHERE o.session = ?2 AND o.place <= ?3",
    "INSERT INTO settings_changes(session, place, key, value, tokens) "
    "SELECT ?1, place, key, value, tokens FROM settings_changes WHERE session = ?2 AND place <= ?3",
    "INSERT INTO model_changes(session, place, model, arithmetic) "
    "SELECT ?1, place, model, arithmetic FROM model_changes WHERE session = ?2 AND place <= ?3",
    "INSERT INTO commands(session, place, words) "
    "SELECT ?1, place, words FROM commands WHERE session = ?2 AND place <= ?3",
};

int session_copy(struct store *s, int64_t from, int64_t upto, const char *name, int64_t *id,
                 struct err *err)
{
    if (store_run(s, err,
                  "INSERT INTO sessions(name, began, touched, entries) "
                  "SELECT ?, began, touched, ? FROM sessions WHERE id = ?",
                  "tii", name, upto, from) < 0)
        return -1;
    *id = sqlite3_last_insert_rowid(s->db);
    for (size_t i = 0; i < sizeof copy_rows / sizeof copy_rows[0]; i++)
        if (store_run(s, err, copy_rows[i], "iii", *id, from, upto) < 0) return -1;
    return 0;
}

int store_fork(struct store *s, const char *name, struct err *err)
{
    if (store_flush(s, err) < 0) return -1;
    if (!s->current.session)
        return err_set(err, "no session to fork yet: it starts with the first message");
    if (name && check_free(s, name, err) < 0) return -1;
    if (store_lock(s, err) < 0) return -1;
    char *unique = name_unique(s, name ? name : s->current.name, err);
    int64_t copy = 0;
    int status =
        unique ? session_copy(s, s->current.session, s->current.entries, unique, &copy, err) : -1;
    status = store_unlock(s, status, err);
    if (status == 0) position_set(&s->current, copy, s->current.entries, unique);
    free(unique);
    return status;
}

int store_rename(struct store *s, const char *from, const char *to, struct err *err)
{
    int64_t id;
    if (session_find(s, from, &id, err) < 0) return -1;
    if (!strcmp(from, to)) return 0;
    if (check_free(s, to, err) < 0 ||
        store_run(s, err, "UPDATE sessions SET name = ? WHERE id = ?", "ti", to, id) < 0)
        return -1;
    if (id == s->current.session) position_set(&s->current, id, s->current.entries, to);
    return 0;
}

int store_delete(struct store *s, const char *name, struct err *err)
{
    int64_t id;
    if (session_find(s, name, &id, err) < 0) return -1;
    if (id == s->current.session)
        return err_set(err, "'%s' is the current session: /clear starts another, then delete it",
                       name);
    if (store_lock(s, err) < 0) return -1;
    int status = store_run(s, err, "DELETE FROM sessions WHERE id = ?", "i", id);
    if (status == 0) status = store_run(s, err, "DELETE FROM drafts WHERE session = ?", "i", id);
    if (status == 0)
        status = store_run(s, err,
                           "DELETE FROM pictures WHERE NOT EXISTS"
                           " (SELECT 1 FROM parts WHERE picture = pictures.id)",
                           "");
    if (status == 0)
        status = store_run(s, err,
                           "DELETE FROM models WHERE NOT EXISTS"
                           " (SELECT 1 FROM model_changes WHERE model = models.id)",
                           "");
    return store_unlock(s, status, err);
}
