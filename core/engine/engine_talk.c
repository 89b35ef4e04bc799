// core/engine/engine_talk.c -- the engine's conversation, in reading order: a picture, a question
// and its answer; then messages without answers, undo, and a second conversation.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/file_in.h"
#include "core/base/text.h"
#include "core/engine/engine_parts.h"
#include "core/methods/forecast.h"
#include "core/picture/source.h"
#include "core/talk/answer.h"

// Emits an event for the session database, except while a batch runs in a separate conversation.
static void emit_to_session(struct engine *e, const struct event *event)
{
    if (e->stash) return;
    struct event copy = *event;
    copy.pictures = e->conversation.pictures;
    engine_emit(e, &copy);
}

// --- a picture -----------------------------------------------------------------------------------

int engine_attach_bytes(struct engine *e, const char *path, const void *bytes, size_t size,
                        struct err *err)
{
    conversation_limit_pictures(&e->conversation, e->settings);
    if (conversation_attach(&e->conversation, path, bytes, size, err) < 0) return -1;
    const int64_t frames = image_frames(bytes, size);
    if (frames > 1)
        sinks_notice(e->sinks, "'%s' is an animation of %lld frames: only the first is shown", path,
                     (long long)frames);
    return 0;
}

int engine_attach(struct engine *e, const char *path, struct err *err)
{
    size_t size;
    char *source = picture_source_path(path); // accepts file:// addresses
    char *bytes = strcmp(source, "-") ? picture_source_read(source, IMAGE_MAX_FILE, &size, err)
                                      : file_read_standard(IMAGE_MAX_FILE, &size, &e->cancel, err);
    const int status = bytes ? engine_attach_bytes(e, source, bytes, size, err) : -1;
    free(bytes);
    free(source);
    return status;
}

// --- settings that change during an answer -------------------------------------------------------

// Applies the changes posted for an answer of this length.
static void apply_posted(struct engine *e, int64_t tokens)
{
    struct change_batch batch;
    struct err err;
    while (changes_take(&e->posted, tokens, &batch)) {
        if (engine_set_all(e, batch.list, batch.count, &err) < 0)
            sinks_notice(e->sinks, "not changed: %s", err.text);
        change_batch_release(&batch);
    }
}

void engine_apply_posted(struct engine *e)
{
    apply_posted(e, 0);
}

void engine_post(struct engine *e, const struct change *list, size_t count, int64_t tokens)
{
    changes_post(&e->posted, list, count, tokens);
}

void engine_between(struct engine *e, void (*call)(void *self), void *self)
{
    e->between = call;
    e->between_self = self;
}

// --- one answer ----------------------------------------------------------------------------------

int engine_dump(struct engine *e, const char *patterns, const char *path, struct err *err)
{
    struct dump *dump = dump_new(patterns, path, err);
    if (!dump) return -1;
    if (e->dump && strcmp(dump_path(e->dump), path) != 0)
        sinks_notice(e->sinks, "'%s' is not written: this /dump replaces the one before",
                     dump_path(e->dump));
    dump_free(e->dump);
    e->dump = dump;
    return 0;
}

void engine_report_unsent(struct engine *e)
{
    const struct conversation *c = &e->conversation;
    struct buf names = { 0 };
    for (size_t i = 0; i < c->waiting_count; i++) {
        const struct picture *p = &c->pictures[c->waiting[i]];
        if (!p->used) // by /forward or /compare
            buf_printf(&names, "%s%s", names.length ? ", " : "",
                       strcmp(p->path, "-") ? p->path : "standard input");
    }
    if (names.length) sinks_notice(e->sinks, "no question followed: %s was not sent", names.data);
    buf_release(&names);
}

void engine_report_waiting(struct engine *e)
{
    char *posted = changes_text(&e->posted);
    if (e->dump)
        sinks_notice(e->sinks, "'%s' is not written: no forward pass followed /dump",
                     dump_path(e->dump));
    if (*posted) sinks_notice(e->sinks, "no answer was long enough for /later: %s", posted);
    free(posted);
}

