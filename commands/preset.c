// commands/preset.c -- /preset: named sets of settings, the papers' and the user's.
#include "commands/command.h"

#include <stdlib.h>
#include <string.h>

#include "core/engine/presets.h"
#include "core/methods/method.h"
#include "core/probes/taps.h"
#include "core/settings/changes.h"
#include "core/train/run_folder.h"
#include "core/train/trained.h"
#include "sessions/records.h"

// Adds the settings of training from the record of a run. Any other setting in the record is
// ignored: the folder may come from someone else.
static int add_run(const char *folder, struct preset_values *v, struct err *err)
{
    static const char training[] = "train.";
    cJSON *record = run_folder_read(folder, err);
    if (!record) return err_in(err, "the settings of a training run");
    const size_t before = v->count;
    const cJSON *one;
    cJSON_ArrayForEach(one, json_get(record, "settings"))
    {
        if (cJSON_IsString(one) && one->string && !strncmp(one->string, training, strlen(training)))
            preset_add(v, one->string, one->valuestring);
    }
    cJSON_Delete(record);
    if (v->count > before) return 0;
    return err_set(err,
                   "'%s/training.json' has no settings of training: name the folder of one run "
                   "(that of a sweep's best run is SWEEP/best)",
                   folder);
}

// Adds the values of a built-in or saved preset, or of a training run if `name` has a slash, which
// names of presets never have.
static int preset_named(const struct shell *shell, const char *name, struct preset_values *v,
                        struct err *err)
{
    const struct preset *p = preset_find(name);
    v->settings = engine_settings(shell->engine);
    if (p) return preset_read(v, p, engine_model(shell->engine), err);
    if (strchr(name, '/')) return add_run(name, v, err);
    if (!shell->store) return err_set(err, "no preset '%s' (/preset list)", name);
    struct preset_values own = { 0 };
    const int status = store_preset_read(shell->store, name, &own, err);
    for (size_t i = 0; i < own.count && status == 0; i++)
        preset_add(v, own.list[i].key, own.list[i].value);
    preset_values_release(&own);
    return status;
}

// Adds a preset to the settings of a comparison, with the adapter or calibration that the model's
// folder has for it; omits defaults of settings that are at their default, unless *v sets them.
static int add_preset(const struct shell *shell, const char *name, struct preset_values *v,
                      struct err *err)
{
    const struct settings *now = engine_settings(shell->engine);
    struct preset_values all = { 0 };
    const int status = preset_named(shell, name, &all, err);
    preset_fit(&all, engine_model(shell->engine), now, preset_find(name) != NULL);
    for (size_t i = 0; i < all.count && status == 0; i++) {
        const struct change *c = &all.list[i];
        const struct setting *row = settings_find(c->key);
        if (!row || strcmp(c->value, row->def) != 0 || settings_changed(now, c->key) ||
            preset_says(v, c->key))
            preset_add(v, c->key, c->value);
    }
    preset_values_release(&all);
    return status;
}

// Returns whether the word may be a key. Keys have more than one letter, so that a question may
// begin with x=3. Capitals and digits may follow a dot only: in variables of chat templates.
static bool is_key(const char *word, size_t length)
{
    const size_t named = strspn(word, "abcdefghijklmnopqrstuvwxyz_.");
    return length > 1 && (named == length || named > strcspn(word, "."));
}

int preset_words(const struct shell *shell, int argc, char **argv, struct preset_values *v,
                 struct err *err)
{
    int i = 0, status = 0;
    for (; i < argc && status == 0; i++) {
        const char *word = argv[i], *equals = strchr(word, '=');
        if (i == 0 && !strcmp(word, "off"))
            preset_off(v);
        else if (word[0] == '@' && word[1])
            status = add_preset(shell, word + 1, v, err);
        else if (equals && is_key(word, (size_t)(equals - word))) {
            char *key = xstrndup(word, (size_t)(equals - word));
            status =
                settings_find(key) ? preset_add_word(v, word, err) : settings_unknown(key, err);
            free(key);
        } else if (i || strcmp(word, "now") != 0)
            break;
    }
    return status < 0 ? -1 : i;
}

