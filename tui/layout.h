// tui/layout.h -- which panels stand where.
//
//   struct placed placed[PANEL_COUNT];
//   int n = layout_place(screen_layout_find("workbench"), focus, area, placed);
//
// A layout is a tree of halves. A panel that would be smaller than its least size leaves its place
// to its neighbour; one that has the keys but no place is put over the right half, or over all of a
// small screen.
#ifndef TUI_LAYOUT_H
#define TUI_LAYOUT_H

#include "tui/panel.h"

struct placed {
    int panel; // PANEL_...
    struct area area;
    bool over; // lies over the others
};

extern const char *const layout_names[];               // NULL at the end
int screen_layout_find(const char *name, int columns); // "auto" fits the width
int layout_place(int layout, int focus, struct area area, struct placed placed[PANEL_COUNT]);

#endif
