// tests/core/model/families/moonvit.c -- MoonViT as the encoder of LLaVA
// (core/model/families/llava.c, core/model/vision_moon.c): every visual token against loops in
// double (naive_moon.h) for pictures of several sizes, with random weights and with the encoder of
// the golden Kimi-VL; gradients; methods and maps on grids that depend on the picture; refused
// folders.
#include "core/graph/tape.h"
#include "core/model/families/family.h"
#include "core/ops/ops.h"
#include "tests/core/model/families/naive_moon.h"
#include "tests/core/probes/probe.h"

#define KIMI "tests/goldens/kimi-vl"

static const struct moon_shape shapes[] = {
    { 3, 32, 2, 48, 7, 2, 8, 8, KIMI "/model.safetensors" },
    { 3, 32, 2, 48, 7, 1, 8, 8, KIMI "/model.safetensors" }, // each feature is one visual token
    { 2, 24, 3, 20, 5, 3, 5, 7, NULL },
};

enum { SHAPES = sizeof shapes / sizeof *shapes };

struct fixture {
    struct golden g; // Kimi-VL's chats and tensors
    struct moon moon;
    char *folder;
};

static void open_shape(struct fixture *f, const struct moon_shape *s)
{
    struct err err = { 0 };
    moon_open(&f->moon, s);
    f->folder = scratch_new();
    moon_write(&f->moon, f->folder);
    golden_open(&f->g, "kimi-vl");
    must(engine_load(f->g.engine, f->folder, &err), &err);
}

static void close_shape(struct fixture *f)
{
    golden_close(&f->g);
    moon_close(&f->moon);
    scratch_remove(f->folder);
}

static void set(struct fixture *f, const char *key, const char *value)
{
    struct err err = { 0 };
    must(engine_set(f->g.engine, key, value, &err), &err);
}

// Answers a question about these pictures in 3 tokens; returns the opened dump.
static struct safetensors *ask_about(struct fixture *f, const char *const *pictures, int count,
                                     const char *taps)
{
    struct err err = { 0 };
    char path[96];
    struct message m = { .role = ROLE_USER };
    engine_clear(f->g.engine);
    for (int i = 0; i < count; i++) {
        snprintf(path, sizeof path, "tests/goldens/pictures/%s", pictures[i]);
        must(engine_attach(f->g.engine, path, &err), &err);
        message_add_picture(&m, i);
    }
    message_add_text(&m, "What is it?");
    must(engine_add_message(f->g.engine, &m, &err), &err);
    message_release(&m);
    set(f, "sample.max_tokens", "3");
    must(engine_dump(f->g.engine, taps, f->g.dump, &err), &err);
    must(engine_answer(f->g.engine, &err), &err);
    struct safetensors *dump = safetensors_open(f->g.dump, &err);
    if (!dump) fail_msg("%s", err.text);
    return dump;
}

static const struct safetensor *tensor_of(const struct safetensors *f, const char *what,
                                          int picture)
{
    char name[32];
    snprintf(name, sizeof name, "%s.%d", what, picture);
    const struct safetensor *t = safetensors_find(f, name);
    if (!t) fail_msg("no %s", name);
    return t;
}

// The rows and columns of a picture's patches.
static void grid_of(const struct fixture *f, int picture, int64_t *rows, int64_t *cols)
{
    const struct picture *p = &engine_conversation(f->g.engine)->pictures[picture];
    const struct moon_shape *s = &f->moon.s;
    // 48: "in_token_limit" of moon_write
    const double limit = 48, patches = (double)(p->image.width / s->patch) *
                                       (double)(p->image.height / s->patch);
    const double scale = patches > limit ? sqrt(limit / patches) : 1;
    const int side = s->patch * s->merge;
    *cols = (int64_t)ceil(floor((double)p->image.width * scale) / side) * s->merge;
    *rows = (int64_t)ceil(floor((double)p->image.height * scale) / side) * s->merge;
}

