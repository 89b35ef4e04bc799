// tui/completions.c -- writes the completions of each shell.
//
// Options are completed from their table, the options of a subcommand from its usage, `help` with
// commands and settings, MODEL with folders, files and names of the hub's cache.
#include "tui/completions.h"

#include <stdlib.h>
#include <string.h>

#include "commands/command.h"
#include "core/base/options.h"
#include "tui/options.h"
#include "tui/subcommands.h"

// --- words ---------------------------------------------------------------------------------------

static bool is_option(const struct option_row *row)
{
    return row->name[0] == '-' && !row->former;
}

static bool takes_model(const struct option_row *row)
{
    return row->argument && !strcmp(row->argument, "MODEL");
}

static bool takes_file(const struct option_row *row)
{
    return row->argument && !strcmp(row->argument, "FILE");
}

// True if a model follows the subcommand: after `run`, or if its usage has MODEL.
static bool opens_model(const struct subcommand *c)
{
    return !c->run || strstr(c->usage, "MODEL");
}

// Appends the words of a choice without their variable parts: "cpu cuda" for "cpu|cuda[:N[,N...]]".
static void put_choices(struct buf *b, const char *argument)
{
    for (const char *p = argument; p && strchr(argument, '|'); p = strchr(p, '|')) {
        if (*p == '|') p++;
        buf_printf(b, "%s%.*s", p > argument ? " " : "", (int)strcspn(p, "|:["), p);
    }
}

// Appends the options in a usage: "--dry --seed".
static void put_usage_options(struct buf *b, const char *usage)
{
    for (const char *p = usage; (p = strstr(p, "--")); p += 2) {
        const size_t n = strspn(p + 2, "abcdefghijklmnopqrstuvwxyz-");
        buf_printf(b, "%s--%.*s", b->length ? " " : "", (int)n, p + 2);
    }
}

static void put_topics(struct buf *b)
{
    const struct command *c;
    const struct setting *row;
    for (int i = 0; (c = command_at(i)); i++) buf_printf(b, "%s%s", i ? " " : "", c->name);
    for (int i = 0; (row = settings_shown(i)); i++) buf_printf(b, " %s", row->key);
}

// Appends help, escaped for single quotes; `also`: characters that need a backslash in this shell.
static void put_help(struct buf *b, const char *help, const char *also)
{
    for (; *help; help++) {
        if (*help == '\'')
            buf_puts(b, "'\\''");
        else if (strchr(also, *help))
            buf_printf(b, "\\%c", *help);
        else
            buf_putc(b, *help);
    }
}

// A function for bash and zsh that lists the models of the hub's cache, one per line.
static const char models[] =
    "_vlmsh_models() {\n"
    "    local d\n"
    "    for d in \"${HF_HUB_CACHE:-${HF_HOME:-$HOME/.cache/huggingface}/hub}\"/models--*; do\n"
    "        d=${d##*/models--}\n"
    "        [ \"$d\" = '*' ] || printf '%s\\n' \"$d\" | sed 's|--|/|'\n"
    "    done\n"
    "}\n";

// --- bash ----------------------------------------------------------------------------------------

