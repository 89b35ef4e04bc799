// core/train/sft_ranks.c -- the work of a step for each rank of a job, and the sums over the ranks.
//
// Every rank computes the assignment of all ranks from the same row counts, so the ranks need no
// messages. Easy to get wrong: a rank without work must still take part in every sum.
#include <stdlib.h>
#include <string.h>

#include "core/graph/hooks.h"
#include "core/graph/tape.h"
#include "core/model/vision.h"
#include "core/ranks/ranks.h"
#include "core/settings/settings.h"
#include "core/train/sft_parts.h"

enum { PIECE = 1 << 20 };    // maximum number of elements in a bucket or an exact piece
enum { IN_PLACE = 1 << 14 }; // host gradients of at least this many elements: summed in place

// --- the work of a rank --------------------------------------------------------------------------

// Assigns each sample to the rank whose share of all rows contains the sample's midpoint. Lists the
// work of `rank`; -1: the work of all ranks.
static int64_t assign_samples(const struct sft *t, const int32_t *rows, int64_t count, int rank,
                              struct sft_work *work)
{
    const int64_t ranks = sft_ranks(t);
    int64_t all = 0, before = 0, n = 0, last_owner = -1;
    for (int64_t i = 0; i < count; i++) all += rows[i];
    for (int64_t i = 0; i < count; before += rows[i++]) {
        const int64_t there = (2 * before + rows[i]) * ranks / (2 * all),
                      owner = there < ranks ? there : ranks - 1;
        if (rank >= 0 && owner != rank) continue;
        if (owner == last_owner && work[n - 1].to - work[n - 1].from < t->plan.batch)
            work[n - 1].to++;
        else
            work[n++] = (struct sft_work){ i, i + 1 };
        last_owner = owner;
    }
    return n;
}

int sft_ranks(const struct sft *t)
{
    const struct job *j = t->job;
    return j->ranks ? ranks_count(j->ranks) : (int)settings_integer(j->settings, "job.ranks");
}

bool sft_assigns_batches(const struct sft *t, int64_t count)
{
    return settings_flag(t->job->settings, "train.exact_sum") ||
           (count + t->plan.batch - 1) / t->plan.batch % sft_ranks(t) == 0;
}

int64_t sft_assign(const struct sft *t, const int32_t *rows, int64_t count, int rank,
                   struct sft_work *work)
{
    if (!sft_assigns_batches(t, count)) return assign_samples(t, rows, count, rank, work);
    const int64_t batch = t->plan.batch, batches = (count + batch - 1) / batch;
    int64_t *cost = xcalloc((size_t)batches + 1, sizeof *cost), n = 0;
    int *owner = xcalloc((size_t)batches + 1, sizeof *owner);
    for (int64_t i = 0; i < count; i++) cost[i / batch] += rows[i];
    if (rank >= 0) ranks_assign(cost, (size_t)batches, ranks_count(t->job->ranks), owner);
    for (int64_t i = 0; i < batches; i++)
        if (rank < 0 || owner[i] == rank)
            work[n++] = (struct sft_work){ i * batch, i + 1 < batches ? (i + 1) * batch : count };
    free(cost);
    free(owner);
    return n;
}

// --- sums ----------------------------------------------------------------------------------------

// Marks the rows of a table (an embedding) that a gradient of any rank has reached.
static void sum_reached(const struct sft *t, const struct param *one)
{
    atomic_bool *reached = one->grad->reached;
    const int64_t n = reached ? one->tensor->shape[0] : 0;
    float *marks = xcalloc((size_t)n + 1, sizeof *marks);
    for (int64_t r = 0; r < n; r++) marks[r] = reached[r] ? 1 : 0;
    if (n) ranks_sum_floats(t->job->ranks, marks, (size_t)n, -1);
    for (int64_t r = 0; r < n; r++) reached[r] = marks[r] > 0;
    free(marks);
}

// Joins many small gradients into one sum, because a small sum takes longer to start than to
// compute. Gradients in device memory that no GPU sums also go through the bucket, in pieces.
struct bucket {
    float *data; // [PIECE]
    int to;      // the rank that gets the sum; -1: all
    struct {
        const struct param *one;
        int64_t from, count;
    } parts[PIECE / 64 + 1];
    int64_t count, part_count;
};

static void empty_bucket(struct bucket *b, const struct sft *t)
{
    int64_t at = 0;
    if (b->count) ranks_sum_floats(t->job->ranks, b->data, (size_t)b->count, b->to);
    for (int64_t i = 0; i < b->part_count; i++) {
        const struct param *one = b->parts[i].one;
        const size_t bytes = (size_t)b->parts[i].count * sizeof *b->data;
        if (b->to < 0 || b->to == ranks_number(t->job->ranks))
            one->where->upload(one->grad->data + b->parts[i].from, b->data + at, bytes);
        at += b->parts[i].count;
    }
    b->count = b->part_count = 0;
}

