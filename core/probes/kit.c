// core/probes/kit.c -- helpers shared by probes.
#include "core/probes/kit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/random.h"
#include "core/model/attend.h"
#include "core/model/families/pooling.h"
#include "core/model/layer.h"
#include "core/ops/ops.h"
#include "core/probes/results.h"
#include "core/template/message.h"

const struct probe_options probe_defaults = {
    .layer = PROBE_LAYER_DEFAULT, .head = -1, .picture = -1, .threshold = 0.15
};

const float *rows_read(struct rows *r, struct graph *g, const struct tensor *x)
{
    const int64_t count = tensor_count(x);
    if (count > r->capacity) {
        r->data = xreallocarray(r->data, (size_t)count, sizeof *r->data);
        r->capacity = count;
    }
    if (count) graph_download(g, r->data, x);
    return r->data;
}

void rows_release(struct rows *r)
{
    free(r->data);
    *r = (struct rows){ 0 };
}

double rows_dot(const float *a, const float *b, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += (double)a[i] * (double)b[i];
    return sum;
}

double rows_norm(const float *a, int64_t n)
{
    return sqrt(rows_dot(a, a, n));
}

double rows_cosine(const float *a, const float *b, int64_t n)
{
    double ab = 0, aa = 0, bb = 0;
    for (int64_t i = 0; i < n; i++) {
        ab += (double)a[i] * (double)b[i];
        aa += (double)a[i] * (double)a[i];
        bb += (double)b[i] * (double)b[i];
    }
    return aa > 0 && bb > 0 ? ab / sqrt(aa * bb) : 0;
}

struct tally values_tally(const float *x, int64_t n)
{
    struct tally t = { 0 };
    for (int64_t i = 0; i < n; i++)
        if (!isnan(x[i])) tally_add(&t, (double)x[i]);
    return t;
}

// --- numbers -------------------------------------------------------------------------------------

struct ranked {
    double value;
    size_t at;
};

static int by_value(const void *a, const void *b)
{
    const struct ranked *x = a, *y = b;
    return x->value < y->value ? -1 : x->value > y->value;
}

// Returns the ranks of x, or of y; ties get their mean rank.
static double *ranks_of(const struct point *points, size_t n, bool y)
{
    struct ranked *list = xreallocarray(NULL, n + 1, sizeof *list);
    double *rank = xreallocarray(NULL, n + 1, sizeof *rank);
    for (size_t i = 0; i < n; i++) list[i] = (struct ranked){ y ? points[i].y : points[i].x, i };
    qsort(list, n, sizeof *list, by_value);
    for (size_t i = 0, j; i < n; i = j) {
        for (j = i; j < n && list[j].value == list[i].value;) j++;
        for (size_t k = i; k < j; k++) rank[list[k].at] = (double)(i + j - 1) / 2;
    }
    free(list);
    return rank;
}

double rank_correlation(const struct point *points, size_t n)
{
    struct point *finite = xreallocarray(NULL, n + 1, sizeof *finite);
    size_t count = 0;
    for (size_t i = 0; i < n; i++)
        if (isfinite(points[i].x) && isfinite(points[i].y)) finite[count++] = points[i];
    double *a = ranks_of(finite, count, false), *b = ranks_of(finite, count, true);
    const double mean = ((double)count - 1) / 2;
    double ab = 0, aa = 0, bb = 0;
    for (size_t i = 0; i < count; i++) {
        ab += (a[i] - mean) * (b[i] - mean);
        aa += (a[i] - mean) * (a[i] - mean);
        bb += (b[i] - mean) * (b[i] - mean);
    }
    free(a);
    free(b);
    free(finite);
    return count >= 3 && aa > 0 && bb > 0 ? ab / sqrt(aa * bb) : NAN;
}

