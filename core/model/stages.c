// core/model/stages.c -- what the stages of a pass tell one another.
//
// A message is a word, and after a word without a failure the numbers. Words say what they are
// about: stages that are not at the same pass over the same tokens (their files differ) notice it
// before they compute anything.
#include "core/model/stages.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"

// --- dealing -------------------------------------------------------------------------------------

// Bytes of the largest of the stages 0 .. k over the layers before l: most[k * (layers + 1) + l].
void stages_deal(const double *bytes, int layers, double first, double last, int count, int *from)
{
    const int width = layers + 1;
    double *sum = xcalloc((size_t)width, sizeof *sum);
    double *most = xcalloc((size_t)count * (size_t)width, sizeof *most);
    int *begin = xcalloc((size_t)count * (size_t)width, sizeof *begin); // of stage k
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

bool stages_first(const struct stages *s)
{
    return !s || s->number == 0;
}

bool stages_last(const struct stages *s)
{
    return !s || s->number == s->count - 1;
}

bool stages_has(const struct stages *s, int layer)
{
    return !s || (layer >= s->from && layer < s->to);
}

// --- words ---------------------------------------------------------------------------------------

enum about { ABOUT_PLAN, ABOUT_PASS, ABOUT_RESULT, ABOUT_AGREEMENT, ABOUT_LEAST };
enum { TO_NEXT, FROM_LAST, TAGS }; // of a flight

struct word {
    int32_t about, failed, cancelled;
    uint64_t what, bytes; // bytes that follow
    struct err why;
};

static void mix(uint64_t *key, uint64_t x)
{
    *key = (*key ^ x) * 0x9e3779b97f4a7c15u;
    *key ^= *key >> 29;
}

static uint64_t digest(const struct sequence *q)
{
    uint64_t key = (uint64_t)q->n;
    for (int64_t i = 0; i < q->n; i++) {
        mix(&key, (uint64_t)q->ids[i]);
        mix(&key, (uint64_t)q->picture[i]);
    }
    return key;
}

// Of a stage behind the first one it is said which.
static void fail(struct word *w, const struct stages *s, const char *text)
{
    w->failed = true;
    if (s->number)
        err_set(&w->why, "rank %d: %s", s->number, text);
    else
        err_set(&w->why, "%s", text);
}

static struct word word_of(const struct graph *g, const struct stages *s, enum about about,
                           uint64_t what)
{
    struct word w = { .about = about, .cancelled = g->cancelled, .what = what };
    if (g->failed && !g->heard) fail(&w, s, g->err.text);
    if (g->failed && g->heard) w.failed = true, w.why = g->err;
    return w;
}

// The word of another stage joins w, this one's own: an earlier failure stays.
static void receive_word(const struct stages *s, int from, int tag, struct word *w)
{
    struct word theirs;
    ranks_receive(s->ranks, from, tag, &theirs, sizeof theirs);
    if (theirs.about != w->about)
        fatal("ranks %d and %d do different things: every rank needs the same files", from,
              s->number);
    const bool good = !theirs.failed && !theirs.cancelled;
    w->bytes = good ? theirs.bytes : 0;
    if (good && w->what != theirs.what && !w->failed) {
        fail(
            w, s,
            "reads other tokens or pictures than the rank before: every rank needs the same files");
    } else if (!good) {
        w->failed = theirs.failed;
        w->cancelled = theirs.cancelled;
        w->why = theirs.why;
    }
}

// The numbers behind a word. They come also where they cannot be taken.
static void receive_numbers(const struct stages *s, int from, int tag, struct word *w, void *data,
                            size_t size)
{
    if (!w->bytes) return;
    const bool fits = data && size == w->bytes;
    void *to = fits ? data : xmalloc(w->bytes);
    ranks_receive(s->ranks, from, tag, to, w->bytes);
    if (fits) return;
    free(to);
    if (w->failed) return;
    fail(w, s, "expects other numbers than those of the rank before");
}

static void send_all(const struct stages *s, int to, int tag, struct word *w, const void *data,
                     size_t size)
{
    w->bytes = w->failed || w->cancelled ? 0 : size;
    ranks_send(s->ranks, to, tag, w, sizeof *w);
    ranks_send(s->ranks, to, tag, data, w->bytes);
}

// What the word says is so in g.
static void obey(struct graph *g, const struct word *w)
{
    if (w->failed && !g->failed) {
        graph_fail(g, "%s", w->why.text);
        g->heard = true;
    }
    if (w->cancelled) g->cancelled = true;
}

static int tag_of(int flight, int which)
{
    return flight * TAGS + which;
}

// --- a pass --------------------------------------------------------------------------------------

void stage_plan_release(struct stage_plan *p)
{
    free(p->rows);
    buf_release(&p->note.bytes);
    *p = (struct stage_plan){ 0 };
}

// Rows ascend and are rows of q; what follows them is the note.
static int read_plan(struct stage_plan *plan, const struct sequence *q, const char *data,
                     size_t size)
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

void stages_receive_plan(struct graph *g, const struct stages *s, const struct sequence *q,
                         struct stage_plan *plan)
{
    *plan = (struct stage_plan){ 0 };
    if (stages_first(s)) return;
    struct word w = word_of(g, s, ABOUT_PLAN, digest(q));
    const int tag = tag_of(g->flight, TO_NEXT), from = s->number - 1;
    receive_word(s, from, tag, &w);
    char *data = w.bytes ? xmalloc(w.bytes) : NULL;
    if (data) ranks_receive(s->ranks, from, tag, data, w.bytes);
    if (data && !w.failed && read_plan(plan, q, data, w.bytes) < 0)
        fail(&w, s, "cannot use what the rank before has sent");
    free(data);
    obey(g, &w);
}

void stages_send_plan(struct graph *g, const struct stages *s, const struct sequence *q,
                      const struct stage_plan *plan)
{
    struct buf b = { 0 };
    if (stages_last(s)) return;
    buf_add(&b, (const char *)&plan->n, sizeof plan->n);
    if (plan->n) buf_add(&b, (const char *)plan->rows, (size_t)plan->n * sizeof *plan->rows);
    if (plan->note.bytes.length) buf_add(&b, plan->note.bytes.data, plan->note.bytes.length);
    struct word w = word_of(g, s, ABOUT_PLAN, digest(q));
    send_all(s, s->number + 1, tag_of(g->flight, TO_NEXT), &w, b.data, b.length);
    buf_release(&b);
}

void stages_receive(struct graph *g, const struct stages *s, const struct sequence *q,
                    struct tensor *h)
{
    if (stages_first(s)) return;
    struct word w = word_of(g, s, ABOUT_PASS, digest(q));
    const int tag = tag_of(g->flight, TO_NEXT), from = s->number - 1;
    receive_word(s, from, tag, &w);
    // Numbers for a device come by way of host memory.
    const size_t size = h ? tensor_bytes(h) : 0;
    const bool direct = !g->backend->own_memory || !size;
    void *host = direct ? (h ? h->data : NULL) : xmalloc(size);
    receive_numbers(s, from, tag, &w, host, size);
    if (!direct && !w.failed && !w.cancelled) g->backend->upload(h->data, host, size);
    if (!direct) free(host);
    obey(g, &w);
}

void stages_send(struct graph *g, const struct stages *s, const struct sequence *q,
                 const struct tensor *h)
{
    if (stages_last(s)) return;
    const size_t size = h ? (size_t)tensor_count(h) * sizeof(float) : 0;
    const bool direct = !size || (!g->backend->own_memory && h->dtype == DTYPE_F32);
    void *host = direct ? (h ? h->data : NULL) : xmalloc(size);
    if (!direct) graph_download(g, host, h);
    struct word w = word_of(g, s, ABOUT_PASS, digest(q));
    send_all(s, s->number + 1, tag_of(g->flight, TO_NEXT), &w, host, size);
    if (!direct) free(host);
}

// The last stage's word goes to all, and after a good one the bytes.
static void tell(const struct stages *s, int flight, struct word *w, void *data, size_t size)
{
    const int tag = tag_of(flight, FROM_LAST), last = s->count - 1;
    if (s->number != last) {
        receive_word(s, last, tag, w);
        receive_numbers(s, last, tag, w, data, size);
        return;
    }
    for (int k = 0; k < last; k++) send_all(s, k, tag, w, data, size);
}

void stages_tell(struct graph *g, const struct stages *s, void *data, size_t size)
{
    if (!s) return;
    struct word w = word_of(g, s, ABOUT_RESULT, size);
    tell(s, g->flight, &w, data, size);
    obey(g, &w);
}

struct tensor *stages_tell_tensor(struct graph *g, const struct stages *s, struct tensor *t,
                                  int64_t columns)
{
    if (!s) return t;
    int64_t rows = stages_last(s) && t ? t->shape[0] : 0;
    stages_tell(g, s, &rows, sizeof rows);
    if (!graph_ok(g)) rows = 0;
    const size_t bytes = (size_t)(rows * columns) * sizeof(float);
    float *host = xmalloc(bytes + 1);
    if (stages_last(s) && graph_ok(g)) graph_download(g, host, t);
    stages_tell(g, s, host, bytes);
    if (!stages_last(s))
        t = graph_ok(g) ? graph_upload(g, DTYPE_F32, 2, (int64_t[]){ rows, columns }, host) : NULL;
    free(host);
    return graph_ok(g) ? t : NULL;
}

// --- agreeing ------------------------------------------------------------------------------------

// The word goes from the first stage to the last, and from there to all.
static void agree(const struct stages *s, int flight, struct word *w)
{
    const int tag = tag_of(flight, TO_NEXT);
    if (!stages_first(s)) receive_word(s, s->number - 1, tag, w);
    if (!stages_last(s)) send_all(s, s->number + 1, tag, w, NULL, 0);
    tell(s, flight, w, NULL, 0);
}

void stages_agree(struct graph *g, const struct stages *s, uint64_t what)
{
    if (!s) return;
    struct word w = word_of(g, s, ABOUT_AGREEMENT, what);
    agree(s, g->flight, &w);
    obey(g, &w);
}

int stages_agree_status(const struct stages *s, int flight, uint64_t what, int status,
                        struct err *err)
{
    struct word w = { .about = ABOUT_AGREEMENT, .what = what };
    if (!s) return status;
    if (status < 0) fail(&w, s, err->text);
    agree(s, flight, &w);
    return w.failed ? err_set(err, "%s", w.why.text) : 0;
}

int64_t stages_least(const struct stages *s, int flight, int64_t number)
{
    if (!s) return number;
    struct word w = { .about = ABOUT_LEAST };
    const int tag = tag_of(flight, TO_NEXT);
    int64_t before = number;
    if (!stages_first(s)) {
        receive_word(s, s->number - 1, tag, &w);
        receive_numbers(s, s->number - 1, tag, &w, &before, sizeof before);
    }
    if (before < number) number = before;
    if (!stages_last(s)) send_all(s, s->number + 1, tag, &w, &number, sizeof number);
    tell(s, flight, &w, &number, sizeof number);
    return number;
}
