// tests/core/train/sft.h -- a training job without the rest of the program: data, settings, and the
// job's reports.
#ifndef TESTS_CORE_TRAIN_SFT_H
#define TESTS_CORE_TRAIN_SFT_H

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
// needs the headers above
#include <cmocka.h>

#include "core/base/file_in.h"
#include "core/base/json.h"
#include "core/files/safetensors.h"
#include "core/jobs/job.h"
#include "core/model/model.h"
#include "core/settings/settings.h"
#include "core/train/run_folder.h"
#include "tests/core/scratch.h"
#include "tests/device.h"

#define GOLDEN "tests/goldens/llava-1.5"

enum { TOLD_MAX = 4096 };

static char *scratch; // folder of the running test

static inline int open_scratch(void **state)
{
    scratch = scratch_new();
    return 0;
}

static inline int close_scratch(void **state)
{
    scratch_remove(scratch);
    return 0;
}

#define IN_SCRATCH(test) cmocka_unit_test_setup_teardown(test, open_scratch, close_scratch)

struct told {
    char *series;
    int64_t step;
    double value;
};

// One run and its results.
struct trial {
    struct job job;
    struct sinks sinks;
    struct told told[TOLD_MAX];
    int told_count;
    struct buf log;
    struct buf results;                // "key: value" lines
    int64_t pause_after, cancel_after; // steps; 0: never
    atomic_int looks;                  // how often the job checked for cancellation
    int cancel_at;                     // check at which it is cancelled; 0: none
    int64_t steps;                     // reported steps
    const char *pause_said;            // pause at this log message; NULL: never
    const char *sweep; // values of train.lr: the job is a sweep; NULL: a training run
    struct err err;
};

// A process killed after the record that the run is done never repeats its results.
static inline void check_not_recorded(const struct trial *t)
{
    struct err err;
    cJSON *record = run_folder_read(t->job.argv[t->job.argc - 1], &err);
    assert_string_equal(cJSON_GetStringValue(json_get(record, "state")), "running");
    cJSON_Delete(record);
}

static inline void trial_emit(void *self, const struct event *e)
{
    struct trial *t = self;
    if (e->kind == EVENT_RESULT) check_not_recorded(t);
    if (e->kind == EVENT_NOTICE) buf_printf(&t->log, "%s\n", e->text);
    if (e->kind == EVENT_RESULT) buf_printf(&t->results, "%s: %s\n", e->key, e->value);
    if (e->kind == EVENT_STEP) t->steps = e->count + 1;
    if (e->kind != EVENT_METRIC || t->told_count == TOLD_MAX) return;
    t->told[t->told_count++] = (struct told){ xstrdup(e->key), e->count, e->real };
}

static inline enum job_stop trial_stop_reason(struct job *j)
{
    const struct trial *t = j->runner;
    if (t->pause_said && t->log.data && strstr(t->log.data, t->pause_said)) return JOB_PAUSE;
    if (t->pause_after && t->steps >= t->pause_after) return JOB_PAUSE;
    return t->cancel_after && t->steps >= t->cancel_after ? JOB_CANCEL : JOB_GO;
}

static inline void trial_poll(struct job *j)
{
    struct trial *t = j->runner;
    if (atomic_fetch_add(&t->looks, 1) + 1 == t->cancel_at) atomic_store(&j->cancel, true);
}

// Runs the job on a fresh copy of the model; settings are "key=value" pairs up to NULL.
static inline int trial_run(struct trial *t, const char *model, const char *data, const char *out,
                            bool resume, const char *const *settings)
{
    struct err err;
    char *argv[] = { (char *)"train.lr", (char *)t->sweep, (char *)data, (char *)out };
    *t = (struct trial){ .pause_after = t->pause_after,
                         .cancel_after = t->cancel_after,
                         .cancel_at = t->cancel_at,
                         .pause_said = t->pause_said,
                         .sweep = t->sweep };
    sinks_add(&t->sinks, (struct sink){ .emit = trial_emit, .self = t });
    t->job = (struct job){ .kind = job_kind_find(t->sweep ? "sweep" : "train"),
                           .argc = t->sweep ? 4 : 2,
                           .argv = t->sweep ? argv : argv + 2,
                           .model = model_load(model, test_device(), NULL, &err),
                           .settings = settings_new(),
                           .backend = test_device(),
                           .sinks = &t->sinks,
                           .resumed = resume,
                           .stop_reason = trial_stop_reason,
                           .poll = trial_poll,
                           .runner = t,
                           .answer_lock = -1 };
    if (!t->job.model) fail_msg("%s", err.text);
    for (; *settings; settings++) {
        char *key = xstrdup(*settings), *equals = strchr(key, '=');
        *equals = 0;
        if (settings_set(t->job.settings, key, equals + 1, &err) < 0) fail_msg("%s", err.text);
        free(key);
    }
    int status = t->job.kind->run(&t->job, &t->err);
    model_free(t->job.model);
    settings_free(t->job.settings);
    return status;
}

