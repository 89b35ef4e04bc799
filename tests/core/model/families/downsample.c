// tests/core/model/families/downsample.c -- image.downsample (core/model/families/pooling.c): grids
// of visual tokens averaged over areas, compared with means computed in a different way; smaller
// pictures where the encoder takes any size; changes in the middle of a conversation.
#include "core/model/families/pooling.h"
#include "tests/core/methods/fresh.h"

static const char *const pooled[] = { "llava-1.5", "internvl3", "llava-onevision", "llava-next" };
static const char *const native[] = { "qwen2.5-vl", "glm-4.1v", "kimi-vl" };
static const char *const shares[] = { "0.5", "0.3", "0.1", "0.001" };
static const char taps[] = "ids positions visual.* step.logits";
enum { SHARES = sizeof shares / sizeof *shares, TILES = 64 };

static void set(struct golden *g, const char *key, const char *value)
{
    struct err err = { 0 };
    must(engine_set(g->engine, key, value, &err), &err);
}

static void same_bytes(const struct safetensors *a, const struct safetensors *b, const char *name)
{
    const struct safetensor *x = safetensors_find(a, name), *y = safetensors_find(b, name);
    if (!x || !y) fail_msg("no %s", name);
    assert_int_equal(x->bytes, y->bytes);
    assert_memory_equal(x->data, y->data, x->bytes);
}

// --- averages ------------------------------------------------------------------------------------

// The mean of an area: cuts every old token into now.rows x now.cols equal parts, so that a new
// token consists of was.rows x was.cols whole parts.
static double mean_of_parts(const float *x, int64_t width, const struct picture_tile *was,
                            const struct picture_tile *now, int64_t r, int64_t c, int64_t column)
{
    double sum = 0;
    for (int64_t i = r * was->rows; i < (r + 1) * was->rows; i++)
        for (int64_t j = c * was->cols; j < (c + 1) * was->cols; j++) {
            const int64_t token = was->first + i / now->rows * was->pitch + j / now->cols;
            sum += (double)x[token * width + column];
        }
    return sum / (double)(was->rows * was->cols);
}

static void check_tile(const char *model, const float *x, const float *y, int64_t width,
                       const struct picture_tile *was, const struct picture_tile *now)
{
    for (int64_t i = 0; i < now->rows * now->cols; i++)
        for (int64_t k = 0; k < width; k++) {
            const int64_t r = i / now->cols, c = i % now->cols;
            const double want = mean_of_parts(x, width, was, now, r, c, k);
            const double got = (double)y[(now->first + r * now->pitch + c) * width + k];
            if (!(fabs(want - got) <= 1e-6 * (1 + fabs(want))))
                fail_msg("%s: token %lld is %g, not %g", model, (long long)i, got, want);
        }
}

// Lists all tokens that are in no grid, in order.
static int64_t others(const struct picture_tile *tiles, int count, int64_t tokens, int64_t *list)
{
    int64_t n = 0;
    for (int64_t i = 0; i < tokens; i++) {
        bool in = false;
        for (int t = 0; t < count; t++) {
            const int64_t at = i - tiles[t].first;
            if (at >= 0 && at < tiles[t].rows * tiles[t].pitch)
                in |= at % tiles[t].pitch < tiles[t].cols;
        }
        if (!in) list[n++] = i;
    }
    return n;
}

// Each token outside the grids equals such a token of the original picture; newlines are at the
// ends of rows.
static void check_others(const struct picture *p, const float *x, const float *y, int64_t width,
                         const struct picture_tile *was, const struct picture_tile *now, int count,
                         int64_t before)
{
    int64_t *from = xcalloc((size_t)before + 1, sizeof *from);
    int64_t *to = xcalloc((size_t)p->tokens + 1, sizeof *to);
    const int64_t left = others(was, count, before, from), n = others(now, count, p->tokens, to);
    assert_true(n <= left);
    for (int64_t i = 0; i < n; i++) {
        bool found = false;
        for (int64_t k = 0; k < left; k++)
            found |= !memcmp(x + from[k] * width, y + to[i] * width, (size_t)width * sizeof *x);
        assert_true(found);
        const bool newline = p->newline_step && to[i] >= p->newline;
        if (newline)
            assert_int_equal((to[i] - p->newline) % p->newline_step, 0);
        else
            assert_int_equal(p->newline_step, 0);
    }
    free(from);
    free(to);
}

// The tokens do not exceed the share; with one more row and one more column they would.
static void check_size(const struct picture_tile *was, const struct picture_tile *now, double share)
{
    const double most = fmax(rint(share * (double)(was->rows * was->cols)), 1);
    assert_true(now->rows >= 1 && now->cols >= 1);
    assert_true((double)(now->rows * now->cols) <= most);
    assert_true((double)((now->rows + 1) * (now->cols + 1)) > most);
}