void engine_watch(struct engine *e, bool on, double pause)
{
    e->watch = on;
    e->watch_pause = pause;
}

bool engine_watched(const struct engine *e)
{
    return e->watch && settings_flag(e->settings, "screen.live");
}

// True if answers measure the share of each token that comes from the pictures.
static bool measures_shares(const struct engine *e)
{
    if (!e->conversation.picture_count || !sinks_read_token(e->sinks)) return false;
    return settings_flag(e->settings, "why.live") ||
           (e->watch && !e->stash && settings_is(e->settings, "screen.tint", "picture"));
}

static double share_of(void *self, int64_t token)
{
    const struct engine *e = self;
    double part[SHARE_PARTS];
    return e->shares && shares_of(e->shares, token, part) ? part[SHARE_PICTURE] : NAN;
}

// Attaches the active methods and listeners: the live map, shares of tokens and a pending dump.
static int attach(struct engine *e, struct hooks *hooks, struct err *err)
{
    const struct method_tensors tensors = adapter_tensors(e->adapters.active);
    if (conversation_hooks(&e->conversation, e->settings, tensors, hooks, err) < 0) return -1;
    const struct conversation *c = &e->conversation;
    live_free(e->live);
    e->live = NULL;
    if (engine_watched(e) && !e->stash && c->picture_count) {
        e->live = live_new("live", e->model, e->settings, e->backend, c->pictures, c->picture_count,
                           e->sinks);
        live_pause(e->live, e->watch_pause);
        struct hook hook = live_hook(e->live);
        hooks_add(hooks, &hook);
    }
    const enum share_by by = share_setting(e->settings);
    if (!e->answering || !measures_shares(e) || !shares_measure(e->shares, by)) {
        shares_free(e->shares);
        e->shares = NULL;
    }
    if (measures_shares(e)) {
        if (!e->shares) e->shares = shares_new(e->model, by);
        struct hook hook = shares_hook(e->shares);
        hooks_add(hooks, &hook);
    }
    if (e->dump) {
        struct hook hook = dump_hook(e->dump);
        hooks_add(hooks, &hook);
    }
    return 0;
}

static enum answer_change change_answer(void *self, int64_t tokens, struct err *err)
{
    struct answer_now *now = self;
    now->tokens = tokens;
    if (now->e->live) live_show(now->e->live, tokens);
    // A dump covers one pass over the prompt: changes are deferred until the dump is written.
    if (now->e->dump) return CHANGE_NONE;
    apply_posted(now->e, tokens);
    if (now->e->between) now->e->between(now->e->between_self);
    if (!now->changed) return CHANGE_NONE;
    now->changed = false;
    if (attach(now->e, &now->hooks, err) < 0) return CHANGE_FAILED;
    const enum answer_change change = now->stale ? CHANGE_PASS : CHANGE_SETTINGS;
    now->stale = false;
    return change;
}

// Runs an answer; applies changes that are posted meanwhile.
static int answer(struct engine *e, struct answer_options options, bool *answered, struct err *err)
{
    struct answer_now now = { .e = e };
    engine_apply_posted(e);
    if (attach(e, &now.hooks, err) < 0) return -1;
    options.in_conversation = !e->stash;
    options.change = change_answer;
    options.change_self = &now;
    options.share = share_of;
    options.share_self = e;
    if (e->dump) {
        options.all_logits = dump_wants_all_logits(e->dump);
        options.whole = true;
        options.sequence = dump_sequence;
        options.self = e->dump;
    }
    engine_emit(e, &(struct event){ .kind = EVENT_ANSWERING, .ok = true });
    e->answering = &now;
    int status = answer_run(&e->conversation, e->settings, &now.hooks, &e->cancel, &options,
                            e->sinks, answered, err);
    e->answering = NULL;
    engine_emit(e, &(struct event){ .kind = EVENT_ANSWERING, .ok = false });
    engine_apply_posted(e);
    if (status == 0 && *answered && e->dump) {
        status = dump_finish(e->dump, e->sinks, err);
        e->dump = NULL;
    }
    return status;
}