static void write_bash(struct buf *b, const struct option_row *rows)
{
    const struct subcommand *c;
    struct buf files = { 0 }, others = { 0 }, options = { 0 }, words = { 0 };
    buf_puts(b, "# completions of vlmsh for bash: vlmsh help --completion bash\n");
    buf_puts(b, models);
    buf_puts(b,
             "_vlmsh() {\n"
             "    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} sub= name\n"
             "    COMPREPLY=()\n"
             "    case $prev in\n");
    for (const struct option_row *row = rows; row->name; row++) {
        if (!is_option(row)) continue;
        buf_printf(&options, "%s%s", options.length ? " " : "", row->name);
        if (!row->argument) continue;
        struct buf choices = { 0 };
        put_choices(&choices, row->argument);
        struct buf *to = takes_file(row) ? &files : &others;
        if (choices.length)
            buf_printf(b, "    %s) COMPREPLY=($(compgen -W '%s' -- \"$cur\")); return ;;\n",
                       row->name, choices.data);
        else if (!takes_model(row))
            buf_printf(to, "%s%s", to->length ? "|" : "", row->name);
        buf_release(&choices);
    }
    // Without a reply, `complete -o default` completes files.
    buf_printf(b, "    %s) return ;;\n    %s) compopt +o default; return ;;\n    esac\n",
               files.data, others.data);
    buf_puts(b, "    [ \"$COMP_CWORD\" -gt 1 ] && sub=${COMP_WORDS[1]}\n    case $sub in\n");
    for (int i = 0; (c = subcommand_at(i)); i++) {
        buf_printf(&words, "%s%s", i ? " " : "", c->name);
        struct buf own = { 0 };
        if (!c->run) continue;
        put_usage_options(&own, c->usage);
        if (!strcmp(c->name, "help")) {
            buf_puts(&own, " ");
            put_topics(&own);
        }
        const char *when = strcmp(c->name, "help") ? "[[ $cur == -* ]] && " : "";
        buf_printf(b,
                   opens_model(c)
                       ? "    %s) %s{ COMPREPLY=($(compgen -W '%s' -- \"$cur\")); return; } ;;\n"
                       : "    %s) %sCOMPREPLY=($(compgen -W '%s' -- \"$cur\")); return ;;\n",
                   c->name, when, own.data ? own.data : "");
        buf_release(&own);
    }
    // Names of models and files may have spaces, and `compgen -W` would expand "$(...)" in them.
    buf_printf(
        b,
        "    esac\n"
        "    if [[ $cur == -* ]]; then COMPREPLY=($(compgen -W '%s' -- \"$cur\")); return; fi\n"
        "    [ \"$COMP_CWORD\" -gt 1 ] || COMPREPLY=($(compgen -W '%s' -- \"$cur\"))\n"
        "    while IFS= read -r name; do\n"
        "        [[ $name == \"$cur\"* ]] && COMPREPLY+=(\"$name\")\n"
        "    done < <(_vlmsh_models; compgen -f -- \"$cur\")\n"
        "}\n"
        "complete -o default -o filenames -F _vlmsh vlmsh\n",
        options.data, words.data);
    buf_release(&files);
    buf_release(&others);
    buf_release(&options);
    buf_release(&words);
}

// --- zsh -----------------------------------------------------------------------------------------

static void write_zsh(struct buf *b, const struct option_row *rows)
{
    static const char also[] = "[]:\\";
    const struct subcommand *c;
    buf_puts(b, "#compdef vlmsh\n# completions of vlmsh for zsh: vlmsh help --completion zsh\n");
    buf_puts(b, models);
    buf_puts(b, "_vlmsh_model() {\n"
                "    compadd -- $(_vlmsh_models)\n"
                "    _files\n"
                "}\n"
                "_vlmsh_first() {\n"
                "    local -a words\n"
                "    words=(");
    for (int i = 0; (c = subcommand_at(i)); i++) {
        buf_printf(b, "%s'%s:", i ? " " : "", c->name);
        put_help(b, c->help, also);
        buf_puts(b, "'");
    }
    buf_puts(b, ")\n"
                "    _describe subcommand words\n"
                "    _vlmsh_model\n"
                "}\n"
                "_vlmsh_rest() {\n"
                "    case $words[1] in\n");
    for (int i = 0; (c = subcommand_at(i)); i++) {
        struct buf own = { 0 };
        if (!c->run) continue;
        put_usage_options(&own, c->usage);
        if (!strcmp(c->name, "help")) {
            buf_puts(&own, " ");
            put_topics(&own);
        }
        buf_printf(b, "    %s) compadd -- %s; %s ;;\n", c->name, own.data ? own.data : "",
                   opens_model(c)            ? "_vlmsh_model"
                   : strcmp(c->name, "help") ? "_files"
                                             : "");
        buf_release(&own);
    }
    buf_puts(b, "    *) _vlmsh_model ;;\n"
                "    esac\n"
                "}\n"
                "_arguments");
    for (const struct option_row *row = rows; row->name; row++) {
        if (!is_option(row)) continue;
        struct buf choices = { 0 };
        put_choices(&choices, row->argument);
        buf_printf(b, " \\\n    '*%s[", row->name);
        put_help(b, row->help, also);
        buf_puts(b, "]");
        if (choices.length)
            buf_printf(b, ":value:(%s)", choices.data);
        else if (row->argument)
            buf_puts(b, takes_model(row)  ? ":model:_vlmsh_model"
                        : takes_file(row) ? ":file:_files"
                                          : ":value:");
        buf_puts(b, "'");
        buf_release(&choices);
    }
    buf_puts(b, " \\\n    '1: :_vlmsh_first' '*:: :_vlmsh_rest'\n");
}