struct correlation rank_correlate(const struct point *points, size_t n)
{
    enum { TIMES = 2000, SEED = 42 };
    struct correlation c = { rank_correlation(points, n), NAN, NAN, NAN, 0 };
    struct point *finite = xreallocarray(NULL, n + 1, sizeof *finite);
    for (size_t i = 0; i < n; i++)
        if (isfinite(points[i].x) && isfinite(points[i].y)) finite[c.points++] = points[i];
    const double freedom = (double)c.points - 2;
    if (!isnan(c.r))
        c.p = fabs(c.r) < 1 ? student_p(c.r * sqrt(freedom / (1 - c.r * c.r)), freedom) : 0;
    struct point *drawn = xreallocarray(NULL, c.points + 1, sizeof *drawn);
    struct ranked *r = xreallocarray(NULL, TIMES, sizeof *r);
    size_t count = 0;
    for (uint64_t t = 0; t < TIMES && !isnan(c.r); t++) {
        for (size_t i = 0; i < c.points; i++)
            drawn[i] = finite[(size_t)(random_unit(SEED, RANDOM_BOOTSTRAP, t * c.points + i) *
                                       (double)c.points)];
        const double one = rank_correlation(drawn, c.points);
        if (!isnan(one)) r[count++].value = one; // equal points have no correlation
    }
    if (count >= 40) {
        qsort(r, count, sizeof *r, by_value);
        c.low = r[count / 40].value;
        c.high = r[count - 1 - count / 40].value;
    }
    free(r);
    free(drawn);
    free(finite);
    return c;
}

void put_correlation(struct result_table *t, const char *name, const struct correlation *c)
{
    result_row(t, "%s", name)[0] = c->r;
    result_row(t, "%s, p", name)[0] = c->p;
    result_row(t, "%s, 95%% low", name)[0] = c->low;
    result_row(t, "%s, 95%% high", name)[0] = c->high;
}

// --- the list of probes --------------------------------------------------------------------------

static const struct probe *const *probes; // NULL-terminated

void probes_register(const struct probe *const *all)
{
    probes = all;
    for (const struct probe *p; (p = *all); all++) {
        const char *lacks = !p->start                   ? "start"
                            : !p->release               ? "release"
                            : !p->finish                ? "finish"
                            : p->passes                 ? NULL
                            : !p->take && !p->run       ? "take or run"
                            : !p->sites[0] && !p->wants ? "sites or wants"
                                                        : NULL;
        if (lacks) BUG("probe %s has no %s (core/probes/probe.h)", p->name, lacks);
    }
}

const struct probe *probe_at(int index)
{
    for (int i = 0; i < index; i++)
        if (!probes[i]) return NULL;
    return index >= 0 ? probes[index] : NULL;
}

// --- options -------------------------------------------------------------------------------------

static int choose_layers(struct probe_env *env, const struct probe *probe, struct err *err)
{
    const int layer = env->options->layer, layers = env->model->decoder.config.layers;
    env->from = 0, env->to = layers - 1;
    if (layer >= layers)
        return err_set(err, "--layer %d: the model has layers 0 to %d", layer, layers - 1);
    if (layer == PROBE_LAYER_ALL && probe->one_layer)
        return err_set(err, "/%s measures a single layer: --layer K, not all", probe->name);
    if (layer >= 0) env->from = env->to = layer;
    if (layer == PROBE_LAYER_DEFAULT && probe->layers == MIDDLE_LAYER)
        env->from = env->to = probe_middle(env->model);
    if (layer == PROBE_LAYER_DEFAULT && probe->layers == LAST_LAYER) env->from = env->to;
    const struct decoder_config *c = &env->model->decoder.config;
    if (!probe->attends || env->from != env->to) return 0;
    if (layer >= 0) return decoder_need_attention(c, layer, "--layer", err);
    env->from = env->to = decoder_attending(c, env->to);
    return 0;
}

