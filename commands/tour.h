// commands/tour.h -- the steps of /tour.
#ifndef COMMANDS_TOUR_H
#define COMMANDS_TOUR_H

#include <stdbool.h>

struct tour_step {
    const char *line; // what runs; PICTURE is the demo picture, FOLDER a temporary folder
    const char *text; // explains it in a sentence
};

// sees: of a model that sees pictures; others have steps of their own. NULL past the end.
const struct tour_step *tour_step(bool sees, int index);
int tour_count(bool sees);
// The step's line with its paths. free() it.
char *tour_line(bool sees, int index);

#endif
