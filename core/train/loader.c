// core/train/loader.c -- reads a sample, and decodes its pictures or takes them from the cache.
#include "core/train/loader.h"

#include <stdlib.h>
#include <string.h>

#include "core/model/families/family.h"
#include "core/model/visual.h"
#include "core/picture/source.h"
#include "core/template/message.h"

// --- pictures ------------------------------------------------------------------------------------

// Returns the cache key of a picture file. Some families encode a picture differently if its sample
// has several pictures.
static char *key_of(const struct loader *f, const char *path, size_t shown)
{
    const bool several = shown > 1 && f->model->family->several_differ;
    return xasprintf("%s%s", several ? "several " : "", path);
}

static void set_tokens(const struct loader *f, struct picture *p, size_t shown)
{
    model_size_picture(f->model, p, p->image.width, p->image.height, shown,
                       preprocess_limit(f->settings));
}

static int in_picture(const char *path, struct err *err)
{
    char *title = picture_source_title(path);
    err_in(err, "picture '%s'", title);
    free(title);
    return -1;
}

static int decode(struct loader *f, const char *path, size_t shown, struct picture *p,
                  struct err *err)
{
    size_t size;
    char *bytes = picture_source_read(path, IMAGE_MAX_FILE, &size, err);
    if (!bytes) return -1;
    if (!f->decoder) f->decoder = image_decoder_new();
    char *title = picture_source_title(path);
    int status = image_decoder_run(f->decoder, &p->image, bytes, size, title, err);
    if (status == 0) set_tokens(f, p, shown);
    free(title);
    free(bytes);
    return status;
}

int loader_encode(const struct loader *f, struct graph *g, struct picture *p, struct err *err)
{
    struct graph plain = *g; // the same arena and listeners, without a tape
    plain.tape = NULL;
    struct arena_mark mark = arena_mark(g->arena);
    float *focus;
    struct tensor *v = visual_encode(&plain, f->model, p, 0, &focus);
    int status = 0;
    if (v && graph_ok(&plain)) p->visual = visual_keep(&plain, v);
    if (p->visual && graph_ok(&plain)) {
        if (focus) {
            p->focus = xreallocarray(NULL, (size_t)p->tokens, sizeof *focus);
            memcpy(p->focus, focus, (size_t)p->tokens * sizeof *focus);
        }
    } else {
        g->cancelled |= plain.cancelled;
        status = err_set(err, "%s", plain.cancelled ? "cancelled" : plain.err.text);
    }
    arena_reset(g->arena, mark);
    return status;
}

void loader_picture_release(const struct backend *b, struct picture *p)
{
    image_release(&p->image);
    visual_free(b, p->visual);
    p->visual = NULL;
    free(p->focus);
    p->focus = NULL;
}

static uint64_t bytes_of(const struct picture *p)
{
    const struct image *i = &p->image;
    uint64_t bytes = i->pixels ? (uint64_t)(i->width * i->height * i->channels) : 0;
    return bytes + (p->visual ? tensor_bytes(p->visual) : 0);
}

static uint64_t capacity(const struct loader *f)
{
    return f->capacity ? f->capacity : LOADER_CAPACITY;
}

static void record_used(struct loader *f, uint64_t used)
{
    f->used = used;
    if (used > f->most) f->most = used;
}

// Caches the picture, unless the cache is full; sets *ours if it is not cached, so that the
// caller owns it.
static void keep(struct loader *f, const char *key, const struct picture *p, bool *ours)
{
    const uint64_t bytes = bytes_of(p);
    *ours = f->used + bytes > capacity(f);
    if (*ours) return;
    const size_t i = names_add(&f->keys, key, NULL);
    f->known = xreallocarray(f->known, f->known_count + 1, sizeof *f->known);
    f->known[f->known_count++] = *p;
    if (i != f->known_count - 1) BUG("a picture was cached twice");
    record_used(f, f->used + bytes);
}

void loader_keep(struct loader *f, const char *path, size_t shown, struct image *image)
{
    struct picture p = { .image = *image };
    char *key = key_of(f, path, shown);
    size_t known;
    bool ours;
    set_tokens(f, &p, shown);
    if (!names_find(&f->keys, key, &known)) {
        keep(f, key, &p, &ours);
        if (!ours) *image = (struct image){ 0 };
    }
    free(key);
}

