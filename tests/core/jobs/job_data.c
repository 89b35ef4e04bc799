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

static int take(void *self, const char *text, size_t size, size_t *kept, struct err *err)
{
    snprintf(taken, sizeof taken, "%.*s", (int)(size - *kept), text + *kept);
    *kept = size;
    return 0;
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
    const struct job_data of = { path, data, &now, NULL, answers },
                          changed = { path, data, &other, NULL, answers };

    FILE *f = job_data_open(&of, false, take, NULL, &err);
    assert_non_null(f);
    fputs("line\n", f);
    fclose(f);
    // An adapter of the same name and other content.
    assert_null(job_data_open(&changed, true, take, NULL, &err));
    assert_non_null(
        strstr(err.text, "have changed since the job started: adapter was ln@1, now ln@2"));
    f = job_data_open(&of, true, take, NULL, &err);
    assert_non_null(f);
    assert_string_equal(taken, "line\n");
    fputs("more\n", f);
    fclose(f);
    scratch_text(folder, "data", "two");
    assert_null(job_data_open(&of, true, take, NULL, &err));
    assert_non_null(strstr(err.text, "has changed since the job started"));
    scratch_text(folder, "data", "one");
    f = job_data_open(&of, true, take, NULL, &err);
    assert_non_null(f);
    assert_string_equal(taken, "line\nmore\n");
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
