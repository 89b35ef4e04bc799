// tests/core/new/new_model.c -- core/new/new_model.c, shapes.c, new_tokenizer.c: published sizes,
// small folders read back, made tokenizers, and writes that fail.
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/resource.h>

#include <cmocka.h>

#include "core/files/checkpoint.h"
#include "core/files/safetensors.h"
#include "core/new/new_model.h"
#include "core/new/new_tokenizer.h"
#include "core/new/shapes.h"
#include "core/tokenizer/tokenizer.h"
#include "tests/core/scratch.h"

static struct new_model_counts count(const char *shape)
{
    struct new_model_counts n;
    struct err err;
    if (new_model_count(shape, &n, &err) < 0) fail_msg("%s", err.text);
    int64_t sum = 0;
    for (int i = 0; i < MODEL_PARTS; i++) sum += n.parts[i].parameters;
    assert_int_equal(sum, n.total);
    assert_int_equal(n.bytes, 2 * (uint64_t)n.total);
    return n;
}

// The published counts: those that transformers 5.23 gives for a model of these sizes on the meta
// device. Where cards and papers state a count (Qwen3-0.6B 596M, InternVL3.5-1B 1.06B, -8B 8.53B,
// Kimi-VL 16.4B), it is this one, rounded.
static void agrees_with_published_counts(void **state)
{
    const int64_t llama_1b = 1235814400, llama_3b = 3212749824, so400m = 428225600;
    const int64_t llama2_7b = 6738415616, llama2_13b = 13015864320, clip = 303507456;
    struct new_model_counts n = count("llama-3.2-1b");
    assert_int_equal(n.total, llama_1b);
    n = count("llama-3.2-1b+siglip-so400m");
    assert_int_equal(n.parts[0].parameters, so400m);
    assert_int_equal(n.total - n.parts[0].parameters - n.parts[1].parameters, llama_1b);
    n = count("llama-3.2-3b+siglip-so400m");
    assert_int_equal(n.total - n.parts[0].parameters - n.parts[1].parameters, llama_3b);
    // MoonViT-So400M as in Kimi-VL: 2 x 2 of its features make one visual token.
    n = count("llama-3.2-1b+moonvit");
    assert_int_equal(n.parts[0].parameters, count("kimi-vl-a3b").parts[0].parameters);
    assert_int_equal(n.parts[1].parameters, 4609 * 2048 + 2049 * 2048);
    assert_int_equal(n.total - n.parts[0].parameters - n.parts[1].parameters, llama_1b);
    n = count("llama-3.2-3b+moonvit");
    assert_int_equal(n.total - n.parts[0].parameters - n.parts[1].parameters, llama_3b);
    n = count("llava-1.5-7b");
    assert_int_equal(n.total, 7063427072);
    assert_int_equal(n.parts[0].parameters, clip);
    assert_int_equal(count("llava-1.5-13b").total, 13351494656);
    n = count("mm-llama2-7b");
    assert_int_equal(n.total, llama2_7b + clip + 1024 * 4096 + 4096);
    n = count("mm-llama2-13b");
    assert_int_equal(n.total, llama2_13b + clip + 1024 * 5120 + 5120);
    assert_int_equal(count("internvl3-1b").total, 938193024);
    assert_int_equal(count("internvl3-2b").total, 2088957440);
    assert_int_equal(count("internvl3-8b").total, 7944373760);
    assert_int_equal(count("internvl2-2b").total, 2205754368);
    assert_int_equal(count("internvl2-8b").total, 8075365376);
    assert_int_equal(count("internvl3.5-1b").total, 1060897792);
    assert_int_equal(count("internvl3.5-2b").total, 2348347392);
    assert_int_equal(count("internvl3.5-8b").total, 8528318464);
    assert_int_equal(count("smolvlm-256m").total, 256484928);
    assert_int_equal(count("smolvlm-500m").total, 507482304);
    assert_int_equal(count("smolvlm2-2.2b").total, 2246784880);
    assert_int_equal(count("qwen2-vl-2b").total, 2208985600);
    assert_int_equal(count("qwen2-vl-7b").total, 8291375616);
    assert_int_equal(count("gemma3-4b").total, 4300079472);
    assert_int_equal(count("gemma3-12b").total, 12187325040);
    assert_int_equal(count("gemma3-27b").total, 27432406640);
    // Gemma 4 without its audio encoder.
    assert_int_equal(count("gemma4-e2b").total, 4797114083);
    assert_int_equal(count("gemma4-e4b").total, 7632344554);
    assert_int_equal(count("gemma4-31b").total, 31273088876);
    assert_int_equal(count("gemma4-26b-a4b").total, 25805936206);
    // The hub counts 11959730224, with the 640 x 3840 weights that read audio.
    assert_int_equal(count("gemma4-12b").total, 11959730224 - 2457600);
    assert_int_equal(count("mistral-small-3.1").total, 24011361280);
    assert_int_equal(count("pixtral-12b").total, 12682739712);
    assert_int_equal(count("qwen3-vl-2b").total, 2127532032);
    assert_int_equal(count("qwen3-vl-4b").total, 4437815808);
    assert_int_equal(count("qwen3-vl-8b").total, 8767123696);
    assert_int_equal(count("qwen3-vl-32b").total, 33357390064);
    assert_int_equal(count("qwen3-vl-30b-a3b").total, 31070754032);
    // Without the layer that predicts further tokens.
    assert_int_equal(count("qwen3.5-35b-a3b").total, 35107181936);
    assert_int_equal(count("qwen3.5-122b-a10b").total, 122562817776);
    assert_int_equal(count("qwen3.5-397b-a17b").total, 396802360816);
    // 752393024 in the decoder, 522299312 in the encoder and its window, 25967104 in the projector.
    n = count("minicpm-v-4.6");
    assert_int_equal(n.parts[0].parameters, 522299312);
    assert_int_equal(n.total, 1300659440);
    assert_int_equal(count("qwen3-0.6b").total, 596049920);
    assert_int_equal(count("qwen3-1.7b").total, 1720574976);
    // Qwen2's counts with 64 more rows; 26 of SigLIP's 27 blocks, without the pooling head.
    const int64_t qwen2_half = 494032768 + 64 * 896, qwen2_7b = 7615616512 + 2 * 64 * 3584;
    const int64_t siglip_26 = 397747744;
    n = count("llava-onevision-0.5b");
    assert_int_equal(n.parts[0].parameters, siglip_26);
    assert_int_equal(n.total, 893675552);
    assert_int_equal(n.total, qwen2_half + siglip_26 + 1153 * 896 + 897 * 896 + 896);
    n = count("llava-onevision-7b");
    assert_int_equal(n.total, 8030807584);
    assert_int_equal(n.total, qwen2_7b + siglip_26 + 1153 * 3584 + 3585 * 3584 + 3584);
    assert_int_equal(count("llava-next-7b").total, 7063427072 + 4096);
    assert_int_equal(count("qwen2.5-vl-3b").total, 3754622976);
    assert_int_equal(count("qwen2.5-vl-7b").total, 8292166656);
    assert_int_equal(count("glm-4.1v-9b").total, 10292777472);
    assert_int_equal(count("glm-4.6v-flash").total, 10292777472);
    assert_int_equal(count("glm-ocr").total, 1107405824);               // as transformers counts
    assert_int_equal(count("glm-4.5v").total, 107710927360 + 45 * 128); // and the routers' biases
    // Parameters of the language model with its routers' biases, of MoonViT and of the projector,
    // by the formulas of the authors' code.
    const int64_t moonlight = 15960108544 + 26 * 64, moonvit = 416866032;
    n = count("kimi-vl-a3b");
    assert_int_equal(n.parts[0].parameters, moonvit);
    assert_int_equal(n.parts[1].parameters, 2304 + 4609 * 4608 + 4609 * 2048);
    assert_int_equal(n.total, moonlight + moonvit + n.parts[1].parameters);
    struct err err;
    assert_int_equal(new_model_count("llama-9", &n, &err), -1);
    assert_non_null(strstr(err.text, "mm-llama2-13b"));
    for (int i = 0; new_model_shape(i); i++) {
        count(new_model_shape(i));
    }
}

