// tests/cuda_ptx/run.cpp -- schedules lanes, warps, blocks and launches.
#include <stdlib.h>

#include <algorithm>
#include <random>

#include "ptx.h"

namespace ptx
{

launch running;

namespace
{

// $CUDA_HOST_ORDER
struct order {
    bool back, alone;
    unsigned seed; // 0: not shuffled
} how;

void read_order(void)
{
    const char *const said = getenv("CUDA_HOST_ORDER");
    const std::string text = said ? said : "";
    how = { text == "back", text == "alone", (unsigned)atoi(text.c_str()) };
}

// --- a warp --------------------------------------------------------------------------------------

// Lanes that run together, starting at one instruction, until they reach other lanes.
struct group {
    uint32_t lanes, pc, until;
};

uint32_t can_run(const warp &w)
{
    return ~(w.ended | w.at_warp | w.at_block | w.polling);
}

group next_group(const warp &w)
{
    const uint32_t ready = can_run(w);
    group g = { 0, UINT32_MAX, UINT32_MAX };
    if (how.alone && ready) {
        const unsigned lane = first(ready);
        return { 1u << lane, w.pc[lane], UINT32_MAX };
    }
    for_lanes(ready, [&](unsigned l) { g.pc = std::min(g.pc, w.pc[l]); });
    for_lanes(ready, [&](unsigned l) {
        if (w.pc[l] == g.pc)
            g.lanes |= 1u << l;
        else
            g.until = std::min(g.until, w.pc[l]);
    });
    return g;
}

void put(warp &w, uint32_t lanes, uint32_t pc)
{
    for_lanes(lanes, [&](unsigned l) { w.pc[l] = pc; });
}

// Returns the lanes that execute the instruction together. All lanes that have arrived must name
// the same set.
uint32_t members_of(warp &w, const instruction &i, uint32_t lanes)
{
    if (i.whole_warp) return ALL;
    const uint32_t *const said = w.at<uint32_t>(i.members);
    const uint32_t members = said[first(lanes)];
    for_lanes(lanes, [&](unsigned l) {
        if (said[l] != members || !(members >> l & 1))
            found(w, l, "lanes that name different members", "%#x and %#x", members, said[l]);
    });
    return members;
}

// True if the group continues at once.
bool meet(warp &w, const instruction &i, const group &g, uint32_t lanes)
{
    const uint32_t members = members_of(w, i, lanes);
    if (members == g.lanes && lanes == g.lanes) {
        i.run(w, i, lanes);
        return true;
    }
    put(w, g.lanes & ~lanes, g.pc + 1); // the guard excludes them
    put(w, lanes, g.pc);
    w.at_warp |= lanes;
    uint32_t here = 0;
    for_lanes(w.at_warp, [&](unsigned l) { here |= (uint32_t)(w.pc[l] == g.pc) << l; });
    if ((here & members) != members) return false;
    i.run(w, i, members);
    w.at_warp &= ~members;
    put(w, members, g.pc + 1);
    return false;
}

void leave(warp &w, uint32_t lanes)
{
    w.ended |= lanes;
    const uint32_t never = lanes & ~w.waited;
    if (never)
        found(w, first(never), "an early start", "a thread ends without griddepcontrol.wait");
}

// Lanes whose phase is complete pass; the others wait. True if the group continues at once.
bool poll(warp &w, const instruction &i, const group &g, uint32_t lanes)
{
    uint32_t passed = 0;
    for_lanes(lanes, [&](unsigned l) { passed |= (uint32_t)phase_passed(w, i, l) << l; });
    i.run(w, i, passed);
    if (passed == lanes) return true;
    put(w, g.lanes, g.pc + 1);
    put(w, lanes & ~passed, g.pc);
    w.polling |= lanes & ~passed;
    return false;
}

// Wakes the lanes whose phase has completed.
void wake(warp &w)
{
    for_lanes(w.polling, [&](unsigned l) {
        w.now = w.pc[l];
        if (phase_passed(w, running.code->code[w.pc[l]], l)) w.polling &= ~(1u << l);
    });
}

// Runs one instruction of the group; false if another group must be chosen.
bool step(warp &w, group *g)
{
    const instruction &i = running.code->code[g->pc];
    w.now = g->pc;
    uint32_t lanes = g->lanes;
    if (i.guarded) lanes &= i.unless ? ~*w.at<uint32_t>(i.guard) : *w.at<uint32_t>(i.guard);
    if (i.what == ALONE && lanes) i.run(w, i, lanes);
    if (i.what == ALONE || !lanes) return g->pc++, true;
    if (i.what == TOGETHER && meet(w, i, *g, lanes)) return g->pc++, true;
    if (i.what == TOGETHER) return false;
    if (i.what == POLL) return poll(w, i, *g, lanes) ? (g->pc++, true) : false;
    if (i.what == BRANCH && lanes == g->lanes) return g->pc = i.target, true;
    put(w, g->lanes & ~lanes, g->pc + 1);
    if (i.what == BRANCH) put(w, lanes, i.target);
    if (i.what == BARRIER) put(w, lanes, g->pc), w.at_block |= lanes;
    if (i.what == EXIT) leave(w, lanes);
    return false;
}

// Runs a warp until all lanes wait or have ended; true if any of them ran.
bool run_warp(warp &w)
{
    bool went = false;
    while (can_run(w)) {
        group g = next_group(w);
        went = true;
        bool same = true;
        while (same && g.pc < g.until) same = step(w, &g);
        if (same) put(w, g.lanes, g.pc);
    }
    return went;
}

// --- a block -------------------------------------------------------------------------------------

void fill(warp &w, uint32_t place, const std::vector<uint32_t> &values)
{
    for (unsigned l = 0; place && l < LANES; l++)
        w.at<uint32_t>(place)[l] = values[l % values.size()];
}

void begin_warp(unsigned number)
{
    entry *const e = running.code;
    warp &w = running.warps[number];
    w = {};
    w.number = number;
    w.waited = running.early ? 0 : ALL;
    w.registers = e->registers[number].data();
    const dim3 b = running.block, g = running.grid;
    std::vector<uint32_t> tid[3];
    for (unsigned l = 0; l < LANES; l++) {
        const unsigned t = number * LANES + l;
        tid[0].push_back(t % b.x), tid[1].push_back(t / b.x % b.y), tid[2].push_back(t / b.x / b.y);
    }
    const uint32_t block_at[3] = { running.block_at.x, running.block_at.y, running.block_at.z },
                   size[3] = { b.x, b.y, b.z }, grid[3] = { g.x, g.y, g.z };
    for (unsigned axis = 0; axis < 3; axis++) {
        fill(w, e->tid[axis], tid[axis]);
        fill(w, e->block_at[axis], { block_at[axis] });
        fill(w, e->block_size[axis], { size[axis] });
        fill(w, e->grid_size[axis], { grid[axis] });
    }
}

[[noreturn]] void report_hang(void)
{
    std::string text;
    for (warp &w : running.warps)
        for (unsigned l = 0; l < LANES; l++) {
            const origin &at = running.code->origins[w.pc[l]];
            const std::string is = w.ended >> l & 1 ? "ended" : at.source + ": " + at.text;
            if (text.find(is) != std::string::npos) continue;
            text += "\n    thread " + std::to_string(w.number * LANES + l) + ": " + is;
        }
    stop("%s hangs: not all threads reach its barrier, or not all lanes the same one%s%s",
         running.code->name.c_str(), text.c_str(), barriers_told().c_str());
}

// Releases all threads if all wait at the block's barrier, each warp at one instruction.
bool pass_barrier(void)
{
    for (warp &w : running.warps) {
        if (w.at_block != ALL) return false;
        for (unsigned l = 1; l < LANES; l++)
            if (w.pc[l] != w.pc[0]) return false;
    }
    for (warp &w : running.warps) {
        put(w, ALL, w.pc[0] + 1);
        w.at_block = 0;
        w.syncs = w.collectives = 0;
    }
    watch_barrier();
    clocks_meet_all();
    return true;
}

void run_block(void)
{
    static std::minstd_rand random;
    const unsigned count = (unsigned)running.warps.size();
    std::vector<unsigned> turn(count);
    for (unsigned n = 0; n < count; n++) turn[n] = how.back ? count - 1 - n : n, begin_warp(n);
    for (auto &copies : running.pending) copies.clear();
    watch_block();
    clocks_begin();
    if (how.seed) random.seed(how.seed + running.block_number);
    for (;;) {
        bool went = false, ended = true;
        if (how.seed) std::shuffle(turn.begin(), turn.end(), random);
        for (const unsigned n : turn)
            wake(running.warps[n]), went = run_warp(running.warps[n]) || went;
        for (const warp &w : running.warps) ended = ended && w.ended == ALL;
        if (ended) return;
        if (!pass_barrier() && !went) report_hang();
    }
}

// --- a launch ------------------------------------------------------------------------------------

void give_parameters(entry *e, const cuda_host_work &work)
{
    uint8_t *const to = reinterpret_cast<uint8_t *>(e->memory.data());
    if (work.arguments.size() != e->parameter_sizes.size())
        stop("%s has %zu parameters, not %zu", e->name.c_str(), e->parameter_sizes.size(),
             work.arguments.size());
    std::vector<parameter> in_order;
    for (const auto &p : e->parameters) in_order.push_back(p.second);
    std::sort(in_order.begin(), in_order.end(),
              [](const parameter &a, const parameter &b) { return a.at < b.at; });
    for (size_t n = 0; n < in_order.size(); n++) {
        if (work.arguments[n].size() != in_order[n].size)
            stop("parameter %zu of %s has %zu bytes, not %zu", n, e->name.c_str(), in_order[n].size,
                 work.arguments[n].size());
        memcpy(to + in_order[n].at, work.arguments[n].data(), in_order[n].size);
    }
}

void begin_launch(entry *e, const cuda_host_work &work)
{
    const size_t threads = (size_t)work.block.x * work.block.y * work.block.z;
    if (threads % LANES || !threads || threads > 1024 ||
        (e->threads_most && threads > e->threads_most))
        stop("%s cannot have %zu threads in a block", e->name.c_str(), threads);
    const size_t shared = e->shared_static - SHARED_BASE + work.dynamic;
    if (shared > 227 * 1024) stop("%s: %zu bytes of shared memory", e->name.c_str(), shared);
    running.code = e;
    running.grid = work.grid, running.block = work.block;
    running.block_number = 0;
    running.warps.resize(threads / LANES);
    running.pending.resize(threads);
    running.shared.resize(shared);
    while (e->registers.size() < running.warps.size()) e->registers.push_back(e->image);
}
} // namespace

void run(entry *e, const cuda_host_work &work)
{
    read_order();
    begin_launch(e, work);
    give_parameters(e, work);
    watch_launch(work.early);
    for (unsigned z = 0; z < work.grid.z; z++)
        for (unsigned y = 0; y < work.grid.y; y++)
            for (unsigned x = 0; x < work.grid.x; x++) {
                running.block_at = { x, y, z };
                running.block_number++;
                run_block();
            }
}

} // namespace ptx

bool cuda_ptx_wanted(void)
{
    static const bool wanted = getenv("CUDA_HOST_PTX") && cuda_host_mode() == CUDA_HOST_ALL;
    return wanted;
}

void cuda_ptx_run(const cuda_host_work &work)
{
    ptx::run(ptx::find(work.kernel), work);
}
