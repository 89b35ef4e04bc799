// core/files/quantised/quantised.h -- folders with matrices that another program quantised: FP8,
// compressed-tensors, AWQ, GPTQ, bitsandbytes, MLX.
//
//   weight[r][c] = (level[code] - zero point) * scale + offset
//
// Such a folder stores a matrix as several tensors: small codes, scales, perhaps zero points. A
// checkpoint lists each of these matrices as one tensor "X.weight", without data, in the dtype that
// it has in memory; checkpoint_tensor unpacks it.
//
//   formats.c   one row per format: how it is recognised, which tensors belong together
//   rows.c      how codes become numbers
//   join.c      lists the matrices, chooses their dtype, refuses other formats
//   mlx.c       order and names of the tensors of MLX folders, quantised or not
#ifndef CORE_FILES_QUANTISED_QUANTISED_H
#define CORE_FILES_QUANTISED_QUANTISED_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/err.h"
#include "core/base/json.h"

struct checkpoint;
struct quantised;
struct safetensor;

// The quantised matrices of a folder.
struct quantised_folder {
    struct safetensor *list;    // the matrices as the checkpoint lists them
    struct quantised *matrices; // [count], in the order of `list`
    int64_t count;
    int64_t unused;       // scales of activations and of the KV cache, which nothing uses
    uint64_t bytes, done; // in memory after unpacking; unpacked so far
    cJSON *beside;        // quantize_config.json; NULL: absent, or not needed
};

// Replaces the tensors of quantised matrices in the checkpoint's list, and sets c->quantised if
// there are any. Tensors of MLX folders get Hugging Face's order and names. Returns -1 if the
// folder has weights in a format that vlmsh cannot read.
int quantised_join(struct checkpoint *c, struct err *err);
void quantised_free(struct quantised_folder *f);

// Reads rows of any matrix of a checkpoint as f32.
void quantised_rows(const struct safetensor *t, int64_t first, int64_t rows, float *to);
// Unpacks a quantised matrix in its dtype. `report` may be NULL; if it returns false,
// quantised_unpack stops and returns false.
bool quantised_unpack(const struct safetensor *t, void *to,
                      bool (*report)(void *self, uint64_t bytes), void *self);
// Frees the memory of a matrix's pages in the mapped file, because the unpacked matrix replaces
// them; a later read loads them again.
void quantised_drop_pages(const struct safetensor *t);
// Returns whether two tensors, quantised or not, have the same bytes.
bool quantised_same(const struct safetensor *a, const struct safetensor *b);
// Returns whether the tensor with this name is one of the matrices, even if weights.dtype has
// converted it.
bool quantised_has(const struct checkpoint *c, const char *name);
// Describes the matrices: "7 matrices: GPTQ, 4 bit with zero points, groups of 128, kept as q4_0";
// NULL: none are quantised. The caller frees it.
char *quantised_text(const struct checkpoint *c);

#endif
