// sessions/job_queue.c -- sbatch, squeue, sacct and scancel.
#include "sessions/job_queue.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/file_in.h"
#include "core/base/file_out.h"
#include "core/base/program.h"
#include "core/base/written.h"
#include "sessions/job_channel.h"
#include "sessions/job_internal.h"
#include "sessions/job_reports.h"

enum { OUTPUT_MOST = 1 << 20 };
static const double program_s = 20, poll_s = 2; // seconds: limit of a command; time between polls

// --- Slurm's commands ----------------------------------------------------------------------------

// Returns the exit status, and the output in *out; -1 if the command is missing or did not end by
// itself.
static int run_program(char *const *argv, struct buf *out, struct err *err)
{
    const struct program p = {
        .argv = argv, .patience_s = program_s, .most = OUTPUT_MOST, .errors = true
    };
    const int status = program_run(&p, out, err);
    buf_puts(out, "");
    while (out->length && isspace((unsigned char)out->data[out->length - 1]))
        out->data[--out->length] = 0;
    if (status == PROGRAM_MISSING)
        return err_set(err, "cannot start %s: is Slurm installed here (Debian: slurm-client)?",
                       argv[0]);
    return status;
}

// Like run_program, but a non-zero status is an error with the command's output.
static int run_well(char *const *argv, struct buf *out, struct err *err)
{
    const int status = run_program(argv, out, err);
    if (status <= 0) return status;
    return err_set(err, "%s: %.400s", argv[0], out->length ? out->data : "it failed");
}

// --- the script ----------------------------------------------------------------------------------

// Appends a quoted word for the shell.
static void quote(struct buf *b, const char *word)
{
    buf_putc(b, '\'');
    for (; *word; word++) {
        if (*word == '\'')
            buf_puts(b, "'\\''");
        else
            buf_putc(b, *word);
    }
    buf_putc(b, '\'');
}

static void put_option(struct buf *b, const struct settings *s, const char *key, const char *name)
{
    if (!settings_is(s, key, "none"))
        buf_printf(b, "#SBATCH --%s=%s\n", name, settings_text(s, key));
}

// sbatch reads its options from the #SBATCH lines. Slurm signals the job to pause 90 seconds before
// the time limit.
static void put_script(struct buf *b, const struct job_row *row, const char *folder,
                       const char *program)
{
    const struct settings *s = row->settings;
    const long long nodes = settings_integer(s, "job.nodes"),
                    gpus = settings_integer(s, "job.gpus");
    buf_printf(b, "#!/bin/sh\n#SBATCH --job-name=vlmsh-%s-%lld\n", row->kind, (long long)row->id);
    buf_printf(b, "#SBATCH --nodes=%lld\n#SBATCH --ntasks=%lld\n", nodes,
               (long long)settings_integer(s, "job.ranks"));
    if (!settings_is(s, "job.threads", "auto"))
        buf_printf(b, "#SBATCH --cpus-per-task=%s\n", settings_text(s, "job.threads"));
    if (gpus) buf_printf(b, "#SBATCH --gpus-per-node=%lld\n", gpus);
    put_option(b, s, "job.time", "time");
    put_option(b, s, "job.partition", "partition");
    buf_printf(b, "#SBATCH --output=%s/output\n#SBATCH --open-mode=append\n", folder);
    buf_puts(b, "#SBATCH --requeue\n#SBATCH --signal=B:TERM@90\n");
    if (!settings_is(s, "job.sbatch", "none")) {
        char *copy = xstrdup(settings_text(s, "job.sbatch")), *rest = NULL;
        for (char *one = strtok_r(copy, " ", &rest); one; one = strtok_r(NULL, " ", &rest))
            buf_printf(b, "#SBATCH %s\n", one);
        free(copy);
    }
    buf_puts(b, "exec ");
    quote(b, program);
    buf_printf(b, " job batch %lld --folder ", (long long)row->id);
    quote(b, folder);
    buf_putc(b, '\n');
}

// sbatch accepts no line breaks, and Slurm replaces % in the output's name.
static int check_names(const struct job_row *row, const char *folder, struct err *err)
{
    static const char *const keys[] = { "job.time", "job.partition", "job.sbatch" };
    if (strpbrk(folder, "%\n \t\\'\""))
        return err_set(err,
                       "a queued job's folder '%s' has a space or a character special to sbatch: "
                       "/set job.folder to another folder",
                       folder);
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (strchr(settings_text(row->settings, keys[i]), '\n'))
            return err_set(err, "%s has a line break", keys[i]);
    return 0;
}

