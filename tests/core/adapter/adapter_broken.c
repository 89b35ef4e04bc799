// tests/core/adapter/adapter_broken.c -- core/adapter/adapter_config.c, adapter_folder.c and
// adapter_read.c: damaged or unsupported adapters, and those of other models, are refused with a
// message that names the part.
#include "core/files/safetensors.h"
#include "tests/core/adapter/adapter.h"

static void refuse(const char *folder, struct model *m, const char *why)
{
    struct err err = { "" };
    struct adapter *a = adapter_read(folder, m, &err);
    if (a) fail_msg("read, expected '%s'", why);
    if (!strstr(err.text, why)) fail_msg("'%s' does not say '%s'", err.text, why);
}

static void broken_configs_are_refused(void **state)
{
    static const char *const cases[][2] = {
        { "[]", "not a JSON object" },
        { "{}", "peft_type" },
        { "{\"peft_type\": \"VERA\"}", "VERA" },
        { "{\"peft_type\": \"LORA\", \"r\": 0}", "\"r\"" },
        { "{\"peft_type\": \"LORA\", \"r\": -1}", "\"r\"" },
        { "{\"peft_type\": \"LORA\", \"r\": \"NaN\"}", "\"r\"" },
        { "{\"peft_type\": \"LORA\", \"r\": 1e999}", "\"r\"" },
        { "{\"peft_type\": \"LORA\", \"r\": 5}", "rank 4" },
        { "{\"peft_type\": \"LORA\", \"r\": 4, \"lora_alpha\": 1e300}", "out of proportion" },
        { "{\"peft_type\": \"LORA\", \"r\": 4, \"rank_pattern\": {\"q_proj\": 2}}", "rank 4" },
        { "{\"peft_type\": \"LORA\", \"r\": 4, \"rank_pattern\": {\"(\": 2}}", "rank_pattern" },
        { "{\"peft_type\": \"LORA\", \"r\": 4, \"rank_pattern\": [2]}", "rank_pattern" },
        { "{\"peft_type\": \"LORA\", \"r\": 4, \"alpha_pattern\": \"q_proj\"}", "alpha_pattern" },
        { "{\"peft_type\": \"LORA\", \"r\": 4, \"alpha_pattern\": {\"q_proj\": []}}", "numbers" },
        { "{\"peft_type\": \"LORA\", \"r\": 4, \"use_dora\": true}", "DoRA" },
        { "{\"peft_type\": \"LORA\", \"r\": 4, \"init_lora_weights\": \"pissa_niter_4\"}",
          "pissa" },
        { "{\"peft_type\": \"LORA\", \"r\": 4, \"target_modules\": 3}", "target_modules" },
        { "{\"peft_type\": \"LORA\", \"r\": 4, \"target_modules\": \"(\"}", "regular expression" },
        { "{\"peft_type\": \"LORA\", \"r\": 4, \"target_modules\": \"(.*.*)*x(.*.*)*y\"}",
          "too long" },
        { "{\"peft_type\": \"LORA\", \"r\": 4, \"target_modules\": [\"q_proj\"]}", "ignore it" },
        { "{\"peft_type\": \"LORA\", \"r\": 4, \"layers_to_transform\": 0}", "layers.1." },
        { "{\"peft_type\": \"LORA\", \"r\": 4, \"layers_to_transform\": [0, 1, 3]}", "layers.2." },
        { "{\"peft_type\": \"LORA\", \"r\": 4, \"target_modules\": \".*proj\", "
          "\"layers_to_transform\": [0]}",
          "only beside a list" },
        { "{\"peft_type\": \"LORA\", \"r\": 4, \"exclude_modules\": [\"up_proj\"]}", "up_proj" },
        { "{\"peft_type\": \"LORA\", \"r\": 4, \"exclude_modules\": \".*[13].*v_proj\"}",
          "layers.1.self_attn.v_proj" },
        { "{\"peft_type\": \"LORA\", \"r\": 4, \"exclude_modules\": \"(\"}", "exclude_modules" },
        { "{\"peft_type\": \"LORA\", \"r\": 4, \"exclude_modules\": 5}", "exclude_modules" },
        { "{\"peft_type\": \"LORA\", \"r\": 4, \"modules_to_save\": \"norm\"}", "must be a list" },
        { "{\"peft_type\": \"LORA\", \"r\": 4, \"layers_to_transform\": \"3\"}",
          "must be a list or a number" },
        { "{\"peft_type\": \"LORA\", \"r\": 4, \"bias\": \"some\"}", "lora_only" },
        { "{\"peft_type\": \"LN_TUNING\"}", "LN_TUNING" },
        { "{\"peft_type\": \"LORA\", \"r\": 4", "not valid JSON" },
    };
    struct model *m = load(LLAVA);
    char *folder = scratch_new();
    refuse(folder, m, "not an adapter");
    scratch_copy(folder, LORA, "adapter_model.safetensors");
    refuse(folder, m, "not an adapter");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        scratch_text(folder, "adapter_config.json", cases[i][0]);
        refuse(folder, m, cases[i][1]);
    }
    // A config with many expressions, each of which would be tried on each module.
    struct buf many = { 0 };
    buf_puts(&many, "{\"peft_type\": \"LORA\", \"r\": 4, \"rank_pattern\": {");
    for (int i = 0; i < 5000; i++) buf_printf(&many, "\"x%d+\": 4%s", i, i < 4999 ? ", " : "}}");
    scratch_text(folder, "adapter_config.json", many.data);
    refuse(folder, m, "regular expressions");
    buf_clear(&many);
    buf_puts(&many, "{\"peft_type\": \"LORA\", \"r\": 4, \"modules_to_save\": [");
    for (int i = 0; i < 1025; i++) buf_printf(&many, "\"x%d\"%s", i, i < 1024 ? ", " : "]}");
    scratch_text(folder, "adapter_config.json", many.data);
    refuse(folder, m, "more than 1024 entries");
    static const char *const lists[] = { "target_modules", "target_parameters",
                                         "layers_to_transform" };
    for (size_t k = 0; k < sizeof lists / sizeof *lists; k++) {
        buf_clear(&many);
        buf_printf(&many, "{\"peft_type\": \"LORA\", \"r\": 4, \"%s\": [", lists[k]);
        for (int i = 0; i < 65537; i++) buf_printf(&many, "\"x\"%s", i < 65536 ? "," : "]}");
        scratch_text(folder, "adapter_config.json", many.data);
        char *why = xasprintf("\"%s\" has more than 65536 entries", lists[k]);
        refuse(folder, m, why);
        free(why);
    }
    buf_release(&many);
    refuse(LLAVA, m, "but a model");
    refuse("no/such/folder", m, "no folder");
    scratch_remove(folder);
    model_free(m);
}