// The shares of all parameters that the sets of the LayerNorm-tuning paper (Table 2) train.
static void agrees_with_published_shares(void **state)
{
    static const struct {
        const char *shape;
        int64_t layers, hidden, ffn;
        double full, qv, mlp, norms;
    } rows[] = { { "mm-llama2-7b", 32, 4096, 11008, 95.7, 19.0, 65.2, 3.8 },
                 { "mm-llama2-13b", 40, 5120, 13824, 97.7, 18.2, 66.2, 2.5 } };
    for (int i = 0; i < 2; i++) {
        struct new_model_counts n = count(rows[i].shape);
        double outer = 0, all = (double)n.total / 100;
        for (int k = 1; k <= 4; k++)
            if (k != PART_DECODER) outer += (double)n.parts[k].parameters;
        double layers = (double)rows[i].layers, d = (double)rows[i].hidden;
        double full = (double)(n.total - n.parts[0].parameters);
        assert_true(fabs(full / all - rows[i].full) < 0.05);
        assert_true(fabs((outer + 2 * layers * d * d) / all - rows[i].qv) < 0.06);
        assert_true(fabs((outer + 3 * layers * d * (double)rows[i].ffn) / all - rows[i].mlp) <
                    0.06);
        assert_true(fabs((outer + 2 * layers * d) / all - rows[i].norms) < 0.05);
    }
}

