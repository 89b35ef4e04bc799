// core/picture/image_header.c -- finds a picture's format and size before any decoder runs.
// The first bytes, not the file's name, determine the format. Walks PNG chunks and JPEG segments to
// find the EXIF block and to detect truncated files. Checks sizes against the limits of image.h and
// the length of the file: a few bytes cannot hold millions of pixels, so a decompression bomb is
// rejected before decoding.
#include <string.h>

#include "core/picture/image_parts.h"

static bool starts(const uint8_t *bytes, size_t size, size_t at, const char *magic, size_t length)
{
    return size >= at + length && memcmp(bytes + at, magic, length) == 0;
}

int image_damaged(const char *name, const char *what, struct err *err)
{
    return err_set(err, "cannot read '%s': %s; export it again as PNG or JPEG", name, what);
}

// --- recognised but unsupported formats --------------------------------------------------------

static const struct foreign {
    size_t at;
    const char *magic;
    size_t length;
    const char *what, *how;
} foreign[] = {
    { 4, "ftypavif", 8, "an AVIF picture", "magick in.avif out.png" },
    { 4, "ftypavis", 8, "an AVIF picture", "magick in.avif out.png" },
    { 4, "ftyphei", 7, "a HEIC/HEIF picture", "heif-convert in.heic out.png" },
    { 4, "ftyphev", 7, "a HEIC/HEIF picture", "heif-convert in.heic out.png" },
    { 4, "ftypmif1", 8, "a HEIC/HEIF picture", "heif-convert in.heic out.png" },
    { 4, "ftypmsf1", 8, "a HEIC/HEIF picture", "heif-convert in.heic out.png" },
    { 4, "ftyp", 4, "a video", "ffmpeg -i in.mp4 -frames:v 1 out.png" },
    { 0, "II*\0", 4, "a TIFF picture", "magick 'in.tiff[0]' out.png" },
    { 0, "MM\0*", 4, "a TIFF picture", "magick 'in.tiff[0]' out.png" },
    { 0, "\xff\x0a", 2, "a JPEG XL picture", "djxl in.jxl out.png" },
    { 4, "JXL \r\n", 6, "a JPEG XL picture", "djxl in.jxl out.png" },
    { 4, "jP  \r\n", 6, "a JPEG 2000 picture", "magick in.jp2 out.png" },
    { 0, "\xff\x4f\xff\x51", 4, "a JPEG 2000 picture", "magick in.jp2 out.png" },
    { 0, "%PDF", 4, "a PDF document", "pdftoppm -png -r 150 in.pdf out" },
    { 0, "8BPS", 4, "a Photoshop document", "magick 'in.psd[0]' out.png" },
    { 0, "\0\0\1\0", 4, "an icon", "magick 'in.ico[0]' out.png" },
    { 0, "qoif", 4, "a QOI picture", "magick in.qoi out.png" },
    { 0, "P1", 2, "a PBM text picture", "magick in.pbm out.png" },
    { 0, "P2", 2, "a PGM text picture", "magick in.pgm out.png" },
    { 0, "P3", 2, "a PPM text picture", "magick in.ppm out.png" },
    { 0, "P4", 2, "a PBM bitmap", "magick in.pbm out.png" },
    { 0, "P7", 2, "a PAM picture", "magick in.pam out.png" },
};

static bool is_text(const uint8_t *bytes, size_t size)
{
    for (size_t i = 0; i < size && i < 512; i++)
        if (bytes[i] == 0x7f || (bytes[i] < ' ' && !memchr("\t\n\v\f\r\x1b", bytes[i], 6)))
            return false;
    return true;
}

static const struct foreign *foreign_of(const uint8_t *bytes, size_t size)
{
    for (size_t i = 0; i < sizeof foreign / sizeof *foreign; i++) {
        const struct foreign *f = &foreign[i];
        // Many texts begin with "P1" or similar; in a picture white space follows.
        if (f->magic[0] == 'P' && (size < 3 || !memchr(" \t\r\n#", bytes[2], 5))) continue;
        if (starts(bytes, size, f->at, f->magic, f->length)) return f;
    }
    return NULL;
}

