// tests/bench/model.c -- the whole program on the shape of Llama-3.2-1B with random bf16 weights:
// time to load and resident memory; prefill of 576 tokens and one-token decode, each beside its
// limit measured in the same run (the layers' products by the libraries alone; a loop that only
// reads the weights).
//
//   build/opt/tests/bench/model [FOLDER | FILE.gguf]     a missing FOLDER is written (2.5 GB)
#include <omp.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "core/base/event.h"
#include "core/engine/engine.h"
#include "core/files/safetensors.h"
#include "core/model/decoder.h"
#include "core/model/kv.h"
#include "core/model/model.h"
#include "core/new/new_model.h"
#include "core/talk/conversation.h"
#include "tests/bench/limits.h"
#include "tests/bench/must.h"

enum { PROMPT = 576, TOKENS = 25, ROUNDS = 5, PAIRS = ROUNDS * (TOKENS - 1) };

// Seconds. The limits take turns with the program, round by round in prefill and token by token in
// decode, so that whatever else uses the machine's memory disturbs both sides alike.
struct measured {
    const struct model *model;
    double prefill[ROUNDS], library[ROUNDS]; // limit: the layers' products
    double token[PAIRS], reading[PAIRS];     // limit: reading all weights once
    int round, pairs;
    double since; // start of the current token; 0: not in decode
};

// Reads every weight once.
static double reading_seconds(const struct model *m)
{
    static volatile uint64_t sink; // so that the reading is not optimised away
    double start = omp_get_wtime();
    for (int i = 0; i < m->checkpoint->shard_count; i++)
        sink += read_bytes(m->checkpoint->shards[i]->map, m->checkpoint->shards[i]->size);
    return omp_get_wtime() - start;
}

static void hear(void *self, const struct event *e)
{
    struct measured *m = self;
    if (m->round < 0) return;
    if (e->kind == EVENT_ANSWER) {
        m->prefill[m->round] = e->answer->prefill_s;
        m->since = 0;
    }
    if (e->kind != EVENT_TOKEN) return;
    // The first token comes with the prefill.
    if (m->since > 0 && m->pairs < PAIRS) {
        m->token[m->pairs] = omp_get_wtime() - m->since;
        m->reading[m->pairs++] = reading_seconds(m->model);
    }
    m->since = omp_get_wtime();
}

// One round: the prompt, then TOKENS tokens, in an empty conversation.
static void answer(struct engine *e, struct err *err)
{
    int32_t ids[PROMPT];
    for (int i = 0; i < PROMPT; i++) ids[i] = 100 + i * 7919 % 20000;
    engine_clear(e);
    must(engine_raw(e, ids, PROMPT, err), err);
}

// The layers' products of a prefill by the faster library, weights already f32.
static double library_seconds(const struct libraries *l, const struct decoder_config *c)
{
    const int64_t shapes[][2] = { { c->heads * c->dim, c->hidden },
                                  { c->kv_heads * c->dim, c->hidden },
                                  { c->kv_heads * c->dim, c->hidden },
                                  { c->hidden, c->heads * c->dim },
                                  { c->ffn, c->hidden },
                                  { c->ffn, c->hidden },
                                  { c->hidden, c->ffn } };
    size_t widest = (size_t)(c->ffn > c->hidden ? c->ffn : c->hidden);
    float *x = calloc(PROMPT * widest, sizeof *x), *y = calloc(PROMPT * widest, sizeof *y);
    float *w = calloc(widest * widest, sizeof *w);
    double best = 0;
    for (int library = 0; library < 2; library++) {
        if (library ? !l->openblas : !l->dnnl) continue;
        // Twice: the first time touches the memory and lets the library make its code.
        for (int twice = 0; twice < 2; twice++) {
            double start = omp_get_wtime();
            for (int i = 0; i < (int)(sizeof shapes / sizeof *shapes); i++)
                (library ? libraries_openblas : libraries_dnnl)(l, y, x, w, PROMPT, shapes[i][0],
                                                                shapes[i][1]);
            double time = (omp_get_wtime() - start) * c->layers;
            if (!best || time < best) best = time;
        }
    }
    free(x);
    free(y);
    free(w);
    return best;
}

