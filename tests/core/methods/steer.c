// tests/core/methods/steer.c -- core/methods/steer.c, steer_file.c, core/probes/directions.c: the
// vector is added to the output of its layer, bit for bit, in the chosen rows alone; files of both
// formats; refusals; vectors against values computed by hand and against a dump; the cost.
#include "core/methods/steer.h"

#include <sys/stat.h>

#include "core/adapter/provenance.h"
#include "core/base/mem.h"
#include "core/files/gguf_write.h"
#include "core/methods/method.h"
#include "core/probes/directions.h"
#include "core/probes/results.h"
#include "tests/core/methods/fresh.h"
#include "tests/core/probes/probe.h"

static char folder[256], path[320], other[320];

// Writes direction[layer][k] = sin(k + layer) for the listed layers.
static void write_vectors(const char *to, const int *list, int count, int64_t width)
{
    struct err err = { 0 };
    enum { MOST = 16 };
    float *x = xcalloc((size_t)(MOST * width), sizeof *x);
    bool there[MOST] = { 0 };
    for (int i = 0; i < count; i++) {
        there[list[i]] = true;
        for (int64_t k = 0; k < width; k++)
            x[list[i] * width + k] = (float)sin((double)k + list[i]);
    }
    const struct steer_source source = { .method = "mean", .state = "adapter=a@1" };
    must(steer_write(to, x, there, MOST, width, &source, &err), &err);
    free(x);
}

static void set(struct golden *g, const char *key, const char *value)
{
    struct err err = { 0 };
    must(engine_set(g->engine, key, value, &err), &err);
}

static void set_vectors(struct golden *g, const char *file, const char *factor)
{
    char value[400];
    snprintf(value, sizeof value, "%s=%s", file, factor);
    set(g, "steer.vectors", value);
}

// Expects row i of the steered tensor to be that of the plain one plus the vector, if it is
// steered.
static void check_rows(const struct golden *g, const struct safetensor *plain,
                       const struct safetensor *steered, int layer, double factor, const char *at)
{
    const struct sequence *s = &golden_conversation(g)->cached;
    const int64_t width = plain->shape[1];
    assert_int_equal(plain->bytes, steered->bytes);
    for (int64_t i = 0; i < plain->shape[0]; i++) {
        const bool visual = s->picture[i] >= 0;
        const bool here = !strcmp(at, "all") || visual == !strcmp(at, "visual");
        for (int64_t k = 0; k < width; k++) {
            const float direction = (float)sin((double)k + layer),
                        before = ((const float *)plain->data)[i * width + k];
            const float want = here ? before + (float)(factor * (double)direction) : before;
            const float got = ((const float *)steered->data)[i * width + k];
            if (memcmp(&want, &got, sizeof want) != 0)
                fail_msg("%s, %s, row %lld: %.9g, not %.9g", g->name, at, (long long)i, (double)got,
                         (double)want);
        }
    }
}

// The vector of layer l is added to h[l+1], which is the input of the next layer or layer.out.
static void vectors_are_added(void **state)
{
    static const char *const seeing[] = { "llava-1.5", "qwen2.5-vl", "kimi-vl", "gemma3",
                                          "qwen3.5" }; // the last with recurrent layers
    static const char *const kinds[] = { "all", "text", "visual" };
    for (size_t m = 0; m < sizeof seeing / sizeof *seeing; m++) {
        struct golden g;
        golden_open(&g, seeing[m]);
        const int last = golden_layers(&g) - 1;
        const int64_t width = engine_model(g.engine)->decoder.config.hidden;
        const cJSON *chat = chat_named(&g, "single");
        for (int l = last - 1; l <= last; l++) {
            char tap[32];
            snprintf(tap, sizeof tap, l == last ? "layer.out" : "layer.%d.in", l + 1);
            write_vectors(path, &l, 1, width);
            set(&g, "steer.vectors", "none");
            struct safetensors *plain = answer(&g, chat, 1, tap);
            char kept[320];
            snprintf(kept, sizeof kept, "%s/plain", folder);
            rename(g.dump, kept);
            for (int k = 0; k < 3; k++) {
                set(&g, "steer.at", kinds[k]);
                set_vectors(&g, path, "-2.5");
                struct safetensors *f = answer(&g, chat, 1, tap);
                check_rows(&g, safetensors_find(plain, tap), safetensors_find(f, tap), l, -2.5,
                           kinds[k]);
                safetensors_close(f);
            }
            safetensors_close(plain);
            unlink(kept);
            unlink(path);
        }
        golden_close(&g);
    }
}

