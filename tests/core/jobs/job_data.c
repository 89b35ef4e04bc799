// tests/core/jobs/job_data.c -- core/jobs/job_data.c: a resumed job continues with the same data
// under the same conditions, or not at all; a job is cancelled within a large file.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
// needs the headers above
#include <cmocka.h>

#include "core/adapter/provenance.h"
#include "core/base/cancel.h"
#include "core/base/hash.h"
#include "core/data/dataset.h"
#include "core/jobs/job.h"
#include "core/jobs/job_data.h"
#include "tests/core/scratch.h"

static char taken[256];

static bool take(void *self, const cJSON *line)
{
    const size_t n = strlen(taken);
    const char *text = cJSON_GetStringValue(json_get(line, "text"));
    if (text) snprintf(taken + n, sizeof taken - n, "%s\n", text);
    return text != NULL;
}

static void add(FILE *f, int done, const char *text)
{
    cJSON *line = cJSON_CreateObject();
    cJSON_AddNumberToObject(line, "done", done);
    cJSON_AddStringToObject(line, "text", text);
    assert_true(job_data_add(f, line));
}

static void resumes_only_with_the_same_data_and_settings(void **state)
{
    struct err err;
    char *folder = scratch_new();
    char *path = xasprintf("%s/state", folder), *data = xasprintf("%s/data", folder);
    struct provenance now = { 0 }, other = { 0 };
    provenance_add(&now, "adapter", "ln@1");
    provenance_add(&now, "prune.score", "uniform");
    provenance_add(&other, "adapter", "ln@2");
    provenance_add(&other, "prune.score", "uniform");
    scratch_text(folder, "data", "one");
    char *answers = xasprintf("%s/answers", folder), *shots = xasprintf("%s/shots", folder);
    scratch_text(folder, "answers", "grey");
    scratch_text(folder, "shots", "three");
    const struct job_data of = { path, data, &now, NULL, answers, shots, .whole = true },
                          changed = { path, data, &other, NULL, answers, shots, .whole = true };

    FILE *f = job_data_open(&of, false, take, NULL, &err);
    assert_non_null(f);
    add(f, 1, "line");
    fclose(f);
    // An adapter with the same name and other content.
    assert_null(job_data_open(&changed, true, take, NULL, &err));
    assert_non_null(
        strstr(err.text, "have changed since the job started: adapter was ln@1, now ln@2"));
    f = job_data_open(&of, true, take, NULL, &err);
    assert_non_null(f);
    assert_string_equal(taken, "line\n");
    add(f, 2, "more");
    fputs("{\"done\":3,\"te", f); // as a killed job leaves it
    fclose(f);
    scratch_text(folder, "data", "two");
    assert_null(job_data_open(&of, true, take, NULL, &err));
    assert_non_null(strstr(err.text, "has changed since the job started"));
    scratch_text(folder, "data", "one");
    *taken = 0;
    f = job_data_open(&of, true, take, NULL, &err);
    assert_non_null(f);
    assert_string_equal(taken, "line\nmore\n");
    // If a sample may have several lines (not `whole`), a resumed job drops the last sample's
    // lines. Every resumed job drops the first invalid line and all lines after it.
    struct job_data parts = of;
    parts.whole = false;
    add(f, 3, "first");
    add(f, 3, "second");
    fclose(f);
    *taken = 0;
    f = job_data_open(&parts, true, take, NULL, &err);
    assert_non_null(f);
    assert_string_equal(taken, "line\nmore\n");
    add(f, 3, "first");
    fputs("{\"done\":4}\n{\"done\":5,\"text\":\"lost\"}\n", f);
    fclose(f);
    *taken = 0;
    f = job_data_open(&of, true, take, NULL, &err);
    assert_non_null(f);
    assert_string_equal(taken, "line\nmore\nfirst\n");
    fclose(f);
    scratch_text(folder, "shots", "four");
    assert_null(job_data_open(&of, true, take, NULL, &err));
    assert_non_null(strstr(err.text, "the file of --shots has changed since the job started"));
    scratch_text(folder, "answers", "red");
    assert_null(job_data_open(&of, true, take, NULL, &err));
    assert_non_null(strstr(err.text, "the file of --answers has changed since the job started"));
    // A new start checks nothing.
    f = job_data_open(&changed, false, take, NULL, &err);
    assert_non_null(f);
    fclose(f);
    provenance_release(&now);
    provenance_release(&other);
    free(path);
    free(data);
    free(answers);
    free(shots);
    scratch_remove(folder);
}

// A job that is cancelled at its third check; counts its checks and its reports of progress.
struct watched {
    struct job job;
    int looks, reports;
};

static void look(struct job *j)
{
    struct watched *w = j->runner;
    if (++w->looks == 3) atomic_store(&j->cancel, true);
}

static void see(void *self, const struct event *e)
{
    struct watched *w = self;
    if (e->kind != EVENT_PROGRESS) return;
    assert_string_equal(e->progress->what, "hashing");
    assert_true(e->progress->steps == 100 << 20);
    w->reports++;
}

// A job can also be cancelled within one large file: in its hash, and in its samples.
static void can_be_cancelled(void **state)
{
    enum { SIZE = 100 << 20 };
    struct err err;
    struct sinks sinks = { 0 };
    struct watched w = { .job = { .sinks = &sinks, .poll = look, .runner = &w } };
    sinks_add(&sinks, (struct sink){ .emit = see, .self = &w });
    char *folder = scratch_new(), *path = xasprintf("%s/data.json", folder);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fprintf(f, "[{}%*s]", SIZE - 4, "");
    fclose(f);
    job_watch(&w.job);
    char hex[HASH_HEX] = "as it was";
    assert_int_equal(hash_file(path, hex, &err), -1);
    assert_string_equal(err.text, "cancelled");
    assert_string_equal(hex, "as it was");
    assert_true(w.looks == 3 && w.reports == 3);
    atomic_store(&w.job.cancel, false);
    w.looks = 0;
    struct dataset d;
    assert_int_equal(dataset_open(&d, path, NULL, &err), -1);
    assert_non_null(strstr(err.text, "cancelled"));
    assert_int_equal(w.looks, 3);
    // The hash recorded with a cancelled answer is complete.
    assert_int_equal(hash_file_always(path, hex, &err), 0);
    assert_int_equal(strlen(hex), HASH_HEX - 1);
    cancel_unwatch(&w.job.cancel);
    free(path);
    scratch_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(
                                            resumes_only_with_the_same_data_and_settings),
                                        cmocka_unit_test(can_be_cancelled) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
