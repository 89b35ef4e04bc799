// tests/core/probes/attention.c -- core/probes/attention.c, sink_ratio.c and dice.c against the
// reference and against loops; maps of all tokens in one pass; refused requests.
#include "core/probes/dice.h"
#include "core/probes/measure.h"
#include "tests/core/probes/probe.h"

enum { TOKENS = 8 };

static void maps_equal_the_reference(void **state)
{
    for (int i = 0; i < MODELS; i++) {
        struct golden g;
        struct results r = { 0 };
        struct probe_options options = probe_defaults;
        ask(&g, models[i], TOKENS);
        options.layer = PROBE_LAYER_ALL;
        run_probe(&g, &probe_attention, &options, &r);
        struct picture_tile tiles[MAP_TILES];
        const int each = map_tiles(&g, tiles),
                  layers = engine_model(g.engine)->decoder.config.layers;
        assert_int_equal(r.map_count, layers * each);
        for (int l = 0; l < layers; l++) {
            assert_int_equal(r.maps[l * each].layer, l);
            check_maps(&g, &r, l, "answer.attn", l);
        }
        // The profile by row sums the last layer's map.
        const struct result_map *last = &r.maps[r.map_count - 1];
        double sum = 0;
        for (int c = 0; c < last->cols; c++) sum += (double)last->values[last->cols + c];
        if (each == 1)
            near(&g, "row 1", *results_value(&r, "attention.rows", "1", "attention"), sum, 1e-6);
        results_release(&r);
        run_probe(&g, &probe_attention, NULL, &r); // measures the last layer
        assert_int_equal(r.map_count, each);
        check_maps(&g, &r, 0, "answer.map_last", 0);
        results_release(&r);
        golden_close(&g);
    }
}

// In layer 1, the mean of the heads' maps is the layer's map. The table lists all heads in
// descending order of attention to the picture.
static void each_head_has_a_map(void **state)
{
    struct golden g;
    struct results r = { 0 };
    struct err err = { 0 };
    struct probe_options options = probe_defaults;
    ask(&g, models[0], 2);
    const int layers = engine_model(g.engine)->decoder.config.layers;
    const int heads = (int)engine_model(g.engine)->decoder.config.heads;
    options.layer = PROBE_LAYER_ALL, options.head = PROBE_HEAD_EACH;
    run_probe(&g, &probe_attention, &options, &r);
    assert_int_equal(r.map_count, layers * (heads + 1) + 1);
    const struct result_map *matrix = &r.maps[r.map_count - 1], *mean = &r.maps[1];
    const struct result_map *head = &r.maps[layers + heads]; // of layer 1
    assert_string_equal(matrix->name, "attention.heads");
    for (int i = 0; i < mean->rows * mean->cols; i++) {
        double sum = 0;
        for (int h = 0; h < heads; h++) sum += (double)head[h].values[i];
        near(&g, "mean of the heads", sum / heads, (double)mean->values[i], 1e-6);
    }
    results_rank(&r);
    const struct result_table *t = results_find(&r, "attention.heads");
    assert_int_equal(t->row_count, layers * heads);
    for (size_t i = 1; i < t->row_count; i++)
        assert_true(t->rows[i - 1].value[0] >= t->rows[i].value[0]);
    near(&g, "share of head 1 of layer 1",
         *results_value(&r, "attention.heads", "1.1", "to the pictures"),
         (double)matrix->values[heads + 1], 1e-6);
    results_release(&r);
    options.token = PROBE_TOKEN_EACH;
    struct measure_request request = { .probe = &probe_attention, .options = options };
    assert_int_equal(engine_measure(g.engine, &request, &r, &err), -1);
    assert_non_null(strstr(err.text, "cannot be combined"));
    results_release(&r);
    golden_close(&g);
}

// The map of one row and one head equals that row of the reference's attention probabilities.
static void single_rows_and_heads_equal_the_full_matrix(void **state)
{
    for (int i = 0; i < MODELS; i++) {
        struct golden g;
        struct results r = { 0 };
        struct probe_options options = probe_defaults;
        ask(&g, models[i], 0);
        const struct safetensor *t = safetensors_find(g.tensors, "fwd.attn");
        const int64_t heads = t->shape[1], n = t->shape[2], row = n - 3;
        assert_int_equal(t->rank, 4);
        options.layer = 2, options.head = 1;
        options.token = PROBE_TOKEN_ROW, options.number = row;
        run_probe(&g, &probe_attention, &options, &r);
        struct sequence s = { 0 };
        struct err err = { 0 };
        must(measure_sequence(golden_conversation(&g), engine_settings(g.engine), &s, &err), &err);
        const float *want = (const float *)t->data + ((2 * heads + 1) * n + row) * n;
        int64_t at = 0; // row of the picture's first token
        while (s.picture[at] < 0) at++;
        for (int64_t k = 0; k < (int64_t)r.maps[0].rows * r.maps[0].cols; k++)
            near(&g, "row", (double)r.maps[0].values[k],
                 (double)want[at + map_token(&g, &r.maps[0], k)], tolerance(&g, "fwd.attn"));
        assert_int_equal(r.maps[0].head, 1);
        assert_int_equal(r.maps[0].token, row);
        sequence_release(&s);
        results_release(&r);
        golden_close(&g);
    }
}

