// tui/signals.c -- signal handlers. They do only what is safe in a handler: set flags, cancel the
// engine (an atomic store), write to a pipe, set an alarm, restore the terminal, leave by _exit or
// raise the signal again.
#include "tui/signals.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include "core/base/err.h"
#include "core/engine/engine.h"

// Handlers take no user argument, so this state is global.
static struct {
    struct engine *_Atomic engine;
    enum signals_how how;
    volatile sig_atomic_t busy, interrupted, terminated;
    _Atomic int64_t last; // time of the last Ctrl-C in milliseconds; 0 = none
    int pipe[2];          // [0] = -1: none
    struct termios terminal;
    bool have_terminal;
    const char *_Atomic farewell;
    int farewell_to;
    struct sigaction former[NSIG]; // previous handlers
} state = { .pipe = { -1, -1 } };

void signals_save_terminal(void)
{
    state.have_terminal = tcgetattr(STDIN_FILENO, &state.terminal) == 0;
}

void signals_restore_terminal(void)
{
    const pid_t foreground = tcgetpgrp(STDIN_FILENO);
    if (foreground >= 0 && foreground != getpgrp()) return; // another program owns the terminal
    const char *farewell = state.farewell;
    if (farewell && write(state.farewell_to, farewell, strlen(farewell)) < 0) state.farewell = NULL;
    state.farewell = NULL;
    if (state.have_terminal) tcsetattr(STDIN_FILENO, TCSANOW, &state.terminal);
}

// Restores the terminal, then restores and triggers the signal's previous effect.
static void on_fatal(int signal, siginfo_t *info, void *context)
{
    const bool fault = signal == SIGSEGV || signal == SIGFPE || signal == SIGILL;
    signals_restore_terminal();
    sigaction(signal, &state.former[signal], NULL);
    // A fault occurs again on return, with its address for debuggers; a sent signal (abort, kill, a
    // timer, a limit) is raised again.
    if (!fault || info->si_code <= 0) raise(signal);
}

void signals_set_farewell(const char *bytes, int to)
{
    state.farewell_to = to;
    state.farewell = bytes;
}

// Returns whether this signal ends a program that does not handle it.
static bool is_fatal(int signal)
{
    static const int harmless[] = { SIGCHLD, SIGCONT, SIGURG,  SIGWINCH,
                                    SIGSTOP, SIGTSTP, SIGTTIN, SIGTTOU };
    for (size_t i = 0; i < sizeof harmless / sizeof harmless[0]; i++)
        if (signal == harmless[i]) return false;
    return true;
}

// Handles all signals that would end the program, including real-time ones: schedulers, limits and
// timers send them. Ignored signals stay ignored; other handlers (a sanitizer's) run afterwards.
static void handle_fatal(void)
{
    struct sigaction action = { .sa_sigaction = on_fatal, .sa_flags = SA_NODEFER | SA_SIGINFO };
    sigemptyset(&action.sa_mask);
    for (int signal = 1; signal < NSIG; signal++) {
        struct sigaction *former = &state.former[signal];
        if (!is_fatal(signal) || sigaction(signal, NULL, former) < 0) continue;
        if (former->sa_handler != SIG_IGN) sigaction(signal, &action, NULL);
    }
}

static void leave(int status)
{
    signals_restore_terminal();
    _exit(status);
}

static void report_prompt(int signal)
{
    char byte = (char)signal;
    if (state.pipe[1] >= 0 && write(state.pipe[1], &byte, 1) < 0)
        return; // a full pipe is readable anyway
}

static void on_interrupt(int signal)
{
    int saved = errno;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    int64_t ms = (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000 + 1;
    bool again = state.last && ms - state.last < 2000;
    state.last = ms;
    state.interrupted = 1;
    if (state.engine) engine_cancel(state.engine);
    if (again && (state.busy || state.how == SIGNALS_DIALOGUE)) leave(STATUS_INTERRUPTED);
    if (state.how == SIGNALS_SCRIPT) alarm(5); // ends a line that ignores the flag
    if (state.how == SIGNALS_PROMPT && !state.busy) report_prompt(signal);
    errno = saved;
}

static void on_terminate(int signal)
{
    int saved = errno;
    if (state.terminated) leave(128 + signal);
    state.terminated = signal;
    if (state.engine) engine_cancel(state.engine);
    alarm(3);
    report_prompt(signal);
    errno = saved;
}

static void on_alarm(int signal)
{
    leave(state.terminated ? 128 + state.terminated : STATUS_INTERRUPTED);
}

static void on_prompt(int signal)
{
    int saved = errno;
    report_prompt(signal);
    errno = saved;
}

static void handle(int signal, void (*handler)(int), int flags)
{
    struct sigaction action = { .sa_handler = handler, .sa_flags = flags };
    sigemptyset(&action.sa_mask);
    sigaction(signal, &action, NULL);
}

bool signals_outlive_terminal(void)
{
    struct sigaction action;
    return sigaction(SIGHUP, NULL, &action) == 0 && action.sa_handler == SIG_IGN;
}

void signals_start(struct engine *engine, enum signals_how how)
{
    state.engine = engine;
    state.how = how;
    if (how == SIGNALS_PROMPT && pipe2(state.pipe, O_CLOEXEC | O_NONBLOCK) < 0)
        fatal("cannot create a pipe: %s", strerror(errno));
    if (how == SIGNALS_PROMPT) handle_fatal(); // the calls below replace some of its handlers
    // A script that waits for input must wake up; a dialogue continues to read.
    handle(SIGINT, on_interrupt, how == SIGNALS_SCRIPT ? 0 : SA_RESTART);
    handle(SIGTERM, on_terminate, 0);
    if (!signals_outlive_terminal()) handle(SIGHUP, on_terminate, 0);
    handle(SIGALRM, on_alarm, SA_RESTART);
    handle(SIGPIPE, SIG_IGN, 0);
    handle(SIGXFSZ, SIG_IGN, 0); // a file at its limit: writing fails instead
    if (how != SIGNALS_PROMPT) return;
    handle(SIGWINCH, on_prompt, SA_RESTART);
    handle(SIGCONT, on_prompt, SA_RESTART);
}

void signals_stop(void)
{
    alarm(0);
    state.engine = NULL;
}

void signals_forget(void)
{
    state.interrupted = 0;
    state.last = 0;
    if (state.engine) engine_uncancel(state.engine);
}

// Does not clear interrupts at a prompt: the prompt clears them before it reads, so a Ctrl-C after
// Enter belongs to the line.
void signals_busy(bool busy)
{
    if (busy && state.how == SIGNALS_DIALOGUE) signals_forget();
    state.busy = busy;
    // Ctrl-Z at the prompt must restore the terminal first; while a line runs, the terminal has the
    // shell's modes.
    if (state.how == SIGNALS_PROMPT) handle(SIGTSTP, busy ? SIG_DFL : on_prompt, SA_RESTART);
}

bool signals_interrupted(void)
{
    return state.interrupted;
}

int signals_terminated(void)
{
    return state.terminated;
}

int signals_fd(void)
{
    return state.pipe[0];
}

int signals_next(void)
{
    char byte;
    return state.pipe[0] >= 0 && read(state.pipe[0], &byte, 1) == 1 ? byte : 0;
}
