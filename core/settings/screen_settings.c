// core/settings/screen_settings.c -- settings of the full screen. The core keeps them for it and
// reads those of the live map alone (core/probes/live.c).
#include "core/settings/settings.h"

static const char *const themes[] = { "default", "light", "contrast", NULL };
static const char *const ramps[] = { "viridis", "cividis", "grey", NULL };
static const char *const graphics[] = { "auto",      "kitty",  "iterm", "sixel", "sextants",
                                        "quadrants", "blocks", "ascii", NULL };
static const char *const layouts[] = { "auto",    "chat",    "workbench", "maps",
                                       "compare", "changed", NULL };

static const char *const word_auto[] = { "auto", NULL };
static const char *const word_mean[] = { "mean", NULL };

const struct setting screen_settings[] = {
    { "screen.theme", SETTING_CHOICE, 0, 0, "default", NULL, themes, STALE_NOTHING,
      "Colour theme of the full screen." },
    { "screen.map", SETTING_CHOICE, 0, 0, "viridis", NULL, ramps, STALE_NOTHING,
      "Colours of heat maps; cividis suits colour-blind readers." },
    { "screen.graphics", SETTING_CHOICE, 0, 0, "auto", NULL, graphics, STALE_NOTHING,
      "How the terminal draws pictures and maps: its own graphics (kitty, iTerm2, sixel), which "
      "auto "
      "finds, or characters." },
    { "screen.layout", SETTING_CHOICE, 0, 0, "auto", NULL, layouts, STALE_NOTHING,
      "Panels of the full screen; auto is workbench from 100 columns on, otherwise chat." },
    { "screen.mouse", SETTING_FLAG, 0, 0, "on", NULL, NULL, STALE_NOTHING,
      "Mouse support; off leaves the mouse to the terminal, for selecting text." },
    { "screen.markdown", SETTING_FLAG, 0, 0, "on", NULL, NULL, STALE_NOTHING,
      "Renders Markdown in answers: headings, bold, lists, code, tables. Copies are always raw." },
    { "screen.live", SETTING_FLAG, 0, 0, "on", NULL, NULL, STALE_NOTHING,
      "Shows where the newest token attends while an answer is generated." },
    { "screen.live_layer", SETTING_INTEGER, 0, 1000, "auto", NULL, word_auto, STALE_NOTHING,
      "Layer of the live attention map; auto is the middle layer." },
    { "screen.live_head", SETTING_INTEGER, 0, 1000, "mean", NULL, word_mean, STALE_NOTHING,
      "Attention head of the live map, or the mean of all heads." },
    { 0 },
};
