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

// Finds the first name at or after *at, ignoring case, as a word or its plural (-s, -es), and
// advances *at past it. If several names match at one position, the longest wins. `more`: further
// names, separated by commas, or "". Returns false if no name is left.
bool objects_next(const char **at, const char *more, struct object_name *o);

#endif
