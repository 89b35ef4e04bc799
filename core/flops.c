// core/flops.c -- the formulas of what a pass costs.
#include "core/flops.h"

int64_t flops_keys(const struct site_args *args, int64_t i)
{
    const int64_t at = i - args->seen.from;
    return args->seen.keys && at >= 0 ? args->seen.count[at] : args->past + i + 1;
}

double flops_projections(const struct decoder_config *c, double rows)
{
    return 4 * rows * (double)c->hidden * (double)((c->heads + c->kv_heads) * c->dim);
}

double flops_attention(const struct decoder_config *c, double pairs)
{
    return 4 * pairs * (double)(c->heads * c->dim);
}

double flops_ffn(const struct decoder_config *c, double rows)
{
    return 6 * rows * (double)c->hidden * (double)c->ffn;
}

double flops_hadamard(const struct decoder_config *c, double rows)
{
    return rows * (double)c->hidden;
}

double flops_head(const struct decoder_config *c)
{
    return 2 * (double)c->hidden * (double)c->vocab;
}
