// tests/core/files/checkpoint.c -- core/files/checkpoint.c and core/files/hub.c: model folders,
// whole and broken.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <utime.h>

#include <cmocka.h>

#include "core/base/cancel.h"
#include "core/files/checkpoint.h"
#include "core/files/content.h"
#include "core/files/safetensors.h"
#include "core/graph/arena.h"
#include "kernels/backend.h"
#include "kernels/tensor.h"
#include "tests/core/quick.h"
#include "tests/core/scratch.h"

static void *host_alloc(size_t bytes)
{
    return aligned_alloc(64, (bytes + 63) / 64 * 64 + 64);
}

static void host_copy(void *to, const void *from, size_t bytes)
{
    if (bytes) memcpy(to, from, bytes);
}

static const struct backend host = {
    .name = "host", .alloc = host_alloc, .release = free, .upload = host_copy, .download = host_copy
};

// Writes a safetensors file of f32 tensors [2] with the given names; each contains 1, 2.
static void write_weights(const char *folder, const char *file, const char *const *names, int count)
{
    char *path = xasprintf("%s/%s", folder, file);
    struct safetensors_writer *w = safetensors_writer_new(path);
    for (int i = 0; i < count; i++)
        safetensors_writer_declare(w, names[i], DTYPE_F32, 1, (int64_t[]){ 2 });
    for (int i = 0; i < count; i++)
        assert_int_equal(safetensors_writer_data(w, (float[]){ 1, 2 }, 8, NULL), 0);
    assert_int_equal(safetensors_writer_finish(w, NULL), 0);
    free(path);
}

static void refuse(const char *folder, const char *why)
{
    struct err err = { "" };
    struct checkpoint *c = checkpoint_open(folder, NULL, &err);
    if (c) fail_msg("%s opened, expected '%s'", folder, why);
    if (!strstr(err.text, why)) fail_msg("'%s' does not say '%s'", err.text, why);
}

struct seen {
    uint64_t done, total;
    int calls;
};

static bool on_progress(void *self, uint64_t done, uint64_t total)
{
    struct seen *s = self;
    assert_true(done > s->done && done <= total);
    *s = (struct seen){ done, total, s->calls + 1 };
    return true;
}

static bool stop(void *self, uint64_t done, uint64_t total)
{
    return false;
}

static void a_load_can_be_stopped(void **state)
{
    struct err err;
    struct load_progress progress = { .report = stop };
    assert_null(checkpoint_open("tests/goldens/llava-1.5", &progress, &err));
    assert_non_null(strstr(err.text, "cancelled"));
}

static void opens_single_file(void **state)
{
    struct err err = { "" };
    struct seen seen = { 0 };
    struct load_progress progress = { .report = on_progress, .self = &seen };
    struct checkpoint *c = checkpoint_open("tests/goldens/llava-1.5", &progress, &err);
    if (!c) fail_msg("%s", err.text);
    assert_int_equal(c->shard_count, 1);
    assert_int_equal(c->tensor_count, 98);
    assert_int_equal(checkpoint_bytes(c), 483904);
    assert_true(seen.calls > 0 && seen.done == seen.total && seen.total == c->shards[0]->size);
    assert_non_null(c->generation);
    assert_non_null(c->preprocessor);
    assert_non_null(c->processor);
    assert_non_null(c->tokenizer_config);
    assert_non_null(strstr(c->chat_template, "ASSISTANT:")); // from chat_template.json
    checkpoint_close(c);
}

static void opens_shards(void **state)
{
    struct err err = { "" };
    struct checkpoint *c = checkpoint_open("tests/goldens/llava-siglip-llama3//", NULL, &err);
    if (!c) fail_msg("%s", err.text);
    assert_string_equal(c->folder, "tests/goldens/llava-siglip-llama3");
    assert_int_equal(c->shard_count, 3);
    assert_int_equal(c->tensor_count, 122);
    for (int64_t i = 0; i < c->tensor_count; i++)
        assert_ptr_equal(checkpoint_find(c, c->tensors[i]->name), c->tensors[i]);
    assert_true(checkpoint_has(c, "language_model.model.norm.weight"));
    assert_false(checkpoint_has(c, "language_model.lm_head.weight"));
    assert_true(strncmp(c->chat_template, "{{- bos_token }}{%-", 19) == 0); // chat_template.jinja
    checkpoint_close(c);
}

