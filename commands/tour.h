// commands/tour.h -- the steps of /tour, which the full screen offers one after the other.
#ifndef COMMANDS_TOUR_H
#define COMMANDS_TOUR_H

struct tour_step {
    const char *line; // what runs; PICTURE is the demo picture, FOLDER a temporary folder
    const char *says; // what it shows, in a sentence
};

const struct tour_step *tour_step(int index); // NULL past the end
int tour_count(void);
// The step's line with its paths. free() it.
char *tour_line(int index);

#endif