static bool ids_equal(const struct ids *a, const struct ids *b)
{
    return a->count == b->count && !memcmp(a->data, b->data, a->count * sizeof *a->data);
}

// Vectors in the middle of a conversation: the answer equals that of a new engine; a strength of 0
// removes them, and the answer is the plain one again.
static void a_toggle_equals_a_fresh_run(void **state)
{
    static const char *const both[] = { "llava-1.5", "llama-3.2" };
    for (size_t m = 0; m < sizeof both / sizeof *both; m++) {
        struct golden g;
        struct err err = { 0 };
        struct ids plain = { 0 };
        golden_open(&g, both[m]);
        write_vectors(path, (int[]){ 1, 2 }, 2, engine_model(g.engine)->decoder.config.hidden);
        if (!m) must(engine_attach(g.engine, "tests/goldens/pictures/scene.png", &err), &err);
        set(&g, "sample.max_tokens", "6");
        must(engine_ask(g.engine, "what is this?", &err), &err);
        ids_append(&plain, g.answer.data, g.answer.count);
        set_vectors(&g, path, "40");
        must(engine_regenerate(g.engine, &err), &err);
        assert_false(ids_equal(&plain, &g.answer));
        equals_a_fresh_run(&g);
        set(&g, "steer.layers", "2");
        set(&g, "steer.at", "text");
        must(engine_ask(g.engine, "and now", &err), &err);
        equals_a_fresh_run(&g);
        must(engine_undo(g.engine, &err), &err);
        set_vectors(&g, path, "0");
        assert_string_equal(settings_text(engine_settings(g.engine), "steer.vectors"), "none");
        must(engine_regenerate(g.engine, &err), &err);
        assert_true(ids_equal(&plain, &g.answer));
        ids_release(&plain);
        golden_close(&g);
        unlink(path);
    }
}

static void expect(const char *text, const char *part)
{
    if (!strstr(text, part)) fail_msg("'%s' does not say '%s'", text, part);
}

static void write_one(const char *name, enum dtype dtype, int rank, const int64_t *shape,
                      float value)
{
    struct err err = { 0 };
    struct safetensors_writer *w = safetensors_writer_new(path);
    int64_t n = 1;
    for (int i = 0; i < rank; i++) n *= shape[i];
    float *x = xcalloc((size_t)n, sizeof *x);
    for (int64_t i = 0; i < n; i++) x[i] = value;
    safetensors_writer_declare(w, name, dtype, rank, shape);
    must(safetensors_writer_data(w, x, (size_t)n * dtype_size(dtype), &err), &err);
    must(safetensors_writer_finish(w, &err), &err);
    free(x);
}

// Writes direction.10 with `first` numbers before direction.2 with `second`.
static void write_two(int64_t first, int64_t second)
{
    struct err err = { 0 };
    struct safetensors_writer *w = safetensors_writer_new(path);
    float *x = xcalloc((size_t)(first + second) + 1, sizeof *x);
    safetensors_writer_declare(w, "direction.10", DTYPE_F32, 1, &first);
    safetensors_writer_declare(w, "direction.2", DTYPE_F32, 1, &second);
    must(safetensors_writer_data(w, x, (size_t)first * sizeof *x, &err), &err);
    must(safetensors_writer_data(w, x, (size_t)second * sizeof *x, &err), &err);
    must(safetensors_writer_finish(w, &err), &err);
    free(x);
}

// After a file of vectors was replaced, the next answer and the cache equal those of a new
// conversation.
static void a_replaced_file_is_used(void **state)
{
    struct golden g;
    struct err err = { 0 };
    golden_open(&g, "llama-3.2");
    const int64_t width = engine_model(g.engine)->decoder.config.hidden;
    write_vectors(path, (int[]){ 1 }, 1, width);
    set(&g, "sample.max_tokens", "4");
    set_vectors(&g, path, "40");
    must(engine_ask(g.engine, "what is this?", &err), &err);
    unlink(path);
    write_vectors(path, (int[]){ 0, 2 }, 2, width);
    must(engine_ask(g.engine, "and now", &err), &err);
    equals_a_fresh_run(&g);
    golden_close(&g);
    unlink(path);
}

