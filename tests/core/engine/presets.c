// tests/core/engine/presets.c -- core/engine/presets.c: every recipe says what settings take,
// layers follow the model.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "core/engine/presets.h"
#include "core/methods/method.h"
#include "core/model/families/family.h"
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
    assert_string_equal(value_of(&v, "prune.layer"), "4,18"); // 3.5 and 17.5, half to even
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

// The models of the paper's section 5, by name, and others of the same families.
static void only_models_of_the_paper_have_known_layers(void **state)
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
        { "internvl_chat", 28, 3584, 18944, "3,11,21", "2-4,14-20" }, // the same
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

static void check_spelling(const char *name, const char *expected)
{
    struct buf b = { 0 };
    preset_spell(preset_find(name), &b);
    assert_string_equal(b.data, expected);
    buf_release(&b);
}

// What a preset switches off is said like what it sets.
static void methods_that_are_off_are_spelled(void **state)
{
    struct buf off = { 0 };
    const struct method *m;
    for (int i = 0; (m = method_shown(i)); i++)
        buf_printf(&off, "%s%s=%s", i ? " " : "", m->toggle.key, m->toggle.off);
    check_spelling("baseline", off.data);
    check_spelling("fastv", "prune.score=attention prune.layer=2 prune.keep=0.5 prune.mode=prefill "
                            "ffn.approx=off");
    check_spelling("capa", preset_find("capa")->set);
    check_spelling("norm-alignment", preset_find("norm-alignment")->set);
    buf_release(&off);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_recipe_can_be_set),
        cmocka_unit_test(layers_follow_the_model),
        cmocka_unit_test(only_models_of_the_paper_have_known_layers),
        cmocka_unit_test(methods_that_are_off_are_spelled),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