static void write_tiny(const char *folder, uint64_t seed)
{
    struct err err = { "" };
    if (new_model_write("tiny", folder, seed, NULL, NULL, &err) < 0) fail_msg("%s", err.text);
}

static double mean_and_spread(const struct safetensor *t, double *spread)
{
    double sum = 0, squares = 0;
    size_t n = t->bytes / 2;
    for (size_t i = 0; i < n; i++) {
        uint16_t half;
        memcpy(&half, (const char *)t->data + 2 * i, 2);
        uint32_t bits = (uint32_t)half << 16;
        float x;
        memcpy(&x, &bits, 4);
        sum += (double)x;
        squares += (double)x * (double)x;
    }
    *spread = sqrt(squares / (double)n - sum / (double)n * (sum / (double)n));
    return sum / (double)n;
}

static void counts_fewer_layers(void **state)
{
    char *text = shape_config_layers(shape_find("kimi-vl-a3b", NULL), 4);
    assert_non_null(strstr(text, "\"num_hidden_layers\":4,"));
    assert_non_null(strstr(text, "\"num_hidden_layers\":27,")); // layers of the encoder
    free(text);
    assert_null(shape_config_layers(shape_find("tiny", NULL), 2));
}

static void writes_a_whole_folder(void **state)
{
    char *base = scratch_new(), *folder = xasprintf("%s/tiny", base);
    write_tiny(folder, 1);
    struct err err = { "" };
    struct checkpoint *c = checkpoint_open(folder, NULL, &err);
    if (!c) fail_msg("%s", err.text);
    assert_true(checkpoint_bytes(c) == count("tiny").bytes && checkpoint_bytes(c) < 2000000);
    assert_non_null(c->generation);
    assert_non_null(c->preprocessor);
    assert_non_null(c->processor);
    assert_non_null(strstr(c->chat_template, "<|eot_id|>"));
    double spread;
    const struct safetensor *w = checkpoint_find(c, "language_model.model.embed_tokens.weight");
    assert_int_equal(w->shape[0], 512);
    assert_true(fabs(mean_and_spread(w, &spread)) < 0.002);
    assert_true(fabs(spread - 0.1) < 0.002);
    w = checkpoint_find(c, "vision_tower.vision_model.encoder.layers.3.layer_norm2.weight");
    assert_true(mean_and_spread(w, &spread) == 1 && spread == 0);
    w = checkpoint_find(c, "vision_tower.vision_model.embeddings.patch_embedding.weight");
    assert_true(w->rank == 4 && w->shape[3] == 12);
    assert_true(checkpoint_has(c, "multi_modal_projector.linear_2.bias"));
    checkpoint_close(c);
    scratch_remove(base);
    free(folder);
}

