// core/adapter/adapter_stack.h -- PEFT's LoRA on the experts of a layer, which it keeps in two
// tensors (adapter_config.json: "target_parameters").
//
//   struct adapter_stack s;
//   if (adapter_stack_open(&s, a, b, experts, width, hidden, &err) < 0) ...
//   adapter_stack_expert(&s, 3, to_a, to_b);   // [r,in], [out,r] of expert 3
//   adapter_stack_put_a(&s, 3, &part, a);      // the other way, to write an adapter
#ifndef CORE_ADAPTER_ADAPTER_STACK_H
#define CORE_ADAPTER_ADAPTER_STACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/err.h"

struct safetensor;

// PEFT's names of the two parameters: of gate_proj with up_proj, and of down_proj.
extern const char *const adapter_stack_names[2];

// A matrix of an expert, parsed from a name such as "model.layers.3.mlp.experts.7.up_proj".
struct adapter_expert {
    size_t experts; // length of "model.layers.3.mlp.experts"
    int64_t number; // 7
    enum { EXPERT_GATE, EXPERT_UP, EXPERT_DOWN } matrix;
};

// Returns false if the module is not a matrix of an expert.
bool adapter_expert_parse(struct adapter_expert *e, const char *module);
// Returns the name of the parameter that holds the matrix of all experts of the layer, such as
// "model.layers.3.mlp.experts.gate_up_proj"; NULL: the module is not a matrix of an expert. The
// caller frees it.
char *adapter_expert_parameter(const char *module);

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
// If gate_up_proj consists of a LoRA of gate_proj and one of up_proj, returns the rank of the
// first: the rows of gate_proj use only these columns of B, and the rows of up_proj only the
// others. Returns -1 if columns are shared, for down_proj, and if A and B are swapped. Zeros do not
// tell: if B is zero, columns are shared unless the parameter has a rank of its own (rank_pattern),
// as /adapter save gives it.
int64_t adapter_stack_split(const struct adapter_stack *s, bool own_rank);

// The LoRA of one matrix of an expert, to be put among all ranks of its parameter from `first` on,
// and in its rows from `row` on.
struct adapter_stack_part {
    int64_t first, rank; // A [rank,in], B [rows,rank]
    int64_t row, rows;
    float factor; // multiplies B
};

// Copies A of an expert to s->a, or B to s->b, which the caller has zeroed.
void adapter_stack_put_a(const struct adapter_stack *s, int64_t expert,
                         const struct adapter_stack_part *p, const float *a);
void adapter_stack_put_b(const struct adapter_stack *s, int64_t expert,
                         const struct adapter_stack_part *p, const float *b);

#endif
