// tests/core/methods/prune_rows.c -- pruning without a query (core/methods/prune.c): the encoder's
// attention (core/model/vision_focus.c) against loops in float64, IRA's divergence against its
// formula, pruning before the first layer; scores and layers switched in conversations.
#include <sys/stat.h>

#include "core/methods/ira.h"
#include "core/methods/prune_score.h"
#include "core/model/families/family.h"
#include "core/model/visual.h"
#include "kernels/blocks.h"
#include "tests/core/methods/fresh.h"
#include "tests/core/scratch.h"

#define PICTURE "tests/goldens/pictures/scene.png"

static void set(struct golden *g, const char *key, const char *value)
{
    struct err err = { 0 };
    must(engine_set(g->engine, key, value, &err), &err);
}

static const char *refused(struct golden *g, const char *key, const char *value)
{
    static struct err err;
    assert_int_equal(engine_set(g->engine, key, value, &err), -1);
    return err.text;
}

// --- the encoder's attention in float64 ----------------------------------------------------------

static double weight(const struct tensor *t, int64_t i)
{
    if (t->dtype == DTYPE_F32) return (double)((const float *)t->data)[i];
    if (t->dtype == DTYPE_F16) return (double)half_to_float(((const uint16_t *)t->data)[i]);
    assert_int_equal(t->dtype, DTYPE_BF16);
    const uint32_t bits = (uint32_t)((const uint16_t *)t->data)[i] << 16;
    float x;
    memcpy(&x, &bits, sizeof x);
    return (double)x;
}

// norm1 of row x.
static void normed(const struct vision *v, const struct vision_layer *w, const float *x, double *y)
{
    const int64_t D = v->config.hidden;
    const bool centred = w->norm1.bias.data;
    double mean = 0, square = 0;
    for (int64_t i = 0; i < D && centred; i++) mean += (double)x[i] / (double)D;
    for (int64_t i = 0; i < D; i++)
        square += ((double)x[i] - mean) * ((double)x[i] - mean) / (double)D;
    for (int64_t i = 0; i < D; i++) {
        y[i] = ((double)x[i] - mean) / sqrt(square + v->config.eps) * weight(&w->norm1.gain, i);
        if (centred) y[i] += weight(&w->norm1.bias, i);
    }
}

// y[D] = rows from..from+D-1 of the matrix times x, plus the bias.
static void times(const struct linear *l, int64_t from, int64_t D, const double *x, double *y)
{
    for (int64_t i = 0; i < D; i++) {
        y[i] = l->bias.data ? weight(&l->bias, from + i) : 0;
        for (int64_t j = 0; j < D; j++) y[i] += weight(&l->weight, (from + i) * D + j) * x[j];
    }
}

// Rotates the pairs of dimensions of each head.
static void turn(const struct vision_config *c, const float *cos, const float *sin, double *x)
{
    const int64_t d = c->hidden / c->heads;
    for (int64_t h = 0; h < c->heads; h++)
        for (int64_t j = 0; j < d / 2; j++) {
            double *a = x + h * d + (c->kind->adjacent_pairs ? 2 * j : j);
            double *b = a + (c->kind->adjacent_pairs ? 1 : d / 2);
            const double p = *a, q = *b, co = (double)cos[j], si = (double)sin[j];
            *a = p * co - q * si;
            *b = q * co + p * si;
        }
}

// Adds to `sum` the mean over heads of row i's probabilities over rows first..last-1.
static void add_row(const struct vision_config *c, const double *q, const double *k, int64_t i,
                    int64_t first, int64_t last, double *sum)
{
    const int64_t D = c->hidden, d = D / c->heads;
    double *p = xcalloc((size_t)last + 1, sizeof *p);
    for (int64_t h = 0; h < c->heads; h++) {
        double all = 0;
        for (int64_t j = first; j < last; j++) {
            double dot = 0;
            for (int64_t n = h * d; n < (h + 1) * d; n++) dot += q[i * D + n] * k[j * D + n];
            all += p[j] = exp(dot / sqrt((double)d));
        }
        for (int64_t j = first; j < last; j++) sum[j] += p[j] / all / (double)c->heads;
    }
    free(p);
}

