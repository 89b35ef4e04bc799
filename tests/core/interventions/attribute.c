// tests/core/interventions/attribute.c -- the kinds of attribution: identities and plain loops, on
// families whose attention differs, with methods and an adapter; passes from the cache.
#include "core/interventions/attribution.h"
#include "core/interventions/layer_rows.h"
#include "core/model/layer.h"
#include "core/ops/ops.h"
#include "core/probes/kit.h"
#include "core/probes/passes.h"
#include "tests/core/probes/probe.h"
#include "tests/core/scratch.h"

// A probe that runs a test inside the passes of a measurement.
static void (*inside)(const struct probe_env *env, struct passing *p);

static void *inside_start(const struct probe_env *env, struct err *err)
{
    return (void *)(uintptr_t)env;
}

static void inside_release(void *state)
{
}

static int inside_passes(void *state, struct passing *p, struct err *err)
{
    inside(state, p);
    return 0;
}

static int inside_finish(void *state, struct results *r, struct err *err)
{
    return 0;
}

static int any_words(const char *words, struct err *err)
{
    return 0;
}

static const struct probe probe_inside = { .name = "inside",
                                           .words = any_words,
                                           .answer = true,
                                           .start = inside_start,
                                           .release = inside_release,
                                           .passes = inside_passes,
                                           .finish = inside_finish };

static void run_inside(struct golden *g, void (*what)(const struct probe_env *, struct passing *))
{
    struct results r = { 0 };
    inside = what;
    run_probe(g, &probe_inside, NULL, &r);
    results_release(&r);
}

static double logp_of(const struct probe_env *env, struct passing *p, struct layer_rows *w,
                      int64_t from)
{
    struct err err = { 0 };
    const struct hook hook = layer_rows_hook(w);
    const int64_t answer = env->sequence->n - env->sequence->prompt;
    double logp[8], sum = 0;
    assert_true(answer > 0 && answer <= 8);
    must(passes_run(p, &hook, from, logp, &err), &err);
    for (int64_t t = 0; t < answer; t++) sum += logp[t];
    return sum;
}

// A number in -1..1 that differs by index.
static float direction(int64_t i)
{
    return (float)(((uint64_t)i * 2654435761U >> 7) % 2001) / 1000 - 1;
}

// The derivative along a direction is the central difference of two passes.
static void gradients_are_differences(const struct probe_env *env, struct passing *p)
{
    const double eps = 2e-3;
    const int layers[] = { 0, probe_middle(env->model) };
    for (int k = 0; k < 2; k++) {
        struct layer_rows w;
        struct err err = { 0 };
        double logp[8], along = 0, ends[2];
        const float weight[8] = { 1, 1, 1, 1, 1, 1, 1, 1 };
        layer_rows_open(&w, env, layers[k]);
        w.keep = true;
        must(layer_rows_gradient(&w, p, weight, logp, &err), &err);
        w.keep = false;
        const int64_t count = w.positions * w.width;
        float *moved = xcalloc((size_t)count, sizeof *moved);
        for (int64_t i = 0; i < count; i++) along += (double)direction(i) * (double)w.gradient[i];
        w.at = w.there;
        w.replacement = moved;
        for (int end = 0; end < 2; end++) {
            for (int64_t i = 0; i < count; i++)
                moved[i] = w.rows[i] + (float)((end ? eps : -eps) * (double)direction(i));
            ends[end] = logp_of(env, p, &w, 0);
        }
        const double slope = (ends[1] - ends[0]) / (2 * eps);
        if (!(fabs(slope - along) <= 2e-3 * fabs(slope) + 2e-3) || along == 0)
            fail_msg("layer %d: the gradient along a direction is %.9g, not %.9g", layers[k], along,
                     slope);
        free(moved);
        layer_rows_close(&w);
    }
}