static int choose_queries(struct probe_env *env, const struct probe *probe, struct err *err)
{
    const struct sequence *s = env->sequence;
    const int64_t answer = s->n - s->prompt, number = env->options->number;
    enum probe_token token = env->options->token;
    int64_t from = s->prompt - 1;
    if (probe->token == PROBE_TOKEN_DEFAULT) return 0;
    if (token == PROBE_TOKEN_DEFAULT)
        token = probe->token == PROBE_TOKEN_ANSWER && !answer ? PROBE_TOKEN_LAST : probe->token;
    env->queries = 1;
    switch (token) {
    case PROBE_TOKEN_DEFAULT:
    case PROBE_TOKEN_LAST: env->token = (int)from; break;
    case PROBE_TOKEN_EACH:
    case PROBE_TOKEN_ANSWER:
        env->token = token == PROBE_TOKEN_EACH ? 0 : -1;
        from = s->prompt;
        env->queries = answer;
        break;
    case PROBE_TOKEN_NUMBER:
    case PROBE_TOKEN_ROW:
        from = token == PROBE_TOKEN_ROW ? number : s->prompt + number;
        env->token = (int)number;
        break;
    }
    if (!env->queries)
        return err_set(err, "there is no answer yet: ask something first, or use --token last");
    if (number < 0 || from < 0 || from + env->queries > s->n)
        return err_set(
            err,
            "--token %s%lld does not exist: the answer has %lld tokens, the sequence %lld rows",
            env->options->token == PROBE_TOKEN_ROW ? "row:" : "", (long long)number,
            (long long)answer, (long long)s->n);
    env->query = xreallocarray(NULL, (size_t)env->queries, sizeof *env->query);
    for (int64_t i = 0; i < env->queries; i++) env->query[i] = (int32_t)(from + i);
    return 0;
}

int probe_env_open(struct probe_env *env, const struct probe *probe, struct err *err)
{
    const int64_t heads = env->model->decoder.config.heads;
    env->number = sequence_visual_numbers(env->sequence, &env->visual);
    if (choose_layers(env, probe, err) < 0) return -1;
    if (env->options->head >= heads)
        return err_set(err, "--head %d: the layers have heads 0 to %d", env->options->head,
                       (int)heads - 1);
    if (env->options->head == PROBE_HEAD_EACH && !probe->each_head)
        return err_set(err,
                       "/%s measures one head, or the mean of all: --head each is for /attention",
                       probe->name);
    if (env->options->head == PROBE_HEAD_EACH && env->options->token == PROBE_TOKEN_EACH)
        return err_set(err, "--head each and --token each cannot be combined: choose one token, or "
                            "one head");
    return choose_queries(env, probe, err);
}

void probe_env_close(struct probe_env *env)
{
    free(env->query);
    free(env->number);
}

bool probe_listens(const struct probe *probe, void *state, const struct probe_env *env,
                   const struct site *site, int layer)
{
    bool there = false;
    if (probe->wants) return probe->wants(state, site, layer);
    for (int i = 0; i < PROBE_SITES && probe->sites[i]; i++) there |= probe->sites[i] == site;
    return there && (layer < 0 || (layer >= env->from && layer <= env->to));
}

int probe_middle(const struct model *m)
{
    const int layers = m->decoder.config.layers, half = layers / 2;
    return layers % 2 ? half + half % 2 : half; // k + 1/2 goes to the even neighbour
}

float *probe_values(const struct probe_env *env, int layers)
{
    return probe_nans(env->visual * layers);
}

float *probe_nans(int64_t count)
{
    float *values = xreallocarray(NULL, (size_t)count + 1, sizeof *values);
    for (int64_t i = 0; i < count; i++) values[i] = NAN;
    return values;
}

// --- attention of single rows --------------------------------------------------------------------

// True if the row is among the queries.
static bool is_query(const int32_t *list, int64_t count, int64_t row)
{
    int64_t low = 0, high = count;
    if (!list) return row < count;
    while (low < high) {
        const int64_t middle = (low + high) / 2;
        if (list[middle] < row)
            low = middle + 1;
        else
            high = middle;
    }
    return low < count && list[low] == row;
}

// Computes the attention probabilities [H,1,count] of row i over the keys that it sees.
static struct tensor *row_probs(struct graph *g, const struct site_args *a, int64_t i,
                                struct site_keys keys)
{
    struct tensor *q = graph_rows(g, a->q, i, 1);
    struct tensor *k = keys.list ? op_gather_rows(g, a->k, keys.list, keys.count)
                                 : graph_rows(g, a->k, keys.first, keys.count);
    return attend_probs(g, q, k, 0, a->scale);
}