static void check_picture(struct fixture *f, const struct safetensors *dump, int picture)
{
    const struct safetensor *pixels = tensor_of(dump, "pixels", picture);
    const struct safetensor *visual = tensor_of(dump, "visual", picture);
    int64_t rows, cols;
    grid_of(f, picture, &rows, &cols);
    const int64_t count = rows * cols / f->moon.s.merge / f->moon.s.merge;
    assert_int_equal(pixels->shape[0], rows * cols);
    assert_int_equal(visual->shape[0], count);
    assert_int_equal(engine_conversation(f->g.engine)->pictures[picture].tokens, count);
    double *want = xcalloc((size_t)(count * MOON_OUT), sizeof *want);
    moon_visual(&f->moon, pixels->data, rows, cols, want);
    for (int64_t i = 0; i < count * MOON_OUT; i++) {
        const double got = (double)((const float *)visual->data)[i];
        if (!(fabs(got - want[i]) <= 2e-5 * (1 + fabs(want[i]))))
            fail_msg("picture %d, number %d is %.9g, not %.9g", picture, (int)i, got, want[i]);
    }
    free(want);
}

// Tests pairs of pictures whose token counts differ, in one prompt.
static void visual_tokens_equal_naive_loops(void **state)
{
    static const char *const pictures[] = { "scene.png", "tall.jpg", "tiny.png", "wide.png" };
    for (int i = 0; i < SHAPES; i++) {
        struct fixture f;
        open_shape(&f, &shapes[i]);
        for (int k = 0; k < 3; k++) {
            struct safetensors *dump = ask_about(&f, &pictures[k], 2, "ids pixels.* visual.*");
            int64_t placeholders = 0;
            const struct safetensor *ids = safetensors_find(dump, "ids");
            for (size_t n = 0; n < ids->bytes / 4; n++) // 567: "image_token_index"
                placeholders += ((const int32_t *)ids->data)[n] == 567;
            const struct picture *p = engine_conversation(f.g.engine)->pictures;
            assert_int_equal(placeholders, p[0].tokens + p[1].tokens);
            assert_true(p[0].tokens != p[1].tokens);
            check_picture(&f, dump, 0);
            check_picture(&f, dump, 1);
            safetensors_close(dump);
        }
        close_shape(&f);
    }
}

// With Kimi-VL's encoder, the tensors of the picture up to the projector equal Kimi-VL's goldens.
static void the_encoder_equals_kimi_vls(void **state)
{
    struct fixture f;
    open_shape(&f, &shapes[0]);
    struct safetensors *dump = answer(&f.g, chat_named(&f.g, "single"), 1, "pixels.* vision.*");
    compare_all(&f.g, dump, "pixels.0", "pix.scene");
    compare_all(&f.g, dump, "vision.0", "fwd.projector_in");
    for (int l = 0; l <= f.moon.s.layers; l++) {
        char ours[32], theirs[32];
        snprintf(ours, sizeof ours, "vision.layer.%d.0", l);
        snprintf(theirs, sizeof theirs, "fwd.vision.h%d", l);
        compare_all(&f.g, dump, ours, theirs);
    }
    safetensors_close(dump);
    close_shape(&f);
}

// --- gradients -----------------------------------------------------------------------------------

enum { CLASSES = 7, ROWS = 4, COLS = 6 };

// Mean cross entropy of the visual tokens after a fixed head; target i % CLASSES.
static double naive_loss(struct moon *m, const float *patches, const float *head)
{
    const int64_t n = ROWS * COLS / m->s.merge / m->s.merge;
    double *token = xcalloc((size_t)(n * MOON_OUT), sizeof *token), loss = 0;
    moon_visual(m, patches, ROWS, COLS, token);
    for (int64_t i = 0; i < n; i++) {
        double sum = 0, right = 0;
        for (int64_t c = 0; c < CLASSES; c++) {
            double dot = 0;
            for (int64_t k = 0; k < MOON_OUT; k++)
                dot += (double)head[c * MOON_OUT + k] * token[i * MOON_OUT + k];
            sum += exp(dot);
            if (c == i % CLASSES) right = dot;
        }
        loss += (log(sum) - right) / (double)n;
    }
    free(token);
    return loss;
}

