// core/picture/image_exif.c -- reads the orientation in EXIF or XMP, and rotates the picture
// upright.
//
// EXIF is a TIFF block: byte order ("II" or "MM"), the number 42, the offset of the first
// directory. A directory is a count, then entries of 12 bytes (tag, type, count, value). Tag
// 0x0112, a SHORT, maps row 0 and column 0 of the stored picture to sides of the upright picture.
// Every offset comes from the file and is checked.
#include <stdlib.h>
#include <string.h>

#include "core/picture/image_parts.h"

static uint32_t number(const uint8_t *p, int bytes, bool big)
{
    return big ? image_big(p, bytes) : image_little(p, bytes);
}

int image_exif_orientation(const uint8_t *tiff, size_t size)
{
    enum { TAG_ORIENTATION = 0x0112, TYPE_SHORT = 3, TYPE_LONG = 4 };
    if (size < 8 || (memcmp(tiff, "II", 2) != 0 && memcmp(tiff, "MM", 2) != 0)) return 0;
    bool big = tiff[0] == 'M';
    size_t directory = number(tiff + 4, 4, big);
    if (number(tiff + 2, 2, big) != 42 || directory > size - 2) return 0;
    size_t entries = number(tiff + directory, 2, big);
    size_t most = (size - directory - 2) / 12;
    if (entries > most) entries = most;
    for (size_t i = 0; i < entries; i++) {
        const uint8_t *entry = tiff + directory + 2 + 12 * i;
        uint32_t type = number(entry + 2, 2, big);
        if (number(entry, 2, big) != TAG_ORIENTATION) continue;
        if (type != TYPE_SHORT && type != TYPE_LONG) return 1;
        uint32_t value = number(entry + 8, type == TYPE_SHORT ? 2 : 4, big);
        return value >= 1 && value <= 8 ? (int)value : 1;
    }
    return 0;
}

int image_xmp_orientation(const uint8_t *xml, size_t size)
{
    static const char tag[] = "tiff:Orientation";
    const size_t n = sizeof tag - 1;
    const uint8_t *end = xml + size;
    for (const uint8_t *p = xml; (p = memmem(p, (size_t)(end - p), tag, n));) {
        p += n;
        const size_t left = (size_t)(end - p);
        const size_t skip = left > 2 && !memcmp(p, "=\"", 2) ? 2 : left > 1 && *p == '>' ? 1 : 0;
        if (skip && p[skip] >= '1' && p[skip] <= '8') return p[skip] - '0';
    }
    return 0;
}

// Returns the index that pixel (x, y) of the upright picture has in the stored picture [height,
// width].
static int64_t stored_index(int orientation, int64_t x, int64_t y, int64_t width, int64_t height)
{
    int64_t right = width - 1, bottom = height - 1;
    switch (orientation) {
    case 2: return y * width + (right - x);
    case 3: return (bottom - y) * width + (right - x);
    case 4: return (bottom - y) * width + x;
    case 5: return x * width + y;
    case 6: return (bottom - x) * width + y;
    case 7: return (bottom - x) * width + (right - y);
    case 8: return x * width + (right - y);
    default: return y * width + x;
    }
}

int image_orient(struct image *image, int orientation, struct err *err)
{
    enum { TILE = 32 }; // rows of one picture are columns of the other; small squares stay cached
    if (orientation < 2 || orientation > 8) return 0;
    int64_t w = image->width, h = image->height;
    struct image to = *image;
    if (orientation >= 5) to.width = h, to.height = w;
    size_t depth = (size_t)image->channels;
    to.pixels = malloc((size_t)w * (size_t)h * depth);
    if (!to.pixels) return err_set(err, "out of memory while rotating the picture");
    for (int64_t top = 0; top < to.height; top += TILE)
        for (int64_t left = 0; left < to.width; left += TILE)
            for (int64_t y = top; y < top + TILE && y < to.height; y++)
                for (int64_t x = left; x < left + TILE && x < to.width; x++) {
                    const uint8_t *p =
                        image->pixels + (size_t)stored_index(orientation, x, y, w, h) * depth;
                    memcpy(to.pixels + (size_t)(y * to.width + x) * depth, p, depth);
                }
    free(image->pixels);
    *image = to;
    return 0;
}
