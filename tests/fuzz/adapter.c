// tests/fuzz/adapter.c -- reads arbitrary bytes as an adapter of two small models, one with
// experts: adapter_config.json, a NUL byte, then adapter_model.safetensors or, if the first part is
// empty, extra.safetensors. The adapter is refused, or can be applied, measured and removed; the
// model then uses its own weights again.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/adapter/adapter.h"
#include "core/adapter/adapter_entry.h"
#include "core/files/safetensors.h"
#include "core/model/model.h"
#include "core/model/weights.h"
#include "kernels/backend.h"

// A digest of where the model's weights lie, of their types and of the adapters beside them; their
// values are not read.
static uintptr_t digest(const struct model *m)
{
    uintptr_t sum = (uintptr_t)m->decoder.head.data;
    for (size_t i = 0; i < m->weights.count; i++) {
        const struct weight *w = &m->weights.list[i];
        sum = sum * 31 + (uintptr_t)w->tensor->data + w->tensor->dtype;
        if (w->linear) sum = sum * 31 + (uintptr_t)w->linear->lora;
    }
    return sum;
}

static void use(struct adapter *a)
{
    adapter_apply(a);
    adapter_scale(a, -2);
    for (size_t i = 0; i < a->count; i++) {
        const struct adapter_entry *e = &a->list[i];
        if (e->kind == ADAPTER_LORA) {
            if (!isfinite(e->lora.scale)) abort();
            adapter_lora_norm(a, &e->lora);
        } else if (e->tensor.data) {
            adapter_measure(a, &e->tensor);
        }
        if (e->kind == ADAPTER_EXTRA && !adapter_find(a, e->name)) abort();
    }
    if (adapter_parameters(a) < 0) abort();
    adapter_touches_vision(a);
}

static void read_adapter(struct model *m, const uint8_t *bytes, size_t size)
{
    struct err err;
    const char *text = (const char *)bytes;
    size_t length = strnlen(text, size), rest = length < size ? length + 1 : size;
    uintptr_t before = digest(m);
    cJSON *config = length ? json_parse(text, length, "fuzz", NULL) : NULL;
    struct safetensors *file = safetensors_parse(bytes + rest, size - rest, "fuzz", &err);
    struct adapter *a = NULL;
    if (file && (config || !length))
        a = adapter_parse("fuzz", m, config, length ? file : NULL, length ? NULL : file, &err);
    else
        safetensors_close(file);
    if (a) use(a);
    adapter_free(a);
    cJSON_Delete(config);
    if (digest(m) != before) abort();
}

static struct model *models[2];

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    static const char *const names[] = { "tests/goldens/llava-1.5", "tests/goldens/qwen3.5-moe" };
    struct err err;
    for (int i = 0; i < 2; i++)
        if (!(models[i] = model_load(names[i], backend_cpu(), NULL, &err))) abort();
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    for (int i = 0; i < 2; i++) read_adapter(models[i], bytes, size);
    return 0;
}
