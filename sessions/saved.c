// sessions/saved.c -- reads a session: messages and changes of settings and models, in order.
//
// The file may be damaged or crafted: sizes, roles, ids and hashes are checked here, once, for both
// resuming and exporting.
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/base/file_in.h"
#include "core/base/hash.h"
#include "core/base/json.h"
#include "core/base/text.h"
#include "core/template/message.h"
#include "sessions/internal.h"

static int damaged(struct store *s, const struct saved *saved, const char *what, struct err *err)
{
    return err_set(err, "the session '%s' in '%s' is damaged: %s; `sqlite3 FILE .recover` may help",
                   saved->name, s->path, what);
}

void saved_release(struct saved *saved)
{
    for (size_t i = 0; i < saved->count; i++) {
        struct saved_entry *e = &saved->list[i];
        message_release(&e->message);
        free(e->stop);
        free(e->boxes);
        free(e->key);
        free(e->value);
        free(e->arithmetic);
    }
    for (size_t i = 0; i < saved->picture_count; i++) {
        free(saved->pictures[i].path);
        free(saved->pictures[i].sha256);
    }
    free(saved->list);
    free(saved->pictures);
    free(saved->name);
    *saved = (struct saved){ 0 };
}

static int read_ids(struct store *s, const struct saved *saved, sqlite3_stmt *q, int column,
                    struct ids *ids, struct err *err)
{
    const void *bytes = sqlite3_column_blob(q, column);
    size_t size = (size_t)sqlite3_column_bytes(q, column);
    if (size % sizeof(int32_t)) return damaged(s, saved, "token ids with an invalid length", err);
    for (size_t i = 0; i < size; i += sizeof(int32_t)) {
        int32_t id;
        memcpy(&id, (const char *)bytes + i, sizeof id);
        if (id < 0) return damaged(s, saved, "a negative token id", err);
        ids_add(ids, id);
    }
    return 0;
}

static int read_picture(struct store *s, struct saved *saved, sqlite3_stmt *q, struct message *m,
                        struct err *err)
{
    saved->pictures =
        xreallocarray(saved->pictures, saved->picture_count + 1, sizeof *saved->pictures);
    struct saved_picture *p = &saved->pictures[saved->picture_count];
    *p = (struct saved_picture){ .id = sqlite3_column_int64(q, 1),
                                 .path = column_text(q, 2),
                                 .sha256 = column_text(q, 3),
                                 .size = sqlite3_column_int64(q, 4),
                                 .stored = sqlite3_column_int(q, 5) };
    message_add_picture(m, (int)saved->picture_count++);
    if (p->size < 0 || p->size > IMAGE_MAX_FILE || strlen(p->sha256) != HASH_HEX - 1 ||
        strspn(p->sha256, "0123456789abcdef") != HASH_HEX - 1)
        return damaged(s, saved, "a picture with an impossible size or hash", err);
    return 0;
}

static int read_parts(struct store *s, struct saved *saved, int64_t message, struct message *m,
                      struct err *err)
{
    sqlite3_stmt *q = store_query(
        s, err,
        "SELECT p.text, p.picture, p.path, x.sha256, x.size, x.bytes IS NOT NULL FROM parts p "
        "LEFT JOIN pictures x ON x.id = p.picture WHERE p.message = ? ORDER BY p.place",
        "i", message);
    if (!q) return -1;
    int status = 0, row = 0;
    while (status == 0 && (row = store_step(s, q, err)) > 0) {
        if (sqlite3_column_type(q, 1) != SQLITE_NULL) {
            status = read_picture(s, saved, q, m, err);
        } else {
            char *text = column_text(q, 0);
            message_add_text(m, text);
            free(text);
        }
    }
    sqlite3_finalize(q);
    return status < 0 || row < 0 ? -1 : 0;
}

static double seconds_column(sqlite3_stmt *q, int column)
{
    double x = sqlite3_column_double(q, column);
    return x >= 0 && x < 1e12 ? x : 0;
}

// Reads the reasoning of an answer: columns 9 to 11.
static int read_reasoning(struct store *s, const struct saved *saved, sqlite3_stmt *q,
                          struct message *m, struct err *err)
{
    char *reasoning = column_text(q, 9), *text = message_text(m);
    const int64_t tokens = sqlite3_column_int64(q, 10), at = sqlite3_column_int64(q, 11);
    const bool good = tokens >= 0 && at >= 0 && (uint64_t)at <= strlen(text) &&
                      ((unsigned char)text[at] & 0xc0) != 0x80;
    if (good && tokens) message_set_reasoning(m, reasoning, tokens, (size_t)at);
    free(reasoning);
    free(text);
    return good ? 0 : damaged(s, saved, "reasoning of impossible length", err);
}

