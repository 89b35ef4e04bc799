// tests/bench/training.c -- the cost of a training step in two very different shapes, against its
// matrix products alone.
//
//  - small: a model of about 6 million f32 weights that sees pictures, all of it trained; samples
//    of about 300 rows, one by one and several in one pass
//  - large: the decoder of Llama-3.2-1B, bf16 weights, 600 rows, 24 of them trained tokens; norms
//    or LoRA of rank 32 trained; forward and backward pass, without the optimizer
//
//   training [small [SAMPLES_IN_A_PASS] | large [FOLDER]]
#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>

#include "core/eval/loss.h"
#include "core/graph/tape.h"
#include "core/model/families/family.h"
#include "core/model/layer.h"
#include "core/new/new_model.h"
#include "core/template/message.h"
#include "tests/bench/limits.h"
#include "tests/bench/must.h"

enum { ROUNDS = 3 };

// Processor time of all threads: on a shared machine it is more reliable than the clock.
static double processor_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double peak_megabytes(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (double)usage.ru_maxrss / 1e3;
}

// --- the limit -----------------------------------------------------------------------------------

// Processor seconds of sgemm alone for a linear layer [m,k] over n rows: forward, by x and, with
// by_w, by w.
static double layer_limit(dnnl_function *gemm, int64_t n, int64_t k, int64_t m, bool by_w)
{
    static float *room;
    static size_t size;
    size_t need = (size_t)n * (size_t)k + (size_t)n * (size_t)m + (size_t)m * (size_t)k;
    if (need > size) {
        free(room);
        room = calloc(size = need, sizeof *room);
    }
    float *x = room, *y = x + (size_t)n * (size_t)k, *w = y + (size_t)n * (size_t)m;
    double best = 1e30;
    for (int round = 0; round < 3; round++) {
        double start = processor_seconds();
        gemm('N', 'T', n, m, k, 1, x, k, w, k, 0, y, m);
        gemm('N', 'N', n, k, m, 1, y, m, w, k, 0, x, k);
        if (by_w) gemm('T', 'N', m, k, n, 1, y, m, x, k, 0, w, k);
        double seconds = processor_seconds() - start;
        if (seconds < best) best = seconds;
    }
    return best;
}

// All linear layers of a step: `rows` in the decoder, `patches` in the encoder, `trained` in the
// head.
struct step {
    int64_t rows, patches, trained;
    bool by_w;
};

static void each_layer(const struct model *m, const struct step *s,
                       void (*visit)(void *self, int64_t n, int64_t k, int64_t m, int times),
                       void *self)
{
    const struct decoder_config *d = &m->decoder.config;
    const struct vision_config *v = &m->vision.config;
    int64_t q = d->heads * d->dim, kv = d->kv_heads * d->dim;
    visit(self, s->rows, d->hidden, q, d->layers);
    visit(self, s->rows, d->hidden, kv, 2 * d->layers);
    visit(self, s->rows, q, d->hidden, d->layers);
    visit(self, s->rows, d->hidden, d->ffn, 2 * d->layers);
    visit(self, s->rows, d->ffn, d->hidden, d->layers);
    visit(self, s->trained, d->hidden, d->vocab, 1);
    if (!s->patches) return;
    visit(self, s->patches, 3 * v->patch * v->patch, v->hidden, 1);
    visit(self, s->patches, v->hidden, v->hidden, 4 * v->layers);
    visit(self, s->patches, v->hidden, v->ffn, v->layers);
    visit(self, s->patches, v->ffn, v->hidden, v->layers);
    visit(self, s->patches, v->hidden, d->hidden, 1);
    visit(self, s->patches, d->hidden, d->hidden, 1);
}

struct limit {
    dnnl_function *gemm;
    bool by_w;
    double seconds, operations;
};

static void add_limit(void *self, int64_t n, int64_t k, int64_t m, int times)
{
    struct limit *l = self;
    l->operations += (double)times * (l->by_w ? 6.0 : 4.0) * (double)(n * k) * (double)m;
    if (l->gemm) l->seconds += times * layer_limit(l->gemm, n, k, m, l->by_w);
}

static struct limit limit_of(const struct model *m, const struct step *s)
{
    struct limit l = { .gemm = libraries_open(omp_get_max_threads()).dnnl, .by_w = s->by_w };
    each_layer(m, s, add_limit, &l);
    return l;
}

// --- a small model -------------------------------------------------------------------------------

enum { BATCH = 32, PATCHES = 144 };

