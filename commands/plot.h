// commands/plot.h -- shared by plot.c (/plot of job metrics) and plot_table.c (/plot of the columns
// of a CSV file).
#ifndef COMMANDS_PLOT_H
#define COMMANDS_PLOT_H

#include "commands/command.h"
#include "core/draw/plot.h"

enum { PLOT_WORDS = 64, PLOT_HEIGHT = 18 };

struct plot_options {
    const char *words[PLOT_WORDS];
    size_t word_count;
    const char *csv, *figure, *title, *by, *y, *interval;
    const char *where[PLOT_WORDS]; // COLUMN=VALUE
    size_t where_count;
    int smooth;
    bool points, log_x, log_y, mean;
};

// Plots columns of a CSV file; the words are FILE.csv X Y...
int plot_table(struct shell *shell, const struct plot_options *o, struct err *err);
// Draws to the file o->figure, or as text if it is NULL. If there are too many lines, the error
// advises using `otherwise`.
int plot_show(struct shell *shell, const struct plot_options *o, const struct plot_axes *axes,
              const struct plot_line *lines, size_t count, const char *otherwise, struct err *err);

#endif
