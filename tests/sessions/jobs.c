// tests/sessions/jobs.c -- sessions/jobs.c, job_run.c, job_sink.c, job_process.c, metrics.c: a
// job's events are stored, the job stops on request and resumes, and the end of its process is
// noticed, however it ends.
//
// This program is also the job's process: "PROGRAM job run ID --db FILE" runs the job below.
#include <errno.h>
#include <math.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

#include "core/base/clock.h"
#include "core/base/file_in.h"
#include "core/base/names.h"
#include "core/base/pace.h"
#include "kernels/backend.h"
#include "sessions/job_internal.h"
#include "sessions/job_queue.h"
#include "sessions/job_run.h"
#include "tests/sessions/fixture.h"

// --- a kind of job -------------------------------------------------------------------------------

static int64_t checkpoint(const struct job *j, int64_t write)
{
    char path[512], text[32] = "0";
    snprintf(path, sizeof path, "%s/at", j->state);
    FILE *f = fopen(path, write >= 0 ? "w" : "r");
    if (!f) return 0;
    if (write >= 0) fprintf(f, "%lld", (long long)write);
    if (write < 0 && !fgets(text, sizeof text, f)) text[0] = 0;
    fclose(f);
    return strtoll(text, NULL, 10);
}

// STEPS MS [fail|fatal|endless]: counts steps of MS milliseconds; an endless job ends when it is
// cancelled.
static int count_run(struct job *j, struct err *err)
{
    const int64_t steps = strtoll(j->argv[0], NULL, 10);
    const struct timespec wait = { .tv_nsec = strtol(j->argv[1], NULL, 10) * 1000000 };
    const char *how = j->argc > 2 ? j->argv[2] : "";
    int64_t step = j->resumed ? checkpoint(j, -1) : 0;
    job_log(j, "%s at %lld, top_k %lld", j->resumed ? "resumes" : "begins", (long long)step,
            (long long)settings_integer(j->settings, "sample.top_k"));
    struct pace pace = pace_from((double)step);
    job_rewind(j, step);
    for (; step < steps; step++) {
        job_yield(j);
        nanosleep(&wait, NULL);
        while (!strcmp(how, "endless") && !atomic_load(&j->cancel)) {
            nanosleep(&wait, NULL);
            job_yield(j);
        }
        job_metric(j, "loss", step, 10.0 / (double)(step + 1));
        job_metric(j, "odd", step, step % 2 ? 1 : NAN);
        job_progress(j, &pace, (double)step + 1, (double)steps, 10.0 / (double)(step + 1));
        job_step(j, step);
        if (step % 10 == 9) checkpoint(j, step + 1);
        const enum job_stop stop = job_stopped(j);
        if (stop == JOB_PAUSE) checkpoint(j, step + 1);
        if (stop) return JOB_STOPPED;
    }
    if (!strcmp(how, "fatal") && !j->resumed) fatal("the model file was cut short\nin the middle");
    if (!strcmp(how, "fail")) return err_set(err, "the data file is gone");
    job_score(j, &(struct event_score){ .index = 1, .id = "b", .answer = "yes", .score = 1 });
    job_score(j, &(struct event_score){ .index = 0, .id = "a", .score = 0.5 });
    job_result(j, "score", "%.2f", 0.25);
    job_result(j, "score", "%.2f", 0.75);
    return 0;
}

static const struct job_kind kind = { .name = "count", .run = count_run };
static const struct job_kind hungry = { .name = "hungry", .needs_model = true, .run = count_run };

static const struct job_kind *find(const char *name)
{
    return !strcmp(name, "count") ? &kind : !strcmp(name, "hungry") ? &hungry : NULL;
}

static const struct backend *device(const char *name, struct err *err)
{
    return backend_cpu();
}

static struct job_control control;

static void on_pause(int signal)
{
    job_control_pause(&control);
}

static int run_in(struct store *s, int64_t id, double patience, struct err *err)
{
    struct sinks none = { 0 };
    enum job_state state;
    const struct job_setup setup = { find, device, &none, &control, patience, false };
    control = (struct job_control){ 0 };
    return job_run_any(s, id, &setup, &state, err) < 0 ? -1 : (int)state;
}

