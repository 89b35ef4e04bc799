// tests/toys/command.c -- a command with its own setting.
#include "tests/toys/toys.h"

static const struct setting plaything_settings[] = {
    { .key = "plaything.size",
      .type = SETTING_INTEGER,
      .min = 1,
      .max = 9,
      .def = "3",
      .unit = "bricks",
      .stale = STALE_NOTHING,
      .help = "Size of the toy." },
    { 0 },
};

static int toy_run(struct shell *shell, int argc, char **argv, struct err *err)
{
    sinks_notice(shell->sinks, "a toy of size %s",
                 settings_text(engine_settings(shell->engine), "plaything.size"));
    return 0;
}

const struct command command_toy = {
    .name = "toy",
    .usage = "/toy",
    .help = "Says how large the toy is.",
    .settings = plaything_settings,
    .run = toy_run,
};
