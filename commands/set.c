// commands/set.c -- /set, /later, /get, /toggle, /reset and /settings: show and change settings.
#include <stdlib.h>
#include <string.h>

#include "commands/command.h"
#include "commands/reference.h"
#include "core/engine/presets.h"
#include "core/probes/taps.h"
#include "core/settings/changes.h"

static void show_setting(const struct shell *shell, const char *key)
{
    const char *value = settings_text(engine_settings(shell->engine), key);
    sinks_emit(shell->sinks, &(struct event){ .kind = EVENT_SETTING, .key = key, .value = value });
}

// Shows every setting whose key matches; an error if none does.
static int show_matching(const struct shell *shell, const char *pattern, struct err *err)
{
    int shown = 0;
    const struct setting *row;
    for (int i = 0; (row = settings_row(i)); i++)
        if (tap_match(pattern, row->key) && setting_listed(row, engine_settings(shell->engine))) {
            show_setting(shell, row->key);
            shown++;
        }
    return shown ? 0 : settings_unknown(pattern, err);
}

// The engine reports only changes; an unchanged value is reported here, so that programs always get
// a reply.
static int set_value(const struct shell *shell, const char *key, const char *value, struct err *err)
{
    if (!settings_find(key)) return settings_unknown(key, err);
    char *former = xstrdup(settings_text(engine_settings(shell->engine), key));
    const int status = engine_set(shell->engine, key, value, err);
    if (status == 0 && !strcmp(former, settings_text(engine_settings(shell->engine), key)))
        show_setting(shell, key);
    free(former);
    return status;
}

// Reads "KEY=VALUE", "KEY = VALUE" or "KEY VALUE ..."; joins the words of the value with spaces.
char *set_read(int argc, char **argv)
{
    struct buf value = { 0 };
    char *equals = argc && !settings_find(argv[0]) ? strchr(argv[0], '=') : NULL;
    if (argc < 1 || (argc == 1 && !equals)) return NULL;
    int next = 1;
    if (equals) {
        *equals = 0;
        if (equals[1] || argc == 1) buf_puts(&value, equals + 1);
    } else if (argc > 2 && !strcmp(argv[1], "=")) {
        next = 2;
    }
    for (int i = next; i < argc; i++) {
        if (value.length) buf_putc(&value, ' ');
        buf_puts(&value, argv[i]);
    }
    return value.data ? buf_take(&value) : xstrdup("");
}

static int set_run(struct shell *shell, int argc, char **argv, struct err *err)
{
    const struct setting *row;
    int shown = 0;
    for (int i = 0; !argc && (row = settings_row(i)); i++)
        if (settings_changed(engine_settings(shell->engine), row->key)) {
            show_setting(shell, row->key);
            shown++;
        }
    if (!argc && !shown)
        sinks_text(shell->sinks, "all settings are at their defaults; /settings lists them");
    if (!argc) return 0;
    const bool known = settings_find(argv[0]) || settings_group(argv[0]);
    if (!known && !settings_nearest(argv[0]) && command_find(argv[0])) // as in `/set system TEXT`
        return err_set(err, "no setting '%s': the command is /%s", argv[0], argv[0]);
    char *value = set_read(argc, argv);
    if (!value) return show_matching(shell, argv[0], err);
    const int status = set_value(shell, argv[0], value, err);
    free(value);
    return status;
}

const struct command command_set = {
    .name = "set",
    .also = "setting option config change",
    .usage = "/set [KEY [VALUE]]",
    .help = "Changes a setting; /help KEY says when it takes effect.",
    .details = "/set KEY shows a setting; /set alone shows all settings that differ from their "
               "defaults. /set KEY=VALUE works too.",
    .max = -1,
    .live = "",
    .complete = COMPLETE_SETTING,
    .run = set_run,
};

// Takes N KEY=VALUE ...
static int later_run(struct shell *shell, int argc, char **argv, struct err *err)
{
    struct change *list = xcalloc((size_t)argc, sizeof *list);
    char *end;
    const long long tokens = strtoll(argv[0], &end, 10);
    int status = 0;
    if (*end || end == argv[0] || tokens < 1)
        status = err_set(err, "the number of tokens must be at least 1, not '%s'", argv[0]);
    for (int i = 1; i < argc && status == 0; i++) {
        char *equals = strchr(argv[i], '=');
        if (!equals) {
            status = err_set(err, "'%s' is not KEY=VALUE", argv[i]);
            break;
        }
        *equals = '\0';
        list[i - 1] = (struct change){ argv[i], equals + 1 };
        if (!settings_find(argv[i])) status = settings_unknown(argv[i], err);
    }
    if (status == 0) engine_post(shell->engine, list, (size_t)argc - 1, tokens);
    free(list);
    return status;
}

