// tui/screen.h -- the full screen.
//
//   struct screen *s = screen_new();             // nothing is drawn yet
//   sinks_add(sinks, screen_sink(s));
//   status = screen_run(s, &shell, keys, begin, self);   // until the user leaves
//   screen_free(s);
//
// One thread computes (tui/worker.h); the calling one draws and reads keys, in one loop around
// poll(). The news queue brings it the data of all other threads.
#ifndef TUI_SCREEN_H
#define TUI_SCREEN_H

#include "commands/command.h"
#include "tui/keys.h"

struct screen;

struct screen *screen_new(void);
void screen_free(struct screen *s);
struct sink screen_sink(struct screen *s);
// begin runs in the computing thread, before the first line. Returns the exit status.
int screen_run(struct screen *s, struct shell *shell, struct keys *keys, void (*begin)(void *self),
               void *self);

#endif
