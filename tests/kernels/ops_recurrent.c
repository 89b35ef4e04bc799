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

enum { KEYS = 2, HEADS = 4 };

// Inputs of n rows; value heads of width d share KEYS keys.
struct delta_case {
    struct tensor x, a, beta, log_a, bias, y;
    bool alternate;
};

// Computes m rows from row `from` on; `before` and `after` may be NULL or the same.
static void run_rows(const struct backend *b, const struct delta_case *c, int64_t from, int64_t m,
                     struct tensor *y, const struct tensor *before, struct tensor *after)
{
    struct tensor some[4] = { c->x, c->a, c->beta, *y };
    for (int i = 0; i < 4; i++) {
        some[i].data = (float *)some[i].data + from * tensor_row(&some[i]);
        some[i].shape[0] = m;
    }
    const struct delta_inputs p = { &some[0], &some[1], &some[2],    &c->log_a,
                                    &c->bias, KEYS,     c->alternate };
    assert_int_equal(b->delta_rule(&some[3], &p, before, after), 0);
}

// Computes all rows from `state` on, and again in two calls. Up to few_rows rows are computed
// alone: two calls give the bits of one. Else the first call's rows have the bits that they have in
// a longer call. Then computes all rows with other numbers of threads, which must not change a bit.
static void check_calls(const struct backend *b, struct delta_case *c, struct tensor *state,
                        const double *want, const double *want_state)
{
    static const int threads[] = { 1, 5, 64 };
    const int64_t n = c->x.shape[0], part = n / 3, few = b->few_rows(), count = tensor_count(state);
    struct tensor first = *state, after = *state, parts = c->y;
    after.data = malloc(tensor_bytes(state) + 1);
    first.data = malloc(tensor_bytes(state) + 1);
    memcpy(first.data, state->data, tensor_bytes(state));
    parts.data = calloc(tensor_bytes(&parts) + 1, 1);
    run_rows(b, c, 0, n, &c->y, state, &after);
    assert_memory_equal(first.data, state->data, tensor_bytes(state));
    close_check("delta_rule", c->y.data, want, tensor_count(&c->y), 1e-5, 1e-5);
    close_check("delta_rule: state", after.data, want_state, count, 1e-5, 1e-5);
    run_rows(b, c, 0, part, &parts, state, state);
    if (n <= few || part > few)
        assert_memory_equal(parts.data, c->y.data, (size_t)(part * tensor_row(&parts)) * 4);
    run_rows(b, c, part, n - part, &parts, state, state);
    if (n <= few) {
        assert_memory_equal(parts.data, c->y.data, tensor_bytes(&parts));
        assert_memory_equal(state->data, after.data, tensor_bytes(state));
    }
    close_check("delta_rule: two calls", parts.data, want, tensor_count(&parts), 1e-5, 1e-5);
    close_check("delta_rule: state of two calls", state->data, want_state, count, 1e-5, 1e-5);
    const int were = b->threads();
    for (size_t i = 0; i < sizeof threads / sizeof *threads; i++) {
        b->set_threads(threads[i]);
        run_rows(b, c, 0, n, &parts, &first, NULL);
        assert_memory_equal(parts.data, c->y.data, tensor_bytes(&parts));
    }
    b->set_threads(were);
    free(after.data), free(first.data), free(parts.data);
}

// dk: width of keys. `fade` scales a: with 30, alphas are near 0 or 1, and products of alphas
// vanish.
static void check_delta(const struct backend *b, int64_t n, int64_t dk, int64_t d, float fade,
                        bool alternate)
{
    const int64_t wide = 2 * KEYS * dk + HEADS * d, size = HEADS * dk * d;
    struct delta_case c = { .x = noise_tensor(2, n, wide, 0, 1),
                            .a = noise_tensor(2, n, HEADS, 0, 2),
                            .beta = noise_tensor(2, n, HEADS, 0, 3),
                            .log_a = noise_tensor(1, HEADS, 0, 0, 4),
                            .bias = noise_tensor(1, HEADS, 0, 0, 5),
                            .y = tensor_of(DTYPE_F32, 3, n, HEADS, d),
                            .alternate = alternate };
    const struct delta_inputs p = { &c.x, &c.a, &c.beta, &c.log_a, &c.bias, KEYS, alternate };
    struct tensor state = noise_tensor(1, size, 0, 0, 6);
    double *want = doubles(n * HEADS * d), *S = doubles(size);
    for (int64_t i = 0; i < n * HEADS; i++) ((float *)c.a.data)[i] *= fade;
    for (int64_t i = 0; i < size; i++) S[i] = ((float *)state.data)[i];
    plain_delta(want, S, &p, HEADS, dk, d);
    check_calls(b, &c, &state, want, S);
    memset(state.data, 0, tensor_bytes(&state)); // NULL means zeros
    run_rows(b, &c, 0, n, &c.y, &state, NULL);
    struct tensor fresh = tensor_of(DTYPE_F32, 3, n, HEADS, d);
    run_rows(b, &c, 0, n, &fresh, NULL, NULL);
    assert_memory_equal(fresh.data, c.y.data, tensor_bytes(&fresh));
    free(fresh.data), free(c.y.data), free(want);
    free(c.x.data), free(c.a.data), free(c.beta.data), free(c.log_a.data), free(c.bias.data);
    free(state.data), free(S);
}

static void check_delta_rule(const struct backend *b, int64_t n, int64_t d)
{
    check_delta(b, n, 5, d, 1, false);
    check_delta(b, n, 5, d, 30, true);
    if (n != 33 || d != 80) return;
    check_delta(b, 197, 128, d, 1, false);
    const int64_t few = b->few_rows(), rows[] = { few, few + 1, 16, 32, 64 };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) check_delta(b, rows[i], 5, d, 1, false);
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
