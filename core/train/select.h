// core/train/select.h -- selects the weights to train: by method name, or by rules.
//
//   struct select_item items[n] = { { .name = "model.layers.0.mlp.up_proj.weight", ... }, ... };
//   struct selection s;
//   if (select_method(&s, "layernorm", &lora, items, n, &err) < 0) ...
//   if (select_spelled(&s, "lora:q_proj,v_proj:8; *layernorm*", &lora, items, n, &err) < 0) ...
//   s.item[i].trained, s.item[i].rank, s.parameters[PART_DECODER].trained
//   selection_release(&s);
//
// Works on names and shapes only, so that the trained share is known without weights
// (core/new/shapes.h). A set is a list of rules, separated by ";" or ",":
//   PATTERN          every weight whose name in the file or plain name (core/model/weights.h)
//                    matches
//   @PART            every weight of a part: @decoder @embedding @head @projector @vision @all
//   @PART:PATTERN    the weights of the part that match
//   lora:LAYERS[:R]  LoRA of rank R on the decoder's linear layers whose last name component is
//                    listed ("lora:q_proj,v_proj:8"; commas separate layers up to the rank or a
//                    ";"); a pattern with a dot is matched against full names, of any part;
//                    "lora:*" selects all layers of the decoder, "lora:@PART" those of a part,
//                    both except routers of experts
#ifndef CORE_TRAIN_SELECT_H
#define CORE_TRAIN_SELECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/err.h"
#include "core/model/parts.h"

// A trainable item: a weight of the model, or a parameter that a method adds.
struct select_item {
    const char *name;
    const char *common;        // in Llama's spelling (struct weight); NULL: the same
    enum model_part_kind part; // of a method's parameter: the part that it belongs to
    int rank;
    int64_t shape[WEIGHT_MAX_RANK];
    bool linear;    // the weight of a linear layer [out,in]
    bool extra;     // a method's parameter: no part rule matches it, but "norm_align.*" does
    bool with_part; // a method's parameter: trained if any weight of its part is
    bool always;    // a method's parameter: always trained
};

struct selected {
    bool trained;
    int64_t rank; // of the LoRA attached to it; 0: none
    double alpha;
    bool stabilised; // as in struct lora
};

// Number of trained parameters and of all; both include the elements of LoRA matrices.
struct params_count {
    int64_t trained, total;
};

struct selection {
    struct selected *item; // [count] in the order of the items
    size_t count;
    struct params_count parameters[MODEL_PARTS + 1]; // by part and, last, in total
    bool lora;                                       // some layer gets a LoRA
    bool whole; // every weight of decoder, embedding and head is trained
};

struct select_lora {
    int64_t rank;    // default rank of rules
    double alpha;    // for that rank; a rule with another rank keeps the ratio of alpha to rank
    bool stabilised; // rsLoRA: alpha applies to every rank
};

// Returns the name of a method of train.method. NULL past the end.
const char *select_method_name(int index);
// Returns the method's default learning rate.
double select_method_rate(const char *name);

// Select the weights of a method, or of typed rules. A method's parts may be missing in a model (no
// projector, a tied head); a typed pattern without a match is an error that suggests the nearest
// name. It is also an error to select nothing, a weight both in full and for LoRA, or any LoRA
// beside the whole decoder, embedding and head. On error *s is empty.
int select_method(struct selection *s, const char *method, const struct select_lora *lora,
                  const struct select_item *items, size_t count, struct err *err);
int select_spelled(struct selection *s, const char *rules, const struct select_lora *lora,
                   const struct select_item *items, size_t count, struct err *err);
void selection_release(struct selection *s);

#endif
