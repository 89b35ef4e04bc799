// core/draw/film_gif.c -- pictures as an animated GIF, through giflib: each frame with colours of
// its own.
#include <gif_lib.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/file_out.h"
#include "core/base/mem.h"
#include "core/draw/film.h"
#include "core/draw/palette.h"

enum { LONGEST = 65535, TABLE = 256 };

static int put(GifFileType *g, const GifByteType *bytes, int count)
{
    return (int)fwrite(bytes, 1, (size_t)count, g->UserData);
}

// "Begin again for ever" (Netscape's application block).
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
    GifByteType *line = xmalloc((size_t)width);
    int status = colours ? GIF_OK : GIF_ERROR;
    for (int i = 0; colours && i < p->count; i++)
        colours->Colors[i] = (GifColorType){ p->rgb[i][0], p->rgb[i][1], p->rgb[i][2] };
    if (status == GIF_OK) status = EGifPutImageDesc(g, 0, 0, width, height, false, colours);
    for (int y = 0; y < height && status == GIF_OK; y++) {
        for (int x = 0; x < width; x++)
            line[x] =
                (GifByteType)palette_of(p, pixels + ((size_t)y * (size_t)width + (size_t)x) * 3);
        status = EGifPutLine(g, line, width);
    }
    GifFreeMapObject(colours);
    free(line);
    free(p);
    return status;
}

struct film_gif {
    char *path;
    FILE *file;
    GifFileType *gif; // NULL before the first picture
    int width, height;
};

struct film_gif *film_gif_open(const char *path, struct err *err)
{
    FILE *file = file_out_open(path, err);
    if (!file) return NULL;
    struct film_gif *f = xcalloc(1, sizeof *f);
    *f = (struct film_gif){ .path = xstrdup(path), .file = file };
    return f;
}

// `code`: giflib's, where the picture has none of its own.
static int refuse(const struct film_gif *f, int code, struct err *err)
{
    const char *why = GifErrorString(f->gif && f->gif->Error ? f->gif->Error : code);
    if (ferror(f->file)) why = "the disk may be full";
    return err_set(err, "cannot write '%s': %s", f->path, why ? why : "no memory");
}

static int begin(struct film_gif *f, int width, int height, struct err *err)
{
    int code = 0;
    if (width < 1 || height < 1 || width > LONGEST || height > LONGEST)
        return err_set(err, "cannot draw '%s': %d x %d pixels do not fit into a GIF", f->path,
                       width, height);
    if (!(f->gif = EGifOpen(f->file, put, &code))) return refuse(f, code, err);
    f->width = width;
    f->height = height;
    EGifSetGifVersion(f->gif, true);
    if (EGifPutScreenDesc(f->gif, width, height, 8, 0, NULL) == GIF_OK &&
        put_loop(f->gif) == GIF_OK)
        return 0;
    return refuse(f, 0, err);
}

int film_gif_add(struct film_gif *f, const uint8_t *pixels, int width, int height, int pause,
                 struct err *err)
{
    if (!f->gif && begin(f, width, height, err) < 0) return -1;
    if (width != f->width || height != f->height)
        return err_set(err, "cannot draw '%s': a picture of %d x %d pixels among those of %d x %d",
                       f->path, width, height, f->width, f->height);
    if (put_pause(f->gif, pause) == GIF_OK && put_frame(f->gif, pixels, width, height) == GIF_OK)
        return 0;
    return refuse(f, 0, err);
}

int film_gif_close(struct film_gif *f, struct err *err)
{
    int code = 0, status = f->gif && EGifCloseFile(f->gif, &code) == GIF_OK ? 0 : -1;
    f->gif = NULL; // giflib has freed it
    if (status < 0) {
        refuse(f, code, err);
        film_gif_abandon(f);
        return -1;
    }
    status = file_out_close(f->file, f->path, err);
    free(f->path);
    free(f);
    return status;
}

void film_gif_abandon(struct film_gif *f)
{
    if (!f) return;
    if (f->gif) EGifCloseFile(f->gif, NULL);
    file_out_abandon(f->file, f->path);
    free(f->path);
    free(f);
}
