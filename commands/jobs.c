// commands/jobs.c -- /jobs: the list of background jobs.
#include <inttypes.h>
#include <stdlib.h>

#include "commands/job_parts.h"

// Takes the text.
static void cell(struct table_builder *t, char *text)
{
    table_add(t, "%s", text);
    free(text);
}

static int jobs_run(struct shell *shell, int argc, char **argv, struct err *err)
{
    struct job_row *rows;
    size_t count;
    struct table_builder t;
    if (store_jobs_read(shell->store, &rows, &count, err) < 0) return -1;
    table_begin(&t, "jobs", "job#|kind|state|steps|loss#|left|created|arguments");
    for (size_t i = 0; i < count; i++) {
        const struct job_row *row = &rows[i];
        table_row(&t, "%" PRId64 "|%s|%s", row->id, row->kind, job_state_name(row->state));
        cell(&t, job_text_steps(row));
        cell(&t, job_text_real(row->loss, "%.4f"));
        cell(&t, job_text_left(row));
        cell(&t, job_text_moment(row->created));
        cell(&t, job_text_arguments(row));
    }
    table_emit(&t, shell->sinks);
    for (size_t i = 0; i < count; i++) job_tell(shell, &rows[i], "listed");
    job_rows_free(rows, count);
    return 0;
}

const struct command command_jobs = {
    .name = "jobs",
    .also = "tasks progress queue",
    .usage = "/jobs",
    .help = "Lists jobs with state, step, loss and time left.",
    .details =
        "Jobs run in separate processes: they continue when the shell exits, and every\n"
        "shell with the same database sees them. \"interrupted\" means that a job's process is\n"
        "gone (kill -9, power failure, a truncated file; /job N shows the reason if it is\n"
        "known); /job N resume continues it.",
    .needs = NEEDS_STORE,
    .run = jobs_run,
};
