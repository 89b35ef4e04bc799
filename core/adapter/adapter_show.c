// core/adapter/adapter_show.c -- describes an adapter in words and tables.
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/adapter/adapter_entry.h"
#include "core/base/event.h"
#include "core/methods/method.h"
#include "core/model/weights.h"

char *adapter_kinds(const struct adapter *a)
{
    static const char *const names[ADAPTER_KINDS] = { "LoRA", "weight", "extra" };
    int64_t n[ADAPTER_KINDS] = { 0 };
    struct buf b = { 0 };
    for (size_t i = 0; i < a->count; i++) n[a->list[i].kind]++;
    for (int kind = 0; kind < ADAPTER_KINDS; kind++)
        if (n[kind]) buf_printf(&b, "%s%s %" PRId64, b.length ? ", " : "", names[kind], n[kind]);
    return buf_take(&b);
}

bool adapter_learned(const struct adapter *a, const struct method *m)
{
    struct method_tensor t;
    for (size_t i = 0; i < a->count; i++)
        if (a->list[i].kind == ADAPTER_EXTRA && method_learning(a->model, a->list[i].name, &t) == m)
            return true;
    return false;
}

// Totals over the LoRA modules of layers that share a name, such as "decoder q_proj".
struct lora_group {
    int64_t layers, parameters, low, high; // lowest and highest rank
    double norm, scale;                    // sums over the layers
};

static void show_lora(const struct adapter *a, const struct sinks *sinks)
{
    struct names names = { 0 };
    struct lora_group *groups = xcalloc(a->count, sizeof *groups);
    struct table_builder t;
    for (size_t i = 0; i < a->count; i++) {
        if (a->list[i].kind != ADAPTER_LORA) continue;
        const struct adapter_entry *e = &a->list[i];
        const size_t length = (size_t)(name_last_level(e->name) - e->name) - 1;
        char *module = xstrndup(e->name, length);
        char *name = xasprintf("%s %s", part_name(e->weight->part), name_last_level(module));
        struct lora_group *g = &groups[names_add(&names, name, NULL)];
        const int64_t rank = e->lora.a.shape[0];
        if (!g->layers || rank < g->low) g->low = rank;
        if (rank > g->high) g->high = rank;
        g->layers++;
        g->parameters += tensor_count(&e->lora.a) + tensor_count(&e->lora.b);
        g->norm += adapter_lora_norm(a, &e->lora);
        g->scale += (double)e->lora.scale;
        free(module);
        free(name);
    }
    table_begin(&t, "adapter.lora", "LoRA on|layers#|rank|scale#|parameters#|norm#");
    for (size_t i = 0; i < names.count; i++) {
        const struct lora_group *g = &groups[i];
        table_add(&t, "%s", names.list[i]);
        table_add(&t, "%" PRId64, g->layers);
        if (g->low == g->high)
            table_add(&t, "%" PRId64, g->low);
        else
            table_add(&t, "%" PRId64 "-%" PRId64, g->low, g->high);
        table_add(&t, "%.6g", g->scale / (double)g->layers);
        table_add(&t, "%" PRId64, g->parameters);
        table_add(&t, "%.6g", g->norm / (double)g->layers);
    }
    table_emit(&t, sinks);
    names_release(&names);
    free(groups);
}

// Shows the L2 norm of each tensor, and the mean and standard deviation of the absolute values of
// its elements (the norm alignment paper, Table 4).
static void show_tensors(const struct adapter *a, const struct sinks *sinks)
{
    struct table_builder t;
    table_begin(&t, "adapter.tensors", "tensor|parameters#|norm#|mean ||x||#|std ||x||#");
    for (size_t i = 0; i < a->count; i++) {
        const struct adapter_entry *e = &a->list[i];
        if (e->kind == ADAPTER_LORA || !e->tensor.data) continue;
        const struct adapter_numbers n = adapter_measure(a, &e->tensor);
        table_add(&t, "%s", e->name);
        table_add(&t, "%" PRId64, tensor_count(&e->tensor));
        table_add(&t, "%.6g", n.norm);
        table_add(&t, "%.6g", n.magnitude);
        table_add(&t, "%.6g", n.spread);
    }
    table_emit(&t, sinks);
}

void adapter_show(const struct adapter *a, const struct sinks *sinks)
{
    if (adapter_has(a, ADAPTER_LORA)) show_lora(a, sinks);
    if (adapter_has(a, ADAPTER_WEIGHT) || adapter_has(a, ADAPTER_EXTRA)) show_tensors(a, sinks);
}
