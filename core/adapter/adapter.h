// core/adapter/adapter.h -- reads, applies, removes and writes adapters: folders with the changes
// that training made to a model.
//
//   struct adapter *a = adapter_read("out/ln", model, &err);
//   adapter_apply(a);                                  // takes effect from the next token
//   const struct tensor *g = adapter_find(a, "norm_align.weight");
//   adapter_remove(a);                                 // restores the model bit for bit
//   adapter_free(a);
//
// adapter_config.json, adapter_model.safetensors: in PEFT format (LORA, LN_TUNING,
// modules_to_save). extra.safetensors: tensors that PEFT cannot represent. A folder may lack
// extra.safetensors or both of the PEFT files. Applying an adapter only swaps pointers: whole
// weights are replaced, and LoRA is attached to linear layers. All shapes are checked against the
// model when the folder is read.
//
// Room core/adapter/: reads, applies and writes adapters; writes whole models; records the
// provenance of numbers. Uses talk, methods, model and what they use.
#ifndef CORE_ADAPTER_ADAPTER_H
#define CORE_ADAPTER_ADAPTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/err.h"
#include "core/base/hash.h"
#include "core/base/json.h"
#include "core/base/names.h"

struct backend;
struct method;
struct model;
struct safetensors;
struct sinks;
struct tensor;
struct weight;

enum adapter_kind {
    ADAPTER_LORA,   // LoRA attached to a linear layer
    ADAPTER_WEIGHT, // replaces a weight
    ADAPTER_EXTRA,  // a method's tensor, which the method finds by name
    ADAPTER_KINDS
};

struct adapter {
    char *folder;
    char *name; // last level of the folder's path
    char *base; // base model named in adapter_config.json; "" if none
    struct model *model;
    struct adapter_entry *list; // core/adapter/adapter_entry.h
    size_t count, capacity;
    int64_t unused;       // tensors skipped: vlmsh does not compute their part of the model
    int64_t targets;      // weights that adapter_config.json names for LoRA
    struct names bare;    // targets without tensors in the file
    struct names notices; // sentences about unused or missing parts of the folder
    struct safetensors *file, *extra; // open files, because matrices may be used in place (mapped)
    struct arena *arena;
    bool applied;
    bool reported;        // the notices have been shown
    char *hash;           // adapter_hash; NULL: not computed yet
    char files[HASH_HEX]; // sizes and times of the folder's files when they were read; "": unknown
};

// Returns true if the folder looks like an adapter.
bool adapter_is(const char *folder);
// Returns the folder whose training.json describes the training of this adapter or model: the
// folder itself or, for a checkpoint, its run's. NULL: none. The caller frees it.
char *adapter_run(const char *folder);
// Returns -1 if the folder is not an adapter; the message names the kind of folder that it is.
int adapter_need(const char *folder, struct err *err);
// Reads the folder and checks everything against the model, which must outlive the adapter. Returns
// NULL on failure; the message names the folder and the tensor.
struct adapter *adapter_read(const char *folder, struct model *m, struct err *err);
// Like adapter_read, from opened files (for fuzzing). Takes ownership of `file` and `extra`, even
// on failure. `config` and `file` may both be NULL, and so may `extra`.
struct adapter *adapter_parse(const char *folder, struct model *m, const cJSON *config,
                              struct safetensors *file, struct safetensors *extra, struct err *err);
// Returns true if the folder's files have been replaced or written since adapter_read.
bool adapter_files_changed(const struct adapter *a);
void adapter_free(struct adapter *a); // removes it first if applied

// At most one adapter is applied to a model at a time.
void adapter_apply(struct adapter *a);
void adapter_remove(struct adapter *a);
// Applies the adapter. `only`: from then on, each pass applies the adapter if the conversation of
// the pass has a picture, and removes it otherwise.
void adapter_with_pictures(struct adapter *a, bool only);
// Sets the scale of each LoRA to `factor` times its scale in the folder; whole weights are not
// scaled.
void adapter_scale(struct adapter *a, double factor);

// Finds a method's tensor (f32) by name; NULL if `a` is NULL or lacks it.
const struct tensor *adapter_find(const struct adapter *a, const char *extra);
bool adapter_has(const struct adapter *a, enum adapter_kind kind);
// Returns true if the adapter changes the encoder or the projector, and so the visual tokens.
bool adapter_touches_vision(const struct adapter *a);
int64_t adapter_parameters(const struct adapter *a);
// Returns the SHA-256 of the names, types, shapes and elements of all tensors, and of the scales.
// Reads all data once.
const char *adapter_hash(struct adapter *a);

// --- numbers to show -----------------------------------------------------------------------------

// Returns "LoRA 28, weight 4"; the caller frees it.
char *adapter_kinds(const struct adapter *a);
// Returns true if the adapter has tensors that this method learned.
bool adapter_learned(const struct adapter *a, const struct method *m);
// Emits a table of the adapter's LoRA by kind of layer, and a table of its other tensors.
void adapter_show(const struct adapter *a, const struct sinks *sinks);

// --- writing -------------------------------------------------------------------------------------

// A trained change. Fields by kind: ADAPTER_LORA: weight and lora; ADAPTER_WEIGHT: weight and
// tensor; ADAPTER_EXTRA: name and tensor.
struct adapter_delta {
    enum adapter_kind kind;
    const struct weight *weight;
    const char *name;
    const struct tensor *tensor; // f32
    const struct lora *lora;     // f32
};

// Appends an entry of an adapter as a delta, except the adapter's own head for a model that ties
// its head: no weight represents it, and callers refuse adapters that have one.
void adapter_add_delta(struct adapter_delta *deltas, size_t *count, const struct adapter_entry *e);

// Saves an adapter as a new folder, which gets its name only when complete. LoRA keeps its current
// scale; tensors get the type `type` ("f32", "bf16" or "f16"), except extra ones and constants,
// which stay f32. Copies the training record (training.json), if any.
int adapter_save(const struct adapter *a, const char *type, const char *folder, struct err *err);
// Writes the extra deltas to extra.safetensors in an existing folder; writes no file if there are
// none.
int adapter_write_extras(const struct adapter_delta *deltas, size_t count,
                         const struct backend *backend, const char *folder, struct err *err);

#endif
