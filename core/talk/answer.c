// core/talk/answer.c -- answers a conversation: prefills the rows that are not cached, then
// generates.
//
// In:  messages and pictures of the conversation, settings, listeners.
// Out: EVENT_TOKEN for every token, EVENT_ANSWER, the assistant's message.
//
// A pass may compute a generated token together with drafts of the following ones
// (core/talk/lookahead.h). Each token is still chosen from its own row, and settings take effect
// before each token. When the answer ends, the cache holds the rows that single passes would have
// computed, and no drafts.
#include "core/talk/answer.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/model/sampler.h"
#include "core/model/visual.h"
#include "core/picture/boxes.h"
#include "core/stages/stages.h"
#include "core/talk/lookahead.h"

// --- passes --------------------------------------------------------------------------------------

int conversation_encode(struct conversation *c, struct graph *g, int i)
{
    const struct decoder *d = &c->model->decoder;
    struct picture *p = &c->pictures[i];
    p->used = true;
    if (p->visual && (p->focus || !hooks_wanted(g, SITE_FOCUS, -1))) return 0;
    conversation_drop_visual(c, i);
    struct arena_mark mark = arena_mark(&c->step);
    float *focus = NULL;
    struct tensor *v = NULL;
    if (decoder_first(d)) {
        v = visual_encode(g, c->model, p, i, &focus); // [S,D]
    } else { // only the first pipeline stage holds visual tokens; the others store one element to
             // mark the picture as encoded
        p->visual = visual_keep(g, graph_new1(g, DTYPE_F32, 1));
        p->focus = xcalloc(1, sizeof *p->focus);
    }

    // Copies visual tokens and focus out of the step arena, for later turns.
    if (v && v->shape[0] != p->tokens)
        graph_fail(g, "picture %d gave %lld visual tokens, not %lld", i, (long long)v->shape[0],
                   (long long)p->tokens);
    else if (v && graph_ok(g))
        p->visual = visual_keep(g, v);
    if (focus && graph_ok(g)) {
        p->focus = xreallocarray(NULL, (size_t)p->tokens + 1, sizeof *p->focus);
        memcpy(p->focus, focus, (size_t)p->tokens * sizeof *focus);
    }
    arena_reset(&c->step, mark);
    if (d->part) stages_agree(g, stages_of(d), (uint64_t)i);
    if (!graph_ok(g)) conversation_drop_visual(c, i);
    return graph_ok(g) ? 0 : -1;
}

int conversation_forward(struct conversation *c, struct graph *g, const struct sequence *s,
                         enum logits_rows want, bool prefill, struct tensor **x)
{
    const struct decoder *d = &c->model->decoder;
    struct tensor *h; // h[0] of the rows that are not cached [n,D]
    model_pass(c->model, s->pictures);
    if (decoder_first(d)) {
        struct tensor **visual = xcalloc(c->picture_count + 1, sizeof *visual);
        const float **focus = xcalloc(c->picture_count + 1, sizeof *focus);
        for (size_t i = 0; i < c->picture_count; i++) {
            visual[i] = c->pictures[i].visual;
            focus[i] = c->pictures[i].focus;
        }
        h = splice(g, d, s, c->cached.n, visual, focus, (int)c->picture_count);
        free(visual);
        free(focus);
    } else {
        h = graph_new2(g, DTYPE_F32, s->n - c->cached.n, d->config.hidden); // memory for h
    }
    if (!h && !d->part) return -1;
    if (decoder_forward(g, d, &c->kv, s, h, want, prefill, x) < 0 || !graph_ok(g)) return -1;
    sequence_release(&c->cached);
    sequence_copy(&c->cached, s);
    return 0;
}

// --- an answer -----------------------------------------------------------------------------------

struct answering {
    struct conversation *c;
    const struct settings *settings;
    const struct answer_options *options;
    const struct sinks *sinks;
    struct graph graph;
    struct sequence sequence;            // prompt, then the generated tokens
    int64_t prompt;                      // tokens of the prompt
    int64_t closing;                     // tokens that the layout appends to the answer
    int64_t reused;                      // prompt tokens found in the cache
    struct ids ids;                      // generated
    struct thinking_text thinking;       // the text of `ids`
    struct buf whole;                    // the text with the reasoning's marks
    const struct thinking_marks *opened; // marks whose opening mark ends the prompt; or NULL
    size_t reasoning_tokens;

