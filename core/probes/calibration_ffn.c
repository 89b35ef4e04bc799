// core/probes/calibration_ffn.c -- the calibration of the FFN approximation: its file, and how it
// is shown.
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/base/mem.h"
#include "core/files/safetensors.h"
#include "core/methods/calibration.h"
#include "core/model/model.h"
#include "core/probes/ffn_sums.h"
#include "core/probes/results.h"
#include "kernels/tensor.h"

static void *ffn_start(const struct model *m)
{
    return ffn_sums_new(m->decoder.config.layers, m->decoder.config.hidden);
}

static void ffn_release(void *sums)
{
    ffn_sums_free(sums);
}

static struct hook ffn_hook(void *sums)
{
    return ffn_sums_hook(sums);
}

static void ffn_add(void *sums, const void *other)
{
    ffn_sums_add(sums, other);
}

static void ffn_each(void *sums, void (*numbers)(void *self, void *data, size_t bytes), void *self)
{
    struct ffn_sums *s = sums;
    const size_t layers = (size_t)s->layers, all = layers * (size_t)s->width;
    numbers(self, s->xy, all * sizeof *s->xy);
    numbers(self, s->xx, all * sizeof *s->xx);
    numbers(self, s->visual, layers * sizeof *s->visual);
    numbers(self, s->text, layers * sizeof *s->text);
    numbers(self, &s->visual_count, sizeof s->visual_count);
    numbers(self, &s->text_count, sizeof s->text_count);
}

// ffn.alpha, ffn.redundancy, ffn.redundancy_text.
static int give_results(struct safetensors_writer *w, const struct ffn_sums *s, struct err *err)
{
    const size_t layers = (size_t)s->layers, all = layers * (size_t)s->width;
    float *alpha = xreallocarray(NULL, all + 2 * layers, sizeof *alpha);
    float *visual = alpha + all, *text = visual + layers;
    ffn_sums_results(s, alpha, visual, text);
    int status = 0;
    if (safetensors_writer_data(w, alpha, all * sizeof *alpha, err) < 0 ||
        safetensors_writer_data(w, visual, layers * sizeof *alpha, err) < 0 ||
        safetensors_writer_data(w, text, layers * sizeof *alpha, err) < 0)
        status = -1;
    free(alpha);
    return status;
}

static int give_sums(struct safetensors_writer *w, const struct ffn_sums *s, struct err *err)
{
    double *cosines = xreallocarray(NULL, (size_t)s->layers * 2, sizeof *cosines);
    for (int64_t l = 0; l < s->layers; l++) {
        cosines[l] = s->visual[l];
        cosines[s->layers + l] = s->text[l];
    }
    int status = 0;
    if (calibration_give_doubles(w, s->xy, s->layers * s->width, err) < 0 ||
        calibration_give_doubles(w, s->xx, s->layers * s->width, err) < 0 ||
        calibration_give_doubles(w, cosines, s->layers * 2, err) < 0)
        status = -1;
    free(cosines);
    return status;
}

static int ffn_write(const void *sums, const struct calibration_source *source, const char *path,
                     struct err *err)
{
    const struct ffn_sums *s = sums;
    const int64_t shape[] = { s->layers, s->width }, halves[] = { 2, s->layers };
    char count[32];
    struct safetensors_writer *w = calibration_writer(path, source);
    snprintf(count, sizeof count, "%" PRId64, s->visual_count);
    safetensors_writer_metadata(w, "visual_tokens", count);
    snprintf(count, sizeof count, "%" PRId64, s->text_count);
    safetensors_writer_metadata(w, "text_tokens", count);
    safetensors_writer_declare(w, "ffn.alpha", DTYPE_F32, 2, shape);
    safetensors_writer_declare(w, "ffn.redundancy", DTYPE_F32, 1, shape);
    safetensors_writer_declare(w, "ffn.redundancy_text", DTYPE_F32, 1, shape);
    calibration_declare_doubles(w, "ffn.sum_xy", 2, shape);
    calibration_declare_doubles(w, "ffn.sum_xx", 2, shape);
    calibration_declare_doubles(w, "ffn.sum_cos", 2, halves);
    if (give_results(w, s, err) < 0 || give_sums(w, s, err) < 0) {
        safetensors_writer_abandon(w);
        return -1;
    }
    return safetensors_writer_finish(w, err);
}