// --- questions -----------------------------------------------------------------------------------

// Adds a message and answers it; on failure or without an answer, removes the message again.
static int say_and_answer(struct engine *e, enum role role, const char *text, const int32_t *ids,
                          size_t count, struct err *err)
{
    if (!e->model) return err_set(err, "no model is loaded: /load MODEL");
    struct conversation *c = &e->conversation;
    struct said said;
    conversation_say(c, role, text, ids, count, &said);
    if (said.joined) emit_to_session(e, &(struct event){ .kind = EVENT_UNDO, .count = 1 });
    emit_to_session(e, &(struct event){ .kind = EVENT_MESSAGE, .message = conversation_last(c) });
    bool answered;
    int status = answer(e, (struct answer_options){ 0 }, &answered, err);
    if (status < 0 || !answered) {
        conversation_unsay(c, &said);
        emit_to_session(e, &(struct event){ .kind = EVENT_UNDO, .count = 1 });
        if (said.joined)
            emit_to_session(
                e, &(struct event){ .kind = EVENT_MESSAGE, .message = conversation_last(c) });
    }
    said_release(&said);
    return status;
}

int engine_ask(struct engine *e, const char *text, struct err *err)
{
    return say_and_answer(e, ROLE_USER, text, NULL, 0, err);
}

int engine_raw(struct engine *e, const int32_t *ids, size_t count, struct err *err)
{
    int64_t vocab = e->model ? e->model->decoder.config.vocab : 0;
    for (size_t i = 0; i < count && e->model; i++)
        if (ids[i] < 0 || ids[i] >= vocab)
            return err_set(err, "token id %d is outside the vocabulary (0..%lld)", ids[i],
                           (long long)vocab - 1);
    return say_and_answer(e, ROLE_RAW, NULL, ids, count, err);
}

int engine_forward(struct engine *e, const char *text, struct err *err)
{
    if (!e->model) return err_set(err, "no model is loaded: /load MODEL");
    struct said said;
    conversation_say(&e->conversation, ROLE_USER, text, NULL, 0, &said);
    bool answered;
    int status = answer(e, (struct answer_options){ .forward_only = true }, &answered, err);
    conversation_unsay(&e->conversation, &said);
    said_release(&said);
    return status;
}

int engine_answer(struct engine *e, struct err *err)
{
    if (!e->model) return err_set(err, "no model is loaded: /load MODEL");
    struct conversation *c = &e->conversation;
    const struct message *m = conversation_last(c);
    if (!c->waiting_count && (!m || (m->role != ROLE_USER && m->role != ROLE_RAW)))
        return err_set(err, "nothing to answer: ask something, or use /messages FILE");
    if (c->waiting_count) return say_and_answer(e, ROLE_USER, NULL, NULL, 0, err);
    bool answered;
    return answer(e, (struct answer_options){ 0 }, &answered, err);
}

static int set_seed(struct engine *e, int64_t seed, struct err *err)
{
    char text[32];
    snprintf(text, sizeof text, "%lld", (long long)seed);
    return engine_set(e, "sample.seed", text, err);
}

