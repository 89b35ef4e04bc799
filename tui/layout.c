// tui/layout.c -- the panels and the layouts, as tables; docs/screens/ has sketches of the screen.
#include "tui/layout.h"

#include <stddef.h>
#include <string.h>

#define X(name) extern const struct panel panel_##name;
#include "tui/panel_list.h"
#undef X

static const struct panel *const panels[] = {
#define X(name) &panel_##name,
#include "tui/panel_list.h"
#undef X
};

const struct panel *panel_at(int id)
{
    return id >= 0 && id < PANEL_COUNT ? panels[id] : NULL;
}

int panel_find(const char *name)
{
    for (int i = 0; i < PANEL_COUNT; i++)
        if (!strcmp(panels[i]->name, name)) return i;
    return PANEL_NONE;
}

enum split { LEAF, BESIDE, BELOW };

// A node: a panel, or a split into two nodes.
struct node {
    enum split split;
    int panel;         // LEAF
    int share;         // of the first node, in percent
    int first, second; // indices in the same array
};

static const struct node chat[] = { { .split = LEAF, .panel = PANEL_chat } };

static const struct node workbench[] = {
    { BESIDE, 0, 58, 1, 2 },
    { LEAF, PANEL_chat, 0, 0, 0 },
    { BELOW, 0, 55, 3, 4 },
    { LEAF, PANEL_image, 0, 0, 0 },
    { BELOW, 0, 60, 5, 6 },
    { LEAF, PANEL_settings, 0, 0, 0 },
    { LEAF, PANEL_dynamics, 0, 0, 0 },
};

// From WIDE columns on: a larger picture.
enum { WIDE = 180 };
static const struct node wide_workbench[] = {
    { BESIDE, 0, 44, 1, 2 },
    { LEAF, PANEL_chat, 0, 0, 0 },
    { BELOW, 0, 66, 3, 4 },
    { LEAF, PANEL_image, 0, 0, 0 },
    { BESIDE, 0, 50, 5, 6 },
    { LEAF, PANEL_settings, 0, 0, 0 },
    { LEAF, PANEL_dynamics, 0, 0, 0 },
};

static const struct node maps[] = {
    { BESIDE, 0, 56, 1, 2 },
    { BELOW, 0, 68, 3, 4 },
    { BELOW, 0, 68, 5, 6 },
    { LEAF, PANEL_image, 0, 0, 0 },
    { LEAF, PANEL_dynamics, 0, 0, 0 },
    { LEAF, PANEL_chat, 0, 0, 0 },
    { LEAF, PANEL_jobs, 0, 0, 0 },
};

static const struct node compare[] = {
    { BELOW, 0, 66, 1, 2 },
    { LEAF, PANEL_compare, 0, 0, 0 },
    { LEAF, PANEL_chat, 0, 0, 0 },
};

static const struct node changed[] = {
    { BELOW, 0, 66, 1, 2 },
    { LEAF, PANEL_changed, 0, 0, 0 },
    { LEAF, PANEL_chat, 0, 0, 0 },
};

static const struct node *const layouts[] = { chat, workbench, maps, compare, changed };
const char *const layout_names[] = { "chat", "workbench", "maps", "compare", "changed", NULL };

int screen_layout_find(const char *name, int columns)
{
    for (int i = 0; layout_names[i]; i++)
        if (!strcmp(layout_names[i], name)) return i;
    return columns >= 100 ? 1 : 0;
}

static bool fits(const struct node *nodes, int index, struct area area, int hidden)
{
    const struct node *n = &nodes[index];
    if (n->split != LEAF)
        return fits(nodes, n->first, area, hidden) || fits(nodes, n->second, area, hidden);
    const struct panel *p = panel_at(n->panel);
    return n->panel != hidden && area.width >= p->min_width && area.height >= p->min_height;
}

static int place(const struct node *nodes, int index, struct area area, int hidden,
                 struct placed_panel *placed)
{
    const struct node *n = &nodes[index];
    if (n->split == LEAF) {
        *placed = (struct placed_panel){ n->panel, area, false };
        return 1;
    }
    struct area a = area, b = area;
    if (n->split == BESIDE) {
        a.width = area.width * n->share / 100;
        b.x += a.width;
        b.width -= a.width;
    } else {
        a.height = area.height * n->share / 100;
        b.y += a.height;
        b.height -= a.height;
    }
    if (!fits(nodes, n->second, b, hidden)) return place(nodes, n->first, area, hidden, placed);
    if (!fits(nodes, n->first, a, hidden)) return place(nodes, n->second, area, hidden, placed);
    const int count = place(nodes, n->first, a, hidden, placed);
    return count + place(nodes, n->second, b, hidden, placed + count);
}

int layout_place(int layout, int focus, int hidden, struct area area,
                 struct placed_panel placed[PANEL_COUNT])
{
    const bool wide = layouts[layout] == workbench && area.width >= WIDE;
    int count = place(wide ? wide_workbench : layouts[layout], 0, area, hidden, placed);
    for (int i = 0; i < count; i++)
        if (placed[i].panel == focus) return count;
    if (focus < 0 || focus >= PANEL_COUNT || count >= PANEL_COUNT) return count;
    struct area over = area;
    if (area.width >= 90 && panel_at(focus)->min_width < 60) {
        over.x += area.width / 2;
        over.width -= area.width / 2;
    }
    placed[count] = (struct placed_panel){ focus, over, true };
    return count + 1;
}
