// core/interventions/cut.c -- removes attention between positions.
#include "core/interventions/cut.h"

#include <stdlib.h>
#include <string.h>

#include "core/model/layer.h"
#include "core/model/pass.h"
#include "core/probes/kit.h"

void cut_open(struct cut *c, const struct probe_env *env)
{
    const size_t n = (size_t)env->sequence->n, layers = (size_t)env->model->decoder.config.layers;
    *c = (struct cut){ .env = env, .head = -1 };
    c->from = xcalloc(n + 1, sizeof *c->from);
    c->to = xcalloc(n + 1, sizeof *c->to);
    c->rows = xcalloc(n + 1, sizeof *c->rows);
    c->keys = xcalloc(n + 1, sizeof *c->keys);
    c->listens = xcalloc(layers, sizeof *c->listens);
    c->layers = xcalloc(layers, sizeof *c->layers);
    c->reached = xcalloc(layers, sizeof *c->reached);
    c->only = xcalloc(n + 1, sizeof *c->only);
    c->one_head = xcalloc((size_t)env->model->decoder.config.heads, sizeof *c->one_head);
}

void cut_close(struct cut *c)
{
    free(c->from);
    free(c->to);
    free(c->rows);
    free(c->keys);
    free(c->listens);
    free(c->layers);
    free(c->reached);
    free(c->one_head);
    free(c->only);
}

static bool wants(void *self, const struct site *site, int layer)
{
    const struct cut *c = self;
    return (site == SITE_VALUES || site == SITE_STATE) && (layer < 0 || c->listens[layer]);
}

// True if all positions after each of `from` are in `to`.
static bool cuts_all_later(const struct cut *c)
{
    const int64_t n = c->env->sequence->n;
    int64_t first = 0;
    while (first < n && !c->from[first]) first++;
    for (int64_t i = first + 1; i < n; i++)
        if (!c->to[i]) return false;
    return first < n;
}

static void cut_state(struct cut *c, struct site_args *args)
{
    const int64_t n = args->x->shape[0];
    if (c->head >= 0 || !cuts_all_later(c)) return;
    args->only = c->only, args->only_count = 0;
    for (int64_t i = 0; i < n; i++)
        if (!c->from[site_row(args, i)]) c->only[args->only_count++] = (int32_t)i;
    c->reached[args->layer] = true;
}

int cut_run(void *cut, struct graph *g, const struct site *site, struct site_args *args)
{
    struct cut *c = cut;
    if (!c->layers[args->layer]) return 0;
    if (site == SITE_STATE) {
        cut_state(c, args);
        return 0;
    }
    for (int64_t i = 0; i < args->q->shape[0]; i++) c->rows[i] = c->to[site_row(args, i)];
    for (int64_t j = 0; j < args->k->shape[0]; j++) c->keys[j] = c->from[site_key(args, j)];
    memset(c->one_head, 0, (size_t)args->q->shape[1] * sizeof *c->one_head);
    if (c->head >= 0) c->one_head[c->head] = true;
    args->seen.hidden = (struct hidden_keys){ c->rows, c->keys, c->head >= 0 ? c->one_head : NULL };
    c->reached[args->layer] = true;
    return 0;
}

struct hook cut_hook(struct cut *c)
{
    return (struct hook){ .wants = wants, .run = cut_run, .self = c, .changes = true };
}

int64_t cut_first(const struct cut *c)
{
    const struct decoder_config *d = &c->env->model->decoder.config;
    const struct sequence *q = c->env->sequence;
    const bool states = decoder_uses(d, &attention_delta) && cuts_all_later(c);
    for (int64_t i = 0; i < q->n; i++) {
        if (states && c->from[i] && i + 1 < q->n) return i;
        for (int64_t j = 0; c->to[i] && j < pass_sees(d, false, q, i).end; j++)
            if (c->from[j] && j != i) return i;
    }
    return -1;
}
