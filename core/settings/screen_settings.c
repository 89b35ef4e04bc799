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
      .help = "Colour theme of the full screen.", .also = "dark light colours colors" },
    { "screen.map", SETTING_CHOICE, 0, 0, "viridis", NULL, ramps, STALE_NOTHING,
      .help = "Colours of heat maps; cividis suits colour-blind readers.",
      .also = "heatmap colours colors colormap" },
    { "screen.graphics", SETTING_CHOICE, 0, 0, "auto", NULL, graphics, STALE_NOTHING,
      .help = "How the terminal draws pictures and maps: its own graphics (kitty, iTerm2, sixel), "
              "which auto finds, or characters.",
      .also = "sixel kitty iterm images" },
    { "screen.layout", SETTING_CHOICE, 0, 0, "auto", NULL, layouts, STALE_NOTHING,
      .help = "Panels of the full screen; auto is workbench from 100 columns on, otherwise chat.",
      .also = "panels view" },
    { "screen.mouse", SETTING_FLAG, 0, 0, "on", NULL, NULL, STALE_NOTHING,
      .help = "Mouse support; off leaves the mouse to the terminal, for selecting text.",
      .also = "click select" },
    { "screen.markdown", SETTING_FLAG, 0, 0, "on", NULL, NULL, STALE_NOTHING,
      .help = "Renders Markdown in answers: headings, bold, lists, code, tables. Copies are always "
              "raw.",
      .also = "bold tables formatting" },
    { "screen.live", SETTING_FLAG, 0, 0, "on", NULL, NULL, STALE_NOTHING,
      .help = "Shows where the newest token attends while an answer is generated.",
      .also = "heatmap attention" },
    { "screen.live_layer", SETTING_INTEGER, 0, 1000, "auto", NULL, word_auto, STALE_NOTHING,
      .help = "Layer of the live attention map; auto is the middle layer." },
    { "screen.live_head", SETTING_INTEGER, 0, 1000, "mean", NULL, word_mean, STALE_NOTHING,
      .help = "Attention head of the live map, or the mean of all heads." },
    { 0 },
};
