// core/train/result.h -- what a training run leaves in its folder.
#ifndef CORE_TRAIN_RESULT_H
#define CORE_TRAIN_RESULT_H

#include "core/adapter/adapter.h"
#include "core/train/params.h"

// Where the whole language model was trained (params.whole): a model folder as on the hub
// (core/adapter/model_write.h), parameters of methods beside it. Else an adapter folder
// (core/adapter/adapter.h). What an adapter that was on the model (NULL: none) trained before is
// part of the result. The files are put into `out` beside what is there. *what: "model" or
// "adapter".
int result_write(const char *out, const struct params *p, const struct adapter *base,
                 const char **what, struct err *err);
// The same into a folder of a checkpoint that has no name yet.
int result_write_into(const char *folder, const struct params *p, const struct adapter *base,
                      const char **what, struct err *err);

#endif
