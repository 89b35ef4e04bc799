// core/sets/annotated.h -- reads which objects each picture shows, from the objects.jsonl of a demo
// world (core/scenes/scenes.h) or from COCO's instances (instances_val2014.json).
//
//   struct annotated a;
//   if (annotated_open(&a, "instances_val2014.json", &err) < 0) ...
//   a.names.list[a.picture[3].objects[0]] ...
//   annotated_release(&a);
//
// The files are untrusted.
#ifndef CORE_SETS_ANNOTATED_H
#define CORE_SETS_ANNOTATED_H

#include "core/base/json.h"
#include "core/base/names.h"

enum { ANNOTATED_NAMES_MAX = 4096 };

struct annotated_picture {
    char *file;   // as in the annotations
    int *objects; // [count] distinct, ascending
    size_t count;
};

struct annotated {
    struct names names;                // of kinds of objects, in the order of the file
    struct names ids;                  // of the pictures
    struct annotated_picture *picture; // [ids.count]
};

// Returns 0 or -1. Releasing a zeroed struct is safe.
int annotated_open(struct annotated *a, const char *path, struct err *err);
void annotated_release(struct annotated *a);
// Sets a record's "answer" to the picture's objects and its "choices" to all names; -1 if the
// picture is unknown.
int annotated_record(const struct annotated *a, const char *id, cJSON *record, struct err *err);

#endif