// Returns the attention that each row of x [rows, Dv] receives in the last block in use, whose
// input is x: from the class token, or else the mean over the rows of its tile.
static double *received(const struct vision *v, const struct vision_picture *p, const float *x)
{
    const struct vision_config *c = &v->config;
    const int64_t D = c->hidden, tile = p->rows * p->cols + c->class_token, n = p->tiles * tile;
    const int l = vision_depth(c) - 1;
    const struct vision_layer *w = &v->layer[l];
    const int64_t at[] = { 0, n };
    const struct vision_batch b = { v, p, 1, n, at };
    double *q = xcalloc((size_t)(n * D), sizeof *q), *k = xcalloc((size_t)(n * D), sizeof *k);
    double *row = xcalloc((size_t)D, sizeof *row), *sum = xcalloc((size_t)n, sizeof *sum);
    float *cos = xcalloc((size_t)(n * D), sizeof *cos),
          *sin = xcalloc((size_t)(n * D), sizeof *sin);
    int32_t *first = xcalloc((size_t)n, sizeof *first), *last = xcalloc((size_t)n, sizeof *last);
    const bool windowed = c->kind->windowed && c->kind->windowed(c, l);
    if (c->kind->angles) c->kind->angles(&b, cos, sin);
    if (windowed) c->kind->windows(&b, first, last);
    for (int64_t i = 0; i < n; i++) {
        normed(v, w, x + i * D, row);
        const bool joined = w->qkv.weight.data;
        times(joined ? &w->qkv : &w->q, 0, D, row, q + i * D);
        times(joined ? &w->qkv : &w->k, joined ? D : 0, D, row, k + i * D);
        const int64_t half = D / c->heads / 2;
        if (c->kind->angles) turn(c, cos + i * half, sin + i * half, q + i * D);
        if (c->kind->angles) turn(c, cos + i * half, sin + i * half, k + i * D);
        if (!windowed) first[i] = (int32_t)(i / tile * tile), last[i] = (int32_t)(first[i] + tile);
    }
    for (int64_t i = 0; i < n; i++)
        if (!c->class_token || i % tile == 0) add_row(c, q, k, i, first[i], last[i], sum);
    for (int64_t i = 0; i < n && !c->class_token; i++) sum[i] /= (double)tile;
    void *all[] = { q, k, row, cos, sin, first, last };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]);
    return sum;
}

// Position of a cell in the stream. Windows of cells follow each other row by row, and so do the
// cells of each window.
static int64_t windowed_cell(const struct vision_config *c, int64_t rows, int64_t cols, int64_t row,
                             int64_t col)
{
    int64_t before = 0;
    for (int64_t r = 0; r < rows; r++)
        for (int64_t k = 0; k < cols; k++) {
            const int64_t a[] = { r / c->window, k / c->window, r, k };
            const int64_t b[] = { row / c->window, col / c->window, row, col };
            int n = 0;
            while (n < 3 && a[n] == b[n]) n++;
            before += a[n] < b[n];
        }
    return before;
}

// The sum over the patches of visual token (tile, row, col).
static double token_sum(const struct vision_config *c, const struct vision_picture *p,
                        const double *sum, int64_t tile, int64_t row, int64_t col)
{
    const int64_t k = c->merge > 1 ? c->merge : 1, rows = p->rows / k, cols = p->cols / k;
    const bool lines = c->image_size || c->kind->row_by_row;
    double total = 0;
    for (int64_t i = 0; i < k * k; i++) {
        int64_t at = (row * k + i / k) * p->cols + col * k + i % k;
        if (!lines)
            at =
                (c->window ? windowed_cell(c, rows, cols, row, col) : row * cols + col) * k * k + i;
        total += sum[tile * (p->rows * p->cols + c->class_token) + c->class_token + at];
    }
    return total;
}

