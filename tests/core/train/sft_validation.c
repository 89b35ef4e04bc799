// tests/core/train/sft_validation.c -- validation in core/train/sft*.c: the held-out samples,
// the loss, and the choice of the best weights. Also losses of steps, IRA's statistics, and
// training with pruning.
#include "tests/core/train/sft.h"

#include <dirent.h>

#include "core/adapter/adapters.h"
#include "core/base/file_in.h"
#include "core/data/order.h"
#include "core/eval/evaluate.h"
#include "core/metrics/metric.h"
#include "core/train/save.h"
#include "core/train/sft_parts.h"
#include "tests/device.h"

// --- held-out samples ----------------------------------------------------------------------------

// Returns the number of held-out samples of 50 if `wanted` are requested and every `together`
// consecutive samples share a picture.
static int64_t check_split(int64_t together, int64_t wanted)
{
    bool chosen[50];
    int64_t group[50], count = 0;
    for (int64_t i = 0; i < 50; i++) group[i] = i / together;
    const int64_t told = order_split(chosen, group, 50, wanted, 42);
    for (int64_t i = 0; i < 50; i++) {
        count += chosen[i];
        if (i % together) assert_int_equal(chosen[i], chosen[i - 1]);
    }
    assert_int_equal(told, count);
    return count;
}

static void test_split(void **state)
{
    (void)state;
    assert_int_equal(check_split(1, 5), 5);
    assert_int_equal(check_split(1, 49), 49);
    assert_int_equal(check_split(5, 10), 10);
    assert_int_equal(check_split(5, 11), 10);
    assert_int_equal(check_split(5, 13), 15);
    assert_int_equal(check_split(5, 49), 45); // some samples remain for training
    assert_int_equal(check_split(25, 1), 25); // no group is smaller
    assert_int_equal(check_split(50, 5), 0);
}

// Samples whose pictures have the same content, under any name, are all held out or all trained on.
static void test_split_by_picture(void **state)
{
    (void)state;
    enum { SAMPLES = 24, PICTURES = 6 };
    struct err err;
    struct buf b = { 0 };
    struct trial t = { 0 };
    size_t size;
    bool held[PICTURES] = { false };
    char *bytes = file_read("tests/goldens/pictures/tall.jpg", 1 << 24, &size, &err);
    assert_non_null(bytes);
    for (int i = 0; i < 2 * PICTURES; i++) {
        char name[32];
        // Overwrites the NUL that file_read appends, so that PICTURES files differ in their bytes.
        bytes[size] = (char)(i % PICTURES);
        snprintf(name, sizeof name, "%d.jpg", i);
        scratch_write(scratch, name, bytes, size + 1);
    }
    free(bytes);
    for (int i = 0; i < SAMPLES; i++)
        buf_printf(
            &b, "{\"image\": \"%d.jpg\", \"question\": \"What is %d?\", \"answer\": \"It is.\"}\n",
            i % (2 * PICTURES), i);
    scratch_text(scratch, "data.jsonl", b.data);
    buf_release(&b);
    char *data = xasprintf("%s/data.jsonl", scratch);
    struct job job = { .model = model_load(GOLDEN, test_device(), NULL, &err),
                       .settings = settings_new(),
                       .backend = test_device(),
                       .sinks = &t.sinks,
                       .answer_lock = -1 };
    sinks_add(&t.sinks, (struct sink){ .emit = trial_emit, .self = &t });
    settings_set(job.settings, "train.validation", "0.25", &err);
    struct sft run = { .job = &job, .where = job.backend, .options.data = data };
    if (!job.model || sft_data_open(&run, &err) != 0) fail_msg("%s", err.text);
    assert_int_equal(run.validation.count + run.train.count, SAMPLES);
    assert_in_range(run.validation.count, 4, 8);
    assert_non_null(strstr(t.log.data, "; training uses none of their pictures"));
    for (int64_t i = 0; i < run.validation.count; i++)
        held[run.validation.item[i] % PICTURES] = true;
    for (int64_t i = 0; i < run.train.count; i++)
        if (held[run.train.item[i] % PICTURES])
            fail_msg("picture %lld is on both sides", (long long)(run.train.item[i] % PICTURES));
    sft_data_close(&run);
    trial_release(&t);
    // Two samples without pictures: one is held out.
    scratch_text(scratch, "data.jsonl",
                 "{\"question\": \"Why?\", \"answer\": \"So.\"}\n"
                 "{\"question\": \"How?\", \"answer\": \"So.\"}\n");
    run = (struct sft){ .job = &job, .where = job.backend, .options.data = data };
    if (sft_data_open(&run, &err) != 0) fail_msg("%s", err.text);
    assert_non_null(strstr(t.log.data, "1 sample is held out for validation, 1 requested\n"));
    sft_data_close(&run);
    trial_release(&t);
    model_free(job.model);
    settings_free(job.settings);
    free(data);
}

