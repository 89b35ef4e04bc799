// tui/view.c -- updates the view from news. One function per kind of event, listed in the table
// below.
#include "tui/view.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/base/text.h"
#include "core/probes/results.h"
#include "core/template/message.h"
#include "tui/event_text.h"
#include "tui/maps.h"
#include "tui/pager.h"

enum { ENTRIES_MAX = 20000 };

struct view *view_new(void)
{
    struct view *v = xcalloc(1, sizeof *v);
    v->settings = settings_new();
    v->chat.answering = -1;
    v->chat.found = -1;
    v->image.map = -1;
    v->image.press_x = -1;
    v->dynamics.runs = 1;
    return v;
}

static void entry_release(struct entry *e)
{
    if (e->forget) e->forget(e->source);
    for (size_t i = 0; i < e->remark_count; i++) free(e->remarks[i].text);
    free(e->remarks);
    markdown_release(&e->shown);
    buf_release(&e->text);
    free(e->tokens);
    free(e->sure);
}

void jobs_news_free(void *news)
{
    struct jobs_news *n = news;
    if (!n) return;
    for (size_t i = 0; i < n->curve_count; i++) {
        curve_release(&n->curves[i].curve);
        free(n->curves[i].name);
    }
    free(n->curves);
    job_results_free(n->results, n->result_count);
    free(n->memory);
    job_rows_free(n->rows, n->count);
    free(n);
}

void view_free(struct view *v)
{
    if (!v) return;
    snapshot_free(v->snapshot);
    settings_free(v->settings);
    settings_free(v->answered);
    for (size_t i = 0; i < v->chat.count; i++) entry_release(&v->chat.entries[i]);
    free(v->chat.entries);
    buf_release(&v->chat.search);
    image_view_release(&v->image);
    compare_release(&v->compare);
    changed_release(&v->changed);
    buf_release(&v->set.edit);
    buf_release(&v->set.filter);
    free(v->set.rows);
    dynamics_release(&v->dynamics);
    jobs_news_free(v->jobs.news);
    free(v->jobs.shown);
    buf_release(&v->jobs.filter);
    list_release(&v->list);
    pager_close(v);
    for (int i = 0; i < PICKER_KINDS; i++) free(v->folders[i]);
    free(v->line);
    free(v->progress_what);
    free(v->hint);
    free(v->key_line);
    free(v->run);
    free(v->quiet);
    free(v->preview);
    free(v->copy);
    free(v->insert);
    free(v);
}

static char *format_text(const char *format, va_list args)
{
    struct buf b = { 0 };
    buf_vprintf(&b, format, args);
    return buf_take(&b);
}

void view_hint(struct view *v, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    char *text = format_text(format, args); // its arguments may point into the old hint
    va_end(args);
    free(v->hint);
    v->hint = text;
}

void view_key_line(struct view *v, const char *line)
{
    char *own = xstrdup(line);
    free(v->key_line);
    v->key_line = own;
    view_hint(v, "%s", own);
}

void view_run(struct view *v, bool key, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    free(v->run);
    v->run = format_text(format, args);
    va_end(args);
    v->run_key = key;
}

void view_run_next(struct view *v, const char *key, const char *const *values)
{
    int i = 0;
    while (values[i] && strcmp(values[i], view_setting(v, key)) != 0) i++;
    view_run(v, true, "/set %s %s", key, values[i] && values[i + 1] ? values[i + 1] : values[0]);
}

const char *view_setting(const struct view *v, const char *key)
{
    return settings_text(v->settings, key);
}

// Returns whether `text` ("KEY = VALUE") only confirms `line` ("/set KEY VALUE"; may be NULL).
static bool only_confirms(const char *line, const char *text)
{
    if (!line || strncmp(line, "/set ", 5) != 0) return false;
    const char *set = line + 5;
    const size_t n = strcspn(set, " ");
    return set[n] && !strncmp(text, set, n) && !strncmp(text + n, " = ", 3) &&
           !strcmp(text + n + 3, set + n + 1);
}

