// tests/kernels/ops.c -- ops of kernels/ops.h on whole tensors and on single rows, each against its
// definition in double (ops_rows.c has those that select and place rows).
#include "tests/kernels/checked.h"

static void check_rmsnorm(const struct backend *b, int64_t n, int64_t d)
{
    struct tensor x = noise_tensor(2, n, d, 0, 1), gain = noise_tensor(1, d, 0, 0, 2);
    double *want = doubles(n * d);
    for (int64_t i = 0; i < n; i++) {
        float *row = (float *)x.data + i * d;
        double sum = 0;
        for (int64_t e = 0; e < d; e++) sum += (double)row[e] * row[e];
        for (int64_t e = 0; e < d; e++)
            want[i * d + e] = row[e] / sqrt(sum / (double)d + 1e-5) * ((float *)gain.data)[e];
    }
    assert_int_equal(b->rmsnorm(&x, &x, &gain, 1e-5f), 0);
    finish(b, "rmsnorm", &x, want, 1e-6, 2e-6);
    free(gain.data);
}

static void check_layernorm(const struct backend *b, int64_t n, int64_t d)
{
    struct tensor x = noise_tensor(2, n, d, 0, 1), gain = noise_tensor(1, d, 0, 0, 2);
    struct tensor bias = noise_tensor(1, d, 0, 0, 3);
    double *want = doubles(n * d);
    for (int64_t i = 0; i < n; i++) {
        float *row = (float *)x.data + i * d;
        double mean = 0, variance = 0;
        // Moves the values far from zero, where E[x^2] - mean^2 would lose the variance.
        for (int64_t e = 0; e < d; e++) row[e] += 5;
        for (int64_t e = 0; e < d; e++) mean += row[e] / (double)d;
        for (int64_t e = 0; e < d; e++) variance += (row[e] - mean) * (row[e] - mean) / (double)d;
        for (int64_t e = 0; e < d; e++)
            want[i * d + e] = (row[e] - mean) / sqrt(variance + 1e-5) * ((float *)gain.data)[e] +
                              ((float *)bias.data)[e];
    }
    assert_int_equal(b->layernorm(&x, &x, &gain, &bias, 1e-5f), 0);
    // the mean of values around 5 has an error of about 3e-7, which a small variance magnifies
    finish(b, "layernorm", &x, want, d > 2 ? 1e-5 : 3e-4, 1e-5);
    free(gain.data);
    free(bias.data);
}

static void check_add(const struct backend *b, int64_t n, int64_t d)
{
    struct tensor x = noise_tensor(2, n, d, 0, 1), y = noise_tensor(2, n, d, 0, 2);
    double *want = doubles(n * d);
    for (int64_t i = 0; i < n * d; i++) want[i] = ((float *)x.data)[i] + ((float *)y.data)[i];
    assert_int_equal(b->add(&x, &x, &y), 0);
    finish(b, "add", &x, want, 0, 0);
    free(y.data);
}

static void check_scale(const struct backend *b, int64_t n, int64_t d)
{
    struct tensor x = noise_tensor(2, n, d, 0, 1);
    double *want = doubles(n * d);
    for (int64_t i = 0; i < n * d; i++) want[i] = ((float *)x.data)[i] * -1.5;
    assert_int_equal(b->scale(&x, &x, -1.5f), 0);
    finish(b, "scale", &x, want, 0, 1e-7);
}

static void check_scale_columns(const struct backend *b, int64_t n, int64_t d)
{
    struct tensor x = noise_tensor(2, n, d, 0, 1), w = noise_tensor(1, d, 0, 0, 2);
    double *want = doubles(n * d);
    for (int64_t i = 0; i < n * d; i++) want[i] = ((float *)x.data)[i] * ((float *)w.data)[i % d];
    assert_int_equal(b->scale_columns(&x, &x, &w), 0);
    finish(b, "scale_columns", &x, want, 0, 0);
    free(w.data);
}

