// tui/scenes.h -- `vlmsh scenes N DIR [--seed S] [--size PIXELS] [--kind KIND]...`
#ifndef TUI_SCENES_H
#define TUI_SCENES_H

#include "core/err.h"

// argv: what follows the word. Returns an exit status; for 2 err says what is wrong.
int scenes_run(int argc, char **argv, struct err *err);

#endif