// Shows a message of a key's line as a hint, behind the line and earlier messages. With fast keys,
// the shown line can be that of a later key.
static void show_key_message(struct view *v, const char *text)
{
    if (only_confirms(v->line, text) || only_confirms(v->key_line, text)) return;
    const bool line = v->key_line && v->hint && !strcmp(v->hint, v->key_line);
    char *before = line                     ? xasprintf("%s: ", v->hint)
                   : v->reported && v->hint ? xasprintf("%s; ", v->hint)
                                            : xstrdup("");
    view_hint(v, "%s%s", before, text);
    v->reported = true;
    free(before);
}

// Shows a message in the conversation, or as a hint if a panel's key caused it.
static void show_message(struct view *v, enum entry_kind kind, const char *text)
{
    if (v->by_key)
        show_key_message(v, text);
    else
        view_add(v, kind, text);
}

// --- the conversation ----------------------------------------------------------------------------

struct entry *view_add(struct view *v, enum entry_kind kind, const char *text)
{
    struct chat_view *c = &v->chat;
    v->attached = false;
    if (c->count >= ENTRIES_MAX) { // drops the oldest
        const size_t drop = ENTRIES_MAX / 10;
        for (size_t i = 0; i < drop; i++) entry_release(&c->entries[i]);
        c->count -= drop;
        memmove(c->entries, c->entries + drop, c->count * sizeof *c->entries);
        c->answering = c->answering >= (int)drop ? c->answering - (int)drop : -1;
        c->found = -1;
    }
    c->entries = xreallocarray(c->entries, c->count + 1, sizeof *c->entries);
    struct entry *e = &c->entries[c->count++];
    *e = (struct entry){ .kind = kind };
    buf_puts(&e->text, text ? text : "");
    while (e->text.length && e->text.data[e->text.length - 1] == '\n')
        e->text.data[--e->text.length] = '\0';
    return e;
}

// Adds a remark at the current end of the entry's text.
static void add_remark(struct entry *e, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    e->remarks = xreallocarray(e->remarks, e->remark_count + 1, sizeof *e->remarks);
    e->remarks[e->remark_count++] = (struct remark){ e->text.length, format_text(format, args) };
    va_end(args);
    e->width = 0;
}

// Begins the answer, or its reasoning.
static struct entry *begin_answer(struct view *v, enum entry_kind kind, size_t first_token)
{
    struct chat_view *c = &v->chat;
    struct entry *e = view_add(v, kind, "");
    e->first_token = first_token;
    e->open = !strcmp(view_setting(v, "screen.reasoning"), "show");
    c->answering = (int)c->count - 1;
    return e;
}

// Adds a token's text; `counts`: also adds the token. sure NULL: unknown.
static void add_token(struct entry *e, const char *text, bool counts,
                      const struct event_token *sure)
{
    static const struct event_token unknown = { NAN, NAN, NAN };
    if (!e->text.length) text = text_trimmed(text);
    if (counts) {
        size_t capacity = e->token_capacity;
        e->sure = xgrow(e->sure, &capacity, e->token_count, sizeof *e->sure);
        e->sure[e->token_count] = sure ? *sure : unknown;
        e->tokens = xgrow(e->tokens, &e->token_capacity, e->token_count, sizeof *e->tokens);
        e->tokens[e->token_count++] = e->text.length;
    }
    buf_puts(&e->text, text);
    e->width = 0;
}