// Two samples linked only by a skipped sample are in two groups.
static void test_left_out_links_nothing(void **state)
{
    (void)state;
    struct err err;
    struct trial t = { 0 };
    size_t size;
    char *bytes = file_read("tests/goldens/pictures/tall.jpg", 1 << 24, &size, &err);
    assert_non_null(bytes);
    scratch_write(scratch, "a.jpg", bytes, size);
    scratch_write(scratch, "b.jpg", bytes, size + 1); // the same picture with other bytes
    free(bytes);
    scratch_text(scratch, "data.jsonl",
                 "{\"image\": \"a.jpg\", \"question\": \"Why?\", \"answer\": \"So.\"}\n"
                 "{\"image\": [\"a.jpg\", \"b.jpg\"], \"question\": \"Why?\", \"answer\": \"\"}\n"
                 "{\"image\": \"b.jpg\", \"question\": \"Why?\", \"answer\": \"So.\"}\n");
    char *data = xasprintf("%s/data.jsonl", scratch);
    struct job job = { .model = model_load(GOLDEN, test_device(), NULL, &err),
                       .settings = settings_new(),
                       .backend = test_device(),
                       .sinks = &t.sinks,
                       .answer_lock = -1 };
    sinks_add(&t.sinks, (struct sink){ .emit = trial_emit, .self = &t });
    struct sft run = { .job = &job, .where = job.backend, .options.data = data };
    if (!job.model || sft_data_open(&run, &err) != 0) fail_msg("%s", err.text);
    assert_non_null(strstr(t.log.data, "every answer is empty"));
    assert_int_equal(run.train.count, 2);
    assert_int_not_equal(run.train.group[0], run.train.group[1]);
    sft_data_close(&run);
    trial_release(&t);
    model_free(job.model);
    settings_free(job.settings);
    free(data);
}

// --- measured values -----------------------------------------------------------------------------

// Returns the loss of /eval on a data file, with the adapter in `out` and these settings (keys and
// values in turn, up to NULL).
static double evaluated_loss(const char *data, const char *out, const char *const *settings)
{
    struct err err = { 0 };
    struct adapter *adapter = NULL;
    struct dataset d;
    struct evaluation e;
    struct settings *s = settings_new();
    struct model *m = model_load(GOLDEN, test_device(), NULL, &err);
    for (; *settings; settings += 2)
        if (settings_set(s, settings[0], settings[1], &err) < 0) fail_msg("%s", err.text);
    if (!m || settings_set(s, "adapter", out, &err) < 0 ||
        adapter_apply_settings(&adapter, m, s, &err) < 0 || dataset_open(&d, data, NULL, &err) < 0)
        fail_msg("%s", err.text);
    const struct evaluate_request request = { .model = m,
                                              .backend = test_device(),
                                              .settings = s,
                                              .tensors = adapter_tensors(adapter),
                                              .data = &d,
                                              .metric = metric_find("loss") };
    if (evaluate_run(&request, &e, &err) < 0) fail_msg("%s", err.text);
    const double loss = evaluation_main(&e)->tally.scores.mean;
    evaluation_release(&e);
    dataset_close(&d);
    adapter_free(adapter);
    model_free(m);
    settings_free(s);
    return loss;
}

