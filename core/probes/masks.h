// core/probes/masks.h -- positions of objects in pictures, from a list of objects (the
// objects.jsonl of core/scenes/scenes.h).
//
//   struct masks m;
//   masks_open(&m, "world/objects.jsonl", &err);
//   struct image mask;
//   masks_read(&m, "world/pictures/000001.png", "Is there a red circle?", &mask, &err);
//   masks_close(&m);
#ifndef CORE_PROBES_MASKS_H
#define CORE_PROBES_MASKS_H

#include "core/base/names.h"
#include "core/data/dataset.h"
#include "core/picture/image.h"

struct masks {
    struct dataset lines;
    struct names pictures; // file names, as many as lines
    int64_t *line;         // of each picture
};

int masks_open(struct masks *m, const char *path, struct err *err);
// White where an object named in the text is, or any object if it names none. image_release it.
int masks_read(const struct masks *m, const char *picture, const char *text, struct image *mask,
               struct err *err);
void masks_close(struct masks *m); // also accepts a zeroed one

#endif
