// tui/panel.c -- the table of panels.
#include "tui/panel.h"

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
