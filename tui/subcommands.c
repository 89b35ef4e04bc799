// tui/subcommands.c -- the table of subcommands and their functions.
#include "tui/subcommands.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "commands/command.h"
#include "commands/reference.h"
#include "core/base/file_in.h"
#include "core/base/mem.h"
#include "core/checkup/checkup.h"
#include "core/engine/device.h"
#include "sessions/job_run.h"
#include "tui/agent.h"
#include "tui/completions.h"
#include "tui/lines.h"
#include "tui/options.h"
#include "tui/plain.h"
#include "tui/signals.h"
#include "tui/text.h"

static int run_version(const struct subcommand *c, int argc, char **argv, struct err *err)
{
    if (argc) {
        err_set(err, "unexpected '%s'", argv[0]);
        return STATUS_USAGE;
    }
    text_printf(stdout, "vlmsh %s\n", VERSION);
    return STATUS_OK;
}

// Runs a command of the shell with plain output, after loading `model` unless it is NULL.
static int run_with(const char *model, const char *name, int argc, char **argv, struct err *err)
{
    const struct command *command = command_find(name);
    if (command->check && command->check(argc, argv, err) < 0) return STATUS_USAGE;
    struct sinks sinks = { 0 };
    struct plain *p = plain_new(false);
    sinks_add(&sinks, plain_sink(p));
    struct shell shell = { .engine = engine_new(NULL, &sinks), .sinks = &sinks };
    signals_start(shell.engine, SIGNALS_SCRIPT);
    int status = STATUS_OK;
    if ((model && engine_load(shell.engine, model, err) < 0) ||
        command_execute(command, &shell, argc, argv, err) < 0)
        status = signals_interrupted() ? STATUS_INTERRUPTED : STATUS_FAILED;
    signals_stop();
    engine_free(shell.engine);
    plain_free(p);
    return status;
}

static int run_command(const struct subcommand *c, int argc, char **argv, struct err *err)
{
    return run_with(NULL, c->name, argc, argv, err);
}

static int run_quantize(const struct subcommand *c, int argc, char **argv, struct err *err)
{
    if (argc && argv[0][0] != '-') return run_with(argv[0], "quantize", argc - 1, argv + 1, err);
    err_set(err, "MODEL, the folder or file to read, is missing");
    return STATUS_USAGE;
}

static int run_help(const struct subcommand *c, int argc, char **argv, struct err *err)
{
    const bool man = argc && !strcmp(argv[0], "--man");
    const bool completion = argc && !strcmp(argv[0], "--completion");
    const bool agent = argc && !strcmp(argv[0], "--agent");
    struct buf b = { 0 };
    if (man) reference_write(&b);
    if (agent) agent_write(&b);
    if (completion && completions_write(&b, argc > 1 ? argv[1] : "", err) < 0) return STATUS_USAGE;
    if (b.data) text_put(stdout, b.data);
    buf_release(&b);
    if (man || completion || agent) return STATUS_OK;
    if (argc) return run_command(c, argc, argv, err);
    options_print_help(stdout);
    return STATUS_OK;
}

// --- vlmsh job -----------------------------------------------------------------------------------

// A job's process runs `vlmsh job run ID`; run by hand, the command prints the job's progress.
//
// SIGINT, SIGTERM and SIGHUP (unless ignored) pause the job: it saves its work and ends; /job N
// resume continues it. A second signal ends the process at once, like kill -9; saved work remains.
// Shells send no signals: they write requests into the job's row (sessions/jobs.c).
struct job_options {
    const char *action, *id, *db, *folder;
};

static int check_db(const char *value, struct err *err)
{
    return *value ? 0 : err_set(err, "--db needs a file name");
}

static const struct option_row job_rows[] = {
    { "run|list", NULL, NULL, OPTION_TEXT, .at = offsetof(struct job_options, action),
      .optional = true },
    { "ID", NULL, NULL, OPTION_TEXT, .at = offsetof(struct job_options, id), .optional = true },
    { "--db", "FILE", NULL, OPTION_TEXT, .at = offsetof(struct job_options, db),
      .check = check_db },
    { "--folder", "DIR", NULL, OPTION_TEXT, .at = offsetof(struct job_options, folder) },
    { 0 },
};

// --- signals -------------------------------------------------------------------------------------

// Signal handlers take no user argument.
static struct job_control control;
static volatile sig_atomic_t asked;

static void on_pause(int signal)
{
    const int saved = errno;
    if (asked) _exit(128 + signal);
    asked = signal;
    job_control_pause(&control);
    errno = saved;
}

static void handle(int signal, void (*handler)(int))
{
    struct sigaction action = { .sa_handler = handler };
    sigemptyset(&action.sa_mask);
    sigaction(signal, &action, NULL);
}

// Sets the signal handlers. A rank reads pause requests from the job's folder; a signal ends all
// ranks.
static void listen(bool rank)
{
    handle(SIGINT, rank ? SIG_DFL : on_pause);
    handle(SIGTERM, rank ? SIG_DFL : on_pause);
    if (!signals_outlive_terminal()) handle(SIGHUP, rank ? SIG_DFL : on_pause);
    handle(SIGPIPE, SIG_IGN);
    handle(SIGXFSZ, SIG_IGN); // a file at its limit: writing fails instead
}

// --- actions -------------------------------------------------------------------------------------

// What started the process of a job: a shell or a user, a queue, or mpirun for one of these.
enum job_way { WAY_HERE, WAY_QUEUED, WAY_RANK };