// d: width of a head; 3 heads, n tokens.
static void check_ira_values(const struct backend *b, int64_t n, int64_t d)
{
    struct tensor v = noise_tensor(3, n, 3, d, 1), head = noise_tensor(2, 3 * n, d + 1, 0, 2);
    struct tensor gate = noise_tensor(2, n, 3, 0, 3), noise = noise_tensor(3, n, 3, d, 4);
    double *want = doubles(3 * n * d);
    for (int64_t i = 0; i < 3 * n * d; i++) {
        const float *row = (float *)head.data + i / d * (d + 1);
        want[i] = (double)((float *)v.data)[i] + row[i % d] +
                  ((float *)gate.data)[i / d] * exp(row[d] / 2) * ((float *)noise.data)[i];
    }
    assert_int_equal(b->ira_values(&v, &v, &head, &gate, &noise), 0);
    finish(b, "ira_values", &v, want, 1e-6, 1e-6);
    free(head.data), free(gate.data), free(noise.data);
}

static void check_ira_kl(const struct backend *b, int64_t n, int64_t d)
{
    struct tensor head = noise_tensor(2, 3 * n, d + 1, 0, 1), prior = noise_tensor(2, 3, d, 0, 2);
    struct tensor v = noise_tensor(3, n, 3, d, 3), mean = noise_tensor(2, 3, d, 0, 4);
    struct tensor kl = noise_tensor(2, n, 3, 0, 5);
    double *want = doubles(3 * n);
    for (int64_t r = 0; r < 3 * n; r++)
        for (int64_t k = 0; k < d; k++) {
            const float *row = (float *)head.data + r * (d + 1);
            const int64_t at = r % 3 * d + k;
            const double p = ((float *)prior.data)[at];
            const double m =
                (double)row[k] + ((float *)v.data)[r * d + k] - ((float *)mean.data)[at];
            want[r] += 0.5 * ((m * m + exp(row[d])) / exp(p) - 1 + p - row[d]);
        }
    assert_int_equal(b->ira_kl(&kl, &head, &prior, &v, &mean), 0);
    finish(b, "ira_kl", &kl, want, 1e-5, 1e-6);
    free(head.data), free(prior.data), free(v.data), free(mean.data);
}

// n keys, heads of width d: 2 key/value heads, 4 query heads, 5 queries.
static void check_gate(const struct backend *b, int64_t n, int64_t d, bool renormalised)
{
    enum { T = 5, H = 4, KV = 2 };
    struct tensor q = noise_tensor(3, T, H, d, 1), k = noise_tensor(3, n, KV, d, 2);
    struct tensor gate = noise_tensor(2, n, KV, 0, 3);
    double *p = doubles(T * KV * n), *one = doubles(n), *want = doubles(n * KV);
    for (int64_t j = 0; j < T * H; j++) {
        double sum = 0;
        for (int64_t i = 0; i < n; i++) {
            double dot = 0;
            for (int64_t e = 0; e < d; e++)
                dot += (double)((float *)q.data)[j * d + e] *
                       ((float *)k.data)[(i * KV + j % H / 2) * d + e];
            sum += one[i] = exp(0.3 * dot);
        }
        for (int64_t i = 0; i < n; i++) p[(j / H * KV + j % H / 2) * n + i] += one[i] / sum / 2;
    }
    for (int64_t i = 0; i < n; i++) {
        double entropy = 0, mean[KV] = { 0 };
        for (int h = 0; h < KV; h++) {
            for (int64_t j = 0; j < T; j++) mean[h] += p[(j * KV + h) * n + i] / T;
            for (int64_t j = 0; j < T; j++) {
                const double share = p[(j * KV + h) * n + i] / (renormalised ? mean[h] * T : 1);
                entropy -= share * log(share) / log(T) / KV;
            }
        }
        for (int h = 0; h < KV; h++) want[i * KV + h] = entropy * (1 - mean[h]);
    }
    assert_int_equal(b->ira_gate(&gate, &q, &k, 0.3f, renormalised), 0);
    finish(b, "ira_gate", &gate, want, 1e-5, 1e-5);
    free(q.data), free(k.data), free(p), free(one);
}

static void check_ira_gate(const struct backend *b, int64_t n, int64_t d)
{
    check_gate(b, n, d, true);
    check_gate(b, n, d, false);
}