// The loss that selects the best weights contains neither the noise nor the penalty of training.
static void test_validation_is_plain(void **state)
{
    (void)state;
    const char *const beside[] = { "ira.on", "on",         "ira.layers", "1-3", "ira.beta",
                                   "10",     "ira.warmup", "0",          NULL };
    const char *const without[] = { "ira.on", "on", "ira.layers", "1-3", "ira.beta", "0", NULL };
    char *data = trial_data(), *out = xasprintf("%s/out", scratch);
    char *held = xasprintf("train.validation=%s", data);
    const char *settings[] = { "train.method=layernorm",
                               "train.ira=on",
                               "train.lr=1e-3",
                               "ira.layers=1-3",
                               "ira.beta=10",
                               "ira.warmup=0",
                               "train.warmup=0",
                               "train.epochs=3",
                               "train.eval_every=100",
                               held,
                               NULL };
    struct trial t = { 0 };
    if (trial_run(&t, GOLDEN, data, out, false, settings) != 0) fail_msg("%s", t.err.text);
    assert_non_null(strstr(t.log.data, "1 of the 1 pictures in"));
    const double told = trial_value(&t, "validation_loss", t.steps);
    const double loss = evaluated_loss(data, out, beside);
    const double plain = evaluated_loss(data, out, without);
    // IRA's statistics per layer. A layer's KL is the mean over the 2 samples that have a picture;
    // the step's KL is the mean over all 8.
    double kl = 0;
    for (int l = 1; l <= 3; l++) {
        char sigma[32], delta[32], gate[32], one[32];
        snprintf(sigma, sizeof sigma, "ira.sigma.%d", l);
        snprintf(delta, sizeof delta, "ira.delta.%d", l);
        snprintf(gate, sizeof gate, "ira.gate.%d", l);
        snprintf(one, sizeof one, "ira.kl.%d", l);
        // Before the first step the heads are untrained.
        assert_true(trial_value(&t, sigma, 0) == 1 && trial_value(&t, delta, 0) == 0);
        assert_true(trial_value(&t, delta, 2) > 0 && trial_value(&t, gate, 0) > 0);
        assert_true(trial_value(&t, gate, 0) <= 1);
        kl += trial_value(&t, one, 2);
    }
    assert_float_equal(kl * 2 / 8, trial_value(&t, "kl", 2), 1e-6 * kl);
    assert_true(loss > 0 && told > 0);
    assert_true(loss == plain);
    assert_float_equal(told, loss, 1e-5 * loss);
    trial_release(&t);
    free(data), free(out), free(held);
}

// If IRA learns nothing, it has collapsed, which the log reports once. A step's loss is the mean
// over its samples, or over its tokens.
static void test_collapse_and_averages(void **state)
{
    (void)state;
    enum { SAMPLES = 8 };
    const char *const collapse[] = { "train.method=layernorm-simple",
                                     "train.lr=0",
                                     "train.ira=on",
                                     "ira.layers=1-3",
                                     "ira.warmup=0",
                                     "train.steps=4",
                                     NULL };
    const char *single[] = { "train.method=layernorm-simple",
                             "train.lr=0",
                             "train.shuffle=off",
                             "train.batch=1",
                             "train.steps=8",
                             "train.loss=tokens",
                             NULL };
    char *data = trial_data(), *out = xasprintf("%s/out", scratch);
    struct trial t = { 0 };
    if (trial_run(&t, GOLDEN, data, out, false, collapse) != 0) fail_msg("%s", t.err.text);
    const char *said = strstr(t.log.data, "IRA has collapsed");
    assert_non_null(said);
    assert_null(strstr(said + 1, "IRA has collapsed"));
    trial_release(&t);
    free(out);

    // With one sample per step, both means equal its loss.
    double of[SAMPLES], samples = 0, tokens = 0, count = 0;
    out = xasprintf("%s/single", scratch);
    if (trial_run(&t, GOLDEN, data, out, false, single) != 0) fail_msg("%s", t.err.text);
    for (int i = 0; i < SAMPLES; i++) of[i] = trial_value(&t, "loss", i);
    trial_release(&t);
    free(out);
    struct err err;
    struct job job = { .model = model_load(GOLDEN, test_device(), NULL, &err),
                       .settings = settings_new(),
                       .backend = test_device(),
                       .sinks = &t.sinks,
                       .answer_lock = -1 };
    struct sft run = { .job = &job, .where = job.backend, .options.data = data };
    if (!job.model || sft_data_open(&run, &err) != 0) fail_msg("%s", err.text);
    for (int i = 0; i < SAMPLES; i++) {
        samples += of[i] / SAMPLES;
        tokens += of[i] * run.train.trained[i];
        count += run.train.trained[i];
    }
    assert_true(fabs(samples - tokens / count) > 1e-3); // the answers differ in length
    sft_data_close(&run);
    model_free(job.model);
    settings_free(job.settings);
    trial_release(&t);
    single[3] = "train.batch=8", single[4] = "train.steps=1";
    for (int by_tokens = 0; by_tokens < 2; by_tokens++) {
        single[5] = by_tokens ? "train.loss=tokens" : "train.loss=samples";
        out = xasprintf("%s/%d", scratch, by_tokens);
        if (trial_run(&t, GOLDEN, data, out, false, single) != 0) fail_msg("%s", t.err.text);
        assert_float_equal(trial_value(&t, "loss", 0), by_tokens ? tokens / count : samples, 1e-4);
        trial_release(&t);
        free(out);
    }
    free(data);
}

