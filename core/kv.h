// core/kv.h -- keys and values of the tokens so far, layer by layer; grows as needed.
#ifndef CORE_KV_H
#define CORE_KV_H

#include "core/graph.h"

struct kv_layer {
    struct tensor k, v; // [capacity, Hkv, d] f32; shape[0] is the capacity
    int64_t rows;       // rows in use
};

struct kv {
    const struct backend *backend;
    int layers;
    int64_t heads, dim;
    struct kv_layer *layer;
};

void kv_init(struct kv *kv, const struct backend *backend, int layers, int64_t heads, int64_t dim);
void kv_release(struct kv *kv);
// Room for `rows` rows in every layer. -1 when memory is short; what is there stays.
int kv_reserve(struct kv *kv, int64_t rows, struct err *err);
// Forgets rows from `rows` on.
void kv_trim(struct kv *kv, int64_t rows);
uint64_t kv_bytes(const struct kv *kv);

#endif