// One pass for all tokens of the answer gives the bits of a pass for each token.
static void all_tokens_at_once_equal_single_ones(struct golden *g, const struct probe *probe,
                                                 const struct probe_options *options)
{
    struct results each = { 0 };
    struct probe_options o = *options;
    o.token = PROBE_TOKEN_EACH;
    run_probe(g, probe, &o, &each);
    o.token = PROBE_TOKEN_NUMBER;
    size_t seen = 0;
    for (o.number = 0; o.number < TOKENS; o.number++) {
        struct results one = { 0 };
        run_probe(g, probe, &o, &one);
        for (size_t k = 0; k < one.map_count; k++) {
            const struct result_map *want = &one.maps[k];
            size_t at = 0; // finds the map of this layer, token and tile
            while (at < each.map_count &&
                   (each.maps[at].layer != want->layer || each.maps[at].token != want->token ||
                    strcmp(each.maps[at].tile ? each.maps[at].tile : "",
                           want->tile ? want->tile : "") != 0))
                at++;
            assert_true(at < each.map_count);
            const struct result_map *got = &each.maps[at];
            assert_int_equal(got->head, want->head);
            assert_int_equal(got->rows * got->cols, want->rows * want->cols);
            assert_memory_equal(got->values, want->values,
                                (size_t)(want->rows * want->cols) * sizeof *want->values);
            assert_true(!got->state == !want->state);
            seen++;
        }
        const struct result_table *t = results_find(&each, "attention.tokens");
        if (t) {
            const struct result_row *row = &results_find(&one, "attention")->rows[0];
            assert_memory_equal(t->rows[o.number].value, row->value, 3 * sizeof *row->value);
        }
        results_release(&one);
    }
    assert_int_equal(seen, each.map_count);
    assert_true(seen > 0);
    results_release(&each);
}

static void a_map_of_each_token(void **state)
{
    for (int i = 0; i < MODELS; i++) {
        struct golden g;
        struct err err = { 0 };
        struct probe_options options = probe_defaults;
        ask(&g, models[i], TOKENS);
        options.layer = 1;
        all_tokens_at_once_equal_single_ones(&g, &probe_attention, &options);
        all_tokens_at_once_equal_single_ones(&g, &probe_contribution, &options);
        options.head = 1;
        all_tokens_at_once_equal_single_ones(&g, &probe_attention, &options);
        options.layer = PROBE_LAYER_ALL;
        all_tokens_at_once_equal_single_ones(&g, &probe_attention, &options);
        must(engine_set(g.engine, "prune.layer", "1", &err), &err);
        must(engine_set(g.engine, "prune.score", "contribution", &err), &err);
        options.head = -1;
        all_tokens_at_once_equal_single_ones(&g, &probe_attention, &options);
        golden_close(&g);
    }
}

static void sinks_of_the_answer_equal_the_reference(void **state)
{
    for (int i = 0; i < MODELS; i++) {
        struct golden g;
        struct results r = { 0 };
        struct probe_options options = probe_defaults;
        ask(&g, models[i], TOKENS);
        run_probe(&g, &probe_sink_ratio, NULL, &r);
        check_column(&g, &r, "sink_ratio", "strongest", "answer.sink_max", 0);
        near(&g, "share", results_find(&r, "sink_ratio.total")->rows[0].value[0],
             (double)golden_floats(&g, "answer.sink_share")[0], 1e-6);
        results_release(&r);
        options.threshold = (double)golden_floats(&g, "answer.sink_threshold_low")[0];
        run_probe(&g, &probe_sink_ratio, &options, &r);
        near(&g, "low share", results_find(&r, "sink_ratio.total")->rows[0].value[0],
             (double)golden_floats(&g, "answer.sink_share_low")[0], 1e-6);
        results_release(&r);
        golden_close(&g);
    }
}

