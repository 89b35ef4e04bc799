// core/model/flops.c -- the formulas of what a pass costs.
#include "core/model/flops.h"

int64_t flops_rows(enum site site, const struct site_args *args)
{
    return site == SITE_VALUES ? args->q->shape[0] : args->x->shape[0];
}

int64_t flops_keys(const struct site_args *args, int64_t i)
{
    const int64_t at = i - args->seen.from;
    return args->seen.keys && at >= 0 ? args->seen.count[at] : args->past + i + 1;
}

// 2 a multiply-add, of a row.
static double linear(const struct linear *w)
{
    return 2 * (double)w->weight.shape[0] * (double)w->weight.shape[1];
}

static double thin(const struct linear *w)
{
    if (!w->lora) return 0;
    return 2 * ((double)tensor_count(&w->lora->a) + (double)tensor_count(&w->lora->b));
}

double flops_projections(const struct decoder_layer *w, double rows)
{
    return rows * (linear(&w->q) + linear(&w->k) + linear(&w->v) + linear(&w->o) + thin(&w->q) +
                   thin(&w->k) + thin(&w->v) + thin(&w->o));
}

double flops_attention(const struct decoder_config *c, double pairs)
{
    return 4 * pairs * (double)(c->heads * c->dim);
}

double flops_ffn(const struct decoder_layer *w, double rows)
{
    return rows * (linear(&w->gate) + linear(&w->up) + linear(&w->down) + thin(&w->gate) +
                   thin(&w->up) + thin(&w->down));
}

double flops_lora(const struct decoder_layer *w)
{
    return thin(&w->q) + thin(&w->k) + thin(&w->v) + thin(&w->o) + thin(&w->gate) + thin(&w->up) +
           thin(&w->down);
}

double flops_head(const struct decoder_config *c)
{
    return 2 * (double)c->hidden * (double)c->vocab;
}
