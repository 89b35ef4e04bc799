// commands/film.h -- --film FILE.gif of the commands that measure maps by token.
#ifndef COMMANDS_FILM_H
#define COMMANDS_FILM_H

#include "commands/command.h"
#include "core/probes/measure_data.h"

int film_check(const char *path, struct err *err); // its name ends in .gif, and it can be written
// Measures the tokens of the last answer with these options, and writes the maps as a film.
int film_of_answer(const struct shell *shell, const struct measure_request *request,
                   const char *path, struct err *err);

#endif
