// core/stages/stages.c -- messages between the stages of a pass.
//
// A message is a header and, unless the header reports a failure or that the pass was cancelled,
// its data. Headers of a pass identify its tokens, so that a stage with different files fails
// before it computes anything.
#include "core/stages/stages.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/hash.h"
#include "core/base/mem.h"
#include "core/files/safetensors.h"
#include "core/model/families/family.h"
#include "core/model/pass.h"

// --- splitting the layers ------------------------------------------------------------------------

// most[k * (layers + 1) + l]: bytes of the largest of stages 0 .. k in the best split of the layers
// before l over these stages.
void stages_split_layers(const double *bytes, int layers, double first, double last, int count,
                         int *from)
{
    const int width = layers + 1;
    double *sum = xcalloc((size_t)width, sizeof *sum);
    double *most = xcalloc((size_t)count * (size_t)width, sizeof *most);
    int *begin = xcalloc((size_t)count * (size_t)width, sizeof *begin); // first layer of stage k
    for (int l = 0; l < layers; l++) sum[l + 1] = sum[l] + bytes[l];
    for (int k = 0; k < count; k++) {
        for (int end = k + 1; end <= layers; end++) {
            double *best = &most[k * width + end];
            *best = -1;
            for (int at = k; at < end && (k || at == 0); at++) {
                double one = sum[end] - sum[at] + (k ? 0 : first) + (k == count - 1 ? last : 0);
                if (k && most[(k - 1) * width + at] > one) one = most[(k - 1) * width + at];
                if (*best >= 0 && one >= *best) continue;
                *best = one;
                begin[k * width + end] = at;
            }
        }
    }
    from[count] = layers;
    for (int k = count - 1; k >= 0; k--) from[k] = begin[k * width + from[k + 1]];
    free(sum);
    free(most);
    free(begin);
}

// --- headers -------------------------------------------------------------------------------------

enum about { ABOUT_PLAN, ABOUT_PASS, ABOUT_RESULT, ABOUT_AGREEMENT, ABOUT_LEAST };
enum { TO_NEXT, FROM_LAST, TAGS }; // message tags of a conversation

struct header {
    int32_t about, failed, cancelled;
    uint64_t what, bytes; // what: must be equal in all stages; bytes: of data that follow
    struct err why;
};

static uint64_t digest(const struct sequence *q)
{
    uint64_t key = (uint64_t)q->n;
    for (int64_t i = 0; i < q->n; i++) {
        hash_mix(&key, (uint64_t)q->ids[i]);
        hash_mix(&key, (uint64_t)q->picture[i]);
    }
    return key;
}

// Records a failure, prefixed with the rank unless it is the first stage.
static void fail(struct header *w, const struct stages *s, const char *text)
{
    w->failed = true;
    if (s->number)
        err_set(&w->why, "rank %d: %s", s->number, text);
    else
        err_set(&w->why, "%s", text);
}

static struct header header_of(const struct graph *g, const struct stages *s, enum about about,
                               uint64_t what)
{
    struct header w = { .about = about, .cancelled = g->cancelled, .what = what };
    if (g->failed && !g->failed_elsewhere) fail(&w, s, g->err.text);
    if (g->failed && g->failed_elsewhere) w.failed = true, w.why = g->err;
    return w;
}

// Receives another stage's header and merges it into w, this stage's own; the other stage's failure
// or cancellation takes precedence.
static void receive_header(const struct stages *s, int from, int tag, struct header *w)
{
    struct header theirs;
    ranks_receive(s->ranks, from, tag, &theirs, sizeof theirs);
    if (theirs.about != w->about)
        fatal("ranks %d and %d are out of step: every rank needs the same files", from, s->number);
    const bool good = !theirs.failed && !theirs.cancelled;
    w->bytes = good ? theirs.bytes : 0;
    if (good && w->what != theirs.what && !w->failed) {
        fail(w, s,
             "its tokens or pictures differ from the previous rank's: every rank needs the same "
             "files");
    } else if (!good) {
        w->failed = theirs.failed;
        w->cancelled = theirs.cancelled;
        w->why = theirs.why;
    }
}

