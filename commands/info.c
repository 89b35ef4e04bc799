// commands/info.c -- /info: the loaded model, its size and memory.
#include "commands/command.h"

static int info_run(struct shell *shell, int argc, char **argv, struct err *err)
{
    struct err why = { "" };
    if (engine_identify(shell->engine, &why) < 0 && engine_cancelled(shell->engine))
        err_set(&why, "hashing was stopped; /info continues hashing");
    engine_show(shell->engine, why.text);
    return 0;
}

const struct command command_info = {
    .name = "info",
    .also = "model about details",
    .usage = "/info",
    .help = "Shows the model: family, parameters by part, precision, memory, device.",
    .run = info_run,
};
