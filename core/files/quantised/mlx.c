// core/files/quantised/mlx.c -- converts tensors of MLX folders, quantised or not, to the layout
// and names of Hugging Face.
//
//   convolutions   [out, sides ..., in] -> [out, in, sides ...]
//   names          in some families, those of mlx-vlm's classes -> Hugging Face's
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/text.h"
#include "core/files/checkpoint.h"
#include "core/files/checkpoint_parts.h"
#include "core/files/quantised/quantised_parts.h"

enum { RENAMED = 4 };

// Prefixes of names, in the order in which they are tried.
static const struct naming {
    const char *model_types[4];
    struct {
        const char *mlx, *usual;
    } start[RENAMED];
} namings[] = {
    { { "qwen2_vl", "qwen2_5_vl" },
      { { "vision_tower.", "visual." },
        { "language_model.model.", "model." },
        { "language_model.lm_head.", "lm_head." } } },
    { { "qwen3_vl", "qwen3_vl_moe", "glm4v" },
      { { "vision_tower.", "model.visual." },
        { "language_model.model.", "model.language_model." },
        { "language_model.lm_head.", "lm_head." } } },
    { { "idefics3", "smolvlm" },
      { { "vision_model.", "model.vision_model." },
        { "connector.", "model.connector." },
        { "language_model.lm_head.", "lm_head." },
        { "language_model.", "model.text_model." } } },
};

bool quantised_is_mlx(const struct checkpoint *c)
{
    for (int s = 0; s < c->shard_count; s++) {
        const char *format = safetensors_metadata(c->shards[s], "format");
        if (format && !strcmp(format, "mlx")) return true;
    }
    return false;
}

// Replaces *place, an entry of c->tensors, with a copy that the checkpoint owns, followed by
// `extra` bytes. NULL: out of memory.
static struct safetensor *copy_entry(struct checkpoint *c, const struct safetensor **place,
                                     size_t extra, struct err *err)
{
    struct safetensor *own = malloc(sizeof *own + extra);
    if (!own) {
        err_set(err, "out of memory for '%s'", (*place)->name);
        return NULL;
    }
    c->made = xreallocarray(c->made, c->made_count + 1, sizeof *c->made);
    c->made[c->made_count++] = own;
    *own = **place;
    *place = own;
    return own;
}

// --- convolutions --------------------------------------------------------------------------------

// Recognises the order by the position of the kernel's sides, which are equal. If the number of
// input channels equals them too, assumes MLX's order.
static bool is_channel_last(const struct safetensor *t)
{
    const int64_t *last = t->shape + t->rank - 1; // Hugging Face: last[-1] == last[0]
    return safetensor_is_float(t) && (t->rank == 4 || t->rank == 5) && safetensor_count(t) > 0 &&
           text_ends(t->name, ".weight") && (last[-2] == last[-1] || last[-1] != last[0]);
}

// Copies elements of `size` bytes from [out, square, in] to [out, in, square].
static void move_channels(char *to, const char *from, int64_t out, int64_t square, int64_t in,
                          size_t size)
{
    for (int64_t o = 0; o < out; o++, from += square * in * (int64_t)size)
        for (int64_t i = 0; i < in; i++)
            for (int64_t s = 0; s < square; s++, to += size)
                memcpy(to, from + (s * in + i) * (int64_t)size, size);
}

int quantised_reorder(struct checkpoint *c, struct err *err)
{
    for (int64_t k = 0; k < c->tensor_count; k++) {
        const struct safetensor *t = c->tensors[k];
        if (!is_channel_last(t)) continue;
        const int64_t out = t->shape[0], in = t->shape[t->rank - 1];
        struct safetensor *own = copy_entry(c, &c->tensors[k], t->bytes, err);
        if (!own) return -1;
        memmove(own->shape + 2, t->shape + 1, (size_t)(t->rank - 2) * sizeof *t->shape);
        own->shape[1] = in;
        own->data = own + 1;
        move_channels((char *)(own + 1), t->data, out, safetensor_count(t) / out / in, in,
                      dtype_size((enum dtype)t->dtype));
    }
    return 0;
}

// --- names ---------------------------------------------------------------------------------------

static const struct naming *naming_of(const struct checkpoint *c)
{
    const cJSON *type = json_get(c->config, "model_type");
    for (size_t i = 0; i < sizeof namings / sizeof *namings && cJSON_IsString(type); i++)
        for (int k = 0; k < 4 && namings[i].model_types[k]; k++)
            if (!strcmp(namings[i].model_types[k], type->valuestring)) return &namings[i];
    return NULL;
}

// Renames the entry to `start` followed by `rest`.
static int rename_entry(struct checkpoint *c, const struct safetensor **place, const char *start,
                        const char *rest, struct err *err)
{
    const struct safetensor *t = *place;
    if (t->quantised) { // an entry of c->quantised->list, which the checkpoint owns
        struct safetensor *own = &c->quantised->list[t - c->quantised->list];
        char *name = xasprintf("%s%s", start, rest);
        free(own->name);
        own->name = name;
        return 0;
    }
    const size_t size = strlen(start) + strlen(rest) + 1;
    struct safetensor *own = copy_entry(c, place, size, err);
    if (!own) return -1;
    own->stored = t->name;
    own->name = (char *)(own + 1);
    snprintf(own->name, size, "%s%s", start, rest);
    return 0;
}

int quantised_rename(struct checkpoint *c, struct err *err)
{
    const struct naming *n = naming_of(c);
    for (int64_t k = 0; n && k < c->tensor_count; k++) {
        const char *name = c->tensors[k]->name;
        int i = 0;
        while (i < RENAMED && n->start[i].mlx &&
               strncmp(name, n->start[i].mlx, strlen(n->start[i].mlx)) != 0)
            i++;
        if (i < RENAMED && n->start[i].mlx &&
            rename_entry(c, &c->tensors[k], n->start[i].usual, name + strlen(n->start[i].mlx),
                         err) < 0)
            return -1;
    }
    return checkpoint_sort(c, err);
}
