// core/probes/attention.c -- attention of selected rows to the picture: maps by layer and head,
// share of attention by layer, profile by row of the picture (methods page, sections 1 and 4).
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/probes/attention_sum.h"
#include "core/probes/probe.h"

struct attention {
    const struct probe_env *env;
    int layer; // PROBE_LAYER_ALL: each
    enum probe_token otherwise;
    struct attention_sum *sum;
};

static void attention_release(void *state)
{
    struct attention *s = state;
    attention_sum_free(s->sum);
    free(s);
}

static void *attention_start(const struct probe_env *env, struct err *err)
{
    const struct decoder_config *c = &env->model->decoder.config;
    const int layer = probe_layer(env, c->layers - 1, err);
    if (layer < PROBE_LAYER_ALL) return NULL;
    const bool answered = env->sequence->n > env->sequence->prompt;
    const enum probe_token otherwise = answered ? PROBE_TOKEN_ANSWER : PROBE_TOKEN_LAST;
    struct attention_sum *sum = attention_sum_new(env, otherwise, err);
    if (!sum) return NULL;
    struct attention *s = xcalloc(1, sizeof *s);
    *s = (struct attention){ env, layer, otherwise, sum };
    return s;
}

static bool attention_wants(void *state, enum site site, int layer)
{
    const struct attention *s = state;
    return site == SITE_VALUES && (layer < 0 || s->layer < 0 || layer == s->layer);
}

static int attention_run(void *state, struct graph *g, enum site site, struct site_args *args)
{
    const struct attention *s = state;
    return attention_sum_add(s->sum, g, args);
}

// Attention that each row of the picture gets.
static void put_profile(struct results *r, size_t from)
{
    int rows;
    double *sum = attention_profile(r->maps + from, r->map_count - from, &rows), total = 0;
    struct result_table *t = results_table(r, "attention.rows", "row|attention|share");
    t->curve = true;
    for (int y = 0; y < rows; y++) total += sum[y];
    for (int y = 0; y < rows; y++) {
        double *v = result_row(t, "%d", y);
        v[0] = sum[y], v[1] = sum[y] / total;
    }
    free(sum);
}

static int attention_finish(void *state, struct results *r, struct err *err)
{
    const struct attention *s = state;
    const int head = s->env->options->head, token = probe_token_number(s->env, s->otherwise);
    const int layers = s->env->model->decoder.config.layers;
    struct result_table *t =
        results_table(r, "attention", "layer|to the pictures|max|max at token");
    size_t last = 0;
    t->curve = s->layer < 0;
    for (int l = 0; l < layers; l++) {
        if (s->layer >= 0 && l != s->layer) continue;
        const double share = attention_sum_share(s->sum, l, head);
        const float *map = attention_sum_map(s->sum, l, head);
        const int64_t most = attention_sum_most(s->sum, map);
        double *v = result_row(t, "%d", l);
        v[0] = share, v[1] = (double)map[most], v[2] = (double)most;
        last = r->map_count;
        probe_maps(s->env, r, "attention", l, head, token, map);
    }
    put_profile(r, last);
    return 0;
}

const struct probe probe_attention = {
    .name = "attention",
    .also = "heatmap map looks measure probe",
    .usage = "/attention [--layer K|all] [--head H|mean] [--token answer|last|N|row:N] [--picture "
             "I] [--film FILE.gif]" PROBE_USAGE,
    .help = "Attention of the answer to the picture: maps, and a profile over the picture's rows.",
    .details =
        "Default: the last layer, averaged over heads and over the tokens of the answer\n"
        "(without an answer: the prompt's last row). N is an answer token, counted from 0;\n"
        "row:N a row of the sequence. Tokens dropped by pruning are marked. --film shows the\n"
        "map of one token of the answer after the other." PROBE_DETAILS,
    .pictures = true,
    .answered = true,
    .start = attention_start,
    .release = attention_release,
    .wants = attention_wants,
    .run = attention_run,
    .finish = attention_finish,
};
