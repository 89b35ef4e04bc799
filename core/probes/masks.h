// core/probes/masks.h -- positions of objects in pictures: run lists, polygons and boxes. The file
// is untrusted and has one of these forms:
//   objects.jsonl of core/scenes/scenes.h: a line {"image", "objects"} for each picture, whose
//     objects have "name" and "mask", "polygon" or "box";
//   RefCOCO's rows, as JSON lines or a list: {"file_name", "answer" | "sentences", "segmentation",
//     "bbox"} for each object, or Qwen-VL's {"image", "sent", "bbox"}, whose boxes are corners;
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
    size_t first, last;   // of its items, number + 1; 0: none
    double width, height; // in the file; 0: unknown
};

struct masks_item {
    int64_t at;  // line, row or annotation of the file
    size_t next; // number + 1; 0: the last one
};

struct masks {
    struct dataset lines;    // of objects or rows; or
    struct json_parts parts; // of COCO's instances
    bool coco;
    struct names pictures; // file names
    struct masks_picture *picture;
    struct masks_item *items;
    size_t item_count;
    struct names categories; // ids of COCO's
    char **category;         // their names
};

struct masks_query {
    const char *picture;  // its path
    const char *text;     // chooses the objects that it names; all if it names none
    double width, height; // of the picture: used if the file has no size
    bool boxes;           // uses boxes even if there are outlines
};

int masks_open(struct masks *m, const char *path, struct err *err);
// Makes an image that is white where the objects are, of the size in the file or of the picture;
// image_release it.
int masks_read(const struct masks *m, const struct masks_query *query, struct image *mask,
               struct err *err);
void masks_close(struct masks *m); // also accepts a zeroed one

// masks_paint.c. Paints one object: its run list, its polygons or its box; -1 if it has none or an
// invalid one. *work: pixels that may still be painted, mask_work at first.
int mask_paint(struct image *mask, const cJSON *object, bool boxes, int64_t *work, struct err *err);
int64_t mask_work(const struct image *mask);
// The size of the object's run list; false: it has none.
bool mask_runs_size(const cJSON *object, double size[2]);

#endif
