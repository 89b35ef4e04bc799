// core/probes/list.h -- the measurements: core/probes/NAME.c defines
// `const struct probe probe_NAME`; its command follows (commands/probe.c).
#ifndef CORE_PROBES_LIST_H
#define CORE_PROBES_LIST_H

#include "core/probes/probe.h"

#define PROBES(X)   \
    X(norms)        \
    X(redundancy)   \
    X(similarity)   \
    X(attention)    \
    X(contribution) \
    X(sinks)        \
    X(curvature)    \
    X(sink_ratio)   \
    X(kl)           \
    X(dice)         \
    X(flops)

#define X(name) extern const struct probe probe_##name;
PROBES(X)
#undef X

#endif
