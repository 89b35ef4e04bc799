// commands/load.c -- /load and /unload: loads and unloads the model.
#include <string.h>

#include "commands/command.h"
#include "core/base/clock.h"
#include "core/model/families/family.h"

static int load_run(struct shell *shell, int argc, char **argv, struct err *err)
{
    struct model_part parts[MODEL_PARTS];
    int64_t parameters = 0;
    const double begin = clock_seconds();
    if (engine_load(shell->engine, argv[0], err) < 0) return -1;
    const struct model *m = engine_model(shell->engine);
    model_count(m, parts);
    for (int i = 0; i < MODEL_PARTS; i++) parameters += parts[i].parameters;
    sinks_notice(shell->sinks, "loaded '%s': %s, %.4g million parameters, %s, %.2f s", argv[0],
                 m->family->name, (double)parameters / 1e6,
                 model_sees(m) ? "with vision" : "text only", clock_seconds() - begin);
    return 0;
}

const struct command command_load = {
    .name = "load",
    .usage = "/load MODEL",
    .help = "Loads a model folder in Hugging Face format.",
    .details =
        "MODEL is a folder with config.json and *.safetensors, or org/name, which is looked up\n"
        "in the local hub cache (HF_HUB_CACHE, HF_HOME/hub, ~/.cache/huggingface/hub). The\n"
        "conversation continues with the new model. If loading fails, the previous model stays\n"
        "loaded.",
    .min = 1,
    .max = 1,
    .complete = COMPLETE_MODEL,
    .run = load_run,
};

static int unload_run(struct shell *shell, int argc, char **argv, struct err *err)
{
    engine_unload(shell->engine);
    return 0;
}

const struct command command_unload = {
    .name = "unload",
    .usage = "/unload",
    .help = "Unloads the model and frees its memory; the conversation stays.",
    .needs = NEEDS_MODEL,
    .run = unload_run,
};