// A random matrix, or a vector filled with `size` (columns 0); with a gradient.
static struct tensor weight(struct model *m, int64_t rows, int64_t columns, double size)
{
    static uint64_t state = 1;
    int64_t count = rows * (columns ? columns : 1);
    struct tensor t = { .dtype = DTYPE_F32, .rank = columns ? 2 : 1, .shape = { rows, columns } };
    float *data = t.data = arena_alloc(&m->arena, (size_t)count * sizeof *data);
    t.grad = grad_new(backend_cpu(), count);
    for (int64_t i = 0; i < count; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        data[i] = columns ? (float)(((double)(state >> 33) * 0x1p-31 - 0.5) * size) : (float)size;
    }
    return t;
}

static struct linear linear(struct model *m, int64_t out, int64_t in, bool bias)
{
    struct linear l = { .weight = weight(m, out, in, 3 / sqrt((double)in)) };
    if (bias) l.bias = weight(m, out, 0, 0);
    return l;
}

static void make_encoder(struct model *m)
{
    struct vision *v = &m->vision;
    v->config = (struct vision_config){ .kind = &vision_siglip,
                                        .layers = 5,
                                        .hidden = 192,
                                        .heads = 6,
                                        .ffn = 768,
                                        .image_size = 96,
                                        .patch = 8,
                                        .eps = 1e-6,
                                        .act = GELU_TANH,
                                        .patch_bias = true,
                                        .feature_layer = -1 };
    int64_t width = v->config.hidden, ffn = v->config.ffn;
    v->patch = linear(m, width, 192, true);
    v->position = weight(m, PATCHES, width, 0.1);
    v->layer = calloc((size_t)v->config.layers, sizeof *v->layer);
    for (int i = 0; i < v->config.layers; i++)
        v->layer[i] = (struct vision_layer){ .norm1.gain = weight(m, width, 0, 1),
                                             .norm1.bias = weight(m, width, 0, 0),
                                             .norm2.gain = weight(m, width, 0, 1),
                                             .norm2.bias = weight(m, width, 0, 0),
                                             .q = linear(m, width, width, true),
                                             .k = linear(m, width, width, true),
                                             .v = linear(m, width, width, true),
                                             .out = linear(m, width, width, true),
                                             .fc1 = linear(m, ffn, width, true),
                                             .fc2 = linear(m, width, ffn, true) };
}

static void make_sublayer(struct model *m, struct sublayer *s, layer_weight_fn list)
{
    const struct decoder_config *c = &m->decoder.config;
    struct layer_weight w;
    while (list(c, 0, s->count, &w)) s->count++;
    s->before = weight(m, c->hidden, 0, 1);
    s->weight = calloc((size_t)s->count, sizeof *s->weight);
    for (int i = 0; list(c, 0, i, &w); i++) s->weight[i] = linear(m, w.out, w.in, false);
}

static void make_decoder(struct model *m)
{
    struct decoder *d = &m->decoder;
    d->config =
        (struct decoder_config){ .kind = family_named("llama")->decoder,
                                 .layers = 8,
                                 .hidden = 192,
                                 .heads = 6,
                                 .kv_heads = 3,
                                 .dim = 32,
                                 .ffn = 512,
                                 .vocab = 1000,
                                 .max_positions = 1024,
                                 .eps = 1e-5,
                                 .score_scale = 0.1767767f,
                                 .embed_scale = 1,
                                 .rope = { .rotary = &rotary_plain, .dim = 32, .theta = 10000 } };
    const struct decoder_config *c = &d->config;
    const int64_t width = c->hidden;
    d->embed = weight(m, c->vocab, width, 1);
    d->head = weight(m, c->vocab, width, 0.1);
    d->norm = weight(m, width, 0, 1);
    d->layer = calloc((size_t)c->layers, sizeof *d->layer);
    for (int i = 0; i < c->layers; i++) {
        make_sublayer(m, &d->layer[i].attention, decoder_attention(c, i)->weight);
        make_sublayer(m, &d->layer[i].ffn, c->kind->ffn->weight);
    }
    m->projector = (struct projector){ .kind = &projector_linear,
                                       .bias = true,
                                       .act = GELU_ERF,
                                       .merge = 1,
                                       .linear_1 = linear(m, width, 192, true),
                                       .linear_2 = linear(m, width, width, true) };
}

static struct model *make_small(void)
{
    struct model *m = calloc(1, sizeof *m);
    m->arena.backend = backend_cpu();
    m->family = family_named("llava");
    make_encoder(m);
    make_decoder(m);
    m->picture = (struct picture_config){
        .fit = FIT_EXACT, .rescale = true, .width = 96, .height = 96, .rescale_factor = 1 / 255.0
    };
    return m;
}

