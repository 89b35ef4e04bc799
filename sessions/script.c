// sessions/script.c -- writes a session as a command script that replays it with the same answers.
//
//   model, settings, system prompt   /load, /set, /system at the points where they changed
//   question with its answer         /image ..., then the text as a line, or /ask "..."
//   other messages                   /messages FILE beside the script; an answer to them: /answer
//   measurements, interventions      their command lines, which measure again
//
// To reproduce the prompt, the arithmetic and the random draws, the script sets the random seed,
// the length of a cancelled answer, and the values that some settings resolved to in the session
// (setting.replay, setting.use).
#include <stdlib.h>
#include <string.h>

#include "core/base/json.h"
#include "core/files/checkpoint.h"
#include "core/template/message.h"
#include "sessions/internal.h"

struct script {
    struct session_export *x;
    struct buf *out;
    cJSON *pending;                     // messages still to be written with /messages, or NULL
    struct settings *session, *written; // values at this point, in the session and in the script
    const char *arithmetic; // what compute.matmul auto means for the model; NULL: no model yet
    bool after_user;        // the last message is the user's and has no answer
};

// --- text as the command line reads it -----------------------------------------------------------

void script_quote(struct buf *b, const char *text)
{
    buf_putc(b, '"');
    for (const char *p = text; *p; p++) {
        unsigned char c = (unsigned char)*p;
        if (c == '"' || c == '\\')
            buf_printf(b, "\\%c", c);
        else if (c == '\n')
            buf_puts(b, "\\n");
        else if (c == '\t')
            buf_puts(b, "\\t");
        else if (c < ' ' || c == 0x7f || c == '$') // "${" would be a variable
            buf_printf(b, "\\u%04x", c);
        else
            buf_putc(b, *p);
    }
    buf_putc(b, '"');
}

bool script_plain(const char *text)
{
    size_t length = strlen(text);
    if (!length || strchr("/#\" ", text[0]) || strchr(" \\", text[length - 1])) return false;
    for (const char *p = text; *p; p++)
        if ((unsigned char)*p < ' ' || *p == 0x7f || *p == '$') return false;
    return true;
}

