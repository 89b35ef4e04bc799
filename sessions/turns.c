// sessions/turns.c -- the sink that stores events as rows.
//
//   event -> entry in s->pending (a copy) -> store_flush: one transaction for all pending entries
//
// The user's message is flushed when it is sent, before its answer begins; the answer when it is
// complete. A failed write leaves everything pending, in order, to be written with a later turn.
// Each change of the system message is a row ("" = removed): the last one applies.
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/picture/boxes.h"
#include "core/template/message.h"
#include "sessions/internal.h"

enum entry_kind {
    ENTRY_BEGIN,
    ENTRY_END,
    ENTRY_MODEL,
    ENTRY_SETTING,
    ENTRY_MESSAGE,
    ENTRY_UNDO,
    ENTRY_RESULT,
    ENTRY_COMMAND
};

struct entry_item {
    char *text; // NULL for a picture
    char *path, *sha256;
    void *bytes; // NULL when too large to be stored
    size_t size;
};

struct entry {
    enum entry_kind kind;
    int64_t time;
    // BEGIN: name (or NULL) and first words; MODEL: folder, fingerprint; SETTING: key, value;
    // RESULT: name, JSON; COMMAND: value = words
    char *key, *value;
    char *arithmetic; // MODEL
    int64_t count;    // UNDO: messages; SETTING: answer tokens at the change
    enum role role;
    bool generated;
    struct entry_item *content;
    size_t content_count;
    struct ids ids;
    bool answered;
    struct event_answer answer; // numbers only
    char *stop, *boxes, *reasoning;
    int64_t answer_at;
};

void entries_release(struct store *s)
{
    for (size_t i = 0; i < s->pending_count; i++) {
        struct entry *e = &s->pending[i];
        for (size_t k = 0; k < e->content_count; k++) {
            free(e->content[k].text);
            free(e->content[k].path);
            free(e->content[k].sha256);
            free(e->content[k].bytes);
        }
        free(e->content);
        free(e->key);
        free(e->value);
        free(e->arithmetic);
        free(e->stop);
        free(e->boxes);
        free(e->reasoning);
        ids_release(&e->ids);
    }
    free(s->pending);
    s->pending = NULL;
    s->pending_count = s->pending_capacity = 0;
}

void position_set(struct position *p, int64_t session, int64_t entries, const char *name)
{
    p->session = session;
    p->entries = entries;
    if (name && p->name && !strcmp(name, p->name)) return; // a caller may hold the old text
    char *copy = name ? xstrdup(name) : NULL;
    free(p->name);
    p->name = copy;
}

// --- writing -------------------------------------------------------------------------------------

// Reserves the number of the next entry, *place.
static int reserve_entry(struct store *s, struct position *at, int64_t time, int64_t *place,
                         struct err *err)
{
    *place = at->entries + 1;
    if (store_run(s, err, "UPDATE sessions SET entries = ?, touched = ? WHERE id = ?", "iii",
                  *place, time, at->session) < 0)
        return -1;
    at->entries = *place;
    return 0;
}

static int write_model(struct store *s, struct position *at, int64_t time, const char *folder,
                       const char *fingerprint, const char *arithmetic, struct err *err)
{
    int64_t place;
    if (reserve_entry(s, at, time, &place, err) < 0) return -1;
    if (store_run(s, err, "INSERT OR IGNORE INTO models(folder, fingerprint) VALUES(?, ?)", "tt",
                  folder, fingerprint) < 0)
        return -1;
    return store_run(s, err,
                     "INSERT INTO model_changes(session, place, model, arithmetic) "
                     "SELECT ?, ?, id, ? FROM models WHERE folder = ? AND fingerprint = ?",
                     "iittt", at->session, place, arithmetic, folder, fingerprint);
}

static int write_setting(struct store *s, struct position *at, int64_t time, const char *key,
                         const char *value, int64_t tokens, struct err *err)
{
    int64_t place;
    if (reserve_entry(s, at, time, &place, err) < 0) return -1;
    return store_run(s, err,
                     "INSERT INTO settings_changes(session, place, key, value, tokens) "
                     "VALUES(?, ?, ?, ?, ?)",
                     "iitti", at->session, place, key, value, tokens);
}