// Rows like those of a question about a picture: 8 of text, the picture, then text; the last
// `trained` rows are trained.
static struct labels make_labels(const struct model *m, int64_t rows, int64_t visual,
                                 int64_t trained)
{
    struct labels l = { .trained = trained };
    sequence_init(&l.sequence, rows, 1);
    l.target = malloc((size_t)rows * sizeof *l.target);
    for (int64_t i = 0; i < rows; i++) {
        l.sequence.ids[i] = (int32_t)(i * 7919 % m->decoder.config.vocab);
        l.target[i] = i >= rows - trained ? (int32_t)((i * 31) % 1000) : -1;
        if (i < 8 || i >= 8 + visual) continue;
        l.sequence.picture[i] = 0;
        l.sequence.cell[i] = (int32_t)i - 8;
    }
    return l;
}

static struct picture make_picture(int number)
{
    struct picture p = { .tokens = PATCHES, .image = { .width = 96, .height = 96, .channels = 3 } };
    p.image.pixels = malloc(96 * 96 * 3);
    for (int i = 0; i < 96 * 96 * 3; i++)
        p.image.pixels[i] = (uint8_t)((i * 31 + i / 288 * number) & 255);
    return p;
}

// Seconds of a step of a small model whose samples go through it `together` at a time.
static double small_step(const struct model *m, struct loss_item *items, int together,
                         enum matmul_mode mode, struct arena *step, struct tape *tape)
{
    double losses[BATCH], start = omp_get_wtime();
    for (int i = 0; i < BATCH; i += together) {
        struct graph g = { .backend = backend_cpu(), .arena = step, .tape = tape, .matmul = mode };
        if (loss_batch(&g, m, items + i, (size_t)together, 1.0 / BATCH, losses) < 0)
            must(-1, &g.err);
    }
    return omp_get_wtime() - start;
}

// only: measures this one of the sizes (samples per pass); 0: each in turn.
static void bench_small(int only)
{
    static const int sizes[] = { 1, 8, 32 };
    enum { SIZES = sizeof sizes / sizeof *sizes };
    struct model *m = make_small();
    struct loss_item items[BATCH];
    struct labels labels[BATCH];
    struct picture pictures[BATCH];
    struct step whole = { .by_w = true };
    for (int i = 0; i < BATCH; i++) {
        int rows = 250 + (i * 37) % 100, trained = (rows - PATCHES) / 2;
        pictures[i] = make_picture(i + 1);
        labels[i] = make_labels(m, rows, PATCHES, trained);
        items[i] = (struct loss_item){ .pictures = &pictures[i],
                                       .picture_count = 1,
                                       .labels = &labels[i],
                                       .number = (uint64_t)i };
        whole.rows += rows;
        whole.patches += PATCHES;
        whole.trained += trained;
    }
    struct limit limit = limit_of(m, &whole);
    printf("## Training a small model: %s, %d samples of %lld rows on average, all weights\n\n"
           "The matrix products alone: %.1f GFLOP, sgemm of oneDNN %.2f processor s.\n\n"
           "| samples in a pass | arithmetic | s | processor s | samples/s | GFLOP/s of the "
           "products | share of "
           "the limit | MB |\n|---|---|---|---|---|---|---|---|\n",
           backend_cpu()->describe(), BATCH, (long long)whole.rows / BATCH, limit.operations * 1e-9,
           limit.seconds);
    for (int mode = MATMUL_F32; mode <= MATMUL_BF16; mode++)
        for (int i = 0; i < SIZES; i++) {
            if (only && sizes[i] != only) continue;
            struct arena step = { .backend = backend_cpu() };
            struct tape tape = { .backend = backend_cpu() };
            double t[ROUNDS] = { 0 }, used = 0;
            for (int r = -1; r < ROUNDS; r++) { // the first one warms up
                if (r == 0) used = processor_seconds();
                double s = small_step(m, items, sizes[i], (enum matmul_mode)mode, &step, &tape);
                if (r >= 0) t[r] = s;
            }
            double s = median_of(t, ROUNDS);
            used = (processor_seconds() - used) / ROUNDS;
            printf("| %d | %s | %.3f | %.3f | %.1f | %.0f | %.0f%% | %.0f |\n", sizes[i],
                   mode == MATMUL_F32 ? "f32" : "bf16", s, used, BATCH / s,
                   limit.operations / s * 1e-9, 100 * limit.seconds / used,
                   (double)(step.peak + tape.peak) / 1e6);
            tape_release(&tape);
            arena_release(&step);
        }
}

// --- a large decoder -----------------------------------------------------------------------------

enum { ROWS = 600, TRAINED = 24, RANK = 32 };

