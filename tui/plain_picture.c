// tui/plain_picture.c -- a picture in the flow of lines: room is made below, and the picture drawn
// there.
#include "tui/plain_picture.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "core/draw/heatmap.h"
#include "tui/drawing.h"
#include "tui/input.h"

// Ids of pictures, as in tui/painter.c.
enum { COLUMNS = 48, LINES_MAX = 16, NAMES = 240, FIRST_NAME = 16 };
static const double patience = 0.4; // seconds for the terminal's reply

static const struct graphics_way *way_of(const struct plain_picture *p)
{
    const char *setting = settings_text(p->settings, "screen.graphics");
    return graphics_way(graphics_choose(&p->graphics, setting));
}

bool plain_picture_possible(struct plain_picture *p, FILE *file)
{
    struct buf typed = { 0 };
    if (!isatty(fileno(file))) return false;
    if (!p->asked && p->interactive && isatty(STDIN_FILENO))
        graphics_ask_now(&p->graphics, STDIN_FILENO, patience, &typed);
    else if (!p->asked)
        graphics_guess(&p->graphics);
    p->asked = true;
    input_add_early(typed.data, typed.length);
    buf_release(&typed);
    return way_of(p)->encode;
}

// The available cells, and the size of a cell in pixels.
struct room {
    int columns, lines, cell_width, cell_height;
};

static struct room find_room(const struct plain_picture *p, FILE *file)
{
    struct winsize w = { 0 };
    struct room r = { COLUMNS, LINES_MAX, 0, 0 };
    graphics_cell(&p->graphics, fileno(file), &r.cell_width, &r.cell_height);
    if (ioctl(fileno(file), TIOCGWINSZ, &w) < 0) return r;
    if (w.ws_col && w.ws_col - 1 < r.columns) r.columns = w.ws_col - 1;
    if (w.ws_row && w.ws_row - 2 < r.lines) r.lines = w.ws_row - 2;
    return r;
}

// pixels [lines * cell_height, columns * cell_width, 4]
static void put(struct plain_picture *p, FILE *file, const struct room *r, const uint8_t *pixels)
{
    struct buf b = { 0 };
    const struct graphics_way *way = way_of(p);
    p->last_id = (p->last_id + 1) % NAMES;
    const struct graphics_picture picture = { .pixels = pixels,
                                              .width = r->columns * r->cell_width,
                                              .height = r->lines * r->cell_height,
                                              .columns = r->columns,
                                              .lines = r->lines,
                                              .id = FIRST_NAME + p->last_id };
    for (int i = 0; i < r->lines; i++) buf_putc(&b, '\n');
    buf_printf(&b, "\033[%dA\0337", r->lines);
    way->encode(&picture, p->graphics.tmux, &b);
    buf_printf(&b, "\0338\033[%dB\r", r->lines);
    fwrite(b.data, 1, b.length, file);
    fflush(file);
    buf_release(&b);
}

void plain_picture_image(struct plain_picture *p, FILE *file, const struct image *image)
{
    struct room r = find_room(p, file);
    struct image flat = { 0 };
    static const uint8_t white[3] = { 255, 255, 255 };
    struct drawing d = { .picture = &flat };
    if (r.columns < 1 || r.lines < 1) return;
    flat = *image;
    const size_t size = (size_t)(image->width * image->height) * (size_t)image->channels;
    flat.pixels = xmalloc(size);
    memcpy(flat.pixels, image->pixels, size);
    image_flatten(&flat, white);
    drawing_fit(&d, r.columns * r.cell_width, r.lines * r.cell_height, 1);
    r.columns = (d.width + r.cell_width - 1) / r.cell_width;
    r.lines = (d.height + r.cell_height - 1) / r.cell_height;
    uint8_t *pixels = drawing_pixels(&d, r.columns * r.cell_width, r.lines * r.cell_height);
    put(p, file, &r, pixels);
    free(pixels);
    image_release(&flat);
}

void plain_picture_map(struct plain_picture *p, FILE *file, const struct event_heatmap *map)
{
    struct room r = find_room(p, file);
    int width = r.columns * r.cell_width, height = heatmap_height(map, width);
    const int most = r.lines * r.cell_height;
    if (width < 1 || most < 1) return;
    if (height > most) {
        width = (int)((int64_t)width * most / height);
        height = heatmap_height(map, width > 0 ? width : 1);
    }
    if (height > most) height = most;
    r.columns = (width + r.cell_width - 1) / r.cell_width;
    r.lines = (height + r.cell_height - 1) / r.cell_height;
    uint8_t *rgb = xmalloc((size_t)width * (size_t)height * 3);
    const int across = r.columns * r.cell_width;
    uint8_t *pixels = xcalloc((size_t)across * (size_t)(r.lines * r.cell_height), 4);
    heatmap_draw(map, settings_text(p->settings, "screen.map"), width, height, rgb);
    for (int y = 0; y < height; y++)
        for (int x = 0; x < width; x++) {
            uint8_t *to = pixels + ((size_t)y * (size_t)across + (size_t)x) * 4;
            memcpy(to, rgb + ((size_t)y * (size_t)width + (size_t)x) * 3, 3);
            to[3] = 255;
        }
    put(p, file, &r, pixels);
    free(rgb);
    free(pixels);
}
