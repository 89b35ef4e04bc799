// tui/image_cursor.c -- the cursor and the mouse pointer on the patches of a map: token, row,
// column, value and share.
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

const struct map *image_patch(const struct view *v, double x, double y, int *row, int *col)
{
    const struct map *m = view_map(v);
    struct drawing d = { 0 };
    if (!m) return NULL;
    image_tiles(v, &v->image, m, &d);
    return drawing_patch(d.maps, d.map_count, x, y, row, col);
}

static const struct map *patch_at_cursor(const struct view *v, int *row, int *col)
{
    return image_patch(v, v->image.point_x, v->image.point_y, row, col);
}

static const struct map *patch_at_pointer(const struct view *v, int *row, int *col)
{
    const struct image_view *i = &v->image;
    return i->hovering ? image_patch(v, i->hover_x, i->hover_y, row, col) : NULL;
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
static void name_patch(const struct view *v, const struct map *m, int row, int col, bool brief,
                       struct buf *b)
{
    char value[32] = "no value", share[32];
    const int at = row * m->cols + col;
    const double sum = maps_sum(&v->image, m), here = (double)m->values[at];
    if (m->picture >= 0 && !m->tile) buf_printf(b, "token %d ", at);
    if (m->tile && !brief) buf_printf(b, "%s ", m->tile);
    buf_printf(b, brief ? "(%d, %d): " : "(row %d, column %d): ", row, col);
    if (isfinite(here)) text_number(value, here, false);
    buf_puts(b, m->dropped && m->dropped[at] ? "dropped" : value);
    text_number(share, here / sum, true);
    if (isfinite(here) && sum > 0) buf_printf(b, ", %s%s", share, brief ? "" : " of the map");
}

void image_cursor_draw(const struct view *v, struct canvas *c, struct area line)
{
    int row = 0, col = 0;
    struct buf b = { 0 };
    const struct map *m = patch_at_cursor(v, &row, &col);
    if (!m) return;
    name_patch(v, m, row, col, line.width < 56, &b);
    canvas_text(c, line, 0, 0, STYLE_TEXT, b.data);
    buf_release(&b);
}

bool image_hover(struct view *v, int column, int line)
{
    struct image_view *i = &v->image;
    const struct area a = i->map_area;
    int row[2] = { -1, -1 }, col[2] = { -1, -1 };
    const struct map *before = patch_at_pointer(v, &row[0], &col[0]);
    i->hovering = area_has(a, column, line);
    i->hover_x = (column - a.x + 0.5) / fmax(a.width, 1);
    i->hover_y = (line - a.y + 0.5) / fmax(a.height, 1);
    const struct map *now = patch_at_pointer(v, &row[1], &col[1]);
    return now != before || row[0] != row[1] || col[0] != col[1];
}

bool image_hover_name(const struct view *v, int width, struct buf *b)
{
    int row, col;
    const struct map *m = patch_at_pointer(v, &row, &col);
    if (!m) return false;
    name_patch(v, m, row, col, false, b);
    if ((int)b->length <= width) return true;
    buf_clear(b);
    name_patch(v, m, row, col, true, b);
    return true;
}