// Writes one tensor into a file of its own.
static void write_one(const char *folder, const char *file, const char *name, int rank, int64_t a,
                      int64_t b, float value)
{
    struct err err;
    int64_t shape[2] = { a, b }, n = rank == 2 ? a * b : a;
    char *path = xasprintf("%s/%s", folder, file);
    struct safetensors_writer *w = safetensors_writer_new(path);
    safetensors_writer_declare(w, name, DTYPE_F32, rank, shape);
    for (int64_t i = 0; i < n; i++)
        must(safetensors_writer_data(w, &value, sizeof value, &err), &err);
    must(safetensors_writer_finish(w, &err), &err);
    free(path);
}

static void broken_tensors_are_refused(void **state)
{
#define LAYER "base_model.model.model.language_model.layers.0."
    static const struct {
        const char *name;
        int rank;
        int64_t a, b;
        float value;
        const char *why;
    } cases[] = {
        { LAYER "mlp.up_proj.lora_A.weight", 2, 4, 64, 0, "lora_B is missing" },
        { LAYER "mlp.up_proj.lora_A.weight", 2, 4, 63, 0, "another model" },
        { LAYER "mlp.up_proj.lora_A.weight", 1, 4, 0, 0, "another model" },
        { LAYER "mlp.up_proj.lora_A.weight", 2, 0, 64, 0, "another model" },
        { LAYER "mlp.up_proj.lora_A.weight", 2, 4, 64, NAN, "infinities or NaNs" },
        { LAYER "mlp.up_proj.lora_A.a.b.weight", 2, 4, 64, 0, "not a PEFT tensor name" },
        { LAYER "mlp.up_proj.lora_A.nonsense", 2, 4, 64, 0, "not a PEFT tensor name" },
        { LAYER "mlp.up_proj.lora_B.default.nonsense", 2, 88, 4, 0, "not a PEFT tensor name" },
        { LAYER "mlp.up_proj.lora_B.bias", 1, 88, 0, 0, "bias" },
        { LAYER "mlp.up_proj.lora_magnitude_vector.weight", 1, 88, 0, 0, "DoRA" },
        { LAYER "mlp.over_proj.lora_A.weight", 2, 4, 64, 0, "another model" },
        { LAYER "input_layernorm.lora_A.weight", 2, 4, 64, 0, "not supported" },
        { LAYER "input_layernorm.ln_tuning_layers.weight", 1, 64, 0, 1, "LORA" },
        { "base_model.model.lm_head.lora_A.weight", 2, 4, 64, 0, "the head" },
        { "base_model.model.model.language_model.embed_tokens.lora_embedding_A", 2, 4, 552, 0,
          "embedding" },
        { "base_model.model.model.language_model.embed_tokens.weight", 2, 553, 64, 0,
          "another model" },
        { "base_model.model.model.language_model.layers.9.input_layernorm.weight", 1, 64, 0, 0,
          "another model" },
        { "weight", 1, 64, 0, 0, "not a PEFT tensor name" },
        { "", 1, 64, 0, 0, "not a PEFT tensor name" },
    };
    struct model *m = load(LLAVA);
    char *folder = scratch_new();
    scratch_text(folder, "adapter_config.json", "{\"peft_type\": \"LORA\", \"r\": 4}");
    refuse(folder, m, "no adapter_model.safetensors");
    scratch_text(folder, "adapter_model.bin", "");
    refuse(folder, m, "safe_serialization");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        write_one(folder, "adapter_model.safetensors", cases[i].name, cases[i].rank, cases[i].a,
                  cases[i].b, cases[i].value);
        refuse(folder, m, cases[i].why);
    }
    scratch_remove(folder);
    model_free(m);
}

