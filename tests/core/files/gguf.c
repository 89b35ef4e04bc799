// tests/core/files/gguf.c -- core/files/gguf.c: files that follow the format, and files that break
// its rules.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/files/gguf_parts.h"
#include "tests/core/files/gguf_out.h"
#include "tests/core/quick.h"
#include "tests/core/scratch.h"

static const float numbers[64] = { 1, 2, 3, 4, 5, 6 };

static struct gguf_out start(void)
{
    return (struct gguf_out){ .version = 3, .alignment = 32 };
}

static void accept(struct gguf_out *o, uint64_t tensors)
{
    struct err err = { "" };
    struct buf file = out_file(o);
    struct gguf *f = gguf_parse(file.data, file.length, "test", &err);
    if (!f) fail_msg("refused: %s", err.text);
    assert_int_equal(f->tensor_count, tensors);
    gguf_close(f);
    buf_release(&file);
}

static void refuse_bytes(const struct buf *file, const char *why)
{
    struct err err = { "" };
    struct gguf *f = gguf_parse(file->data, file->length, "test", &err);
    if (f) fail_msg("accepted, expected '%s'", why);
    if (!strstr(err.text, why)) fail_msg("'%s' does not say '%s'", err.text, why);
    if (!strstr(err.text, "'test'")) fail_msg("'%s' does not name the file", err.text);
}

static void refuse(struct gguf_out *o, const char *why)
{
    struct buf file = out_file(o);
    refuse_bytes(&file, why);
    buf_release(&file);
}

static struct gguf_out sample(void)
{
    struct gguf_out o = start();
    out_text(&o, "general.architecture", "llama");
    out_u32(&o, "llama.block_count", 30);
    out_real(&o, "llama.rope.freq_base", 1e4F);
    out_bool(&o, "tokenizer.ggml.add_bos_token", true);
    out_list(&o, "texts", OUT_TEXT, 2);
    put_text(&o.pairs, "a");
    put_text(&o.pairs, "bc");
    out_list(&o, "ids", OUT_I32, 2);
    put_number(&o.pairs, (uint32_t)-7, 4);
    put_number(&o.pairs, 9, 4);
    out_tensor(&o, "b", 0, 2, (uint64_t[]){ 3, 2 }, numbers, 24);
    out_tensor(&o, "a", 8, 2, (uint64_t[]){ 32, 1 }, numbers, 34);
    return o;
}

static void reads_a_file(void **state)
{
    struct err err;
    int64_t whole;
    double real;
    bool yes;
    size_t length;
    struct gguf_out o = sample();
    struct buf file = out_file(&o);
    struct gguf *f = gguf_parse(file.data, file.length, "test", &err);
    assert_non_null(f);
    assert_string_equal(gguf_text(f, "general.architecture"), "llama");
    assert_null(gguf_text(f, "llama.block_count"));
    assert_int_equal(gguf_int(f, "llama.block_count", 1, 100, 0, &whole, &err), 0);
    assert_int_equal(whole, 30);
    assert_int_equal(gguf_int(f, "none", 1, 100, 5, &whole, &err), 0);
    assert_int_equal(whole, 5);
    assert_int_equal(gguf_int(f, "llama.block_count", 1, 29, 0, &whole, &err), -1);
    assert_int_equal(gguf_int(f, "general.architecture", 1, 29, 0, &whole, &err), -1);
    assert_int_equal(gguf_real(f, "llama.rope.freq_base", 0, &real, &err), 0);
    assert_true(real > 9999 && real < 10001);
    assert_int_equal(gguf_bool(f, "tokenizer.ggml.add_bos_token", false, &yes, &err), 0);
    assert_true(yes);

    const struct gguf_entry *list;
    assert_int_equal(gguf_list(f, "texts", true, 2, &list, &err), 0);
    const unsigned char *at = list->data;
    assert_true(*gguf_next(&at, &length) == 'a' && length == 1);
    assert_true(!strncmp(gguf_next(&at, &length), "bc", 2) && length == 2);
    assert_int_equal(gguf_list(f, "texts", true, 1, &list, &err), -1);
    assert_int_equal(gguf_list(f, "texts", false, 2, &list, &err), -1);
    assert_int_equal(gguf_list(f, "ids", false, 2, &list, &err), 0);
    assert_true(gguf_number(list, 0) < -6.5 && gguf_number(list, 1) > 8.5);

    const struct safetensor *a = gguf_find(f, "a"), *b = gguf_find(f, "b");
    assert_int_equal(a->dtype, DTYPE_Q8_0);
    assert_int_equal(a->bytes, 34);
    assert_string_equal(b->type, "F32");
    assert_int_equal(b->shape[0], 2);
    assert_int_equal(b->shape[1], 3);
    assert_memory_equal(b->data, numbers, 24);
    assert_null(gguf_find(f, "c"));
    gguf_close(f);
    buf_release(&file);
}

