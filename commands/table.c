// commands/table.c -- the table of commands: finds a command, checks its requirements, runs it.
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "commands/command.h"
#include "commands/parse.h"
#include "core/base/file_out.h"
#include "core/base/mem.h"
#include "core/base/text.h"
#include "core/probes/probe.h"

#define X(name) extern const struct command command_##name;
#define MEASURING()
#define GROUP(name)
#include "commands/list.h"
#undef GROUP
#undef MEASURING
#undef X

enum { COMMANDS_MAX = 128, PROBES_MAX = 32 };

static const struct command *commands[COMMANDS_MAX];
static const char *groups[COMMANDS_MAX]; // group of each command
static const char *group = "more";
static int count;
static const struct command *const *others; // NULL-terminated, or NULL
static pthread_once_t listed = PTHREAD_ONCE_INIT;

static void add(const struct command *command)
{
    if (count == COMMANDS_MAX) BUG("more than %d commands", COMMANDS_MAX);
    groups[count] = group;
    commands[count++] = command;
}

static void add_measuring(void)
{
    static struct command measuring[PROBES_MAX];
    const struct probe *probe;
    for (int i = 0; (probe = probe_at(i)); i++) {
        if (i == PROBES_MAX) BUG("more than %d probes", PROBES_MAX);
        measuring[i] = probe_command(probe);
        add(&measuring[i]);
    }
}

static void list_commands(void)
{
#define X(name)     add(&command_##name);
#define MEASURING() add_measuring();
#define GROUP(name) group = #name;
#include "commands/list.h"
#undef GROUP
#undef MEASURING
#undef X
    group = "more";
    for (const struct command *const *c = others; c && *c; c++) add(*c);
}

void commands_register(const struct command *const *more)
{
    const struct command *c;
    others = more;
    for (int i = 0; (c = command_at(i)); i++)
        if (c->settings) settings_add(c->settings);
}

const struct command *command_at(int index)
{
    pthread_once(&listed, list_commands);
    return index >= 0 && index < count ? commands[index] : NULL;
}

const char *command_group(int index)
{
    return command_at(index) ? groups[index] : NULL;
}

// Lists options and optional arguments; `help` of a required argument is for messages only.
static void put_options(struct buf *b, const struct option_row *row)
{
    for (; row && row->name; row++)
        if (row->help && (row->name[0] == '-' || row->optional))
            buf_printf(b, "%s%s%s  %s\n", row->name, row->argument ? " " : "",
                       row->argument ? row->argument : "", row->help);
}

void action_details(struct buf *b, const struct command_action *a)
{
    if (a->help)
        buf_printf(b, "%s%s%s  %s\n", a->name, a->arguments ? " " : "",
                   a->arguments ? a->arguments : "", a->help);
    put_options(b, a->options);
}

char *command_details(const struct command *command)
{
    struct buf b = { 0 };
    if (command->details) buf_printf(&b, "%s\n", command->details);
    put_options(&b, command->options);
    for (const struct command_action *a = command->actions; a && a->name; a++) {
        if (b.length && a->options) buf_putc(&b, '\n');
        action_details(&b, a);
    }
    if (command->writes)
        buf_printf(
            &b,
            "%s--force  replaces an existing table, figure or script that vlmsh did not write\n",
            b.length ? "\n" : "");
    if (b.length) b.data[--b.length] = 0; // drops the final newline
    return b.data ? buf_take(&b) : xstrdup("");
}

bool word_among(const char *words, const char *word, size_t length)
{
    for (const char *p = words; p && *p;) {
        const size_t n = strcspn(p, " ");
        if (n == length && !memcmp(p, word, n)) return true;
        p += n + (p[n] == ' ');
    }
    return false;
}

const struct command *command_find(const char *name)
{
    const struct command *c;
    for (int i = 0; (c = command_at(i)); i++)
        if (!strcmp(c->name, name) || word_among(c->alias, name, strlen(name))) return c;
    return NULL;
}