#define EXPERTS "base_model.model.model.layers.1.mlp.experts."

// Writes LoRA on all experts of a layer: A is ones, B has one value.
static void write_stack(const char *folder, const int64_t *a, const int64_t *b, float value)
{
    struct err err;
    char *path = xasprintf("%s/adapter_model.safetensors", folder);
    struct safetensors_writer *w = safetensors_writer_new(path);
    safetensors_writer_declare(w, EXPERTS "lora_A.weight", DTYPE_F32, 2, a);
    safetensors_writer_declare(w, EXPERTS "lora_B.weight", DTYPE_F32, 2, b);
    for (int64_t k = 0; k < a[0] * a[1]; k++)
        must(safetensors_writer_data(w, &(float){ 1 }, sizeof(float), &err), &err);
    for (int64_t k = 0; k < b[0] * b[1]; k++)
        must(safetensors_writer_data(w, &value, sizeof(float), &err), &err);
    must(safetensors_writer_finish(w, &err), &err);
    free(path);
}

// The model has 8 experts of width 24; its hidden size is 48.
static void broken_stacks_are_refused(void **state)
{
    static const struct {
        const char *targets;
        int64_t a[2], b[2];
        float value; // of B
        const char *why;
    } cases[] = {
        { "experts.down_proj", { 16, 24 }, { 48, 16 }, NAN, "infinities or NaNs" },
        { "experts.down_proj", { 16, 24 }, { 48, 0 }, 0, "both must be the same multiple" },
        { "experts.down_proj", { 16, 24 }, { 48, 8 }, 0, "both must be the same multiple" },
        { "experts.down_proj", { 15, 24 }, { 48, 15 }, 0, "multiple of 8, the number of experts" },
        { "experts.down_proj", { 16, 25 }, { 48, 16 }, 0, "another model" },
        { "experts.down_proj", { 8, 24 }, { 48, 8 }, 0, "LoRA has rank 1" },
        { "experts.gate_up_proj",
          { 16, 24 },
          { 48, 16 },
          0,
          "does not name its experts' down_proj" },
        { "experts.down_proj", { 0, 24 }, { 48, 0 }, 0, "both must be the same multiple" },
    };
    struct model *m = load(KIMI);
    char *folder = scratch_new();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *config = xasprintf("{\"peft_type\": \"LORA\", \"r\": 2, \"target_modules\": [], "
                                 "\"target_parameters\": [\"%s\"]}",
                                 cases[i].targets);
        scratch_text(folder, "adapter_config.json", config);
        free(config);
        write_stack(folder, cases[i].a, cases[i].b, cases[i].value);
        refuse(folder, m, cases[i].why);
    }
    scratch_text(folder, "adapter_config.json", "{\"peft_type\": \"LORA\", \"r\": 2}");
    write_one(folder, "adapter_model.safetensors", EXPERTS "lora_A.weight", 2, 16, 24, 0);
    refuse(folder, m, "lora_B.weight' is missing");
    write_one(folder, "adapter_model.safetensors", EXPERTS "base_layer.lora_B.weight", 2, 48, 16,
              0);
    refuse(folder, m, "lora_A.weight' is missing");
    scratch_remove(folder);
    model_free(m);
}

