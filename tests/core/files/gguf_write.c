// tests/core/files/gguf_write.c -- core/files/gguf_write.c: the reader reads what the writer wrote,
// and an incomplete file is removed.
#include "core/files/gguf_write.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
// needs the headers above
#include <cmocka.h>

#include "core/base/mem.h"
#include "core/files/gguf.h"
#include "tests/core/scratch.h"

static char *folder;

static char *path_of(const char *name)
{
    return xasprintf("%s/%s", folder, name);
}

static const float norm[3] = { 1, -2, 0.5f };

static struct gguf_writer *sample(const char *path)
{
    struct gguf_writer *w = gguf_writer_new(path);
    gguf_writer_text(w, "general.architecture", "llama");
    gguf_writer_u32(w, "llama.block_count", 4000000000u);
    gguf_writer_f32(w, "llama.rope.freq_base", 10000.5f);
    gguf_writer_bool(w, "tokenizer.ggml.add_bos_token", true);
    gguf_writer_i32s(w, "tokenizer.ggml.token_type", (int32_t[]){ 1, -3, 6 }, 3);
    gguf_writer_f32s(w, "tokenizer.ggml.scores", norm, 3);
    gguf_writer_texts(w, "tokenizer.ggml.tokens", 3);
    gguf_writer_text_of(w, "a", 1);
    gguf_writer_text_of(w, "\0b", 2);
    gguf_writer_text_of(w, "", 0);
    gguf_writer_declare(w, "output_norm.weight", DTYPE_F32, 1, (int64_t[]){ 3 });
    gguf_writer_declare(w, "token_embd.weight", DTYPE_Q8_0, 2, (int64_t[]){ 2, 96 });
    gguf_writer_declare(w, "halves", DTYPE_F16, 2, (int64_t[]){ 1, 4 });
    gguf_writer_declare(w, "last", DTYPE_BF16, 1, (int64_t[]){ 1 });
    return w;
}

enum { SAMPLE_BYTES = 3 * 4 + 2 * 3 * 34 + 4 * 2 + 2 };

static void write_sample(struct gguf_writer *w, size_t piece)
{
    char bytes[SAMPLE_BYTES];
    struct err err;
    memcpy(bytes, norm, sizeof norm);
    for (size_t i = sizeof norm; i < sizeof bytes; i++) bytes[i] = (char)i;
    for (size_t i = 0; i < sizeof bytes; i += piece) {
        const size_t some = sizeof bytes - i < piece ? sizeof bytes - i : piece;
        assert_int_equal(gguf_writer_data(w, bytes + i, some, &err), 0);
    }
}

static void check_metadata(const struct gguf *f)
{
    const struct gguf_entry *list;
    struct err err;
    int64_t blocks;
    double base;
    bool begins = false;
    assert_string_equal(gguf_text(f, "general.architecture"), "llama");
    assert_int_equal(gguf_int(f, "llama.block_count", 0, INT64_MAX, 0, &blocks, &err), 0);
    assert_int_equal(blocks, 4000000000);
    assert_int_equal(gguf_real(f, "llama.rope.freq_base", 0, &base, &err), 0);
    assert_true(base == 10000.5);
    assert_int_equal(gguf_bool(f, "tokenizer.ggml.add_bos_token", false, &begins, &err), 0);
    assert_true(begins);
    assert_int_equal(gguf_list(f, "tokenizer.ggml.token_type", false, 9, &list, &err), 0);
    assert_true(list->count == 3 && gguf_number(list, 1) == -3);
    assert_int_equal(gguf_list(f, "tokenizer.ggml.scores", false, 9, &list, &err), 0);
    assert_true(list->count == 3 && gguf_number(list, 2) == 0.5);
    assert_int_equal(gguf_list(f, "tokenizer.ggml.tokens", true, 9, &list, &err), 0);
    const unsigned char *at = list->data;
    size_t length;
    assert_memory_equal(gguf_next(&at, &length), "a", 1);
    assert_memory_equal(gguf_next(&at, &length), "\0b", 2);
    assert_int_equal(length, 2);
    gguf_next(&at, &length);
    assert_int_equal(length, 0);
}

static void written_files_are_read_back(void **state)
{
    (void)state;
    static const size_t pieces[] = { 1, 7, 34, 1000 };
    char *path = path_of("write.gguf");
    for (int i = 0; i < 4; i++) {
        struct gguf_writer *w = sample(path);
        struct err err;
        write_sample(w, pieces[i]);
        assert_int_equal(gguf_writer_finish(w, &err), 0);
        struct gguf *f = gguf_open(path, &err);
        if (!f) fail_msg("%s", err.text);
        check_metadata(f);
        assert_int_equal(f->tensor_count, 4);
        const struct safetensor *t = gguf_find(f, "output_norm.weight");
        assert_memory_equal(t->data, norm, sizeof norm);
        t = gguf_find(f, "token_embd.weight");
        assert_true(t->dtype == DTYPE_Q8_0 && t->shape[0] == 2 && t->shape[1] == 96);
        for (int k = 0; k < 204; k++) assert_int_equal(((const char *)t->data)[k], (char)(12 + k));
        t = gguf_find(f, "last");
        assert_true(t->bytes == 2 && *(const char *)t->data == (char)(SAMPLE_BYTES - 2));
        assert_int_equal((uintptr_t)t->data % 32, 0);
        gguf_close(f);
    }
    unlink(path);
    free(path);
}

static void an_incomplete_file_is_removed(void **state)
{
    (void)state;
    char *path = path_of("half.gguf");
    struct err err;
    struct gguf_writer *w = sample(path);
    assert_int_equal(gguf_writer_data(w, norm, sizeof norm, &err), 0);
    assert_int_equal(gguf_writer_finish(w, &err), -1);
    assert_non_null(strstr(err.text, "is incomplete: 1 of 4 tensors"));
    w = sample(path);
    write_sample(w, 1000);
    gguf_writer_abandon(w);
    assert_int_equal(access(path, F_OK), -1);
    free(path);
    w = sample("/nonexistent/x.gguf");
    assert_int_equal(gguf_writer_data(w, norm, sizeof norm, &err), -1);
    assert_non_null(strstr(err.text, "cannot create '/nonexistent/x.gguf'"));
    assert_int_equal(gguf_writer_finish(w, &err), -1);
    assert_non_null(strstr(err.text, "cannot create"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(written_files_are_read_back),
        cmocka_unit_test(an_incomplete_file_is_removed),
    };
    folder = scratch_new();
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    scratch_remove(folder);
    return failed;
}