static int not_a_picture(const uint8_t *bytes, size_t size, const char *name, struct err *err)
{
    const char *reads = "supported formats are PNG, JPEG, WebP, GIF, BMP and PPM";
    const struct foreign *f = foreign_of(bytes, size);
    if (f)
        return err_set(err, "'%s' is %s; %s: convert it, e.g. `%s`", name, f->what, reads, f->how);
    size_t head = size < 4096 ? size : 4096;
    if (is_text(bytes, size)) {
        if (memmem(bytes, head, "<svg", 4))
            return err_set(err, "'%s' is an SVG drawing; %s: convert it, e.g. `%s`", name, reads,
                           "rsvg-convert in.svg -o out.png");
        if (memmem(bytes, head, "<html", 5) || memmem(bytes, head, "<!DOCTYPE html", 14) ||
            memmem(bytes, head, "<!doctype html", 14))
            return err_set(err, "'%s' is a web page, not a picture: download the picture itself",
                           name);
        if (starts(bytes, size, 0, "version https://git-lfs", 23))
            return err_set(err, "'%s' is a Git LFS pointer, not the picture: run `git lfs pull`",
                           name);
        return err_set(err, "'%s' is a text file, not a picture; %s", name, reads);
    }
    return err_set(err, "'%s' is not a picture in a known format; %s", name, reads);
}

// --- supported formats -------------------------------------------------------------------------

static int png_read(struct image_header *h, const uint8_t *bytes, size_t size, const char *name,
                    struct err *err)
{
    if (starts(bytes, size, 12, "CgBI", 4))
        return err_set(err, "'%s' is a PNG in Apple's own variant: convert it, e.g. `%s`", name,
                       "pngcrush -revert-iphone-optimizations in.png out.png");
    if (size < 33 || !starts(bytes, size, 8, "\0\0\0\rIHDR", 8))
        return image_damaged(name, "the PNG is truncated or does not start with its header", err);
    h->width = image_big(bytes + 16, 4);
    h->height = image_big(bytes + 20, 4);
    h->alpha = true; // also with a colour key (tRNS), which the reference composites over white too
    bool pixels = false;
    for (size_t at = 8; size - at >= 12;) {
        size_t length = image_big(bytes + at, 4);
        if (length > size - at - 12) break;
        const uint8_t *type = bytes + at + 4;
        if (memcmp(type, "IEND", 4) == 0)
            return pixels ? 0 : image_damaged(name, "the PNG has no pixels", err);
        if (memcmp(type, "IDAT", 4) == 0) pixels = true;
        if (memcmp(type, "acTL", 4) == 0 && !pixels && length == 8)
            h->frames = image_big(type + 4, 4);
        if (memcmp(type, "eXIf", 4) == 0) h->orientation = image_exif_orientation(type + 4, length);
        if (memcmp(type, "iTXt", 4) == 0 && starts(type + 4, length, 0, "XML:com.adobe.xmp\0", 18))
            h->xmp = image_xmp_orientation(type + 4, length);
        at += length + 12;
    }
    return image_damaged(name, "the PNG is truncated", err);
}

