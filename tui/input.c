// tui/input.c -- the prompt: readline's callback interface around a poll loop.
//
// The terminal is readline's only while a line is typed: Ctrl-C while a line runs reaches the
// signal handler, not readline. What comes at once (a paste, an entry of the history) may hold
// several physical lines: a message stays one, commands are taken one after the other.
#include "tui/input.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <readline/readline.h>

#include "commands/script.h"
#include "core/clock.h"
#include "core/mem.h"
#include "tui/complete.h"
#include "tui/history.h"
#include "tui/places.h"
#include "tui/signals.h"
#include "tui/text.h"
#include "tui/throttle.h"

struct input {
    struct shell *shell;
    struct history *history;
    struct line_reader reader; // physical lines to a logical one
    struct buf typed;          // the same as it was typed, for the history
    char *pending;             // lines that came at once and are not taken yet; NULL = none
    size_t at;                 // how far pending is taken
    char *line;                // from the callback
    bool got, end;             // a line came; the input ended
    double interrupted;        // when Ctrl-C came last; 0 = not since the last line
};

// Readline's callbacks have no argument of ours; there is one readline.
static struct input *current;

// --- the prompt ----------------------------------------------------------------------------------

static void add_model(struct buf *prompt, const struct model *m)
{
    if (!m) return;
    char *name = xstrdup(m->name);
    size_t n = strlen(name);
    while (n > 1 && name[n - 1] == '/') name[--n] = '\0';
    const char *slash = strrchr(name, '/');
    const char *last = slash && slash[1] ? slash + 1 : name;
    struct buf printable = { 0 };
    text_printable(&printable, last);
    buf_putc(prompt, ' ');
    buf_add(prompt, printable.data, text_fit(printable.data, 24));
    buf_release(&printable);
    free(name);
}

// "[1 picture] vlmsh tiny> ", or "... " within a text.
static char *make_prompt(const struct input *in)
{
    struct buf prompt = { 0 };
    if (line_reader_open(&in->reader)) {
        buf_puts(&prompt, "... ");
        return buf_take(&prompt);
    }
    const struct conversation *c = engine_conversation(in->shell->engine);
    if (c->waiting_count)
        buf_printf(&prompt, "[%zu picture%s] ", c->waiting_count, c->waiting_count > 1 ? "s" : "");
    buf_puts(&prompt, "vlmsh");
    add_model(&prompt, engine_model(in->shell->engine));
    buf_puts(&prompt, "> ");
    return buf_take(&prompt);
}

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
    complete_find(current->shell, rl_line_buffer, (size_t)start, &offered);
    char **matches = rl_completion_matches(text, next_candidate);
    if (!matches && offered.paths != PATHS_NONE) {
        rl_filename_completion_desired = 1;
        matches = rl_completion_matches(
            text, offered.paths == PATHS_FOLDERS ? next_folder : rl_filename_completion_function);
    }
    candidates_release(&offered);
    return matches;
}

// --- $EDITOR on Ctrl-G ---------------------------------------------------------------------------

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

static void take_edited(const char *path)
{
    size_t size;
    char *text = file_read(path, 16 << 20, &size, NULL);
    if (!text) return;
    while (size && text[size - 1] == '\n') text[--size] = '\0';
    rl_replace_line(text, 1);
    rl_point = rl_end;
    free(text);
}

static int edit_line(int count, int key)
{
    const char *folder = getenv("TMPDIR");
    char *path = xasprintf("%s/vlmsh-XXXXXX.txt", folder && *folder ? folder : "/tmp");
    int file = mkstemps(path, 4);
    if (file < 0) {
        free(path);
        return 0;
    }
    size_t length = strlen(rl_line_buffer);
    bool written = write(file, rl_line_buffer, length) == (ssize_t)length;
    written &= close(file) == 0;
    rl_deprep_terminal();
    if (written && run_editor(path) == 0) take_edited(path);
    unlink(path);
    free(path);
    rl_prep_terminal(1);
    rl_on_new_line();
    rl_forced_update_display();
    return 0;
}

// --- reading -------------------------------------------------------------------------------------

static void on_line(char *line)
{
    current->got = line != NULL;
    current->end = line == NULL;
    current->line = line;
    rl_callback_handler_remove();
}

static void drop_typed(struct input *in)
{
    line_reader_reset(&in->reader);
    buf_clear(&in->typed);
}

// Ctrl-C at the prompt: an empty line, outside of any text begun. True: the second where there was
// nothing to take away, leave.
static bool interrupt(struct input *in)
{
    double now = clock_seconds();
    bool empty = !rl_end && !line_reader_open(&in->reader);
    bool again = empty && in->interrupted > 0 && now - in->interrupted < 2;
    in->interrupted = empty ? now : 0;
    fputs("^C\n", rl_outstream); // before readline goes to the left edge
    rl_callback_handler_remove();
    if (!again && empty) fputs("(Ctrl-C again, or Ctrl-D, to leave)\n", rl_outstream);
    fflush(rl_outstream);
    drop_typed(in);
    return again;
}

// Ctrl-Z: the shell below gets its terminal back, and we ours when we go on.
static void suspend(void)
{
    rl_deprep_terminal();
    signal(SIGTSTP, SIG_DFL);
    raise(SIGTSTP);
    signals_busy(false); // installs the handler again
    rl_prep_terminal(1);
    rl_on_new_line();
    rl_forced_update_display();
}