static int write_begin(struct store *s, struct position *at, int64_t time, const char *name,
                       const char *words, struct err *err)
{
    char *wanted = name ? xstrdup(name) : name_make(time, words);
    char *unique = name_unique(s, wanted, err);
    int status = unique ? store_run(s, err,
                                    "INSERT INTO sessions(name, began, touched, entries) "
                                    "VALUES(?, ?, ?, 0)",
                                    "tii", unique, time, time)
                        : -1;
    if (status == 0) position_set(at, sqlite3_last_insert_rowid(s->db), 0, unique);
    free(unique);
    free(wanted);
    return status;
}

static int write_message(struct store *s, struct position *at, const struct entry *e,
                         struct err *err)
{
    int64_t place;
    if (reserve_entry(s, at, e->time, &place, err) < 0) return -1;
    bool has_ids = e->generated || e->ids.count;
    const void *ids = has_ids ? (e->ids.data ? (const void *)e->ids.data : "") : NULL;
    if (store_run(s, err,
                  "INSERT INTO messages(session, place, role, generated, ids, said) "
                  "VALUES(?, ?, ?, ?, ?, ?)",
                  "iitibi", at->session, place, role_name(e->role), (int64_t)e->generated, ids,
                  e->ids.count * sizeof *e->ids.data, e->time) < 0)
        return -1;
    const int64_t message = sqlite3_last_insert_rowid(s->db);
    int status = 0;
    for (size_t i = 0; i < e->content_count && status == 0; i++) {
        const struct entry_item *p = &e->content[i];
        // Adds the bytes of a picture that was stored without them.
        if (!p->text)
            status = store_run(s, err,
                               "INSERT INTO pictures(sha256, size, bytes) VALUES(?, ?, ?) "
                               "ON CONFLICT(sha256) DO UPDATE SET bytes = excluded.bytes "
                               "WHERE bytes IS NULL AND excluded.bytes IS NOT NULL",
                               "tib", p->sha256, (int64_t)p->size, p->bytes,
                               p->bytes ? p->size : (size_t)0);
        if (status == 0)
            status = store_run(s, err,
                               "INSERT INTO parts(message, place, text, picture, path) "
                               "VALUES(?, ?, ?, (SELECT id FROM pictures WHERE sha256 = ?), ?)",
                               "iittt", message, (int64_t)i, p->text, p->sha256, p->path);
    }
    if (status < 0 || !e->answered) return status;
    const struct event_answer *a = &e->answer;
    const double seconds = a->vision_s + a->prefill_s + a->decode_s;
    return store_run(s, err,
                     "INSERT INTO answers(message, began, prompt_tokens, visual_tokens, "
                     "computed_tokens, vision_s, prefill_s, decode_s, stop, boxes, reasoning, "
                     "reasoning_tokens, answer_at) "
                     "VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                     "iiiiidddtttii", message, e->time - (int64_t)(seconds > 0 ? seconds : 0),
                     a->prompt_tokens, a->visual_tokens, a->computed_tokens, a->vision_s,
                     a->prefill_s, a->decode_s, e->stop, e->boxes, e->reasoning,
                     a->reasoning_tokens, e->answer_at);
}

static int write_entry(struct store *s, struct position *at, const struct entry *e, struct err *err)
{
    int64_t place;
    switch (e->kind) {
    case ENTRY_BEGIN: return write_begin(s, at, e->time, e->key, e->value, err);
    case ENTRY_END: position_set(at, 0, 0, NULL); return 0;
    case ENTRY_MODEL: return write_model(s, at, e->time, e->key, e->value, e->arithmetic, err);
    case ENTRY_SETTING: return write_setting(s, at, e->time, e->key, e->value, e->count, err);
    case ENTRY_MESSAGE: return write_message(s, at, e, err);
    case ENTRY_UNDO:
        if (reserve_entry(s, at, e->time, &place, err) < 0) return -1;
        return store_run(s, err,
                         "UPDATE messages SET undone = ? WHERE id IN ("
                         "  SELECT id FROM messages WHERE session = ? AND undone IS NULL "
                         "  AND role <> 'system' ORDER BY place DESC LIMIT ?)",
                         "iii", place, at->session, e->count);
    case ENTRY_RESULT: return store_result_keep(s, at->session, e->time, e->key, e->value, err);
    case ENTRY_COMMAND:
        if (reserve_entry(s, at, e->time, &place, err) < 0) return -1;
        return store_run(s, err, "INSERT INTO commands(session, place, words) VALUES(?, ?, ?)",
                         "iit", at->session, place, e->value);
    }
    BUG("entry of kind %d", (int)e->kind);
}

