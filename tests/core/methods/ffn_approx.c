// tests/core/methods/ffn_approx.c -- core/methods/ffn_approx.c against the reference's hidden
// states and logits; text rows do not change; alpha 1 equals skipping; replaced and invalid
// calibration files.
#include "tests/core/methods/fresh.h"
#include "tests/core/model/families/golden.h"

static const char *const models[] = { GOLDEN_SEEING };
enum { LAYERS = 4, LAYERS_MOST = 8 }; // layers of a written file: usually, at most

static void set(struct golden *g, const char *key, const char *value)
{
    struct err err = { 0 };
    must(engine_set(g->engine, key, value, &err), &err);
}

static const char *refused(struct golden *g, const char *key, const char *value)
{
    static struct err err;
    char *before = strdup(settings_text(engine_settings(g->engine), key));
    assert_int_equal(engine_set(g->engine, key, value, &err), -1);
    assert_string_equal(settings_text(engine_settings(g->engine), key), before);
    free(before);
    return err.text;
}

struct file {
    const char *path;
    const char *model; // model name in the metadata; NULL: none
    float alpha, redundancy[LAYERS_MOST];
    const float *given; // [2,D] alpha of layers first, first + 1; NULL: all elements are `alpha`
    int first, layers;  // first layer of `given`; layers in the file, 0: LAYERS
    int64_t width;
};

static void write_file(const struct file *w)
{
    struct err err = { 0 };
    const int64_t layers = w->layers ? w->layers : LAYERS, shape[] = { layers, w->width };
    float *alpha = malloc((size_t)(layers * w->width) * sizeof *alpha);
    for (int64_t i = 0; i < layers * w->width; i++) alpha[i] = w->alpha;
    if (w->given)
        memcpy(alpha + w->first * w->width, w->given, 2 * (size_t)w->width * sizeof *alpha);
    struct safetensors_writer *f = safetensors_writer_new(w->path);
    if (w->model) safetensors_writer_metadata(f, "model", w->model);
    safetensors_writer_declare(f, "ffn.alpha", DTYPE_F32, 2, shape);
    safetensors_writer_declare(f, "ffn.redundancy", DTYPE_F32, 1, &layers);
    must(safetensors_writer_data(f, alpha, (size_t)(layers * w->width) * sizeof *alpha, &err),
         &err);
    must(safetensors_writer_data(f, w->redundancy, (size_t)layers * sizeof(float), &err), &err);
    must(safetensors_writer_finish(f, &err), &err);
    free(alpha);
}

static char path[256];

// Writes a file with the golden's alpha; its two layers (and the last one) are redundant.
static void write_golden(const struct golden *g)
{
    const struct safetensor *alpha = safetensors_find(g->tensors, "ffn.alpha");
    struct file file = { .path = path,
                         .alpha = 1,
                         .given = alpha->data,
                         .first = golden_layer(g, "ffn", NULL, 0),
                         .layers = golden_layers(g),
                         .width = alpha->shape[1] };
    assert_true(file.layers <= LAYERS_MOST);
    for (int l = 0; l < file.layers; l++) {
        const bool given = l == file.first || l == file.first + 1;
        file.redundancy[l] = given || l == file.layers - 1 ? 0.97f : 0.5f;
    }
    write_file(&file);
}

static void both_forms_equal_the_reference(void **state)
{
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        struct golden g;
        char layers[16];
        golden_open(&g, models[i]);
        write_golden(&g);
        set(&g, "ffn.calibration", path);
        set(&g, "ffn.approx", "hadamard"); // auto chooses the two layers, not the last one
        struct safetensors *f = answer(&g, chat_named(&g, "single"), 1, "logits layer.out");
        compare_all(&g, f, "layer.out", "ffn.hadamard.h_last");
        check_last(&g, f, "ffn.hadamard.logits_last");
        safetensors_close(f);
        snprintf(layers, sizeof layers, "%d-%d", golden_layer(&g, "ffn", NULL, 0),
                 golden_layer(&g, "ffn", NULL, 1));
        set(&g, "ffn.layers", layers);
        set(&g, "ffn.approx", "skip");
        set(&g, "ffn.calibration", "none");
        f = answer(&g, chat_named(&g, "single"), 1, "logits layer.out");
        check_last(&g, f, "ffn.skip.logits_last");
        safetensors_close(f);
        golden_close(&g);
    }
}

