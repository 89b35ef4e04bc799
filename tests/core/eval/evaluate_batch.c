// tests/core/eval/evaluate_batch.c -- core/eval/evaluate_batch.c, core/talk/batch.c: questions and
// choices computed in one pass get the same answers and scores as one by one, bit for bit.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
// needs the headers above
#include <cmocka.h>

#include "core/data/dataset.h"
#include "core/eval/evaluate.h"
#include "core/model/model.h"
#include "core/settings/settings.h"
#include "tests/core/scratch.h"
#include "tests/device.h"

#define GOLDENS "tests/goldens/"

static const char *const seeing[] = { "llava-1.5",  "qwen2.5-vl", "internvl3.5",
                                      "llava-next", "glm-4.1v",   "llava-onevision" };
static const char *const text[] = { "llama-3.2", "qwen2" };

// The tests' device, with its products counted.
static struct backend counting;
static int64_t products;

static int matmul(struct tensor *y, const struct tensor *x, const struct tensor *w,
                  const struct tensor *bias, enum matmul_mode mode)
{
    products++;
    return test_device()->matmul(y, x, w, bias, mode);
}

struct run {
    struct buf told; // a line per question: sample, turn, score (exact), whether cut, answer
    struct evaluation e;
    int64_t products;
    int count, stop_after;
};

static bool keep(void *self, const struct evaluated *e)
{
    struct run *r = self;
    if (e->skipped) fail_msg("%s: %s", e->id, e->skipped);
    buf_printf(&r->told, "%s %d %a %d '%s'\n", e->id, e->turn, e->score, (int)e->cut, e->answer);
    r->count++;
    return !r->stop_after || r->count < r->stop_after;
}

struct fixture {
    struct model *model;
    struct settings *settings;
    struct dataset data;
    struct evaluate_request request;
    char *folder;
    struct err err;
};

static void set(struct fixture *f, const char *key, const char *value)
{
    if (settings_set(f->settings, key, value, &f->err) < 0) fail_msg("%s", f->err.text);
}

// data: JSON with ' for ".
static void open_fixture(struct fixture *f, const char *model, const char *data)
{
    char *path = xasprintf(GOLDENS "%s", model), *json = xstrdup(data);
    for (char *c = json; *c; c++)
        if (*c == '\'') *c = '"';
    *f = (struct fixture){ .settings = settings_new(), .folder = scratch_new() };
    counting = *test_device();
    counting.matmul = matmul;
    f->model = model_load(path, test_device(), NULL, &f->err);
    if (!f->model) fail_msg("%s: %s", path, f->err.text);
    free(path);
    set(f, "sample.max_tokens", "6");
    set(f, "chat.date", "26 Jul 2024");
    set(f, "compute.matmul", "f32");
    scratch_write(f->folder, "data.json", json, strlen(json));
    free(json);
    path = xasprintf("%s/data.json", f->folder);
    if (dataset_open(&f->data, path, GOLDENS "pictures/", &f->err) < 0) fail_msg("%s", f->err.text);
    free(path);
    f->request = (struct evaluate_request){ .model = f->model,
                                            .backend = &counting,
                                            .settings = f->settings,
                                            .data = &f->data,
                                            .ahead = true,
                                            .report = keep };
}

static void close_fixture(struct fixture *f)
{
    dataset_close(&f->data);
    settings_free(f->settings);
    model_free(f->model);
    scratch_remove(f->folder);
}

// Evaluates samples from `first` on, until stop_after questions are scored (0: all).
static void evaluate(struct fixture *f, const char *batch, int64_t first, int stop_after,
                     struct run *r)
{
    *r = (struct run){ .stop_after = stop_after };
    set(f, "eval.batch", batch);
    f->request.first = first;
    f->request.self = r;
    products = 0;
    if (evaluate_run(&f->request, &r->e, &f->err) < 0) fail_msg("%s", f->err.text);
    r->products = products;
}

static void release(struct run *r)
{
    buf_release(&r->told);
    evaluation_release(&r->e);
}

