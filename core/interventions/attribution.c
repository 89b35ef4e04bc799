// core/interventions/attribution.c -- runs the chosen kinds of attribution, and averages the maps
// of other pictures.
#include "core/interventions/attribution.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/folder.h"
#include "core/interventions/effect.h"
#include "core/probes/kit.h"
#include "core/probes/passes.h"

enum { OTHERS = 8 }; // number of other pictures measured, at most

#define X(name, layer) [ATTRIBUTION_##name] = { #name, attribute_##name, layer },
const struct attribution_kind attribution_kinds[ATTRIBUTION_COUNT] = { ATTRIBUTIONS(X) };
#undef X

int attribution_choose(const char *list, bool chosen[ATTRIBUTION_COUNT], struct err *err)
{
    const bool all = !list || !strcmp(list, "all");
    for (int k = 0; k < ATTRIBUTION_COUNT; k++) chosen[k] = all;
    for (const char *p = list; !all && *p;) {
        const size_t n = strcspn(p, ",");
        int k = 0;
        while (k < ATTRIBUTION_COUNT && (strlen(attribution_kinds[k].name) != n ||
                                         strncmp(attribution_kinds[k].name, p, n) != 0))
            k++;
        if (k == ATTRIBUTION_COUNT) {
            struct buf names = { 0 };
            for (k = 0; k < ATTRIBUTION_COUNT; k++)
                buf_printf(&names, "%s, ", attribution_kinds[k].name);
            err_set(err, "--by takes %sor all, not '%.*s'", names.data, (int)n, p);
            buf_release(&names);
            return -1;
        }
        chosen[k] = true;
        p += n + (p[n] == ',');
    }
    return list && !*list ? err_set(err, "--by is empty") : 0;
}

int attributing_open(struct attributing *w, struct err *err)
{
    const size_t n = (size_t)w->env->sequence->n;
    const size_t L = (size_t)w->env->model->decoder.config.layers;
    const size_t H = (size_t)w->env->model->decoder.config.heads;
    w->picture = -1;
    w->logp = NAN;
    w->attends = xcalloc(L, sizeof *w->attends);
    w->direct = (struct direct_parts){ .logit = NAN,
                                       .attention = xcalloc(L, sizeof(double)),
                                       .ffn = xcalloc(L, sizeof(double)),
                                       .rest = xcalloc(L, sizeof(double)),
                                       .heads = xcalloc(L * H, sizeof(double)),
                                       .reached = xcalloc(L, sizeof(bool)) };
    for (int k = 0; k < ATTRIBUTION_COUNT; k++) {
        w->maps[k].rows = xcalloc(n + 1, sizeof(double));
        w->maps[k].should = NAN;
    }
    return effect_tokens(w->env, &w->first, &w->end, err);
}

void attributing_close(struct attributing *w)
{
    for (int k = 0; k < ATTRIBUTION_COUNT; k++) {
        free(w->maps[k].rows);
        free(w->maps[k].mean);
    }
    free(w->attends);
    free(w->direct.attention);
    free(w->direct.ffn);
    free(w->direct.rest);
    free(w->direct.heads);
    free(w->direct.reached);
}

void attributing_note(const struct attributing *w, bool embeddings, struct results *r)
{
    const int deep = w->env->visual ? w->env->model->vision.config.deep_count : 0;
    const int layer = embeddings ? 0 : attribution_layer(w, 0);
    const bool rows = embeddings || w->chosen[ATTRIBUTION_gradient] ||
                      w->chosen[ATTRIBUTION_integrated] || w->chosen[ATTRIBUTION_occlusion];
    struct buf whole = { 0 };
    for (int k = 0; k < ATTRIBUTION_COUNT; k++)
        if (w->chosen[k] && !attribution_kinds[k].layer)
            buf_printf(&whole, "%s%s", whole.length ? ", " : "", attribution_kinds[k].name);
    if (w->env->options->layer >= 0 && whole.length)
        results_note(r, "--layer has no effect on kinds that read all layers: %s", whole.data);
    buf_release(&whole);
    if (rows && layer < deep)
        results_note(r,
                     "DeepStack adds further features of the visual tokens up to layer %d: they "
                     "are not attributed, and stay when the baseline replaces a token",
                     deep - 1);
}