bool store_continues(const struct store *s)
{
    size_t i = 0;
    while (i < s->pending_count && s->pending[i].kind == ENTRY_RESULT)
        i++; // results are not part of the session
    return i < s->pending_count && s->pending[i].kind != ENTRY_END &&
           s->pending[i].kind != ENTRY_BEGIN;
}

size_t store_questions(const struct store *s)
{
    size_t n = 0;
    for (size_t i = 0; i < s->pending_count; i++)
        n += s->pending[i].kind == ENTRY_MESSAGE &&
             (s->pending[i].role == ROLE_USER || s->pending[i].role == ROLE_RAW);
    return n;
}

size_t store_measurements(const struct store *s)
{
    size_t n = 0;
    for (size_t i = 0; i < s->pending_count; i++) n += s->pending[i].kind == ENTRY_RESULT;
    return n;
}

// Starts a new session under the name of one that another program deleted.
static int begin_again(struct store *s, struct position *at, struct err *err)
{
    char *name = xstrdup(at->name);
    int64_t now = time(NULL);
    int status = write_begin(s, at, now, name, "", err);
    if (status == 0 && s->folder)
        status = write_model(s, at, now, s->folder, s->identity, s->arithmetic, err);
    for (size_t i = 0; i < s->setting_count && status == 0; i++)
        status = write_setting(s, at, now, s->settings[i].key, s->settings[i].value, 0, err);
    if (status == 0 && s->system && *s->system) {
        struct entry_item text = { .text = s->system };
        const struct entry system = {
            .time = now, .role = ROLE_SYSTEM, .content = &text, .content_count = 1
        };
        status = write_message(s, at, &system, err);
    }
    free(name);
    return status;
}

// If another program has changed the session since the last write by this one, continues in a new
// or copied session and says so in `notice`.
static int check_session(struct store *s, struct position *at, struct buf *notice, struct err *err)
{
    if (!at->session || !store_continues(s)) return 0;
    sqlite3_stmt *q =
        store_query(s, err, "SELECT entries, name FROM sessions WHERE id = ?", "i", at->session);
    if (!q) return -1;
    int row = store_step(s, q, err);
    int64_t entries = row > 0 ? sqlite3_column_int64(q, 0) : 0;
    char *name = row > 0 ? column_text(q, 1) : NULL;
    sqlite3_finalize(q);
    int status = row < 0 ? -1 : 0;
    if (row == 0) {
        status = begin_again(s, at, err);
        if (status == 0)
            buf_printf(notice,
                       "another program deleted this session: continuing in a new one, '%s', "
                       "without the earlier messages",
                       at->name);
    } else if (row > 0 && entries == at->entries) {
        position_set(at, at->session, entries, name); // the session may have been renamed
    } else if (row > 0) {
        char *unique = name_unique(s, name, err);
        int64_t copy;
        status = unique ? session_copy(s, at->session, at->entries, unique, &copy, err) : -1;
        if (status == 0) {
            position_set(at, copy, at->entries, unique);
            buf_printf(
                notice,
                "another program is also writing to session '%s': this one continues as '%s'", name,
                unique);
        }
        free(unique);
    }
    free(name);
    return status;
}

// Writes an entry; adds a notice if another program has taken the chosen session name meanwhile.
static int write_noticed(struct store *s, struct position *at, const struct entry *e,
                         struct buf *notice, struct err *err)
{
    if (write_entry(s, at, e, err) < 0) return -1;
    if (e->kind == ENTRY_BEGIN && e->key && at->name && strcmp(e->key, at->name) != 0)
        buf_printf(
            notice,
            "another program has started a session '%s' meanwhile: this one continues as '%s'",
            e->key, at->name);
    return 0;
}

