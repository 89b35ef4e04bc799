// core/probes/probe.c -- the list of probes.
#include "core/probes/probe.h"

static const struct probe *const *list; // NULL-terminated

void probes_hand_over(const struct probe *const *all)
{
    list = all;
    for (const struct probe *p; (p = *all); all++) {
        const char *lacks = !p->start                   ? "start"
                            : !p->release               ? "release"
                            : !p->finish                ? "finish"
                            : !p->take && !p->run       ? "take or run"
                            : !p->sites[0] && !p->wants ? "sites or wants"
                                                        : NULL;
        if (lacks) BUG("probe %s has no %s (core/probes/probe.h)", p->name, lacks);
    }
}

const struct probe *probe_at(int index)
{
    for (int i = 0; i < index; i++)
        if (!list[i]) return NULL;
    return index >= 0 ? list[index] : NULL;
}
