// tui/line_edit.c -- sets up readline's completion and keys, and runs $EDITOR.
#include "tui/line_edit.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <readline/readline.h>
#include <readline/tilde.h>

#include "commands/parse.h"
#include "core/base/file_in.h"
#include "core/base/mem.h"
#include "core/files/checkpoint.h"
#include "tui/complete.h"
#include "tui/guard.h"
#include "tui/picker.h"
#include "tui/text.h"

// Readline's callbacks take no user argument, and readline is global.
static const struct shell *current;

// --- completion ----------------------------------------------------------------------------------

// Returns whether the name has only printable characters: readline would send control characters to
// the terminal as they are.
static bool is_printable(const char *name)
{
    struct buf b = { 0 };
    text_printable(&b, name);
    const bool same = b.data && !strcmp(b.data, name);
    buf_release(&b);
    return same;
}

static char *next_file(const char *text, int state)
{
    char *name;
    while ((name = rl_filename_completion_function(text, state++)) && !is_printable(name))
        free(name);
    return name;
}

// Returns the next folder (which may be a model or contain one) or GGUF file.
static char *next_model(const char *text, int state)
{
    char *name;
    while ((name = next_file(text, state++))) {
        char *path = tilde_expand_word(name), *slash = xasprintf("%s/.", path);
        const bool model = access(slash, F_OK) == 0 || checkpoint_is_gguf(path);
        free(slash);
        free(path);
        if (model) return name;
        free(name);
    }
    return NULL;
}

// The candidates over which readline's callbacks iterate.
static struct candidates offered;

static char *next_candidate(const char *text, int state)
{
    static size_t at;
    if (!state) at = 0;
    while (at < offered.count) {
        const char *candidate = offered.list[at++];
        if (strncmp(candidate, text, strlen(text)) == 0 && is_printable(candidate))
            return strdup(candidate);
    }
    return NULL;
}

static char **complete(const char *text, int start, int end)
{
    rl_attempted_completion_over = 1; // readline must not add file names
    complete_find(current, rl_line_buffer, (size_t)start, &offered);
    // Offers names of models only if no folder or GGUF file matches, and files only if no candidate
    // matches.
    const bool models = offered.paths == PATHS_MODELS, files = offered.paths == PATHS_ALL;
    char **matches = models ? rl_completion_matches(text, next_model) : NULL;
    if (matches) rl_filename_completion_desired = 1;
    if (!matches) matches = rl_completion_matches(text, next_candidate);
    if (!matches && files) {
        rl_filename_completion_desired = 1;
        matches = rl_completion_matches(text, next_file);
    }
    candidates_release(&offered);
    return matches;
}

// Quotes a path for vlmsh's input line, which does not expand "~" in quotes. Readline adds the
// closing quote.
static char *quote_file(char *name, int match, char *quote)
{
    char *path = tilde_expand_word(name), *quoted = picker_quote(path);
    quoted[strlen(quoted) - 1] = '\0';
    if (quote) *quote = '"';
    free(path);
    return quoted;
}

static char *unquote_file(char *typed, int quote)
{
    char *name = xstrdup(typed), *to = name;
    for (const char *p = typed; *p; p++) {
        if (*p == '\\' && p[1] && (quote == '"' || (!quote && p[1] == ' '))) p++;
        *to++ = *p;
    }
    *to = '\0';
    return name;
}

// Runs before readline looks for the word to complete. ' is a quote only if one is open at the
// cursor: elsewhere it may be an apostrophe. Returns NULL: the usual characters separate words.
static char *choose_quotes(void)
{
    const char *line = rl_line_buffer, *end = line + rl_point;
    bool open = false;
    for (const char *p = line + 1; *line == '/' && p < end && !open; p++) {
        if (*p != '\'' || !strchr(" \t=", p[-1])) continue;
        const char *close = single_close(p);
        open = !close || close >= end;
        if (!open) p = close;
    }
    rl_completer_quote_characters = open ? "\"'" : "\"";
    return NULL;
}

// Runs on Alt-Enter, which would by default switch readline to vi's keys.
static int insert_line(int count, int key)
{
    return rl_insert_text("\n") < 0;
}