static void dice_equals_the_reference(void **state)
{
    for (int i = 0; i < MODELS; i++) {
        struct golden g;
        golden_open(&g, models[i]);
        const struct safetensor *t = safetensors_find(g.tensors, "dice.mask");
        const struct safetensor *line = safetensors_find(g.tensors, "answer.newline");
        float mask[256], map[256];
        int64_t n = 0; // tokens other than newlines
        assert_true(t->shape[0] <= 256);
        for (int64_t k = 0; k < t->shape[0]; k++) {
            if (line && ((const int32_t *)line->data)[k]) continue;
            mask[n] = (float)((const int32_t *)t->data)[k];
            map[n++] = golden_floats(&g, "answer.map_last")[k];
        }
        near(&g, "Dice", dice_soft(map, mask, n), (double)golden_floats(&g, "dice.value")[0],
             tolerance(&g, "dice.value"));
        golden_close(&g);
    }
}

// A box that covers two and a half cells, and a mask of the same area, give the Dice of a loop over
// cells.
static void boxes_become_shares_of_cells(void **state)
{
    struct golden g;
    struct results r = { 0 };
    struct probe_options options = probe_defaults;
    ask(&g, models[1], TOKENS); // 4 x 4 tokens cover the whole picture
    const struct picture *p = &engine_conversation(g.engine)->pictures[0];
    const double w = (double)p->image.width / 4, h = (double)p->image.height / 4;
    const double box[4] = { w, 2 * h, 2.5 * w, h };
    options.box = box;
    run_probe(&g, &probe_dice, &options, &r);
    assert_int_equal(r.maps[0].cols, 4);
    // `squares` sums a^2 + m^2 over cells; `pixels` sums a^2 + m, as over the pixels of cells of
    // equal size.
    double most = 0, both = 0, squares = 0, pixels = 0;
    for (int k = 0; k < 16; k++) most = fmax(most, (double)r.maps[0].values[k]);
    for (int k = 0; k < 16; k++) {
        const double a = (double)r.maps[0].values[k] / most;
        const double m = k == 9 || k == 10 ? 1 : k == 11 ? 0.5 : 0;
        both += a * m;
        squares += a * a + m * m;
        pixels += a * a + m;
    }
    near(&g, "Dice of a box", results_find(&r, "dice")->rows[0].value[0], 2 * both / squares, 1e-6);
    near(&g, "in pixels", *results_value(&r, "dice", "soft Dice, pixels", "value"),
         2 * both / pixels, 1e-6);
    results_release(&r);

    struct image mask = { .width = 8, .height = 4, .channels = 3 };
    mask.pixels = xcalloc(8 * 4, 3);
    for (int x = 2; x < 7; x++) memset(mask.pixels + (2 * 8 + x) * 3, 255, 3);
    options.box = NULL;
    options.mask = &mask;
    run_probe(&g, &probe_dice, &options, &r);
    near(&g, "Dice of a mask", results_find(&r, "dice")->rows[0].value[0], 2 * both / squares,
         1e-6);
    image_release(&mask);
    results_release(&r);
    golden_close(&g);
}

// Asks about a synthetic picture of width x height pixels.
static void ask_of(struct golden *g, const char *model, int width, int height)
{
    struct err err = { 0 };
    char file[32 + 3 * 64 * 64];
    const int head = snprintf(file, sizeof file, "P6 %d %d 255\n", width, height);
    for (int i = 0; i < 3 * width * height; i++) file[head + i] = (char)(i * i % 251);
    golden_open(g, model);
    must(engine_attach_bytes(g->engine, "p.ppm", file, (size_t)(head + 3 * width * height), &err),
         &err);
    must(engine_set(g->engine, "sample.max_tokens", "2", &err), &err);
    must(engine_ask(g->engine, "q", &err), &err);
}