static inline void trial_release(struct trial *t)
{
    for (int i = 0; i < t->told_count; i++) free(t->told[i].series);
    buf_release(&t->log);
    buf_release(&t->results);
    t->told_count = 0;
}

// The reported value of a series at a step; NaN if none was reported.
static inline double trial_value(const struct trial *t, const char *series, int64_t step)
{
    for (int i = 0; i < t->told_count; i++)
        if (t->told[i].step == step && !strcmp(t->told[i].series, series)) return t->told[i].value;
    return NAN;
}

// Writes the two training samples of the golden model to FOLDER/golden.json. The caller frees the
// path.
static inline char *trial_golden_data(const char *folder)
{
    struct err err;
    cJSON *json = json_read("build/goldens/llava-1.5/golden.json", 1 << 24, &err),
          *list = cJSON_CreateArray();
    char here[1024], *path = xasprintf("%s/golden.json", folder);
    if (!json || !getcwd(here, sizeof here)) fail_msg("%s", err.text);
    for (char which = 'a'; which <= 'b'; which++) {
        const cJSON *chat;
        char name[] = { 't', 'r', 'a', 'i', 'n', '_', which, 0 };
        cJSON_ArrayForEach(chat, json_get(json, "chat"))
        {
            if (strcmp(json_get(chat, "name")->valuestring, name) != 0) continue;
            cJSON *sample = cJSON_CreateObject();
            cJSON_AddStringToObject(sample, "id", name);
            cJSON *messages = cJSON_Duplicate(json_get(chat, "messages"), true), *m, *part;
            cJSON_ArrayForEach(m, messages) cJSON_ArrayForEach(part, json_get(m, "content"))
            {
                const cJSON *picture = json_get(part, "picture");
                if (!picture) continue;
                char file[1280];
                snprintf(file, sizeof file, "%s/tests/goldens/pictures/%s.%s", here,
                         picture->valuestring,
                         strcmp(picture->valuestring, "tall") ? "png" : "jpg");
                cJSON_AddStringToObject(part, "path", file);
            }
            cJSON_AddItemToObject(sample, "messages", messages);
            cJSON_AddItemToArray(list, sample);
        }
    }
    char *text = cJSON_Print(list);
    scratch_text(folder, "golden.json", text);
    cJSON_free(text);
    cJSON_Delete(list);
    cJSON_Delete(json);
    return path;
}

// Writes eight short samples, the first two with the same picture. The caller frees the path.
static inline char *trial_data(void)
{
    struct buf b = { 0 };
    for (int i = 0; i < 8; i++)
        buf_printf(&b,
                   "{\"id\": \"s%d\", %s\"conversations\": [{\"from\": \"human\", \"value\": "
                   "\"%sWhat is %d and %d?\"}, {\"from\": \"gpt\", \"value\": \"It is %d%s.\"}]}\n",
                   i, i < 2 ? "\"image\": \"p.png\", " : "", i < 2 ? "<image>\\n" : "", i, i * i,
                   i + i * i, i % 3 ? "" : ", as everybody knows");
    scratch_text(scratch, "data.jsonl", b.data);
    buf_release(&b);
    size_t size;
    char *bytes = file_read("tests/goldens/pictures/tall.jpg", 1 << 24, &size, NULL);
    assert_non_null(bytes);
    scratch_write(scratch, "p.png", bytes, size);
    free(bytes);
    return xasprintf("%s/data.jsonl", scratch);
}

static const char *const trial_settings[] __attribute__((unused)) = { "train.method=all",
                                                                      "train.lr=1e-3",
                                                                      "train.batch=2",
                                                                      "train.accumulate=2",
                                                                      "train.epochs=3",
                                                                      "train.save_every=1",
                                                                      "train.keep=1",
                                                                      "train.weight_decay=0.1",
                                                                      "train.validation=0.25",
                                                                      "train.eval_every=2",
                                                                      NULL };

#endif
