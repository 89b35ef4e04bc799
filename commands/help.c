// commands/help.c -- /help: commands, settings and topics, from their tables.
#include <stdlib.h>
#include <string.h>

#include "commands/command.h"
#include "commands/help_text.h"
#include "commands/reference.h"
#include "core/checkup/checkup.h"
#include "core/metrics/metric.h"
#include "core/positions/positions.h"
#include "core/probes/taps.h"
#include "core/sets/set.h"
#include "core/sets/total.h"
#include "core/template/template.h"

// Shows the commands of a group, or all (NULL). False: no such group.
static bool list_commands(const struct shell *shell, const char *group)
{
    const struct command *c;
    bool any = false;
    struct table_builder t;
    for (int i = 0; !any && command_at(i); i++) any = !group || !strcmp(command_group(i), group);
    if (!any) return false;
    table_begin(&t, "commands", "command|help");
    for (int i = 0; (c = command_at(i)); i++) {
        if (group && strcmp(command_group(i), group) != 0) continue;
        table_row(&t, "/%s|%s", c->name, c->help);
    }
    table_emit(&t, shell->sinks);
    return true;
}

// Lists the commands and settings whose search terms begin with the word. Returns false if
// none matches.
static bool list_found(const struct shell *shell, const char *word)
{
    const struct command *c;
    const struct setting *row;
    bool any = false;
    struct table_builder t;
    for (int i = 0; !any && (c = command_at(i)); i++) any = help_finds(c->also, word);
    for (int i = 0; !any && (row = settings_row(i)); i++) any = help_finds(row->also, word);
    if (!any) return false;
    table_begin(&t, "found", "command or setting|help");
    for (int i = 0; (c = command_at(i)); i++)
        if (help_finds(c->also, word)) table_row(&t, "/%s|%s", c->name, c->help);
    for (int i = 0; (row = settings_row(i)); i++)
        if (help_finds(row->also, word)) table_row(&t, "%s|%s", row->key, row->help);
    table_emit(&t, shell->sinks);
    return true;
}

static void help_commands(const struct shell *shell)
{
    list_commands(shell, NULL);
}

// Lists the names of the commands by group.
static void help_groups(const struct shell *shell)
{
    const struct command *c;
    struct table_builder t;
    struct buf names = { 0 };
    table_begin(&t, "groups", "group|commands");
    for (int i = 0; (c = command_at(i)); i++) {
        buf_printf(&names, names.length ? " /%s" : "/%s", c->name);
        const char *next = command_group(i + 1);
        if (next && !strcmp(next, command_group(i))) continue;
        table_row(&t, "%s|%s", command_group(i), names.data);
        buf_clear(&names);
    }
    buf_release(&names);
    table_emit(&t, shell->sinks);
    sinks_text(shell->sinks,
               "A line without '/' is a question to the model. More: /help GROUP, /help COMMAND, "
               "/help SETTING, /help commands, lines, taps, templates, metrics, positions, sets, "
               "checks, settings.");
}

static void help_command(const struct shell *shell, const struct command *c)
{
    struct buf b = { 0 };
    char *details = command_details(c);
    buf_printf(&b, "%s\n\n%s\n", c->usage, c->help);
    if (*details) buf_printf(&b, "\n%s\n", details);
    if (c->alias) buf_printf(&b, "\nAliases: %s\n", c->alias);
    b.data[--b.length] = '\0'; // drops the final newline
    sinks_text(shell->sinks, "%s", b.data);
    buf_release(&b);
    free(details);
}

// Shows the help of the action `word`. If there is no such action but the usage contains the word,
// shows the help of the whole command.
static int help_form(const struct shell *shell, const struct command *c, const char *word,
                     struct err *err)
{
    struct buf b = { 0 };
    for (const struct command_action *a = c->actions; a && a->name; a++)
        if (!strcmp(a->name, word)) action_details(&b, a);
    if (b.length)
        sinks_text(shell->sinks, "%s\n\n%.*s", c->usage, (int)b.length - 1, b.data);
    else if (strstr(c->usage, word))
        help_command(shell, c);
    else
        return err_set(err, "no help on '%s %s': /help %s", c->name, word, c->name);
    buf_release(&b);
    return 0;
}