static int run_here(const char *path, int64_t id, double patience, struct err *err)
{
    struct store *s = store_open(path, err);
    if (!s) return -1;
    const int status = run_in(s, id, patience, err);
    store_close(s);
    return status;
}

static int be_a_job(char **argv)
{
    struct err err;
    sigaction(SIGTERM, &(struct sigaction){ .sa_handler = on_pause }, NULL);
    if (run_here(argv[5], strtoll(argv[3], NULL, 10), 0, &err) >= 0) return 0;
    fprintf(stderr, "%s\n", err.text);
    return 1;
}

// --- helpers -------------------------------------------------------------------------------------

static int64_t add(struct store *s, const char *name, const char *steps, const char *ms,
                   const char *how)
{
    char *argv[] = { (char *)steps, (char *)ms, (char *)how };
    struct err err = { 0 };
    struct settings *settings = settings_new();
    int64_t id = 0;
    assert_int_equal(settings_set(settings, "sample.top_k", "7", &err), 0);
    const struct job_spec spec = {
        .kind = name, .argc = how ? 3 : 2, .argv = argv, .settings = settings, .device = "cpu"
    };
    assert_int_equal(store_job_add(s, &spec, &id, &err), 0);
    settings_free(settings);
    return id;
}

static enum job_state state_of(struct store *s, int64_t id, double *step, char **message)
{
    struct job_row row;
    struct err err;
    assert_int_equal(store_job_read(s, id, &row, &err), 0);
    const enum job_state state = row.state;
    if (step) *step = row.step;
    if (message) *message = xstrdup(row.message);
    job_row_release(&row);
    return state;
}

static void nap(void)
{
    nanosleep(&(struct timespec){ .tv_nsec = 5000000 }, NULL);
}

static void await(struct store *s, int64_t id, enum job_state wanted)
{
    enum job_state state = STATE_WAITING;
    for (int i = 0; i < 4000 && (state = state_of(s, id, NULL, NULL)) != wanted; i++) nap();
    if (state != wanted)
        fail_msg("job is %s, not %s", job_state_name(state), job_state_name(wanted));
}

static void await_step(struct store *s, int64_t id, double wanted)
{
    double step = 0;
    for (int i = 0; i < 4000; i++, nap())
        if (state_of(s, id, &step, NULL) == STATE_RUNNING && step >= wanted) return;
    fail_msg("step %g was not reached, only %g", wanted, step);
}

// A job's process is not a child of this test, so it cannot be waited for.
static void await_end(pid_t pid)
{
    for (int i = 0; i < 4000 && kill(pid, 0) == 0; i++) nap();
    assert_int_equal(kill(pid, 0), -1);
}

static void start(struct store *s, int64_t id)
{
    struct err err = { 0 };
    if (store_job_start(s, id, NULL, &err) < 0) fail_msg("%s", err.text);
}

static void ask(struct store *s, int64_t id, enum job_stop what)
{
    struct err err = { 0 };
    if (store_job_ask(s, id, what, &err) < 0) fail_msg("%s", err.text);
}

static char *log_of(struct store *s, int64_t id)
{
    struct buf b = { 0 };
    assert_int_equal(store_job_log(s, id, 0, &b, NULL), 0);
    return buf_take(&b);
}

static void assert_logged(struct store *s, int64_t id, const char *part)
{
    char *text = log_of(s, id);
    assert_contains(text, part);
    free(text);
}

// Expects steps 0..count-1 once each, whatever happened in between.
static void assert_curve(struct store *s, int64_t id, int64_t count)
{
    struct curve c;
    assert_int_equal(store_curve(s, id, "loss", &c, NULL), 0);
    assert_int_equal(c.count, count);
    for (int64_t i = 0; i < count; i++) {
        assert_int_equal(c.steps[i], i);
        assert_true(c.values[i] == 10.0 / (double)(i + 1));
    }
    curve_release(&c);
}

static pid_t pid_of(struct store *s, int64_t id)
{
    struct job_row row;
    assert_int_equal(store_job_read(s, id, &row, NULL), 0);
    const pid_t pid = row.pid;
    job_row_release(&row);
    return pid;
}

// --- tests ---------------------------------------------------------------------------------------

static int collect(void *self, const struct event_score *score, struct err *err)
{
    buf_printf(self, "%lld %s %s %.2f;", (long long)score->index, score->id,
               score->answer ? score->answer : "-", score->score);
    return 0;
}

