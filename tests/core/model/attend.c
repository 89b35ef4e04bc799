// tests/core/model/attend.c -- core/model/attend.c against plain loops in double: attention over
// listed keys and without hidden ones, probabilities, contributions of tokens, on odd shapes.
#include "core/model/attend.h"
#include "core/model/layer.h"
#include "core/ops/ops.h"
#include "tests/kernels/close.h"

// H, Hkv, d, D (output of the projection), n new rows, past.
static const int64_t shapes[][6] = {
    { 1, 1, 2, 1, 1, 0 },    { 4, 2, 6, 10, 3, 5 },    { 6, 1, 5, 33, 1, 40 },
    { 8, 8, 16, 24, 7, 0 },  { 9, 3, 12, 60, 2, 129 }, { 2, 1, 64, 7, 30, 300 },
    { 14, 2, 8, 112, 1, 1 },
};
enum { SHAPES = sizeof shapes / sizeof *shapes };

struct fixture {
    int64_t H, Hkv, d, D, n, past, P;
    struct arena arena;
    struct graph g;
    struct tensor q, k, v;
};

static void fixture_open(struct fixture *f, const int64_t *s, const struct backend *b)
{
    *f = (struct fixture){ .H = s[0], .Hkv = s[1], .d = s[2], .D = s[3], .n = s[4], .past = s[5] };
    f->P = f->n + f->past;
    f->arena.backend = b;
    f->g = (struct graph){ .backend = b, .arena = &f->arena };
    f->q = noise_tensor(3, f->n, f->H, f->d, 1);
    f->k = noise_tensor(3, f->P, f->Hkv, f->d, 2);
    f->v = noise_tensor(3, f->P, f->Hkv, f->d, 3);
    for (int64_t i = 0; i < tensor_count(&f->q); i++) ((float *)f->q.data)[i] *= 4;
}

static void fixture_close(struct fixture *f)
{
    free(f->q.data);
    free(f->k.data);
    free(f->v.data);
    arena_release(&f->arena);
}

// Probabilities of row i and head h over the listed keys, in double; 0 for other keys.
static double *plain_probs(const struct fixture *f, int64_t i, int64_t h, const int32_t *keys,
                           int64_t count)
{
    double *p = doubles(f->P), sum = 0;
    const float *q = (const float *)f->q.data + (i * f->H + h) * f->d;
    for (int64_t j = 0; j < count; j++) {
        const float *k = (const float *)f->k.data + (keys[j] * f->Hkv + h / (f->H / f->Hkv)) * f->d;
        double x = 0;
        for (int64_t e = 0; e < f->d; e++) x += (double)q[e] * k[e];
        sum += p[keys[j]] = exp(x / sqrt((double)f->d));
    }
    for (int64_t j = 0; j < f->P; j++) p[j] /= sum;
    return p;
}

static double value_at(const struct fixture *f, int64_t key, int64_t h, int64_t e)
{
    return ((float *)f->v.data)[(key * f->Hkv + h / (f->H / f->Hkv)) * f->d + e];
}

// The first key in row i's window.
static int64_t first_of(const struct fixture *f, int64_t i, int64_t window)
{
    const int64_t first = f->past + i + 1 - window;
    return first > 0 ? first : 0;
}

// From row `from` on, a row sees every third key in its window and itself; earlier rows see all
// keys in theirs.
static int32_t *keys_of(const struct fixture *f, int64_t i, int64_t from, int64_t window,
                        int64_t *count)
{
    const int64_t last = f->past + i;
    int32_t *keys = malloc((size_t)(last + 1) * sizeof *keys);
    *count = 0;
    for (int64_t j = first_of(f, i, window); j <= last; j++)
        if (i < from || j % 3 == i % 3 || j == last) keys[(*count)++] = (int32_t)j;
    return keys;
}

static struct pass_view view_of(struct fixture *f, int64_t window)
{
    struct tensor *first = graph_new1(&f->g, DTYPE_I32, f->n);
    struct tensor *end = graph_new1(&f->g, DTYPE_I32, f->n);
    for (int64_t i = 0; i < f->n; i++) {
        ((int32_t *)first->data)[i] = (int32_t)first_of(f, i, window);
        ((int32_t *)end->data)[i] = (int32_t)(f->past + i + 1);
    }
    return (struct pass_view){
        .first = first, .end = end, .host_first = first->data, .host_end = end->data
    };
}