static int read_answer(struct store *s, const struct saved *saved, int64_t message,
                       struct saved_entry *e, struct err *err)
{
    sqlite3_stmt *q = store_query(s, err,
                                  "SELECT began, prompt_tokens, visual_tokens, computed_tokens, "
                                  "vision_s, prefill_s, decode_s, stop, boxes, reasoning, "
                                  "reasoning_tokens, answer_at FROM answers "
                                  "WHERE message = ?",
                                  "i", message);
    if (!q) return -1;
    int row = store_step(s, q, err);
    if (row > 0) {
        e->timed = true;
        e->began = sqlite3_column_int64(q, 0);
        e->stop = column_text(q, 7);
        e->boxes = column_text(q, 8);
        e->answer = (struct event_answer){
            .count = e->message.ids.count,
            .prompt_tokens = sqlite3_column_int64(q, 1),
            .visual_tokens = sqlite3_column_int64(q, 2),
            .computed_tokens = sqlite3_column_int64(q, 3),
            .vision_s = seconds_column(q, 4),
            .prefill_s = seconds_column(q, 5),
            .decode_s = seconds_column(q, 6),
            .stop = e->stop,
            .in_conversation = true,
            .reasoning_tokens = sqlite3_column_int64(q, 10),
        };
    }
    const int status = row > 0 ? read_reasoning(s, saved, q, &e->message, err) : row;
    sqlite3_finalize(q);
    return status;
}

// True if a command line (its words as JSON) measures files instead of the conversation.
static bool measures_files(const char *words)
{
    static const char *const options[] = { "--data", "--plus", NULL };
    const cJSON *word;
    cJSON *list = json_parse(words, strlen(words), "command", NULL);
    bool found = false;
    cJSON_ArrayForEach(word, list) found |=
        cJSON_IsString(word) && text_listed(options, word->valuestring);
    cJSON_Delete(list);
    return found;
}

static int read_message(struct store *s, struct saved *saved, sqlite3_stmt *q,
                        struct saved_entry *e, struct err *err)
{
    int64_t id = sqlite3_column_int64(q, 1);
    const unsigned char *name = sqlite3_column_text(q, 2);
    int role = name ? role_parse((const char *)name) : -1;
    if (role < 0) return damaged(s, saved, "a message with an unknown role", err);
    e->message.role = (enum role)role;
    e->message.generated = sqlite3_column_int(q, 3);
    e->began = sqlite3_column_int64(q, 5);
    if (read_ids(s, saved, q, 4, &e->message.ids, err) < 0 ||
        read_parts(s, saved, id, &e->message, err) < 0)
        return -1;
    return read_answer(s, saved, id, e, err);
}

enum { TEXTS_MOST = 256 << 20 }; // bytes of all entries but messages

