// sessions/script.c -- writes a session as a command script that replays it with the same answers.
//
//   settings, /load, /system   where they came
//   question with its answer   /image ..., then the text as a line, or /ask "..."
//   given messages             /messages FILE beside the script; an answer to them: /answer
//
// Four things are pinned so that the prompt, the numbers and the draws are the same: sample.seed,
// chat.date (the day of each answer where it was "today"), the length of an answer that was
// cancelled, and compute.matmul (what `auto` meant there and then).
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/base/json.h"
#include "core/files/checkpoint.h"
#include "core/text/message.h"
#include "sessions/internal.h"

struct script {
    struct exporting *x;
    struct buf *out;
    cJSON *given;     // messages that wait to be written with /messages, or NULL
    const char *date; // chat.date as the session has it
    char *written;    // chat.date as the script has it
    const char *max_tokens;
    const char *matmul;     // compute.matmul as the session has it
    const char *arithmetic; // what `auto` meant for the model
    const char *computed;   // compute.matmul as the script has it, or NULL
    bool after_user;        // the last message was the user's and not answered
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

// One argument of a command.
static void argument(struct buf *b, const char *text)
{
    static const char harmless[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._,%:/+=-";
    if (*text && strspn(text, harmless) == strlen(text))
        buf_puts(b, text);
    else
        script_quote(b, text);
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

// --- given messages ------------------------------------------------------------------------------

static int give(struct script *r, const struct message *m, struct err *err)
{
    if (!r->given) r->given = cJSON_CreateArray();
    cJSON *object = cJSON_CreateObject(), *content = cJSON_CreateArray();
    cJSON_AddStringToObject(object, "role", role_name(m->role));
    cJSON_AddItemToObject(object, "content", content);
    cJSON_AddItemToArray(r->given, object);
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

static int write_given(struct script *r, struct err *err)
{
    if (!r->given) return 0;
    char *text = cJSON_Print(r->given);
    cJSON_Delete(r->given);
    r->given = NULL;
    if (!text) return err_set(err, "out of memory for the messages of a session");
    char *path = export_beside(r->x, "messages.json", text, strlen(text), err);
    if (path) command(r, "/messages", path, NULL);
    int status = path ? 0 : -1;
    cJSON_free(text);
    free(path);
    return status;
}

// --- answers -------------------------------------------------------------------------------------

// "26 Jul 2024": English whatever the locale, as the layouts that tell the date write it.
static char *date_text(int64_t time)
{
    static const char months[][4] = { "Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                      "Jul", "Aug", "Sep", "Oct", "Nov", "Dec" };
    time_t t = (time_t)time;
    struct tm local;
    if (!localtime_r(&t, &local) || local.tm_mon < 0 || local.tm_mon > 11) return xstrdup("today");
    return xasprintf("%02d %s %d", local.tm_mday, months[local.tm_mon], local.tm_year + 1900);
}

static void pin_date(struct script *r, int64_t began)
{
    char *date = strcmp(r->date, "today") ? xstrdup(r->date) : date_text(began);
    if (!r->written || strcmp(r->written, date)) command(r, "/set", "chat.date", date);
    free(r->written);
    r->written = date;
}

static void pin_arithmetic(struct script *r)
{
    const char *now = saved_arithmetic(r->matmul, r->arithmetic);
    if (r->computed && !strcmp(r->computed, now)) return;
    command(r, "/set", "compute.matmul", now);
    r->computed = now;
}

static bool is_answer(const struct saved_entry *e)
{
    return e->kind == SAVED_MESSAGE && e->message.role == ROLE_ASSISTANT && e->message.generated;
}

// Limits a cancelled answer to its original length; `ask` writes its question.
static int write_answered(struct script *r, const struct saved_entry *answer,
                          int (*ask)(struct script *, const struct message *, struct err *),
                          const struct message *question, struct err *err)
{
    bool cut = answer->stop && !strcmp(answer->stop, "cancelled");
    char *length = xasprintf("%zu", answer->message.ids.count ? answer->message.ids.count : 1);
    pin_date(r, answer->began);
    if (cut) {
        comment(r, "the answer was stopped by the user", "");
        command(r, "/set", "sample.max_tokens", length);
    }
    int status = ask(r, question, err);
    if (cut) command(r, "/set", "sample.max_tokens", r->max_tokens);
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

// As a person gives it: pictures, then one text.
static bool is_typed(const struct message *m)
{
    for (size_t i = 0; i + 1 < m->content_count; i++)
        if (m->content[i].text) return false;
    return m->content_count > 0;
}

// --- entries -------------------------------------------------------------------------------------

// Settings that were changed together in the middle of an answer, which follows. *i moves to the
// last of them.
static void write_later(struct script *r, size_t *i)
{
    const struct saved *saved = r->x->saved;
    const int64_t tokens = saved->list[*i].tokens;
    buf_printf(r->out, "/later %lld", (long long)tokens);
    for (;; ++*i) {
        const struct saved_entry *e = &saved->list[*i];
        const bool matmul = !strcmp(e->key, "compute.matmul");
        if (matmul) r->matmul = e->value;
        if (matmul) r->computed = saved_arithmetic(e->value, r->arithmetic);
        char *word = xasprintf("%s=%s", e->key, matmul ? r->computed : e->value);
        buf_putc(r->out, ' ');
        argument(r->out, word);
        free(word);
        const struct saved_entry *next = *i + 1 < saved->count ? e + 1 : NULL;
        if (!next || next->kind != SAVED_SETTING || next->tokens != tokens) break;
    }
    buf_putc(r->out, '\n');
}

static int write_change(struct script *r, const struct saved_entry *e, struct err *err)
{
    if (write_given(r, err) < 0) return -1;
    if (e->kind == SAVED_MODEL) {
        char *fingerprint = xstrndup(e->value, strcspn(e->value, " "));
        if (checkpoint_identity_unknown(e->value))
            comment(r, "weights unknown: they had not been hashed yet", "");
        else
            comment(r, "weights ", fingerprint);
        free(fingerprint);
        command(r, "/load", e->key, NULL);
        r->arithmetic = e->arithmetic;
        pin_arithmetic(r);
        return 0;
    }
    if (!strcmp(e->key, "compute.matmul")) {
        r->matmul = e->value;
        pin_arithmetic(r);
        return 0;
    }
    if (!strcmp(e->key, "sample.max_tokens")) r->max_tokens = e->value;
    if (!strcmp(e->key, "chat.date"))
        r->date = e->value; // written with the next answer
    else
        command(r, "/set", e->key, e->value);
    return 0;
}

// Index of the answer that follows entry i, with nothing but changes between; 0 when there is none.
static size_t find_answer(const struct saved *saved, size_t i)
{
    for (i++; i < saved->count; i++)
        if (saved->list[i].kind == SAVED_MESSAGE) return is_answer(&saved->list[i]) ? i : 0;
    return 0;
}

// A question and its answer; the changes between them come first. *i moves to the answer.
static int write_question(struct script *r, size_t *i, size_t answer, struct err *err)
{
    const struct saved *saved = r->x->saved;
    const struct message *m = &saved->list[*i].message;
    bool raw = m->role == ROLE_RAW;
    bool typed = raw || (is_typed(m) && !r->after_user);
    if (!typed && give(r, m, err) < 0) return -1;
    while (++*i < answer) {
        if (saved->list[*i].tokens)
            write_later(r, i);
        else if (write_change(r, &saved->list[*i], err) < 0)
            return -1;
    }
    if (write_given(r, err) < 0) return -1;
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
        if (write_given(r, err) < 0) return -1;
        char *text = message_text(&e->message);
        buf_puts(r->out, "/system ");
        script_quote(r->out, text);
        buf_putc(r->out, '\n');
        free(text);
        return 0;
    }
    if (is_answer(e)) {
        if (write_given(r, err) < 0) return -1;
        return write_answered(r, e, ask_again, NULL, err);
    }
    if (answer && e->message.role != ROLE_ASSISTANT) return write_question(r, i, answer, err);
    if (e->message.role == ROLE_RAW) {
        comment(r, "token ids without an answer are left out", "");
        return 0;
    }
    r->after_user = e->message.role == ROLE_USER;
    return give(r, &e->message, err);
}

static void write_head(struct script *r)
{
    char *began = time_text(r->x->saved->began, "%Y-%m-%d %H:%M");
    comment(r, "Session ", r->x->saved->name);
    comment(r, "of ", began);
    buf_puts(
        r->out,
        "# Replays the session with the same answers: vlmsh -f THIS-FILE (from any folder).\n");
    comment(r, "Its pictures are in ", r->x->folder);
    buf_puts(r->out, "# Paths are absolute: change them if the folder moves.\n"
                     "/clear\n"
                     "/reset all\n");
    const struct setting *seed = settings_find("sample.seed");
    if (seed) command(r, "/set", "sample.seed", seed->def);
    free(began);
}

int script_write(struct exporting *x, struct err *err)
{
    const struct setting *longest = settings_find("sample.max_tokens");
    struct script r = { .x = x,
                        .out = &x->text,
                        .date = "today",
                        .max_tokens = longest ? longest->def : "512",
                        .matmul = "auto",
                        .arithmetic = "f32" };
    int status = 0;
    write_head(&r);
    for (size_t i = 0; i < x->saved->count && status == 0; i++) {
        const struct saved_entry *e = &x->saved->list[i];
        status = e->kind == SAVED_MESSAGE ? write_message(&r, &i, err) : write_change(&r, e, err);
    }
    if (status == 0) status = write_given(&r, err);
    cJSON_Delete(r.given);
    free(r.written);
    return status;
}
