// commands/adapter.c -- /adapter: loads, applies, shows, saves, merges and unloads adapters.
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "commands/command.h"
#include "core/adapter/adapter.h"
#include "core/adapter/adapters.h"
#include "core/adapter/model_write.h"
#include "core/base/file_in.h"
#include "core/base/names.h"
#include "core/files/checkpoint.h"
#include "core/jobs/identity.h"
#include "core/new/new_model.h"
#include "core/train/roles.h"
#include "core/train/trained.h"

// Reads each method's role from the adapter's training record.
static void read_roles(const struct adapter *a, enum method_role role[METHODS_MAX])
{
    cJSON *record = trained_record(a->folder);
    roles_get(role, record);
    cJSON_Delete(record);
}

// Warns if training.json records a different base model, or if the loaded model cannot be
// identified.
static void notice_base(const struct shell *shell, const struct adapter *a)
{
    cJSON *record = trained_record(a->folder);
    const char *base = cJSON_GetStringValue(cJSON_GetObjectItem(record, "fingerprint"));
    struct checkpoint *c = engine_checkpoint(shell->engine);
    struct err err;
    if (base && engine_identify(shell->engine, &err) < 0)
        sinks_notice(shell->sinks, "cannot check whether the adapter was trained on this model: %s",
                     err.text);
    else if (base && strcmp(base, c->fingerprint) != 0 && !checkpoint_matches_earlier(c, base)) {
        char *which = checkpoint_files_differ(identity_of(record).files, c->files);
        sinks_notice(shell->sinks,
                     "the adapter was trained on a different model ('%s'%s%s): answers may be "
                     "wrong",
                     *a->base ? a->base : "unknown", which ? ", or its files have changed: " : "",
                     which ? which : "");
        free(which);
    }
    cJSON_Delete(record);
}

void adapter_report(const struct shell *shell)
{
    enum { NAMED = 5 };
    struct adapter *a = shell->engine ? engine_adapters(shell->engine)->active : NULL;
    struct buf b = { 0 };
    if (!a || a->reported) return;
    a->reported = true;
    if (a->unused)
        sinks_notice(shell->sinks,
                     "%" PRId64 " tensors of the adapter belong to parts that inference does not "
                     "use",
                     a->unused);
    names_put(&b, &a->bare, NAMED);
    if (a->bare.count)
        sinks_notice(shell->sinks,
                     "the adapter has no tensors for %zu of the %" PRId64
                     " weights that its adapter_config.json targets; they stay unchanged: %s",
                     a->bare.count, a->targets, b.data);
    buf_release(&b);
    for (size_t i = 0; i < a->notices.count; i++)
        sinks_notice(shell->sinks, "%s", a->notices.list[i]);
    // The folder of a model trained with a method holds its parameters, too; model_report has named
    // the settings of its training.
    const bool own = file_same(a->folder, engine_checkpoint(shell->engine)->folder);
    if (!own) notice_base(shell, a);
    trained_say(a->folder, a, own, engine_settings(shell->engine), shell->sinks);
}

static void notice_loaded(const struct shell *shell, struct adapter *a)
{
    char *kinds = adapter_kinds(a);
    sinks_notice(shell->sinks, "adapter '%s' applied: %s, %" PRId64 " parameters", a->name, kinds,
                 adapter_parameters(a));
    free(kinds);
    a->reported = false;
    adapter_report(shell);
    const char *scale = settings_text(engine_settings(shell->engine), "adapter.scale");
    if (adapter_has(a, ADAPTER_LORA) && strtod(scale, NULL) != 1)
        sinks_notice(
            shell->sinks,
            "the adapter's LoRA scale is multiplied by %s: /set adapter.scale 1 restores the "
            "trained scale",
            scale);
    if (settings_is(engine_settings(shell->engine), "adapter.when", "pictures"))
        sinks_notice(shell->sinks, "the adapter is used only in conversations with a picture: "
                                   "/set adapter.when always uses it in all conversations");
}

static int load(struct shell *shell, int argc, char **argv, struct err *err)
{
    if (engine_adapter_load(shell->engine, argv[0], err) < 0) return -1;
    notice_loaded(shell, engine_adapters(shell->engine)->active);
    return 0;
}

static int unload(struct shell *shell, int argc, char **argv, struct err *err)
{
    return engine_adapter_unload(shell->engine, argc ? argv[0] : NULL, err);
}

static int list(struct shell *shell, int argc, char **argv, struct err *err)
{
    const struct adapters *s = engine_adapters(shell->engine);
    struct table_builder t;
    table_begin(&t, "adapters", "name|active|holds|parameters#|folder");
    for (size_t i = 0; i < s->count; i++) {
        const struct adapter *a = s->list[i];
        table_row(&t, "%s|%s", a->name, a == s->active ? "yes" : "no");
        table_take(&t, adapter_kinds(a));
        table_row(&t, "%" PRId64 "|%s", adapter_parameters(a), a->folder);
    }
    table_emit(&t, shell->sinks);
    return 0;
}

// Returns the adapter in use, or NULL with a message.
static const struct adapter *need_active(const struct shell *shell, struct err *err)
{
    const struct adapter *a = engine_adapters(shell->engine)->active;
    if (!a) err_set(err, "no adapter is applied: /adapter load FOLDER");
    return a;
}

