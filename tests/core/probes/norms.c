// tests/core/probes/norms.c -- core/probes/norms.c and interface.c against the reference and
// against loops; probes change no answer.
#include "core/base/dtype.h"
#include "core/base/tally.h"
#include "tests/core/probes/probe.h"

// Compares a table's means, and its deviations where it has them, with those of a golden tensor
// [rows, N] over the tokens of a group.
static void check_group(const struct golden *g, const struct results *r, const char *table,
                        const char *column, const char *tensor, const char *group, size_t skip)
{
    const struct safetensor *t = safetensors_find(g->tensors, tensor);
    const cJSON *list = json_get(
                    json_get(json_get(json_get(g->json, "methods"), "probe"), "groups"), group),
                *at;
    const struct result_table *ours = results_find(r, table);
    assert_non_null(list);
    assert_non_null(ours);
    for (int64_t l = 0; l < t->shape[0]; l++) {
        struct {
            double sum, squares;
            int n;
        } s = { 0 };
        cJSON_ArrayForEach(at, list)
        {
            const double x = (double)((const float *)t->data)[l * t->shape[1] + at->valueint];
            s.sum += x, s.squares += x * x, s.n++;
        }
        const double mean = s.sum / s.n;
        char deviation[64];
        snprintf(deviation, sizeof deviation, "%s std", column);
        const char *key = ours->rows[skip + (size_t)l].key;
        near(g, tensor, *results_value(r, table, key, column), mean, tolerance(g, tensor));
        const double *std = results_value(r, table, key, deviation);
        if (std)
            near(g, tensor, *std, sqrt(fmax(s.squares / s.n - mean * mean, 0)),
                 10 * tolerance(g, tensor));
    }
}

static void layers_equal_the_reference(void **state)
{
    static const char *const groups[][2] = { { "visual", "vis" },
                                             { "text", "txt" },
                                             { "text but first", "txt_without_first" } };
    for (int i = 0; i < MODELS; i++) {
        struct golden g;
        struct results r = { 0 };
        ask(&g, models[i], 0);
        run_probe(&g, &probe_norms, NULL, &r);
        for (int k = 0; k < 3; k++) {
            check_group(&g, &r, "norms.layers", groups[k][0], "probe.norm", groups[k][1], 0);
            check_group(&g, &r, "norms.cosines", groups[k][0], "probe.cos", groups[k][1], 0);
        }
        check_group(&g, &r, "norms.theory", "measured visual", "probe.theta", "vis", 0);
        check_group(&g, &r, "norms.theory", "measured text", "probe.theta", "txt", 0);
        results_release(&r);
        golden_close(&g);
    }
}

static void theory_equals_the_reference(void **state)
{
    static const char *const columns[][2] = {
        { "C", "probe.theory.C" },
        { "phi", "probe.theory.phi" },
        { "norm visual", "probe.theory.n_vis" },
        { "norm text", "probe.theory.n_txt" },
        { "theta visual", "probe.theory.theta_vis" },
        { "measured visual", "probe.theory.measured_vis" },
        { "theta text", "probe.theory.theta_txt" },
        { "measured text", "probe.theory.measured_txt" },
        { "gamma", "probe.theory.gamma" },
        { "gamma measured", "probe.theory.gamma_measured" },
        { "gamma measured", "probe.gamma" },
        { "gamma balanced", "probe.theory.gamma_balanced" },
    };
    for (int i = 0; i < MODELS; i++) {
        struct golden g;
        struct results r = { 0 };
        ask(&g, models[i], 0);
        run_probe(&g, &probe_norms, NULL, &r);
        for (size_t k = 0; k < sizeof columns / sizeof *columns; k++)
            check_column(&g, &r, "norms.theory", columns[k][0], columns[k][1], 0);
        check_column(&g, &r, "norms.alignment", "cosine measured", "probe.cross_cos", 0);
        check_column(&g, &r, "norms.attention", "text-visual logits", "probe.qk_txt_vis", 0);
        check_column(&g, &r, "norms.attention", "input products", "probe.input_dot", 0);
        check_column(&g, &r, "norms.attention", "input products, all pairs",
                     "probe.input_dot_all_pairs", 0);
        // The products of cosines, multiplied by the first layer's cosine.
        const double first = (double)golden_floats(&g, "probe.cross_cos")[0];
        const struct result_table *t = results_find(&r, "norms.alignment");
        for (size_t l = 1; l < t->row_count; l++) {
            near(&g, "gamma_product", t->rows[l].value[0],
                 first * (double)golden_floats(&g, "probe.theory.gamma_product")[l - 1], 5e-6);
            near(&g, "gamma_measured_product", t->rows[l].value[1],
                 first * (double)golden_floats(&g, "probe.theory.gamma_measured_product")[l - 1],
                 5e-6);
        }
        results_release(&r);
        golden_close(&g);
    }
}

