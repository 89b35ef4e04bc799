// core/eval/evaluate_first.c -- eval.first: a question about a sample's pictures, such as a request
// for a description, that precedes the sample's own question. The answer stays in the conversation,
// so that later questions can use it. Consecutive samples with the same pictures and the same
// earlier messages (context_of) share the answer.
#include <stdlib.h>
#include <string.h>

#include "core/eval/evaluate_parts.h"
#include "core/talk/answer.h"

static const char *const words[] = { "none", NULL };

const struct setting first_settings[] = {
    { .key = "eval.first",
      .type = SETTING_TEXT,
      .def = "none",
      .choices = words,
      .stale = STALE_SCORED,
      .help = "First question that evaluations ask about a sample's pictures, such as \"Describe "
              "the picture.\"; the sample's own question follows in the same conversation. It is "
              "not asked for the metric loss, nor for answers that --answers reads." },
    { 0 },
};

bool evaluate_has_first(const struct settings *s)
{
    const char *text = settings_text(s, "eval.first");
    return *text && strcmp(text, "none") != 0;
}

static bool shows(const struct message *m)
{
    for (size_t i = 0; i < m->content_count; i++)
        if (m->content[i].picture >= 0) return true;
    return false;
}

size_t evaluate_first_at(const struct evaluating *v, const struct dialogue *d)
{
    size_t i = 0;
    if (!evaluate_has_first(v->settings)) return d->count;
    while (i < d->count && (d->messages[i].role != ROLE_USER || d->messages[i].example)) i++;
    return i < d->count && shows(&d->messages[i]) ? i : d->count;
}

static void put_question(struct evaluating *v, const struct message *about)
{
    struct message *m = conversation_add(&v->c, ROLE_USER);
    for (size_t i = 0; i < about->content_count; i++)
        if (about->content[i].picture >= 0) message_add_picture(m, about->content[i].picture);
    message_add_text(m, settings_text(v->settings, "eval.first"));
}

// Returns a text of all that the answer to eval.first depends on, except the picture files: the
// messages before the sample's first question, and the numbers of the pictures in that question.
static char *context_of(const struct dialogue *d, size_t at)
{
    struct buf b = { 0 };
    for (size_t i = 0; i < at; i++) {
        char *text = message_text(&d->messages[i]);
        buf_printf(&b, "%d %s\n", (int)d->messages[i].role, text);
        free(text);
    }
    const struct message *asked = &d->messages[at];
    for (size_t i = 0; i < asked->content_count; i++)
        if (asked->content[i].picture >= 0) buf_printf(&b, "%d ", asked->content[i].picture);
    return buf_take(&b);
}

// Limits the answer to sample.max_tokens, even if the evaluation set has its own limit.
static int answer_first(struct evaluating *v, bool *cancelled, struct err *err)
{
    static const struct answer_options options = { .steady = true };
    struct sinks sinks = { 0 };
    struct hooks hooks;
    bool answered;
    char *own = xstrdup(settings_text(v->settings, "sample.max_tokens"));
    sinks_add(&sinks, (struct sink){ .emit = answer_note_cancelled, .self = cancelled });
    int status = settings_set(v->settings, "sample.max_tokens",
                              settings_text(v->r->settings, "sample.max_tokens"), err);
    if (status == 0) status = conversation_hooks(&v->c, v->settings, v->r->tensors, &hooks, err);
    if (status == 0 && hooks.count) conversation_stale(&v->c, STALE_KV);
    if (status == 0)
        status =
            answer_run(&v->c, v->settings, &hooks, v->r->cancel, &options, &sinks, &answered, err);
    if (settings_set(v->settings, "sample.max_tokens", own, NULL) < 0) BUG("its own value");
    free(own);
    return status;
}

int evaluate_first(struct evaluating *v, const struct dialogue *d, struct err *err)
{
    struct first_answer *o = &v->first;
    const size_t at = evaluate_first_at(v, d);
    bool cancelled = false;
    if (at == d->count) return 0;
    char *context = context_of(d, at);
    if (o->context && shown_are(&o->shown, d) && !strcmp(o->context, context)) {
        free(context);
        return 0;
    }
    evaluate_first_release(v);
    conversation_drop(&v->c, v->c.message_count);
    conversation_append(&v->c, d->messages, at);
    put_question(v, &d->messages[at]);
    const int status = answer_first(v, &cancelled, err);
    if (status < 0 || cancelled) {
        free(context);
        v->stopped |= cancelled;
        return status < 0 ? err_in(err, "eval.first") : 0;
    }
    message_copy(&o->answer, &v->c.messages[v->c.message_count - 1]);
    for (size_t i = 0; i < d->path_count; i++) shown_add(&o->shown, d->paths[i]);
    o->context = context;
    // With a listener (v->r->answered), each answer is measured from an empty cache, as without
    // eval.first.
    if (v->r->answered) conversation_stale(&v->c, STALE_VISUAL);
    return 0;
}

void evaluate_put_first(struct evaluating *v, const struct message *asked)
{
    put_question(v, asked);
    message_copy(conversation_add(&v->c, ROLE_ASSISTANT), &v->first.answer);
    struct message *m = conversation_add(&v->c, ROLE_USER);
    m->from_data = asked->from_data;
    for (size_t i = 0; i < asked->content_count; i++)
        if (asked->content[i].text) message_add_text(m, asked->content[i].text);
}

void evaluate_first_release(struct evaluating *v)
{
    struct first_answer *o = &v->first;
    if (o->context) message_release(&o->answer);
    shown_clear(&o->shown);
    free(o->context);
    *o = (struct first_answer){ 0 };
}
