// core/adapter/gguf_tensors.h -- the tensors of a GGUF file, each assembled from rows of a model's
// weights.
//
//   struct gguf_tensor *t = gguf_tensors_add(&all, xstrdup("v.blk.0.attn_q.weight"), DTYPE_F16,
//                                            2, (int64_t[]){ D, D });
//   gguf_tensor_rows(t, qkv, 0, D);
//   if (gguf_tensors_write(&all, model, out, &progress, &err) < 0) ...
//
// LoRA is added to its weight in f32 and rounded once.
#ifndef CORE_ADAPTER_GGUF_TENSORS_H
#define CORE_ADAPTER_GGUF_TENSORS_H

#include "core/files/gguf_write.h"
#include "core/model/model.h"

struct gguf_summary;

struct gguf_rows {
    const struct weight *weight;
    int64_t first, count;
};

struct gguf_tensor {
    char *name;
    enum dtype dtype;
    int rank;
    int64_t shape[TENSOR_MAX_RANK];
    struct head_order order; // of its rows in the file
    // Takes slice `frame` of a convolution over `frames` pictures; frames 0: no slicing.
    int64_t frames, frame;
    // Columns are [groups, each, width] in the model and [each, groups, width] in the file; groups
    // 0: unchanged.
    struct {
        int64_t groups, each, width;
    } columns;
    struct gguf_rows *rows; // [count] joined in this order
    size_t count;
    float *numbers; // all elements, instead of rows
};

struct gguf_tensors {
    struct gguf_tensor *list;
    size_t count;
};

// Adds an empty tensor, valid until the next call; takes ownership of the name.
struct gguf_tensor *gguf_tensors_add(struct gguf_tensors *all, char *name, enum dtype dtype,
                                     int rank, const int64_t *shape);
void gguf_tensor_rows(struct gguf_tensor *t, const struct weight *w, int64_t first, int64_t count);
// Returns a recently added tensor by name, or NULL.
struct gguf_tensor *gguf_tensors_last(const struct gguf_tensors *all, const char *name);
// Sets bytes, matrices, misfits (against `kind`; NULL: 0) and types of the summary.
void gguf_tensors_sum(const struct gguf_tensors *all, const struct gguf_kind *kind,
                      struct gguf_summary *sum);
// Declares and writes all tensors. -1 with "cancelled" if `progress` stops it.
int gguf_tensors_write(const struct gguf_tensors *all, const struct model *m,
                       struct gguf_writer *out, const struct load_progress *progress,
                       struct err *err);
void gguf_tensors_release(struct gguf_tensors *all);

#endif