// Receives the data after a header, even if this stage cannot use them.
static void receive_numbers(const struct stages *s, int from, int tag, struct header *w, void *data,
                            size_t size)
{
    if (!w->bytes) return;
    const bool fits = data && size == w->bytes;
    void *to = fits ? data : xmalloc(w->bytes);
    ranks_receive(s->ranks, from, tag, to, w->bytes);
    if (fits) return;
    free(to);
    if (w->failed) return;
    fail(w, s, "does not expect the data that the previous rank sent");
}

static void send_all(const struct stages *s, int to, int tag, struct header *w, const void *data,
                     size_t size)
{
    w->bytes = w->failed || w->cancelled ? 0 : size;
    ranks_send(s->ranks, to, tag, w, sizeof *w);
    ranks_send(s->ranks, to, tag, data, w->bytes);
}

// Applies the header's failure or cancellation to g.
static void apply_header(struct graph *g, const struct header *w)
{
    if (w->failed && !g->failed) {
        graph_fail(g, "%s", w->why.text);
        g->failed_elsewhere = true;
    }
    if (w->cancelled) g->cancelled = true;
}

static int tag_of(int conversation, int which)
{
    return conversation * TAGS + which;
}

// --- a pass --------------------------------------------------------------------------------------

const struct site SITE_SEND[1] = { { "SEND", HAS_ROWS, MAY_NOT,
                                     "NULL: a method notes data for the next process" } };
const struct site SITE_RECEIVE[1] = {
    { "RECEIVE", HAS_ROWS, MAY_NOT, "NULL: a method reads its note from the previous process" }
};

// Sent to the next stage before h: the sequence rows that methods kept, and the methods' notes.
struct plan {
    int32_t *rows; // [n]; NULL: all rows of the pass
    int64_t n;
    struct stage_note note;
};

// Parses ascending rows of q, then the note.
static int read_plan(struct plan *plan, const struct sequence *q, const char *data, size_t size)
{
    int64_t n;
    if (size < sizeof n) return -1;
    memcpy(&n, data, sizeof n);
    data += sizeof n;
    size -= sizeof n;
    if (n < 0 || n > q->n || (size_t)n > size / sizeof *plan->rows) return -1;
    plan->n = n;
    if (n) {
        plan->rows = xreallocarray(NULL, (size_t)n, sizeof *plan->rows);
        memcpy(plan->rows, data, (size_t)n * sizeof *plan->rows);
    }
    for (int64_t i = 0; i < n; i++)
        if (plan->rows[i] < (i ? plan->rows[i - 1] + 1 : 0) || plan->rows[i] >= q->n) return -1;
    const size_t rows = (size_t)n * sizeof *plan->rows;
    if (size > rows) buf_add(&plan->note.bytes, data + rows, size - rows);
    return 0;
}

static void run_site(struct graph *g, const struct site *site, const struct pass *p,
                     struct stage_note *note)
{
    struct site_args args = pass_site(p, -1, NULL);
    args.own = note;
    hooks_run(g, site, &args);
}

static struct tensor *receive_stage(const struct decoder_part *part, struct graph *g,
                                    const struct pass **p, struct tensor *h)
{
    const struct stages *s = (const struct stages *)part;
    const struct sequence *q = (*p)->sequence;
    const int tag = tag_of(g->conversation, TO_NEXT), from = s->number - 1;

    struct plan plan = { 0 };
    struct header w = header_of(g, s, ABOUT_PLAN, digest(q));
    receive_header(s, from, tag, &w);
    char *data = w.bytes ? xmalloc(w.bytes) : NULL;
    if (data) ranks_receive(s->ranks, from, tag, data, w.bytes);
    if (data && !w.failed && read_plan(&plan, q, data, w.bytes) < 0)
        fail(&w, s, "cannot use the data that the previous rank sent");
    free(data);
    apply_header(g, &w);
    if (plan.rows && graph_ok(g)) {
        const int64_t hidden = (*p)->config->hidden;
        *p = pass_of_rows(g, *p, plan.rows, plan.n);
        h = graph_new2(g, DTYPE_F32, plan.n, hidden);
    }

    // Receives the hidden state; a device with memory of its own gets it through host memory.
    w = header_of(g, s, ABOUT_PASS, digest(q));
    receive_header(s, from, tag, &w);
    const size_t size = h ? tensor_bytes(h) : 0;
    const bool direct = !g->backend->own_memory || !size;
    void *host = direct ? (h ? h->data : NULL) : xmalloc(size);
    receive_numbers(s, from, tag, &w, host, size);
    if (!direct && !w.failed && !w.cancelled) g->backend->upload(h->data, host, size);
    if (!direct) free(host);
    apply_header(g, &w);

    if (graph_ok(g) && *p) run_site(g, SITE_RECEIVE, *p, &plan.note);
    free(plan.rows);
    buf_release(&plan.note.bytes);
    return h;
}