static struct checkpoint *identified(const char *folder)
{
    struct err err = { "" };
    struct checkpoint *c = checkpoint_open(folder, NULL, &err);
    if (!c || checkpoint_identify(c, NULL, &err) < 0) fail_msg("%s", err.text);
    return c;
}

static void fingerprint_sees_changes(void **state)
{
    char *folder = scratch_new(), *path = xasprintf("%s/model.safetensors", folder);
    char first[65];
    const char *names[] = { "a", "b" };
    for (int round = 0; round < 4; round++) {
        scratch_text(folder, "config.json", round < 2 ? "{\"a\": 1}" : "{\"a\": 2}");
        write_weights(folder, "model.safetensors", names, 2);
        if (round == 3) {
            FILE *f = fopen(path, "r+b");
            assert_int_equal(fseek(f, -1, SEEK_END), 0);
            fputc('x', f);
            fclose(f);
        }
        struct checkpoint *c = identified(folder);
        if (round == 1) assert_string_equal(c->fingerprint, first);
        if (round >= 2) assert_string_not_equal(c->fingerprint, first);
        strcpy(first, c->fingerprint);
        checkpoint_close(c);
    }
    free(path);
    scratch_remove(folder);
}

// The identity covers files beside the weights, and its check names the one that changed. A file
// that is not read and the name of the weights' file do not count.
static void identity_covers_files(void **state)
{
    static const char *const files[] = { "tokenizer.json",           "chat_template.jinja",
                                         "preprocessor_config.json", "generation_config.json",
                                         "tokenizer_config.json",    "special_tokens_map.json" };
    char *folder = scratch_new(), *path = xasprintf("%s/model.safetensors", folder);
    char *moved = xasprintf("%s/weights.safetensors", folder);
    const char *names[] = { "a" };
    struct err err;
    bool earlier;
    scratch_text(folder, "config.json", "{}");
    write_weights(folder, "model.safetensors", names, 1);
    struct checkpoint *c = identified(folder);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char *was = xstrdup(c->identity), before[HASH_HEX];
        memcpy(before, c->weights, sizeof before);
        checkpoint_close(c);
        scratch_text(folder, files[i], "{\"x\": 1}");
        c = identified(folder);
        assert_string_equal(c->weights, before);
        assert_int_equal(checkpoint_check_identity(c, was, &earlier, &err), -1);
        assert_non_null(strstr(err.text, files[i]));
        free(was);
    }
    char *was = xstrdup(c->identity);
    checkpoint_close(c);
    scratch_text(folder, "tokenizer.model", "beside tokenizer.json nothing reads it");
    assert_int_equal(rename(path, moved), 0);
    c = identified(folder);
    assert_int_equal(checkpoint_check_identity(c, was, &earlier, &err), 0);
    assert_false(earlier);
    checkpoint_close(c);
    free(was);
    free(moved);
    free(path);
    scratch_remove(folder);
}

// Earlier versions hashed config.json, the header, and both ends of each tensor; the ends of these
// small tensors cover them.
static void knows_earlier_fingerprint(void **state)
{
    char *folder = scratch_new(), *path = xasprintf("%s/model.safetensors", folder);
    const char *names[] = { "a" };
    struct err err;
    bool earlier = false;
    struct hash h;
    char was[HASH_HEX];
    scratch_text(folder, "config.json", "{}");
    write_weights(folder, "model.safetensors", names, 1);
    struct checkpoint *c = identified(folder);
    const struct safetensors *f = c->shards[0];
    hash_start(&h);
    hash_add(&h, "{}", 2);
    hash_add(&h, f->map, f->size);
    hash_add(&h, (const char *)f->map + f->header, f->size - f->header);
    hash_end(&h, was);
    assert_true(checkpoint_matches_earlier(c, was));
    assert_int_equal(checkpoint_check_identity(c, was, &earlier, &err), 0);
    assert_true(earlier);
    assert_int_equal(checkpoint_check_identity(c, c->identity, &earlier, &err), 0);
    assert_false(earlier);
    was[0] ^= 1;
    assert_int_equal(checkpoint_check_identity(c, was, &earlier, &err), -1);
    checkpoint_close(c);
    free(path);
    scratch_remove(folder);
}

