// core/adapter/adapter_entry.h -- the tensors of an adapter.
#ifndef CORE_ADAPTER_ADAPTER_ENTRY_H
#define CORE_ADAPTER_ADAPTER_ENTRY_H

#include "core/adapter/adapter.h"
#include "core/graph/arena.h"
#include "core/model/linear.h"

struct adapter_entry {
    enum adapter_kind kind;
    char *name;                  // name of the weight as in the model's file, or of the extra
                                 // tensor
    const struct weight *weight; // NULL: extra, or the head if the file ties it
    struct tensor tensor;        // weight, extra (f32); a head without data stays as it was
    struct lora lora;            // lora.scale includes the factor of adapter_scale
    float scale;                 // alpha / r
    struct tensor former;        // the model's own tensor while the adapter is applied
};

// Statistics of a vector or matrix: methods page, section 1, Table 4.
struct adapter_numbers {
    double norm;              // L2
    double magnitude, spread; // mean and standard deviation of |x|
};
struct adapter_numbers adapter_measure(const struct adapter *a, const struct tensor *t);
// Frobenius norm of scale * B A.
double adapter_lora_norm(const struct adapter *a, const struct lora *lora);

#endif
