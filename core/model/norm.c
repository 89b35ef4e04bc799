// core/model/norm.c -- a norm as a file has it: LayerNorm with a bias, RMSNorm without.
#include "core/model/norm.h"

#include <stdarg.h>
#include <stdio.h>

#include "core/ops/ops.h"

void bind_norm(struct binder *b, struct norm *w, int64_t n, bool bias, const char *format, ...)
{
    char name[256];
    va_list args;
    va_start(args, format);
    // NOLINTNEXTLINE(clang-analyzer-valist.Uninitialized): va_start is right above
    vsnprintf(name, sizeof name, format, args);
    va_end(args);
    bind_vector(b, &w->gain, n, "%s.weight", name);
    if (bias) bind_vector(b, &w->bias, n, "%s.bias", name);
}

struct tensor *norm_forward(struct graph *g, struct tensor *x, const struct norm *w, double eps)
{
    struct tensor *gain = graph_weight(&w->gain), *bias = graph_weight(&w->bias);
    if (!gain) return x;
    return bias ? op_layernorm(g, x, gain, bias, (float)eps) : op_rmsnorm(g, x, gain, (float)eps);
}
