// commands/forward.c -- /forward, /raw and /dump: the forward pass itself.
#include <string.h>

#include "commands/command.h"
#include "commands/parse.h"

static int forward_run(struct shell *shell, int argc, char **argv, struct err *err)
{
    return engine_forward(shell->engine, argv[0], err);
}

const struct command command_forward = {
    .name = "forward",
    .usage = "/forward TEXT",
    .help = "Runs a forward pass over the prompt with TEXT, without generating.",
    .details = "Also writes the tensors that an earlier /dump requested. The conversation does not "
               "change.",
    .min = 1,
    .max = 1,
    .rest = true,
    .needs = NEEDS_MODEL,
    .run = forward_run,
};

static int raw_run(struct shell *shell, int argc, char **argv, struct err *err)
{
    struct event_info info;
    struct ids ids = { 0 };
    engine_info(shell->engine, &info);
    int status = token_ids_read(&ids, argc, argv, info.vocabulary, err);
    if (status == 0 && !ids.count) status = err_set(err, "no token ids given");
    if (status == 0) status = engine_raw(shell->engine, ids.data, ids.count, err);
    ids_release(&ids);
    return status;
}

const struct command command_raw = {
    .name = "raw",
    .usage = "/raw ID...",
    .help = "Feeds token ids to the model without a chat template and shows its answer.",
    .min = 1,
    .max = -1,
    .needs = NEEDS_MODEL,
    .run = raw_run,
};

static const char ending[] = ".safetensors";

static int dump_run(struct shell *shell, int argc, char **argv, struct err *err)
{
    const char *path = argv[argc - 1];
    const size_t length = strlen(path);
    struct buf patterns = { 0 };
    if (length <= strlen(ending) || strcmp(path + length - strlen(ending), ending))
        return err_set(err, "the last argument must be the file to write, ending in %s, not '%s'",
                       ending, path);
    for (int i = 0; i < argc - 1; i++) buf_printf(&patterns, "%s%s", i ? "," : "", argv[i]);
    const int status = engine_dump(shell->engine, patterns.data, path, err);
    if (status == 0)
        sinks_notice(shell->sinks, "the next forward pass writes %s to '%s'", patterns.data, path);
    buf_release(&patterns);
    return status;
}

const struct command command_dump = {
    .name = "dump",
    .also = "tensors activations hidden export",
    .usage = "/dump NAME... FILE.safetensors",
    .help = "Writes tensors of the next forward pass (of an answer or /forward) to a file.",
    .details =
        "NAME is a tap (/help taps lists them); * matches anything, ? one character: "
        "layer.3.in, attn.*.probs, logits. All are of the prompt's pass, except step.logits, "
        "which are of the answer's tokens. If tokens are pruned, tensors after that have only the "
        "rows that remain (rows.K). Replaces a file only if it is empty or a dump.",
    .min = 2,
    .max = -1,
    .needs = NEEDS_MODEL,
    .complete = COMPLETE_PATH,
    .run = dump_run,
};