enum wait { WAIT_LINE, WAIT_END, WAIT_AGAIN, WAIT_LEAVE };

static enum wait take_signals(struct input *in)
{
    int signal;
    while ((signal = signals_next())) {
        if (signal == SIGINT) return interrupt(in) ? WAIT_LEAVE : WAIT_AGAIN;
        if (signal == SIGWINCH) rl_resize_terminal();
        if (signal == SIGTSTP) suspend();
        if (signals_terminated()) {
            rl_callback_handler_remove();
            fputc('\n', rl_outstream);
            return WAIT_END;
        }
    }
    return WAIT_LINE;
}

// Reads one line of readline's: on WAIT_LINE it is in in->line.
static enum wait read_line(struct input *in)
{
    char *prompt = make_prompt(in);
    in->got = in->end = false;
    signals_busy(false);
    rl_callback_handler_install(prompt, on_line);
    free(prompt);
    while (!in->got && !in->end) {
        struct pollfd wait[] = { { .fd = fileno(rl_instream), .events = POLLIN },
                                 { .fd = signals_fd(), .events = POLLIN } };
        if (poll(wait, 2, -1) < 0 && errno != EINTR) in->end = true;
        enum wait what = take_signals(in);
        if (what != WAIT_LINE) return what;
        if (wait[0].revents) rl_callback_read_char();
    }
    if (in->end) {
        rl_callback_handler_remove();
        fputc('\n', rl_outstream);
    }
    return in->end ? WAIT_END : WAIT_LINE;
}

// --- physical to logical lines -------------------------------------------------------------------

static bool goes_on(const char *line, size_t length)
{
    size_t n = 0;
    while (n < length && line[length - 1 - n] == '\\') n++;
    return n % 2 == 1;
}

// Several lines that came at once: are they taken one by one?
static bool is_split(const struct input *in, const char *text)
{
    const char *first = text + strspn(text, " \t\n"), *end = strchr(text, '\n');
    if (line_reader_open(&in->reader)) return true;
    return *first == '/' || strncmp(first, "\"\"\"", 3) == 0 ||
           (end && goes_on(text, (size_t)(end - text)));
}

// Takes over what was submitted.
static void submit(struct input *in, char *text)
{
    size_t length = strlen(text);
    while (length && text[length - 1] == '\n') text[--length] = '\0';
    if (in->typed.length) buf_putc(&in->typed, '\n');
    buf_puts(&in->typed, text);
    // A pasted text with a # in front is a text, not a comment.
    bool fenced = *text == '#' && strchr(text, '\n') && !strstr(text, "\"\"\"") &&
                  !line_reader_open(&in->reader);
    in->pending = fenced ? xasprintf("\"\"\"%s\"\"\"", text) : xstrdup(text);
    in->at = 0;
    free(text);
}

// Adds pending text to the reader until a logical line is whole.
static bool take_pending(struct input *in)
{
    bool split = is_split(in, in->pending + in->at), whole = false;
    while (in->pending && !whole) {
        char *line = in->pending + in->at;
        char *end = split ? strchr(line, '\n') : NULL;
        if (end) *end = '\0';
        whole = line_reader_add(&in->reader, line);
        in->at = end ? (size_t)(end - in->pending) + 1 : 0;
        if (!end) input_flush(in);
    }
    return whole;
}

void input_flush(struct input *in)
{
    free(in->pending);
    in->pending = NULL;
    in->at = 0;
}

enum input_result input_read(struct input *in, char **line)
{
    current = in;
    for (;;) {
        if (in->pending) {
            bool whole = take_pending(in);
            if (!line_reader_open(&in->reader) && in->typed.length) {
                history_keep(in->history, in->typed.data);
                buf_clear(&in->typed);
            }
            if (!whole) continue;
            *line = xstrdup(in->reader.text.data ? in->reader.text.data : "");
            return INPUT_LINE;
        }
        bool within = line_reader_open(&in->reader);
        enum wait what = read_line(in);
        if (what == WAIT_LEAVE) return INPUT_LEAVE;
        if (what == WAIT_END && (!within || signals_terminated())) return INPUT_END;
        if (what == WAIT_END) drop_typed(in); // Ctrl-D within a text: not sent
        if (what != WAIT_LINE) continue;
        in->interrupted = 0;
        submit(in, in->line);
    }
}

// --- life ----------------------------------------------------------------------------------------

struct input *input_new(struct shell *shell)
{
    struct input *in = xcalloc(1, sizeof *in);
    in->shell = shell;
    rl_readline_name = "vlmsh";
    rl_instream = stdin;
    rl_outstream = isatty(STDOUT_FILENO) ? stdout : stderr;
    rl_catch_signals = 0;
    rl_catch_sigwinch = 0;
    rl_attempted_completion_function = complete;
    rl_completer_word_break_characters = " \t\n";
    rl_completer_quote_characters = "\"";
    rl_filename_quote_characters = " \t\"";
    rl_bind_key('\a', edit_line);
    char *path = places_file("XDG_STATE_HOME", ".local/state", "history");
    in->history = history_open(path);
    free(path);
    return in;
}

void input_free(struct input *in)
{
    rl_callback_handler_remove();
    history_close(in->history);
    line_reader_release(&in->reader);
    buf_release(&in->typed);
    input_flush(in);
    free(in);
    current = NULL;
}
