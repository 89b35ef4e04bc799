// core/interventions/shuffled.c -- a copy of a model with shuffled weights in its last layers.
#include "core/interventions/shuffled.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/base/random.h"

// Copies the rows [count][bytes] of `from` to `to` in random order (Fisher and Yates).
static void shuffle_rows(char *to, const char *from, int64_t count, size_t bytes, uint64_t seed)
{
    int64_t *order = xcalloc((size_t)count + 1, sizeof *order);
    for (int64_t i = 0; i < count; i++) order[i] = i;
    for (int64_t i = count - 1; i > 0; i--) {
        const int64_t k =
            (int64_t)(random_unit(seed, RANDOM_SHUFFLE, (uint64_t)i) * (double)(i + 1));
        const int64_t other = order[k];
        order[k] = order[i];
        order[i] = other;
    }
    for (int64_t i = 0; i < count; i++)
        memcpy(to + (size_t)i * bytes, from + (size_t)order[i] * bytes, bytes);
    free(order);
}

// Replaces t's data with a copy whose rows are shuffled. A vector stays unchanged.
static int shuffle(struct shuffled *s, struct tensor *t, uint64_t seed, struct err *err)
{
    const struct backend *b = t->on_host ? backend_cpu() : s->backend;
    if (!t->data || t->rank < 2) return 0;
    const int64_t width = t->shape[t->rank - 1], rows = tensor_count(t) / width;
    const size_t bytes = tensor_bytes(t);
    void *to = b->alloc(bytes);
    char *host = malloc(bytes), *mixed = malloc(bytes);
    int status = to && host && mixed ? 0 : -1;
    if (status == 0) {
        b->download(host, t->data, bytes);
        shuffle_rows(mixed, host, rows, dtype_bytes(t->dtype, width), seed);
        b->upload(to, mixed, bytes);
        t->data = to;
        s->memory = xgrow(s->memory, &s->capacity, s->count, sizeof *s->memory);
        s->of = xgrow(s->of, &s->of_capacity, s->count, sizeof *s->of);
        s->of[s->count] = b;
        s->memory[s->count++] = to;
    } else {
        b->release(to);
        err_set(err, "out of memory for shuffled weights: a matrix of %.1f MB",
                (double)bytes * 1e-6);
    }
    free(host);
    free(mixed);
    return status;
}

// Gives the sublayer its own copy of the list of weights, so that they can be replaced.
static void own_weights(struct sublayer *w)
{
    struct linear *list = xcalloc((size_t)w->count + 1, sizeof *list);
    memcpy(list, w->weight, (size_t)w->count * sizeof *list);
    w->weight = list;
}

static int shuffle_layer(struct shuffled *s, struct decoder_layer *w, int layer, struct err *err)
{
    struct sublayer *parts[] = { &w->attention, &w->ffn };
    for (int k = 0; k < 2; k++)
        for (int i = 0; i < parts[k]->count; i++)
            if (shuffle(s, &parts[k]->weight[i].weight, (uint64_t)((2 * layer + k) * 16 + i), err) <
                0)
                return -1;
    return 0;
}

int shuffled_open(struct shuffled *s, const struct model *m, const struct backend *backend,
                  int from, struct err *err)
{
    const int layers = m->decoder.config.layers;
    int status = 0;
    *s = (struct shuffled){ .model = *m, .backend = backend };
    struct decoder_layer *list = xcalloc((size_t)layers + 1, sizeof *list);
    memcpy(list, m->decoder.layer, (size_t)layers * sizeof *list);
    s->model.decoder.layer = list;
    for (int l = 0; l < layers; l++) own_weights(&list[l].attention), own_weights(&list[l].ffn);
    const int gpu = backend_enter(backend, -1);
    for (int l = from; l < layers && status == 0; l++) {
        backend_enter(backend, list[l].gpu);
        status = shuffle_layer(s, &list[l], l, err);
    }
    backend_enter(backend, gpu);
    if (status < 0) shuffled_close(s);
    return status;
}

void shuffled_close(struct shuffled *s)
{
    for (size_t i = 0; i < s->count; i++) s->of[i]->release(s->memory[i]);
    for (int l = 0; l < s->model.decoder.config.layers; l++) {
        free(s->model.decoder.layer[l].attention.weight);
        free(s->model.decoder.layer[l].ffn.weight);
    }
    free(s->model.decoder.layer);
    free(s->memory);
    free((void *)s->of);
}
