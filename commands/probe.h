// commands/probe.h -- the commands of probes, for the table of commands.
#ifndef COMMANDS_PROBE_H
#define COMMANDS_PROBE_H

#include "commands/command.h"
#include "core/probes/probe.h"

// The usage and help come from the probe's own file.
struct command probe_command(const struct probe *probe);

#endif