static void every_truncation_is_refused(void **state)
{
    struct gguf_out o = sample();
    struct buf file = out_file(&o);
    for (size_t n = 0; n < file.length; n++) {
        struct err err;
        char *part = xmalloc(n + 1); // the sanitizer detects reads beyond it
        memcpy(part, file.data, n);
        assert_null(gguf_parse(part, n, "test", &err));
        free(part);
    }
    buf_release(&file);
}

static void versions(void **state)
{
    for (uint32_t version = 0; version < 6; version++) {
        struct gguf_out o = start();
        o.version = version;
        if (version == 2 || version == 3)
            accept(&o, 0);
        else
            refuse(&o, "versions 2 and 3 are supported");
    }
    struct gguf_out o = start();
    o.version = 3U << 24;
    refuse(&o, "big-endian");
    struct buf other = { 0 };
    buf_puts(&other, "version https://git-lfs");
    refuse_bytes(&other, "git lfs pull");
    buf_clear(&other);
    buf_puts(&other, "GGML is older than this format");
    refuse_bytes(&other, "does not begin with 'GGUF'");
    buf_release(&other);
}

static void metadata(void **state)
{
    struct gguf_out o = start();
    o.pair_count = UINT64_C(1) << 60;
    refuse(&o, "more than its bytes can hold");
    o = start();
    out_key(&o, "a", 13);
    refuse(&o, "'a': value type 13 is not known");
    o = start();
    out_u32(&o, "twice", 1);
    out_u32(&o, "twice", 2);
    refuse(&o, "'twice' appears twice");
    o = start();
    out_text(&o, "a", "\xff");
    refuse(&o, "is not UTF-8");
    o = start();
    out_key(&o, "a", OUT_TEXT);
    put_number(&o.pairs, UINT64_MAX, 8);
    refuse(&o, "is it truncated?");
    o = start();
    out_key(&o, "a", OUT_TEXT);
    put_number(&o.pairs, 1, 8);
    buf_putc(&o.pairs, 0);
    refuse(&o, "zero byte");
    o = start();
    out_list(&o, "a", OUT_U64, UINT64_MAX / 4);
    refuse(&o, "is it truncated?");
    o = start();
    out_key(&o, "a", OUT_BOOL);
    buf_putc(&o.pairs, 2);
    refuse(&o, "neither 0 nor 1");
}

static void lists_in_lists(void **state)
{
    for (int depth = 1; depth < 7; depth++) {
        struct gguf_out o = start();
        out_list(&o, "a", depth > 1 ? OUT_LIST : OUT_U8, 1);
        for (int i = 2; i <= depth; i++) {
            put_number(&o.pairs, i < depth ? OUT_LIST : OUT_U8, 4);
            put_number(&o.pairs, 1, 8);
        }
        buf_putc(&o.pairs, 7);
        if (depth <= 4)
            accept(&o, 0);
        else
            refuse(&o, "nested more than 4 deep");
    }
}

static void alignment(void **state)
{
    struct gguf_out o = start();
    o.alignment = 64;
    out_u32(&o, "general.alignment", 64);
    out_tensor(&o, "a", 0, 1, (uint64_t[]){ 3 }, numbers, 12);
    out_tensor(&o, "b", 0, 1, (uint64_t[]){ 3 }, numbers, 12);
    accept(&o, 2);
    o = start();
    out_u32(&o, "general.alignment", 24);
    refuse(&o, "not a power of two");
    o = start();
    out_u32(&o, "general.alignment", 0);
    refuse(&o, "must be within");
    o = start();
    out_text(&o, "general.alignment", "32");
    refuse(&o, "not a whole number");
    o = start();
    o.alignment = 4; // as if the file declared it
    out_tensor(&o, "a", 0, 1, (uint64_t[]){ 3 }, numbers, 12);
    out_tensor(&o, "b", 0, 1, (uint64_t[]){ 3 }, numbers, 12);
    refuse(&o, "'b': its data starts at 12, expected 32");
}