static void train_norms(struct decoder *d)
{
    for (int i = 0; i < d->config.layers; i++) {
        d->layer[i].attention.before.grad = grad_new(backend_cpu(), d->config.hidden);
        d->layer[i].ffn.before.grad = grad_new(backend_cpu(), d->config.hidden);
    }
}

static void forget_norms(struct decoder *d)
{
    for (int i = 0; i < d->config.layers; i++) {
        struct tensor *norms[] = { &d->layer[i].attention.before, &d->layer[i].ffn.before };
        for (int k = 0; k < 2; k++) {
            grad_free(backend_cpu(), norms[k]->grad);
            norms[k]->grad = NULL;
        }
    }
}

static void lora_beside(struct model *m, struct sublayer *s)
{
    for (int i = 0; i < s->count; i++) {
        struct linear *w = &s->weight[i];
        w->lora = calloc(1, sizeof *w->lora);
        w->lora->a = weight(m, RANK, w->weight.shape[1], 0.02);
        w->lora->b = weight(m, w->weight.shape[0], RANK, 0.02);
        w->lora->scale = 2;
    }
}

static void train_lora(struct model *m)
{
    struct decoder *d = &m->decoder;
    for (int i = 0; i < d->config.layers; i++) {
        lora_beside(m, &d->layer[i].attention);
        lora_beside(m, &d->layer[i].ffn);
    }
}

// One line of the table.
static void large_step(const struct model *m, const struct labels *l, const char *name, bool tape_,
                       bool recompute, enum matmul_mode mode, const struct limit *limit)
{
    struct arena step = { .backend = backend_cpu() };
    struct tape tape = { .backend = backend_cpu(), .recompute = recompute };
    double t[ROUNDS] = { 0 }, loss, used = 0;
    for (int r = -1; r < ROUNDS; r++) {
        struct graph g = {
            .backend = backend_cpu(), .arena = &step, .tape = tape_ ? &tape : NULL, .matmul = mode
        };
        if (r == 0) used = processor_seconds();
        double start = omp_get_wtime();
        if (loss_sample(&g, m, NULL, 0, l, 1, &loss) < 0) must(-1, &g.err);
        if (r >= 0) t[r] = omp_get_wtime() - start;
    }
    double s = median_of(t, ROUNDS);
    used = (processor_seconds() - used) / ROUNDS;
    printf("| %s | %s | %.2f | %.2f | %.0f%% | %.0f | %.0f |\n", name,
           mode == MATMUL_F32 ? "f32" : "bf16", s, used, 100 * limit->seconds / used,
           (double)(step.peak + tape.peak) / 1e6, peak_megabytes());
    fflush(stdout);
    tape_release(&tape);
    arena_release(&step);
}

static void bench_large(const char *folder)
{
    struct stat st;
    struct err err;
    mkdir("build/bench", 0777);
    if (stat(folder, &st) < 0)
        must(new_model_write("llama-3.2-1b", folder, 1, NULL, NULL, &err), &err);
    struct model *m = model_load(folder, backend_cpu(), NULL, &err);
    must(m ? 0 : -1, &err);
    struct labels l = make_labels(m, ROWS, 0, TRAINED);
    struct step whole = { .rows = ROWS, .trained = TRAINED };
    struct limit limit = limit_of(m, &whole);
    printf("## Training Llama-3.2-1B: %s, bf16 weights, %d rows, %d trained tokens\n\n"
           "The matrix products alone: %.0f GFLOP, sgemm of oneDNN %.2f processor s.\n\n"
           "| | arithmetic | s a sample | processor s | share of the limit | activations and "
           "gradients, MB | "
           "peak of the process so far, MB |\n|---|---|---|---|---|---|---|\n",
           backend_cpu()->describe(), ROWS, TRAINED, limit.operations * 1e-9, limit.seconds);
    for (int mode = MATMUL_F32; mode <= MATMUL_BF16; mode++) {
        train_norms(&m->decoder);
        large_step(m, &l, "norms, layers computed again", true, true, mode, &limit);
        large_step(m, &l, "norms, layers kept", true, false, mode, &limit);
        forget_norms(&m->decoder);
    }
    train_lora(m);
    for (int mode = MATMUL_F32; mode <= MATMUL_BF16; mode++) {
        large_step(m, &l, "LoRA, layers computed again", true, true, mode, &limit);
        large_step(m, &l, "LoRA, layers kept", true, false, mode, &limit);
    }
}

int main(int argc, char **argv)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    const char *what = argc > 1 ? argv[1] : "both";
    if (strcmp(what, "large") != 0) bench_small(argc > 2 ? atoi(argv[2]) : 0);
    if (strcmp(what, "small") != 0) bench_large(argc > 2 ? argv[2] : "build/bench/llama-3.2-1b");
    return 0;
}
