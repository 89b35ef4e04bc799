// core/new/outline.c -- models without weight values: a checkpoint of a shape, a second view of a
// model.
#include "core/new/outline.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "core/files/checkpoint.h"
#include "core/files/safetensors.h"
#include "core/graph/dry.h"
#include "core/model/model.h"
#include "core/new/new_model.h"
#include "core/new/new_tokenizer.h"
#include "core/new/shapes.h"

// --- a checkpoint without files ------------------------------------------------------------------

static void add_tensor(void *self, const struct shape_tensor *t)
{
    struct safetensors *f = self;
    f->tensors = xreallocarray(f->tensors, (size_t)f->count + 1, sizeof *f->tensors);
    struct safetensor *one = &f->tensors[f->count++];
    *one = (struct safetensor){ .name = xstrdup(t->name),
                                .type = "BF16",
                                .dtype = DTYPE_BF16,
                                .rank = t->rank,
                                .bytes = (uint64_t)shape_tensor_count(t) * 2 };
    memcpy(one->shape, t->size, sizeof t->size);
    if (one->bytes > f->size) f->size = one->bytes;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct safetensor *)a)->name, ((const struct safetensor *)b)->name);
}

// All tensors share one mapping of zeros, which takes no memory.
static int make_tensors(struct checkpoint *c, const struct shape *s, struct err *err)
{
    struct safetensors *f = xcalloc(1, sizeof *f);
    c->shards = xcalloc(1, sizeof *c->shards);
    c->shards[c->shard_count++] = f;
    shape_tensors(s, add_tensor, f);
    f->map = mmap(NULL, f->size, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (f->map == MAP_FAILED) {
        f->map = NULL;
        return err_set(err, "no address space for %.1f GB", (double)f->size / 1e9);
    }
    qsort(f->tensors, (size_t)f->count, sizeof *f->tensors, by_name);
    c->tensors = xreallocarray(NULL, (size_t)f->count, sizeof *c->tensors);
    for (; c->tensor_count < f->count; c->tensor_count++) {
        f->tensors[c->tensor_count].data = f->map;
        c->tensors[c->tensor_count] = &f->tensors[c->tensor_count];
    }
    return 0;
}

static cJSON *parse(struct buf *b, const char *name, struct err *err)
{
    cJSON *json = json_parse(b->data, b->length, name, err);
    buf_release(b);
    return json;
}

static struct checkpoint *make_checkpoint(const struct shape *s, struct err *err)
{
    // Only the placeholder's id matters here: it must be in the vocabulary.
    const struct new_tokenizer ids = { .image = s->tower ? s->vocab - 1 : -1 };
    struct checkpoint *c = xcalloc(1, sizeof *c);
    struct buf b = { 0 };
    c->folder = xstrdup(s->name);
    new_model_config(&b, s, &ids);
    c->config = parse(&b, "config.json", err);
    if (c->config && s->tower) {
        new_model_preprocessor(&b, s);
        c->preprocessor = parse(&b, "preprocessor_config.json", err);
    }
    if (c->config && (c->preprocessor || !s->tower) && make_tensors(c, s, err) == 0) return c;
    checkpoint_close(c);
    return NULL;
}

// --- models --------------------------------------------------------------------------------------

struct model *outline_shape(const char *shape, struct err *err)
{
    const struct shape *s = shape_find(shape, err);
    struct checkpoint *c = s ? make_checkpoint(s, err) : NULL;
    struct model *o = c ? xcalloc(1, sizeof *o) : NULL;
    if (!o) return NULL;
    o->name = xstrdup(shape);
    o->arena.backend = backend_dry();
    o->checkpoint = c;
    if (model_bind(o, err) == 0) return o;
    outline_free(o);
    return NULL;
}

struct model *outline_model(const struct model *m, struct err *err)
{
    struct model *o = xcalloc(1, sizeof *o);
    o->name = xstrdup(m->name);
    o->arena.backend = backend_dry();
    o->checkpoint = m->checkpoint;
    o->tokenizer = m->tokenizer;
    o->layout = m->layout;
    ids_append(&o->eos, m->eos.data, m->eos.count);
    if (model_bind(o, err) == 0) {
        o->placeholder = m->placeholder; // it may come from the tokenizer
        return o;
    }
    outline_free(o);
    return NULL;
}

void outline_free(struct model *o)
{
    if (o && o->tokenizer) { // the tokenizer and checkpoint are another model's
        o->tokenizer = NULL;
        o->checkpoint = NULL;
    }
    model_free(o);
}
