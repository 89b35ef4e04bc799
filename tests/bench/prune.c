// tests/bench/prune.c -- savings of pruning on the shape of Llama-3.2-1B: prefill of 576 visual and
// 64 text tokens and the tokens after it, keep 0.25 from layer 3 of 16 on, by score; each against
// the ratio of operations. All settings take turns in one run.
//
//   build/opt/tests/bench/prune [FOLDER [THREADS]]      FOLDER is written if missing
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>

#include "core/base/random.h"
#include "core/methods/method.h"
#include "core/methods/prune_score.h"
#include "core/model/visual.h"
#include "core/new/new_model.h"
#include "core/settings/settings.h"
#include "tests/bench/limits.h"
#include "tests/bench/must.h"

enum { VISUAL = 576, TEXT = 64, BEFORE = 32, N = VISUAL + TEXT, LAYER = 2, TOKENS = 8, ROUNDS = 7 };

static const char *const scores[] = { "off",    "contribution", "attention",
                                      "norope", "uniform",      "random" };
enum { SCORES = sizeof scores / sizeof *scores };

struct bench {
    struct model *model;
    struct settings *settings;
    struct methods methods;
    struct kv kv;
    struct arena step;
    struct tensor visual; // [VISUAL, D]
};

// CPU seconds of all threads: other programs on the machine disturb them less than the clock.
static double cpu_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void open_model(struct bench *b, const char *folder)
{
    struct err err;
    struct stat st;
    mkdir("build/bench", 0777);
    if (stat(folder, &st) < 0)
        must(new_model_write("llama-3.2-1b", folder, 1, NULL, NULL, &err), &err);
    b->step.backend = backend_cpu();
    b->model = model_load(folder, backend_cpu(), NULL, &err);
    must(b->model ? 0 : -1, &err);
    const struct decoder_config *c = &b->model->decoder.config;
    decoder_cache(&b->model->decoder, backend_cpu(), &b->kv);
    b->visual = (struct tensor){ .dtype = DTYPE_F32, .rank = 2, .shape = { VISUAL, c->hidden } };
    float *v = b->visual.data = malloc(tensor_bytes(&b->visual));
    for (int64_t i = 0; i < VISUAL * c->hidden; i++)
        v[i] = 0.05f * ((float)random_unit(1, RANDOM_WEIGHTS, (uint64_t)i) - 0.5f);
    b->settings = settings_new();
    must(settings_set(b->settings, "prune.layer", "2", &err), &err);
}

static struct sequence prompt(void)
{
    struct sequence s;
    sequence_init(&s, N, 1);
    for (int i = 0; i < N; i++) {
        s.ids[i] = 100 + i * 7919 % 20000;
        if (i < BEFORE || i >= BEFORE + VISUAL) continue;
        s.picture[i] = 0;
        s.cell[i] = i - BEFORE;
    }
    s.prompt = N;
    return s;
}

static void pass(struct bench *b, const struct hooks *hooks, const struct sequence *s, int64_t past,
                 bool prefill)
{
    struct graph g = { .backend = backend_cpu(), .arena = &b->step, .hooks = hooks };
    struct arena_mark mark = arena_mark(&b->step);
    struct tensor *pictures[] = { &b->visual }, *logits;
    struct tensor *h = splice(&g, &b->model->decoder, s, past, pictures, NULL, 1);
    must(decoder_forward(&g, &b->model->decoder, &b->kv, s, h, LOGITS_LAST, prefill, &logits),
         &g.err);
    arena_reset(&b->step, mark);
}

struct measured {
    double prefill[ROUNDS], prefill_cpu[ROUNDS], token_cpu[ROUNDS];
    uint64_t cache;
};

static void answer(struct bench *b, const char *score, struct measured *m, int round)
{
    struct err err;
    struct hooks hooks = { 0 };
    must(settings_set(b->settings, "prune.score", score, &err), &err);
    const struct method_env env = { .model = b->model,
                                    .backend = backend_cpu(),
                                    .settings = b->settings };
    must(methods_attach(&b->methods, &hooks, &env, &err), &err);
    kv_clear(&b->kv);
    methods_trim(&b->methods, 0);
    struct sequence s = prompt();
    double wall = omp_get_wtime(), cpu = cpu_seconds();
    pass(b, &hooks, &s, 0, true);
    m->prefill[round] = omp_get_wtime() - wall;
    m->prefill_cpu[round] = cpu_seconds() - cpu;
    cpu = cpu_seconds();
    for (int i = 0; i < TOKENS; i++) {
        sequence_append(&s, 17);
        pass(b, &hooks, &s, s.n - 1, false);
    }
    m->token_cpu[round] = (cpu_seconds() - cpu) / TOKENS;
    m->cache = kv_bytes(&b->kv);
    sequence_release(&s);
}

