// core/new/shards.h -- writes a new model's weights to safetensors files of at most 5 GB, as on the
// hub: model.safetensors, or model-0000K-of-0000N.safetensors and model.safetensors.index.json.
//
//   shards_write(&(struct shards){ folder, tensors, count, put_tensor, self }, &err);
#ifndef CORE_NEW_SHARDS_H
#define CORE_NEW_SHARDS_H

#include "core/base/err.h"

struct safetensors_writer;

struct shards {
    const char *folder;
    const struct shape_tensor *tensors; // [count], in writing order
    int count;
    // Writes the bf16 values of tensor i; called once per tensor, in order. 0 or -1.
    int (*put)(void *self, struct safetensors_writer *w, int i, struct err *err);
    void *self;
};

int shards_write(const struct shards *s, struct err *err);

#endif
