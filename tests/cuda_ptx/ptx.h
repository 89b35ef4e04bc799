// tests/cuda_ptx/ptx.h -- runs and checks the PTX of kernels/*.cu: the emulated GPU
// (tests/cuda_host/) passes its launches to these files if $CUDA_HOST_PTX names a folder of .ptx
// files. In this way nvcc's code, including inline assembly, runs without a GPU.
//
//   find.cpp        finds a kernel's text by its pointer
//   parse.cpp       translates the text to instructions
//   run.cpp         schedules lanes, warps, blocks, launches
//   arithmetic.cpp  instructions that each lane executes alone
//   memory.cpp      loads, stores, asynchronous copies of 16 bytes
//   barriers.cpp    mbarrier objects, bulk copies
//   together.cpp    shuffles and products, executed by a warp
//   watch.cpp       records accesses and reports findings
//
// A register holds the values of all lanes, and an instruction is a loop over the lanes that have
// reached it. Each lane has its own program counter; among the lanes that can run, those with the
// lowest counter run first (with $CUDA_HOST_ORDER=alone, one lane runs as far as it can). Warps run
// in order; with CUDA_HOST_ORDER=back the last runs first, and a number is the seed of a random
// order.
//
// A finding ends the program with a message; with CUDA_PTX_GO_ON=1 it is reported once, and the
// program continues. Findings are:
//   - an access outside of all allocations, or not aligned to its size
//   - shared memory: a read that no write of this block precedes; a race, that is, accesses by two
//     threads, at least one of them a write, without a barrier between them or, if both are in one
//     warp, bar.warp.sync (a shuffle or tensor core product between them does not order memory: PTX
//     ISA, "Memory Consistency Model"; such a race is reported separately); an access while a copy
//     (cp.async) to the same memory is pending
//   - mbarriers and bulk copies: an mbarrier that is used uninitialised or as data, or that more
//     threads arrive at than it counts; copies that bring more bytes than expect_tx announced (if
//     they bring fewer, the kernel hangs, and the report shows both numbers); addresses or sizes
//     that are not multiples of 16; data that is read before its phase has been waited for; a copy
//     to memory that threads may still read, that another copy will write, or that threads wrote
//     with no fence.proxy.async since
//   - global memory: accesses by two blocks of a launch, one of them a write; ld.global.nc of
//     memory that the launch writes. (Two blocks are ordered if the one executes membar.gl and then
//     an atomic operation, and the other an atomic operation and then membar.gl. This is tracked
//     per block, whatever the address of the atomic operation.)
//   - a kernel that starts early: a write before griddepcontrol.wait, or a read of memory that
//     preceding work writes and may not have finished; a thread that never waits
//   - a barrier, shuffle or product that its lanes do not all reach at the same instruction
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
    ALONE,    // executed by each lane independently
    TOGETHER, // executed when all the lanes that it names have arrived
    BRANCH,
    BARRIER,
    POLL, // executed by each lane once the phase of its mbarrier is complete
    EXIT
};

enum space { GENERIC, GLOBAL, SHARED, PARAMETER };

struct location {
    uint32_t place; // offset of the register with the address
    unsigned bytes; // size of that register
    int64_t offset;
};

struct instruction {
    kind what;
    action run;
    uint32_t at[OPERANDS_MOST]; // operands: offsets in warp.registers
    uint32_t guard;             // offset of a predicate
    bool guarded, unless;       // unless: runs in lanes where the predicate is false
    bool whole_warp;            // TOGETHER: names all lanes; otherwise those in the mask `members`
    uint32_t members;
    uint32_t target; // target of a branch
    // A memory access: `count` values of `bytes` each.
    space where;
    location from, to, barrier; // barrier: of a bulk copy
    uint8_t bytes, count, wide; // wide: bytes of the registers
    bool is_signed, constant;   // constant: ld.global.nc
};

// Where an instruction was read.
struct origin {
    unsigned line;      // line of the .ptx file
    std::string text;   // text of the instruction
    std::string source; // file:line of the CUDA source, and of the call that inlined it
};

struct parameter {
    size_t at, size;
};

struct file;

struct entry {
    std::string name; // demangled
    const file *from;
    size_t text_at; // offset of its text in the file
    unsigned line;  // line of its text
    bool parsed;
    std::map<std::string, parameter> parameters;
    std::vector<size_t> parameter_sizes;
    std::vector<uint64_t> memory; // the parameters of the launch
    std::vector<instruction> code;
    std::vector<origin> origins; // one per instruction
    std::vector<uint8_t> image;  // initial registers of a warp, with the constants
    uint32_t tid[3], block_at[3], block_size[3], grid_size[3]; // offsets of %tid ...; 0: not used
    size_t shared_static;                        // address where dynamic shared memory begins
    uint64_t threads_most;                       // .maxntid; 0: not given
    bool mbarriers;                              // it uses mbarriers
    std::vector<std::vector<uint8_t>> registers; // per warp; kept for the next launch
};

