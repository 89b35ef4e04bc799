// tests/core/engine/presets.c -- core/engine/presets.c: settings accept the values of every recipe,
// layers depend on the model, and recipes do not affect later ones.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "core/engine/presets.h"
#include "core/methods/method.h"
#include "core/model/families/family.h"
#include "core/settings/changes.h"
#include "core/settings/settings.h"

static const char *value_of(const struct preset_values *v, const char *key)
{
    for (size_t i = 0; i < v->count; i++)
        if (!strcmp(v->list[i].key, key)) return v->list[i].value;
    return "";
}

static struct model model_of(const char *family, int layers, int64_t hidden, int64_t ffn)
{
    struct model m = { .family = family_named(family) };
    m.decoder.config.ffn = ffn;
    m.decoder.config.layers = layers;
    m.decoder.config.hidden = hidden;
    return m;
}

static void each_recipe_can_be_set(void **state)
{
    static const int depths[] = { 8, 16, 28, 32, 80 };
    const struct preset *p;
    for (int i = 0; (p = preset_at(i)); i++)
        for (size_t d = 0; d < sizeof depths / sizeof *depths; d++) {
            const struct model m = model_of("llava", depths[d], 4096, 11008);
            struct preset_values v = { 0 };
            struct settings *s = settings_new();
            struct err err = { 0 };
            if (preset_read(&v, p, &m, &err) < 0) fail_msg("%s: %s", p->name, err.text);
            assert_true(v.count > 0);
            for (size_t k = 0; k < v.count; k++)
                if (settings_set(s, v.list[k].key, v.list[k].value, &err) < 0)
                    fail_msg("%s: %s", p->name, err.text);
            assert_ptr_equal(preset_find(p->name), p);
            settings_free(s);
            preset_values_release(&v);
        }
}

static void layers_follow_the_model(void **state)
{
    static const char set[] =
        "prune.layer={early},{transition},{late} ffn.layers={ffn} prune.layer="
        "{early},{late}";
    const struct model known = model_of("llava", 32, 4096, 11008);
    const struct model other = model_of("llava", 28, 3584, 18944);
    struct preset_values v = { 0 };
    struct err err = { 0 };
    assert_int_equal(preset_read_text(&v, set, &known, &err), 0);
    assert_int_equal(v.count, 2); // the later value of a key holds
    assert_string_equal(value_of(&v, "prune.layer"), "5,16");
    assert_string_equal(value_of(&v, "ffn.layers"), "2-5,22-29");
    assert_false(v.guessed);
    preset_values_release(&v);
    assert_int_equal(preset_read_text(&v, set, &other, &err), 0);
    assert_string_equal(value_of(&v, "prune.layer"), "4,18"); // 3.5 and 17.5, ties rounded to even
    assert_string_equal(value_of(&v, "ffn.layers"), "auto");
    assert_true(v.guessed);
    preset_values_release(&v);
    assert_int_equal(preset_read_text(&v, set, NULL, &err), -1);
    assert_non_null(strstr(err.text, "/load MODEL"));
    preset_values_release(&v);
    assert_int_equal(preset_read_text(&v, "a={nothing}", &known, &err), -1);
    assert_int_equal(preset_read_text(&v, "a", &known, &err), -1);
    preset_values_release(&v);
}

// The first four rows are models of section 5 of CAPA's paper; the layers of others are guessed.
static void only_models_of_the_paper_have_recommended_layers(void **state)
{
    static const struct {
        const char *family;
        int layers;
        int64_t hidden, ffn;
        const char *prune, *ffn_layers;
    } rows[] = {
        { "llava", 32, 4096, 11008, "5,12,16", "2-5,22-29" },         // LLaVA-1.5-7B
        { "qwen2_5_vl", 28, 3584, 18944, "3,11,21", "2-5,13-19" },    // Qwen2.5-VL-7B
        { "internvl", 28, 3584, 18944, "3,11,21", "2-4,14-20" },      // InternVL3-8B
        { "internvl_chat", 28, 3584, 18944, "3,11,21", "2-4,14-20" }, // its other layout
        { "llava", 40, 5120, 13824, "5,15,25", "auto" },              // LLaVA-1.5-13B
        { "llava", 32, 4096, 14336, "4,12,20", "auto" },              // with Llama-3-8B
        { "llava-next", 32, 4096, 11008, "4,12,20", "auto" },         // LLaVA-Next-7B
        { "llava-onevision", 28, 3584, 18944, "4,10,18", "auto" },    // 7B
        { "qwen2_5_vl", 36, 2048, 11008, "4,14,22", "auto" },         // 3B
        { "internvl", 36, 4096, 12288, "4,14,22", "auto" },           // InternVL3.5-8B
        { "internvl_chat", 32, 4096, 14336, "4,12,20", "auto" },      // InternVL2.5-8B
        { "glm4v", 40, 4096, 13696, "5,15,25", "auto" },              // GLM-4.1V-9B
        { "kimi_vl", 27, 2048, 11264, "3,10,17", "auto" },            // Kimi-VL-A3B
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct model m =
            model_of(rows[i].family, rows[i].layers, rows[i].hidden, rows[i].ffn);
        struct preset_values v = { 0 };
        struct err err = { 0 };
        assert_non_null(m.family);
        assert_int_equal(
            preset_read_text(&v, "prune.layer={early},{transition},{late} ffn.layers={ffn}", &m,
                             &err),
            0);
        assert_string_equal(value_of(&v, "prune.layer"), rows[i].prune);
        assert_string_equal(value_of(&v, "ffn.layers"), rows[i].ffn_layers);
        assert_int_equal(v.guessed, !strcmp(rows[i].ffn_layers, "auto"));
        preset_values_release(&v);
    }
}