// Both formats hold the same vectors; steer_read adds to the sum.
static void files_are_read_and_written(void **state)
{
    struct err err = { 0 };
    enum { WIDTH = 5, LAYERS = 4 };
    float a[LAYERS * WIDTH] = { 0 }, b[LAYERS * WIDTH] = { 0 };
    bool there[LAYERS] = { 0 };
    struct steer_about about;
    write_vectors(path, (int[]){ 1, 3 }, 2, WIDTH);
    must(steer_convert(path, other, &err), &err);
    must(steer_read(path, 2, LAYERS, WIDTH, a, there, &err), &err);
    must(steer_read(other, 2, LAYERS, WIDTH, b, there, &err), &err);
    assert_memory_equal(a, b, sizeof a);
    assert_true(!there[0] && there[1] && !there[2] && there[3]);
    assert_true(a[WIDTH + 2] == (float)(2 * (double)(float)sin(3)));
    must(steer_read(other, -2, LAYERS, WIDTH, a, there, &err), &err);
    for (int i = 0; i < LAYERS * WIDTH; i++) assert_true(a[i] == 0);
    must(steer_about(&about, other, &err), &err);
    assert_string_equal(about.layers, "1,3");
    assert_string_equal(about.state, "adapter=a@1");
    assert_int_equal(about.width, WIDTH);
    steer_about_release(&about);
    unlink(path);
    unlink(other);
    // A vector of a high layer costs no memory for the layers below it.
    const int64_t shape = 300000;
    write_one("direction.99999", DTYPE_F32, 1, &shape, 1);
    must(steer_convert(path, other, &err), &err);
    must(steer_about(&about, other, &err), &err);
    assert_string_equal(about.layers, "99999");
    steer_about_release(&about);
    unlink(path);
    unlink(other);
    // llama.cpp cannot use a vector of layer 0.
    write_vectors(path, (int[]){ 0 }, 1, WIDTH);
    assert_int_equal(steer_convert(path, other, &err), -1);
    assert_non_null(strstr(err.text, "layer 0"));
    unlink(path);
}

// Vectors without numbers, and of different widths, are refused with and without a model.
static void malformed_vectors_are_refused(void **state)
{
    static const struct {
        int64_t first, second;
        const char *says;
    } cases[] = { { 0, 100000, "direction.10 of" },
                  { 100000, 0, "direction.2 of" },
                  { 4, 5, "has vectors of 4 and of 5 numbers" } };
    struct err err = { 0 };
    struct steer_about about;
    float sum[4 * 4] = { 0 };
    bool there[4] = { 0 };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        write_two(cases[i].first, cases[i].second);
        assert_int_equal(steer_convert(path, other, &err), -1);
        expect(err.text, cases[i].says);
        assert_int_equal(steer_about(&about, path, &err), -1);
        expect(err.text, cases[i].says);
        assert_int_equal(steer_read(path, 1, 4, 4, sum, there, &err), -1);
        expect(err.text, cases[i].says);
        unlink(path);
    }
}

static const char *refused(struct golden *g, const char *value)
{
    static struct err err;
    if (engine_set(g->engine, "steer.vectors", value, &err) == 0) fail_msg("%s is accepted", value);
    assert_string_equal(settings_text(engine_settings(g->engine), "steer.vectors"), "none");
    return err.text;
}

