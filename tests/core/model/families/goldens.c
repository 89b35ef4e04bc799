// tests/core/model/families/goldens.c -- the whole path (tokenizer, prompt, pixels, encoder,
// projector, decoder, generation) of the models below against tensors that Hugging Face
// transformers computed; dumping changes no answer.
//
// Each stage is read through /dump's taps and compared within its tolerance in golden.json; the
// generated ids must be equal.
#include "core/model/layer.h"
#include "tests/core/model/families/golden.h"

static const char *const folders[] = { GOLDEN_TRAINED,      GOLDEN_TEXT,    "internvl2-internlm2",
                                       "internvl2.5-qwen2", "kimi-text",    "llava-next",
                                       "qwen2-vl",          "qwen3-vl-moe", "gemma3-text",
                                       "pixtral",           "qwen3.5",      "qwen3.5-moe",
                                       "glm-4.5v",          "glm-ocr",      "minicpm-v-4.6" };

static void check_vision(const struct golden *g, const struct safetensors *f, const char *picture)
{
    char theirs[64], ours[64];
    snprintf(theirs, sizeof theirs, "pix.%s", picture);
    compare_all(g, f, "pixels.0", theirs);
    compare_all(g, f, "vision.0", "fwd.projector_in");
    compare_all(g, f, "visual.0", "fwd.visual_tokens");
    for (int l = 0; l <= engine_model(g->engine)->vision.config.layers; l++) {
        snprintf(ours, sizeof ours, "vision.layer.%d.0", l);
        snprintf(theirs, sizeof theirs, "fwd.vision.h%d", l);
        // Some goldens leave out these large tensors.
        if (safetensors_find(g->tensors, theirs)) compare_all(g, f, ours, theirs);
    }
}

static void check_decoder(const struct golden *g, const struct safetensors *f)
{
    const struct decoder_config *c = &engine_model(g->engine)->decoder.config;
    const int layers = c->layers;
    compare_all(g, f, "ids", "fwd.input_ids");
    compare_all(g, f, "positions", "fwd.position_ids");
    compare_slice(g, f, "embed", 0, "fwd.h", 0);
    for (int l = 0, attending = 0; l < layers; l++) {
        compare_slice(g, f, "layer.%d.in", l, "fwd.h", l);
        if (decoder_attends(c, l)) {
            compare_slice(g, f, "attn.%d.probs", l, "fwd.attn", attending);
            compare_slice(g, f, "attn.%d.value", l, "fwd.value", attending++);
        }
        char value[2][32]; // one by one where the layers' heads differ in width
        snprintf(value[0], sizeof value[0], "attn.%d.value", l);
        snprintf(value[1], sizeof value[1], "fwd.value.%d", l);
        if (safetensors_find(g->tensors, value[1])) compare_all(g, f, value[0], value[1]);
        if (!c->kind->after_layer) compare_slice(g, f, "ffn.%d.out", l, "fwd.h", l + 1);
    }
    compare_slice(g, f, "layer.out", 0, "fwd.h", layers);
    char tap[32];
    snprintf(tap, sizeof tap, "ffn.%d.in", golden_capa_layer(g));
    if (safetensors_find(g->tensors, "fwd.ffn_in")) compare_all(g, f, tap, "fwd.ffn_in");
    snprintf(tap, sizeof tap, "ffn.%d.out", golden_capa_layer(g));
    if (c->kind->after_layer) compare_all(g, f, tap, "fwd.ffn_out");
    compare_all(g, f, "logits", "fwd.logits");
}

static void check_every_stage(const struct backend *backend)
{
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        struct golden g;
        golden_open_on(&g, folders[i], backend);
        const cJSON *forward = json_get(g.json, "forward");
        const cJSON *picture = json_get(forward, "picture");
        const cJSON *chat = chat_named(&g, json_get(forward, "prompt")->valuestring);
        struct safetensors *f = answer(&g, chat, 24, "*");
        if (picture) check_vision(&g, f, picture->valuestring);
        check_decoder(&g, f);
        check_generated(&g, "gen.ids");
        compare_all(&g, f, "step.logits", "gen.logits");
        safetensors_close(f);
        golden_close(&g);
    }
}

// Tests each instruction set of this processor, or the device of the test. With sanitizers, only
// the best set: tests/kernels/ gives the kernels of all sets buffers of exact sizes.
static void every_stage_equals_the_reference(void **state)
{
#ifdef __SANITIZE_ADDRESS__
    const bool one = true;
#else
    const bool one = test_device() != backend_cpu();
#endif
    if (one) {
        check_every_stage(test_device());
        return;
    }
    for (int i = 0; i < TEST_ISAS; i++) {
        const struct backend *backend = test_isa(i);
        if (backend) check_every_stage(backend);
    }
}

// Tests other prompts: several pictures, several turns, text only.
static void every_chat_equals_the_reference(void **state)
{
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        struct golden g;
        const cJSON *chat;
        int checked = 0;
        golden_open(&g, folders[i]);
        cJSON_ArrayForEach(chat, json_get(g.json, "chat"))
        {
            char name[80];
            const char *chat_name = json_get(chat, "name")->valuestring;
            snprintf(name, sizeof name, "fwd_%s.input_ids", chat_name);
            if (!safetensors_find(g.tensors, name)) continue;
            struct safetensors *f = answer(&g, chat, 8, "ids positions logits");
            compare_all(&g, f, "ids", name);
            snprintf(name, sizeof name, "fwd_%s.position_ids", chat_name);
            compare_all(&g, f, "positions", name);
            snprintf(name, sizeof name, "fwd_%s.logits_last", chat_name);
            check_last(&g, f, name);
            snprintf(name, sizeof name, "fwd_%s.gen_ids", chat_name);
            if (safetensors_find(g.tensors, name)) check_generated(&g, name);
            safetensors_close(f);
            checked++;
        }
        // At least the chats text_only and two_turn; second_picture and two_images need vision.
        assert_true(checked >= (model_has_vision(engine_model(g.engine)) ? 4 : 2));
        golden_close(&g);
    }
}

// Dumping every tap changes no bit of the logits of any step.
static void a_probe_never_changes_an_answer(void **state)
{
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        struct golden g;
        golden_open(&g, folders[i]);
        const cJSON *chat =
            chat_named(&g, json_get(json_get(g.json, "forward"), "prompt")->valuestring);
        struct safetensors *all = answer(&g, chat, 24, "*");
        struct safetensors *one = answer(&g, chat, 24, "step.logits");
        const struct safetensor *a = safetensors_find(all, "step.logits");
        const struct safetensor *b = safetensors_find(one, "step.logits");
        assert_int_equal(one->count, 1);
        assert_int_equal(a->bytes, b->bytes);
        assert_memory_equal(a->data, b->data, a->bytes);
        safetensors_close(all);
        safetensors_close(one);
        golden_close(&g);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_stage_equals_the_reference),
        cmocka_unit_test(every_chat_equals_the_reference),
        cmocka_unit_test(a_probe_never_changes_an_answer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
