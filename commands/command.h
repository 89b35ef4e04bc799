// commands/command.h -- a command: one file, one constant struct, one line in list.h.
//
// To add a command NAME: write commands/NAME.c with `const struct command command_NAME`, add
// X(NAME) to commands/list.h and a test tests/commands/NAME.sh. Help, completion and the manual
// page follow. A command reports only through events (shell->engine's sinks) and never prints.
#ifndef COMMANDS_COMMAND_H
#define COMMANDS_COMMAND_H

#include <stdatomic.h>

#include "core/base/event.h"
#include "core/base/mem.h"
#include "core/base/options.h"
#include "core/engine/engine.h"
#include "sessions/store.h"

struct variable {
    char *name, *value; // of -D NAME=VALUE, or of /run FILE NAME=VALUE
    atomic_bool used;   // a line has contained ${NAME}; the screen reads lines in its own thread
};

// Functions of the full screen only; safe to call from the thread that runs lines.
struct shell_screen {
    void *self;
    // Captures the screen as text; lines and columns 0: the screen's own size.
    int (*capture)(void *self, int lines, int columns, struct buf *text, struct err *err);
    // Opens the picker `what` (NULL: the list of pickers), starts the "tour", or copies the
    // line of the "last" key.
    int (*open)(void *self, const char *what, struct err *err);
    int (*columns)(void *self); // columns available to text; 0: unknown
};

struct key_row {
    const char *context; // "all", a panel's name, "panel" (any), "list", "pager" or "input"
    const char *key;
    const char *command; // a command line ("/..."), or the name of an action
    const char *note;
    // Shown on the frame of the focused panel or the pager; for context "all", in the status line.
    // NULL: not shown.
    const char *hint;
};

// The key table with the user's bindings (tui/keys.h).
struct keys;
struct shell_keys {
    struct keys *keys;
    int (*bind)(struct keys *k, const char *key, const char *command, struct err *err);
    void (*each)(struct keys *k, void (*each)(void *self, const struct key_row *row), void *self);
};

// State shared by a front end and its commands.
struct shell {
    struct engine *engine;
    struct store *store; // NULL when the database could not be opened
    struct sinks *sinks; // the engine's
    struct variable *variables;
    size_t variable_count;
    // Loads the default model when a line needs a model or tokenizer and none is loaded; NULL: no
    // default, or it has been tried, or another model has been loaded.
    int (*load_default)(void *self, struct err *err);
    void *load_default_self;
    const struct shell_screen *screen; // NULL for other front ends
    const struct shell_keys *keys;     // NULL outside the full screen
    int64_t *jobs;                     // jobs started here whose end has not been reported yet
                                       // (commands/jobs.h)
    size_t job_count;
    const struct checkpoint *reported; // the model that model_report has reported: only compared
    struct changed *changed;       // questions that /changed shows (commands/changed.h), or NULL
    bool quit;                     // /quit was entered
    bool interactive;              // a person types: a failed line does not end the program
    int depth;                     // nesting depth of scripts that commands run (/run, /paper)
    const struct command *running; // the command whose run() is active
    const char *typed;             // the running command's arguments as typed; NULL: not typed
};

// Returns the columns available to a drawing; 0: the terminal's.
static inline int shell_columns(const struct shell *shell)
{
    return shell->screen ? shell->screen->columns(shell->screen->self) : 0;
}

enum command_needs { NEEDS_MODEL = 1, NEEDS_TOKENIZER = 2, NEEDS_STORE = 4 };

// What Tab offers for an argument.
enum completion {
    COMPLETE_NOTHING,
    COMPLETE_PATH,
    COMPLETE_MODEL,    // a folder or GGUF file, or a name in the hub cache
    COMPLETE_COMMAND,  // a command or a setting
    COMPLETE_SETTING,  // a setting, then its values
    COMPLETE_JOB,      // a job number and an action, in either order
    COMPLETE_PRESET,   // an action, then a preset
    COMPLETE_WORDS,    // an action or one of `words`; then a session or a file
    COMPLETE_POSITIONS // `words` or a file, for each argument
};

// An action of a command: "rename" of "/session rename".
struct command_action {
    const char *name;
    const char *arguments; // "[OLD] NEW", for usage and help; NULL: none
    const char *help;      // its explanation in the command's help
    int min, max;          // number of arguments; max -1 = any
    unsigned needs;        // in addition to the command's
    // argv: the arguments without the action's name.
    int (*run)(struct shell *shell, int argc, char **argv, struct err *err);
    const struct option_row *options;
};

