// tui/signals.h -- Ctrl-C and its relatives.
//
//   signals_start(engine, SIGNALS_PROMPT);
//   signals_busy(true);  shell_line(...);  signals_busy(false);
//   if (signals_interrupted()) ...
//
// While a line runs (busy), Ctrl-C cancels it; a second within two seconds ends the program at once
// (status 130): the answer under way is all that is lost. What an idle Ctrl-C does depends on how:
//   script    the script ends with 130
//   dialogue  twice within two seconds: the end, 130
//   prompt    signals_fd() becomes readable, the prompt decides
// SIGTERM and SIGHUP cancel what runs and end the program in order, after three seconds in any way.
// SIGPIPE and SIGXFSZ are ignored: writing fails instead.
#ifndef TUI_SIGNALS_H
#define TUI_SIGNALS_H

#include <stdbool.h>

#include "core/engine/engine.h"

enum signals_how { SIGNALS_SCRIPT, SIGNALS_DIALOGUE, SIGNALS_PROMPT };

enum { STATUS_INTERRUPTED = 130 };

void signals_start(struct engine *engine, enum signals_how how);
void signals_stop(void); // before the engine is freed
// A line begins (in a dialogue an interruption before it is forgotten) or ends.
void signals_busy(bool busy);
// What was interrupted has ended: a prompt waits from now on.
void signals_forget(void);
// Ctrl-C came since then; in scripts: ever.
bool signals_interrupted(void);
// The signal that asks the program to end, or 0.
int signals_terminated(void);

// For the prompt: readable when a signal came; signals_next takes one (0 when there is none).
int signals_fd(void);
int signals_next(void);

// Remembers how the terminal is now; put back when the program is ended from a handler, and by
// signals_restore_terminal (which BUG() calls too).
void signals_save_terminal(void);
void signals_restore_terminal(void);
// Sequences to be written then too (the full screen's way back); they must stay. NULL: none. While
// there are some, a crash restores the terminal as well.
void signals_set_farewell(const char *bytes);

#endif
