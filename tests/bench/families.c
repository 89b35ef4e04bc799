// tests/bench/families.c -- compares a model of each family with one of the `llama` family, in turn
// in one run: prefill and encoder in GFLOP/s, tokens in GB/s. tests/bench/run.sh joins the rows.
//
//   families write SHAPE LAYERS FOLDER    writes a folder; LAYERS 0: all layers of the decoder
//   families text LLAMA FOLDER PEER       prefill of a short and a long prompt, and tokens
//   families picture LLAMA FOLDER SIDES PEER     the encoder and projector on a picture, 700x700
//
// PEER is a file of lines "prefill SECONDS", "token SECONDS", "picture-f32 SECONDS", "picture-bf16
// SECONDS" of other programs on the same folder, for the short prompt; missing lines give empty
// cells.
//
// FLOPs are 2 per multiply-add of products and attention; bytes of a token are those of /flops:
// weights (only chosen experts of a mixture), keys and values; a recurrent layer reads and writes
// its state in place of these. A prefill has a second row, in bytes: each weight counts once, even
// if blocks of rows read it again. It also gives the limit as a share of the measured time: at
// the limit, each product runs at the FLOP/s of `llama`'s prefill in the same turn, or as fast
// as a plain loop reads its weights, whichever is slower.
#include <omp.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "core/base/mem.h"
#include "core/base/random.h"
#include "core/model/families/family.h"
#include "core/model/flops.h"
#include "core/model/kv.h"
#include "core/model/layer.h"
#include "core/model/visual.h"
#include "core/new/new_model.h"
#include "core/template/message.h"
#include "tests/bench/limits.h"
#include "tests/bench/must.h"

// PROMPT: a prompt with a small picture; LONG: one with a picture of native resolution.
enum { PROMPT = 576, LONG = 2048, TOKENS = 12, ROUNDS = 3 };

struct side {
    struct model *model;
    struct kv kv;
    struct arena step;
    struct sequence sequence;
    double prefill[ROUNDS], token[ROUNDS]; // GFLOP/s, GB/s
    double read[ROUNDS];                   // GB/s of weights in a prefill
    double prefill_s[ROUNDS], token_s[ROUNDS];
};

// --- one side ------------------------------------------------------------------------------------

static void side_open(struct side *s, const char *folder)
{
    struct err err;
    s->model = model_load(folder, backend_cpu(), NULL, &err);
    must(s->model ? 0 : -1, &err);
    s->step.backend = backend_cpu();
    decoder_cache(&s->model->decoder, backend_cpu(), &s->kv);
    kv_set_dtype(&s->kv, kv_dtype(backend_cpu(), NULL));
}

static void side_close(struct side *s)
{
    sequence_release(&s->sequence);
    kv_release(&s->kv);
    arena_release(&s->step);
    model_free(s->model);
}

static struct graph graph_of(struct side *s)
{
    return (struct graph){ .backend = backend_cpu(),
                           .arena = &s->step,
                           .matmul = graph_matmul_auto(backend_cpu(), s->model->dtype) };
}

// Seconds of a pass over the rows from `from` on; the cache holds those before.
static double pass(struct side *s, int64_t from, bool prefill)
{
    struct graph g = graph_of(s);
    struct decoder *d = &s->model->decoder;
    struct tensor *out = NULL;
    const double start = omp_get_wtime();
    struct tensor *h = splice(&g, d, &s->sequence, from, NULL, NULL, 0);
    must(h ? decoder_forward(&g, d, &s->kv, &s->sequence, h, LOGITS_LAST, prefill, &out) : -1,
         &g.err);
    const double seconds = omp_get_wtime() - start;
    arena_reset(&s->step, (struct arena_mark){ 0 });
    return seconds;
}

static double prefill_flops(const struct decoder *d, int64_t n)
{
    double flops = flops_head(&d->config);
    for (int l = 0; l < d->config.layers; l++)
        flops += flops_projections(&d->layer[l], n) + flops_ffn(&d->layer[l], n) +
                 flops_recurrence(&d->config, l, n) +
                 flops_attention(&d->config, l, (double)n * (double)(n + 1) / 2);
    return flops;
}

// Seconds for the products of `rows` rows with a sublayer's weights, each product at `flops` or
// `bytes` a second, whichever is slower; flops 0: for reading the weights alone.
static double products_seconds(const struct sublayer *s, double rows, double flops, double bytes)
{
    double seconds = 0;
    for (int i = 0; i < s->count; i++) {
        const struct linear *w = &s->weight[i];
        if (w->weight.rank != 2) continue;
        const double read = (double)tensor_bytes(&w->weight) / bytes;
        const double work = 2 * (double)tensor_count(&w->weight) * w->share * rows;
        seconds += flops && work / flops > read ? work / flops : read;
    }
    return seconds;
}

