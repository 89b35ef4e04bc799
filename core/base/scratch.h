// core/base/scratch.h -- small allocations that are freed together, such as the texts made while
// scoring one answer or reading one record.
//
//   struct scratch s = { 0 };
//   const char *path = scratch_printf(&s, "%s/%s", folder, name);
//   scratch_release(&s);
#ifndef CORE_BASE_SCRATCH_H
#define CORE_BASE_SCRATCH_H

#include "core/base/mem.h"

// A zero-initialised struct is empty.
struct scratch {
    void **list;
    size_t count, capacity;
};

void *scratch_keep(struct scratch *s, void *memory); // from malloc; returns it
char *scratch_take(struct scratch *s,
                   struct buf *b); // the buffer's text, never NULL; b is empty again
char *scratch_dup(struct scratch *s, const char *text, size_t length); // copies like xstrndup
char *scratch_printf(struct scratch *s, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void scratch_release(struct scratch *s);

#endif
