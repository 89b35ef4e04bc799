// commands/job_text.c -- what people read of a job: in the cells of tables, and at its end.
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <time.h>

#include "commands/job_parts.h"
#include "core/base/pace.h"

char *job_text_arguments(const struct job_row *row)
{
    struct buf b = { 0 };
    for (int i = 0; i < row->argc; i++) buf_printf(&b, "%s%s", i ? " " : "", row->argv[i]);
    return buf_take(&b);
}

char *job_text_real(double value, const char *format)
{
    if (isnan(value)) return xstrdup("");
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    return xasprintf(format, value);
#pragma GCC diagnostic pop
}

char *job_text_left(const struct job_row *row)
{
    char text[PACE_TEXT];
    return xstrdup(row->state == STATE_RUNNING ? pace_text(text, row->eta_s) : "");
}

char *job_text_steps(const struct job_row *row)
{
    if (isnan(row->step) || !(row->steps > 0)) return xstrdup("");
    return xasprintf("%.0f/%.0f", row->step, row->steps);
}

char *job_text_moment(int64_t when)
{
    char text[64] = "";
    const time_t t = (time_t)when;
    struct tm local;
    if (when && localtime_r(&t, &local)) strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &local);
    return xstrdup(text);
}

// The outcome of a finished job, as its kind words it; the caller frees the text, which may be
// NULL. Shows the job's tables if there are sinks.
static char *outcome(const struct shell *shell, const struct job_row *row, struct sinks *sinks)
{
    const struct job_kind *kind = job_kind_find(row->kind);
    struct job_end end = { .steps = row->steps, .loss = row->loss };
    struct job_result *results;
    if (!kind || store_job_results(shell->store, row->id, &results, &end.count, NULL) < 0)
        return NULL;
    end.results = results;
    if (sinks && kind->show) kind->show(&end, sinks);
    char *text = kind->outcome ? kind->outcome(&end) : NULL;
    job_results_free(results, end.count);
    return text;
}

char *job_text_end(const struct shell *shell, const struct job_row *row, struct sinks *sinks)
{
    const bool rests = row->state == STATE_PAUSED || row->state == STATE_INTERRUPTED;
    if (row->state == STATE_FAILED)
        return xasprintf("job %" PRId64 " (%s) failed: %s", row->id, row->kind, row->message);
    if (rests)
        return xasprintf("job %" PRId64 " (%s) is %s%s%s (/job %" PRId64 " resume continues it)",
                         row->id, row->kind, job_state_name(row->state), *row->message ? ": " : "",
                         row->message, row->id);
    char *came = row->state == STATE_DONE ? outcome(shell, row, sinks) : NULL;
    char *text = xasprintf("job %" PRId64 " (%s) is %s%s%s", row->id, row->kind,
                           job_state_name(row->state), came ? ": " : "", came ? came : "");
    free(came);
    return text;
}