static void fill_bucket(struct bucket *b, const struct sft *t, const struct param *one)
{
    for (int64_t at = 0; at < one->count;) {
        if (b->count == PIECE || b->part_count == PIECE / 64) empty_bucket(b, t);
        int64_t n = one->count - at;
        if (n > PIECE - b->count) n = PIECE - b->count;
        one->where->download(b->data + b->count, one->grad->data + at, (size_t)n * sizeof *b->data);
        b->parts[b->part_count].one = one;
        b->parts[b->part_count].from = at;
        b->parts[b->part_count++].count = n;
        b->count += n;
        at += n;
    }
}

// True if the gradient is in GPU memory and can be summed directly between GPUs.
static bool is_between_gpus(const struct sft *t, const struct param *one)
{
    return ranks_between_gpus(t->job->ranks) && one->where->own_memory;
}

int64_t sft_step_bytes(const struct sft *t, int64_t samples)
{
    const bool exact = settings_flag(t->job->settings, "train.exact_sum");
    const int64_t units = (samples + t->plan.batch - 1) / t->plan.batch,
                  ranks = ranks_count(t->job->ranks), sums = exact ? units : 1,
                  marks = exact ? (units + ranks - 1) / ranks : 1;
    int64_t summed = 0, shared = 0, rows = 0;
    for (size_t i = 0; i < t->params.count; i++) {
        const struct param *one = &t->params.list[i];
        if (one->bucket < 0) summed += one->count; // sft_pass_bytes counts the others
        if (t->params.shared_out) shared += one->count;
        if (one->grad->reached) rows += one->tensor->shape[0];
    }
    // The gradient norm needs the sum of squares of each parameter's gradient.
    const int64_t squares = t->params.shared_out ? (int64_t)t->params.count : 0,
                  end = t->params.buckets ? 1 : 0; // the sum that ends the passes
    return 4 * (summed * sums + shared + rows * marks) +
           (int64_t)sizeof(struct sft_losses) * samples + 8 * (squares + end);
}

int64_t sft_pass_bytes(const struct sft *t)
{
    int64_t numbers = 0;
    for (size_t i = 0; i < t->params.count; i++)
        if (t->params.list[i].bucket >= 0) numbers += t->params.list[i].count;
    return t->params.buckets ? 4 * numbers + 8 : 0;
}

// Sums the gradients of a bucket; -1: those without one, which a step sums once.
static int sum_bucket(struct sft *t, int bucket, struct err *err)
{
    struct ranks *r = t->job->ranks;
    if (ranks_between_gpus(r)) {
        int status = ranks_gpu_begin(r, err);
        for (size_t i = 0; i < t->params.count && status == 0; i++) {
            const struct param *one = &t->params.list[i];
            const int to = params_sum_to(&t->params, one);
            if (one->bucket != bucket || !is_between_gpus(t, one)) continue;
            status = ranks_gpu_sum_floats(r, one->grad->data, (size_t)one->count, to, err);
        }
        if (status < 0 || ranks_gpu_end(r, err) < 0) return -1;
    }
    struct bucket *b = t->sums.bucket;
    if (!b) {
        b = t->sums.bucket = xcalloc(1, sizeof *b);
        b->data = xreallocarray(NULL, PIECE, sizeof *b->data);
    }
    const int ranks = t->params.shared_out ? ranks_count(r) : 0;
    for (b->to = -1; b->to < ranks; b->to++) {
        for (size_t i = 0; i < t->params.count; i++) {
            const struct param *one = &t->params.list[i];
            if (one->bucket != bucket || is_between_gpus(t, one) ||
                params_sum_to(&t->params, one) != b->to)
                continue;
            if (!one->where->own_memory && one->count >= IN_PLACE)
                ranks_sum_floats(r, one->grad->data, (size_t)one->count, b->to);
            else
                fill_bucket(b, t, one);
        }
        empty_bucket(b, t);
    }
    return 0;
}

int sft_sum_gradients(struct sft *t, struct err *err)
{
    if (!t->job->ranks) return 0;
    for (size_t i = 0; i < t->params.count; i++) sum_reached(t, &t->params.list[i]);
    return sum_bucket(t, -1, err);
}

// --- sharded gradients ---------------------------------------------------------------------------

// Sums the buckets before `end` that this pass has not summed yet. Owners add to their sums of
// earlier passes; a rank without a gradient adds zeros. The others return the memory.
static int sum_buckets(struct sft *t, int end, struct err *err)
{
    struct params *p = &t->params;
    for (; t->sums.next < end; t->sums.next++) {
        bool any = false;
        for (size_t i = 0; i < p->count; i++) {
            const struct param *one = &p->list[i];
            struct tensor zeros;
            if (one->bucket != t->sums.next) continue;
            any = true;
            if (!one->grad->data && !tape_grad(&t->graph, one->tensor, &zeros))
                return err_set(err, "%s", t->graph.err.text);
        }
        if (any && t->job->ranks && sum_bucket(t, t->sums.next, err) < 0) return -1;
        for (size_t i = 0; i < p->count; i++)
            if (p->list[i].bucket == t->sums.next) tape_give(&t->tape, p->list[i].grad);
    }
    return 0;
}

