// tests/core/train/checkpoints.c -- core/train/save.c: kept checkpoints can be used like results,
// and a run or a sweep resumes only with the files it started with; damaged checkpoints.
#include "tests/core/train/sft.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "core/adapter/adapter.h"
#include "core/adapter/adapter_entry.h"
#include "core/base/dtype.h"
#include "core/base/file_in.h"

#define ADAPTER "tests/goldens/llava-1.5/adapters/lora"

static char *in(const char *name)
{
    return xasprintf("%s/%s", scratch, name);
}

static void write_samples(const char *name, int first, int count)
{
    struct buf b = { 0 };
    for (int i = first; i < first + count; i++)
        buf_printf(&b, "{\"question\": \"What is %d?\", \"answer\": \"It is %d.\"}\n", i, i * i);
    scratch_text(scratch, name, b.data);
    buf_release(&b);
}

static char *names_of(const char *folder)
{
    struct dirent **list;
    struct buf b = { 0 };
    const int n = scandir(folder, &list, NULL, alphasort);
    for (int i = 0; i < n; i++) {
        if (list[i]->d_name[0] != '.') buf_printf(&b, "%s ", list[i]->d_name);
        free(list[i]);
    }
    if (n >= 0) free(list);
    return buf_take(&b);
}

static void expect_names(const char *folder, const char *want)
{
    char *path = in(folder), *names = names_of(path);
    assert_string_equal(names, want);
    free(names);
    free(path);
}

static void train(const char *out, bool resume, int64_t pause, const char *const *settings,
                  int want, const char *message)
{
    struct trial t = { .pause_after = pause };
    char *data = in("data.jsonl"), *path = in(out);
    const int status = trial_run(&t, GOLDEN, data, path, resume, settings);
    if (status != want) fail_msg("%d: %s", status, status < 0 ? t.err.text : "no failure");
    if (message && !strstr(t.err.text, message)) fail_msg("%s", t.err.text);
    trial_release(&t);
    free(data);
    free(path);
}

static struct safetensors *open_file(const char *name)
{
    struct err err;
    char *path = in(name);
    struct safetensors *f = safetensors_open(path, &err);
    if (!f) fail_msg("%s", err.text);
    free(path);
    return f;
}

// The masters in the state equal the tensors of the adapter.
static void compare_adapter(const struct adapter *a, const char *state)
{
    struct safetensors *f = open_file(state);
    assert_true(a->count >= 8);
    for (size_t i = 0; i < a->count; i++) {
        char *name = xasprintf("w.%s", a->list[i].name);
        const struct safetensor *t = safetensors_find(f, name);
        if (!t) fail_msg("no %s", name);
        assert_int_equal(t->bytes, tensor_bytes(&a->list[i].tensor));
        assert_memory_equal(t->data, a->list[i].tensor.data, t->bytes);
        free(name);
    }
    safetensors_close(f);
}

static void test_adapter(void **state)
{
    (void)state;
    static const char *const settings[] = { "train.method=layernorm-simple",
                                            "train.lr=1e-2",
                                            "train.batch=2",
                                            "train.steps=4",
                                            "train.save_every=1",
                                            "train.keep=3",
                                            NULL };
    struct err err;
    write_samples("data.jsonl", 0, 6);
    train("out", false, 0, settings, 0, NULL);
    expect_names("out", "adapter_config.json adapter_model.safetensors checkpoint-2 checkpoint-3 "
                        "checkpoint-4 training.json ");
    expect_names("out/checkpoint-3",
                 "adapter_config.json adapter_model.safetensors state.safetensors ");
    struct model *m = model_load(GOLDEN, backend_cpu(), NULL, &err);
    for (int step = 2; step <= 4; step++) {
        char name[64];
        snprintf(name, sizeof name, "out/checkpoint-%d", step);
        char *folder = in(name);
        struct adapter *a = adapter_read(folder, m, &err);
        if (!a) fail_msg("%s", err.text);
        snprintf(name, sizeof name, "out/checkpoint-%d/state.safetensors", step);
        compare_adapter(a, name);
        adapter_free(a);
        free(folder);
    }
    model_free(m);
}