    // The newest pass.
    float *logits;                 // [1 + drafts, V] of the pass's last rows, host memory
    int64_t capacity;              // of logits, in rows
    float *probs;                  // [V] for measure_token; NULL: no sink reads event.token
    int32_t draft[LOOKAHEAD_MOST]; // [drafts] tokens of all these rows but the first
    int64_t drafts, row; // the next token is chosen from `row`; earlier drafts were accepted
    int64_t known;       // rows of the sequence up to `row`
    struct lookahead lookahead;

    double vision_s, prefill_s, decode_s;
    const char *stop; // why the answer ended
};

// Returns how many tokens the context leaves for the answer, without the tokens that the layout
// appends to it.
static int64_t tokens_left(const struct answering *a)
{
    return conversation_limit(a->c->model, a->settings) - a->sequence.n - a->closing;
}

static int check_length(struct answering *a, struct err *err)
{
    const struct conversation *c = a->c;
    const int64_t n = a->sequence.n, visual = sequence_visual_count(&a->sequence, 0);
    char raise[80];
    const bool many = visual > n / 2 && c->picture_count > 1;
    if (!n) return err_set(err, "nothing to answer: ask something first");
    if (!a->options->forward_only && conversation_closing(c, a->settings, n, &a->closing, err) < 0)
        return -1;
    if (tokens_left(a) >= !a->options->forward_only) return 0;
    return err_set(err,
                   "with this question the conversation has %lld tokens (%lld text, %lld visual), "
                   "which leaves no room for an answer in a context of %lld: ask %s, or /undo, "
                   "/clear%s",
                   (long long)n, (long long)(n - visual), (long long)visual,
                   (long long)conversation_limit(c->model, a->settings),
                   many ? "about one picture at a time (/ask --each)" : "something shorter",
                   conversation_raise(c->model, a->settings, raise, sizeof raise));
}

// Returns the logits from which the next token is chosen: [V].
static float *logits_now(const struct answering *a)
{
    return a->logits + a->row * a->c->model->decoder.config.vocab;
}

// Computes the rows of the sequence that are not cached; the last `drafts` of them are drafts.
// Keeps the logits of the drafts and of the row before them.
static int forward(struct answering *a, bool prefill, int64_t drafts)
{
    struct graph *g = &a->graph;
    struct arena_mark mark = arena_mark(g->arena);
    enum logits_rows want =
        drafts || (prefill && a->options->all_logits) ? LOGITS_ALL : LOGITS_LAST;
    const int64_t rows = 1 + drafts;
    struct tensor *logits = NULL;
    a->row = a->drafts = 0;
    if (conversation_forward(a->c, g, &a->sequence, want, prefill, &logits) == 0)
        logits = graph_rows(g, logits, logits->shape[0] - rows, rows); // [rows, V]
    if (logits && graph_ok(g)) {
        if (rows > a->capacity) {
            a->logits = xreallocarray(a->logits, 1, tensor_bytes(logits));
            a->capacity = rows;
        }
        a->c->backend->download(a->logits, logits->data, tensor_bytes(logits));
    }
    arena_reset(g->arena, mark);
    if (!graph_ok(g)) return -1;
    a->drafts = drafts;
    a->known = a->sequence.n - drafts;
    return 0;
}

// Computes the rows of the sequence that are not cached, beginning with row *from, after encoding
// their pictures.
static int prefill(struct answering *a, int64_t *from)
{
    // Always computes the last row of the prompt, the query row of pruning. Kernels for few rows
    // round differently from kernels for many, above all in bf16: a few rows after cached ones
    // would differ from the same rows of a whole prompt.
    const int64_t last = a->options->steady ? backend_many_rows(a->c->backend) : 1;
    const int64_t reusable = a->options->whole || a->prompt < last ? 0 : a->prompt - last;
    *from = conversation_reuse(a->c, &a->sequence, reusable);

    double start = clock_seconds();
    for (int64_t row = *from; row < a->sequence.n; row++) {
        const int picture = a->sequence.picture[row];
        if (picture >= 0 && conversation_encode(a->c, &a->graph, picture) < 0) return -1;
    }
    const double encoded = clock_seconds();
    a->vision_s += encoded - start;
    const int status = forward(a, true, 0);
    a->prefill_s += clock_seconds() - encoded;
    return status;
}

// --- changed settings ----------------------------------------------------------------------------

// Applies the settings of matrix products and of the cache's dtype.
static void apply_settings(struct answering *a)
{
    const struct backend *b = a->graph.backend;
    a->graph.matmul = graph_matmul(b, a->settings, a->c->model->dtype);
    conversation_set_dtype(a->c, kv_dtype(b, a->settings));
}

