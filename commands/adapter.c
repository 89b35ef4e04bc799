// commands/adapter.c -- /adapter: loads, applies, shows, saves, merges and unloads adapters.
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "commands/command.h"
#include "commands/option_table.h"
#include "core/adapter/adapter.h"
#include "core/adapter/adapters.h"
#include "core/adapter/model_write.h"
#include "core/base/names.h"
#include "core/files/checkpoint.h"
#include "core/jobs/identity.h"
#include "core/new/new_model.h"
#include "core/train/out.h"
#include "core/train/roles.h"

struct adapter_words {
    const char *action, *argument, *type; // NULL: not given
    bool once;
};

// What methods did in the training that made it, by its record.
static void read_roles(const struct adapter *a, enum method_role role[METHODS_MAX])
{
    cJSON *record = out_read(a->folder, NULL);
    roles_get(role, record);
    cJSON_Delete(record);
}

// Methods that are off although the adapter was trained with them.
static void notice_methods(const struct shell *shell, const struct adapter *a)
{
    enum method_role role[METHODS_MAX];
    const struct method *m;
    read_roles(a, role);
    for (int i = 0; (m = method_at(i)); i++) {
        if (method_on(m, engine_settings(shell->engine))) continue;
        if (adapter_learned(a, m))
            sinks_notice(shell->sinks,
                         "it includes trained parameters of %s: /set %s %s enables it", m->title,
                         m->toggle.key, m->toggle.on);
        else if (role[i] == ROLE_FIXED)
            sinks_notice(shell->sinks,
                         "it was trained while %s was on: /set %s %s computes the same model",
                         m->title, m->toggle.key, m->toggle.on);
    }
}

