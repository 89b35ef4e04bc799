// tui/view.h -- the state of the screen: everything that panels draw, built only from the news
// queue (tui/screen_events.h).
//
//   view_take(v, news);                  // one struct news
//   panel->draw(v, &canvas, area, true);
//
// The screen's thread owns the view. Panels change only what they show (scroll offset, selection,
// shown map, input fields), the hint and the requests at the end of struct view.
#ifndef TUI_VIEW_H
#define TUI_VIEW_H

#include "sessions/jobs.h"
#include "tui/drawing.h"
#include "tui/flow.h"
#include "tui/keys.h"
#include "tui/markdown.h"
#include "tui/screen_events.h"
#include "tui/snapshot.h"
#include "tui/word_diff.h"

// --- the conversation ----------------------------------------------------------------------------

enum entry_kind {
    ENTRY_USER,
    ENTRY_REASONING, // of the answer in the next entry
    ENTRY_ANSWER,
    ENTRY_COMMAND,
    ENTRY_TEXT,
    ENTRY_TABLE, // preformatted lines, not wrapped
    ENTRY_NOTICE,
    ENTRY_MEASURES,
    ENTRY_ERROR,
    ENTRY_RULE, // the conversation was cleared
};

struct entry {
    enum entry_kind kind;
    struct buf text;
    size_t *tokens;           // of an answer or its reasoning: start of each token's text
    struct event_token *sure; // [token_count] how sure the model was of each token; NULL: unknown
    size_t token_count, token_capacity;
    size_t first_token;     // number of the first one in the whole answer
    bool open;              // ENTRY_REASONING: all lines are shown
    struct remark *remarks; // ENTRY_ANSWER: notices inside the answer
    size_t remark_count;
    struct markdown shown; // ENTRY_ANSWER: as drawn at `width`; folded ENTRY_REASONING: its line
    bool undone;           // a question without an answer, not part of the conversation
    int width, lines;      // number of lines when wrapped at this width; width 0: not counted
    // ENTRY_TABLE: the source from which `render` makes the text; NULL: fixed text.
    void *source;
    char *(*render)(const void *source, int width);
    void (*forget)(void *source);
    int headings;    // number of heading lines of ENTRY_TABLE
    int pan, widest; // columns scrolled sideways; width of the longest line drawn so far
};

struct chat_view {
    struct entry *entries;
    size_t count;
    int answering;            // entry that tokens are added to; -1: none
    int scroll;               // lines from the end; 0: follows new output
    int width, height, total; // as drawn last
    int wide;          // entry of the last table drawn that is wider than the panel; -1: none
    double tint_most;  // upper end of the scale of screen.tint, as drawn last; 0: no tint
    unsigned markdown; // options of tui/markdown.h, as drawn last
    bool searching;    // letters go to the search text
    struct buf search;
    int found; // line of the last match, from the beginning; -1: none
};

// --- pictures and maps ---------------------------------------------------------------------------

enum { MAPS_MAX = 16384 };

enum map_mode { MAP_OVER, MAP_BESIDE, MAP_ALONE, MAP_NONE, MAP_MODES };

// Small maps of heads in place of the picture: those of the current layer, or those of all layers,
// the ones with the most attention to the picture first.
enum map_grid { GRID_OFF, GRID_LAYER, GRID_ALL, GRIDS };

// Identifies a map of the last answer.
struct map_id {
    int kind, picture, layer, head, token; // head, token -1: mean, all
};