const struct command command_later = {
    .name = "later",
    .usage = "/later N KEY=VALUE...",
    .help = "Changes settings during the next answer, after N tokens.",
    .details =
        "Recomputes as much of the prompt and answer as needed, then continues the answer. If "
        "one value is invalid, shows a notice and sets none. If the answer has fewer than N "
        "tokens, the change waits for the next answer that has N.",
    .min = 2,
    .max = -1,
    .complete = COMPLETE_SETTING,
    .run = later_run,
};

static int get_run(struct shell *shell, int argc, char **argv, struct err *err)
{
    return show_matching(shell, argv[0], err);
}

const struct command command_get = {
    .name = "get",
    .usage = "/get KEY|PATTERN",
    .help = "Shows a setting, or all settings that match a pattern such as sample.*.",
    .min = 1,
    .max = 1,
    .complete = COMPLETE_SETTING,
    .run = get_run,
};

static int reset_run(struct shell *shell, int argc, char **argv, struct err *err)
{
    if (!argc || !strcmp(argv[0], "all")) return engine_reset(shell->engine, NULL, err);
    const struct setting *row = settings_find(argv[0]);
    return set_value(shell, argv[0], row ? row->def : "", err);
}

const char *setting_next(const struct setting *row, const char *now, int given, char **words)
{
    static const char *const flags[] = { "off", "on", NULL };
    static const char *const truths[] = { "false", "true", NULL };
    const char *const *values = row->type == SETTING_FLAG     ? flags
                                : row->type == SETTING_VALUE  ? truths
                                : row->type == SETTING_CHOICE ? row->choices
                                                              : NULL;
    int count = given, at = 0;
    if (given) values = (const char *const *)words;
    while (!given && values && values[count]) count++;
    while (at < count && strcmp(values[at], now) != 0) at++;
    return count ? values[at + 1 < count ? at + 1 : 0] : NULL;
}

// Sets a value. A method that the value enables also gets its adapter or calibration from the
// model's folder.
static int switch_to(struct shell *shell, const char *key, const char *value, struct err *err)
{
    struct preset_values v = { 0 };
    preset_add(&v, key, value);
    preset_fit(&v, engine_model(shell->engine), engine_settings(shell->engine), false);
    const int status = v.count > 1 ? engine_set_all(shell->engine, v.list, v.count, err)
                                   : set_value(shell, key, value, err);
    preset_values_release(&v);
    return status;
}

static int toggle_run(struct shell *shell, int argc, char **argv, struct err *err)
{
    const struct setting *row = settings_find(argv[0]);
    if (!row) return settings_unknown(argv[0], err);
    const char *now = settings_text(engine_settings(shell->engine), row->key);
    const char *next = setting_next(row, now, argc - 1, argv + 1);
    if (!next)
        return err_set(
            err,
            "%s is neither an on/off setting nor a choice: give two or more values, as in "
            "'/toggle %s A B'",
            row->key, row->key);
    return switch_to(shell, row->key, next, err);
}

const struct command command_toggle = {
    .name = "toggle",
    .also = "switch",
    .usage = "/toggle KEY [VALUE...]",
    .help =
        "Switches a setting between on and off, or steps through its choices or the given values.",
    .details = "    /toggle ira.on\n"
               "    /toggle prune.score off contribution\n"
               "Enabling a method also loads its adapter or calibration from the model's folder "
               "(methods/adapter, methods/ffn.safetensors), unless one is in use. To toggle with "
               "a key: /bind F5 /toggle ira.on",
    .min = 1,
    .max = -1,
    .live = "",
    .complete = COMPLETE_SETTING,
    .run = toggle_run,
};

const struct command command_reset = {
    .name = "reset",
    .also = "default undo",
    .usage = "/reset [KEY|all]",
    .help = "Resets one setting, or all.",
    .max = 1,
    .live = "",
    .complete = COMPLETE_SETTING,
    .run = reset_run,
};

static int settings_run(struct shell *shell, int argc, char **argv, struct err *err)
{
    const struct settings *s = engine_settings(shell->engine);
    const struct setting *row;
    struct table_builder t;
    char *group = xstrdup(argc ? argv[0] : "");
    size_t n = strlen(group);
    if (n && group[n - 1] == '.') group[n - 1] = 0; // reads "sample." as "sample"
    table_begin(&t, "settings", "key|value|default|allowed|help");
    for (int i = 0; (row = settings_shown(i)); i++) {
        if (argc && !setting_in(row, group) && strcmp(row->key, group) != 0) continue;
        table_row(&t, "%s|%s|%s", row->key, settings_text(s, row->key), row->def);
        table_take(&t, setting_allowed(row));
        table_add(&t, "%s", row->help);
    }
    free(group);
    if (argc && !t.count) return settings_unknown(argv[0], err);
    table_emit(&t, shell->sinks);
    return 0;
}

const struct command command_settings = {
    .name = "settings",
    .also = "options config preferences",
    .usage = "/settings [GROUP]",
    .help = "Lists all settings, or one group such as sample, with values, defaults and allowed "
            "values.",
    .max = 1,
    .complete = COMPLETE_SETTING,
    .run = settings_run,
};
