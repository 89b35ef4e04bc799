// core/adapter/adapter_stack.h -- PEFT's LoRA on the experts of a layer, which it keeps in two
// tensors (adapter_config.json: "target_parameters").
//
//   struct adapter_stack s;
//   if (adapter_stack_open(&s, a, b, experts, width, hidden, &err) < 0) ...
//   adapter_stack_expert(&s, 3, to_a, to_b);   // [r,in], [out,r] of expert 3
#ifndef CORE_ADAPTER_ADAPTER_STACK_H
#define CORE_ADAPTER_ADAPTER_STACK_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/err.h"

struct safetensor;

struct adapter_stack {
    int64_t experts, rank;
    int64_t out, in; // of an expert's matrix: [2m, D], the rows of the gate first, or [D, m]
    bool down;       // down_proj; else gate_up_proj
    bool swapped;    // A and B are those of the transposed parameter
    float *a, *b;    // the tensors of the file in f32
};

// Reads A and B of a layer with E experts of width m and hidden width D. The shapes say which of
// the two parameters they change. Returns -1 if they fit neither.
int adapter_stack_open(struct adapter_stack *s, const struct safetensor *a,
                       const struct safetensor *b, int64_t experts, int64_t width, int64_t hidden,
                       struct err *err);
void adapter_stack_close(struct adapter_stack *s);
void adapter_stack_expert(const struct adapter_stack *s, int64_t expert, float *a, float *b);

#endif
