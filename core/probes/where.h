// core/probes/where.h -- finds the positions of the conversation that names select. Not a command:
// its table "where" has a row for each position.
#ifndef CORE_PROBES_WHERE_H
#define CORE_PROBES_WHERE_H

#include "core/probes/probe.h"

extern const struct probe probe_where;

#endif