// Reads one segment; p is after its length field. Refuses JPEGs of types that few decoders read.
static int jpeg_segment(struct image_header *h, int marker, const uint8_t *p, size_t length,
                        const char *name, struct err *err)
{
    enum { SOF0 = 0xc0, DHT = 0xc4, JPG = 0xc8, DAC = 0xcc, SOF15 = 0xcf, SOS = 0xda, APP1 = 0xe1 };
    const bool frame =
        marker >= SOF0 && marker <= SOF15 && marker != DHT && marker != JPG && marker != DAC;
    if (frame && h->width) return image_damaged(name, "the JPEG has two frame headers", err);
    if (frame && length < 6)
        return image_damaged(name, "the JPEG's frame header is too short", err);
    if (frame) {
        const char *what = marker == 0xc3                        ? "lossless"
                           : marker > 0xc2 && marker < 0xc8      ? "hierarchical"
                           : marker > 0xc8                       ? "arithmetic-coded"
                           : p[0] != 8                           ? "12-bit"
                           : p[5] != 1 && p[5] != 3 && p[5] != 4 ? "multi-channel"
                                                                 : NULL;
        if (what)
            return err_set(err, "'%s' is a rare %s JPEG: convert it, e.g. `%s`", name, what,
                           "magick in.jpg out.png");
        h->height = image_big(p + 1, 2);
        h->width = image_big(p + 3, 2);
        if (!h->width) return image_damaged(name, "its header has no width or no height", err);
    } else if (marker == SOS && !h->width) {
        return image_damaged(name, "the JPEG's pixels precede their size", err);
    } else if (marker == APP1 && h->orientation <= 1 && starts(p, length, 0, "Exif\0\0", 6)) {
        h->orientation = image_exif_orientation(p + 6, length - 6);
    } else if (marker == APP1 && starts(p, length, 0, "http://ns.adobe.com/xap/1.0/\0", 29)) {
        h->xmp = image_xmp_orientation(p, length);
    }
    return 0;
}

// Returns the offset after the coded pixels of a scan. Within them, 0 or a restart marker follows
// each 0xff.
static size_t jpeg_skip_scan(const uint8_t *bytes, size_t size, size_t at)
{
    while (at + 2 <= size) {
        const uint8_t *next = memchr(bytes + at, 0xff, size - at - 1);
        if (!next) return size;
        at = (size_t)(next - bytes);
        if (next[1] != 0 && next[1] != 0xff && (next[1] < 0xd0 || next[1] > 0xd7)) return at;
        at += next[1] == 0xff ? 1 : 2;
    }
    return size;
}

// Checks all segments up to the end marker, in the decoder's order.
static int jpeg_read(struct image_header *h, const uint8_t *bytes, size_t size, const char *name,
                     struct err *err)
{
    enum { SOI = 0xd8, EOI = 0xd9, RST0 = 0xd0, SOS = 0xda };
    bool pixels = false;
    for (size_t at = 2; at + 2 <= size;) {
        int marker = bytes[at + 1];
        if (bytes[at] != 0xff || marker == 0xff) {
            at++; // padding, or invalid bytes between segments
            continue;
        }
        if (marker == EOI) return pixels ? 0 : image_damaged(name, "the JPEG has no pixels", err);
        at += 2;
        if (marker <= 1 || (marker >= RST0 && marker <= SOI)) continue;
        size_t length = size - at >= 2 ? (size_t)image_big(bytes + at, 2) : 0;
        if (length < 2 || length > size - at) break;
        if (jpeg_segment(h, marker, bytes + at + 2, length - 2, name, err) < 0) return -1;
        at += length;
        if (marker != SOS) continue;
        pixels = true;
        at = jpeg_skip_scan(bytes, size, at);
    }
    return image_damaged(name, "the JPEG is truncated or damaged", err);
}

