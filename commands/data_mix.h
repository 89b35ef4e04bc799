// commands/data_mix.h -- the half of /data that writes: /data mix.
#ifndef COMMANDS_DATA_MIX_H
#define COMMANDS_DATA_MIX_H

#include "commands/command.h"

// The words after "mix".
int data_mix(struct shell *shell, int argc, char **argv, struct err *err);

#endif