// Tokenises the prompt again under changed settings and recomputes the rows of prompt and answer
// that cannot be reused.
static int recompute(struct answering *a)
{
    struct sequence s = { 0 };
    struct err err;
    int64_t from;
    if (conversation_sequence(a->c, a->c->message_count, a->settings, true, &s, &err) < 0 ||
        conversation_closing(a->c, a->settings, s.n, &a->closing, &err) < 0)
        goto failed;
    if (s.n + (int64_t)a->ids.count > conversation_limit(a->c->model, a->settings)) {
        err_set(&err, "the changed prompt and the answer so far exceed the context");
        goto failed;
    }
    a->prompt = s.prompt = s.n;
    lookahead_forget(&a->lookahead);
    for (size_t i = 0; i < a->ids.count; i++) sequence_append(&s, a->ids.data[i]);
    sequence_release(&a->sequence);
    a->sequence = s;
    if (prefill(a, &from) < 0) return -1;
    sinks_notice(a->sinks,
                 "after %zu token%s of the answer: recomputed %lld of %lld tokens; the answer "
                 "continues with the changed settings",
                 a->ids.count, a->ids.count == 1 ? "" : "s", (long long)(s.n - from),
                 (long long)s.n);
    return 0;
failed:
    sequence_release(&s);
    graph_fail(&a->graph, "%s", err.text);
    return -1;
}

// Applies settings that changed during the answer, before the next token is chosen; a change drops
// the computed drafts.
static int apply_changes(struct answering *a)
{
    struct err err;
    if (!a->options->change) return 0;
    const enum answer_change change =
        a->options->change(a->options->change_self, (int64_t)a->ids.count, &err);
    if (change == CHANGE_FAILED) {
        graph_fail(&a->graph, "%s", err.text);
        return -1;
    }
    if (change == CHANGE_NONE) return 0;
    apply_settings(a);
    a->drafts = a->row;
    return change == CHANGE_PASS ? recompute(a) : 0;
}

// --- generation ----------------------------------------------------------------------------------

// Measures the newest token, which was chosen from the current logits: its probability, the entropy
// and the share that comes from the pictures.
static struct event_token measure_token(const struct answering *a, int32_t id)
{
    const struct answer_options *o = a->options;
    const float *logits = logits_now(a);
    const struct logits_spread spread =
        logits_spread(logits, a->c->model->decoder.config.vocab, a->probs);
    return (struct event_token){
        .probability = exp((double)logits[id] - spread.log_sum),
        .entropy = spread.entropy,
        .share = o->share ? o->share(o->share_self, (int64_t)a->ids.count - 1) : NAN,
    };
}

// Emits a token with its text, and empties the text. id -1: no token, only the rest of the text.
static void emit_token(struct answering *a, int32_t id, struct buf *text, bool last)
{
    struct buf reasoning = { 0 }, answer = { 0 };
    const bool measured = a->probs && id >= 0;
    const struct event_token sure = measured ? measure_token(a, id) : (struct event_token){ 0 };
    buf_puts(text, "");
    buf_puts(&a->whole, text->data);
    thinking_push(&a->thinking, text->data, &reasoning, &answer);
    const bool turned = a->thinking.turned;
    if (last) thinking_finish(&a->thinking, &reasoning, &answer);
    if (a->thinking.marks && (turned || !a->thinking.answer.length))
        a->reasoning_tokens = a->ids.count;
    sinks_emit(a->sinks, &(struct event){ .kind = EVENT_TOKEN,
                                          .id = id,
                                          .text = answer.data ? answer.data : "",
                                          .reasoning = reasoning.data ? reasoning.data : "",
                                          .value = text->data,
                                          .token = measured ? &sure : NULL,
                                          .ok = turned });
    buf_release(&reasoning);
    buf_release(&answer);
    buf_clear(text);
}

// Removes drafts that were not accepted from the cache.
static void drop_drafts(struct answering *a)
{
    if (a->c->cached.n > a->known) conversation_trim(a->c, a->known);
}