struct image_view {
    struct preview **pictures;
    size_t picture_count;
    size_t picture; // index of the shown picture
    struct map *maps;
    size_t map_count;
    int map; // index of the chosen map; -1: the newest
    enum map_mode mode;
    bool smooth;
    struct area map_area;        // cells of the map as drawn last
    struct area strip;           // of the small maps of layers as drawn last; height 0: none
    int strip_first, strip_wide; // first layer drawn; columns of a layer
    struct map_id filled;        // maps of all layers or heads that were requested last
    enum map_grid filled_grid;
    bool filled_once;
    enum map_grid grid;
    struct area tiles;                        // of the grid as drawn last; height 0: none
    int tiles_first, tiles_across;            // first map drawn, counted from 0; maps of a line
    int tile_width, tile_height, tiles_count; // with label and gap; number of all maps
    bool corrected;                           // leaves attention sinks out of the map
    bool sinks_asked;                         // the sinks of this layer and picture were requested
    int sinks_layer, sinks_picture;
    // A cursor on the patch at this point, in fractions of the picture.
    bool pointing;
    double point_x, point_y;
    // The mouse pointer is over the map, at this point.
    bool hovering;
    double hover_x, hover_y;
    struct map_id outdated; // the map that was shown when a setting changed: measured again
    bool renews;
    struct map_id requested;
    bool requesting; // the requested map is being computed
    // Attention of tokens to a box on the picture, in maps with the kind, picture, layer and head
    // of `box_map`.
    bool boxed; // a box is selected
    struct map_id box_map;
    double box[4];
    float *attention; // by token, in the map's unit; below 0: not known yet
    size_t attention_count;
    float attention_max;  // maximum of `attention`
    int press_x, press_y; // cell where the mouse button was pressed; -1: none
    bool commanding;      // the input line holds a command, into which a box goes
    char dragged[96];     // the name of the positions in a box, for the input line; "": none
    bool playing;
    double play_at; // time of the next token
};

// --- two answers side by side --------------------------------------------------------------------

struct compare_view {
    char *title[2], *text[2];       // NULL: no comparison yet
    size_t common;                  // length of the common prefix in bytes
    struct word_diff differs;       // the words that the other answer does not share
    size_t *starts[2], tokens[2];   // start of each token
    struct image_view maps, coming; // maps of the tokens; maps of a comparison in progress
    int token;                      // number of the shown token
    bool fresh;                     // not viewed yet
};

// A flip: a question that one side of a comparison answers better.
struct changed_view {
    char *which, *name, *title[2], *question, *reference, *answer[2]; // which NULL: none yet
    double score[2];
    bool better[2];
    int64_t number, count; // number: from 1
    struct previews *pictures;
    size_t picture;    // index of the shown picture
    int top;           // first visible line of the texts
    int lines, height; // of all texts; of the panel; both as last drawn
    int asked;         // index of the `which` requested last
    bool fresh;        // not viewed yet
};

// --- settings, tables, jobs ----------------------------------------------------------------------

struct settings_view {
    const struct setting **rows; // [count] in the order in which they are listed
    int count;
    int selected, top;
    bool editing, changed_only, filtering; // filtering: letters go to the filter
    struct buf edit, filter;
    int height;
};

// A table with its numbers parsed.
struct series {
    char *name;
    char **columns;
    int column_count, row_count;
    double *values; // [rows, columns]; NaN: not a number
};

enum { RUNS = 4 }; // tables of one name that are kept

struct dynamics_view {
    struct series (*series)[RUNS]; // [count] the newest first; name NULL: no such run yet
    size_t count, shown;
    bool fresh;       // no table of the running command line has arrived yet
    int runs;         // number of earlier runs to draw
    int unit;         // which of the table's units is drawn
    bool zoomed;      // the range leaves out outliers
    bool pointed;     // a cursor is set
    double cursor;    // its position on the x axis
    struct area area; // of the curves as drawn last
    double min_x, max_x;
};

enum { JOBS_MARKED = 3 };

// The jobs whose curves the screen shows (tui/watcher.h).
struct jobs_wanted {
    int64_t job;                 // its curves and results; 0: the latest job's
    int64_t marked[JOBS_MARKED]; // only their losses; 0: none
};

struct job_curve {
    int64_t job;
    char *name; // of the series: "loss", "validation_loss"
    struct curve curve;
};

