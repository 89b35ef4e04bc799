// commands/memory.c -- /memory: memory of model and conversation, layer by layer.
#include <string.h>

#include "commands/command.h"
#include "core/probes/results.h"

static int memory_run(struct shell *shell, int argc, char **argv, struct err *err)
{
    struct results r = { 0 };
    struct buf json = { 0 };
    engine_memory(shell->engine, &r);
    results_show(&r, shell->sinks);
    results_json(&r, &json);
    sinks_emit(shell->sinks,
               &(struct event){ .kind = EVENT_MEASURED, .key = "memory", .text = json.data });
    buf_release(&json);
    const int status = argc == 2 ? results_write_csv(&r, argv[1], shell->sinks, err) : 0;
    results_release(&r);
    return status;
}

static int memory_check(int argc, char **argv, struct err *err)
{
    if (argc && (argc != 2 || strcmp(argv[0], "--csv") != 0))
        return err_set(err, "/memory takes no arguments but --csv FILE");
    return 0;
}

const struct command command_memory = {
    .name = "memory",
    .also = "ram gpu usage",
    .usage = "/memory [--csv FILE]",
    .help = "Shows memory use: weights, KV cache by layer, pictures.",
    .details =
        "Weights are memory-mapped: the system can reclaim their resident pages at any time.\n"
        "Pruned layers hold fewer rows; with kv.dtype bf16, keys and values take half the\n"
        "memory of f32. --csv FILE writes each table to FILE-TABLE.csv.",
    .writes = true,
    .max = 2,
    .needs = NEEDS_MODEL,
    .complete = COMPLETE_PATH,
    .check = memory_check,
    .run = memory_run,
};