// In a new LoRA of PEFT, B is zero: gate_proj and up_proj each use all of its ranks. If the
// parameter has a rank of its own, /adapter save wrote it, and each uses half of them.
static void zeros_are_shared(void **state)
{
    static const struct {
        const char *config;
        int64_t ranks; // of the parameter
        int64_t each;  // of gate_proj and of up_proj
    } cases[] = { { "\"r\": 1", 1, 1 },
                  { "\"r\": 2", 2, 2 },
                  { "\"r\": 3, \"rank_pattern\": {\"experts.gate_up_proj\": 2}", 2, 1 } };
    struct model *m = load(KIMI);
    char *folder = scratch_new();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const int64_t columns = 8 * cases[i].ranks;
        char *config = xasprintf("{\"peft_type\": \"LORA\", \"target_modules\": [], "
                                 "\"target_parameters\": [\"experts.gate_up_proj\"], %s}",
                                 cases[i].config);
        scratch_text(folder, "adapter_config.json", config);
        free(config);
        write_stack(folder, (int64_t[]){ columns, 48 }, (int64_t[]){ 48, columns }, 0);
        struct adapter *a = read_folder(folder, m);
        assert_int_equal(a->count, 2 * 8);
        assert_int_equal(adapter_parameters(a), 2 * 8 * (48 + 24) * cases[i].each);
        adapter_free(a);
    }
    scratch_remove(folder);
    model_free(m);
}

static void extras_must_fit_the_model(void **state)
{
    static const struct {
        const char *name;
        int rank;
        int64_t a, b;
        const char *why; // NULL: the adapter fits
    } cases[] = {
        { "norm_align.weight", 1, 64, 0, NULL },
        { "norm_align.weight", 1, 63, 0, "another model" },
        { "norm_align.gain", 1, 64, 0, "no method" },
        { "ira.3.head.weight", 2, 17, 16, NULL },
        { "ira.3.head.bias", 1, 17, 0, NULL },
        { "ira.3.prior.weight", 2, 4, 16, NULL },
        { "ira.0.prior_mean.weight", 2, 4, 16, NULL },
        { "ira.4.head.weight", 2, 17, 16, "no method" },
        { "ira.-1.head.weight", 2, 17, 16, "no method" },
        { "ira.03.head.weight", 2, 17, 16, "no method" },
        { "ira..head.weight", 2, 17, 16, "no method" },
        { "ira.99999999999999999999.head.weight", 2, 17, 16, "no method" },
        { "ira.3.head.weight", 2, 16, 17, "another model" },
    };
    struct model *m = load(LLAVA);
    char *folder = scratch_new();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        write_one(folder, "extra.safetensors", cases[i].name, cases[i].rank, cases[i].a, cases[i].b,
                  0.5f);
        if (cases[i].why) {
            refuse(folder, m, cases[i].why);
            continue;
        }
        struct adapter *a = read_folder(folder, m);
        const struct tensor *t = adapter_find(a, cases[i].name);
        assert_non_null(t);
        assert_float_equal(((const float *)t->data)[0], 0.5, 0);
        assert_null(adapter_find(a, "norm_align.other"));
        adapter_free(a);
    }
    write_one(folder, "extra.safetensors", "norm_align.weight", 1, 64, 0, 1);
    struct model *text = load(LLAMA);
    refuse(folder, text, "no method");
    assert_null(adapter_find(NULL, "norm_align.weight"));
    model_free(text);
    scratch_remove(folder);
    model_free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(broken_configs_are_refused), cmocka_unit_test(broken_tensors_are_refused),
        cmocka_unit_test(broken_stacks_are_refused),  cmocka_unit_test(zeros_are_shared),
        cmocka_unit_test(extras_must_fit_the_model),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
