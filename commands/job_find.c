// commands/job_find.c -- jobs by their number, or by what they are about.
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "commands/jobs.h"
#include "sessions/jobs.h"

int job_number(const char *text, int64_t *id, struct err *err)
{
    char *end;
    *id = strtoll(text, &end, 10);
    if (end == text || *end || *id < 1 || *id > INT32_MAX)
        return err_set(err, "'%s' is not a job number (/jobs lists them)", text);
    return 0;
}

// The path from the root on, without a slash at its end; belongs to the caller.
static char *whole_path(const char *folder, const char *path)
{
    char *joined = *path == '/' ? xstrdup(path) : xasprintf("%s/%s", folder, path);
    char *real = realpath(joined, NULL);
    if (real) {
        free(joined);
        return real;
    }
    for (size_t n = strlen(joined); n > 1 && joined[n - 1] == '/';) joined[--n] = 0;
    return joined;
}

static bool is_about(const struct job_row *row, const char *path)
{
    bool found = false;
    for (int i = 0; i < row->argc && !found; i++) {
        char *argument = whole_path(row->folder, row->argv[i]);
        found = !strcmp(argument, path);
        free(argument);
    }
    return found;
}

int jobs_about(const struct shell *shell, const char *path, int64_t **ids, size_t *count,
               struct err *err)
{
    struct job_row *rows;
    size_t row_count;
    *ids = NULL;
    *count = 0;
    if (store_jobs_read(shell->store, &rows, &row_count, err) < 0) return -1;
    char *here = getcwd(NULL, 0), *whole = whole_path(here ? here : ".", path);
    free(here);
    for (size_t i = row_count; i-- > 0;) {
        if (!is_about(&rows[i], whole)) continue;
        *ids = xreallocarray(*ids, *count + 1, sizeof **ids);
        (*ids)[(*count)++] = rows[i].id;
    }
    free(whole);
    job_rows_free(rows, row_count);
    return 0;
}

// A finished run that --resume only opens again reports nothing.
static bool was_reported(const struct shell *shell, int64_t id)
{
    struct job_result *results = NULL;
    char **names = NULL;
    size_t result_count = 0, name_count = 0;
    if (store_job_results(shell->store, id, &results, &result_count, NULL) == 0)
        job_results_free(results, result_count);
    if (store_series(shell->store, id, &names, &name_count, NULL) == 0)
        series_free(names, name_count);
    return result_count || name_count;
}

int job_named(const struct shell *shell, const char *text, int64_t *id, struct err *err)
{
    int64_t *ids;
    size_t count;
    if (!text[strspn(text, "0123456789")]) return job_number(text, id, err);
    if (jobs_about(shell, text, &ids, &count, err) < 0) return -1;
    if (!count) {
        free(ids);
        return err_set(err, "'%s' is not a job number, and no job uses this path (/jobs)", text);
    }
    size_t newest = count;
    while (newest && !was_reported(shell, ids[newest - 1])) newest--;
    *id = ids[newest ? newest - 1 : count - 1];
    free(ids);
    return 0;
}
