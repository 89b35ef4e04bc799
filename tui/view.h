// tui/view.h -- what the screen shows: everything the panels draw, made from news alone.
//
//   view_take(v, news);                  // one piece of news
//   panel->draw(v, &canvas, area, true);
//
// The screen's thread owns it. A panel computes nothing but where on the screen things are.
#ifndef TUI_VIEW_H
#define TUI_VIEW_H

#include "sessions/jobs.h"
#include "tui/canvas.h"
#include "tui/keys.h"
#include "tui/screen_events.h"
#include "tui/snapshot.h"

// --- the conversation ----------------------------------------------------------------------------

enum entry_kind {
    ENTRY_USER,
    ENTRY_ANSWER,
    ENTRY_COMMAND,
    ENTRY_TEXT,
    ENTRY_TABLE, // lines made for the width: not wrapped
    ENTRY_NOTICE,
    ENTRY_MEASURES,
    ENTRY_ERROR,
    ENTRY_RULE, // the conversation begins anew
};

struct entry {
    enum entry_kind kind;
    struct buf text;
    size_t *tokens; // ENTRY_ANSWER: where each token's text begins
    size_t token_count;
    bool undone;
    int width, lines; // wrapped at this width: how many lines; width 0: not counted
    // ENTRY_TABLE: what the text is made of, and how; NULL: it is as it is.
    void *source;
    char *(*render)(const void *source, int width);
    void (*forget)(void *source);
    int headings; // lines of ENTRY_TABLE that are
};

struct chat_view {
    struct entry *entries;
    size_t count;
    int answering;            // entry that tokens are added to; -1: none
    int scroll;               // lines from the end; 0: follows
    int width, height, total; // as drawn last
    int pan;
    bool searching; // letters go to the search text
    struct buf search;
    int found; // line from the beginning, -1
};

// --- pictures and maps ---------------------------------------------------------------------------

struct map {
    char *name;
    int picture, layer, head, token, rows, cols;
    float min, max;
    float *values;    // NaN: nothing is there
    uint8_t *dropped; // NULL: pruning dropped nothing
    char *tile;       // NULL: all of the picture
    double area[4];   // left, top, right, bottom of what it covers, in shares of the picture
};

enum { MAPS_MAX = 4096 };

struct image_view {
    struct preview **pictures;
    size_t picture_count;
    size_t picture; // shown
    struct map *maps;
    size_t map_count;
    int map; // shown; -1: the newest
    bool hidden, smooth;
};

// --- two answers beside each other ---------------------------------------------------------------

struct compare_view {
    char *title[2], *text[2];       // NULL: nothing has been compared
    size_t common;                  // bytes that both begin with
    size_t *starts[2], tokens[2];   // where each token begins
    struct image_view maps, coming; // of the tokens; of a comparison that has not ended
    int token;                      // shown
    bool fresh;                     // it came and was not looked at
};

// --- settings, tables, jobs ----------------------------------------------------------------------

struct settings_view {
    int selected, top;
    bool editing, changed_only;
    struct buf edit;
    int height;
};

// A table as it was told, numbers read.
struct series {
    char *name;
    char **columns;
    int column_count, row_count;
    double *values; // [rows, columns]; NaN: no number
};

struct dynamics_view {
    struct series *series, *ghosts; // [count], the ghost of the same name; name NULL: none
    size_t count, shown;
    bool no_ghost, fresh; // fresh: no table of this line has come yet
};

struct jobs_news {
    struct job_row *rows;
    size_t count;
    int64_t curve_job;
    char *curve_name;
    struct curve curve;
};
void jobs_news_free(void *news);

struct jobs_view {
    struct jobs_news *news;
    size_t selected;
};

// --- lists to choose from ------------------------------------------------------------------------

struct item {
    char *label, *note, *value;
};

enum { PICKER_KINDS = 5 };

enum list_kind { LIST_NONE, LIST_PALETTE, LIST_PICKER, LIST_HELP };

struct list_view {
    enum list_kind kind;
    char *title, *what; // what: of a picker
    char *folder;
    struct item *items;
    size_t count;
    size_t *shown; // indices of those that match, the best first
    size_t shown_count, selected, top;
    struct buf filter;
    int height;
    struct preview *preview; // of the selected picture
};

// --- all of it -----------------------------------------------------------------------------------

struct view {
    struct snapshot *snapshot; // NULL until the first
    struct settings *settings; // with changes told since
    struct chat_view chat;
    struct image_view image;
    struct compare_view compare;
    struct settings_view set;
    struct dynamics_view dynamics;
    struct jobs_view jobs;
    struct list_view list;
    char *folders[PICKER_KINDS]; // where a picker was last; NULL: it was not opened yet
    // Of the status line.
    bool busy, answering;
    char *line;                // that runs
    int waiting;               // lines
    double asked, first, last; // times of the answer under way; 0: not yet
    size_t tokens;
    double rate, first_s; // of the last answer
    bool loading;
    double progress;
    char *progress_what;
    bool stale; // a changed setting: computed again with the next answer
    bool expect_message;
    int64_t prompt_tokens;
    char *hint; // one line, until the next key
    // What a panel wants done.
    char *run;     // line
    char *preview; // file to be looked at
    char *copy;    // text for the clipboard
    char *insert;  // text for the input line
    bool close;
};

struct view *view_new(void);
void view_free(struct view *v);
// True when something changed on the screen.
bool view_take(struct view *v, const struct news *n);
struct entry *view_add(struct view *v, enum entry_kind kind, const char *text);
void view_hint(struct view *v, const char *format, ...) __attribute__((format(printf, 2, 3)));
void view_run(struct view *v, const char *format, ...) __attribute__((format(printf, 2, 3)));
const char *view_setting(const struct view *v, const char *key);
// The map to show over picture `image.picture`; NULL: none.
const struct map *view_map(const struct view *v);

void chat_release(struct chat_view *c);
void image_view_release(struct image_view *i);
void image_take_map(struct image_view *i, const struct event_heatmap *h);
void image_take_picture(struct image_view *i, struct preview *p);
void image_clear(struct image_view *i);
void image_forget(struct image_view *i, const char *name); // maps of that name
void dynamics_take(struct dynamics_view *d, const struct event_table *t);
void dynamics_release(struct dynamics_view *d);
void list_release(struct list_view *l);
// A picture alone, as large as fits (panel_image.c).
void picture_draw(const struct image *picture, struct canvas *c, struct area area);
// A map over the picture it belongs to, if that is shown, with its scale below.
void map_draw(const struct view *v, const struct image_view *maps, const struct map *m,
              struct canvas *c, struct area area);
void compare_take(struct compare_view *k, const struct event_columns *c);
void compare_release(struct compare_view *k);
int compare_parting(const struct compare_view *k); // the token at which the answers part
const struct map *compare_map(const struct view *v, int side); // of the token shown; NULL: none
// Gives the bytes begin..end of a text another style, where its line w is drawn.
struct wrap;
void mark_bytes(struct canvas *c, struct area line, const char *text, const struct wrap *w,
                size_t begin, size_t end, enum style style);

#endif