static int show(struct shell *shell, int argc, char **argv, struct err *err)
{
    const struct adapters *s = engine_adapters(shell->engine);
    const struct adapter *a = argc ? adapters_find(s, argv[0]) : need_active(shell, err);
    if (!a && argc) return err_set(err, "no adapter '%s' is loaded (/adapter list)", argv[0]);
    if (!a) return -1;
    enum method_role role[METHODS_MAX];
    read_roles(a, role);
    char *kinds = adapter_kinds(a), *acting = roles_text(role);
    const bool seeing = settings_is(engine_settings(shell->engine), "adapter.when", "pictures");
    sinks_text(shell->sinks, "%s: %s, %" PRId64 " parameters; trained on '%s'%s%s; %s", a->folder,
               kinds, adapter_parameters(a), *a->base ? a->base : "(unknown)",
               acting ? " with " : "", acting ? acting : "",
               a != s->active ? "not applied"
               : seeing       ? "applied only in conversations with a picture"
                              : "applied");
    free(kinds);
    free(acting);
    adapter_show(a, shell->sinks);
    return 0;
}

static int scale(struct shell *shell, int argc, char **argv, struct err *err)
{
    const struct adapter *a = need_active(shell, err);
    if (!a) return -1;
    if (!adapter_has(a, ADAPTER_LORA))
        return err_set(err, "adapter '%s' has no LoRA: only LoRA can be scaled", a->name);
    return engine_set(shell->engine, "adapter.scale", argv[0], err);
}

// --- writing -------------------------------------------------------------------------------------

struct output {
    const char *folder, *type;
    bool once;
};

static const struct option_row merge_options[] = {
    { "FOLDER", NULL, "the output folder", OPTION_TEXT, .at = offsetof(struct output, folder) },
    { "--once", NULL, "does nothing if FOLDER already holds a model", OPTION_FLAG,
      .at = offsetof(struct output, once) },
    { 0 },
};

static const struct option_row save_options[] = {
    { "FOLDER", NULL, "the output folder", OPTION_TEXT, .at = offsetof(struct output, folder) },
    { "--type", "TYPE", "precision: f32 (default), bf16 or f16 (half the size)", OPTION_TEXT,
      .at = offsetof(struct output, type) },
    { "--once", NULL, "does nothing if FOLDER already holds an adapter", OPTION_FLAG,
      .at = offsetof(struct output, once) },
    { 0 },
};

static int report_existing(struct shell *shell, const char *folder, const char *what)
{
    sinks_notice(shell->sinks, "%s already holds %s: nothing to do", folder, what);
    return 0;
}

static int merge(struct shell *shell, int argc, char **argv, struct err *err)
{
    struct output o = { 0 };
    struct merge_report r;
    if (options_parse(merge_options, &o, argc, argv, err) < 0) return -1;
    const char *folder = o.folder;
    if (o.once && new_model_written(folder)) return report_existing(shell, folder, "a model");
    if (engine_adapter_merge(shell->engine, folder, &r, err) < 0) return -1;
    sinks_written(shell->sinks, "model", folder, NULL);
    sinks_notice(shell->sinks,
                 "merged into '%s'; logits before and after merging (%" PRId64 " tokens of a fixed "
                 "prompt): largest difference %.3g, largest logit %.3g",
                 folder, r.rows, (double)r.difference, (double)r.largest);
    if (r.routed)
        sinks_notice(
            shell->sinks,
            "this model is a mixture of experts: where rounding the merged weights to the folder's "
            "dtype changes the router's choice, logits differ much more than rounding alone "
            "explains");
    return 0;
}

static int save(struct shell *shell, int argc, char **argv, struct err *err)
{
    struct output o = { .type = "f32" };
    if (options_parse(save_options, &o, argc, argv, err) < 0) return -1;
    if (o.once && adapter_is(o.folder)) return report_existing(shell, o.folder, "an adapter");
    const struct adapter *a = need_active(shell, err);
    if (!a || adapter_save(a, o.type, o.folder, err) < 0) return -1;
    sinks_written(shell->sinks, "adapter", o.folder, NULL);
    sinks_notice(shell->sinks, "adapter '%s' saved in '%s' in %s", a->name, o.folder, o.type);
    return 0;
}

// --- the command ---------------------------------------------------------------------------------

static const struct command_action actions[] = {
    { "list", NULL, "lists the loaded adapters; the default action", 0, 0, .run = list },
    { "load", "FOLDER",
      "reads the folder and applies the adapter; adapter.when decides whether conversations "
      "without a picture use it",
      1, 1, .run = load },
    { "unload", "[NAME]", "stops using the adapter; unload NAME also removes it from the list", 0,
      1, .run = unload },
    { "show", "[NAME]", "shows ranks, tensor counts and norms", 0, 1, .run = show },
    { "scale", "X",
      "multiplies the LoRA scale (the setting adapter.scale); weights that the adapter replaces "
      "are not scaled",
      1, 1, .run = scale },
    { "save", "FOLDER [--type TYPE] [--once]",
      "writes a copy of the adapter in use, with its LoRA at the current scale", 1, -1, .run = save,
      .options = save_options },
    { "merge", "FOLDER [--once]",
      "writes a merged model with the original tensor names and types, and compares logits before "
      "and after on a fixed prompt",
      1, -1, .run = merge, .options = merge_options },
    { 0 },
};

const struct command command_adapter = {
    .name = "adapter",
    .also = "lora peft weights",
    .usage =
        "/adapter load FOLDER|unload [NAME]|list|show [NAME]|scale X|save FOLDER [--type TYPE] "
        "[--once]|merge FOLDER [--once]",
    .help = "Loads, unloads, shows, scales, saves or merges adapters (LoRA, LN tuning).",
    .details =
        "FOLDER is an adapter in PEFT format (LoRA, LN tuning, modules_to_save); tensors that "
        "PEFT cannot represent are in extra.safetensors. Changes apply from the next token. The "
        "setting `adapter` names the adapter in use; /set adapter none removes it.",
    .needs = NEEDS_MODEL,
    .live = "load unload scale",
    .complete = COMPLETE_WORDS,
    .actions = actions,
    .action_at = 1,
    .usual = "load",
};
