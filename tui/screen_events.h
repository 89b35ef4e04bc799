// tui/screen_events.h -- the news queue: from worker threads to the one that draws.
//
//   struct news_queue *q = news_queue_new();
//   sinks_add(sinks, news_sink(q));                  // events, copied
//   news_post(q, NEWS_BUSY, "/load tiny", NULL, NULL);
//   ... in the loop, when news_fd(q) is readable:
//   while ((n = news_next(q))) { ... n->event ... news_free(n); }
//
// Any thread may post; one takes. A map's area is in fractions of the picture. An event is copied
// with everything it points to, except for messages: of those the text (event.text), the role
// (event.id) and the number of pictures (event.count); and pictures: of EVENT_CHANGED's, previews
// (data: struct previews).
#ifndef TUI_SCREEN_EVENTS_H
#define TUI_SCREEN_EVENTS_H

#include "core/base/event.h"

enum news_kind {
    NEWS_EVENT,
    NEWS_BUSY,     // text: the line that runs now
    NEWS_BUSY_KEY, // text: the same, of a panel's key
    NEWS_KEY_DONE, // such a line ran between two tokens; data: struct settings, as they are now
    NEWS_IDLE,     // it has ended
    NEWS_SNAPSHOT, // data: struct snapshot
    NEWS_PICTURE,  // data: struct preview
    NEWS_JOBS,     // data: struct jobs_news
    NEWS_CAPTURE,  // data: struct capture, owned by the waiting thread
    NEWS_OPEN,     // text: which picker
    NEWS_DRAFT,    // data: struct draft, an earlier unsent one
    NEWS_MAP,      // event: a map that a step asked for
    NEWS_NO_MAP,   // text: why it cannot be computed
    NEWS_PAINTED,  // a picture is ready for the terminal
    NEWS_LEAVE,    // nothing is running any more
};

struct news {
    enum news_kind kind;
    struct event event;
    char *text;
    void *data;
    void (*release)(void *data); // NULL: data is borrowed
    void **owned;                // what event points to
    size_t owned_count;
    struct news *next;
};

struct news_queue;

struct news_queue *news_queue_new(void);
void news_queue_free(struct news_queue *q);
struct sink news_sink(struct news_queue *q);
struct sink news_map_sink(struct news_queue *q); // maps alone, as NEWS_MAP
// Copies text; takes data with its release function.
void news_post(struct news_queue *q, enum news_kind kind, const char *text, void *data,
               void (*release)(void *data));
int news_fd(const struct news_queue *q);      // readable when there is news
struct news *news_next(struct news_queue *q); // NULL: none
void news_free(struct news *n);

#endif
