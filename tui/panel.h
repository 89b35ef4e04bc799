// tui/panel.h -- the interface of panels: each is one file, one constant struct and one line in
// panel_list.h.
//
// To add a panel NAME: write tui/panel_NAME.c with `const struct panel panel_NAME`, add X(NAME) to
// panel_list.h, its keys to tui/keys.c under the context NAME, and its position to tui/layout.c.
#ifndef TUI_PANEL_H
#define TUI_PANEL_H

#include "tui/view.h"

enum panel_result {
    PANEL_IGNORED = 0,
    PANEL_DONE = 1, // draw again
    PANEL_BACK = 2, // return the focus to the input line
};

struct panel {
    const char *name; // also the key context
    const char *title;
    int min_width, min_height; // including the frame
    void (*draw)(struct view *v, struct canvas *c, struct area area, bool focused);
    // Runs an action of the key table. Commands to run go into view->run.
    unsigned (*act)(struct view *v, const char *action);
    // Returns whether the panel accepts letters now; may be NULL.
    bool (*typing)(const struct view *v);
    void (*type)(struct view *v, const struct key *key);
    // Handles a mouse event at x, y of the panel's inner area (button: tui/keys.h); may be NULL.
    void (*click)(struct view *v, struct area area, int x, int y, int button);
};

// Notes that the mouse pointer is at a column and line of the screen; column -1: elsewhere. Returns
// whether the picture panel shows something else now (image_cursor.c).
bool image_hover(struct view *v, int column, int line);

enum panel_id {
#define X(name) PANEL_##name,
#include "tui/panel_list.h"
#undef X
    PANEL_COUNT,
    PANEL_NONE = -1
};

const struct panel *panel_at(int id);
int panel_find(const char *name); // PANEL_NONE

#endif
