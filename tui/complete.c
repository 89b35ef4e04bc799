// tui/complete.c -- finds completion candidates for each position of a line.
#include "tui/complete.h"

#include <stdlib.h>
#include <string.h>

#include "commands/parse.h"
#include "core/base/mem.h"
#include "core/files/checkpoint.h"
#include "sessions/jobs.h"
#include "sessions/records.h"

static void add(struct candidates *c, const char *prefix, const char *text)
{
    c->list = xreallocarray(c->list, c->count + 1, sizeof *c->list);
    c->list[c->count++] = xasprintf("%s%s", prefix, text);
}

void candidates_release(struct candidates *c)
{
    for (size_t i = 0; i < c->count; i++) free(c->list[i]);
    free(c->list);
    *c = (struct candidates){ 0 };
}

static void add_commands(struct candidates *c, const char *prefix)
{
    const struct command *command;
    for (int i = 0; (command = command_at(i)); i++) add(c, prefix, command->name);
}

static void add_settings(struct candidates *c)
{
    const struct setting *row;
    for (int i = 0; (row = settings_shown(i)); i++) add(c, "", row->key);
}

static void add_list(struct candidates *c, const char *const *list) // NULL: adds nothing
{
    for (int i = 0; list && list[i]; i++) add(c, "", list[i]);
}

static void add_values(struct candidates *c, const char *key)
{
    const struct setting *row = settings_find(key);
    if (!row) return;
    if (row->type == SETTING_FLAG) {
        add(c, "", "on");
        add(c, "", "off");
    }
    if (row->type == SETTING_VALUE) {
        add(c, "", "true");
        add(c, "", "false");
    }
    if (row->type == SETTING_PATH || row->type == SETTING_FACTORS) c->paths = PATHS_ALL;
    add_list(c, row->choices);
    if (!c->count && c->paths == PATHS_NONE && row->def && *row->def) add(c, "", row->def);
}

static void add_actions(struct candidates *c, const struct command *command)
{
    for (const struct command_action *a = command->actions; a && a->name; a++) add(c, "", a->name);
    add_list(c, command->words);
}

// Adds the options of the command, or of the action named by its first argument.
static void add_options(struct candidates *c, const struct command *command, const char *first)
{
    const struct option_row *rows = command->options;
    for (const struct command_action *a = command->actions; first && a && a->name; a++)
        if (!strcmp(a->name, first)) rows = a->options;
    for (; rows && rows->name; rows++)
        if (rows->name[0] == '-' && !rows->former) add(c, "", rows->name);
    if (command->writes) add(c, "", "--force");
}

static void add_sessions(const struct shell *shell, struct candidates *c)
{
    struct session_row *rows;
    size_t count;
    if (!shell->store || store_list(shell->store, &rows, &count, NULL) < 0) return;
    for (size_t i = 0; i < count; i++)
        if (rows[i].name) add(c, "", rows[i].name);
    store_list_free(rows, count);
}

static void add_jobs(const struct shell *shell, struct candidates *c)
{
    struct job_row *rows;
    size_t count;
    if (!shell->store || store_jobs_read(shell->store, &rows, &count, NULL) < 0) return;
    for (size_t i = 0; i < count; i++) {
        char *number = xasprintf("%lld", (long long)rows[i].id);
        add(c, "", number);
        free(number);
    }
    job_rows_free(rows, count);
}

static void add_presets(const struct shell *shell, const struct command *command, int index,
                        struct candidates *c)
{
    const struct preset *p;
    struct names own = { 0 };
    if (index == 0) add_actions(c, command);
    if (index > 1) add_settings(c);
    if (index != 1) return;
    for (int i = 0; (p = preset_at(i)); i++) add(c, "", p->name);
    if (shell->store && store_presets(shell->store, &own, NULL) == 0)
        for (size_t i = 0; i < own.count; i++) add(c, "", own.list[i]);
    names_release(&own);
}

// Returns whether the command, or the action that `first` names, takes no further argument.
static bool is_full(const struct command *command, int index, const char *first)
{
    for (const struct command_action *a = command->actions; first && a && a->name; a++)
        if (!strcmp(a->name, first)) return a->max >= 0 && index > a->max;
    return command->max >= 0 && !command->options && !command->actions && index >= command->max;
}

