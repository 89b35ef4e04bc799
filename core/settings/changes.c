// core/settings/changes.c -- a queue of settings between two threads.
#include "core/settings/changes.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"

void changes_init(struct changes *q)
{
    *q = (struct changes){ 0 };
    pthread_mutex_init(&q->lock, NULL);
}

void changes_free(struct change *list, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        free((char *)(uintptr_t)list[i].key);
        free((char *)(uintptr_t)list[i].value);
    }
    free(list);
}

void change_batch_release(struct change_batch *batch)
{
    changes_free(batch->list, batch->count);
    *batch = (struct change_batch){ 0 };
}

void changes_release(struct changes *q)
{
    for (size_t i = 0; i < q->count; i++) change_batch_release(&q->list[i]);
    free(q->list);
    pthread_mutex_destroy(&q->lock);
}

void changes_post(struct changes *q, const struct change *list, size_t count, int64_t tokens)
{
    struct change_batch batch = { .count = count, .tokens = tokens };
    batch.list = xcalloc(count, sizeof *batch.list);
    for (size_t i = 0; i < count; i++)
        batch.list[i] = (struct change){ xstrdup(list[i].key), xstrdup(list[i].value) };
    pthread_mutex_lock(&q->lock);
    q->list = xreallocarray(q->list, q->count + 1, sizeof *q->list);
    q->list[q->count++] = batch;
    atomic_store(&q->waiting, q->count);
    pthread_mutex_unlock(&q->lock);
}

bool changes_take(struct changes *q, int64_t tokens, struct change_batch *batch)
{
    size_t i = 0;
    if (!atomic_load(&q->waiting)) return false;
    pthread_mutex_lock(&q->lock);
    while (i < q->count && q->list[i].tokens > tokens) i++;
    const bool found = i < q->count;
    if (found) {
        *batch = q->list[i];
        memmove(&q->list[i], &q->list[i + 1], (--q->count - i) * sizeof *q->list);
        atomic_store(&q->waiting, q->count);
    }
    pthread_mutex_unlock(&q->lock);
    return found;
}

char *changes_text(struct changes *q)
{
    struct buf b = { 0 };
    buf_puts(&b, "");
    pthread_mutex_lock(&q->lock);
    for (size_t i = 0; i < q->count; i++) {
        const struct change_batch *batch = &q->list[i];
        for (size_t k = 0; k < batch->count; k++)
            buf_printf(&b, "%s%s=%s", b.length ? ", " : "", batch->list[k].key,
                       batch->list[k].value);
        buf_printf(&b, " after %" PRId64 " token%s", batch->tokens, batch->tokens == 1 ? "" : "s");
    }
    pthread_mutex_unlock(&q->lock);
    return buf_take(&b);
}
