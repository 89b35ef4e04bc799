// commands/context.c -- /context: shows how much of the context is used; computes no tokens.
#include <inttypes.h>

#include "commands/command.h"

static int context_run(struct shell *shell, int argc, char **argv, struct err *err)
{
    struct engine_context c;
    struct table_builder t;
    if (engine_context(shell->engine, &c, err) < 0) return -1;
    const int64_t used = c.text + c.visual + c.waiting_visual;
    table_begin(&t, "context", "text#|visual#|waiting#|cached#|limit#|left#|percent#");
    table_row(&t, "%" PRId64 "|%" PRId64 "|%" PRId64 "|%" PRId64 "|%" PRId64 "|%" PRId64 "|%.1f",
              c.text, c.visual, c.waiting_visual, c.cached, c.limit, c.limit - used,
              c.limit > 0 ? 100.0 * (double)used / (double)c.limit : 0.0);
    table_emit(&t, shell->sinks);
    return 0;
}

const struct command command_context = {
    .name = "context",
    .also = "tokens window room",
    .usage = "/context",
    .help = "Shows context usage: text, visual and cached tokens, and tokens left.",
    .details =
        "text, visual: tokens of the conversation; waiting: tokens of pictures attached to the "
        "next message; cached: tokens in the KV cache; limit: the setting ctx.max.",
    .needs = NEEDS_MODEL,
    .run = context_run,
};