static char *fingerprint_of(const char *base, uint64_t seed)
{
    char *folder = xasprintf("%s/m", base);
    write_tiny(folder, seed);
    struct checkpoint *c = checkpoint_open(folder, NULL, NULL);
    assert_int_equal(checkpoint_identify(c, NULL, NULL), 0);
    char *text = xstrdup(c->fingerprint);
    checkpoint_close(c);
    char *moved = xasprintf("%s/old-%p", base, (void *)text);
    assert_int_equal(rename(folder, moved), 0);
    free(moved);
    free(folder);
    return text;
}

static void seed_decides(void **state)
{
    char *base = scratch_new();
    char *a = fingerprint_of(base, 7), *b = fingerprint_of(base, 7), *c = fingerprint_of(base, 8);
    assert_string_equal(a, b);
    assert_string_not_equal(a, c);
    free(a);
    free(b);
    free(c);
    scratch_remove(base);
}

// The ids of the vocabulary are 0..V-1 without gaps; merges join existing tokens.
static void check_tokenizer(const cJSON *json, int64_t vocabulary)
{
    const cJSON *model = json_get(json, "model"), *vocab = json_get(model, "vocab"), *item;
    char *seen = xcalloc((size_t)vocabulary, 1);
    cJSON_ArrayForEach(item, vocab)
    {
        assert_true(item->valueint >= 0 && item->valueint < vocabulary);
        assert_int_equal(seen[item->valueint]++, 0);
    }
    cJSON_ArrayForEach(item, json_get(json, "added_tokens"))
    {
        int64_t id = json_get(item, "id")->valueint;
        const cJSON *same = json_get(vocab, json_get(item, "content")->valuestring);
        assert_true(id < vocabulary);
        if (same)
            assert_int_equal(same->valueint, id);
        else
            assert_int_equal(seen[id]++, 0);
    }
    for (int64_t i = 0; i < vocabulary; i++) assert_int_equal(seen[i], 1);
    free(seen);
    int merges = 0;
    cJSON_ArrayForEach(item, json_get(model, "merges"))
    {
        const char *space = strchr(item->valuestring, ' ');
        assert_non_null(space);
        char *left = xstrndup(item->valuestring, (size_t)(space - item->valuestring));
        char *both = xasprintf("%s%s", left, space + 1);
        assert_true(json_get(vocab, left) && json_get(vocab, space + 1) && json_get(vocab, both));
        free(left);
        free(both);
        merges++;
    }
    assert_true(merges > 150);
}

static int64_t added_id(const cJSON *json, const char *content)
{
    const cJSON *item;
    cJSON_ArrayForEach(item, json_get(json, "added_tokens"))
    {
        const char *text = json_get(item, "content")->valuestring;
        if (!strcmp(text, content)) return json_get(item, "id")->valueint;
    }
    return -1;
}