// Rows from the cache have the bits of a pass over all rows, wherever the change begins.
static void cached_rows_change_no_bit(const struct probe_env *env, struct passing *p)
{
    const struct sequence *s = env->sequence;
    const int64_t from[] = { s->prompt - 1, s->prompt / 2, 1 };
    bool *at = xcalloc((size_t)s->n, sizeof *at);
    struct layer_rows w;
    layer_rows_open(&w, env, 0);
    float *zero = xcalloc((size_t)(w.positions * w.width), sizeof *zero);
    w.at = at, w.replacement = zero;
    for (int k = 0; k < 3; k++) {
        at[from[k]] = true;
        const double cached = logp_of(env, p, &w, from[k]), whole = logp_of(env, p, &w, 0);
        if (cached != whole) fail_msg("from row %d: %.17g, not %.17g", (int)from[k], cached, whole);
        at[from[k]] = false;
    }
    layer_rows_close(&w);
    free(zero);
    free(at);
}

// A hook that also notes the first layer that a pass runs.
struct noting {
    struct hook hook;
    int first;
};

static bool noting_wants(void *self, const struct site *site, int layer)
{
    struct noting *n = self;
    if (site == SITE_LAYER_IN && layer >= 0 && layer < n->first) n->first = layer;
    return n->hook.wants(n->hook.self, site, layer);
}

static int noting_run(void *self, struct graph *g, const struct site *site, struct site_args *args)
{
    const struct noting *n = self;
    return n->hook.run(n->hook.self, g, site, args);
}

// A pass that begins at a layer has the bits of one over all layers, and leaves out the layers
// before.
static void skip_layers(const struct probe_env *env, struct passing *p, int layer)
{
    const struct sequence *s = env->sequence;
    bool *at = xcalloc((size_t)s->n, sizeof *at);
    struct layer_rows w;
    layer_rows_open(&w, env, layer);
    struct noting noting = { .hook = layer_rows_hook(&w) };
    struct hook hook = noting.hook;
    hook.wants = noting_wants, hook.run = noting_run, hook.self = &noting;
    float *zero = xcalloc((size_t)(w.positions * w.width), sizeof *zero);
    w.replacement = zero;
    passes_keep(p);
    const double unchanged = logp_of(env, p, &w, s->prompt / 2);
    w.at = at;
    for (int64_t row = s->prompt - 1; row >= s->prompt / 2; row -= 4) {
        struct err err = { 0 };
        double logp[8], sum = 0;
        at[row] = true;
        noting.first = layer;
        must(passes_run_layers(p, &hook, row, layer - 1, logp, &err), &err);
        assert_int_equal(noting.first, layer - 1);
        for (int64_t t = 0; t < s->n - s->prompt; t++) sum += logp[t];
        const double whole = logp_of(env, p, &w, 0);
        if (sum != whole || sum == unchanged)
            fail_msg("from row %d: %.17g, not %.17g", (int)row, sum, whole);
    }
    layer_rows_close(&w);
    free(zero);
    free(at);
}

static void skipped_layers_change_no_bit(const struct probe_env *env, struct passing *p)
{
    for (int layer = 2; layer < env->model->decoder.config.layers; layer++)
        skip_layers(env, p, layer);
}

static struct engine *stopped;

// A stop by the user ends the measurement, although files that cannot replace the picture are
// skipped.
static void others_can_be_stopped(const struct probe_env *env, struct passing *p)
{
    struct err err = { 0 };
    bool *at = xcalloc((size_t)env->sequence->n, sizeof *at);
    struct attributing w = { .env = env, .at = at };
    char *folder = scratch_new();
    scratch_write(folder, "a.ppm", "P6 1 1 255\nabc", 14);
    for (int64_t i = 0; i < env->sequence->n; i++) at[i] = env->sequence->picture[i] == 0;
    must(attributing_open(&w, &err), &err);
    must(attribution_choose("attention", w.chosen, &err), &err);
    engine_cancel(stopped);
    assert_int_equal(attributing_others(&w, p, folder, &err), -1);
    engine_uncancel(stopped);
    assert_string_equal(err.text, "stopped");
    attributing_close(&w);
    scratch_remove(folder);
    free(at);
}

static void measurements_can_be_stopped(void **state)
{
    struct golden g;
    ask(&g, "llava-1.5", 2);
    stopped = g.engine;
    run_inside(&g, others_can_be_stopped);
    golden_close(&g);
}

static void passes_continue_from_the_cache(void **state)
{
    struct golden g;
    ask(&g, "llava-1.5", 2);
    run_inside(&g, cached_rows_change_no_bit);
    run_inside(&g, skipped_layers_change_no_bit);
    golden_close(&g);
    ask(&g, "qwen3-vl", 2); // DeepStack
    run_inside(&g, skipped_layers_change_no_bit);
    golden_close(&g);
}

