// core/draw/film.c -- the frames of a film: maps with title and scale, the answer below them; an
// animated GIF through giflib, each frame with its own palette.
#include "core/draw/film.h"

#include <gif_lib.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/file_out.h"
#include "core/base/mem.h"
#include "core/draw/figure.h"
#include "core/draw/heatmap.h"
#include "core/draw/palette.h"

// In points.
static const double margin = 12, letters = 10, line = 14, wide_most = 1200;
enum {
    PAUSE = 50, // hundredths of a second
    LAST_PAUSE = 200,
    MAPS_MOST = 64, // beyond this, letters get too small
    LONGEST = 65535,
    TABLE = 256
};

// Writes the words at `top` in lines of `width`, word `now` marked; draw NULL: only measures.
// Returns the height.
static double put_words(const struct film *f, struct figure *draw, const struct figure *by,
                        double top, double width, size_t now)
{
    double x = margin, y = top + line;
    for (size_t i = 0; i < f->count; i++) {
        const char *word = f->words[i];
        const double wide = figure_text_width(by, letters, word);
        if (x > margin && x + wide > width - margin) {
            x = margin;
            y += line;
        }
        if (draw && i == now) {
            figure_colour(draw, draw->look.theme->lines[1], 0.45);
            cairo_rectangle(draw->cr, x - 1, y - letters, wide + 2, line - 1);
            cairo_fill(draw->cr);
        }
        if (draw) figure_label(draw, x, y, 0, 0, letters, word);
        x += wide;
    }
    return y + margin - top;
}

// Computes the sizes from the first frame; all frames have the same maps.
static int find_shape(struct film *f, const struct event_heatmap *maps, size_t count,
                      struct err *err)
{
    heatmap_size(maps, count, &f->width, &f->maps_height);
    if (f->width < 2 * margin + 160) f->width = 2 * margin + 160;
    if (count > MAPS_MOST || f->width > wide_most)
        return err_set(err,
                       "a film shows at most %d maps, not %zu: choose a layer with --layer, or a "
                       "picture with --picture",
                       MAPS_MOST, count);
    struct figure *by = figure_open_pixels(1, 1, f->look, err);
    if (!by) return -1;
    f->height = f->maps_height + put_words(f, NULL, by, f->maps_height, f->width, 0);
    uint8_t *pixels;
    int width, height;
    if (figure_close_pixels(by, &pixels, &width, &height, err) < 0) return -1;
    free(pixels);
    return 0;
}

int film_open(struct film *f, const char *path, struct err *err)
{
    f->file = file_out_open(path, err);
    if (!f->file) return -1;
    f->path = xstrdup(path);
    return 0;
}

int film_add(struct film *f, size_t word, const struct event_heatmap *maps, size_t count,
             struct err *err)
{
    if (!f->frame_count && find_shape(f, maps, count, err) < 0) return -1;
    f->frames = xreallocarray(f->frames, f->frame_count + 1, sizeof *f->frames);
    struct film_frame *frame = &f->frames[f->frame_count++];
    *frame = (struct film_frame){ .count = count, .word = word };
    frame->maps = xreallocarray(NULL, count + 1, sizeof *frame->maps);
    memcpy(frame->maps, maps, count * sizeof *maps);
    return 0;
}