// In the first approximated layer, text rows equal those without the method, and visual rows follow
// alpha: bit for bit on the CPU, nearly on a GPU, whose library uses different kernels for fewer
// rows.
static void text_rows_keep_their_ffn(void **state)
{
    struct golden g;
    golden_open(&g, models[0]);
    write_golden(&g);
    struct safetensors *f = answer(&g, chat_named(&g, "single"), 1, "ffn.1.out");
    const struct safetensor *t = safetensors_find(f, "ffn.1.out");
    const int64_t n = t->shape[0], width = t->shape[1];
    float *full = malloc(t->bytes), most = 0;
    memcpy(full, t->data, t->bytes);
    for (int64_t i = 0; i < n * width; i++) most = fmaxf(most, fabsf(full[i]));
    const float apart = test_device()->own_memory ? 1e-5F * most : 0;
    safetensors_close(f);
    set(&g, "ffn.calibration", path);
    set(&g, "ffn.approx", "hadamard");
    f = answer(&g, chat_named(&g, "single"), 1, "ids ffn.1.in ffn.1.out");
    const int32_t *ids = safetensors_find(f, "ids")->data;
    const float *x = safetensors_find(f, "ffn.1.in")->data;
    const float *y = safetensors_find(f, "ffn.1.out")->data;
    const float *alpha = safetensors_find(g.tensors, "ffn.alpha")->data;
    for (int64_t i = 0; i < n; i++)
        for (int64_t k = 0; k < width; k++) {
            const bool visual = ids[i] == engine_model(g.engine)->placeholder;
            const float want = visual ? x[i * width + k] * alpha[k] : full[i * width + k];
            if (!(fabsf(y[i * width + k] - want) <= apart))
                fail_msg("row %d, number %d: %.9g, not %.9g", (int)i, (int)k,
                         (double)y[i * width + k], (double)want);
        }
    safetensors_close(f);
    // Controls: skips the FFN of text alone, or of all tokens.
    assert_non_null(strstr(refused(&g, "ffn.tokens", "text"), "ffn.redundancy_text"));
    set(&g, "ffn.approx", "skip");
    set(&g, "ffn.layers", "1");
    for (int all = 0; all < 2; all++) {
        set(&g, "ffn.tokens", all ? "all" : "text");
        f = answer(&g, chat_named(&g, "single"), 2, "ids ffn.1.in ffn.1.out");
        ids = safetensors_find(f, "ids")->data;
        x = safetensors_find(f, "ffn.1.in")->data;
        y = safetensors_find(f, "ffn.1.out")->data;
        for (int64_t i = 0; i < n * width; i++) {
            const bool visual = ids[i / width] == engine_model(g.engine)->placeholder;
            assert_true(fabsf(y[i] - (visual && !all ? full[i] : x[i])) <= apart);
        }
        safetensors_close(f);
    }
    free(full);
    golden_close(&g);
}

// After a calibration file was replaced, the next answer and the cache equal those of a new
// conversation.
static void a_replaced_calibration_is_used(void **state)
{
    struct golden g;
    struct err err = { 0 };
    golden_open(&g, models[0]);
    struct file file = { .path = path,
                         .alpha = 0.5f,
                         .redundancy = { 1, 1, 1, 1 },
                         .width = engine_model(g.engine)->decoder.config.hidden };
    write_file(&file);
    set(&g, "ffn.calibration", path);
    set(&g, "ffn.approx", "hadamard");
    set(&g, "sample.max_tokens", "4");
    must(engine_attach(g.engine, "tests/goldens/pictures/scene.png", &err), &err);
    must(engine_ask(g.engine, "what is this?", &err), &err);
    file.alpha = -2;
    write_file(&file);
    must(engine_ask(g.engine, "and now", &err), &err);
    equals_a_fresh_run(&g);
    golden_close(&g);
}

