// core/model/kv.h -- the KV cache, layer by layer; grows as needed.
//
// Each layer holds its own rows: after a method drops tokens, later layers have fewer. Each cached
// row records which row of the sequence it belongs to. Elements are f32, or bf16 in half the
// memory: new values are rounded when stored, and readers accept both dtypes.
#ifndef CORE_MODEL_KV_H
#define CORE_MODEL_KV_H

#include <stdbool.h>

#include "core/base/err.h"
#include "core/graph/replay.h"
#include "kernels/tensor.h"

struct settings;

struct kv_layer {
    struct tensor k, v; // [capacity, Hkv, d] (kv_layer_shape)
    int32_t *position;  // [capacity] row of the sequence, ascending; host memory
    int64_t rows;       // rows in use
    int64_t coming;     // rows in use after the current pass
    // A layer that shares the keys and values of an earlier one has tables of its own only while
    // their rows differ, because a method dropped rows between the two layers.
    bool shares, apart;
};

// Shape of a token's key and value in a layer: heads, and elements per head; all 0 in a layer that
// caches neither.
struct kv_row {
    int64_t k[2], v[2];
};

struct kv {
    const struct backend *backend;
    int layers;
    int first_layer, end_layer; // layers that this process holds; the others stay empty
    enum dtype dtype;           // of the tables: f32 or bf16
    struct kv_layer *layer;
    struct replay replay; // recordings of the steps that append single rows
                          // (core/model/decoder_step.c)
};

// Initialises an empty cache of f32, without shapes (kv_layer_shape).
void kv_init(struct kv *kv, const struct backend *backend, int layers);
// True if the layer's rows have the shape `row`.
bool kv_layer_is(const struct kv_layer *l, struct kv_row row);
void kv_release(struct kv *kv);
// Returns the value of kv.dtype, or its default on the device; f32 without settings.
enum dtype kv_dtype(const struct backend *b, const struct settings *s);
// Sets the dtype of keys and values; cached ones of another dtype are discarded.
void kv_set_dtype(struct kv *kv, enum dtype dtype);
// Sets the row shape of an empty layer.
void kv_layer_shape(struct kv *kv, int layer, struct kv_row row);
// Gives an empty layer that shares keys and values tables of its own, or frees them.
void kv_layer_set_apart(struct kv *kv, int layer, bool apart);
// Reserves memory for `rows` rows in a layer, or in each layer of this process. -1 when memory is
// short; existing rows stay.
int kv_layer_reserve(struct kv *kv, int layer, int64_t rows, struct err *err);
int kv_reserve(struct kv *kv, int64_t rows, struct err *err);
// Keeps only the first `rows` rows of the sequence.
void kv_trim(struct kv *kv, int64_t rows);
// Discards everything and frees the memory.
void kv_clear(struct kv *kv);
// True if all of this process's layers from `layer` on hold the first `rows` rows of the sequence.
bool kv_whole(const struct kv *kv, int layer, int64_t rows);
uint64_t kv_bytes(const struct kv *kv);
// Returns the size of a token's key and value in a layer, in bytes; 0 in a layer without tables of
// its own.
uint64_t kv_row_bytes(const struct kv *kv, int layer);

// Grows a table [capacity, ...] to `rows` rows and keeps the first `used`. For tables that grow
// with the cache. 0 or -1.
int kv_table_reserve(const struct backend *b, struct tensor *table, int64_t used, int64_t rows);

#endif