// Writes the specification and, unless `path` is NULL, the script of a waiting job; *folder: the
// job's folder, under the path that other machines know.
static int prepare(struct store *s, const struct job_row *row, const char *path, char **folder,
                   struct err *err)
{
    char *program = realpath("/proc/self/exe", NULL);
    struct buf text = { 0 };
    int status = job_folder_make(s, row->id, settings_text(row->settings, "job.folder"), err);
    if (status == 0 && !(*folder = job_folder_real(s, row->id, err))) status = -1;
    if (status == 0) status = check_names(row, *folder, err);
    if (status == 0) status = job_import_all(s, row->id, err);
    if (status == 0) status = job_request_write(*folder, JOB_GO, err);
    if (status == 0) status = job_spec_write(*folder, row, NULL, err);
    if (status == 0 && path) {
        put_script(&text, row, *folder, program ? program : "vlmsh");
        status = file_out_write(path, text.data, text.length, err);
    }
    buf_release(&text);
    free(program);
    return status;
}

bool job_script_edited(const char *path)
{
    return access(path, F_OK) == 0 && !written_unchanged(path);
}

int store_job_script(struct store *s, int64_t id, const char *path, struct err *err)
{
    struct job_row row;
    char *folder = NULL;
    if (job_read_own(s, id, &row, err) < 0) return -1;
    int status = job_folder_make(s, id, settings_text(row.settings, "job.folder"), err);
    char *here = path && *path != '/' ? getcwd(NULL, 0) : NULL;
    char *whole = !path  ? job_path(s, id, "script")
                  : here ? xasprintf("%s/%s", here, path)
                         : xstrdup(path);
    free(here);
    if (status == 0)
        status =
            store_run(s, err, "UPDATE jobs SET script = ?, queue = '', queued = '' WHERE id = ?",
                      "ti", whole, id);
    if (status == 0) status = prepare(s, &row, whole, &folder, err);
    free(whole);
    free(folder);
    job_row_release(&row);
    return status;
}

// --- submitting and withdrawing ------------------------------------------------------------------

static int submit(struct store *s, const struct job_row *row, struct err *err)
{
    char sbatch[] = "sbatch", parsable[] = "--parsable", chdir[] = "--chdir";
    char *const argv[] = { sbatch, parsable, chdir, row->folder, row->script, NULL };
    struct buf out = { 0 };
    int status = run_well(argv, &out, err);
    // "12" or "12;cluster" (--parsable), after the lines of warnings.
    const char *line = out.data ? strrchr(out.data, '\n') : NULL;
    line = line ? line + 1 : out.data ? out.data : "";
    char *number = xstrndup(line, strspn(line, "0123456789"));
    if (status == 0 && !*number)
        status = err_set(err, "sbatch printed no job number: %.200s", out.data);
    if (status == 0)
        status = store_run(s, err,
                           "UPDATE jobs SET state = 'waiting', queue = ?, queued = 'PENDING', "
                           "request = NULL, message = '', ended = NULL WHERE id = ?",
                           "ti", number, row->id);
    s->queue_polled = 0;
    free(number);
    buf_release(&out);
    return status;
}

// A script of another job may have replaced this job's, under the same name.
static int check_edited(const struct job_row *row, struct err *err)
{
    char *text = file_read(row->script, 1 << 20, NULL, err),
         *line = xasprintf(" job batch %lld ", (long long)row->id);
    const int status =
        !text ? -1
        : strstr(text, line)
            ? 0
            : err_set(
                  err,
                  "'%s' has changed since vlmsh wrote it, and does not start job %lld: remove the "
                  "file, and vlmsh writes it again",
                  row->script, (long long)row->id);
    free(line);
    free(text);
    return status;
}

int store_job_submit(struct store *s, int64_t id, struct err *err)
{
    struct job_row row;
    char *folder = NULL;
    if (store_job_read(s, id, &row, err) < 0) return -1;
    int status = 0;
    if (row.state == STATE_DONE)
        status = err_set(err, "job %lld is done: nothing to submit", (long long)id);
    else if (!queue_ended(row.queued))
        status = err_set(err, "job %lld is already in the queue (Slurm job %s, %s)", (long long)id,
                         row.queue, row.queued);
    const bool edited = job_script_edited(row.script); // it is submitted as it is
    if (status == 0 && edited) status = check_edited(&row, err);
    if (status == 0) status = prepare(s, &row, edited ? NULL : row.script, &folder, err);
    if (status == 0) status = submit(s, &row, err);
    free(folder);
    job_row_release(&row);
    return status;
}

// Writes the request before scancel, so that a running job ends as cancelled.
int store_job_withdraw(struct store *s, int64_t id, struct err *err)
{
    struct job_row row;
    struct buf out = { 0 };
    char scancel[] = "scancel";
    if (store_job_read(s, id, &row, err) < 0) return -1;
    char *const argv[] = { scancel, row.queue, NULL };
    char *folder =
        job_folder_real(s, id, NULL); // NULL if it was removed: scancel alone ends the job
    const bool queued = !queue_ended(row.queued), known = queue_is_number(row.queue);
    int status = folder ? job_request_write(folder, JOB_CANCEL, err) : 0;
    if (status == 0 && queued && known) status = run_well(argv, &out, err);
    if (status == 0 && row.state != STATE_DONE)
        status = job_mark_ended(s, id, STATE_CANCELLED, "", err);
    if (status == 0 && queued && !known)
        status = err_set(err,
                         "job %lld is cancelled, but its number in the queue is damaged "
                         "('%.40s'): if Slurm still runs it, end it with scancel",
                         (long long)id, row.queue);
    free(folder);
    buf_release(&out);
    job_row_release(&row);
    return status;
}

