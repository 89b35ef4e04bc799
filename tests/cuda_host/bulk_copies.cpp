// tests/cuda_host/bulk_copies.cpp -- mbarriers, and the copies that complete at them.
#include "bulk_copies.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <map>
#include <vector>

#include "work.h"

namespace
{

struct copy {
    void *to;
    const void *from;
    unsigned bytes;
};

struct mbarrier {
    unsigned count, pending; // arrivals of a phase: all, and those missing
    unsigned phase;          // phases that have ended
    long expected, copied;   // bytes of the current phase: announced, requested
    std::vector<copy> copies;
};

std::map<uint64_t *, mbarrier> &barriers = *new std::map<uint64_t *, mbarrier>();
unsigned block; // in which they were initialised

[[noreturn]] void stop(const char *format, ...) __attribute__((format(printf, 1, 2)));
void stop(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, "a bulk copy: ");
    vfprintf(stderr, format, arguments);
    fprintf(stderr, "\n");
    abort();
}

void begin_block(void)
{
    if (block != cuda_host_block()) barriers.clear();
    block = cuda_host_block();
}

mbarrier &at(uint64_t *b)
{
    begin_block();
    const auto found = barriers.find(b);
    if (found == barriers.end()) stop("its mbarrier %p is not initialised", (void *)b);
    return found->second;
}

// Ends the current phase if all threads have arrived and all copies have been requested.
void advance(mbarrier &b)
{
    if (b.pending) return;
    if (b.copied > b.expected)
        stop("%ld bytes arrive at an mbarrier that expects %ld", b.copied, b.expected);
    if (b.copied < b.expected) return;
    for (const copy &c : b.copies) memcpy(c.to, c.from, c.bytes);
    b.copies.clear();
    b.expected = b.copied = 0;
    b.pending = b.count;
    b.phase++;
}

struct waiting {
    mbarrier *at;
    unsigned phase;
};

bool has_ended(void *what)
{
    const waiting *const w = static_cast<const waiting *>(what);
    advance(*w->at);
    return (w->at->phase & 1) != (w->phase & 1);
}

void report(void *what)
{
    const mbarrier &b = *static_cast<const waiting *>(what)->at;
    fprintf(stderr, "a thread waits at an mbarrier: %u of %u arrivals, %ld of %ld expected bytes\n",
            b.count - b.pending, b.count, b.copied, b.expected);
}
} // namespace

void bulk_barrier_init(uint64_t *b, unsigned count)
{
    begin_block();
    if (barriers.count(b)) stop("the mbarrier %p is initialised again", (void *)b);
    barriers[b] = { count, count, 0, 0, 0, {} };
}

void bulk_arrive(uint64_t *b)
{
    bulk_expect(b, 0);
}

void bulk_expect(uint64_t *b, unsigned bytes)
{
    mbarrier &m = at(b);
    advance(m);
    if (!m.pending) stop("more than %u arrivals in a phase of its mbarrier", m.count);
    m.expected += bytes;
    m.pending--;
}

void bulk_copy(void *to, const void *from, unsigned bytes, uint64_t *b)
{
    mbarrier &m = at(b);
    if ((uintptr_t)to % 16 || (uintptr_t)from % 16 || bytes % 16 || !bytes)
        stop("%u bytes from %p to %p: addresses and size are not multiples of 16", bytes, from, to);
    advance(m);
    m.copied += bytes;
    cuda_host_bulk_copies++;
    m.copies.push_back({ to, from, bytes });
}

void bulk_wait(uint64_t *b, unsigned phase)
{
    waiting w = { &at(b), phase };
    if (!has_ended(&w)) cuda_host_wait(has_ended, report, &w);
}
