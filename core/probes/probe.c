// core/probes/probe.c -- the list of probes.
#include "core/probes/probe.h"

static const struct probe *const *list; // NULL-terminated

void probes_hand_over(const struct probe *const *all)
{
    list = all;
}

const struct probe *probe_at(int index)
{
    for (int i = 0; i < index; i++)
        if (!list[i]) return NULL;
    return index >= 0 ? list[index] : NULL;
}