static int bmp_read(struct image_header *h, const uint8_t *bytes, size_t size, const char *name,
                    struct err *err)
{
    enum { BITFIELDS = 3, ALPHABITFIELDS = 6 };
    if (size < 26) return image_damaged(name, "the BMP is truncated", err);
    size_t offset = image_little(bytes + 10, 4), header = image_little(bytes + 14, 4);
    int bits, compression = 0;
    bool down = false;
    if (header == 12) { // OS/2
        h->width = bytes[18] | bytes[19] << 8;
        h->height = bytes[20] | bytes[21] << 8;
        bits = bytes[24];
    } else {
        if (size < 54 || header < 40)
            return image_damaged(name, "the BMP's header is damaged", err);
        h->width = (int32_t)image_little(bytes + 18, 4);
        h->height = (int32_t)image_little(bytes + 22, 4);
        down = h->height < 0; // rows stored from top to bottom
        if (down) h->height = -h->height;
        bits = bytes[28];
        compression = (int)image_little(bytes + 30, 4);
        if (header != 40 && header != 56 && header != 108 && header != 124)
            return err_set(err,
                           "'%s' is a BMP with a rare header of %zu bytes: convert it, e.g. `%s`",
                           name, header, "magick in.bmp out.png");
    }
    if (compression != 0 &&
        (bits < 16 || (compression != BITFIELDS && compression != ALPHABITFIELDS)))
        return err_set(err, "'%s' is a compressed BMP: convert it, e.g. `%s`", name,
                       "magick in.bmp out.png");
    // The fourth byte is alpha only if the header has colour masks.
    h->alpha = bits == 32 && compression != 0;
    if (h->width < 1 || h->height < 1 || h->width > IMAGE_MAX_SIDE || h->height > IMAGE_MAX_SIDE)
        return 0; // size_check reports it
    size_t stride = ((size_t)h->width * (size_t)bits + 31) / 32 * 4;
    if (offset > size || stride * (size_t)h->height > size - offset)
        return image_damaged(name, "the BMP is truncated", err);
    h->data = offset;
    if (bits != 1 && bits != 4 && bits != 8) return 0;
    const size_t at = 14 + header, entry = header == 12 ? 3 : 4;
    const size_t there = offset > at ? (offset - at) / entry : 0; // entries before the pixels
    const size_t named = header == 12 ? 0 : image_little(bytes + 46, 4);
    const size_t most = (size_t)1 << bits, colours = named && named < most ? named : most;
    h->palette = (struct bmp_palette){ .bits = bits,
                                       .down = down,
                                       .at = at,
                                       .entry = entry,
                                       .colours = colours < there ? colours : there };
    return 0;
}

// Returns the next number of a PNM header, after white space and comments; -1: none.
static int64_t pnm_number(const uint8_t *bytes, size_t size, size_t *at)
{
    while (*at < size && memchr(" \t\r\n\v\f#", bytes[*at], 7)) {
        if (bytes[*at] == '#')
            while (*at < size && bytes[*at] != '\n') ++*at;
        else
            ++*at;
    }
    int64_t value = -1;
    for (; *at < size && bytes[*at] >= '0' && bytes[*at] <= '9' && value < 100000000; ++*at)
        value = (value < 0 ? 0 : value * 10) + (bytes[*at] - '0');
    return value;
}

static int pnm_read(struct image_header *h, const uint8_t *bytes, size_t size, const char *name,
                    struct err *err)
{
    size_t at = 2;
    h->width = pnm_number(bytes, size, &at);
    h->height = pnm_number(bytes, size, &at);
    int64_t maximum = pnm_number(bytes, size, &at);
    if (h->width < 0 || h->height < 0 || maximum < 1 || maximum > 65535 || at >= size)
        return image_damaged(name, "the header of the PPM is damaged", err);
    h->maximum = (int)maximum;
    h->data = at + 1; // after one white-space character
    if (h->width > IMAGE_MAX_SIDE || h->height > IMAGE_MAX_SIDE) return 0; // size_check reports it
    size_t need = (size_t)(h->width * h->height) * (bytes[1] == '6' ? 3 : 1);
    if (size - h->data < need * (maximum > 255 ? 2 : 1))
        return image_damaged(name, "the PPM is truncated", err);
    return 0;
}

