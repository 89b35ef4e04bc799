// core/probes/attention.c -- attention of selected rows to the picture: maps by layer and head,
// share of attention by layer, profile by row of the picture (papers on norm alignment and IRA).
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/probes/attention_sum.h"
#include "core/probes/kit.h"

static bool is_all(const struct attention_sum *s)
{
    return s->env->options->layer == PROBE_LAYER_ALL;
}

// Adds one map, and writes its statistics to the row.
static void put_map(struct attention_sum *s, struct results *r, double *row, int layer, int head,
                    int64_t part)
{
    const float *map = attention_sum_map(s, layer, head, part);
    const int64_t most = attention_sum_most(s, map);
    row[0] = attention_sum_share(s, map), row[1] = (double)map[most], row[2] = (double)most;
    probe_maps(s->env, r, "attention", layer, head, s->env->token + (int)part, map);
}

// Adds the map of each head and a table of all heads, sorted by attention to the picture; if
// several layers are measured, also a map of these shares, layers by heads.
static void put_heads(struct attention_sum *s, struct results *r)
{
    const int heads = (int)s->heads, layers = s->env->to + 1;
    float *shares = probe_nans((int64_t)layers * heads);
    struct result_table *t =
        results_table(r, "attention.heads", "head|to the pictures|max|max at token");
    t->ranked = -1;
    for (int l = s->env->from; l <= s->env->to; l++)
        for (int h = 0; h < heads && s->sum[l]; h++) {
            double *row = result_row(t, "%d.%d", l, h);
            put_map(s, r, row, l, h, 0);
            shares[l * heads + h] = (float)row[0];
        }
    if (layers - s->env->from > 1) {
        struct result_map *m = results_map(r, "attention.heads", layers, heads);
        memcpy(m->values, shares, (size_t)(layers * heads) * sizeof *shares);
        m->token = s->env->token;
    }
    free(shares);
}

static int attention_finish(void *state, struct results *r, struct err *err)
{
    struct attention_sum *s = state;
    const int from = s->env->from, to = s->env->to;
    const bool each_head = s->env->options->head == PROBE_HEAD_EACH;
    const int head = each_head ? PROBE_HEAD_MEAN : s->env->options->head;
    if (s->env->options->token == PROBE_TOKEN_EACH) {
        // A table per layer, with a row per token of the answer.
        for (int l = from; l <= to; l++) {
            if (!s->sum[l]) continue; // the layer has no attention
            char *name =
                is_all(s) ? xasprintf("attention.tokens.%d", l) : xstrdup("attention.tokens");
            struct result_table *t =
                results_table(r, name, "token|to the pictures|max|max at token");
            t->curve = true;
            for (int64_t i = 0; i < s->parts; i++)
                put_map(s, r, result_row(t, "%d", (int)i), l, head, i);
            free(name);
        }
        return 0;
    }
    size_t last = 0;
    struct result_table *t =
        results_table(r, "attention", "layer|to the pictures|max|max at token");
    t->curve = is_all(s);
    for (int l = from; l <= to; l++) {
        if (!s->sum[l]) continue;
        last = r->map_count;
        put_map(s, r, result_row(t, "%d", l), l, head, 0);
    }
    // The attention to each row of the picture, in the last measured layer.
    int rows;
    double *sum = attention_profile(r->maps + last, r->map_count - last, &rows), total = 0;
    t = results_table(r, "attention.rows", "row|attention|share");
    t->curve = true;
    for (int y = 0; y < rows; y++) total += sum[y];
    for (int y = 0; y < rows; y++) {
        double *v = result_row(t, "%d", y);
        v[0] = sum[y], v[1] = sum[y] / total;
    }
    free(sum);
    if (each_head) put_heads(s, r);
    return 0;
}

static const struct result_kind attention_results[] = {
    { "attention", "share of attention", "to the pictures|max", .map = true,
      .each = EACH_LAYER | EACH_HEAD | EACH_TOKEN, .live = "live",
      .finds = "attention to the picture" },
    { "attention.heads", "share of attention", "to the pictures|max", .map = true,
      .rows = MAP_LAYERS, .cols = MAP_HEADS, .on_request = true },
    { "attention.rows", .unit = "attention of the row" },
    { "attention.tokens", "share of attention", .columns = "to the pictures|max" },
    { 0 },
};

const struct probe probe_attention = {
    .name = "attention",
    .also = "heatmap map looks ignores sees layers picture measure probe",
    .usage = "/attention [--layer K|all] [--head H|mean|each] [--token answer|each|last|N|row:N] "
             "[--picture I] [--film FILE.gif]" PROBE_USAGE,
    .help = "Attention of the answer to the picture: maps, and a profile over the picture's rows.",
    .details =
        "By default, shows the last layer, averaged over heads and over the tokens of the answer\n"
        "(without an answer, the attention from the prompt's last row). --layer all measures\n"
        "every layer, --head each also every head, sorted by attention to the picture. Marks the\n"
        "tokens that pruning dropped." PROBE_DETAILS,
    .pictures = true,
    .answered = true,
    .results = attention_results,
    .layers = LAST_LAYER,
    .attends = true,
    .each_head = true,
    .token = PROBE_TOKEN_ANSWER,
    .start = attention_sum_start,
    .release = attention_sum_release,
    .sites = { SITE_VALUES },
    .run = attention_sum_run,
    .finish = attention_finish,
};
