// tests/core/jobs/job_data.c -- core/jobs/job_data.c: a resumed job goes on with the same data,
// computed under the same, or not at all.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
// after those it needs
#include <cmocka.h>

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

static void goes_on_with_the_same_alone(void **state)
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
    char *answers = xasprintf("%s/answers", folder);
    scratch_text(folder, "answers", "grey");
    const struct job_data of = { path, data, &now, NULL, answers, .whole = true },
                          changed = { path, data, &other, NULL, answers, .whole = true };

    FILE *f = job_data_open(&of, false, take, NULL, &err);
    assert_non_null(f);
    add(f, 1, "line");
    fclose(f);
    // An adapter of the same name and other content.
    assert_null(job_data_open(&changed, true, take, NULL, &err));
    assert_non_null(
        strstr(err.text, "have changed since the job started: adapter was ln@1, now ln@2"));
    f = job_data_open(&of, true, take, NULL, &err);
    assert_non_null(f);
    assert_string_equal(taken, "line\n");
    add(f, 2, "more");
    fputs("{\"done\":3,\"te", f); // killed
    fclose(f);
    scratch_text(folder, "data", "two");
    assert_null(job_data_open(&of, true, take, NULL, &err));
    assert_non_null(strstr(err.text, "has changed since the job started"));
    scratch_text(folder, "data", "one");
    *taken = 0;
    f = job_data_open(&of, true, take, NULL, &err);
    assert_non_null(f);
    assert_string_equal(taken, "line\nmore\n");
    // The last sample is written again where it may have more lines, with all that is not valid.
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
    scratch_text(folder, "answers", "red");
    assert_null(job_data_open(&of, true, take, NULL, &err));
    assert_non_null(strstr(err.text, "the file of --answers has changed since the job started"));
    // Begun anew, nothing is asked.
    f = job_data_open(&changed, false, take, NULL, &err);
    assert_non_null(f);
    fclose(f);
    provenance_release(&now);
    provenance_release(&other);
    free(path);
    free(data);
    free(answers);
    scratch_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(goes_on_with_the_same_alone) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
