// core/ops/check.c -- shape and dtype checks that the ops share.
#include "core/ops/check.h"

#include <stdio.h>
#include <string.h>

int64_t op_columns(const struct tensor *t)
{
    int64_t n = 1;
    for (int i = 1; i < t->rank; i++) n *= t->shape[i];
    return n;
}

bool op_is_weight(const struct tensor *t)
{
    return t->dtype == DTYPE_F32 || t->dtype == DTYPE_F16 || t->dtype == DTYPE_BF16 ||
           dtype_in_blocks(t->dtype);
}

const char *op_shape(const struct tensor *t, char text[96])
{
    int n = snprintf(text, 96, "[");
    for (int i = 0; i < t->rank; i++)
        n += snprintf(text + n, 96 - (size_t)n, i ? ",%lld" : "%lld", (long long)t->shape[i]);
    snprintf(text + n, 96 - (size_t)n, "] %s", dtype_form(t->dtype).name);
    return text;
}

bool op_want_f32(struct graph *g, const char *op, const char *what, const struct tensor *t)
{
    char text[96];
    if (t->dtype == DTYPE_F32 && t->rank > 0) return true;
    graph_fail(g, "%s: %s is %s, not f32 rows", op, what, op_shape(t, text));
    return false;
}

bool op_want_vector(struct graph *g, const char *op, const char *what, const struct tensor *t,
                    int64_t n)
{
    char text[96];
    if (t->dtype == DTYPE_F32 && tensor_count(t) == n) return true;
    graph_fail(g, "%s: %s is %s where [%lld] f32 is needed", op, what, op_shape(t, text),
               (long long)n);
    return false;
}

bool op_want_same(struct graph *g, const char *op, const struct tensor *a, const struct tensor *b)
{
    char left[96], right[96];
    if (a->dtype == b->dtype && a->rank == b->rank &&
        !memcmp(a->shape, b->shape, (size_t)a->rank * sizeof *a->shape))
        return true;
    graph_fail(g, "%s: %s and %s differ", op, op_shape(a, left), op_shape(b, right));
    return false;
}

bool op_want_indices(struct graph *g, const char *op, const int32_t *index, int64_t n,
                     int64_t limit)
{
    for (int64_t i = 0; i < n; i++)
        if (index[i] < 0 || index[i] >= limit) {
            graph_fail(g, "%s: index %d (number %lld) is not in 0..%lld", op, index[i],
                       (long long)i, (long long)limit - 1);
            return false;
        }
    return true;
}

struct tensor *op_new_like(struct graph *g, const char *op, const char *what, struct tensor *x)
{
    if (!x || !graph_ok(g) || !op_want_f32(g, op, what, x)) return NULL;
    return graph_new(g, DTYPE_F32, x->rank, x->shape);
}

struct tensor *op_done(struct graph *g, const char *op, int result, struct tensor *y)
{
    return result < 0 ? graph_fail(g, "%s: %s", op, g->backend->failure()) : y;
}

struct tensor *op_record(struct graph *g, const char *op, int result, struct tensor *y,
                         const struct tape_step *step)
{
    return tape_record(g, op_done(g, op, result, y), step);
}

int op_back(struct graph *g, const char *op, int result)
{
    if (result < 0) graph_fail(g, "gradient of %s: %s", op, g->backend->failure());
    return graph_ok(g) ? 0 : -1;
}