// Each token belongs to the entry in which its text begins; marks of the reasoning have no text.
static void take_token(struct view *v, const struct event *e)
{
    struct chat_view *c = &v->chat;
    const char *text = e->text ? e->text : "";
    const bool reasons = e->reasoning && *e->reasoning;
    const bool counts = e->id >= 0; // -1: the rest of a character, which belongs to no token
    v->last = clock_seconds();
    if (!v->first) v->first = v->last;
    struct entry *now =
        c->answering < 0 ? begin_answer(v, ENTRY_ANSWER, 0) : &c->entries[c->answering];
    if (now->kind == ENTRY_ANSWER && (e->ok || (reasons && !now->text.length))) {
        now->kind = ENTRY_REASONING;
        now->width = 0;
    }
    if (counts) v->tokens++;
    if (now->kind == ENTRY_REASONING) {
        const bool ends = *text;
        add_token(now, e->reasoning ? e->reasoning : "", counts && (reasons || !ends), e->token);
        if (!ends) return;
        now = begin_answer(v, ENTRY_ANSWER, now->token_count);
        add_token(now, text, counts && !reasons, e->token);
        return;
    }
    add_token(now, text, counts, e->token);
}

// Marks an answer that was cut off.
static void mark_cut(struct view *v, const struct event_answer *a)
{
    struct chat_view *c = &v->chat;
    struct entry *e = &c->entries[c->answering < 0 ? c->count - 1 : (size_t)c->answering];
    if (e->kind != ENTRY_ANSWER) return;
    if (!strcmp(a->stop, "length") && a->full) add_remark(e, "cut off: the context is full");
    if (!strcmp(a->stop, "length") && !a->full)
        add_remark(e, "cut off after %zu token%s: sample.max_tokens", a->count,
                   a->count == 1 ? "" : "s");
    if (!strcmp(a->stop, "cancelled")) add_remark(e, "stopped");
}

static bool is_question(const char *line)
{
    const char *p = line + strspn(line, " \t");
    return p[0] != '/' || p[1] == '/';
}

static void remove_entry(struct chat_view *c, size_t i)
{
    entry_release(&c->entries[i]);
    memmove(c->entries + i, c->entries + i + 1, (--c->count - i) * sizeof *c->entries);
    if (c->answering > (int)i) c->answering--;
    c->found = -1;
}

// Removes a question or answer with the measures below it and the reasoning above it.
static void remove_message(struct chat_view *c, size_t i)
{
    if (i + 1 < c->count && c->entries[i + 1].kind == ENTRY_MEASURES) remove_entry(c, i + 1);
    remove_entry(c, i);
    if (i && c->entries[i - 1].kind == ENTRY_REASONING) remove_entry(c, i - 1);
}

// Returns the last entry before `i` that is a message of the conversation; -1: none.
static int message_before(const struct chat_view *c, int i)
{
    while (--i >= 0 && c->entries[i].kind != ENTRY_RULE) {
        const struct entry *e = &c->entries[i];
        if ((e->kind == ENTRY_ANSWER || e->kind == ENTRY_USER) && !e->undone) return i;
    }
    return -1;
}

static void take_answer(struct view *v, const struct event *e)
{
    const struct event_answer *a = e->answer;
    const bool prefill = v->chat.answering < 0 && !a->in_conversation && !a->count;
    if (v->chat.answering < 0 && !prefill)
        view_add(v, ENTRY_ANSWER, text_trimmed(a->text ? a->text : ""));
    // After reasoning without an answer, adds an empty answer as the message's entry.
    if (v->chat.answering >= 0 && v->chat.entries[v->chat.answering].kind == ENTRY_REASONING)
        begin_answer(v, ENTRY_ANSWER, v->chat.entries[v->chat.answering].token_count);
    if (!prefill) mark_cut(v, a);
    if (a->again) { // replaces the previous answer
        struct chat_view *c = &v->chat;
        const int former = message_before(c, c->answering < 0 ? (int)c->count - 1 : c->answering);
        if (former >= 0 && c->entries[former].kind == ENTRY_ANSWER)
            remove_message(c, (size_t)former);
    }
    v->chat.answering = -1;
    v->prompt_tokens = a->prompt_tokens + (int64_t)a->count;
    v->first_s = a->prefill_s + a->vision_s;
    if (a->decode_s > 0) v->rate = (double)a->count / a->decode_s;
    settings_free(v->answered);
    v->answered = settings_copy(v->settings);
    v->drafts = a->drafted ? (double)a->accepted / (double)a->drafted : -1;
    v->stale = false;
    if (!prefill || strcmp(a->stop, "length") != 0) {
        struct buf b = { 0 };
        measures_text(&b, a, false);
        view_add(v, ENTRY_MEASURES, b.data);
        buf_release(&b);
    }
    // Passes the last token that was fed back: later tokens have no map.
    maps_last(v, (int)a->count - (strcmp(a->stop, "eos") ? 2 : 1));
}