// --- fish ----------------------------------------------------------------------------------------

static void write_fish(struct buf *b, const struct option_row *rows)
{
    static const char also[] = "\\";
    const struct subcommand *c;
    buf_puts(b, "# completions of vlmsh for fish: vlmsh help --completion fish\n"
                "function __vlmsh_models\n"
                "    set -l hub $HF_HUB_CACHE $HF_HOME/hub ~/.cache/huggingface/hub\n"
                "    for d in $hub[1]/models--* ~/.cache/huggingface/hub/models--*\n"
                "        string replace -r '.*/models--' '' -- $d | string replace -- -- /\n"
                "    end\n"
                "end\n"
                "complete -c vlmsh -n 'not __fish_seen_subcommand_from");
    for (int i = 0; (c = subcommand_at(i)); i++)
        if (!opens_model(c)) buf_printf(b, " %s", c->name);
    buf_puts(b, "' -a '(__vlmsh_models)' -d model\n");
    for (const struct option_row *row = rows; row->name; row++) {
        if (!is_option(row)) continue;
        struct buf choices = { 0 };
        put_choices(&choices, row->argument);
        const bool wide = row->name[1] == '-';
        buf_printf(b, "complete -c vlmsh %s %s", wide ? "-l" : "-s", row->name + (wide ? 2 : 1));
        if (choices.length)
            buf_printf(b, " -x -a '%s'", choices.data);
        else if (row->argument)
            buf_puts(b, takes_model(row)  ? " -r -F -a '(__vlmsh_models)'"
                        : takes_file(row) ? " -r -F"
                                          : " -x");
        buf_puts(b, " -d '");
        put_help(b, row->help, also);
        buf_puts(b, "'\n");
        buf_release(&choices);
    }
    for (int i = 0; (c = subcommand_at(i)); i++) {
        buf_printf(b, "complete -c vlmsh -n __fish_use_subcommand -a %s -d '", c->name);
        put_help(b, c->help, also);
        buf_puts(b, "'\n");
        struct buf own = { 0 };
        put_usage_options(&own, c->usage);
        if (c->run && own.length)
            buf_printf(b, "complete -c vlmsh -n '__fish_seen_subcommand_from %s' -a '%s'\n",
                       c->name, own.data);
        buf_release(&own);
    }
    buf_puts(b, "complete -c vlmsh -n '__fish_seen_subcommand_from help' -x -a '");
    put_topics(b);
    buf_puts(b, "'\n");
}

int completions_write(struct buf *b, const char *shell, struct err *err)
{
    static const struct {
        const char *shell;
        void (*write)(struct buf *b, const struct option_row *rows);
    } scripts[] = { { "bash", write_bash }, { "zsh", write_zsh }, { "fish", write_fish } };
    for (size_t i = 0; i < sizeof scripts / sizeof *scripts; i++)
        if (!strcmp(shell, scripts[i].shell)) {
            scripts[i].write(b, options_rows());
            return 0;
        }
    return err_set(err, "--completion takes bash, zsh or fish, not '%s'", shell);
}