static void send_stage(const struct decoder_part *part, struct graph *g, const struct pass *p,
                       const struct sequence *q, const struct tensor *h)
{
    const struct stages *s = (const struct stages *)part;
    const int tag = tag_of(g->conversation, TO_NEXT), to = s->number + 1;

    struct stage_note note = { 0 };
    struct buf b = { 0 };
    if (graph_ok(g) && p) run_site(g, SITE_SEND, p, &note);
    const int64_t n = graph_ok(g) && p && p->replaced ? p->n : 0;
    buf_add(&b, (const char *)&n, sizeof n);
    if (n) buf_add(&b, (const char *)p->rows, (size_t)n * sizeof *p->rows);
    if (note.bytes.length) buf_add(&b, note.bytes.data, note.bytes.length);
    struct header w = header_of(g, s, ABOUT_PLAN, digest(q));
    send_all(s, to, tag, &w, b.data, b.length);
    buf_release(&b);
    buf_release(&note.bytes);

    const size_t size = h ? (size_t)tensor_count(h) * sizeof(float) : 0;
    const bool direct = !size || (!g->backend->own_memory && h->dtype == DTYPE_F32);
    void *host = direct ? (h ? h->data : NULL) : xmalloc(size);
    if (!direct) graph_download(g, host, h);
    w = header_of(g, s, ABOUT_PASS, digest(q));
    send_all(s, to, tag, &w, host, size);
    if (!direct) free(host);
}

// Broadcasts the last stage's header and, unless that stage failed or was cancelled, the data.
static void send_to_all(const struct stages *s, int conversation, struct header *w, void *data,
                        size_t size)
{
    const int tag = tag_of(conversation, FROM_LAST), last = s->count - 1;
    if (s->number != last) {
        receive_header(s, last, tag, w);
        receive_numbers(s, last, tag, w, data, size);
        return;
    }
    for (int k = 0; k < last; k++) send_all(s, k, tag, w, data, size);
}

void stages_broadcast(struct graph *g, const struct stages *s, void *data, size_t size)
{
    if (!s) return;
    struct header w = header_of(g, s, ABOUT_RESULT, size);
    send_to_all(s, g->conversation, &w, data, size);
    apply_header(g, &w);
}

static struct tensor *broadcast(const struct decoder_part *part, struct graph *g, struct tensor *x,
                                int64_t columns)
{
    const struct stages *s = (const struct stages *)part;
    if (!columns) {
        stages_broadcast(g, s, NULL, 0);
        return x;
    }
    int64_t rows = part->last && x ? x->shape[0] : 0;
    stages_broadcast(g, s, &rows, sizeof rows);
    if (!graph_ok(g)) rows = 0;
    const size_t bytes = (size_t)(rows * columns) * sizeof(float);
    float *host = xmalloc(bytes + 1);
    if (part->last && graph_ok(g)) graph_download(g, host, x);
    stages_broadcast(g, s, host, bytes);
    if (!part->last)
        x = graph_ok(g) ? graph_upload(g, DTYPE_F32, 2, (int64_t[]){ rows, columns }, host) : NULL;
    free(host);
    return graph_ok(g) ? x : NULL;
}

// --- agreeing ------------------------------------------------------------------------------------

// Passes the header from the first stage to the last, and from there to all.
static void agree(const struct stages *s, int conversation, struct header *w)
{
    const int tag = tag_of(conversation, TO_NEXT);
    if (!s->part.first) receive_header(s, s->number - 1, tag, w);
    if (!s->part.last) send_all(s, s->number + 1, tag, w, NULL, 0);
    send_to_all(s, conversation, w, NULL, 0);
}

