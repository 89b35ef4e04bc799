// commands/figure.h -- figures that commands write: checked before the work, reported after it.
#ifndef COMMANDS_FIGURE_H
#define COMMANDS_FIGURE_H

#include "commands/command.h"
#include "core/probes/results.h"

// Says once that the machine has no fonts, or not that of plot.font.
void figure_check_font(const struct shell *shell);
// "loss written to 'loss.pdf'", and figure_check_font.
void figure_written(const struct shell *shell, const char *what, const char *path);
// The maps and curves of a measurement: the first to `path`, the others beside it.
// maps: those of r with their pictures.
int figure_results(const struct shell *shell, const char *path, const struct results *r,
                   const struct event_heatmap *maps, struct err *err);

#endif
