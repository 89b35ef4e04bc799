// core/probes/directions.c -- steering vectors: reads the states of two files of samples, and
// computes a vector for each layer from them.
#include "core/probes/directions.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/file_in.h"
#include "core/base/pace.h"
#include "core/base/random.h"
#include "core/base/text.h"
#include "core/data/dataset.h"
#include "core/data/notices.h"
#include "core/positions/positions.h"
#include "core/probes/kit.h"
#include "core/probes/measure.h"
#include "core/probes/text_file.h"
#include "core/talk/conversation.h"
#include "core/template/message.h"

enum { ROUNDS = 20000 };

// --- the states of samples -----------------------------------------------------------------------

// States of a file's samples: rows of each chosen layer.
struct states {
    const bool *layers; // [L] the chosen ones
    int64_t layer_count, width;
    int64_t count, capacity; // samples
    float **list;            // [L] -> [capacity, D]; NULL: the layer is not chosen
};

// Allocates the states of one file. Returns false if memory is short.
static bool states_init(struct states *s, const struct directions *d, int64_t capacity)
{
    bool fits = true;
    *s = (struct states){ .layers = d->there,
                          .layer_count = d->layers,
                          .width = d->width,
                          .capacity = capacity,
                          .list = xcalloc((size_t)d->layers + 1, sizeof *s->list) };
    for (int64_t l = 0; l < d->layers && fits; l++)
        if (d->there[l])
            fits = (s->list[l] = calloc((size_t)capacity, (size_t)d->width * sizeof **s->list));
    return fits;
}

// Allocates the states of both files' samples in the layers `there`, all at once: the share of
// separated samples needs them once the vector is known.
static int states_new(struct states side[2], const struct directions *d, const int64_t count[2],
                      struct err *err)
{
    const double machine = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
    int64_t chosen = 0;
    for (int64_t l = 0; l < d->layers; l++) chosen += d->there[l];
    const double bytes = ((double)count[0] + (double)count[1]) * (double)chosen * (double)d->width *
                         (double)sizeof **side->list;
    bool fits = bytes < machine;
    for (int i = 0; i < 2 && fits; i++) fits = states_init(&side[i], d, count[i]);
    if (fits) return 0;
    err_set(err,
            "the states of %lld samples in %lld layers need %.1f GB of the machine's %.1f: "
            "use a smaller --limit or fewer layers",
            (long long)(count[0] + count[1]), (long long)chosen, bytes / 1e9, machine / 1e9);
    return -1;
}

static void states_release(struct states *s)
{
    for (int64_t l = 0; s->list && l < s->layer_count; l++) free(s->list[l]);
    free(s->list);
}

// A pass over one prompt.
struct reading {
    const struct probe_env *env;
    float *rows; // [L,D] the prompt's last position
    bool *read;  // [L] rows that are filled
};

static void reading_release(void *state)
{
    struct reading *r = state;
    free(r->rows);
    free(r->read);
    free(r);
}

static void *reading_start(const struct probe_env *env, struct err *err)
{
    const struct decoder_config *c = &env->model->decoder.config;
    struct reading *r = xcalloc(1, sizeof *r);
    r->env = env;
    r->rows = xcalloc((size_t)(c->layers * c->hidden) + 1, sizeof *r->rows);
    r->read = xcalloc((size_t)c->layers + 1, sizeof *r->read);
    return r;
}

static int reading_take(void *self, const struct site *site, const struct site_args *args,
                        struct err *err)
{
    const struct reading *r = self;
    const int64_t width = args->x->shape[1];
    for (int64_t i = args->x->shape[0]; i-- > 0;) {
        if (site_row(args, i) != r->env->sequence->n - 1) continue;
        memcpy(r->rows + args->layer * width, (const float *)args->x->data + i * width,
               (size_t)width * sizeof *r->rows);
        r->read[args->layer] = true;
        break;
    }
    return 0;
}

static int reading_finish(void *state, struct results *r, struct err *err)
{
    return 0;
}

// Adds the states of a pass to those of its file.
static void reading_add(void *data, const void *state)
{
    struct states *s = data;
    const struct reading *r = state;
    if (s->count == s->capacity) BUG("more passes than samples");
    for (int64_t l = 0; l < s->layer_count; l++)
        if (s->layers[l]) {
            if (!r->read[l]) BUG("the pass has no last position in layer %lld", (long long)l);
            memcpy(s->list[l] + s->count * s->width, r->rows + l * s->width,
                   (size_t)s->width * sizeof *r->rows);
        }
    s->count++;
}