static double gelu_plain(double x, int form)
{
    if (form == GELU_ERF) return 0.5 * x * erfc(-x / sqrt(2));
    if (form == GELU_TANH) return 0.5 * x * (1 + tanh(sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
    return x / (1 + exp(-1.702 * x));
}

static void check_gated(const struct backend *b, const char *name, int64_t n, int64_t d)
{
    const bool gelu = !strcmp(name, "geglu");
    struct tensor x = noise_tensor(2, n, d, 0, 1), up = noise_tensor(2, n, d, 0, 2);
    double *want = doubles(n * d);
    for (int64_t i = 0; i < n * d; i++) {
        float *gate = (float *)x.data + i;
        *gate *= gelu ? 1 : i % 5 ? 8 : 120;
        const double y = gelu ? gelu_plain(*gate, GELU_TANH) : *gate / (1 + exp(-(double)*gate));
        want[i] = y * ((float *)up.data)[i];
    }
    assert_int_equal(gelu ? b->geglu(&x, &x, &up) : b->swiglu(&x, &x, &up), 0);
    finish(b, name, &x, want, 1e-30, 2e-6);
    free(up.data);
}

static void check_swiglu(const struct backend *b, int64_t n, int64_t d)
{
    check_gated(b, "swiglu", n, d);
}

static void check_geglu(const struct backend *b, int64_t n, int64_t d)
{
    check_gated(b, "geglu", n, d);
}

// Includes numbers near 0, where the quotient of exponentials would lose digits, and far beyond the
// cap.
static void check_softcap(const struct backend *b, int64_t n, int64_t d)
{
    struct tensor x = noise_tensor(2, n, d, 0, 1);
    double *want = doubles(n * d);
    for (int64_t i = 0; i < n * d; i++) {
        float *value = (float *)x.data + i;
        *value *= i % 3 ? i % 3 == 1 ? 20 : 400 : 1e-3f;
        want[i] = 7.5 * tanh(*value / 7.5);
    }
    assert_int_equal(b->softcap(&x, &x, 7.5f), 0);
    finish(b, "softcap", &x, want, 1e-30, 1e-6);
}

static void check_clip(const struct backend *b, int64_t n, int64_t d)
{
    struct tensor x = noise_tensor(2, n, d, 0, 1);
    double *want = doubles(n * d);
    for (int64_t i = 0; i < n * d; i++) want[i] = fmin(fmax(((float *)x.data)[i], -0.25), 0.5);
    assert_int_equal(b->clip(&x, &x, -0.25f, 0.5f), 0);
    finish(b, "clip", &x, want, 0, 0);
}

static void check_gelu(const struct backend *b, int64_t n, int64_t d)
{
    for (int form = GELU_ERF; form <= GELU_QUICK; form++) {
        struct tensor x = noise_tensor(2, n, d, 0, 1);
        double *want = doubles(n * d);
        for (int64_t i = 0; i < n * d; i++) {
            float *at = (float *)x.data + i;
            *at *= i % 3 ? 6 : 40;
            want[i] = gelu_plain(*at, form);
        }
        assert_int_equal(b->gelu(&x, &x, (enum gelu_form)form), 0);
        finish(b, "gelu", &x, want, 1.5e-7, 5e-7);
    }
}

static void check_softmax(const struct backend *b, int64_t n, int64_t d)
{
    struct tensor x = noise_tensor(2, n, d, 0, 1);
    double *want = doubles(n * d);
    for (int64_t i = 0; i < n; i++) {
        float *row = (float *)x.data + i * d;
        double highest = -INFINITY, sum = 0;
        for (int64_t e = 0; e < d; e++) row[e] *= 300;
        for (int64_t e = 0; e < d; e++) highest = fmax(highest, 0.25 * row[e]);
        for (int64_t e = 0; e < d; e++) sum += want[i * d + e] = exp(0.25 * row[e] - highest);
        for (int64_t e = 0; e < d; e++) want[i * d + e] /= sum;
    }
    assert_int_equal(b->softmax(&x, &x, 0.25f), 0);
    finish(b, "softmax", &x, want, 1e-37, 2e-5);
}

// Three heads of width 2 d.
static void check_rope(const struct backend *b, int64_t n, int64_t d)
{
    struct tensor x = noise_tensor(3, n, 3, 2 * d, 1);
    struct tensor cosine = tensor_of(DTYPE_F32, 2, n, d, 0),
                  sine = tensor_of(DTYPE_F32, 2, n, d, 0);
    double *want = doubles(n * 6 * d);
    for (int64_t i = 0; i < n * d; i++) {
        ((float *)cosine.data)[i] = cosf((float)i);
        ((float *)sine.data)[i] = sinf((float)i);
    }
    for (int64_t i = 0; i < n * 3 * 2 * d; i++) {
        int64_t e = i % (2 * d), angle = i / (6 * d) * d + e % d;
        double c = ((float *)cosine.data)[angle], s = ((float *)sine.data)[angle];
        double other = ((float *)x.data)[e < d ? i + d : i - d];
        want[i] = ((float *)x.data)[i] * c + (e < d ? -other : other) * s;
    }
    assert_int_equal(b->rope(&x, &cosine, &sine), 0);
    finish(b, "rope", &x, want, 2e-7, 0);
    free(cosine.data);
    free(sine.data);
}

// f16 to bf16 in place: rounds to nearest, ties to even.
static void check_rounded(const struct backend *b, const struct tensor *x)
{
    struct tensor y = *x;
    uint16_t *bits = y.data;
    y.dtype = DTYPE_BF16;
    assert_int_equal(b->widen(&y, x), 0);
    for (int64_t i = 0; i < tensor_count(x); i++) {
        const double exact = half_value((uint16_t)i);
        const float f = (float)exact; // exact to the last bit
        uint32_t u;
        memcpy(&u, &f, sizeof u);
        const uint32_t rest = u & 0xffff, up = rest > 0x8000 || (rest == 0x8000 && u & 0x10000);
        if (isnan(exact))
            assert_true(isnan(bf16_value(bits[i])));
        else
            assert_int_equal(bits[i], (uint16_t)((u >> 16) + up));
    }
}

// Every f16 and every bf16 (in the largest shape): NaN stays NaN, infinity infinity, and subnormals
// are exact.
static void check_widen(const struct backend *b, int64_t n, int64_t d)
{
    for (int dtype = DTYPE_F32; dtype <= DTYPE_BF16; dtype++) {
        int64_t count = d > 1000 ? 65536 : n * d;
        struct tensor x = tensor_of((enum dtype)dtype, 1, count, 0, 0);
        struct tensor y = tensor_of(DTYPE_F32, 1, count, 0, 0);
        double *want = doubles(count);
        for (int64_t i = 0; i < count; i++) {
            uint16_t h = (uint16_t)i;
            if (dtype == DTYPE_F32)
                want[i] = ((float *)x.data)[i] = (float)i / 3;
            else
                want[i] = dtype == DTYPE_F16 ? half_value(h) : bf16_value(h);
            if (dtype != DTYPE_F32) ((uint16_t *)x.data)[i] = h;
        }
        assert_int_equal(b->widen(&y, &x), 0);
        finish(b, "widen", &y, want, 0, 0);
        struct tensor copy = tensor_of((enum dtype)dtype, 1, count, 0, 0);
        assert_int_equal(b->widen(&copy, &x), 0);
        assert_memory_equal(copy.data, x.data, tensor_bytes(&x));
        free(copy.data);
        if (dtype == DTYPE_F16) check_rounded(b, &x);
        free(x.data);
    }
}

// Three channels; pixels beyond the last whole patches are ignored.
static void check_patches(const struct backend *b, int64_t n, int64_t d)
{
    for (int64_t p = 1; p < 15 && p <= n && p <= d; p += 6) {
        struct tensor x = noise_tensor(3, 3, n, d, 1);
        int64_t across = d / p, count = n / p * across;
        struct tensor y = tensor_of(DTYPE_F32, 2, count, 3 * p * p, 0);
        double *want = doubles(count * 3 * p * p);
        for (int64_t i = 0; i < count * 3 * p * p; i++) {
            int64_t s = i / (3 * p * p), e = i % (3 * p * p), c = e / (p * p);
            int64_t row = s / across * p + e % (p * p) / p, column = s % across * p + e % p;
            want[i] = ((float *)x.data)[(c * n + row) * d + column];
        }
        assert_int_equal(b->patches(&y, &x, p), 0);
        finish(b, "patches", &y, want, 0, 0);
        free(x.data);
    }
}

static void check_fill(const struct backend *b, int64_t n, int64_t d)
{
    struct tensor y = noise_tensor(2, n, d, 0, 1);
    double *want = doubles(n * d);
    for (int64_t i = 0; i < n * d; i++) want[i] = -1.5;
    assert_int_equal(b->fill(&y, -1.5f), 0);
    finish(b, "fill", &y, want, 0, 0);
}

static void check_sum_squares(const struct backend *b, int64_t n, int64_t d)
{
    struct tensor x = noise_tensor(2, n, d, 0, 1);
    double want = 3, got = 3;
    for (int64_t i = 0; i < n * d; i++)
        want += (double)((float *)x.data)[i] * (double)((float *)x.data)[i];
    assert_int_equal(b->sum_squares(&got, &x), 0);
    assert_true(fabs(got - want) <= 1e-12 * want);
    free(x.data);
}

// Compares five steps with the formulas in double.
static void check_adamw(const struct backend *b, int64_t n, int64_t d)
{
    struct tensor w = noise_tensor(2, n, d, 0, 1), m = noise_tensor(2, n, d, 0, 2);
    struct tensor v = noise_tensor(2, n, d, 0, 3);
    struct adamw_step s = { .lr = 1e-2, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .decay = 0.1 };
    double *wide = doubles(n * d), *mean = doubles(n * d), *square = doubles(n * d);
    b->fill(&m, 0);
    b->fill(&v, 0);
    for (int64_t i = 0; i < n * d; i++) wide[i] = (double)((float *)w.data)[i];
    for (s.step = 1; s.step <= 5; s.step++) {
        struct tensor g = noise_tensor(2, n, d, 0, 10 + (uint32_t)s.step);
        s.scale = 0.25 * (double)s.step;
        for (int64_t i = 0; i < n * d; i++) {
            const double grad = (double)((float *)g.data)[i] * s.scale, t = (double)s.step;
            mean[i] = s.beta1 * mean[i] + (1 - s.beta1) * grad;
            square[i] = s.beta2 * square[i] + (1 - s.beta2) * grad * grad;
            wide[i] *= 1 - s.lr * s.decay;
            wide[i] -= s.lr * (mean[i] / (1 - pow(s.beta1, t))) /
                       (sqrt(square[i] / (1 - pow(s.beta2, t))) + s.eps);
        }
        assert_int_equal(b->adamw(&w, &g, &m, &v, &s), 0);
        free(g.data);
    }
    finish(b, "adamw: mean", &m, mean, 1e-6, 1e-6);
    finish(b, "adamw: square", &v, square, 1e-6, 1e-6);
    finish(b, "adamw", &w, wide, 1e-6, 1e-6);
}

static void check_cross_entropy(const struct backend *b, int64_t n, int64_t d)
{
    struct tensor x = noise_tensor(2, n, d, 0, 1), target = tensor_of(DTYPE_I32, 1, n, 0, 0);
    struct tensor loss = tensor_of(DTYPE_F32, 2, n, 1, 0),
                  weight = tensor_of(DTYPE_F32, 1, n, 0, 0);
    double *want = doubles(n), *slopes = doubles(n * d);
    for (int64_t i = 0; i < n; i++) {
        float *row = (float *)x.data + i * d;
        int64_t at = ((int32_t *)target.data)[i] = (int32_t)(i * 7 % d);
        double sum = 0;
        for (int64_t e = 0; e < d; e++) sum += exp(row[e] = row[e] * 20 + 300);
        // cppcheck-suppress invalidFunctionArg
        want[i] = log(sum) - row[at];
        float w = ((float *)weight.data)[i] = 0.5f - (float)(i % 3) * 0.125f;
        for (int64_t e = 0; e < d; e++)
            slopes[i * d + e] = (double)w * (exp(row[e]) / sum - (e == at));
    }
    assert_int_equal(b->cross_entropy(&loss, &x, &target, &weight), 0);
    finish(b, "cross_entropy", &loss, want, 3e-5, 1e-6);
    finish(b, "cross_entropy (gradient)", &x, slopes, 1e-7, 1e-6);
    free(target.data);
    free(weight.data);
}

static void check_row_norms(const struct backend *b, int64_t n, int64_t d)
{
    struct tensor x = noise_tensor(2, n, d, 0, 1), y = tensor_of(DTYPE_F32, 1, n, 0, 0);
    double *want = doubles(n);
    for (int64_t i = 0; i < n; i++) {
        for (int64_t e = 0; e < d; e++)
            want[i] += (double)((float *)x.data)[i * d + e] * ((float *)x.data)[i * d + e];
        want[i] = sqrt(want[i]);
    }
    assert_int_equal(b->row_norms(&y, &x), 0);
    finish(b, "row_norms", &y, want, 1e-7, 2e-6);
    free(x.data);
}

static const struct check checks[] = { CHECKED_IN_OPS(ENTRY) };

static void test_each(void **state)
{
    (void)state;
    FOR_EACH_ISA(b)
    for (size_t i = 0; i < sizeof checks / sizeof *checks; i++) each_shape(b, checks[i].check);
}

static void test_all_listed(void **state)
{
    (void)state;
    expect_all_checked();
}

// softmax([0, x]) gives e^x, which must be accurate over the range of normal numbers and 0 far
// below.
static void test_exp(void **state)
{
    (void)state;
    FOR_EACH_ISA(b)
    for (float x = -84; x < 0; x += 0.0137f) {
        float in[40] = { 0 }, out[40];
        for (int i = 20; i < 40; i++) in[i] = i % 2 ? x : -200;
        struct tensor from = { .data = in, .dtype = DTYPE_F32, .rank = 2, .shape = { 1, 40 } },
                      to = { .data = out, .dtype = DTYPE_F32, .rank = 2, .shape = { 1, 40 } };
        assert_int_equal(b->softmax(&to, &from, 1), 0);
        double sum = 20 + 10 * exp((double)x), want[2] = { 0, exp((double)x) / sum };
        close_check("e^-200", out + 20, want, 1, 0, 0);
        close_check("e^x", out + 21, want + 1, 1, 0, 5e-7);
    }
}

// NaN spoils only its element (gelu) or its row (softmax); infinities follow the formulas.
static void test_special(void **state)
{
    (void)state;
    FOR_EACH_ISA(b)
    {
        float in[40] = { [3] = NAN, [20] = INFINITY, [21] = -INFINITY }, out[40] = { 0 };
        struct tensor x = { .data = in, .dtype = DTYPE_F32, .rank = 2, .shape = { 1, 40 } },
                      y = { .data = out, .dtype = DTYPE_F32, .rank = 2, .shape = { 1, 40 } };
        for (int form = GELU_ERF; form <= GELU_QUICK; form++) {
            assert_int_equal(b->gelu(&y, &x, (enum gelu_form)form), 0);
            assert_true(isnan(out[3]) && out[20] > 1e30f && out[4] == 0);
        }
        struct tensor rows = { .data = in, .dtype = DTYPE_F32, .rank = 2, .shape = { 2, 20 } },
                      to = { .data = out, .dtype = DTYPE_F32, .rank = 2, .shape = { 2, 20 } };
        in[20] = 4;
        assert_int_equal(b->softmax(&to, &rows, 1), 0);
        assert_true(isnan(out[0]) && out[21] == 0 && out[20] > 0.7f);
    }
}

// The number of threads changes no bit of rmsnorm, gelu and softmax.
static void test_threads(void **state)
{
    (void)state;
    FOR_EACH_ISA(b)
    for (int op = 0; op < 3; op++) {
        struct tensor result[2], gain = noise_tensor(1, 1111, 0, 0, 4);
        for (int threads = 1; threads <= 2; threads++) {
            struct tensor x = noise_tensor(2, 120, 1111, 0, 3), *y = &result[threads - 1];
            *y = tensor_of(DTYPE_F32, 2, 120, 1111, 0);
            b->set_threads(threads);
            if (op == 0)
                b->rmsnorm(y, &x, &gain, 1e-6f);
            else if (op == 1)
                b->gelu(y, &x, GELU_ERF);
            else
                b->softmax(y, &x, 1);
            free(x.data);
        }
        b->set_threads(0);
        assert_memory_equal(result[0].data, result[1].data, tensor_bytes(&result[0]));
        free(result[0].data);
        free(result[1].data);
        free(gain.data);
    }
}

// Any size can be allocated, even if it is not a multiple of large pages.
static void test_alloc(void **state)
{
    const struct backend *b = backend_cpu();
    const size_t large = (size_t)4 << 20, sizes[] = { 0, 1, 64, large - 1, large, large + 1 };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        char *memory = b->alloc(sizes[i]);
        assert_non_null(memory);
        assert_int_equal((uintptr_t)memory % 64, 0);
        memset(memory, 1, sizes[i]);
        b->release(memory);
    }
    assert_null(b->alloc(SIZE_MAX));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each),    cmocka_unit_test(test_all_listed),
        cmocka_unit_test(test_exp),     cmocka_unit_test(test_special),
        cmocka_unit_test(test_threads), cmocka_unit_test(test_alloc),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