const char *command_nearest(const char *name)
{
    const char *near = NULL;
    const size_t length = strlen(name);
    size_t best = 3;
    const struct command *c;
    for (int i = 0; (c = command_at(i)); i++) {
        const char *other = c->name;
        size_t d = length < 2 * strlen(other) ? text_distance(name, other) : best;
        if (length > 1 && !strncmp(name, other, length)) d = 0;
        // Fewer than half of the name's letters, and at most half of those typed, may differ.
        if (d < best && d * 2 < strlen(other) && d * 2 <= length) {
            best = d;
            near = other;
        }
    }
    return near;
}

const char *command_also(const char *word)
{
    const struct command *c, *found = NULL;
    for (int i = 0; (c = command_at(i)); i++) {
        if (!c->also || !word_among(c->also, word, strlen(word))) continue;
        if (found) return NULL; // not one, but several
        found = c;
    }
    return found ? found->name : NULL;
}

int command_check_needs(const struct shell *shell, unsigned needs, struct err *err)
{
    const bool missing = (needs & NEEDS_MODEL && !engine_model(shell->engine)) ||
                         (needs & NEEDS_TOKENIZER && !engine_tokenizer(shell->engine));
    if (missing && shell->load_default && shell->load_default(shell->load_default_self, err) < 0)
        return -1;
    if (needs & NEEDS_MODEL && !engine_model(shell->engine))
        return err_set(err, "no model is loaded: use '/load MODEL' (a folder, a GGUF file, or "
                            "org/name from the local hub cache)");
    if (needs & NEEDS_TOKENIZER && !engine_tokenizer(shell->engine))
        return err_set(err, "no tokenizer is loaded: use '/load MODEL', or '/tokenizer FILE' for a "
                            "tokenizer alone");
    if (needs & NEEDS_STORE && !shell->store)
        return err_set(err, "no session database is open: start vlmsh with --db FILE");
    return 0;
}

// --- actions -------------------------------------------------------------------------------------

static const struct command_action *find_action(const struct command *command, const char *word)
{
    for (const struct command_action *a = command->actions; a && a->name; a++)
        if (!strcmp(a->name, word)) return a;
    return NULL;
}

// Reports an unknown action. `near`: a known action that differs by one letter; NULL: none.
static int unknown_action(const struct command *command, const char *word, const char *near,
                          struct err *err)
{
    struct buf b = { 0 };
    if (near)
        return err_set(err, "/%s has no action '%s': did you mean '%s'?", command->name, word,
                       near);
    for (const struct command_action *a = command->actions; a->name; a++)
        buf_printf(&b, "%s%s", a == command->actions ? "" : a[1].name ? ", " : " or ", a->name);
    if (command->usual) // the action may be left out, so the word may be meant as a file
        err_set(err, "'%s' is neither a file nor an action of /%s: use %s", word, command->name,
                b.data);
    else
        err_set(err, "/%s has no action '%s': use %s", command->name, word, b.data);
    buf_release(&b);
    return -1;
}

// Moves argument number `at` to the end and drops it from the count; the list still owns it.
static void move_behind(int *argc, char **argv, int at)
{
    char *word = argv[at];
    memmove(argv + at, argv + at + 1, (size_t)(*argc - at - 1) * sizeof *argv);
    argv[--*argc] = word;
}

// Finds the action and removes it from the arguments. If it leaves *action NULL, the command's
// run() reads the arguments.
static int take_action(const struct command *command, int *argc, char **argv,
                       const struct command_action **action, struct err *err)
{
    const int position = command->action_at ? command->action_at - 1 : 0;
    int at = position;
    *action = command->run ? NULL : command->actions;
    if (*argc <= position) {
        if (position && *argc == position && find_action(command, argv[0]) &&
            access(argv[0], F_OK) != 0)
            return err_set(err, "'%s' needs something to act on: %s", argv[0], command->usage);
        return 0;
    }
    // Accepts "/pause 3" as well as "/job 3 pause".
    *action = find_action(command, argv[at]);
    if (!*action && command->action_at)
        for (at = 0; at < *argc && !(*action = find_action(command, argv[at]));) at++;
    if (*action) move_behind(argc, argv, at);
    if (*action || !command->action_at) return 0;
    // Otherwise takes the usual action if the word is a file or preset and not a misspelt action.
    const char *near = NULL, *word = argv[position];
    for (const struct command_action *a = command->actions; a->name; a++)
        if (!near && text_distance(word, a->name) < 2) near = a->name;
    const bool exists = command->complete == COMPLETE_PRESET || access(word, F_OK) == 0;
    if (!command->usual || !exists || near) return unknown_action(command, word, near, err);
    *action = find_action(command, command->usual);
    return 0;
}

