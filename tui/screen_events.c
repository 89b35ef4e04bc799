// tui/screen_events.c -- the news queue, and copies of events in it.
#include "tui/screen_events.h"

#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/err.h"
#include "core/base/mem.h"
#include "core/picture/image.h"
#include "core/template/message.h"
#include "tui/snapshot.h"

struct news_queue {
    pthread_mutex_t mutex;
    struct news *first, *last;
    int wake;           // eventfd
    double progress_at; // time of the last progress report
};

struct news_queue *news_queue_new(void)
{
    struct news_queue *q = xcalloc(1, sizeof *q);
    pthread_mutex_init(&q->mutex, NULL);
    q->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (q->wake < 0) fatal("cannot create an eventfd: %s", strerror(errno));
    return q;
}

void news_free(struct news *n)
{
    if (!n) return;
    for (size_t i = 0; i < n->owned_count; i++) free(n->owned[i]);
    free(n->owned);
    free(n->text);
    if (n->release) n->release(n->data);
    free(n);
}

void news_queue_free(struct news_queue *q)
{
    struct news *n;
    if (!q) return;
    while ((n = news_next(q))) news_free(n);
    close(q->wake);
    pthread_mutex_destroy(&q->mutex);
    free(q);
}

int news_fd(const struct news_queue *q)
{
    return q->wake;
}

static void push(struct news_queue *q, struct news *n)
{
    const uint64_t one = 1;
    pthread_mutex_lock(&q->mutex);
    const bool empty = !q->first;
    if (empty)
        q->first = n;
    else
        q->last->next = n;
    q->last = n;
    pthread_mutex_unlock(&q->mutex);
    // If the queue was not empty, the eventfd is already readable: news_next clears it only once
    // the queue is empty.
    if (empty && write(q->wake, &one, sizeof one) < 0) return;
}

void news_post(struct news_queue *q, enum news_kind kind, const char *text, void *data,
               void (*release)(void *data))
{
    struct news *n = xcalloc(1, sizeof *n);
    n->kind = kind;
    n->text = text ? xstrdup(text) : NULL;
    n->data = data;
    n->release = release;
    push(q, n);
}

struct news *news_next(struct news_queue *q)
{
    uint64_t count;
    pthread_mutex_lock(&q->mutex);
    struct news *n = q->first;
    if (n) q->first = n->next;
    if (!q->first) q->last = NULL;
    if (!n && read(q->wake, &count, sizeof count) < 0) count = 0;
    pthread_mutex_unlock(&q->mutex);
    if (n) n->next = NULL;
    return n;
}

// --- copies --------------------------------------------------------------------------------------

static void *keep(struct news *n, void *memory)
{
    n->owned = xreallocarray(n->owned, n->owned_count + 1, sizeof *n->owned);
    n->owned[n->owned_count++] = memory;
    return memory;
}

static const char *keep_text(struct news *n, const char *text)
{
    return text ? keep(n, xstrdup(text)) : NULL;
}

static void *keep_bytes(struct news *n, const void *bytes, size_t size)
{
    void *copy = keep(n, xcalloc(1, size ? size : 1));
    if (bytes && size) memcpy(copy, bytes, size);
    return copy;
}

static void copy_table(struct news *n, const struct event_table *from)
{
    struct event_table *t = keep_bytes(n, from, sizeof *from);
    const size_t columns = (size_t)from->column_count;
    const size_t cells = columns * (size_t)from->row_count;
    const char **heads = keep(n, xcalloc(columns + 1, sizeof *heads));
    const char **texts = keep(n, xcalloc(cells + 1, sizeof *texts));
    for (size_t i = 0; i < columns; i++) heads[i] = keep_text(n, from->columns[i]);
    for (size_t i = 0; i < cells; i++) texts[i] = keep_text(n, from->cells[i]);
    t->name = keep_text(n, from->name);
    t->columns = heads;
    t->cells = texts;
    if (from->numeric) t->numeric = keep_bytes(n, from->numeric, columns * sizeof *from->numeric);
    n->event.table = t;
}

static void copy_heatmap(struct news *n, const struct event_heatmap *from)
{
    struct event_heatmap *h = keep_bytes(n, from, sizeof *from);
    const struct image *image = from->image;
    const size_t cells = (size_t)from->rows * (size_t)from->cols;
    h->name = keep_text(n, from->name);
    h->tile = keep_text(n, from->tile);
    h->condition = keep_text(n, from->condition);
    h->image = NULL;
    h->unit = h->axes[0] = h->axes[1] = NULL;
    // Stores the area (left, top, right, bottom) as fractions of the picture's size, because the
    // picture is not copied.
    static const double whole[4] = { 0, 0, 1, 1 };
    for (int i = 0; i < 4; i++)
        h->area[i] =
            !image ? whole[i] : from->area[i] / (double)(i % 2 ? image->height : image->width);
    if (from->dropped) h->dropped = keep_bytes(n, from->dropped, cells * sizeof *h->dropped);
    const char **words = from->words ? keep(n, xcalloc(cells + 1, sizeof *words)) : NULL;
    for (size_t i = 0; words && i < cells; i++) words[i] = keep_text(n, from->words[i]);
    h->words = words;
    h->values = keep_bytes(n, from->values, cells * sizeof *h->values);
    n->event.heatmap = h;
}

