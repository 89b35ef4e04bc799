// commands/switch.c -- /capa, /align, /ira: enable or disable the methods of one recipe; /baseline
// disables all methods.
#include <string.h>

#include "commands/command.h"
#include "core/engine/presets.h"
#include "core/methods/method.h"

// Commands that enable or disable the methods of a preset. commands/list.h must list them too.
static const struct alias {
    const char *command, *preset;
    const char *without; // settings added if the preset alone is refused; NULL: none
} aliases[] = {
    { "capa", "capa-auto", "ffn.approx=off" }, // FFN approximation needs a calibration
    { "align", "norm-alignment", NULL },
    { "ira", "ira", NULL },
};

static int set_all(struct shell *shell, struct preset_values *v, int status, struct err *err)
{
    if (status == 0) status = engine_set_all(shell->engine, v->list, v->count, err);
    preset_values_release(v);
    return status;
}

static int load(struct shell *shell, const struct alias *alias, const char *without,
                struct err *err)
{
    const struct model *m = engine_model(shell->engine);
    struct preset_values v = { .settings = engine_settings(shell->engine) };
    int status = preset_read_text(&v, preset_find(alias->preset)->set, m, err);
    if (status == 0 && without) status = preset_read_text(&v, without, m, err);
    if (status == 0) preset_fit(&v, m, engine_settings(shell->engine), false);
    return set_all(shell, &v, status, err);
}

static int switch_on(struct shell *shell, const struct alias *alias, struct err *err)
{
    struct err why;
    if (!alias->without) return load(shell, alias, NULL, err);
    if (load(shell, alias, NULL, &why) == 0) return 0;
    if (load(shell, alias, alias->without, err) < 0) return -1;
    sinks_notice(shell->sinks, "preset '%s' loaded, but with %s: %s", alias->preset, alias->without,
                 why.text);
    return 0;
}

// Switches off the methods that the preset names.
static int switch_off(struct shell *shell, const struct alias *alias, struct err *err)
{
    struct preset_values on = { 0 }, off = { 0 };
    const struct method *m;
    const int status =
        preset_read_text(&on, preset_find(alias->preset)->set, engine_model(shell->engine), err);
    for (int i = 0; (m = method_shown(i)); i++)
        if (preset_says(&on, m->toggle.key)) preset_add(&off, m->toggle.key, m->toggle.off);
    preset_values_release(&on);
    return set_all(shell, &off, status, err);
}

static int alias_run(struct shell *shell, int argc, char **argv, struct err *err)
{
    const struct alias *alias = aliases;
    while (strcmp(alias->command, shell->running->name) != 0) alias++;
    const bool off = argc && !strcmp(argv[0], "off");
    if (argc && !off && strcmp(argv[0], "on") != 0)
        return err_set(err, "/%s takes on or off, not '%s'", alias->command, argv[0]);
    return off ? switch_off(shell, alias, err) : switch_on(shell, alias, err);
}

static const char *const words[] = { "on", "off", NULL };

#define ALIAS(id, text, more)             \
    const struct command command_##id = { \
        .name = #id,                      \
        .usage = "/" #id " [on|off]",     \
        .help = text,                     \
        .details = more,                  \
        .max = 1,                         \
        .needs = NEEDS_MODEL,             \
        .live = "",                       \
        .complete = COMPLETE_WORDS,       \
        .words = words,                   \
        .run = alias_run,                 \
    };
ALIAS(capa,
      "Enables CAPA's defaults: pruning by contribution, FFN approximation by Hadamard products.",
      "Applies the preset capa-auto to these methods only; others stay unchanged. "
      "Without a calibration the FFN approximation stays off, and a notice says so. `off` disables "
      "these methods. /preset load capa loads the paper's recipe.")
ALIAS(align, "Enables norm alignment with its defaults.",
      "Applies the preset norm-alignment to this method only; others stay unchanged. `off` "
      "disables norm alignment.")
ALIAS(ira, "Enables IRA (information-regularized attention) with its defaults.",
      "Applies the preset ira to this method only; others stay unchanged. Needs an adapter trained "
      "with train.ira. `off` disables IRA.")
#undef ALIAS

static int baseline_run(struct shell *shell, int argc, char **argv, struct err *err)
{
    struct preset_values v = { 0 };
    preset_off(&v);
    return set_all(shell, &v, 0, err);
}

const struct command command_baseline = {
    .name = "baseline",
    .also = "off plain reset",
    .usage = "/baseline",
    .help = "Disables every method; the adapter stays.",
    .live = "",
    .run = baseline_run,
};