// A request for probabilities changes no bit of the outputs `a`.
static void same_without_probs(struct fixture *f, const struct pass_view *view,
                               const struct seen_keys *seen, const struct tensor *a)
{
    const struct qkv all = { .q = &f->q, .k = &f->k, .v = &f->v };
    struct tensor *again = attend(&f->g, &all, view, 1 / sqrtf((float)f->d), seen, NULL);
    assert_non_null(again);
    assert_memory_equal(again->data, a->data, tensor_bytes(a));
}

// Methods list keys from the first one on; attend() leaves out those before the window.
static void check_attend(struct fixture *f, int64_t from, int64_t window, bool with_probs)
{
    int32_t **keys = malloc((size_t)f->n * sizeof *keys);
    int32_t **listed = malloc((size_t)f->n * sizeof *listed);
    int64_t *count = malloc((size_t)f->n * sizeof *count);
    int64_t *listed_count = malloc((size_t)f->n * sizeof *listed_count);
    for (int64_t i = 0; i < f->n; i++) {
        keys[i] = keys_of(f, i, from, window, &count[i]);
        listed[i] = keys_of(f, i, from, INT32_MAX, &listed_count[i]);
    }
    struct seen_keys seen = { .from = from,
                              .keys = (const int32_t *const *)listed + from,
                              .count = listed_count + from };
    if (from == f->n) seen.keys = NULL;
    struct tensor *probs = with_probs ? graph_new3(&f->g, DTYPE_F32, f->H, f->n, f->P) : NULL;
    const struct pass_view view = view_of(f, window);
    const struct qkv all = { .q = &f->q, .k = &f->k, .v = &f->v };
    const float scale = 1 / sqrtf((float)f->d);
    struct tensor *a = attend(&f->g, &all, &view, scale, &seen, probs);
    assert_non_null(a);
    same_without_probs(f, &view, &seen, a);
    for (int64_t i = 0; i < f->n; i++)
        for (int64_t h = 0; h < f->H; h++) {
            double *p = plain_probs(f, i, h, keys[i], count[i]), *want = doubles(f->d);
            for (int64_t j = 0; j < f->P; j++)
                for (int64_t e = 0; e < f->d; e++) want[e] += p[j] * value_at(f, j, h, e);
            close_check("attend", (float *)a->data + (i * f->H + h) * f->d, want, f->d, 3e-6, 1e-5);
            if (probs)
                close_check("probabilities", (float *)probs->data + (h * f->n + i) * f->P, p, f->P,
                            1e-6, 1e-5);
            free(p);
            free(want);
        }
    for (int64_t i = 0; i < f->n; i++) free(keys[i]), free(listed[i]);
    free(keys);
    free(listed);
    free(listed_count);
    free(count);
}

// From row `from` on, all rows see the even keys in their windows, in one list. Each of few rows
// has the bits that it has alone.
static void check_shared_list(struct fixture *f, int64_t from, int64_t window)
{
    int32_t *even = malloc((size_t)f->P * sizeof *even);
    const int32_t **keys = malloc((size_t)f->n * sizeof *keys);
    int64_t *count = malloc((size_t)f->n * sizeof *count);
    for (int64_t j = 0; j < f->P; j += 2) even[j / 2] = (int32_t)j;
    for (int64_t i = 0; i < f->n; i++) keys[i] = even, count[i] = (f->past + i) / 2 + 1;
    const struct seen_keys seen = { .from = from, .keys = keys + from, .count = count + from };
    const struct pass_view view = view_of(f, window);
    const struct qkv all = { .q = &f->q, .k = &f->k, .v = &f->v };
    const float scale = 1 / sqrtf((float)f->d);
    struct tensor *probs = graph_new3(&f->g, DTYPE_F32, f->H, f->n, f->P);
    struct tensor *a = attend(&f->g, &all, &view, scale, &seen, probs);
    assert_non_null(a);
    same_without_probs(f, &view, &seen, a);
    for (int64_t i = from; i < f->n; i++) {
        const int64_t before = (first_of(f, i, window) + 1) / 2;
        const float *got = (float *)a->data + i * f->H * f->d;
        for (int64_t h = 0; h < f->H; h++) {
            double *p = plain_probs(f, i, h, even + before, count[i] - before);
            double *want = doubles(f->d);
            for (int64_t j = 0; j < f->P; j++)
                for (int64_t e = 0; e < f->d; e++) want[e] += p[j] * value_at(f, j, h, e);
            close_check("shared list", got + h * f->d, want, f->d, 3e-6, 1e-5);
            close_check("probabilities", (float *)probs->data + (h * f->n + i) * f->P, p, f->P,
                        1e-6, 1e-5);
            free(p);
            free(want);
        }
        if (f->n > backend_few_rows(f->g.backend)) continue;
        struct fixture one = *f;
        one.n = one.q.shape[0] = 1;
        one.past += i;
        one.P = one.k.shape[0] = one.v.shape[0] = one.past + 1;
        one.q.data = (float *)f->q.data + i * f->H * f->d;
        const struct pass_view alone = view_of(&one, window);
        const struct qkv its = { .q = &one.q, .k = &one.k, .v = &one.v };
        struct tensor *b =
            attend(&one.g, &its, &alone, scale,
                   &(struct seen_keys){ .keys = keys + i, .count = count + i }, NULL);
        assert_non_null(b);
        assert_memory_equal(b->data, got, tensor_bytes(b));
    }
    free(even);
    free(keys);
    free(count);
}