// Replaces cached pixels with visual tokens; if these do not fit, keeps the pixels, and the item
// owns the tokens.
static int encode_cached(struct loader *f, struct graph *g, size_t i, struct picture *p, bool *ours,
                         struct err *err)
{
    const uint64_t before = bytes_of(p);
    const int status = loader_encode(f, g, p, err);
    p->image = (struct image){ 0 };
    *ours = true;
    if (status < 0) return -1;
    *ours = f->used - before + bytes_of(p) > capacity(f);
    if (*ours) return 0;
    image_release(&f->known[i].image);
    f->known[i].visual = p->visual;
    f->known[i].focus = p->focus;
    record_used(f, f->used - before + bytes_of(p));
    return 0;
}

static int read_picture(struct loader *f, struct graph *g, const char *path, size_t shown,
                        struct picture *p, bool *ours, struct err *err)
{
    char *key = key_of(f, path, shown);
    size_t i;
    int status = 0;
    *ours = !names_find(&f->keys, key, &i);
    if (*ours) {
        status = decode(f, path, shown, p, err);
        if (status == 0 && f->frozen) {
            status = loader_encode(f, g, p, err) < 0 ? in_picture(path, err) : 0;
            if (status == 0) image_release(&p->image);
        }
        if (status == 0) keep(f, key, p, ours);
    } else {
        *p = f->known[i];
        if (f->frozen && !p->visual && encode_cached(f, g, i, p, ours, err) < 0)
            status = in_picture(path, err);
    }
    free(key);
    return status;
}

// --- samples -------------------------------------------------------------------------------------

static int read_item(struct loader *f, struct graph *g, const struct sample *s,
                     struct loader_item *item, struct err *err)
{
    const struct dialogue *d = &s->dialogue;
    item->pictures = xcalloc(d->path_count + 1, sizeof *item->pictures);
    item->ours = xcalloc(d->path_count + 1, sizeof *item->ours);
    item->picture_count = d->path_count;
    int status = 0;
    for (size_t i = 0; i < d->path_count && status == 0; i++)
        status =
            read_picture(f, g, d->paths[i], d->path_count, &item->pictures[i], &item->ours[i], err);
    if (status == 0)
        status = labels_make(&item->labels, d->messages, d->count, item->pictures, d->path_count,
                             f->model, f->settings, err);
    return status;
}

static int in_sample(const struct loader *f, const struct sample *s, struct err *err)
{
    err_in(err, "sample %s", s->id ? s->id : "without id");
    return s->id ? -1 : err_in(err, "'%s', line %lld", f->data->path, (long long)s->line);
}

int loader_in_sample(const struct loader *f, int64_t index, struct err *err)
{
    struct sample s;
    struct err why = { 0 };
    if (dataset_read(f->data, index, &s, &why) == 0) in_sample(f, &s, err);
    sample_release(&s);
    return -1;
}

int loader_read(struct loader *f, struct graph *g, int64_t index, struct loader_item *item,
                struct err *err)
{
    struct sample s;
    *item = (struct loader_item){ 0 };
    int status = dataset_read(f->data, index, &s, err);
    if (status == 0) status = read_item(f, g, &s, item, err);
    if (status < 0) in_sample(f, &s, err);
    sample_release(&s);
    if (status < 0) loader_item_release(f, item);
    return status;
}

void loader_item_release(struct loader *f, struct loader_item *item)
{
    for (size_t i = 0; i < item->picture_count; i++)
        if (item->ours[i]) loader_picture_release(f->backend, &item->pictures[i]);
    free(item->pictures);
    free(item->ours);
    labels_release(&item->labels);
    *item = (struct loader_item){ 0 };
}

void loader_release(struct loader *f)
{
    for (size_t i = 0; i < f->known_count; i++) {
        struct picture p = f->known[i];
        loader_picture_release(f->backend, &p);
    }
    free(f->known);
    image_decoder_free(f->decoder);
    f->decoder = NULL;
    names_release(&f->keys);
    f->known = NULL;
    f->known_count = 0;
    f->used = 0;
}
