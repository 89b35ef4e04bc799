// kernels/cpu.c -- the CPU device: memory, threads, and the choice of the instruction set.
#include <omp.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef __linux__
#include <sys/mman.h>
#endif
#if defined(HAVE_AVX) && defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include "kernels/isa.h"

// The kernels of each instruction set that the Makefile compiles.
#define ROW_KERNELS(isa)                                \
    int64_t few_rows_##isa(void);                       \
    int expert_rows_##isa(const struct expert_rows *p); \
    int ffn_rows_##isa(const struct fused_ffn *p);
#define OP(name, arguments) int name##_base arguments;
#include "kernels/ops.h"
#undef OP
ROW_KERNELS(base)
#ifdef HAVE_AVX
#define OP(name, arguments)      \
    int name##_avx2 arguments;   \
    int name##_avx512 arguments; \
    int name##_amx arguments;
#include "kernels/ops.h"
#undef OP
ROW_KERNELS(avx2)
ROW_KERNELS(avx512)
ROW_KERNELS(amx)
extern const struct packed_ops products_amx;
int rows_products_amx(const struct rows_products *p);
int rope_tail_amx(struct tensor *x, int64_t first, const struct tensor *cos,
                  const struct tensor *sin);
#endif

static _Thread_local char failure_text[256];

int cpu_fail(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(failure_text, sizeof failure_text, format, args);
    va_end(args);
    return -1;
}

static const char *cpu_failure(void)
{
    return failure_text;
}

// Requests 2 MB pages for large buffers, because streaming the buffers then needs far fewer address
// translations. Linux may refuse the request.
static void *pages_alloc(size_t bytes)
{
    enum { SMALL = 64, LARGE = 2 << 20 };
    const size_t align = bytes < 2 * (size_t)LARGE ? SMALL : LARGE;
    const size_t rounded = (bytes + SMALL - 1) / SMALL * SMALL;
    if (rounded < bytes) return NULL;
    void *memory; // aligned_alloc would need a size that is a multiple of 2 MB
    if (posix_memalign(&memory, align, rounded ? rounded : SMALL) != 0) return NULL;
#ifdef MADV_HUGEPAGE
    if (align == LARGE) madvise(memory, rounded / LARGE * LARGE, MADV_HUGEPAGE);
#endif
    return memory;
}

static _Thread_local void *scratch_memory;
static _Thread_local size_t scratch_size;

// Frees the scratch buffer when the thread ends.
static pthread_key_t scratch_key;
static pthread_once_t scratch_once = PTHREAD_ONCE_INIT;

static void make_scratch_key(void)
{
    pthread_key_create(&scratch_key, free);
}

// Each thread has one scratch buffer until the thread ends; the buffer only grows.
void *cpu_scratch(size_t bytes)
{
    if (bytes <= scratch_size) return scratch_memory;
    pthread_once(&scratch_once, make_scratch_key);
    pthread_setspecific(scratch_key, NULL);
    free(scratch_memory);
    scratch_memory = NULL;
    scratch_size = 0;
    size_t rounded = (bytes + 4095) / 4096 * 4096;
    if (rounded < bytes || !(scratch_memory = pages_alloc(rounded))) {
        cpu_fail("out of memory: a kernel needs %.1f MB of scratch", (double)bytes / 1e6);
        return NULL;
    }
    scratch_size = rounded;
    pthread_setspecific(scratch_key, scratch_memory);
    return scratch_memory;
}

static size_t cpu_scratch_held(void)
{
    return scratch_size;
}

static void cpu_copy(void *to, const void *from, size_t bytes)
{
    if (bytes) memcpy(to, from, bytes);
}

static void cpu_set_threads(int count)
{
    omp_set_num_threads(count > 0 ? count : omp_get_num_procs());
}

static int cpu_threads(void)
{
    return omp_get_max_threads();
}

#ifdef HAVE_AVX
static bool cpu_has_bf16(void)
{
    return __builtin_cpu_supports("avx512bf16");
}

// Zen 4 and 5 multiply twice as many bf16 as floats. On Intel's cores the bf16 vector instruction
// is slower than f32 instructions (docs/speed.md), so bf16 pays off there only with AMX.
static bool cpu_favours_bf16(void)
{
    return cpu_has_bf16() && __builtin_cpu_is("amd");
}