static int readback_row(struct graph *g, const struct site_args *args, int64_t i, readback_fn take,
                        void *self)
{
    struct site_args row = *args;
    struct arena_mark scratch = graph_scratch_begin(g);
    const struct site_keys keys = site_keys(args, i);
    const struct tensor *probs = row_probs(g, args, i, keys);
    row.past += i;
    if (row.rows) row.rows += i;
    // Lists the sequence rows of these keys, unless they begin with the first key: then args->keys
    // applies.
    const bool listed = keys.list || keys.first;
    int32_t *chosen = listed ? xreallocarray(NULL, (size_t)keys.count + 1, sizeof *chosen) : NULL;
    for (int64_t j = 0; listed && j < keys.count; j++)
        chosen[j] = (int32_t)site_key(args, site_keys_at(keys, j));
    if (listed) row.keys = chosen;
    const int status = readback(g, probs, SITE_VALUES, &row, take, self);
    if (listed) readbacks_take(g); // before the list is freed
    free(chosen);
    graph_scratch_end(g, scratch);
    return status;
}

int probe_read_queries(struct graph *g, const struct site_args *args, const int32_t *query,
                       int64_t count, readback_fn take, void *self)
{
    for (int64_t i = 0; i < args->q->shape[0] && !graph_stop(g); i++)
        if (is_query(query, count, site_row(args, i)) && readback_row(g, args, i, take, self) < 0)
            return -1;
    return graph_ok(g) ? 0 : -1;
}

int probe_each_query(struct graph *g, const struct site_args *args, const int32_t *query,
                     int64_t count, probe_row_fn run, void *self)
{
    const int64_t n = args->q->shape[0], all = args->k->shape[0], heads = args->q->shape[1];
    struct rows host = { 0 };
    float *probs = xreallocarray(NULL, (size_t)(heads * all), sizeof *probs);
    int status = 0;
    for (int64_t i = 0; i < n && status == 0 && !graph_stop(g); i++) {
        if (!is_query(query, count, site_row(args, i))) continue;
        // Spreads row i's probabilities over all P keys; 0 for keys that the row does not see.
        struct arena_mark scratch = graph_scratch_begin(g);
        const struct site_keys keys = site_keys(args, i);
        const struct tensor *p = row_probs(g, args, i, keys); // [H,1,count]
        const float *from = p ? rows_read(&host, g, p) : NULL;
        memset(probs, 0, (size_t)(heads * all) * sizeof *probs);
        for (int64_t h = 0; from && h < heads; h++)
            for (int64_t j = 0; j < keys.count; j++)
                probs[h * all + site_keys_at(keys, j)] = from[h * keys.count + j];
        graph_scratch_end(g, scratch);
        status = graph_ok(g) ? run(self, g, args, i, probs) : -1;
    }
    rows_release(&host);
    free(probs);
    return status == 0 && graph_ok(g) ? 0 : -1;
}

const float *probe_contributions(struct graph *g, const struct model *m,
                                 const struct site_args *args, int64_t row, const float *probs,
                                 const int32_t *index, int64_t count, struct rows *host)
{
    const int64_t shape[] = { args->q->shape[1], 1, args->k->shape[0] };
    const struct linear *o = attention_output(&m->decoder.layer[args->layer]);
    struct arena_mark scratch = graph_scratch_begin(g);
    struct tensor *p = count ? graph_upload(g, DTYPE_F32, 3, shape, probs) : NULL, *norms = NULL;
    struct tensor *gate = args->gate ? graph_rows(g, args->gate, row, 1) : NULL;
    if (p) norms = attend_contribution(g, o, p, args->v, gate, index, count); // [count]
    const float *c = norms ? rows_read(host, g, norms) : NULL;
    graph_scratch_end(g, scratch);
    return c;
}

// --- words ---------------------------------------------------------------------------------------

