// commands/load.c -- /load opens a model, /unload frees it.
#include <stdlib.h>

#include "commands/command.h"
#include "core/adapter/adapter.h"
#include "core/adapter/adapters.h"
#include "core/base/clock.h"
#include "core/files/checkpoint.h"
#include "core/train/trained.h"

struct load_options {
    const char *model, *encoder;
    bool ignore;
};

static const struct option_row options[] = {
    { "MODEL", NULL, "a folder, GGUF file or name in the hub cache", OPTION_TEXT,
      .at = offsetof(struct load_options, model) },
    { "--mmproj", "FILE",
      "picture encoder of a GGUF model (default: of the *mmproj*.gguf beside it that fit, the one "
      "with the most similar name); none loads the text model alone",
      OPTION_TEXT, .at = offsetof(struct load_options, encoder) },
    { "--ignore-weights", NULL,
      "loads the model without weights that vlmsh does not know, but then its answers are wrong",
      OPTION_FLAG, .at = offsetof(struct load_options, ignore) },
    { 0 },
};

static int load_run(struct shell *shell, int argc, char **argv, struct err *err)
{
    struct load_options o = { 0 };
    struct event_info info;
    const double begin = clock_seconds();
    if (options_parse(options, &o, argc, argv, err) < 0) return -1;
    // Combines MODEL and its options into one name.
    char *name = o.encoder ? checkpoint_with_encoder(o.model, o.encoder) : xstrdup(o.model);
    if (o.ignore) {
        char *joined = engine_ignoring(name);
        free(name);
        name = joined;
    }
    const int status = engine_load_as_set(shell->engine, name, err);
    if (status == 0) {
        engine_info(shell->engine, &info);
        const bool billions = info.parameters >= 1000000000;
        sinks_notice(shell->sinks, "loaded '%s': %s, %.4g %s parameters, %s, %.2f s", name,
                     info.family, (double)info.parameters / (billions ? 1e9 : 1e6),
                     billions ? "billion" : "million",
                     engine_has_vision(shell->engine) ? "with vision" : "text only",
                     clock_seconds() - begin);
        const struct adapter *a = engine_adapters(shell->engine)->active;
        if (a)
            sinks_notice(shell->sinks,
                         "adapter '%s' stays applied: /adapter unload if it is merged into this "
                         "model, which would apply it twice",
                         a->name);
    }
    free(name);
    return status;
}

void model_report(struct shell *shell)
{
    const struct checkpoint *c = shell->engine ? engine_checkpoint(shell->engine) : NULL;
    if (c == shell->reported) return;
    shell->reported = c;
    if (c) trained_say(c->folder, NULL, false, engine_settings(shell->engine), shell->sinks);
}

const struct command command_load = {
    .name = "load",
    .also = "open model models checkpoint",
    .usage = "/load MODEL [--mmproj FILE] [--ignore-weights]",
    .help = "Loads a model folder in Hugging Face format, or a GGUF file.",
    .details =
        "MODEL is a folder with config.json and *.safetensors, possibly quantised (FP8, AWQ, GPTQ, "
        "bitsandbytes ...); a GGUF file (the first of a split model); a folder with one GGUF "
        "model; or org/name, which vlmsh looks up in the local hub cache (HF_HUB_CACHE, "
        "HF_HOME/hub, ~/.cache/huggingface/hub). If a folder holds several GGUF models, name one: "
        "FOLDER/FILE.gguf, org/name/FILE.gguf.\n"
        "\n"
        "The conversation continues with the new model. If loading fails, the previous model "
        "stays loaded. Unknown weights inside a layer that vlmsh computes are an error, unless "
        "--ignore-weights is given. A notice and /info list all other unknown weights and GGUF "
        "keys.",
    .options = options,
    .min = 1,
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
