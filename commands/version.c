// commands/version.c -- /version: the version and the device.
#include "commands/command.h"
#include "core/engine/device.h"

static int version_run(struct shell *shell, int argc, char **argv, struct err *err)
{
    sinks_text(shell->sinks, "vlmsh %s (%s)", VERSION, device_text(engine_backend(shell->engine)));
    return 0;
}

const struct command command_version = {
    .name = "version",
    .usage = "/version",
    .help = "Shows the version and the device.",
    .run = version_run,
};
