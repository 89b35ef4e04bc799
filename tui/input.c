// tui/input.c -- the prompt: readline's callback interface around a poll loop.
//
// Readline owns the terminal only while a line is typed, so Ctrl-C during a command reaches the
// signal handler.
#include "tui/input.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <readline/readline.h>

#include "core/base/clock.h"
#include "core/base/mem.h"
#include "core/base/places.h"
#include "tui/guard.h"
#include "tui/history.h"
#include "tui/line_edit.h"
#include "tui/signals.h"
#include "tui/text.h"
#include "tui/typed.h"

struct input {
    struct shell *shell;
    struct history *history;
    struct typed typed;
    char *line;         // from the callback
    bool got, end;      // a line was read; the input ended
    double interrupted; // time of the last Ctrl-C, if it was on an empty line; 0: none since a line
};

// Readline's callbacks take no user argument, and readline is global.
static struct input *current;

// Keys typed while a command read the terminal's replies. rl_stuff_char() cannot return them:
// readline does not report how many bytes are left, so a complete line would wait for the next key.
static struct buf early;
static size_t early_taken;

void input_add_early(const char *bytes, size_t length)
{
    buf_add(&early, bytes, length);
}

static int early_left(void)
{
    return early_taken < early.length;
}

static void early_drop(void)
{
    buf_release(&early);
    early_taken = 0;
}

static int early_next(void)
{
    const int byte = (unsigned char)early.data[early_taken++];
    if (!early_left()) early_drop();
    return byte;
}

// --- the prompt ----------------------------------------------------------------------------------

// Returns "[1 picture] vlmsh tiny> ", or "... " within a multi-line text.
static char *make_prompt(const struct input *in)
{
    struct buf prompt = { 0 };
    if (typed_open(&in->typed)) {
        buf_puts(&prompt, "... ");
        return buf_take(&prompt);
    }
    const struct engine_talk c = engine_talk(in->shell->engine);
    if (c.waiting_count)
        buf_printf(&prompt, "[%zu picture%s] ", c.waiting_count, c.waiting_count > 1 ? "s" : "");
    buf_puts(&prompt, "vlmsh");
    if (engine_model_name(in->shell->engine)) {
        struct buf printable = { 0 };
        char *name = text_last_part(engine_model_name(in->shell->engine));
        text_printable(&printable, name);
        buf_printf(&prompt, " %.*s", (int)text_fit(printable.data, 24), printable.data);
        buf_release(&printable);
        free(name);
    }
    buf_puts(&prompt, "> ");
    return buf_take(&prompt);
}

// --- the terminal --------------------------------------------------------------------------------

// The terminal modes that readline sets must not outlive the program.
static void take_terminal(int meta)
{
    const char *on = rl_variable_value("enable-bracketed-paste");
    const bool pastes = on && !strcmp(on, "on");
    signals_set_farewell(pastes ? "\033[?2004l\r\n" : "\r\n", fileno(rl_outstream));
    rl_prep_terminal(meta);
}

static void give_terminal_back(void)
{
    rl_deprep_terminal();
    signals_set_farewell(NULL, fileno(rl_outstream));
}

// --- $EDITOR on Ctrl-G ---------------------------------------------------------------------------

static int edit_line(int count, int key)
{
    give_terminal_back();
    char *text = line_edit_in_editor(rl_line_buffer);
    if (text) {
        rl_replace_line(text, 1);
        rl_point = rl_end;
        free(text);
    }
    take_terminal(1);
    rl_on_new_line();
    rl_forced_update_display();
    return 0;
}

// --- reading -------------------------------------------------------------------------------------

static const char paste_begin[] = "\033[200~", paste_end[] = "\033[201~";
enum { PASTE_BYTES = sizeof paste_end - 1, PASTE_PAUSE = 1000, PASTE_LOOK = 100 }; // ms

