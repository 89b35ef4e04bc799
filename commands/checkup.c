// commands/checkup.c -- /checkup and `vlmsh checkup`: checks models, as a job or in this process.
#include <stdlib.h>
#include <string.h>

#include "commands/jobs.h"
#include "core/checkup/checkup.h"
#include "core/files/checkpoint.h"

static int check_here(struct shell *shell, struct checkup_work *w, struct err *err)
{
    char *folder = checkup_folder(&w->options);
    int status = checkup_run(w, err);
    if (status > 0)
        status = err_set(err, "stopped; repeat the command to continue in '%s'", folder);
    if (status == 0) status = checkup_show(folder, shell->sinks, err);
    if (status == 0) sinks_written(shell->sinks, "checkup", folder, NULL);
    if (status == 0 && w->fails)
        status = err_set(err, "%s; the report is '%s/checkup.html'", w->outcome, folder);
    else if (status == 0)
        sinks_notice(shell->sinks, "%s; the report is '%s/checkup.html'", w->outcome, folder);
    free(folder);
    return status;
}

// `model`: the loaded model, for arguments that name no model; else NULL. It becomes an argument,
// because the shell may load another model before the job starts.
static int check_as_job(struct shell *shell, int argc, char **argv, char *model, struct err *err)
{
    char **words = xcalloc((size_t)argc + 2, sizeof *words);
    for (int i = 0; i < argc; i++) words[i] = argv[i];
    if (model) words[argc++] = model;
    const int status = shell_start_job(shell, "checkup", argc, words, err);
    free(words);
    return status;
}

static int checkup_command(struct shell *shell, int argc, char **argv, struct err *err)
{
    const struct checkpoint *loaded = engine_checkpoint(shell->engine);
    struct checkup_work w = { .settings = engine_settings(shell->engine),
                              .backend = engine_backend(shell->engine),
                              .sinks = shell->sinks,
                              .cancel = engine_cancel_flag(shell->engine) };
    char *model = loaded ? loaded->name : NULL;
    int status = checkup_options_read(&w.options, argc, argv, model, err);
    // `vlmsh checkup` has no database, so it checks in this process.
    if (status == 0 && (w.options.here || !shell->store))
        status = check_here(shell, &w, err);
    else if (status == 0)
        status = check_as_job(shell, argc, argv, w.options.unnamed ? model : NULL, err);
    checkup_work_release(&w);
    return status;
}

static int show(struct shell *shell, int argc, char **argv, struct err *err)
{
    return checkup_show(argv[0], shell->sinks, err);
}

static int compare(struct shell *shell, int argc, char **argv, struct err *err)
{
    return checkup_compare(argv[0], argv[1], shell->sinks, err);
}

static const struct command_action actions[] = {
    { "show", "DIR", "shows the findings in DIR as a table", 1, 1, .run = show },
    { "compare", "A B", "shows how check-ups A and B differ (each a folder or a checkup.json file)",
      2, 2, .run = compare },
    { 0 },
};

const struct command command_checkup = {
    .name = "checkup",
    .also = "test verify sanity broken diagnose doctor",
    .usage = "/checkup [MODEL...] " CHECKUP_USAGE " [--here] | show DIR | compare A B",
    .help = "Starts a job that checks whether a model works and writes a report.",
    .details = "MODEL is a folder, a GGUF file or a name in the hub cache (default: the loaded "
               "model). The job (/jobs, /wait) writes checkup.html, checkup.md and checkup.json "
               "to the output folder after each check. To continue an interrupted check-up, "
               "resume the job or repeat the command. The command or job fails if a check fails. "
               "`vlmsh checkup MODEL` does the same.",
    .options = checkup_rows,
    .writes = true,
    .complete = COMPLETE_MODEL,
    .actions = actions,
    .run = checkup_command,
};
