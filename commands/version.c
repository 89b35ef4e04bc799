// commands/version.c -- /version: the version and the device.
#include "commands/command.h"

static int version_run(struct shell *shell, int argc, char **argv, struct err *err)
{
    sinks_text(shell->sinks, "vlmsh %s (%s)", VERSION, engine_backend(shell->engine)->describe());
    return 0;
}

const struct command command_version = {
    .name = "version",
    .usage = "/version",
    .help = "Shows the version and the device.",
    .run = version_run,
};