// A folder whose weights are large enough for a thread to hash them: 40 MB of numbers, then a hole.
static char *large_folder(void)
{
    const uint64_t bytes = 80 << 20;
    char *folder = scratch_new(), *path = xasprintf("%s/model.safetensors", folder);
    char *header =
        xasprintf("{\"a\":{\"dtype\":\"F32\",\"shape\":[%llu],\"data_offsets\":[0,%llu]}}",
                  (unsigned long long)bytes / 4, (unsigned long long)bytes);
    const uint64_t length = strlen(header);
    scratch_text(folder, "config.json", "{}");
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fwrite(&length, sizeof length, 1, f);
    fputs(header, f);
    for (uint64_t i = 0; i < 40 << 17; i++) fwrite(&i, sizeof i, 1, f);
    assert_int_equal(ftruncate(fileno(f), (off_t)(8 + length + bytes)), 0);
    fclose(f);
    free(header);
    free(path);
    return folder;
}

// The fingerprint does not depend on how a thread and its owner share the reading.
static void hashing_can_be_shared_with_a_thread(void **state)
{
    char *folder = large_folder();
    struct err err = { "" };
    const struct load_progress stops = { .report = stop };
    struct checkpoint *c = identified(folder);
    char fingerprint[HASH_HEX], *files = xstrdup(c->files);
    memcpy(fingerprint, c->fingerprint, sizeof fingerprint);
    checkpoint_close(c);
    for (int round = 0; round < 4; round++) {
        c = checkpoint_open_unread(folder, &err);
        assert_non_null(c);
        assert_int_equal(checkpoint_identify_in_background(c, &err), 0);
        assert_int_equal(checkpoint_identify_in_background(c, &err),
                         0); // the thread is already running
        if (round == 1 && !checkpoint_identified(c) && checkpoint_identify(c, &stops, &err) < 0)
            assert_string_equal(err.text, "cancelled"); // the thread continues
        if (round == 2)
            while (!checkpoint_identified(c)) usleep(1000);
        if (round < 3) {
            assert_int_equal(checkpoint_identify(c, NULL, &err), 0);
            assert_true(checkpoint_identified(c));
            assert_string_equal(c->fingerprint, fingerprint);
            assert_string_equal(c->files, files);
        }
        checkpoint_close(c); // ends the thread, too, in the last round
    }
    free(files);
    scratch_remove(folder);
}

static void count_report(void *self, const char *what, uint64_t done, uint64_t total)
{
    assert_string_equal(what, "hashing");
    assert_true(done <= total);
    ++*(int *)self;
}

// Without a progress callback, watchers see the progress and may cancel.
static void watchers_see_progress_and_cancel(void **state)
{
    char *folder = large_folder();
    struct err err = { "" };
    int reports = 0;
    atomic_bool pressed = true;
    struct checkpoint *c = checkpoint_open_unread(folder, &err);
    assert_non_null(c);
    cancel_watch(&pressed, &(struct cancel_watcher){ .progress = count_report, .self = &reports });
    assert_int_equal(checkpoint_identify(c, NULL, &err), -1);
    assert_string_equal(err.text, "cancelled");
    assert_int_equal(reports, 1);
    pressed = false;
    assert_int_equal(checkpoint_identify(c, NULL, &err), 0);
    assert_int_equal(reports, 81); // one per MB, and one for the header
    cancel_unwatch(&pressed);
    checkpoint_close(c);
    scratch_remove(folder);
}

static void expect_located(const char *name, const char *end)
{
    struct err err = { "" };
    char *path = checkpoint_locate(name, &err);
    if (!path) fail_msg("%s: %s", name, err.text);
    size_t n = strlen(path), m = strlen(end);
    if (n < m || strcmp(path + n - m, end) != 0) fail_msg("%s: %s", name, path);
    free(path);
}