static void a_jobs_curves_and_log_are_stored(void **state)
{
    struct store *s = open_store();
    struct err err = { 0 };
    const int64_t id = add(s, "count", "12", "1", NULL);
    assert_int_equal(state_of(s, id, NULL, NULL), STATE_WAITING);
    start(s, id);
    await(s, id, STATE_DONE);
    assert_curve(s, id, 12);
    assert_logged(s, id, "begins at 0, top_k 7");

    struct curve c;
    assert_int_equal(store_curve(s, id, "odd", &c, NULL), 0);
    assert_true(isnan(c.values[0]) && c.values[1] == 1);
    curve_release(&c);
    assert_int_equal(store_curve(s, id, "none", &c, NULL), 0);
    assert_int_equal(c.count, 0);

    struct names names = { 0 };
    size_t count;
    assert_int_equal(store_series(s, id, &names, NULL), 0);
    assert_int_equal(names.count, 2);
    assert_string_equal(names.list[0], "loss");
    names_release(&names);

    // SQLite reads a text in a numeric column as 0.
    sqlite3_exec(s->db, "UPDATE metrics SET value = 'abc' WHERE step = 1", NULL, NULL, NULL);
    assert_int_equal(store_curve(s, id, "odd", &c, &err), -1);
    assert_contains(err.text, "a value is 'abc', not a number");

    struct job_result *results;
    assert_int_equal(store_job_results(s, id, &results, &count, NULL), 0);
    assert_int_equal(count, 1);
    assert_string_equal(results[0].value, "0.75");
    job_results_free(results, count);

    struct buf b = { 0 };
    assert_int_equal(store_job_scores(s, id, collect, &b, NULL), 0);
    assert_string_equal(b.data, "0 a - 0.50;1 b yes 1.00;");
    buf_release(&b);
    assert_int_equal(store_job_start(s, id, NULL, &err), -1);
    assert_contains(err.text, "is done");
    store_close(s);
}

static void a_paused_job_resumes(void **state)
{
    struct store *s = open_store();
    struct err err;
    const int64_t id = add(s, "count", "150", "2", NULL);
    start(s, id);
    await_step(s, id, 5);
    assert_int_equal(store_job_start(s, id, NULL, &err), -1);
    assert_contains(err.text, "already running");
    assert_int_equal(run_here(database, id, 0, &err), -1);
    assert_contains(err.text, "another process is already running job");
    assert_int_equal(store_job_delete(s, id, &err), -1);
    ask(s, id, JOB_PAUSE);
    await(s, id, STATE_PAUSED);
    start(s, id);
    await(s, id, STATE_DONE);
    assert_logged(s, id, "resumes at");
    assert_curve(s, id, 150);
    store_close(s);
}

static void a_killed_job_is_interrupted_and_resumes(void **state)
{
    struct store *s = open_store();
    const int64_t id = add(s, "count", "120", "2", NULL);
    double step;
    start(s, id);
    await_step(s, id, 33);
    assert_int_equal(kill(pid_of(s, id), SIGKILL), 0);
    await(s, id, STATE_INTERRUPTED);
    state_of(s, id, &step, NULL);
    assert_true(step >= 33);
    start(s, id);
    await(s, id, STATE_DONE);
    // Steps after the last checkpoint were reported by both processes, and are stored once.
    assert_logged(s, id, "0, top_k 7");
    assert_curve(s, id, 120);
    store_close(s);
}

static void a_cancelled_job_ends(void **state)
{
    struct store *s = open_store();
    struct err err;
    int64_t id = add(s, "count", "10000", "2", NULL);
    start(s, id);
    await_step(s, id, 3);
    ask(s, id, JOB_CANCEL);
    await(s, id, STATE_CANCELLED);
    assert_int_equal(store_job_ask(s, id, JOB_CANCEL, &err), -1);
    assert_int_equal(store_job_ask(s, id, JOB_PAUSE, &err), -1);
    assert_contains(err.text, "it is cancelled");
    // A job whose process has not started is cancelled at once.
    id = add(s, "count", "10000", "2", NULL);
    ask(s, id, JOB_CANCEL);
    start(s, id); // the user resumes the job
    await_step(s, id, 3);
    ask(s, id, JOB_CANCEL);
    await(s, id, STATE_CANCELLED);
    assert_int_equal(store_job_delete(s, id, &err), 0);
    assert_int_equal(store_job_ask(s, id, JOB_CANCEL, &err), -1);
    assert_contains(err.text, "no job ");
    assert_int_equal(number(s, "SELECT count(*) FROM metrics JOIN job_series "
                               "ON series = job_series.id WHERE job = 2"),
                     0);
    store_close(s);
}