int store_flush(struct store *s, struct err *err)
{
    if (s->unsaved) entries_release(s);
    if (!s->pending_count) return 0;
    struct position at = { 0 };
    struct buf notice = { 0 };
    position_set(&at, s->current.session, s->current.entries, s->current.name);
    int status = store_lock(s, err);
    if (status == 0) {
        status = check_session(s, &at, &notice, err);
        for (size_t i = 0; i < s->pending_count && status == 0; i++)
            status = write_noticed(s, &at, &s->pending[i], &notice, err);
        status = store_unlock(s, status, err);
    }
    if (status == 0) {
        entries_release(s);
        position_set(&s->current, at.session, at.entries, at.name);
        if (notice.length && s->sinks) sinks_notice(s->sinks, "%s", notice.data);
    }
    free(at.name);
    buf_release(&notice);
    return status;
}

// --- events --------------------------------------------------------------------------------------

static struct entry *add_entry(struct store *s, enum entry_kind kind)
{
    s->pending = xgrow(s->pending, &s->pending_capacity, s->pending_count, sizeof *s->pending);
    struct entry *e = &s->pending[s->pending_count++];
    *e = (struct entry){ .kind = kind, .time = time(NULL) };
    return e;
}

static void add_pair(struct store *s, enum entry_kind kind, const char *key, const char *value)
{
    struct entry *e = add_entry(s, kind);
    e->key = key ? xstrdup(key) : NULL;
    e->value = xstrdup(value);
}

static struct entry_item *add_item(struct entry *e)
{
    e->content = xreallocarray(e->content, e->content_count + 1, sizeof *e->content);
    struct entry_item *p = &e->content[e->content_count++];
    *p = (struct entry_item){ 0 };
    return p;
}

static void add_text(struct entry *e, const char *text)
{
    add_item(e)->text = xstrdup(text);
}

// Makes paths absolute if possible: a session may be resumed from another folder.
static char *absolute(const char *path)
{
    char *real = strcmp(path, "-") ? realpath(path, NULL) : NULL;
    return real ? real : xstrdup(path);
}

static void add_picture(struct entry *e, const struct picture *picture)
{
    struct entry_item *p = add_item(e);
    p->path = absolute(picture->path);
    p->sha256 = xstrdup(picture->sha256);
    p->size = picture->size;
    if (picture->size > STORED_PICTURE || !picture->bytes) return;
    p->bytes = xmalloc(picture->size);
    memcpy(p->bytes, picture->bytes, picture->size);
}

static const char *first_text(const struct message *m)
{
    for (size_t i = 0; m && i < m->content_count; i++)
        if (m->content[i].text && *m->content[i].text) return m->content[i].text;
    return "";
}

static void add_model(struct store *s)
{
    if (!s->folder) return;
    add_pair(s, ENTRY_MODEL, s->folder, s->identity);
    s->pending[s->pending_count - 1].arithmetic = xstrdup(s->arithmetic);
}

// Adds the settings that name files with factors, or all others.
static void add_settings(struct store *s, bool factors)
{
    for (size_t i = 0; i < s->setting_count; i++) {
        const struct setting *row = settings_find(s->settings[i].key);
        if ((row && row->type == SETTING_FACTORS) == factors)
            add_pair(s, ENTRY_SETTING, s->settings[i].key, s->settings[i].value);
    }
}

// Adds the entries that start a session: its name, and the state at its first message. Commands
// that make files precede the settings that name these files.
static void begin(struct store *s, const char *words)
{
    s->begun = true;
    add_pair(s, ENTRY_BEGIN, s->next_name, words);
    free(s->next_name);
    s->next_name = NULL;
    add_model(s);
    add_settings(s, false);
    for (size_t i = 0; i < s->makers.count; i++)
        add_pair(s, ENTRY_COMMAND, NULL, s->makers.list[i]);
    add_settings(s, true);
    if (!s->system || !*s->system) return;
    struct entry *e = add_entry(s, ENTRY_MESSAGE);
    e->role = ROLE_SYSTEM;
    add_text(e, s->system);
}

