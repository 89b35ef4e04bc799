// tui/worker.h -- the computing thread: owns engine, store and shell, and runs lines one after the
// other.
//
//   struct worker *w = worker_start(shell, queue, &owner, begin, self);  // begin(self) runs first
//   worker_submit(w, "What is this?", false, false);     // posts NEWS_BUSY, events, NEWS_IDLE
//   worker_cancel(w, NULL);                              // the running line; drops queued ones
//   worker_stop(w, 5);  worker_free(w);
#ifndef TUI_WORKER_H
#define TUI_WORKER_H

#include "commands/command.h"
#include "sessions/drafts.h"
#include "tui/screen_events.h"

struct worker;

// owner: this shell, whose drafts are not reported.
struct worker *worker_start(struct shell *shell, struct news_queue *queue,
                            const struct draft_owner *owner, void (*begin)(void *self), void *self);
// Queues a line. live: it runs before the next token of the running answer (shell_line_live), or
// before other queued lines. key: it belongs to a panel's key (NEWS_BUSY_KEY).
void worker_submit(struct worker *w, const char *line, bool live, bool key);
// Queues a line that runs only for its maps, once the queue is empty. It replaces a queued line of
// this kind, and ends early when worker_submit queues a line.
void worker_submit_quiet(struct worker *w, const char *line);
// Cancels the running line and drops the queued ones that are not live. Returns the number of
// dropped lines, with their texts in `dropped` (may be NULL).
int worker_cancel(struct worker *w, struct buf *dropped);
bool worker_busy(struct worker *w);   // a line is running or queued
int worker_waiting(struct worker *w); // number of queued lines
// Ends the thread; false: it did not end in time, and memory must not be freed.
bool worker_stop(struct worker *w, int seconds);
void worker_free(struct worker *w);

#endif