static void one_tensor(uint32_t type, uint32_t rank, const uint64_t *shape, size_t bytes,
                       const char *why)
{
    struct gguf_out o = start();
    out_tensor(&o, "t", type, rank, shape, numbers, bytes);
    refuse(&o, why);
}

static void tensors(void **state)
{
    struct gguf_out o = start();
    o.tensor_count = UINT64_C(1) << 40;
    refuse(&o, "more than its bytes can hold");
    one_tensor(0, 0, NULL, 4, "has 0 dimensions");
    one_tensor(0, 5, (uint64_t[]){ 1, 1, 1, 1, 1 }, 4, "has 5 dimensions");
    one_tensor(0, 2, (uint64_t[]){ 4, 0 }, 4, "not positive");
    one_tensor(0, 1, (uint64_t[]){ UINT64_MAX }, 4, "not positive");
    one_tensor(0, 3, (uint64_t[]){ 1 << 30, 1 << 30, 1 << 30 }, 4, "more than 2^63 numbers");
    one_tensor(28, 2, (uint64_t[]){ UINT64_C(1) << 31, UINT64_C(1) << 31 }, 4,
               "more than 2^63 bytes");
    one_tensor(4, 1, (uint64_t[]){ 32 }, 4, "type (number 4) is not known (known: F32");
    one_tensor(12, 1, (uint64_t[]){ 128 }, 72, "not whole blocks of 256 (Q4_K)");
    one_tensor(0, 1, (uint64_t[]){ 1000 }, 40, "the file is truncated");
    o = start();
    out_tensor(&o, "t", 0, 1, (uint64_t[]){ 1 }, numbers, 4);
    out_tensor(&o, "t", 0, 1, (uint64_t[]){ 1 }, numbers, 4);
    refuse(&o, "tensor 't' appears twice");
    o = start();
    char name[300];
    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = 0;
    out_tensor(&o, name, 0, 1, (uint64_t[]){ 1 }, numbers, 4);
    refuse(&o, "is too long");
    // A known type that no kernel computes with.
    o = start();
    out_tensor(&o, "t", 39, 1, (uint64_t[]){ 32 }, numbers, 17);
    accept(&o, 1);
}

static void a_file_is_mapped(void **state)
{
    struct err err;
    char *folder = scratch_new(), *path = xasprintf("%s/m.gguf", folder);
    struct gguf_out o = sample();
    struct buf file = out_file(&o);
    scratch_write(folder, "m.gguf", file.data, file.length);
    struct gguf *f = gguf_open(path, &err);
    assert_non_null(f);
    assert_int_equal(f->size, file.length);
    assert_memory_equal(gguf_find(f, "b")->data, numbers, 24);
    gguf_close(f);
    free(path);
    path = xasprintf("%s/none.gguf", folder);
    assert_null(gguf_open(path, &err));
    assert_non_null(strstr(err.text, path));
    free(path);
    buf_release(&file);
    scratch_remove(folder);
}

// --- as a model ----------------------------------------------------------------------------------

static struct gguf *parse(struct gguf_out *o, struct buf *file)
{
    struct err err = { "" };
    *file = out_file(o);
    struct gguf *f = gguf_parse(file->data, file->length, "test", &err);
    if (!f) fail_msg("refused: %s", err.text);
    return f;
}

static void check_time(clock_t before, const char *what)
{
    const double seconds = processor_seconds(before);
    if (seconds > QUICK) fail_msg("%s took %g s", what, seconds);
}

// A file in which every token ends answers.
static void many_end_tokens(void **state)
{
    enum { TOKENS = 1 << 17 };
    struct gguf_out o = start();
    struct buf file;
    struct err err = { "" };
    size_t named;
    out_list(&o, "tokenizer.ggml.tokens", OUT_TEXT, TOKENS);
    for (int i = 0; i < TOKENS; i++) put_text(&o.pairs, i % 2 ? "" : "</s>");
    out_list(&o, "tokenizer.ggml.eos_token_ids", OUT_I32, TOKENS / 2 + 1);
    for (int i = 0; i <= TOKENS / 2; i++)
        put_number(&o.pairs, (uint64_t)(i < 2 ? 0 : 2 * i - 1), 4);
    struct gguf *f = parse(&o, &file);
    const clock_t before = clock();
    cJSON *config = gguf_generation_config(f, &named, &err);
    check_time(before, "reading the end tokens");
    assert_int_equal(named, TOKENS / 2); // 0, 3, 5, ...
    assert_int_equal(cJSON_GetArraySize(json_get(config, "eos_token_id")), TOKENS - 1);
    cJSON_Delete(config);
    gguf_close(f);
    buf_release(&file);
}

