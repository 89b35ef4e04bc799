// tests/core/model/families/quantised.c -- folders that another program quantised: logits against
// those that transformers computed with the dequantised weights, and the weights themselves.
//
// QUANTISED_GOLDENS=FOLDER runs every folder in FOLDER instead, each a model with golden.json and
// golden.safetensors.
#include "tests/core/model/families/golden.h"

#include "core/base/dtype.h"
#include "core/base/folder.h"
#include "core/files/checkpoint.h"
#include "core/files/quantised/quantised.h"
#include "tests/core/model/passes.h"

// Opens a model with its goldens in the same folder.
static void open(struct golden *g, const char *name, const char *folder)
{
    struct err err = { 0 };
    *g = (struct golden){ .name = name };
    const char *base = getenv("TMPDIR");
    snprintf(g->dump, sizeof g->dump, "%s/vlmsh-quantised-%d.safetensors", base ? base : "/tmp",
             (int)getpid());
    char *path = xasprintf("%s/golden.json", folder);
    if (!(g->json = json_read(path, 1 << 24, &err))) fail_msg("%s", err.text);
    free(path);
    path = xasprintf("%s/golden.safetensors", folder);
    if (!(g->tensors = safetensors_open(path, &err))) fail_msg("%s", err.text);
    free(path);
    sinks_add(&g->sinks, (struct sink){ .emit = hear, .self = g });
    g->engine = engine_new(test_device(), &g->sinks);
    must(engine_load(g->engine, folder, &err), &err);
    must(engine_set(g->engine, "compute.matmul", "f32", &err), &err);
    must(engine_set(g->engine, "kv.dtype", "f32", &err), &err);
    must(engine_set(g->engine, "chat.date", "26 Jul 2024", &err), &err);
}

// Finds a tensor by its name, or by its name in the file (MLX).
static const struct safetensor *find_stored(const struct checkpoint *c, const char *name)
{
    for (int64_t i = 0; i < c->tensor_count; i++)
        if (!strcmp(c->tensors[i]->name, name) ||
            (c->tensors[i]->stored && !strcmp(c->tensors[i]->stored, name)))
            return c->tensors[i];
    return NULL;
}

// Compares the dequantised weights with the golden tensors "w.NAME".
static void check_weights(const struct golden *g)
{
    const struct checkpoint *c = engine_model(g->engine)->checkpoint;
    int checked = 0;
    for (int64_t i = 0; i < g->tensors->count; i++) {
        const struct safetensor *theirs = &g->tensors->tensors[i];
        if (strncmp(theirs->name, "w.", 2) != 0) continue;
        const struct safetensor *t = find_stored(c, theirs->name + 2);
        if (!t) fail_msg("%s: no %s", g->name, theirs->name);
        const size_t bytes = (size_t)safetensor_count(t) * 4;
        float *ours = xmalloc(bytes);
        quantised_rows(t, 0, t->shape[0], ours);
        const struct safetensor copy = { .name = t->name, .bytes = bytes, .data = ours };
        assert_int_equal(t->shape[0], theirs->shape[0]);
        compare(g, &copy, theirs->name, 0, (int64_t)theirs->bytes / 4);
        free(ours);
        checked++;
    }
    assert_true(checked > 0);
}

// The largest difference between `last` and a golden tensor.
static double difference(const struct golden *g, const float *last, const char *name)
{
    const struct safetensor *theirs = safetensors_find(g->tensors, name);
    double worst = 0;
    for (int64_t i = 0; i < (int64_t)theirs->bytes / 4; i++) {
        const double d = fabs((double)last[i] - (double)((const float *)theirs->data)[i]);
        if (!(d <= worst)) worst = d;
    }
    return worst;
}

// Compares the last rows of logits with those of exact or of rounded weights: either is right.
static void check_logits(const struct golden *g, const float *logits, int64_t rows,
                         const char *name)
{
    const struct safetensor *theirs = safetensors_find(g->tensors, name);
    char rounded[64];
    snprintf(rounded, sizeof rounded, "%s.rounded", name);
    const float *last = logits + (rows - theirs->shape[0]) * theirs->shape[1];
    const double exact = difference(g, last, name), other = difference(g, last, rounded);
    if (getenv("QUANTISED_GOLDENS"))
        print_message("%s: %s: %.2g from exact, %.2g from rounded weights, allowed %.2g\n", g->name,
                      name, exact, other, tolerance(g, name));
    const double allowed = tolerance(g, name) * (test_in_16_bits(test_device()) ? 4 : 1);
    if (!(fmin(exact, other) <= allowed))
        fail_msg("%s: %s differ by %g and %g, allowed is %g", g->name, name, exact, other, allowed);
}

static void check_text(const struct golden *g)
{
    const struct safetensor *ids = safetensors_find(g->tensors, "ids");
    const struct model *m = engine_model(g->engine);
    const int64_t n = safetensor_count(ids);
    int32_t *narrow = xreallocarray(NULL, (size_t)n, sizeof *narrow);
    for (int64_t i = 0; i < n; i++)
        memcpy(&narrow[i], (const char *)ids->data + i * (int64_t)(ids->bytes / (uint64_t)n), 4);
    float *logits = pass_logits(m, NULL, narrow, n, NULL);
    check_logits(g, logits, n, "logits");
    free(logits);
    free(narrow);
}

static void check_picture(struct golden *g)
{
    if (!safetensors_find(g->tensors, "picture.logits")) return;
    struct safetensors *f =
        answer(g, cJSON_GetArrayItem(json_get(g->json, "chat"), 0), 1, "ids logits");
    const struct safetensor *logits = safetensors_find(f, "logits");
    check_logits(g, logits->data, logits->shape[0], "picture.logits");
    safetensors_close(f);
}

static void check_folder(const char *name, const char *folder)
{
    struct golden g;
    open(&g, name, folder);
    check_weights(&g);
    check_text(&g);
    check_picture(&g);
    golden_close(&g);
}

static void logits_equal_those_of_the_reference(void **state)
{
    const char *all = getenv("QUANTISED_GOLDENS");
    if (!all) all = "build/goldens/quantised";
    char **names = folder_list(all);
    int folders = 0;
    for (char **name = names; *name; name++) {
        char *folder = xasprintf("%s/%s", all, *name),
             *config = xasprintf("%s/config.json", folder);
        if (access(config, F_OK) == 0) {
            check_folder(*name, folder);
            folders++;
        }
        free(config);
        free(folder);
    }
    folder_list_free(names);
    assert_true(folders > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(logits_equal_those_of_the_reference) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