// Binds sequences of Home, End and Delete (Linux console, tmux, screen, rxvt) that readline may
// leave unbound: /etc/inputrc binds them, but a ~/.inputrc replaces that file.
static void bind_ends(void)
{
    static const struct {
        const char *sequence;
        rl_command_func_t *run;
    } keys[] = { { "\\e[1~", rl_beg_of_line },
                 { "\\e[7~", rl_beg_of_line },
                 { "\\e[4~", rl_end_of_line },
                 { "\\e[8~", rl_end_of_line },
                 { "\\e[3~", rl_delete } };
    static const char *const maps[] = { "emacs", "vi-insert" };
    for (size_t m = 0; m < sizeof maps / sizeof maps[0]; m++)
        for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
            rl_bind_keyseq_if_unbound_in_map(keys[i].sequence, keys[i].run,
                                             rl_get_keymap_by_name(maps[m]));
}

// Runs before each line, after the user's own bindings have been read.
static int begin_line(void)
{
    static const char *const keys[] = { "\\C-m", "\\C-j" };
    Keymap meta = rl_get_keymap_by_name("emacs-meta");
    for (int i = 0; i < 2; i++)
        if (rl_function_of_keyseq(keys[i], meta, NULL) == rl_vi_editing_mode)
            rl_bind_keyseq_in_map(keys[i], insert_line, meta);
    bind_ends();
    guard_keys();
    return 0;
}

void line_edit_setup(const struct shell *shell)
{
    current = shell;
    rl_readline_name = "vlmsh";
    rl_startup_hook = begin_line;
    rl_catch_signals = 0;
    rl_catch_sigwinch = 0;
    // Like Esc, Ctrl-X ends a search: otherwise, as the first key of an unknown sequence, it would
    // make readline 8.2 longjmp to a stack frame that no longer exists.
    rl_variable_bind("isearch-terminators", "\\e\\C-j\\C-x");
    rl_attempted_completion_function = complete;
    rl_completer_word_break_characters = " \t\n";
    rl_completion_word_break_hook = choose_quotes;
    rl_filename_quote_characters = " \t\"\\";
    rl_filename_quoting_function = quote_file;
    rl_filename_dequoting_function = unquote_file;
}

// --- $EDITOR -------------------------------------------------------------------------------------

// Restores the default signal handling, then executes the editor.
_Noreturn static void become_editor(const char *path)
{
    static const int ours[] = { SIGINT, SIGQUIT, SIGTSTP, SIGPIPE, SIGXFSZ };
    for (size_t i = 0; i < sizeof ours / sizeof ours[0]; i++) signal(ours[i], SIG_DFL);
    execl("/bin/sh", "sh", "-c", "exec ${VISUAL:-${EDITOR:-vi}} \"$1\"", "sh", path, (char *)NULL);
    _exit(127);
}

// Runs the editor on the file and waits. The editor and vlmsh share the terminal: Ctrl-C affects
// only the editor; Ctrl-Z stops both, so that the parent shell gets the terminal back.
static int run_editor(const char *path)
{
    static const struct {
        int number;
        void (*how)(int);
    } signals[] = { { SIGINT, SIG_IGN }, { SIGQUIT, SIG_IGN }, { SIGTSTP, SIG_DFL } };
    enum { COUNT = sizeof signals / sizeof signals[0] };
    struct sigaction former[COUNT];
    for (size_t i = 0; i < COUNT; i++) {
        const struct sigaction action = { .sa_handler = signals[i].how };
        sigaction(signals[i].number, &action, &former[i]);
    }
    int status = -1;
    const pid_t child = fork();
    if (child == 0) become_editor(path);
    while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    for (size_t i = 0; i < COUNT; i++) sigaction(signals[i].number, &former[i], NULL);
    return status == 0 ? 0 : -1;
}

char *line_edit_in_editor(const char *text)
{
    const char *folder = getenv("TMPDIR");
    char *path = xasprintf("%s/vlmsh-XXXXXX.txt", folder && *folder ? folder : "/tmp");
    char *edited = NULL;
    int file = mkstemps(path, 4);
    if (file >= 0) {
        const size_t length = strlen(text);
        bool written = write(file, text, length) == (ssize_t)length;
        written &= close(file) == 0;
        size_t size = 0;
        if (written && run_editor(path) == 0) edited = file_read(path, 16 << 20, &size, NULL);
        while (edited && size && edited[size - 1] == '\n') edited[--size] = '\0';
        unlink(path);
    }
    free(path);
    return edited;
}
