// core/probes/share.c -- shares of attention or contribution by the origin of the keys.
#include "core/probes/share.h"

#include <math.h>
#include <stdlib.h>

#include "core/probes/kit.h"

static const char *const ways[] = { "attention", "contribution", NULL };

const struct setting why_settings[] = {
    { .key = "why.share",
      .type = SETTING_CHOICE,
      .def = "attention",
      .choices = ways,
      .stale = STALE_MEASURED,
      .help = "Measure of a token's share from the picture: attention probabilities, or attention "
              "contributions (CAPA), which cost more; averaged over all attention layers.",
      .also = "attribution grounding hallucination" },
    { .key = "why.live",
      .type = SETTING_FLAG,
      .def = "off",
      .stale = STALE_NOTHING,
      .help = "Measures each token's share from the picture during answers (field "
              "picture_share of --json).",
      .also = "attribution grounding hallucination" },
    { .key = "why.threshold",
      .type = SETTING_REAL,
      .max = 1000,
      .def = "0.1",
      .unit = "nats",
      .stale = STALE_MEASURED,
      .help = "/why warns about an object whose name loses less log-probability than this when "
              "attention to the picture is cut.",
      .also = "hallucination warning grounding" },
    { .key = "why.objects",
      .type = SETTING_TEXT,
      .def = "",
      .stale = STALE_MEASURED,
      .help = "Further names of objects that /why looks for in answers, separated by commas.",
      .also = "hallucination words nouns" },
    { 0 },
};

struct shares {
    const struct model *model;
    enum share_by by;
    int layers;
    int64_t tokens; // for which there is memory
    float *part;    // [tokens, layers, SHARE_PARTS]; NaN: not read
    bool pictures;  // some key was a visual token
    struct rows host;
};

enum share_by share_setting(const struct settings *s)
{
    return settings_is(s, "why.share", ways[SHARE_CONTRIBUTION]) ? SHARE_CONTRIBUTION
                                                                 : SHARE_ATTENTION;
}

struct shares *shares_new(const struct model *model, enum share_by by)
{
    struct shares *s = xcalloc(1, sizeof *s);
    s->model = model;
    s->by = by;
    s->layers = model->decoder.config.layers;
    return s;
}

void shares_free(struct shares *s)
{
    if (!s) return;
    free(s->part);
    rows_release(&s->host);
    free(s);
}

bool shares_measure(const struct shares *s, enum share_by by)
{
    return s && s->by == by;
}

// Returns the parts of a token in a layer.
static float *parts_at(struct shares *s, int64_t token, int layer)
{
    const int64_t step = (int64_t)s->layers * SHARE_PARTS;
    if (token >= s->tokens) {
        const int64_t tokens = token + 1 > 2 * s->tokens ? token + 1 : 2 * s->tokens;
        s->part = xreallocarray(s->part, (size_t)(tokens * step), sizeof *s->part);
        for (int64_t i = s->tokens * step; i < tokens * step; i++) s->part[i] = NAN;
        s->tokens = tokens;
    }
    return s->part + token * step + (int64_t)layer * SHARE_PARTS;
}

static enum share_part part_of(struct shares *s, const struct sequence *q, int64_t row)
{
    s->pictures |= q->picture[row] >= 0;
    return q->picture[row] >= 0       ? SHARE_PICTURE
           : row <= sequence_query(q) ? SHARE_PROMPT
                                      : SHARE_ANSWER;
}

// Stores the parts of the row's layer, divided by their sum.
static void put_parts(struct shares *s, const struct site_args *a, int64_t row, const double *sum)
{
    float *part = parts_at(s, row - sequence_query(site_sequence(a)), a->layer);
    double all = 0;
    for (int i = 0; i < SHARE_PARTS; i++) all += sum[i];
    for (int i = 0; i < SHARE_PARTS; i++) part[i] = all > 0 ? (float)(sum[i] / all) : NAN;
}

// Reads the probabilities [H,1,P] of one row.
static int take_attention(void *self, const struct site *site, const struct site_args *a,
                          struct err *err)
{
    const float *probs = a->x->data;
    const int64_t heads = a->x->shape[0], keys = a->x->shape[2];
    double sum[SHARE_PARTS] = { 0 };
    for (int64_t j = 0; j < keys; j++) {
        double *to = &sum[part_of(self, site_sequence(a), site_key(a, j))];
        for (int64_t h = 0; h < heads; h++) *to += (double)probs[h * keys + j];
    }
    put_parts(self, a, site_row(a, 0), sum);
    return 0;
}

static int add_contributions(void *self, struct graph *g, const struct site_args *a, int64_t row,
                             const float *probs)
{
    struct shares *s = self;
    const int64_t keys = a->k->shape[0];
    double sum[SHARE_PARTS] = { 0 };
    int32_t *index = xreallocarray(NULL, (size_t)keys, sizeof *index);
    for (int64_t j = 0; j < keys; j++) index[j] = (int32_t)j;
    const float *c = probe_contributions(g, s->model, a, row, probs, index, keys, &s->host);
    for (int64_t j = 0; c && j < keys; j++)
        sum[part_of(s, site_sequence(a), site_key(a, j))] += (double)c[j];
    free(index);
    if (c) put_parts(s, a, site_row(a, row), sum);
    return graph_ok(g) ? 0 : -1;
}

static bool wants(void *self, const struct site *site, int layer)
{
    return site == SITE_VALUES;
}

static int run(void *self, struct graph *g, const struct site *site, struct site_args *args)
{
    struct shares *s = self;
    const struct sequence *q = site_sequence(args);
    const int64_t first = sequence_query(q), count = q->n - first;
    int32_t *query = xreallocarray(NULL, (size_t)count, sizeof *query);
    for (int64_t i = 0; i < count; i++) query[i] = (int32_t)(first + i);
    const int status = s->by == SHARE_ATTENTION
                           ? probe_read_queries(g, args, query, count, take_attention, s)
                           : probe_each_query(g, args, query, count, add_contributions, s);
    free(query);
    return status;
}

struct hook shares_hook(struct shares *s)
{
    return (struct hook){ .wants = wants, .run = run, .self = s, .drafts = true };
}

bool shares_of(const struct shares *s, int64_t token, double part[SHARE_PARTS])
{
    struct tally mean[SHARE_PARTS] = { 0 };
    if (token >= s->tokens) return false;
    const float *from = s->part + token * s->layers * SHARE_PARTS;
    for (int i = 0; i < s->layers * SHARE_PARTS; i++)
        if (!isnan(from[i])) tally_add(&mean[i % SHARE_PARTS], (double)from[i]);
    for (int i = 0; i < SHARE_PARTS; i++) part[i] = tally_mean(&mean[i]);
    if (!s->pictures) part[SHARE_PICTURE] = NAN;
    return mean[0].count > 0;
}
