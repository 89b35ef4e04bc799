// tui/line_edit.c -- completion for readline, and the editor.
#include "tui/line_edit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <readline/readline.h>

#include "core/file_in.h"
#include "core/mem.h"
#include "tui/complete.h"

// Readline's callbacks have no argument of ours; there is one readline.
static const struct shell *current;

// --- completion ----------------------------------------------------------------------------------

static char *next_folder(const char *text, int state)
{
    char *name;
    while ((name = rl_filename_completion_function(text, state++))) {
        char *slash = xasprintf("%s/.", name);
        bool folder = access(slash, F_OK) == 0;
        free(slash);
        if (folder) return name;
        free(name);
    }
    return NULL;
}

// Where readline's iterating callbacks are in the candidates.
static struct candidates offered;

static char *next_candidate(const char *text, int state)
{
    static size_t at;
    if (!state) at = 0;
    while (at < offered.count) {
        const char *candidate = offered.list[at++];
        if (strncmp(candidate, text, strlen(text)) == 0) return strdup(candidate);
    }
    return NULL;
}

static char **complete(const char *text, int start, int end)
{
    rl_attempted_completion_over = 1; // never file names of readline's own accord
    complete_find(current, rl_line_buffer, (size_t)start, &offered);
    // Folders come before names (of models), files behind them (subcommands).
    const bool folders = offered.paths == PATHS_FOLDERS, files = offered.paths == PATHS_ALL;
    char **matches = folders ? rl_completion_matches(text, next_folder) : NULL;
    if (matches) rl_filename_completion_desired = 1;
    if (!matches) matches = rl_completion_matches(text, next_candidate);
    if (!matches && files) {
        rl_filename_completion_desired = 1;
        matches = rl_completion_matches(text, rl_filename_completion_function);
    }
    candidates_release(&offered);
    return matches;
}

void line_edit_setup(const struct shell *shell)
{
    current = shell;
    rl_readline_name = "vlmsh";
    rl_catch_signals = 0;
    rl_catch_sigwinch = 0;
    // Ctrl-X ends a search as Esc does. Were it the first key of an unknown sequence there,
    // readline 8.2 would jump to a frame that is gone.
    rl_variable_bind("isearch-terminators", "\\e\\C-j\\C-x");
    rl_attempted_completion_function = complete;
    rl_completer_word_break_characters = " \t\n";
    rl_completer_quote_characters = "\"";
    rl_filename_quote_characters = " \t\"";
}

// --- $EDITOR -------------------------------------------------------------------------------------

// Runs the editor on the file and waits for it.
static int run_editor(const char *path)
{
    pid_t child = fork();
    if (child < 0) return -1;
    if (child == 0) {
        execl("/bin/sh", "sh", "-c", "exec ${VISUAL:-${EDITOR:-vi}} \"$1\"", "sh", path,
              (char *)NULL);
        _exit(127);
    }
    int status;
    while (waitpid(child, &status, 0) < 0)
        if (errno != EINTR) return -1;
    return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -1;
}

static char *read_edited(const char *path)
{
    size_t size;
    char *text = file_read(path, 16 << 20, &size, NULL);
    while (text && size && text[size - 1] == '\n') text[--size] = '\0';
    return text;
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
        if (written && run_editor(path) == 0) edited = read_edited(path);
        unlink(path);
    }
    free(path);
    return edited;
}