// The tensors of the model are the masters in the state, rounded to the file's type.
static void compare_model(const char *model, const char *state)
{
    struct safetensors *m = open_file(model), *f = open_file(state);
    int vectors = 0, matrices = 0;
    for (int64_t i = 0; i < f->count; i++) {
        const struct safetensor *master = &f->tensors[i];
        if (strncmp(master->name, "w.", 2) != 0) continue;
        const struct safetensor *t = safetensors_find(m, master->name + 2);
        if (!t) fail_msg("no %s", master->name + 2);
        const size_t n = master->bytes / sizeof(float);
        void *rounded = xmalloc(t->bytes);
        assert_int_equal(t->bytes, n * dtype_size(t->dtype));
        floats_to(rounded, t->dtype, master->data, n);
        if (memcmp(rounded, t->data, t->bytes) != 0) fail_msg("%s differs", master->name);
        *(t->rank > 1 ? &matrices : &vectors) += 1;
        free(rounded);
    }
    assert_true(vectors >= 8 && matrices >= 24);
    safetensors_close(m), safetensors_close(f);
}

static void test_model(void **state)
{
    (void)state;
    static const char *const settings[] = { "train.method=all",
                                            "train.lr=1e-3",
                                            "train.batch=2",
                                            "train.steps=3",
                                            "train.save_every=2",
                                            "train.keep=2",
                                            NULL };
    struct err err;
    write_samples("data.jsonl", 0, 6);
    train("out", false, 0, settings, 0, NULL);
    char *folder = in("out/checkpoint-2");
    struct model *m = model_load(folder, backend_cpu(), NULL, &err);
    if (!m) fail_msg("%s", err.text);
    model_free(m);
    free(folder);
    compare_model("out/checkpoint-2/model.safetensors", "out/checkpoint-2/state.safetensors");
    // The last checkpoint is the result, because nothing was validated.
    struct safetensors *a = open_file("out/checkpoint-3/model.safetensors");
    struct safetensors *b = open_file("out/model.safetensors");
    struct safetensors *c = open_file("out/checkpoint-2/model.safetensors");
    int64_t same = 0;
    assert_int_equal(a->count, b->count);
    for (int64_t i = 0; i < a->count; i++) {
        const struct safetensor *x = &a->tensors[i];
        assert_memory_equal(x->data, safetensors_find(b, x->name)->data, x->bytes);
        same += !memcmp(x->data, safetensors_find(c, x->name)->data, x->bytes);
    }
    assert_true(a->count - same > 30); // only the decoder's differ: no sample has a picture
    safetensors_close(a), safetensors_close(b), safetensors_close(c);
}

// Without train.keep, a checkpoint has only the state, and the refusal to load it says why.
static void test_not_kept(void **state)
{
    (void)state;
    static const char *const settings[] = { "train.method=layernorm-simple", "train.steps=4",
                                            "train.save_every=1", NULL };
    struct err err;
    write_samples("data.jsonl", 0, 6);
    train("out", false, 2, settings, JOB_STOPPED, NULL);
    expect_names("out/checkpoint-2", "state.safetensors ");
    struct model *m = model_load(GOLDEN, backend_cpu(), NULL, &err);
    char *folder = in("out/checkpoint-2"), *part = in("out/checkpoint-3.part");
    assert_null(adapter_read(folder, m, &err));
    assert_non_null(strstr(err.text, "train.keep"));
    // The next run removes what a run killed while writing has left.
    char *deep = in("out/checkpoint-3.part/config.json.part");
    assert_int_equal(mkdir(part, 0777) + mkdir(deep, 0777), 0);
    train("out", true, 0, settings, 0, NULL);
    expect_names("out", "adapter_config.json adapter_model.safetensors training.json ");
    model_free(m);
    free(folder), free(part), free(deep);
}

