// tests/fuzz/weight_cache.c -- reads arbitrary bytes as the start of a cached weight file (setting
// weights.cache), padded with zeros. The file is refused, or every tensor of the model lies inside
// it. Skips converted_use's hash check, which would refuse every input but one.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/files/gguf.h"
#include "core/model/converted.h"

enum { WEIGHTS = 1 << 20 }; // size of the padded file, enough for the model's weights

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);
int LLVMFuzzerInitialize(int *argc, char ***argv);

// The fingerprint in the corpus's first file. It is fixed, so that the corpus stays valid if
// fingerprints are computed differently one day.
static const char fingerprint[] =
    "b8aa49cd98ca9162d9caa52e3afb905cefa5d56dd7562c6e42f763145f59d4ec";

static const struct gguf_kind *kind;
static struct model *model;

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    struct err err;
    kind = gguf_kind_find("q8_0");
    model = model_load("tests/goldens/llama-3.2", backend_cpu(), NULL, &err);
    if (!model || !kind) abort();
    struct checkpoint *c = model->checkpoint;
    snprintf(c->weights, sizeof c->weights, "%s", fingerprint);
    return 0;
}

// Touches the weights of the checkpoint in f: a tensor outside the file crashes here.
static void read_weights(const struct model *m, const struct gguf *f)
{
    volatile unsigned sum = 0;
    for (int64_t i = 0; i < m->checkpoint->tensor_count; i++) {
        const struct safetensor *t = gguf_find(f, m->checkpoint->tensors[i]->name);
        const unsigned char *data = t ? t->data : NULL;
        for (size_t k = 0; t && k < t->bytes; k += 512) sum += data[k];
        if (t && t->bytes) sum += data[t->bytes - 1];
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    char path[64];
    const int file = memfd_create("weights", MFD_CLOEXEC);
    if (file < 0 || write(file, bytes, size) != (ssize_t)size || ftruncate(file, WEIGHTS) < 0)
        abort();
    snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    struct gguf *f = converted_open(model, kind, path);
    if (f) read_weights(model, f);
    gguf_close(f);
    close(file);
    return 0;
}
