// tests/bench/gpu/model.c -- a whole model on the GPU: loading from the page cache; prefill
// and tokens, each against its limit, measured in the same run. Prints a Markdown table.
//
//   model FOLDER [ROWS...]     prefill lengths in rows (default 640 4096)
//
// The goals apply to the decoders of LLaVA-1.5-7B and Llama-3.2-3B on an H200.
//
// Prefill: seconds of cuBLASLt alone for the same products, divided by those of the pass. Token:
// bytes of weights, keys and values that a token reads, divided by its time, compared with a copy
// on the device.
#include <string.h>

#include "core/base/random.h"
#include "core/model/model.h"
#include "core/model/visual.h"
#include "tests/bench/gpu/gpu.h"
#include "tests/bench/limits.h"

enum { PASSES = 5, TOKENS = 64 };
static const double BYTES_7B = 14.1e9; // of LLaVA-1.5-7B in bf16

struct bench {
    struct model *model;
    struct kv kv;
    struct arena step;
    struct sequence sequence;
    float *logits;
};

static double now_loaded(struct bench *b, const char *folder)
{
    struct err err = { 0 };
    const double start = clock_seconds();
    b->model = model_load(folder, gpu, NULL, &err);
    if (!b->model) {
        fprintf(stderr, "%s\n", err.text);
        exit(1);
    }
    gpu_wait(&b->model->decoder.norm);
    return clock_seconds() - start;
}

static void bench_open(struct bench *b)
{
    const struct decoder_config *c = &b->model->decoder.config;
    b->step.backend = gpu;
    b->logits = calloc((size_t)c->vocab, sizeof *b->logits);
    decoder_cache(&b->model->decoder, gpu, &b->kv);
    kv_set_dtype(&b->kv, DTYPE_BF16); // the default of kv.dtype here
}

static void sequence_of(struct bench *b, int64_t n)
{
    const uint64_t vocab = (uint64_t)b->model->decoder.config.vocab;
    sequence_release(&b->sequence);
    sequence_init(&b->sequence, n, 1);
    for (int64_t i = 0; i < n; i++)
        b->sequence.ids[i] = (int32_t)(random_bits(7, RANDOM_WEIGHTS, (uint64_t)i) % vocab);
}

// Seconds of the rows after the cached ones, until their last logits are on the host.
static double pass(struct bench *b, bool prefill)
{
    struct graph g = { .backend = gpu, .arena = &b->step, .matmul = MATMUL_BF16 };
    struct decoder *d = &b->model->decoder;
    struct tensor *out = NULL;
    const double start = clock_seconds();
    struct tensor *h = splice(&g, d, &b->sequence, b->kv.layer[0].rows, NULL, NULL, 0);
    if (!h || decoder_forward(&g, d, &b->kv, &b->sequence, h, LOGITS_LAST, prefill, &out) < 0) {
        fprintf(stderr, "%s\n", g.err.text);
        exit(1);
    }
    gpu->download(b->logits, out->data, (size_t)d->config.vocab * sizeof *b->logits);
    const double s = clock_seconds() - start;
    arena_reset(&b->step, (struct arena_mark){ 0 });
    return s;
}

static double least(double a, double b)
{
    return a < b ? a : b;
}

// Seconds of cuBLASLt alone for the products of n rows in all layers; *flops: their operations.
static double product_seconds(const struct decoder *d, int64_t n, double *flops)
{
    const struct decoder_layer *w = d->layer;
    const struct linear *const a = w->attention.weight, *const f = w->ffn.weight;
    const struct linear *const all[] = { &a[ATTENTION_Q], &a[ATTENTION_K], &a[ATTENTION_V],
                                         &a[ATTENTION_O], &f[FFN_GATE],    &f[FFN_UP],
                                         &f[FFN_DOWN] };
    double s = 0;
    *flops = 0;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        const int64_t m = all[i]->weight.shape[0], k = all[i]->weight.shape[1];
        s += d->config.layers * gpu_product_seconds(n, k, m);
        *flops += 2.0 * d->config.layers * (double)n * (double)k * (double)m;
    }
    return s;
}

