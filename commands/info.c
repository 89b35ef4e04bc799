// commands/info.c -- /info: the loaded model, its size and memory.
#include "commands/command.h"

static int info_run(struct shell *shell, int argc, char **argv, struct err *err)
{
    if (engine_identify(shell->engine, err) < 0) return -1;
    engine_show(shell->engine);
    return 0;
}

const struct command command_info = {
    .name = "info",
    .also = "model about details",
    .usage = "/info",
    .help = "Shows the model: family, parameters by part, precision, memory, device.",
    .run = info_run,
};