// Returns the reader of the format that the first bytes determine, and sets *format; NULL: not a
// supported format.
static image_reader *reader_of(const uint8_t *bytes, size_t size, enum image_format *format)
{
    static const struct {
        const char *magic;
        size_t length;
        enum image_format format;
        image_reader *read;
    } formats[] = {
        { "\x89PNG\r\n\x1a\n", 8, IMAGE_PNG, png_read },
        { "\xff\xd8\xff", 3, IMAGE_JPEG, jpeg_read },
        { "BM", 2, IMAGE_BMP, bmp_read },
        { "P5", 2, IMAGE_PNM, pnm_read },
        { "P6", 2, IMAGE_PNM, pnm_read },
        { "RIFF", 4, IMAGE_WEBP, image_webp_header },
        { "GIF87a", 6, IMAGE_GIF, image_gif_header },
        { "GIF89a", 6, IMAGE_GIF, image_gif_header },
    };
    size_t i = 0;
    const size_t count = sizeof formats / sizeof *formats;
    while (i < count && !starts(bytes, size, 0, formats[i].magic, formats[i].length)) i++;
    if (i == count) return NULL;
    *format = formats[i].format;
    // Short magic numbers begin other files too.
    if (*format == IMAGE_BMP && is_text(bytes, size)) return NULL;
    if (*format == IMAGE_PNM && (size < 3 || !memchr(" \t\r\n#", bytes[2], 5))) return NULL;
    if (*format == IMAGE_WEBP && !starts(bytes, size, 8, "WEBP", 4)) return NULL;
    return formats[i].read;
}

bool image_begins(const void *bytes, size_t size)
{
    enum image_format format;
    return reader_of(bytes, size, &format) || foreign_of(bytes, size);
}

static int size_check(const struct image_header *h, size_t size, const char *name, struct err *err)
{
    if (h->width < 1 || h->height < 1)
        return image_damaged(name, "its header has no width or no height", err);
    if (h->width > IMAGE_MAX_SIDE || h->height > IMAGE_MAX_SIDE ||
        h->width * h->height > IMAGE_MAX_AREA)
        return err_set(err,
                       "'%s' has %lld x %lld pixels; the limit is %d per side and %d million in "
                       "all: shrink it, e.g. `magick in.png -resize 4000x4000 out.png`",
                       name, (long long)h->width, (long long)h->height, IMAGE_MAX_SIDE,
                       IMAGE_MAX_AREA / 1000000);
    // Deflate compresses by a factor of at most 1032, and a PNG pixel has at least one bit; a JPEG
    // block of 8 x 8 pixels has at least one bit; a GIF code that gives several pixels has at least
    // 3 bits and gives at most 4096. (WebP has no such bound: a picture of a single colour needs no
    // bits for its pixels.)
    int64_t most = h->format == IMAGE_PNG    ? (int64_t)size * 1032 * 8
                   : h->format == IMAGE_JPEG ? (int64_t)size * 8 * 64
                   : h->format == IMAGE_GIF  ? (int64_t)size * 8 / 3 * 4096
                                             : INT64_MAX;
    if (h->width * h->height > most)
        return err_set(err,
                       "cannot read '%s': its header claims %lld x %lld pixels, too many for its "
                       "%zu bytes, so it is damaged",
                       name, (long long)h->width, (long long)h->height, size);
    return 0;
}

int image_header_read(struct image_header *h, const uint8_t *bytes, size_t size, const char *name,
                      struct err *err)
{
    *h = (struct image_header){ 0 };
    if (size == 0) return err_set(err, "'%s' is empty", name);
    if (size > IMAGE_MAX_FILE)
        return err_set(err, "'%s' exceeds the size limit of pictures, %d MB", name,
                       IMAGE_MAX_FILE >> 20);
    image_reader *read = reader_of(bytes, size, &h->format);
    if (!read) return not_a_picture(bytes, size, name, err);
    if (read(h, bytes, size, name, err) < 0) return -1;
    if (!h->orientation) h->orientation = h->xmp ? h->xmp : 1;
    return size_check(h, size, name, err);
}