static void take_message(struct view *v, const struct event *e)
{
    struct buf b = { 0 };
    if (e->count) buf_printf(&b, "[%lld picture%s] ", (long long)e->count, e->count > 1 ? "s" : "");
    buf_puts(&b, e->text ? e->text : "");
    const bool said = v->expect_message && e->id == ROLE_USER;
    // The pictures of the message are no longer waiting.
    if (said && v->snapshot) v->snapshot->waiting = 0;
    if (said) { // the typed line is already on the screen
        struct entry *last = v->chat.count ? &v->chat.entries[v->chat.count - 1] : NULL;
        if (last && last->kind == ENTRY_USER) {
            buf_clear(&last->text);
            buf_puts(&last->text, b.data);
            last->width = 0;
        }
        v->expect_message = false;
    } else if (e->id == ROLE_SYSTEM) {
        char *text = e->text && *e->text ? xasprintf("system message: %s", e->text)
                                         : xstrdup("no system message");
        view_add(v, ENTRY_NOTICE, text);
        free(text);
    } else if (e->id == ROLE_ASSISTANT) {
        if (e->reasoning && *e->reasoning) {
            begin_answer(v, ENTRY_REASONING, 0);
            buf_puts(&v->chat.entries[v->chat.count - 1].text, e->reasoning);
            v->chat.answering = -1;
        }
        view_add(v, ENTRY_ANSWER, text_trimmed(b.data));
    } else {
        view_add(v, ENTRY_USER, b.data);
    }
    buf_release(&b);
}

// Removes undone messages. If a question failed, it stays visible, marked as undone; a question
// that was joined to the previous message replaces that message.
static void take_undo(struct view *v, const struct event *e)
{
    struct chat_view *c = &v->chat;
    const bool asked = v->line && is_question(v->line), joins = v->expect_message;
    int at = (int)c->count;
    maps_forget(v);
    image_drop_maps(&v->image, NULL); // of the removed answer
    if (joins && c->count && c->entries[c->count - 1].kind == ENTRY_USER) at--; // the typed line
    for (int64_t left = e->count; left > 0; left--) {
        if ((at = message_before(c, at)) < 0) break;
        if (asked && !joins)
            c->entries[at].undone = true;
        else
            remove_message(c, (size_t)at);
    }
}

static void take_clear(struct view *v, const struct event *e)
{
    maps_forget(v);
    image_clear(&v->image);
    if (!v->chat.count) return;
    while (v->chat.count) remove_entry(&v->chat, v->chat.count - 1);
    v->chat.scroll = 0;
    view_add(v, ENTRY_RULE, "the conversation was cleared");
}

static void take_page(struct view *v, const struct event *e)
{
    if (e->text)
        pager_begin(v, e->text);
    else
        pager_end(v);
}

static void take_text(struct view *v, const struct event *e)
{
    if (v->pager.collecting)
        pager_add_text(v, e->text);
    else if (e->ok)
        view_add(v, ENTRY_TABLE, e->text);
    else
        show_message(v, ENTRY_TEXT, e->text);
}

static void take_notice(struct view *v, const struct event *e)
{
    if (e->kind == EVENT_ERROR) v->chat.answering = -1;
    show_message(v, e->kind == EVENT_ERROR ? ENTRY_ERROR : ENTRY_NOTICE, e->text);
}