static void check_average(const char *model, const char *chat, const char *share)
{
    struct golden g;
    struct picture_tile was[TILES], now[TILES];
    golden_open(&g, model);
    const struct model *m = engine_model(g.engine);
    struct safetensors *whole = answer(&g, chat_named(&g, chat), 1, taps);
    const struct picture *p = &engine_conversation(g.engine)->pictures[0];
    const int64_t before = p->tokens, width = m->decoder.config.hidden;
    const int count = m->family->pictures->tiles(m, p->shape, was, TILES);
    set(&g, "image.downsample", share);
    struct safetensors *fewer = answer(&g, chat_named(&g, chat), 1, taps);
    p = &engine_conversation(g.engine)->pictures[0];
    assert_int_equal(pooling_tiles(m, p->shape, now, TILES), count);
    const struct safetensor *x = safetensors_find(whole, "visual.0");
    const struct safetensor *y = safetensors_find(fewer, "visual.0");
    assert_int_equal(y->shape[0], p->tokens);
    for (int t = 0; t < count; t++) {
        check_size(&was[t], &now[t], strtod(share, NULL));
        check_tile(model, x->data, y->data, width, &was[t], &now[t]);
    }
    check_others(p, x->data, y->data, width, was, now, count, before);
    safetensors_close(whole);
    safetensors_close(fewer);
    golden_close(&g);
}

static void tokens_are_means_of_areas(void **state)
{
    for (size_t i = 0; i < sizeof pooled / sizeof *pooled; i++)
        for (int k = 0; k < SHARES; k++) {
            check_average(pooled[i], "single", shares[k]);
            if (k % 2) check_average(pooled[i], "two_images", shares[k]);
        }
}

// --- smaller pictures ----------------------------------------------------------------------------

// image.downsample gives the pixels, positions and logits that image.max_tokens gives if its limit
// is that share of the picture's tokens. limits.c compares image.max_tokens with the limit of a
// folder.
static void a_smaller_picture_is_read(void **state)
{
    for (size_t i = 0; i < sizeof native / sizeof *native; i++)
        for (int k = 0; k < 3; k++) {
            struct golden g;
            char most[24];
            golden_open(&g, native[i]);
            safetensors_close(answer(&g, chat_named(&g, "single"), 1, "ids"));
            const struct picture *p = &engine_conversation(g.engine)->pictures[0];
            const int64_t whole = p->tokens,
                          limit = llrint(strtod(shares[k], NULL) * (double)whole);
            if (limit < 4) { // image.max_tokens refuses a limit that a square picture cannot meet
                golden_close(&g);
                continue;
            }
            set(&g, "image.downsample", shares[k]);
            struct safetensors *ours = answer(&g, chat_named(&g, "single"), 3, "*");
            assert_true(engine_conversation(g.engine)->pictures[0].tokens <= limit);
            set(&g, "image.downsample", "1");
            snprintf(most, sizeof most, "%lld", (long long)limit);
            set(&g, "image.max_tokens", most);
            struct safetensors *theirs = answer(&g, chat_named(&g, "single"), 3, "*");
            static const char *const same[] = { "ids", "positions", "pixels.0", "visual.0",
                                                "step.logits" };
            for (size_t n = 0; n < sizeof same / sizeof *same; n++)
                same_bytes(ours, theirs, same[n]);
            safetensors_close(ours);
            safetensors_close(theirs);
            golden_close(&g);
        }
}

// A share so small that it gives the encoder's smallest size is accepted and answered.
static void tiny_shares_give_the_smallest_size(void **state)
{
    for (size_t i = 0; i < sizeof native / sizeof *native; i++) {
        struct golden g;
        golden_open(&g, native[i]);
        set(&g, "image.downsample", "0.001");
        safetensors_close(answer(&g, chat_named(&g, "two_images"), 2, "ids"));
        const struct picture *p = engine_conversation(g.engine)->pictures;
        assert_true(p[0].tokens >= 1 && p[0].tokens <= p[0].shape.most_tokens);
        golden_close(&g);
    }
}

// --- live ----------------------------------------------------------------------------------------

static void a_change_equals_a_fresh_run(void **state)
{
    static const char *const turns[] = { "1", "0.5", "0.25", "1", "0.5" };
    static const char *const both[] = { "llava-1.5", "qwen2.5-vl", "llava-next", "internvl3",
                                        "smolvlm" };
    for (size_t i = 0; i < sizeof both / sizeof *both; i++) {
        struct golden g;
        struct err err = { 0 };
        golden_open(&g, both[i]);
        set(&g, "sample.max_tokens", "3");
        for (size_t k = 0; k < sizeof turns / sizeof *turns; k++) {
            set(&g, "image.downsample", turns[k]);
            if (k == 3) { // prune.keep applies to the remaining tokens
                set(&g, "prune.layer", "1");
                set(&g, "prune.score", "attention");
            }
            if (k % 2 == 0)
                must(engine_attach(g.engine, "tests/goldens/pictures/scene.png", &err), &err);
            must(engine_ask(g.engine, "what is this?", &err), &err);
            equals_a_fresh_run(&g);
        }
        golden_close(&g);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tokens_are_means_of_areas),
        cmocka_unit_test(a_smaller_picture_is_read),
        cmocka_unit_test(tiny_shares_give_the_smallest_size),
        cmocka_unit_test(a_change_equals_a_fresh_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
