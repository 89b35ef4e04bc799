// core/probes/passes.c -- passes over one prompt and answer, each with one change, and names of
// positions.
#include "core/probes/passes.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/file_in.h"
#include "core/graph/tape.h"
#include "core/methods/sinks.h"
#include "core/model/layer.h"
#include "core/model/pass.h"
#include "core/model/visual.h"
#include "core/ops/ops.h"
#include "core/picture/boxes.h"
#include "core/picture/image.h"
#include "core/probes/kit.h"
#include "core/probes/masks.h"
#include "core/probes/measure_parts.h"
#include "core/template/message.h"
#include "core/template/template.h"

// --- passes --------------------------------------------------------------------------------------

// True if a pass can continue after the cached rows of an earlier pass: no method is on, and every
// layer caches keys and values by row.
static bool continues(const struct passing *p)
{
    const struct decoder_config *c = &p->m->model->decoder.config;
    for (int l = 0; l < c->layers; l++)
        if (decoder_attention(c, l)->cached(c, l).k[0] == 0) return false;
    return !methods_on(&p->methods);
}

// --- passes that begin at a layer ----------------------------------------------------------------

static struct tensor *begin_part(const struct decoder_part *part, struct graph *g,
                                 const struct pass **p, struct tensor *h)
{
    return h;
}

static struct tensor *end_part(const struct decoder_part *part, struct graph *g, struct tensor *x,
                               int64_t columns)
{
    return x;
}

// True if a layer can begin with the rows that it read in the pass kept last.
static bool resumes(const struct passing *p)
{
    const struct decoder *d = &p->m->model->decoder;
    return p->stream && !d->part && !d->config.sharing && !d->config.layer_input && continues(p);
}

// Runs the rows from `from` on, beginning at a layer. Returns h [n,D]; NULL after a failure.
static struct tensor *run_layers(struct passing *p, int64_t from, int layer)
{
    struct graph *g = &p->graph;
    const struct sequence *s = &p->sequence;
    const int64_t width = p->m->model->decoder.config.hidden;
    struct decoder_part part = { .first_layer = layer,
                                 .end_layer = p->m->model->decoder.config.layers,
                                 .last = true,
                                 .receive = begin_part,
                                 .broadcast = end_part };
    struct decoder rest = p->m->model->decoder;
    struct tensor *last = NULL;
    rest.part = &part;
    model_pass(p->m->model, s->pictures);
    g->visual = p->visual; // for DeepStack, as splice sets it
    struct tensor *h = graph_upload(g, DTYPE_F32, 2, (int64_t[]){ s->n - from, width },
                                    p->stream + (layer * s->n + from) * width);
    if (!h || decoder_forward(g, &rest, &p->kv, s, h, LOGITS_HIDDEN, true, &last) < 0) return NULL;
    return graph_ok(g) ? last : NULL;
}

static bool stream_wants(void *self, const struct site *site, int layer)
{
    return site == SITE_LAYER_IN;
}

static int keep_stream(void *self, const struct site *site, const struct site_args *args,
                       struct err *err)
{
    const struct passing *p = self;
    const int64_t width = args->x->shape[1];
    const float *x = args->x->data; // [m,D]
    for (int64_t i = 0; i < args->x->shape[0]; i++)
        memcpy(p->stream + (args->layer * p->sequence.n + site_row(args, i)) * width, x + i * width,
               (size_t)width * sizeof *x);
    return 0;
}

static void forget_stream(struct passing *p)
{
    free(p->stream);
    p->stream = NULL;
    p->keeping = false;
    p->prefix = -1;
}

void passes_keep(struct passing *p)
{
    const struct decoder_config *c = &p->m->model->decoder.config;
    if (!p->stream)
        p->stream = malloc((size_t)(c->layers * p->sequence.n * c->hidden) * sizeof *p->stream);
    p->keeping = p->stream != NULL; // without the memory, passes run all layers
}

