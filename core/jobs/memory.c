// core/jobs/memory.c -- names of the parts, and figures from /proc.
#include "core/jobs/memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/file_in.h"
#include "kernels/backend.h"

const char *memory_part_name(int part)
{
    static const char *const names[MEMORY_PARTS] = {
        [MEMORY_MAPPED] = "mapped weights",   [MEMORY_HOST] = "on the host",
        [MEMORY_WEIGHTS] = "copied weights",  [MEMORY_MASTERS] = "f32 masters",
        [MEMORY_GRADIENTS] = "gradients",     [MEMORY_OPTIMIZER] = "optimizer",
        [MEMORY_ACTIVATIONS] = "activations", [MEMORY_WORKSPACE] = "workspace",
        [MEMORY_PICTURES] = "pictures",       [MEMORY_PROGRAM] = "program",
    };
    return names[part];
}

uint64_t memory_own(const struct memory_parts *p)
{
    uint64_t sum = 0;
    for (int i = MEMORY_WEIGHTS; i < MEMORY_PARTS; i++) sum += p->of[i];
    return sum;
}

uint64_t memory_now(void)
{
    uint64_t kb = 0;
    return file_number("/proc/self/status", "RssAnon:", &kb) ? kb * 1024 : 0;
}

uint64_t memory_peak(void)
{
    uint64_t kb = 0;
    return file_number("/proc/self/status", "VmHWM:", &kb) ? kb * 1024 : 0;
}

void memory_record_peak(const struct backend *b, uint64_t *peak)
{
    size_t most = 0;
    if (b->memory) b->memory->held(&most);
    const uint64_t now = b->memory ? most : memory_now();
    if (now > *peak) *peak = now;
}

uint64_t memory_free(const struct backend *b)
{
    uint64_t kb, most, used;
    if (b && b->own_memory && b->memory) {
        const int before = backend_enter(b, -1);
        uint64_t sum = 0;
        for (int gpu = 0; gpu < backend_gpus(b); gpu++) {
            size_t unused, total;
            backend_enter(b, gpu);
            b->memory->sizes(&unused, &total);
            sum += unused;
        }
        backend_enter(b, before);
        return sum;
    }
    if (!file_number("/proc/meminfo", "MemAvailable:", &kb)) return 0;
    uint64_t available = kb * 1024;
    // memory.max is "max", not a number, if there is no limit.
    if (file_number("/sys/fs/cgroup/memory.max", "", &most) &&
        file_number("/sys/fs/cgroup/memory.current", "", &used)) {
        const uint64_t left = most > used ? most - used : 0;
        if (left < available) available = left;
    }
    return available;
}