// If the folder of a running job is removed, its process recreates it, and still receives requests
// within a step.
static void a_job_without_a_folder_is_reached(void **state)
{
    struct err err = { 0 };
    struct store *s = open_store();
    const int64_t id = add(s, "count", "100000", "2", NULL);
    start(s, id);
    await_step(s, id, 3);
    const pid_t pid = pid_of(s, id);
    job_folder_remove(s, id);
    await(s, id, STATE_RUNNING);
    assert_int_equal(pid_of(s, id), pid);
    assert_int_equal(store_job_delete(s, id, &err), -1);
    await_step(s, id, 3);
    for (int i = 0;
         i < 4000 && !number(s, "SELECT count(*) FROM job_log WHERE text LIKE '%removed%'"); i++)
        nap();
    assert_logged(s, id, "was removed while it ran");
    ask(s, id, JOB_CANCEL);
    await(s, id, STATE_CANCELLED);
    await_end(pid);
    store_close(s);
}

// If a database was removed, but not the folders of its jobs, a new job with the same number uses
// none of their files, and moves no folder that a process still uses.
static void a_former_databases_folder_is_left_alone(void **state)
{
    struct err err = { 0 };
    struct stat st;
    int ready[2];
    char c, *argv[] = { "1", "1" };
    const struct job_spec spec = { .kind = "count", .argc = 2, .argv = argv, .device = "cpu" };
    struct store *s = open_store();
    assert_int_equal(job_folder_make(s, 1, "none", &err), 0);
    char *path = job_path(s, 1, NULL), *scores = job_path(s, 1, "scores.jsonl");
    char *former = xasprintf("%s.former/scores.jsonl", path);
    assert_int_equal(mkfifo(scores, 0600), 0);
    assert_int_equal(pipe(ready), 0);
    const pid_t pid = fork();
    if (pid == 0) {
        if (job_lock(path, 1, "lock", &err) < 0 || write(ready[1], "x", 1) != 1) _exit(1);
        pause();
    }
    int64_t id = 0;
    assert_int_equal(read(ready[0], &c, 1), 1);
    assert_int_equal(store_job_add(s, &spec, &id, &err), -1);
    assert_contains(err.text, "still runs in");
    assert_int_equal(number(s, "SELECT count(*) FROM jobs"), 0);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    assert_int_equal(store_job_add(s, &spec, &id, &err), 0);
    assert_int_equal(id, 1);
    assert_int_equal(lstat(path, &st), -1);
    assert_int_equal(lstat(former, &st), 0);
    close(ready[0]);
    close(ready[1]);
    free(former);
    free(scores);
    free(path);
    store_close(s);
}

// If a shell that sees no lock cancels or deletes a job, the job's process ends and leaves no
// files.
static void a_job_without_a_lock_is_reached(void **state)
{
    struct err err = { 0 };
    struct store *s = open_store();
    for (int deleted = 0; deleted < 2; deleted++) {
        const int64_t id = add(s, "count", "100000", "2", NULL);
        start(s, id);
        await_step(s, id, 3);
        const pid_t pid = pid_of(s, id);
        assert_int_equal(deleted ? store_run(s, &err, "DELETE FROM jobs WHERE id = ?", "i", id)
                                 : job_mark_ended(s, id, STATE_CANCELLED, "", &err),
                         0);
        job_folder_remove(s, id);
        await_end(pid);
        char *path = job_path(s, id, NULL);
        assert_int_equal(access(path, F_OK), -1);
        free(path);
        if (!deleted) assert_int_equal(state_of(s, id, NULL, NULL), STATE_CANCELLED);
    }
    store_close(s);
}