static void gradients_pass_methods_and_adapters(void **state)
{
    struct golden g;
    struct err err = { 0 };
    ask(&g, "llava-1.5", 2);
    must(engine_set(g.engine, "adapter", "tests/goldens/llava-1.5/adapters/lora", &err), &err);
    must(engine_set(g.engine, "norm.align", "on", &err), &err);
    must(engine_set(g.engine, "prune.score", "uniform", &err), &err);
    must(engine_set(g.engine, "prune.layer", "1", &err), &err);
    must(engine_set(g.engine, "ffn.layers", "1-2", &err), &err);
    must(engine_set(g.engine, "ffn.approx", "skip", &err), &err);
    run_inside(&g, gradients_are_differences);
    golden_close(&g);
}

// --- identities ----------------------------------------------------------------------------------

static double kind_number(const struct results *r, const char *kind, const char *column)
{
    return *results_value(r, "attribute.kinds", kind, column);
}

// Integrated gradients sum to the difference from the baseline, more closely with more points. (In
// a mixture of experts, the log-probability jumps where a row changes its experts.)
static void integrated_sums_to_the_difference(struct golden *g, int layer, double most)
{
    struct results r = { 0 };
    struct probe_options o = probe_defaults;
    double gap[2];
    o.by = "integrated";
    o.layer = layer;
    if (!layer) o.words = "picture,question";
    for (int k = 0; k < 2; k++) {
        o.steps = k ? 33 : 3;
        run_probe(g, &probe_attribute, &o, &r);
        const double must_be = kind_number(&r, "integrated", "must be");
        gap[k] = fabs(kind_number(&r, "integrated", "sum") - must_be);
        bool noted = false; // a sum that is off by more than 5%
        for (size_t i = 0; i < r.note_count; i++) noted |= strstr(r.notes[i], "misses") != NULL;
        assert_true(noted == (gap[k] > 0.05 * fabs(must_be)));
        assert_true(fabs(must_be) > 1e-4);
        if (k) near(g, "the sum", gap[k], 0, most * fabs(must_be) + 1e-5);
        results_release(&r);
    }
    assert_true(gap[1] < gap[0] || most > 0.01);
}

// The reference's logit of the answer's first token.
static double golden_logit(const struct golden *g)
{
    return (double)golden_floats(g, "gen.logits")[g->answer.data[0]];
}

// The parts add up to the logit. The heads' contributions, summed by head or by position, add up to
// that of attention.
static void direct_parts_sum_to_the_logit(struct golden *g)
{
    struct results r = { 0 };
    struct probe_options o = probe_defaults;
    double parts = 0, heads = 0, attention = 0;
    o.by = "direct";
    o.words = "all";
    o.token = PROBE_TOKEN_NUMBER;
    run_probe(g, &probe_attribute, &o, &r);
    const struct result_table *t = results_find(&r, "attribute.direct");
    for (size_t l = 0; l < t->row_count; l++) {
        for (int k = 0; k < 3; k++) parts += t->rows[l].value[k];
        attention += t->rows[l].value[0];
    }
    parts += *results_value(&r, "attribute.logit", "embedding", "logit");
    for (size_t i = 0; i < r.map_count; i++)
        for (int k = 0;
             !strcmp(r.maps[i].name, "attribute.heads") && k < r.maps[i].rows * r.maps[i].cols; k++)
            heads += (double)r.maps[i].values[k];
    near(g, "the sum of the parts", parts, golden_logit(g), 1e-3);
    near(g, "the logit", *results_value(&r, "attribute.logit", "the answer", "logit"), parts, 1e-6);
    near(g, "the heads", heads, attention, 1e-4);
    near(g, "the positions", kind_number(&r, "direct", "sum"), heads, 1e-4);
    assert_true(fabs(heads) > 1e-3);
    results_release(&r);
}

// --- plain loops ---------------------------------------------------------------------------------