static void refuses_broken_folders(void **state)
{
    char *folder = scratch_new();
    const char *names[] = { "a", "b" };
    refuse(folder, "no config.json");
    scratch_text(folder, "adapter_config.json", "{}");
    refuse(folder, "an adapter");
    scratch_text(folder, "config.json", "{\"a\": ");
    refuse(folder, "config.json");
    scratch_text(folder, "config.json", "[]");
    refuse(folder, "not a JSON object");
    scratch_text(folder, "config.json", "{}");
    refuse(folder, "no weights");
    scratch_text(folder, "model.gguf", "GGUF"); // the folder means this file
    expect_located(folder, "/model.gguf");
    scratch_text(folder, "pytorch_model.bin", "x");
    refuse(folder, "PyTorch");
    write_weights(folder, "model-00001-of-00002.safetensors", names, 2);
    refuse(folder, "index.json: download it too");
    scratch_text(folder, "generation_config.json", "nope");
    refuse(folder, "generation_config.json");
    scratch_remove(folder);
}

static void refuses_broken_index(void **state)
{
    char *folder = scratch_new();
    const char *index = "model.safetensors.index.json";
    const char *names[] = { "a", "b" };
    scratch_text(folder, "config.json", "{}");
    write_weights(folder, "one", names, 2);
    scratch_text(folder, index, "{}");
    refuse(folder, "weight_map");
    scratch_text(folder, index, "{\"weight_map\": {}}");
    refuse(folder, "empty");
    scratch_text(folder, index, "{\"weight_map\": {\"a\": 1}}");
    refuse(folder, "not a plain name");
    scratch_text(folder, index, "{\"weight_map\": {\"a\": \"../one\"}}");
    refuse(folder, "not a plain name");
    scratch_text(folder, index, "{\"weight_map\": {\"a\": \"one\", \"b\": \"two\"}}");
    refuse(folder, "shard 'two' (2 of 2) is missing");
    scratch_text(folder, index, "{\"weight_map\": {\"a\": \"one\", \"c\": \"one\"}}");
    refuse(folder, "'c' is missing from 'one'");
    write_weights(folder, "two", names, 1);
    scratch_text(folder, index, "{\"weight_map\": {\"a\": \"two\", \"b\": \"one\"}}");
    refuse(folder, "appears twice");
    scratch_text(folder, "two", "garbage that is no safetensors file");
    refuse(folder, "two");
    scratch_text(folder, index, "{\"weight_map\": {\"a\": \"one\\u0000x\", \"b\": \"one\"}}");
    refuse(folder, "\\u0000");
    scratch_remove(folder);
}

static void make_link(const char *folder, const char *to, const char *name)
{
    char *path = xasprintf("%s/%s", folder, name);
    unlink(path);
    assert_int_equal(symlink(to, path), 0);
    free(path);
}

static char *make_folder(const char *folder, const char *name)
{
    char *path = xasprintf("%s/%s", folder, name);
    assert_int_equal(mkdir(path, 0700), 0);
    return path;
}

// A shard may be a link within the folder, or from a snapshot of the hub's cache into the blobs of
// its repository.
static void refuses_links_out(void **state)
{
    char *cache = scratch_new(), *repository = make_folder(cache, "models--o--n"),
         *other = make_folder(cache, "models--o--m"), *blobs = make_folder(repository, "blobs"),
         *others = make_folder(other, "blobs"), *snapshots = make_folder(repository, "snapshots"),
         *folder = make_folder(snapshots, "1"), *plain = make_folder(cache, "plain");
    const char *names[] = { "a", "b" }, *name = "s.safetensors";
    const char *const folders[] = { folder, plain };
    write_weights(blobs, "x", names, 2);
    write_weights(others, "x", names, 2);
    write_weights(repository, "x", names, 2);
    for (int i = 0; i < 2; i++) {
        scratch_text(folders[i], "config.json", "{}");
        scratch_text(folders[i], "model.safetensors.index.json",
                     "{\"weight_map\": {\"a\": \"s.safetensors\"}}");
        write_weights(folders[i], "within", names, 2);
        make_link(folders[i], "within", name);
        struct checkpoint *c = checkpoint_open(folders[i], NULL, NULL);
        assert_non_null(c);
        checkpoint_close(c);
    }
    make_link(folder, "../../blobs/x", name);
    struct checkpoint *c = checkpoint_open(folder, NULL, NULL);
    assert_non_null(c);
    checkpoint_close(c);
    static const char *const out[] = { "../../x", "../../../models--o--m/blobs/x",
                                       "../../blobs/../x" };
    for (int i = 0; i < 3; i++) {
        make_link(folder, out[i], name);
        refuse(folder, "outside the model's folder");
    }
    make_link(plain, "../models--o--n/blobs/x", name);
    refuse(plain, "s.safetensors' is a link to '");
    free(repository), free(other), free(blobs), free(others), free(snapshots), free(folder);
    free(plain);
    scratch_remove(cache);
}