static void take_message(struct store *s, const struct event *event)
{
    const struct message *m = event->message;
    if (m->role == ROLE_SYSTEM) {
        free(s->system);
        s->system = message_text(m);
        if (!s->begun) return; // written with the first message
    }
    if (!s->begun) begin(s, first_text(m));
    struct entry *e = add_entry(s, ENTRY_MESSAGE);
    e->role = m->role;
    e->generated = m->generated;
    ids_append(&e->ids, m->ids.data, m->ids.count);
    for (size_t i = 0; i < m->content_count; i++) {
        if (m->content[i].text)
            add_text(e, m->content[i].text);
        else if (event->pictures)
            add_picture(e, &event->pictures[m->content[i].picture]);
    }
}

static char *boxes_text(const struct boxes *b)
{
    cJSON *list = cJSON_CreateArray();
    for (size_t i = 0; b && i < b->count; i++) cJSON_AddItemToArray(list, box_json(&b->list[i]));
    char *json = list->child ? cJSON_PrintUnformatted(list) : NULL;
    char *text = xstrdup(json ? json : "");
    cJSON_free(json);
    cJSON_Delete(list);
    return text;
}

static void take_answer(struct store *s, const struct event_answer *answer)
{
    if (!s->begun) begin(s, answer->text ? answer->text : "");
    if (answer->again) add_entry(s, ENTRY_UNDO)->count = 1; // the earlier answer was kept until now
    struct entry *e = add_entry(s, ENTRY_MESSAGE);
    e->role = ROLE_ASSISTANT;
    e->generated = e->answered = true;
    e->answer = *answer;
    e->stop = xstrdup(answer->stop ? answer->stop : "");
    e->boxes = boxes_text(answer->boxes);
    ids_append(&e->ids, answer->ids, answer->count);
    const char *text = answer->text ? answer->text : "";
    const char *whole = answer->whole ? answer->whole : text;
    add_text(e, whole);
    e->reasoning = xstrdup(answer->reasoning ? answer->reasoning : "");
    e->answer_at = answer->reasoning_tokens ? (int64_t)(strlen(whole) - strlen(text)) : 0;
}

static struct store_setting *find_setting(const struct store *s, const char *key)
{
    for (size_t i = 0; i < s->setting_count; i++)
        if (!strcmp(s->settings[i].key, key)) return &s->settings[i];
    return NULL;
}

const char *tracked_setting(const struct store *s, const char *key)
{
    const struct store_setting *found = find_setting(s, key);
    if (found) return found->value;
    const struct setting *row = settings_find(key);
    return row ? row->def : "";
}

// Remembers the value and takes ownership of it; returns whether the setting changed.
static bool track_setting(struct store *s, const char *key, char *value)
{
    if (!strcmp(tracked_setting(s, key), value)) {
        free(value);
        return false;
    }
    struct store_setting *at = find_setting(s, key);
    if (!at) {
        s->settings = xreallocarray(s->settings, s->setting_count + 1, sizeof *s->settings);
        at = &s->settings[s->setting_count++];
        *at = (struct store_setting){ .key = xstrdup(key) };
    }
    free(at->value);
    at->value = value;
    return true;
}

static bool track_model(struct store *s, const struct event *e)
{
    char *path = absolute(e->text);
    const char *identity = e->value ? e->value : "", *arithmetic = e->key ? e->key : "f32";
    bool same = s->folder && !strcmp(s->folder, path) && !strcmp(s->identity, identity) &&
                !strcmp(s->arithmetic, arithmetic);
    free(s->folder);
    free(s->identity);
    free(s->arithmetic);
    s->folder = path;
    s->identity = xstrdup(identity);
    s->arithmetic = xstrdup(arithmetic);
    return !same;
}

// Replaces the provisional identity with the hashed one.
static void take_identity(struct store *s, const char *provisional_identity, const char *identity)
{
    struct err err;
    for (size_t i = 0; i < s->pending_count; i++)
        if (s->pending[i].kind == ENTRY_MODEL &&
            !strcmp(s->pending[i].value, provisional_identity)) {
            free(s->pending[i].value);
            s->pending[i].value = xstrdup(identity);
        }
    if (s->identity && !strcmp(s->identity, provisional_identity)) {
        free(s->identity);
        s->identity = xstrdup(identity);
    }
    int status = store_lock(s, &err);
    if (status == 0) {
        status = store_run(s, &err,
                           "INSERT OR IGNORE INTO models(folder, fingerprint) "
                           "SELECT folder, ? FROM models WHERE fingerprint = ?",
                           "tt", identity, provisional_identity);
        if (status == 0)
            status = store_run(s, &err,
                               "UPDATE model_changes SET model = ("
                               "  SELECT b.id FROM models a JOIN models b ON b.folder = a.folder "
                               "  WHERE a.fingerprint = ? AND b.fingerprint = ?) "
                               "WHERE model IN (SELECT id FROM models WHERE fingerprint = ?)",
                               "ttt", provisional_identity, identity, provisional_identity);
        if (status == 0)
            status = store_run(s, &err, "DELETE FROM models WHERE fingerprint = ?", "t",
                               provisional_identity);
        status = store_unlock(s, status, &err);
    }
    if (status < 0) sinks_notice(s->sinks, "the model's fingerprint was not saved: %s", err.text);
}