// Not a command: it has no line in core/lists.h.
static const struct probe reading_probe = {
    .name = "steer",
    .layers = EVERY_LAYER,
    .sites = { SITE_LAYER_OUT },
    .start = reading_start,
    .release = reading_release,
    .take = reading_take,
    .finish = reading_finish,
    .data_add = reading_add,
};

// --- the files -----------------------------------------------------------------------------------

struct source {
    const char *path;
    bool data; // a data set; else lines of text
    struct dataset set;
    struct data_notices notices; // of a data set
    struct text_file text;       // otherwise
    int64_t count;
};

static void source_release(struct source *s)
{
    if (s->data) dataset_close(&s->set);
    data_notices_release(&s->notices);
    text_file_close(&s->text);
}

static int source_open(struct source *s, const char *path, const char *images, struct err *err)
{
    *s = (struct source){ .path = path, .set = { .file = -1 } };
    s->data = text_ends(path, ".json") || text_ends(path, ".jsonl");
    if (s->data) {
        if (dataset_open(&s->set, path, images, err) < 0) return -1;
        s->count = s->set.count;
        return 0;
    }
    if (text_file_open(&s->text, path, err) < 0) return -1;
    s->count = s->text.count;
    return s->count ? 0 : err_set(err, "'%s' has no question: write one on each line", path);
}

// Makes the conversation's prompt from sample i of a data set.
static int show_sample(struct source *s, const struct tokenizer *t, struct conversation *c,
                       int64_t i, struct err *err)
{
    struct sample sample;
    int status = dataset_read(&s->set, i, &sample, err);
    if (status == 0) {
        status = conversation_show(c, &s->set, &sample, dialogue_question(&sample.dialogue), err);
        data_notices_sample(&s->notices, t, &sample, DATA_PROMPT | DATA_UNUSED_CHOICES);
        data_notices_shown(&s->notices, &sample.dialogue, c->pictures, c->picture_count);
    }
    sample_release(&sample);
    return status < 0 ? err_in(err, "'%s', sample #%lld", s->path, (long long)i) : 0;
}

// Makes the conversation's prompt from sample i.
static int show(struct source *s, const struct tokenizer *t, struct conversation *c, int64_t i,
                struct err *err)
{
    if (s->data) return show_sample(s, t, c, i, err);
    struct message m = { .role = ROLE_USER };
    message_add_text(&m, s->text.line[i]);
    conversation_clear(c);
    conversation_append(c, &m, 1);
    message_release(&m);
    return 0;
}

// Runs a pass for each of the file's first samples, as many as `to` holds.
static int read_states(const struct measuring *m, struct source *from, int64_t done, int64_t all,
                       struct states *to, struct err *err)
{
    struct measuring with = *m;
    struct probe_options options = probe_defaults;
    struct conversation c;
    struct pace pace = pace_from(0);
    int status = 0;
    with.options = &options;
    with.sinks = NULL; // this function reports the progress
    with.data = to;
    conversation_init(&c, m->backend);
    conversation_set_model(&c, m->model);
    for (int64_t i = 0; i < to->capacity && status == 0; i++) {
        struct results none = { 0 };
        if (m->sinks) sinks_progress(m->sinks, &pace, "measuring", (double)(done + i), (double)all);
        status = show(from, m->model->tokenizer, &c, i, err);
        if (status == 0 && (status = measure(&with, &c, &reading_probe, &none, err)) < 0)
            err_in(err, "'%s', sample #%lld", from->path, (long long)i);
        results_release(&none);
        if (status == 0 && m->cancel && atomic_load(m->cancel)) status = err_set(err, "stopped");
    }
    conversation_release(&c);
    char *text = data_notices_text(&from->notices);
    if (text && m->sinks) sinks_notice(m->sinks, "'%s': %s", from->path, text);
    free(text);
    return status;
}

// --- the vectors ---------------------------------------------------------------------------------

static void mean_of(const float *x, int64_t count, int64_t width, double *mean)
{
    for (int64_t k = 0; k < width; k++) mean[k] = 0;
    for (int64_t i = 0; i < count; i++)
        for (int64_t k = 0; k < width; k++) mean[k] += (double)x[i * width + k] / (double)count;
}

static double norm_of(const double *x, int64_t n)
{
    double sum = 0;
    for (int64_t k = 0; k < n; k++) sum += x[k] * x[k];
    return sqrt(sum);
}