// Expects each of four batch sizes to give the same reports as one question at a time, with fewer
// products if `fewer`, else with as many.
static void compare(struct fixture *f, const char *what, bool fewer)
{
    static const char *const sizes[] = { "2", "3", "8", "auto" };
    struct run one, some;
    evaluate(f, "1", 0, 0, &one);
    assert_true(one.count > 0);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        evaluate(f, sizes[i], 0, 0, &some);
        if (strcmp(one.told.data, some.told.data) != 0)
            fail_msg("%s, batch %s:\n%s\nbut one by one:\n%s", what, sizes[i], some.told.data,
                     one.told.data);
        if (fewer ? some.products >= one.products : some.products != one.products)
            fail_msg("%s, batch %s: %d products, one by one %d", what, sizes[i], (int)some.products,
                     (int)one.products);
        release(&some);
    }
    release(&one);
}

// JSON with ' for ". Questions of several lengths about two pictures, two of the questions equal, a
// dialogue, and two questions without a picture.
static const char pictures_json[] =
    "[{'image':'scene.png','question':'What?','answer':'x'},"
    "{'image':'scene.png','question':'What is it that "
    "stands behind the house?','answer':'x'},"
    "{'image':'scene.png','question':'Where?','answer':'x'},"
    "{'image':'tall.jpg','question':'What?','answer':'x'},"
    "{'image':'tall.jpg','question':'What?','answer':'x'},"
    "{'image':'tall.jpg','question':'Why are there so many of them, and who has counted "
    "each?','answer':'x'},"
    "{'image':'tall.jpg','conversations':[{'from':'human','value':'One?'},{'from':'gpt',"
    "'value':'first'},{'from':'human','value':'Two?'},{'from':'gpt','value':'second'}]},"
    "{'image':'tall.jpg','question':'Again?','answer':'x'},"
    "{'image':'tall.jpg','question':'And now?','answer':'x'},"
    "{'question':'Hello?','answer':'x'},"
    "{'question':'How are you?','answer':'x'}]";

static const char choices_json[] =
    "[{'question':'Which?','choices':['a house','a very long tree beside it','b'],'answer':0},"
    "{'image':'scene.png','question':'And?','choices':['one','two','three of them','four','five',"
    "'six','seven','eight','nine','ten','eleven'],'answer':2}]";

static const char texts_json[] =
    "[{'question':'A?','answer':'x'},{'question':'A man goes where?','answer':'x'},"
    "{'question':'A man goes home. Why?','answer':'x'},{'question':'B?','answer':'x'}]";

static const char short_json[] =
    "[{'question':'A?','answer':'x'},{'question':'A man goes?','answer':'x'},"
    "{'question':'B?','answer':'x'}]";

static const char kinds_json[] =
    "[{'question':'A?','answer':'x','kind':'k'},{'question':'no?','answer':'x'},"
    "{'question':'B?','answer':'x','kind':'k'},{'question':'no?','answer':'x'},"
    "{'question':'C?','answer':'x','kind':'k'},{'question':'D?','answer':'x','kind':'k'}]";

static void of_families(const char *json, const char *metric)
{
    struct fixture f;
    for (size_t i = 0; i < sizeof seeing / sizeof *seeing; i++) {
        open_fixture(&f, seeing[i], json);
        f.request.metric = metric_find(metric);
        compare(&f, seeing[i], true);
        close_fixture(&f);
    }
}

static void answers_of_families(void **state)
{
    of_families(pictures_json, "exact");
}

static void choices_of_families(void **state)
{
    of_families(choices_json, "loglik");
}

static void texts(void **state)
{
    struct fixture f;
    for (size_t i = 0; i < sizeof text / sizeof *text; i++) {
        open_fixture(&f, text[i], texts_json);
        f.request.metric = metric_find("exact");
        compare(&f, text[i], true);
        set(&f, "kv.dtype", "bf16");
        compare(&f, "cache of bf16", true);
        set(&f, "sample.max_tokens", "1");
        compare(&f, "one token", true);
        close_fixture(&f);
    }
}

// The context truncates the answers.
static void answers_cut_by_the_context(void **state)
{
    struct fixture f;
    open_fixture(&f, "llama-3.2", short_json);
    f.request.metric = metric_find("exact");
    set(&f, "sample.max_tokens", "400");
    set(&f, "ctx.max", "64");
    compare(&f, "a small context", true);
    close_fixture(&f);
}

