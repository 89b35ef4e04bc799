// core/train/result.h -- writes the result of a training run to its folder.
#ifndef CORE_TRAIN_RESULT_H
#define CORE_TRAIN_RESULT_H

#include "core/base/err.h"

struct adapter;
struct params;

// Writes the result. If the whole language model was trained (params.whole), it is a model folder
// in Hugging Face format (core/adapter/model_write.h), with parameters of methods beside it.
// Otherwise it is an adapter folder (core/adapter/adapter.h), with those entries of `base`, the
// adapter that training continued from (NULL: none), that were not trained. Adds the files to
// `out`. *what: "model" or "adapter".
int result_write(const char *out, const struct params *p, const struct adapter *base,
                 const char **what, struct err *err);
// Writes the result into the unfinished folder of a checkpoint.
int result_write_into(const char *folder, const struct params *p, const struct adapter *base,
                      const char **what, struct err *err);

#endif
