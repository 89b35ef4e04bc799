// tui/image_grid.c -- the grid of heads in the picture panel: a small map of each head of the
// layer, or of the heads of all layers, those with the most attention to the picture first.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tui/image_parts.h"
#include "tui/maps.h"

static bool is_shown(const struct map *m, const struct map *now)
{
    return m->layer == now->layer &&
           (m->head < 0 ? -1 : m->head) == (now->head < 0 ? -1 : now->head);
}

// Chooses the size of the small maps: the largest with which all fit, else the smallest.
static void size_tiles(struct image_view *i, struct area area, int count)
{
    // The heads of all layers are sorted: a tile must have room for a label with the share.
    const int least = i->grid == GRID_ALL && area.height >= 10 ? 4 : 2;
    int high = 10;
    for (; high > least; high--) {
        const int across = area.width / (2 * high + 1), down = area.height / (high + 1);
        if (across * down >= count) break;
    }
    i->tiles = area;
    i->tile_width = 2 * high + 1;
    i->tile_height = high + 1;
    i->tiles_across = area.width / i->tile_width > 0 ? area.width / i->tile_width : 1;
    i->tiles_count = count;
}

// "mean", "h3" or "4.3", and the share of attention that goes to the picture if there is room.
static void label_tile(const struct view *v, struct canvas *c, struct area cell,
                       const struct map *m, bool shown)
{
    const struct image_view *i = &v->image;
    char name[24], text[64];
    if (m->head < 0)
        snprintf(name, sizeof name, "mean");
    else if (i->grid == GRID_ALL)
        snprintf(name, sizeof name, "%d.%d", m->layer, m->head);
    else
        snprintf(name, sizeof name, "h%d", m->head);
    snprintf(text, sizeof text, "%s %.0f%%", name, 100 * maps_sum(i, m));
    canvas_text(c, cell, 0, cell.height - 1, shown ? STYLE_MATCH : STYLE_DIM,
                (int)strlen(text) <= cell.width ? text : name);
}

void image_grid_draw(struct view *v, struct canvas *c, struct area area, const struct map *now)
{
    struct image_view *i = &v->image;
    int *list = xreallocarray(NULL, i->map_count + 1, sizeof *list), at = -1;
    const int count = maps_grid(v, now, list, (int)i->map_count);
    if (!count) canvas_text(c, area, 0, 0, STYLE_DIM, "measuring the heads ...");
    size_tiles(i, area, count);
    for (int k = 0; k < count; k++)
        if (is_shown(&i->maps[list[k]], now)) at = k;
    const int across = i->tiles_across, down = area.height / i->tile_height;
    const int line = at < 0 ? 0 : at / across, lines = (count + across - 1) / across;
    int top = line - down / 2;
    top = top > lines - down ? lines - down : top;
    top = top < 0 ? 0 : top;
    i->tiles_first = top * across;
    struct painter *painter = c->painter;
    c->painter = NULL; // too small and too many for pictures of the terminal
    for (int k = i->tiles_first; k < count && k < i->tiles_first + across * down; k++) {
        const int n = k - i->tiles_first;
        const struct area cell = { area.x + n % across * i->tile_width,
                                   area.y + n / across * i->tile_height, i->tile_width - 1,
                                   i->tile_height };
        const struct map *m = &i->maps[list[k]];
        struct drawing d = { .bare = true };
        image_tiles(v, i, m, &d);
        image_show(v, &d, c, (struct area){ cell.x, cell.y, cell.width, cell.height - 1 });
        label_tile(v, c, cell, m, k == at);
    }
    c->painter = painter;
    free(list);
}

// Chooses the map that is `by` places further in the grid, or the last one in that direction.
static void move_in_grid(struct view *v, int by)
{
    struct image_view *i = &v->image;
    const struct map *now = view_map(v);
    int *list = xreallocarray(NULL, i->map_count + 1, sizeof *list), at = -1;
    const int count = maps_grid(v, now, list, (int)i->map_count);
    for (int k = 0; k < count; k++)
        if (is_shown(&i->maps[list[k]], now)) at = k;
    at = at < 0 ? 0 : at + by;
    if (count) maps_go_to(v, list[at < 0 ? 0 : at >= count ? count - 1 : at]);
    free(list);
}

unsigned image_grid_act(struct view *v, const char *action)
{
    struct image_view *i = &v->image;
    const struct {
        const char *action;
        int by;
    } moves[] = { { "token-back", -1 },
                  { "token-next", 1 },
                  { "token-first", -MAPS_MAX },
                  { "token-last", MAPS_MAX },
                  { "layer-up", -i->tiles_across },
                  { "layer-down", i->tiles_across } };
    for (size_t k = 0; k < sizeof moves / sizeof moves[0]; k++)
        if (!strcmp(action, moves[k].action)) {
            move_in_grid(v, moves[k].by);
            return PANEL_DONE;
        }
    if (strcmp(action, "show") != 0 && strcmp(action, "back") != 0) return PANEL_IGNORED;
    i->grid = GRID_OFF;
    return PANEL_DONE;
}

bool image_grid_click(struct view *v, int column, int line)
{
    const struct image_view *i = &v->image;
    const struct area a = i->tiles;
    const int x = column - a.x, y = line - a.y;
    if (!area_has(a, column, line)) return false;
    const int across = x / i->tile_width;
    const int at = i->tiles_first + y / i->tile_height * i->tiles_across + across;
    int *list = xreallocarray(NULL, i->map_count + 1, sizeof *list);
    const int count = maps_grid(v, view_map(v), list, (int)i->map_count);
    if (across < i->tiles_across && at < count) maps_go_to(v, list[at]);
    free(list);
    return true;
}
