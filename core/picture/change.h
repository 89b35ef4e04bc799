// core/picture/change.h -- small changes to a picture that keep its size, to measure how stable
// answers are.
//
//   for (int i = 0; i < image_change_count; i++)
//       if (image_change(&copy, &image, i, &err) == 0) ... image_changes[i] ...
//       image_release(&copy)
#ifndef CORE_PICTURE_CHANGE_H
#define CORE_PICTURE_CHANGE_H

#include "core/picture/image.h"

// Names of the changes: "shift right 3%", "JPEG quality 50" ...
extern const char *const image_changes[];
extern const int image_change_count;

// Makes a changed copy with three channels; transparent pixels become white. The caller calls
// image_release.
int image_change(struct image *to, const struct image *from, int change, struct err *err);

#endif