// Warns if training.json records another base model.
static void notice_base(const struct shell *shell, const struct adapter *a)
{
    cJSON *record = out_read(a->folder, NULL);
    const char *base = cJSON_GetStringValue(cJSON_GetObjectItem(record, "fingerprint"));
    struct checkpoint *c = engine_checkpoint(shell->engine);
    struct err err;
    if (base && engine_identify(shell->engine, &err) < 0)
        sinks_notice(shell->sinks, "not checked whether the adapter was trained on this model: %s",
                     err.text);
    else if (base && strcmp(base, c->fingerprint) != 0 && !checkpoint_was(c, base)) {
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

// Targets of adapter_config.json for which the file has no tensors.
static void notice_bare(const struct shell *shell, const struct adapter *a)
{
    enum { NAMED = 5 };
    struct buf b = { 0 };
    if (!a->bare.count) return;
    names_put(&b, &a->bare, NAMED);
    sinks_notice(shell->sinks,
                 "the adapter has no tensors for %zu of the %" PRId64
                 " weights that its adapter_config.json targets, which stay the model's: %s",
                 a->bare.count, a->targets, b.data);
    buf_release(&b);
}

// Unused parts of its folder, and missing ones.
static void notice_doubts(const struct shell *shell, struct adapter *a)
{
    if (a->unused)
        sinks_notice(shell->sinks,
                     "%" PRId64 " of its tensors belong to parts that inference does not use",
                     a->unused);
    notice_bare(shell, a);
    for (size_t i = 0; i < a->notices.count; i++)
        sinks_notice(shell->sinks, "%s", a->notices.list[i]);
    notice_base(shell, a);
    a->told = true;
}

void adapter_tell(const struct shell *shell)
{
    struct adapter *a = shell->engine ? engine_adapters(shell->engine)->active : NULL;
    if (a && !a->told) notice_doubts(shell, a);
}

static void notice_loaded(const struct shell *shell, struct adapter *a)
{
    char *kinds = adapter_kinds(a);
    sinks_notice(shell->sinks, "adapter '%s' applied: %s, %" PRId64 " parameters", a->name, kinds,
                 adapter_parameters(a));
    free(kinds);
    notice_doubts(shell, a);
    const char *scale = settings_text(engine_settings(shell->engine), "adapter.scale");
    if (adapter_has(a, ADAPTER_LORA) && strtod(scale, NULL) != 1)
        sinks_notice(
            shell->sinks,
            "its LoRA scale is multiplied by %s: /set adapter.scale 1 restores the trained scale",
            scale);
    if (settings_is(engine_settings(shell->engine), "adapter.when", "pictures"))
        sinks_notice(shell->sinks, "it is used only in conversations with a picture: /set "
                                   "adapter.when always uses it in all");
    notice_methods(shell, a);
}

static int load_run(struct shell *shell, const struct adapter_words *w, struct err *err)
{
    const char *folder = w->argument;
    if (!folder) return err_set(err, "FOLDER is missing: /adapter load FOLDER");
    if (engine_adapter_load(shell->engine, folder, err) < 0) return -1;
    notice_loaded(shell, engine_adapters(shell->engine)->active);
    return 0;
}

static int unload_run(struct shell *shell, const struct adapter_words *w, struct err *err)
{
    return engine_adapter_unload(shell->engine, w->argument, err);
}

static int list_run(struct shell *shell, const struct adapter_words *w, struct err *err)
{
    static const char *const columns[] = { "name", "active", "holds", "parameters", "folder" };
    static const bool numeric[] = { false, false, false, true, false };
    const struct adapters *s = engine_adapters(shell->engine);
    struct table_builder t;
    if (w->argument) return err_set(err, "/adapter list takes no arguments");
    table_begin(&t, "adapters", 5, columns, numeric);
    for (size_t i = 0; i < s->count; i++) {
        const struct adapter *a = s->list[i];
        char *kinds = adapter_kinds(a);
        table_add(&t, "%s", a->name);
        table_add(&t, "%s", a == s->active ? "yes" : "no");
        table_add(&t, "%s", kinds);
        table_add(&t, "%" PRId64, adapter_parameters(a));
        table_add(&t, "%s", a->folder);
        free(kinds);
    }
    table_emit(&t, shell->sinks);
    return 0;
}

// --- show ----------------------------------------------------------------------------------------

static int show_run(struct shell *shell, const struct adapter_words *w, struct err *err)
{
    const char *name = w->argument;
    const struct adapters *s = engine_adapters(shell->engine);
    const struct adapter *a = name ? adapters_find(s, name) : s->active;
    if (!a && name) return err_set(err, "no adapter '%s' is loaded (/adapter list)", name);
    if (!a) return err_set(err, "no adapter is applied: /adapter load FOLDER");
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

// --- scale, merge, save --------------------------------------------------------------------------

static int scale_run(struct shell *shell, const struct adapter_words *w, struct err *err)
{
    const char *factor = w->argument;
    const struct adapter *a = engine_adapters(shell->engine)->active;
    if (!factor) return err_set(err, "X is missing: /adapter scale X");
    if (!a) return err_set(err, "no adapter is applied: /adapter load FOLDER");
    if (!adapter_has(a, ADAPTER_LORA))
        return err_set(err, "adapter '%s' has no LoRA: only LoRA can be scaled", a->name);
    return engine_set(shell->engine, "adapter.scale", factor, err);
}

static int say_once(struct shell *shell, const char *folder, const char *what)
{
    sinks_notice(shell->sinks, "%s already holds %s: nothing to do", folder, what);
    return 0;
}

static int merge_run(struct shell *shell, const struct adapter_words *w, struct err *err)
{
    const char *folder = w->argument;
    struct merge_report r;
    if (!folder) return err_set(err, "FOLDER is missing: /adapter merge FOLDER");
    if (w->once && new_model_written(folder)) return say_once(shell, folder, "a model");
    if (engine_adapter_merge(shell->engine, folder, &r, err) < 0) return -1;
    sinks_written(shell->sinks, "model", folder, NULL);
    sinks_notice(shell->sinks,
                 "merged into '%s'; logits before and after merging (%" PRId64 " tokens of a fixed "
                 "prompt): largest difference %.3g, largest logit %.3g",
                 folder, r.rows, (double)r.difference, (double)r.largest);
    if (r.routed)
        sinks_notice(shell->sinks,
                     "a router chooses this model's experts: where the merged weights, rounded to "
                     "the folder's dtype, change its choice, logits differ much more than by "
                     "rounding alone");
    return 0;
}

static int save_run(struct shell *shell, const struct adapter_words *w, struct err *err)
{
    const struct adapter *a = engine_adapters(shell->engine)->active;
    if (!w->argument) return err_set(err, "FOLDER is missing: /adapter save FOLDER");
    if (w->once && adapter_is(w->argument)) return say_once(shell, w->argument, "an adapter");
    if (!a) return err_set(err, "no adapter is applied: /adapter load FOLDER");
    if (adapter_save(a, w->type, w->argument, err) < 0) return -1;
    sinks_written(shell->sinks, "adapter", w->argument, NULL);
    sinks_notice(shell->sinks, "adapter '%s' saved in '%s' in %s", a->name, w->argument, w->type);
    return 0;
}

// --- the command line ----------------------------------------------------------------------------

static const struct action {
    const char *name;
    int (*run)(struct shell *shell, const struct adapter_words *w, struct err *err);
    bool type, once; // takes these options
} actions[] = {
    { "load", load_run, false, false },   { "unload", unload_run, false, false },
    { "list", list_run, false, false },   { "show", show_run, false, false },
    { "scale", scale_run, false, false }, { "save", save_run, true, true },
    { "merge", merge_run, false, true },
};

static int take_type(void *self, const char *value, struct err *err)
{
    (void)err;
    ((struct adapter_words *)self)->type = value;
    return 0;
}

static int take_once(void *self, const char *value, struct err *err)
{
    (void)value, (void)err;
    ((struct adapter_words *)self)->once = true;
    return 0;
}

static int take_word(void *self, const char *value, struct err *err)
{
    struct adapter_words *w = self;
    if (w->argument)
        return err_set(err, "give one argument only: '%s' or '%s'", w->argument, value);
    *(w->action ? &w->argument : &w->action) = value;
    return 0;
}

static const struct option_row rows[] = {
    { "--type", "TYPE", "type of the numbers: f32, bf16 or f16", take_type },
    { "--once", NULL, "does nothing if FOLDER already holds one", take_once },
    { 0 },
};
static const struct option_table table = { rows, take_word };

static const char *const words[] = { "load",  "unload", "list",  "show",
                                     "scale", "save",   "merge", NULL };

static int adapter_run(struct shell *shell, int argc, char **argv, struct err *err)
{
    struct adapter_words w = { 0 };
    int at = 0;
    if (option_table_read(&table, &w, argc, argv, &at, err) < 0) return -1;
    if (!w.action) w.action = "list";
    for (size_t i = 0; i < sizeof actions / sizeof *actions; i++) {
        const struct action *one = &actions[i];
        if (strcmp(w.action, one->name) != 0) continue;
        if (w.type && !one->type) return err_set(err, "/adapter %s takes no --type", one->name);
        if (w.once && !one->once) return err_set(err, "/adapter %s takes no --once", one->name);
        if (!w.type) w.type = "f32";
        return one->run(shell, &w, err);
    }
    BUG("/adapter has no action '%s'", w.action);
}

const struct command command_adapter = {
    .name = "adapter",
    .also = "lora peft weights",
    .usage =
        "/adapter load FOLDER|unload [NAME]|list|show [NAME]|scale X|save FOLDER [--type TYPE] "
        "[--once]|merge FOLDER [--once]",
    .help = "Loads, unloads, shows, scales, saves or merges adapters (LoRA, LN tuning).",
    .details =
        "FOLDER is an adapter in PEFT format (LoRA, LN tuning, modules_to_save); tensors that\n"
        "PEFT cannot represent are in extra.safetensors. Changes apply from the next token. The\n"
        "setting `adapter` names the adapter in use; /set adapter none removes it.\n"
        "load           reads the folder and applies the adapter; the setting adapter.when says\n"
        "               whether it is used in conversations without a picture\n"
        "unload         removes the adapter; unload NAME also forgets a loaded one\n"
        "show           ranks, tensor counts and norms\n"
        "scale X        multiplies the LoRA scale (the setting adapter.scale); weights that the\n"
        "               adapter replaces are not scaled\n"
        "save FOLDER    writes the adapter in use again, its LoRA at the scale it has now\n"
        "--type TYPE    type of its numbers: f32, bf16 (half the size) or f16; f32 if not given\n"
        "merge FOLDER   writes a merged model with the original tensor names and types, and\n"
        "               compares logits before and after on a fixed prompt\n"
        "--once         does nothing if FOLDER already holds an adapter or, to merge, a model",
    .max = 5,
    .needs = NEEDS_MODEL,
    .live = "load unload scale",
    .complete = COMPLETE_WORDS,
    .words = words,
    .action_at = 1,
    .usual = "load",
    .run = adapter_run,
};