static void takes_a_lone_file(void **state)
{
    char *folder = scratch_new();
    const char *names[] = { "a" };
    scratch_text(folder, "config.json", "{}");
    // Files that training left beside the model are ignored.
    write_weights(folder, "best.safetensors", names, 1);
    write_weights(folder, "best-40.safetensors", names, 1);
    refuse(folder, "has no weights");
    write_weights(folder, "best-model.safetensors", names, 1);
    struct checkpoint *c = checkpoint_open(folder, NULL, NULL);
    assert_non_null(c);
    checkpoint_close(c);
    write_weights(folder, "other.safetensors", names, 1);
    refuse(folder, "none named model.safetensors");
    scratch_remove(folder);
}

static void finds_templates(void **state)
{
    char *folder = scratch_new();
    const char *names[] = { "a" };
    scratch_text(folder, "config.json", "{}");
    write_weights(folder, "model.safetensors", names, 1);
    static const struct {
        const char *file, *text, *found;
    } steps[] = {
        { "tokenizer_config.json", "{\"chat_template\": null}", NULL },
        { "additional_chat_templates/tool_use.jinja", "U", "U" },
        { "additional_chat_templates/rag.jinja", "R", "R" },
        { "tokenizer_config.json", "{\"chat_template\": \"T\"}", "T" },
        { "tokenizer_config.json",
          "{\"chat_template\": [{\"name\": \"rag\", \"template\": \"R\"}, 5,"
          "{\"name\": \"default\", \"template\": \"D\"}]}",
          "D" },
        { "tokenizer_config.json", "{\"chat_template\": [{\"name\": \"x\", \"template\": \"X\"}]}",
          "X" },
        { "tokenizer_config.json", "{\"chat_template\": {\"x\": \"X\", \"default\": \"D\"}}", "D" },
        { "chat_template.json", "{\"chat_template\": \"J\"}", "D" },
        { "tokenizer_config.json", "{}", "J" },
        { "tokenizer_config.json", "{\"chat_template\": \"T\"}", "T" },
        { "chat_template.jinja", "{{ jinja }}", "{{ jinja }}" },
        { "additional_chat_templates/default.jinja", "A", "A" },
        // A processor's chat_template.json takes precedence.
        { "preprocessor_config.json", "{}", "J" },
        { "processor_config.json", "{}", "J" },
        { "processor_config.json", "{\"chat_template\": \"P\"}", "P" },
        { "processor_config.json", "{\"chat_template\": null}", "J" },
        { "chat_template.json", "{}", "{{ jinja }}" },
    };
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        scratch_text(folder, steps[i].file, steps[i].text);
        struct checkpoint *c = checkpoint_open(folder, NULL, NULL);
        assert_non_null(c);
        if (steps[i].found)
            assert_string_equal(c->chat_template, steps[i].found);
        else
            assert_null(c->chat_template);
        checkpoint_close(c);
    }
    scratch_remove(folder);
}

