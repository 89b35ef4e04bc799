// tui/image_cursor.c -- a cursor on the patches of a map: token, row, column, value and share.
#include <math.h>
#include <string.h>

#include "core/base/text.h"
#include "tui/image_parts.h"
#include "tui/maps.h"

void image_mark(const struct view *v, struct drawing *d)
{
    const struct image_view *i = &v->image;
    int row, col;
    const struct map *m = drawing_patch(d->maps, d->map_count, i->point_x, i->point_y, &row, &col);
    if (!i->pointing || !m) return;
    const double *a = m->area, wide = (a[2] - a[0]) / m->cols, high = (a[3] - a[1]) / m->rows;
    d->marked = true;
    d->mark[0] = a[0] + col * wide;
    d->mark[1] = a[1] + row * high;
    d->mark[2] = a[0] + (col + 1) * wide;
    d->mark[3] = a[1] + (row + 1) * high;
}

// Returns the tile at the cursor, and the row and column of its patch; NULL: no map is there.
static const struct map *patch_at_cursor(const struct view *v, int *row, int *col)
{
    const struct image_view *i = &v->image;
    const struct map *m = view_map(v);
    struct drawing d = { 0 };
    if (!m) return NULL;
    image_tiles(v, i, m, &d);
    return drawing_patch(d.maps, d.map_count, i->point_x, i->point_y, row, col);
}

static void move_cursor(struct view *v, int across, int down)
{
    struct image_view *i = &v->image;
    int row, col;
    const struct map *m = patch_at_cursor(v, &row, &col);
    if (!m) {
        i->point_x = i->point_y = 0.5;
        if (!(m = patch_at_cursor(v, &row, &col))) return;
    }
    const double *a = m->area, wide = (a[2] - a[0]) / m->cols, high = (a[3] - a[1]) / m->rows;
    const double x = a[0] + (col + 0.5 + across) * wide, y = a[1] + (row + 0.5 + down) * high;
    if (x > 0 && x < 1) i->point_x = x;
    if (y > 0 && y < 1) i->point_y = y;
}

void image_cursor_set(struct view *v)
{
    v->image.pointing = image_highest(v, &v->image.point_x, &v->image.point_y);
}

unsigned image_cursor_act(struct view *v, const char *action)
{
    if (!strcmp(action, "token-back"))
        move_cursor(v, -1, 0);
    else if (!strcmp(action, "token-next"))
        move_cursor(v, 1, 0);
    else if (!strcmp(action, "layer-up"))
        move_cursor(v, 0, -1);
    else if (!strcmp(action, "layer-down"))
        move_cursor(v, 0, 1);
    else if (!strcmp(action, "back") || !strcmp(action, "cursor"))
        v->image.pointing = v->image.boxed = false;
    else
        return PANEL_IGNORED;
    return PANEL_DONE;
}

// "token 30 (row 2, column 6): 0.0259, 6.6% of the map", "token 30 (2, 6): 0.0259, 6.6%"
void image_cursor_draw(const struct view *v, struct canvas *c, struct area line)
{
    int row = 0, col = 0;
    char value[32] = "no value", share[32];
    const struct map *m = patch_at_cursor(v, &row, &col);
    if (!m) return;
    const int at = row * m->cols + col;
    const double sum = maps_sum(&v->image, m), here = (double)m->values[at];
    const bool brief = line.width < 56;
    struct buf b = { 0 };
    if (m->picture >= 0 && !m->tile) buf_printf(&b, "token %d ", at);
    if (m->tile && !brief) buf_printf(&b, "%s ", m->tile);
    buf_printf(&b, brief ? "(%d, %d): " : "(row %d, column %d): ", row, col);
    if (isfinite(here)) text_number(value, here, false);
    buf_puts(&b, m->dropped && m->dropped[at] ? "dropped" : value);
    text_number(share, here / sum, true);
    if (isfinite(here) && sum > 0) buf_printf(&b, ", %s%s", share, brief ? "" : " of the map");
    canvas_text(c, line, 0, 0, STYLE_TEXT, b.data);
    buf_release(&b);
}
