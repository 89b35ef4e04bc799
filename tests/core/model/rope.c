// tests/core/model/rope.c -- core/model/rope.c: frequencies by their formulas and as transformers
// computes them, angles, refused configs.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/graph/arena.h"
#include "core/graph/graph.h"
#include "core/model/rope.h"
#include "core/template/sequence.h"
#include "tests/device.h"

static int read_text(struct rope_config *r, const char *text, struct err *err)
{
    cJSON *json = json_parse(text, strlen(text), "config.json", err);
    if (!json) fail_msg("%s", err->text);
    int status = rope_config_read(r, &rotary_plain, json, 10000, err);
    cJSON_Delete(json);
    return status;
}

static void read_frequencies(const char *text, int64_t dim, float *frequency)
{
    struct rope_config r;
    struct err err = { 0 };
    if (read_text(&r, text, &err) < 0) fail_msg("%s", err.text);
    r.dim = dim;
    rope_frequencies(&r, frequency);
}

static void near(double a, double b)
{
    if (!(fabs(a - b) <= 1e-6 * fabs(b))) fail_msg("%.9g is not %.9g", a, b);
}

static void plain_and_linear(void **state)
{
    float f[8];
    read_frequencies("{}", 8, f); // theta 10000: 10000^(-2i/8)
    near(f[0], 1), near(f[1], 0.1), near(f[2], 0.01), near(f[3], 0.001);
    read_frequencies("{\"rope_theta\": 10000, \"rope_scaling\": null}", 4, f);
    near(f[0], 1), near(f[1], 0.01);
    read_frequencies("{\"rope_scaling\": {\"type\": \"linear\", \"factor\": 4}}", 8, f);
    near(f[0], 0.25), near(f[3], 0.00025);
    read_frequencies("{\"rope_scaling\": {\"rope_type\": \"dynamic\", \"factor\": 2}}", 4, f);
    near(f[1], 0.01);
    read_frequencies("{\"rope_parameters\": {\"rope_type\": \"default\", \"rope_theta\": 1e8}}", 4,
                     f);
    near(f[1], 1e-4);
}

// Wavelengths 6.28, 62.8, 628, 6283 with an original context of 1000, low 1, high 4: two pairs keep
// their frequency, one lies between, one is divided by the whole factor.
static void llama3_has_three_bands(void **state)
{
    float f[4];
    read_frequencies("{\"rope_scaling\": {\"rope_type\": \"llama3\", \"factor\": 8,"
                     "\"low_freq_factor\": 1, \"high_freq_factor\": 4,"
                     "\"original_max_position_embeddings\": 1000}}",
                     8, f);
    double s = (1000 / (2 * M_PI / 0.01) - 1) / (4 - 1);
    near(f[0], 1), near(f[1], 0.1);
    near(f[2], (1 - s) * 0.01 / 8 + s * 0.01);
    near(f[3], 0.001 / 8);
}

// Divisors of frequencies in GGUF files; there must be one per pair.
static void divisors(void **state)
{
    float f[4];
    struct rope_config r;
    struct err err = { 0 };
    const char *text =
        "{\"rope_scaling\": {\"rope_type\": \"divisors\", \"divisors\": [1, 2, 2.5, 8]}}";
    read_frequencies(text, 8, f);
    near(f[0], 1), near(f[1], 0.05), near(f[2], 0.004), near(f[3], 0.001 / 8);
    assert_int_equal(read_text(&r, text, &err), 0);
    r.dim = 8;
    assert_int_equal(rope_config_check(&r, &err), 0);
    r.dim = 16;
    assert_int_equal(rope_config_check(&r, &err), -1);
    assert_non_null(strstr(err.text, "4 divisors"));
}

