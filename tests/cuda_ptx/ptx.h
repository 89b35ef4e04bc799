// tests/cuda_ptx/ptx.h -- runs and checks the PTX of kernels/*.cu: the emulated GPU
// (tests/cuda_host/) passes its launches here if $CUDA_HOST_PTX names a folder of .ptx files. So
// nvcc's code, including inline assembly, runs without a GPU.
//
//   parse.cpp       text of a kernel -> instructions   arithmetic.cpp  what each lane does alone
//   memory.cpp      loads, stores, copies              together.cpp    what a warp does as one
//   watch.cpp       who touched what: findings         run.cpp         lanes, warps, blocks,
//   launches find.cpp        a kernel's pointer -> its text
//
// A warp's registers are stored lane by lane: an instruction is a loop over the lanes that have
// reached it. Each lane has its own program counter; of the lanes that can run, the furthest behind
// run ($CUDA_HOST_ORDER=alone: one lane, as far as it gets). Warps run in order, or with
// CUDA_HOST_ORDER=back the last first; a number shuffles them.
//
// A finding ends the program with a message, or with CUDA_PTX_GO_ON=1 is reported once:
//   - an access outside of all allocations, or not aligned to its size
//   - shared memory: read where this block wrote nothing; touched by two threads, one of them
//     writing, with neither a barrier between them nor, in a warp, bar.warp.sync (a shuffle or a
//     product of tensor cores in between orders no memory: PTX ISA, "Memory Consistency Model";
//     reported as a separate kind); touched while a copy (cp.async) to it is pending
//   - global memory: touched by two blocks of a launch, one of them writing; ld.global.nc of what
//     the launch writes. (Order between blocks is that of membar.gl and an atomic operation behind
//     it in the one, in front of it in the other; taken for whole blocks, whatever the place.)
//   - a kernel that was started early: before griddepcontrol.wait it writes, or reads what those
//     in front of it wrote that need not have ended; or a thread never waits
//   - a barrier, shuffle or product that not all its lanes reach at the same instruction
// Semantics are those of the PTX ISA 9.0; an unknown instruction ends the program.
#ifndef TESTS_CUDA_PTX_PTX_H
#define TESTS_CUDA_PTX_PTX_H

#include <stdint.h>
#include <string.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "../cuda_host/work.h"