// The mergers of Qwen2.5-VL and Qwen3-VL begin with a norm of the encoder's output (RMSNorm or
// LayerNorm, eps 1e-6); CLIP and InternViT have no norm for their patches. Golden tensors have the
// final norms of other encoders.
static void check_final_norm(const struct golden *g, const struct results *r)
{
    const char *row = "encoder, after its final norm";
    const double *value = results_value(r, "norms.interface", row, "norm");
    const struct model *m = engine_model(g->engine);
    const int64_t width = m->vision.config.hidden;
    const float *gain = m->projector.norm.gain.data, *bias = m->projector.norm.bias.data;
    char name[64];
    double mean = 0;
    if (safetensors_find(g->tensors, "interface.encoder_last_normed")) return;
    if (!m->projector.kind->encoder_norm) {
        assert_null(value);
        return;
    }
    snprintf(name, sizeof name, "fwd.vision.h%d", m->vision.config.layers);
    const struct safetensor *h = safetensors_find(g->tensors, name);
    assert_non_null(h);
    for (int64_t i = 0; i < h->shape[0]; i++) {
        const float *x = (const float *)h->data + i * width;
        double middle = 0, square = 1e-6, sum = 0;
        for (int64_t k = 0; k < width && bias; k++) middle += (double)x[k] / (double)width;
        for (int64_t k = 0; k < width; k++) square += pow((double)x[k] - middle, 2) / (double)width;
        for (int64_t k = 0; k < width; k++)
            sum += pow(((double)x[k] - middle) / sqrt(square) * (double)gain[k] +
                           (bias ? (double)bias[k] : 0),
                       2);
        mean += sqrt(sum) / (double)h->shape[0];
    }
    assert_non_null(value);
    near(g, row, *value, mean, 1e-4);
}

static void interface_equals_the_reference(void **state)
{
    static const char *const rows[][2] = {
        { "encoder, last output", "interface.encoder_last" },
        // Only in encoders that have one.
        { "encoder, after its final norm", "interface.encoder_last_normed" },
        { "projector, input", "interface.projector_in" },
        { "visual tokens", "interface.visual_tokens" },
        { "text embedding table (T*)", "interface.text_table" },
        { "text in the sequence", "interface.text_in_sequence" },
    };
    for (int i = 0; i < MODELS; i++) {
        struct golden g;
        struct err err = { 0 };
        struct results r = { 0 };
        ask(&g, models[i], 0);
        run_probe(&g, &probe_norms, NULL, &r);
        for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
            if (!safetensors_find(g.tensors, rows[k][1])) continue;
            const float *want = golden_floats(&g, rows[k][1]);
            near(&g, rows[k][1], *results_value(&r, "norms.interface", rows[k][0], "norm"),
                 (double)want[0], tolerance(&g, rows[k][1]));
            near(&g, rows[k][1], *results_value(&r, "norms.interface", rows[k][0], "std"),
                 (double)want[1], tolerance(&g, rows[k][1]));
        }
        check_final_norm(&g, &r);
        assert_null(results_value(&r, "norms.interface", "visual tokens, aligned", "norm"));
        results_release(&r);
        // Aligned tokens have nearly the mean norm of the text embedding table.
        must(engine_set(g.engine, "norm.align", "on", &err), &err);
        run_probe(&g, &probe_norms, NULL, &r);
        const double *ratio =
            results_value(&r, "norms.interface", "visual tokens, aligned", "ratio to T*");
        assert_non_null(ratio);
        near(&g, "aligned", *ratio, 1, 1e-3);
        results_release(&r);
        golden_close(&g);
    }
}

