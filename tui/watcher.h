// tui/watcher.h -- a thread that looks so that the screen need not wait: at the jobs in the
// database once a second, and at pictures for previews. It also writes what is typed.
//
//   struct watcher *w = watcher_start(db, queue);    // NEWS_JOBS when something changed
//   watcher_preview(w, "cat.png");                   // NEWS_PICTURE with index -1
//   watcher_curve(w, 3);                             // whose loss curve comes; 0: the latest's
//   watcher_draft(w, "trip", "What is");             // kept with session "trip" (NULL: with none)
//   watcher_stop(w);
#ifndef TUI_WATCHER_H
#define TUI_WATCHER_H

#include <stdint.h>

#include "tui/screen_events.h"

struct watcher;

struct watcher *watcher_start(const char *db, struct news_queue *queue); // db NULL: no jobs
void watcher_preview(struct watcher *w, const char *path);
void watcher_curve(struct watcher *w, int64_t job);
void watcher_draft(struct watcher *w, const char *session, const char *text);
void watcher_stop(struct watcher *w);

#endif