// Computes matrix [n,n], n = min(pairs, width): the products of the differences [pairs,D] with each
// other, or those of their columns, whichever is smaller. Both have the same largest eigenvalue.
static void products_of(const double *difference, int64_t pairs, int64_t width, double *matrix)
{
    if (pairs <= width) {
        for (int64_t i = 0; i < pairs; i++)
            for (int64_t j = 0; j <= i; j++) {
                const double *a = difference + i * width, *b = difference + j * width;
                double sum = 0;
                for (int64_t k = 0; k < width; k++) sum += a[k] * b[k];
                matrix[i * pairs + j] = matrix[j * pairs + i] = sum;
            }
        return;
    }
    for (int64_t i = 0; i < pairs; i++) {
        const double *d = difference + i * width;
        for (int64_t k = 0; k < width; k++)
            for (int64_t j = 0; j < width; j++) matrix[k * width + j] += d[k] * d[j];
    }
}

// Sets x [n] to the eigenvector of the symmetric matrix [n,n] for the largest eigenvalue, by power
// iteration. Starts from a random vector: the mean difference may be the eigenvector of a smaller
// eigenvalue, which the iteration would never leave. Returns false if it does not converge.
static bool first_eigenvector(const double *matrix, int64_t n, double *x)
{
    double *next = xcalloc((size_t)n + 1, sizeof *next), length;
    bool moved = true;
    for (int64_t i = 0; i < n; i++) x[i] = random_unit(0, RANDOM_DIRECTION, (uint64_t)i) - 0.5;
    length = norm_of(x, n);
    for (int64_t i = 0; i < n; i++) x[i] /= length;
    for (int round = 0; round < ROUNDS && moved; round++) {
        for (int64_t i = 0; i < n; i++) {
            next[i] = 0;
            for (int64_t j = 0; j < n; j++) next[i] += matrix[i * n + j] * x[j];
        }
        length = norm_of(next, n);
        if (length == 0) break;
        double change = 0;
        for (int64_t i = 0; i < n; i++) {
            const double to = next[i] / length;
            change += (to - x[i]) * (to - x[i]);
            x[i] = to;
        }
        moved = change > 1e-20;
    }
    free(next);
    return !moved;
}

// Sets unit [D] to the principal direction of the pairs' differences [pairs,D], at least one of
// which is not 0.
static int principal(const double *difference, int64_t pairs, int64_t width, double *unit,
                     struct err *err)
{
    const int64_t n = pairs < width ? pairs : width;
    double *matrix = calloc((size_t)n, (size_t)n * sizeof *matrix);
    if (!matrix)
        return err_set(err, "out of memory for the products of %lld differences: use --limit",
                       (long long)pairs);
    double *x = xcalloc((size_t)n + 1, sizeof *x);
    products_of(difference, pairs, width, matrix);
    const bool converged = first_eigenvector(matrix, n, x);
    for (int64_t k = 0; k < width; k++) unit[k] = pairs <= width ? 0 : x[k];
    for (int64_t i = 0; i < pairs && pairs <= width; i++)
        for (int64_t k = 0; k < width; k++) unit[k] += x[i] * difference[i * width + k];
    const double length = norm_of(unit, width);
    for (int64_t k = 0; k < width; k++) unit[k] /= length;
    free(x);
    free(matrix);
    if (converged) return 0;
    return err_set(err, "pca does not converge: the first two components of the pairs' differences "
                        "are almost equally large; give more samples, or use --method mean");
}

int direction_compute(enum direction_method method, const float *plus, int64_t plus_count,
                      const float *minus, int64_t minus_count, int64_t width, float *vector,
                      struct err *err)
{
    double *mean[2], *unit = xcalloc((size_t)width + 1, sizeof *unit), scale = 1;
    for (int side = 0; side < 2; side++) mean[side] = xcalloc((size_t)width + 1, sizeof **mean);
    mean_of(plus, plus_count, width, mean[0]);
    mean_of(minus, minus_count, width, mean[1]);
    for (int64_t k = 0; k < width; k++) unit[k] = mean[0][k] - mean[1][k];
    bool differ = norm_of(unit, width) > 0;
    int status = 0;
    if (method == DIRECTION_PCA) {
        const int64_t n = plus_count * width;
        double *difference = xreallocarray(NULL, (size_t)n + 1, sizeof *difference);
        for (int64_t i = 0; i < n; i++) difference[i] = (double)plus[i] - (double)minus[i];
        differ = norm_of(difference, n) > 0;
        if (differ) status = principal(difference, plus_count, width, unit, err);
        double squares = 0, towards = 0;
        for (int64_t i = 0; i < plus_count; i++) {
            double along = 0;
            for (int64_t k = 0; k < width; k++) along += difference[i * width + k] * unit[k];
            squares += along * along / (double)plus_count;
            towards += along;
        }
        scale = sqrt(squares) * (towards < 0 ? -1 : 1);
        free(difference);
    }
    for (int64_t k = 0; k < width; k++) vector[k] = (float)(scale * unit[k]);
    free(unit);
    free(mean[0]);
    free(mean[1]);
    return differ ? status : err_set(err, "the states of the two files do not differ");
}

