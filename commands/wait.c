// commands/wait.c -- /wait: until a background job ends.
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <time.h>

#include "commands/job_parts.h"
#include "commands/jobs.h"

static void report_progress(const struct shell *shell, const struct job_row *row)
{
    if (isnan(row->step)) return;
    const struct event_progress progress = { .job = row->id,
                                             .what = row->kind,
                                             .step = row->step,
                                             .steps = row->steps,
                                             .loss = row->loss,
                                             .eta_s = row->eta_s };
    sinks_emit(shell->sinks, &(struct event){ .kind = EVENT_PROGRESS, .progress = &progress });
}

static int report_end(struct shell *shell, const struct job_row *row, struct err *err)
{
    char *text = job_text_end(shell, row, shell->sinks);
    job_tell(shell, row, "ended");
    job_forget(shell, row->id);
    if (row->state == STATE_DONE)
        sinks_notice(shell->sinks, "%s", text);
    else
        err_set(err, "%s", text);
    free(text);
    return row->state == STATE_DONE ? 0 : -1;
}

// 1: the user interrupted the wait.
static int wait_for(struct shell *shell, int64_t id, struct err *err)
{
    const struct timespec moment = { .tv_nsec = 100000000 };
    double shown = NAN;
    for (;;) {
        struct job_row row;
        if (store_job_read(shell->store, id, &row, err) < 0) return -1;
        if (row.step != shown) report_progress(shell, &row);
        shown = row.step;
        const bool ended = job_state_ended(row.state);
        const int status = ended ? report_end(shell, &row, err) : 0;
        job_row_release(&row);
        if (ended) return status;
        if (engine_cancelled(shell->engine)) {
            sinks_notice(shell->sinks, "job %" PRId64 " continues in the background", id);
            return 1;
        }
        nanosleep(&moment, NULL); // a signal ends it early
    }
}

// Without a number: the jobs that this shell started and has not heard of yet, else the newest.
static int wait_run(struct shell *shell, int argc, char **argv, struct err *err)
{
    int64_t id;
    int status;
    if (argc) return job_number(argv[0], &id, err) < 0 || wait_for(shell, id, err) < 0 ? -1 : 0;
    if (!shell->job_count) {
        if (store_job_last(shell->store, &id, err) < 0) return -1;
        if (!id) return err_set(err, "no job to wait for");
        return wait_for(shell, id, err) < 0 ? -1 : 0;
    }
    do status = wait_for(shell, shell->jobs[0], err);
    while (status == 0 && shell->job_count);
    return status < 0 ? -1 : 0;
}

const struct command command_wait = {
    .name = "wait",
    .also = "finish join",
    .usage = "/wait [N]",
    .help = "Waits for a job, or without N for all started by this shell; fails if a job failed.",
    .details =
        "Prints the job's outcome: the score of an evaluation with its 95% interval, the loss\n"
        "of a training and the path of its result, or the scores of a sweep.\n"
        "Ctrl-C stops waiting, not the job. The line also fails if a job was paused, cancelled\n"
        "or interrupted.",
    .max = 1,
    .needs = NEEDS_STORE,
    .complete = COMPLETE_JOB,
    .run = wait_run,
};
