// commands/ask.c -- /ask: asks one question, or every question of a file, here or as a job.

#include <stdlib.h>
#include <string.h>

#include "commands/command.h"
#include "commands/jobs.h"
#include "core/base/text.h"
#include "core/eval/ask.h"
#include "core/template/message.h"

static char *system_text(const struct engine *e)
{
    const struct engine_talk c = engine_talk(e);
    if (!c.message_count || c.messages[0].role != ROLE_SYSTEM) return NULL;
    return message_text(&c.messages[0]);
}

// --- here ----------------------------------------------------------------------------------------

static void report_end(const struct shell *shell, const struct ask_report *report, const char *out)
{
    char *text = ask_report_text(report, out), *beside = ask_temporary(out);
    sinks_notice(shell->sinks, "%s", text);
    if (report->waits)
        sinks_notice(shell->sinks,
                     "'%s' is unchanged until all samples are answered again; '%s' holds the new "
                     "answers so far: repeat the command to continue",
                     out, beside);
    free(beside);
    free(text);
}

static int ask_here(struct shell *shell, int argc, char **argv, struct err *err)
{
    struct ask_work w = { 0 };
    if (ask_options_read(&w.options, argc, argv, err) < 0) return -1;
    char *system = system_text(shell->engine);
    if (!w.options.system) w.options.system = system;
    struct grid g = grid_of_engine(shell->engine);
    g.self = &w;
    grid_add(&g, NULL, settings_copy(engine_settings(shell->engine)))->set = w.options.set;
    const int status = grid_run(&g, &ask_plan, err);
    if (status >= 0) report_end(shell, &w.report, w.options.out);
    ask_report_release(&w.report);
    grid_release(&g);
    free(system);
    return status < 0 ? -1 : 0;
}

// --- as a job ------------------------------------------------------------------------------------

static const char *value_of(const char *name, int argc, char **argv)
{
    for (int i = 0; i + 1 < argc && argv[i]; i++)
        if (!strcmp(argv[i], name)) return argv[i + 1];
    return NULL;
}

static int ask_job(struct shell *shell, int argc, char **argv, struct err *err)
{
    const char *data = value_of("--data", argc, argv);
    char *system = value_of("--system", argc, argv) ? NULL : system_text(shell->engine);
    char *out = NULL;
    if (data && !value_of("--out", argc, argv)) { // "questions.answers.jsonl" in the current folder
        const char *name = text_file_name(data), *dot = strrchr(name, '.');
        out = xasprintf("%.*s.answers.jsonl", (int)(dot > name ? dot - name : (long)strlen(name)),
                        name);
    }
    char **words = xcalloc((size_t)argc + 4, sizeof *words);
    char out_option[] = "--out", system_option[] = "--system";
    int count = 0;
    for (int i = 0; i < argc && argv[i]; i++)
        if (strcmp(argv[i], "--job") != 0) words[count++] = argv[i];
    if (out) words[count++] = out_option, words[count++] = out;
    if (system) words[count++] = system_option, words[count++] = system;
    const int status = shell_start_job(shell, "ask", count, words, err);
    free(words);
    free(out);
    free(system);
    return status;
}

// --- the command ---------------------------------------------------------------------------------

static int ask_run_command(struct shell *shell, int argc, char **argv, struct err *err)
{
    bool job = false;
    for (int i = 0; i < argc; i++) job |= !strcmp(argv[i], "--job");
    if (argc == 1 && !job && !ask_is_option(argv[0]))
        return engine_ask(shell->engine, argv[0], err);
    if (!job) return ask_here(shell, argc, argv, err);
    return command_check_needs(shell, NEEDS_STORE, err) < 0 ? -1 : ask_job(shell, argc, argv, err);
}

const struct command command_ask = {
    .name = "ask",
    .usage = "/ask TEXT | /ask --data FILE --out FILE.jsonl [--images DIR] [--limit N] "
             "[--system TEXT] [--again] [--job [--ranks N]]",
    .help = "Asks the model a question, or every question of a data file.",
    .details = "With --data, each sample is a separate conversation, with the current system "
               "message and settings. The current conversation stays as it is.",
    .options = ask_rows,
    .min = 1,
    .rest = true,
    .split = true,
    .needs = NEEDS_MODEL,
    .run = ask_run_command,
};