static void files_of_another_model_are_refused(void **state)
{
    struct golden g;
    char value[400];
    golden_open(&g, "llava-1.5");
    const int64_t width = engine_model(g.engine)->decoder.config.hidden, wide = width + 1;
    snprintf(value, sizeof value, "%s=1", path);
    expect(refused(&g, value), path); // no such file
    write_vectors(path, (int[]){ 2 }, 1, wide);
    expect(refused(&g, value), "hidden states have");
    unlink(path);
    write_vectors(path, (int[]){ 9 }, 1, width);
    expect(refused(&g, value), "layer 9, but the model's 4 layers are 0 to 3");
    unlink(path);
    write_one("weight", DTYPE_F32, 1, &width, 1);
    expect(refused(&g, value), "no tensor is named direction.N");
    write_one("direction.1", DTYPE_F32, 1, &width, NAN);
    expect(refused(&g, value), "direction.1");
    write_one("direction.1", DTYPE_I32, 1, &width, 0);
    expect(refused(&g, value), "not a vector of f32");
    write_one("direction.1", DTYPE_F32, 2, (int64_t[]){ 1, width }, 1);
    expect(refused(&g, value), "not a vector of f32");
    write_one("direction.01", DTYPE_F32, 1, &width, 1);
    expect(refused(&g, value), "no tensor is named direction.N");
    write_one("direction.1", DTYPE_F32, 1, &width, 3e38f);
    snprintf(value, sizeof value, "%s=1e6", path);
    expect(refused(&g, value), "layer 1 exceeds f32 (1000000 x '");
    char twice[700];
    snprintf(twice, sizeof twice, "%s=1,%s/./v.safetensors=1", path, folder);
    expect(refused(&g, twice), "name each file once");
    unlink(path);
    static const char *const spelled[] = { "x",     "x=",    "=2",      "x=1,",
                                           "x=nan", "x=1e9", "x=1,x=2", "x=2y" };
    for (size_t i = 0; i < sizeof spelled / sizeof *spelled; i++)
        expect(refused(&g, spelled[i]), "steer.vectors cannot be");
    golden_close(&g);
}

// The pairs differ by (1, 2) and (3, -1); the expected vectors are computed by hand.
static void vectors_are_computed(void **state)
{
    struct err err = { 0 };
    const float plus[] = { 2, 5, 6, 1 }, minus[] = { 1, 3, 3, 2 };
    float v[2];
    must(direction_compute(DIRECTION_MEAN, plus, 2, minus, 2, 2, v, &err), &err);
    assert_true(v[0] == 2 && v[1] == 0.5f);
    must(direction_compute(DIRECTION_MEAN, plus, 1, minus, 2, 2, v, &err), &err);
    assert_true(v[0] == 0 && v[1] == 2.5f);
    // The pairs' products sum up to [[10, -1], [-1, 5]], with the eigenvalue (15 + sqrt 29) / 2.
    must(direction_compute(DIRECTION_PCA, plus, 2, minus, 2, 2, v, &err), &err);
    const double value = (15 + sqrt(29)) / 2, x = 1, y = 10 - value;
    const double scale = sqrt(value / 2) / hypot(x, y);
    assert_true(fabs((double)v[0] - scale * x) < 1e-6 && fabs((double)v[1] - scale * y) < 1e-6);
    must(direction_compute(DIRECTION_PCA, minus, 2, plus, 2, 2, v, &err), &err);
    assert_true(fabs((double)v[0] + scale * x) < 1e-6);
    // The mean of the differences (1, 3) and (1, -3) is the second component, not the first.
    const float two[] = { 1, 3, 1, -3 }, origin[4] = { 0 };
    must(direction_compute(DIRECTION_PCA, two, 2, origin, 2, 2, v, &err), &err);
    assert_true(fabs((double)v[0]) < 1e-6 && fabs(fabs((double)v[1]) - 3) < 1e-6);
    // More pairs than dimensions: (3, 0), (-1, 0) and (2, 1) have products [[14, 2], [2, 1]].
    const float many[] = { 3, 0, -1, 0, 2, 1 }, zeros[6] = { 0 };
    const double largest = (15 + sqrt(185)) / 2, up = (largest - 14) / 2;
    must(direction_compute(DIRECTION_PCA, many, 3, zeros, 3, 2, v, &err), &err);
    assert_true(fabs((double)v[0] - sqrt(largest / 3) / hypot(1, up)) < 1e-6 &&
                fabs((double)v[1] - up * (double)v[0]) < 1e-6);
    assert_int_equal(direction_compute(DIRECTION_MEAN, plus, 2, plus, 2, 2, v, &err), -1);
    expect(err.text, "do not differ");
}

