// core/picture/image_webp.c -- WebP through libwebp: the picture, or the first frame of an
// animation.
// Decodes the canvas as Pillow does, with libwebp's animation decoder, which also reads still
// pictures: a frame smaller than the canvas is placed on transparent black. The walk over the
// chunks detects truncated files and finds the EXIF block before libwebp runs.
#include <stdlib.h>
#include <string.h>

#include <webp/decode.h>
#include <webp/demux.h>

#include "core/picture/image_parts.h"

// Reads the canvas size from the payload of the first chunk; false: the chunk has no canvas size.
static bool read_canvas(struct image_header *h, const uint8_t *type, const uint8_t *p,
                        size_t length)
{
    if (!memcmp(type, "VP8X", 4) && length >= 10) {
        h->width = (int64_t)image_little(p + 4, 3) + 1;
        h->height = (int64_t)image_little(p + 7, 3) + 1;
        return true;
    }
    if (!memcmp(type, "VP8L", 4) && length >= 5 && p[0] == 0x2f) {
        const uint32_t bits = image_little(p + 1, 4);
        h->width = (bits & 0x3fff) + 1;
        h->height = (bits >> 14 & 0x3fff) + 1;
        return true;
    }
    if (memcmp(type, "VP8 ", 4) != 0 || length < 10 || memcmp(p + 3, "\x9d\x01\x2a", 3) != 0)
        return false;
    h->width = image_little(p + 6, 2) & 0x3fff;
    h->height = image_little(p + 8, 2) & 0x3fff;
    return true;
}

// A canvas takes memory, but no bytes of the file: the first frame of a large canvas must not be
// much smaller than the canvas. (libwebp checks that a still picture fills its canvas.)
static bool is_empty_canvas(const struct image_header *h, const uint8_t *frame, size_t length)
{
    enum { LARGE = 1 << 22, SHARE = 64 }; // pixels
    if (length < 16) return false;        // damaged
    const int64_t width = (int64_t)image_little(frame + 6, 3) + 1,
                  height = (int64_t)image_little(frame + 9, 3) + 1;
    return h->width * h->height > LARGE && width * height < h->width * h->height / SHARE;
}

// Returns the orientation in an EXIF chunk. Such a chunk is valid only if the canvas chunk has the
// EXIF flag, which the caller checks.
static int read_exif(const uint8_t *p, size_t length)
{
    const bool named = length >= 6 && !memcmp(p, "Exif\0\0", 6);
    return image_exif_orientation(p + (named ? 6 : 0), length - (named ? 6 : 0));
}

int image_webp_header(struct image_header *h, const uint8_t *bytes, size_t size, const char *name,
                      struct err *err)
{
    enum { EXIF_FLAG = 8 };
    const size_t end = size < 12 ? 0 : (size_t)image_little(bytes + 4, 4) + 8;
    bool first = true, exif = false;
    if (end < 20 || end > size) return image_damaged(name, "the WebP is truncated", err);
    for (size_t at = 12; end - at >= 8;) {
        const uint8_t *type = bytes + at, *p = bytes + at + 8;
        const size_t length = image_little(bytes + at + 4, 4);
        if (length > end - at - 8)
            return image_damaged(name, "the WebP is truncated or damaged", err);
        if (first && !read_canvas(h, type, p, length))
            return image_damaged(name, "the WebP does not start with its header", err);
        const bool frame = !memcmp(type, "ANMF", 4);
        if (frame && !h->frames && is_empty_canvas(h, p, length))
            return image_damaged(name, "the WebP's canvas is much larger than its first frame",
                                 err);
        h->frames += frame;
        if (first) exif = !memcmp(type, "VP8X", 4) && p[0] & EXIF_FLAG;
        if (exif && !memcmp(type, "EXIF", 4)) {
            h->orientation = read_exif(p, length);
            exif = false;
        }
        if (!memcmp(type, "XMP ", 4)) h->xmp = image_xmp_orientation(p, length);
        first = false;
        at += 8 + length;
        if (length % 2 && at < end) at++; // chunks begin at even offsets
    }
    return 0;
}

int image_decode_webp(struct image *image, const struct image_header *h, const uint8_t *bytes,
                      size_t size, const char *name, struct err *err)
{
    const WebPData data = { bytes, size };
    WebPBitstreamFeatures features;
    WebPAnimDecoder *d = NULL;
    WebPAnimInfo info;
    uint8_t *from; // the first frame's canvas, in the decoder's memory
    int time;
    if (WebPGetFeatures(bytes, size, &features) == VP8_STATUS_OK)
        d = WebPAnimDecoderNew(&data, NULL);
    if (!d || !WebPAnimDecoderGetInfo(d, &info) || info.canvas_width != (uint32_t)h->width ||
        info.canvas_height != (uint32_t)h->height || !WebPAnimDecoderGetNext(d, &from, &time)) {
        WebPAnimDecoderDelete(d);
        return image_bad_pixels(name, NULL, err);
    }
    const int rc = image_allocate(image, h, features.has_alpha ? 4 : 3, name, err);
    const int64_t count = h->width * h->height;
    uint8_t *to = image->pixels;
    for (int64_t i = 0; to && i < count; i++, from += 4, to += image->channels)
        memcpy(to, from, (size_t)image->channels);
    WebPAnimDecoderDelete(d);
    return rc;
}