const struct command *command_of_action(const char *action, const char *first, bool *noun,
                                        struct err *err)
{
    const struct command *c, *found = NULL;
    const char *name = first && *first == '/' ? first + 1 : first;
    struct buf all = { 0 };
    int many = 0;
    const struct command *named = name ? command_find(name) : NULL;
    // Accepts "/load adapter FOLDER", unless a file or folder `adapter` exists: then /load opens
    // it.
    *noun = named && find_action(named, action) && named->action_at &&
            (!command_find(action) || access(first, F_OK) != 0);
    if (*noun) return named;
    // A number after the action is the number of a job ("/pause 3").
    const bool number = first && *first && !first[strspn(first, "0123456789")];
    for (int i = 0; (c = command_at(i)); i++) {
        if (!c->action_at || !find_action(c, action)) continue;
        if (number && c->complete == COMPLETE_JOB) break;
        found = c;
        buf_printf(&all, "%s/%s %s", many++ ? ", " : "", c->name, action);
    }
    if (c) found = c, many = 1;
    if (many > 1) err_set(err, "/%s is an action of several commands: %s", action, all.data);
    buf_release(&all);
    return many == 1 ? found : NULL;
}

static int execute(const struct command *command, struct shell *shell, int argc, char **argv,
                   struct err *err)
{
    // Options and actions check the number of their arguments themselves.
    const bool counted = command->max >= 0 && !command->options && !command->actions;
    const struct command_action *a = NULL;
    if (argc < command->min || (counted && argc > command->max))
        return err_set(err, "usage: %s (/help %s)", command->usage, command->name);
    if (command->actions && take_action(command, &argc, argv, &a, err) < 0) return -1;
    if (a && (argc < a->min || (a->max >= 0 && argc > a->max)))
        return err_set(err, "usage: /%s%s %s%s%s", command->name,
                       command->action_at > 1 ? " N" : "", a->name, a->arguments ? " " : "",
                       a->arguments ? a->arguments : "");
    if (command->check && command->check(argc, argv, err) < 0) return -1;
    if (command_check_needs(shell, command->needs | (a ? a->needs : 0), err) < 0) return -1;
    const struct command *outer = shell->running; // a command that runs this one, such as /run
    shell->running = command;
    if (command->page) {
        char *words = words_join(argc, argv);
        char *title = xasprintf("/%s%s%s", command->name, argc ? " " : "", words);
        sinks_emit(shell->sinks, &(struct event){ .kind = EVENT_PAGE, .text = title });
        free(title);
        free(words);
    }
    const int status = (a ? a->run : command->run)(shell, argc, argv, err);
    if (command->page) sinks_emit(shell->sinks, &(struct event){ .kind = EVENT_PAGE });
    shell->running = outer;
    return status;
}

// Reads --force, but not from a nested command (/collect FILE : COMMAND).
int command_execute(const struct command *command, struct shell *shell, int argc, char **argv,
                    struct err *err)
{
    bool force = false;
    // Texts are UTF-8; only the name of an existing file may have other bytes.
    for (int i = 0; i < argc; i++) {
        const size_t size = strlen(argv[i]);
        if (text_bad_byte(argv[i], size) == size || access(argv[i], F_OK) == 0) continue;
        text_check_part(argv[i], size, 0, err);
        return argc > 1 ? err_in(err, "argument %d", i + 1) : -1;
    }
    for (int i = 0; command->writes && i < argc && !force && strcmp(argv[i], ":") != 0; i++) {
        force = !strcmp(argv[i], "--force");
        if (force) move_behind(&argc, argv, i);
    }
    const bool before = file_out_force(force);
    const int status = execute(command, shell, argc, argv, err);
    file_out_force(before);
    return status;
}