static const char *stale_text(enum setting_stale stale)
{
    switch (stale) {
    case STALE_NOTHING: break;
    case STALE_MODELS: return "takes effect with the next /load";
    case STALE_JOBS: return "takes effect with the next job";
    case STALE_RUNS:
    case STALE_TRAINING: return "takes effect with the next training run (/train)";
    case STALE_SCORED: return "takes effect with the next evaluation";
    case STALE_MEASURED: return "takes effect with the next measurement";
    case STALE_NEXT: return "takes effect at the next token";
    case STALE_SEEN: return "a change recomputes the conversation from its first picture on";
    case STALE_KV: return "a change recomputes the conversation";
    case STALE_VISUAL: return "a change recomputes pictures and conversation";
    case STALE_PROMPT: return "a change rebuilds and recomputes the prompt";
    }
    return "takes effect at once";
}

static void help_setting(const struct shell *shell, const struct setting *row)
{
    char *allowed = setting_allowed(row);
    sinks_text(shell->sinks, "%s = %s\n\n%s\n\nallowed: %s; default: %s; %s", row->key,
               settings_text(engine_settings(shell->engine), row->key), row->help, allowed,
               row->def[0] ? row->def : "(empty)", stale_text(row->stale));
    free(allowed);
    const char *dot = strrchr(row->key, '.');
    char *tags = row->type == SETTING_VALUE ? engine_template_tags(shell->engine, dot + 1) : NULL;
    if (tags && *tags)
        sinks_text(shell->sinks, "The template reads it here:\n%.*s", (int)strlen(tags) - 1, tags);
    free(tags);
}

// --- topics --------------------------------------------------------------------------------------

static void topic_lines(const struct shell *shell)
{
    sinks_text(
        shell->sinks, "%s",
        "A line that begins with '/' is a command, a line that begins with '#' a comment. All "
        "other lines are sent to the model. To send a line that begins with '/', begin it with "
        "'//'.\n"
        "\n"
        "Spaces separate arguments. Quotes, single or double, enclose an argument with spaces "
        "('my model') or the value after NAME= (--csv='my file.csv'). Text in double quotes may "
        "contain JSON escapes: \"a\\nb\". Outside quotes, '\\ ' is a space, and a leading '~/' is "
        "the home folder. In a text for the model, single quotes are literal; so in commands that "
        "may end in a question (/compare, /patch, /collect, /ask --data), they enclose only the "
        "first argument and the values of options.\n"
        "\n"
        "${NAME} is replaced by its value from -D NAME=VALUE, /run or the environment, and "
        "${NAME:-VALUE} by VALUE if NAME has no value. $${ is a literal '${'.\n"
        "\n"
        "A line that ends in '\\' continues on the next line. Text between \"\"\" and \"\"\" "
        "may span lines: the opening mark starts a line or the arguments of a command, the "
        "closing mark ends a line.");
}

static void topic_metrics(const struct shell *shell)
{
    struct table_builder t;
    table_begin(&t, "metrics", "metric|score|rule");
    for (int i = 0; metrics[i]; i++)
        table_row(&t, "%s|%s|%s", metrics[i]->name, metrics[i]->help, metrics[i]->rule);
    table_emit(&t, shell->sinks);
}

static void topic_checks(const struct shell *shell)
{
    struct table_builder t;
    table_begin(&t, "checks", "check|shows");
    for (int i = 0; checkup_check_name(i); i++)
        table_row(&t, "%s|%s", checkup_check_name(i), checkup_check_shows(i));
    table_emit(&t, shell->sinks);
}

static void topic_sets(const struct shell *shell)
{
    struct table_builder t;
    struct buf b = { 0 };
    for (const struct eval_set *s = eval_sets; s->name; s++)
        buf_printf(&b, "%s  %s; files: %s\n", s->name, s->title, s->files);
    sinks_text(shell->sinks, "%s", b.data ? b.data : "");
    buf_release(&b);
    sinks_text(
        shell->sinks,
        "All sets except chair and mvbench can also be read from their parquet files on Hugging "
        "Face.");
    table_begin(&t, "sets", "set|suite|prompt|tokens|metric|total|source");
    for (const struct eval_set *s = eval_sets; s->name; s++)
        for (const struct set_way *w = s->ways; w->ask; w++)
            table_row(&t, "%s|%s|%s|%d|%s|%s|%s", s->name, w->suite, w->prompt, w->max_tokens,
                      w->metric, w->total ? w->total->name : NULL, w->source);
    table_emit(&t, shell->sinks);
}