static struct attributing open_kinds(const struct probe_env *env, const char *kinds, bool *at)
{
    struct err err = { 0 };
    struct attributing w = { .env = env, .at = at };
    must(attributing_open(&w, &err), &err);
    must(attribution_choose(kinds, w.chosen, &err), &err);
    return w;
}

struct written {
    const struct probe_env *env;
    double *a; // [L,N,N] mean over heads
};

static bool written_wants(void *self, const struct site *site, int layer)
{
    return site == SITE_ATTN;
}

static int write_layer(void *self, struct graph *g, const struct site *site, struct site_args *args)
{
    const struct written *w = self;
    const int64_t heads = args->x->shape[0], n = args->x->shape[1];
    const float *x = args->x->data; // [H,N,N]: the CPU's memory
    for (int64_t k = 0; k < heads * n * n; k++)
        w->a[args->layer * n * n + k % (n * n)] += (double)x[k] / (double)heads;
    return 0;
}

static void attention_equals_loops(const struct probe_env *env, struct passing *p)
{
    const int64_t n = env->sequence->n, from = env->sequence->prompt - 1;
    const int layers = env->model->decoder.config.layers;
    struct written w = { env, xcalloc((size_t)(layers * n * n), sizeof(double)) };
    const struct hook hook = { .wants = written_wants, .run = write_layer, .self = &w };
    double logp[8], *r = xcalloc((size_t)n, sizeof *r), *next = xcalloc((size_t)n, sizeof *next);
    double *mean = xcalloc((size_t)n, sizeof *mean);
    bool *at = xcalloc((size_t)n, sizeof *at);
    struct err err = { 0 };
    must(passes_run(p, &hook, 0, logp, &err), &err);
    for (int64_t q = from; q < n - 1; q++) r[q] = 1 / (double)(n - 1 - from);
    for (int l = layers; l-- > 0;) {
        for (int64_t j = 0; j < n; j++) {
            next[j] = r[j] / 2;
            for (int64_t i = 0; i < n; i++) next[j] += r[i] / 2 * w.a[(l * n + i) * n + j];
            for (int64_t q = from; q < n - 1; q++)
                mean[j] += w.a[(l * n + q) * n + j] / (double)((n - 1 - from) * layers);
        }
        memcpy(r, next, (size_t)n * sizeof *r);
    }
    for (int64_t i = 0; i < n; i++) at[i] = true;
    struct attributing kinds = open_kinds(env, "attention,rollout", at);
    must(attributing_run(&kinds, p, &err), &err);
    for (int64_t i = 0; i < n; i++) {
        const double a = kinds.maps[ATTRIBUTION_attention].rows[i];
        const double b = kinds.maps[ATTRIBUTION_rollout].rows[i];
        if (!(fabs(a - mean[i]) <= 1e-6 && fabs(b - r[i]) <= 1e-6))
            fail_msg("row %d: attention %.9g, not %.9g; rollout %.9g, not %.9g", (int)i, a, mean[i],
                     b, r[i]);
    }
    attributing_close(&kinds);
    free(at);
    free(mean);
    free(next);
    free(r);
    free(w.a);
}