static void take_line(struct view *v, const struct event *e)
{
    char *line = event_line(e);
    view_add(v, ENTRY_TEXT, line);
    free(line);
}

// Adds text that the view renders again whenever the width changes.
static void add_rendered(struct view *v, void *source, char *(*render)(const void *, int),
                         void (*forget)(void *), int headings)
{
    struct entry *e = view_add(v, ENTRY_TABLE, "");
    e->source = source;
    e->render = render;
    e->forget = forget;
    e->headings = headings;
}

static void take_table(struct view *v, const struct event *e)
{
    if (v->pager.collecting) {
        pager_add_table(v, e->table);
        return;
    }
    add_rendered(v, table_copy_new(e->table), table_copy_text, table_copy_free,
                 e->table->titled ? 2 : 1);
    dynamics_take(&v->dynamics, e->table);
}

// Adds two answers side by side.
static void take_columns(struct view *v, const struct event *e)
{
    add_rendered(v, columns_copy(e->columns), columns_text, columns_free, 1);
    compare_take(&v->compare, e->columns);
}

static void take_heatmap(struct view *v, const struct event *e)
{
    const bool compared = !strncmp(e->heatmap->name, "compare.", 8);
    if (e->heatmap->condition) return; // measured under other settings
    image_take_map(compared ? &v->compare.coming : &v->image, e->heatmap);
    if (compared || results_live(e->heatmap->name)) return;
    v->image.map = -1; // a command's map replaces the requested one
    v->image.requesting = false;
}

// --- settings, progress --------------------------------------------------------------------------

static void take_setting(struct view *v, const struct event *e)
{
    char *line = xasprintf("%s = %s", e->key, e->value);
    const struct setting *row = settings_find(e->key);
    const bool answering = v->chat.answering >= 0 && row && row->stale >= STALE_NEXT;
    if (e->ok && answering) // the next token uses it
        add_remark(&v->chat.entries[v->chat.answering], "%s", line);
    if (e->ok && v->answering && v->keys_waiting)
        show_key_message(v, line);
    else
        show_message(v, e->ok ? ENTRY_NOTICE : ENTRY_TEXT, line);
    free(line);
    if (!row) return;
    // Skips a value that later keys have already changed.
    if (!v->keys_waiting) settings_set(v->settings, e->key, e->value, NULL);
    if (e->ok && row->stale >= STALE_SEEN && v->prompt_tokens) v->stale = true;
    if (e->ok && row->stale > STALE_NOTHING) maps_outdate(v);
}

static void take_progress(struct view *v, const struct event *e)
{
    const struct event_progress *p = e->progress;
    if (p->job) return; // the watcher reports jobs
    v->loading = !(p->step >= p->steps);
    v->progress = p->steps > 0 ? p->step / p->steps : 0;
    v->progress_left = p->eta_s;
    free(v->progress_what);
    v->progress_what = xstrdup(p->what ? p->what : "working");
}

static bool is_live(const struct map *m)
{
    return results_live(m->name);
}

static void take_answering(struct view *v, const struct event *e)
{
    v->answering = e->ok;
    if (!e->ok) return;
    v->asked = clock_seconds();
    v->first = v->last = 0;
    v->tokens = 0;
    maps_forget(v);
    image_drop_maps(&v->image, is_live); // maps of the previous answer
    v->image.map = -1;
}

// Takes the data from the news: the view owns it now.
static void *take_data(const struct news *n)
{
    struct news *own = (struct news *)n;
    own->release = NULL;
    return own->data;
}

static void take_done(struct view *v, const struct event *e)
{
    v->chat.answering = -1;
    v->loading = false;
    // No message followed: the line was a command or an error.
    for (size_t i = v->chat.count; v->expect_message && i-- > 0;) {
        if (v->chat.entries[i].kind != ENTRY_USER) continue;
        v->chat.entries[i].kind = ENTRY_COMMAND;
        break;
    }
    v->expect_message = false;
}