int engine_regenerate(struct engine *e, struct err *err)
{
    struct conversation *c = &e->conversation;
    const struct message *m = conversation_last(c);
    if (!e->model) return err_set(err, "no model is loaded: /load MODEL");
    if (!m || m->role != ROLE_ASSISTANT)
        return err_set(err, "no answer to regenerate: ask something first");
    const int64_t seed = settings_integer(e->settings, "sample.seed");
    const bool draws = settings_real(e->settings, "sample.temperature") > 0;
    // A new seed, reported and stored like any changed setting, makes the new answer reproducible.
    if (draws && set_seed(e, seed + 1, err) < 0) return -1;
    struct message former = conversation_take(c);
    bool answered;
    int status = answer(e, (struct answer_options){ .again = true }, &answered, err);
    if (status == 0 && answered) {
        if (!draws && ids_same(&former.ids, &conversation_last(c)->ids))
            sinks_notice(e->sinks, "the same answer again: sample.temperature 0 always takes the "
                                   "likeliest token; /set sample.temperature 0.7 samples");
        message_release(&former);
        return 0;
    }
    conversation_put(c, former);
    if (draws) set_seed(e, seed, NULL); // cannot fail: restores the old value
    return status;
}

// --- messages without an answer ------------------------------------------------------------------

int engine_system(struct engine *e, const char *text, struct err *err)
{
    conversation_set_system(&e->conversation, text);
    struct message said = { .role = ROLE_SYSTEM };
    message_add_text(&said, text);
    emit_to_session(e, &(struct event){ .kind = EVENT_MESSAGE, .message = &said });
    message_release(&said);
    return 0;
}

int engine_add_message(struct engine *e, const struct message *m, struct err *err)
{
    struct conversation *c = &e->conversation;
    for (size_t i = 0; i < m->content_count; i++)
        if (!m->content[i].text &&
            (m->content[i].picture < 0 || (size_t)m->content[i].picture >= c->picture_count))
            return err_set(err, "the message contains picture %d, but only %zu are attached",
                           m->content[i].picture, c->picture_count);
    conversation_append(c, m, 1);
    conversation_unwait(c, m);
    emit_to_session(e, &(struct event){ .kind = EVENT_MESSAGE, .message = m });
    return 0;
}

int engine_add_messages(struct engine *e, const struct message *messages, size_t count,
                        const char *const *paths, size_t path_count, struct err *err)
{
    struct conversation *c = &e->conversation;
    const size_t waiting = c->waiting_count;
    const int first = (int)c->picture_count;
    int status = 0;
    for (size_t i = 0; i < path_count && status == 0; i++) status = engine_attach(e, paths[i], err);
    for (size_t i = 0; i < count && status == 0; i++) {
        struct message m = { 0 };
        message_copy(&m, &messages[i]);
        for (size_t k = 0; k < m.content_count; k++)
            if (!m.content[k].text) m.content[k].picture += first;
        engine_add_message(e, &m, NULL); // cannot fail: the pictures exist
        message_release(&m);
    }
    conversation_detach(c, waiting); // keeps the pictures that were pending before
    return status;
}

// --- undo ----------------------------------------------------------------------------------------

void engine_detach(struct engine *e)
{
    conversation_detach(&e->conversation, 0);
}

void engine_detach_one(struct engine *e, int picture)
{
    conversation_detach_one(&e->conversation, picture);
}

// Describes the messages from `first` on: "undone: 'What is this?' with its picture cat.jpg and
// its answer".
static char *undone_text(const struct conversation *c, size_t first)
{
    enum { SHOWN = 60 };
    const struct message *m = &c->messages[first];
    struct buf b = { 0 }, pictures = { 0 };
    char *text = message_text(m);
    size_t count = 0, length = strcspn(text, "\n");
    if (length > SHOWN)
        for (length = SHOWN; length && (text[length] & 0xc0) == 0x80;)
            length--; // does not cut a character in half
    for (size_t i = 0; i < m->content_count; i++) {
        if (m->content[i].text) continue;
        const char *path = c->pictures[m->content[i].picture].path;
        buf_printf(&pictures, "%s%s", count++ ? ", " : "", text_file_name(path));
    }
    if (m->role == ROLE_RAW)
        buf_printf(&b, "undone: %zu token ids", m->ids.count);
    else
        buf_printf(&b, "undone: '%.*s%s'", (int)length, text, text[length] ? "..." : "");
    if (count) buf_printf(&b, " with its picture%s %s", count == 1 ? "" : "s", pictures.data);
    if (first + 1 < c->message_count) buf_puts(&b, " and its answer");
    buf_release(&pictures);
    free(text);
    return buf_take(&b);
}