// True if a row's rounding depends on the number of rows in a pass even when they are many: an
// expert multiplies few or many of them, and latents are absorbed or not.
static bool rounds_together(const struct passing *p)
{
    const struct decoder_config *c = &p->m->model->decoder.config;
    for (int l = 0; l < c->layers; l++)
        if (decoder_ffn(c, l) == &ffn_experts || decoder_ffn(c, l) == &ffn_softmax_experts ||
            (decoder_ffn(c, l) == &ffn_beside_experts && c->experts.beside) ||
            decoder_attention(c, l) == &attention_latent)
            return true;
    return false;
}

// --- whole passes --------------------------------------------------------------------------------

// Runs the rows of s that the cache lacks, from `from` on; kv NULL: without a cache. Returns h
// [n,D]; NULL after a failure.
static struct tensor *run_rows(struct passing *p, struct kv *kv, const struct sequence *s,
                               int64_t from)
{
    struct graph *g = &p->graph;
    const struct decoder *d = &p->m->model->decoder;
    struct tensor *h, *last = NULL;
    model_pass(p->m->model, s->pictures);
    h = splice(g, d, s, from, p->visual, (const float *const *)p->focus, (int)p->c->picture_count);
    if (!h || decoder_forward(g, d, kv, s, h, LOGITS_HIDDEN, true, &last) < 0) return NULL;
    return graph_ok(g) ? last : NULL;
}

static int run_prefix(struct passing *p, int64_t rows)
{
    struct sequence s;
    const struct arena_mark mark = arena_mark(&p->arena);
    kv_clear(&p->kv);
    methods_trim(&p->methods, 0);
    p->prefix = rows;
    if (!rows) return 0;
    sequence_copy(&s, &p->sequence);
    sequence_trim(&s, rows);
    s.prompt = 0;
    const int status = run_rows(p, &p->kv, &s, 0) ? 0 : -1;
    arena_reset(&p->arena, mark);
    sequence_release(&s);
    return status;
}

// Computes the answer's log-probabilities from the last rows of h; no method drops rows of text.
// `weight` [tokens of the answer]: their factors in the backward pass; NULL: no backward pass.
static int answer_logp(struct passing *p, struct tensor *h, const float *weight, double *logp)
{
    struct graph *g = &p->graph;
    const struct decoder *d = &p->m->model->decoder;
    const struct sequence *s = &p->sequence;
    const int64_t answer = s->n - s->prompt;
    float *loss = xcalloc((size_t)answer + 1, 2 * sizeof *loss), *of_loss = loss + answer;
    for (int64_t t = 0; t < answer && weight; t++) of_loss[t] = -weight[t];
    struct tensor *x = graph_rows(g, h, h->shape[0] - answer - 1, answer);
    x = op_rmsnorm(g, x, graph_weight(&d->norm), (float)d->config.eps);
    const int status = op_cross_entropy(g, x, graph_weight(&d->head), (float)d->config.logit_cap,
                                        s->ids + s->prompt, of_loss, loss);
    for (int64_t t = 0; t < answer; t++) logp[t] = -(double)loss[t];
    free(loss);
    return status;
}

// Calls `take` with the answer's logits, row by row.
static int answer_logits(struct passing *p, struct tensor *h, passes_logits_fn take, void *self)
{
    struct graph *g = &p->graph;
    const struct sequence *s = &p->sequence;
    const int64_t answer = s->n - s->prompt, first = h->shape[0] - answer - 1;
    float *row = xreallocarray(NULL, (size_t)p->m->model->decoder.config.vocab, sizeof *row);
    for (int64_t t = 0; t < answer && graph_ok(g); t++) {
        const struct arena_mark mark = arena_mark(&p->arena);
        struct tensor *x =
            decoder_logits(g, &p->m->model->decoder, graph_rows(g, h, first + t, 1)); // [1,V]
        if (x && graph_ok(g)) {
            graph_download(g, row, x);
            take(self, t, row);
        }
        arena_reset(&p->arena, mark);
    }
    free(row);
    return graph_ok(g) ? 0 : -1;
}

// Receives the answer's log-probabilities, or its logits.
struct receiver {
    double *logp; // NULL: logits
    passes_logits_fn take;
    void *self;
};

