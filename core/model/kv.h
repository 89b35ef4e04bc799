// core/model/kv.h -- keys and values of the tokens so far, layer by layer; grows as needed.
//
// A layer holds rows of its own: where a method drops tokens, the layers after it have fewer. Which
// row of the sequence each one is stands beside it. Numbers are f32, or bf16 in half the memory:
// what is new is rounded when it is put there, and whoever reads the tables takes both.
#ifndef CORE_MODEL_KV_H
#define CORE_MODEL_KV_H

#include <stdbool.h>

#include "core/graph/replay.h"

struct settings;

struct kv_layer {
    struct tensor k, v; // [capacity, Hkv, d] (kv_row); shape[0] is the capacity
    int32_t *position;  // [capacity] row of the sequence, ascending; host memory
    int64_t rows;       // rows in use
    int64_t coming;     // rows in use when the pass that runs has ended
};

// What is kept of a token in a layer: heads and numbers a head of its key and its value.
struct kv_row {
    int64_t k[2], v[2];
};

struct kv {
    const struct backend *backend;
    int layers;
    struct kv_row row;
    enum dtype dtype; // of the tables: f32 or bf16
    struct kv_layer *layer;
    struct replay replay; // of the steps that append single rows (core/model/decoder_step.c)
};

// Of f32.
void kv_init(struct kv *kv, const struct backend *backend, int layers, struct kv_row row);
// Is it of so many layers of such rows?
bool kv_fits(const struct kv *kv, int layers, struct kv_row row);
void kv_release(struct kv *kv);
// What kv.dtype says, or is by itself on the device. Without settings f32.
enum dtype kv_dtype(const struct backend *b, const struct settings *s);
// Keys and values are of this dtype from now on; those of another are forgotten.
void kv_set_dtype(struct kv *kv, enum dtype dtype);
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
// Of a token's key and value in one layer.
uint64_t kv_row_bytes(const struct kv *kv);

// Room for `rows` rows in a table [capacity, ...] whose first `used` are kept. For tables that grow
// as the cache does. 0 or -1.
int kv_table_reserve(const struct backend *b, struct tensor *table, int64_t used, int64_t rows);

#endif
