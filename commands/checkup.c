// commands/checkup.c -- /checkup and `vlmsh checkup`: a check-up of models, as a job or here.
#include <stdlib.h>
#include <string.h>

#include "commands/jobs.h"
#include "core/checkup/checkup.h"
#include "core/files/checkpoint.h"

// The words without --here; the model in use if none is named. The caller frees the list.
static char **read_words(const struct shell *shell, int argc, char **argv, int *count, bool *here)
{
    const struct checkpoint *loaded = engine_checkpoint(shell->engine);
    char **words = xcalloc((size_t)argc + 2, sizeof *words);
    bool named = false;
    *count = 0;
    *here = false;
    for (int i = 0; i < argc; i++) {
        const bool value =
            i && (!strcmp(argv[i - 1], "--pictures") || !strcmp(argv[i - 1], "--out") ||
                  !strcmp(argv[i - 1], "--only") || !strcmp(argv[i - 1], "--sbatch"));
        if (!value && !strcmp(argv[i], "--here")) {
            *here = true;
            continue;
        }
        named |= !value && *argv[i] != '-';
        words[(*count)++] = argv[i];
    }
    if (!named && loaded) words[(*count)++] = loaded->name;
    return words;
}

static int check_here(struct shell *shell, int argc, char **argv, struct err *err)
{
    struct checkup_work w = { .settings = engine_settings(shell->engine),
                              .backend = engine_backend(shell->engine),
                              .sinks = shell->sinks,
                              .cancel = engine_cancel_flag(shell->engine) };
    if (checkup_options_read(&w.options, argc, argv, err) < 0) return -1;
    char *folder = checkup_folder(&w.options);
    int status = checkup_run(&w, err);
    if (status > 0) status = err_set(err, "stopped; the same command continues in '%s'", folder);
    if (status == 0) status = checkup_show(folder, shell->sinks, err);
    if (status == 0) {
        sinks_written(shell->sinks, "checkup", folder, NULL);
        sinks_notice(shell->sinks, "%s; '%s/checkup.html'", w.outcome, folder);
    }
    free(folder);
    checkup_work_release(&w);
    return status;
}

static int checkup_command(struct shell *shell, int argc, char **argv, struct err *err)
{
    bool here;
    int count, status = 0;
    char **words = read_words(shell, argc, argv, &count, &here);
    // `vlmsh checkup` has no database: it checks here.
    if (here || !shell->store)
        status = check_here(shell, count, words, err);
    else
        status = shell_start_job(shell, "checkup", count, words, err);
    free(words);
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
    { "compare", "A B",
      "shows the differences between check-ups A and B, folders or checkup.json files", 2, 2,
      .run = compare },
    { 0 },
};

const struct command command_checkup = {
    .name = "checkup",
    .also = "test verify sanity broken diagnose doctor",
    .usage = "/checkup " CHECKUP_USAGE " [--here] | show DIR | compare A B",
    .help = "Checks whether a model works, as a job, and writes a report.",
    .details = "MODEL is a folder, a GGUF file or a name in the hub cache (default: the loaded "
               "model). Runs as a job (/jobs, /wait); --here runs it in this process. Writes "
               "checkup.html, checkup.md and checkup.json to DIR after each check. To continue an "
               "interrupted check-up, resume the job or repeat the command. `vlmsh checkup MODEL` "
               "does the same.",
    .options = checkup_rows,
    .complete = COMPLETE_MODEL,
    .actions = actions,
    .run = checkup_command,
};
