// tui/screen_parts.h -- what the files of the full screen share: screen.c (start, loop, end),
// screen_keys.c (keys and mouse), screen_draw.c (a frame).
#ifndef TUI_SCREEN_PARTS_H
#define TUI_SCREEN_PARTS_H

#include <pthread.h>
#include <stdatomic.h>

#include "tui/layout.h"
#include "tui/prompt.h"
#include "tui/screen.h"
#include "tui/terminal.h"
#include "tui/typed.h"
#include "tui/watcher.h"
#include "tui/worker.h"

struct screen {
    struct news_queue *queue;
    struct worker *worker;
    struct watcher *watcher;
    struct terminal *terminal;
    struct prompt *prompt;
    struct typed typed;
    struct keys *keys;
    struct shell *shell; // of the worker: only its static parts are looked at here
    struct shell look;   // ours, for completion and pickers: a store of its own
    struct view *view;
    struct canvas canvas;
    struct key_reader reader;
    int layout; // -1: that of the setting
    int before; // the layout, when a comparison took its place
    int focus;  // PANEL_...; PANEL_NONE: the input line
    bool dirty, leave, ended;
    int status;              // when it ends
    atomic_int text_columns; // of the conversation, as drawn last
    bool stopping;           // what runs was asked to stop
    double interrupted;      // when Ctrl-C came last and another one leaves; 0: not
    double drawn;            // when the last frame was
    double key_at;           // when bytes came last
    // The draft as the database has it, or soon will; the one it was of a shell that is gone; when
    // it is looked at again (0: not).
    struct draft_owner owner;
    char *stored, *stored_session;
    int64_t taken;
    double draft_at;
};

// Somebody waits for a drawing (/screen).
struct capture {
    pthread_mutex_t mutex;
    pthread_cond_t wake;
    int lines, columns; // 0: as the screen is
    struct buf text;
    bool done;
};

// screen_draw.c
void screen_draw(struct screen *s, struct canvas *c);
void screen_show(struct screen *s);
struct area screen_panels_area(const struct screen *s, const struct canvas *c);
int screen_layout(const struct screen *s, int columns);
const char *screen_context(const struct screen *s);

// screen_draft.c
void screen_draft_typed(struct screen *s); // it may have changed
void screen_draft_keep(struct screen *s);  // soon, by the watcher
void screen_draft_last(struct screen *s);  // now; nothing is typed any more

// screen_keys.c
void screen_key(struct screen *s, struct key *key);
void screen_bytes(struct screen *s, bool flush);
void screen_submit(struct screen *s, const char *text);
void screen_stop(struct screen *s); // Ctrl-C
void screen_suspend(struct screen *s);
bool screen_action_known(const char *action);

#endif
