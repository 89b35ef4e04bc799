// tests/fuzz/gguf.c -- reads arbitrary bytes as a GGUF file, which is refused; or its keys are
// found by name, its lists and tensors lie in the file, and the tensors have the sizes of their
// shapes. Also reads it as the file of a decoder and of an encoder: a family configures itself by
// its metadata, and its tokenizer encodes and decodes a text.
#include "core/base/mem.h"
#include "core/files/gguf_parts.h"
#include "tests/fuzz/family.h"
#include "tests/fuzz/tokens.h"

static void check(int promise)
{
    if (!promise) abort();
}

static void check_entry(const struct gguf *f, const struct gguf_entry *e)
{
    volatile double sum = 0;
    struct err err;
    const struct gguf_entry *list;
    check(gguf_entry(f, e->key) == e && (e->type == GGUF_TEXT) == (e->text != NULL));
    if (gguf_list(f, e->key, false, UINT64_MAX, &list, &err) == 0)
        for (uint64_t i = 0; i < list->count; i++) sum += gguf_number(list, i);
    if (gguf_list(f, e->key, true, UINT64_MAX, &list, &err) < 0) return;
    const unsigned char *at = list->data, *end = (const unsigned char *)f->map + f->size;
    for (uint64_t i = 0; i < list->count; i++) {
        size_t length;
        const char *text = gguf_next(&at, &length);
        check(at <= end);
        if (length) sum += text[0] + text[length - 1];
    }
}

static void check_tensors(const struct gguf *f, struct renamed *r)
{
    volatile unsigned sum = 0;
    for (size_t i = 0; i < r->count; i++) {
        const struct safetensor *t = &r->list[i];
        int64_t count = 1;
        for (int k = 0; k < t->rank; k++) count *= t->shape[k];
        check(t->dtype < 0 || dtype_bytes((enum dtype)t->dtype, count) == t->bytes);
        if (t->bytes) sum += *(const uint8_t *)t->data + ((const uint8_t *)t->data)[t->bytes - 1];
        free(t->name);
    }
    for (size_t i = 0; i < r->made_count; i++) free(r->made[i]);
    free(r->made);
    free(r->list);
}

// Reads the tensors of an encoder; its language model's embedding lies in the same file.
static void rename_encoder(const struct gguf *f, const struct gguf_encoder *e, struct renamed *r)
{
    struct err err;
    struct gguf one = *f;
    one.tensors = xcalloc(f->tensor_count + 1, sizeof *one.tensors);
    one.tensor_count = 0;
    for (uint64_t i = 0; i < f->tensor_count; i++)
        if (strcmp(f->tensors[i].name, "token_embd.weight") != 0)
            one.tensors[one.tensor_count++] = f->tensors[i];
    (void)gguf_encoder_tensors(e, &one, r, &err);
    free(one.tensors);
}

static void as_model(const struct gguf *f)
{
    static const struct gguf_prefixes prefixes = { "model.", "" };
    struct err err;
    struct renamed text = { 0 }, encoder = { 0 };
    struct checkpoint c = { .folder = (char *)"fuzz", .gguf_count = 1 };
    struct gguf *files[] = { (struct gguf *)(uintptr_t)f };
    cJSON *config = cJSON_CreateObject(), *preprocessor = NULL;
    size_t named;
    c.gguf = files;
    c.tokenizer_config = gguf_tokenizer_config(f, &err);
    c.generation = gguf_generation_config(f, &named, &err);
    struct tokenizer *tokenizer = gguf_tokenizer(f, &err);
    if (tokenizer) exercise(tokenizer, default_text, sizeof default_text - 1);
    tokenizer_free(tokenizer);
    (void)gguf_text_config(f, config, &err);
    c.config = config;
    configure_family(&c);
    (void)gguf_text_tensors(f, config, &prefixes, &text, &err);
    const struct gguf_encoder *e = gguf_encoder_find(f, f, &err);
    if (e) {
        (void)gguf_encoder_fits(e, f, f, &err);
        (void)gguf_encoder_config(e, f, f, &config, &preprocessor, &err);
        rename_encoder(f, e, &encoder);
        c.config = config;
        c.preprocessor = preprocessor;
        configure_family(&c);
    }
    free(gguf_keys_unread(f));
    check_tensors(f, &text);
    check_tensors(f, &encoder);
    cJSON_Delete(config);
    cJSON_Delete(preprocessor);
    cJSON_Delete(c.tokenizer_config);
    cJSON_Delete(c.generation);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    struct err err;
    volatile unsigned sum = 0;
    struct gguf *f = gguf_parse(bytes, size, "fuzz", &err);
    if (!f) return 0;
    for (uint64_t i = 0; i < f->tensor_count; i++) {
        const struct safetensor *t = &f->tensors[i];
        const unsigned char *data = t->data;
        check(t->rank >= 1 && t->bytes > 0 && t->bytes <= size && gguf_find(f, t->name) == t);
        check(data >= bytes + f->header && data + t->bytes <= bytes + size);
        sum += data[0] + data[t->bytes - 1];
        int64_t count = 1;
        for (int k = 0; k < t->rank; k++) count *= t->shape[k];
        check(t->dtype < 0 || dtype_bytes((enum dtype)t->dtype, count) == t->bytes);
    }
    for (uint64_t i = 0; i < f->entry_count; i++) check_entry(f, &f->entries[i]);
    as_model(f);
    gguf_close(f);
    return 0;
}