// Readline reads a paste until its end mark. A pause must not end the paste, or the rest would be
// read as lines and run. Without the mark, only Ctrl-C or the end of the input ends it.
static struct paste {
    char last[PASTE_BYTES]; // last bytes read, to find the marks of a paste
    bool open;
    // The terminal, opened again without blocking; -1: not opened. Ctrl-C empties the terminal's
    // queue, so a byte that poll reported may be gone, and a blocking read would wait for a key.
    int terminal;
    const char *rest; // rest of the end mark that is inserted; NULL: none
} paste = { .terminal = -1 };

static void paste_begins(FILE *stream)
{
    const char *name = ttyname(fileno(stream));
    if (!paste.open && name)
        paste.terminal = open(name, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    paste.open = true;
}

static void paste_ends(void)
{
    if (paste.terminal >= 0) close(paste.terminal);
    paste.terminal = -1;
    paste.open = false;
}

static bool interrupted(void)
{
    return signals_interrupted() || signals_terminated();
}

// Waits for the next byte of a paste. EOF: interrupted, or the input ended. Uses short timeouts,
// because a signal just before poll does not wake it.
static int paste_byte(FILE *stream)
{
    unsigned char byte;
    struct pollfd in = { .fd = fileno(stream), .events = POLLIN };
    for (int wait = PASTE_PAUSE; !interrupted();) {
        const int ready = poll(&in, 1, wait);
        if (ready < 0 && errno != EINTR) return EOF;
        if (ready > 0 && paste.terminal < 0) return rl_getc(stream);
        if (ready > 0) {
            const ssize_t count = read(paste.terminal, &byte, 1);
            if (count > 0) return byte;
            if (count == 0 || (errno != EAGAIN && errno != EINTR)) return EOF;
        }
        if (ready != 0 || wait == PASTE_LOOK) continue;
        fputs("\n(the paste has not ended yet; Ctrl-C discards it)\n", rl_outstream);
        fflush(rl_outstream);
        rl_on_new_line();
        wait = PASTE_LOOK;
    }
    return EOF;
}

static int next_byte(FILE *stream)
{
    if (paste.rest && *paste.rest) return (unsigned char)*paste.rest++;
    paste.rest = NULL;
    if (early_left()) return early_next();
    const bool within = paste.open && RL_ISSTATE(RL_STATE_MOREINPUT);
    const int byte = within ? paste_byte(stream) : rl_getc(stream);
    if (byte >= 0 || !within) return byte;
    paste.rest = paste_end + 1; // readline 8.2 does not end a paste when the input ends
    return (unsigned char)paste_end[0];
}

static int get_byte(FILE *stream)
{
    const int byte = next_byte(stream);
    memmove(paste.last, paste.last + 1, PASTE_BYTES - 1);
    paste.last[PASTE_BYTES - 1] = (char)byte;
    if (!memcmp(paste.last, paste_begin, PASTE_BYTES)) paste_begins(stream);
    if (!memcmp(paste.last, paste_end, PASTE_BYTES)) paste_ends();
    return byte;
}

static void on_line(char *line)
{
    rl_callback_sigcleanup(); // as in tui/prompt.c: a search must not outlive its line
    current->got = line != NULL;
    current->end = line == NULL;
    current->line = line;
    rl_callback_handler_remove();
}

// Ctrl-C at the prompt drops the typed text. Returns true for the second Ctrl-C on an empty line,
// which quits.
static bool interrupt(struct input *in)
{
    double now = clock_seconds();
    bool empty = !rl_end && !typed_open(&in->typed);
    bool again = empty && in->interrupted > 0 && now - in->interrupted < 2;
    in->interrupted = empty ? now : 0;
    fputs("^C\n", rl_outstream); // before readline goes to the left edge
    rl_callback_handler_remove();
    if (!again && empty) fputs("(press Ctrl-C again, or Ctrl-D, to quit)\n", rl_outstream);
    fflush(rl_outstream);
    typed_drop(&in->typed);
    early_drop();
    return again;
}

// Ctrl-Z: restores the terminal for the parent shell, and sets readline's modes on return.
static void suspend(void)
{
    give_terminal_back();
    signal(SIGTSTP, SIG_DFL);
    raise(SIGTSTP);
    signals_busy(false); // installs the handler again
    take_terminal(1);
    rl_on_new_line();
    rl_forced_update_display();
}

// Readline 8.2 writes beyond its buffers after drawing in 3 columns of a terminal it does not know,
// so it does not learn of such widths.
static void resize(void)
{
    enum { LEAST = 10 };
    if (text_terminal_columns(rl_outstream) >= LEAST) rl_resize_terminal();
}

enum wait { WAIT_LINE, WAIT_END, WAIT_AGAIN, WAIT_LEAVE };

static enum wait take_signals(struct input *in)
{
    int signal;
    while ((signal = signals_next())) {
        if (signal == SIGINT) {
            signals_forget();
            return interrupt(in) ? WAIT_LEAVE : WAIT_AGAIN;
        }
        if (signal == SIGWINCH) resize();
        if (signal == SIGTSTP) suspend();
        if (signals_terminated()) {
            rl_callback_handler_remove();
            fputc('\n', rl_outstream);
            return WAIT_END;
        }
    }
    return WAIT_LINE;
}

// Reads one line with readline; on WAIT_LINE, in->line has it.
static enum wait read_line(struct input *in)
{
    char *prompt = make_prompt(in);
    in->got = in->end = false;
    signals_busy(false);
    int signal; // drops a Ctrl-C that arrived as the last line ended
    while ((signal = signals_next()))
        if (signal == SIGWINCH) resize();
    signals_forget();
    if (signals_terminated()) in->end = true;
    rl_callback_handler_install(prompt, on_line);
    free(prompt);
    while (!in->got && !in->end) {
        struct pollfd wait[] = { { .fd = fileno(rl_instream), .events = POLLIN },
                                 { .fd = signals_fd(), .events = POLLIN } };
        if (poll(wait, 2, early_left() ? 0 : -1) < 0 && errno != EINTR) in->end = true;
        enum wait what = take_signals(in);
        if (what != WAIT_LINE) return what;
        if (wait[0].revents || early_left()) {
            rl_input_available_hook = early_left() ? early_left : NULL;
            rl_callback_read_char();
            guard_after_key();
        }
    }
    if (in->end) {
        rl_callback_handler_remove();
        fputc('\n', rl_outstream);
    }
    return in->end ? WAIT_END : WAIT_LINE;
}

void input_flush(struct input *in)
{
    typed_flush(&in->typed);
}

enum input_result input_read(struct input *in, char **line)
{
    current = in;
    for (;;) {
        if (typed_next(&in->typed, line)) return INPUT_LINE;
        bool within = typed_open(&in->typed);
        enum wait what = read_line(in);
        if (what == WAIT_LEAVE) return INPUT_LEAVE;
        if (what == WAIT_END && (!within || signals_terminated())) return INPUT_END;
        if (what == WAIT_END) typed_drop(&in->typed); // Ctrl-D drops a multi-line text
        if (what != WAIT_LINE) continue;
        in->interrupted = 0;
        typed_submit(&in->typed, in->line);
        free(in->line);
    }
}

// --- lifetime ------------------------------------------------------------------------------------

struct input *input_new(struct shell *shell)
{
    struct input *in = xcalloc(1, sizeof *in);
    in->shell = shell;
    line_edit_setup(shell);
    rl_instream = stdin;
    rl_outstream = isatty(STDOUT_FILENO) ? stdout : stderr;
    rl_getc_function = get_byte;
    rl_prep_term_function = take_terminal;
    rl_deprep_term_function = give_terminal_back;
    rl_bind_key('\a', edit_line);
    char *path = places_file("XDG_STATE_HOME", ".local/state", "history");
    in->typed.history = in->history = history_open(path);
    free(path);
    return in;
}

void input_free(struct input *in)
{
    rl_callback_handler_remove();
    typed_release(&in->typed);
    history_close(in->history);
    free(in);
    current = NULL;
}