// Returns the number of rows that the cache provides to a pass that changes rows from `from` on.
// Unless this is 0, both the cached and the computed rows are many, because passes of few rows
// round differently.
static int64_t prefix_of(const struct passing *p, int64_t from)
{
    const struct sequence *s = &p->sequence;
    const int64_t many = backend_many_rows(p->m->backend);
    int64_t first = s->prompt - 1 < from ? s->prompt - 1 : from;
    if (first > s->n - many) first = s->n - many;
    if (!continues(p) || first < many) return 0;
    first = pass_start(&p->m->model->decoder.config, s, first);
    return first < many ? 0 : first;
}

static int run(struct passing *p, const struct hook *hook, int64_t from, int layer,
               struct receiver to, struct err *err)
{
    const bool keeping = p->keeping;
    // Rows that do not change must keep their bits.
    if (p->stream && !keeping && rounds_together(p)) from = p->kept_from;
    const int64_t prefix = prefix_of(p, from);
    const int hooks = p->hooks.count;
    int status = 0;
    // A longer unchanged prefix in the cache serves too: kv_trim below keeps its first rows.
    if (p->prefix < prefix || !prefix) status = run_prefix(p, prefix);
    p->prefix = prefix;
    kv_trim(&p->kv, prefix);
    if (hook) hooks_add(&p->hooks, hook);
    if (keeping)
        hooks_add(&p->hooks,
                  &(struct hook){ .wants = stream_wants, .take = keep_stream, .self = p });
    p->keeping = false;
    const struct arena_mark mark = arena_mark(&p->arena);
    struct tensor *h = NULL;
    if (status == 0)
        h = layer && resumes(p) ? run_layers(p, prefix, layer)
                                : run_rows(p, &p->kv, &p->sequence, prefix);
    if (!h || (to.take && answer_logits(p, h, to.take, to.self) < 0) ||
        (to.logp && answer_logp(p, h, NULL, to.logp) < 0))
        status = -1;
    arena_reset(&p->arena, mark);
    p->hooks.count = hooks;
    if (keeping) {
        p->prefix = status == 0 ? p->sequence.n : -1; // nothing was changed
        p->kept_from = prefix;
    }
    return status < 0 ? pass_failed(p, err) : 0;
}

int passes_gradient(struct passing *p, const struct hook *hook, const float *weight, double *logp,
                    struct err *err)
{
    // The backward pass recomputes the layers that do not fit in `keep` bytes.
    struct tape tape = { .backend = p->m->backend, .recompute = true, .keep = (size_t)1 << 30 };
    const int hooks = p->hooks.count;
    int status = run_prefix(p, 0);
    const struct arena_mark mark = arena_mark(&p->arena);
    hooks_add(&p->hooks, hook);
    p->graph.tape = &tape;
    struct tensor *h = status == 0 ? run_rows(p, NULL, &p->sequence, 0) : NULL;
    if (!h || answer_logp(p, h, weight, logp) < 0 || tape_backward(&p->graph) < 0) status = -1;
    p->graph.tape = NULL;
    tape_release(&tape);
    arena_reset(&p->arena, mark);
    p->hooks.count = hooks;
    return status < 0 ? pass_failed(p, err) : 0;
}

int passes_run(struct passing *p, const struct hook *hook, int64_t from, double *logp,
               struct err *err)
{
    return run(p, hook, from, 0, (struct receiver){ .logp = logp }, err);
}

int passes_run_layers(struct passing *p, const struct hook *hook, int64_t from, int layer,
                      double *logp, struct err *err)
{
    return run(p, hook, from, layer, (struct receiver){ .logp = logp }, err);
}

int passes_run_logits(struct passing *p, const struct hook *hook, int64_t from,
                      passes_logits_fn take, void *self, struct err *err)
{
    return run(p, hook, from, 0, (struct receiver){ .take = take, .self = self }, err);
}

