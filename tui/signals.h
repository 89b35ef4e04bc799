// tui/signals.h -- handles Ctrl-C and other signals.
//
//   signals_start(engine, SIGNALS_PROMPT);
//   signals_busy(true);  shell_line(...);  signals_busy(false);
//   if (signals_interrupted()) ...
//
// While a line runs (busy), Ctrl-C cancels it; a second one within two seconds ends the program at
// once (status 130) and loses only the running answer. When idle, the effect of Ctrl-C depends on
// the mode:
//   script    the script ends with 130
//   dialogue  a second Ctrl-C within two seconds ends the program with 130
//   prompt    signals_fd() becomes readable, the prompt decides
// SIGTERM and SIGHUP cancel the running line and end the program cleanly, or forcibly after three
// seconds; under nohup, SIGHUP stays ignored. SIGPIPE and SIGXFSZ are ignored: writing fails
// instead.
#ifndef TUI_SIGNALS_H
#define TUI_SIGNALS_H

#include <stdbool.h>

struct engine;

enum signals_how { SIGNALS_SCRIPT, SIGNALS_DIALOGUE, SIGNALS_PROMPT };

enum { STATUS_INTERRUPTED = 130 };

void signals_start(struct engine *engine, enum signals_how how);
// Returns whether the program was started with SIGHUP ignored, as nohup does.
bool signals_outlive_terminal(void);
void signals_stop(void); // call before the engine is freed
// Call when a line begins (in a dialogue, this clears an earlier interrupt) or ends.
void signals_busy(bool busy);
// Clears the interrupt; call once the interrupted line has ended and the prompt waits.
void signals_forget(void);
// Returns whether Ctrl-C was pressed since signals_forget; in scripts, at any time.
bool signals_interrupted(void);
// Returns the signal that requested the program's end, or 0.
int signals_terminated(void);

// For the prompt: readable after a signal; signals_next returns the next signal, or 0.
int signals_fd(void);
int signals_next(void);

// Saves the terminal's state. It is restored when a signal ends the program (at a prompt: any
// signal that can be caught), and by signals_restore_terminal, which BUG() calls too.
void signals_save_terminal(void);
void signals_restore_terminal(void);
// Sets the sequences that leave the full screen: restoring the terminal also writes them to this
// descriptor. Borrowed; NULL: none.
void signals_set_farewell(const char *bytes, int to);

#endif