// Frequencies as transformers 5.23 computes them, with its factor of cos and sin, and DeepSeek's
// factor of the scores.
static void yarn_equals_the_reference(void **state)
{
    static const struct {
        const char *json;
        int64_t dim;
        double amplitude, score_gain;
        struct {
            int pair;
            double f;
        } want[6];
    } cases[] = {
        // DeepSeek-V3
        { "{\"rope_theta\": 10000, \"rope_scaling\": {\"type\": \"yarn\", \"factor\": 40,"
          "\"original_max_position_embeddings\": 4096, \"beta_fast\": 32, \"beta_slow\": 1,"
          "\"mscale\": 1.0, \"mscale_all_dim\": 1.0}}",
          64,
          1,
          1.8738542070926265,
          { { 5, 0.237137362 },
            { 11, 0.0390069261 },
            { 15, 0.0083345091 },
            { 20, 0.000790569407 },
            { 23, 3.3338034e-05 },
            { 31, 3.33380353e-06 } } },
        // DeepSeek-V2-Lite's, approximately
        { "{\"rope_theta\": 10000, \"rope_scaling\": {\"type\": \"yarn\", \"factor\": 40,"
          "\"original_max_position_embeddings\": 4096, \"mscale\": 0.707,"
          "\"mscale_all_dim\": 0.5}}",
          64,
          1.064468903941252,
          (0.05 * 3.6888794541139363 + 1) * (0.05 * 3.6888794541139363 + 1),
          { { 0, 1 },
            { 10, 0.0562341288 },
            { 12, 0.0268793609 },
            { 18, 0.00224936521 },
            { 22, 0.00017782794 },
            { 24, 2.49999994e-05 } } },
        // Qwen3's for longer contexts, with narrower heads
        { "{\"rope_parameters\": {\"rope_type\": \"yarn\", \"rope_theta\": 1e6, \"factor\": 4.0,"
          "\"original_max_position_embeddings\": 32768}}",
          32,
          1.138629436111989,
          1,
          { { 5, 0.0133352149 },
            { 10, 4.44569851e-05 },
            { 11, 1.87473561e-05 },
            { 12, 7.90569356e-06 },
            { 13, 3.33380353e-06 },
            { 15, 5.92843435e-07 } } },
        { "{\"rope_parameters\": {\"rope_type\": \"yarn\", \"rope_theta\": 1e4, \"factor\": 4.0,"
          "\"original_max_position_embeddings\": 2048, \"truncate\": false, \"beta_fast\": 16,"
          "\"beta_slow\": 2, \"attention_factor\": 1.25}}",
          32,
          1.25,
          1,
          { { 0, 1 },
            { 5, 0.0562341288 },
            { 10, 0.000790569466 },
            { 11, 0.000444569858 },
            { 12, 0.000250000012 },
            { 15, 4.44569851e-05 } } },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct rope_config r;
        struct err err = { 0 };
        float f[32];
        if (read_text(&r, cases[i].json, &err) < 0) fail_msg("%s", err.text);
        r.dim = cases[i].dim;
        rope_frequencies(&r, f);
        for (int k = 0; k < 6; k++) near(f[cases[i].want[k].pair], cases[i].want[k].f);
        near(rope_amplitude(&r), cases[i].amplitude);
        near(rope_score_gain(&r), cases[i].score_gain);
        float angle_cos[16], angle_sin[16];
        struct sequence s;
        sequence_init(&s, 2, 1);
        if (r.dim == 32) {
            rope_angles_host(&r, &s, NULL, 1, angle_cos, angle_sin);
            near(angle_cos[0], cos(1) * cases[i].amplitude);
            near(angle_sin[0], sin(1) * cases[i].amplitude);
        }
        sequence_release(&s);
    }
}

// If only part of a head rotates, yarn scales cos and sin of that part only. Without
// "original_max_position_embeddings", the model's context length applies.
static void yarn_scales_only_rotated_dimensions(void **state)
{
    static const char json[] = "{\"max_position_embeddings\": 32, \"rope_theta\": 1e4,"
                               "\"partial_rotary_factor\": 0.5,"
                               "\"rope_scaling\": {\"rope_type\": \"yarn\", \"factor\": 4}}";
    struct rope_config r;
    struct err err = { 0 };
    float angle_cos[16], angle_sin[16];
    struct sequence s;
    cJSON *config = cJSON_Parse(json);
    if (rope_config_read(&r, &rotary_interleaved, config, 10000, &err) < 0)
        fail_msg("%s", err.text);
    cJSON_Delete(config);
    near(r.original_positions, 32);
    r.dim = 32;
    sequence_init(&s, 2, 1);
    rope_angles_host(&r, &s, NULL, 1, angle_cos, angle_sin);
    near(angle_cos[0], cos(1) * (0.1 * log(4) + 1));
    for (int pair = 8; pair < 16; pair++) {
        near(angle_cos[pair], 1);
        near(angle_sin[pair], 0);
    }
    sequence_release(&s);
}

static void angles_follow_positions(void **state)
{
    struct arena step = { .backend = test_device() };
    struct graph g = { .backend = test_device(), .arena = &step };
    struct rope_config r = { .rotary = &rotary_plain, .dim = 4, .theta = 10000 };
    struct sequence s;
    struct tensor *cosines, *sines;
    sequence_init(&s, 5, 1);
    s.positions[3] = 7; // a position need not be the row's index
    assert_int_equal(rope_angles(&g, &r, &s, NULL, 3, &cosines, &sines), 0);
    assert_int_equal(cosines->shape[0], 3);
    assert_int_equal(cosines->shape[1], 2);
    static const double position[3] = { 2, 7, 4 };
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 2; j++) {
            double angle = position[i] * (j ? 0.01 : 1);
            near(((float *)cosines->data)[2 * i + j], cos(angle));
            near(((float *)sines->data)[2 * i + j], sin(angle));
        }
    sequence_release(&s);
    arena_release(&step);
}