// In pixel space, each pixel of the picture counts once: compares with a loop over the pixels of
// two pictures. Some models' cells extend beyond the picture; some models add a thumbnail to their
// tiles.
static void pixels_are_counted_once(void **state)
{
    for (int i = 0; i < 2 * MODELS; i++) {
        struct golden g;
        struct results r = { 0 };
        struct probe_options options = probe_defaults;
        if (i < MODELS)
            ask(&g, models[i], TOKENS);
        else
            ask_of(&g, models[i - MODELS], 64, 32);
        const struct image *image = &engine_conversation(g.engine)->pictures[0].image;
        const double box[4] = { 5, 7, (double)image->width / 2, (double)image->height / 3 };
        options.box = box;
        struct err err;
        must(engine_set(g.engine, "dice.space", "pixels", &err), &err);
        run_probe(&g, &probe_dice, &options, &r);
        double most = 0, both = 0, sum = 0;
        // With tiles, the first map, which shows the whole picture, does not count.
        const bool tiled = r.map_count > 1;
        for (int pass = 0; pass < 2; pass++)
            for (int y = 0; y < 4 * image->height; y++)
                for (int x = 0; x < 4 * image->width; x++) {
                    // 16 sampling points per pixel.
                    const double px = (x + 0.5) / 4, py = (y + 0.5) / 4;
                    int found = 0;
                    bool thumbnail = false; // the loop has passed the thumbnail
                    double a = 0;
                    for (size_t k = 0; k < r.map_count; k++) {
                        const struct result_map *m = &r.maps[k];
                        const double w = m->area[2] - m->area[0], h = m->area[3] - m->area[1];
                        const bool whole =
                            w >= (double)image->width - 1e-6 && h >= (double)image->height - 1e-6;
                        const int col = (int)floor((px - m->area[0]) / w * m->cols);
                        const int row = (int)floor((py - m->area[1]) / h * m->rows);
                        const bool left_out = tiled && whole && !thumbnail;
                        thumbnail |= left_out;
                        if (left_out || col < 0 || row < 0 || col >= m->cols || row >= m->rows)
                            continue;
                        a = (double)m->values[row * m->cols + col];
                        found++;
                    }
                    assert_true(found <= 1);
                    if (!found) continue;
                    const bool in = px >= box[0] && px < box[0] + box[2] && py >= box[1] &&
                                    py < box[1] + box[3];
                    if (pass == 0) most = fmax(most, a);
                    if (pass == 0) continue;
                    both += in * a / most;
                    sum += a * a / most / most + in;
                }
        const struct result_table *t = results_find(&r, "dice");
        assert_string_equal(t->rows[0].key, "soft Dice, pixels");
        near(&g, "Dice over pixels", t->rows[0].value[0], 2 * both / sum, 4e-3);
        assert_non_null(results_value(&r, "dice", "soft Dice", "value"));
        results_release(&r);
        golden_close(&g);
    }
}

static void impossible_requests_are_refused(void **state)
{
    struct golden g;
    struct err err = { 0 };
    struct results r = { 0 };
    struct measure_request request = { .probe = &probe_attention, .options = probe_defaults };
    golden_open(&g, models[0]);
    assert_int_equal(engine_measure(g.engine, &request, &r, &err), -1);
    assert_non_null(strstr(err.text, "the conversation is empty"));
    say(&g, chat_named(&g, "single"));
    request.options.layer = 4;
    assert_int_equal(engine_measure(g.engine, &request, &r, &err), -1);
    assert_non_null(strstr(err.text, "0 to 3"));
    request.options.layer = 0;
    request.options.head = 99;
    assert_int_equal(engine_measure(g.engine, &request, &r, &err), -1);
    assert_non_null(strstr(err.text, "--head 99"));
    request.options.head = -1;
    request.options.token = PROBE_TOKEN_ANSWER;
    assert_int_equal(engine_measure(g.engine, &request, &r, &err), -1);
    assert_non_null(strstr(err.text, "no answer"));
    request.options.token = PROBE_TOKEN_ROW;
    request.options.number = 100000;
    assert_int_equal(engine_measure(g.engine, &request, &r, &err), -1);
    request.options = probe_defaults;
    request.options.picture = 1;
    assert_int_equal(engine_measure(g.engine, &request, &r, &err), -1);
    assert_non_null(strstr(err.text, "--picture 1"));
    request.options = probe_defaults;
    request.probe = &probe_dice;
    assert_int_equal(engine_measure(g.engine, &request, &r, &err), -1);
    assert_non_null(strstr(err.text, "--box"));
    request.probe = &probe_sink_ratio;
    assert_int_equal(engine_measure(g.engine, &request, &r, &err), -1);
    request.probe = &probe_kl;
    assert_int_equal(engine_measure(g.engine, &request, &r, &err), -1);
    assert_non_null(strstr(err.text, "ira.on"));
    results_release(&r);
    golden_close(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(maps_equal_the_reference),
        cmocka_unit_test(single_rows_and_heads_equal_the_full_matrix),
        cmocka_unit_test(each_head_has_a_map),
        cmocka_unit_test(a_map_of_each_token),
        cmocka_unit_test(sinks_of_the_answer_equal_the_reference),
        cmocka_unit_test(dice_equals_the_reference),
        cmocka_unit_test(boxes_become_shares_of_cells),
        cmocka_unit_test(pixels_are_counted_once),
        cmocka_unit_test(impossible_requests_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