static void apply(struct settings *s, const struct preset *p, const struct model *m)
{
    struct preset_values v = { 0 };
    struct err err = { 0 };
    assert_int_equal(preset_read(&v, p, m, &err), 0);
    for (size_t k = 0; k < v.count; k++)
        assert_int_equal(settings_set(s, v.list[k].key, v.list[k].value, &err), 0);
    preset_values_release(&v);
}

// Expects a's settings to equal b's, and those of training to equal `trained`'s.
static void check_same(const struct settings *a, const struct settings *b,
                       const struct settings *trained, const char *what)
{
    const struct setting *row;
    for (int i = 0; (row = settings_row(i)); i++) {
        const struct settings *from = row->stale == STALE_TRAINING ? trained : b;
        if (strcmp(settings_text(a, row->key), settings_text(from, row->key)) != 0)
            fail_msg("%s: %s is %s, not %s", what, row->key, settings_text(a, row->key),
                     settings_text(from, row->key));
    }
}

// Applying a recipe after any other equals applying it alone. A recipe for the chat leaves the
// settings of training unchanged.
static void recipes_do_not_affect_later_ones(void **state)
{
    const struct model m = model_of("llava", 32, 4096, 11008);
    const struct preset *first, *p;
    for (int i = 0; (p = preset_at(i)); i++) {
        struct settings *alone = settings_new();
        apply(alone, p, &m);
        for (int k = 0; (first = preset_at(k)); k++) {
            struct settings *s = settings_new(), *before = settings_new();
            char what[128];
            snprintf(what, sizeof what, "%s after %s", p->name, first->name);
            apply(before, first, &m);
            apply(s, first, &m);
            apply(s, p, &m);
            check_same(s, alone, strstr(p->set, "train.") ? alone : before, what);
            settings_free(s);
            settings_free(before);
        }
        settings_free(alone);
    }
    assert_true(preset_sets("norm.align"));
    assert_true(preset_sets("train.lr.ira"));
    assert_false(preset_sets("sample.seed"));
    assert_false(preset_sets("norm"));
}

// A recipe sets the toggle of each method, even of those that it disables. IRA in training does not
// enable IRA for answers.
static void recipes_list_enabled_methods(void **state)
{
    static const struct {
        const char *name, *on;
    } rows[] = {
        { "baseline", "" },
        { "capa", "prune ffn_approx" },
        { "fastv", "prune" },
        { "norm-alignment", "norm_align" },
        { "norm-alignment-1", "norm_align" },
        { "norm-alignment-2", "norm_align" },
        { "layernorm-2", "" },
        { "ira", "ira" },
        { "ira-train", "" },
    };
    const struct model model = model_of("llava", 32, 4096, 11008);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct preset_values v = { 0 };
        struct buf on = { 0 };
        struct err err = { 0 };
        const struct method *m;
        assert_int_equal(preset_read(&v, preset_find(rows[i].name), &model, &err), 0);
        buf_puts(&on, "");
        for (int k = 0; (m = method_at(k)); k++) {
            assert_true(preset_says(&v, m->toggle.key));
            if (strcmp(value_of(&v, m->toggle.key), m->toggle.off) != 0)
                buf_printf(&on, "%s%s", on.length ? " " : "", m->name);
        }
        assert_string_equal(on.data ? on.data : "", rows[i].on);
        buf_release(&on);
        preset_values_release(&v);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_recipe_can_be_set),
        cmocka_unit_test(layers_follow_the_model),
        cmocka_unit_test(only_models_of_the_paper_have_recommended_layers),
        cmocka_unit_test(recipes_do_not_affect_later_ones),
        cmocka_unit_test(recipes_list_enabled_methods),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
