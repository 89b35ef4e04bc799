// core/talk/show.c -- a dialogue of a data set as a conversation.
#include "core/talk/show.h"

#include <stdlib.h>

#include "core/picture/source.h"

int conversation_show(struct conversation *c, const struct dialogue *d, size_t count,
                      struct err *err)
{
    conversation_clear(c);
    if (!count) return err_set(err, "it contains no question");
    for (size_t i = 0; i < d->path_count; i++) {
        size_t size;
        char *bytes = picture_source_read(d->paths[i], IMAGE_MAX_FILE, &size, err);
        const int index = bytes ? conversation_attach(c, d->paths[i], bytes, size, err) : -1;
        free(bytes);
        if (index < 0) return -1;
    }
    conversation_append(c, d->messages, count);
    for (size_t i = 0; i < count; i++) conversation_unwait(c, &d->messages[i]);
    return 0;
}