static void add_arguments(const struct shell *shell, const struct command *command, int index,
                          const char *first, struct candidates *c)
{
    if (is_full(command, index, first)) return;
    switch (command->complete) {
    case COMPLETE_NOTHING: break;
    case COMPLETE_PATH: c->paths = PATHS_ALL; break;
    case COMPLETE_MODEL:
        if (index == 0) {
            struct names found = { 0 };
            checkpoint_cached(&found);
            for (size_t i = 0; i < found.count; i++) add(c, "", found.list[i]);
            names_release(&found);
        }
        if (index == 1) add_options(c, command, NULL);
        if (index != 1) c->paths = PATHS_MODELS;
        break;
    case COMPLETE_COMMAND:
        add_commands(c, "");
        add_settings(c);
        break;
    case COMPLETE_SETTING: // a setting and its values, or a number and settings (/later)
        if (command->min < 2 ? index == 0 : index > 0)
            add_settings(c);
        else if (index > 0)
            add_values(c, first);
        break;
    case COMPLETE_JOB: // the job's number and an action, in either order
        if (index > 1) break;
        add_jobs(shell, c);
        add_actions(c, command);
        break;
    case COMPLETE_PRESET: add_presets(shell, command, index, c); break;
    case COMPLETE_POSITIONS:
        add_list(c, command->words);
        c->paths = PATHS_ALL;
        break;
    case COMPLETE_WORDS: // actions, then a session if the command uses sessions, or a file
        if (index == 0) add_actions(c, command);
        if (index > 0 && (command->needs & NEEDS_STORE)) add_sessions(shell, c);
        if (index > 0 || command->usual) c->paths = PATHS_ALL;
        break;
    }
}

static bool names_path(const struct option_row *rows, const char *option)
{
    static const char *const kinds[] = { "FILE", "DIR", "FOLDER", "PATTERN" };
    for (; rows && rows->name; rows++)
        for (size_t i = 0; rows->argument && i < sizeof kinds / sizeof *kinds; i++)
            if (!strcmp(rows->name, option) && !strncmp(rows->argument, kinds[i], strlen(kinds[i])))
                return true;
    return false;
}

// Returns whether a file or folder follows this option.
static bool takes_path(const struct command *command, const char *option)
{
    bool found = command->complete != COMPLETE_MODEL && names_path(command->options, option);
    for (const struct command_action *a = command->actions; a && a->name; a++)
        found |= names_path(a->options, option);
    return found;
}

// Returns the word at *p as typed and advances past it; NULL at the end.
static char *next_word(const char **p, const char *end)
{
    *p = skip_blanks(*p);
    const char *begin = *p;
    if (begin >= end) return NULL;
    const char *close = *begin == '"'    ? strchr(begin + 1, '"')
                        : *begin == '\'' ? single_close(begin)
                                         : NULL;
    *p = close ? close + 1 : name_end(begin);
    if (*p > end) *p = end;
    return xstrndup(begin, (size_t)(*p - begin));
}

void complete_find(const struct shell *shell, const char *line, size_t start,
                   struct candidates *candidates)
{
    *candidates = (struct candidates){ 0 };
    const char *end = line + start, *word_start = end;
    while (*line == ' ' || *line == '\t') line++;
    if (line >= end) {
        add_commands(candidates, "/");
        return;
    }
    if (*line != '/') return; // text for the model
    // The word may follow an opening quote, or an option: --csv "FILE, --csv='FILE.
    if (strchr("\"'", end[-1])) end--;
    if (end[-1] == '=') end--;
    char *name = next_word(&line, end), *first = NULL, *last = NULL;
    const struct command *command = name ? command_find(name + 1) : NULL;
    int index = 0;
    for (char *word; (word = next_word(&line, end)); index++) {
        free(last);
        last = word;
        if (!first) first = xstrdup(word);
    }
    if (command && *word_start == '-')
        add_options(candidates, command, first);
    else if (command && last && takes_path(command, last))
        candidates->paths = PATHS_ALL;
    else if (command)
        add_arguments(shell, command, index, first, candidates);
    free(name);
    free(first);
    free(last);
}

static const char *option_help(const struct option_row *rows, const char *name)
{
    for (; rows && rows->name; rows++)
        if (!strcmp(rows->name, name)) return rows->help;
    return NULL;
}

const char *complete_help(const char *line, const char *candidate)
{
    line += strspn(line, " \t");
    char *name = next_word(&line, line + strlen(line));
    const struct command *command = name && *name == '/' ? command_find(name + 1) : NULL;
    const struct command *named = command_find(candidate + (*candidate == '/'));
    const struct setting *row = settings_find(candidate);
    const char *help = command ? option_help(command->options, candidate) : NULL;
    free(name);
    if (*candidate == '/') return named ? named->help : NULL;
    for (const struct command_action *a = command ? command->actions : NULL; a && a->name; a++) {
        if (!strcmp(a->name, candidate)) return a->help;
        if (!help) help = option_help(a->options, candidate);
    }
    if (help || !command) return help;
    if (row) return row->help;
    return command->complete == COMPLETE_COMMAND && named ? named->help : NULL;
}