static void rows_share_a_list(void **state)
{
    FOR_EACH_ISA(b)
    for (int s = 0; s < SHAPES; s++) {
        struct fixture f;
        fixture_open(&f, shapes[s], b);
        check_shared_list(&f, 0, INT32_MAX);
        check_shared_list(&f, f.n / 2, INT32_MAX);
        check_shared_list(&f, 0, 50);
        check_shared_list(&f, 0, 3);
        fixture_close(&f);
    }
}

// Even rows do not see keys 1, 5, 9 ..., except their own; with `some`, only in odd heads. `from`
// is as in keys_of.
static void check_hidden(struct fixture *f, int64_t from, int64_t window, bool some,
                         bool with_probs)
{
    int32_t **keys = malloc((size_t)f->n * sizeof *keys);
    int64_t *count = malloc((size_t)f->n * sizeof *count);
    bool *rows = calloc((size_t)f->n, 1), *hidden = calloc((size_t)f->P, 1);
    bool *heads = calloc((size_t)f->H, 1);
    for (int64_t i = 0; i < f->n; i++) {
        keys[i] = keys_of(f, i, from, window, &count[i]);
        rows[i] = !(i % 2);
    }
    for (int64_t j = 0; j < f->P; j++) hidden[j] = j % 4 == 1;
    for (int64_t h = 0; h < f->H; h++) heads[h] = h % 2;
    struct seen_keys seen = { .from = from,
                              .keys = from < f->n ? (const int32_t *const *)keys + from : NULL,
                              .count = count + from };
    struct tensor *probs[2] = { NULL, NULL }, *a[2];
    const struct pass_view view = view_of(f, window);
    const struct qkv all = { .q = &f->q, .k = &f->k, .v = &f->v };
    for (int k = 0; k < 2; k++) {
        if (with_probs) probs[k] = graph_new3(&f->g, DTYPE_F32, f->H, f->n, f->P);
        if (k) seen.hidden = (struct hidden_keys){ rows, hidden, some ? heads : NULL };
        a[k] = attend(&f->g, &all, &view, 1 / sqrtf((float)f->d), &seen, probs[k]);
        assert_non_null(a[k]);
    }
    same_without_probs(f, &view, &seen, a[1]);
    int32_t *left = malloc((size_t)f->P * sizeof *left);
    for (int64_t i = 0; i < f->n; i++) {
        int64_t n = 0;
        for (int64_t j = 0; j < count[i]; j++)
            if (!hidden[keys[i][j]] || keys[i][j] == f->past + i) left[n++] = keys[i][j];
        for (int64_t h = 0; h < f->H; h++) {
            const float *got = (float *)a[1]->data + (i * f->H + h) * f->d;
            if (!rows[i] || (some && !heads[h]) ||
                n == count[i]) { // nothing changes, not even a bit
                assert_memory_equal(got, (float *)a[0]->data + (i * f->H + h) * f->d,
                                    (size_t)f->d * sizeof(float));
                continue;
            }
            double *p = plain_probs(f, i, h, left, n), *want = doubles(f->d);
            for (int64_t j = 0; j < f->P; j++)
                for (int64_t e = 0; e < f->d; e++) want[e] += p[j] * value_at(f, j, h, e);
            close_check("hidden keys", got, want, f->d, 3e-6, 1e-5);
            if (with_probs)
                close_check("probabilities", (float *)probs[1]->data + (h * f->n + i) * f->P, p,
                            f->P, 1e-6, 1e-5);
            free(p);
            free(want);
        }
    }
    for (int64_t i = 0; i < f->n; i++) free(keys[i]);
    free(keys);
    free(count);
    free(rows);
    free(hidden);
    free(heads);
    free(left);
}