// Seconds for a prefill of n tokens at these rates, with attention.
static double prefill_seconds(const struct decoder *d, int64_t n, double flops, double bytes)
{
    const double head = (double)tensor_bytes(&d->head) / bytes, pairs = (double)n * (double)(n + 1);
    double seconds =
        flops && flops_head(&d->config) / flops > head ? flops_head(&d->config) / flops : head;
    for (int l = 0; l < d->config.layers; l++)
        seconds += products_seconds(&d->layer[l].attention, (double)n, flops, bytes) +
                   products_seconds(&d->layer[l].ffn, (double)n, flops, bytes) +
                   (flops ? flops_attention(&d->config, l, pairs / 2) / flops : 0);
    return seconds;
}

static double token_bytes(const struct side *s, int64_t keys)
{
    const struct decoder *d = &s->model->decoder;
    double bytes = (double)tensor_bytes(&d->head);
    for (int l = 0; l < d->config.layers; l++) {
        const struct kv_row row = decoder_attention(&d->config, l)->cached(&d->config, l);
        bytes += flops_weight_bytes(&d->layer[l]) +
                 (double)keys * flops_key_bytes(&d->config, l, s->kv.dtype) +
                 2 * (double)(row.state + row.tail) * sizeof(float);
    }
    return bytes;
}

// Runs a prompt of n tokens and an answer.
static void side_answer(struct side *s, int n, int round)
{
    const uint64_t vocab = (uint64_t)s->model->decoder.config.vocab;
    double token[TOKENS];
    kv_trim(&s->kv, 0);
    sequence_release(&s->sequence);
    sequence_init(&s->sequence, n, 1);
    for (int i = 0; i < n; i++)
        s->sequence.ids[i] = (int32_t)(random_bits(7, RANDOM_WEIGHTS, (uint64_t)i) % vocab);
    const double prefill = pass(s, 0, true);
    for (int t = 0; t < TOKENS; t++) {
        const uint64_t id = random_bits(8, RANDOM_WEIGHTS, (uint64_t)t) % vocab;
        sequence_append(&s->sequence, (int32_t)id);
        token[t] = pass(s, n + t, false);
    }
    if (round < 0) return;
    s->prefill_s[round] = prefill;
    s->token_s[round] = median_of(token, TOKENS);
    s->prefill[round] = prefill_flops(&s->model->decoder, n) / prefill / 1e9;
    s->read[round] = prefill_seconds(&s->model->decoder, n, 0, 1) / prefill / 1e9;
    s->token[round] = token_bytes(s, n + TOKENS / 2) / s->token_s[round] / 1e9;
}

// --- rows of the table ---------------------------------------------------------------------------

// PEER's seconds for this key; 0 if it has none.
static double peer_seconds(const char *file, const char *key)
{
    char name[64], seconds[64];
    double found = 0;
    FILE *f = fopen(file, "re");
    while (f && fscanf(f, "%63s %63s", name, seconds) == 2)
        if (!strcmp(name, key)) found = strtod(seconds, NULL);
    if (f) fclose(f);
    return found;
}

struct row {
    const char *name, *what, *unit;
    double seconds, work;      // of a pass: its time and tokens (0: the row shows seconds)
    double rate, llama, ratio; // GFLOP/s or GB/s; the rate of `llama`; median of their ratios
    double peer;               // seconds of the peer; 0 if not measured
};

static void show(const char *text, double seconds, double work)
{
    if (work)
        printf(" %.2f tokens/s%s |", work / seconds, text);
    else
        printf(" %.2f s%s |", seconds, text);
}

static void print_row(const struct row *r)
{
    printf("| %s | %s |", r->name, r->what);
    show("", r->seconds, r->work);
    printf(" %.0f %s | %.0f | %.2f |", r->rate, r->unit, r->llama, r->ratio);
    if (r->peer) {
        show("", r->peer, r->work);
        printf(" %.2f |\n", r->peer / r->seconds);
    } else {
        printf(" | |\n");
    }
    fflush(stdout);
}

static const char *name_of(const char *folder)
{
    const char *slash = strrchr(folder, '/');
    return slash ? slash + 1 : folder;
}

// Median of all rounds; leaves their order unchanged.
static double middle(const double *t)
{
    double sorted[ROUNDS];
    memcpy(sorted, t, sizeof sorted);
    return median_of(sorted, ROUNDS);
}

static double ratio_of(const double *a, const double *b)
{
    double ratio[ROUNDS];
    for (int i = 0; i < ROUNDS; i++) ratio[i] = a[i] / b[i];
    return median_of(ratio, ROUNDS);
}