static bool yes(void)
{
    return true;
}

static bool has_avx2(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}

static bool has_avx512(void)
{
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
           __builtin_cpu_supports("avx512vnni");
}

static bool may_use_tiles;

// Requests the tile registers from Linux, which may refuse, as in some virtual machines.
static void request_tiles(void)
{
#if defined(SYS_arch_prctl)
    enum { ARCH_REQ_XCOMP_PERM = 0x1023, XFEATURE_XTILEDATA = 18 };
    may_use_tiles = has_avx512() && cpu_has_bf16() && __builtin_cpu_supports("amx-tile") &&
                    __builtin_cpu_supports("amx-bf16") &&
                    !syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA);
#endif
}

static bool has_amx(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, request_tiles);
    return may_use_tiles;
}
#endif

static const char *cpu_describe_as(const char *isa)
{
    static char text[96];
    snprintf(text, sizeof text, "cpu (%s, %d thread%s)", isa, cpu_threads(),
             cpu_threads() == 1 ? "" : "s");
    return text;
}

#define CPU_DEVICE(isa, title)              \
    static const char *describe_##isa(void) \
    {                                       \
        return cpu_describe_as(title);      \
    }                                       \
    static const struct backend cpu_##isa
#define CPU_COMMON(isa)                                                              \
    .name = "cpu", .alloc = pages_alloc, .release = free, .upload = cpu_copy,        \
    .download = cpu_copy, .set_threads = cpu_set_threads, .threads = cpu_threads,    \
    .scratch = cpu_scratch_held, .failure = cpu_failure, .describe = describe_##isa, \
    .few_rows = few_rows_##isa, .expert_rows = expert_rows_##isa, .ffn_rows = ffn_rows_##isa

CPU_DEVICE(base, "base") = {
    CPU_COMMON(base),
#define OP(name, arguments) .name = name##_base,
#include "kernels/ops.h"
#undef OP
};

#ifdef HAVE_AVX
CPU_DEVICE(avx2, "avx2") = {
    CPU_COMMON(avx2),
#define OP(name, arguments) .name = name##_avx2,
#include "kernels/ops.h"
#undef OP
};

CPU_DEVICE(avx512, cpu_has_bf16() ? "avx512 + bf16" : "avx512") = {
    CPU_COMMON(avx512),
    .multiplies_bf16 = cpu_has_bf16,
    .favours_bf16 = cpu_favours_bf16,
#define OP(name, arguments) .name = name##_avx512,
#include "kernels/ops.h"
#undef OP
};

CPU_DEVICE(amx, "avx512 + amx") = {
    CPU_COMMON(amx),
    .products = &products_amx,
    .rows_products = rows_products_amx,
    .rope_tail = rope_tail_amx,
    .multiplies_bf16 = yes,
    .favours_bf16 = yes,
#define OP(name, arguments) .name = name##_amx,
#include "kernels/ops.h"
#undef OP
};
#endif

// Instruction sets in ascending order of speed.
static const struct {
    const char *name;
    const struct backend *backend;
    bool (*runs)(void); // NULL: everywhere
} sets[] = {
    { "base", &cpu_base, NULL },
#ifdef HAVE_AVX
    { "avx2", &cpu_avx2, has_avx2 },
    { "avx512", &cpu_avx512, has_avx512 },
    { "amx", &cpu_amx, has_amx },
#endif
};
enum { SETS = sizeof sets / sizeof *sets };

const struct backend *backend_cpu_isa(const char *isa)
{
    for (int i = 0; i < SETS; i++)
        if (!strcmp(isa, sets[i].name))
            return !sets[i].runs || sets[i].runs() ? sets[i].backend : NULL;
    return NULL;
}

const char *backend_isa_name(int i)
{
    return i < SETS ? sets[i].name : NULL;
}

// VLMSH_ISA selects an instruction set, for measurements and tests; device_check_isa rejects wrong
// names.
const struct backend *backend_cpu(void)
{
    const char *named = getenv("VLMSH_ISA");
    const struct backend *b = named ? backend_cpu_isa(named) : NULL;
    for (int i = SETS; !b; i--) b = backend_cpu_isa(sets[i - 1].name);
    return b;
}
