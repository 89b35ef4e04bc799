// tui/placed.c -- tracks which pictures the terminal shows where, and which it has confirmed.
#include "tui/placed.h"

#include <stdio.h>
#include <string.h>

#include "core/base/clock.h"
#include "tui/painter.h"

// Repeats after half a second, doubles the pause after each try, at most LONGEST times, and gives
// up after TRIES tries.
enum { TRIES = 6, LONGEST = 3 };
static const double first_pause = 0.5;

static double due(double at, int tries)
{
    const int times = tries - 1 > LONGEST ? LONGEST : tries - 1;
    return at + first_pause * (1 << (times > 0 ? times : 0));
}

// --- the query -----------------------------------------------------------------------------------

static bool unanswered(const struct placed *p)
{
    return p->graphics.tmux && p->queries && p->graphics.found < GRAPHICS_KITTY;
}

void placed_query(struct placed *p, struct buf *out)
{
    graphics_query(&p->graphics, out);
    p->queried_at = clock_seconds();
    p->queries = out->length > 0;
}

// kitty replies "Gi=44;OK", or an error: either way the picture has arrived.
void placed_reply(struct placed *p, const char *bytes, size_t length)
{
    char text[64];
    unsigned id;
    snprintf(text, sizeof text, "%.*s", (int)length, bytes);
    // NOLINTNEXTLINE(cert-err34-c): four digits cannot overflow
    if (sscanf(text, "\033_Gi=%4u;", &id) == 1)
        for (int i = 0; i < p->count; i++)
            if (p->list[i].id == id) p->list[i].unsure = false;
    graphics_take_reply(&p->graphics, bytes, length);
}

bool placed_expects(const struct placed *p)
{
    for (int i = 0; i < p->count; i++)
        if (p->list[i].unsure) return true;
    return unanswered(p) && p->queries < TRIES;
}

double placed_wait(const struct placed *p, double now)
{
    double next = -1;
    if (unanswered(p) && p->queries < TRIES) next = due(p->queried_at, p->queries);
    for (int i = 0; i < p->count; i++) {
        const struct placed_picture *k = &p->list[i];
        if (!k->unsure || k->tries >= TRIES) continue;
        const double at = due(k->sent_at, k->tries);
        if (next < 0 || at < next) next = at;
    }
    return next < 0 ? -1 : next > now ? next - now : 0;
}

// --- drawing -------------------------------------------------------------------------------------

static const struct placed_picture *find(const struct placed *p, struct area area)
{
    for (int i = 0; i < p->count; i++)
        if (!memcmp(&p->list[i].area, &area, sizeof area)) return &p->list[i]; // four integers
    return NULL;
}

bool placed_shows(const struct placed *p, const struct canvas *c, int number, int columns,
                  int lines)
{
    const struct canvas_picture *d = &c->drawn[number];
    const struct area a = d->area;
    if (a.x + a.width > columns || a.y + a.height > lines) return false;
    for (int y = a.y; y < a.y + a.height; y++)
        for (int x = a.x; x < a.x + a.width; x++)
            if (canvas_at(c, x, y)->picture != number + 1) return false;
    return painter_ready(c->painter, d->key) || (c->graphics == p->way && find(p, a));
}

// Text erases the pixels of a picture, except kitty's, which are a separate layer. tmux keeps
// previous sixels unless text erases them.
bool placed_blanks(const struct placed *p, const struct canvas *c, int number, bool touched)
{
    const struct canvas_picture *d = &c->drawn[number];
    const struct placed_picture *was = find(p, d->area);
    if (graphics_way(c->graphics)->forget) return false;
    if (!was || c->graphics != p->way) return true;
    const bool other = was->key != d->key && painter_ready(c->painter, d->key);
    if (c->tmux && c->graphics == GRAPHICS_SIXEL) return other || touched;
    return other && (was->width != d->width || was->height != d->height);
}

// Draws one picture of the canvas if it is new, overwritten or unconfirmed; returns its new state.
static struct placed_picture draw(struct placed *p, const struct canvas *c, int number,
                                  bool touched, double now, struct buf *out)
{
    const struct canvas_picture *d = &c->drawn[number];
    const struct placed_picture *was = find(p, d->area);
    struct placed_picture next = was ? *was : (struct placed_picture){ 0 };
    const bool other = !was || was->key != d->key || c->graphics != p->way;
    struct buf bytes = { 0 };
    uint32_t id;
    const bool late = was && was->unsure && now >= due(was->sent_at, was->tries);
    if (!touched && !other && !late) return next;
    const bool ready = painter_take(c->painter, d->key, &bytes, &id);
    // Forgets an overwritten picture until its successor is ready.
    if (!ready && touched) next = (struct placed_picture){ 0 };
    if (ready) {
        next = (struct placed_picture){
            .area = d->area,
            .key = d->key,
            .width = d->width,
            .height = d->height,
            .id = id,
            .unsure = c->tmux && graphics_way(c->graphics)->forget,
            .tries = other ? 1 : next.tries + 1,
            .sent_at = now,
        };
        buf_printf(out, "\033[%d;%dH", d->area.y + 1, d->area.x + 1);
        buf_add(out, bytes.data, bytes.length);
    }
    buf_release(&bytes);
    return next;
}

void placed_draw(struct placed *p, const struct canvas *c, const bool shown[], const bool touched[],
                 struct buf *out)
{
    struct placed_picture now[CANVAS_PICTURES] = { { .key = 0 } }, old[CANVAS_PICTURES];
    const struct graphics_way *old_way = graphics_way(p->way);
    const int old_count = p->count;
    const double time = clock_seconds();
    int count = 0;
    if (unanswered(p) && p->queries < TRIES && time >= due(p->queried_at, p->queries)) {
        graphics_query_kitty(&p->graphics, out);
        p->queried_at = time;
        p->queries++;
    }
    memcpy(old, p->list, sizeof old);
    for (int i = 0; i < c->drawn_count; i++) {
        if (!shown[i]) continue;
        now[count] = draw(p, c, i, touched[i], time, out);
        count += now[count].key != 0;
    }
    for (int i = 0; i < old_count && old_way->forget; i++) {
        bool stays = false;
        for (int k = 0; k < count; k++) stays |= c->graphics == p->way && now[k].id == old[i].id;
        if (!stays) old_way->forget(old[i].id, p->graphics.tmux, out);
    }
    memcpy(p->list, now, (size_t)count * sizeof *now);
    p->count = count;
    p->way = c->graphics;
}

void placed_forget(struct placed *p, struct buf *out)
{
    const struct graphics_way *way = graphics_way(p->way);
    for (int i = 0; way->forget && i < p->count; i++)
        way->forget(p->list[i].id, p->graphics.tmux, out);
    p->count = 0;
}
