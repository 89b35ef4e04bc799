// commands/table.c -- the table of commands: finding one, what it needs, running it.
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "commands/command.h"
#include "commands/probe.h"
#include "core/base/file_out.h"
#include "core/base/mem.h"
#include "core/lists.h"

#define X(name) extern const struct command command_##name;
#define MEASURING()
#define GROUP(name)
#include "commands/list.h"
#undef GROUP
#undef MEASURING
#undef X

enum { COMMANDS_MAX = 128, PROBES_MAX = 32 };

static const struct command *commands[COMMANDS_MAX];
static const char *groups[COMMANDS_MAX]; // of each
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

void commands_hand_over(const struct command *const *more)
{
    static const struct setting *settings[COMMANDS_MAX + 1];
    const struct command *c;
    int n = 0;
    others = more;
    for (int i = 0; (c = command_at(i)); i++)
        if (c->settings) settings[n++] = c->settings;
    lists_hand_over_settings(settings);
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

static void put_options(struct buf *b, const struct option_row *row)
{
    for (; row && row->name; row++)
        if (row->help && row->name[0] == '-')
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
    if (b.length) b.data[--b.length] = 0; // the last line end
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

bool command_has_alias(const struct command *command, const char *name)
{
    return word_among(command->alias, name, strlen(name));
}

const struct command *command_find(const char *name)
{
    const struct command *c;
    for (int i = 0; (c = command_at(i)); i++)
        if (!strcmp(c->name, name) || command_has_alias(c, name)) return c;
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
        // A short word must agree in more than half of its letters.
        if (d < best && d * 2 < strlen(other) && d * 2 <= length) {
            best = d;
            near = other;
        }
    }
    return near;
}

int command_check_needs(const struct shell *shell, unsigned needs, struct err *err)
{
    const bool missing = (needs & NEEDS_MODEL && !engine_model(shell->engine)) ||
                         (needs & NEEDS_TOKENIZER && !engine_tokenizer(shell->engine));
    if (missing && shell->want_model && shell->want_model(shell->want_self, err) < 0) return -1;
    if (needs & NEEDS_MODEL && !engine_model(shell->engine))
        return err_set(err, "no model is loaded: use '/load MODEL' (a folder, or org/name from the "
                            "local hub cache)");
    if (needs & NEEDS_TOKENIZER && !engine_tokenizer(shell->engine))
        return err_set(err, "no tokenizer is loaded: use '/load MODEL', or '/tokenizer FILE' for a "
                            "tokenizer alone");
    if (needs & NEEDS_STORE && !shell->store)
        return err_set(err, "no session database is open: start vlmsh with --db FILE");
    return 0;
}

// Moves --force behind the arguments and drops it from their number. The words of a nested command
// (/collect FILE : COMMAND) are its own.
static bool take_force(int *argc, char **argv)
{
    for (int i = 0; i < *argc && strcmp(argv[i], ":") != 0; i++) {
        char *word = argv[i];
        if (strcmp(word, "--force") != 0) continue;
        memmove(argv + i, argv + i + 1, (size_t)(*argc - i - 1) * sizeof *argv);
        argv[--*argc] = word;
        return true;
    }
    return false;
}

// --- actions -------------------------------------------------------------------------------------

static const struct command_action *find_row(const struct command *command, const char *word)
{
    for (const struct command_action *a = command->actions; a && a->name; a++)
        if (!strcmp(a->name, word)) return a;
    return NULL;
}

static bool has_action(const struct command *command, const char *word)
{
    return command->action_at && find_row(command, word);
}

// The action that differs from the word by one letter; NULL: none.
static const char *near_action(const struct command *command, const char *word)
{
    for (const struct command_action *a = command->actions; a->name; a++)
        if (text_distance(word, a->name) < 2) return a->name;
    return NULL;
}

static int unknown_action(const struct command *command, const char *word, struct err *err)
{
    const char *near = near_action(command, word);
    struct buf b = { 0 };
    if (near)
        return err_set(err, "/%s has no action '%s': did you mean '%s'?", command->name, word,
                       near);
    for (const struct command_action *a = command->actions; a->name; a++)
        buf_printf(&b, "%s%s", a == command->actions ? "" : a[1].name ? ", " : " or ", a->name);
    if (command->usual) // a file would have been enough
        err_set(err, "there is no file '%s', and /%s has no such action: use %s", word,
                command->name, b.data);
    else
        err_set(err, "/%s has no action '%s': use %s", command->name, word, b.data);
    buf_release(&b);
    return -1;
}

// The argument that is an action: the one in its place, else the first; -1: none.
static int find_action(const struct command *command, int argc, char **argv)
{
    if (has_action(command, argv[command->action_at - 1])) return command->action_at - 1;
    for (int i = 0; i < argc; i++)
        if (has_action(command, argv[i])) return i;
    return -1;
}

// The action of a line that names none: `usual`, if the word in its place exists as a file or
// preset and is no misspelt action.
static const char *usual_action(const struct command *command, const char *word)
{
    const bool exists = command->complete == COMPLETE_PRESET || access(word, F_OK) == 0;
    return exists && !near_action(command, word) ? command->usual : NULL;
}

// Returns the arguments with the action in its place ("3 pause" for "pause 3"); free() the list. At
// least `action_at` arguments.
static char **place_action(const struct command *command, int *argc, char **argv)
{
    const int place = command->action_at - 1;
    const int from = find_action(command, *argc, argv);
    const char *action = from >= 0 ? argv[from] : usual_action(command, argv[place]);
    const int wanted = *argc + (action && from < 0);
    char **list = xcalloc((size_t)wanted + 1, sizeof *list);
    for (int i = 0, k = 0; k < wanted; k++) {
        if (i == from) i++;
        const bool here = action && k == place;
        list[k] = here ? (char *)(uintptr_t)action : argv[i++]; // it is only read
    }
    *argc = wanted;
    return list;
}

static int check_action(const struct command *command, int argc, char **argv, struct err *err)
{
    const int place = command->action_at - 1;
    if (place > 0 && argc == place && has_action(command, argv[0]) && access(argv[0], F_OK) != 0)
        return err_set(err, "say which one to %s: %s", argv[0], command->usage);
    if (place < 0 || place >= argc || has_action(command, argv[place])) return 0;
    return unknown_action(command, argv[place], err);
}

const struct command *command_of_action(const char *action, const char *first, bool *noun,
                                        struct err *err)
{
    const struct command *c, *found = NULL;
    const char *name = first && *first == '/' ? first + 1 : first;
    struct buf all = { 0 };
    int many = 0;
    const struct command *named = name ? command_find(name) : NULL;
    // "/load adapter FOLDER", but not "/load adapter" with a model folder of this name.
    *noun =
        named && has_action(named, action) && (!command_find(action) || access(first, F_OK) != 0);
    if (*noun) return named;
    // A number is that of a job.
    const bool number = first && *first && !first[strspn(first, "0123456789")];
    for (int i = 0; (c = command_at(i)); i++) {
        if (!has_action(c, action)) continue;
        if (number && c->complete == COMPLETE_JOB) break;
        found = c;
        buf_printf(&all, "%s/%s %s", many++ ? ", " : "", c->name, action);
    }
    if (c) found = c, many = 1;
    if (many > 1) err_set(err, "/%s is an action of several commands: %s", action, all.data);
    buf_release(&all);
    return many == 1 ? found : NULL;
}

// The action of a line whose action is in its place; NULL: run().
static const struct command_action *action_of(const struct command *command, int argc, char **argv)
{
    const int place = command->action_at > 0 ? command->action_at - 1 : 0;
    if (argc > place) return find_row(command, argv[place]);
    return command->run ? NULL : command->actions;
}

static int run_action(const struct command *command, const struct command_action *a,
                      struct shell *shell, int argc, char **argv, struct err *err)
{
    const int place = command->action_at > 0 ? command->action_at - 1 : 0;
    if (argc > place) {
        for (int i = place; i > 0; i--) argv[i] = argv[i - 1]; // what precedes the action
        argv++;
        argc--;
    }
    if (argc < a->min || (a->max >= 0 && argc > a->max))
        return err_set(err, "usage: /%s%s %s%s%s", command->name, place ? " N" : "", a->name,
                       a->arguments ? " " : "", a->arguments ? a->arguments : "");
    if (command_check_needs(shell, a->needs, err) < 0) return -1;
    return a->run(shell, argc, argv, err);
}

static void page_begin(const struct command *command, const struct shell *shell, int argc,
                       char **argv)
{
    struct buf title = { 0 };
    buf_printf(&title, "/%s", command->name);
    for (int i = 0; i < argc; i++) buf_printf(&title, " %s", argv[i]);
    sinks_emit(shell->sinks, &(struct event){ .kind = EVENT_PAGE, .text = title.data });
    buf_release(&title);
}

static int execute(const struct command *command, struct shell *shell, int argc, char **argv,
                   struct err *err)
{
    // Rows of options and actions check their arguments themselves.
    const bool counted = command->max >= 0 && !command->options && !command->actions;
    if (argc < command->min || (counted && argc > command->max))
        return err_set(err, "usage: %s", command->usage);
    if (check_action(command, argc, argv, err) < 0) return -1;
    const struct command_action *action = action_of(command, argc, argv);
    if (command->check && command->check(argc, argv, err) < 0) return -1;
    if (command_check_needs(shell, command->needs, err) < 0) return -1;
    const struct command *outer = shell->running; // of /run
    shell->running = command;
    if (command->page) page_begin(command, shell, argc, argv);
    const int status = action ? run_action(command, action, shell, argc, argv, err)
                              : command->run(shell, argc, argv, err);
    if (command->page) sinks_emit(shell->sinks, &(struct event){ .kind = EVENT_PAGE });
    shell->running = outer;
    return status;
}

int command_execute(const struct command *command, struct shell *shell, int argc, char **argv,
                    struct err *err)
{
    const bool before = file_out_force(command->writes && take_force(&argc, argv));
    const bool acts = command->action_at && argc >= command->action_at;
    char **placed = acts ? place_action(command, &argc, argv) : NULL;
    const int status = execute(command, shell, argc, placed ? placed : argv, err);
    free(placed);
    file_out_force(before);
    return status;
}