int passes_texts(struct passing *p, const struct ids *ids, const size_t *lengths, size_t count,
                 const struct hook *hook, struct err *err)
{
    struct sequence *texts = xcalloc(count + 1, sizeof *texts), all;
    const struct sequence **list = xcalloc(count + 1, sizeof *list);
    size_t *pictures = xcalloc(count + 1, sizeof *pictures);
    for (size_t k = 0, at = 0; k < count; at += lengths[k++]) {
        sequence_init(&texts[k], (int64_t)lengths[k], p->sequence.axes);
        memcpy(texts[k].ids, ids->data + at, lengths[k] * sizeof *texts[k].ids);
        texts[k].pictures = p->sequence.pictures;
        list[k] = &texts[k];
    }
    sequence_join(&all, list, pictures, count);
    struct hooks listeners = { 0 };
    hooks_add(&listeners, hook);
    p->graph.hooks = &listeners;
    const struct arena_mark mark = arena_mark(&p->arena);
    const bool done = run_rows(p, NULL, &all, 0);
    arena_reset(&p->arena, mark);
    p->graph.hooks = &p->hooks;
    sequence_release(&all);
    for (size_t k = 0; k < count; k++) sequence_release(&texts[k]);
    free(texts);
    free(list);
    free(pictures);
    return done ? 0 : pass_failed(p, err);
}

int passes_compute(struct passing *p, int (*ops)(void *self, struct graph *g), void *self,
                   struct err *err)
{
    const struct arena_mark mark = arena_mark(&p->arena);
    const int status = ops(self, &p->graph);
    arena_reset(&p->arena, mark);
    return status < 0 || graph_stop(&p->graph) ? pass_failed(p, err) : 0;
}

// --- other visual tokens -------------------------------------------------------------------------

int passes_check(struct passing *p, struct err *err)
{
    return graph_stop(&p->graph) ? pass_failed(p, err) : 0;
}

static float *tokens_of(struct passing *p, const struct tensor *visual)
{
    float *host = xcalloc((size_t)tensor_count(visual) + 1, sizeof *host);
    graph_download(&p->graph, host, visual);
    return host;
}

static float *copy_focus(const float *focus, int64_t tokens)
{
    const size_t size = (size_t)tokens * sizeof *focus;
    return focus ? memcpy(xmalloc(size), focus, size) : NULL;
}

float *passes_visual(struct passing *p, int picture, int64_t *rows, int64_t *width, float **focus,
                     struct err *err)
{
    const struct tensor *visual = p->visual[picture];
    if (focus) *focus = NULL;
    if (!visual) {
        err_set(err, "the prompt does not show picture %d", picture);
        return NULL;
    }
    *rows = visual->shape[0];
    *width = visual->shape[1];
    if (focus) *focus = copy_focus(p->focus[picture], *rows);
    return tokens_of(p, visual);
}

// Decodes a file, which must have the size of the picture that it replaces, and copies that
// picture's division into tokens.
static int open_picture(struct passing *p, int picture, const char *path, struct picture *to,
                        struct err *err)
{
    const struct picture *now = &p->c->pictures[picture];
    size_t size;
    char *bytes = file_read(path, IMAGE_MAX_FILE, &size, err);
    int status = bytes ? picture_decode(to, NULL, path, bytes, size, err) : -1;
    free(bytes);
    if (status < 0) return -1;
    if (to->image.width != now->image.width || to->image.height != now->image.height)
        return err_set(err,
                       "'%s' has %lld x %lld pixels, but must replace a picture of %lld x %lld: "
                       "positions would differ",
                       path, (long long)to->image.width, (long long)to->image.height,
                       (long long)now->image.width, (long long)now->image.height);
    to->shape = now->shape;
    to->tokens = now->tokens;
    to->newline = now->newline, to->newline_step = now->newline_step;
    to->part_tokens = now->part_tokens, to->part_cols = now->part_cols;
    to->part_first = now->part_first;
    return 0;
}

float *passes_encode(struct passing *p, int picture, const char *path, float **focus,
                     struct err *err)
{
    struct picture other = { 0 };
    float *tokens = NULL, *seen;
    *focus = NULL;
    if (open_picture(p, picture, path, &other, err) == 0) {
        const struct arena_mark mark = arena_mark(&p->arena);
        struct tensor *v = visual_encode(&p->graph, p->m->model, &other, picture, &seen);
        if (v && graph_ok(&p->graph)) {
            tokens = tokens_of(p, v);
            *focus = copy_focus(seen, v->shape[0]);
        } else {
            pass_failed(p, err);
        }
        arena_reset(&p->arena, mark);
    }
    picture_release(&other);
    return tokens;
}

