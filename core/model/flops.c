// core/model/flops.c -- the cost of a pass, in FLOPs and bytes.
#include "core/model/flops.h"

#include "core/model/layer.h"

int64_t flops_rows(const struct site *site, const struct site_args *args)
{
    return site == SITE_VALUES ? args->q->shape[0] : args->x->shape[0];
}

int64_t flops_keys(const struct site_args *args, int64_t i)
{
    return site_keys(args, i).count;
}

static double flops_row_keys(const struct decoder_config *c, int layer, const struct sequence *s,
                             int64_t row)
{
    const struct row_range sees = pass_sees(c, decoder_slides(c, layer), s, row);
    return (double)(sees.end - sees.first);
}

double flops_pairs(const struct decoder_config *c, int layer, const struct sequence *s, int64_t n)
{
    double pairs = 0;
    for (int64_t i = 0; i < n; i++) pairs += flops_row_keys(c, layer, s, i);
    return pairs;
}

// Returns FLOPs per row, 2 per multiply-add. Norm gains do not count; the FLOPs of an expert are
// weighted by the share of rows that reach it.
static double linear(const struct linear *w)
{
    if (w->weight.rank != 2) return 0;
    return 2 * w->share * (double)w->weight.shape[0] * (double)w->weight.shape[1];
}

// Returns the FLOPs per row of LoRA's two thin products.
static double thin(const struct linear *w)
{
    if (!w->lora) return 0;
    return 2 * w->share * ((double)tensor_count(&w->lora->a) + (double)tensor_count(&w->lora->b));
}

static double all_of(const struct sublayer *s, double (*one)(const struct linear *w))
{
    double sum = 0;
    for (int i = 0; i < s->count; i++) sum += one(&s->weight[i]);
    return sum;
}

double flops_projections(const struct decoder_layer *w, double rows)
{
    return rows * (all_of(&w->attention, linear) + all_of(&w->attention, thin) +
                   all_of(&w->end, linear) + all_of(&w->end, thin));
}

double flops_attention(const struct decoder_config *c, int layer, double pairs)
{
    return pairs * decoder_attention(c, layer)->pair_flops(c, layer);
}

double flops_recurrence(const struct decoder_config *c, int layer, double rows)
{
    const struct attention_kind *kind = decoder_attention(c, layer);
    return kind->row_flops ? rows * kind->row_flops(c) : 0;
}

double flops_ffn(const struct decoder_layer *w, double rows)
{
    return rows * (all_of(&w->ffn, linear) + all_of(&w->ffn, thin));
}

double flops_lora(const struct decoder_layer *w)
{
    return all_of(&w->attention, thin) + all_of(&w->ffn, thin) + all_of(&w->end, thin);
}

static double bytes(const struct linear *w)
{
    if (w->weight.rank != 2) return 0;
    const double lora =
        w->lora ? (double)(tensor_bytes(&w->lora->a) + tensor_bytes(&w->lora->b)) : 0;
    return w->share * ((double)tensor_bytes(&w->weight) + lora);
}

double flops_weight_bytes(const struct decoder_layer *w)
{
    return all_of(&w->attention, bytes) + all_of(&w->ffn, bytes) + all_of(&w->end, bytes);
}

double flops_key_bytes(const struct decoder_config *c, int layer, enum dtype dtype)
{
    const struct kv_row row = decoder_attention(c, layer)->cached(c, layer);
    return (double)(row.k[0] * row.k[1] + row.v[0] * row.v[1]) * (double)dtype_size(dtype);
}

double flops_input_bytes(const struct decoder *d)
{
    return bytes(&d->inputs.projection);
}

double flops_inputs(const struct decoder *d)
{
    return linear(&d->inputs.projection) + thin(&d->inputs.projection);
}

double flops_state_bytes(const struct decoder_config *c, int layer)
{
    const struct kv_row row = decoder_attention(c, layer)->cached(c, layer);
    return 2 * (double)(row.state + row.tail) * sizeof(float);
}

double flops_head(const struct decoder_config *c)
{
    return 2 * (double)c->hidden * (double)c->vocab;
}