// A link in place of a job's folder is not followed.
static void a_foreign_folder_is_kept(void **state)
{
    struct err err = { 0 };
    struct store *s = open_store();
    const int64_t id = add(s, "count", "1", "2", NULL);
    char *foreign = xasprintf("%s/models", folder), *file = xasprintf("%s/llama.gguf", foreign);
    assert_int_equal(job_folder_make(s, id, "none", &err), 0);
    char *path = job_path(s, id, NULL);
    assert_int_equal(rmdir(path), 0);
    assert_int_equal(mkdir(foreign, 0700), 0);
    FILE *f = fopen(file, "w");
    assert_non_null(f);
    fclose(f);
    assert_int_equal(symlink(foreign, path), 0);
    job_folder_remove(s, id);
    assert_int_equal(access(file, F_OK), 0);
    assert_int_equal(access(path, F_OK), -1);
    free(path);
    assert_int_equal(job_folder_make(s, id, folder, &err), 0); // a folder that other machines see
    path = job_path(s, id, "lock");
    f = fopen(path, "w");
    assert_non_null(f);
    fclose(f);
    char *real = job_folder_real(s, id, &err);
    job_folder_remove(s, id);
    assert_int_equal(access(real, F_OK), -1);
    free(real);
    free(path);
    free(file);
    free(foreign);
    store_close(s);
}

// A state that a newer version wrote is named in the message, and the job is neither resumed nor
// deleted while its process runs.
static void an_unknown_state_is_shown(void **state)
{
    struct err err = { 0 };
    char *message;
    struct store *s = open_store();
    const int64_t id = add(s, "count", "100000", "2", NULL);
    start(s, id);
    await_step(s, id, 3);
    const pid_t pid = pid_of(s, id);
    store_run(s, NULL, "UPDATE jobs SET state = 'thinking' WHERE id = ?", "i", id);
    assert_int_equal(state_of(s, id, NULL, NULL), STATE_RUNNING);
    assert_int_equal(store_job_delete(s, id, &err), -1);
    assert_int_equal(store_job_start(s, id, NULL, &err), -1);
    assert_int_equal(kill(pid, SIGKILL), 0);
    await(s, id, STATE_INTERRUPTED);
    state_of(s, id, NULL, &message);
    assert_contains(message, "'thinking', is unknown");
    free(message);
    assert_int_equal(store_job_delete(s, id, &err), 0);
    store_close(s);
}

static void a_cancelled_step_ends(void **state)
{
    struct store *s = open_store();
    struct err err;
    const int64_t id = add(s, "count", "2", "1", "endless");
    start(s, id);
    await(s, id, STATE_RUNNING);
    ask(s, id, JOB_PAUSE);
    ask(s, id, JOB_PAUSE);
    nap();
    assert_int_equal(state_of(s, id, NULL, NULL), STATE_RUNNING);
    assert_int_equal(store_job_start(s, id, NULL, &err), -1);
    assert_contains(err.text, "was asked to pause and is still running: resume it once it is");
    ask(s, id, JOB_CANCEL);
    await(s, id, STATE_CANCELLED);
    store_close(s);
}

// By the time a signal is sent, the job's pid may belong to another process. Here, any signal would
// kill the child.
static void querying_a_job_sends_no_signal(void **state)
{
    struct store *s = open_store();
    struct err err = { 0 };
    const int64_t id = add(s, "count", "2", "1", NULL);
    int ready[2];
    char byte;
    assert_int_equal(pipe(ready), 0);
    assert_int_equal(job_folder_make(s, id, "none", &err), 0);
    struct job_channel channel;
    job_channel_of_store(&channel, s, id);
    assert_int_equal(job_channel_state(&channel, STATE_RUNNING, "", &err), 0);
    const pid_t child = fork();
    if (child == 0) {
        signal(SIGTERM, SIG_DFL);
        signal(SIGUSR1, SIG_DFL);
        if (job_lock(channel.folder, id, "lock", NULL) < 0 || write(ready[1], "", 1) != 1) _exit(1);
        for (;;) pause();
    }
    close(ready[1]);
    assert_int_equal(read(ready[0], &byte, 1), 1);
    assert_int_equal(pid_of(s, id), child);
    ask(s, id, JOB_PAUSE);
    ask(s, id, JOB_CANCEL);
    for (int i = 0; i < 20; i++) nap();
    assert_int_equal(waitpid(child, NULL, WNOHANG), 0);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    close(ready[0]);
    job_channel_release(&channel);
    store_close(s);
}