static void (*const takes[])(struct view *v, const struct event *e) = {
    [EVENT_TOKEN] = take_token,     [EVENT_ANSWER] = take_answer,
    [EVENT_TEXT] = take_text,       [EVENT_IDS] = take_line,
    [EVENT_RENDERED] = take_text,   [EVENT_TABLE] = take_table,
    [EVENT_HEATMAP] = take_heatmap, [EVENT_PROGRESS] = take_progress,
    [EVENT_SETTING] = take_setting, [EVENT_NOTICE] = take_notice,
    [EVENT_ERROR] = take_notice,    [EVENT_DONE] = take_done,
    [EVENT_RESULT] = take_line,     [EVENT_COLUMNS] = take_columns,
    [EVENT_MESSAGE] = take_message, [EVENT_UNDO] = take_undo,
    [EVENT_CLEAR] = take_clear,     [EVENT_ANSWERING] = take_answering,
    [EVENT_PAGE] = take_page,
};

// --- other news ----------------------------------------------------------------------------------

static void take_busy(struct view *v, const struct news *n)
{
    v->busy = true;
    v->dynamics.fresh = true;
    image_view_release(&v->compare.coming); // left by a stopped comparison
    v->compare.coming = (struct image_view){ 0 };
    free(v->line);
    v->line = xstrdup(n->text ? n->text : "");
    v->by_key = n->kind == NEWS_BUSY_KEY;
    v->reported = false;
    if (v->by_key && v->keys_waiting) v->keys_waiting--;
    if (!*v->line || v->by_key) return;
    v->expect_message = is_question(v->line);
    view_add(v, v->expect_message ? ENTRY_USER : ENTRY_COMMAND, v->line);
}

// Copies the engine's settings, unless lines of keys that change them are still queued.
static void take_settings(struct view *v, const struct settings *settings)
{
    if (v->keys_waiting) return;
    settings_free(v->settings);
    v->settings = settings_copy(settings);
}

static void take_snapshot(struct view *v, struct snapshot *s)
{
    if (s->waiting > (v->snapshot ? v->snapshot->waiting : 0)) v->attached = true;
    snapshot_free(v->snapshot);
    v->snapshot = s;
    take_settings(v, s->settings);
    if (!s->counted || !s->context.cached) v->stale = false;
}

bool view_take(struct view *v, const struct news *n)
{
    const size_t kind = (size_t)n->event.kind;
    switch (n->kind) {
    case NEWS_EVENT:
        if (n->event.kind == EVENT_CHANGED)
            changed_take(&v->changed, n->event.changed, take_data(n));
        else if (kind < sizeof takes / sizeof takes[0] && takes[kind])
            takes[kind](v, &n->event);
        else
            return false;
        break;
    case NEWS_MAP: maps_take(v, n->event.heatmap); break;
    case NEWS_NO_MAP: maps_failed(v, n->text); break;
    case NEWS_BUSY_KEY:
    case NEWS_BUSY: take_busy(v, n); break;
    case NEWS_KEY_DONE:
        if (v->keys_waiting) v->keys_waiting--;
        take_settings(v, n->data);
        break;
    case NEWS_IDLE:
        v->busy = v->answering = v->by_key = false;
        if (!v->hint || strncmp(v->hint, "stopping", 8) != 0) break;
        free(v->hint); // removes "stopping"
        v->hint = NULL;
        break;
    case NEWS_SNAPSHOT: take_snapshot(v, take_data(n)); break;
    case NEWS_PICTURE: {
        struct preview *p = take_data(n);
        if (p->index >= 0) {
            image_take_picture(&v->image, p);
        } else {
            preview_free(v->list.preview);
            v->list.preview = p;
        }
        break;
    }
    case NEWS_JOBS:
        jobs_news_free(v->jobs.news);
        v->jobs.news = take_data(n);
        break;
    default: return false;
    }
    return true;
}
