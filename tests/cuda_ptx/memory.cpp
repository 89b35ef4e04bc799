// tests/cuda_ptx/memory.cpp -- loads, stores, prefetches, atom.inc, fences and asynchronous
// copies; and the instructions for early launches (griddepcontrol).
#include <stdlib.h>

#include "ptx.h"

namespace ptx
{
namespace
{

bool in_parameters(uint64_t address, unsigned bytes)
{
    const std::vector<uint64_t> &memory = running.code->memory;
    const uint64_t begin = (uint64_t)(uintptr_t)memory.data(), end = begin + memory.size() * 8;
    return address >= begin && address + bytes <= end;
}

uint8_t *place(warp &w, const instruction &i, const location &at, unsigned lane, access how)
{
    alignas(16) static uint8_t spare[16];
    const uint64_t address = address_of(w, at, lane);
    const unsigned bytes = i.bytes * i.count;
    if (i.where == SHARED) return shared(w, lane, address, bytes, how);
    const bool parameter = i.where != GLOBAL && how == READ && in_parameters(address, bytes);
    if (parameter && address % bytes == 0) return (uint8_t *)(uintptr_t)address;
    if (i.where != PARAMETER) return global(w, lane, address, bytes, how);
    found(w, lane, "a parameter", "%u bytes at %#lx: outside of the parameters, or not aligned",
          bytes, (unsigned long)address);
    return spare;
}

// Extends a value to 64 bits, with its sign or zeros.
uint64_t widened(const uint8_t *from, unsigned bytes, bool is_signed)
{
    uint64_t x = 0;
    memcpy(&x, from, bytes);
    const unsigned above = 64 - bytes * 8;
    return is_signed ? (uint64_t)((int64_t)(x << above) >> above) : x;
}

// Loads values as wide as their registers, as nearly all values are.
template <typename T> void load_same(warp &w, const instruction &i, uint32_t lanes)
{
    const access how = i.constant ? READ_CONSTANT : READ;
    for_lanes(lanes, [&](unsigned l) {
        const T *const from = reinterpret_cast<const T *>(place(w, i, i.from, l, how));
        for (unsigned n = 0; n < i.count; n++) w.at<T>(i.at[n])[l] = from[n];
    });
}

void load_widened(warp &w, const instruction &i, uint32_t lanes)
{
    const access how = i.constant ? READ_CONSTANT : READ;
    for_lanes(lanes, [&](unsigned l) {
        const uint8_t *const from = place(w, i, i.from, l, how);
        for (unsigned n = 0; n < i.count; n++) {
            const uint64_t x = widened(from + n * i.bytes, i.bytes, i.is_signed);
            memcpy(w.registers + i.at[n] + l * i.wide, &x, i.wide);
        }
    });
}

void store(warp &w, const instruction &i, uint32_t lanes)
{
    for_lanes(lanes, [&](unsigned l) {
        uint8_t *const to = place(w, i, i.to, l, WRITE);
        for (unsigned n = 0; n < i.count; n++)
            memcpy(to + n * i.bytes, w.registers + i.at[n] + l * i.wide, i.bytes);
    });
}

action load_for(const instruction &i)
{
    if (i.bytes != i.wide) return load_widened;
    return i.bytes == 8   ? load_same<uint64_t>
           : i.bytes == 4 ? load_same<uint32_t>
                          : load_same<uint16_t>;
}

// --- cp.async ------------------------------------------------------------------------------------
// The copy runs as late as allowed: when its thread waits.

void copy_start(warp &w, const instruction &i, uint32_t lanes)
{
    for_lanes(lanes, [&](unsigned l) {
        const uint64_t from = address_of(w, i.from, l);
        const uint32_t to = (uint32_t)address_of(w, i.to, l);
        global(w, l, from, i.bytes, READ);
        copy_begins(w, l, to, i.bytes);
        running.pending[w.number * LANES + l].push_back({ from, to, w.now });
    });
}

void copy_wait(warp &w, const instruction &i, uint32_t lanes)
{
    for_lanes(lanes, [&](unsigned l) {
        std::vector<copy> &all = running.pending[w.number * LANES + l];
        for (const copy &c : all) {
            const uint8_t *const from = global(w, l, c.from, 16, READ);
            memcpy(copy_ends(w, l, c.to, 16), from, 16);
        }
        all.clear();
    });
}

// Reads nothing; only checks that the memory exists and is aligned to 16 bytes.
void prefetch(warp &w, const instruction &i, uint32_t lanes)
{
    for_lanes(lanes, [&](unsigned l) {
        prefetched(w, l, address_of(w, i.from, l), w.at<uint32_t>(i.at[0])[l]);
    });
}

// atom.inc: counts up, and wraps to 0 after the maximum.
void count_up(warp &w, const instruction &i, uint32_t lanes)
{
    for_lanes(lanes, [&](unsigned l) {
        uint32_t *const count =
            reinterpret_cast<uint32_t *>(atomic(w, l, address_of(w, i.from, l), sizeof(uint32_t)));
        const uint32_t before = *count, most = w.at<uint32_t>(i.at[1])[l];
        *count = before >= most ? 0 : before + 1;
        w.at<uint32_t>(i.at[0])[l] = before;
    });
}

void fence(warp &w, const instruction &i, uint32_t lanes)
{
    watch_fence();
}

void wait_for_dependencies(warp &w, const instruction &i, uint32_t lanes)
{
    w.waited |= lanes;
}

void no_operation(warp &w, const instruction &i, uint32_t lanes)
{
}

// --- reading the words ---------------------------------------------------------------------------

bool read_type(const std::string &type, instruction *i)
{
    if (type.size() < 2 || !strchr("usfb", type[0])) return false;
    const int bits = atoi(type.c_str() + 1);
    if (bits != 8 && bits != 16 && bits != 32 && bits != 64) return false;
    i->is_signed = type[0] == 's';
    i->bytes = (uint8_t)(bits / 8);
    return true;
}

// ld.global.nc.L1::no_allocate.L2::256B.v4.u32
bool read_words(const operation &o, instruction *i)
{
    i->count = 1;
    for (size_t n = 1; n + 1 < o.words.size(); n++) {
        const std::string &word = o.words[n];
        if (word == "global")
            i->where = GLOBAL;
        else if (word == "shared")
            i->where = SHARED;
        else if (word == "param")
            i->where = PARAMETER;
        else if (word == "nc")
            i->constant = true;
        else if (word == "v2" || word == "v4")
            i->count = (uint8_t)(word[1] - '0');
        else if (word.find("L1::") != 0 && word.find("L2::") != 0)
            return false;
    }
    return read_type(o.words.back(), i) && i->bytes * i->count <= 16;
}

bool decode_access(reader *r, const operation &o, instruction *i)
{
    const bool loads = o.words[0] == "ld";
    if ((!loads && o.words[0] != "st") || o.operands.size() != 2 || !read_words(o, i)) return false;
    const std::vector<std::string> values = elements(o.operands[loads ? 0 : 1]);
    (loads ? i->from : i->to) = address(r, o.operands[loads ? 1 : 0], i->where);
    // A stored constant is as wide as the memory.
    i->wide = values[0][0] == '%' ? (uint8_t)register_bytes(r, values[0]) : i->bytes;
    if (values.size() != i->count || i->wide < i->bytes) return false;
    for (unsigned n = 0; n < i->count; n++) i->at[n] = operand(r, values[n], i->wide);
    i->run = loads ? load_for(*i) : store;
    return true;
}

bool is(const operation &o, const char *start)
{
    return o.text.find(start) == 0;
}
} // namespace

bool decode_memory(reader *r, const operation &o, instruction *i)
{
    if (is(o, "cp.async.cg.shared.global ") && o.operands.size() == 3 && o.operands[2] == "16") {
        i->bytes = 16, i->count = 1;
        i->to = address(r, o.operands[0], SHARED);
        i->from = address(r, o.operands[1], GLOBAL);
        i->run = copy_start;
        return true;
    }
    if (is(o, "cp.async.bulk.prefetch.L2.global ") && o.operands.size() == 2) {
        i->from = address(r, o.operands[0], GLOBAL);
        i->at[0] = operand(r, o.operands[1], 4);
        i->run = prefetch;
        return true;
    }
    if (is(o, "atom.global.inc.u32 ") && o.operands.size() == 3) {
        i->at[0] = operand(r, o.operands[0], 4);
        i->from = address(r, o.operands[1], GLOBAL);
        i->at[1] = operand(r, o.operands[2], 4);
        i->run = count_up;
        return true;
    }
    i->run = is(o, "membar.gl;")                          ? fence
             : is(o, "cp.async.wait_all;")                ? copy_wait
             : is(o, "griddepcontrol.wait;")              ? wait_for_dependencies
             : is(o, "griddepcontrol.launch_dependents;") ? no_operation
                                                          : nullptr;
    return i->run || decode_access(r, o, i);
}

} // namespace ptx