static void differing_templates_are_named(void **state)
{
    char *folder = scratch_new();
    const char *names[] = { "a" };
    static const struct {
        const char *file, *text, *notice;
    } steps[] = {
        { "additional_chat_templates/rag.jinja", "R",
          "additional_chat_templates has no chat template with the name \"default\": \"rag\"" },
        { "tokenizer_config.json", "{\"chat_template\": \"T\"}", NULL },
        { "chat_template.jinja", "T\n", NULL },
        { "chat_template.jinja", "N", NULL },
        { "preprocessor_config.json", "{}", NULL },
        { "chat_template.json", "{\"chat_template\": \"J\"}",
          "chat_template.json and chat_template.jinja differ" },
        { "chat_template.json", "{\"chat_template\": [{\"name\": \"x\", \"template\": \"N\"}]}",
          "chat_template.json has no chat template with the name \"default\": \"x\"" },
    };
    scratch_text(folder, "config.json", "{}");
    write_weights(folder, "model.safetensors", names, 1);
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        scratch_text(folder, steps[i].file, steps[i].text);
        struct checkpoint *c = checkpoint_open(folder, NULL, NULL);
        assert_non_null(c);
        if (steps[i].notice)
            assert_true(c->notice && !!strstr(c->notice, steps[i].notice));
        else
            assert_null(c->notice);
        checkpoint_close(c);
    }
    scratch_remove(folder);
}

static void nested_picture_settings(void **state)
{
    char *folder = scratch_new();
    const char *names[] = { "a" };
    scratch_text(folder, "config.json", "{}");
    scratch_text(folder, "processor_config.json", "{\"image_processor\": {\"resample\": 3}}");
    scratch_text(folder, "preprocessor_config.json",
                 "{\"resample\": 0}"); // this file has lower precedence
    write_weights(folder, "model.safetensors", names, 1);
    struct checkpoint *c = checkpoint_open(folder, NULL, NULL);
    assert_non_null(c);
    int64_t value = 0;
    assert_int_equal(json_int(c->preprocessor, "resample", 0, 9, 0, &value, NULL), 0);
    assert_int_equal(value, 3);
    checkpoint_close(c);
    scratch_remove(folder);
}

// One file with tensors of several types; `u`, a single byte, makes those after it unaligned.
static struct checkpoint *open_mixed(const char *folder)
{
    static const unsigned char f32[12] = { 0, 0, 128, 63, 0, 0, 0, 192, 0, 0, 192, 127 };
    static const uint16_t f16[6] = { 0x3c00, 0xc000, 0x0001, 0x7c00, 0x8000, 0x0400 };
    static const uint16_t bf16[2] = { 0x3f80, 0xc000 };
    scratch_text(folder, "config.json", "{}");
    char *path = xasprintf("%s/model.safetensors", folder);
    struct safetensors_writer *w = safetensors_writer_new(path);
    safetensors_writer_declare(w, "f32", DTYPE_F32, 1, (int64_t[]){ 3 });
    safetensors_writer_declare(w, "u", DTYPE_U8, 1, (int64_t[]){ 1 });
    safetensors_writer_declare(w, "f16", DTYPE_F16, 1, (int64_t[]){ 6 });
    safetensors_writer_declare(w, "bf16", DTYPE_BF16, 2, (int64_t[]){ 1, 2 });
    safetensors_writer_declare(w, "vector", DTYPE_BF16, 1, (int64_t[]){ 2 });
    safetensors_writer_data(w, f32, 12, NULL);
    safetensors_writer_data(w, "u", 1, NULL);
    safetensors_writer_data(w, f16, 12, NULL);
    safetensors_writer_data(w, bf16, 4, NULL);
    safetensors_writer_data(w, bf16, 4, NULL);
    assert_int_equal(safetensors_writer_finish(w, NULL), 0);
    free(path);
    return checkpoint_open(folder, NULL, NULL);
}

static void binds_tensors(void **state)
{
    char *folder = scratch_new();
    struct checkpoint *c = open_mixed(folder);
    struct arena a = { .backend = &host };
    struct err err;
    struct tensor t;
    assert_int_equal(checkpoint_tensor(c, "f32", 1, (int64_t[]){ -1 }, &a, &t, &err), 0);
    assert_ptr_equal(t.data, checkpoint_find(c, "f32")->data); // in place
    assert_int_equal(t.shape[0], 3);
    assert_int_equal(checkpoint_tensor(c, "bf16", 2, (int64_t[]){ 1, 2 }, &a, &t, &err), 0);
    assert_ptr_not_equal(t.data, checkpoint_find(c, "bf16")->data); // not aligned in the file
    assert_int_equal(((uint16_t *)t.data)[1], 0xc000);
    assert_int_equal(checkpoint_tensor(c, "bf16", 2, (int64_t[]){ 2, 1 }, &a, &t, &err), -1);
    assert_non_null(strstr(err.text, "[1, 2], but config.json needs [2, 1]"));
    assert_int_equal(checkpoint_tensor(c, "bf16", 1, (int64_t[]){ 2 }, &a, &t, &err), -1);
    assert_int_equal(checkpoint_tensor(c, "u", 1, (int64_t[]){ 1 }, &a, &t, &err), -1);
    assert_non_null(strstr(err.text, "type U8"));
    assert_int_equal(checkpoint_tensor(c, "none", 1, (int64_t[]){ 1 }, &a, &t, &err), -1);
    assert_non_null(strstr(err.text, "'none' is missing"));
    arena_release(&a);
    checkpoint_close(c);
    scratch_remove(folder);
}

