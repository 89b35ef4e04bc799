// tests/toys/naive.c -- the toy family's arithmetic in float64, element by element.
#include "tests/toys/naive.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/mem.h"
#include "core/base/random.h"
#include "core/files/safetensors.h"
#include "tests/core/scratch.h"

enum { WORDS, LAST, SPEAK, ASK, MEMORY, TELL, CALM_1, IN, IN_BIAS, OUT, CALM_2, PER_LAYER = 8 };

#define EPS 1e-5

// --- the model -----------------------------------------------------------------------------------

static const struct {
    const char *name;
    int64_t rows, columns;
} shapes[] = {
    [WORDS] = { "model.words.weight", TOY_WORDS, TOY_WIDTH },
    [LAST] = { "model.last.weight", TOY_WIDTH, 1 },
    [SPEAK] = { "speak.weight", TOY_WORDS, TOY_WIDTH },
    [ASK] = { "mix.ask.weight", TOY_HEADS *TOY_DIM, TOY_WIDTH },
    [MEMORY] = { "mix.memory.weight", TOY_KV_HEADS *TOY_DIM, TOY_WIDTH }, // rows in even layers
    [TELL] = { "mix.tell.weight", TOY_WIDTH, TOY_HEADS *TOY_DIM },
    [CALM_1] = { "calm_1.weight", TOY_WIDTH, 1 },
    [IN] = { "think.in.weight", TOY_FFN, TOY_WIDTH },
    [IN_BIAS] = { "think.in.bias", TOY_FFN, 1 },
    [OUT] = { "think.out.weight", TOY_WIDTH, TOY_FFN },
    [CALM_2] = { "calm_2.weight", TOY_WIDTH, 1 },
};

// Gains are about 1, all other weights about 0.
static void fill(struct toy_tensor *t, uint64_t seed)
{
    const int64_t count = t->rows * t->columns;
    const double middle = t->columns == 1 && !strstr(t->name, "bias") ? 1 : 0;
    t->data = xreallocarray(NULL, (size_t)count, sizeof *t->data);
    for (int64_t i = 0; i < count; i++) {
        const double noise = random_unit(seed, RANDOM_WEIGHTS, (uint64_t)i) - 0.5;
        t->data[i] = (float)(middle + 0.9 * noise);
    }
}

void naive_open(struct toy_tensor t[TOY_TENSORS])
{
    for (int i = 0; i < TOY_TENSORS; i++) {
        const int kind = i < ASK ? i : ASK + (i - ASK) % PER_LAYER;
        if (i < ASK)
            snprintf(t[i].name, sizeof t[i].name, "%s", shapes[i].name);
        else
            snprintf(t[i].name, sizeof t[i].name, "model.blocks.%d.%s", (i - ASK) / PER_LAYER,
                     shapes[kind].name);
        t[i].rows =
            kind == MEMORY && (i - ASK) / PER_LAYER % 2 ? shapes[ASK].rows : shapes[kind].rows;
        t[i].columns = shapes[kind].columns;
        fill(&t[i], (uint64_t)i);
    }
}

void naive_close(struct toy_tensor t[TOY_TENSORS])
{
    for (int i = 0; i < TOY_TENSORS; i++) free(t[i].data);
}

static void write_tensors(const struct toy_tensor t[TOY_TENSORS], const char *folder, bool tied)
{
    struct err err = { 0 };
    char *path = xasprintf("%s/model.safetensors", folder);
    struct safetensors_writer *w = safetensors_writer_new(path);
    for (int i = 0; i < TOY_TENSORS; i++)
        if (i != SPEAK || !tied)
            safetensors_writer_declare(w, t[i].name, DTYPE_F32, t[i].columns > 1 ? 2 : 1,
                                       (int64_t[]){ t[i].rows, t[i].columns });
    for (int i = 0; i < TOY_TENSORS; i++)
        for (int64_t k = 0; k < t[i].rows * t[i].columns && (i != SPEAK || !tied); k++)
            safetensors_writer_data(w, &(float){ (float)t[i].data[k] }, sizeof(float), &err);
    if (safetensors_writer_finish(w, &err) < 0) fatal("%s", err.text);
    free(path);
}