// The vector of one sample on each side is the difference of the dumped states at the last
// positions, even while other vectors steer; the provenance does not name these.
static void states_equal_a_dump(void **state)
{
    static const char *const questions[] = { "what is this?", "describe it" };
    char file[2][320];
    struct golden g;
    struct err err = { 0 };
    struct directions d;
    struct provenance from;
    golden_open(&g, "llava-1.5");
    const int64_t width = engine_model(g.engine)->decoder.config.hidden;
    float *want = xcalloc((size_t)width, sizeof *want);
    set(&g, "sample.max_tokens", "1");
    for (int i = 0; i < 2; i++) {
        snprintf(file[i], sizeof file[i], "%s/%d.json", folder, i);
        FILE *f = fopen(file[i], "w");
        assert_non_null(f);
        fprintf(f,
                "[{\"image\": \"scene.png\", \"conversations\": [{\"from\": \"human\", "
                "\"value\": \"<image>\\n%s\"}]}]",
                questions[i]);
        fclose(f);
        engine_clear(g.engine);
        must(engine_attach(g.engine, "tests/goldens/pictures/scene.png", &err), &err);
        must(engine_dump(g.engine, "layer.2.in", g.dump, &err), &err);
        must(engine_ask(g.engine, questions[i], &err), &err);
        struct safetensors *dump = safetensors_open(g.dump, &err);
        assert_non_null(dump);
        const struct safetensor *h = safetensors_find(dump, "layer.2.in");
        assert_int_equal(h->shape[1], width);
        const float *last = (const float *)h->data + (h->shape[0] - 1) * width;
        for (int64_t k = 0; k < width; k++)
            want[k] = i ? (float)((double)want[k] - (double)last[k]) : last[k];
        safetensors_close(dump);
    }
    write_vectors(path, (int[]){ 0 }, 1, width);
    set_vectors(&g, path, "40");
    const struct directions_request request = { .plus = file[0],
                                                .minus = file[1],
                                                .images = "tests/goldens/pictures",
                                                .layers = "1",
                                                .limit = 100 };
    must(engine_directions(g.engine, &request, &d, &from, &err), &err);
    for (int64_t l = 0; l < d.layers; l++) assert_int_equal(d.there[l], l == 1);
    assert_memory_equal(d.vectors + width, want, (size_t)width * sizeof *want);
    assert_non_null(provenance_value(&from, "model"));
    assert_null(provenance_value(&from, "steer.vectors"));
    provenance_release(&from);
    directions_release(&d);
    free(want);
    golden_close(&g);
    for (int i = 0; i < 2; i++) unlink(file[i]);
    unlink(path);
}

// Steering costs D FLOPs in each row that it changes. It does not act in training.
static void costs_are_counted(void **state)
{
    struct golden g;
    struct results r = { 0 };
    ask(&g, "llava-1.5", 2);
    const struct decoder_config *c = &engine_model(g.engine)->decoder.config;
    write_vectors(path, (int[]){ 2 }, 1, c->hidden);
    set_vectors(&g, path, "2");
    static const char *const kinds[] = { "all", "visual" };
    for (int k = 0; k < 2; k++) {
        set(&g, "steer.at", kinds[k]);
        run_probe(&g, &probe_flops, NULL, &r);
        const struct sequence *s = &golden_conversation(&g)->cached;
        double rows = 0;
        for (int64_t i = 0; i < s->prompt; i++) rows += k == 0 || s->picture[i] >= 0;
        const double *cost = results_value(&r, "flops", "methods", "prompt, now");
        assert_non_null(cost);
        near(&g, kinds[k], *cost * 1e9, rows * (double)c->hidden, 0.5);
        results_release(&r);
    }
    assert_false(method_in_training(method_of("steer.vectors"), engine_settings(g.engine)));
    golden_close(&g);
    unlink(path);
}

int main(void)
{
    const char *base = getenv("TMPDIR");
    snprintf(folder, sizeof folder, "%s/vlmsh-steer-%d", base ? base : "/tmp", (int)getpid());
    snprintf(path, sizeof path, "%s/v.safetensors", folder);
    snprintf(other, sizeof other, "%s/v.gguf", folder);
    mkdir(folder, 0700);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(vectors_are_added),
        cmocka_unit_test(a_toggle_equals_a_fresh_run),
        cmocka_unit_test(files_are_read_and_written),
        cmocka_unit_test(malformed_vectors_are_refused),
        cmocka_unit_test(a_replaced_file_is_used),
        cmocka_unit_test(files_of_another_model_are_refused),
        cmocka_unit_test(vectors_are_computed),
        cmocka_unit_test(states_equal_a_dump),
        cmocka_unit_test(costs_are_counted),
    };
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    rmdir(folder);
    return failed;
}