static void measure(struct engine *e, struct measured *m, const char *mode,
                    const struct libraries *l)
{
    struct err err;
    must(engine_set(e, "compute.matmul", mode, &err), &err);
    m->model = engine_model(e);
    for (m->round = -1; m->round < ROUNDS; m->round++) { // the first warms up
        answer(e, &err);
        if (m->round < 0) continue;
        if (l) m->library[m->round] = library_seconds(l, &engine_model(e)->decoder.config);
    }
    m->round = -1;
}

static long resident_kb(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss;
}

// Prints medians, and the quartiles of the ratio. Sorts both arrays.
static void print_row(const char *what, const char *mode, double work, double *ours, double *limit,
                      int n)
{
    double ratio[PAIRS];
    for (int i = 0; i < n; i++) ratio[i] = limit[i] / ours[i];
    double middle = median_of(ratio, n); // sorts them
    printf("| %s, compute.matmul %s | %.1f tokens/s | %.1f tokens/s | %.2f (%.2f to %.2f) |\n",
           what, mode, work / median_of(ours, n), work / median_of(limit, n), middle, ratio[n / 4],
           ratio[n - 1 - n / 4]);
}

int main(int argc, char **argv)
{
    const char *folder = argc > 1 ? argv[1] : "build/bench/llama-3.2-1b";
    struct measured f32 = { .round = -1 }, bf16 = { .round = -1 };
    struct sinks sinks = { 0 };
    struct stat st;
    struct err err;
    mkdir("build/bench", 0777);
    if (stat(folder, &st) < 0)
        must(new_model_write("llama-3.2-1b", folder, 1, NULL, NULL, &err), &err);
    const struct backend *b = backend_cpu();
    struct engine *e = engine_new(b, &sinks);
    must(engine_load(e, folder, &err), &err); // into the page cache
    engine_free(e);
    e = engine_new(b, &sinks);
    double start = omp_get_wtime();
    must(engine_load(e, folder, &err), &err);
    double load = omp_get_wtime() - start;
    must(engine_set(e, "sample.ignore_eos", "on", &err), &err);
    char tokens[16];
    snprintf(tokens, sizeof tokens, "%d", TOKENS);
    must(engine_set(e, "sample.max_tokens", tokens, &err), &err);

    struct libraries libraries = libraries_open(b->threads());
    sinks_add(&sinks, (struct sink){ .emit = hear, .self = &f32 });
    answer(e, &err);
    long resident = resident_kb(); // before the limits take memory of their own
    measure(e, &f32, "f32", &libraries);
    sinks.list[0].self = &bf16;
    measure(e, &bf16, "bf16", &libraries);

    printf("## Whole model: %s, shape of Llama-3.2-1B, %s, %d tokens\n\n", b->describe(), folder,
           PROMPT);
    printf("| | vlmsh | limit | ratio |\n|---|---|---|---|\n");
    print_row("prefill", "f32", PROMPT, f32.prefill, f32.library, ROUNDS);
    print_row("decode", "f32", 1, f32.token, f32.reading, f32.pairs);
    print_row("prefill", "bf16", PROMPT, bf16.prefill, bf16.library, ROUNDS);
    print_row("decode", "bf16", 1, bf16.token, bf16.reading, bf16.pairs);
    uint64_t weights = checkpoint_bytes(engine_model(e)->checkpoint);
    uint64_t cache = kv_bytes(&engine_conversation(e)->kv);
    printf(
        "\nLimits: the same products by the faster of oneDNN's and OpenBLAS's f32 sgemm alone; a "
        "loop that only reads the weights.\nLoad of %.2f GB (cached): %.2f s. Resident at most: "
        "%.2f GB = weights + KV cache + %.1f%%.\n",
        (double)weights / 1e9, load, (double)resident * 1024 / 1e9,
        ((double)resident * 1024 - (double)weights - (double)cache) / (double)weights * 100);
    engine_free(e);
    return 0;
}
