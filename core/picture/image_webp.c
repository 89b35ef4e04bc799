// core/picture/image_webp.c -- WebP through libwebp: the picture, or the first frame of an
// animation.
//
// The canvas is decoded as Pillow does it, with libwebp's decoder of animations, which takes
// pictures that do not move as well: a frame smaller than the canvas lies on transparent black. The
// walk over the chunks finds files that were cut off, and the EXIF block, before libwebp sees a
// byte.
#include <stdlib.h>
#include <string.h>

#include <webp/decode.h>
#include <webp/demux.h>

#include "core/picture/image_parts.h"

static uint32_t little(const uint8_t *p, int bytes)
{
    uint32_t value = 0;
    while (bytes-- > 0) value = value << 8 | p[bytes];
    return value;
}

// The canvas, from the payload of the first chunk; false: not such a chunk.
static bool read_canvas(struct image_header *h, const uint8_t *type, const uint8_t *p,
                        size_t length)
{
    if (!memcmp(type, "VP8X", 4) && length >= 10) {
        h->width = (int64_t)little(p + 4, 3) + 1;
        h->height = (int64_t)little(p + 7, 3) + 1;
        return true;
    }
    if (!memcmp(type, "VP8L", 4) && length >= 5 && p[0] == 0x2f) {
        const uint32_t bits = little(p + 1, 4);
        h->width = (bits & 0x3fff) + 1;
        h->height = (bits >> 14 & 0x3fff) + 1;
        return true;
    }
    if (memcmp(type, "VP8 ", 4) != 0 || length < 10 || memcmp(p + 3, "\x9d\x01\x2a", 3) != 0)
        return false;
    h->width = little(p + 6, 2) & 0x3fff;
    h->height = little(p + 8, 2) & 0x3fff;
    return true;
}

// A canvas costs memory, and nothing in the file: a large one must have a first frame of its order
// of size. (Of a still picture libwebp checks that it fills the canvas.)
static bool is_empty_canvas(const struct image_header *h, const uint8_t *frame, size_t length)
{
    enum { LARGE = 1 << 22, SHARE = 64 }; // pixels
    if (length < 16) return false;        // damaged
    const int64_t width = (int64_t)little(frame + 6, 3) + 1,
                  height = (int64_t)little(frame + 9, 3) + 1;
    return h->width * h->height > LARGE && width * height < h->width * h->height / SHARE;
}

// EXIF holds where the canvas' chunk says that there is some.
static int read_exif(const uint8_t *p, size_t length)
{
    const bool named = length >= 6 && !memcmp(p, "Exif\0\0", 6);
    return image_exif_orientation(p + (named ? 6 : 0), length - (named ? 6 : 0));
}

const char *image_webp_header(struct image_header *h, const uint8_t *bytes, size_t size)
{
    enum { EXIF_FLAG = 8 };
    const size_t end = size < 12 ? 0 : (size_t)little(bytes + 4, 4) + 8;
    bool first = true, exif = false;
    h->format = IMAGE_WEBP;
    if (end < 20 || end > size) return "the WebP is truncated";
    for (size_t at = 12; end - at >= 8;) {
        const uint8_t *type = bytes + at, *p = bytes + at + 8;
        const size_t length = little(bytes + at + 4, 4);
        if (length > end - at - 8) return "the WebP is truncated or damaged";
        if (first && !read_canvas(h, type, p, length))
            return "the WebP does not start with its header";
        const bool frame = !memcmp(type, "ANMF", 4);
        if (frame && !h->frames && is_empty_canvas(h, p, length))
            return "the WebP's canvas is far larger than its first frame";
        h->frames += frame;
        if (first) exif = !memcmp(type, "VP8X", 4) && p[0] & EXIF_FLAG;
        if (exif && !memcmp(type, "EXIF", 4)) {
            h->orientation = read_exif(p, length);
            exif = false;
        }
        if (!memcmp(type, "XMP ", 4)) h->xmp = image_xmp_orientation(p, length);
        first = false;
        at += 8 + length;
        if (length % 2 && at < end) at++; // chunks begin at even places
    }
    return NULL;
}

// The first frame's canvas in the decoder's memory; NULL: damaged.
static const uint8_t *first_frame(WebPAnimDecoder *d, const struct image_header *h)
{
    WebPAnimInfo info;
    uint8_t *canvas;
    int time;
    if (!d || !WebPAnimDecoderGetInfo(d, &info)) return NULL;
    if (info.canvas_width != (uint32_t)h->width || info.canvas_height != (uint32_t)h->height)
        return NULL;
    return WebPAnimDecoderGetNext(d, &canvas, &time) ? canvas : NULL;
}

int image_decode_webp(struct image *image, const struct image_header *h, const uint8_t *bytes,
                      size_t size, const char *name, struct err *err)
{
    const WebPData data = { bytes, size };
    WebPBitstreamFeatures features;
    WebPAnimDecoder *d = NULL;
    const size_t count = (size_t)h->width * (size_t)h->height;
    if (WebPGetFeatures(bytes, size, &features) == VP8_STATUS_OK)
        d = WebPAnimDecoderNew(&data, NULL);
    const uint8_t *from = first_frame(d, h);
    if (!from) {
        WebPAnimDecoderDelete(d);
        return err_set(err, "cannot read '%s': its pixels are damaged; export it again", name);
    }
    *image = (struct image){ h->width, h->height, features.has_alpha ? 4 : 3, NULL };
    image->pixels = malloc(count * (size_t)image->channels);
    uint8_t *to = image->pixels;
    for (size_t i = 0; to && i < count; i++, from += 4, to += image->channels)
        memcpy(to, from, (size_t)image->channels);
    WebPAnimDecoderDelete(d);
    return image->pixels ? 0 : err_set(err, "out of memory for the pixels of '%s'", name);
}
