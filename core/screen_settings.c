// core/screen_settings.c -- settings of the full screen. The core keeps them for it and never
// reads them.
#include "core/settings_list.h"

static const char *const themes[] = { "default", "light", "contrast", NULL };
static const char *const ramps[] = { "viridis", "cividis", "grey", NULL };
static const char *const layouts[] = { "auto", "chat", "workbench", "maps", NULL };

const struct setting screen_settings[] = {
    { "screen.theme", SETTING_CHOICE, 0, 0, "default", NULL, themes, STALE_NOTHING,
      "Colours of the full screen." },
    { "screen.map", SETTING_CHOICE, 0, 0, "viridis", NULL, ramps, STALE_NOTHING,
      "Colours of heat maps; cividis looks the same to colour-blind eyes." },
    { "screen.layout", SETTING_CHOICE, 0, 0, "auto", NULL, layouts, STALE_NOTHING,
      "Panels of the full screen; auto is the workbench where 100 columns are." },
    { "screen.mouse", SETTING_FLAG, 0, 0, "on", NULL, NULL, STALE_NOTHING,
      "The full screen takes mouse clicks; off leaves them to the terminal (selecting text)." },
    { 0 },
};