// A cell that is occluded after later ones gets the same number as in a separate pass; Grad-CAM
// equals its formula.
static void occlusion_and_gradcam_equal_loops(const struct probe_env *env, struct passing *p)
{
    const int64_t n = env->sequence->n, width = env->model->decoder.config.hidden;
    struct err err = { 0 };
    struct layer_rows w;
    bool *at = xcalloc((size_t)n, sizeof *at), *one = xcalloc((size_t)n, sizeof *one);
    int64_t first = 0, count = 0;
    double logp[8];
    const float weight[8] = { 1, 1, 1, 1, 1, 1, 1, 1 };
    while (env->sequence->picture[first] < 0) first++;
    for (int64_t i = first; i < n && env->sequence->picture[i] == 0; i++) at[i] = true, count++;
    struct attributing kinds = open_kinds(env, "occlusion,gradcam", at);
    must(attributing_run(&kinds, p, &err), &err);

    layer_rows_open(&w, env, 0);
    w.keep = true;
    const double whole = logp_of(env, p, &w, 0);
    float *mean = xcalloc((size_t)(n * width), sizeof *mean);
    for (int64_t k = 0; k < width; k++)
        for (int64_t i = first; i < first + count; i++)
            mean[(first + 2) * width + k] += w.rows[i * width + k] / (float)count;
    one[first + 2] = true;
    w.at = one, w.replacement = mean;
    const double loss = whole - logp_of(env, p, &w, 0);
    const double ours = kinds.maps[ATTRIBUTION_occlusion].rows[first + 2];
    if (!(fabs(ours - loss) <= 2e-5) || loss == 0)
        fail_msg("occlusion: %.9g, not %.9g", ours, loss);
    layer_rows_close(&w);

    layer_rows_open(&w, env, probe_middle(env->model));
    w.keep = true;
    must(layer_rows_gradient(&w, p, weight, logp, &err), &err);
    int above = 0;
    for (int64_t i = first; i < first + count; i++) {
        double sum = 0;
        for (int64_t k = 0; k < width; k++) {
            double a = 0;
            for (int64_t j = first; j < first + count; j++)
                a += (double)w.gradient[j * width + k] / (double)count;
            sum += a * (double)w.rows[i * width + k];
        }
        above += sum > 0;
        if (!(fabs(kinds.maps[ATTRIBUTION_gradcam].rows[i] - fmax(sum, 0)) <= 1e-6))
            fail_msg("Grad-CAM of row %d: %.9g, not %.9g", (int)i,
                     kinds.maps[ATTRIBUTION_gradcam].rows[i], fmax(sum, 0));
    }
    assert_true(above > 0);
    layer_rows_close(&w);
    attributing_close(&kinds);
    free(mean);
    free(one);
    free(at);
}

static void kinds_equal_identities_and_loops(void **state)
{
    static const char *const folders[] = { "llava-1.5", "gemma3", "qwen3-vl", "kimi-vl" };
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        struct golden g;
        ask(&g, folders[i], 2);
        run_inside(&g, gradients_are_differences);
        run_inside(&g, occlusion_and_gradcam_equal_loops);
        run_inside(&g, attention_equals_loops);
        integrated_sums_to_the_difference(&g, i == 1, i == 3 ? 0.02 : 5e-3);
        direct_parts_sum_to_the_logit(&g);
        golden_close(&g);
    }
}

// The residual stream at the row that predicts the answer's first token.
struct residual {
    int64_t row, width;
    float *before, *after; // [L,D] of attention
    float *last, *u;       // [D] h[L]; the direction of the token's logit
    int32_t token;
    const struct decoder *d;
};

static bool residual_wants(void *self, const struct site *site, int layer)
{
    return site == SITE_EMBED || site == SITE_LAYER_IN || site == SITE_FFN_IN || site == SITE_FINAL;
}

static int read_residual(void *self, struct graph *g, const struct site *site,
                         struct site_args *args)
{
    struct residual *r = self;
    if (site == SITE_EMBED) {
        struct tensor *u = op_embedding(g, graph_weight(&r->d->head), &r->token, 1);
        graph_download(g, r->u, op_scale_columns(g, u, op_widen(g, graph_weight(&r->d->norm))));
        return 0;
    }
    float *to = site == SITE_FINAL      ? r->last
                : site == SITE_LAYER_IN ? r->before + args->layer * r->width
                                        : r->after + args->layer * r->width;
    for (int64_t i = 0; i < args->x->shape[0]; i++)
        if (site_row(args, i) == r->row)
            memcpy(to, (float *)args->x->data + i * r->width, (size_t)r->width * sizeof *to);
    return 0;
}