struct file {
    std::string path, text;
    std::map<unsigned, std::string> sources; // by the file number in .loc
};

// A running warp.
struct warp {
    uint8_t *registers;
    uint32_t pc[LANES];
    uint32_t ended, at_warp, at_block; // masks of lanes: ended, waiting for lanes, at the barrier
    uint32_t polling;                  // mask of lanes that wait at mbarriers
    uint32_t waited;                   // mask of lanes that waited for preceding kernels
    uint32_t now;                      // index of the current instruction
    unsigned number;
    // Counts since the block's last barrier: bar.warp.sync; shuffles and products.
    uint16_t syncs, collectives;
    uint32_t time[LANES]; // of a lane's accesses (barriers.cpp): rises when later accesses can be
                          // told from earlier ones
    template <typename T> T *at(uint32_t place)
    {
        return reinterpret_cast<T *>(registers + place);
    }
};

struct copy {
    uint64_t from;
    uint32_t to, pc;
};

// The running launch and block.
struct launch {
    entry *code;
    dim3 grid, block;
    uint32_t number; // the count of launches times 8, plus the GPU
    bool early;
    uint32_t block_number;
    uint3 block_at;
    std::vector<warp> warps;
    std::vector<uint8_t> shared;            // its address is SHARED_BASE
    std::vector<std::vector<copy>> pending; // cp.async, by thread
};
extern launch running;

// parse.cpp
void parse(entry *e);
// The text of an instruction in parts.
struct operation {
    std::vector<std::string> words;    // ld global v4 f32
    std::vector<std::string> operands; // with brackets and braces
    std::string text;                  // without the guard
};
struct reader; // parse.cpp: the names declared in a kernel
// Returns the offset of an operand. `bytes` 0: a predicate.
uint32_t operand(reader *r, const std::string &text, unsigned bytes);
// Returns the size of a register; 0 if it does not exist.
uint32_t register_bytes(reader *r, const std::string &text);
location address(reader *r, const std::string &text, space where);
std::vector<std::string> elements(const std::string &braces);

// Each fills in the instruction if it implements the operation; else it returns false.
bool decode_arithmetic(reader *r, const operation &o, instruction *i);
bool decode_memory(reader *r, const operation &o, instruction *i);
bool decode_together(reader *r, const operation &o, instruction *i);
bool decode_barriers(reader *r, const operation &o, instruction *i);

// find.cpp: returns a kernel's parsed text; ends the program if the kernel is missing.
entry *find(const void *kernel);
// Returns the last kernel in a text, for tests.
entry *find_in(const std::string &text, const std::string &path);
// run.cpp
void run(entry *e, const cuda_host_work &work);

// barriers.cpp
// True if the lane's thread is ordered after accesses of a thread at a time (warp.time), or after
// the copies of a phase of an mbarrier; `fenced`: and after a proxy fence that follows them.
bool precedes(const warp &w, unsigned lane, unsigned thread, uint32_t time, bool fenced);
bool copy_precedes(const warp &w, unsigned lane, unsigned index, uint32_t phase);
void clocks_begin(void);                                         // of a block
void clocks_meet(warp &w);                                       // bar.warp.sync
void clocks_meet_all(void);                                      // bar.sync
bool phase_passed(warp &w, const instruction &i, unsigned lane); // for instructions of kind POLL
std::string barriers_told(void); // the mbarriers whose phase has begun, for a report

// watch.cpp: checks and records an access, and returns its memory; if the access is invalid and the
// program continues, returns unused memory.
enum access { READ, READ_CONSTANT, WRITE };
uint8_t *global(warp &w, unsigned lane, uint64_t address, unsigned bytes, access how);
uint8_t *shared(warp &w, unsigned lane, uint64_t address, unsigned bytes, access how);
// For ldmatrix: all lanes read the row that one of them names.
uint8_t *shared_by_all(warp &w, unsigned lane, uint64_t address, unsigned bytes);
void copy_begins(warp &w, unsigned lane, uint32_t to, unsigned bytes);
uint8_t *copy_ends(warp &w, unsigned lane, uint32_t to, unsigned bytes);
// An mbarrier occupies its memory from begin to end; barrier_begins returns false after a finding.
bool barrier_begins(warp &w, unsigned lane, uint32_t address);
void barrier_used(warp &w, unsigned lane, uint32_t address);
void barrier_ends(warp &w, unsigned lane, uint32_t address);
// A bulk copy that completes in a phase of mbarrier number `index`. bulk_begins returns false, and
// bulk_ends NULL, if the memory does not exist.
bool bulk_begins(warp &w, unsigned lane, uint32_t to, unsigned bytes, uint16_t index,
                 uint32_t phase);
uint8_t *bulk_ends(uint32_t to, unsigned bytes);
void prefetched(warp &w, unsigned lane, uint64_t address, uint32_t bytes);
uint8_t *atomic(warp &w, unsigned lane, uint64_t address, unsigned bytes);
void watch_variable(uint8_t *memory, size_t size); // a .global variable of a file
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

// Returns the lowest lane of a mask.
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
