// core/files/quantised/mlx.c -- MLX's order of convolutions: channels last, [out, sides ..., in],
// where Hugging Face has [out, in, sides ...].
#include <stdlib.h>
#include <string.h>

#include "core/base/text.h"
#include "core/files/checkpoint.h"
#include "core/files/quantised/quantised_parts.h"

enum { COLOURS = 3 }; // channels of a picture: the only convolutions are those of patches

bool quantised_is_mlx(const struct checkpoint *c)
{
    for (int s = 0; s < c->shard_count; s++) {
        const char *format = safetensors_metadata(c->shards[s], "format");
        if (format && !strcmp(format, "mlx")) return true;
    }
    return false;
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

static int reorder(struct checkpoint *c, const struct safetensor **place, struct err *err)
{
    const struct safetensor *t = *place;
    const int64_t out = t->shape[0], in = t->shape[t->rank - 1];
    char *memory = malloc(sizeof *t + t->bytes);
    if (!memory) return err_set(err, "out of memory for '%s'", t->name);
    c->made = xreallocarray(c->made, c->made_count + 1, sizeof *c->made);
    c->made[c->made_count++] = memory;
    struct safetensor *own = (struct safetensor *)(void *)memory;
    *own = *t;
    own->data = memory + sizeof *own;
    for (int i = t->rank - 1; i > 1; i--) own->shape[i] = t->shape[i - 1];
    own->shape[1] = in;
    move_channels(memory + sizeof *own, t->data, out, safetensor_count(t) / out / in, in,
                  dtype_size((enum dtype)t->dtype));
    *place = own;
    return 0;
}

int quantised_reorder(struct checkpoint *c, struct err *err)
{
    for (int64_t i = 0; i < c->tensor_count; i++) {
        const struct safetensor *t = c->tensors[i];
        if (safetensor_is_float(t) && (t->rank == 4 || t->rank == 5) && t->shape[0] > 0 &&
            t->shape[t->rank - 1] == COLOURS && t->shape[1] != COLOURS &&
            reorder(c, &c->tensors[i], err) < 0)
            return -1;
    }
    return 0;
}
