// core/train/parts.c -- trained parameters as parts of an adapter.
#include "core/train/parts.h"

#include "core/mem.h"

// LoRA's two parameters are one part.
struct adapter_part *params_parts(const struct params *p, size_t *count)
{
    struct adapter_part *parts = xcalloc(p->count + 1, sizeof *parts);
    size_t n = 0;
    for (size_t i = 0; i < p->count; i++) {
        const struct param *one = &p->list[i];
        switch (one->kind) {
        case PARAM_LORA_B: break;
        case PARAM_LORA_A:
            parts[n++] = (struct adapter_part){ .kind = ADAPTER_LORA,
                                                .weight = one->weight,
                                                .lora = one->weight->linear->lora };
            break;
        case PARAM_WEIGHT:
            parts[n++] = (struct adapter_part){ .kind = ADAPTER_WEIGHT,
                                                .weight = one->weight,
                                                .tensor = one->tensor };
            break;
        case PARAM_EXTRA:
            parts[n++] = (struct adapter_part){ .kind = ADAPTER_EXTRA,
                                                .name = one->name,
                                                .tensor = one->tensor };
            break;
        }
    }
    *count = n;
    return parts;
}