static int by_value(const void *a, const void *b)
{
    const float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

// Gives all frames the same scale, so that a colour means the same value in each.
static void share_scale(struct film *f)
{
    struct buf finite = { 0 };
    for (size_t k = 0; k < f->frame_count; k++)
        for (size_t i = 0; i < f->frames[k].count; i++) {
            const struct event_heatmap *map = &f->frames[k].maps[i];
            for (int c = 0; c < map->rows * map->cols; c++)
                if (isfinite(map->values[c])) buf_add(&finite, &map->values[c], sizeof(float));
        }
    const size_t n = finite.length / sizeof(float);
    float *all = (float *)(void *)finite.data;
    if (n) qsort(all, n, sizeof *all, by_value);
    const float low = n ? all[0] : 0, most = n ? all[n - 1] : 0;
    float high = n ? all[(size_t)((double)(n - 1) * FILM_SHARE)] : 0;
    if (high <= low) high = most; // nearly all values are equal: shows those that differ
    f->cut = high < most;
    for (size_t k = 0; k < f->frame_count; k++)
        for (size_t i = 0; i < f->frames[k].count; i++) {
            f->frames[k].maps[i].min = low;
            f->frames[k].maps[i].max = high;
        }
    buf_release(&finite);
}

// --- GIF ----------------------------------------------------------------------------------------

static int put(GifFileType *g, const GifByteType *bytes, int count)
{
    return (int)fwrite(bytes, 1, (size_t)count, g->UserData);
}

// Makes the film repeat forever (Netscape's application block).
static int put_loop(GifFileType *g)
{
    static const char name[] = "NETSCAPE2.0";
    static const GifByteType for_ever[] = { 1, 0, 0 };
    if (EGifPutExtensionLeader(g, APPLICATION_EXT_FUNC_CODE) != GIF_OK ||
        EGifPutExtensionBlock(g, sizeof name - 1, name) != GIF_OK ||
        EGifPutExtensionBlock(g, sizeof for_ever, for_ever) != GIF_OK)
        return GIF_ERROR;
    return EGifPutExtensionTrailer(g);
}

static int put_pause(GifFileType *g, int hundredths)
{
    GifByteType bytes[4];
    const GraphicsControlBlock control = { .DisposalMode = DISPOSE_DO_NOT,
                                           .DelayTime = hundredths,
                                           .TransparentColor = NO_TRANSPARENT_COLOR };
    const size_t size = EGifGCBToExtension(&control, bytes);
    return EGifPutExtension(g, GRAPHICS_EXT_FUNC_CODE, (int)size, bytes);
}

static int put_frame(GifFileType *g, const uint8_t *pixels, int width, int height)
{
    struct palette *p = palette_new(pixels, (size_t)width * (size_t)height, 3);
    ColorMapObject *colours = GifMakeMapObject(TABLE, NULL);
    GifByteType *row = xmalloc((size_t)width);
    int status = colours ? GIF_OK : GIF_ERROR;
    for (int i = 0; colours && i < p->count; i++)
        colours->Colors[i] = (GifColorType){ p->rgb[i][0], p->rgb[i][1], p->rgb[i][2] };
    if (status == GIF_OK) status = EGifPutImageDesc(g, 0, 0, width, height, false, colours);
    for (int y = 0; y < height && status == GIF_OK; y++) {
        for (int x = 0; x < width; x++)
            row[x] =
                (GifByteType)palette_of(p, pixels + ((size_t)y * (size_t)width + (size_t)x) * 3);
        status = EGifPutLine(g, row, width);
    }
    GifFreeMapObject(colours);
    free(row);
    free(p);
    return status;
}

// `code`: giflib's error code, used unless the film's gif has one.
static int refuse(const struct film *f, int code, struct err *err)
{
    const char *why = GifErrorString(f->gif && f->gif->Error ? f->gif->Error : code);
    if (ferror(f->file)) why = "the disk may be full";
    return err_set(err, "cannot write '%s': %s", f->path, why ? why : "no memory");
}

static int begin(struct film *f, int width, int height, struct err *err)
{
    int code = 0;
    if (width < 1 || height < 1 || width > LONGEST || height > LONGEST)
        return err_set(err, "cannot draw '%s': %d x %d pixels do not fit into a GIF", f->path,
                       width, height);
    if (!(f->gif = EGifOpen(f->file, put, &code))) return refuse(f, code, err);
    EGifSetGifVersion(f->gif, true);
    if (EGifPutScreenDesc(f->gif, width, height, 8, 0, NULL) == GIF_OK &&
        put_loop(f->gif) == GIF_OK)
        return 0;
    return refuse(f, 0, err);
}

int film_draw(struct film *f, size_t i, struct err *err)
{
    const struct film_frame *frame = &f->frames[i];
    const int pause = i + 1 < f->frame_count ? PAUSE : LAST_PAUSE;
    uint8_t *pixels;
    int width, height;
    if (i == 0) share_scale(f);
    struct figure *to = figure_open_pixels(f->width, f->height, f->look, err);
    if (!to) return -1;
    heatmap_paint(to, frame->maps, frame->count, f->cut);
    put_words(f, to, to, f->maps_height, f->width, frame->word);
    if (figure_close_pixels(to, &pixels, &width, &height, err) < 0) return -1;
    int status = i == 0 ? begin(f, width, height, err) : 0;
    if (status == 0 &&
        (put_pause(f->gif, pause) != GIF_OK || put_frame(f->gif, pixels, width, height) != GIF_OK))
        status = refuse(f, 0, err);
    free(pixels);
    return status;
}

int film_close(struct film *f, struct err *err)
{
    int code = 0;
    const bool good = f->gif && EGifCloseFile(f->gif, &code) == GIF_OK;
    f->gif = NULL; // giflib has freed it
    if (!good) return refuse(f, code, err);
    FILE *file = f->file;
    f->file = NULL;
    return file_out_close(file, f->path, err);
}

void film_release(struct film *f)
{
    if (f->gif) EGifCloseFile(f->gif, NULL);
    if (f->file) file_out_abandon(f->file, f->path);
    free(f->path);
    for (size_t k = 0; k < f->frame_count; k++) free(f->frames[k].maps);
    free(f->frames);
    *f = (struct film){ 0 };
}