// Mergers of DeepStack whose names spell their blocks in many ways.
static void many_mergers(void **state)
{
    static const char *const ends[] = { "fc1.weight", "fc1.bias", "fc2.weight", "fc2.bias" };
    struct gguf_out o = start();
    struct buf file;
    struct err err = { "" };
    struct renamed r = { 0 };
    char name[256];
    out_text(&o, "general.architecture", "qwen3vl");
    out_text(&o, "clip.projector_type", "qwen3vl_merger");
    for (int block = 1; block < 60; block++) {
        snprintf(name, sizeof name, "v.deepstack.%d.norm.weight", block);
        out_tensor(&o, name, 0, 1, (uint64_t[]){ 1 }, numbers, 4);
        for (int digits = 3; digits < 120; digits++)
            for (int i = 0; i < 4; i++) {
                snprintf(name, sizeof name, "v.deepstack.%0*d.%s", digits, block, ends[i]);
                out_tensor(&o, name, 0, 1, (uint64_t[]){ 1 }, numbers, 4);
            }
    }
    struct gguf *f = parse(&o, &file);
    const struct gguf_encoder *e = gguf_encoder_find(f, f, &err);
    assert_non_null(e);
    const clock_t before = clock();
    assert_int_equal(gguf_encoder_tensors(e, f, &r, &err), -1);
    assert_non_null(strstr(err.text, "patch convolution"));
    check_time(before, "renaming the mergers");
    assert_int_equal(r.count, f->tensor_count);
    for (size_t i = 0; i < r.count; i++) free(r.list[i].name);
    free(r.list);
    gguf_close(f);
    buf_release(&file);
}

// Small tensors that would become large tables are refused.
static void small_tensors_stay_small(void **state)
{
    struct err err = { "" };
    struct renamed r = { 0 };
    const struct safetensor experts = { .name = (char *)"blk.0.ffn_up_exps.weight",
                                        .rank = 3,
                                        .shape = { (1 << 20) + 1, 1, 1 },
                                        .bytes = (1 << 20) + 1 };
    assert_int_equal(gguf_experts_put(&experts, "experts.", "up_proj", &r, &err), -1);
    assert_non_null(strstr(err.text, "1048577 experts"));
    struct gguf_out o = start();
    struct buf file;
    const size_t size = sizeof(float) * ((1 << 16) + 1);
    float *many = xcalloc(1, size);
    out_text(&o, "general.architecture", "llama");
    const char *const keys[] = { "block_count", "embedding_length", "feed_forward_length",
                                 "context_length", "attention.head_count" };
    for (int i = 0; i < 5; i++) {
        char *key = xasprintf("llama.%s", keys[i]);
        out_u32(&o, key, 4);
        free(key);
    }
    out_real(&o, "llama.attention.layer_norm_rms_epsilon", 1e-5F);
    out_tensor(&o, "token_embd.weight", 0, 2, (uint64_t[]){ 4, 4 }, numbers, 64);
    out_tensor(&o, "rope_freqs.weight", 0, 1, (uint64_t[]){ (1 << 16) + 1 }, many, size);
    struct gguf *f = parse(&o, &file);
    cJSON *config = cJSON_CreateObject();
    assert_int_equal(gguf_text_config(f, config, &err), -1);
    assert_non_null(strstr(err.text, "rope_freqs.weight"));
    cJSON_Delete(config);
    free(many);
    gguf_close(f);
    buf_release(&file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_a_file),
        cmocka_unit_test(every_truncation_is_refused),
        cmocka_unit_test(versions),
        cmocka_unit_test(metadata),
        cmocka_unit_test(lists_in_lists),
        cmocka_unit_test(alignment),
        cmocka_unit_test(tensors),
        cmocka_unit_test(a_file_is_mapped),
        cmocka_unit_test(many_end_tokens),
        cmocka_unit_test(many_mergers),
        cmocka_unit_test(small_tensors_stay_small),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
