// tests/cuda_ptx/arithmetic.cpp -- instructions that each lane executes alone: a table by name.
//
// Templates make an instruction's function, a loop over the lanes, from its operation on one lane.
#include <fenv.h>
#include <float.h>
#include <limits.h>
#include <math.h>

#include <type_traits>

#include "../cuda_host/half.h"
#include "ptx.h"

namespace ptx
{
namespace
{

struct row {
    action run;
    std::vector<unsigned> bytes; // size of each operand; 0: a predicate
};
typedef std::map<std::string, row> table;
const char *const WIDER = " of 8 bytes";

// --- from one lane to all ------------------------------------------------------------------------

template <typename D, typename A, typename F> void one(warp &w, const instruction &i, uint32_t on)
{
    D *const d = w.at<D>(i.at[0]);
    const A *const a = w.at<A>(i.at[1]);
    if (on == ALL) {
#pragma GCC ivdep
        for (unsigned l = 0; l < LANES; l++) d[l] = F()(a[l]);
    } else {
        for_lanes(on, [&](unsigned l) { d[l] = F()(a[l]); });
    }
}

template <typename D, typename A, typename B, typename F>
void two(warp &w, const instruction &i, uint32_t on)
{
    D *const d = w.at<D>(i.at[0]);
    const A *const a = w.at<A>(i.at[1]);
    const B *const b = w.at<B>(i.at[2]);
    if (on == ALL) {
#pragma GCC ivdep
        for (unsigned l = 0; l < LANES; l++) d[l] = F()(a[l], b[l]);
    } else {
        for_lanes(on, [&](unsigned l) { d[l] = F()(a[l], b[l]); });
    }
}

template <typename T, typename F> void three(warp &w, const instruction &i, uint32_t on)
{
    T *const d = w.at<T>(i.at[0]);
    const T *const a = w.at<T>(i.at[1]), *const b = w.at<T>(i.at[2]), *const c = w.at<T>(i.at[3]);
    if (on == ALL) {
#pragma GCC ivdep
        for (unsigned l = 0; l < LANES; l++) d[l] = F()(a[l], b[l], c[l]);
    } else {
        for_lanes(on, [&](unsigned l) { d[l] = F()(a[l], b[l], c[l]); });
    }
}

template <typename T, typename F> void compare(warp &w, const instruction &i, uint32_t on)
{
    const T *const a = w.at<T>(i.at[1]), *const b = w.at<T>(i.at[2]);
    uint32_t *const d = w.at<uint32_t>(i.at[0]), yes = 0;
    for (unsigned l = 0; l < LANES; l++) yes |= (uint32_t)F()(a[l], b[l]) << l;
    *d = (*d & ~on) | (yes & on);
}

// Predicates have one bit per lane.
template <typename F> void logic(warp &w, const instruction &i, uint32_t on)
{
    uint32_t *const d = w.at<uint32_t>(i.at[0]);
    *d = (*d & ~on) | (F()(*w.at<uint32_t>(i.at[1]), *w.at<uint32_t>(i.at[2])) & on);
}

template <bool NOT> void logic_one(warp &w, const instruction &i, uint32_t on)
{
    const uint32_t a = *w.at<uint32_t>(i.at[1]);
    uint32_t *const d = w.at<uint32_t>(i.at[0]);
    *d = (*d & ~on) | ((NOT ? ~a : a) & on);
}

template <typename T> void select(warp &w, const instruction &i, uint32_t on)
{
    T *const d = w.at<T>(i.at[0]);
    const T *const a = w.at<T>(i.at[1]), *const b = w.at<T>(i.at[2]);
    const uint32_t which = *w.at<uint32_t>(i.at[3]);
    for_lanes(on, [&](unsigned l) { d[l] = which >> l & 1 ? a[l] : b[l]; });
}

// --- operations on one lane ----------------------------------------------------------------------

#define TO_ONE(name, expression)                      \
    struct name {                                     \
        template <typename T> T operator()(T a) const \
        {                                             \
            return expression;                        \
        }                                             \
    }
#define TO_TWO(name, expression)                           \
    struct name {                                          \
        template <typename T> T operator()(T a, T b) const \
        {                                                  \
            return expression;                             \
        }                                                  \
    }
TO_TWO(plus, (T)(a + b));
TO_TWO(minus, (T)(a - b));
TO_TWO(times, (T)(a *b));
TO_TWO(over, (T)(a / b));
TO_TWO(both, (T)(a &b));
TO_TWO(either, (T)(a | b));
TO_TWO(differ, (T)(a ^ b));
TO_TWO(least, b < a ? b : a);
TO_TWO(most, a < b ? b : a);
TO_ONE(same, a);
TO_ONE(inverse, (T)~a);
TO_ONE(negative, (T)-a);

// Division by 0 is undefined in PTX: any value is allowed, but the host must not trap.
struct quotient {
    template <typename T> T operator()(T a, T b) const
    {
        if (!b) return (T)-1;
        return std::is_signed<T>::value && b == (T)-1 ? (T)(0 - (uint64_t)a) : (T)(a / b);
    }
};
struct rest {
    template <typename T> T operator()(T a, T b) const
    {
        if (!b) return a;
        return std::is_signed<T>::value && b == (T)-1 ? 0 : (T)(a % b);
    }
};

// A left shift by the width or more gives 0.
struct left {
    template <typename T> T operator()(T a, uint32_t n) const
    {
        return n >= sizeof(T) * 8 ? 0 : (T)(a << n);
    }
};
struct right {
    template <typename T> T operator()(T a, uint32_t n) const
    {
        const uint32_t most_bits = sizeof(T) * 8 - 1;
        if (n > most_bits) return std::is_signed<T>::value ? (T)(a >> most_bits) : 0;
        return (T)(a >> n);
    }
};
struct high {
    int32_t operator()(int32_t a, int32_t b) const
    {
        return (int32_t)((int64_t)a * b >> 32);
    }
    uint32_t operator()(uint32_t a, uint32_t b) const
    {
        return (uint32_t)((uint64_t)a * b >> 32);
    }
};
template <typename W> struct wide {
    template <typename T> W operator()(T a, T b) const
    {
        return (W)a * (W)b;
    }
};
struct multiply_add {
    template <typename T> T operator()(T a, T b, T c) const
    {
        return (T)(a * b + c);
    }
};

// min and max ignore a NaN; +0 is greater than -0.
struct float_most {
    float operator()(float a, float b) const
    {
        if (a == 0 && b == 0) return signbit(a) ? b : a;
        return a != a ? b : b != b ? a : a > b ? a : b;
    }
};
struct float_least {
    float operator()(float a, float b) const
    {
        if (a == 0 && b == 0) return signbit(a) ? a : b;
        return a != a ? b : b != b ? a : a < b ? a : b;
    }
};
struct absolute {
    float operator()(float a) const
    {
        return fabsf(a);
    }
};
struct square_root {
    float operator()(float a) const
    {
        return sqrtf(a);
    }
};
struct reciprocal {
    float operator()(float a) const
    {
        return 1 / a;
    }
};
// Reads and writes denormals as 0.
float flushed(float a)
{
    return fabsf(a) < FLT_MIN ? copysignf(0, a) : a;
}
struct reciprocal_flushed {
    float operator()(float a) const
    {
        return flushed(1 / flushed(a));
    }
};
// Reads and writes only the upper half of a double.
struct reciprocal_half {
    double operator()(double a) const
    {
        uint64_t bits;
        memcpy(&bits, &a, sizeof bits);
        bits &= 0xffffffff00000000;
        memcpy(&a, &bits, sizeof bits);
        a = fabs(a) < DBL_MIN ? copysign(INFINITY, a) : 1 / a;
        memcpy(&bits, &a, sizeof bits);
        bits &= 0xffffffff00000000;
        memcpy(&a, &bits, sizeof bits);
        return fabs(a) < DBL_MIN ? copysign(0, a) : a;
    }
};
struct power_of_two {
    float operator()(float a) const
    {
        return flushed(exp2f(flushed(a)));
    }
};
struct power_of_two_full { // denormals too
    float operator()(float a) const
    {
        return exp2f(a);
    }
};
struct sign_copied { // b with the sign of a
    float operator()(float a, float b) const
    {
        return copysignf(b, a);
    }
};
struct between_0_and_1 { // NaN becomes 0
    float operator()(float a) const
    {
        return a > 0 ? a < 1 ? a : 1 : 0;
    }
};
struct toward_zero {
    float operator()(float a) const
    {
        return truncf(a);
    }
};

template <typename D> struct converted {
    template <typename A> D operator()(A a) const
    {
        return (D)a;
    }
};
template <typename D, typename A> struct lower {
    D operator()(uint64_t a) const
    {
        return (D)(A)a;
    }
};

// --- comparisons ---------------------------------------------------------------------------------

#define COMPARES(name, expression)                            \
    struct name {                                             \
        template <typename T> bool operator()(T a, T b) const \
        {                                                     \
            return expression;                                \
        }                                                     \
    }
COMPARES(is_eq, a == b);
COMPARES(is_ne, a<b || a> b); // false if one is NaN
COMPARES(is_lt, a < b);
COMPARES(is_le, a <= b);
COMPARES(is_gt, a > b);
COMPARES(is_ge, a >= b);
COMPARES(is_equ, !(a < b || a > b));
COMPARES(is_neu, a != b);
COMPARES(is_ltu, !(a >= b));
COMPARES(is_leu, !(a > b));
COMPARES(is_gtu, !(a <= b));
COMPARES(is_geu, !(a < b));
COMPARES(is_nan, a != a || b != b);
COMPARES(is_num, a == a && b == b);

template <typename T> void add_compares(table *t, const std::string &type)
{
    const std::vector<unsigned> bytes = { 0, sizeof(T), sizeof(T) };
    const auto add = [&](const char *name, action run) {
        (*t)["setp." + (name + ("." + type))] = { run, bytes };
    };
    add("eq", compare<T, is_eq>), add("ne", compare<T, is_ne>);
    add("lt", compare<T, is_lt>), add("le", compare<T, is_le>);
    add("gt", compare<T, is_gt>), add("ge", compare<T, is_ge>);
    if (!std::is_floating_point<T>::value) return;
    add("equ", compare<T, is_equ>), add("neu", compare<T, is_neu>);
    add("ltu", compare<T, is_ltu>), add("leu", compare<T, is_leu>);
    add("gtu", compare<T, is_gtu>), add("geu", compare<T, is_geu>);
    add("nan", compare<T, is_nan>), add("num", compare<T, is_num>);
}

// --- fma -----------------------------------------------------------------------------------------

// Uses the processor's instruction if it has one: a library call per lane would be slow.
template <typename T> struct fused {
    T operator()(T a, T b, T c) const
    {
        return std::is_same<T, float>::value ? (T)__builtin_fmaf((float)a, (float)b, (float)c)
                                             : (T)__builtin_fma(a, b, c);
    }
};
#ifdef __x86_64__
template <typename T>
__attribute__((target("fma,avx2"))) void fused_here(warp &w, const instruction &i, uint32_t on)
{
    T *const d = w.at<T>(i.at[0]);
    const T *const a = w.at<T>(i.at[1]), *const b = w.at<T>(i.at[2]), *const c = w.at<T>(i.at[3]);
    T y[LANES];
    for (unsigned l = 0; l < LANES; l++)
        y[l] = std::is_same<T, float>::value
                   ? (T)__builtin_fmaf((float)a[l], (float)b[l], (float)c[l])
                   : (T)__builtin_fma(a[l], b[l], c[l]);
    for (unsigned l = 0; l < LANES; l++) d[l] = on >> l & 1 ? y[l] : d[l];
}
#endif

template <typename T> action fused_action(void)
{
#ifdef __x86_64__
    if (__builtin_cpu_supports("fma") && __builtin_cpu_supports("avx2")) return fused_here<T>;
#endif
    return three<T, fused<T>>;
}

// Rounded towards minus infinity.
struct fused_down {
    float operator()(float a, float b, float c) const
    {
        volatile float x = a, y = b, z = c;
        const int before = fegetround();
        fesetround(FE_DOWNWARD);
        volatile float sum = fmaf(x, y, z);
        fesetround(before);
        return sum;
    }
};
struct sum_toward_zero {
    float operator()(float a, float b) const
    {
        volatile float x = a, y = b;
        const int before = fegetround();
        fesetround(FE_TOWARDZERO);
        volatile float sum = x + y;
        fesetround(before);
        return sum;
    }
};

// --- bits ----------------------------------------------------------------------------------------

// The nearest bf16, ties to even; a NaN is 0x7fff.
uint32_t bf16(float x)
{
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    if (x != x) return 0x7fff;
    return (u + 0x7fff + (u >> 16 & 1)) >> 16;
}

struct two_bf16 { // a is in the upper half
    uint32_t operator()(float a, float b) const
    {
        return bf16(a) << 16 | bf16(b);
    }
};

struct of_half {
    float operator()(uint16_t a) const
    {
        return half_value(a);
    }
};

struct to_half {
    uint16_t operator()(float a) const
    {
        return half_bits(a);
    }
};

struct two_halves {
    uint32_t operator()(float a, float b) const
    {
        return (uint32_t)half_bits(a) << 16 | half_bits(b);
    }
};

struct bytes_picked { // prmt: picks four of eight bytes; bit 3: replicates the byte's sign bit
    uint32_t operator()(uint32_t a, uint32_t b, uint32_t pick) const
    {
        const uint64_t from = (uint64_t)b << 32 | a;
        uint32_t y = 0;
        for (unsigned n = 0; n < 4; n++) {
            const uint32_t how = pick >> 4 * n, byte = from >> (how & 7) * 8 & 0xff;
            y |= (how & 8 ? (byte & 0x80 ? 0xffu : 0u) : byte) << 8 * n;
        }
        return y;
    }
};

// bfi: replaces `length` bits of b, starting at bit `from`, with the lowest bits of a.
void insert_bits(warp &w, const instruction &i, uint32_t on)
{
    for_lanes(on, [&](unsigned l) {
        const uint32_t a = w.at<uint32_t>(i.at[1])[l], b = w.at<uint32_t>(i.at[2])[l];
        const uint32_t from = w.at<uint32_t>(i.at[3])[l] & 255;
        const uint32_t length = w.at<uint32_t>(i.at[4])[l] & 255;
        const uint64_t mask =
            from < 32 ? (((uint64_t)1 << (length < 32 ? length : 32)) - 1) << from : 0;
        w.at<uint32_t>(i.at[0])[l] =
            (uint32_t)((b & ~mask) | (((uint64_t)a << (from & 31)) & mask));
    });
}

// mov.b64 %rd, {%r, %r} and mov.b32 %r, {%rs, %rs}, and back.
template <typename Whole, typename Half> void join(warp &w, const instruction &i, uint32_t on)
{
    for_lanes(on, [&](unsigned l) {
        const Whole low = w.at<Half>(i.at[1])[l], high = w.at<Half>(i.at[2])[l];
        w.at<Whole>(i.at[0])[l] = low | high << 8 * sizeof(Half);
    });
}

template <typename Whole, typename Half> void part(warp &w, const instruction &i, uint32_t on)
{
    for_lanes(on, [&](unsigned l) {
        const Whole x = w.at<Whole>(i.at[2])[l];
        w.at<Half>(i.at[0])[l] = (Half)x;
        w.at<Half>(i.at[1])[l] = (Half)(x >> 8 * sizeof(Half));
    });
}

// --- the table -----------------------------------------------------------------------------------

// Integers: S signed, U unsigned (for sums that wrap).
template <typename S, typename U> void add_numbers(table *t, unsigned bits)
{
    const unsigned n = sizeof(S);
    const std::string s = ".s" + std::to_string(bits), u = ".u" + std::to_string(bits),
                      b = ".b" + std::to_string(bits);
    for (const std::string &type : { s, u }) {
        (*t)["add" + type] = { two<U, U, U, plus>, { n, n, n } };
        (*t)["sub" + type] = { two<U, U, U, minus>, { n, n, n } };
        (*t)["mul.lo" + type] = { two<U, U, U, times>, { n, n, n } };
        (*t)["mad.lo" + type] = { three<U, multiply_add>, { n, n, n, n } };
    }
    (*t)["neg" + s] = { one<U, U, negative>, { n, n } };
    (*t)["div" + s] = { two<S, S, S, quotient>, { n, n, n } };
    (*t)["div" + u] = { two<U, U, U, quotient>, { n, n, n } };
    (*t)["rem" + s] = { two<S, S, S, rest>, { n, n, n } };
    (*t)["rem" + u] = { two<U, U, U, rest>, { n, n, n } };
    (*t)["min" + s] = { two<S, S, S, least>, { n, n, n } };
    (*t)["min" + u] = { two<U, U, U, least>, { n, n, n } };
    (*t)["max" + s] = { two<S, S, S, most>, { n, n, n } };
    (*t)["max" + u] = { two<U, U, U, most>, { n, n, n } };
    (*t)["shr" + s] = { two<S, S, uint32_t, right>, { n, n, 4 } };
    (*t)["shr" + u] = { two<U, U, uint32_t, right>, { n, n, 4 } };
    (*t)["shl" + b] = { two<U, U, uint32_t, left>, { n, n, 4 } };
    (*t)["and" + b] = { two<U, U, U, both>, { n, n, n } };
    (*t)["or" + b] = { two<U, U, U, either>, { n, n, n } };
    (*t)["xor" + b] = { two<U, U, U, differ>, { n, n, n } };
    (*t)["not" + b] = { one<U, U, inverse>, { n, n } };
    add_compares<S>(t, s.substr(1));
    add_compares<U>(t, u.substr(1));
    add_compares<U>(t, b.substr(1));
}

template <typename U> void add_moves(table *t, const std::string &bits, bool has_float)
{
    const unsigned n = sizeof(U);
    std::vector<std::string> types = { ".b" + bits, ".u" + bits, ".s" + bits };
    if (has_float) types.push_back(".f" + bits);
    for (const std::string &type : types) {
        (*t)["mov" + type] = { one<U, U, same>, { n, n } };
        (*t)["selp" + type] = { select<U>, { n, n, n, 0 } };
    }
}

template <typename T> void add_floats(table *t, const std::string &type)
{
    const unsigned n = sizeof(T);
    for (const std::string &rounding : { std::string(), std::string(".rn") }) {
        (*t)["add" + rounding + type] = { two<T, T, T, plus>, { n, n, n } };
        (*t)["sub" + rounding + type] = { two<T, T, T, minus>, { n, n, n } };
        (*t)["mul" + rounding + type] = { two<T, T, T, times>, { n, n, n } };
    }
    (*t)["div.rn" + type] = { two<T, T, T, over>, { n, n, n } };
    (*t)["neg" + type] = { one<T, T, negative>, { n, n } };
    (*t)["fma.rn" + type] = { fused_action<T>(), { n, n, n, n } };
    add_compares<T>(t, type.substr(1));
}

// A register may be wider than the converted value, which occupies its lower bits.
template <typename D, typename A> void add_convert(table *t, const std::string &name)
{
    (*t)[name] = { one<D, A, converted<D>>, { sizeof(D), sizeof(A) } };
    if (std::is_integral<A>::value && sizeof(A) < 8)
        (*t)[name + WIDER] = { one<D, uint64_t, lower<D, A>>, { sizeof(D), 8 } };
}

void add_converts(table *t)
{
    add_convert<int64_t, int32_t>(t, "cvt.s64.s32");
    add_convert<uint64_t, uint32_t>(t, "cvt.u64.u32");
    add_convert<uint32_t, uint64_t>(t, "cvt.u32.u64");
    add_convert<uint16_t, uint32_t>(t, "cvt.u16.u32");
    add_convert<uint32_t, uint16_t>(t, "cvt.u32.u16");
    (*t)["cvt.s32.s8"] = { one<int32_t, uint32_t, lower<int32_t, int8_t>>, { 4, 4 } };
    add_convert<float, uint16_t>(t, "cvt.rn.f32.u16");
    add_convert<float, int16_t>(t, "cvt.rn.f32.s16");
    add_convert<float, uint32_t>(t, "cvt.rn.f32.u32");
    add_convert<float, int32_t>(t, "cvt.rn.f32.s32");
    add_convert<float, int64_t>(t, "cvt.rn.f32.s64");
    add_convert<double, int64_t>(t, "cvt.rn.f64.s64");
    add_convert<double, float>(t, "cvt.f64.f32");
    add_convert<float, double>(t, "cvt.rn.f32.f64");
    (*t)["cvt.rzi.f32.f32"] = { one<float, float, toward_zero>, { 4, 4 } };
    (*t)["cvt.sat.f32.f32"] = { one<float, float, between_0_and_1>, { 4, 4 } };
    (*t)["cvt.f32.f16"] = { one<float, uint16_t, of_half>, { 4, 2 } };
    (*t)["cvt.rn.f16.f32"] = { one<uint16_t, float, to_half>, { 2, 4 } };
    (*t)["cvt.rn.f16x2.f32"] = { two<uint32_t, float, float, two_halves>, { 4, 4, 4 } };
    (*t)["cvt.rn.bf16x2.f32"] = { two<uint32_t, float, float, two_bf16>, { 4, 4, 4 } };
}

table made(void)
{
    table t;
    add_numbers<int16_t, uint16_t>(&t, 16);
    add_numbers<int32_t, uint32_t>(&t, 32);
    add_numbers<int64_t, uint64_t>(&t, 64);
    add_moves<uint16_t>(&t, "16", false);
    add_moves<uint32_t>(&t, "32", true);
    add_moves<uint64_t>(&t, "64", true);
    add_floats<float>(&t, ".f32");
    add_floats<double>(&t, ".f64");
    add_converts(&t);
    t["mul.hi.s32"] = { two<int32_t, int32_t, int32_t, high>, { 4, 4, 4 } };
    t["mul.hi.u32"] = { two<uint32_t, uint32_t, uint32_t, high>, { 4, 4, 4 } };
    t["mul.wide.s32"] = { two<int64_t, int32_t, int32_t, wide<int64_t>>, { 8, 4, 4 } };
    t["mul.wide.u32"] = { two<uint64_t, uint32_t, uint32_t, wide<uint64_t>>, { 8, 4, 4 } };
    t["mul.wide.s16"] = { two<int32_t, int16_t, int16_t, wide<int32_t>>, { 4, 2, 2 } };
    t["mul.wide.u16"] = { two<uint32_t, uint16_t, uint16_t, wide<uint32_t>>, { 4, 2, 2 } };
    t["fma.rm.f32"] = { three<float, fused_down>, { 4, 4, 4, 4 } };
    t["add.rz.f32"] = { two<float, float, float, sum_toward_zero>, { 4, 4, 4 } };
    t["max.f32"] = { two<float, float, float, float_most>, { 4, 4, 4 } };
    t["min.f32"] = { two<float, float, float, float_least>, { 4, 4, 4 } };
    t["abs.f32"] = { one<float, float, absolute>, { 4, 4 } };
    t["copysign.f32"] = { two<float, float, float, sign_copied>, { 4, 4, 4 } };
    t["sqrt.rn.f32"] = { one<float, float, square_root>, { 4, 4 } };
    t["rcp.rn.f32"] = { one<float, float, reciprocal>, { 4, 4 } };
    t["rcp.approx.ftz.f32"] = { one<float, float, reciprocal_flushed>, { 4, 4 } };
    t["rcp.approx.ftz.f64"] = { one<double, double, reciprocal_half>, { 8, 8 } };
    t["ex2.approx.ftz.f32"] = { one<float, float, power_of_two>, { 4, 4 } };
    t["ex2.approx.f32"] = { one<float, float, power_of_two_full>, { 4, 4 } };
    t["div.approx.f32"] = { two<float, float, float, over>, { 4, 4, 4 } };
    t["prmt.b32"] = { three<uint32_t, bytes_picked>, { 4, 4, 4, 4 } };
    t["bfi.b32"] = { insert_bits, { 4, 4, 4, 4, 4 } };
    t["and.pred"] = { logic<both>, { 0, 0, 0 } };
    t["or.pred"] = { logic<either>, { 0, 0, 0 } };
    t["xor.pred"] = { logic<differ>, { 0, 0, 0 } };
    t["not.pred"] = { logic_one<true>, { 0, 0 } };
    t["mov.pred"] = { logic_one<false>, { 0, 0 } };
    // Here, generic addresses of global memory and parameters are the addresses themselves.
    t["cvta.to.global.u64"] = t["cvta.param.u64"] = t["mov.b64"];
    return t;
}
} // namespace

static bool decode_halves(reader *r, const operation &o, instruction *i)
{
    if (o.words[0] != "mov" || o.operands.size() != 2) return false;
    const bool wide = o.words[1] == "b64";
    if (!wide && o.words[1] != "b32") return false;
    const bool joins = o.operands[1][0] == '{';
    if (!joins && o.operands[0][0] != '{') return false;
    const std::vector<std::string> half = elements(o.operands[joins]);
    if (half.size() != 2) return false;
    if (wide)
        i->run = joins ? join<uint64_t, uint32_t> : part<uint64_t, uint32_t>;
    else
        i->run = joins ? join<uint32_t, uint16_t> : part<uint32_t, uint16_t>;
    i->at[joins ? 0 : 2] = operand(r, o.operands[!joins], wide ? 8 : 4);
    for (unsigned n = 0; n < 2; n++) i->at[joins + n] = operand(r, half[n], wide ? 4 : 2);
    return true;
}

bool decode_arithmetic(reader *r, const operation &o, instruction *i)
{
    static const table &all = *new table(made());
    if (decode_halves(r, o, i)) return true;
    std::string name;
    for (const std::string &word : o.words) name += (name.empty() ? "" : ".") + word;
    if (o.words[0] == "cvt" && register_bytes(r, o.operands[1]) == 8 && all.count(name + WIDER))
        name += WIDER;
    const auto row = all.find(name);
    if (row == all.end() || row->second.bytes.size() != o.operands.size()) return false;
    for (unsigned n = 0; n < o.operands.size(); n++)
        i->at[n] = operand(r, o.operands[n], row->second.bytes[n]);
    i->run = row->second.run;
    return true;
}

} // namespace ptx