static void check_tokens(const char *model, const struct model *m, const struct picture *picture,
                         const struct vision_picture *p, const float *x)
{
    const struct vision_config *c = &m->vision.config;
    const int64_t k = c->merge > 1 ? c->merge : 1, rows = p->rows / k, cols = p->cols / k;
    double *sum = received(&m->vision, p, x);
    // Of packed tiles, the first is the whole picture, whose tokens come first.
    const int64_t tiles = m->family->pictures->pack ? 1 : p->tiles;
    if (!m->family->pictures->pack) assert_int_equal(picture->tokens, tiles * rows * cols);
    for (int64_t i = 0; i < tiles * rows * cols; i++) {
        const double want =
            token_sum(c, p, sum, i / (rows * cols), i % (rows * cols) / cols, i % cols);
        const double got = (double)picture->focus[i];
        if (!(fabs(want - got) <= 2e-6 + 1e-5 * want))
            fail_msg("%s: token %d has %g, not %g", model, (int)i, got, want);
    }
    for (int64_t i = 0; i < picture->tokens; i++) {
        const int64_t behind = i - picture->newline;
        const bool newline =
            picture->newline_step && behind >= 0 && behind % picture->newline_step == 0;
        assert_int_equal(newline, picture->focus[i] < 0);
    }
    free(sum);
}

static void focus_equals_loops(void **state)
{
    static const char *const models[] = { GOLDEN_SEEING, "llava-next", "smolvlm" };
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        struct golden g;
        char name[32];
        golden_open(&g, models[i]);
        const struct model *m = engine_model(g.engine);
        set(&g, "prune.score", "cls");
        set(&g, "prune.layer", "1");
        struct safetensors *f = answer(&g, chat_named(&g, "single"), 1, "*");
        snprintf(name, sizeof name, "vision.layer.%d.0", vision_depth(&m->vision.config) - 1);
        const struct picture *picture = &engine_conversation(g.engine)->pictures[0];
        const struct safetensor *x = safetensors_find(f, name);
        assert_non_null(x);
        assert_non_null(picture->focus);
        struct arena arena = { .backend = test_device() };
        struct graph graph = { .backend = test_device(),
                               .arena = &arena,
                               .settings = engine_settings(g.engine) };
        const struct vision_picture p = m->family->pictures->read(&graph, m, picture);
        assert_true(graph_ok(&graph));
        check_tokens(models[i], m, picture, &p, x->data);
        arena_release(&arena);
        safetensors_close(f);
        golden_close(&g);
    }
}

static bool wants_focus(void *self, const struct site *site, int layer)
{
    (void)self, (void)layer;
    return site == SITE_FOCUS;
}

// Reading the encoder's attention changes no bit of the visual tokens, here with bf16 products.
static void focus_changes_no_token(void **state)
{
    static const char *const models[] = { GOLDEN_SEEING, "llava-next", "smolvlm" };
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        struct golden g;
        golden_open(&g, models[i]);
        safetensors_close(answer(&g, chat_named(&g, "single"), 1, "ids"));
        const struct picture *picture = &engine_conversation(g.engine)->pictures[0];
        struct arena arena = { .backend = test_device() };
        struct graph graph = { .backend = test_device(),
                               .arena = &arena,
                               .settings = engine_settings(g.engine),
                               .matmul = MATMUL_BF16 };
        const struct hooks hooks = { .list = { { .wants = wants_focus } }, .count = 1 };
        float *focus = NULL;
        const struct model *m = engine_model(g.engine);
        const struct tensor *plain = visual_encode(&graph, m, picture, 0, NULL);
        graph.hooks = &hooks;
        const struct tensor *seen = visual_encode(&graph, m, picture, 0, &focus);
        if (!plain || !seen) fail_msg("%s: %s", models[i], graph.err.text);
        assert_non_null(focus);
        assert_int_equal(tensor_bytes(plain), tensor_bytes(seen));
        float *a = xmalloc(tensor_bytes(plain)), *b = xmalloc(tensor_bytes(seen));
        graph_download(&graph, a, plain);
        graph_download(&graph, b, seen);
        if (memcmp(a, b, tensor_bytes(plain)) != 0) fail_msg("%s: bits differ", models[i]);
        free(a);
        free(b);
        arena_release(&arena);
        golden_close(&g);
    }
}

// --- kept tokens ---------------------------------------------------------------------------------