static int read_entries(struct store *s, struct saved *saved, struct err *err)
{
    // Column 0 is enum saved_kind. Includes replaced system messages, because a replay needs them,
    // and undone messages, whose column 9 is the place at which they were undone.
    // A setting that changed in the middle of an undone answer changes at the start of the next
    // answer.
    sqlite3_stmt *q = store_query(
        s, err,
        "SELECT 0, id, role, generated, ids, said, NULL, NULL, place, undone, NULL FROM messages "
        " WHERE session = ?1 "
        "UNION ALL SELECT 1, NULL, NULL, NULL, NULL, NULL, key, value, place, "
        " CASE WHEN (SELECT undone FROM messages m WHERE m.session = c.session AND "
        "  m.place > c.place ORDER BY m.place LIMIT 1) IS NULL THEN tokens ELSE 0 END, NULL "
        " FROM settings_changes c WHERE session = ?1 "
        "UNION ALL SELECT 2, NULL, NULL, NULL, NULL, NULL, folder, fingerprint, place, 0, "
        " arithmetic "
        " FROM model_changes c JOIN models m ON m.id = c.model WHERE session = ?1 "
        "UNION ALL SELECT 3, NULL, NULL, NULL, NULL, NULL, '', words, place, 0, NULL "
        " FROM commands WHERE session = ?1 "
        "ORDER BY place",
        "i", saved->id);
    if (!q) return -1;
    int status = 0, row = 0;
    int64_t undone = 0; // the latest undoing of a message so far
    size_t texts = 0;
    while (status == 0 && (row = store_step(s, q, err)) > 0) {
        if (!sqlite3_column_int(q, 0) && sqlite3_column_type(q, 9) != SQLITE_NULL) {
            if (sqlite3_column_int64(q, 9) > undone) undone = sqlite3_column_int64(q, 9);
            continue;
        }
        saved->list = xreallocarray(saved->list, saved->count + 1, sizeof *saved->list);
        struct saved_entry *e = &saved->list[saved->count++];
        *e = (struct saved_entry){ .kind = (enum saved_kind)sqlite3_column_int(q, 0) };
        if (e->kind == SAVED_MESSAGE) {
            status = read_message(s, saved, q, e, err);
            continue;
        }
        e->key = column_text(q, 6);
        e->value = column_text(q, 7);
        e->tokens = sqlite3_column_int64(q, 9);
        e->arithmetic = column_text(q, 10);
        if (e->kind == SAVED_COMMAND) {
            e->undone = undone > sqlite3_column_int64(q, 8);
            e->apart = measures_files(e->value);
        }
        // Many entries may name one model.
        texts += strlen(e->key) + strlen(e->value) + strlen(e->arithmetic);
        if (texts > TEXTS_MOST)
            status = damaged(s, saved, "more than 256 MB of models, settings and commands", err);
        if (e->tokens < 0) status = damaged(s, saved, "a setting change at a negative token", err);
    }
    sqlite3_finalize(q);
    return status < 0 || row < 0 ? -1 : 0;
}

int saved_read(struct store *s, const char *name, struct saved *saved, struct err *err)
{
    *saved = (struct saved){ .name = xstrdup(name) };
    // One transaction: another program may be writing to the session.
    int status = store_run(s, err, "BEGIN", "");
    if (status == 0) {
        status = session_find(s, name, &saved->id, err);
        sqlite3_stmt *q = status < 0 ? NULL
                                     : store_query(s, err,
                                                   "SELECT entries, began, touched FROM sessions "
                                                   "WHERE id = ?",
                                                   "i", saved->id);
        const int row = q ? store_step(s, q, err) : -1;
        if (row > 0) {
            saved->entries = sqlite3_column_int64(q, 0);
            saved->began = sqlite3_column_int64(q, 1);
            saved->touched = sqlite3_column_int64(q, 2);
        }
        sqlite3_finalize(q);
        if (row < 0) status = -1;
        // Leaves room for the count to grow.
        if (status == 0 && (saved->entries < 0 || saved->entries >= INT64_MAX / 2))
            status = damaged(s, saved, "a number of entries out of range", err);
        if (status == 0) status = read_entries(s, saved, err);
        status = store_unlock(s, status, err);
    }
    if (status < 0) saved_release(saved);
    return status;
}

// --- pictures ------------------------------------------------------------------------------------

static bool is_picture(const struct saved_picture *p, const char *bytes, size_t size)
{
    char hex[HASH_HEX];
    hash_hex(bytes, size, hex);
    return !strcmp(hex, p->sha256);
}

int saved_bytes(struct store *s, const struct saved_picture *p, char **bytes, size_t *size,
                struct err *err)
{
    struct err why = { 0 };
    *bytes = NULL;
    sqlite3_stmt *q =
        p->stored ? store_query(s, NULL, "SELECT bytes FROM pictures WHERE id = ?", "i", p->id)
                  : NULL;
    if (q && store_step(s, q, NULL) > 0) {
        const void *data = sqlite3_column_blob(q, 0);
        *size = (size_t)sqlite3_column_bytes(q, 0);
        if (data && is_picture(p, data, *size)) {
            *bytes = xmalloc(*size);
            memcpy(*bytes, data, *size);
        }
    }
    sqlite3_finalize(q);
    if (*bytes) return 0;
    if (!strcmp(p->path, "-"))
        err_set(&why, "it came from standard input");
    else if ((*bytes = file_read(p->path, IMAGE_MAX_FILE, size, &why)) != NULL) {
        if (is_picture(p, *bytes, *size)) return 0;
        free(*bytes);
        *bytes = NULL;
        err_set(&why, "the file has changed (SHA-256 was %.12s…)", p->sha256);
    }
    return err_set(err,
                   "picture '%s' is not in the database (%s) and cannot be read from its path: %s: "
                   "restore the file",
                   p->path, p->stored ? "its copy is damaged" : "larger than 8 MiB", why.text);
}