// Moves to the logits after the newest token: the last pass has them if it drafted the token; else
// runs a new pass.
static int step(struct answering *a)
{
    const int64_t n = a->sequence.n;
    if (a->row < a->drafts && a->draft[a->row] == a->sequence.ids[n - 1]) {
        a->row++;
        a->known = n;
        return 0;
    }
    lookahead_judge(&a->lookahead, a->drafts, a->row);
    drop_drafts(a);

    // Limits drafts so that a pass still uses the kernels for few rows, which give each row the
    // bits of a single-row pass. Drafts nothing while the sequence has at most that many rows: more
    // rows would change the kernels for products over keys.
    const int64_t few = backend_few_rows(a->c->backend), left = tokens_left(a);
    const int64_t wanted =
        settings_integer(a->settings, "sample.max_tokens") - (int64_t)a->ids.count;
    a->lookahead.blocks = model_quantised(a->c->model);
    lookahead_configure(&a->lookahead, a->settings, hooks_allow_drafts(&a->graph) ? few : 1);
    const int64_t drafts = n > few ? lookahead_draft(&a->lookahead, &a->sequence,
                                                     (wanted < left ? wanted : left) - 1, a->draft)
                                   : 0;
    for (int64_t i = 0; i < drafts; i++) sequence_append(&a->sequence, a->draft[i]);
    const int status = forward(a, false, drafts);
    sequence_trim(&a->sequence, n);
    return status;
}

// Generates tokens until the answer ends; a->stop is the reason, "length" unless another is set.
static int generate(struct answering *a)
{
    const struct model *m = a->c->model;
    int64_t vocab = m->decoder.config.vocab;
    struct detokenizer words;
    struct buf text = { 0 };
    int status = 0;
    double start = clock_seconds(), before = a->prefill_s + a->vision_s;
    detokenizer_start(&words, m->tokenizer, true);
    if (sinks_read_token(a->sinks)) a->probs = xreallocarray(NULL, (size_t)vocab, sizeof *a->probs);
    for (;;) {
        if (graph_stop(&a->graph)) break;
        if ((status = apply_changes(a)) < 0) break;
        if (tokens_left(a) <= 0) break; // possible after changed settings
        // Damaged weights give NaN, from which the sampler would pick token 0 every time.
        const char *damage = logits_damage(logits_now(a), vocab);
        if (damage) {
            graph_fail(&a->graph, "the model computed %s for token %lld: %s", damage,
                       (long long)a->sequence.n, DAMAGED);
            status = -1;
            break;
        }
        model_bar_tokens(m, logits_now(a));
        const bool forced = a->ids.count < a->options->forced_count;
        const int32_t id = forced ? a->options->forced[a->ids.count]
                                  : sampler_pick(a->settings, logits_now(a), vocab, a->sequence.ids,
                                                 (size_t)a->sequence.n, (uint64_t)a->sequence.n);
        if (!forced && model_is_eos(m, id) && !settings_flag(a->settings, "sample.ignore_eos")) {
            a->stop = "eos";
            break;
        }
        ids_add(&a->ids, id);
        sequence_append(&a->sequence, id);
        const bool last =
            (int64_t)a->ids.count >= settings_integer(a->settings, "sample.max_tokens") ||
            tokens_left(a) <= 0;
        answer_put_mark(m, id, &text);
        detokenizer_push(&words, id, &text);
        // The last token's event also has the text held back so far, including incomplete
        // characters.
        if (last) detokenizer_finish(&words, &text);
        emit_token(a, id, &text, last);
        if (last) break;
        if ((status = step(a)) < 0) break;
    }
    if (a->graph.cancelled) {
        a->stop = "cancelled";
        status = 0;
    }
    drop_drafts(a);
    lookahead_judge(&a->lookahead, a->drafts, a->row);
    detokenizer_finish(&words, &text); // a second call adds nothing
    if (text.length || a->thinking.held.length) emit_token(a, -1, &text, true);
    buf_release(&text);
    detokenizer_release(&words);
    // Recomputed rows count as prefill.
    a->decode_s = clock_seconds() - start - (a->prefill_s + a->vision_s - before);
    return status;
}