struct command {
    const char *name;    // without the slash
    const char *also;    // search terms for Ctrl-P; may be NULL
    const char *alias;   // aliases, separated by spaces; may be NULL
    const char *usage;   // "/image FILE|- ...": arguments as shown in help
    const char *help;    // one sentence; the first line of help
    const char *details; // further lines for `/help NAME`, or NULL
    int min, max;  // number of arguments; max -1 = any; with options or actions only min counts
    bool rest;     // one argument: the rest of the line as typed, or the content of quotes or """
    bool split;    // with `rest`: a line that begins with "--word" is split as usual
    bool question; // the arguments may end in a question, in which single quotes are literal
    const struct option_row *options; // for help and completion; run() reads them
    bool page;                        // its output is long: shown in a pager
    bool writes;    // replaces files by name: takes --force (core/base/file_out.h)
    unsigned needs; // enum command_needs
    // The command only shows or changes settings, so it may run between two tokens of an answer.
    // "": always; "load scale": with these first arguments; "!make": with all but these; NULL:
    // never.
    const char *live;
    enum completion complete;
    const char *const *words; // choices for COMPLETE_WORDS and COMPLETE_POSITIONS; may be NULL
    // Ends with a row without a name. action_at 0: the first argument may be an action. Otherwise a
    // line names its action in any argument, usually argument number `action_at` (counted from 1).
    // `usual`: the action of a line that begins with a file or preset in place of an action.
    const struct command_action *actions;
    int action_at;
    const char *usual;
    // Checks the form of the arguments before the needs are checked; may be NULL.
    int (*check)(int argc, char **argv, struct err *err);
    // Runs lines that name no action; NULL: they run the first action. argv[0] is the first
    // argument.
    int (*run)(struct shell *shell, int argc, char **argv, struct err *err);
    const struct probe *probe; // set if the command is a probe (commands/probe.c)
    // Settings that the command defines; ends with a row without a key. NULL: none.
    const struct setting *settings;
};

// Adds `more` (NULL-terminated, or NULL) to the commands of commands/list.h, and the settings of
// all commands to the table of settings. Call it after lists_register and before any other
// function.
void commands_register(const struct command *const *more);
const struct command *command_at(int index); // NULL past the end
const char *command_group(int index);        // group of command `index` in /help
// Returns a command's details, actions and options in the form of commands/help_text.h; "" if it
// has none. The caller frees the text.
char *command_details(const struct command *command);
void action_details(struct buf *b, const struct command_action *action); // the items of one action
const struct command *command_find(const char *name); // by name or alias; NULL if unknown
const char *command_nearest(const char *name);        // for "did you mean"; NULL if none is near
// Returns the only command that has this word as a synonym ("models": load); NULL: none, or
// several.
const char *command_also(const char *word);
// Returns the command of a line that begins with an action: "/pause 3", "/delete session X"; NULL:
// none, or several (err names them). `first` is the line's first argument, or NULL; *noun: whether
// `first` names the command, as in "/load adapter FOLDER".
const struct command *command_of_action(const char *action, const char *first, bool *noun,
                                        struct err *err);
// Returns whether `word` is one of the space-separated `words`, which may be NULL.
bool word_among(const char *words, const char *word, size_t length);
// Checks that the model, tokenizer and database that the command needs are open. Loads the default
// model if a model or tokenizer is missing. -1 with a message that names the missing step.
int command_check_needs(const struct shell *shell, unsigned needs, struct err *err);
// Checks the command's arguments and needs, then runs it.
int command_execute(const struct command *command, struct shell *shell, int argc, char **argv,
                    struct err *err);

// Report notices about the adapter in use (commands/adapter.c) and about the training of the model
// (commands/load.c), once after each load.
void adapter_report(const struct shell *shell);
void model_report(struct shell *shell);

// The command of a probe: usage and help come from the probe's file (commands/probe.c).
struct command probe_command(const struct probe *probe);

// Adds to *v the settings named by the leading words: KEY=VALUE, @PRESET, and as the first word
// `off` (every method off) or `now` (no change). Stops at the first other word. Returns the number
// of words used, or -1 (commands/preset.c).
struct preset_values;
int preset_words(const struct shell *shell, int argc, char **argv, struct preset_values *v,
                 struct err *err);

// Reads the arguments of /set (commands/set.c): returns the value, which the caller frees; argv[0]
// becomes the bare key. NULL: the line asks for values. The full screen uses it, too, for keys
// pressed during an answer.
char *set_read(int argc, char **argv);
// Returns the words of the running command's line as the session keeps them (EVENT_MEASURED): a
// JSON list with absolute paths, without the files that the line writes. NULL: the line was not
// typed. The caller frees the text (commands/probe.c).
char *shell_kept_words(const struct shell *shell, int argc, char **argv);
// Returns the value after `now` among the `count` given values, or, if count is 0, among those of a
// flag, choice or template variable (true, false). The first value follows the last, and a `now`
// that is not among them. NULL: the setting has no such values.
const char *setting_next(const struct setting *row, const char *now, int count, char **values);
// Runs one logical line (commands/script.h joins physical lines): empty or #comment, /command args,
// otherwise text for the model. If shell->interactive, "help" means /help, and words that quit
// other programs are refused. Replaces ${NAME} from the variables or the environment. The caller
// reports *err.
int shell_line(struct shell *shell, const char *line, struct err *err);
// Returns whether the line may run during an answer (`live` in struct command).
bool shell_line_live(const char *line);
// Runs a script file ("-" = standard input) and stops at the first error: "FILE:LINE: reason".
// At depth 0, each line ends with EVENT_DONE; for a failing line the caller emits EVENT_ERROR and
// EVENT_DONE.
int shell_script(struct shell *shell, const char *path, struct err *err);
// Runs the user's startup file. A line that fails is reported ("FILE:LINE: reason") and skipped;
// the others still apply. Ends at a line that cannot be read.
void shell_config(struct shell *shell, const char *path,
                  void (*report)(void *self, const struct err *err), void *self);

#endif