static int run_way(enum job_way way, const char *place, int64_t id, const struct job_setup *setup,
                   enum job_state *state, struct err *err)
{
    if (way == WAY_RANK) return job_run_rank(place, id, setup, state, err);
    if (way == WAY_QUEUED) return job_run_queued(place, id, setup, state, err);
    struct store *s = store_open(place, err);
    *state = STATE_FAILED;
    if (!s && place) job_start_error_report(place, id, err);
    const int status = s ? job_run_any(s, id, setup, state, err) : -1;
    store_close(s);
    return status;
}

// Runs a job. `place`: the database, or the job's folder.
static int run_job(enum job_way way, const char *place, int64_t id, struct err *err)
{
    struct sinks sinks = { 0 };
    struct plain *p = plain_new(false);
    enum job_state state;
    const struct job_setup setup = {
        .find = job_kind_find,
        .device = device_find,
        .sinks = &sinks,
        .control = &control,
        .rank = way == WAY_RANK,
    };
    sinks_add(&sinks, plain_sink(p));
    listen(way == WAY_RANK);
    const int status = run_way(way, place, id, &setup, &state, err);
    if (status == 0 && way != WAY_RANK)
        sinks_notice(&sinks, "job %lld is %s", (long long)id, job_state_name(state));
    plain_free(p);
    if (status < 0) return STATUS_FAILED;
    err->text[0] = '\0'; // drops the error of an operation that the pause interrupted
    return state == STATE_PAUSED && asked == SIGINT ? STATUS_INTERRUPTED : STATUS_OK;
}

// Prints the table of /jobs.
static int list_jobs(struct store *s, struct err *err)
{
    struct sinks sinks = { 0 };
    struct plain *p = plain_new(false);
    sinks_add(&sinks, plain_sink(p));
    struct shell shell = { .engine = engine_new(NULL, &sinks), .store = s, .sinks = &sinks };
    const int status = command_execute(command_find("jobs"), &shell, 0, NULL, err);
    engine_free(shell.engine);
    plain_free(p);
    return status < 0 ? STATUS_FAILED : STATUS_OK;
}

static const struct {
    const char *action;
    enum job_way way;
} ways[] = { { "run", WAY_HERE }, { "batch", WAY_QUEUED }, { "rank", WAY_RANK } };

static int find_way(const struct job_options *o, enum job_way *way, struct err *err)
{
    for (size_t i = 0; o->action && o->id && i < sizeof ways / sizeof *ways; i++) {
        *way = ways[i].way;
        if (strcmp(o->action, ways[i].action) != 0) continue;
        if (*way == WAY_HERE || o->folder) return 0;
        return err_set(err, "vlmsh job %s needs --folder", o->action);
    }
    return err_set(err, "give an action: run ID, or list");
}

static int run_job_subcommand(const struct subcommand *c, int argc, char **argv, struct err *err)
{
    struct job_options o = { 0 };
    enum job_way way = WAY_HERE;
    int64_t id = 0;
    if (options_parse(job_rows, &o, argc, argv, err) < 0) return STATUS_USAGE;
    const bool list = o.action && !strcmp(o.action, "list") && !o.id;
    if (!list && find_way(&o, &way, err) < 0) return STATUS_USAGE;
    if (!list && option_integer(o.id, 1, INT64_MAX, &id, "ID", err) < 0) return STATUS_USAGE;
    file_in_guard();
    if (!list) return run_job(way, way == WAY_HERE ? o.db : o.folder, id, err);
    struct store *s = store_open(o.db, err);
    const int status = s ? list_jobs(s, err) : STATUS_FAILED;
    store_close(s);
    return status;
}

// --- the table -----------------------------------------------------------------------------------

static const struct subcommand subcommands[] = {
    { "run", "MODEL [QUESTION]", "open MODEL, as `vlmsh MODEL` does; ask QUESTION, as -p does",
      NULL },
    { "new", "--like SHAPE DIR [--dry] [--seed N]",
      "write a model with random weights, or join an encoder and a language model", run_command },
    { "quantize", "MODEL OUT.gguf --type TYPE [--encoder TYPE] [--text FILE | --no-compare]",
      "quantise a model to a GGUF file", run_quantize },
    { "checkup", "MODEL... " CHECKUP_USAGE, "check whether a model works, and write a report",
      run_command },
    { "help", "[COMMAND|SETTING|--man|--completion bash|zsh|fish|--agent]",
      "show this help, or help on one topic; or write the manual page's lists, a shell's "
      "completions, or a manual in JSON for programs that drive --json",
      run_help },
    { "version", "", "show the version", run_version },
    { "scenes",
      "N DIR [--seed S] [--size PIXELS] [--objects N] [--kind KIND]... "
      "[--cause CAUSE] [--once]",
      "generate N pictures with questions", run_command },
    { "job", "run ID|list [--db FILE]", "run a job in this process, or list jobs",
      run_job_subcommand },
};

enum { COUNT = sizeof subcommands / sizeof subcommands[0] };

const struct subcommand *subcommand_at(int index)
{
    return index < COUNT ? &subcommands[index] : NULL;
}

const struct subcommand *subcommand_find(const char *name)
{
    for (int i = 0; i < COUNT; i++)
        if (strcmp(subcommands[i].name, name) == 0) return &subcommands[i];
    return NULL;
}

void subcommands_help(struct buf *b)
{
    for (int i = 0; i < COUNT; i++)
        buf_printf(b, "%s%s%s  %s\n", subcommands[i].name, *subcommands[i].usage ? " " : "",
                   subcommands[i].usage, subcommands[i].help);
}
