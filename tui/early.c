// tui/early.c -- a queue of bytes. There is one readline, and one queue.
#include "tui/early.h"

#include "core/base/mem.h"

static struct buf queue;
static size_t taken;

void early_add(const char *bytes, size_t length)
{
    buf_add(&queue, bytes, length);
}

bool early_left(void)
{
    return taken < queue.length;
}

int early_next(void)
{
    if (!early_left()) return -1;
    const int byte = (unsigned char)queue.data[taken++];
    if (!early_left()) early_drop();
    return byte;
}

void early_drop(void)
{
    buf_release(&queue);
    taken = 0;
}