static void copy_columns(struct news *n, const struct event_columns *from)
{
    struct event_columns *c = keep_bytes(n, from, sizeof *from);
    for (int i = 0; i < 2; i++) {
        c->title[i] = keep_text(n, from->title[i]);
        c->text[i] = keep_text(n, from->text[i]);
        if (from->starts[i])
            c->starts[i] = keep_bytes(n, from->starts[i], from->tokens[i] * sizeof *c->starts[i]);
    }
    n->event.columns = c;
}

static void copy_changed(struct news *n, const struct event *e)
{
    const struct event_changed *from = e->changed;
    struct event_changed *c = keep_bytes(n, from, sizeof *from);
    const char **const texts[] = { &c->which,     &c->title[0], &c->title[1],  &c->id,
                                   &c->kind,      &c->question, &c->reference, &c->metric,
                                   &c->answer[0], &c->answer[1] };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) *texts[i] = keep_text(n, *texts[i]);
    n->event.changed = c;
    n->data = previews_new(e->pictures, from->picture_count);
    n->release = previews_free;
}

static struct news *copy_event(const struct event *from)
{
    struct news *n = xcalloc(1, sizeof *n);
    n->kind = NEWS_EVENT;
    n->event = *from;
    n->event.text = keep_text(n, from->text);
    n->event.where = keep_text(n, from->where);
    n->event.key = keep_text(n, from->key);
    n->event.value = keep_text(n, from->value);
    n->event.reasoning = keep_text(n, from->reasoning);
    n->event.message = NULL;
    n->event.pictures = NULL;
    n->event.score = NULL; // the reader needs none of these
    n->event.job = NULL;
    n->event.session = NULL;
    n->event.info = NULL;
    if (from->ids) n->event.ids = keep_bytes(n, from->ids, (size_t)from->count * sizeof *from->ids);
    if (from->token) n->event.token = keep_bytes(n, from->token, sizeof *from->token);
    if (from->answer) {
        struct event_answer *a = keep_bytes(n, from->answer, sizeof *a);
        a->text = keep_text(n, a->text);
        a->reasoning = keep_text(n, a->reasoning);
        a->whole = a->unended = NULL;
        a->boxes = NULL;
        a->stop = keep_text(n, a->stop);
        a->ids = keep_bytes(n, a->ids, a->count * sizeof *a->ids);
        n->event.answer = a;
    }
    if (from->table) copy_table(n, from->table);
    if (from->heatmap) copy_heatmap(n, from->heatmap);
    if (from->columns) copy_columns(n, from->columns);
    if (from->changed) copy_changed(n, from);
    if (from->message) {
        const struct message *m = from->message;
        char *text = message_text(m);
        n->event.text = keep_text(n, text + m->answer_at);
        n->event.reasoning = keep_text(n, m->reasoning);
        free(text);
        n->event.id = (int32_t)m->role;
        n->event.count = 0;
        for (size_t i = 0; i < m->content_count; i++) n->event.count += !m->content[i].text;
    }
    if (from->progress) {
        struct event_progress *p = keep_bytes(n, from->progress, sizeof *from->progress);
        p->what = keep_text(n, from->progress->what);
        n->event.progress = p;
    }
    return n;
}

// Loading reports progress for every tensor; ten reports per second are enough.
static bool too_often(struct news_queue *q, const struct event *e)
{
    if (e->kind != EVENT_PROGRESS || e->progress->step >= e->progress->steps) return false;
    const double now = clock_seconds();
    if (now - q->progress_at < 0.1) return true;
    q->progress_at = now;
    return false;
}

static void emit(void *self, const struct event *event)
{
    struct news_queue *q = self;
    if (event->kind == EVENT_SCORE || event->kind == EVENT_MEASURED || too_often(q, event)) return;
    push(q, copy_event(event));
}

struct sink news_sink(struct news_queue *q)
{
    return (struct sink){ .emit = emit, .self = q, .reads_token = true };
}

static void emit_map(void *self, const struct event *event)
{
    if (event->kind != EVENT_HEATMAP) return;
    struct news *n = copy_event(event);
    n->kind = NEWS_MAP;
    push(self, n);
}

struct sink news_map_sink(struct news_queue *q)
{
    return (struct sink){ .emit = emit_map, .self = q };
}