static double tape_loss(const struct model *m, const float *patches, const float *head)
{
    const struct vision_config *v = &m->vision.config;
    const int64_t n = ROWS * COLS / v->merge / v->merge;
    struct arena step = { .backend = test_device() };
    struct tape tape = { .backend = test_device() };
    struct graph g = { .backend = test_device(), .arena = &step, .tape = &tape };
    const int64_t shape[] = { ROWS * COLS, 3 * v->patch * v->patch };
    struct vision_picture p = { .pixels = graph_upload(&g, DTYPE_F32, 2, shape, patches),
                                .tiles = 1,
                                .rows = ROWS,
                                .cols = COLS };
    struct tensor *x =
        projector_forward(&g, &m->projector, vision_forward(&g, &m->vision, &p, 1, NULL));
    struct tensor *w = graph_upload(&g, DTYPE_F32, 2, (int64_t[]){ CLASSES, MOON_OUT }, head);
    float weight[ROWS * COLS], each[ROWS * COLS];
    int32_t target[ROWS * COLS];
    double loss = 0;
    for (int64_t i = 0; i < n; i++) weight[i] = 1 / (float)n, target[i] = (int32_t)(i % CLASSES);
    if (op_cross_entropy(&g, x, w, 0, target, weight, each) < 0 || tape_backward(&g) < 0)
        fail_msg("%s", g.err.text);
    for (int64_t i = 0; i < n; i++) loss += (double)each[i] / (double)n;
    tape_release(&tape);
    arena_release(&step);
    return loss;
}

// Compares three elements of the weight's gradient with differences of the naive loss.
static void check_gradient(struct fixture *f, const struct weight *w, const float *patches,
                           const float *head)
{
    struct moon_tensor *t = moon_find(&f->moon, "%s", w->name);
    float *got = xreallocarray(NULL, (size_t)t->count, sizeof *got);
    backend_of(test_device(), w->tensor)
        ->download(got, w->tensor->grad->data, (size_t)t->count * sizeof *got);
    for (int k = 0; k < 3; k++) {
        const int64_t i =
            (int64_t)(random_bits(5, RANDOM_WEIGHTS, (uint64_t)k) % (uint64_t)t->count);
        const double step = 1e-5, was = t->data[i];
        t->data[i] = was + step;
        double slope = naive_loss(&f->moon, patches, head);
        t->data[i] = was - step;
        slope = (slope - naive_loss(&f->moon, patches, head)) / (2 * step);
        t->data[i] = was;
        if (!(fabs((double)got[i] - slope) <= 2e-5 + 2e-4 * fabs(slope)))
            fail_msg("gradient of %s: %.9g, not %.9g", w->name, (double)got[i], slope);
    }
    free(got);
}

static void gradients_equal_differences_of_naive_losses(void **state)
{
    static const struct moon_shape small = { 1, 16, 2, 20, 5, 2, 3, 5, NULL };
    struct fixture f;
    struct err err = { 0 };
    float patches[ROWS * COLS * 75], head[CLASSES * MOON_OUT];
    int checked = 0;
    for (int i = 0; i < ROWS * COLS * 75; i++)
        patches[i] = (float)random_unit(3, RANDOM_WEIGHTS, (uint64_t)i) - 0.5F;
    for (int i = 0; i < CLASSES * MOON_OUT; i++)
        head[i] = (float)random_unit(4, RANDOM_WEIGHTS, (uint64_t)i) - 0.5F;
    open_shape(&f, &small);
    struct model *m = model_load(f.folder, test_device(), NULL, &err);
    if (!m) fail_msg("%s", err.text);
    for (size_t i = 0; i < m->weights.count; i++) {
        struct weight *w = &m->weights.list[i];
        if (w->part != PART_VISION && w->part != PART_PROJECTOR) continue;
        w->tensor->grad = grad_new(backend_of(test_device(), w->tensor), tensor_count(w->tensor));
    }
    const double loss = tape_loss(m, patches, head);
    assert_true(fabs(loss - naive_loss(&f.moon, patches, head)) < 1e-5);
    for (size_t i = 0; i < m->weights.count; i++) {
        const struct weight *w = &m->weights.list[i];
        if (!w->tensor->grad) continue;
        check_gradient(&f, w, patches, head);
        grad_free(backend_of(test_device(), w->tensor), w->tensor->grad);
        checked++;
    }
    assert_int_equal(checked, f.moon.count);
    model_free(m);
    close_shape(&f);
}

// --- methods and probes --------------------------------------------------------------------------

