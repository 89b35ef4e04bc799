// core/adapter/adapter_entry.h -- the tensors of an adapter.
#ifndef CORE_ADAPTER_ADAPTER_ENTRY_H
#define CORE_ADAPTER_ADAPTER_ENTRY_H

#include <string.h>

#include "core/adapter/adapter.h"
#include "core/graph/arena.h"
#include "core/model/linear.h"

struct adapter_entry {
    enum adapter_kind kind;
    char *name;                  // name of the weight as in the model's file, or of the extra
                                 // tensor
    const struct weight *weight; // NULL: an extra tensor, or a head that the model's file ties
    struct tensor tensor; // new weight, or extra tensor (f32); data NULL: keeps the model's head
    struct lora lora;     // lora.scale includes the factor of adapter_scale
    float scale;          // alpha / r
    struct tensor former; // the model's own tensor, saved while the adapter is applied
};

// Returns the last level of a dotted name.
static inline const char *name_last_level(const char *name)
{
    const char *dot = strrchr(name, '.');
    return dot ? dot + 1 : name;
}

// Reads n elements of a tensor from `first` on as f32; the range must consist of whole quantised
// blocks.
void adapter_floats(const struct backend *b, const struct tensor *t, int64_t first, int64_t n,
                    float *to);
// Returns all elements of a tensor as f32; the caller frees them.
float *adapter_vector(const struct backend *b, const struct tensor *t);

// Statistics of a vector or matrix: the norm alignment paper, Table 4.
struct adapter_numbers {
    double norm;              // L2
    double magnitude, spread; // mean and standard deviation of |x|
};
struct adapter_numbers adapter_measure(const struct adapter *a, const struct tensor *t);
// Returns the Frobenius norm of scale * B A.
double adapter_lora_norm(const struct adapter *a, const struct lora *lora);

// Writes an adapter into an existing folder, adapter_config.json last; replaces files of an earlier
// call one by one. Without LoRA, the adapter is LN_TUNING: norms are its targets, other weights are
// modules_to_save. With LoRA, all whole weights are modules_to_save, except biases of LoRA modules.
// `m` provides the other tensors of a saved module; `type` (f32, bf16 or f16) applies to the
// tensors that PEFT can represent.
int adapter_write_into(const struct model *m, const struct adapter_delta *deltas, size_t count,
                       enum dtype type, const char *folder, struct err *err);

#endif