static void widens_vectors(void **state)
{
    char *folder = scratch_new();
    struct checkpoint *c = open_mixed(folder);
    struct arena a = { .backend = &host };
    struct err err;
    struct tensor t;
    assert_int_equal(checkpoint_vector(c, "f16", 6, &a, &t, &err), 0);
    assert_int_equal(t.dtype, DTYPE_F32);
    const float expected[6] = { 1, -2, 0x1p-24f, 1.0f / 0.0f, -0.0f, 0x1p-14f };
    assert_memory_equal(t.data, expected, sizeof expected);
    assert_int_equal(checkpoint_vector(c, "vector", 2, &a, &t, &err), 0);
    assert_true(((float *)t.data)[0] == 1 && ((float *)t.data)[1] == -2);
    assert_int_equal(checkpoint_vector(c, "f32", -1, &a, &t, &err), 0);
    assert_true(((float *)t.data)[1] == -2 && ((float *)t.data)[2] != ((float *)t.data)[2]);
    assert_int_equal(checkpoint_vector(c, "f32", 4, &a, &t, &err), -1);
    assert_int_equal(checkpoint_vector(c, "bf16", 2, &a, &t, &err), -1);
    arena_release(&a);
    checkpoint_close(c);
    scratch_remove(folder);
}

static void expect_lost(const char *name, const char *why)
{
    struct err err = { "" };
    assert_null(checkpoint_locate(name, &err));
    if (!strstr(err.text, why)) fail_msg("'%s' does not say '%s'", err.text, why);
}

// Adds `files` to the cache, which has org/name already, and compares the listed models with
// `expected`.
static void lists_models(const char *home)
{
    static const char *const files[] = { "models--a--b-c/snapshots/1/config.json",
                                         "models--one/snapshots/1/config.json",
                                         "models--c--small/snapshots/1/m.gguf",
                                         "models--no--weights/refs/main",
                                         "models--no--config/snapshots/1/model.safetensors",
                                         "datasets--a--b/snapshots/1/config.json",
                                         "models--..--x/snapshots/1/config.json",
                                         "version.txt" };
    static const char *const expected[] = { "a/b-c", "c/small", "one", "org/name" };
    struct names found = { 0 };
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char *file = xasprintf(".cache/huggingface/hub/%s", files[i]);
        scratch_text(home, file, "{}");
        free(file);
    }
    // Special files do not block.
    char *pipes = xasprintf("%s/.cache/huggingface/hub/models--no--pipes/refs", home);
    char *pipe = xasprintf("%s/main", pipes);
    scratch_text(home, ".cache/huggingface/hub/models--no--pipes/refs/other", "");
    assert_int_equal(mkfifo(pipe, 0600), 0);
    free(pipes);
    free(pipe);
    checkpoint_cached(&found);
    assert_int_equal(found.count, 4);
    for (size_t i = 0; i < found.count; i++) {
        assert_string_equal(found.list[i], expected[i]);
        expect_located(found.list[i], "");
    }
    names_release(&found);
    setenv("HF_HUB_CACHE", "/nosuch", 1);
    checkpoint_cached(&found);
    assert_int_equal(found.count, 0);
}