static void methods_follow_the_size_of_the_picture(void **state)
{
    static const char *const pictures[] = { "tall.jpg", "wide.png" };
    struct fixture f;
    open_shape(&f, &shapes[0]);
    set(&f, "norm.align", "on");
    set(&f, "prune.score", "contribution");
    set(&f, "prune.layer", "1");
    set(&f, "prune.keep", "0.5");
    struct safetensors *dump = ask_about(&f, pictures, 2, "visual* kept positions rows.*");
    const struct picture *p = engine_conversation(f.g.engine)->pictures;
    const struct safetensor *kept = safetensors_find(dump, "kept");
    const struct safetensor *rows = safetensors_find(dump, "rows.2");
    const int64_t all = p[0].tokens + p[1].tokens, keep = (int64_t)rint(0.5 * (double)all);
    assert_int_equal(kept->bytes / 4, keep);
    assert_int_equal(rows->bytes / 4,
                     (int64_t)(safetensors_find(dump, "positions")->bytes / 4) - all + keep);
    double first = 0;
    for (int i = 0; i < 2; i++) { // with norm alignment all visual tokens have the same norm
        const struct safetensor *t = tensor_of(dump, "visual_aligned", i);
        assert_int_equal(t->shape[0], p[i].tokens);
        for (int64_t r = 0; r < t->shape[0]; r++) {
            double squares = 0;
            for (int64_t k = 0; k < MOON_OUT; k++)
                squares += pow((double)((const float *)t->data)[r * MOON_OUT + k], 2);
            if (first == 0) first = squares;
            assert_true(fabs(squares / first - 1) < 1e-3);
        }
    }
    safetensors_close(dump);
    close_shape(&f);
}

// Each picture has a map with a cell for each visual token.
static void maps_have_the_grid_of_the_picture(void **state)
{
    static const char *const pictures[] = { "tall.jpg", "wide.png" };
    struct fixture f;
    struct results r = { 0 };
    open_shape(&f, &shapes[0]);
    safetensors_close(ask_about(&f, pictures, 2, "ids"));
    run_probe(&f.g, &probe_attention, NULL, &r);
    assert_int_equal(r.map_count, 2);
    for (int i = 0; i < 2; i++) {
        int64_t rows, cols;
        grid_of(&f, i, &rows, &cols);
        assert_int_equal(r.maps[i].rows, rows / 2);
        assert_int_equal(r.maps[i].cols, cols / 2);
    }
    assert_true(r.maps[0].rows > r.maps[0].cols && r.maps[1].rows < r.maps[1].cols);
    results_release(&r);
    close_shape(&f);
}

// --- refused -------------------------------------------------------------------------------------

static void other_layouts_are_refused(void **state)
{
    static const struct {
        const char *fields, *why;
    } cases[] = {
        { "\"vision_feature_layer\": -2", "\"vision_feature_layer\" -1" },
        { "\"vision_feature_select_strategy\": \"default\"", "\"full\"" },
        { "\"architectures\": [\"LlavaNextForConditionalGeneration\"]",
          "the llava family supports" },
        { "\"architectures\": [\"LlavaOnevisionForConditionalGeneration\"]", "any size" },
    };
    struct fixture f;
    struct err err;
    open_shape(&f, &shapes[0]);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        moon_config(&f.moon, f.folder, cases[i].fields);
        assert_null(model_load(f.folder, test_device(), NULL, &err));
        if (!strstr(err.text, cases[i].why)) fail_msg("%s: %s", cases[i].fields, err.text);
    }
    moon_config(&f.moon, f.folder, NULL);
    scratch_text(f.folder, "preprocessor_config.json", "{\"patch_size\": 14}");
    assert_null(model_load(f.folder, test_device(), NULL, &err));
    assert_non_null(strstr(err.text, "preprocessor_config.json: \"patch_size\" is 14"));
    close_shape(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(visual_tokens_equal_naive_loops),
        cmocka_unit_test(the_encoder_equals_kimi_vls),
        cmocka_unit_test(gradients_equal_differences_of_naive_losses),
        cmocka_unit_test(methods_follow_the_size_of_the_picture),
        cmocka_unit_test(maps_have_the_grid_of_the_picture),
        cmocka_unit_test(other_layouts_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
