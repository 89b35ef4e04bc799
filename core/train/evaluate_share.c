// core/train/evaluate_share.c -- what ranks have scored, as bytes that they send to one another.
#include <string.h>

#include "core/base/mem.h"
#include "core/train/evaluate_parts.h"

// The texts of a struct evaluated; NULL is a text too.
enum { TEXTS = 8 };

static void list_texts(const struct evaluated *e, const char **texts)
{
    const char *const list[TEXTS] = { e->id,    e->kind,      e->prompt,  e->answer,
                                      e->found, e->reference, e->skipped, e->group };
    memcpy(texts, list, sizeof list);
}

static void put_texts(struct evaluated *e, const char *const *texts)
{
    e->id = texts[0];
    e->kind = texts[1];
    e->prompt = texts[2];
    e->answer = texts[3];
    e->found = texts[4];
    e->reference = texts[5];
    e->skipped = texts[6];
    e->group = texts[7];
}

// A pointer means nothing to another process: the metric's is its number, those of texts are there
// or not.
struct packed {
    struct evaluated e;
    int metric; // -1: none
    bool has[TEXTS];
};

void evaluate_pack(struct buf *b, const struct evaluated *e)
{
    const char *texts[TEXTS];
    struct packed p;
    memset(&p, 0, sizeof p);
    p.e = *e;
    p.metric = e->metric ? evaluate_metric_number(e->metric) : -1;
    list_texts(e, texts);
    for (int i = 0; i < TEXTS; i++) p.has[i] = texts[i] != NULL;
    buf_add(b, &p, sizeof p);
    for (int i = 0; i < TEXTS; i++)
        if (texts[i]) buf_add(b, texts[i], strlen(texts[i]) + 1);
}

static size_t take_one(const char *at, void (*take)(void *self, const struct evaluated *e),
                       void *self)
{
    const char *texts[TEXTS] = { NULL };
    struct packed p;
    size_t used = sizeof p;
    memcpy(&p, at, sizeof p);
    for (int i = 0; i < TEXTS; i++) {
        if (!p.has[i]) continue;
        texts[i] = at + used;
        used += strlen(texts[i]) + 1;
    }
    p.e.metric = p.metric >= 0 ? metrics[p.metric] : NULL;
    put_texts(&p.e, texts);
    take(self, &p.e);
    return used;
}

void evaluate_share(struct ranks *r, struct buf *mine,
                    void (*take)(void *self, const struct evaluated *e), void *self)
{
    for (int k = 0; k < ranks_count(r); k++) {
        const bool own = k == ranks_number(r);
        size_t size = own ? mine->length : 0;
        ranks_share(r, &size, sizeof size, k);
        struct buf theirs = { 0 };
        if (!own && size) theirs.data = xmalloc(size);
        char *data = own ? mine->data : theirs.data;
        ranks_share(r, data, size, k);
        for (size_t at = 0; at < size;) at += take_one(data + at, take, self);
        buf_release(&theirs);
    }
    buf_clear(mine);
}
