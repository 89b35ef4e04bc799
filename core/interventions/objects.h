// core/interventions/objects.h -- names of objects in a text: the 80 categories of COCO, words for
// people, the shapes of the demo world, and names that the user adds.
//
//   struct object_name o;
//   for (const char *p = text; objects_next(&p, more, &o);) ...   // o.text, o.length
#ifndef CORE_INTERVENTIONS_OBJECTS_H
#define CORE_INTERVENTIONS_OBJECTS_H

#include <stdbool.h>
#include <stddef.h>

struct object_name {
    const char *text; // in the text that was searched
    size_t length;
};

// Finds the first name at or after *at, in any case, as a word or its plural, and moves *at behind
// it. Of several names at one place the longest counts. `more`: further names, separated by commas.
// False: none is left.
bool objects_next(const char **at, const char *more, struct object_name *o);

#endif
