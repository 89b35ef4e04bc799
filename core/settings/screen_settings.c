// core/settings/screen_settings.c -- settings of the full screen. The core keeps them for it and
// reads those of the live map alone (core/probes/live.c).
#include "core/settings/settings.h"

static const char *const themes[] = { "default", "light", "contrast", NULL };
static const char *const ramps[] = { "viridis", "cividis", "grey", NULL };
static const char *const layouts[] = { "auto", "chat", "workbench", "maps", "compare", NULL };

static const char *const word_auto[] = { "auto", NULL };
static const char *const word_mean[] = { "mean", NULL };

const struct setting screen_settings[] = {
    { "screen.theme", SETTING_CHOICE, 0, 0, "default", NULL, themes, STALE_NOTHING,
      "Colours of the full screen." },
    { "screen.map", SETTING_CHOICE, 0, 0, "viridis", NULL, ramps, STALE_NOTHING,
      "Colours of heat maps; cividis looks the same to colour-blind eyes." },
    { "screen.layout", SETTING_CHOICE, 0, 0, "auto", NULL, layouts, STALE_NOTHING,
      "Panels of the full screen; auto is the workbench where 100 columns are." },
    { "screen.mouse", SETTING_FLAG, 0, 0, "on", NULL, NULL, STALE_NOTHING,
      "The full screen takes mouse clicks; off leaves them to the terminal (selecting text)." },
    { "screen.live", SETTING_FLAG, 0, 0, "on", NULL, NULL, STALE_NOTHING,
      "While an answer comes, a map shows where its newest token looks." },
    { "screen.live_layer", SETTING_INTEGER, 0, 1000, "auto", NULL, word_auto, STALE_NOTHING,
      "Layer of that map; auto is the middle one." },
    { "screen.live_head", SETTING_INTEGER, 0, 1000, "mean", NULL, word_mean, STALE_NOTHING,
      "Attention head of that map; mean of all, or one." },
    { 0 },
};