static void bad_settings_are_refused(void **state)
{
    struct golden g;
    golden_open(&g, models[0]);
    const int64_t width = engine_model(g.engine)->decoder.config.hidden;
    assert_non_null(strstr(refused(&g, "ffn.approx", "hadamard"), "calibrat"));
    assert_non_null(strstr(refused(&g, "ffn.approx", "skip"), "ffn.layers auto needs"));
    assert_non_null(strstr(refused(&g, "ffn.layers", "2-4"), "0 to 3"));
    assert_non_null(strstr(refused(&g, "ffn.eta", "nan"), "ffn.eta"));
    assert_non_null(strstr(refused(&g, "ffn.calibration", "/nonexistent"), "/nonexistent"));
    assert_non_null(strstr(refused(&g, "ffn.calibration", "build/goldens/llava-1.5/golden.json"),
                           "golden.json"));

    write_file(
        &(struct file){ .path = path, .alpha = 1, .model = "0123456789abcdef", .width = width });
    assert_non_null(strstr(refused(&g, "ffn.calibration", path), "different weights than"));
    write_file(&(struct file){ .path = path, .alpha = 1, .width = width + 1 });
    set(&g, "ffn.calibration", path);
    assert_non_null(strstr(refused(&g, "ffn.approx", "hadamard"), "ffn.alpha"));
    write_file(&(struct file){ .path = path, .alpha = NAN, .width = width });
    assert_non_null(strstr(refused(&g, "ffn.approx", "hadamard"), "NaN or infinity"));
    assert_non_null(strstr(refused(&g, "ffn.calibration", path), "NaN or infinity"));
    // A file of this model is accepted.
    write_file(&(struct file){ .path = path,
                               .alpha = 1,
                               .model = engine_model(g.engine)->checkpoint->weights,
                               .width = width });
    set(&g, "ffn.approx", "hadamard");
    golden_close(&g);
}

// alpha 1 equals `skip`, and layers that auto does not choose change no bit.
static void alpha_of_one_equals_skip(void **state)
{
    struct golden g;
    golden_open(&g, models[0]);
    const int64_t width = engine_model(g.engine)->decoder.config.hidden;
    write_file(&(struct file){ .path = path, .alpha = 1, .width = width });
    static const char *const ways[3][2] = { { "skip", "0-2" },
                                            { "hadamard", "0-2" },
                                            { "off", "auto" } };
    float *logits[3];
    size_t bytes = 0;
    set(&g, "ffn.calibration", path);
    for (int i = 0; i < 3; i++) {
        set(&g, "ffn.approx", "off");
        set(&g, "ffn.layers", ways[i][1]);
        set(&g, "ffn.approx", ways[i][0]);
        struct safetensors *f = answer(&g, chat_named(&g, "single"), 8, "step.logits");
        const struct safetensor *t = safetensors_find(f, "step.logits");
        logits[i] = malloc(bytes = t->bytes);
        memcpy(logits[i], t->data, bytes);
        safetensors_close(f);
    }
    assert_memory_equal(logits[0], logits[1], bytes);
    assert_memory_not_equal(logits[0], logits[2], bytes);
    set(&g, "ffn.approx", "hadamard"); // redundancy 0 everywhere: auto chooses no layer
    struct safetensors *f = answer(&g, chat_named(&g, "single"), 8, "step.logits");
    assert_memory_equal(safetensors_find(f, "step.logits")->data, logits[2], bytes);
    safetensors_close(f);
    for (int i = 0; i < 3; i++) free(logits[i]);
    golden_close(&g);
}

int main(void)
{
    const char *base = getenv("TMPDIR");
    snprintf(path, sizeof path, "%s/vlmsh-ffn-%d.safetensors", base ? base : "/tmp", (int)getpid());
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_forms_equal_the_reference),
        cmocka_unit_test(text_rows_keep_their_ffn),
        cmocka_unit_test(a_replaced_calibration_is_used),
        cmocka_unit_test(bad_settings_are_refused),
        cmocka_unit_test(alpha_of_one_equals_skip),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    unlink(path);
    return failed;
}
