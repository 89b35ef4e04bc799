// core/adapter/adapter.h -- what training changed of a model, in a folder: read, put on, taken off,
// written.
//
//   struct adapter *a = adapter_read("out/ln", model, &err);
//   adapter_apply(a);                                  // the next token obeys
//   const struct tensor *g = adapter_find(a, "norm_align.weight");
//   adapter_remove(a);                                 // the model is what it was, bit for bit
//   adapter_free(a);
//
// adapter_config.json, adapter_model.safetensors: as PEFT reads and writes them (LORA, LN_TUNING,
// modules_to_save). extra.safetensors: what PEFT has no place for. Either file may be absent.
// Putting on replaces pointers only: weights by those of the adapter, which are whole, and LoRA
// beside the linear layers. Every shape was checked against the model when the folder was read.
//
// Room core/adapter/: what training left: adapters read, put on and written, whole models written,
// and where numbers come from. It uses talk, methods, model and what they use.
#ifndef CORE_ADAPTER_ADAPTER_H
#define CORE_ADAPTER_ADAPTER_H

#include "core/model/model.h"

enum adapter_kind {
    ADAPTER_LORA,   // beside a linear layer
    ADAPTER_WEIGHT, // in the place of a weight
    ADAPTER_EXTRA,  // of a method, looked up by it
    ADAPTER_KINDS
};

struct adapter_entry {
    enum adapter_kind kind;
    char *name;                  // of the weight as the model's file spells it, or of the extra
    const struct weight *weight; // NULL: extra, or the head where the file ties it
    struct tensor tensor;        // weight, extra (f32); head without data: it stays as it was
    struct lora lora;            // lora.scale includes adapter_scale's factor
    float scale;                 // alpha / r
    struct tensor former;        // of the model, while the adapter is on
};

struct adapter {
    char *folder;
    char *name; // last level of the folder
    char *base; // model it was trained on, as its config says; "" when unknown
    struct model *model;
    struct adapter_entry *list;
    size_t count, capacity;
    int64_t unused; // tensors left out: the model holds what they belong to, but nothing reads it
    struct safetensors *file, *extra; // matrices stay mapped
    struct arena arena;
    bool applied;
    char *hash; // adapter_hash; NULL: nobody asked yet
};

// Does the folder look like an adapter?
bool adapter_is(const char *folder);
int adapter_need(const char *folder, struct err *err); // -1 says what the folder is instead
// Reads and checks everything against the model, which the adapter must not outlive. NULL and a
// message that names the folder and the tensor.
struct adapter *adapter_read(const char *folder, struct model *m, struct err *err);
// The same from files already opened (fuzzing); they belong to the adapter, also on failure. config
// and file may be NULL together, extra alone.
struct adapter *adapter_parse(const char *folder, struct model *m, const cJSON *config,
                              struct safetensors *file, struct safetensors *extra, struct err *err);
void adapter_free(struct adapter *a); // takes it off before

// At most one adapter is on a model at a time.
void adapter_apply(struct adapter *a);
void adapter_remove(struct adapter *a);
// Multiplies LoRA's scale; full weights are not scaled.
void adapter_scale(struct adapter *a, double factor);

// A method's tensor (f32) by its name; NULL: the adapter has none. NULL adapter: NULL.
const struct tensor *adapter_find(const struct adapter *a, const char *extra);
bool adapter_has(const struct adapter *a, enum adapter_kind kind);
// Does it change what encoder and projector make of a picture? (Methods act after them.)
bool adapter_touches_vision(const struct adapter *a);
int64_t adapter_parameters(const struct adapter *a);
// SHA-256 over what was read: names, shapes and numbers of all tensors, and the scales. It goes
// through all of it once.
const char *adapter_hash(struct adapter *a);

// --- numbers to show -----------------------------------------------------------------------------

// Of a vector or matrix: methods page, section 1, Table 4.
struct adapter_numbers {
    double norm;              // L2
    double magnitude, spread; // mean and standard deviation of |x|
};
struct adapter_numbers adapter_measure(const struct adapter *a, const struct tensor *t);
// Frobenius norm of scale * B A.
double adapter_lora_norm(const struct adapter *a, const struct lora *lora);
const char *adapter_kind_name(enum adapter_kind kind); // "LoRA"

// --- writing -------------------------------------------------------------------------------------

// What training changed. LoRA: weight and lora; weight: weight and tensor; extra: name and tensor.
struct adapter_delta {
    enum adapter_kind kind;
    const struct weight *weight;
    const char *name;
    const struct tensor *tensor; // f32
    const struct lora *lora;     // f32
};

// Writes the folder, which must not exist yet (or be empty); it appears under its name only when
// complete. Weights alone become LN_TUNING (norms) with modules_to_save, with LoRA all of them
// modules_to_save. `m` gives the other tensors of a module that is saved.
int adapter_write(const struct model *m, const struct adapter_delta *deltas, size_t count,
                  const char *folder, struct err *err);
// The same into a folder that is there; adapter_config.json comes last, and what an earlier call
// wrote is replaced file by file.
int adapter_write_into(const struct model *m, const struct adapter_delta *deltas, size_t count,
                       const char *folder, struct err *err);
// extra.safetensors into a folder that is there; only deltas that are extras. Nothing when none is.
int adapter_write_extras(const struct adapter_delta *deltas, size_t count,
                         const struct backend *backend, const char *folder, struct err *err);

#endif
