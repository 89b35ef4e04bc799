// tests/bench/gpu/prune.c -- CAPA's savings in the decoder's prefill on the GPU, against the ratio
// of operations, and the cost of its score. Prints a Markdown table.
//
//   prune FOLDER [VISUAL]      number of visual tokens (default 576), among 64 of text
//
// A quarter of the visual tokens is kept from layer 3 on. The score is measured alone, with the
// copy to the host that the layers wait for.
#include <string.h>

#include "core/base/random.h"
#include "core/methods/method.h"
#include "core/methods/prune_score.h"
#include "core/model/flops.h"
#include "core/model/visual.h"
#include "core/settings/settings.h"
#include "tests/bench/gpu/gpu.h"
#include "tests/bench/limits.h"
#include "tests/bench/must.h"

enum { VISUAL = 576, TEXT = 64, BEFORE = 32, LAYER = 2, ROUNDS = 15 };

struct bench {
    struct model *model;
    struct settings *settings;
    struct methods methods;
    struct kv kv;
    struct arena step;
    struct tensor visual; // [S, D]
    struct sequence prompt;
    float *logits;
};

static void bench_open(struct bench *b, const char *folder, int64_t visual)
{
    struct err err = { 0 };
    b->model = model_load(folder, gpu, NULL, &err);
    must(b->model ? 0 : -1, &err);
    const struct decoder_config *c = &b->model->decoder.config;
    b->step.backend = gpu;
    b->logits = calloc((size_t)c->vocab, sizeof *b->logits);
    b->visual = gpu_tensor(DTYPE_F32, 2, visual, c->hidden, 0);
    decoder_cache(&b->model->decoder, gpu, &b->kv);
    kv_set_dtype(&b->kv, DTYPE_BF16); // the default of kv.dtype here
    b->settings = settings_new();
    must(settings_set(b->settings, "prune.layer", "2", &err), &err);
    must(settings_set(b->settings, "prune.keep", "0.25", &err), &err);
    const int64_t n = visual + TEXT;
    sequence_init(&b->prompt, n, 1);
    for (int64_t i = 0; i < n; i++) {
        const uint64_t bits = random_bits(7, RANDOM_WEIGHTS, (uint64_t)i);
        b->prompt.ids[i] = (int32_t)(bits % (uint64_t)c->vocab);
        if (i < BEFORE || i >= BEFORE + visual) continue;
        b->prompt.picture[i] = 0;
        b->prompt.cell[i] = (int32_t)(i - BEFORE);
    }
    b->prompt.prompt = n;
}

static void bench_close(struct bench *b)
{
    methods_release(&b->methods);
    settings_free(b->settings);
    sequence_release(&b->prompt);
    kv_release(&b->kv);
    arena_release(&b->step);
    gpu->release(b->visual.data);
    model_free(b->model);
    free(b->logits);
}

// Seconds of a prefill under this prune.score, until the last logits are on the host.
static double prefill(struct bench *b, const char *score)
{
    struct err err = { 0 };
    struct hooks hooks = { 0 };
    const struct method_env env = { .model = b->model, .backend = gpu, .settings = b->settings };
    must(settings_set(b->settings, "prune.score", score, &err), &err);
    must(methods_attach(&b->methods, &hooks, &env, &err), &err);
    kv_trim(&b->kv, 0);
    methods_trim(&b->methods, 0);
    struct graph g = { .backend = gpu,
                       .arena = &b->step,
                       .hooks = &hooks,
                       .settings = b->settings,
                       .matmul = MATMUL_BF16 };
    struct decoder *d = &b->model->decoder;
    struct tensor *pictures[] = { &b->visual }, *out = NULL;
    gpu_wait(&b->visual);
    const double start = clock_seconds();
    struct tensor *h = splice(&g, d, &b->prompt, 0, pictures, NULL, 1);
    if (!h) must(-1, &g.err);
    must(decoder_forward(&g, d, &b->kv, &b->prompt, h, LOGITS_LAST, true, &out), &g.err);
    gpu->download(b->logits, out->data, (size_t)d->config.vocab * sizeof *b->logits);
    const double s = clock_seconds() - start;
    arena_reset(&b->step, (struct arena_mark){ 0 });
    return s;
}