static void tokenizers_are_sound(void **state)
{
    static const struct {
        const char *shape, *special;
        int64_t tokens, id, image;
    } rows[] = {
        { "tiny", "<|begin_of_text|>", 512, 500, 511 },
        { "llama-3.2-1b", "<|eot_id|>", 128256, 128009, -1 },
        { "llama-3.2-1b+siglip-so400m", "<|reserved_special_token_246|>", 128256, 128254, 128255 },
        { "llava-1.5-7b", "</s>", 32002, 2, 32000 },
        { "mm-llama2-13b", "<pad>", 32000, 31999, 31998 },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct new_tokenizer t;
        new_tokenizer_make(&t, shape_find(rows[i].shape, NULL), NULL);
        assert_int_equal(t.image, rows[i].image);
        cJSON *json = json_parse(t.json, strlen(t.json), "tokenizer.json", NULL);
        assert_non_null(json);
        check_tokenizer(json, rows[i].tokens);
        assert_int_equal(added_id(json, rows[i].special), rows[i].id);
        assert_int_equal(added_id(json, "<image>"), rows[i].image);
        cJSON_Delete(json);
        json = json_parse(t.config, strlen(t.config), "tokenizer_config.json", NULL);
        assert_non_null(json);
        assert_string_equal(json_get(json, "chat_template")->valuestring, t.chat_template);
        cJSON_Delete(json);
        new_tokenizer_release(&t);
    }
    // Where <image> is a mark of the prompt, the placeholder is another token.
    struct new_tokenizer t;
    new_tokenizer_make(&t, shape_find("minicpm-v-4.6", NULL), NULL);
    cJSON *json = json_parse(t.json, strlen(t.json), "tokenizer.json", NULL);
    assert_int_equal(t.image, 248319);
    assert_int_equal(added_id(json, "<|image_pad|>"), 248319);
    assert_int_equal(added_id(json, "<image>"), 248044 + 11 + 2);
    assert_non_null(strstr(t.chat_template, "'<|image_pad|>\\n'"));
    assert_non_null(strstr(t.config, "\"image_token\": \"<|image_pad|>\""));
    cJSON_Delete(json);
    new_tokenizer_release(&t);
}

// Counts the tokens of the text with the tokenizer learned from `learned`.
static size_t length_in_tokens(const char *learned, const char *text)
{
    struct new_tokenizer t;
    struct ids ids = { 0 };
    struct err err;
    new_tokenizer_make(&t, shape_find("demo", NULL), learned);
    struct tokenizer *tokenizer = tokenizer_parse(t.json, strlen(t.json), "made", &err);
    if (!tokenizer) fail_msg("%s", err.text);
    assert_int_equal(tokenizer_size(tokenizer), 1024);
    if (tokenizer_encode(tokenizer, text, strlen(text), 0, &ids, &err) < 0)
        fail_msg("%s", err.text);
    struct buf back = { 0 };
    tokenizer_decode(tokenizer, ids.data, ids.count, false, &back);
    assert_string_equal(back.data, text);
    const size_t count = ids.count;
    buf_release(&back);
    ids_release(&ids);
    tokenizer_free(tokenizer);
    new_tokenizer_release(&t);
    return count;
}

// Words that occur twice become one token, which includes the space before the word.
static void words_are_learned_from_text(void **state)
{
    static const char seldom[] = "a quokka";
    assert_true(length_in_tokens(NULL, seldom) > 4);
    assert_int_equal(length_in_tokens("a quokka, a quokka", seldom), 2);
    assert_int_equal(length_in_tokens("a quokka, a quokka", "a quokka; 2 quokka"), 6);
    assert_int_equal(length_in_tokens("a quokka", seldom), length_in_tokens(NULL, seldom));
}

// Initial weights: biases of zero and smaller last matrices of blocks. The encoder has no pooling
// head, and the features are the last block's.
static void fresh_shapes_begin_small(void **state)
{
    char *base = scratch_new(), *folder = xasprintf("%s/demo", base);
    struct err err = { "" };
    assert_false(new_model_written(folder));
    if (new_model_write("demo", folder, 3, "red red", NULL, &err) < 0) fail_msg("%s", err.text);
    assert_true(new_model_written(folder));
    struct checkpoint *c = checkpoint_open(folder, NULL, &err);
    if (!c) fail_msg("%s", err.text);
    assert_true(checkpoint_bytes(c) <= 10000000);
    double spread;
    const struct shape *s = shape_find("demo", NULL);
    const char *end = "language_model.model.layers.7.mlp.down_proj.weight";
    mean_and_spread(checkpoint_find(c, end), &spread);
    assert_true(fabs(spread * sqrt(2.0 * (double)s->layers) / s->spread - 1) < 0.02);
    end = "vision_tower.vision_model.encoder.layers.0.self_attn.out_proj.weight";
    mean_and_spread(checkpoint_find(c, end), &spread);
    assert_true(fabs(spread * sqrt(2.0 * (double)s->tower_layers) / s->spread - 1) < 0.02);
    end = "language_model.model.layers.7.mlp.up_proj.weight";
    mean_and_spread(checkpoint_find(c, end), &spread);
    assert_true(fabs(spread / s->spread - 1) < 0.02);
    end = "multi_modal_projector.linear_1.bias";
    assert_true(mean_and_spread(checkpoint_find(c, end), &spread) == 0 && spread == 0);
    assert_false(checkpoint_has(c, "vision_tower.vision_model.head.probe"));
    assert_int_equal(json_get(c->config, "vision_feature_layer")->valueint, -1);
    checkpoint_close(c);
    scratch_remove(base);
    free(folder);
}