void store_note_setting(struct store *s, const char *key, const char *value, int64_t tokens)
{
    if (!s->begun) return;
    add_pair(s, ENTRY_SETTING, key, value);
    s->pending[s->pending_count - 1].count = tokens;
}

void store_note_model(struct store *s)
{
    if (s->begun) add_model(s);
}

// Returns whether to write the pending entries now. Events of a resume are already stored; only the
// current model and settings are tracked.
static bool take_event(struct store *s, const struct event *e)
{
    switch (e->kind) {
    case EVENT_SETTING:
        if (e->key && e->value && track_setting(s, e->key, settings_stored(e->key, e->value)) &&
            !s->resuming)
            store_note_setting(s, e->key, tracked_setting(s, e->key), e->count);
        return true;
    case EVENT_MODEL:
        if (e->text && track_model(s, e)) {
            names_release(&s->makers); // their files are for the former model
            if (!s->resuming) store_note_model(s);
        }
        return true;
    case EVENT_IDENTITY: take_identity(s, e->key, e->value); return false;
    case EVENT_MESSAGE:
        if (s->resuming || !e->message) return false;
        take_message(s, e);
        // Answers that were added, not generated, are written with the next question, or when the
        // command ends (EVENT_DONE).
        return e->message->role == ROLE_USER || e->message->role == ROLE_RAW;
    case EVENT_ANSWER:
        if (s->resuming || !e->answer || !e->answer->in_conversation) return false;
        take_answer(s, e->answer);
        return true;
    case EVENT_UNDO:
        if (s->resuming || !s->begun) return false;
        add_entry(s, ENTRY_UNDO)->count = e->count;
        return true;
    case EVENT_CLEAR:
        if (!s->resuming) {
            if (s->begun) add_entry(s, ENTRY_END);
            s->begun = false;
            free(s->system);
            s->system = NULL;
        }
        return true;
    case EVENT_MEASURED:
        if (!e->key || !e->text || s->resuming) return false;
        // A measurement that cannot be written stays pending, like a turn, unless it exceeds
        // SQLite's limit.
        if (strlen(e->text) > (size_t)sqlite3_limit(s->db, SQLITE_LIMIT_LENGTH, -1) / 2) {
            sinks_notice(s->sinks,
                         "this measurement is too large for the database and was not saved");
            return false;
        }
        add_pair(s, ENTRY_RESULT, e->key, e->text);
        if (e->value && e->ok) names_add(&s->makers, e->value, NULL);
        if (e->value && s->begun) add_pair(s, ENTRY_COMMAND, NULL, e->value);
        return true;
    case EVENT_ANSWERING: answer_lock_mark(s, e->ok); return false;
    case EVENT_DONE: return true;
    default: return false;
    }
}

static void store_emit(void *self, const struct event *event)
{
    struct store *s = self;
    if (!take_event(s, event)) return;
    struct err err;
    bool failed = store_flush(s, &err) < 0;
    if (failed != s->failing) {
        s->failing = failed;
        sqlite3_busy_timeout(s->db, failed ? WAIT_AGAIN_MS : WAIT_MS);
        if (failed)
            sinks_notice(s->sinks, "not saved yet, retrying with every turn: %s", err.text);
        else
            sinks_notice(s->sinks, "saving to '%s' works again, nothing was lost", s->path);
    }
}

struct sink store_sink(struct store *s, struct sinks *sinks)
{
    s->sinks = sinks;
    return (struct sink){ .emit = store_emit, .self = s };
}