// A count of tokens in the metadata; -1 when it is missing.
static int64_t read_count(const struct calibration *c, const char *key)
{
    const char *text = safetensors_metadata(c->file, key);
    char *end;
    if (!text || !*text) return -1;
    const long long count = strtoll(text, &end, 10);
    return *end || count < 0 || count > CALIBRATION_MOST ? -1 : count;
}

static void *ffn_read(const struct calibration *c, struct err *err)
{
    const struct safetensor *alpha = safetensors_find(c->file, "ffn.alpha");
    if (!alpha || alpha->rank != 2 || alpha->shape[0] < 1 || alpha->shape[1] < 1) {
        err_set(err, "'%s' has no tensor ffn.alpha [layers, hidden size]", c->file->path);
        return NULL;
    }
    const int64_t *shape = alpha->shape, halves[] = { 2, shape[0] };
    double *xy = calibration_doubles(c, "ffn.sum_xy", 2, shape, err);
    double *xx = xy ? calibration_doubles(c, "ffn.sum_xx", 2, shape, err) : NULL;
    double *cosines = xx ? calibration_doubles(c, "ffn.sum_cos", 2, halves, err) : NULL;
    struct ffn_sums *s = NULL;
    if (cosines) {
        s = ffn_sums_new(shape[0], shape[1]);
        free(s->xy);
        free(s->xx);
        s->xy = xy, s->xx = xx;
        for (int64_t l = 0; l < shape[0]; l++) {
            s->visual[l] = cosines[l];
            s->text[l] = cosines[shape[0] + l];
        }
        s->visual_count = read_count(c, "visual_tokens");
        s->text_count = read_count(c, "text_tokens");
        xy = xx = NULL;
    }
    free(xy);
    free(xx);
    free(cosines);
    if (s && (s->visual_count < 0 || s->text_count < 0)) {
        err_set(err, "'%s' does not say how many tokens it was made from", c->file->path);
        ffn_sums_free(s);
        s = NULL;
    }
    return s;
}

static void ffn_show(const struct calibration *c, const struct sinks *sinks)
{
    static const char *const columns[] = { "layer", "redundancy, visual", "redundancy, text",
                                           "alpha, mean" };
    static const bool numeric[] = { true, true, true, true };
    const struct safetensor *t = safetensors_find(c->file, "ffn.alpha");
    struct err err;
    if (!t || t->rank != 2) return;
    float *alpha = calibration_numbers(c, "ffn.alpha", 2, t->shape, &err);
    float *visual = calibration_numbers(c, "ffn.redundancy", 1, t->shape, &err);
    float *text = calibration_numbers(c, "ffn.redundancy_text", 1, t->shape, &err);
    struct table_builder b;
    table_begin(&b, "calibration", 4, columns, numeric);
    for (int64_t l = 0; alpha && l < t->shape[0]; l++) {
        double sum = 0;
        for (int64_t k = 0; k < t->shape[1]; k++) sum += (double)alpha[l * t->shape[1] + k];
        table_add(&b, "%" PRId64, l);
        table_add(&b, visual ? "%.4f" : "-", visual ? (double)visual[l] : 0);
        table_add(&b, text ? "%.4f" : "-", text ? (double)text[l] : 0);
        table_add(&b, "%.4f", sum / (double)t->shape[1]);
    }
    table_emit(&b, sinks);
    free(alpha);
    free(visual);
    free(text);
}

static const struct result_kind ffn_results[] = {
    { "calibration", "cosine", .columns = "redundancy, visual|redundancy, text" },
    { "calibration", "alpha", .columns = "alpha, mean" },
    { 0 },
};

const struct calibration_kind calibration_kind_ffn = {
    .name = "ffn",
    .prefix = "ffn.",
    .help = "FFN redundancy of each layer, and alpha for ffn.approx hadamard",
    .start = ffn_start,
    .release = ffn_release,
    .hook = ffn_hook,
    .add = ffn_add,
    .each = ffn_each,
    .write = ffn_write,
    .read = ffn_read,
    .show = ffn_show,
    .results = ffn_results,
};
