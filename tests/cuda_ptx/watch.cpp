// tests/cuda_ptx/watch.cpp -- records accesses to shared and global memory in units of four bytes,
// and reports findings (ptx.h has the list).
//
// In shared memory, narrower accesses count as four bytes. In global memory, each record has a mask
// of bytes, but if two blocks write different bytes of one unit, it does not record which wrote
// which.
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <algorithm>
#include <set>

#include "ptx.h"

namespace ptx
{
namespace
{

enum { UNIT = 4, GPUS_MOST = 8 };
constexpr uint32_t SEVERAL = 0xffffffff;

// --- shared memory -------------------------------------------------------------------------------

// touch.who: a thread's number; or A_WARP plus a warp's number, for several lanes of one warp; or
// WARPS, for several warps; or A_COPY plus an mbarrier's number, for a bulk copy.
enum : uint16_t { A_WARP = 0x8000, A_COPY = 0x4000, WARPS = 0xffff };

// The last access: who made it, at which instruction, and when: the number of block barriers and
// begun blocks in all launches so far, and the warp's counts of instructions since the last
// barrier.
struct touch {
    uint32_t barrier, pc;
    uint16_t who, syncs, collectives;
    bool pending;  // a write by a cp.async for which its thread has not waited, or by a bulk copy
                   // whose phase is not complete
    uint32_t time; // warp.time, of several lanes the latest; of a bulk copy, the phase
};

struct unit {
    touch write, read;
    bool is_mbarrier; // since `write`
};

std::vector<unit> units;
uint32_t barrier = 1, block_began = 1;

// Reads of data from a bulk copy by warps other than that of unit.read, in this block.
std::map<const unit *, std::vector<touch>> &readers =
    *new std::map<const unit *, std::vector<touch>>();

bool is_copy(uint16_t who)
{
    return who & A_COPY && who != WARPS;
}

unsigned warp_of(uint16_t who)
{
    return who & A_WARP ? who & ~A_WARP : who / LANES;
}

// What separates an earlier access from the current one by `who` of warp w: a barrier or program
// order, a shuffle or product, or nothing.
enum between { ORDER, COLLECTIVE, NOTHING };

// True if mbarriers order the current access of a lane after all accesses in `before`.
bool is_after(const touch &before, const warp &w, unsigned lane, bool fenced)
{
    if (!running.code->mbarriers || before.who == WARPS) return false;
    if (is_copy(before.who)) return copy_precedes(w, lane, before.who & ~A_COPY, before.time);
    if (!(before.who & A_WARP)) return precedes(w, lane, before.who, before.time, fenced);
    bool all = true;
    for (unsigned t = warp_of(before.who) * LANES, l = 0; l < LANES; l++)
        all = all && ((!fenced && t + l == w.number * LANES + lane) ||
                      precedes(w, lane, t + l, before.time, fenced));
    return all;
}

between separation(const touch &before, const warp &w, unsigned lane, uint16_t who)
{
    if (before.barrier < block_began) return ORDER;
    if (is_copy(before.who)) return is_after(before, w, lane, false) ? ORDER : NOTHING;
    if (is_after(before, w, lane, false)) return ORDER;
    if (before.barrier != barrier) return ORDER;
    if (before.who == who && !(who & A_WARP)) return ORDER;
    if (before.who == WARPS || warp_of(before.who) != w.number) return NOTHING;
    if (before.syncs != w.syncs) return ORDER;
    return before.collectives != w.collectives ? COLLECTIVE : NOTHING;
}

std::string named(uint16_t who)
{
    if (who == WARPS) return "several warps";
    if (is_copy(who)) return "a bulk copy";
    return (who & A_WARP ? "lanes of warp " : "thread ") + std::to_string(who & ~A_WARP);
}

void check_order(warp &w, unsigned lane, const touch &before, uint16_t who, const char *what,
                 uint64_t address)
{
    const between is = separation(before, w, lane, who);
    if (is == ORDER) return;
    const origin &other = running.code->origins[before.pc];
    found(w, lane, is == COLLECTIVE ? "a race across a shuffle or product" : "a race",
          "%s shared memory at %#lx, which %s accessed with no barrier since: line %u, %s: %s",
          what, (unsigned long)address, named(before.who).c_str(), other.line, other.source.c_str(),
          other.text.c_str());
}

void record_read(warp &w, unsigned lane, uint16_t who, unit *u)
{
    touch *const t = &u->read;
    uint32_t time = w.time[lane];
    const bool same = t->barrier == barrier;
    if (same && t->who != who && warp_of(t->who) == w.number && t->who != WARPS) {
        who = (uint16_t)(A_WARP | w.number);
        time = std::max(time, t->time);
    } else if (same && t->who != who && is_copy(u->write.who)) {
        readers[u].push_back(*t);
        who = (uint16_t)(A_WARP | w.number); // it may have read before
    } else if (same && t->who != who) {
        who = WARPS;
    }
    *t = { barrier, w.now, who, w.syncs, w.collectives, false, time };
}

// The most common read: of data written before the last barrier.
bool plain_read(warp &w, unsigned lane, uint16_t who, unit *u)
{
    if (u->write.barrier >= barrier || u->write.barrier < block_began || u->write.pending ||
        is_copy(u->write.who))
        return false;
    if (u->read.barrier != barrier || u->read.who != WARPS) record_read(w, lane, who, u);
    return true;
}

void touch_unit(warp &w, unsigned lane, uint16_t who, unit *u, uint64_t address, bool writes)
{
    if (!writes && plain_read(w, lane, who, u)) return;
    const bool held = u->write.pending && u->write.barrier >= block_began;
    if (held && u->is_mbarrier)
        found(w, lane, "an mbarrier", "the one at %#lx is accessed as data",
              (unsigned long)(address & ~7ull));
    else if (held)
        found(w, lane, "a pending copy", "shared memory at %#lx is accessed before it has arrived",
              (unsigned long)address);
    check_order(w, lane, u->write, who, writes ? "writes" : "reads", address);
    if (writes) {
        check_order(w, lane, u->read, who, "writes", address);
        u->is_mbarrier = false;
        u->write = { barrier, w.now, who, w.syncs, w.collectives, false, w.time[lane] };
        return;
    }
    if (u->write.barrier < block_began)
        found(w, lane, "uninitialized shared memory", "at %#lx", (unsigned long)address);
    record_read(w, lane, who, u);
}

alignas(16) uint8_t spare[16];

bool unaligned(uint64_t address, unsigned bytes) // a power of two
{
    return address & (bytes - 1);
}

uint8_t *touch_shared(warp &w, unsigned lane, uint16_t who, uint64_t address, unsigned bytes,
                      bool writes)
{
    const uint64_t at = address - SHARED_BASE;
    if (address < SHARED_BASE || at + bytes > running.shared.size() || unaligned(address, bytes)) {
        found(w, lane, "shared memory", "%u bytes at %#lx: %s", bytes, (unsigned long)address,
              unaligned(address, bytes) ? "not aligned" : "outside");
        return spare;
    }
    const uint64_t from = at / UNIT, to = (at + bytes - 1) / UNIT;
    for (uint64_t n = from; n <= to; n++)
        touch_unit(w, lane, who, &units[n], n * UNIT + SHARED_BASE, writes);
    return running.shared.data() + at;
}

uint16_t thread_of(const warp &w, unsigned lane)
{
    return (uint16_t)(w.number * LANES + lane);
}

// --- global memory -------------------------------------------------------------------------------

// The launches and blocks that last accessed a unit, and masks of the bytes that the launch
// accessed.
struct cell {
    uint32_t write_launch, write_block, read_launch, read_block;
    uint8_t written, read;
};

struct range {
    const char *begin, *end;
};

// Work that may still be running if the next kernel starts early: launches from number `first` on,
// and products of cuBLASLt, which write `ranges`.
struct unfinished {
    uint32_t first;
    std::vector<range> ranges;
};

std::vector<cuda_host_region> regions;
unfinished unfinished_work[GPUS_MOST];
uint32_t launches;
int gpu;

std::vector<cuda_host_region> &variables = *new std::vector<cuda_host_region>();

cuda_host_region *region_of(uint64_t address, unsigned bytes)
{
    static size_t last;
    const auto holds = [&](const cuda_host_region &r) {
        const uint64_t begin = (uint64_t)(uintptr_t)r.begin;
        return address >= begin && address + bytes <= begin + r.size;
    };
    if (last < regions.size() && holds(regions[last])) return &regions[last];
    for (size_t n = 0; n < regions.size(); n++)
        if (holds(regions[n])) return &regions[last = n];
    return nullptr;
}

cell *cell_of(cuda_host_region *r, uint64_t address)
{
    if (!*r->notes) *r->notes = calloc(r->size / UNIT + 2, sizeof(cell));
    return (cell *)*r->notes + (address - (uint64_t)(uintptr_t)r->begin) / UNIT;
}

// Checks an access of a lane that has not waited, in a kernel that started early.
void check_early(warp &w, unsigned lane, uint64_t address, const cell &c, access how)
{
    const unfinished &work = unfinished_work[gpu];
    if (how == WRITE)
        found(w, lane, "an early start", "it writes at %#lx before griddepcontrol.wait",
              (unsigned long)address);
    bool theirs = c.write_launch && c.write_launch >= work.first &&
                  c.write_launch % GPUS_MOST == (unsigned)gpu && c.write_launch < running.number;
    for (const range &r : work.ranges)
        theirs = theirs || ((const char *)(uintptr_t)address >= r.begin &&
                            (const char *)(uintptr_t)address < r.end);
    if (theirs && how != WRITE)
        found(w, lane, "an early start",
              "it reads at %#lx, before griddepcontrol.wait, memory that "
              "unfinished work writes",
              (unsigned long)address);
}

// How much of the sequence fence, atomic, fence a block has executed. After fence and atomic it has
// released its writes to other blocks; after atomic and fence it has acquired theirs.
struct order {
    bool fenced, counted, released, acquired;
};
std::vector<order> orders; // by the block's number

bool is_ordered_after(uint32_t from)
{
    return from < orders.size() && orders[from].released && orders[running.block_number].acquired;
}

void check_blocks(warp &w, unsigned lane, uint64_t address, const cell &c, unsigned mask,
                  access how)
{
    const uint32_t now = running.number, block = running.block_number;
    if (c.write_launch == now && c.written & mask &&
        (how == READ_CONSTANT || (c.write_block != block && !is_ordered_after(c.write_block))))
        found(w, lane, "a race between blocks in global memory", "%s at %#lx, which block %d wrote",
              how == WRITE ? "writes" : "reads", (unsigned long)address, (int)c.write_block);
    if (how == WRITE && c.read_launch == now && c.read & mask && c.read_block != block)
        found(w, lane, "a race between blocks in global memory",
              "writes at %#lx, which block %d read", (unsigned long)address, (int)c.read_block);
}

void record_access(uint32_t *launch, uint32_t *block, uint8_t *bytes, unsigned mask, uint32_t by)
{
    if (*launch != running.number) {
        *launch = running.number, *block = by, *bytes = (uint8_t)mask;
        return;
    }
    *bytes = (uint8_t)(*bytes | mask);
    if (*block != by) *block = SEVERAL;
}

void touch_cell(warp &w, unsigned lane, uint64_t address, cell *c, unsigned mask, access how)
{
    if (!(w.waited >> lane & 1)) check_early(w, lane, address, *c, how);
    if (how == WRITE || c->write_launch == running.number)
        check_blocks(w, lane, address, *c, mask, how);
    if (how == WRITE)
        orders[running.block_number].fenced = orders[running.block_number].released = false;
    // SEVERAL: not even this block may write memory that is read as constant.
    const uint32_t by = how == READ_CONSTANT ? SEVERAL : running.block_number;
    if (how == WRITE)
        record_access(&c->write_launch, &c->write_block, &c->written, mask, by);
    else
        record_access(&c->read_launch, &c->read_block, &c->read, mask, by);
}
} // namespace

uint8_t *global(warp &w, unsigned lane, uint64_t address, unsigned bytes, access how)
{
    static const char *const open = getenv("CUDA_HOST_OPEN"); // tests may pass host memory too
    cuda_host_region *const r = region_of(address, bytes);
    if (!r && open && *open == '1' && !unaligned(address, bytes))
        return (uint8_t *)(uintptr_t)address;
    if (!r || unaligned(address, bytes)) {
        found(w, lane, "global memory", "%u bytes at %#lx: %s", bytes, (unsigned long)address,
              r ? "not aligned" : "in no allocation");
        return spare;
    }
    cell *const c = cell_of(r, address);
    if (bytes < UNIT) touch_cell(w, lane, address, c, ((1u << bytes) - 1) << address % UNIT, how);
    for (unsigned n = 0; n < bytes / UNIT; n++) touch_cell(w, lane, address, c + n, 15, how);
    return (uint8_t *)(uintptr_t)address;
}

uint8_t *atomic(warp &w, unsigned lane, uint64_t address, unsigned bytes)
{
    cuda_host_region *const r = region_of(address, bytes);
    if (!r || unaligned(address, bytes)) return global(w, lane, address, bytes, WRITE);
    if (!(w.waited >> lane & 1)) check_early(w, lane, address, *cell_of(r, address), WRITE);
    order &o = orders[running.block_number];
    o.released = o.fenced;
    o.counted = true;
    return (uint8_t *)(uintptr_t)address;
}

void watch_variable(uint8_t *memory, size_t size)
{
    variables.push_back({ (char *)memory, size, new void *() });
}

void watch_fence(void)
{
    order &o = orders[running.block_number];
    o.fenced = true;
    o.acquired = o.counted;
}

void prefetched(warp &w, unsigned lane, uint64_t address, uint32_t bytes)
{
    if (!region_of(address, bytes) || address % 16 || bytes % 16)
        found(w, lane, "global memory", "%u bytes at %#lx are fetched: %s", bytes,
              (unsigned long)address,
              region_of(address, bytes) ? "not aligned" : "in no allocation");
}

uint8_t *shared(warp &w, unsigned lane, uint64_t address, unsigned bytes, access how)
{
    return touch_shared(w, lane, thread_of(w, lane), address, bytes, how == WRITE);
}

uint8_t *shared_by_all(warp &w, unsigned lane, uint64_t address, unsigned bytes)
{
    return touch_shared(w, lane, (uint16_t)(A_WARP | w.number), address, bytes, false);
}

// A copy may write at any time until its thread has waited for it.
void copy_begins(warp &w, unsigned lane, uint32_t to, unsigned bytes)
{
    if (touch_shared(w, lane, thread_of(w, lane), to, bytes, true) == spare) return;
    for (unsigned n = 0; n < bytes / UNIT; n++)
        units[(to - SHARED_BASE) / UNIT + n].write.pending = true;
}

uint8_t *copy_ends(warp &w, unsigned lane, uint32_t to, unsigned bytes)
{
    const uint64_t at = to - SHARED_BASE;
    if (at + bytes > running.shared.size()) return spare;
    for (unsigned n = 0; n < bytes / UNIT; n++) units[at / UNIT + n].write.pending = false;
    return touch_shared(w, lane, thread_of(w, lane), to, bytes, true);
}

// --- mbarriers and bulk copies -------------------------------------------------------------------

bool barrier_begins(warp &w, unsigned lane, uint32_t address)
{
    if (touch_shared(w, lane, thread_of(w, lane), address, 8, true) == spare) return false;
    for (unsigned n = 0; n < 8 / UNIT; n++) {
        unit &u = units[(address - SHARED_BASE) / UNIT + n];
        u.is_mbarrier = u.write.pending = true;
    }
    return true;
}

void barrier_used(warp &w, unsigned lane, uint32_t address)
{
    check_order(w, lane, units[(address - SHARED_BASE) / UNIT].write, thread_of(w, lane),
                "uses the mbarrier in", address);
}

// The memory is then uninitialized.
void barrier_ends(warp &w, unsigned lane, uint32_t address)
{
    for (unsigned n = 0; n < 8 / UNIT; n++) units[(address - SHARED_BASE) / UNIT + n] = {};
}

namespace
{
void check_overwritten(warp &w, unsigned lane, const unit &u, uint64_t address)
{
    const uint16_t me = thread_of(w, lane);
    const touch &was = u.write;
    const bool now = was.barrier >= block_began;
    if (now && was.pending)
        found(w, lane, "a bulk copy", "overwrites shared memory at %#lx, %s",
              (unsigned long)address,
              u.is_mbarrier ? "which is an mbarrier" : "which another copy will write");
    else if (now && separation(was, w, lane, me) != ORDER)
        found(w, lane, "a bulk copy", "overwrites shared memory at %#lx, which %s may write later",
              (unsigned long)address, named(was.who).c_str());
    else if (now && !is_copy(was.who) && !is_after(was, w, lane, true))
        found(w, lane, "a bulk copy",
              "overwrites shared memory at %#lx, which %s wrote with no fence.proxy.async since",
              (unsigned long)address, named(was.who).c_str());
    std::vector<touch> all = { u.read };
    const auto others = readers.find(&u);
    if (others != readers.end())
        all.insert(all.end(), others->second.begin(), others->second.end());
    for (const touch &t : all)
        if (t.barrier >= block_began && separation(t, w, lane, me) != ORDER)
            found(w, lane, "a bulk copy",
                  "overwrites shared memory at %#lx, which %s may still read",
                  (unsigned long)address, named(t.who).c_str());
}
} // namespace

bool bulk_begins(warp &w, unsigned lane, uint32_t to, unsigned bytes, uint16_t index,
                 uint32_t phase)
{
    const uint64_t at = to - SHARED_BASE;
    if (to < SHARED_BASE || at + bytes > running.shared.size()) {
        found(w, lane, "a bulk copy", "%u bytes to %#x: outside of shared memory", bytes, to);
        return false;
    }
    for (uint64_t n = at / UNIT; n < (at + bytes) / UNIT; n++) {
        check_overwritten(w, lane, units[n], n * UNIT + SHARED_BASE);
        readers.erase(&units[n]);
        const uint16_t who = (uint16_t)(A_COPY | index);
        units[n] = { { barrier, w.now, who, w.syncs, w.collectives, true, phase }, {}, false };
    }
    return true;
}

uint8_t *bulk_ends(uint32_t to, unsigned bytes)
{
    const uint64_t at = to - SHARED_BASE;
    if (at + bytes > running.shared.size()) return nullptr;
    for (uint64_t n = at / UNIT; n < (at + bytes) / UNIT; n++) units[n].write.pending = false;
    return running.shared.data() + at;
}

// --- launches, blocks, barriers ------------------------------------------------------------------

void watch_launch(bool early)
{
    cudaGetDevice(&gpu);
    regions = cuda_host_regions();
    regions.insert(regions.end(), variables.begin(), variables.end());
    running.number = ++launches * GPUS_MOST + (uint32_t)gpu;
    running.early = early;
    if (!early) unfinished_work[gpu] = { running.number, {} };
    orders.clear();
    units.resize(running.shared.size() / UNIT + 1);
}

void watch_block(void)
{
    block_began = ++barrier;
    readers.clear();
    orders.resize(running.block_number + 1);
}

void watch_barrier(void)
{
    barrier++;
}

// --- findings ------------------------------------------------------------------------------------

void stop(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, "cuda_ptx: ");
    vfprintf(stderr, format, arguments);
    fprintf(stderr, "\n");
    abort();
}