// Sets norm, state and separated of a layer from its vector and the states of both files.
static void describe(struct directions *d, int64_t layer, const float *const x[2],
                     const int64_t count[2])
{
    const float *v = d->vectors + layer * d->width;
    double mean[2] = { 0 }, right = 0;
    d->norm[layer] = rows_norm(v, d->width);
    for (int pass = 0; pass < 2; pass++)
        for (int side = 0; side < 2; side++)
            for (int64_t i = 0; i < count[side]; i++) {
                const float *h = x[side] + i * d->width;
                const double along = rows_dot(h, v, d->width);
                if (!pass) mean[side] += along / (double)count[side];
                if (!pass)
                    d->state[layer] += rows_norm(h, d->width) / (double)(count[0] + count[1]);
                if (pass) right += (along > (mean[0] + mean[1]) / 2) == (side == 0);
            }
    d->separated[layer] = right / (double)(count[0] + count[1]);
}

static int compute(const struct states side[2], enum direction_method method, struct directions *d,
                   struct err *err)
{
    const int64_t count[2] = { side[0].count, side[1].count };
    for (int64_t l = 0; l < d->layers; l++) {
        if (!d->there[l]) continue;
        const float *const x[2] = { side[0].list[l], side[1].list[l] };
        if (direction_compute(method, x[0], count[0], x[1], count[1], d->width,
                              d->vectors + l * d->width, err) < 0)
            return err_in(err, "layer %lld", (long long)l);
        describe(d, l, x, count);
    }
    return 0;
}

static int choose_layers(const struct measuring *m, const char *layers, bool *chosen,
                         struct err *err)
{
    const int count = m->model->decoder.config.layers;
    if (layers) return positions_layers(layers, "--layer", count, chosen, err) < 0 ? -1 : 0;
    chosen[probe_middle(m->model)] = true;
    return 0;
}

int directions_make(const struct measuring *m, const struct directions_request *request,
                    struct directions *d, struct err *err)
{
    const struct decoder_config *c = &m->model->decoder.config;
    const char *const paths[2] = { request->plus, request->minus };
    struct source source[2] = { { .set.file = -1 }, { .set.file = -1 } };
    struct states side[2] = { { 0 } };
    const size_t layers = (size_t)c->layers + 1;
    int status = 0;
    *d = (struct directions){ .layers = c->layers, .width = c->hidden };
    d->there = xcalloc(layers, sizeof *d->there);
    d->norm = xcalloc(layers, sizeof *d->norm);
    d->state = xcalloc(layers, sizeof *d->state);
    d->separated = xcalloc(layers, sizeof *d->separated);
    d->vectors = xcalloc(layers * (size_t)c->hidden, sizeof *d->vectors);
    status = choose_layers(m, request->layers, d->there, err);
    int64_t count[2] = { 0 };
    for (int i = 0; i < 2 && status == 0; i++) {
        status = source_open(&source[i], paths[i], request->images, err);
        source[i].notices = data_notices_new(m->settings);
        count[i] = source[i].count < request->limit ? source[i].count : request->limit;
    }
    if (status == 0 && request->method == DIRECTION_PCA && count[0] != count[1])
        status = err_set(err,
                         "--method pca compares pairs of samples, but '%s' has %lld and '%s' has "
                         "%lld: give both files the same number of samples, or use --method mean",
                         request->plus, (long long)count[0], request->minus, (long long)count[1]);
    if (status == 0) status = states_new(side, d, count, err);
    for (int i = 0; i < 2 && status == 0; i++)
        status = read_states(m, &source[i], i ? count[0] : 0, count[0] + count[1], &side[i], err);
    if (status == 0) status = compute(side, request->method, d, err);
    d->plus = side[0].count;
    d->minus = side[1].count;
    for (int i = 0; i < 2; i++) {
        states_release(&side[i]);
        source_release(&source[i]);
    }
    if (status < 0) directions_release(d);
    return status;
}

void directions_release(struct directions *d)
{
    free(d->there);
    free(d->vectors);
    free(d->norm);
    free(d->state);
    free(d->separated);
    *d = (struct directions){ 0 };
}