// The file has its whole size, but only the header takes disk space.
static void zeros_take_no_disk(void **state)
{
    char *base = scratch_new(), *folder = xasprintf("%s/m", base);
    char *path = xasprintf("%s/model.safetensors", folder);
    struct err err = { "" };
    struct stat st;
    double spread;
    if (new_model_write_zeros("demo", folder, NULL, &err) < 0) fail_msg("%s", err.text);
    assert_int_equal(stat(path, &st), 0);
    assert_true(st.st_size > 9000000 && st.st_blocks * 512 < 1000000);
    struct checkpoint *c = checkpoint_open(folder, NULL, &err);
    if (!c) fail_msg("%s", err.text);
    const struct safetensor *t =
        checkpoint_find(c, "language_model.model.layers.7.mlp.up_proj.weight");
    assert_true(mean_and_spread(t, &spread) == 0 && spread == 0);
    checkpoint_close(c);
    scratch_remove(base);
    free(path);
    free(folder);
}

static void refuses_a_folder_in_use(void **state)
{
    char *folder = scratch_new();
    struct err err;
    scratch_text(folder, "letter.txt", "dear");
    assert_int_equal(new_model_write("tiny", folder, 1, NULL, NULL, &err), -1);
    assert_non_null(strstr(err.text, "already exists"));
    char *path = xasprintf("%s/letter.txt", folder);
    assert_int_equal(access(path, F_OK), 0); // the file still exists
    assert_int_equal(new_model_write("tiny", path, 1, NULL, NULL, &err), -1);
    assert_int_equal(new_model_write("no such", folder, 1, NULL, NULL, &err), -1);
    assert_int_equal(unlink(path), 0);
    // The folder is empty now.
    assert_int_equal(new_model_write("tiny", folder, 1, NULL, NULL, &err), 0);
    free(path);
    scratch_remove(folder);
}

// On a full disk, no file remains.
static void undoes_a_failed_write(void **state)
{
    char *base = scratch_new(), *folder = xasprintf("%s/m", base);
    struct err err = { "" };
    struct rlimit old, small;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    small = old;
    small.rlim_cur = 200000; // enough for the texts, not for the weights
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    int status = new_model_write("tiny", folder, 1, NULL, NULL, &err);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    assert_int_equal(status, -1);
    assert_non_null(strstr(err.text, "model.safetensors"));
    assert_int_equal(access(folder, F_OK), -1);
    assert_int_equal(rmdir(base), 0);
    free(folder);
    free(base);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(agrees_with_published_counts),
        cmocka_unit_test(agrees_with_published_shares),
        cmocka_unit_test(counts_fewer_layers),
        cmocka_unit_test(writes_a_whole_folder),
        cmocka_unit_test(seed_decides),
        cmocka_unit_test(tokenizers_are_sound),
        cmocka_unit_test(words_are_learned_from_text),
        cmocka_unit_test(fresh_shapes_begin_small),
        cmocka_unit_test(zeros_take_no_disk),
        cmocka_unit_test(refuses_a_folder_in_use),
        cmocka_unit_test(undoes_a_failed_write),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