void stages_agree(struct graph *g, const struct stages *s, uint64_t what)
{
    if (!s) return;
    struct header w = header_of(g, s, ABOUT_AGREEMENT, what);
    agree(s, g->conversation, &w);
    apply_header(g, &w);
}

int stages_agree_status(const struct stages *s, int conversation, uint64_t what, int status,
                        struct err *err)
{
    struct header w = { .about = ABOUT_AGREEMENT, .what = what };
    if (!s) return status;
    if (status < 0) fail(&w, s, err->text);
    agree(s, conversation, &w);
    return w.failed ? err_set(err, "%s", w.why.text) : 0;
}

int64_t stages_least(const struct stages *s, int conversation, int64_t number)
{
    if (!s) return number;
    struct header w = { .about = ABOUT_LEAST };
    const int tag = tag_of(conversation, TO_NEXT);
    int64_t before = number;
    if (!s->part.first) {
        receive_header(s, s->number - 1, tag, &w);
        receive_numbers(s, s->number - 1, tag, &w, &before, sizeof before);
    }
    if (before < number) number = before;
    if (!s->part.last) send_all(s, s->number + 1, tag, &w, &number, sizeof number);
    send_to_all(s, conversation, &w, &number, sizeof number);
    return number;
}

// --- opening a model -----------------------------------------------------------------------------

// Returns the layer of a weight; -1 if none.
static int layer_of(const struct model *m, const char *tensor)
{
    char *common = decoder_common_name(m->decoder.config.kind, tensor), *end;
    const char *at = strstr(common, "layers.");
    const long layer = at ? strtol(at + strlen("layers."), &end, 10) : -1;
    const bool is_one = layer >= 0 && *end == '.' && layer < m->decoder.config.layers;
    free(common);
    return is_one ? (int)layer : -1;
}

static void release(struct decoder_part *part)
{
    free(part);
}

// Distributes layers by their size in the file; the first stage also holds the encoder, the
// projector and the embedding, the last one the head or the tied embedding.
static int choose_layers(const struct model_partition *partition, struct model *m, struct err *err)
{
    struct ranks *ranks = partition->self;
    const struct checkpoint *c = m->checkpoint;
    const int layers = m->decoder.config.layers, count = ranks_count(ranks),
              number = ranks_number(ranks);
    if (count > 1 && (m->decoder.config.sharing || m->decoder.config.layer_input))
        return err_set(err,
                       "the layers of this model cannot be split over %d ranks: each has inputs or "
                       "keys and values that the first layers compute; use one rank, or ranks that "
                       "each hold the whole model",
                       count);
    if (count > layers)
        return err_set(err, "the model has %d layers: at most that many ranks can share it",
                       layers);
    double *bytes = xcalloc((size_t)layers, sizeof *bytes), first = 0, last = 0;
    int *from = xcalloc((size_t)count + 1, sizeof *from);
    for (int64_t i = 0; i < c->tensor_count; i++) {
        const struct safetensor *t = c->tensors[i];
        const enum model_part_kind part = m->family->part(m, t->name);
        const int layer = part == PART_DECODER ? layer_of(m, t->name) : -1;
        if (layer >= 0) bytes[layer] += (double)t->bytes;
        if (part == PART_EMBEDDING || part == PART_VISION || part == PART_PROJECTOR)
            first += (double)t->bytes;
        if (part == PART_HEAD || (part == PART_EMBEDDING && m->decoder.config.tied))
            last += (double)t->bytes;
    }
    stages_split_layers(bytes, layers, first, last, count, from);
    struct stages *s = xcalloc(1, sizeof *s);
    *s = (struct stages){ .part = { .first_layer = from[number],
                                    .end_layer = from[number + 1],
                                    .first = number == 0,
                                    .last = number == count - 1,
                                    .receive = receive_stage,
                                    .send = send_stage,
                                    .broadcast = broadcast,
                                    .release = release },
                          .ranks = ranks,
                          .number = number,
                          .count = count };
    m->decoder.part = &s->part;
    free(from);
    free(bytes);
    return 0;
}

struct model_partition stages_partition(struct ranks *ranks)
{
    return (struct model_partition){ choose_layers, ranks };
}

const struct stages *stages_of(const struct decoder *d)
{
    return (const struct stages *)d->part;
}
