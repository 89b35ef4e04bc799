// tui/layout.h -- the positions of panels.
//
//   struct placed_panel placed[PANEL_COUNT];
//   int n = layout_place(layout, focus, PANEL_NONE, area, placed);
//
// A layout is a tree of splits. A panel that would be smaller than its minimum size gives its cells
// to its neighbour. A focused panel without a place covers the right half; on screens of fewer than
// 90 columns, or if it needs 60 columns or more, it covers everything.
#ifndef TUI_LAYOUT_H
#define TUI_LAYOUT_H

#include "tui/panel.h"

struct placed_panel {
    int panel; // PANEL_...
    struct area area;
    bool over; // covers the others
};

extern const char *const layout_names[];               // NULL at the end
int screen_layout_find(const char *name, int columns); // "auto" depends on the width
// Places the panels and returns their number. hidden: a panel that is shown only while it has the
// focus; PANEL_NONE: none.
int layout_place(int layout, int focus, int hidden, struct area area,
                 struct placed_panel placed[PANEL_COUNT]);

#endif
