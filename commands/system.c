// commands/system.c -- /system: the system message.
#include <stdlib.h>

#include "commands/command.h"
#include "core/template/message.h"

static int system_run(struct shell *shell, int argc, char **argv, struct err *err)
{
    if (argc) return engine_system(shell->engine, argv[0], err);
    const struct engine_talk c = engine_talk(shell->engine);
    if (!c.message_count || c.messages[0].role != ROLE_SYSTEM) {
        sinks_text(shell->sinks, "no system message (the chat template may add its own)");
        return 0;
    }
    char *text = message_text(&c.messages[0]);
    sinks_text(shell->sinks, "%s", text);
    free(text);
    return 0;
}

const struct command command_system = {
    .name = "system",
    .also = "prompt instruction",
    .usage = "/system [TEXT]",
    .help = "Sets the system message; without TEXT shows it, \"\" removes it.",
    .max = 1,
    .rest = true,
    .run = system_run,
};