// --- state in the queue --------------------------------------------------------------------------

bool queue_is_number(const char *queue)
{
    return *queue && queue[strspn(queue, "0123456789")] == 0;
}

bool queue_ended(const char *queued)
{
    static const char *const lasting[] = {
        "PENDING",   "CONFIGURING", "RUNNING",      "COMPLETING", "SUSPENDED", "REQUEUED",
        "STAGE_OUT", "STOPPED",     "REQUEUE_HOLD", "SIGNALING",  "RESIZING",  "PREEMPTED"
    };
    const size_t n = strcspn(queued, ": ");
    for (size_t i = 0; i < sizeof lasting / sizeof *lasting; i++)
        if (n == strlen(lasting[i]) && !strncmp(queued, lasting[i], n)) return false;
    return true;
}

bool queue_waits(const char *queued)
{
    return !strncmp(queued, "PENDING", 7) || !strncmp(queued, "REQUEUE", 7) ||
           !strncmp(queued, "CONFIGURING", 11);
}

struct queued {
    int64_t id;
    char *queue;
    bool found;
};

static void store_queued(struct store *s, int64_t id, const char *queued)
{
    store_run(s, NULL, "UPDATE jobs SET queued = ? WHERE id = ? AND queued <> ?", "tit", queued, id,
              queued);
}

// Reads lines like "12|PENDING|Resources"; "None" and "(null)" mean that there is no reason.
static void read_lines(struct store *s, char *text, struct queued *list, size_t count)
{
    char *rest = NULL;
    for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        char *state = strchr(line, '|'), *reason = state ? strchr(state + 1, '|') : NULL;
        if (!reason) continue;
        *state++ = *reason++ = 0;
        for (size_t i = 0; i < count; i++) {
            if (strcmp(list[i].queue, line) != 0) continue;
            const bool none = !*reason || !strcmp(reason, "None") || !strcmp(reason, "(null)");
            char *queued = none ? xstrdup(state) : xasprintf("%s: %s", state, reason);
            list[i].found = true;
            store_queued(s, list[i].id, queued);
            free(queued);
        }
    }
}

// squeue forgets jobs some minutes after their end; accounting, if configured, does not. A job
// unknown to both has ended.
static void query_accounting(struct store *s, const struct queued *one)
{
    char sacct[] = "sacct", jobs[] = "-j", allocation[] = "-X", plain[] = "-n", format[] = "-o",
         state[] = "State%-30", scratch[] = "";
    char *const argv[] = { sacct, plain, allocation, format, state, jobs, one->queue, NULL };
    struct buf out = { 0 };
    const int status = run_program(argv, &out, NULL);
    char *state_then = out.data ? out.data : scratch;
    state_then[strcspn(state_then, " \n+")] = 0;
    store_queued(s, one->id,
                 status == 0 && *state_then && queue_ended(state_then) ? state_then : "ENDED");
    buf_release(&out);
}

void queue_poll(struct store *s)
{
    struct queued *list = NULL;
    size_t count = 0;
    if (clock_seconds() - s->queue_polled < poll_s || !sqlite3_get_autocommit(s->db)) return;
    s->queue_polled = clock_seconds();
    sqlite3_stmt *q =
        store_query(s, NULL, "SELECT id, queue, queued FROM jobs WHERE queue <> ''", "");
    while (q && store_step(s, q, NULL) > 0) {
        char *queue = column_text(q, 1), *queued = column_text(q, 2);
        if (!queue_ended(queued) && queue_is_number(queue)) {
            list = xreallocarray(list, count + 1, sizeof *list);
            list[count++] = (struct queued){ .id = sqlite3_column_int64(q, 0), .queue = queue };
            queue = NULL;
        }
        free(queue);
        free(queued);
    }
    sqlite3_finalize(q);
    if (count) {
        char squeue[] = "squeue", plain[] = "--noheader", all[] = "--states=all",
             format[] = "--format=%i|%T|%r", jobs[] = "--jobs";
        struct buf ids = { 0 }, out = { 0 };
        for (size_t i = 0; i < count; i++) buf_printf(&ids, "%s%s", i ? "," : "", list[i].queue);
        char *const argv[] = { squeue, plain, all, format, jobs, ids.data, NULL };
        const int status = run_program(argv, &out, NULL);
        // squeue fails if the only job asked for is unknown; any other failure means that Slurm is
        // out of reach for now.
        const bool unknown = status > 0 && out.data && strstr(out.data, "Invalid job id");
        if (status == 0 && out.data) read_lines(s, out.data, list, count);
        for (size_t i = 0; i < count && (status == 0 || unknown); i++)
            if (!list[i].found) query_accounting(s, &list[i]);
        buf_release(&ids);
        buf_release(&out);
    }
    for (size_t i = 0; i < count; i++) free(list[i].queue);
    free(list);
}