// Drops the tokens that passes show for a picture.
static void drop_tokens(struct passing *p, int picture)
{
    if (p->ours[picture]) { // else the conversation's
        visual_free(p->m->backend, p->visual[picture]);
        free(p->focus[picture]);
    }
    p->visual[picture] = NULL;
    p->focus[picture] = NULL;
    p->ours[picture] = false;
    forget_stream(p);
}

int passes_show(struct passing *p, int picture, const float *tokens, const float *focus,
                struct err *err)
{
    const struct arena_mark mark = arena_mark(&p->arena);
    const struct tensor *now = p->visual[picture];
    struct tensor *v = graph_upload(&p->graph, DTYPE_F32, now->rank, now->shape, tokens);
    struct tensor *kept = v ? visual_keep(&p->graph, v) : NULL;
    arena_reset(&p->arena, mark);
    if (!kept) return pass_failed(p, err);
    float *seen = copy_focus(focus ? focus : p->focus[picture], now->shape[0]);
    drop_tokens(p, picture);
    p->visual[picture] = kept;
    p->focus[picture] = seen;
    p->ours[picture] = true;
    return 0;
}

int passes_restore(struct passing *p, int picture, struct err *err)
{
    drop_tokens(p, picture);
    return pass_encode_pictures(p, false) < 0 ? pass_failed(p, err) : 0;
}

// --- another question ----------------------------------------------------------------------------

// Returns the content of a question with `text` in place of its texts; pictures stay.
static struct content_item *ask_text(const struct message *question, char *text, size_t *count)
{
    struct content_item *content = xcalloc(question->content_count + 1, sizeof *content);
    bool asked = false;
    *count = 0;
    for (size_t i = 0; i < question->content_count; i++) {
        const struct content_item *item = &question->content[i];
        if (item->text && asked) continue;
        asked = asked || item->text;
        content[*count] = *item;
        if (item->text) content[*count].text = text;
        (*count)++;
    }
    if (!asked) content[(*count)++] = (struct content_item){ .text = text, .picture = -1 };
    return content;
}

// Makes the prompt of the messages with the passes' settings.
static int ask_sequence(const struct passing *p, const struct message *messages, struct sequence *s,
                        struct err *err)
{
    struct prompt_options options;
    if (model_prompt(p->m->model, p->m->settings, true, &options, err) < 0) return -1;
    return prompt_sequence(messages, p->where.message_count, p->c->pictures, p->c->picture_count,
                           p->m->model->tokenizer, &options, s, err);
}

// Copies the ids in which two prompts differ to the passes' sequence.
static int take_ids(struct passing *p, const struct sequence *now, const struct sequence *asked,
                    int64_t *first, struct err *err)
{
    if (asked->n != now->n)
        return err_set(err,
                       "the prompt has %lld tokens with this question, %lld with the "
                       "conversation's: positions would differ (/tokenize TEXT counts tokens)",
                       (long long)asked->n, (long long)now->n);
    *first = p->sequence.n;
    for (int64_t i = now->n - 1; i >= 0; i--) {
        if (asked->picture[i] != now->picture[i])
            return err_set(err, "this question moves the picture: positions would differ");
        if (asked->ids[i] == now->ids[i] || i >= p->sequence.prompt) continue;
        p->sequence.ids[i] = asked->ids[i];
        *first = i;
    }
    forget_stream(p);
    return 0;
}