// --- the actions ---------------------------------------------------------------------------------

// Returns whether /preset save stores the setting. Without a KEY, it stores settings of methods,
// settings that recipes set, and all others that differ from their default.
static bool is_saved(const struct settings *s, const struct setting *row, int argc, char **argv)
{
    if (!setting_listed(row, s)) return false;
    if (!argc) return method_of(row->key) || preset_sets(row->key) || settings_changed(s, row->key);
    for (int i = 0; i < argc; i++)
        if (tap_match(argv[i], row->key)) return true;
    return false;
}

static int check_name(const char *name, struct err *err)
{
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                  "._-";
    if (preset_find(name))
        return err_set(err, "'%s' is a built-in preset: choose another name", name);
    if (strlen(name) > 64 || strspn(name, allowed) != strlen(name))
        return err_set(err, "a preset's name may have up to 64 letters, digits, '.', '_' and '-'");
    return 0;
}

// Reads NAME [KEY...] and saves the preset.
static int save(struct shell *shell, int argc, char **argv, struct err *err)
{
    const struct settings *s = engine_settings(shell->engine);
    const struct setting *row;
    struct preset_values v = { 0 };
    if (check_name(argv[0], err) < 0) return -1;
    for (int k = 1; k < argc; k++) {
        bool any = false;
        for (int i = 0; (row = settings_row(i)); i++) any |= tap_match(argv[k], row->key);
        if (!any) return settings_unknown(argv[k], err);
    }
    for (int i = 0; (row = settings_row(i)); i++)
        if (is_saved(s, row, argc - 1, argv + 1))
            preset_add(&v, row->key, settings_text(s, row->key));
    struct preset_values former = { 0 };
    const bool replaces = store_preset_read(shell->store, argv[0], &former, NULL) == 0;
    const int status = store_preset_save(shell->store, argv[0], v.list, v.count, err);
    if (status == 0)
        sinks_notice(shell->sinks, "preset '%s'%s: %zu setting%s (/preset show %s)", argv[0],
                     replaces ? " replaced" : "", v.count, v.count == 1 ? "" : "s", argv[0]);
    preset_values_release(&former);
    preset_values_release(&v);
    return status;
}

static int load(struct shell *shell, int argc, char **argv, struct err *err)
{
    struct preset_values v = { 0 };
    int status = preset_named(shell, argv[0], &v, err);
    preset_fit(&v, engine_model(shell->engine), engine_settings(shell->engine),
               preset_find(argv[0]) != NULL);
    if (status == 0) status = engine_set_all(shell->engine, v.list, v.count, err);
    if (status < 0)
        err_in(err, "preset '%s'", argv[0]);
    else if (v.guessed)
        sinks_notice(shell->sinks, "this model's early, transition and late layers are not known: "
                                   "using 1/8, 3/8 and 5/8 of its depth");
    if (status == 0)
        sinks_notice(shell->sinks, "preset '%s' loaded: %zu setting%s (/preset show %s)", argv[0],
                     v.count, v.count == 1 ? "" : "s", argv[0]);
    if (status == 0 && !preset_find(argv[0]) && strchr(argv[0], '/'))
        trained_say_unset(argv[0], engine_settings(shell->engine), shell->sinks);
    preset_values_release(&v);
    return status;
}

static int list(struct shell *shell, int argc, char **argv, struct err *err)
{
    struct table_builder t;
    struct names own = { 0 };
    const struct preset *p;
    if (shell->store && store_presets(shell->store, &own, err) < 0) return -1;
    table_begin(&t, "presets", "preset|help|settings");
    for (int i = 0; (p = preset_at(i)); i++) {
        table_row(&t, "%s|%s|%s", p->name, p->help, *p->set ? p->set : "(defaults)");
    }
    for (size_t i = 0; i < own.count; i++) {
        struct preset_values v = { 0 };
        struct buf b = { 0 };
        if (store_preset_read(shell->store, own.list[i], &v, NULL) == 0)
            for (size_t k = 0; k < v.count; k++)
                buf_printf(&b, "%s%s=%s", k ? " " : "", v.list[k].key, v.list[k].value);
        table_row(&t, "%s|own|%s", own.list[i], b.data);
        buf_release(&b);
        preset_values_release(&v);
    }
    table_emit(&t, shell->sinks);
    names_release(&own);
    return 0;
}