static void topic_taps(const struct shell *shell)
{
    const struct tap *tap;
    struct table_builder t;
    table_begin(&t, "taps", "tap|help");
    for (int i = 0; (tap = tap_at(i)); i++) {
        struct buf name = { 0 };
        for (const char *p = tap->name; *p; p++) {
            const bool placeholder = p[0] == '%' && (p[1] == 'L' || p[1] == 'I');
            if (placeholder) p++;
            buf_putc(&name, placeholder && *p == 'L' ? 'K' : *p);
        }
        table_row(&t, "%s|%s", name.data, tap->help);
        buf_release(&name);
    }
    table_emit(&t, shell->sinks);
}

static void topic_positions(const struct shell *shell)
{
    struct table_builder t;
    sinks_text(shell->sinks,
               "Names of positions, for /hide, /lens, /knockout, /ablate, /patch and /attribute; "
               "separate several with commas "
               "(picture,question):");
    table_begin(&t, "positions", "name|positions");
    for (const struct position_name *n = position_names; n->form; n++)
        table_row(&t, "%s|%s", n->form, n->help);
    table_emit(&t, shell->sinks);
}

static void topic_templates(const struct shell *shell)
{
    struct buf b = { 0 };
    const char *name;
    for (int i = 0; (name = layout_name(i)); i++) buf_printf(&b, "%s%s", i ? ", " : "", name);
    sinks_text(shell->sinks, "chat templates for chat.template: %s", b.data ? b.data : "none");
    buf_release(&b);
}

static const struct topic {
    const char *name;
    void (*show)(const struct shell *shell);
} topics[] = {
    { "commands", help_commands },    { "lines", topic_lines },   { "scripts", topic_lines },
    { "templates", topic_templates }, { "taps", topic_taps },     { "metrics", topic_metrics },
    { "sets", topic_sets },           { "checks", topic_checks }, { "positions", topic_positions },
};

extern const struct command command_help;

static int help_run(struct shell *shell, int argc, char **argv, struct err *err)
{
    if (!argc) {
        help_groups(shell);
        return 0;
    }
    const char *what = argv[0][0] == '/' ? argv[0] + 1 : argv[0];
    const struct command *c = command_find(what);
    const struct setting *row = settings_find(what);
    if (argc > 1 && c) return help_form(shell, c, argv[1], err);
    if (argc > 1) return err_set(err, "usage: %s", command_help.usage);
    if (c) help_command(shell, c);
    if (row) help_setting(shell, row);
    if (c) list_commands(shell, what); // /help settings shows both the command and the group
    if (c || row) return 0;
    for (size_t i = 0; i < sizeof topics / sizeof *topics; i++)
        if (!strcmp(topics[i].name, what)) {
            topics[i].show(shell);
            return 0;
        }
    if (list_commands(shell, what)) return 0;
    if (settings_group(what)) return command_find("settings")->run(shell, argc, argv, err);
    bool noun;
    struct err several = { 0 };
    if ((c = command_of_action(what, NULL, &noun, &several))) return help_form(shell, c, what, err);
    if (several.text[0]) return err_set(err, "%s", several.text);
    const char *near = command_also(what);
    if (!near) near = command_nearest(what);
    if (!near) near = settings_nearest(what);
    if (near) return err_set(err, "no help on '%s': did you mean '%s'?", what, near);
    if (list_found(shell, what)) return 0;
    return err_set(err, "no help on '%s': /help lists commands, /settings lists settings", what);
}

const struct command command_help = {
    .name = "help",
    .also = "manual docs",
    .alias = "? h",
    .usage =
        "/help [COMMAND [WORD]|SETTING|GROUP|checks|commands|lines|metrics|positions|sets|taps|"
        "templates]",
    .help = "Lists commands by group, or explains a command, setting, group or topic.",
    .details =
        "With WORD, only the help on that action: /help train plan. A search term lists the\n"
        "commands and settings that match: /help causal.",
    .max = 2,
    .page = true,
    .live = "", // changes nothing
    .complete = COMPLETE_COMMAND,
    .run = help_run,
};