int passes_ask(struct passing *p, const char *text, int64_t *first, struct err *err)
{
    const size_t count = p->where.message_count;
    struct message *messages = xcalloc(count + 1, sizeof *messages), *last = NULL;
    struct sequence now = { 0 }, asked = { 0 };
    for (size_t i = 0; i < count; i++) {
        messages[i] = p->c->messages[i];
        if (messages[i].role == ROLE_USER) last = &messages[i];
    }
    if (!last) {
        free(messages);
        return err_set(err, "the conversation has no question");
    }
    int status = ask_sequence(p, messages, &now, err);
    if (status == 0) {
        size_t items;
        char *copy = xstrdup(text);
        last->content = ask_text(last, copy, &items);
        last->content_count = items;
        status = ask_sequence(p, messages, &asked, err);
        if (status == 0) status = take_ids(p, &now, &asked, first, err);
        free(last->content);
        free(copy);
    }
    sequence_release(&now);
    sequence_release(&asked);
    free(messages);
    return status;
}

// --- the model, progress -------------------------------------------------------------------------

void passes_use(struct passing *p, const struct model *m)
{
    const struct measuring *own = p->own ? p->own : p->m;
    p->with = *own;
    if (m) p->with.model = m;
    p->own = m ? own : NULL;
    p->m = m ? &p->with : own;
    forget_stream(p);
}

const struct measuring *passes_measuring(const struct passing *p)
{
    return p->m;
}

const struct conversation *passes_conversation(const struct passing *p)
{
    return p->c;
}

void passes_progress(struct passing *p, int64_t done, int64_t all)
{
    if (p->m->sinks) sinks_progress(p->m->sinks, &p->pace, "measuring", (double)done, (double)all);
}

// --- attention sinks -----------------------------------------------------------------------------

struct sink_rows {
    const struct passing *p;
    bool *rows;
    float *dims; // [L,2] sink dimensions; NULL: the two largest of the first token
    int layer;
};

static bool sink_wants(void *self, const struct site *site, int layer)
{
    const struct sink_rows *s = self;
    return site == SITE_LAYER_IN && (layer < 0 || layer == s->layer);
}

static int sink_take(void *self, const struct site *site, const struct site_args *args,
                     struct err *err)
{
    const struct sink_rows *s = self;
    const struct decoder_config *c = &s->p->m->model->decoder.config;
    const float *h = args->x->data; // [N,D]
    int dims[2];
    for (int i = 0; i < 2 && s->dims; i++) dims[i] = (int)s->dims[2 * s->layer + i];
    if (!s->dims) sinks_top(h, c->hidden, dims);
    for (int64_t i = 0; i < args->x->shape[0]; i++)
        s->rows[site_row(args, i)] = sinks_phi(h + i * c->hidden, c->hidden, c->eps, dims, 2) >
                                     sinks_tau(s->p->m->settings, c->hidden);
    return 0;
}

// Finds sinks by phi at the input of the middle layer, or of the layer with attention nearest to
// it, like /sinks without options.
static int find_sinks(void *self, bool *rows, struct err *err)
{
    struct passing *p = self;
    const struct model *m = p->m->model;
    struct sink_rows s = { .p = p, .rows = rows };
    s.layer = decoder_attending(&m->decoder.config, probe_middle(m));
    if (sinks_calibrated(p->m->settings, m, &s.dims, err) < 0) return -1;
    const int hooks = p->hooks.count;
    const struct arena_mark mark = arena_mark(&p->arena);
    hooks_add(&p->hooks, &(struct hook){ .wants = sink_wants, .take = sink_take, .self = &s });
    int status = pass_encode_pictures(p, false);
    if (status == 0) status = run_prefix(p, 0);
    if (status == 0 && !run_rows(p, &p->kv, &p->sequence, 0)) status = -1;
    if (status < 0) pass_failed(p, err);
    arena_reset(&p->arena, mark);
    p->hooks.count = hooks;
    run_prefix(p, 0);
    p->prefix = -1;
    free(s.dims);
    return status;
}

// --- objects -------------------------------------------------------------------------------------

