// tests/cuda_ptx/barriers.cpp -- mbarrier objects and the bulk copies that complete at them
// (cp.async.bulk from global to shared memory), and which accesses they order.
//
// A copy runs as late as allowed: when a lane waits for its phase or the next phase begins. A lane
// that waits is suspended until its phase is complete; test_wait is treated like try_wait.
//
// Accesses are ordered by vector clocks: each thread has an entry for every thread and every
// mbarrier (for its copies), and an access whose time is below the entry happened before. An
// arrival passes a thread's clock to the mbarrier, a completed wait takes it over; bar.sync and
// bar.warp.sync join the clocks of their threads. A second clock holds what also preceded a proxy
// fence, which a copy needs to overwrite data that threads wrote.
#include <algorithm>

#include "ptx.h"

namespace ptx
{
namespace
{

enum { BARRIERS_MOST = 256, COUNT_MOST = (1 << 20) - 1 };

struct clock {
    std::vector<uint32_t> before, fenced;
    void join(const clock &other)
    {
        for (size_t n = 0; n < before.size(); n++) {
            before[n] = std::max(before[n], other.before[n]);
            fenced[n] = std::max(fenced[n], other.fenced[n]);
        }
    }
};

struct bulk {
    uint64_t from;
    uint32_t to, bytes;
    bool readable; // false after a finding
};

struct mbarrier {
    uint16_t index;           // in order of initialisation
    unsigned by;              // the thread that initialised it
    bool fenced;              // bulk copies may use it
    uint32_t count, pending;  // arrivals of a phase: all, and those missing
    uint32_t phase;           // completed phases
    int64_t expected, copied; // bytes of the current phase: of expect_tx, of copies
    std::vector<bulk> copies; // of the current phase
    clock arriving, done;     // of threads that arrived in this phase, and in completed ones
};

std::map<uint32_t, mbarrier> &barriers = *new std::map<uint32_t, mbarrier>(); // by address
std::vector<clock> &clocks = *new std::vector<clock>();                       // by thread
uint16_t initialised; // mbarriers of the block so far

clock new_clock(void)
{
    const size_t entries = running.warps.size() * LANES + BARRIERS_MOST;
    return { std::vector<uint32_t>(entries), std::vector<uint32_t>(entries) };
}

unsigned thread_of(const warp &w, unsigned lane)
{
    return w.number * LANES + lane;
}

// The thread's earlier accesses precede what follows whatever takes over its clock.
clock &release(warp &w, unsigned lane)
{
    clock &c = clocks[thread_of(w, lane)];
    c.before[thread_of(w, lane)] = ++w.time[lane];
    return c;
}

const char AN_MBARRIER[] = "an mbarrier", A_COPY[] = "a bulk copy";

// The initialised mbarrier at an address; NULL after a finding.
mbarrier *barrier_at(warp &w, unsigned lane, uint64_t address)
{
    const auto at = barriers.find((uint32_t)address);
    if (at == barriers.end()) {
        found(w, lane, AN_MBARRIER, "none is initialised at %#lx", (unsigned long)address);
        return nullptr;
    }
    barrier_used(w, lane, (uint32_t)address);
    return &at->second;
}

// Completes the current phase if all threads have arrived and all copies have been requested.
void advance(warp &w, unsigned lane, uint32_t address, mbarrier *b)
{
    if (b->pending) return;
    if (b->copied > b->expected)
        found(w, lane, "a transaction count",
              "copies bring %ld bytes to the mbarrier at %#lx, which expects %ld", (long)b->copied,
              (unsigned long)address, (long)b->expected);
    if (b->copied < b->expected) return;
    for (const bulk &c : b->copies) {
        uint8_t *const to = bulk_ends(c.to, c.bytes);
        if (to && c.readable) memcpy(to, (const void *)(uintptr_t)c.from, c.bytes);
    }
    b->copies.clear();
    b->expected = b->copied = 0;
    b->pending = b->count;
    b->phase++;
    b->done.join(b->arriving);
    b->done.before[running.warps.size() * LANES + b->index] = b->phase;
}

// --- instructions --------------------------------------------------------------------------------

void initialise(warp &w, const instruction &i, uint32_t lanes)
{
    for_lanes(lanes, [&](unsigned l) {
        const uint32_t at = (uint32_t)address_of(w, i.to, l), count = w.at<uint32_t>(i.at[0])[l];
        if (barriers.count(at)) {
            found(w, l, AN_MBARRIER, "the one at %#lx is initialised again", (unsigned long)at);
            return;
        }
        if (!count || count > COUNT_MOST)
            found(w, l, AN_MBARRIER, "it cannot count %u arrivals", count);
        if (initialised >= BARRIERS_MOST) stop("more than %d mbarriers", BARRIERS_MOST);
        if (!barrier_begins(w, l, at)) return;
        barriers[at] = { initialised++, thread_of(w, l), false, count, count, 0, 0, 0, {},
                         new_clock(),   new_clock() };
    });
}

void invalidate(warp &w, const instruction &i, uint32_t lanes)
{
    for_lanes(lanes, [&](unsigned l) {
        const uint32_t at = (uint32_t)address_of(w, i.to, l);
        const mbarrier *const b = barrier_at(w, l, at);
        if (!b) return;
        if (!b->copies.empty())
            found(w, l, AN_MBARRIER, "the one at %#lx is invalidated while copies are pending",
                  (unsigned long)at);
        barrier_ends(w, l, at);
        barriers.erase(at);
    });
}

void arrive(warp &w, unsigned lane, uint32_t at, int64_t bytes)
{
    mbarrier *const b = barrier_at(w, lane, at);
    if (!b) return;
    advance(w, lane, at, b);
    if (!b->pending) {
        found(w, lane, AN_MBARRIER, "more than %u arrivals in a phase of the one at %#lx", b->count,
              (unsigned long)at);
        return;
    }
    b->expected += bytes;
    if (b->expected > COUNT_MOST)
        found(w, lane, "a transaction count", "%ld bytes in a phase of the mbarrier at %#lx",
              (long)b->expected, (unsigned long)at);
    b->pending--;
    b->arriving.join(release(w, lane));
}

void arrive_plain(warp &w, const instruction &i, uint32_t lanes)
{
    for_lanes(lanes, [&](unsigned l) { arrive(w, l, (uint32_t)address_of(w, i.to, l), 0); });
}

void arrive_expecting(warp &w, const instruction &i, uint32_t lanes)
{
    for_lanes(lanes, [&](unsigned l) {
        arrive(w, l, (uint32_t)address_of(w, i.to, l), w.at<uint32_t>(i.at[0])[l]);
    });
}

// Executed by lanes whose phase is complete (phase_passed).
void wait(warp &w, const instruction &i, uint32_t lanes)
{
    uint32_t *const p = w.at<uint32_t>(i.at[0]);
    *p |= lanes;
    for_lanes(lanes, [&](unsigned l) {
        const auto at = barriers.find((uint32_t)address_of(w, i.from, l));
        if (at != barriers.end()) clocks[thread_of(w, l)].join(at->second.done);
    });
}

void bulk_copy(warp &w, const instruction &i, uint32_t lanes)
{
    for_lanes(lanes, [&](unsigned l) {
        bulk c = { address_of(w, i.from, l), (uint32_t)address_of(w, i.to, l),
                   w.at<uint32_t>(i.at[0])[l], true };
        const uint32_t at = (uint32_t)address_of(w, i.barrier, l);
        mbarrier *const b = barrier_at(w, l, at);
        if (!b) return;
        if (c.from % 16 || c.to % 16 || c.bytes % 16 || !c.bytes) {
            found(w, l, A_COPY,
                  "%u bytes from %#lx to %#lx: addresses and size are not multiples of 16", c.bytes,
                  (unsigned long)c.from, (unsigned long)c.to);
            return;
        }
        if (!b->fenced)
            found(w, l, A_COPY, "no fence follows the initialisation of its mbarrier at %#lx",
                  (unsigned long)at);
        for (uint64_t at = c.from; at < c.from + c.bytes; at += 16)
            c.readable &= global(w, l, at, 16, READ) == (const uint8_t *)(uintptr_t)at;
        advance(w, l, at, b);
        if (!bulk_begins(w, l, c.to, c.bytes, b->index, b->phase)) return;
        b->copied += c.bytes;
        cuda_host_bulk_copies++;
        b->copies.push_back(c);
    });
}

void fence_barriers(warp &w, const instruction &i, uint32_t lanes)
{
    for (auto &b : barriers)
        for_lanes(lanes, [&](unsigned l) { b.second.fenced |= b.second.by == thread_of(w, l); });
}

void fence_proxy(warp &w, const instruction &i, uint32_t lanes)
{
    fence_barriers(w, i, lanes);
    for_lanes(lanes, [&](unsigned l) {
        clock &c = release(w, l);
        c.fenced = c.before;
    });
}
} // namespace

// --- order ---------------------------------------------------------------------------------------

bool precedes(const warp &w, unsigned lane, unsigned thread, uint32_t time, bool fenced)
{
    const clock &c = clocks[thread_of(w, lane)];
    return (fenced ? c.fenced : c.before)[thread] > time;
}

bool copy_precedes(const warp &w, unsigned lane, unsigned index, uint32_t phase)
{
    return precedes(w, lane, (unsigned)running.warps.size() * LANES + index, phase, false);
}

static void join_threads(unsigned from, unsigned to)
{
    clock all = clocks[from];
    for (unsigned t = from + 1; t < to; t++) all.join(clocks[t]);
    for (unsigned t = from; t < to; t++) clocks[t] = all;
}

void clocks_meet(warp &w)
{
    if (!running.code->mbarriers) return;
    const uint32_t now = *std::max_element(w.time, w.time + LANES) + 1;
    for (unsigned l = 0; l < LANES; l++)
        w.time[l] = clocks[thread_of(w, l)].before[thread_of(w, l)] = now;
    join_threads(w.number * LANES, (w.number + 1) * LANES);
}

void clocks_meet_all(void)
{
    if (!running.code->mbarriers) return;
    for (warp &w : running.warps) clocks_meet(w);
    join_threads(0, (unsigned)running.warps.size() * LANES);
}

void clocks_begin(void)
{
    barriers.clear();
    initialised = 0;
    if (running.code->mbarriers) clocks.assign(running.warps.size() * LANES, new_clock());
}

bool phase_passed(warp &w, const instruction &i, unsigned lane)
{
    const uint32_t at = (uint32_t)address_of(w, i.from, lane);
    const uint32_t parity = w.at<uint32_t>(i.at[1])[lane];
    mbarrier *const b = barrier_at(w, lane, at);
    if (!b) return true;
    if (parity > 1) found(w, lane, AN_MBARRIER, "it waits for the parity %u", parity);
    advance(w, lane, at, b);
    return (b->phase & 1) != parity;
}

std::string barriers_told(void)
{
    std::string text;
    for (const auto &b : barriers) {
        const mbarrier &m = b.second;
        if (m.pending == m.count && !m.expected && !m.copied) continue;
        char line[160];
        snprintf(line, sizeof line,
                 "\n    the mbarrier at %#x: %u of %u arrivals, %ld of %ld expected bytes", b.first,
                 m.count - m.pending, m.count, (long)m.copied, (long)m.expected);
        text += line;
    }
    return text;
}

// --- reading the words ---------------------------------------------------------------------------

static bool decode_copy(reader *r, const operation &o, instruction *i)
{
    static const std::string ends = ".global.mbarrier::complete_tx::bytes ";
    const std::string before = "cp.async.bulk.shared::";
    const bool cluster = o.text.find(before + "cluster" + ends) == 0;
    if ((!cluster && o.text.find(before + "cta" + ends) != 0) || o.operands.size() != 4)
        return false;
    i->to = address(r, o.operands[0], SHARED);
    i->from = address(r, o.operands[1], GLOBAL);
    i->at[0] = operand(r, o.operands[2], 4);
    i->barrier = address(r, o.operands[3], SHARED);
    i->run = bulk_copy;
    return true;
}

static bool decode_mbarrier(reader *r, const operation &o, instruction *i)
{
    std::string name;
    for (size_t n = 1; n < o.words.size(); n++) name += "." + o.words[n];
    const size_t shared = name.find(".shared");
    const std::string what = name.substr(0, shared),
                      rest = name.substr(std::min(shared, name.size()));
    if (rest != ".shared.b64" && rest != ".shared::cta.b64") return false;
    const size_t count = o.operands.size();
    if ((what == ".try_wait.parity" || what == ".test_wait.parity") && count == 3) {
        i->what = POLL;
        i->at[0] = operand(r, o.operands[0], 0);
        i->from = address(r, o.operands[1], SHARED);
        i->at[1] = operand(r, o.operands[2], 4);
        i->run = wait;
        return true;
    }
    const bool arrives = what.find(".arrive") == 0;
    if (count < 1u + arrives || (arrives && o.operands[0] != "_")) return false;
    i->to = address(r, o.operands[arrives], SHARED);
    if ((what == ".init" && count == 2) || (what == ".arrive.expect_tx" && count == 3))
        i->at[0] = operand(r, o.operands[count - 1], 4);
    i->run = what == ".init" && count == 2               ? initialise
             : what == ".inval" && count == 1            ? invalidate
             : what == ".arrive" && count == 2           ? arrive_plain
             : what == ".arrive.expect_tx" && count == 3 ? arrive_expecting
                                                         : nullptr;
    return i->run;
}

bool decode_barriers(reader *r, const operation &o, instruction *i)
{
    const bool known =
        (o.words[0] == "mbarrier" && decode_mbarrier(r, o, i)) || decode_copy(r, o, i);
    if (known) return true;
    i->run = o.text.find("fence.mbarrier_init.release.cluster;") == 0 ? fence_barriers
             : o.text.find("fence.proxy.async") == 0                  ? fence_proxy
                                                                      : nullptr;
    return i->run;
}

} // namespace ptx
