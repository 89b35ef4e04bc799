// core/kv.h -- keys and values of the tokens so far, layer by layer; grows as needed.
//
// A layer holds rows of its own: where a method drops tokens, the layers after it have fewer. Which
// row of the sequence each one is stands beside it.
#ifndef CORE_KV_H
#define CORE_KV_H

#include <stdbool.h>

#include "core/replay.h"

struct kv_layer {
    struct tensor k, v; // [capacity, Hkv, d] f32; shape[0] is the capacity
    int32_t *position;  // [capacity] row of the sequence, ascending; host memory
    int64_t rows;       // rows in use
    int64_t coming;     // rows in use when the pass that runs has ended
};

struct kv {
    const struct backend *backend;
    int layers;
    int64_t heads, dim;
    struct kv_layer *layer;
    struct replay replay; // of the steps that append single rows (core/decoder_step.c)
};

void kv_init(struct kv *kv, const struct backend *backend, int layers, int64_t heads, int64_t dim);
void kv_release(struct kv *kv);
// Room for `rows` rows in a layer, or in each. -1 when memory is short; what is there stays.
int kv_layer_reserve(struct kv *kv, int layer, int64_t rows, struct err *err);
int kv_reserve(struct kv *kv, int64_t rows, struct err *err);
// Forgets rows `rows` of the sequence and later ones.
void kv_trim(struct kv *kv, int64_t rows);
// Forgets everything and gives the memory back.
void kv_clear(struct kv *kv);
// Do the layers from `layer` on hold each of the first `rows` rows of the sequence?
bool kv_whole(const struct kv *kv, int layer, int64_t rows);
uint64_t kv_bytes(const struct kv *kv);

// Room for `rows` rows in a table [capacity, ...] of f32 whose first `used` are kept. For tables
// that grow as the cache does. 0 or -1.
int kv_table_reserve(const struct backend *b, struct tensor *table, int64_t used, int64_t rows);

#endif
