// core/adapter/model_write.h -- writes the current model (trained, or with an adapter) as a new
// folder in Hugging Face format.
//
//   model_write(m, NULL, 0, "out/merged", NULL, &err);
//
// Names, shapes, types and shards are those of the model's folder. LoRA is added to its weight in
// f32 and rounded once. Other files are copied, except weights, hidden files, subfolders,
// adapter_config.json and training.json.
#ifndef CORE_ADAPTER_MODEL_WRITE_H
#define CORE_ADAPTER_MODEL_WRITE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/err.h"

struct adapter_delta;
struct model;
struct weight;

// The comparison of a written model with the one in memory, on a fixed prompt (with a picture if
// the model has a vision encoder).
struct merge_report {
    int64_t rows;              // of logits compared
    float difference, largest; // max |a - b|, max |a|
    bool routed;               // rounding may send a row to other experts
};

// Writes a folder, which must be absent or empty; it gets its name once it is complete and, if
// `report` is not NULL, compared. Extra deltas go to extra.safetensors beside the model, which
// makes the folder an adapter folder too; other deltas are not used, because the weights of `m`
// include them.
int model_write(const struct model *m, const struct adapter_delta *deltas, size_t count,
                const char *folder, struct merge_report *report, struct err *err);
// Writes into an existing folder, without a comparison; replaces a file of the same name once the
// new one is complete.
int model_write_into(const struct model *m, const struct adapter_delta *deltas, size_t count,
                     const char *folder, struct err *err);

// Reads `rows` rows of a weight plus its LoRA, from row `first` on, as f32 in Hugging Face's order.
// If the tensor has another order (struct head_order), the rows must be whole heads.
int model_weight_rows(const struct model *m, const struct weight *w, int64_t first, int64_t rows,
                      float *to, struct err *err);

#endif