// --- for the kinds -------------------------------------------------------------------------------

int attribution_layer(const struct attributing *w, int otherwise)
{
    return w->env->options->layer >= 0 ? w->env->options->layer : otherwise;
}

float *attribution_weights(const struct attributing *w)
{
    const struct sequence *s = w->env->sequence;
    float *weight = xcalloc((size_t)(s->n - s->prompt) + 1, sizeof *weight);
    for (int64_t t = w->first; t < w->end; t++) weight[t] = 1;
    return weight;
}

double attribution_sum(const struct attributing *w, const double *logp)
{
    double sum = 0;
    for (int64_t t = w->first; t < w->end; t++) sum += logp[t];
    return sum;
}

void attribution_baseline(const struct attributing *w, const float *rows, const bool *there,
                          float *to)
{
    const struct sequence *s = w->env->sequence;
    const int64_t width = w->env->model->decoder.config.hidden;
    double *mean = xcalloc(2 * (size_t)width, sizeof *mean); // of text rows, of visual rows
    int64_t count[2] = { 0 };
    memset(to, 0, (size_t)(s->n * width) * sizeof *to);
    for (int64_t i = 0; i < s->n && !w->env->options->zero; i++) {
        const int kind = s->picture[i] >= 0;
        if (!there[i]) continue;
        count[kind]++;
        for (int64_t k = 0; k < width; k++)
            mean[kind * width + k] +=
                ((double)rows[i * width + k] - mean[kind * width + k]) / (double)count[kind];
    }
    for (int64_t i = 0; i < s->n; i++)
        for (int64_t k = 0; k < width; k++)
            to[i * width + k] = (float)mean[(s->picture[i] >= 0) * width + k];
    free(mean);
}

void attribution_progress(struct attributing *w, struct passing *p)
{
    passes_progress(p, w->done, w->all > w->done ? w->all : w->done);
    w->done++;
}

// --- the maps ------------------------------------------------------------------------------------

static int run_kind(struct attributing *w, struct passing *p, int kind, struct attribution *to,
                    struct err *err)
{
    for (int64_t i = 0; i < w->env->sequence->n; i++) to->rows[i] = NAN;
    to->should = NAN;
    const int status = attribution_kinds[kind].run(w, p, to, err);
    return status < 0 ? err_in(err, "--by %s", attribution_kinds[kind].name) : 0;
}

int attributing_run(struct attributing *w, struct passing *p, struct err *err)
{
    const struct sequence *s = w->env->sequence;
    double *logp = xcalloc((size_t)(s->n - s->prompt) + 1, sizeof *logp);
    int status = passes_run(p, NULL, 0, logp, err);
    w->logp = attribution_sum(w, logp);
    free(logp);
    for (int k = 0; k < ATTRIBUTION_COUNT && status == 0; k++)
        if (w->chosen[k]) status = run_kind(w, p, k, &w->maps[k], err);
    passes_progress(p, w->done, w->done);
    return status;
}

void attributing_map(const struct attributing *w, const double *rows, float *map)
{
    for (int64_t i = 0; i < w->env->sequence->n; i++)
        if (w->env->number[i] >= 0) map[w->env->number[i]] = (float)rows[i];
}

// --- maps of other pictures ----------------------------------------------------------------------

// True if the row belongs to the replaced picture and has an attribution.
static bool shows(const struct attributing *w, const double *rows, int64_t i)
{
    return w->env->sequence->picture[i] == w->picture && isfinite(rows[i]);
}

static double size_of(const struct attributing *w, const double *rows)
{
    double sum = 0;
    for (int64_t i = 0; i < w->env->sequence->n; i++)
        if (shows(w, rows, i)) sum += fabs(rows[i]);
    return sum;
}

