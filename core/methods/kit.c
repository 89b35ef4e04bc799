// core/methods/kit.c -- finds learned tensors of methods in the adapter, checks their shapes, and
// fills tensors.
#include "core/methods/kit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/ops/check.h"

int method_trained(const struct method_env *env, const char *name, const struct tensor *want,
                   const struct tensor **found, struct err *err)
{
    const struct method_tensors *from = &env->tensors;
    const struct tensor *t = *found = from->find ? from->find(from->self, name) : NULL;
    char has[96], needs[96];
    bool same = !t || (t->dtype == DTYPE_F32 && t->rank == want->rank);
    for (int i = 0; t && same && i < t->rank; i++) same = t->shape[i] == want->shape[i];
    if (same) return 0;
    return err_set(err,
                   "%s of the adapter does not fit this model (%s, not %s): it was trained on "
                   "another model",
                   name, op_shape(t, has), op_shape(want, needs));
}

int method_fill(const struct method_env *env, const char *name, struct tensor *t, double fresh,
                double last, struct err *err)
{
    const struct tensor *trained;
    const size_t bytes = tensor_bytes(t);
    if (method_trained(env, name, t, &trained, err) < 0) return -1;
    if (!t->data) t->data = env->backend->alloc(bytes);
    if (!t->data) return err_set(err, "out of memory for %s", name);
    const int64_t count = tensor_count(t);
    float *host = xmalloc(bytes);
    for (int64_t i = 0; i < count; i++) host[i] = (float)(i + 1 < count ? fresh : last);
    if (trained) env->backend->download(host, trained->data, bytes);
    env->backend->upload(t->data, host, bytes);
    free(host);
    return 0;
}

double method_rms(const float *x, int64_t width, double eps)
{
    double sum = 0;
    for (int64_t i = 0; i < width; i++) sum += (double)x[i] * (double)x[i];
    return sqrt(sum / (double)width + eps);
}

bool method_content_changed(const void *bytes, size_t size, char hash[HASH_HEX])
{
    char now[HASH_HEX];
    hash_hex(bytes, size, now);
    const bool changed = *hash && strcmp(hash, now) != 0;
    memcpy(hash, now, sizeof now);
    return changed;
}
