// core/probes/finite.c -- checks each layer's output for NaN and Inf.
#include "core/probes/finite.h"

#include "core/base/dtype.h"
#include "core/graph/look.h"
#include "core/model/sampler.h"

static bool wants(void *self, const struct site *site, int layer)
{
    return site == SITE_LAYER_OUT;
}

static int take(void *self, const struct site *site, const struct site_args *args, struct err *err)
{
    const float *x = args->x->data;
    const int64_t n = tensor_count(args->x);
    if (floats_finite(x, (size_t)n)) return 0;
    return err_set(err, "the model computed NaN or Inf in layer %d: %s", args->layer, DAMAGED);
}

struct hook finite_hook(void)
{
    return (struct hook){ .wants = wants, .take = take };
}
