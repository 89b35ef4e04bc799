// tests/cuda_host/fibers.cpp -- runs a kernel's threads as fibers and schedules them.
//
// A fiber whose thread has ended continues with the next thread of the block, so a kernel without
// barriers needs no switch. A fiber whose thread waits is suspended, and another fiber runs the
// next thread.
#include <stdio.h>
#include <stdlib.h>
#include <ucontext.h>

#include <vector>

#include "cuda_runtime.h"

uint3 threadIdx, blockIdx;
dim3 blockDim, gridDim;

// --- switching -----------------------------------------------------------------------------------
// A reduction of a warp switches hundreds of times, and swapcontext makes a system call each time,
// so it is used only on processors for which there is no assembly below.

struct context {
#ifdef __x86_64__
    void *stack;
#else
    ucontext_t saved;
#endif
};

#ifdef __x86_64__
// Pushes the callee-saved registers, switches to the other stack, and pops its registers.
extern "C" void cuda_host_switch(void **from, void *to);
asm(".text\n.globl cuda_host_switch\n.type cuda_host_switch, @function\ncuda_host_switch:\n"
    "pushq %rbp\n pushq %rbx\n pushq %r12\n pushq %r13\n pushq %r14\n pushq %r15\n"
    "movq %rsp, (%rdi)\n movq %rsi, %rsp\n"
    "popq %r15\n popq %r14\n popq %r13\n popq %r12\n popq %rbx\n popq %rbp\n ret\n"
    ".size cuda_host_switch, .-cuda_host_switch\n");

static void go(context *from, context *to)
{
    cuda_host_switch(&from->stack, to->stack);
}

// Prepares a stack as if `run` had just been called.
static void context_init(context *p, void (*run)(void), size_t size)
{
    void **top = (void **)((char *)malloc(size) + size) -
                 1; // after a call the stack is 8 bytes off a multiple of 16
    *top-- = nullptr;
    *top = (void *)run;
    for (int i = 0; i < 6; i++) *--top = nullptr;
    p->stack = top;
}
#else
static void go(context *from, context *to)
{
    swapcontext(&from->saved, &to->saved);
}

static void context_init(context *p, void (*run)(void), size_t size)
{
    getcontext(&p->saved);
    p->saved.uc_stack.ss_sp = malloc(size);
    p->saved.uc_stack.ss_size = size;
    p->saved.uc_link = nullptr;
    makecontext(&p->saved, run, 0);
}
#endif

// --- scheduling ----------------------------------------------------------------------------------
namespace
{

enum { WARP = 32, MOST_GIVEN = 32, MOST_MADE = 512, STACK = 256 * 1024 };
enum state { RUNS, AT_WARP, AT_BLOCK, AT_CONDITION, ENDED };

struct fiber {
    context at;
};

struct thread {
    state now;
    fiber *on;
    uint64_t given[2]; // inputs of shuffles: two slots, so that one barrier per shuffle suffices
    unsigned shuffles, tables;
    uint3 index;
    // Of a thread AT_CONDITION (cuda_host_wait).
    bool (*ready)(void *what);
    void (*report)(void *what);
    void *what;
};

// The inputs of a warp's lanes and the result made from them, in two slots each.
struct table {
    alignas(16) char given[2][WARP * MOST_GIVEN];
    alignas(16) char made[2][MOST_MADE];
    bool done[2];
};

std::vector<fiber *> &idle = *new std::vector<fiber *>(); // never freed
std::vector<thread> threads;
std::vector<table> tables; // one per warp
size_t count, begun;       // threads of the block: all, and those that have begun
size_t current;            // the thread that runs
fiber *starting;           // the fiber that `resume` switches to
unsigned blocks;           // blocks begun so far
bool back;                 // the last thread runs first
context scheduler;
const std::function<void()> *kernel_call;
std::vector<uint64_t> dynamic_memory;

// Returns the thread of from..to-1 that runs as the nth.
size_t nth(size_t n, size_t from, size_t to)
{
    return back ? to - 1 - n : from + n;
}

void set_current(size_t t)
{
    current = t;
    threadIdx = threads[t].index;
}

// A fiber's main function: runs threads one after the other, then waits for the next block.
void fiber_main(void)
{
    fiber *const self = starting;
    for (;;) {
        while (begun < count) {
            const size_t t = nth(begun++, 0, count);
            const unsigned i = (unsigned)t;
            threads[t] = {
                RUNS,
                self,
                { 0, 0 },
                0,
                0,
                { i % blockDim.x, i / blockDim.x % blockDim.y, i / blockDim.x / blockDim.y },
                nullptr,
                nullptr,
                nullptr
            };
            set_current(t);
            (*kernel_call)();
            threads[t].now = ENDED;
        }
        idle.push_back(self);
        go(&self->at, &scheduler);
    }
}

fiber *fiber_new(void)
{
    fiber *f = new fiber();
    context_init(&f->at, fiber_main, STACK);
    return f;
}

fiber *fiber_take(void)
{
    if (idle.empty()) return fiber_new();
    fiber *f = idle.back();
    idle.pop_back();
    return f;
}

// Runs f until it waits or has nothing more to do.
void resume(fiber *f)
{
    starting = f;
    go(&scheduler, &f->at);
}

void wait_as(state s)
{
    const size_t t = current;
    threads[t].now = s;
    go(&threads[t].on->at, &scheduler);
    set_current(t);
    threads[t].now = RUNS;
}

// Resumes threads from..to-1 if all wait there; else returns false.
bool release(size_t from, size_t to, state where)
{
    for (size_t t = from; t < to; t++)
        if (threads[t].now != where) return false;
    for (size_t n = 0; n < to - from; n++) resume(threads[nth(n, from, to)].on);
    return true;
}

// Resumes threads whose condition has become true; false if none has.
bool release_ready(void)
{
    bool went = false;
    for (size_t n = 0; n < count; n++) {
        const thread &t = threads[nth(n, 0, count)];
        if (t.now != AT_CONDITION || !t.ready(t.what)) continue;
        resume(t.on);
        went = true;
    }
    return went;
}

[[noreturn]] void report_hang(void)
{
    size_t told = count / WARP; // the last warp of which a thread was reported
    for (size_t t = 0; t < count; t++) {
        if (threads[t].now != AT_CONDITION || t / WARP == told) continue;
        threads[t].report(threads[t].what);
        told = t / WARP;
    }
    fprintf(stderr, "a kernel hangs: not all threads reach its barrier\n");
    abort();
}

void run_block(void)
{
    begun = 0;
    while (begun < count) resume(fiber_take());
    for (;;) {
        bool went = false, ended = true;
        for (size_t n = 0; n < count / WARP; n++) {
            const size_t t = nth(n, 0, count / WARP) * WARP;
            while (release(t, t + WARP, AT_WARP)) went = true;
        }
        if (release_ready()) went = true;
        if (release(0, count, AT_BLOCK)) went = true;
        for (size_t t = 0; t < count; t++) ended = ended && threads[t].now == ENDED;
        if (ended) return;
        if (!went) report_hang();
    }
}
} // namespace