static void a_failed_job_says_why(void **state)
{
    struct store *s = open_store();
    char *message;
    int64_t id = add(s, "count", "3", "1", "fail");
    start(s, id);
    await(s, id, STATE_FAILED);
    state_of(s, id, NULL, &message);
    assert_string_equal(message, "the data file is gone");
    free(message);
    assert_logged(s, id, "failed: the data file is gone");
    assert_curve(s, id, 3);
    id = add(s, "hungry", "3", "1", NULL);
    start(s, id);
    await(s, id, STATE_FAILED);
    state_of(s, id, NULL, &message);
    assert_contains(message, "needs a model");
    free(message);
    id = add(s, "unheard-of", "3", "1", NULL);
    start(s, id);
    await(s, id, STATE_FAILED);
    store_close(s);
}

// A job's process that dies leaves only its last message.
static void an_interrupted_job_says_why(void **state)
{
    struct store *s = open_store();
    char *message;
    const int64_t id = add(s, "count", "3", "1", "fatal");
    start(s, id);
    await(s, id, STATE_INTERRUPTED);
    state_of(s, id, NULL, &message);
    assert_string_equal(message, "the model file was cut short in the middle");
    free(message);
    // The message does not belong to the next process, which died before it began.
    store_run(s, NULL, "UPDATE jobs SET state = 'waiting', asked = 0 WHERE id = ?", "i", id);
    assert_int_equal(state_of(s, id, NULL, &message), STATE_INTERRUPTED);
    assert_string_equal(message, "");
    free(message);
    start(s, id);
    await(s, id, STATE_DONE);
    assert_logged(s, id, "interrupted: the model file was cut short in the middle");
    state_of(s, id, NULL, &message);
    assert_string_equal(message, "");
    free(message);
    store_close(s);
}

// Children inherit an ignored SIGCHLD; the end of their own children would then go unnoticed.
static void a_job_starts_with_sigchld_ignored(void **state)
{
    struct store *s = open_store();
    const int64_t id = add(s, "count", "3", "1", NULL);
    signal(SIGCHLD, SIG_IGN);
    start(s, id);
    signal(SIGCHLD, SIG_DFL);
    await(s, id, STATE_DONE);
    store_close(s);
}

// A job is not reported as started if its process could not be created.
static void a_job_that_cannot_start_says_why(void **state)
{
    struct store *s = open_store();
    struct err err = { 0 };
    for (int ignored = 0; ignored < 2; ignored++) {
        const int64_t id = add(s, "count", "3", "1", NULL);
        char *output = job_path(s, id, "output"), *message;
        assert_int_equal(job_folder_make(s, id, "none", &err), 0);
        assert_int_equal(mkdir(output, 0700), 0); // so that the last step before the start fails
        if (ignored) signal(SIGCHLD, SIG_IGN);
        assert_int_equal(store_job_start(s, id, NULL, &err), -1);
        signal(SIGCHLD, SIG_DFL);
        assert_contains(err.text, strerror(EISDIR));
        assert_int_equal(state_of(s, id, NULL, &message), STATE_FAILED);
        free(message);
        free(output);
    }
    store_close(s);
}

// Events wait while the database rejects writes; after `patience`, the job fails.
static void a_lost_database_fails_the_job(void **state)
{
    struct store *s = open_store(), *job = open_store();
    struct err err;
    const int64_t id = add(s, "count", "100000", "5", NULL);
    assert_int_equal(sqlite3_exec(job->db,
                                  "CREATE TEMP TRIGGER full BEFORE INSERT ON metrics "
                                  "WHEN NEW.step > 20 BEGIN SELECT RAISE(ABORT, 'no room'); END",
                                  NULL, NULL, NULL),
                     SQLITE_OK);
    assert_int_equal(run_in(job, id, 0.3, &err), -1);
    store_close(job);
    assert_contains(err.text, "cannot be saved");
    assert_contains(err.text, "no room");
    assert_int_equal(state_of(s, id, NULL, NULL), STATE_FAILED);
    assert_curve(s, id, 21); // only complete steps, none lost
    sqlite3_exec(s->db, "UPDATE jobs SET arguments = '[\"30\",\"1\"]'", NULL, NULL, NULL);
    assert_int_equal(run_here(database, id, 0.3, &err), STATE_DONE);
    store_close(s);
}

