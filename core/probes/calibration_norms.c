// core/probes/calibration_norms.c -- the calibration `norms`: norms of both modalities and cosines
// between layers over a data set (the norm alignment paper, Figs. 2 and 3).
#include <string.h>

#include "core/methods/calibration.h"
#include "core/probes/kit.h"

// Sums of a modality, [KINDS, L+1]: the fields of struct tally for the norms, and the sum of the
// cosines.
enum { MEAN, SQUARES, COUNT, COSINES, KINDS };

static double *sum_at(const struct calibration_sums *s, bool text, int kind, int64_t layer)
{
    return &s->data[(text * KINDS + kind) * (s->layers + 1) + layer];
}

static struct tally tally_at(const struct calibration_sums *s, bool text, int64_t layer)
{
    return (struct tally){ .count = (int64_t)*sum_at(s, text, COUNT, layer),
                           .mean = *sum_at(s, text, MEAN, layer),
                           .squares = *sum_at(s, text, SQUARES, layer) };
}

static void put_tally(const struct calibration_sums *s, bool text, int64_t layer,
                      const struct tally *t)
{
    *sum_at(s, text, COUNT, layer) = (double)t->count;
    *sum_at(s, text, MEAN, layer) = t->mean;
    *sum_at(s, text, SQUARES, layer) = t->squares;
}

// s->rows is h[l-1] by row of the sequence.
static int norms_take(void *self, const struct site *site, const struct site_args *args,
                      struct err *err)
{
    struct calibration_sums *s = self;
    const int64_t l = site == SITE_FINAL ? s->layers : args->layer, n = args->x->shape[0];
    const float *h = args->x->data; // [N,D]
    calibration_rows(s, site_sequence(args)->n);
    if (l == 0) memset(s->there, 0, (size_t)s->capacity * sizeof *s->there);
    struct tally norms[2] = { tally_at(s, false, l), tally_at(s, true, l) };
    for (int64_t i = 0; i < n; i++) {
        const bool text = !site_visual(args, i);
        const int64_t row = site_row(args, i);
        const float *x = h + i * s->width;
        float *before = s->rows + row * s->width;
        tally_add(&norms[text], rows_norm(x, s->width));
        if (s->there[row]) *sum_at(s, text, COSINES, l) += rows_cosine(before, x, s->width);
        memcpy(before, x, (size_t)s->width * sizeof *x);
        s->there[row] = true;
    }
    for (int text = 0; text < 2; text++) put_tally(s, text, l, &norms[text]);
    return 0;
}

static void norms_merge(struct calibration_sums *s, const struct calibration_sums *other)
{
    for (int text = 0; text < 2; text++)
        for (int64_t l = 0; l <= s->layers; l++) {
            struct tally both = tally_at(s, text, l);
            const struct tally more = tally_at(other, text, l);
            tally_merge(&both, &more);
            put_tally(s, text, l, &both);
            *sum_at(s, text, COSINES, l) += *sum_at(other, text, COSINES, l);
        }
}

// For each result tensor, in the file's order: the field of the tally, and visual (0) or text (1)
// tokens.
enum { TENSORS = 6 };
static const int columns[TENSORS][2] = { { MEAN, 0 },    { SQUARES, 0 }, { MEAN, 1 },
                                         { SQUARES, 1 }, { COSINES, 0 }, { COSINES, 1 } };

// Computes means, standard deviations (SQUARES) and mean cosines; 0 without tokens.
static void norms_compute(const struct calibration_sums *s, float *const *results)
{
    for (int i = 0; i < TENSORS; i++)
        for (int64_t l = 0; l <= s->layers; l++) {
            const int what = columns[i][0];
            const struct tally norms = tally_at(s, columns[i][1], l);
            const double cosines = *sum_at(s, columns[i][1], COSINES, l);
            const double result = what == MEAN      ? norms.mean
                                  : what == SQUARES ? tally_std(&norms)
                                                    : cosines / (double)norms.count;
            results[i][l] = norms.count ? (float)result : 0;
        }
}

// Counts and sums of squares are never negative.
static bool norms_valid(const struct calibration_sums *s)
{
    for (int text = 0; text < 2; text++)
        for (int64_t l = 0; l <= s->layers; l++) {
            const double count = *sum_at(s, text, COUNT, l);
            if (!(count >= 0 && count <= (double)CALIBRATION_MOST)) return false;
            if (!(*sum_at(s, text, SQUARES, l) >= 0)) return false;
        }
    return true;
}

static void norms_show(const struct calibration_sums *s, float *const *results, int64_t layer,
                       struct table_builder *b)
{
    for (int i = 0; i < TENSORS; i++) {
        const bool none = layer == 0 && columns[i][0] == COSINES;
        const float *numbers = results[i];
        table_add(b, none ? "" : numbers ? "%.5g" : "-", numbers ? (double)numbers[layer] : 0);
    }
}

static const struct calibration_tensor norms_results[] = {
    { "norms.visual", { OF_STATES } },
    { "norms.visual_std", { OF_STATES } },
    { "norms.text", { OF_STATES } },
    { "norms.text_std", { OF_STATES } },
    { "norms.visual_cosine", { OF_STATES } },
    { "norms.text_cosine", { OF_STATES } },
    { 0 },
};
static const struct calibration_tensor norms_sums[] = {
    { "norms.tally", { 2, KINDS, OF_STATES } },
    { 0 },
};
static const struct result_kind norms_units[] = {
    { "calibration", "L2 norm", .columns = "visual|visual std|text|text std" },
    { "calibration", "cosine", .columns = "visual cosine|text cosine" },
    { 0 },
};

const struct calibration_kind calibration_kind_norms = {
    .name = "norms",
    .prefix = "norms.",
    .help = "norms of visual and text tokens and cosines between layers",
    .results = norms_results,
    .sums = norms_sums,
    .former = "norms.sums",
    .sites = { SITE_LAYER_IN, SITE_FINAL },
    .take = norms_take,
    .compute = norms_compute,
    .merge = norms_merge,
    .valid = norms_valid,
    .columns = "layer#|visual#|visual std#|text#|text std#|visual cosine#|text cosine#",
    .states = true,
    .show = norms_show,
    .units = norms_units,
};