namespace ptx
{

enum { LANES = 32, OPERANDS_MOST = 14, SHARED_BASE = 1024 };
constexpr uint32_t ALL = 0xffffffff;

struct warp;
struct instruction;
typedef void (*action)(warp &w, const instruction &i, uint32_t lanes);

enum kind {
    ALONE,    // each lane by itself
    TOGETHER, // waits for the lanes it names
    BRANCH,
    BARRIER,
    EXIT
};

enum space { GENERIC, GLOBAL, SHARED, PARAMETER };

struct location {
    uint32_t place; // the register with the address
    unsigned bytes; // of the register
    int64_t offset;
};

struct instruction {
    kind what;
    action run;
    uint32_t at[OPERANDS_MOST]; // operands: places in the warp's registers
    uint32_t guard;             // a predicate's place
    bool guarded, unless;       // "unless": guarded by its opposite
    bool whole_warp;            // TOGETHER: all lanes, else operand `members`
    uint32_t members;
    uint32_t target; // of a branch
    // A memory access: `count` values of `bytes` each.
    space where;
    location from, to;
    uint8_t bytes, count, wide; // wide: bytes of the registers
    bool is_signed, constant;   // constant: ld.global.nc
};

// Where an instruction comes from.
struct origin {
    unsigned line;      // of the .ptx file
    std::string text;   // of the instruction
    std::string source; // file:line of the CUDA source, and where that was inlined
};

struct parameter {
    size_t at, size;
};

struct file;

struct entry {
    std::string name; // as people write it
    const file *from;
    size_t text_at; // where its text begins
    unsigned line;  // the same as a line
    bool parsed;
    std::map<std::string, parameter> parameters;
    std::vector<size_t> parameter_sizes;
    std::vector<uint64_t> memory; // the parameters of the launch
    std::vector<instruction> code;
    std::vector<origin> origins; // one for each instruction
    std::vector<uint8_t> image;  // registers of a warp, with the constants filled in
    uint32_t tid[3], block_at[3], block_size[3], grid_size[3]; // places of %tid ...; 0: not used
    size_t shared_static;                                      // where dynamic shared memory begins
    uint64_t threads_most;                                     // .maxntid; 0: not given
    std::vector<std::vector<uint8_t>> registers;               // of warps that ran
};

struct file {
    std::string path, text;
    std::map<unsigned, std::string> sources; // by their number in .loc
};

// A warp that runs.
struct warp {
    uint8_t *registers;
    uint32_t pc[LANES];
    uint32_t ended, at_warp, at_block; // lanes
    uint32_t waited;                   // for the kernels in front
    uint32_t now;                      // the instruction that runs
    unsigned number;
    // Since the block's last barrier: bar.warp.sync; what lanes did together.
    uint16_t syncs, collectives;
    template <typename T> T *at(uint32_t place)
    {
        return reinterpret_cast<T *>(registers + place);
    }
};

struct copy {
    uint64_t from;
    uint32_t to, pc;
};

// The launch and the block that run.
struct launch {
    entry *code;
    dim3 grid, block;
    uint32_t number; // of the launch, counted from 1
    bool early;
    uint32_t block_number;
    uint3 block_at;
    std::vector<warp> warps;
    std::vector<uint8_t> shared;           // from SHARED_BASE on
    std::vector<std::vector<copy>> on_way; // cp.async, by thread
};
extern launch running;

// parse.cpp
void parse(entry *e);
// Reads the operation's name and operands; parse.cpp gives the operands to it.
struct operation {
    std::vector<std::string> words;    // ld global v4 f32
    std::vector<std::string> operands; // with brackets and braces
    std::string text;
};
struct reader; // parse.cpp: knows the names of a kernel
uint32_t operand(reader *r, const std::string &text, unsigned bytes); // 0: a predicate
uint32_t register_bytes(reader *r, const std::string &text);          // 0: none of that name
location address(reader *r, const std::string &text, space where);
std::vector<std::string> elements(const std::string &braces);

// Fill in the instruction if its operation is theirs.
bool decode_arithmetic(reader *r, const operation &o, instruction *i);
bool decode_memory(reader *r, const operation &o, instruction *i);
bool decode_together(reader *r, const operation &o, instruction *i);

// find.cpp: ends the program if it does not exist.
entry *find(const void *kernel);
// The entry of a text, for tests.
entry *find_in(const std::string &text, const std::string &path);
// run.cpp
void run(entry *e, const cuda_host_work &work);

// watch.cpp: checks and records an access, and returns its memory; if it is invalid (and that does
// not end the program), a spare location.
enum access { READ, READ_CONSTANT, WRITE };
uint8_t *global(warp &w, unsigned lane, uint64_t address, unsigned bytes, access how);
uint8_t *shared(warp &w, unsigned lane, uint64_t address, unsigned bytes, access how);
// ldmatrix: all lanes read a row that one of them names.
uint8_t *shared_by_all(warp &w, unsigned lane, uint64_t address, unsigned bytes);
void copy_begins(warp &w, unsigned lane, uint32_t to, unsigned bytes);
uint8_t *copy_ends(warp &w, unsigned lane, uint32_t to, unsigned bytes);
void prefetched(warp &w, unsigned lane, uint64_t address, uint32_t bytes);
uint8_t *atomic(warp &w, unsigned lane, uint64_t address, unsigned bytes);
void watch_variable(uint8_t *memory, size_t size); // of a file
void watch_fence(void);                            // membar.gl
void watch_launch(bool early);
void watch_block(void);
void watch_barrier(void);
void found(warp &w, unsigned lane, const char *what, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
[[noreturn]] void stop(const char *format, ...) __attribute__((format(printf, 1, 2)));

static inline uint64_t address_of(warp &w, const location &at, unsigned lane)
{
    if (at.bytes == 8) return w.at<uint64_t>(at.place)[lane] + (uint64_t)at.offset;
    return w.at<uint32_t>(at.place)[lane] + (uint32_t)at.offset;
}

// The first of the lanes.
static inline unsigned first(uint32_t lanes)
{
    return (unsigned)__builtin_ctz(lanes);
}

template <typename F> static inline void for_lanes(uint32_t lanes, F f)
{
    for (unsigned l = 0; l < LANES; l++)
        if (lanes >> l & 1) f(l);
}

} // namespace ptx

#endif