// If the database cannot even store the job's end, the job's folder keeps the reason.
static void a_lost_database_does_not_hide_the_reason(void **state)
{
    static const char refuse[] = "CREATE TEMP TRIGGER %s BEFORE UPDATE ON jobs WHEN NEW.state %s "
                                 "BEGIN SELECT RAISE(ABORT, 'no room'); END";
    struct store *s = open_store();
    struct err err;
    char *message;
    static const char *const when[] = { "<> 'running'", "= 'running'" };
    for (int begun = 1; begun >= 0; begun--) {
        const int64_t id = add(s, "count", "3", "1", NULL);
        struct store *job = open_store();
        char *sql = sqlite3_mprintf(refuse, "full", when[!begun]);
        assert_int_equal(sqlite3_exec(job->db, sql, NULL, NULL, NULL), SQLITE_OK);
        sqlite3_free(sql);
        assert_int_equal(run_in(job, id, 0.3, &err), -1);
        store_close(job);
        assert_contains(err.text, "no room");
        // Pretends that it was started 30 s earlier.
        if (!begun) sqlite3_exec(s->db, "UPDATE jobs SET asked = asked - 30", NULL, NULL, NULL);
        assert_int_equal(state_of(s, id, NULL, &message), STATE_INTERRUPTED);
        assert_contains(message, "no room");
        free(message);
        assert_int_equal(run_here(database, id, 0, &err), STATE_DONE);
    }
    // A job that cannot open its database leaves its message in its folder, from which it is read.
    const int64_t id = add(s, "count", "3", "1", NULL);
    assert_int_equal(job_folder_make(s, id, "none", &err), 0);
    err_set(&err, "it is not a database");
    job_start_error_report(database, id, &err);
    sqlite3_exec(s->db, "UPDATE jobs SET asked = asked - 30", NULL, NULL, NULL);
    assert_int_equal(state_of(s, id, NULL, &message), STATE_INTERRUPTED);
    assert_string_equal(message, "it is not a database");
    free(message);
    store_close(s);
}

static void jobs_pause_while_a_shell_answers(void **state)
{
    struct store *s = open_store();
    double before, after;
    const int64_t id = add(s, "count", "100000", "1", NULL);
    set("job.pause_while_answering", "on");
    start(s, id);
    await_step(s, id, 3);
    tell(&(struct event){ .kind = EVENT_ANSWERING, .ok = true });
    nanosleep(&(struct timespec){ .tv_nsec = 700000000 },
              NULL); // progress is written twice a second
    state_of(s, id, &before, NULL);
    for (int i = 0; i < 120; i++) nap();
    state_of(s, id, &after, NULL);
    assert_true(before == after);
    tell(&(struct event){ .kind = EVENT_ANSWERING, .ok = false });
    await_step(s, id, after + 5);
    // The job follows a request while it is paused.
    tell(&(struct event){ .kind = EVENT_ANSWERING, .ok = true });
    nap();
    ask(s, id, JOB_CANCEL);
    await(s, id, STATE_CANCELLED);
    store_close(s);
}

static void a_former_schema_is_migrated(void **state)
{
    struct store *s = open_store();
    struct err err;
    say(ROLE_USER, "hello");
    reply("hi");
    char *name = xstrdup(store_session(s));
    assert_int_equal(
        sqlite3_exec(s->db,
                     "DROP TABLE job_scores; DROP TABLE job_results; DROP TABLE job_log; "
                     "DROP TABLE metrics; DROP TABLE job_series; DROP TABLE job_reads; "
                     "DROP TABLE jobs; DROP TABLE shells; "
                     "DROP TABLE calibrations; DROP TABLE results; DROP TABLE presets; "
                     "ALTER TABLE settings_changes DROP COLUMN tokens; "
                     "ALTER TABLE answers DROP COLUMN boxes; "
                     "ALTER TABLE answers DROP COLUMN reasoning; "
                     "ALTER TABLE answers DROP COLUMN reasoning_tokens; "
                     "ALTER TABLE answers DROP COLUMN answer_at; "
                     "DROP TABLE commands; DROP TABLE drafts; ALTER TABLE model_changes DROP "
                     "COLUMN arithmetic; "
                     "PRAGMA user_version = 1",
                     NULL, NULL, NULL),
        SQLITE_OK);
    store_close(s);
    s = open_store();
    assert_int_equal(number(s, "PRAGMA user_version"), store_version());
    assert_kept(name, "user:hello assistant:hi");
    const int64_t id = add(s, "count", "2", "1", NULL);
    assert_int_equal(run_here(database, id, 0, &err), STATE_DONE);
    free(name);
    store_close(s);
}

