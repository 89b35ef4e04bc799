// commands/run.c -- /run: a file of lines, up to the first error.
#include "commands/command.h"

static int run_run(struct shell *shell, int argc, char **argv, struct err *err)
{
    shell->depth++;
    const int status = shell_script(shell, argv[0], err);
    shell->depth--;
    return status;
}

const struct command command_run = {
    .name = "run",
    .usage = "/run FILE",
    .help = "Runs the lines of a file and stops at the first that fails.",
    .details = "/help lines says how lines are read.",
    .min = 1,
    .max = 1,
    .complete = COMPLETE_PATH,
    .run = run_run,
};
