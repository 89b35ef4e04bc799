// tests/kernels/ops_recurrent.c -- ops of kernels/ops.h of recurrent layers (the gated delta rule
// and the convolution before it) and the gate of attention outputs, each against its definition in
// double.
#include "tests/kernels/checked.h"

static void check_sigmoid_gate(const struct backend *b, int64_t n, int64_t d)
{
    struct tensor x = noise_tensor(2, n, d, 0, 1), gate = noise_tensor(2, n, d, 0, 2);
    double *want = doubles(n * d);
    for (int64_t i = 0; i < n * d; i++) {
        ((float *)gate.data)[i] *= 9;
        want[i] = ((float *)x.data)[i] / (1 + exp(-(double)((float *)gate.data)[i]));
    }
    assert_int_equal(b->sigmoid_gate(&x, &x, &gate), 0);
    finish(b, "sigmoid_gate", &x, want, 1e-30, 2e-6);
    free(gate.data);
}

// n rows after 3 earlier ones; then the same rows in two calls, bit for bit.
static void check_causal_conv(const struct backend *b, int64_t n, int64_t d)
{
    enum { TAPS = 4 };
    struct tensor all = noise_tensor(2, n + TAPS - 1, d, 0, 1), x = all, tail = all;
    struct tensor w = noise_tensor(2, d, TAPS, 0, 2), y = tensor_of(DTYPE_F32, 2, n, d, 0);
    struct tensor after = noise_tensor(2, TAPS - 1, d, 0, 3), parts = y;
    double *want = doubles(n * d);
    x.data = (float *)all.data + (TAPS - 1) * d;
    x.shape[0] = n;
    tail.shape[0] = TAPS - 1;
    for (int64_t i = 0; i < n * d; i++) {
        double sum = 0;
        for (int64_t k = 0; k < TAPS; k++)
            sum += (double)((float *)all.data)[i + k * d] * ((float *)w.data)[i % d * TAPS + k];
        want[i] = sum / (1 + exp(-sum));
    }
    assert_int_equal(b->causal_conv(&y, &x, &w, &tail, &after), 0);
    assert_memory_equal(after.data, (float *)all.data + n * d, tensor_bytes(&after));
    parts.data = malloc(tensor_bytes(&y) + 1);
    memcpy(after.data, all.data, tensor_bytes(&after));
    for (int64_t from = 0, m = n / 3; from < n; from += m, m = n - from) {
        struct tensor some = x, to = parts;
        if (!m) m = n;
        some.shape[0] = to.shape[0] = m;
        some.data = (float *)x.data + from * d;
        to.data = (float *)parts.data + from * d;
        assert_int_equal(b->causal_conv(&to, &some, &w, &after, &after), 0);
    }
    assert_memory_equal(parts.data, y.data, tensor_bytes(&y));
    finish(b, "causal_conv", &y, want, 1e-6, 2e-6);
    free(parts.data);
    free(after.data);
    free(all.data);
    free(w.data);
}

// The rows in double, from state S [heads,dk,d] on.
static void plain_delta(double *want, double *S, const struct delta_inputs *p, int64_t heads,
                        int64_t dk, int64_t d)
{
    const float *x = p->x->data, *a = p->a->data, *beta = p->b->data;
    const float *log_a = p->log_a->data, *bias = p->bias->data;
    const int64_t rows = p->x->shape[0], wide = p->x->shape[1], hk = p->key_heads;
    for (int64_t i = 0; i < rows * heads; i++) {
        const int64_t n = i / heads, h = i % heads;
        const int64_t key = p->alternate ? h % hk : h / (heads / hk);
        const float *q = x + n * wide + key * dk, *k = q + hk * dk;
        const float *v = x + n * wide + 2 * hk * dk + h * d;
        const double alpha = exp(-exp(log_a[h]) * log1p(exp((double)a[i] + bias[h])));
        const double by = 1 / (1 + exp(-(double)beta[i]));
        double qq = 1e-6, kk = 1e-6;
        for (int64_t e = 0; e < dk; e++) qq += (double)q[e] * q[e], kk += (double)k[e] * k[e];
        for (int64_t j = 0; j < d; j++) {
            double *column = S + h * dk * d + j, known = 0;
            want[i * d + j] = 0;
            for (int64_t e = 0; e < dk; e++) known += alpha * column[e * d] * k[e] / sqrt(kk);
            for (int64_t e = 0; e < dk; e++) {
                column[e * d] = alpha * column[e * d] + k[e] / sqrt(kk) * by * (v[j] - known);
                want[i * d + j] += column[e * d] * q[e] / sqrt(qq * (double)dk);
            }
        }
    }
}

// d: width of values; 4 value heads share 2 keys of width 5 and begin with a state. Two calls must
// give the bits of one.
static void check_delta_order(const struct backend *b, int64_t n, int64_t d, bool alternate)
{
    enum { HK = 2, H = 4, DK = 5 };
    const int64_t wide = 2 * HK * DK + H * d, size = H * DK * d;
    struct tensor x = noise_tensor(2, n, wide, 0, 1), a = noise_tensor(2, n, H, 0, 2);
    struct tensor beta = noise_tensor(2, n, H, 0, 3), log_a = noise_tensor(1, H, 0, 0, 4);
    struct tensor bias = noise_tensor(1, H, 0, 0, 5), before = noise_tensor(1, size, 0, 0, 6);
    struct tensor y = tensor_of(DTYPE_F32, 3, n, H, d), after = noise_tensor(1, size, 0, 0, 7);
    struct tensor parts = tensor_of(DTYPE_F32, 3, n, H, d);
    const struct delta_inputs p = { &x, &a, &beta, &log_a, &bias, HK, alternate };
    double *want = doubles(n * H * d), *S = doubles(size);
    for (int64_t i = 0; i < size; i++) S[i] = ((float *)before.data)[i];
    plain_delta(want, S, &p, H, DK, d);
    assert_int_equal(b->delta_rule(&y, &p, &before, &after), 0);
    close_check("delta_rule: state", after.data, S, size, 1e-5, 1e-5);
    for (int64_t from = 0, m = n / 3; from < n; from += m, m = n - from) {
        struct tensor some[4] = { x, a, beta, parts };
        if (!m) m = n;
        for (int i = 0; i < 4; i++) {
            some[i].data = (float *)some[i].data + from * tensor_row(&some[i]);
            some[i].shape[0] = m;
        }
        const struct delta_inputs q = {
            &some[0], &some[1], &some[2], &log_a, &bias, HK, alternate
        };
        assert_int_equal(b->delta_rule(&some[3], &q, &before, &before), 0);
    }
    assert_memory_equal(parts.data, y.data, tensor_bytes(&y));
    assert_memory_equal(before.data, after.data, tensor_bytes(&after));
    finish(b, "delta_rule", &y, want, 1e-5, 1e-5);
    free(x.data), free(a.data), free(beta.data), free(log_a.data), free(bias.data);
    free(before.data), free(after.data), free(parts.data), free(S);
}

static void check_delta_rule(const struct backend *b, int64_t n, int64_t d)
{
    check_delta_order(b, n, d, false);
    check_delta_order(b, n, d, true);
}

static const struct check checks[] = { CHECKED_IN_OPS_RECURRENT(ENTRY) };

static void test_each(void **state)
{
    (void)state;
    FOR_EACH_ISA(b)
    for (size_t i = 0; i < sizeof checks / sizeof *checks; i++) each_shape(b, checks[i].check);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_each) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