struct jobs_news {
    struct job_row *rows;
    size_t count;
    double *memory;           // [count] bytes of the job's process on this machine; 0: unknown
    int64_t job;              // whose curves and results follow; 0: none
    struct job_curve *curves; // of `job`, then the losses of marked jobs
    size_t curve_count;
    struct job_result *results;
    size_t result_count;
};
void jobs_news_free(void *news);

struct jobs_view {
    struct jobs_news *news;
    size_t *shown; // [shown_count] indices of the rows that match the filter
    size_t shown_count;
    size_t selected, top; // in `shown`
    int height;           // rows drawn last
    bool filtering;       // letters go to the filter
    struct buf filter;
    int first;                 // number of the first group of curves that is drawn
    struct jobs_wanted wanted; // the selected job, and marked ones
};

// --- lists to choose from ------------------------------------------------------------------------

enum item_kind {
    ITEM_OTHER,
    ITEM_COMMAND,
    ITEM_SETTING,
    ITEM_LINE, // an earlier line; this kind and the following score less than commands and settings
    ITEM_OBJECT, // a session, job, model or file; its value is a line to run
    ITEM_DEEPER, // a file in a folder of the picker's folder: shown only if the typed letters find
                 // it
};

struct item {
    char *label, *note, *value;
    const char *also, *alias; // search terms and short name; NULL: none
    enum item_kind kind;
    char *about; // description in the palette; NULL: made from the tables of commands and settings
};

enum { PICKER_KINDS = 6 };

enum list_kind { LIST_NONE, LIST_PALETTE, LIST_PICKER, LIST_HELP, LIST_START };

struct list_view {
    enum list_kind kind;
    char *title, *what; // what: name of a picker's kind ("image"); start_request
    char *folder;
    struct item *items;
    size_t count;
    size_t *shown; // indices of matches, the best first
    size_t shown_count, selected, top;
    struct buf filter;
    int width, height;       // of the rows drawn last
    struct preview *preview; // of the selected picture
    unsigned request;        // number of the request for its files; 0: none
    bool awaits_files;       // the files, or more of them, are still being listed
    bool files_cut;          // not all files were listed
    bool chooses;            // Enter was pressed too early: chooses the first file that matches
};

// A request for the files of a list (list_files), which another thread lists: a folder may block.
struct list_request {
    unsigned number;
    char *what, *folder; // of the list; what NULL: the palette's files
};

// --- a page to read ------------------------------------------------------------------------------

struct pager_part {
    char *text;
    struct table_copy *table; // a text or a table
};

struct pager {
    bool open, collecting; // collecting: the page's command is still running
    char *title;
    struct pager_part *parts;
    size_t count;
    struct flow shown; // the parts wrapped at `width`; width 0: not wrapped yet
    int width, height, top;
    bool typing, backwards; // a pattern is being typed; the last search went upwards
    struct buf typed, pattern;
    int found; // line of the last match; -1: none
};

// --- the view ------------------------------------------------------------------------------------