// Marks the boxes in the last answer whose labels contain the name; returns their number.
static int find_box(struct passing *p, const char *name, int *picture, struct image *mask)
{
    const struct message *last = conversation_last(p->c);
    struct boxes b = { 0 };
    int found = 0;
    if (!last || last->role != ROLE_ASSISTANT) return 0;
    char *text = message_text(last);
    *picture = conversation_boxes(p->c, p->c->message_count - 1, text + last->answer_at, &last->ids,
                                  p->m->settings, NULL, &b);
    free(text);
    for (size_t i = 0; i < b.count && *picture >= 0; i++) {
        const struct picture_box *box = &b.list[i];
        const struct image *image = &p->c->pictures[*picture].image;
        if (!strcasestr(box->label, name)) continue;
        if (!found++) {
            *mask = (struct image){ .width = image->width, .height = image->height, .channels = 3 };
            mask->pixels = xcalloc((size_t)(mask->width * mask->height), 3);
        }
        for (int64_t y = (int64_t)box->y; y < mask->height && (double)y <= box->y + box->h; y++)
            for (int64_t x = (int64_t)box->x; x < mask->width && (double)x <= box->x + box->w; x++)
                memset(mask->pixels + 3 * (y * mask->width + x), 255, 3);
    }
    boxes_release(&b);
    return found;
}

// Finds an object: a box in the answer, else an object that --objects lists for --picture or the
// prompt's last picture.
static int find_object(void *self, const char *name, int *picture, struct image *mask,
                       struct err *err)
{
    struct passing *p = self;
    const struct probe_options *o = p->m->options;
    if (find_box(p, name, picture, mask)) return 0;
    *picture = -1;
    for (int64_t i = 0; i < p->sequence.prompt; i++)
        if (p->sequence.picture[i] > *picture) *picture = p->sequence.picture[i];
    if (o->picture >= 0) *picture = o->picture;
    if (*picture < 0) return err_set(err, "'object %s': the prompt has no picture", name);
    if (!o->objects)
        return err_set(err,
                       "'object %s': the answer has no box of that name; --objects FILE names the "
                       "objects of pictures, as the objects.jsonl of /scenes does",
                       name);
    const struct picture *shown = &p->c->pictures[*picture];
    const struct masks_query query = { .picture = shown->path ? shown->path : "",
                                       .text = name,
                                       .width = (double)shown->image.width,
                                       .height = (double)shown->image.height,
                                       .boxes = o->object_boxes,
                                       .named = true };
    return masks_read(o->objects, &query, mask, err);
}

// --- names of positions --------------------------------------------------------------------------

// Removes the template's text after a given answer, because it is not part of the answer.
static int trim_answer(struct passing *p, const struct message *last, struct err *err)
{
    struct prompt_text *texts;
    size_t count;
    int64_t end = p->sequence.prompt;
    if (!last || last->role != ROLE_ASSISTANT || last->generated) return 0;
    if (conversation_texts(p->c, p->c->message_count, p->m->settings, false, &texts, &count, err) <
        0)
        return -1;
    for (size_t i = 0; i < count; i++)
        if (texts[i].message + 1 == p->c->message_count && texts[i].end > end) end = texts[i].end;
    sequence_trim(&p->sequence, end);
    free(texts);
    return 0;
}

int pass_find_positions(struct passing *p, struct probe_env *env, struct err *err)
{
    const struct message *last = conversation_last(p->c);
    const size_t messages = p->c->message_count - (last && last->role == ROLE_ASSISTANT);
    p->where = (struct positions_env){ .model = p->m->model,
                                       .sequence = &p->sequence,
                                       .pictures = p->c->pictures,
                                       .picture_count = p->c->picture_count,
                                       .messages = p->c->messages,
                                       .message_count = messages,
                                       .object = find_object,
                                       .sinks = find_sinks,
                                       .self = p };
    p->prefix = -1;
    env->where = &p->where;
    const int status = conversation_texts(p->c, messages, p->m->settings, true, &p->texts,
                                          &p->where.text_count, err);
    p->where.texts = p->texts;
    return status == 0 ? trim_answer(p, last, err) : -1;
}

int64_t probe_positions(const struct probe_env *env, const char *text, bool *rows, struct err *err)
{
    struct positions names;
    if (positions_parse(&names, text, err) < 0) return -1;
    const int64_t count = positions_rows(&names, env->where, rows, err);
    positions_release(&names);
    return count;
}
