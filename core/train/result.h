// core/train/result.h -- what a training run leaves in its folder.
#ifndef CORE_TRAIN_RESULT_H
#define CORE_TRAIN_RESULT_H

#include "core/train/params.h"

// Where the whole language model was trained (params.whole): a model folder as on the hub, every
// other file copied, weights in the dtypes and files of the original; parameters of methods in
// extra.safetensors. Else trained.safetensors: the trained tensors by name. *what says which.
int result_write(const char *out, const struct params *p, const char **what, struct err *err);

// A folder of the model with what its structs hold now in place of the files' weights: trained,
// merged. `out` exists.
int result_model(const char *out, const struct model *m, const struct backend *b, struct err *err);

#endif
