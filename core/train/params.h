// core/train/params.h -- trained parameters: their gradients, their optimizer state, and f32
// masters that take the place of the model's tensors.
//
//   struct params p = { .backend = b };
//   params_extra(&p, &(struct param_extra){ .name = "norm_align.weight", .tensor = &gain, ... });
//   if (params_open(&p, model, settings, &err) < 0) ...  // train.method, .params, .lora.*
//   ... loss_sample(...): gradients add up in p.list[i].grad ...
//   params_clear(&p, &err);                              // sets the gradients to zero
//   params_release(&p);                                  // restores the model bit for bit
//
// Every trained tensor of the model points at its master (converted to f32), so that the forward
// pass computes with the trained values. A tied head is the embedding and counts once.
#ifndef CORE_TRAIN_PARAMS_H
#define CORE_TRAIN_PARAMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/err.h"
#include "core/methods/method.h"
#include "core/model/parts.h"
#include "core/train/select.h"
#include "kernels/tensor.h"

struct selection;
struct settings;

// Parameters that share a learning rate and a weight decay.
enum param_group {
    GROUP_BACKBONE,
    GROUP_PROJECTOR,
    GROUP_VISION,
    GROUP_METHODS, // the first of the methods' groups, one for each method (method_at)
    PARAM_GROUPS = GROUP_METHODS + METHODS_MAX
};

enum param_kind {
    PARAM_WEIGHT, // a weight of the model
    PARAM_LORA_A, // [r,in] of weight->linear->lora
    PARAM_LORA_B, // [out,r]
    PARAM_EXTRA,  // of a method
};

// Returns the group of a part's weights.
enum param_group params_group(enum model_part_kind part);

struct param {
    // As in the file; LoRA: "model.layers.0.self_attn.q_proj.lora_A", without ".weight".
    char *name;
    enum param_kind kind;
    enum param_group group;
    const struct backend *where; // stores it and computes with it: the model's device, or the CPU
    const struct weight *weight; // trained, or changed by the LoRA; PARAM_EXTRA: NULL
    struct tensor *tensor;       // the model's (or the method's) tensor; data is the master, f32
    struct tensor stored;        // the original tensor
    struct lora *former;         // PARAM_LORA_A: the LoRA that training continues from; NULL: none
    int64_t count;               // elements
    bool decay;                  // weight decay applies: matrices, not gains and biases
    struct grad *grad;           // zero after params_clear
    int owner; // rank that updates it and holds its moments, if these are distributed
    // train.shard gradients: the bucket of gradients that the ranks sum together during a pass, and
    // of which only the owner keeps this one between passes; -1: summed once per step, and kept.
    int bucket;
    float *m, *v; // Adam's moments, initially zero; NULL: another rank's
};

// A parameter that a method adds. Its tensor is f32 in the backend's memory, holds the initial
// value, and must outlive params; training changes a master, not the tensor's own data.
struct param_extra {
    const char *name; // must outlive params
    struct tensor *tensor;
    enum param_group group;
    enum model_part_kind part; // the part of the model that it belongs to
    bool with_part;            // trained if any weight of that part is
    bool always; // always trained; neither flag: only if a rule of train.params names it
};

// Where a GPU run trains an embedding table of host memory. TABLE_AS_SET: train.embedding decides.
enum table_place { TABLE_AS_SET, TABLE_ON_HOST, TABLE_ON_GPU };

struct params {
    const struct backend *backend;
    struct model *model;
    struct param *list;
    size_t count;
    struct params_count counted[MODEL_PARTS + 1]; // by part and, last, in total
    bool lora, whole;                             // as in struct selection
    struct param_extra *extra;
    size_t extra_count;
    // Set before params_open: the processes that train together (NULL: this one alone), or, for a
    // forecast, their number. The forecast is for the rank that needs the most memory.
    struct ranks *ranks;
    int forecast_ranks; // 0: not a forecast
    int rank;           // this process's rank; in a forecast, the rank that it is for
    bool shared_out;    // each parameter's moments are on one rank only
    int buckets;        // of gradients, in the order in which a pass completes them; 0: none
    bool moves_tables;  // set before params_open: tables of host memory are trained on the device
};

// Call before params_open; the struct is copied.
void params_extra(struct params *p, const struct param_extra *extra);
// Creates the parameters. LoRA's A is drawn with train.seed (as in PEFT: uniform in +-1/sqrt(in)),
// B is zero. If the adapter in use has a LoRA on the layer, both start from its values. On failure,
// restores the model and releases `p`.
int params_open(struct params *p, struct model *m, const struct settings *s, struct err *err);
// Checks that training with these settings is possible: that they select something in this model,
// and that it can start from the adapter in use. Fast; uses no device memory. Assumes a method's
// parameters in every layer, even if the method learns in chosen layers only. `ranks`: the number
// of processes that train together.
int params_check(const struct model *m, const struct settings *s, int ranks, struct err *err);
void params_release(struct params *p);
// Returns whether a table whose weights are in host memory is trained.
bool params_have_table(const struct params *p);
int params_clear(struct params *p, struct err *err);
// Returns true if this rank updates the parameter.
bool params_own(const struct params *p, const struct param *one);
// Returns the rank that needs the parameter's summed gradient; -1: all ranks need it (always for
// vectors, because their gradients are reported).
int params_sum_to(const struct params *p, const struct param *one);
// Returns true if this rank keeps the parameter's gradient between passes.
bool params_keep(const struct params *p, const struct param *one);
// Returns the bucket of a decoder layer, or of an encoder block if `vision`. When a backward pass
// enters that layer, it has completed all buckets before this one.
int params_bucket(const struct params *p, bool vision, int layer);
// Returns the number of pieces of a parameter: 1, or the number of rows of an embedding table in
// host memory, of which a pass needs few.
int64_t params_pieces(const struct param *one);
// Calls `work` with every piece that gradients have reached; several threads share the rows of a
// table. -1 if a call returned -1.
int params_each_piece(const struct param *one,
                      int (*work)(void *self, int64_t piece, int64_t from, int64_t count),
                      void *self);
// Marks the rows that have a non-zero moment as reached. Call it after loading moments.
void params_mark_reached(struct params *p);
struct param *params_find(const struct params *p, const char *name); // NULL: none
// Returns a non-cryptographic checksum of the masters.
uint64_t params_digest(const struct params *p);

// Selects among the weights of a model, then among the extras. Free *chosen with selection_release.
int params_choose(struct selection *chosen, const struct model *m, const struct settings *s,
                  const struct param_extra *extra, size_t extra_count, struct err *err);
// Returns the selectable items of a model: its weights, then the extras. The caller frees them.
struct select_item *params_items(const struct model *m, const struct param_extra *extra,
                                 size_t extra_count, size_t *count);

#endif