// GB/s of a plain loop over the head of a model.
static double reading(const struct side *s)
{
    const struct tensor *head = &s->model->decoder.head;
    double rate[ROUNDS];
    uint64_t sum = 0;
    for (int i = 0; i < ROUNDS; i++) {
        const double start = omp_get_wtime();
        sum += read_bytes(head->data, tensor_bytes(head));
        rate[i] = (double)tensor_bytes(head) / (omp_get_wtime() - start) / 1e9;
    }
    return sum ? median_of(rate, ROUNDS) : 0;
}

// Prints the row in bytes for a prefill of n tokens, with the limit's share of its time.
static void print_bytes(const struct side *a, const struct side *b, const char *name, int n,
                        double read)
{
    double least[ROUNDS], rate[ROUNDS], llama[ROUNDS];
    char what[96];
    for (int i = 0; i < ROUNDS; i++) {
        const double flops = a->prefill[i] * 1e9;
        least[i] = prefill_seconds(&b->model->decoder, n, flops, read * 1e9) / b->prefill_s[i];
        rate[i] = b->read[i], llama[i] = a->read[i];
    }
    snprintf(what, sizeof what, "in bytes, %.2f of its limit (reading: %.0f GB/s)", middle(least),
             read);
    print_row(&(struct row){ .name = name,
                             .what = what,
                             .unit = "GB/s",
                             .seconds = middle(b->prefill_s),
                             .work = n,
                             .ratio = ratio_of(rate, llama),
                             .rate = middle(rate),
                             .llama = middle(llama) });
}

// Runs a prefill of n tokens on both sides in turn, and prints its row.
static void prefill(struct side *a, struct side *b, const char *name, int n, double peer)
{
    char prompt[32];
    for (int i = -1; i < ROUNDS; i++) { // the first warms up
        side_answer(a, n, i);
        side_answer(b, n, i);
    }
    const double read = reading(a);
    snprintf(prompt, sizeof prompt, "prefill of %d tokens", n);
    print_row(&(struct row){ .name = name,
                             .what = prompt,
                             .unit = "GFLOP/s",
                             .seconds = middle(b->prefill_s),
                             .work = n,
                             .ratio = ratio_of(b->prefill, a->prefill),
                             .rate = middle(b->prefill),
                             .llama = middle(a->prefill),
                             .peer = peer });
    print_bytes(a, b, name, n, read);
}

static void text(const char *llama, const char *folder, const char *peer)
{
    struct side a = { 0 }, b = { 0 };
    const char *name = name_of(folder);
    side_open(&a, llama);
    side_open(&b, folder);
    prefill(&a, &b, name, PROMPT, peer_seconds(peer, "prefill"));
    print_row(&(struct row){ .name = name,
                             .what = "a token",
                             .unit = "GB/s",
                             .seconds = middle(b.token_s),
                             .work = 1,
                             .ratio = ratio_of(b.token, a.token),
                             .rate = middle(b.token),
                             .llama = middle(a.token),
                             .peer = peer_seconds(peer, "token") });
    prefill(&a, &b, name, LONG, 0);
    side_close(&a);
    side_close(&b);
}

// --- pictures ------------------------------------------------------------------------------------

static double linear_flops(const struct linear *w)
{
    return w->weight.data ? 2 * (double)tensor_count(&w->weight) : 0;
}

// FLOPs of one row in the products of a block.
static double block_flops(const struct vision_layer *w)
{
    const struct linear *const all[] = { &w->q,   &w->k,   &w->v,    &w->qkv, &w->out,
                                         &w->fc1, &w->fc2, &w->gate, &w->up,  &w->down };
    double flops = 0;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) flops += linear_flops(all[i]);
    return flops;
}

// Counts the pairs of a row and a row that it attends to, in windows.
static double window_pairs(const struct vision *v, const struct vision_picture *p)
{
    const int64_t rows = vision_tile_rows(&v->config, p), at[] = { 0, rows };
    const struct vision_batch b = { .vision = v, .picture = p, .count = 1, .rows = rows, .at = at };
    int32_t *first = xreallocarray(NULL, (size_t)rows, sizeof *first);
    int32_t *last = xreallocarray(NULL, (size_t)rows, sizeof *last);
    double pairs = 0;
    v->config.kind->windows(&b, first, last);
    for (int64_t i = 0; i < rows; i++) pairs += last[i] - first[i];
    free(first);
    free(last);
    return pairs;
}

static double projector_flops(const struct projector *p)
{
    return linear_flops(&p->gate) + linear_flops(&p->up) + linear_flops(&p->down) +
           linear_flops(&p->linear_1) + linear_flops(&p->linear_2);
}