void naive_write(const struct toy_tensor t[TOY_TENSORS], const char *folder, bool tied)
{
    static const char *const files[] = { "tokenizer.json", "tokenizer_config.json" };
    char *config = xasprintf(
        "{\"architectures\": [\"ToyForCausalLM\"], \"model_type\": \"toy\", \"hidden_size\": %d, "
        "\"num_attention_heads\": %d, \"num_key_value_heads\": %d, \"head_dim\": %d, "
        "\"intermediate_size\": %d, \"num_hidden_layers\": %d, \"vocab_size\": %d, "
        "\"max_position_embeddings\": 4096, \"rms_norm_eps\": 1e-5, \"rope_theta\": 100, "
        "\"bos_token_id\": 560, \"eos_token_id\": 561, \"tie_word_embeddings\": %s}",
        TOY_WIDTH, TOY_HEADS, TOY_KV_HEADS, TOY_DIM, TOY_FFN, TOY_LAYERS, TOY_WORDS,
        tied ? "true" : "false");
    scratch_text(folder, "config.json", config);
    free(config);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        scratch_copy(folder, "tests/goldens/llama-3.2", files[i]);
    write_tensors(t, folder, tied);
}

// --- the pass ------------------------------------------------------------------------------------

// y [rows] = W x
static void product(double *y, const struct toy_tensor *w, const double *x)
{
    for (int64_t r = 0; r < w->rows; r++) {
        y[r] = 0;
        for (int64_t c = 0; c < w->columns; c++) y[r] += w->data[r * w->columns + c] * x[c];
    }
}

static void norm(double *x, const struct toy_tensor *gain)
{
    double squares = 0;
    for (int i = 0; i < TOY_WIDTH; i++) squares += x[i] * x[i];
    for (int i = 0; i < TOY_WIDTH; i++) x[i] *= gain->data[i] / sqrt(squares / TOY_WIDTH + EPS);
}

// Rotates x [heads, TOY_DIM] by the angles of a position.
static void turn(double *x, int heads, int64_t position)
{
    enum { HALF = TOY_DIM / 2 };
    for (int i = 0; i < heads * HALF; i++) {
        double *a = x + i / HALF * TOY_DIM + i % HALF, *b = a + HALF, was = *a;
        const double angle = (double)position / 2 * pow(100, -2.0 * (i % HALF) / TOY_DIM);
        *a = was * cos(angle) - *b * sin(angle);
        *b = *b * cos(angle) + was * sin(angle);
    }
}

static bool hidden(const struct naive_cut *cut, int64_t row, int64_t key, int head)
{
    return cut && cut->to && row != key && cut->to[row] && cut->from[key] &&
           (cut->head < 0 || cut->head == head);
}

// Computes head `head` of q over the keys 0..last.
static void attend(double *to, const double *q, const double (*k)[TOY_KV_HEADS * TOY_DIM],
                   const double (*v)[TOY_KV_HEADS * TOY_DIM], int64_t last, int head,
                   const struct naive_cut *cut)
{
    const int at = head / (TOY_HEADS / TOY_KV_HEADS) * TOY_DIM;
    double sum = 0;
    for (int x = 0; x < TOY_DIM; x++) to[x] = 0;
    for (int64_t j = 0; j <= last; j++) {
        double score = 0;
        if (hidden(cut, last, j, head)) continue;
        for (int x = 0; x < TOY_DIM; x++) score += q[x] * k[j][at + x];
        const double p = exp(score / sqrt(TOY_DIM));
        sum += p;
        for (int x = 0; x < TOY_DIM; x++) to[x] += p * v[j][at + x];
    }
    for (int x = 0; x < TOY_DIM; x++) to[x] /= sum;
}

static void mix(const struct toy_tensor *w, double (*h)[TOY_WIDTH], int64_t n,
                const struct naive_cut *cut)
{
    double(*k)[TOY_KV_HEADS * TOY_DIM] = xcalloc((size_t)n, sizeof *k);
    double(*v)[TOY_KV_HEADS * TOY_DIM] = xcalloc((size_t)n, sizeof *v);
    for (int64_t i = 0; i < n; i++) {
        product(v[i], &w[MEMORY - ASK], h[i]);
        memcpy(k[i], v[i], sizeof *k);
        turn(k[i], TOY_KV_HEADS, i);
    }
    for (int64_t i = 0; i < n; i++) {
        double q[TOY_HEADS * TOY_DIM], a[TOY_HEADS * TOY_DIM], y[TOY_WIDTH];
        product(q, &w[ASK - ASK], h[i]);
        turn(q, TOY_HEADS, i);
        for (int head = 0; head < TOY_HEADS; head++)
            attend(a + (ptrdiff_t)head * TOY_DIM, q + (ptrdiff_t)head * TOY_DIM,
                   (const double(*)[TOY_KV_HEADS * TOY_DIM]) k,
                   (const double(*)[TOY_KV_HEADS * TOY_DIM]) v, i, head, cut);
        if (cut && cut->part == NAIVE_HEAD)
            memset(a + (ptrdiff_t)cut->head * TOY_DIM, 0, TOY_DIM * sizeof *a);
        product(y, &w[TELL - ASK], a);
        norm(y, &w[CALM_1 - ASK]);
        for (int x = 0; x < TOY_WIDTH; x++) h[i][x] += y[x];
    }
    free(k);
    free(v);
}

