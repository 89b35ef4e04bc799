// commands/memory.c -- /memory: memory of model and conversation, layer by layer.
#include "commands/command.h"
#include "core/probes/results.h"

static const struct option_row options[] = {
    { "--csv", "FILE", "writes a file for each table, such as x-memory.csv for x.csv",
      .type = OPTION_TEXT },
    { 0 },
};

static int memory_run(struct shell *shell, int argc, char **argv, struct err *err)
{
    const char *csv = NULL;
    struct results r = { 0 };
    if (options_parse(options, &csv, argc, argv, err) < 0) return -1;
    engine_memory(shell->engine, &r);
    results_show(&r, shell->sinks);
    results_emit(&r, "memory", NULL, false, shell->sinks);
    const int status = csv ? results_write_csv(&r, csv, shell->sinks, err) : 0;
    results_release(&r);
    return status;
}

const struct command command_memory = {
    .name = "memory",
    .also = "ram gpu usage",
    .usage = "/memory [--csv FILE]",
    .help = "Shows memory use: weights, KV cache by layer, pictures.",
    .details =
        "The system can reclaim the resident pages of mapped weights at any time. Layers after "
        "pruning hold fewer rows; with kv.dtype bf16, keys and values take half the memory of "
        "f32.",
    .options = options,
    .writes = true,
    .needs = NEEDS_MODEL,
    .complete = COMPLETE_PATH,
    .run = memory_run,
};