// Reports the answer; with `keep` appends it as the assistant's message.
static void conclude(struct answering *a, bool keep)
{
    const struct thinking_text *t = &a->thinking;
    const char *text = t->answer.data ? t->answer.data : "";
    const char *whole = a->whole.data ? a->whole.data : "";
    const bool unended = t->state == THINKING_INSIDE;
    struct boxes boxes;
    const int boxed =
        conversation_boxes(a->c, a->c->message_count, text, &a->ids, a->settings, NULL, &boxes);
    int64_t visual = 0;
    for (int64_t i = 0; i < a->prompt; i++) visual += a->sequence.picture[i] >= 0;
    const struct event_answer answer = {
        .text = text,
        .reasoning = t->reasoning.data ? t->reasoning.data : "",
        .whole = whole,
        .unended = unended && a->opened ? a->opened->open : NULL,
        .reasoning_tokens = (int64_t)a->reasoning_tokens,
        .ids = a->ids.data,
        .count = a->ids.count,
        .prompt_tokens = a->prompt,
        .visual_tokens = visual,
        .computed_tokens = a->prompt - a->reused,
        .drafted = a->lookahead.drafted,
        .accepted = a->lookahead.accepted,
        .vision_s = a->vision_s,
        .prefill_s = a->prefill_s,
        .decode_s = a->decode_s,
        .stop = a->stop,
        .full = !strcmp(a->stop, "length") && !a->options->forward_only && tokens_left(a) <= 0,
        .in_conversation = keep && a->options->in_conversation,
        .again = a->options->again,
        .boxes = &boxes,
        .boxed = boxed,
    };
    if (keep) {
        struct message *m = conversation_add(a->c, ROLE_ASSISTANT);
        message_add_text(m, whole);
        if (a->reasoning_tokens)
            message_set_reasoning(m, answer.reasoning, answer.reasoning_tokens,
                                  strlen(whole) - strlen(text));
        m->generated = true;
        ids_append(&m->ids, a->ids.data, a->ids.count);
    }
    sinks_emit(a->sinks, &(struct event){ .kind = EVENT_ANSWER, .answer = &answer });
    if (answer.in_conversation && answer.full) {
        char raise[80];
        sinks_notice(a->sinks,
                     "the answer hit the context limit (%lld tokens); to continue: /undo, /clear%s",
                     (long long)conversation_limit(a->c->model, a->settings),
                     conversation_raise(a->c->model, a->settings, raise, sizeof raise));
    }
    if (answer.in_conversation && unended && !answer.full && strcmp(a->stop, "cancelled") != 0)
        sinks_notice(a->sinks,
                     strcmp(a->stop, "length")
                         ? "the model stopped within its reasoning, so the answer is empty: /regen "
                           "answers again, /set screen.reasoning show shows reasoning"
                         : "the reasoning was cut off before an answer: raise sample.max_tokens");
    if (a->options->forward_only && strcmp(a->stop, "cancelled"))
        sinks_notice(a->sinks, "computed %lld token%s (%lld visual) in %.2f s, generated none",
                     (long long)a->prompt, a->prompt == 1 ? "" : "s", (long long)visual,
                     a->vision_s + a->prefill_s);
    boxes_release(&boxes);
}

int answer_run(struct conversation *c, const struct settings *settings, const struct hooks *hooks,
               const atomic_bool *cancel, const struct answer_options *options,
               const struct sinks *sinks, bool *answered, struct err *err)
{
    struct answering a = {
        .c = c,
        .settings = settings,
        .options = options,
        .sinks = sinks,
        .stop = "length",
        .graph = conversation_graph(c, settings, hooks, cancel),
    };
    apply_settings(&a);
    *answered = false;
    int status = conversation_sequence(c, c->message_count, settings, true, &a.sequence, err);
    if (status == 0) status = check_length(&a, err);
    if (status < 0) goto out;
    a.prompt = a.sequence.prompt = a.sequence.n;
    a.opened = answer_opened(c->model, &a.sequence);
    thinking_start(&a.thinking, &c->model->thinking, a.opened);
    if (options->whole) conversation_stale(c, STALE_VISUAL);
    if (options->sequence) options->sequence(options->self, &a.sequence);
    status = prefill(&a, &a.reused);
    if (status == 0 && !options->forward_only) status = generate(&a);
    if (a.graph.cancelled) {
        a.stop = "cancelled";
        status = 0;
    }
    if (status < 0) {
        err_set(err, "%s", a.graph.err.text);
        goto out;
    }
    *answered = options->forward_only ? !a.graph.cancelled : a.ids.count || !a.graph.cancelled;
    conclude(&a, *answered && !options->forward_only);
out:
    free(a.logits);
    free(a.probs);
    thinking_release(&a.thinking);
    buf_release(&a.whole);
    lookahead_release(&a.lookahead);
    ids_release(&a.ids);
    sequence_release(&a.sequence);
    return status;
}

void answer_note_cancelled(void *cancelled, const struct event *e)
{
    if (e->kind == EVENT_ANSWER) *(bool *)cancelled = !strcmp(e->answer->stop, "cancelled");
}