// A damaged database must not give Slurm's commands options: scancel --user=NAME.
static void numbers_of_the_queue_are_numbers(void **state)
{
    static const char *const queues[] = { "--user=root", "12" };
    struct store *s = open_store();
    struct err err = { 0 };
    const struct job_spec spec = { .kind = "count" };
    int64_t id;
    char *script = xasprintf("%s/scancel", folder), *log = xasprintf("%s/log", folder);
    char *before = xstrdup(getenv("PATH")), *path = xasprintf("%s:%s", folder, before);
    FILE *f = fopen(script, "w");
    assert_non_null(f);
    fprintf(f, "#!/bin/sh\necho \"$@\" >>'%s'\n", log);
    fclose(f);
    assert_int_equal(chmod(script, 0700), 0);
    setenv("PATH", path, 1);
    assert_int_equal(store_job_add(s, &spec, &id, &err), 0);
    for (size_t i = 0; i < 2; i++) {
        s->queue_polled = clock_seconds() + 1000; // asks no Slurm
        assert_int_equal(store_run(s, &err,
                                   "UPDATE jobs SET state = 'running', queue = ?, queued = "
                                   "'RUNNING', script = 'x' WHERE id = ?",
                                   "ti", queues[i], id),
                         0);
        assert_int_equal(store_job_withdraw(s, id, &err), i ? 0 : -1);
    }
    char *ran = file_read(log, 1000, NULL, &err);
    assert_string_equal(ran, "12\n");
    setenv("PATH", before, 1);
    free(ran);
    free(script);
    free(log);
    free(before);
    free(path);
    store_close(s);
}

int main(int argc, char **argv)
{
    if (argc == 6 && !strcmp(argv[1], "job")) return be_a_job(argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_jobs_curves_and_log_are_stored, setup, teardown),
        cmocka_unit_test_setup_teardown(a_paused_job_resumes, setup, teardown),
        cmocka_unit_test_setup_teardown(a_killed_job_is_interrupted_and_resumes, setup, teardown),
        cmocka_unit_test_setup_teardown(a_cancelled_job_ends, setup, teardown),
        cmocka_unit_test_setup_teardown(a_job_without_a_folder_is_reached, setup, teardown),
        cmocka_unit_test_setup_teardown(a_former_databases_folder_is_left_alone, setup, teardown),
        cmocka_unit_test_setup_teardown(a_job_without_a_lock_is_reached, setup, teardown),
        cmocka_unit_test_setup_teardown(a_foreign_folder_is_kept, setup, teardown),
        cmocka_unit_test_setup_teardown(an_unknown_state_is_shown, setup, teardown),
        cmocka_unit_test_setup_teardown(a_cancelled_step_ends, setup, teardown),
        cmocka_unit_test_setup_teardown(querying_a_job_sends_no_signal, setup, teardown),
        cmocka_unit_test_setup_teardown(a_failed_job_says_why, setup, teardown),
        cmocka_unit_test_setup_teardown(an_interrupted_job_says_why, setup, teardown),
        cmocka_unit_test_setup_teardown(a_job_starts_with_sigchld_ignored, setup, teardown),
        cmocka_unit_test_setup_teardown(a_job_that_cannot_start_says_why, setup, teardown),
        cmocka_unit_test_setup_teardown(a_lost_database_fails_the_job, setup, teardown),
        cmocka_unit_test_setup_teardown(a_lost_database_does_not_hide_the_reason, setup, teardown),
        cmocka_unit_test_setup_teardown(jobs_pause_while_a_shell_answers, setup, teardown),
        cmocka_unit_test_setup_teardown(a_former_schema_is_migrated, setup, teardown),
        cmocka_unit_test_setup_teardown(numbers_of_the_queue_are_numbers, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
