// commands/figure.h -- figures that commands write.
#ifndef COMMANDS_FIGURE_H
#define COMMANDS_FIGURE_H

#include "commands/command.h"
#include "core/probes/results.h"

// Emits a notice if the machine has no fonts (once), or lacks plot.font (again only after plot.font
// has changed).
void figure_check_font(const struct shell *shell);
// Reports "loss written to 'loss.pdf'" and calls figure_check_font.
void figure_written(const struct shell *shell, const char *what, const char *path);
// Draws the maps, curves and points of a measurement: the first figure to `path`, the others to
// files beside it. If there is nothing to draw, emits a notice and writes no file. `maps`: the maps
// of r, with their pictures.
int figure_results(const struct shell *shell, const char *path, const struct results *r,
                   const struct event_heatmap *maps, struct err *err);

#endif
