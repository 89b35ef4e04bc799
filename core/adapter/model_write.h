// core/adapter/model_write.h -- a model as it is now (trained, or with an adapter on it) into a
// folder of its own, as Hugging Face reads it.
//
//   model_write(m, NULL, 0, "out/merged", &err);
//
// Names, shapes, types and division into files are those of the folder the model came from; LoRA is
// added to its weight in f32 and rounded once. Other files are copied, other weight files are not.
#ifndef CORE_ADAPTER_MODEL_WRITE_H
#define CORE_ADAPTER_MODEL_WRITE_H

#include "core/adapter/adapter.h"

// `folder` must be absent or empty; it appears when it is complete. Parts that are extras go to
// extra.safetensors beside the model, which is then an adapter folder too.
int model_write(const struct model *m, const struct adapter_delta *deltas, size_t count,
                const char *folder, struct err *err);
// The same into a folder that is there; a file of the same name is replaced when the new one is
// complete.
int model_write_into(const struct model *m, const struct adapter_delta *deltas, size_t count,
                     const char *folder, struct err *err);

// model_write, and what was written is loaded and compared with the model on a fixed prompt (with a
// picture where it sees) before the folder gets its name.
struct merge_report {
    int64_t rows;              // of logits compared
    float difference, largest; // max |a - b|, max |a|
};
int model_merge(const struct model *m, const struct adapter_delta *deltas, size_t count,
                const char *folder, struct merge_report *report, struct err *err);

#endif