// C and phi of each modality, and the singular value of the cross-covariance of the normed inputs,
// equal those of loops over the dumped layers (power iteration on the whole matrix).
static void assumptions_equal_loops(void **state)
{
    enum { LAYER = 1 };
    struct golden g;
    struct results r = { 0 };
    ask(&g, models[0], 0);
    run_probe(&g, &probe_norms, NULL, &r);
    struct safetensors *f = answer(&g, chat_named(&g, "single"), 1, "ids layer.*.in");
    const struct model *m = engine_model(g.engine);
    const struct safetensor *h = safetensors_find(f, "layer.1.in");
    const float *from = h->data, *to = safetensors_find(f, "layer.2.in")->data;
    const int32_t *ids = safetensors_find(f, "ids")->data;
    const int64_t n = h->shape[0], D = h->shape[1];
    struct tally steps[2] = { 0 }, turns[2] = { 0 };
    double *mean[2], *matrix = xcalloc((size_t)(D * D), sizeof *matrix), *v = xcalloc((size_t)D, 8);
    float *gain = xcalloc((size_t)D, sizeof *gain);
    const struct tensor *w = &m->decoder.layer[LAYER].attention.before;
    floats_from(gain, w->data, w->dtype, (size_t)D);
    for (int k = 0; k < 2; k++) mean[k] = xcalloc((size_t)D, sizeof **mean);
    for (int64_t i = 0; i < n; i++) {
        const bool text = ids[i] != m->placeholder;
        double step = 0, along = 0, norm = 0;
        for (int64_t k = 0; k < D; k++) {
            const double u = (double)to[i * D + k] - (double)from[i * D + k];
            step += u * u, along += u * (double)from[i * D + k], norm += pow(from[i * D + k], 2);
        }
        tally_add(&steps[text], sqrt(step));
        tally_add(&turns[text], acos(along / sqrt(step * norm)));
        for (int64_t k = 0; k < D; k++)
            mean[text][k] += (double)from[i * D + k] * (double)gain[k] /
                             sqrt(norm / (double)D + m->decoder.config.eps);
    }
    for (int64_t a = 0; a < D; a++)
        for (int64_t b = 0; b < D; b++)
            matrix[a * D + b] =
                mean[1][a] / (double)steps[1].count * mean[0][b] / (double)steps[0].count;
    double sigma = 0;
    for (int64_t k = 0; k < D; k++) v[k] = (double)(k % 7) - 2.5;
    for (int round = 0; round < 4; round++) { // v := C^T C v, scaled
        double *u = xcalloc((size_t)D, sizeof *u), size = 0;
        for (int64_t a = 0; a < D; a++)
            for (int64_t b = 0; b < D; b++) u[a] += matrix[a * D + b] * v[b];
        for (int64_t b = 0; b < D; b++) v[b] = 0;
        for (int64_t a = 0; a < D; a++)
            for (int64_t b = 0; b < D; b++) v[b] += matrix[a * D + b] * u[a];
        for (int64_t b = 0; b < D; b++) size += v[b] * v[b];
        sigma = sqrt(sqrt(size));
        for (int64_t b = 0; b < D; b++) v[b] /= sqrt(size);
        free(u);
    }
    const double *got = results_value(&r, "norms.attention", "1", "singular value");
    near(&g, "singular value", *got, sigma, 1e-4 * sigma);
    static const char *const columns[] = { "visual", "text" };
    for (int k = 0; k < 2; k++) {
        char deviation[16];
        snprintf(deviation, sizeof deviation, "%s std", columns[k]);
        near(&g, "C", *results_value(&r, "norms.steps", "1", columns[k]), tally_mean(&steps[k]),
             1e-4);
        near(&g, "C std", *results_value(&r, "norms.steps", "1", deviation), tally_std(&steps[k]),
             1e-4);
        near(&g, "phi", *results_value(&r, "norms.turns", "1", columns[k]), tally_mean(&turns[k]),
             1e-4);
        near(&g, "phi std", *results_value(&r, "norms.turns", "1", deviation), tally_std(&turns[k]),
             1e-4);
        free(mean[k]);
    }
    free(matrix), free(v), free(gain);
    safetensors_close(f);
    results_release(&r);
    golden_close(&g);
}

// Compares the logits of an answer before and after the probes have run.
static void probes_change_no_answer(void **state)
{
    struct golden g;
    struct err err = { 0 };
    ask(&g, models[0], 6);
    must(engine_set(g.engine, "prune.score", "contribution", &err), &err);
    for (int turn = 0; turn < 2; turn++) {
        struct safetensors *f = answer(&g, chat_named(&g, "single"), 6, "step.logits");
        const struct safetensor *t = safetensors_find(f, "step.logits");
        char *before = malloc(t->bytes);
        const size_t size = t->bytes;
        memcpy(before, t->data, size);
        safetensors_close(f);
        const int64_t cached = engine_conversation(g.engine)->cached.n;
        const struct probe *probe;
        for (int i = 0; (probe = probe_at(i)); i++) {
            const double box[4] = { 0, 0, 20, 20 };
            struct probe_options options = probe_defaults;
            struct results r = { 0 };
            options.box = box;
            options.by = "gradient,attention,rollout,direct"; // `integrated` refuses this pruning
            // Skips probes with words (the lens, most interventions), KL, which needs IRA's trained
            // parameters, and recurrence: this model has no recurrent layers.
            if (probe == &probe_kl || probe == &probe_recurrence || probe->words) continue;
            run_probe(&g, probe, &options, &r);
            assert_true(r.table_count > 0);
            results_release(&r);
        }
        assert_int_equal(engine_conversation(g.engine)->cached.n, cached);
        // Answers again, from the cache if the probes left it.
        must(engine_dump(g.engine, "step.logits", g.dump, &err), &err);
        must(engine_regenerate(g.engine, &err), &err);
        if (!(f = safetensors_open(g.dump, &err))) fail_msg("%s", err.text);
        t = safetensors_find(f, "step.logits");
        assert_int_equal(t->bytes, size);
        assert_memory_equal(t->data, before, size);
        safetensors_close(f);
        free(before);
        must(engine_set(g.engine, "prune.mode", "dynamic", &err), &err);
    }
    golden_close(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layers_equal_the_reference),
        cmocka_unit_test(theory_equals_the_reference),
        cmocka_unit_test(assumptions_equal_loops),
        cmocka_unit_test(interface_equals_the_reference),
        cmocka_unit_test(probes_change_no_answer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