char *probe_word(const struct tokenizer *t, int32_t id)
{
    const char *name = tokenizer_token(t, id);
    struct buf b = { 0 };
    buf_puts(&b, "");
    tokenizer_decode(t, &id, 1, false, &b);
    const char *from = b.data + strspn(b.data, " \t\r\n");
    size_t n = strlen(from);
    while (n && strchr(" \t\r\n", from[n - 1])) n--;
    char *word = n                      ? xstrndup(from, n)
                 : strchr(b.data, '\n') ? xstrdup("\u23ce")
                 : b.length             ? xstrdup("\u2423")
                 : name                 ? xstrdup(name)
                                        : xasprintf("<%d>", id);
    buf_release(&b);
    return word;
}

// --- maps ----------------------------------------------------------------------------------------

enum { TILES = 64 };

struct picture_tile *probe_tiles(const struct probe_env *env, int picture, int *count)
{
    const struct picture *p = &env->pictures[picture];
    const struct family *f = env->model->family;
    struct picture_tile *tiles = xcalloc(TILES, sizeof *tiles);
    *count = 0;
    if (f->pictures && f->pictures->tiles)
        *count = pooling_tiles(env->model, p->shape, tiles, TILES);
    if (*count > TILES) *count = TILES;
    if (*count) return tiles;
    tiles[0] = (struct picture_tile){ .rows = 1, .cols = p->tokens, .pitch = p->tokens };
    *count = 1;
    return tiles;
}

static bool shown(const struct probe_env *env, int picture)
{
    const int only = env->options->picture;
    if (only >= 0 && only != picture) return false;
    for (int64_t i = 0; i < env->sequence->n; i++)
        if (env->sequence->picture[i] == picture) return true;
    return false;
}

void probe_maps(const struct probe_env *env, struct results *r, const char *name, int layer,
                int head, int token, const float *values)
{
    probe_word_maps(env, r, name, layer, head, token, values, NULL);
}

void probe_word_maps(const struct probe_env *env, struct results *r, const char *name, int layer,
                     int head, int token, const float *values, const char *const *words)
{
    const struct sequence *s = env->sequence;
    for (int p = 0; p < (int)env->picture_count; p++) {
        int count;
        if (!shown(env, p)) continue;
        struct picture_tile *tiles = probe_tiles(env, p, &count);
        // Index of each token of the picture among all visual tokens: [tokens], -1: none.
        const int64_t tokens = env->pictures[p].tokens;
        int64_t *place = xreallocarray(NULL, (size_t)tokens + 1, sizeof *place), visual = 0;
        for (int64_t i = 0; i < tokens; i++) place[i] = -1;
        for (int64_t i = 0; i < s->n; i++) {
            if (s->picture[i] < 0) continue;
            if (s->picture[i] == p && s->cell[i] < tokens) place[s->cell[i]] = visual;
            visual++;
        }
        for (int i = 0; i < count; i++) {
            const struct picture_tile *t = &tiles[i];
            struct result_map *m = results_map(r, name, (int)t->rows, (int)t->cols);
            m->picture = p, m->layer = layer, m->head = head, m->token = token;
            if (count > 1) m->tile = xasprintf("tile %d of %d", i + 1, count);
            const double area[4] = { t->left, t->top, t->right, t->bottom };
            memcpy(m->area, area, sizeof area);
            if (env->kept) m->state = xcalloc((size_t)(t->rows * t->cols), 1);
            if (words) m->words = xcalloc((size_t)(t->rows * t->cols), sizeof *m->words);
            for (int64_t row = 0; row < t->rows; row++)
                for (int64_t c = 0; c < t->cols; c++) {
                    const int64_t cell = t->first + row * t->pitch + c, at = row * t->cols + c;
                    if (cell < 0 || cell >= tokens || place[cell] < 0) continue;
                    m->values[at] = values[place[cell]];
                    if (words && words[place[cell]]) m->words[at] = xstrdup(words[place[cell]]);
                    if (env->kept) m->state[at] = !env->kept[place[cell]];
                }
        }
        free(place);
        free(tiles);
    }
}
