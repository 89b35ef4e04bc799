// tui/watcher.h -- background threads, so that the screen never waits: one reads the jobs from the
// database once a second and stores drafts, one loads previews of pictures, and one lists files.
//
//   struct watcher *w = watcher_start(db, &owner, queue);  // NEWS_JOBS when something changed
//   watcher_preview(w, "cat.png");              // NEWS_PICTURE with index -1
//   watcher_files(w, &v->list);                 // NEWS_FILES, for the open palette or picker
//   watcher_jobs(w, &(struct jobs_wanted){ .job = 3 });    // requests its curves and results
//   watcher_draft(w, "trip", draft);            // stored with session "trip" (NULL: none)
//   watcher_stop(w);
#ifndef TUI_WATCHER_H
#define TUI_WATCHER_H

#include <stdint.h>

#include "sessions/drafts.h"
#include "tui/screen_events.h"

struct watcher;
struct jobs_wanted; // tui/view.h
struct list_view;   // tui/view.h

// db NULL: no jobs, and drafts are not stored.
struct watcher *watcher_start(const char *db, const struct draft_owner *owner,
                              struct news_queue *queue);
void watcher_preview(struct watcher *w, const char *path);
// Lists the files of this list; ends an earlier listing.
void watcher_files(struct watcher *w, const struct list_view *l);
void watcher_jobs(struct watcher *w, const struct jobs_wanted *wanted);
void watcher_draft(struct watcher *w, const char *session, struct draft d); // owns d
// Ends the threads and frees w. False: a thread hangs, so memory that it uses must not be freed.
bool watcher_stop(struct watcher *w);

#endif
