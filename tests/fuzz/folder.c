// tests/fuzz/folder.c -- opens arbitrary bytes as the files of a model, separated by "\0----\0":
// two shards, their index and config.json; or, if they begin with "GGUF", the two parts of a GGUF
// file. The model is refused, or all tensors lie in memory, and its tokenizer opens or is refused.
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/folder.h"
#include "core/base/mem.h"
#include "core/files/checkpoint.h"
#include "core/files/safetensors.h"
#include "core/tokenizer/tokenizer.h"

enum { FILES = 4 };

static const char separator[] = { 0, '-', '-', '-', '-', 0 };

static void put(const char *folder, const char *name, const uint8_t *bytes, size_t size)
{
    char *path = xasprintf("%s/%s", folder, name);
    const int file = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    if (file < 0 || write(file, bytes, size) != (ssize_t)size) abort();
    close(file);
    free(path);
}

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
    char folder[] = "/dev/shm/vlmsh-fuzz-XXXXXX";
    const bool gguf = size >= 4 && !memcmp(bytes, "GGUF", 4);
    const char *const *names = gguf ? parts : shards;
    if (!mkdtemp(folder)) abort();
    for (size_t i = 0; i < FILES && names[i] && bytes; i++) {
        const uint8_t *end = memmem(bytes, size, separator, sizeof separator);
        const size_t length = end ? (size_t)(end - bytes) : size;
        put(folder, names[i], bytes, length);
        size -= end ? length + sizeof separator : length;
        bytes = end ? end + sizeof separator : NULL;
    }
    char *path = gguf ? xasprintf("%s/%s", folder, parts[0]) : xstrdup(folder);
    use(path);
    free(path);
    folder_remove(folder);
    return 0;
}
