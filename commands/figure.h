// commands/figure.h -- figures that commands write.
#ifndef COMMANDS_FIGURE_H
#define COMMANDS_FIGURE_H

#include "commands/command.h"
#include "core/probes/results.h"

// Emits a notice if the machine has no fonts or lacks plot.font, but not again for the same font.
void figure_check_font(const struct shell *shell);
// Reports "loss written to 'loss.pdf'" and calls figure_check_font.
void figure_written(const struct shell *shell, const char *what, const char *path);
// Draws the maps and curves of a measurement: the first figure to `path`, the others to files
// beside it. `maps`: the maps of r, with their pictures.
int figure_results(const struct shell *shell, const char *path, const struct results *r,
                   const struct event_heatmap *maps, struct err *err);

#endif
