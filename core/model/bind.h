// core/model/bind.h -- binds weights by name to a model's structs; the caller checks for errors
// once, at the end.
//
//   struct binder b = { .checkpoint = c, .prefix = "model.", .arena = &m->arena,
//                       .weights = &m->weights, .err = err };
//   bind_matrix(&b, &d->embed, V, D, "embed_tokens.weight");
//   bind_vector(&b, &d->norm, D, "norm.weight");
//   return b.failed ? -1 : 0;
//
// After a failure, further calls do nothing, and b->err keeps the first message. Every shape is
// checked against the config (checkpoint_tensor).
#ifndef CORE_MODEL_BIND_H
#define CORE_MODEL_BIND_H

#include "core/files/checkpoint.h"
#include "core/model/weights.h"

struct norm;

struct binder {
    const struct checkpoint *checkpoint;
    const char *prefix; // prepended to every name
    struct arena *arena;
    struct weights *weights; // receives bound weights, except constants and numbers; their `part`
                             // is set later
    struct err *err;
    bool failed;
    // Checks the matrices' shapes but loads no data, because another process holds the matrices.
    bool shapes_only;
    bool apart; // compute.matmul does not govern how the weights are used (struct weight)
};

// Binds a weight of [rows, columns] in its stored dtype.
void bind_matrix(struct binder *b, struct tensor *t, int64_t rows, int64_t columns,
                 const char *format, ...) __attribute__((format(printf, 5, 6)));
// Binds a table [rows, columns] that stays on the host, because a pass reads few of its rows.
void bind_table(struct binder *b, struct tensor *t, int64_t rows, int64_t columns,
                const char *format, ...) __attribute__((format(printf, 5, 6)));
// Binds a gain or bias of [n], converted to f32.
void bind_vector(struct binder *b, struct tensor *t, int64_t n, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
// Binds a gain of [n]; from_1: the gain is 1 + the file's vector, which model_weights_changed adds.
void bind_gain(struct binder *b, struct tensor *gain, int64_t n, bool from_1, const char *format,
               ...) __attribute__((format(printf, 5, 6)));
// Like bind_vector, for a vector that is never trained, merged or adapted.
void bind_constant(struct binder *b, struct tensor *t, int64_t n, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
// Reads a number that the file stores as a tensor of rank 0 or with one element. The number is
// never trained.
void bind_number(struct binder *b, float *value, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
// Binds a filter of `taps` rows for each channel, [channels,1,taps] in the file, converted to f32
// [channels,taps].
void bind_filter(struct binder *b, struct tensor *t, int64_t channels, int64_t taps,
                 const char *format, ...) __attribute__((format(printf, 5, 6)));
// Binds NAME.weight [out,in] and, with `bias`, NAME.bias [out].
void bind_linear(struct binder *b, struct linear *w, int64_t out, int64_t in, bool bias,
                 const char *format, ...) __attribute__((format(printf, 6, 7)));
// Binds NAME.weight and, with `bias`, NAME.bias [n].
void bind_norm(struct binder *b, struct norm *w, int64_t n, bool bias, const char *format, ...)
    __attribute__((format(printf, 5, 6)));
// Binds a part of the tensor `whole` as a matrix with its own name.
void bind_part(struct binder *b, struct linear *w, const char *whole,
               const struct checkpoint_part *part, const char *format, ...)
    __attribute__((format(printf, 5, 6)));
// Binds a tensor of shape `shape` as a matrix of `rows` rows: the weight of a convolution over
// patches, [rows, channels, side, side], or a table for a grid, [y, x, width].
void bind_folded(struct binder *b, struct tensor *t, int64_t rows, int rank, const int64_t *shape,
                 const char *format, ...) __attribute__((format(printf, 6, 7)));
// Binds the weight of a convolution over squares of patches or features.
#define bind_squares(b, t, rows, channels, side, ...) \
    bind_folded(b, t, rows, 4, (const int64_t[]){ rows, channels, side, side }, __VA_ARGS__)

bool bind_has(const struct checkpoint *c, const char *prefix, const char *name);
// Returns the first prefix under which the file has `name`. If no prefix matches, returns the first
// of the NULL-terminated list, so that error messages use the hub's spelling.
const char *bind_prefix(const struct checkpoint *c, const char *const *prefixes, const char *name);

#endif
