// core/settings/screen_settings.c -- settings of the full screen. The core reads only screen.map
// (core/draw/figure.c), those of the live map (core/probes/live.c, core/engine/) and screen.tint
// (core/engine/).
#include "core/settings/settings.h"

static const char *const themes[] = { "default", "dark", "light", "terminal", "contrast", NULL };
static const char *const ramps[] = { "viridis", "cividis", "grey", NULL };
static const char *const graphics[] = { "auto",      "kitty",  "iterm", "sixel", "sextants",
                                        "quadrants", "blocks", "ascii", "words", NULL };
static const char *const layouts[] = { "auto",    "chat",    "workbench", "maps",
                                       "compare", "changed", NULL };

static const char *const reasonings[] = { "fold", "show", NULL };

static const char *const tints[] = { "off", "picture", "probability", "entropy", NULL };

static const char *const word_auto[] = { "auto", NULL };
static const char *const word_mean[] = { "mean", NULL };

const struct setting screen_settings[] = {
    { .key = "screen.theme",
      .type = SETTING_CHOICE,
      .def = "default",
      .choices = themes,
      .stale = STALE_NOTHING,
      .help = "Colour theme of the full screen: default fits the terminal's background, terminal "
              "uses the colours of its scheme, contrast draws on black.",
      .also = "dark light colours colors" },
    { .key = "screen.map",
      .type = SETTING_CHOICE,
      .def = "viridis",
      .choices = ramps,
      .stale = STALE_NOTHING,
      .help = "Colours of heat maps; cividis suits colour-blind readers.",
      .also = "heatmap colours colors colormap" },
    { .key = "screen.graphics",
      .type = SETTING_CHOICE,
      .def = "auto",
      .choices = graphics,
      .stale = STALE_NOTHING,
      .help =
          "How to draw pictures and maps: with a graphics protocol of the terminal (kitty, "
          "iterm, sixel) or with characters (sextants, quadrants, blocks, ascii); auto asks the "
          "terminal. With --plain, words describes them instead.",
      .also = "sixel kitty iterm images blind screen reader braille accessibility" },
    { .key = "screen.layout",
      .type = SETTING_CHOICE,
      .def = "auto",
      .choices = layouts,
      .stale = STALE_NOTHING,
      .help = "Panels of the full screen; auto is workbench from 100 columns on, otherwise chat.",
      .also = "panels view" },
    { .key = "screen.mouse",
      .type = SETTING_FLAG,
      .def = "on",
      .stale = STALE_NOTHING,
      .help = "Mouse support; off leaves the mouse to the terminal, for selecting text.",
      .also = "click select" },
    { .key = "screen.hover",
      .type = SETTING_FLAG,
      .def = "on",
      .stale = STALE_NOTHING,
      .help = "Shows the value of the patch under the mouse pointer while a map is on the screen.",
      .also = "mouse pointer tooltip" },
    { .key = "screen.markdown",
      .type = SETTING_FLAG,
      .def = "on",
      .stale = STALE_NOTHING,
      .help = "Renders Markdown in answers: headings, bold, lists, code, tables. Copied text is "
              "raw.",
      .also = "bold tables formatting" },
    { .key = "screen.reasoning",
      .type = SETTING_CHOICE,
      .def = "fold",
      .choices = reasonings,
      .stale = STALE_NOTHING,
      .help = "Reasoning before answers: fold shows one line that can be opened; show shows all of "
              "it (without the full screen: on standard error).",
      .also = "thinking think" },
    { .key = "screen.tint",
      .type = SETTING_CHOICE,
      .def = "off",
      .choices = tints,
      .stale = STALE_NOTHING,
      .help = "Tints the tokens of answers by their share from the picture (why.share), "
              "probability or entropy.",
      .also = "heatmap highlight confidence uncertainty attribution" },
    { .key = "screen.live",
      .type = SETTING_FLAG,
      .def = "on",
      .stale = STALE_NOTHING,
      .help = "Live attention map: shows where the newest token attends during an answer.",
      .also = "heatmap attention" },
    { .key = "screen.live_layer",
      .type = SETTING_INTEGER,
      .max = 1000,
      .def = "auto",
      .choices = word_auto,
      .stale = STALE_NOTHING,
      .help = "Layer of the live attention map; auto is the middle layer." },
    { .key = "screen.live_head",
      .type = SETTING_INTEGER,
      .max = 1000,
      .def = "mean",
      .choices = word_mean,
      .stale = STALE_NOTHING,
      .help = "Attention head of the live map, or the mean of all heads." },
    { 0 },
};