static int layer_backward(struct graph *g, const struct tape_step *s)
{
    struct err why;
    if (sum_buckets(s->self, (int)s->integer, &why) < 0) graph_fail(g, "%s", why.text);
    return graph_ok(g) ? 0 : -1;
}

static bool layer_wants(void *self, const struct site *site, int layer)
{
    const struct sft *t = self;
    // Later blocks of the encoder run only for listeners.
    if (site == SITE_VISION_LAYER) return layer <= vision_depth(&t->job->model->vision.config);
    return site == SITE_LAYER_OUT;
}

// Records a step at the output of a decoder layer, or at the input of an encoder block, which is
// the output of the block before it. The backward pass runs it when everything after is complete.
static int layer_run(void *self, struct graph *g, const struct site *site, struct site_args *args)
{
    const struct sft *t = self;
    const bool vision = site == SITE_VISION_LAYER;
    tape_record(
        g, args->x,
        &(struct tape_step){ .backward = layer_backward,
                             .in = { args->x },
                             .self = self,
                             .integer = params_bucket(&t->params, vision, args->layer - vision) });
    return graph_ok(g) ? 0 : -1;
}

void sft_sum_by_layer(struct sft *t)
{
    if (t->params.buckets)
        hooks_add(&t->hooks, &(struct hook){ .wants = layer_wants, .run = layer_run, .self = t });
}

bool sft_pass_begin(struct sft *t, bool works)
{
    double working = works;
    if (!t->params.buckets || !t->job->ranks) return false;
    ranks_sum_doubles(t->job->ranks, &working, 1);
    t->report.passes += working > 0;
    return working > 0;
}

int sft_pass_end(struct sft *t, struct err *err)
{
    if (sum_buckets(t, t->params.buckets, err) < 0) return -1;
    t->sums.next = 0;
    for (size_t i = 0; i < t->params.count; i++) {
        const struct param *one = &t->params.list[i];
        if (!params_keep(&t->params, one) && one->grad->data)
            BUG("'%s' has a gradient after its bucket was summed", one->name);
    }
    return 0;
}

// --- losses --------------------------------------------------------------------------------------

void sft_gather_losses(const struct sft *t, struct sft_losses *losses, int64_t count)
{
    ranks_sum_doubles(t->job->ranks, &losses->loss,
                      (size_t)count * sizeof *losses / sizeof(double));
}

// --- exact sums ----------------------------------------------------------------------------------

void sft_exact_begin(struct sft *t)
{
    if (!t->sums.exact) { // sft_memory counts them
        t->sums.piece = xreallocarray(NULL, PIECE, sizeof *t->sums.piece);
        t->sums.exact = xcalloc(t->params.count + 1, sizeof *t->sums.exact);
        for (size_t i = 0; i < t->params.count; i++)
            t->sums.exact[i] =
                xreallocarray(NULL, (size_t)t->params.list[i].count, sizeof **t->sums.exact);
    }
    for (size_t i = 0; i < t->params.count; i++)
        memset(t->sums.exact[i], 0, (size_t)t->params.list[i].count * sizeof **t->sums.exact);
}

// Adds to `sum` the piece at `at` of rank `from`'s gradient; that rank sends it to all others.
static void add_piece(float *sum, const struct sft *t, const struct param *one, int64_t at,
                      int from)
{
    float *host = t->sums.piece;
    const int64_t n = one->count - at < PIECE ? one->count - at : PIECE;
    const size_t bytes = (size_t)n * sizeof *host;
    if (from == ranks_number(t->job->ranks))
        one->where->download(host, one->grad->data + at, bytes);
    ranks_share(t->job->ranks, host, bytes, from);
    for (int64_t i = 0; i < n; i++) sum[at + i] += host[i];
}

void sft_exact_add(struct sft *t, int64_t count)
{
    for (size_t i = 0; i < t->params.count; i++) {
        const struct param *one = &t->params.list[i];
        sum_reached(t, one);
        for (int from = 0; from < count; from++)
            for (int64_t at = 0; at < one->count; at += PIECE)
                add_piece(t->sums.exact[i], t, one, at, from);
    }
}

void sft_exact_end(struct sft *t)
{
    for (size_t i = 0; i < t->params.count; i++) {
        const struct param *one = &t->params.list[i];
        one->where->upload(one->grad->data, t->sums.exact[i], (size_t)one->count * sizeof(float));
    }
}

void sft_sums_release(struct sft *t)
{
    for (size_t i = 0; t->sums.exact && i < t->params.count; i++) free(t->sums.exact[i]);
    free(t->sums.exact);
    free(t->sums.piece);
    if (t->sums.bucket) free(t->sums.bucket->data);
    free(t->sums.bucket);
    t->sums = (struct sft_sums){ 0 };
}
