// core/train/params.h -- the parameters being trained: f32 masters in the model's place, gradients,
// and what the optimizer keeps of each.
//
//   struct params p = { .backend = b };
//   params_extra(&p, &(struct param_extra){ .name = "norm_align.weight", .tensor = &gain, ... });
//   if (params_open(&p, model, settings, &err) < 0) ...     // train.method, train.params,
//   train.lora.*
//   ... loss_sample(...): gradients add up in p.list[i].grad ...
//   params_clear(&p);                                       // gradients are zero again
//   params_release(&p);                                     // the model is as it was, to the bit
//
// Every trained tensor of the model points at its master meanwhile (bf16 and f16 widened), so the
// forward pass computes with what is trained. A tied head is the embedding, once.
#ifndef CORE_TRAIN_PARAMS_H
#define CORE_TRAIN_PARAMS_H

#include "core/model/model.h"
#include "core/settings/settings.h"
#include "core/train/select.h"

struct grad;

// What shares a learning rate and a weight decay.
enum param_group { GROUP_BACKBONE, GROUP_PROJECTOR, GROUP_VISION, GROUP_IRA, PARAM_GROUPS };

enum param_kind {
    PARAM_WEIGHT, // a weight of the model
    PARAM_LORA_A, // [r,in] of weight->linear->lora
    PARAM_LORA_B, // [out,r]
    PARAM_EXTRA,  // of a method
};

struct param {
    // As the file spells it; LoRA: "model.layers.0.self_attn.q_proj.lora_A", without ".weight".
    char *name;
    enum param_kind kind;
    enum param_group group;
    const struct backend *where; // reads and computes it: the model's device, or the CPU
    const struct weight *weight; // PARAM_WEIGHT; LoRA: of the layer it stands beside; else NULL
    struct tensor *tensor;       // in the model (or the method); data is the master, f32
    struct tensor stored;        // what the tensor was before
    int64_t count;               // numbers
    bool decay;                  // weight decay applies: matrices, not gains and biases
    struct grad *grad;           // kept; zero after params_clear
    float *m, *v;                // Adam's moments, zero at first
};

// A parameter that a method adds. Its tensor is f32 in the backend's memory, holds the value to
// begin with, and outlives params; training changes a master, not what the tensor held.
struct param_extra {
    const char *name; // outlives params
    struct tensor *tensor;
    enum param_group group;
    enum model_part_kind part; // it goes with this part ...
    bool with_part;            // ... and is trained whenever a weight of the part is
    bool always;               // or in any case; neither: only when a rule of train.params names it
};

struct params {
    const struct backend *backend;
    struct model *model;
    struct param *list;
    size_t count;
    int64_t trained, total; // numbers (LoRA's own in both)
    bool lora, whole;       // struct selection
    struct param_extra *extra;
    size_t extra_count;
};

// Before params_open; the struct is copied.
void params_extra(struct params *p, const struct param_extra *extra);
// LoRA's A is drawn with train.seed (as PEFT: uniform in +-1/sqrt(in)), B is zero. On failure the
// model is as it was and `p` is released.
int params_open(struct params *p, struct model *m, const struct settings *s, struct err *err);
// Can these settings choose something in this model? Quick, nothing is allocated for it. Parameters
// of methods are not known yet: a rule of train.params that may mean them is not refused.
int params_check(const struct model *m, const struct settings *s, struct err *err);
// Numbers trained and numbers there are, by part and, last, of all; LoRA's own count in both.
struct params_count {
    int64_t trained, total;
};
int params_count(const struct model *m, const struct settings *s,
                 struct params_count counted[MODEL_PARTS + 1], struct err *err);
void params_release(struct params *p);
int params_clear(struct params *p, struct err *err);
// A parameter in pieces: all of it at once; of a table on the host each row, as a pass needs few of
// them and the host's memory is slow.
int64_t params_pieces(const struct param *one);
// Calls with every piece that is not zero in gradient and moments: rows that gradients have
// reached. Several threads take the rows of a table. 0, or -1 when a call gave that.
int params_each_piece(const struct param *one,
                      int (*work)(void *self, int64_t piece, int64_t from, int64_t count),
                      void *self);
// After moments were read: rows where one is not zero have been reached.
void params_mark_reached(struct params *p);
struct param *params_find(const struct params *p, const char *name); // NULL: none

// What may be selected in a model: its weights, then the extras. Belongs to the caller (free).
struct select_item *params_items(const struct model *m, const struct param_extra *extra,
                                 size_t extra_count, size_t *count);

#endif
