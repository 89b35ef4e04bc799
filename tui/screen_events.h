// tui/screen_events.h -- the news queue from worker threads to the drawing thread.
//
//   struct news_queue *q = news_queue_new();
//   sinks_add(sinks, news_sink(q));                  // events, copied
//   news_post(q, NEWS_BUSY, "/load tiny", NULL, NULL);
//   ... in the loop, when news_fd(q) is readable:
//   while ((n = news_next(q))) { ... n->event ... news_free(n); }
//
// Any thread may post; one reads. An event is copied with its texts, ids, token, answer, table,
// map, columns, flip and progress; its other pointers (such as job, info, answer.boxes) are NULL. A
// map's area becomes fractions of the picture; a message becomes its text
// (event.text), role (event.id) and number of pictures (event.count); the pictures of EVENT_CHANGED
// become previews (data: struct previews).
#ifndef TUI_SCREEN_EVENTS_H
#define TUI_SCREEN_EVENTS_H

#include "core/base/event.h"

enum news_kind {
    NEWS_EVENT,
    NEWS_BUSY,     // a line starts; text: the line
    NEWS_BUSY_KEY, // the same for the line of a panel's key
    NEWS_KEY_DONE, // a key's line ran between two tokens; data: the current struct settings
    NEWS_IDLE,     // the line has ended
    NEWS_SNAPSHOT, // data: struct snapshot
    NEWS_PICTURE,  // data: struct preview
    NEWS_JOBS,     // data: struct jobs_news
    NEWS_FILES,    // data: struct list_view, files of the palette or a picker
    NEWS_CAPTURE,  // data: struct capture, owned by the waiting thread
    NEWS_OPEN,   // text: the picker to open, "tour", "last", or "begin" (the start list, unless the
                 // user has typed already)
    NEWS_DRAFT,  // data: struct draft, an earlier unsent line
    NEWS_MAP,    // event: a map that the screen requested
    NEWS_NO_MAP, // text: why the requested map cannot be computed; NULL: another line was queued
    NEWS_PAINTED, // a picture is ready for the terminal
    NEWS_LEAVE,   // the worker has ended
};

struct news {
    enum news_kind kind;
    struct event event;
    char *text;
    void *data;
    void (*release)(void *data); // NULL: data is borrowed
    void **owned;                // memory that `event` points to
    size_t owned_count;
    struct news *next;
};

struct news_queue;

struct news_queue *news_queue_new(void);
void news_queue_free(struct news_queue *q);
struct sink news_sink(struct news_queue *q);
struct sink news_map_sink(struct news_queue *q); // posts only maps, as NEWS_MAP
// Copies text; takes ownership of data, which `release` frees.
void news_post(struct news_queue *q, enum news_kind kind, const char *text, void *data,
               void (*release)(void *data));
int news_fd(const struct news_queue *q);      // readable while news is queued
struct news *news_next(struct news_queue *q); // NULL: none
void news_free(struct news *n);

#endif