static int show(struct shell *shell, int argc, char **argv, struct err *err)
{
    const struct settings *s = engine_settings(shell->engine);
    struct preset_values v = { 0 };
    struct table_builder t;
    if (preset_named(shell, argv[0], &v, err) < 0) {
        preset_values_release(&v);
        return -1;
    }
    table_begin(&t, "preset", "key|value|now");
    for (size_t i = 0; i < v.count; i++) {
        const bool known = settings_find(v.list[i].key) != NULL;
        table_row(&t, "%s|%s|%s", v.list[i].key, v.list[i].value,
                  known ? settings_text(s, v.list[i].key) : "(unknown setting)");
    }
    table_emit(&t, shell->sinks);
    preset_values_release(&v);
    return 0;
}

static int delete (struct shell *shell, int argc, char **argv, struct err *err)
{
    if (preset_find(argv[0]))
        return err_set(err, "'%s' is a built-in preset: it cannot be deleted", argv[0]);
    if (store_preset_delete(shell->store, argv[0], err) < 0) return -1;
    sinks_notice(shell->sinks, "deleted preset '%s'", argv[0]);
    return 0;
}

static const struct command_action actions[] = {
    { "list", NULL, "lists all presets; the default action", 0, 0, .run = list },
    { "show", "NAME|RUN", "lists the values of a preset or a training run", 1, 1, .run = show },
    { "load", "NAME|RUN", "sets all values, or none if one is invalid", 1, 1, .run = load },
    { "save", "NAME [KEY...]",
      "saves the settings of methods and recipes, and all other non-default settings; with KEY, "
      "only the settings that KEY names or matches, such as prune.*",
      1, -1, .needs = NEEDS_STORE, .run = save },
    { "delete", "NAME", "deletes a preset that you saved", 1, 1, .needs = NEEDS_STORE,
      .run = delete },
    { 0 },
};

const struct command command_preset = {
    .name = "preset",
    .alias = "presets",
    .usage = "/preset [list | show NAME|RUN | load NAME|RUN | save NAME [KEY...] | delete NAME]",
    .help = "Loads, saves, lists and deletes presets, including the papers' recipes.",
    .details =
        "A recipe sets its values (/preset list) after resetting every setting that any recipe "
        "sets, so that no value of an earlier recipe remains. A recipe without training settings "
        "leaves those unchanged. To combine methods, load a recipe, then use /capa, /align, /ira "
        "or /set. A recipe that enables a method also loads its adapter or calibration from the "
        "model's folder (methods/adapter, methods/ffn.safetensors), unless one is already in "
        "use; training recipes load neither.\n"
        "\n"
        "{early}, {transition}, {late} and {ffn} are layers of the loaded model: the CAPA paper's "
        "layers for LLaVA-1.5-7B, Qwen2.5-VL-7B and InternVL3-8B; for other models 1/8, 3/8 and "
        "5/8 of the depth, and auto for {ffn}. If phases.calibration is set "
        "(/calibrate phases), the first three are its layers. In /compare, write @NAME for a "
        "preset.\n"
        "\n"
        "RUN is the folder of a training run, with a slash: its settings train.* are loaded (a "
        "notice names others that it had), for instance to train again with a sweep's best value "
        "and another seed:\n"
        "    /preset load runs/rates/best\n"
        "    /set train.seed 2",
    .live = "load",
    .complete = COMPLETE_PRESET,
    .actions = actions,
    .action_at = 1,
    .usual = "load",
};