void found(warp &w, unsigned lane, const char *what, const char *format, ...)
{
    static std::set<std::pair<const origin *, std::string>> &reported =
        *new std::set<std::pair<const origin *, std::string>>();
    static const char *const go_on = getenv("CUDA_PTX_GO_ON");
    const origin &at = running.code->origins[w.now];
    if (!reported.insert({ &at, what }).second) return;
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, "cuda_ptx: %s: ", what);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fprintf(stderr, "\n    %s, block (%u, %u, %u), thread %u\n    %s:%u, %s: %s\n",
            running.code->name.c_str(), running.block_at.x, running.block_at.y, running.block_at.z,
            w.number * LANES + lane, running.code->from->path.c_str(), at.line, at.source.c_str(),
            at.text.c_str());
    if (!go_on) abort();
}

} // namespace ptx

void cuda_ptx_wrote(const void *begin, size_t size)
{
    if (!cuda_ptx_wanted()) return;
    using namespace ptx;
    int at;
    cudaGetDevice(&at);
    // The product itself began after all preceding work had ended.
    unfinished_work[at] = { (launches + 1) * GPUS_MOST,
                            { { (const char *)begin, (const char *)begin + size } } };
}

void cuda_ptx_waited(void)
{
    if (!cuda_ptx_wanted()) return;
    int at;
    cudaGetDevice(&at);
    ptx::unfinished_work[at] = { (ptx::launches + 1) * ptx::GPUS_MOST, {} };
}
