// tests/cuda_ptx/test/checks.cpp -- tests tests/cuda_ptx/ itself: small kernels with one error each
// and the expected report; among them correct kernels, which must give no report. Also checks
// instructions against results taken from the PTX ISA.
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>

#include "../../cuda_host/bulk_copies.h"
#include "../ptx.h"

namespace
{

int failed;

// Makes a kernel of one parameter: %rd0 is the address of the memory, %r0 the thread, %rd1 the
// address of the thread's 4 bytes.
std::string kernel(const std::string &body)
{
    static int count;
    return ".entry kernel" + std::to_string(count++) +
           "(\n.param .u64 memory\n)\n{\n"
           ".reg .pred %p<8>;\n.reg .f32 %f<8>;\n.reg .b32 %r<32>;\n.reg .b64 %rd<8>;\n"
           "\t.shared .align 16 .b8 part[2048];\n"
           "ld.param.u64 %rd0, [memory];\nmov.u32 %r0, %tid.x;\nmul.wide.u32 %rd1, %r0, 4;\n"
           "add.s64 %rd1, %rd0, %rd1;\nmov.u32 %r1, part;\nshl.b32 %r2, %r0, 2;\n"
           "add.s32 %r2, %r1, %r2;\nxor.b32 %r3, %r2, 4;\n" + // %r3: address of another thread's
                                                              // bytes
           body +
           "ret;\n}\n";
}

struct shape {
    unsigned blocks, threads;
    bool early;
};

void run(const std::string &body, shape s, void *memory)
{
    const cuda_host_work work = { s.blocks, s.threads, 0,
                                  s.early,  nullptr,   { cuda_host_bytes(memory) } };
    ptx::run(ptx::find_in(kernel(body), "test"), work);
}

// Returns what a function writes to standard error.
std::string told_by(const std::function<void()> &does)
{
    int ends[2];
    if (pipe(ends)) abort();
    const pid_t child = fork();
    if (!child) {
        dup2(ends[1], STDERR_FILENO);
        does();
        _exit(0);
    }
    close(ends[1]);
    std::string text;
    char part[4096];
    for (ssize_t n; (n = read(ends[0], part, sizeof part)) > 0;) text.append(part, (size_t)n);
    close(ends[0]);
    waitpid(child, nullptr, 0);
    return text;
}

// Returns the report of `body`, launched after a kernel `before`.
std::string report_of(const std::string &body, shape s, const std::string &before)
{
    return told_by([&]() {
        void *memory;
        cudaMalloc(&memory, 1024);
        const cuda_host_access access;
        if (!before.empty()) run(before, { 1, 64, false }, memory);
        run(body, s, memory);
    });
}

void expect(const char *name, const std::string &body, const char *what, shape s = { 1, 64, false },
            const std::string &before = "")
{
    const std::string text = report_of(body, s, before);
    const bool good = *what ? text.find(std::string("cuda_ptx: ") + what) == 0 : text.empty();
    if (!good) printf("%s: reported '%s', not '%s'\n", name, text.c_str(), what);
    failed += !good;
}

// --- findings ------------------------------------------------------------------------------------

const std::string put = "st.shared.u32 [%r2], %r0;\n", take = "ld.shared.u32 %r4, [%r3];\n",
                  barrier = "bar.sync 0;\n", lanes = "bar.warp.sync -1;\n",
                  shuffle = "shfl.sync.bfly.b32 %r5|%p1, %r0, 1, 31, -1;\n",
                  fetch =
                      "and.b32 %r6, %r0, 31;\nmul.wide.u32 %rd2, %r6, 16;\n"
                      "add.s64 %rd2, %rd0, %rd2;\nshl.b32 %r6, %r0, 4;\nadd.s32 %r2, %r1, %r6;\n"
                      "xor.b32 %r3, %r2, 16;\n"
                      "cp.async.cg.shared.global [%r2], [%rd2], 16;\n",
                  arrive = "cp.async.wait_all;\n", out = "st.global.u32 [%rd1], %r0;\n",
                  in = "ld.global.u32 %r4, [%rd1];\n", former = "griddepcontrol.wait;\n";

void check_shared(void)
{
    expect("no barrier", put + take, "a race:");
    expect("a barrier", put + barrier + take, "");
    expect("lanes wait", put + lanes + take, "");
    expect("other warps do not", put + barrier + "xor.b32 %r3, %r2, 128;\n" + take + lanes + put,
           "a race:");
    expect("a shuffle", put + shuffle + take, "a race across a shuffle");
    expect("no barrier before writing again", put + barrier + take + put, "a race:");
    expect("nobody wrote", take, "uninitialized shared memory");
    expect("outside", "ld.shared.u32 %r4, [%r1+2048];\n", "shared memory:");
    expect("not aligned", put + barrier + "ld.shared.u32 %r4, [%r1+2];\n", "shared memory:");
}

void check_copies(void)
{
    expect("not waited for", fetch + "ld.shared.u32 %r4, [%r2];\n", "a pending copy");
    expect("waited for by its thread", fetch + arrive + "ld.shared.u32 %r4, [%r2];\n", "");
    expect("by another", fetch + arrive + take, "a race:");
    expect("a barrier alone", fetch + barrier + take, "a pending copy");
    expect("both", fetch + arrive + barrier + take, "");
}

// Thread 0 initialises two mbarriers: %r21, at which it announces its copies to the first 128
// bytes, and %r22, at which `count` threads arrive. %p3: the threads of warp 1.
std::string setup_without_fence(const std::string &count)
{
    return "add.s32 %r21, %r1, 1024;\nadd.s32 %r22, %r1, 1032;\n"
           "setp.eq.u32 %p1, %r0, 0;\nsetp.ge.u32 %p3, %r0, 32;\n"
           "@%p1 mbarrier.init.shared::cta.b64 [%r21], 1;\n"
           "@%p1 mbarrier.init.shared::cta.b64 [%r22], " +
           count + ";\n";
}
const std::string fence = "@%p1 fence.mbarrier_init.release.cluster;\n",
                  setup = setup_without_fence("32") + fence + barrier,
                  wait = "mbarrier.try_wait.parity.shared::cta.b64 %p2, ",
                  full = wait + "[%r21], 0;\n", full_again = wait + "[%r21], 1;\n",
                  empty = "@%p1 " + wait + "[%r22], 0;\n",
                  release = "mbarrier.arrive.shared::cta.b64 _, [%r22];\n",
                  look = "ld.shared.u32 %r4, [%r1+64];\n";

std::string expecting(const std::string &bytes)
{
    return "@%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r21], " + bytes + ";\n";
}

std::string bulk(const std::string &to, const std::string &from, const std::string &bytes)
{
    return "@%p1 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [" + to +
           "], [" + from + "], " + bytes + ", [%r21];\n";
}
const std::string supply = expecting("128") + bulk("%r1", "%rd0", "128");

void check_bulk_copies(void)
{
    expect("all wait", setup + supply + full + look, "");
    expect("nobody waits", setup + supply + look, "a pending copy");
    expect("one waits", setup + supply + "@%p1 " + full + look, "a race:");
    expect("one waits, then a barrier", setup + supply + "@%p1 " + full + barrier + look, "");
    expect("a barrier alone", setup + supply + barrier + look, "a pending copy");
    expect("120 bytes", setup + expecting("120") + bulk("%r1", "%rd0", "120"), "a bulk copy: 120");
    expect("from 8", setup + expecting("128") + bulk("%r1", "%rd0+8", "128"), "a bulk copy: 128");
    expect("to 8", setup + expecting("128") + bulk("%r1+8", "%rd0", "128"), "a bulk copy: 128");
    expect("past shared memory", setup + expecting("128") + bulk("%r1+1984", "%rd0", "128"),
           "a bulk copy: 128 bytes to");
    expect("past global memory", setup + expecting("128") + bulk("%r1", "%rd0+960", "128"),
           "global memory");
    expect("expects fewer bytes", setup + expecting("64") + bulk("%r1", "%rd0", "128") + full,
           "a transaction count");
    expect("expects more bytes", setup + expecting("256") + bulk("%r1", "%rd0", "128") + full,
           "kernel");
    expect("two copies to one place",
           setup + expecting("256") + bulk("%r1", "%rd0", "128") + bulk("%r1+16", "%rd0", "128"),
           "a bulk copy: overwrites");
    const shape early = { 1, 64, true };
    expect("of unfinished work", setup + supply + former, "an early start: it reads", early, out);
    expect("of finished work", setup + supply + former + full + look, "", early);
    expect("no fence", setup_without_fence("1") + barrier + supply, "a bulk copy: no fence");
    expect("over a thread's data", setup + put + barrier + supply, "a bulk copy: overwrites");
    expect("over data behind a fence",
           setup + put + "fence.proxy.async.shared::cta;\n" + barrier + supply, "");
}

// Thread 0 refills the memory that warp 1 reads.
std::string ring(const std::string &count, const std::string &producer, const std::string &consumer)
{
    return setup_without_fence(count) + fence + barrier + "@%p3 bra $consumer;\n" + supply +
           producer + supply + "bra $end;\n$consumer:\n" + full + consumer + full_again + look +
           "$end:\n";
}

void check_ring(void)
{
    const char *const overwritten = "a bulk copy: overwrites";
    const std::string one = "setp.eq.u32 %p4, %r0, 32;\n@%p4 " + release;
    expect("refilled after all have arrived", ring("32", empty, look + release), "");
    // Warp 1 misses a phase.
    expect("refilled at once", ring("32", "@%p1 " + full, look + release), "kernel");
    expect("read after arriving", ring("32", empty, look + release + look), overwritten);
    expect("one arrives for its warp", ring("1", empty, look + lanes + one), "");
    expect("one arrives for itself", ring("1", empty, look + one), overwritten);
    expect("nobody arrives", ring("1", empty, look), "kernel");
}

void check_mbarriers(void)
{
    expect("not initialised", "add.s32 %r21, %r1, 1024;\n" + full, "an mbarrier: none");
    expect("used before others see it", setup_without_fence("32") + fence + "@%p3 " + release,
           "a race:");
    expect("accessed as data", setup + "ld.shared.u32 %r4, [%r21];\n", "an mbarrier: the one");
    expect("initialised twice", setup + setup_without_fence("1"), "an mbarrier: the one");
    const std::string end = "@%p1 mbarrier.inval.shared::cta.b64 [%r21];\n",
                      data = "@%p1 st.shared.u32 [%r21], %r0;\n";
    expect("data in its place", setup + data, "an mbarrier: the one");
    expect("data after it", setup + end + data, "");
    expect("used after its end", setup + end + full, "an mbarrier: none");
    expect("too many arrivals",
           setup + expecting("128") + "@%p1 mbarrier.arrive.shared::cta.b64 _, [%r21];\n",
           "an mbarrier: more than");
    expect("a wrong parity", setup + "mbarrier.test_wait.parity.shared::cta.b64 %p2, [%r21], 2;\n",
           "an mbarrier: it");
    expect("another state space", setup + "mbarrier.arrive.global.b64 _, [%rd0];\n",
           "unknown instruction");
}

// With CUDA_PTX_GO_ON, the program also continues after a copy from an address without memory.
void check_goes_on(void)
{
    const std::string text = told_by([]() {
        setenv("CUDA_PTX_GO_ON", "1", 1);
        void *memory;
        cudaMalloc(&memory, 1024);
        const cuda_host_access access;
        run(setup + "mov.u64 %rd2, 4096;\n" + expecting("128") + bulk("%r1", "%rd2", "128") + full +
                "ld.shared.u32 %r4, [%r1+2048];\n",
            { 1, 64, false }, memory);
    });
    const bool good = text.find("global memory: ") != text.npos &&
                      text.find("cuda_ptx: shared memory: ") != text.npos;
    if (!good) printf("going on: reported '%s'\n", text.c_str());
    failed += !good;
}

// The emulation's own mbarriers (tests/cuda_host/bulk_copies.h): thread 0 fills, warp 1 reads.
void check_host(const char *name, unsigned expected, unsigned bytes, bool arrives, const char *want)
{
    static uint64_t full, empty;
    alignas(16) static char from[2][128], to[128];
    from[0][5] = 1, from[1][5] = 2;
    const std::string text = told_by([&]() {
        cuda_host_launch({ 1 }, { 64 }, 0, [&]() {
            if (threadIdx.x == 0) bulk_barrier_init(&full, 1), bulk_barrier_init(&empty, 32);
            bulk_barriers_ready();
            __syncthreads();
            for (unsigned phase = 0; phase < 2 && threadIdx.x == 0; phase++) {
                if (phase) bulk_wait(&empty, 0);
                bulk_expect(&full, expected);
                bulk_copy(to, from[phase], bytes, &full);
            }
            for (unsigned phase = 0; phase < 2 && threadIdx.x >= 32; phase++) {
                bulk_wait(&full, phase);
                if (to[5] != from[phase][5]) fprintf(stderr, "old data\n");
                if (arrives) bulk_arrive(&empty);
            }
        });
    });
    const bool good = *want ? text.find(want) != std::string::npos : text.empty();
    if (!good) printf("%s: reported '%s', not '%s'\n", name, text.c_str(), want);
    failed += !good;
}

void check_host_copies(void)
{
    check_host("a ring", 128, 128, true, "");
    check_host("fewer bytes expected", 64, 128, true, "a bulk copy: 128 bytes arrive");
    check_host("more bytes expected", 256, 128, true, "a thread waits at an mbarrier: 1 of 1");
    check_host("nobody arrives", 128, 128, false, "a thread waits at an mbarrier: 0 of 32");
    check_host("a wrong size", 120, 120, true, "a bulk copy: 120 bytes from");
}

void check_global(void)
{
    const std::string wide = "ld.global.v4.u32 {%r4, %r5, %r6, %r7}, [%rd0+8];\n";
    expect("inside", in + out, "");
    expect("outside", "ld.global.u32 %r4, [%rd1+1024];\n", "global memory:");
    expect("the last and one more", "st.global.u64 [%rd0+1020], %rd0;\n", "global memory:");
    expect("not aligned", wide, "global memory:");
    expect("several blocks write", out, "a race between blocks in global memory", { 2, 64, false });
    expect("several blocks read", in, "", { 2, 64, false });
    const std::string count = "atom.global.inc.u32 %r5, [%rd0+512], 1;\n", fence = "membar.gl;\n",
                      first = "mov.u32 %r6, %ctaid.x;\nsetp.ne.u32 %p1, %r6, 0;\n"
                              "@%p1 bra $second;\n" +
                              out,
                      second = "ret;\n$second:\n";
    expect("handed over", first + fence + barrier + count + second + count + fence + in, "",
           { 2, 64, false });
    expect("handed over without a fence", first + barrier + count + second + count + fence + in,
           "a race between blocks in global memory", { 2, 64, false });
    expect("taken without one", first + fence + barrier + count + second + count + in,
           "a race between blocks in global memory", { 2, 64, false });
    expect("read as constant", out + "ld.global.nc.u32 %r4, [%rd1];\n",
           "a race between blocks in global memory");
}

void check_early(void)
{
    const shape early = { 1, 64, true };
    expect("reads before", in + former, "an early start: it reads", early, out);
    expect("reads what is old", in + former + out, "", early);
    expect("reads behind", former + in + out, "", early, out);
    expect("writes before", out + former, "an early start: it writes", early);
    expect("never waits", "", "an early start: a thread ends", early);
    expect("some never wait", "setp.lt.u32 %p1, %r0, 60;\n@%p1 bra $here;\nret;\n$here:\n" + former,
           "an early start: a thread ends", early);
}

void check_waits(void)
{
    const std::string half = "setp.lt.u32 %p1, %r0, 16;\n";
    expect("half a warp at a barrier", half + "@%p1 bra $here;\nbar.sync 0;\n$here:\n", "kernel");
    expect("half a warp shuffles", half + "@%p1 bra $here;\n" + shuffle + "$here:\n", "kernel");
    expect("a warp at no barrier",
           "setp.lt.u32 %p1, %r0, 32;\n@%p1 bra $here;\nbar.sync 0;\n$here:\n", "kernel");
    expect("an instruction of another GPU", "tanh.approx.f32 %f1, %f2;\n", "unknown instruction");
}

// --- results -------------------------------------------------------------------------------------

// Expects these 4 bytes in %r10 of each of 32 threads at the end.
void expect_words(const char *name, const std::string &body, uint32_t (*want)(uint32_t lane))
{
    void *memory;
    cudaMalloc(&memory, 1024);
    const cuda_host_access access;
    run(body + "st.global.u32 [%rd1], %r10;\n", { 1, 32, false }, memory);
    for (uint32_t l = 0; l < 32; l++) {
        uint32_t got;
        memcpy(&got, (char *)memory + 4 * l, sizeof got);
        if (got == want(l)) continue;
        printf("%s: lane %u has %#x, not %#x\n", name, l, got, want(l));
        failed++;
        return;
    }
    cudaFree(memory);
}

void check_lanes(void)
{
    expect_words("bfly", "shfl.sync.bfly.b32 %r10|%p1, %r0, 5, 31, -1;\n",
                 [](uint32_t l) { return l ^ 5; });
    expect_words("up", "shfl.sync.up.b32 %r10|%p1, %r0, 3, 0, -1;\n",
                 [](uint32_t l) { return l < 3 ? l : l - 3; });
    expect_words("idx of eight", "shfl.sync.idx.b32 %r10|%p1, %r0, 2, 6175, -1;\n", // 0x181f
                 [](uint32_t l) { return (l & 24) + 2; });
    expect_words("min of pc",
                 "mov.u32 %r10, 0;\n$again:\nadd.s32 %r10, %r10, 2;\n"
                 "setp.lt.u32 %p1, %r10, %r0;\n@%p1 bra $again;\n",
                 [](uint32_t l) { return l < 3 ? 2 : (l + 1) / 2 * 2; });
    expect_words("shr", "mov.u32 %r5, -64;\nadd.s32 %r6, %r0, 28;\nshr.s32 %r10, %r5, %r6;\n",
                 [](uint32_t) { return 0xffffffff; });
    expect_words("prmt", "mov.u32 %r5, 0x84030201;\nprmt.b32 %r10, %r5, %r0, 0xb043;\n",
                 [](uint32_t l) { return 0xff010084u | l << 8; });
    expect_words("bf16x2",
                 "mov.f32 %f1, 0f3F800000;\nmov.f32 %f2, 0f40490FDB;\n"
                 "cvt.rn.bf16x2.f32 %r10, %f1, %f2;\n",
                 [](uint32_t) { return 0x3f804049u; });
    expect_words("fma.rm",
                 "mov.f32 %f1, 0fBF800000;\nmov.f32 %f2, 0f33000000;\n"
                 "fma.rm.f32 %f3, %f1, %f2, 0f3F800000;\nmov.b32 %r10, %f3;\n",
                 [](uint32_t) { return 0x3f7fffffu; });
    expect_words("add.rz",
                 "mov.f32 %f1, 0f3F800000;\nadd.rz.f32 %f3, %f1, 0f33C00000;\nmov.b32 %r10, %f3;\n",
                 [](uint32_t) { return 0x3f800000u; });
}

// Shared memory holds the 16-bit integers 0, 1, ...; each lane has a row of eight.
const std::string rows = "shl.b32 %r5, %r0, 4;\nadd.s32 %r5, %r1, %r5;\nshl.b32 %r6, %r0, 3;\n"
                         "mad.lo.s32 %r7, %r6, 65537, 65536;\nadd.s32 %r8, %r7, 131074;\n"
                         "st.shared.v2.u32 [%r5], {%r7, %r8};\nadd.s32 %r7, %r7, 262148;\n"
                         "add.s32 %r8, %r8, 262148;\nst.shared.v2.u32 [%r5+8], {%r7, %r8};\n"
                         "bar.sync 0;\n";

void check_matrices(void)
{
    // Row l / 4 of matrix 2, elements 2 (l % 4) and 2 (l % 4) + 1; then transposed.
    expect_words("ldmatrix",
                 rows +
                     "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r12, %r13, %r10, %r14}, [%r5];\n",
                 [](uint32_t l) {
                     const uint32_t first = 128 + l / 4 * 8 + l % 4 * 2;
                     return first | (first + 1) << 16;
                 });
    expect_words(
        "ldmatrix.trans",
        rows + "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%r12, %r13, %r10, %r14}, [%r5];\n",
        [](uint32_t l) {
            const uint32_t first = 128 + l % 4 * 2 * 8 + l / 4;
            return first | (first + 8) << 16;
        });
    // a is 1 only at (8 + 3, 2 * 2 + 8 + 1) (lane 14, a3, upper half), b[k][column] is k + 1 in
    // column 5 alone: c[11][5] = 14, which lane 14 holds as c3.
    expect_words("mma",
                 "setp.eq.s32 %p1, %r0, 14;\nselp.b32 %r6, 0x3f800000, 0, %p1;\nmov.u32 %r5, 0;\n"
                 "shr.u32 %r7, %r0, 2;\nsetp.eq.s32 %p2, %r7, 5;\nand.b32 %r8, %r0, 3;\n"
                 "shl.b32 %r8, %r8, 1;\nadd.s32 %r8, %r8, 9;\ncvt.rn.f32.s32 %f1, %r8;\n"
                 "add.s32 %r8, %r8, 1;\ncvt.rn.f32.s32 %f2, %r8;\n"
                 "cvt.rn.bf16x2.f32 %r9, %f2, %f1;\nselp.b32 %r9, %r9, 0, %p2;\n"
                 "mov.f32 %f3, 0f00000000;\n"
                 "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%f4, %f5, %f6, %f7}, "
                 "{%r5, %r5, %r5, %r6}, {%r5, %r9}, {%f3, %f3, %f3, %f3};\nmov.b32 %r10, %f7;\n",
                 [](uint32_t l) { return l == 14 ? 0x41600000u : 0u; });
}
} // namespace

int main(void)
{
    setenv("CUDA_HOST_PTX", ".", 1);
    unsetenv("CUDA_PTX_GO_ON");
    check_shared();
    check_copies();
    check_bulk_copies();
    check_goes_on();
    check_ring();
    check_mbarriers();
    check_host_copies();
    check_global();
    check_early();
    check_waits();
    check_lanes();
    check_matrices();
    if (!failed) printf("[       OK ] reports all errors, and nothing else\n");
    return failed != 0;
}