// Checks that `kept` are the k best of these scores, and that layer `layer` has no rows of other
// visual tokens.
static void check_kept(const struct safetensors *f, const float *score, int64_t visual,
                       double share, int layer)
{
    char name[24];
    const struct safetensor *kept = safetensors_find(f, "kept");
    const int64_t k = prune_count(share, visual);
    assert_non_null(kept);
    assert_int_equal(kept->shape[0], k);
    bool *in = xcalloc((size_t)visual + 1, sizeof *in);
    float least = INFINITY, most = -INFINITY;
    for (int64_t i = 0; i < k; i++) in[((const int32_t *)kept->data)[i]] = true;
    for (int64_t i = 0; i < visual; i++) {
        if (in[i])
            least = fminf(least, score[i]);
        else
            most = fmaxf(most, score[i]);
    }
    assert_true(least >= most);
    snprintf(name, sizeof name, "rows.%d", layer);
    const int64_t all = safetensors_find(f, "ids")->shape[0];
    assert_int_equal(safetensors_find(f, name)->shape[0], all - visual + k);
    free(in);
}

static void cls_keeps_the_most_attended(void **state)
{
    static const char *const places[] = { "1", "input" };
    for (int i = 0; i < 2; i++) {
        struct golden g;
        golden_open(&g, "llava-1.5");
        set(&g, "prune.layer", places[i]);
        set(&g, "prune.score", "cls");
        struct safetensors *f = answer(&g, chat_named(&g, "single"), 4, "*");
        const struct picture *p = &engine_conversation(g.engine)->pictures[0];
        check_kept(f, p->focus, p->tokens, 0.25, i ? 0 : 2);
        safetensors_close(f);
        golden_close(&g);
    }
}

// The mean over heads of SITE_KL's divergence, computed from the parameters and values: KL of N(v +
// delta, s I) from N(v, diag(p)) is 1/2 sum of ((s + delta^2) / p - 1 + log(p / s)).
static float *divergences(const struct golden *g, const struct safetensors *f, int layer,
                          const char *folder, int64_t *visual)
{
    char name[64], path[320];
    struct err err = { 0 };
    snprintf(path, sizeof path, "%s/extra.safetensors", folder);
    struct safetensors *extra = safetensors_open(path, &err);
    if (!extra) fail_msg("%s", err.text);
    const float *of[3];
    static const char *const params[] = { "head.weight", "head.bias", "prior.weight" };
    for (int i = 0; i < 3; i++) {
        snprintf(name, sizeof name, "ira.%d.%s", layer, params[i]);
        const struct safetensor *t = safetensors_find(extra, name);
        assert_non_null(t);
        of[i] = t->data;
    }
    // The values before IRA equal those of a run without it.
    snprintf(name, sizeof name, "attn.%d.value", layer);
    const struct safetensor *v = safetensors_find(f, name); // [Hkv,N,d]
    const int32_t *ids = safetensors_find(f, "ids")->data;
    const int64_t heads = v->shape[0], n = v->shape[1], d = v->shape[2];
    float *mean = xcalloc((size_t)n, sizeof *mean);
    *visual = 0;
    for (int64_t i = 0; i < n; i++) {
        if (ids[i] != engine_model(g->engine)->placeholder) continue;
        double total = 0;
        for (int64_t h = 0; h < heads; h++) {
            const float *x = (const float *)v->data + (h * n + i) * d;
            double delta[256], log_q = (double)of[1][d];
            for (int64_t j = 0; j <= d; j++) {
                double y = (double)of[1][j];
                for (int64_t c = 0; c < d; c++) y += (double)of[0][j * d + c] * (double)x[c];
                if (j < d)
                    delta[j] = y;
                else
                    log_q = y;
            }
            for (int64_t j = 0; j < d; j++) {
                const double log_p = (double)of[2][h * d + j];
                total +=
                    0.5 * ((exp(log_q) + delta[j] * delta[j]) / exp(log_p) - 1 + log_p - log_q);
            }
        }
        mean[(*visual)++] = (float)(total / (double)heads);
    }
    safetensors_close(extra);
    return mean;
}

