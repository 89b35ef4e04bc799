// core/train/loader.h -- prepares samples for the loss: rows, targets and pictures.
//
//   struct loader f = { .data = &dataset, .model = m, .settings = s, .backend = b };
//   struct loader_item item;
//   if (loader_read(&f, &g, index, &item, &err) < 0) ...
//   loss_sample(&g, m, item.pictures, item.picture_count, &item.labels, share, &loss);
//   loader_item_release(&f, &item);
//   loader_release(&f);
//
// Decodes pictures in a child process (core/picture/image.h) and caches them, up to `capacity`, for
// later samples and epochs. While encoder and projector are frozen, caches visual tokens instead,
// if they fit.
#ifndef CORE_TRAIN_LOADER_H
#define CORE_TRAIN_LOADER_H

#include "core/base/names.h"
#include "core/data/dataset.h"
#include "core/data/labels.h"

struct loader {
    const struct dataset *data;
    const struct model *model;
    const struct settings *settings;
    const struct backend *backend;
    bool frozen;       // encoder and projector are frozen
    uint64_t capacity; // bytes of pictures to cache; 0: 512 MB
    // Internal.
    struct image_decoder *decoder;
    struct names keys; // of cached pictures: path and, if the family encodes pictures of a sample
                       // with several differently, whether it has several
    struct picture *known; // [known_count] in the order of keys: pixels or visual tokens
    size_t known_count;
    uint64_t used, most; // bytes of cached pictures, now and at peak
};

enum { LOADER_CAPACITY = 512 << 20 };

struct loader_item {
    struct labels labels;
    struct picture *pictures; // pixels or visual tokens; cached ones belong to the loader
    bool *ours;               // [picture_count] the picture is not cached, so the item owns it
    size_t picture_count;
};

// If `frozen`, computes visual tokens with `g`, but does not record them on its tape. After an
// error *item is zeroed and may still be released.
int loader_read(struct loader *f, struct graph *g, int64_t index, struct loader_item *item,
                struct err *err);
// Puts the id, or the file and line, of a sample before the error; returns -1.
int loader_in_sample(const struct loader *f, int64_t index, struct err *err);
// Caches a decoded picture of a sample with `shown` pictures and takes ownership of *image, unless
// the cache is full or has the picture.
void loader_keep(struct loader *f, const char *path, size_t shown, struct image *image);
// Computes a picture's visual tokens and stores them in it, in the backend's memory.
int loader_encode(const struct loader *f, struct graph *g, struct picture *p, struct err *err);
void loader_picture_release(const struct backend *b, struct picture *p);
void loader_item_release(struct loader *f, struct loader_item *item);
void loader_release(struct loader *f);

#endif