// A damaged or empty checkpoint stops a resumed run; without that checkpoint's folder, the run
// continues from the one before it.
static void test_damaged(void **state)
{
    (void)state;
    static const char *const settings[] = { "train.method=layernorm-simple", "train.steps=4",
                                            "train.save_every=1", "train.keep=3", NULL };
    write_samples("data.jsonl", 0, 6);
    train("out", false, 2, settings, JOB_STOPPED, NULL);
    char *newest = in("out/checkpoint-2");
    // One bit of the state is flipped.
    char *file = in("out/checkpoint-2/state.safetensors");
    const int fd = open(file, O_RDWR);
    struct stat st;
    char byte;
    assert_true(fd >= 0 && fstat(fd, &st) == 0);
    const off_t at = st.st_size - 4096;
    assert_true(at > 0 && pread(fd, &byte, 1, at) == 1);
    byte ^= 1;
    assert_true(pwrite(fd, &byte, 1, at) == 1);
    close(fd);
    train("out", true, 0, settings, -1, "is damaged: its content differs from what was written");
    train("out", true, 0, settings, -1, "the run continues from the checkpoint before it");
    free(file);
    scratch_text(newest, "state.safetensors", "");
    train("out", true, 0, settings, -1, "out/checkpoint-2' the run continues from the checkpoint");
    scratch_remove(newest);
    train("out", true, 0, settings, 0, NULL);
    // Without train.keep there is only one checkpoint.
    static const char *const plain[] = { "train.method=layernorm-simple", "train.steps=4",
                                         "train.save_every=1", NULL };
    train("single", false, 2, plain, JOB_STOPPED, NULL);
    char *only = in("single/checkpoint-2");
    scratch_text(only, "state.safetensors", "");
    train("single", true, 0, plain, -1, "is empty; without the folder");
    train("single", true, 0, plain, -1, "starts again");
    free(only);
}

// If a run is killed after writing its record, the next run removes the files that are no longer
// needed.
static void test_tidy(void **state)
{
    (void)state;
    static const char *const settings[] = { "train.method=layernorm-simple", "train.steps=2",
                                            "train.save_every=1", NULL };
    write_samples("data.jsonl", 0, 6);
    train("out", false, 0, settings, 0, NULL);
    char *out = in("out"), *checkpoint = in("out/checkpoint-2");
    scratch_text(out, "best.safetensors", "of the best validation");
    scratch_text(checkpoint, "state.safetensors", "to resume from");
    scratch_text(out, "best-2.safetensors", "of the best validation");
    scratch_text(out, "best-1.safetensors.part-Ab3dEf", "half of one");
    // Files with similar names belong to the user.
    scratch_text(out, "best-model.safetensors", "a model");
    scratch_text(out, "best-2.safetensors.backup", "a copy");
    scratch_text(out, "bestiary.safetensors", "of beasts");
    train("out", true, 0, settings, 0, NULL);
    expect_names("out", "adapter_config.json adapter_model.safetensors best-2.safetensors.backup "
                        "best-model.safetensors bestiary.safetensors training.json ");
    free(out), free(checkpoint);
}

// Resuming a finished run removes nothing, even if train.keep has changed.
static void test_keeps_its_own(void **state)
{
    (void)state;
    static const char *const settings[] = { "train.method=layernorm-simple", "train.steps=3",
                                            "train.save_every=1", "train.keep=2", NULL };
    static const char *const plain[] = { "train.method=layernorm-simple", "train.steps=3", NULL };
    static const char *const now[] = { "train.method=layernorm-simple", "train.steps=3",
                                       "train.keep=1", NULL };
    static const char names[] = "adapter_config.json adapter_model.safetensors checkpoint-2 "
                                "checkpoint-3 training.json ";
    write_samples("data.jsonl", 0, 6);
    train("out", false, 0, settings, 0, NULL);
    expect_names("out", names);
    train("out", true, 0, plain, 0, NULL); // with train.keep at its default
    expect_names("out", names);
    train("out", true, 0, now, 0, NULL);
    expect_names("out", names);
}

