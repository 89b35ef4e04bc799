// core/probes/masks.h -- reads positions of objects in pictures: run lists (run-length encoded
// masks), polygons and boxes. The file is untrusted and has one of these formats:
//   objects.jsonl of core/scenes/scenes.h: a line {"image", "objects"} for each picture, whose
//     objects have "name" and "mask", "polygon" or "box";
//   RefCOCO's rows, as JSON lines or a list: {"file_name", "answer" | "sentences", "segmentation",
//     "bbox"} for each object, or Qwen-VL's {"image", "sent", "bbox"}, whose boxes are pairs of
//     corners;
//   COCO's instances: {"images", "annotations", "categories"}.
//
//   struct masks m;
//   masks_open(&m, "world/objects.jsonl", &err);
//   struct masks_query query = { "world/pictures/000001.png", "Is there a red circle?", 96, 96 };
//   struct image mask;
//   masks_read(&m, &query, &mask, &err);
//   masks_close(&m);
#ifndef CORE_PROBES_MASKS_H
#define CORE_PROBES_MASKS_H

#include "core/base/names.h"
#include "core/data/dataset.h"
#include "core/picture/image.h"
#include "core/sets/parts.h"

struct masks_picture {
    size_t first, last;   // index + 1 of its first and last item; 0: none
    double width, height; // from the file; 0: unknown
};

struct masks_item {
    int64_t at;  // index of its line, row or annotation in the file
    size_t next; // index + 1 of the picture's next item; 0: none
};

struct masks {
    struct dataset lines;    // of the file, unless `coco`
    struct json_parts parts; // of the file, if `coco`
    bool coco;
    struct names pictures;         // file names
    struct masks_picture *picture; // [pictures.count]
    struct masks_item *items;      // [item_count]
    size_t picture_capacity, item_count, item_capacity;
    struct names categories; // ids of COCO's categories
    char **category;         // [categories.count] their names
};

struct masks_query {
    const char *picture;  // path of the picture
    const char *text;     // selects the objects that it names; all if it names none
    double width, height; // of the picture, used if the file has no size
    bool boxes;           // uses boxes even if the file has outlines
    // Fails if the text names no object. A text that is a part of an object's "name" or referring
    // expression then names it, too (unless `whole`).
    bool named;
    bool whole; // the text is an object's name (masks_names), not a sentence with it
};

int masks_open(struct masks *m, const char *path, struct err *err);
// Makes an image, white where the objects are. Its size is that in the file, otherwise that of the
// picture. The caller calls image_release.
int masks_read(const struct masks *m, const struct masks_query *query, struct image *mask,
               struct err *err);
// Lists the names of a picture's objects, each once, and sets *count; none if the file does not
// list the picture. The caller frees the names and the list.
char **masks_names(const struct masks *m, const char *picture, size_t *count);
void masks_close(struct masks *m); // also accepts a zeroed struct

// masks_paint.c: paints one object's run list, polygons or box. Returns -1 if the object has none
// of these, or an invalid one, or if *work is used up: the number of pixels that may still be
// painted, at first mask_work(mask).
int mask_paint(struct image *mask, const cJSON *object, bool boxes, int64_t *work, struct err *err);
int64_t mask_work(const struct image *mask);
// Sets `size` to the width and height of the object's run list; returns false if it has none.
bool mask_runs_size(const cJSON *object, double size[2]);

#endif
