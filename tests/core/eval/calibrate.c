// tests/core/eval/calibrate.c -- core/eval/calibrate.c: a sample that fails halfway does not
// change the sums.
#include "tests/core/train/sft.h"

#include "core/methods/calibration.h"

static struct backend device; // the CPU's, with an rmsnorm that fails on request
static int64_t until = -1;    // calls that succeed before one fails; -1: none fails

static int rmsnorm(struct tensor *y, const struct tensor *x, const struct tensor *gain, float eps)
{
    if (until == 0) {
        until = -1;
        return -1;
    }
    if (until > 0) until--;
    return backend_cpu()->rmsnorm(y, x, gain, eps);
}

struct run {
    struct buf log;
    int64_t fails_after; // samples before the failure; -1: none fails
};

static void hear(void *self, const struct event *e)
{
    struct run *r = self;
    if (e->kind == EVENT_NOTICE) buf_printf(&r->log, "%s\n", e->text);
    // The sixth norm of the next sample fails, in the second or third layer: a layer has two, and
    // `phases` computes one more for each layer's logits.
    if (e->kind == EVENT_PROGRESS && (int64_t)e->progress->step == r->fails_after) {
        until = 5;
        r->fails_after = -1;
    }
}

static char *write_questions(const char *name, const int *which, int count)
{
    struct buf b = { 0 };
    char here[1024];
    assert_non_null(getcwd(here, sizeof here));
    for (int i = 0; i < count; i++)
        buf_printf(
            &b,
            "{\"image\": \"%s/tests/goldens/pictures/scene.png\", \"question\": \"What is %d?\", "
            "\"answer\": \"It is.\"}\n",
            here, which[i]);
    scratch_text(scratch, name, b.data);
    buf_release(&b);
    return xasprintf("%s/%s", scratch, name);
}

// Calibrates and returns the log, which the caller frees.
static char *calibrate(const char *kind, const char *data, const char *out, int64_t fails_after)
{
    struct err err = { 0 };
    struct run r = { .fails_after = fails_after };
    struct sinks sinks = { 0 };
    char *argv[] = { (char *)kind, (char *)data, (char *)out };
    sinks_add(&sinks, (struct sink){ .emit = hear, .self = &r });
    struct job job = { .kind = job_kind_find("calibrate"),
                       .argc = 3,
                       .argv = argv,
                       .model = model_load(GOLDEN, &device, NULL, &err),
                       .settings = settings_new(),
                       .backend = &device,
                       .sinks = &sinks,
                       .state = scratch,
                       .answer_lock = -1 };
    if (!job.model || job.kind->run(&job, &err) != 0) fail_msg("%s", err.text);
    model_free(job.model);
    settings_free(job.settings);
    return buf_take(&r.log);
}

static void same_tensors(const char *a, const char *b)
{
    struct err err = { 0 };
    struct safetensors *one = safetensors_open(a, &err), *two = safetensors_open(b, &err);
    if (!one || !two) fail_msg("%s", err.text);
    assert_int_equal(one->count, two->count);
    for (int64_t i = 0; i < one->count; i++) {
        const struct safetensor *x = &one->tensors[i], *y = &two->tensors[i];
        assert_string_equal(x->name, y->name);
        assert_int_equal(x->bytes, y->bytes);
        if (memcmp(x->data, y->data, x->bytes) != 0) fail_msg("%s differs", x->name);
    }
    safetensors_close(one);
    safetensors_close(two);
}

// The result equals that of the other samples alone.
static void test_failed_sample(void **state)
{
    (void)state;
    const struct calibration_kind *kind;
    device = *backend_cpu();
    device.rmsnorm = rmsnorm;
    char *all = write_questions("all.jsonl", (int[]){ 1, 2, 3 }, 3);
    char *others = write_questions("others.jsonl", (int[]){ 1, 3 }, 2);
    for (int i = 0; (kind = calibration_kind_at(i)); i++) {
        char *failed = xasprintf("%s/%s-failed", scratch, kind->name);
        char *without = xasprintf("%s/%s-without", scratch, kind->name);
        char *log = calibrate(kind->name, all, failed, 1);
        assert_non_null(log);
        assert_non_null(strstr(log, "sample #1 is skipped: "));
        free(log);
        free(calibrate(kind->name, others, without, -1));
        same_tensors(failed, without);
        free(failed), free(without);
    }
    free(all), free(others);
}

int main(void)
{
    const struct CMUnitTest tests[] = { IN_SCRATCH(test_failed_sample) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
