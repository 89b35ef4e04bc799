// tests/fuzz/folder.c -- opens arbitrary bytes as the files of a model, separated by "\0----\0":
// two shards, their index and config.json; or, if they begin with "GGUF", the two parts of a GGUF
// file. The model is refused, or its tensors are sorted by name and those with data lie in memory;
// its tokenizer opens or is refused.
#include <string.h>

#include "core/base/folder.h"
#include "core/files/checkpoint.h"
#include "core/files/safetensors.h"
#include "core/tokenizer/tokenizer.h"
#include "tests/fuzz/files.h"

enum { FILES = 4 };

static const char separator[] = { 0, '-', '-', '-', '-', 0 };

static void use(const char *path)
{
    struct err err;
    volatile unsigned sum = 0;
    struct checkpoint *c = checkpoint_open_unread(path, &err);
    if (!c) return;
    for (int64_t i = 0; i < c->tensor_count; i++) {
        const struct safetensor *t = c->tensors[i];
        const uint8_t *data = t->data;
        if (i && strcmp(c->tensors[i - 1]->name, t->name) > 0) abort();
        if (t->bytes && data) sum += data[0] + data[t->bytes - 1];
    }
    tokenizer_free(checkpoint_tokenizer(c, &err));
    free(checkpoint_keys_unread(c));
    (void)checkpoint_keys_check(c, &err);
    checkpoint_close(c);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    static const char *const shards[FILES] = { "a.safetensors", "b.safetensors",
                                               "model.safetensors.index.json", "config.json" };
    static const char *const parts[FILES] = { "m-00001-of-00002.gguf", "m-00002-of-00002.gguf" };
    const bool gguf = size >= 4 && !memcmp(bytes, "GGUF", 4);
    const char *const *names = gguf ? parts : shards;
    char *folder = files_folder();
    for (size_t i = 0; i < FILES && names[i] && bytes; i++) {
        const uint8_t *end = memmem(bytes, size, separator, sizeof separator);
        const size_t length = end ? (size_t)(end - bytes) : size;
        files_put(folder, names[i], bytes, length);
        size -= end ? length + sizeof separator : length;
        bytes = end ? end + sizeof separator : NULL;
    }
    char *path = gguf ? xasprintf("%s/%s", folder, parts[0]) : xstrdup(folder);
    use(path);
    free(path);
    folder_remove(folder);
    free(folder);
    return 0;
}