// With pruning, the mean loss equals that of /eval with the same settings. Keeping all tokens gives
// the gradient norms of training without pruning, bit for bit; recomputing layers changes
// them by at most one part in a million.
static void test_pruned(void **state)
{
    (void)state;
    enum { SAMPLES = 8 };
    static const char *const pruned[] = { "prune.score", "list",        "prune.tokens",
                                          "0%-50%",      "prune.layer", "1",
                                          NULL };
    static const char *const plain[] = { NULL };
    const char *settings[] = { "train.method=layernorm-simple",
                               "train.lr=0",
                               "train.shuffle=off",
                               "train.batch=1",
                               "train.steps=8",
                               "train.prune=on",
                               "prune.score=list",
                               "prune.tokens=0%-50%",
                               "prune.layer=1",
                               NULL };
    char *data = trial_data(), *out = xasprintf("%s/out", scratch);
    struct trial t = { 0 };
    double mean = 0;
    if (trial_run(&t, GOLDEN, data, out, false, settings) != 0) fail_msg("%s", t.err.text);
    for (int i = 0; i < SAMPLES; i++) mean += trial_value(&t, "loss", i) / SAMPLES;
    const double loss = evaluated_loss(data, out, pruned);
    assert_float_equal(mean, loss, 1e-5 * loss);
    assert_true(fabs(evaluated_loss(data, out, plain) - loss) > 1e-4 * loss);
    trial_release(&t);
    free(out);

    double norms[4][SAMPLES];
    settings[1] = "train.lr=1e-3", settings[7] = "prune.score=contribution";
    // 0: no pruning; 1: keeps all tokens; 2, 3: keeps a quarter, without and with recomputation.
    for (int run = 0; run < 4; run++) {
        settings[5] = run ? "train.prune=on" : "train.prune=off";
        settings[6] = run < 2 ? "prune.keep=1" : "prune.keep=0.25";
        settings[3] = run == 2 ? "train.checkpointing=off" : "train.checkpointing=on";
        settings[4] = "train.batch=1";
        out = xasprintf("%s/%d", scratch, run);
        if (trial_run(&t, GOLDEN, data, out, false, settings) != 0) fail_msg("%s", t.err.text);
        for (int i = 0; i < SAMPLES; i++) norms[run][i] = trial_value(&t, "grad_norm", i);
        trial_release(&t);
        free(out);
    }
    for (int i = 0; i < SAMPLES; i++) {
        assert_true(norms[0][i] > 0 && norms[0][i] == norms[1][i]);
        assert_float_equal(norms[2][i], norms[3][i], 1e-6 * norms[2][i]);
    }
    assert_true(norms[1][0] != norms[2][0]); // the first sample has a picture
    free(data);
}

// --- the best weights ----------------------------------------------------------------------------

// The step and loss reported as best agree with the curve of validation losses; a resumed run
// reports the checkpoint's validation again.
static void test_best_step(void **state)
{
    (void)state;
    char *data = trial_data(), *out = xasprintf("%s/out", scratch);
    struct trial t = { .pause_after = 4 };
    assert_int_equal(trial_run(&t, GOLDEN, data, out, false, trial_settings), JOB_STOPPED);
    assert_false(isnan(trial_value(&t, "validation_loss", 4)));
    const double before = trial_value(&t, "validation_loss", 4);
    trial_release(&t);
    t.pause_after = 0;
    if (trial_run(&t, GOLDEN, data, out, true, trial_settings) != 0) fail_msg("%s", t.err.text);
    assert_true(trial_value(&t, "validation_loss", 4) == before);
    const char *best = strstr(t.results.data, "best step: ");
    const char *loss = strstr(t.results.data, "validation loss: ");
    assert_non_null(best);
    assert_non_null(loss);
    const double told = trial_value(&t, "validation_loss", strtoll(best + 11, NULL, 10));
    assert_float_equal(told, strtod(loss + 17, NULL), 1e-5 * told);
    trial_release(&t);
    free(data), free(out);
}

// Counts the files of `folder` whose names begin with `prefix` and that hold exactly these bytes
// (NULL: any).
static int count_files(const char *folder, const char *prefix, const char *bytes, size_t size)
{
    int count = 0;
    DIR *d = opendir(folder);
    for (struct dirent *e; d && (e = readdir(d));) {
        size_t n;
        if (strncmp(e->d_name, prefix, strlen(prefix)) != 0) continue;
        char *path = xasprintf("%s/%s", folder, e->d_name);
        char *has = file_read(path, 1u << 30, &n, NULL);
        count += !bytes || (has && n == size && !memcmp(has, bytes, n));
        free(has);
        free(path);
    }
    if (d) closedir(d);
    return count;
}