// `auto` counts as the value that it resolves to on the device: a run resumes with that value
// spelled out, but not with a different one.
static void test_meaning(void **state)
{
    (void)state;
    // The model's weights are f16: the CPU computes in f32, and some CPUs support nothing else.
    const struct backend *b = test_device();
    const char *const is = b->own_memory ? "bf16" : "f32";
    const char *const other = b->own_memory ? "f32" : "bf16";
    char *same = xasprintf("compute.matmul=%s", is),
         *differs = xasprintf("compute.matmul=%s", other);
    const char *settings[] = { "train.method=layernorm-simple", "train.steps=3", "train.batch=2",
                               "compute.matmul=auto", NULL };
    write_samples("data.jsonl", 0, 6);
    train("out", false, 1, settings, JOB_STOPPED, NULL);
    settings[3] = differs;
    if (test_multiplies_bf16("that another arithmetic is refused"))
        train("out", true, 0, settings, -1, "the run started with compute.matmul=");
    settings[3] = "sample.max_tokens=3"; // affects generated answers in a validation
    train("out", true, 0, settings, -1, "the run started with sample.max_tokens=");
    settings[3] = "sample.seed=7"; // answers in a validation are greedy
    train("out", true, 1, settings, JOB_STOPPED, NULL);
    settings[3] = same;
    train("out", true, 0, settings, 0, NULL);
    free(same), free(differs);
}

static char *copy_adapter(void)
{
    char *folder = in("lora");
    mkdir(folder, 0777);
    scratch_copy(folder, ADAPTER, "adapter_config.json");
    scratch_copy(folder, ADAPTER, "adapter_model.safetensors");
    return folder;
}

static void test_changed_validation(void **state)
{
    (void)state;
    char *held = in("held.jsonl"), *setting = xasprintf("train.validation=%s", held);
    const char *const settings[] = { "train.method=layernorm-simple",
                                     "train.steps=4",
                                     "train.batch=2",
                                     "train.eval_every=1",
                                     setting,
                                     NULL };
    write_samples("data.jsonl", 0, 6);
    write_samples("held.jsonl", 6, 2);
    train("out", false, 2, settings, JOB_STOPPED, NULL);
    write_samples("held.jsonl", 7, 2); // equally many samples of the same length
    train("out", true, 0, settings, -1, "the data file of train.validation has changed");
    write_samples("held.jsonl", 6, 2);
    train("out", true, 0, settings, 0, NULL);
    train("other", false, 0, settings, 0, NULL);
    write_samples("data.jsonl", 0, 6);
    unlink(held);
    train("lost", false, 0, settings, -1, "held.jsonl");
    free(held), free(setting);
}

static void test_changed_adapter(void **state)
{
    (void)state;
    char *adapter = copy_adapter(), *setting = xasprintf("adapter=%s", adapter);
    const char *const settings[] = { "train.params=*layernorm*", "train.steps=3", "train.batch=2",
                                     setting, NULL };
    write_samples("data.jsonl", 0, 6);
    train("out", false, 1, settings, JOB_STOPPED, NULL);
    // One byte of a weight changes.
    size_t size;
    char *path = in("lora/adapter_model.safetensors");
    char *bytes = file_read(path, 1 << 28, &size, NULL);
    bytes[size - 1] ^= 1;
    scratch_write(adapter, "adapter_model.safetensors", bytes, size);
    train("out", true, 0, settings, -1, "the adapter (setting adapter) has changed");
    bytes[size - 1] ^= 1;
    scratch_write(adapter, "adapter_model.safetensors", bytes, size);
    train("out", true, 0, settings, 0, NULL);
    free(bytes), free(path), free(adapter), free(setting);
}

// A finished run does not count as the result of another request.
static void test_finished_otherwise(void **state)
{
    (void)state;
    const char *settings[] = { "train.method=layernorm-simple", "train.steps=3", NULL };
    write_samples("data.jsonl", 0, 6);
    train("out", false, 0, settings, 0, NULL);
    settings[1] = "train.steps=4";
    train("out", true, 0, settings, -1,
          "out' holds a finished training run: the run started with train.steps=3, but now it is "
          "train.steps=4: restore it");
    settings[1] = "train.steps=3";
    write_samples("data.jsonl", 1, 6);
    train("out", true, 0, settings, -1, "the data file has changed");
    write_samples("data.jsonl", 0, 6);
    train("out", true, 0, settings, 0, NULL);
}