static void launch(dim3 grid, dim3 block, size_t dynamic, const std::function<void()> &kernel,
                   bool corners)
{
    cuda_host_access access;
    const char *const order = getenv("CUDA_HOST_ORDER");
    back = order && !strcmp(order, "back");
    gridDim = grid;
    blockDim = block;
    count = (size_t)block.x * block.y * block.z;
    kernel_call = &kernel;
    if (count % WARP) {
        fprintf(stderr, "a kernel's block of %zu threads is not a multiple of 32\n", count);
        abort();
    }
    if (threads.size() < count) threads.resize(count);
    if (tables.size() < count / WARP) tables.resize(count / WARP);
    const auto step = [=](unsigned n) { return corners && n > 1 ? n - 1 : 1; };
    for (unsigned z = 0; z < grid.z; z += step(grid.z))
        for (unsigned y = 0; y < grid.y; y += step(grid.y))
            for (unsigned x = 0; x < grid.x; x += step(grid.x)) {
                blockIdx = { x, y, z };
                blocks++;
                dynamic_memory.assign(dynamic / 8 + 2, corners ? 0 : UINT64_MAX);
                run_block();
            }
}

void cuda_host_launch(dim3 grid, dim3 block, size_t dynamic, const std::function<void()> &kernel)
{
    launch(grid, block, dynamic, kernel, false);
}

void cuda_host_launch_corners(dim3 grid, dim3 block, size_t dynamic,
                              const std::function<void()> &kernel)
{
    launch(grid, block, dynamic, kernel, true);
}

void *cuda_host_shared(void)
{
    return (void *)(((uintptr_t)dynamic_memory.data() + 15) / 16 * 16);
}

void __syncthreads(void)
{
    wait_as(AT_BLOCK);
}

unsigned cuda_host_lane(void)
{
    return (unsigned)(current % WARP);
}

void cuda_host_wait(bool (*ready)(void *what), void (*report)(void *what), void *what)
{
    thread &mine = threads[current];
    mine.ready = ready, mine.report = report, mine.what = what;
    wait_as(AT_CONDITION);
}

unsigned cuda_host_block(void)
{
    return blocks;
}

const void *cuda_host_collective(const void *mine, size_t size,
                                 void (*make)(const void *all, void *made))
{
    const size_t t = current;
    const unsigned turn = threads[t].tables++ % 2;
    table *const own = &tables[t / WARP];
    memcpy(own->given[turn] + t % WARP * size, mine, size);
    own->done[turn] = false;
    wait_as(AT_WARP);
    if (!own->done[turn]) make(own->given[turn], own->made[turn]);
    own->done[turn] = true;
    return own->made[turn];
}

uint64_t cuda_host_shuffle(uint64_t mine, unsigned from)
{
    const size_t t = current;
    const unsigned turn = threads[t].shuffles++ % 2;
    threads[t].given[turn] = mine;
    wait_as(AT_WARP);
    return threads[t / WARP * WARP + from % WARP].given[turn];
}