static char *find_best(const char *out, size_t *size)
{
    char *found = NULL;
    DIR *d = opendir(out);
    for (struct dirent *e; d && !found && (e = readdir(d));) {
        char *path = xasprintf("%s/%s", out, e->d_name);
        if (!strncmp(e->d_name, "best", 4)) found = file_read(path, 1u << 30, size, NULL);
        free(path);
    }
    if (d) closedir(d);
    return found;
}

// Steps after the last checkpoint validate better and are lost: the best weights to which the
// checkpoint refers still exist, and those of the lost steps are removed.
static void test_best_of_lost_steps(void **state)
{
    (void)state;
    const char *settings[] = { "train.method=all",
                               "train.lr=1e-3",
                               "train.batch=2",
                               "train.steps=8",
                               "train.save_every=100",
                               "train.seed=7",
                               "train.eval_every=2",
                               "train.validation=0.25",
                               "train.warmup=0",
                               "train.shuffle=off",
                               NULL };
    char *data = trial_data(), *out = xasprintf("%s/out", scratch);
    struct trial t = { .pause_after = 2 };
    size_t size = 0, later_size = 0;
    assert_int_equal(trial_run(&t, GOLDEN, data, out, false, settings), JOB_STOPPED);
    trial_release(&t);
    char *best = find_best(out, &size);
    assert_non_null(best);
    t.pause_after = 0;
    t.cancel_after = 4; // like a crash: nothing is saved
    assert_int_equal(trial_run(&t, GOLDEN, data, out, true, settings), JOB_STOPPED);
    trial_release(&t);
    assert_int_equal(save_newest(out), 2);
    assert_int_equal(count_files(out, "best", best, size), 1);
    t.cancel_after = 0;
    t.pause_after = 1; // pauses before another validation
    assert_int_equal(trial_run(&t, GOLDEN, data, out, true, settings), JOB_STOPPED);
    trial_release(&t);
    char *later = find_best(out, &later_size);
    assert_int_equal(later_size, size);
    assert_memory_equal(later, best, size);
    t.pause_after = 0;
    assert_int_equal(trial_run(&t, GOLDEN, data, out, true, settings), 0);
    trial_release(&t);
    assert_int_equal(count_files(out, "best", NULL, 0), 0);
    free(best), free(later);
    free(data), free(out);
}

static void flip_best(const char *out)
{
    DIR *d = opendir(out);
    for (struct dirent *e; d && (e = readdir(d));) {
        char byte, *path = xasprintf("%s/%s", out, e->d_name);
        FILE *f = strncmp(e->d_name, "best", 4) ? NULL : fopen(path, "r+b");
        if (f) {
            assert_int_equal(fseek(f, -100, SEEK_END), 0);
            assert_int_equal(fread(&byte, 1, 1, f), 1);
            byte ^= 4;
            assert_int_equal(fseek(f, -100, SEEK_END), 0);
            assert_int_equal(fwrite(&byte, 1, 1, f), 1);
            fclose(f);
        }
        free(path);
    }
    if (d) closedir(d);
}

// Damaged weights of the best validation are not used: the run reports the damage and continues to
// search for the best weights.
static void test_damaged_best(void **state)
{
    (void)state;
    char *data = trial_data(), *out = xasprintf("%s/out", scratch);
    struct trial t = { .pause_after = 4 };
    struct err err;
    assert_int_equal(trial_run(&t, GOLDEN, data, out, false, trial_settings), JOB_STOPPED);
    assert_int_equal(count_files(out, "best", NULL, 0), 1);
    int64_t best = 0;
    while (save_best_check(out, best, &err) < 0) assert_true(best++ < 4);
    trial_release(&t);
    flip_best(out);
    assert_int_equal(save_best_check(out, best, &err), -1);
    assert_non_null(strstr(err.text, "is damaged: its content differs from what was written"));
    t.pause_after = 0;
    if (trial_run(&t, GOLDEN, data, out, true, trial_settings) != 0) fail_msg("%s", t.err.text);
    assert_non_null(strstr(t.log.data, "are lost ("));
    assert_non_null(strstr(t.log.data, "is damaged: its content"));
    trial_release(&t);
    free(data), free(out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_SCRATCH(test_split),
        IN_SCRATCH(test_split_by_picture),
        IN_SCRATCH(test_left_out_links_nothing),
        IN_SCRATCH(test_validation_is_plain),
        IN_SCRATCH(test_collapse_and_averages),
        IN_SCRATCH(test_pruned),
        IN_SCRATCH(test_best_step),
        IN_SCRATCH(test_best_of_lost_steps),
        IN_SCRATCH(test_damaged_best),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