static void write_picture(const char *name, int shade)
{
    struct buf b = { 0 };
    buf_printf(&b, "P6\n2 2\n255\n");
    for (int i = 0; i < 12; i++) buf_putc(&b, (char)(100 + (i == 7 ? shade : 0)));
    scratch_text(scratch, name, b.data);
    buf_release(&b);
}

static void write_picture_samples(void)
{
    scratch_text(scratch, "data.jsonl",
                 "{\"image\": \"a.ppm\", \"question\": \"What?\", \"answer\": \"Grey.\"}\n"
                 "{\"image\": \"b.ppm\", \"question\": \"What?\", \"answer\": \"Grey.\"}\n");
    write_picture("a.ppm", 0);
    write_picture("b.ppm", 2);
}

// A run does not resume if a picture has changed, even at the same size, or is missing.
static void test_changed_picture(void **state)
{
    (void)state;
    const char *const settings[] = { "train.method=layernorm-simple", "train.steps=3", NULL };
    char *lost = in("b.ppm");
    write_picture_samples();
    train("out", false, 1, settings, JOB_STOPPED, NULL);
    write_picture("a.ppm", 1);
    train("out", true, 0, settings, -1, "a picture of the data has changed");
    write_picture("a.ppm", 0);
    unlink(lost);
    train("out", true, 0, settings, -1,
          "the set of usable samples has changed since the run started");
    write_picture("b.ppm", 2);
    train("out", true, 0, settings, 0, NULL);
    free(lost);
}

// --- sweeps --------------------------------------------------------------------------------------

static void sweep(const char *values, const char *pause, const char *const *settings, int want,
                  const char *message)
{
    struct trial t = { .pause_said = pause, .sweep = values };
    char *data = in("data.jsonl"), *path = in("sweep");
    const int status = trial_run(&t, GOLDEN, data, path, true, settings);
    if (status != want) fail_msg("%d: %s", status, status < 0 ? t.err.text : "no failure");
    if (message && !strstr(t.err.text, message)) fail_msg("%s", t.err.text);
    trial_release(&t);
    free(data);
    free(path);
}

// A change after the first value was trained stops the sweep; it does not count as a failure of
// that value.
static void test_sweep(void **state)
{
    (void)state;
    const char *settings[] = { "train.method=layernorm-simple", "train.steps=3",
                               "train.validation=0.5", NULL };
    char *lost = in("b.ppm");
    write_picture_samples();
    sweep("1e-3,1e-4", "train.lr 0.001: ", settings, JOB_STOPPED, NULL); // after the first value
    settings[1] = "train.steps=4";
    sweep("1e-3,1e-4", NULL, settings, -1, "sweep': the run started with train.steps=3");
    settings[1] = "train.steps=3";
    sweep("1e-3,1e-5", NULL, settings, -1, "it started with 1e-3,1e-4, but now it is 1e-3,1e-5");
    write_picture("a.ppm", 1);
    sweep("1e-3,1e-4", NULL, settings, -1, "is missing or differs from the previous runs");
    write_picture("a.ppm", 0);
    unlink(lost);
    sweep("1e-3,1e-4", NULL, settings, -1, "a picture of the data is missing");
    write_picture("b.ppm", 2);
    sweep("1e-3,1e-4", NULL, settings, 0, NULL);
    sweep("1e-3,1e-4", NULL, settings, 0, NULL);
    write_samples("data.jsonl", 0, 6);
    sweep("1e-3,1e-4", NULL, settings, -1, "the data file has changed");
    free(lost);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_SCRATCH(test_adapter),         IN_SCRATCH(test_model),
        IN_SCRATCH(test_not_kept),        IN_SCRATCH(test_changed_validation),
        IN_SCRATCH(test_changed_adapter), IN_SCRATCH(test_meaning),
        IN_SCRATCH(test_damaged),         IN_SCRATCH(test_tidy),
        IN_SCRATCH(test_keeps_its_own),   IN_SCRATCH(test_finished_otherwise),
        IN_SCRATCH(test_changed_picture), IN_SCRATCH(test_sweep),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