void attributing_correct(const struct attributing *w, int kind, double *to)
{
    const struct attribution *m = &w->maps[kind];
    const double size = size_of(w, m->rows);
    for (int64_t i = 0; i < w->env->sequence->n; i++)
        to[i] = shows(w, m->rows, i) ? (size > 0 ? m->rows[i] / size : 0) - m->mean[i] : NAN;
}

// Finds the picture that the other pictures will replace.
static int find_picture(struct attributing *w, struct err *err)
{
    const struct sequence *s = w->env->sequence;
    w->picture = -1;
    for (int64_t i = 0; i < s->n; i++) {
        const int picture = w->at[i] ? s->picture[i] : -1;
        const int only = w->env->options->picture;
        if (picture < 0 || (only >= 0 && picture != only)) continue;
        if (w->picture >= 0 && w->picture != picture)
            return err_set(err, "--others replaces one picture: choose it with --picture I");
        w->picture = picture;
    }
    return w->picture >= 0 ? 0 : err_set(err, "--others needs a visual token among the positions");
}

// Shows a file in place of the picture. Sets *shown to false if the file cannot be read, has a
// different size or is the picture itself.
static int show_other(const struct attributing *w, struct passing *p, const char *path,
                      const float *own, size_t bytes, bool *shown, struct err *err)
{
    float *focus, *tokens = passes_encode(p, w->picture, path, &focus, err);
    *shown = tokens && memcmp(tokens, own, bytes) != 0;
    const int status =
        *shown ? passes_show(p, w->picture, tokens, focus, err) : passes_check(p, err);
    free(tokens);
    free(focus);
    return status;
}

// Adds the maps of the current picture to the means.
static int add_other(struct attributing *w, struct passing *p, struct attribution *one,
                     struct err *err)
{
    int status = 0;
    for (int k = 0; k < ATTRIBUTION_COUNT && status == 0; k++) {
        if (!w->chosen[k]) continue;
        status = run_kind(w, p, k, one, err);
        const double size = size_of(w, one->rows);
        for (int64_t i = 0; i < w->env->sequence->n && status == 0; i++)
            if (shows(w, one->rows, i))
                w->maps[k].mean[i] += ((size > 0 ? one->rows[i] / size : 0) - w->maps[k].mean[i]) /
                                      (double)(w->others + 1);
    }
    w->others += status == 0;
    return status;
}

int attributing_others(struct attributing *w, struct passing *p, const char *folder,
                       struct err *err)
{
    const size_t n = (size_t)w->env->sequence->n;
    int64_t rows = 0, width = 0;
    if (find_picture(w, err) < 0) return -1;
    float *own = passes_visual(p, w->picture, &rows, &width, NULL, err);
    if (!own) return -1;
    char **names = folder_list(folder);
    struct attribution one = { .rows = xcalloc(n + 1, sizeof(double)) };
    struct err why = { 0 };
    int status = 0;
    for (int k = 0; k < ATTRIBUTION_COUNT; k++)
        if (w->chosen[k]) w->maps[k].mean = xcalloc(n + 1, sizeof(double));
    for (int i = 0; names[i] && status == 0 && w->others < OTHERS; i++) {
        char *path = folder_entry(folder, names[i]);
        bool shown;
        status = show_other(w, p, path, own, (size_t)(rows * width) * sizeof *own, &shown, &why);
        if (status < 0) *err = why;
        if (status == 0 && shown) status = add_other(w, p, &one, err);
        free(path);
    }
    if (status == 0 && !w->others)
        status = err_set(err, "--others: no picture in '%s' can replace the prompt's: %s", folder,
                         !names[0]     ? "the folder is empty or cannot be read"
                         : why.text[0] ? why.text
                                       : "the folder has only that picture");
    if (passes_restore(p, w->picture, status == 0 ? err : &why) < 0) status = -1;
    folder_list_free(names);
    free(one.rows);
    free(own);
    return status;
}
