// core/probes/hellinger.c -- distance between two distributions, and the logits of an answer.
#include "core/probes/hellinger.h"

#include <math.h>
#include <stdlib.h>

#include "core/base/mem.h"
#include "core/graph/graph.h"
#include "core/graph/hooks.h"
#include "kernels/tensor.h"

int64_t logits_best(const float *logits, int64_t n)
{
    int64_t best = 0;
    for (int64_t i = 1; i < n; i++)
        if (logits[i] > logits[best]) best = i;
    return best;
}

double logits_log_sum(const float *logits, int64_t n)
{
    const double most = logits[logits_best(logits, n)];
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += exp(logits[i] - most);
    // cppcheck-suppress invalidFunctionArg ; the largest logit gives 1
    return most + log(sum);
}

double hellinger(const float *p, const float *q, int64_t n)
{
    const double a = logits_log_sum(p, n), b = logits_log_sum(q, n);
    double sum = 0;
    for (int64_t i = 0; i < n; i++) {
        const double apart = exp((p[i] - a) / 2) - exp((q[i] - b) / 2);
        sum += apart * apart;
    }
    return sqrt(fmin(1, sum / 2));
}

static bool wants(void *self, const struct site *site, int layer)
{
    return site == SITE_STEP_LOGITS;
}

static int take(void *self, struct graph *g, const struct site *site, struct site_args *args)
{
    struct step_logits *s = self;
    const int64_t vocab = args->x->shape[1];
    if (s->steps == s->capacity) {
        const int64_t capacity = s->capacity + s->capacity / 2 + 16;
        size_t bytes;
        float *data = mul_overflows((size_t)(capacity * vocab), sizeof *data, &bytes)
                          ? NULL
                          : realloc(s->data, bytes);
        if (!data) {
            graph_fail(g, "out of memory for the logits of %lld tokens", (long long)capacity);
            return -1;
        }
        s->data = data;
        s->capacity = capacity;
    }
    s->vocab = vocab;
    g->backend->download(s->data + s->steps++ * vocab, args->x->data,
                         (size_t)vocab * sizeof *s->data);
    return 0;
}

struct hook step_logits_hook(struct step_logits *s)
{
    return (struct hook){ .wants = wants, .run = take, .self = s };
}

void step_logits_clear(struct step_logits *s)
{
    s->steps = 0;
}

void step_logits_release(struct step_logits *s)
{
    free(s->data);
    *s = (struct step_logits){ 0 };
}