static void gate(const struct toy_tensor *w, double *h)
{
    double a[TOY_HEADS * TOY_DIM], b[TOY_HEADS * TOY_DIM], y[TOY_WIDTH];
    product(a, &w[ASK - ASK], h);
    product(b, &w[MEMORY - ASK], h);
    for (int i = 0; i < TOY_HEADS * TOY_DIM; i++) a[i] *= b[i] / (1 + exp(-a[i]));
    product(y, &w[TELL - ASK], a);
    norm(y, &w[CALM_1 - ASK]);
    for (int x = 0; x < TOY_WIDTH; x++) h[x] += y[x];
}

static void think(const struct toy_tensor *w, double *h)
{
    double wide[TOY_FFN], y[TOY_WIDTH];
    product(wide, &w[IN - ASK], h);
    for (int i = 0; i < TOY_FFN; i++) {
        const double x = wide[i] + w[IN_BIAS - ASK].data[i];
        wide[i] = x / 2 * (1 + erf(x / sqrt(2)));
    }
    product(y, &w[OUT - ASK], wide);
    norm(y, &w[CALM_2 - ASK]);
    for (int x = 0; x < TOY_WIDTH; x++) h[x] += y[x];
}

// Replaces the change in the rows since `before` with zeros, or with its mean over the rows.
static void replace(double (*h)[TOY_WIDTH], double (*before)[TOY_WIDTH], int64_t n, bool mean)
{
    for (int x = 0; x < TOY_WIDTH; x++) {
        double sum = 0;
        for (int64_t i = 0; i < n; i++) sum += h[i][x] - before[i][x];
        for (int64_t i = 0; i < n; i++) h[i][x] = before[i][x] + (mean ? sum / (double)n : 0);
    }
}

void naive_logits(const struct toy_tensor t[TOY_TENSORS], const int32_t *ids, int64_t n,
                  double *logits)
{
    naive_cut_logits(t, NULL, ids, n, logits);
}

void naive_cut_logits(const struct toy_tensor t[TOY_TENSORS], const struct naive_cut *cut,
                      const int32_t *ids, int64_t n, double *logits)
{
    double(*h)[TOY_WIDTH] = xcalloc((size_t)n, sizeof *h);
    double(*before)[TOY_WIDTH] = xcalloc((size_t)n, sizeof *before);
    for (int64_t i = 0; i < n; i++)
        memcpy(h[i], t[WORDS].data + (int64_t)ids[i] * TOY_WIDTH, sizeof *h);
    for (int l = 0; l < (cut && cut->layers ? cut->layers : TOY_LAYERS); l++) {
        const struct toy_tensor *w = t + ASK + (ptrdiff_t)l * PER_LAYER;
        const bool here = cut && cut->layer == l;
        const int part = here ? (int)cut->part : -1;
        const bool mean = here && cut->mean;
        memcpy(before, h, (size_t)n * sizeof *h);
        if (l % 2 == 0) mix(w, h, n, cut);
        for (int64_t i = 0; i < n && l % 2; i++) gate(w, h[i]);
        if (part != NAIVE_LAYER) memcpy(before, h, (size_t)n * sizeof *h);
        for (int64_t i = 0; i < n; i++) think(w, h[i]);
        if (part == NAIVE_FFN) replace(h, before, n, mean);
        for (int64_t i = 0; i < n * TOY_WIDTH; i++) h[i / TOY_WIDTH][i % TOY_WIDTH] *= TOY_FADE;
        if (part == NAIVE_LAYER) replace(h, before, n, mean);
    }
    for (int64_t i = 0; i < n; i++) {
        norm(h[i], &t[LAST]);
        product(logits + i * TOY_WORDS, &t[SPEAK], h[i]);
    }
    free(before);
    free(h);
}

double naive_loss(const struct toy_tensor t[TOY_TENSORS], const int32_t *ids, const int32_t *target,
                  int64_t n)
{
    double *logits = xcalloc((size_t)(n * TOY_WORDS), sizeof *logits), loss = 0;
    int64_t count = 0;
    naive_logits(t, ids, n, logits);
    for (int64_t i = 0; i < n; i++) {
        double sum = 0;
        if (target[i] < 0) continue;
        for (int x = 0; x < TOY_WORDS; x++) sum += exp(logits[i * TOY_WORDS + x]);
        loss += log(sum) - logits[i * TOY_WORDS + target[i]];
        count++;
    }
    free(logits);
    return loss / (double)count;
}