int engine_undo(struct engine *e, struct err *err)
{
    struct conversation *c = &e->conversation;
    size_t count = 0;
    // Removes the user's last message and everything after it; the system message stays.
    while (count < c->message_count) {
        enum role role = c->messages[c->message_count - 1 - count].role;
        if (role == ROLE_SYSTEM) break;
        count++;
        if (role == ROLE_USER || role == ROLE_RAW) break;
    }
    if (!count) return err_set(err, "nothing to undo");
    char *undone = undone_text(c, c->message_count - count);
    conversation_drop(c, count);
    emit_to_session(e, &(struct event){ .kind = EVENT_UNDO, .count = (int64_t)count });
    sinks_notice(e->sinks, "%s", undone);
    free(undone);
    return 0;
}

void engine_clear(struct engine *e)
{
    conversation_clear(&e->conversation);
    emit_to_session(e, &(struct event){ .kind = EVENT_CLEAR });
}

// --- stashing the conversation -------------------------------------------------------------------

void engine_stash(struct engine *e)
{
    if (e->stash) BUG("a conversation is already stashed");
    e->stashed = e->conversation;
    conversation_init(&e->conversation, e->backend);
    conversation_set_model(&e->conversation, e->model);
    e->stash = true;
}

void engine_unstash(struct engine *e)
{
    if (!e->stash) return;
    conversation_release(&e->conversation);
    e->conversation = e->stashed;
    e->stash = false;
}

void engine_adopt_pictures(struct engine *e, struct conversation *from)
{
    conversation_adopt_pictures(&e->conversation, from);
}

// --- state for callers ---------------------------------------------------------------------------

struct engine_talk engine_talk(const struct engine *e)
{
    const struct conversation *c = &e->conversation;
    return (struct engine_talk){ c->messages,      c->pictures,      c->waiting,
                                 c->message_count, c->picture_count, c->waiting_count };
}

int engine_boxes(const struct engine *e, const struct box_style **style, struct boxes *b)
{
    const struct conversation *c = &e->conversation;
    size_t at = c->message_count;
    while (at > 0 && c->messages[at - 1].role != ROLE_ASSISTANT) at--;
    static const struct message none = { 0 };
    const struct message *m = at ? &c->messages[at - 1] : &none;
    char *text = message_text(m);
    const int picture =
        conversation_boxes(c, at ? at - 1 : 0, text + m->answer_at, &m->ids, e->settings, style, b);
    free(text);
    return picture;
}

int64_t engine_limit(const struct engine *e)
{
    return conversation_limit(e->conversation.model, e->settings);
}

int engine_forecast(const struct engine *e, const struct settings *s,
                    const struct engine_context *context, struct prompt_cost *f, struct err *err)
{
    const struct method_env env = engine_env(e, s);
    return methods_forecast(&env, context->text, context->visual + context->waiting_visual, f, err);
}

int engine_context(struct engine *e, struct engine_context *context, struct err *err)
{
    struct conversation *c = &e->conversation;
    struct sequence s = { 0 };
    *context = (struct engine_context){ .limit = engine_limit(e) };
    if (c->message_count &&
        conversation_sequence(c, c->message_count, e->settings, false, &s, err) < 0)
        return -1;
    context->visual = sequence_visual_count(&s, 0);
    context->text = s.n - context->visual;
    context->cached = c->cached.n;
    for (size_t i = 0; i < c->waiting_count; i++)
        context->waiting_visual += c->pictures[c->waiting[i]].tokens;
    sequence_release(&s);
    return 0;
}