// Appends one argument of a command.
static void argument(struct buf *b, const char *text)
{
    static const char harmless[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._,%:/+=-@|>[]";
    if (*text && strspn(text, harmless) == strlen(text))
        buf_puts(b, text);
    else
        script_quote(b, text);
}

char *script_command(const char *words)
{
    struct buf b = { 0 };
    const cJSON *word;
    cJSON *list = json_parse(words, strlen(words), "command", NULL);
    cJSON_ArrayForEach(word, list)
    {
        if (!cJSON_IsString(word)) continue;
        buf_puts(&b, b.length ? " " : "/");
        argument(&b, word->valuestring);
    }
    cJSON_Delete(list);
    return b.length ? buf_take(&b) : xstrdup("");
}

static void command(struct script *r, const char *name, const char *first, const char *second)
{
    buf_puts(r->out, name);
    buf_putc(r->out, ' ');
    argument(r->out, first);
    if (second) {
        buf_putc(r->out, ' ');
        argument(r->out, second);
    }
    buf_putc(r->out, '\n');
}

static void comment(struct script *r, const char *before, const char *text)
{
    char *line = first_words(text, 300);
    buf_printf(r->out, "# %s%s\n", before, line);
    free(line);
}

// --- messages for /messages ---------------------------------------------------------------------

static int add_pending(struct script *r, const struct message *m, struct err *err)
{
    if (!r->pending) r->pending = cJSON_CreateArray();
    cJSON *object = cJSON_CreateObject(), *content = cJSON_CreateArray();
    cJSON_AddStringToObject(object, "role", role_name(m->role));
    cJSON_AddItemToObject(object, "content", content);
    cJSON_AddItemToArray(r->pending, object);
    for (size_t i = 0; i < m->content_count; i++) {
        cJSON *item = cJSON_CreateObject();
        cJSON_AddItemToArray(content, item);
        cJSON_AddStringToObject(item, "type", m->content[i].text ? "text" : "image");
        if (m->content[i].text) {
            cJSON_AddStringToObject(item, "text", m->content[i].text);
            continue;
        }
        char *path = export_picture(r->x, m->content[i].picture, err);
        if (!path) return -1;
        cJSON_AddStringToObject(item, "path", path);
        free(path);
    }
    return 0;
}

static int write_pending(struct script *r, struct err *err)
{
    if (!r->pending) return 0;
    char *text = cJSON_Print(r->pending);
    cJSON_Delete(r->pending);
    r->pending = NULL;
    if (!text) return err_set(err, "out of memory while writing the session's messages");
    char *path = export_beside(r->x, "messages.json", text, strlen(text), err);
    if (path) command(r, "/messages", path, NULL);
    int status = path ? 0 : -1;
    cJSON_free(text);
    free(path);
    return status;
}

// --- answers -------------------------------------------------------------------------------------

// Writes /set lines for the values that the session's settings resolved to in an answer that began
// at `began` (0: no answer).
static void write_replayed(struct script *r, int64_t began)
{
    const struct setting *row;
    for (int i = 0; (row = settings_row(i)); i++) {
        const char *set = settings_text(r->session, row->key);
        char *value = row->replay ? row->replay(set, r->arithmetic, began) : NULL;
        if (value && strcmp(value, settings_text(r->written, row->key)) != 0) {
            command(r, "/set", row->key, value);
            settings_set(r->written, row->key, value, NULL);
        }
        free(value);
    }
}

static bool is_answer(const struct saved_entry *e)
{
    return e->kind == SAVED_MESSAGE && e->message.role == ROLE_ASSISTANT && e->message.generated;
}

// Writes a question through `ask`. If the answer was cancelled, limits the new answer to the length
// of the cancelled one.
static int write_answered(struct script *r, const struct saved_entry *answer,
                          int (*ask)(struct script *, const struct message *, struct err *),
                          const struct message *question, struct err *err)
{
    bool cut = answer->stop && !strcmp(answer->stop, "cancelled");
    const char *limit = settings_used(USE_LENGTH)->key;
    char *length = xasprintf("%zu", answer->message.ids.count ? answer->message.ids.count : 1);
    write_replayed(r, answer->began);
    if (cut) {
        comment(r, "the answer was stopped by the user", "");
        command(r, "/set", limit, length);
    }
    int status = ask(r, question, err);
    if (cut) command(r, "/set", limit, settings_text(r->session, limit));
    free(length);
    r->after_user = false;
    return status;
}

static int ask_again(struct script *r, const struct message *m, struct err *err)
{
    buf_puts(r->out, "/answer\n");
    return 0;
}

static int ask_raw(struct script *r, const struct message *m, struct err *err)
{
    buf_puts(r->out, "/raw");
    for (size_t i = 0; i < m->ids.count; i++) buf_printf(r->out, " %d", m->ids.data[i]);
    buf_putc(r->out, '\n');
    return 0;
}

static int ask_text(struct script *r, const struct message *m, struct err *err)
{
    for (size_t i = 0; i < m->content_count; i++) {
        if (m->content[i].text) continue;
        char *path = export_picture(r->x, m->content[i].picture, err);
        if (!path) return -1;
        command(r, "/image", path, NULL);
        free(path);
    }
    const char *text = m->content_count ? m->content[m->content_count - 1].text : NULL;
    if (!text) return ask_again(r, m, err);
    if (script_plain(text)) {
        buf_printf(r->out, "%s\n", text);
        return 0;
    }
    buf_puts(r->out, "/ask ");
    script_quote(r->out, text);
    buf_putc(r->out, '\n');
    return 0;
}

// True if the message can be typed: pictures, then at most one text.
static bool is_typed(const struct message *m)
{
    for (size_t i = 0; i + 1 < m->content_count; i++)
        if (m->content[i].text) return false;
    return m->content_count > 0;
}

// --- entries -------------------------------------------------------------------------------------

// Writes a measurement. One whose messages were undone later cannot be repeated.
static int write_command(struct script *r, const struct saved_entry *e, struct err *err)
{
    char *line = script_command(e->value);
    int status = 0;
    if (*line && e->undone && !e->apart)
        comment(r, "left out, because it measured messages that were undone later: ", line);
    else if (*line && (status = write_pending(r, err)) == 0)
        buf_printf(r->out, "%s\n", line);
    free(line);
    return status;
}

// Writes settings that were changed together in the middle of an answer; *i moves to the last.
static void write_later(struct script *r, size_t *i)
{
    const struct saved *saved = r->x->saved;
    const int64_t tokens = saved->list[*i].tokens;
    buf_printf(r->out, "/later %lld", (long long)tokens);
    for (;; ++*i) {
        const struct saved_entry *e = &saved->list[*i];
        const struct setting *row = settings_find(e->key);
        char *value = row && row->replay ? row->replay(e->value, r->arithmetic, 0) : NULL;
        char *word = xasprintf("%s=%s", e->key, value ? value : e->value);
        settings_set(r->session, e->key, e->value, NULL);
        settings_set(r->written, e->key, value ? value : e->value, NULL);
        free(value);
        buf_putc(r->out, ' ');
        argument(r->out, word);
        free(word);
        const struct saved_entry *next = *i + 1 < saved->count ? e + 1 : NULL;
        if (!next || next->kind != SAVED_SETTING || next->tokens != tokens) break;
    }
    buf_putc(r->out, '\n');
}

// Writes a change; *i moves to the last entry that it wrote.
static int write_change(struct script *r, size_t *i, struct err *err)
{
    const struct saved_entry *e = &r->x->saved->list[*i];
    if (e->kind == SAVED_COMMAND) return write_command(r, e, err);
    if (write_pending(r, err) < 0) return -1;
    if (e->kind == SAVED_MODEL) {
        char *fingerprint = xstrndup(e->value, strcspn(e->value, " "));
        if (checkpoint_identity_unknown(e->value))
            comment(r, "fingerprint of the weights unknown: they had not been hashed yet", "");
        else
            comment(r, "weights ", fingerprint);
        free(fingerprint);
        command(r, "/load", e->key, NULL);
        r->arithmetic = e->arithmetic;
        write_replayed(r, 0);
        return 0;
    }
    if (e->tokens) {
        write_later(r, i);
        return 0;
    }
    const struct setting *row = settings_find(e->key);
    settings_set(r->session, e->key, e->value, NULL);
    if (row && row->replay)
        write_replayed(r, 0);
    else
        command(r, "/set", e->key, e->value);
    return 0;
}

// Returns the index of the answer that follows entry i with only changes between them, or 0.
static size_t find_answer(const struct saved *saved, size_t i)
{
    for (i++; i < saved->count; i++) {
        const struct saved_entry *e = &saved->list[i];
        if (e->kind == SAVED_MESSAGE) return is_answer(e) ? i : 0;
        if (e->kind == SAVED_COMMAND && !e->undone && !e->apart)
            return 0; // it measured the question alone
    }
    return 0;
}

// Writes a question, which the script answers again, and the changes made before its answer. *i
// moves to the answer.
static int write_question(struct script *r, size_t *i, size_t answer, struct err *err)
{
    const struct saved *saved = r->x->saved;
    const struct message *m = &saved->list[*i].message;
    bool raw = m->role == ROLE_RAW;
    bool typed = raw || (is_typed(m) && !r->after_user);
    if (!typed && add_pending(r, m, err) < 0) return -1;
    while (++*i < answer)
        if (write_change(r, i, err) < 0) return -1;
    if (write_pending(r, err) < 0) return -1;
    return write_answered(r, &saved->list[answer],
                          raw     ? ask_raw
                          : typed ? ask_text
                                  : ask_again,
                          m, err);
}

static int write_message(struct script *r, size_t *i, struct err *err)
{
    const struct saved_entry *e = &r->x->saved->list[*i];
    size_t answer = find_answer(r->x->saved, *i);
    if (e->message.role == ROLE_SYSTEM) {
        if (write_pending(r, err) < 0) return -1;
        char *text = message_text(&e->message);
        buf_puts(r->out, "/system ");
        script_quote(r->out, text);
        buf_putc(r->out, '\n');
        free(text);
        return 0;
    }
    if (is_answer(e)) {
        if (write_pending(r, err) < 0) return -1;
        return write_answered(r, e, ask_again, NULL, err);
    }
    if (answer && e->message.role != ROLE_ASSISTANT) return write_question(r, i, answer, err);
    if (e->message.role == ROLE_RAW) {
        comment(r, "a question in token ids (/raw) that has no answer is left out", "");
        return 0;
    }
    r->after_user = e->message.role == ROLE_USER;
    return add_pending(r, &e->message, err);
}

int script_write(struct session_export *x, struct err *err)
{
    struct script r = { .x = x,
                        .out = &x->text,
                        .session = settings_new(), // as after /reset all
                        .written = settings_new() };
    int status = 0;
    char *began = time_text(x->saved->began, "%Y-%m-%d %H:%M");
    char *title = xasprintf("%s, begun %s", x->saved->name, began);
    comment(&r, "Session ", title);
    buf_puts(
        r.out,
        "# Replays the session with the same answers: vlmsh -f THIS-FILE (from any folder).\n");
    comment(&r, "Its pictures are in ", x->folder);
    buf_puts(r.out, "# Paths are absolute: change them if the folder moves.\n"
                    "/clear\n"
                    "/reset all\n");
    const struct setting *seed = settings_used(USE_SEED);
    command(&r, "/set", seed->key, seed->def);
    free(title);
    free(began);
    for (size_t i = 0; i < x->saved->count && status == 0; i++) {
        const struct saved_entry *e = &x->saved->list[i];
        status = e->kind == SAVED_MESSAGE ? write_message(&r, &i, err) : write_change(&r, &i, err);
    }
    if (status == 0) status = write_pending(&r, err);
    cJSON_Delete(r.pending);
    settings_free(r.session);
    settings_free(r.written);
    return status;
}