// Qwen3-VL's default sections, 24, 20 and 20, and others. Pair j rotates by axis j % 3 (time,
// height, width) if j is less than three times the axis's section, else by the time.
static void axes_alternate(void **state)
{
    static const struct {
        const char *text;
        int64_t dim;
        const char *axes; // of the pairs
    } cases[] = { { "{}", 128, "thwthwthwthwthwthwthwthwthwthwthwthwthwthwthwthwthwthwthwthwtttt" },
                  { "{\"rope_scaling\": {\"mrope_section\": [4, 1, 3]}}", 16, "thwttwtt" } };
    for (int i = 0; i < 2; i++) {
        struct rope_config r;
        struct err err = { 0 };
        cJSON *json = cJSON_Parse(cases[i].text);
        struct sequence s;
        float frequency[64], cosine[64], sine[64];
        if (rope_config_read(&r, &rotary_multimodal_alternating, json, 10000, &err) < 0)
            fail_msg("%s", err.text);
        r.dim = cases[i].dim;
        if (rope_config_check(&r, &err) < 0) fail_msg("%s", err.text);
        rope_frequencies(&r, frequency);
        sequence_init(&s, 1, 3);
        for (int axis = 0; axis < 3; axis++) s.positions[axis] = 3 + 2 * axis;
        rope_angles_host(&r, &s, NULL, 1, cosine, sine);
        for (int j = 0; j < (int)r.dim / 2; j++) {
            const char axis = cases[i].axes[j];
            const int position = axis == 't' ? 3 : axis == 'h' ? 5 : 7;
            near(cosine[j], cos((double)(position * frequency[j])));
        }
        sequence_release(&s);
        cJSON_Delete(json);
    }
}

static void bad_scaling_is_refused(void **state)
{
    static const struct {
        const char *json, *says;
    } bad[] = {
        { "{\"rope_scaling\": {\"rope_type\": \"longrope\", \"factor\": 4}}", "longrope" },
        { "{\"rope_scaling\": {\"rope_type\": \"yarn\", \"factor\": 4}}",
          "original_max_position_embeddings" },
        { "{\"rope_theta\": 1, \"rope_scaling\": {\"rope_type\": \"yarn\", \"factor\": 4,"
          "\"original_max_position_embeddings\": 10}}",
          "rope_theta" },
        { "{\"rope_scaling\": {\"rope_type\": \"yarn\", \"factor\": 4, \"beta_slow\": 0,"
          "\"original_max_position_embeddings\": 10}}",
          "beta_slow" },
        { "{\"rope_scaling\": {\"rope_type\": 4}}", "rope_type" },
        { "{\"rope_scaling\": \"linear\"}", "rope_scaling" },
        { "{\"rope_scaling\": {\"type\": \"divisors\"}}", "divisors" },
        { "{\"rope_scaling\": {\"type\": \"divisors\", \"divisors\": [1, 0]}}", "greater than 0" },
        { "{\"rope_scaling\": {\"type\": \"linear\"}}", "factor" },
        { "{\"rope_scaling\": {\"type\": \"linear\", \"factor\": 0}}", "factor" },
        { "{\"rope_theta\": -1}", "rope_theta" },
        { "{\"rope_theta\": \"a\"}", "rope_theta" },
        { "{\"partial_rotary_factor\": 0.5}", "partial_rotary_factor" },
        { "{\"rope_scaling\": {\"type\": \"llama3\", \"factor\": 8, \"low_freq_factor\": 4,"
          "\"high_freq_factor\": 4, \"original_max_position_embeddings\": 10}}",
          "high_freq_factor" },
        { "{\"rope_scaling\": {\"type\": \"llama3\", \"factor\": 8, \"low_freq_factor\": 1,"
          "\"high_freq_factor\": 4}}",
          "original_max_position_embeddings" },
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct rope_config r;
        struct err err = { 0 };
        assert_int_equal(read_text(&r, bad[i].json, &err), -1);
        if (!strstr(err.text, bad[i].says)) fail_msg("'%s' of %s", err.text, bad[i].json);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain_and_linear),
        cmocka_unit_test(llama3_has_three_bands),
        cmocka_unit_test(divisors),
        cmocka_unit_test(yarn_equals_the_reference),
        cmocka_unit_test(yarn_scales_only_rotated_dimensions),
        cmocka_unit_test(angles_follow_positions),
        cmocka_unit_test(axes_alternate),
        cmocka_unit_test(bad_scaling_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