static void show_prefill(struct bench *b, int64_t n)
{
    double best = 1e9, flops;
    sequence_of(b, n);
    for (int i = 0; i < PASSES; i++) {
        kv_trim(&b->kv, 0);
        best = least(best, pass(b, true));
    }
    const double alone = product_seconds(&b->model->decoder, n, &flops);
    printf("| prefill of %d tokens | %.1f ms, %.0f TFLOP/s | cuBLASLt alone %.1f ms, %.0f TFLOP/s "
           "| %.0f%% | %d%% |\n",
           (int)n, best * 1e3, flops / best * 1e-12, alone * 1e3, flops / alone * 1e-12,
           100 * alone / best, n < 2048 ? 75 : 80);
    gpu_note("prefill", n, best);
}

// Bytes that a token reads after `past` keys.
static double token_bytes(const struct bench *b, int64_t past)
{
    const struct decoder *d = &b->model->decoder;
    const struct decoder_layer *w = d->layer;
    const struct linear *const a = w->attention.weight, *const f = w->ffn.weight;
    const struct linear *const all[] = { &a[ATTENTION_Q], &a[ATTENTION_K], &a[ATTENTION_V],
                                         &a[ATTENTION_O], &f[FFN_GATE],    &f[FFN_UP],
                                         &f[FFN_DOWN] };
    size_t layer = 0;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) layer += tensor_bytes(&all[i]->weight);
    layer += 2 * (size_t)past * (size_t)tensor_row(&b->kv.layer[0].k) *
             dtype_size(b->kv.layer[0].k.dtype);
    return (double)d->config.layers * (double)layer + (double)tensor_bytes(&d->head);
}

static void show_tokens(struct bench *b, double copy)
{
    double s[TOKENS];
    const int64_t past = b->sequence.n;
    for (int t = 0; t < TOKENS; t++) {
        sequence_append(&b->sequence, 5);
        s[t] = pass(b, false);
    }
    // The median, because some tokens make a recording.
    const double middle = median_of(s, TOKENS), bytes = token_bytes(b, past + TOKENS / 2);
    printf("| token after %d | %.3f ms, %.0f GB/s | a copy, %.0f GB/s | %.0f%% | 85%% |\n",
           (int)past, middle * 1e3, bytes / middle * 1e-9, copy * 1e-9,
           100 * bytes / middle / copy);
    gpu_note("token", past, middle);
}

static const char *name_of(const char *folder)
{
    const char *slash = strrchr(folder, '/');
    return slash ? slash + 1 : folder;
}

int main(int argc, char **argv)
{
    struct bench b = { 0 };
    if (argc < 2) {
        fputs("usage: model FOLDER [ROWS...]\n", stderr);
        return 2;
    }
    gpu_open();
    size_t before, unused, total;
    const double copy = gpu_copy_rate();
    gpu->memory->sizes(&before, &total);
    now_loaded(&b, argv[1]); // into the page cache
    model_free(b.model);
    const double load = now_loaded(&b, argv[1]);
    gpu->memory->sizes(&unused, &total);
    const double bytes = (double)(before - unused);
    printf("| %s | vlmsh | limit | ratio | goal |\n|---|---|---|---|---|\n", name_of(argv[1]));
    printf("| loading from the page cache | %.2f s, %.1f GB/s | | | %.1f s (4 s of 7B) |\n", load,
           bytes / load * 1e-9, 4 * bytes / BYTES_7B);
    bench_open(&b);
    for (int i = 0; i < (argc > 2 ? argc - 2 : 2); i++) {
        show_prefill(&b, argc > 2 ? atoll(argv[2 + i]) : i ? 4096 : 640);
        show_tokens(&b, copy);
    }
    sequence_release(&b.sequence);
    kv_release(&b.kv);
    arena_release(&b.step);
    model_free(b.model);
    free(b.logits);
    return 0;
}
