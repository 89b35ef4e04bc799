// tui/screen_parts.h -- shared by the files of the full screen: screen.c (start, loop, end),
// screen_keys.c (keys and mouse), screen_draw.c (a frame), screen_draft.c (unsent text),
// screen_tour.c (/tour).
#ifndef TUI_SCREEN_PARTS_H
#define TUI_SCREEN_PARTS_H

#include <pthread.h>
#include <stdatomic.h>

#include "tui/layout.h"
#include "tui/painter.h"
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
    struct painter *painter;
    struct prompt *prompt;
    struct typed typed;
    struct keys *keys;
    struct shell *shell; // the worker's; the screen uses only its constant parts
    struct shell lookup; // a copy for completion and pickers, with a separate store
    struct view *view;
    struct canvas canvas;
    struct key_reader reader;
    int layout;       // -1: the one that screen.layout names
    int before;       // the layout before a comparison was shown
    char *remembered; // the layout that F7 chose last before this start, for screen.layout auto;
                      // NULL: none
    int focus;        // PANEL_...; PANEL_NONE: the input line
    bool dirty, leave, ended;
    bool used;               // a line was submitted
    int status;              // exit status
    atomic_int text_columns; // of the conversation, in the last frame
    bool stopping;           // the running command was asked to stop
    bool colours_explained;  // the notice on terminals with more colours was shown
    double interrupted;      // time of the last Ctrl-C, if a second one would quit; 0: none
    double drawn;            // time of the last frame
    double key_at;           // time of the last input bytes
    double acted;            // time of the last key, click or paste
    // The unsent text (draft): its owner; text and session as last stored; id of the crashed
    // shell's draft that it replaces; time of the next check (0: none).
    struct draft_owner owner;
    char *stored, *stored_session;
    int64_t taken;
    double draft_at;
};

// A request for the screen as text (/screen); the requesting thread waits.
struct capture {
    pthread_mutex_t mutex;
    pthread_cond_t wake;
    int lines, columns; // 0: the screen's own size
    struct buf text;
    bool done;
};

// screen_draw.c
void screen_draw(struct screen *s, struct canvas *c);
void screen_show(struct screen *s);
struct area screen_panels_area(const struct screen *s, const struct canvas *c);
int screen_layout(const struct screen *s, int columns);
// Returns the panel that has nothing to show with this model: the picture, for a text-only model
// without maps; PANEL_NONE: none.
int screen_hidden(const struct view *v);
const char *screen_context(const struct screen *s);
bool screen_covered(const struct screen *s); // whether an open list or page gets the keys

// screen_draft.c
void screen_draft_typed(struct screen *s); // schedules a check
void screen_draft_keep(struct screen *s);  // has the watcher store the draft
void screen_draft_last(struct screen *s);  // stores the draft at exit
void screen_draft_announce(struct screen *s, const struct draft *d); // reports a restored draft

// screen.c
void screen_remember(const char *layout);    // for later starts
void screen_forget_layout(struct screen *s); // applies screen.layout, in place of F7's choices

// screen_tour.c: the steps of /tour, one after the other in the input line
void screen_tour_offer(struct screen *s); // writes the current step into the input line
void screen_tour_ran(struct screen *s, const char *line); // advances if it has the step's command
bool screen_tour_end(struct screen *s);                   // false: no tour is running

// screen_keys.c
void screen_bytes(struct screen *s, bool flush);
void screen_apply(struct screen *s);                // serves requests of panels
bool screen_shows_compared(const struct screen *s); // whether the layout shows a comparison
void screen_submit(struct screen *s, const char *text);
void screen_stop(struct screen *s); // Ctrl-C
void screen_suspend(struct screen *s);
void screen_enter(struct screen *s); // returns to the full screen
bool screen_action_known(const char *action);

#endif
