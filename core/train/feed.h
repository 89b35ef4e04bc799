// core/train/feed.h -- prepares samples for the loss: rows, targets and pictures.
//
//   struct feed f = { .data = &dataset, .model = m, .settings = s, .backend = b, .frozen = true };
//   struct feed_item item;
//   if (feed_read(&f, &g, index, &item, &err) < 0) ...
//   loss_sample(&g, m, item.pictures, item.picture_count, &item.labels, share, &loss);
//   feed_item_release(&f, &item);
//   feed_release(&f);
//
// Decodes pictures in a child process (core/picture/image.h) and caches them for the next sample or
// epoch, up to a capacity. While encoder and projector are frozen, caches visual tokens instead.
#ifndef CORE_TRAIN_FEED_H
#define CORE_TRAIN_FEED_H

#include "core/base/names.h"
#include "core/data/dataset.h"
#include "core/data/labels.h"

struct feed {
    const struct dataset *data;
    const struct model *model;
    const struct settings *settings;
    const struct backend *backend;
    bool frozen;       // encoder and projector are frozen
    uint64_t capacity; // bytes of pictures to cache; 0: 512 MB
    // Internal.
    struct image_decoder *decoder;
    struct names keys;     // of path and form (picture_shape.several)
    struct picture *known; // [known_count] as in keys: pixels or visual tokens
    size_t known_count;
    uint64_t used, most; // bytes of them, now and at peak
};

enum { FEED_CAPACITY = 512 << 20 };

struct feed_item {
    struct labels labels;
    struct picture *pictures; // pixels or visual tokens; cached ones belong to the feed
    bool *ours;               // [picture_count] not cached: owned by the item
    size_t picture_count;
};

// `g`: computes visual tokens, without its tape. A zeroed item may be released even after an error.
int feed_read(struct feed *f, struct graph *g, int64_t index, struct feed_item *item,
              struct err *err);
// Caches a decoded picture, one of `shown` in its sample, and takes *image, unless the cache is
// full.
void feed_keep(struct feed *f, const char *path, size_t shown, struct image *image);
// Adds visual tokens to a picture, in the backend's memory.
int feed_encode(const struct feed *f, struct graph *g, struct picture *p, struct err *err);
void feed_picture_release(const struct backend *b, struct picture *p);
void feed_item_release(struct feed *f, struct feed_item *item);
void feed_release(struct feed *f);

#endif
