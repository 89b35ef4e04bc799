// core/model/kv.h -- the KV cache, layer by layer; grows as needed.
//
// A layer with recurrence (core/model/attention_delta.c) has a state in place of keys and values: a
// row of such a layer leaves nothing behind but its effect on the state. The cache therefore keeps
// states at some rows of the sequence (core/model/kv_states.c), and can be cut only at these rows.
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

struct sequence;
struct settings;

struct kv_layer {
    struct tensor k, v; // [capacity, Hkv, d] (kv_layer_shape)
    // f32 [slots, elements]: a layer's states, and the rows before the next one that its
    // convolution reads (struct kv_mark says which rows a slot has seen).
    struct tensor state, tail;
    int32_t *position; // [capacity] row of the sequence, ascending; host memory
    int64_t rows;      // rows in use
    int64_t coming;    // rows in use after the current pass
    // A layer that shares the keys and values of an earlier one has tables of its own only while
    // their rows differ, because a method dropped rows between the two layers.
    bool shares, apart;
};

// Shape of a token's key and value in a layer: heads, and elements per head; all 0 in a layer that
// caches neither. state, tail: elements of a state and of its tail; 0: no recurrence.
struct kv_row {
    int64_t k[2], v[2];
    int64_t state, tail;
};

// A slot that holds, in every layer with recurrence, the state after the rows of the sequence
// before `row`.
struct kv_mark {
    int64_t row;
    int slot;
    bool border; // stays when later passes continue from it
};

// Maximum number of borders, and of all marks: a pass with drafts adds one for each of its rows.
enum { KV_BORDERS = 8, KV_MARKS = 24 };

struct kv_marks {
    struct kv_mark at[KV_MARKS]; // rows ascend
    int count;
};

struct kv {
    const struct backend *backend;
    int layers;
    int first_layer, end_layer; // layers that this process holds; the others stay empty
    enum dtype dtype;           // of the tables: f32 or bf16
    struct kv_layer *layer;
    struct kv_marks marks; // of states; `coming`: after the current pass
    struct kv_marks coming;
    int first_slot, slots; // of the current pass: the state before it (-1: none); slots needed
    struct replay replay;  // recordings of the steps that append single rows
                           // (core/model/decoder_step.c)
};

// Initialises an empty cache of f32, without shapes (kv_layer_shape).
void kv_init(struct kv *kv, const struct backend *backend, int layers);
// True if the layer's rows have the shape `row`.
bool kv_layer_is(const struct kv_layer *l, struct kv_row row);
void kv_release(struct kv *kv);
// Returns the value of kv.dtype, or its default on the device; f32 without settings.
enum dtype kv_dtype(const struct backend *b, const struct settings *s);
// Sets the dtype of keys and values; if it changes, discards everything cached.
void kv_set_dtype(struct kv *kv, enum dtype dtype);
// Sets the row shape of an empty layer.
void kv_layer_shape(struct kv *kv, int layer, struct kv_row row);
// Switches a layer that shares keys and values to tables of its own, still empty, or back.
void kv_layer_set_apart(struct kv *kv, int layer, bool apart);
// Reserves memory for `rows` rows in a layer, or in each layer of this process. -1 when memory is
// short; existing rows stay.
int kv_layer_reserve(struct kv *kv, int layer, int64_t rows, struct err *err);
int kv_reserve(struct kv *kv, int64_t rows, struct err *err);
// Keeps only the first `rows` rows of the sequence or, with layers with recurrence, the first
// kv_reusable(kv, rows). Returns their number.
int64_t kv_trim(struct kv *kv, int64_t rows);
// Discards everything and frees the memory.
void kv_clear(struct kv *kv);
// True if all of this process's layers from `layer` on hold the first `rows` rows of the sequence.
bool kv_whole(const struct kv *kv, int layer, int64_t rows);
// Return the memory of all keys and values, and of all states, in bytes.
uint64_t kv_bytes(const struct kv *kv);
uint64_t kv_state_bytes(const struct kv *kv);
// Returns the size of a token's key and value in a layer, in bytes; 0 in a layer without tables of
// its own.
uint64_t kv_row_bytes(const struct kv *kv, int layer);

// --- states (kv_states.c) ------------------------------------------------------------------------

// True if some layer of this process has a state.
bool kv_recurrent(const struct kv *kv);
// Returns the largest number of rows, at most `rows`, after which a pass can continue: without
// states `rows` itself, else the number of rows before a state that the layers kept, or 0.
int64_t kv_reusable(const struct kv *kv, int64_t rows);
// Plans the states that a pass over the rows of s from row `from` on keeps (kv->coming).
void kv_begin_pass(struct kv *kv, const struct sequence *s, int64_t from, bool prefill);
// Makes the planned states valid.
void kv_end_pass(struct kv *kv);
// Reserves memory for kv->slots states of a layer. 0 or -1.
int kv_states_reserve(struct kv *kv, int layer, struct err *err);

// Grows a table [capacity, ...] to at least `rows` rows and keeps the first `used`. For tables that
// grow with the cache. 0 or -1.
int kv_table_reserve(const struct backend *b, struct tensor *table, int64_t used, int64_t rows);

#endif