static void divergence_equals_that_of_ira(void **state)
{
    struct golden g;
    char folder[256];
    const char *base = getenv("TMPDIR");
    int64_t visual;
    snprintf(folder, sizeof folder, "%s/vlmsh-prune-rows-%d", base ? base : "/tmp", (int)getpid());
    golden_open(&g, "llava-1.5");
    mkdir(folder, 0700);
    write_ira(&g, folder);
    set(&g, "adapter", folder);
    set(&g, "ira.layers", "2-3");
    struct safetensors *plain = answer(&g, chat_named(&g, "single"), 1, "*");
    float *want = divergences(&g, plain, 2, folder, &visual);
    set(&g, "ira.on", "on");
    set(&g, "prune.layer", "2");
    set(&g, "prune.score", "divergence");
    struct safetensors *f = answer(&g, chat_named(&g, "single"), 3, "*");
    const struct safetensor *score = safetensors_find(f, "score.2");
    assert_non_null(score);
    assert_int_equal(score->shape[0], visual);
    for (int64_t i = 0; i < visual; i++) {
        const float got = ((const float *)score->data)[i];
        if (!(fabsf(got - want[i]) <= 1e-4f * (1 + fabsf(want[i]))))
            fail_msg("token %d diverges by %g, not %g", (int)i, (double)got, (double)want[i]);
    }
    check_kept(f, want, visual, 0.25, 3);
    safetensors_close(f);
    // Without IRA no divergence is reported and no token is dropped.
    set(&g, "ira.on", "off");
    f = answer(&g, chat_named(&g, "single"), 1, "*");
    assert_null(safetensors_find(f, "kept"));
    assert_int_equal(safetensors_find(f, "rows.3")->shape[0], safetensors_find(f, "ids")->shape[0]);
    safetensors_close(f);
    safetensors_close(plain);
    free(want);
    golden_close(&g);
    char path[320];
    snprintf(path, sizeof path, "%s/extra.safetensors", folder);
    unlink(path);
    rmdir(folder);
}

// --- a class token among the visual tokens -------------------------------------------------------

// Loads the golden LLaVA with the feature strategy "full".
static void load_with_class(struct golden *g)
{
    static const char from[] = "tests/goldens/llava-1.5";
    static const char *const files[] = { "tokenizer.json", "tokenizer_config.json",
                                         "chat_template.json", "preprocessor_config.json",
                                         "model.safetensors" };
    struct err err = { 0 };
    char *folder = scratch_new();
    scratch_config(folder, from, "\"vision_feature_select_strategy\": \"full\"");
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) scratch_copy(folder, from, files[i]);
    must(engine_load(g->engine, folder, &err), &err);
    scratch_remove(folder);
}

// Score `cls` keeps the class token before any other, even if image.downsample makes the picture
// smaller.
static void a_class_token_is_row_zero(void **state)
{
    static const char *const shares[] = { "1", "0.4" };
    struct golden g;
    golden_open(&g, "llava-1.5");
    load_with_class(&g);
    set(&g, "prune.score", "cls");
    set(&g, "prune.layer", "1");
    set(&g, "prune.keep", "0.1");
    for (int i = 0; i < 2; i++) {
        set(&g, "image.downsample", shares[i]);
        struct safetensors *f = answer(&g, chat_named(&g, "single"), 1, "score.* kept");
        const struct picture *picture = &engine_conversation(g.engine)->pictures[0];
        assert_int_equal(picture->tokens, i ? 1 + 3 * 3 : 1 + 5 * 5);
        for (int64_t k = 0; k < picture->tokens; k++) {
            assert_true(isfinite(picture->focus[k]));
            assert_true(k == 0 || picture->focus[k] < picture->focus[0]);
        }
        const struct safetensor *kept = safetensors_find(f, "kept");
        assert_int_equal(((const int32_t *)kept->data)[0], 0);
        safetensors_close(f);
    }
    golden_close(&g);
}

// --- before the first layer ----------------------------------------------------------------------

