// tui/worker.h -- the computing thread: owns engine, store and shell, and runs lines one after the
// other.
//
//   struct worker *w = worker_start(shell, queue, &owner, begin, self);  // begin(self) runs first
//   worker_submit(w, "What is this?");       // at once back; NEWS_BUSY, events, NEWS_IDLE follow
//   worker_cancel(w);                        // what runs, and what waits
//   worker_stop(w, 5);  worker_free(w);
#ifndef TUI_WORKER_H
#define TUI_WORKER_H

#include "commands/command.h"
#include "sessions/drafts.h"
#include "tui/screen_events.h"

struct worker;

// begin returns 0 to continue. owner: the shell whose drafts are not reported.
struct worker *worker_start(struct shell *shell, struct news_queue *queue,
                            const struct draft_owner *owner, int (*begin)(void *self), void *self);
void worker_submit(struct worker *w, const char *line);
// Before the waiting lines.
void worker_submit_first(struct worker *w, const char *line);
// Before the next token of the running answer (shell_line_live), or before the waiting lines.
void worker_submit_live(struct worker *w, const char *line);
// Drops waiting lines and cancels the running one. Returns how many were waiting.
int worker_cancel(struct worker *w);
bool worker_busy(struct worker *w);   // a line is running or waiting
int worker_waiting(struct worker *w); // lines
// Ends the thread; false: it did not end in time, and memory must not be freed.
bool worker_stop(struct worker *w, int seconds);
void worker_free(struct worker *w);
int worker_status(const struct worker *w); // what begin returned

#endif