static double picture_flops(const struct model *m, const struct vision_picture *p)
{
    const struct vision *v = &m->vision;
    const struct vision_config *c = &v->config;
    const double rows = (double)vision_tile_rows(c, p), tiles = (double)p->tiles;
    double flops = tiles * rows * linear_flops(&v->patch);
    for (int l = 0; l < vision_depth(c); l++) {
        const bool windowed = c->kind->windowed && c->kind->windowed(c, l);
        const double pairs = windowed ? window_pairs(v, p) : tiles * rows * rows;
        flops += tiles * rows * block_flops(&v->layer[l]) + 4 * pairs * (double)c->hidden;
    }
    const double features = (double)vision_features(c, p);
    return flops + features * linear_flops(&v->merge) +
           features / (double)m->projector.merge * projector_flops(&m->projector);
}

static struct image noise(int64_t width, int64_t height)
{
    struct image image = { width, height, 3, NULL };
    image.pixels = xreallocarray(NULL, (size_t)(width * height), 3);
    for (int64_t i = 0; i < 3 * width * height; i++)
        image.pixels[i] = (uint8_t)random_bits(9, RANDOM_WEIGHTS, (uint64_t)i);
    return image;
}

// Seconds of encoder and projector, without resizing the picture and cutting it into patches.
static double encode(struct side *s, const struct picture *picture, double *flops)
{
    struct graph g = graph_of(s);
    const struct model *m = s->model;
    struct vision_picture read = m->family->pictures->read(&g, m, picture);
    must(read.pixels ? 0 : -1, &g.err);
    *flops = picture_flops(m, &read);
    const double start = omp_get_wtime();
    struct tensor *x = vision_forward(&g, &m->vision, &read, 1, NULL);
    must(projector_forward(&g, &m->projector, x) ? 0 : -1, &g.err);
    const double seconds = omp_get_wtime() - start;
    arena_reset(&s->step, (struct arena_mark){ 0 });
    return seconds;
}

static void picture(const char *llama, const char *folder, const char *sides, const char *peer)
{
    struct side a = { 0 }, b = { 0 };
    char *end, what[64];
    struct picture p = { .shape = { 0 } };
    p.shape.width = strtol(sides, &end, 10);
    p.shape.height = strtol(end + (*end != 0), NULL, 10);
    p.image = noise(p.shape.width, p.shape.height);
    side_open(&a, llama);
    side_open(&b, folder);
    snprintf(what, sizeof what, "picture of %s, %lld visual tokens", sides,
             (long long)b.model->family->pictures->tokens(b.model, p.shape));
    // One measurement is enough for large pictures.
    const int rounds = p.shape.width * p.shape.height > 1000000 ? 1 : ROUNDS;
    double rate[ROUNDS], seconds[ROUNDS], flops = 0;
    for (int i = 0; i < ROUNDS; i++) {
        side_answer(&a, PROMPT, i);
        if (i < rounds) seconds[i] = encode(&b, &p, &flops);
        if (i >= rounds) seconds[i] = seconds[rounds - 1];
        rate[i] = flops / seconds[i] / 1e9;
    }
    struct row row = { .name = name_of(folder), .what = what, .unit = "GFLOP/s" };
    row.ratio = ratio_of(rate, a.prefill);
    row.seconds = median_of(seconds, ROUNDS);
    row.rate = median_of(rate, ROUNDS);
    row.llama = median_of(a.prefill, ROUNDS);
    const double f32 = peer_seconds(peer, "picture-f32"), bf16 = peer_seconds(peer, "picture-bf16");
    row.peer = bf16 && (!f32 || bf16 < f32) ? bf16 : f32; // the faster
    print_row(&row);
    image_release(&p.image);
    side_close(&a);
    side_close(&b);
}

int main(int argc, char **argv)
{
    struct err err;
    if (argc == 5 && !strcmp(argv[1], "write")) {
        const long layers = strtol(argv[3], NULL, 10);
        must(layers ? new_model_write_layers(argv[2], layers, argv[4], 1, &err)
                    : new_model_write(argv[2], argv[4], 1, NULL, NULL, &err),
             &err);
    } else if (argc == 5 && !strcmp(argv[1], "text")) {
        text(argv[2], argv[3], argv[4]);
    } else if (argc == 6 && !strcmp(argv[1], "picture")) {
        picture(argv[2], argv[3], argv[4], argv[5]);
    } else {
        fputs("usage: families write SHAPE LAYERS FOLDER | text LLAMA FOLDER PEER | picture LLAMA "
              "FOLDER SIDES PEER\n",
              stderr);
        return 2;
    }
    return 0;
}