// With pruning or latent attention, questions run one by one, with the same answers.
static void methods_run_one_by_one(void **state)
{
    struct fixture f;
    open_fixture(&f, "llava-1.5", pictures_json);
    f.request.metric = metric_find("exact");
    set(&f, "prune.score", "contribution");
    set(&f, "prune.layer", "0");
    compare(&f, "pruning", false);
    close_fixture(&f);
    open_fixture(&f, "kimi-text", short_json);
    f.request.metric = metric_find("exact");
    compare(&f, "latent attention", false);
    close_fixture(&f);
}

// A run stopped within a batch resumes with the same results.
static void resumed(void **state)
{
    struct fixture f;
    struct run one, part, rest;
    open_fixture(&f, "llava-1.5", pictures_json);
    f.request.metric = metric_find("exact");
    evaluate(&f, "1", 0, 0, &one);
    for (int n = 1; n < 6; n++) {
        evaluate(&f, "8", 0, n, &part);
        assert_true(part.e.cancelled);
        evaluate(&f, "8", n, 0, &rest);
        buf_puts(&part.told, rest.told.data);
        assert_string_equal(part.told.data, one.told.data);
        release(&part);
        release(&rest);
    }
    release(&one);
    close_fixture(&f);
}

static uint64_t logits; // a hash of the downloaded logits

static void download(void *host, const void *device, size_t bytes)
{
    test_device()->download(host, device, bytes);
    for (size_t i = 0; i < bytes; i++)
        logits = (logits ^ ((const unsigned char *)host)[i]) * UINT64_C(0x100000001b3);
}

static uint64_t logits_of(struct fixture *f, const char *batch, int64_t first, int stop_after)
{
    struct run r;
    evaluate(f, batch, first, stop_after, &r);
    release(&r);
    return logits;
}

// Questions about a picture share its rows, but no bit of their logits depends on the question that
// computed those rows: ranks and resumed runs may begin at any question.
static void batches_may_begin_at_any_question(void **state)
{
    static const char *const models[] = { "llava-1.5", "qwen2.5-vl", "llama-3.2" };
    static const char *const modes[] = { "f32", "bf16" };
    if (test_device()->own_memory) return; // a GPU's products may depend on the number of rows
    for (int i = 0; i < 6; i++) {
        struct fixture f;
        const bool sees = i % 3 < 2;
        open_fixture(&f, models[i % 3], sees ? pictures_json : texts_json);
        counting.download = download;
        f.request.metric = metric_find("exact");
        set(&f, "compute.matmul", modes[i / 3]);
        set(&f, "sample.max_tokens", "1");
        logits = 0;
        const uint64_t in_a_row = logits_of(&f, "1", 0, 0);
        logits = 0;
        if (logits_of(&f, "8", 0, 0) != in_a_row)
            fail_msg("%s, %s: a batch of 8 gives other logits", models[i % 3], modes[i / 3]);
        logits = 0;
        for (int n = 0; n < f.data.count; n++)
            logits_of(&f, "1", n, sees && n == 6 ? 2 : 1); // the dialogue has two questions
        if (logits != in_a_row)
            fail_msg("%s, %s: runs of single samples give other logits", models[i % 3],
                     modes[i / 3]);
        close_fixture(&f);
    }
}

// A limit and kinds select the same samples whatever the batch.
static void limits_and_kinds_choose_the_same_samples(void **state)
{
    static const char *const kinds[] = { "k" };
    struct fixture f;
    open_fixture(&f, "llama-3.2", kinds_json);
    f.request.metric = metric_find("exact");
    f.request.kinds = kinds;
    f.request.kind_count = 1;
    for (f.request.limit = 0; f.request.limit < 4; f.request.limit++)
        compare(&f, "kinds", f.request.limit != 1);
    close_fixture(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_of_families),
        cmocka_unit_test(choices_of_families),
        cmocka_unit_test(texts),
        cmocka_unit_test(answers_cut_by_the_context),
        cmocka_unit_test(methods_run_one_by_one),
        cmocka_unit_test(resumed),
        cmocka_unit_test(limits_and_kinds_choose_the_same_samples),
        cmocka_unit_test(batches_may_begin_at_any_question),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
