// tui/painter.c -- encodes the panels' pictures for the terminal in a thread.
#include "tui/painter.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/hash.h"
#include "tui/threads.h"

// Numbers of cached pictures, of waiting pictures, and of ids. Inside tmux an id is a colour of the
// palette; ids skip the first 16 colours, which terminals may change in bold text.
enum { KEPT = 24, WAITING = 3, NAMES = 240, FIRST_NAME = 16 };

struct painted {
    uint64_t key, used; // used: `clock` when it was kept, or of the last painter_ready or _take
    uint32_t id;
    struct buf bytes;
};

struct order {
    uint64_t key;
    struct drawing *drawing;
    struct graphics_picture shape;
    enum graphics_kind kind;
    bool tmux;
};

struct painter {
    struct news_queue *queue;
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t wake;
    struct order waiting[WAITING];
    int waiting_count;
    uint64_t now; // key of the picture being encoded; 0: none
    struct painted kept[KEPT];
    uint64_t clock;
    uint32_t last_id;
    bool stop;
};

// --- the thread ----------------------------------------------------------------------------------

static void encode(const struct order *o, struct buf *out)
{
    struct graphics_picture p = o->shape;
    uint8_t *pixels = drawing_pixels(o->drawing, p.width, p.height);
    p.pixels = pixels;
    graphics_way(o->kind)->encode(&p, o->tmux, out);
    free(pixels);
}

// Replaces the least recently used picture. The caller holds the mutex.
static void keep(struct painter *p, const struct order *o, struct buf *bytes)
{
    struct painted *place = &p->kept[0];
    for (int i = 1; i < KEPT; i++)
        if (p->kept[i].used < place->used) place = &p->kept[i];
    buf_release(&place->bytes);
    *place =
        (struct painted){ .key = o->key, .used = ++p->clock, .id = o->shape.id, .bytes = *bytes };
}

static void *work(void *self)
{
    struct painter *p = self;
    pthread_mutex_lock(&p->mutex);
    while (!p->stop) {
        if (!p->waiting_count) {
            pthread_cond_wait(&p->wake, &p->mutex);
            continue;
        }
        struct order o = p->waiting[--p->waiting_count];
        struct buf bytes = { 0 };
        p->now = o.key;
        pthread_mutex_unlock(&p->mutex);
        encode(&o, &bytes);
        drawing_free(o.drawing);
        pthread_mutex_lock(&p->mutex);
        keep(p, &o, &bytes);
        p->now = 0;
        news_post(p->queue, NEWS_PAINTED, NULL, NULL, NULL);
    }
    pthread_mutex_unlock(&p->mutex);
    return NULL;
}

// --- from outside --------------------------------------------------------------------------------

struct painter *painter_start(struct news_queue *queue)
{
    struct painter *p = xcalloc(1, sizeof *p);
    p->queue = queue;
    p->last_id = (uint32_t)getpid() % NAMES; // other programs in this window start at other ids
    pthread_mutex_init(&p->mutex, NULL);
    pthread_cond_init(&p->wake, NULL);
    threads_start(&p->thread, "painter", work, p);
    return p;
}

void painter_stop(struct painter *p)
{
    if (!p) return;
    pthread_mutex_lock(&p->mutex);
    p->stop = true;
    pthread_cond_signal(&p->wake);
    pthread_mutex_unlock(&p->mutex);
    pthread_join(p->thread, NULL);
    for (int i = 0; i < p->waiting_count; i++) drawing_free(p->waiting[i].drawing);
    for (int i = 0; i < KEPT; i++) buf_release(&p->kept[i].bytes);
    pthread_mutex_destroy(&p->mutex);
    pthread_cond_destroy(&p->wake);
    free(p);
}

// Includes the position, because kitty needs two ids for the same picture at two positions.
uint64_t painter_key(uint64_t drawing, const struct canvas *c, struct area place)
{
    const int parts[] = { (int)c->graphics, c->tmux,      c->cell_width, c->cell_height,
                          place.width,      place.height, place.x,       place.y };
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        hash_mix(&drawing, (uint64_t)parts[i]);
    return drawing ? drawing : 1;
}

static struct painted *find(struct painter *p, uint64_t key)
{
    for (int i = 0; i < KEPT; i++)
        if (p->kept[i].key == key) return &p->kept[i];
    return NULL;
}

bool painter_has(struct painter *p, uint64_t key)
{
    pthread_mutex_lock(&p->mutex);
    bool has = p->now == key || find(p, key);
    for (int i = 0; i < p->waiting_count; i++) has |= p->waiting[i].key == key;
    pthread_mutex_unlock(&p->mutex);
    return has;
}

bool painter_ready(struct painter *p, uint64_t key)
{
    pthread_mutex_lock(&p->mutex);
    struct painted *found = find(p, key);
    if (found) found->used = ++p->clock;
    pthread_mutex_unlock(&p->mutex);
    return found != NULL;
}

// Returns the next id, less FIRST_NAME, without a cached picture: reusing an id would remove its
// picture from the terminal. The caller holds the mutex.
static uint32_t free_name(const struct painter *p)
{
    uint32_t next = p->last_id;
    bool taken = true;
    while (taken) {
        next = (next + 1) % NAMES;
        taken = false;
        for (int i = 0; i < KEPT; i++) taken |= p->kept[i].id == FIRST_NAME + next;
    }
    return next;
}

void painter_request(struct painter *p, uint64_t key, struct drawing *d, const struct canvas *c,
                     struct area place)
{
    pthread_mutex_lock(&p->mutex);
    if (p->waiting_count == WAITING) {
        drawing_free(p->waiting[0].drawing);
        memmove(p->waiting, p->waiting + 1, (WAITING - 1) * sizeof *p->waiting);
        p->waiting_count--;
    }
    p->last_id = free_name(p);
    p->waiting[p->waiting_count++] = (struct order){
        .key = key,
        .drawing = d,
        .shape = { .width = place.width * c->cell_width,
                   .height = place.height * c->cell_height,
                   .columns = place.width,
                   .lines = place.height,
                   .id = FIRST_NAME + p->last_id,
                   .confirm = c->tmux },
        .kind = c->graphics,
        .tmux = c->tmux,
    };
    pthread_cond_signal(&p->wake);
    pthread_mutex_unlock(&p->mutex);
}

bool painter_take(struct painter *p, uint64_t key, struct buf *bytes, uint32_t *id)
{
    pthread_mutex_lock(&p->mutex);
    struct painted *found = find(p, key);
    if (found) {
        found->used = ++p->clock;
        *id = found->id;
        buf_add(bytes, found->bytes.data, found->bytes.length);
    }
    pthread_mutex_unlock(&p->mutex);
    return found != NULL;
}