static void rows_do_not_see_hidden_keys(void **state)
{
    FOR_EACH_ISA(b)
    for (int s = 0; s < SHAPES; s++) {
        struct fixture f;
        fixture_open(&f, shapes[s], b);
        for (int k = 0; k < 8; k++) {
            check_hidden(&f, k & 1 ? f.n : f.n / 2, INT32_MAX, k & 2, k & 4);
            check_hidden(&f, f.n, 3, k & 2, k & 4);
        }
        fixture_close(&f);
    }
}

static void rows_attend_only_to_allowed_keys(void **state)
{
    FOR_EACH_ISA(b)
    for (int s = 0; s < SHAPES; s++) {
        struct fixture f;
        fixture_open(&f, shapes[s], b);
        for (int probs = 0; probs < 2; probs++) {
            check_attend(&f, 0, INT32_MAX, probs);
            check_attend(&f, f.n / 2, INT32_MAX, probs);
            check_attend(&f, f.n, INT32_MAX, probs);
            check_attend(&f, f.n / 2, 3, probs);
        }
        fixture_close(&f);
    }
}

// C_i = || sum over heads of A[n,i] (v_i W_O[n]) ||; W_O includes LoRA, and its bias does not
// count.
static void check_contribution(struct fixture *f, bool with_lora)
{
    const int64_t width = f->H * f->d, rank = 3;
    struct tensor w = noise_tensor(2, f->D, width, 0, 4), bias = noise_tensor(1, f->D, 0, 0, 5);
    struct lora lora = { .a = noise_tensor(2, rank, width, 0, 6),
                         .b = noise_tensor(2, f->D, rank, 0, 7),
                         .scale = 2 };
    const struct linear o = { .weight = w, .bias = bias, .lora = with_lora ? &lora : NULL };
    int32_t *index = malloc((size_t)f->P * sizeof *index),
            *all = malloc((size_t)f->P * sizeof *all);
    int64_t count = 0;
    for (int64_t j = 0; j < f->P; j++) {
        all[j] = (int32_t)j;
        if (j % 2 == 0) index[count++] = (int32_t)j;
    }
    struct tensor *q = graph_rows(&f->g, &f->q, f->n - 1, 1);
    struct tensor *probs = attend_probs(&f->g, q, &f->k, 0, 1 / sqrtf((float)f->d));
    struct tensor *got = attend_contribution(&f->g, &o, probs, &f->v, NULL, index, count);
    assert_non_null(got);
    double *want = doubles(count);
    double **p = malloc((size_t)f->H * sizeof *p);
    for (int64_t h = 0; h < f->H; h++) {
        p[h] = plain_probs(f, f->n - 1, h, all, f->P);
        close_check("one row", (float *)probs->data + h * f->P, p[h], f->P, 1e-6, 1e-5);
    }
    for (int64_t i = 0; i < count; i++) {
        for (int64_t c = 0; c < f->D; c++) {
            double sum = 0;
            for (int64_t x = 0; x < width; x++) {
                double weight = ((float *)w.data)[c * width + x];
                for (int64_t r = 0; with_lora && r < rank; r++)
                    weight += 2.0 * ((float *)lora.b.data)[c * rank + r] *
                              ((float *)lora.a.data)[r * width + x];
                sum += p[x / f->d][index[i]] * value_at(f, index[i], x / f->d, x % f->d) * weight;
            }
            want[i] += sum * sum;
        }
        want[i] = sqrt(want[i]);
    }
    close_check("contribution", got->data, want, count, 2e-6, 2e-5);
    for (int64_t h = 0; h < f->H; h++) free(p[h]);
    free(p);
    free(want);
    free(index);
    free(all);
    free(w.data);
    free(bias.data);
    free(lora.a.data);
    free(lora.b.data);
}

static void contributions_equal_their_definition(void **state)
{
    FOR_EACH_ISA(b)
    for (int s = 0; s < SHAPES; s++) {
        struct fixture f;
        fixture_open(&f, shapes[s], b);
        check_contribution(&f, false);
        check_contribution(&f, true);
        fixture_close(&f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_attend_only_to_allowed_keys),
        cmocka_unit_test(rows_share_a_list),
        cmocka_unit_test(rows_do_not_see_hidden_keys),
        cmocka_unit_test(contributions_equal_their_definition),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