// Seconds of the score of all visual tokens alone, on noise.
static double score_seconds(struct bench *b)
{
    const struct decoder_config *c = &b->model->decoder.config;
    const int64_t n = b->prompt.n, visual = b->visual.shape[0];
    struct tensor q = gpu_tensor(DTYPE_F32, 3, 1, c->heads, c->dim);
    struct tensor k = gpu_tensor(DTYPE_BF16, 3, n, c->kv_heads, c->dim);
    int32_t *rows = malloc((size_t)n * sizeof *rows);
    int32_t *token = malloc((size_t)visual * sizeof *token);
    float *score = malloc((size_t)visual * sizeof *score);
    double time[ROUNDS];
    for (int64_t i = 0; i < n; i++) rows[i] = (int32_t)i;
    for (int64_t i = 0; i < visual; i++) token[i] = (int32_t)(BEFORE + i);
    const struct prune_view view = { .model = b->model,
                                     .layer = LAYER,
                                     .q = &q,
                                     .k = &k,
                                     .v = &k,
                                     .sequence = &b->prompt,
                                     .query = (int)n - 1,
                                     .rows = rows,
                                     .token = token,
                                     .number = rows,
                                     .count = visual,
                                     .scale = 1 };
    for (int i = -GPU_WARM; i < ROUNDS; i++) {
        struct graph g = { .backend = gpu, .arena = &b->step, .matmul = MATMUL_BF16 };
        const double start = clock_seconds();
        must(prune_score(&g, PRUNE_CONTRIBUTION, 0, &view, score), &g.err);
        if (i >= 0) time[i] = clock_seconds() - start;
        arena_reset(&b->step, (struct arena_mark){ 0 });
    }
    gpu->release(q.data);
    gpu->release(k.data);
    free(rows);
    free(token);
    free(score);
    return median_of(time, ROUNDS);
}

// Operations of `layers` layers with n rows each.
static double layer_operations(const struct decoder *d, int layers, double n)
{
    return layers * (flops_projections(&d->layer[0], n) + flops_ffn(&d->layer[0], n) +
                     flops_attention(&d->config, 0, n * (n + 1) / 2));
}

int main(int argc, char **argv)
{
    struct bench b = { 0 };
    double off[ROUNDS], on[ROUNDS];
    if (argc < 2) {
        fputs("usage: prune FOLDER [VISUAL]\n", stderr);
        return 2;
    }
    gpu_open();
    bench_open(&b, argv[1], argc > 2 ? atoll(argv[2]) : VISUAL);
    for (int i = -GPU_WARM; i < ROUNDS; i++) { // in turn, so that disturbances affect both
        const double x = prefill(&b, "off"), y = prefill(&b, "contribution");
        if (i >= 0) off[i] = x, on[i] = y;
    }
    const struct decoder *d = &b.model->decoder;
    const int layers = d->config.layers, visual = (int)b.visual.shape[0];
    const double left = TEXT + (double)prune_count(0.25, visual), head = flops_head(&d->config);
    const double all = layer_operations(d, layers, (double)b.prompt.n) + head;
    const double few = layer_operations(d, LAYER + 1, (double)b.prompt.n) +
                       layer_operations(d, layers - LAYER - 1, left) + head;
    const double whole = median_of(off, ROUNDS), pruned = median_of(on, ROUNDS);
    const double faster = whole / pruned, score = score_seconds(&b), layer = whole / layers;
    const char *name = strrchr(argv[1], '/');
    printf(
        "| %s, CAPA 0.25 from layer %d | vlmsh | limit | ratio | goal |\n|---|---|---|---|---|\n",
        name ? name + 1 : argv[1], LAYER + 1);
    printf(
        "| prefill of %d + %d tokens | %.2f times faster: %.1f to %.1f ms | operations %.2f times "
        "fewer | %.0f%% | 80%% |\n",
        visual, TEXT, faster, whole * 1e3, pruned * 1e3, all / few, 100 * faster * few / all);
    printf("| score, of a layer | %.3f ms | %.3f ms | %.1f%% | at most 10%% |\n", score * 1e3,
           layer * 1e3, 100 * score / layer);
    printf("| score, of the prefill | %.3f ms | %.2f ms | %.2f%% | at most 1%% |\n", score * 1e3,
           whole * 1e3, 100 * score / whole);
    bench_close(&b);
    return 0;
}
