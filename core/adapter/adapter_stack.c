// core/adapter/adapter_stack.c -- PEFT's LoRA on the experts of a layer.
//
//   A [E*r, in], B [out, r*E]; expert e has A rows e*r.. e*r+r-1 and B columns e, e+E, e+2E ...
//
// Source: huggingface/peft, tuners/lora/layer.py, ParamWrapper. Older versions take each parameter
// [E, out, in] for [E, in, out]: A is [E*r, out] and B [in, r*E], and the transpose of B A is
// added.
#include "core/adapter/adapter_stack.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/dtype.h"
#include "core/base/mem.h"
#include "core/files/safetensors.h"

const char *const adapter_stack_names[2] = { "gate_up_proj", "down_proj" };

bool adapter_expert_parse(struct adapter_expert *e, const char *module)
{
    static const char level[] = ".experts.";
    static const char *const names[] = { ".gate_proj", ".up_proj", ".down_proj", NULL };
    const char *at = strstr(module, level);
    char *end;
    if (!at) return false;
    *e = (struct adapter_expert){ .experts = (size_t)(at - module) + sizeof level - 2 };
    e->number = strtoll(at + sizeof level - 1, &end, 10);
    for (int i = 0; names[i]; i++, e->matrix++)
        if (!strcmp(end, names[i])) return e->number >= 0;
    return false;
}

char *adapter_expert_parameter(const char *module)
{
    struct adapter_expert e;
    if (!adapter_expert_parse(&e, module)) return NULL;
    return xasprintf("%.*s.%s", (int)e.experts, module,
                     adapter_stack_names[e.matrix == EXPERT_DOWN]);
}

static float *floats_of(const struct safetensor *t)
{
    const size_t n = (size_t)safetensor_count(t);
    float *to = xreallocarray(NULL, n + 1, sizeof *to);
    floats_from(to, t->data, (enum dtype)t->dtype, n);
    return to;
}

int adapter_stack_open(struct adapter_stack *s, const struct safetensor *a,
                       const struct safetensor *b, int64_t experts, int64_t width, int64_t hidden,
                       struct err *err)
{
    const int64_t m = width, D = hidden;
    const struct adapter_stack forms[] = {
        { .out = 2 * m, .in = D },
        { .out = D, .in = m, .down = true },
        { .out = 2 * m, .in = D, .swapped = true },
        { .out = D, .in = m, .down = true, .swapped = true },
    };
    if (a->rank != 2 || b->rank != 2)
        return err_set(err, "it and its lora_B must have two dimensions");
    if (a->shape[0] != b->shape[1] || a->shape[0] <= 0 || a->shape[0] % experts)
        return err_set(err,
                       "lora_A has %lld rows and lora_B %lld columns; both must be the same "
                       "multiple of %lld, the number of experts: the adapter was made for another "
                       "model",
                       (long long)a->shape[0], (long long)b->shape[1], (long long)experts);
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        const struct adapter_stack *f = &forms[i];
        if (a->shape[1] != (f->swapped ? f->out : f->in) ||
            b->shape[0] != (f->swapped ? f->in : f->out))
            continue;
        *s = *f;
        s->experts = experts;
        s->rank = a->shape[0] / experts;
        s->a = floats_of(a);
        s->b = floats_of(b);
        return 0;
    }
    return err_set(err,
                   "lora_A reads %lld numbers and lora_B gives %lld, but the experts of this model "
                   "read %lld and give %lld (gate_up_proj), or read %lld and give %lld "
                   "(down_proj): the adapter was made for another model",
                   (long long)a->shape[1], (long long)b->shape[0], (long long)D, (long long)(2 * m),
                   (long long)m, (long long)D);
}

void adapter_stack_close(struct adapter_stack *s)
{
    free(s->a);
    free(s->b);
    *s = (struct adapter_stack){ 0 };
}

void adapter_stack_expert(const struct adapter_stack *s, int64_t expert, float *a, float *b)
{
    const int64_t r = s->rank, E = s->experts, wide = s->swapped ? s->out : s->in;
    const int64_t tall = s->swapped ? s->in : s->out;
    for (int64_t k = 0; k < r; k++) {
        const float *row = s->a + (expert * r + k) * wide, *column = s->b + k * E + expert;
        for (int64_t i = 0; i < wide; i++)
            if (s->swapped)
                b[i * r + k] = row[i];
            else
                a[k * wide + i] = row[i];
        for (int64_t i = 0; i < tall; i++)
            if (s->swapped)
                a[k * tall + i] = column[i * r * E];
            else
                b[i * r + k] = column[i * r * E];
    }
}

int64_t adapter_stack_split(const struct adapter_stack *s, bool own_rank)
{
    const int64_t r = s->rank, E = s->experts, half = s->out / 2;
    int64_t gate_end = 0, up_begin = r; // columns that gate_proj, and up_proj, use
    if (s->down || s->swapped) return -1;
    for (int64_t i = 0; i < s->out * r; i++) {
        const int64_t row = i / r, k = i % r;
        bool used = false;
        for (int64_t e = 0; e < E && !used; e++) used = s->b[i * E + e] != 0;
        if (used && row < half && k >= gate_end) gate_end = k + 1;
        if (used && row >= half && k < up_begin) up_begin = k;
    }
    if (gate_end > up_begin || (!own_rank && gate_end == 0 && up_begin == r)) return -1;
    // Equal ranks are the usual case; zeros in B do not tell where the border lies.
    return gate_end <= r / 2 && r / 2 <= up_begin ? r / 2 : gate_end;
}

void adapter_stack_put_a(const struct adapter_stack *s, int64_t expert,
                         const struct adapter_stack_part *p, const float *a)
{
    memcpy(s->a + (expert * s->rank + p->first) * s->in, a, (size_t)(p->rank * s->in) * sizeof *a);
}

void adapter_stack_put_b(const struct adapter_stack *s, int64_t expert,
                         const struct adapter_stack_part *p, const float *b)
{
    for (int64_t i = 0; i < p->rows; i++)
        for (int64_t k = 0; k < p->rank; k++)
            s->b[((p->row + i) * s->rank + p->first + k) * s->experts + expert] =
                p->factor * b[i * p->rank + k];
}
