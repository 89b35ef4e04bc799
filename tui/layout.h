// tui/layout.h -- the positions of panels.
//
//   struct placed_panel placed[PANEL_COUNT];
//   int n = layout_place(layout, focus, PANEL_NONE, area, placed);
//
// A layout is a tree of splits. A panel that would be smaller than its minimum size gives its cells
// to its neighbour; if such a panel has the focus, it covers the right half, or all of a small
// screen.
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
// hidden: a panel that is shown only while it has the focus; PANEL_NONE: none.
int layout_place(int layout, int focus, int hidden, struct area area,
                 struct placed_panel placed[PANEL_COUNT]);

#endif
