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

static int keep(GifFileType *g, const GifByteType *bytes, int count)
{
    buf_add(g->UserData, bytes, (size_t)count);
    return count;
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

int film_gif(const char *path, uint8_t *const *frames, const int *pauses, size_t count, int width,
             int height, struct err *err)
{
    struct buf bytes = { 0 };
    int code = 0;
    if (width < 1 || height < 1 || width > LONGEST || height > LONGEST)
        return err_set(err, "cannot draw '%s': %d x %d pixels do not fit into a GIF", path, width,
                       height);
    GifFileType *g = EGifOpen(&bytes, keep, &code);
    int status = g ? GIF_OK : GIF_ERROR;
    if (g) EGifSetGifVersion(g, true);
    if (status == GIF_OK) status = EGifPutScreenDesc(g, width, height, 8, 0, NULL);
    if (status == GIF_OK) status = put_loop(g);
    for (size_t i = 0; i < count && status == GIF_OK; i++) {
        status = put_pause(g, pauses[i]);
        if (status == GIF_OK) status = put_frame(g, frames[i], width, height);
    }
    if (g && status != GIF_OK) code = g->Error;
    if (g && EGifCloseFile(g, status == GIF_OK ? &code : NULL) != GIF_OK) status = GIF_ERROR;
    const char *why = GifErrorString(code);
    const int done = status == GIF_OK
                         ? file_out_write(path, bytes.data, bytes.length, err)
                         : err_set(err, "cannot draw '%s': %s", path, why ? why : "no memory");
    buf_release(&bytes);
    return done;
}
