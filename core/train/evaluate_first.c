// core/train/evaluate_first.c -- eval.first: a question about a sample's pictures that is asked
// before its own, as one asks for a description first. Its answer stays in the conversation, so
// that what follows can be read off it. Samples in a row with the same pictures share it.
#include <stdlib.h>
#include <string.h>

#include "core/talk/answer.h"
#include "core/train/evaluate_parts.h"

static const char *const words[] = { "none", NULL };

const struct setting first_settings[] = {
    { "eval.first", SETTING_TEXT, 0, 0, "none", NULL, words, STALE_NEXT,
      .help = "A question that evaluations ask about a sample's pictures before its own, such as "
              "\"Describe the picture.\"; its answer stays in the conversation. Not for losses." },
    { 0 },
};

static bool shows(const struct message *m)
{
    for (size_t i = 0; i < m->content_count; i++)
        if (m->content[i].picture >= 0) return true;
    return false;
}

// The message of d that asks first; d->count: it shows nothing.
static size_t first_asked(const struct dialogue *d)
{
    size_t i = 0;
    while (i < d->count && d->messages[i].role != ROLE_USER) i++;
    return i < d->count && shows(&d->messages[i]) ? i : d->count;
}

static void add_pictures(struct message *to, const struct message *from)
{
    for (size_t i = 0; i < from->content_count; i++)
        if (from->content[i].picture >= 0) message_add_picture(to, from->content[i].picture);
}

static void add_texts(struct message *to, const struct message *from)
{
    for (size_t i = 0; i < from->content_count; i++)
        if (from->content[i].text) message_add_text(to, from->content[i].text);
}

static void put_question(struct evaluating *v, const struct message *about)
{
    struct message *m = conversation_add(&v->c, ROLE_USER);
    add_pictures(m, about);
    message_add_text(m, settings_text(v->settings, "eval.first"));
}

// Messages before the first question: system messages, of which the answer depends, too.
static char *begin(struct evaluating *v, const struct dialogue *d, size_t count)
{
    struct buf texts = { 0 };
    conversation_drop(&v->c, v->c.message_count);
    conversation_append(&v->c, d->messages, count);
    for (size_t i = 0; i < count; i++) {
        char *text = message_text(&d->messages[i]);
        buf_printf(&texts, "%s\n", text);
        free(text);
    }
    return texts.length ? buf_take(&texts) : xstrdup("");
}

// On cancel there is an answer too, or a part of one.
static int answer_first(struct evaluating *v, struct err *err)
{
    static const struct answer_options options = { 0 };
    struct sinks nobody = { 0 };
    struct hooks hooks;
    bool answered;
    char *own = xstrdup(settings_text(v->settings, "sample.max_tokens"));
    int status = settings_set(v->settings, "sample.max_tokens",
                              settings_text(v->r->settings, "sample.max_tokens"), err);
    if (status == 0) status = conversation_hooks(&v->c, v->settings, v->r->tensors, &hooks, err);
    if (status == 0 && hooks.count) conversation_stale(&v->c, STALE_KV);
    if (status == 0)
        status =
            answer_run(&v->c, v->settings, &hooks, v->r->cancel, &options, &nobody, &answered, err);
    if (settings_set(v->settings, "sample.max_tokens", own, NULL) < 0) BUG("its own value");
    free(own);
    return status;
}

int evaluate_first(struct evaluating *v, const struct dialogue *d, struct err *err)
{
    struct evaluate_opening *o = &v->opening;
    const bool wanted = strcmp(settings_text(v->settings, "eval.first"), "none") != 0;
    o->at = wanted && d->path_count ? first_asked(d) : d->count;
    if (o->at == d->count) return 0;
    char *before = begin(v, d, o->at);
    if (o->answered && shown_are(&o->shown, d) && !strcmp(o->before, before)) {
        free(before);
        return 0;
    }
    evaluate_first_release(v);
    o->before = before;
    put_question(v, &d->messages[o->at]);
    if (answer_first(v, err) < 0) return err_in(err, "eval.first");
    if (v->r->cancel && atomic_load(v->r->cancel)) return 0;
    message_copy(&o->answer, &v->c.messages[v->c.message_count - 1]);
    for (size_t i = 0; i < d->path_count; i++) shown_add(&o->shown, d->paths[i]);
    o->answered = true;
    return 0;
}

bool evaluate_is_opened(const struct evaluating *v, const struct dialogue *d)
{
    return v->opening.answered && v->opening.at < d->count;
}

void evaluate_put_opened(struct evaluating *v, const struct message *asked)
{
    put_question(v, asked);
    message_copy(conversation_add(&v->c, ROLE_ASSISTANT), &v->opening.answer);
    add_texts(conversation_add(&v->c, ROLE_USER), asked);
}

void evaluate_first_release(struct evaluating *v)
{
    struct evaluate_opening *o = &v->opening;
    const size_t at = o->at;
    if (o->answered) message_release(&o->answer);
    shown_clear(&o->shown);
    free(o->before);
    *o = (struct evaluate_opening){ .at = at };
}