static void locates_models(void **state)
{
    char *home = scratch_new(), *old = xstrdup(getenv("HOME") ? getenv("HOME") : "");
    setenv("HOME", home, 1);
    unsetenv("HF_HUB_CACHE");
    unsetenv("HF_HOME");
    unsetenv("XDG_CACHE_HOME");
    expect_lost("", "empty");
    expect_lost("org/name", "/.cache/huggingface/hub/models--org--name");
    expect_lost("org/name", "hf download org/name");
    expect_lost("nofolder", "or the name of a model in the hub cache, as in ORGANIZATION/NAME");
    expect_lost("./org/name", "no folder");
    expect_lost("org/../../etc", "no folder");
    expect_lost("Makefile", "is a file");
    expect_located("tests/goldens", "tests/goldens");
    scratch_text(home, "models/m/config.json", "{}");
    expect_located("~/models/m", "/models/m");
    const char *cache = ".cache/huggingface/hub/models--org--name";
    char *file = xasprintf("%s/refs/main", cache);
    scratch_text(home, file, "abc123\n");
    expect_lost("org/name", "no complete snapshot");
    free(file);
    file = xasprintf("%s/snapshots/def456/config.json", cache);
    scratch_text(home, file, "{}");
    expect_located("org/name", "snapshots/def456"); // the snapshot that refs/main names is missing
    free(file);
    file = xasprintf("%s/snapshots/abc123/config.json", cache);
    scratch_text(home, file, "{}");
    free(file);
    file = xasprintf("%s/%s/snapshots/abc123", home, cache);
    assert_int_equal(utime(file, &(struct utimbuf){ 1000, 1000 }), 0);
    free(file);
    expect_located("org/name", "snapshots/abc123"); // refs/main, though older
    file = xasprintf("%s/refs/main", cache);
    scratch_text(home, file, "../../../..");
    free(file);
    expect_located("org/name", "snapshots/def456"); // the newest
    setenv("XDG_CACHE_HOME", "/x", 1);
    expect_lost("org/name", "/x/huggingface/hub/models--org--name");
    setenv("HF_HOME", "/h", 1);
    expect_lost("org/name", "/h/hub/models--org--name");
    setenv("HF_HUB_CACHE", "~/.cache/huggingface/hub", 1);
    expect_located("org/name", "snapshots/def456");
    lists_models(home);
    setenv("HOME", old, 1);
    free(old);
    scratch_remove(home);
}

// A record may name any number of files.
static void many_files_are_compared_quickly(void **state)
{
#ifdef __SANITIZE_ADDRESS__
    enum { FILES = 1 << 10 };
#else
    enum { FILES = 1 << 17 };
#endif
    struct buf were = { 0 };
    for (int i = 0; i < FILES; i++) buf_printf(&were, "%s%x@1 %x@2", i ? " " : "", i, i);
    const clock_t before = clock();
    char *differ = checkpoint_files_differ(were.data, "0@1 1@3 a");
    const double seconds = processor_seconds(before);
    assert_memory_equal(differ, "1, a, 0, 2, 3,", 14);
    assert_null(strstr(differ + 14, ", 1,"));
    free(differ);
    buf_release(&were);
    assert_null(checkpoint_files_differ("a@1 b@2", "b@2 a@1"));
    assert_null(checkpoint_files_differ(NULL, "a@1"));
    if (seconds > QUICK) fail_msg("%d files took %g s", FILES, seconds);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_load_can_be_stopped),
        cmocka_unit_test(opens_single_file),
        cmocka_unit_test(opens_shards),
        cmocka_unit_test(fingerprint_sees_changes),
        cmocka_unit_test(identity_covers_files),
        cmocka_unit_test(many_files_are_compared_quickly),
        cmocka_unit_test(knows_earlier_fingerprint),
        cmocka_unit_test(hashing_can_be_shared_with_a_thread),
        cmocka_unit_test(watchers_see_progress_and_cancel),
        cmocka_unit_test(refuses_broken_folders),
        cmocka_unit_test(refuses_broken_index),
        cmocka_unit_test(refuses_links_out),
        cmocka_unit_test(takes_a_lone_file),
        cmocka_unit_test(finds_templates),
        cmocka_unit_test(differing_templates_are_named),
        cmocka_unit_test(nested_picture_settings),
        cmocka_unit_test(binds_tensors),
        cmocka_unit_test(widens_vectors),
        cmocka_unit_test(locates_models),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