// With pruning at the input, layer 0 reads h[0] of the kept rows, and all layers have only these
// rows, with their positions.
static void pruning_at_the_input_shortens_it(void **state)
{
    static const char *const scores[] = { "uniform", "random", "diversity", "cls" };
    static const char *const models[] = { GOLDEN_SEEING };
    for (size_t m = 0; m < sizeof models / sizeof *models; m++)
        for (size_t k = 0; k < sizeof scores / sizeof *scores; k++) {
            struct golden g;
            char name[24];
            golden_open(&g, models[m]);
            set(&g, "prune.layer", "input");
            set(&g, "prune.score", scores[k]);
            struct safetensors *f = answer(&g, chat_named(&g, "single"), 3, "*");
            const struct safetensor *whole = safetensors_find(f, "embed");
            const struct safetensor *in = safetensors_find(f, "layer.0.in");
            const int32_t *rows = safetensors_find(f, "rows.0")->data;
            const bool scored = !strcmp(scores[k], "random") || !strcmp(scores[k], "cls");
            assert_int_equal(safetensors_find(f, "score.input") != NULL, scored);
            assert_non_null(safetensors_find(f, "kept.input"));
            const int64_t n = safetensors_find(f, "rows.0")->shape[0], D = whole->shape[1];
            assert_int_equal(in->shape[0], n);
            for (int64_t i = 0; i < n; i++)
                assert_memory_equal((const float *)in->data + i * D,
                                    (const float *)whole->data + rows[i] * D, (size_t)D * 4);
            for (int l = 1; l < golden_layers(&g); l++) {
                snprintf(name, sizeof name, "rows.%d", l);
                assert_memory_equal(safetensors_find(f, name)->data, rows, (size_t)n * 4);
            }
            const struct kv *kv = &engine_conversation(g.engine)->kv;
            for (int l = 0; l < kv->layers; l++)
                assert_memory_equal(kv->layer[l].position, rows, (size_t)n * 4);
            assert_int_equal(kv->layer[0].rows, n + 2); // n rows and two generated tokens
            safetensors_close(f);
            golden_close(&g);
        }
}

// --- live ----------------------------------------------------------------------------------------

static void changes_of_settings_equal_fresh_runs(void **state)
{
    static const struct {
        const char *layer, *score, *keep;
    } turns[] = { { "auto", "off", "0.25" },     { "input", "cls", "0.25" },
                  { "input", "cls", "0.6" },     { "1", "cls", "0.6" },
                  { "1", "attention", "0.6" },   { "1", "cls", "0.25" },
                  { "input", "uniform", "0.5" }, { "input", "diversity", "0.5" },
                  { "input", "off", "0.5" },     { "input", "cls", "1" },
                  { "2", "cls", "0.3" },         { "2", "off", "0.3" } };
    static const char *const models[] = { "llava-1.5", "qwen2.5-vl", "internvl3",
                                          "llava-onevision" };
    for (size_t m = 0; m < sizeof models / sizeof *models; m++) {
        struct golden g;
        struct err err = { 0 };
        golden_open(&g, models[m]);
        set(&g, "sample.max_tokens", "4");
        for (size_t i = 0; i < sizeof turns / sizeof *turns; i++) {
            set(&g, "prune.score", "off");
            set(&g, "prune.layer", turns[i].layer);
            set(&g, "prune.keep", turns[i].keep);
            set(&g, "prune.score", turns[i].score);
            if (i % 5 == 0) must(engine_attach(g.engine, PICTURE, &err), &err);
            must(engine_ask(g.engine, "what is this?", &err), &err);
            equals_a_fresh_run(&g);
        }
        golden_close(&g);
    }
}

static void impossible_settings_are_refused(void **state)
{
    struct golden g;
    golden_open(&g, "llava-1.5");
    set(&g, "prune.layer", "input");
    assert_non_null(strstr(refused(&g, "prune.score", "contribution"), "measured in a layer"));
    assert_non_null(strstr(refused(&g, "prune.score", "divergence"), "measured in a layer"));
    set(&g, "prune.score", "random");
    assert_non_null(strstr(refused(&g, "prune.mode", "dynamic"), "cannot be input"));
    set(&g, "prune.layer", "1");
    set(&g, "prune.score", "cls");
    assert_non_null(strstr(refused(&g, "prune.mode", "dynamic"), "no dynamic mode"));
    golden_close(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(focus_equals_loops),
        cmocka_unit_test(focus_changes_no_token),
        cmocka_unit_test(cls_keeps_the_most_attended),
        cmocka_unit_test(divergence_equals_that_of_ira),
        cmocka_unit_test(a_class_token_is_row_zero),
        cmocka_unit_test(pruning_at_the_input_shortens_it),
        cmocka_unit_test(changes_of_settings_equal_fresh_runs),
        cmocka_unit_test(impossible_settings_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
