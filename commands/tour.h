// commands/tour.h -- the steps of /tour.
#ifndef COMMANDS_TOUR_H
#define COMMANDS_TOUR_H

#include <stdbool.h>

struct tour_step {
    // The line to run. PICTURE: the demo picture; FOLDER: the start of a temporary path.
    const char *line;
    const char *text; // explains the step
};

// Returns a step of the tour for models with a vision encoder (has_vision) or of the tour for
// text-only models; NULL past the end.
const struct tour_step *tour_step(bool has_vision, int index);
int tour_count(bool has_vision);
// Returns the step's line with its paths; free() it.
char *tour_line(bool has_vision, int index);

#endif