struct view {
    struct snapshot *snapshot; // NULL until the first one arrives
    struct settings *settings; // of the snapshot, with changes reported since
    struct settings *answered; // of the last answer, at its end; NULL: no answer yet
    struct chat_view chat;
    struct image_view image;
    struct compare_view compare;
    struct changed_view changed;
    struct settings_view set;
    struct dynamics_view dynamics;
    struct jobs_view jobs;
    struct list_view list;
    struct pager pager;
    char *folders[PICKER_KINDS]; // last folder of each picker; NULL: not opened yet
    unsigned list_requests;      // number of the last request for the files of a list
    // For the status line:
    bool busy, answering;
    bool attached;             // a picture was attached, and no entry has been added since
    bool by_key;               // a panel's key submitted the running line
    bool reported;             // the running line has put a message into the hint
    int keys_waiting;          // number of queued lines that panels' keys submitted
    char *line;                // the running line
    int waiting;               // number of queued lines
    double asked, first, last; // times of the running answer; 0: not yet
    size_t tokens;
    double rate, first_s; // of the last answer
    double drafts;        // share of that answer's drafts that were accepted; -1: no drafts
    bool loading;
    double progress;
    double progress_left; // seconds; NaN: unknown
    char *progress_what;
    bool stale;          // a setting changed, so the next answer recomputes the prompt
    bool expect_message; // the running line is expected to become a message
    int tour;            // the offered step, from 1; 0: none
    int64_t prompt_tokens;
    char *hint;     // shown above the status line until the next key
    char *key_line; // the line that does what the last key did; NULL: none yet
    // Requests of a panel.
    char *run;       // line to run
    bool run_key;    // the line belongs to a panel's key: its messages go to the hint
    char *quiet;     // line to run in the background for its maps
    char *preview;   // file to preview
    char *copy;      // text for the clipboard
    char press[32];  // a key to act on as if it had been pressed; "": none
    char *insert;    // text for the input line
    bool list_files; // the files of the open list
    bool close;      // leaves the layout that shows a comparison
};

struct view *view_new(void);
void view_free(struct view *v);
// Returns whether something changed on the screen.
bool view_take(struct view *v, const struct news *n);
struct entry *view_add(struct view *v, enum entry_kind kind, const char *text);
// Shows the line that does what the pressed key does, and keeps it for /last. Messages of its run
// follow it.
void view_key_line(struct view *v, const char *line);
void view_hint(struct view *v, const char *format, ...) __attribute__((format(printf, 2, 3)));
// Requests that a line be run. key: the line belongs to a panel's key, so its messages go to the
// hint.
void view_run(struct view *v, bool key, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
// Requests "/set KEY VALUE" with the value after the current one, as if a panel's key had submitted
// it.
void view_run_next(struct view *v, const char *key, const char *const *values);
const char *view_setting(const struct view *v, const char *key);
const struct preview *view_picture(const struct view *v); // the shown one; NULL: none
// Returns the chosen map if it fits the shown picture, else the newest map that does; NULL: no map
// fits, or maps are off.
const struct map *view_map(const struct view *v);

void image_view_release(struct image_view *i);
// Returns whether the event is a newer version of the map.
bool map_is(const struct map *m, const struct event_heatmap *h);
// Adds a map; replaces an older version of it, or the oldest map if there are MAPS_MAX.
void image_take_map(struct image_view *i, const struct event_heatmap *h);
void image_take_picture(struct image_view *i, struct preview *p);
// Drops the maps for which `drops` is true; NULL: all.
void image_drop_maps(struct image_view *i, bool (*drops)(const struct map *m));
void image_clear(struct image_view *i);
void dynamics_take(struct dynamics_view *d, const struct event_table *t);
void dynamics_release(struct dynamics_view *d);
void item_release(struct item *item);
void list_release(struct list_view *l);
// Draws a picture without a map, as large as possible (panel_image.c).
void picture_draw(const struct preview *p, struct canvas *c, struct area area);
// Draws a map, over its picture if the mode says so, with its scale below.
void map_draw(const struct view *v, const struct image_view *maps, const struct map *m,
              struct canvas *c, struct area area);
void compare_take(struct compare_view *k, const struct event_columns *c);
void compare_release(struct compare_view *k);
int compare_first_difference(const struct compare_view *k); // index of the first token that differs
const struct map *compare_map(const struct view *v, int side); // NULL: none for the shown token
void changed_take(struct changed_view *k, const struct event_changed *e, struct previews *pictures);
void changed_release(struct changed_view *k);
// Changes the style of the bytes begin..end of a text in line w of the text.
struct wrap;
void mark_bytes(struct canvas *c, struct area line, const char *text, const struct wrap *w,
                size_t begin, size_t end, enum style style);

#endif