// CPU seconds of the score alone, on random q, k and v.
static double score_seconds(struct bench *b, enum prune_kind kind)
{
    const struct decoder_config *c = &b->model->decoder.config;
    struct graph g = { .backend = backend_cpu(), .arena = &b->step };
    struct arena_mark mark = arena_mark(&b->step);
    struct sequence s = prompt();
    struct tensor *k = graph_new3(&g, DTYPE_F32, N, c->kv_heads, c->dim);
    struct tensor *q = graph_new3(&g, DTYPE_F32, 1, c->heads, c->dim);
    for (int64_t i = 0; i < tensor_count(k); i++) ((float *)k->data)[i] = (float)(i % 97) * 0.01f;
    for (int64_t i = 0; i < tensor_count(q); i++) ((float *)q->data)[i] = (float)(i % 89) * 0.01f;
    int32_t rows[N], token[VISUAL], number[VISUAL];
    float score[VISUAL];
    double time[ROUNDS];
    for (int i = 0; i < N; i++) rows[i] = i;
    for (int i = 0; i < VISUAL; i++) token[number[i] = i] = BEFORE + i;
    const struct prune_view view = { .model = b->model,
                                     .layer = LAYER,
                                     .q = q,
                                     .k = k,
                                     .v = k,
                                     .sequence = &s,
                                     .query = N - 1,
                                     .rows = rows,
                                     .token = token,
                                     .number = number,
                                     .count = VISUAL,
                                     .scale = 1 };
    for (int i = 0; i < ROUNDS; i++) {
        double start = cpu_seconds();
        must(prune_score(&g, kind, 0, &view, score), &g.err);
        time[i] = cpu_seconds() - start;
    }
    sequence_release(&s);
    arena_reset(&b->step, mark);
    return median_of(time, ROUNDS);
}

// Operations of one layer with n rows, two for each product and sum (norms left out).
static double layer_operations(const struct decoder_config *c, double n)
{
    const double D = (double)c->hidden, q = (double)(c->heads * c->dim);
    const double kv = (double)(c->kv_heads * c->dim), ffn = (double)c->ffn;
    return 4 * n * D * q + 4 * n * D * kv + 6 * n * D * ffn + 2 * n * (n + 1) * q;
}

static double middle_ratio(const double *a, const double *b)
{
    double ratio[ROUNDS];
    for (int i = 0; i < ROUNDS; i++) ratio[i] = a[i] / b[i];
    return median_of(ratio, ROUNDS);
}

int main(int argc, char **argv)
{
    struct bench b = { 0 };
    static struct measured m[SCORES];
    if (argc > 2) backend_cpu()->set_threads(atoi(argv[2]));
    open_model(&b, argc > 1 ? argv[1] : "build/bench/llama-3.2-1b");
    const struct decoder_config *c = &b.model->decoder.config;
    answer(&b, "off", &m[0], 0); // warms up
    for (int round = 0; round < ROUNDS; round++)
        for (int i = 0; i < SCORES; i++) answer(&b, scores[i], &m[i], round);

    const double head = 2 * (double)c->hidden * (double)c->vocab, left = TEXT + VISUAL / 4;
    const double full = c->layers * layer_operations(c, N) + head;
    const double pruned = (LAYER + 1) * layer_operations(c, N) +
                          (c->layers - LAYER - 1) * layer_operations(c, left) + head;
    const double layer = median_of(m[0].prefill_cpu, ROUNDS) / c->layers;
    printf("## Pruning: %s, shape of Llama-3.2-1B, %d visual and %d text tokens, keep 0.25 from "
           "layer %d of %d on\n\n",
           backend_cpu()->describe(), VISUAL, TEXT, LAYER + 1, c->layers);
    printf("Operations of a prefill: %.0f G, %.0f G pruned: %.2f times fewer.\n\n", full / 1e9,
           pruned / 1e9, full / pruned);
    printf("| prune.score | prefill | faster | same, CPU time | share of the operations' ratio | "
           "token | KV cache | score, of one layer |\n|---|---|---|---|---|---|---|---|\n");
    for (int i = 0; i < SCORES; i++) {
        const double faster = middle_ratio(m[0].prefill_cpu, m[i].prefill_cpu);
        const double wall = middle_ratio(m[0].prefill, m[i].prefill);
        const double token = middle_ratio(m[0].token_cpu, m[i].token_cpu);
        const double cache = (double)m[i].cache / 1e6;
        printf("| %s | %.2f s | %.2f | %.2f | ", scores[i], median_of(m[i].prefill, ROUNDS), wall,
               faster);
        if (i)
            printf("%.0f%% | %.2f | %.1f MB | %.1f%% |\n", 100 * faster / (full / pruned), token,
                   cache, 100 * score_seconds(&b, (enum prune_kind)(i - 1)) / layer);
        else
            printf("- | %.2f | %.1f MB | - |\n", token, cache);
    }
    printf("\nfaster and token: times off / times pruned, medians of rounds in turn.\n");
    methods_release(&b.methods);
    settings_free(b.settings);
    kv_release(&b.kv);
    arena_release(&b.step);
    model_free(b.model);
    free(b.visual.data);
    return 0;
}
