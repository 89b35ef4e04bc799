// core/train/sft_options.h -- the arguments of a training run: DATA, OUT and options.
#ifndef CORE_TRAIN_SFT_OPTIONS_H
#define CORE_TRAIN_SFT_OPTIONS_H

#include "core/base/options.h"

struct sft_options {
    const char *data, *out, *images; // images NULL: the data's folder
    bool resume;
};

extern const struct option_row sft_rows[];
extern const struct option_row sweep_rows[]; // of the job `sweep` (core/train/sweep.c)

#endif
