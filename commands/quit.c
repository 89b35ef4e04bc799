// commands/quit.c -- /quit.
#include "commands/command.h"

static int quit_run(struct shell *shell, int argc, char **argv, struct err *err)
{
    shell->quit = true;
    return 0;
}

const struct command command_quit = {
    .name = "quit",
    .also = "leave close stop end",
    .alias = "exit bye q",
    .usage = "/quit",
    .help = "Quits; the session is kept.",
    .run = quit_run,
};