// The output of attention is scaled by its own layer and by all later ones.
static void direct_equals_loops(const struct probe_env *env, struct passing *p)
{
    const struct sequence *s = env->sequence;
    const struct decoder_config *c = &env->model->decoder.config;
    const size_t D = (size_t)c->hidden, L = (size_t)c->layers;
    struct residual r = { s->prompt - 1,
                          c->hidden,
                          xcalloc(L * D, sizeof(float)),
                          xcalloc(L * D, sizeof(float)),
                          xcalloc(D, sizeof(float)),
                          xcalloc(D, sizeof(float)),
                          s->ids[s->prompt],
                          &env->model->decoder };
    const struct hook hook = { .wants = residual_wants, .run = read_residual, .self = &r };
    struct probe_options first = *env->options;
    struct probe_env of = *env;
    struct err err = { 0 };
    double logp[8];
    bool scaled = false;
    must(passes_run(p, &hook, 0, logp, &err), &err);
    first.token = PROBE_TOKEN_NUMBER;
    of.options = &first;
    bool *at = xcalloc((size_t)s->n, sizeof *at);
    struct attributing kinds = open_kinds(&of, "direct", at);
    must(attributing_run(&kinds, p, &err), &err);
    double scale = 1 / sqrt(rows_dot(r.last, r.last, c->hidden) / c->hidden + c->eps);
    const double logit = scale * rows_dot(r.u, r.last, c->hidden);
    if (!(fabs(kinds.direct.logit - logit) <= 1e-4))
        fail_msg("the logit is %.9g, not %.9g", kinds.direct.logit, logit);
    for (int l = c->layers; l-- > 0;) {
        scaled |= env->model->decoder.layer[l].scale != 1;
        scale *= (double)env->model->decoder.layer[l].scale;
        const double part = scale * (rows_dot(r.u, r.after + l * c->hidden, c->hidden) -
                                     rows_dot(r.u, r.before + l * c->hidden, c->hidden));
        if (!(fabs(kinds.direct.attention[l] - part) <= 1e-4) || part == 0)
            fail_msg("layer %d: attention contributes %.9g, not %.9g", l, kinds.direct.attention[l],
                     part);
        double heads = 0;
        for (int64_t h = 0; h < c->heads; h++) heads += kinds.direct.heads[l * c->heads + h];
        if (!(fabs(heads - part) <= 1e-4))
            fail_msg("layer %d: the heads contribute %.9g, not %.9g", l, heads, part);
    }
    assert_true(scaled);
    attributing_close(&kinds);
    free(at);
    free(r.before);
    free(r.after);
    free(r.last);
    free(r.u);
}

static void contributions_pass_scaled_layers(void **state)
{
    struct golden g;
    ask(&g, "gemma4", 2);
    run_inside(&g, direct_equals_loops);
    golden_close(&g);
}

// --- choices -------------------------------------------------------------------------------------

static void fails(struct golden *g, const struct probe_options *o, const char *why)
{
    struct err err = { 0 };
    struct results r = { 0 };
    struct measure_request request = { .probe = &probe_attribute, .options = *o };
    if (engine_measure(g->engine, &request, &r, &err) == 0 || !strstr(err.text, why))
        fail_msg("%s: '%s', not '%s'", o->by ? o->by : "-", err.text, why);
    results_release(&r);
}

static void bad_requests_are_refused(void **state)
{
    struct golden g;
    struct err err = { 0 };
    struct results r = { 0 };
    struct probe_options o = probe_defaults;
    ask(&g, "llava-1.5", 2);
    o.by = "gradient,saliency";
    fails(&g, &o, "not 'saliency'");
    o.by = "";
    fails(&g, &o, "--by is empty");
    o.by = NULL;
    o.others = "nowhere";
    fails(&g, &o, "no picture in 'nowhere'");
    o.words = "question";
    fails(&g, &o, "--others needs a visual token");
    o.words = o.others = NULL;
    must(engine_set(g.engine, "prune.score", "contribution", &err), &err);
    must(engine_set(g.engine, "prune.layer", "0", &err), &err);
    must(engine_set(g.engine, "prune.keep", "0.3", &err), &err);
    o.by = "integrated";
    fails(&g, &o, "pruning keeps different tokens");
    must(engine_set(g.engine, "prune.score", "uniform", &err), &err);
    o.by = "all";
    run_probe(&g, &probe_attribute, &o, &r);
    near(&g, "the sum", kind_number(&r, "integrated", "sum"),
         kind_number(&r, "integrated", "must be"), 2e-3);
    assert_int_equal(results_find(&r, "attribute.kinds")->row_count, ATTRIBUTION_COUNT);
    results_release(&r);
    golden_close(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kinds_equal_identities_and_loops),
        cmocka_unit_test(passes_continue_from_the_cache),
        cmocka_unit_test(measurements_can_be_stopped),
        cmocka_unit_test(gradients_pass_methods_and_adapters),
        cmocka_unit_test(contributions_pass_scaled_layers),
        cmocka_unit_test(bad_requests_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
