// tests/core/picture/image.c -- core/picture/image*.c: formats, channels, orientation, bad files,
// the process that decodes.
//
// tests/core/picture/pictures/ contains small pictures in six formats, written by Pillow 13
// (440.jpg, 411-restart.jpg and rgb.jpg by libjpeg-turbo's cjpeg); the table has the size and a
// checksum of the pixels that Pillow reads from them (after ImageOps.exif_transpose).
#include "core/picture/image_parts.h"
#include "tests/core/picture/pictures.h"

#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

#include "core/base/file_in.h"
#include "core/base/json.h"

static const struct small {
    const char *file;
    int width, height, channels;
    uint32_t checksum;
} small[] = {
    { "exif-orientation-6.jpg", 11, 13, 3, 0x94ff48c0 },
    { "444.jpg", 19, 21, 3, 0xe3039b38 },
    { "422.jpg", 19, 21, 3, 0xe5f137f0 },
    { "420.jpg", 19, 21, 3, 0xd8b7111c },
    { "440.jpg", 19, 21, 3, 0xede472c2 },
    { "411-restart.jpg", 19, 21, 3, 0x71462821 },
    { "rgb.jpg", 19, 21, 3, 0xfc388b6f },
    { "progressive.jpg", 19, 21, 3, 0xd8b7111c },
    { "grey.jpg", 19, 21, 3, 0x68f48268 },
    { "cmyk.jpg", 9, 10, 3, 0x2c6905ca },
    { "exif-orientation-1.png", 9, 7, 3, 0x2869d150 },
    { "exif-orientation-2.png", 9, 7, 3, 0x1275f678 },
    { "exif-orientation-3.png", 9, 7, 3, 0x9d8c18b4 },
    { "exif-orientation-4.png", 9, 7, 3, 0x20753bec },
    { "exif-orientation-5.png", 7, 9, 3, 0xa390f718 },
    { "exif-orientation-6.png", 7, 9, 3, 0x776139e8 },
    { "exif-orientation-7.png", 7, 9, 3, 0x2138a08c },
    { "exif-orientation-8.png", 7, 9, 3, 0xd252cb4c },
    { "l.png", 9, 7, 3, 0x20b10348 },
    { "la.png", 9, 7, 4, 0x57ad3571 },
    { "rgba.png", 9, 7, 4, 0x92cca006 },
    { "1-bit.png", 9, 7, 3, 0x4ad8f65d },
    { "palette.png", 9, 7, 3, 0x3e152833 },
    { "transparent-palette.png", 9, 7, 4, 0xbb275ebf },
    { "rgb-colour-key.png", 9, 7, 4, 0xa6ee050a },
    { "16-bit-rgb.png", 5, 4, 3, 0x6bda5b18 },
    { "16-bit-grey.png", 5, 4, 3, 0x3944b624 },
    { "rgb.bmp", 9, 7, 3, 0x2869d150 },
    { "1.bmp", 9, 7, 3, 0x4ad8f65d },
    { "down.bmp", 9, 7, 3, 0xc347b2c6 },
    { "os2.bmp", 9, 7, 3, 0x2a6fa318 },
    { "32-bit-no-alpha.bmp", 4, 3, 3, 0x15fe369f },
    { "ppm.ppm", 4, 3, 3, 0x15fe369f },
    { "animated.gif", 9, 7, 3, 0xa8f2625e },
    { "animated.webp", 9, 7, 3, 0x2ec87fe7 },
    { "beyond.gif", 8, 6, 3, 0xe3dbe88f },
    { "exif-orientation-6.webp", 7, 9, 3, 0x1b240681 },
    { "interlaced.gif", 9, 13, 3, 0xe3702f00 },
    { "lossless-alpha.webp", 9, 7, 4, 0x7e840b24 },
    { "lossless.webp", 9, 7, 3, 0xb8d8badc },
    { "lossy-alpha.webp", 19, 21, 4, 0x8991aaf7 },
    { "lossy.webp", 19, 21, 3, 0xfa6406db },
    { "palette.gif", 9, 7, 3, 0x08bb3256 },
    { "transparent.gif", 9, 7, 4, 0xa07fd765 },
};
enum { SMALL = sizeof small / sizeof *small };

static uint8_t *small_read(const char *file, size_t *size)
{
    struct err err;
    char *path = xasprintf("tests/core/picture/pictures/%s", file);
    char *bytes = file_read(path, 1 << 20, size, &err);
    if (!bytes) fail_msg("%s", err.text);
    free(path);
    return (uint8_t *)bytes;
}

// Only the first frame of an animation is read, and callers can report that.
static void frames_are_counted(void **state)
{
    static const struct {
        const char *file;
        int64_t frames;
    } cases[] = { { "animated.gif", 2 },
                  { "animated.webp", 2 },
                  { "palette.gif", 1 },
                  { "lossy.webp", 1 },
                  { "rgba.png", 1 } };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        size_t size;
        uint8_t *bytes = small_read(cases[i].file, &size);
        assert_int_equal(image_frames(bytes, size), cases[i].frames);
        free(bytes);
    }
    // A PNG whose acTL chunk announces 3 frames (APNG).
    static const uint8_t chunk[20] = "\0\0\0\x08"
                                     "acTL\0\0\0\x03";
    size_t size;
    uint8_t *png = small_read("rgba.png", &size), *moving = xmalloc(size + sizeof chunk);
    memcpy(moving, png, 33);
    memcpy(moving + 33, chunk, sizeof chunk);
    memcpy(moving + 33 + sizeof chunk, png + 33, size - 33);
    assert_int_equal(image_frames(moving, size + sizeof chunk), 3);
    free(moving);
    free(png);
}

static struct image decoded(const void *bytes, size_t size)
{
    struct err err;
    struct image image;
    if (image_decode(&image, bytes, size, "it", &err) < 0) fail_msg("%s", err.text);
    return image;
}

// FNV-1a.
static uint32_t checksum(const struct image *image)
{
    uint32_t h = 2166136261u;
    int64_t n = image->width * image->height * image->channels;
    for (int64_t i = 0; i < n; i++) h = (h ^ image->pixels[i]) * 16777619u;
    return h;
}

static void golden_pictures(void **state)
{
    struct safetensors *f = golden_open("build/goldens/pictures/decoded.safetensors");
    struct err err;
    cJSON *list = json_read(PICTURES "pictures.json", 1 << 20, &err);
    int count = 0;
    const cJSON *p;
    cJSON_ArrayForEach(p, cJSON_GetObjectItem(list, "pictures"))
    {
        const struct safetensor *t = safetensors_find(f, p->string);
        struct image image =
            picture_open(cJSON_GetObjectItem(p, "file")->valuestring + strlen("pictures/"));
        assert_non_null(t);
        assert_int_equal(image.height, t->shape[0]);
        assert_int_equal(image.width, t->shape[1]);
        const uint8_t *expected = t->data;
        if (t->rank == 3) {
            assert_int_equal(image.channels, t->shape[2]);
            assert_memory_equal(image.pixels, expected, t->bytes);
        } else { // grey
            assert_int_equal(image.channels, 3);
            for (uint64_t i = 0; i < 3 * t->bytes; i++)
                assert_int_equal(image.pixels[i], expected[i / 3]);
        }
        image_release(&image);
        count++;
    }
    assert_true(count >= 8);
    cJSON_Delete(list);
    safetensors_close(f);
}

static void kinds_of_files(void **state)
{
    for (size_t i = 0; i < SMALL; i++) {
        const struct small *s = &small[i];
        size_t size;
        uint8_t *bytes = small_read(s->file, &size);
        struct image image = decoded(bytes, size);
        if (image.width != s->width || image.height != s->height || image.channels != s->channels ||
            checksum(&image) != s->checksum)
            fail_msg("%s: %lld x %lld x %d, checksum %08x", s->file, (long long)image.width,
                     (long long)image.height, image.channels, checksum(&image));
        const char *point = strrchr(s->file, '.');
        assert_string_equal(image_ending(bytes, size), point);
        image_release(&image);
        free(bytes);
    }
    assert_string_equal(image_ending("words", 5), "");
}

// A PPM of 3 x 2 pixels; the three bytes of each are its number.
static const char numbered[] = "P6 3 2 255\n000111222333444555";

static void ppm(void **state)
{
    struct image image = decoded(numbered, sizeof numbered - 1);
    assert_int_equal(image.width, 3);
    assert_int_equal(image.height, 2);
    assert_memory_equal(image.pixels, "000111222333444555", 18);
    image_release(&image);
    image = decoded("P5 # a comment\n3\t1\n4\n\0\2\4", 25);
    assert_memory_equal(image.pixels, "\0\0\0\x80\x80\x80\xff\xff\xff", 9);
    image_release(&image);
    image = decoded("P5 2 1 65535\n\x80\x80\xff\xff", 17); // 16 bits: the high byte is used
    assert_memory_equal(image.pixels, "\x80\x80\x80\xff\xff\xff", 6);
    image_release(&image);
}

static void flatten(void **state)
{
    uint8_t *p = xmalloc(8);
    memcpy(p, "\x0a\x64\xff\x80\x0a\x64\xff\x00", 8);
    struct image image = { .width = 2, .height = 1, .channels = 4, .pixels = p };
    image_flatten(&image, (uint8_t[3]){ 255, 255, 255 });
    assert_int_equal(image.channels, 3);
    assert_memory_equal(image.pixels, "\x84\xb1\xff\xff\xff\xff", 6);
    image_flatten(&image, (uint8_t[3]){ 0 }); // nothing to flatten
    assert_memory_equal(image.pixels, "\x84\xb1\xff\xff\xff\xff", 6);
    image_release(&image);
}

// The first bytes determine the format.
static void other_formats(void **state)
{
    static const struct {
        const char *bytes;
        size_t size;
        const char *part;
    } cases[] = {
        { "", 0, "is empty" },
        { "just some words\n", 16, "is a text file" },
        { "GIF89a\1\0\1\0", 10, "the GIF is truncated" },
        { "GIF89a\1\0\1\0\0\0\0;", 14, "the GIF has no pixels" },
        { "RIFF\0\0\0\0WEBPVP8 ", 16, "the WebP is truncated" },
        { "RIFF\x0c\0\0\0WEBPVP7 \0\0\0\0", 20, "does not start with its header" },
        { "\0\0\0\x18"
          "ftypheic\0\0",
          14, "heif-convert" },
        { "\0\0\0\x18"
          "ftypmif1\0\0",
          14, "HEIC" },
        { "\0\0\0\x1c"
          "ftypavif\0\0",
          14, "AVIF" },
        { "\0\0\0\x1c"
          "ftypisom\0\0",
          14, "video" },
        { "II*\0\x10\0\0\0", 8, "TIFF" },
        { "MM\0*\0\0\0\x08", 8, "TIFF" },
        { "\xff\x0a\xfa\x7f", 4, "djxl" },
        { "%PDF-1.7\n", 9, "pdftoppm" },
        { "<svg xmlns='http://www.w3.org/2000/svg'/>", 41, "SVG" },
        { "<!DOCTYPE html><html></html>", 28, "web page" },
        { "version https://git-lfs.github.com/spec/v1\n", 43, "git lfs pull" },
        { "P3 1 1 255 0 0 0\n", 17, "PPM text" },
        { "P2P networks", 12, "is a text file" },
        { "\0\1\2\3\4", 5, "not a picture in a known format" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_error(cases[i].bytes, cases[i].size, cases[i].part);
}

static void put32(uint8_t *p, uint32_t value)
{
    for (int i = 0; i < 4; i++) p[i] = (uint8_t)(value >> (24 - 8 * i));
}

static void png_header_sizes(void **state)
{
    size_t size;
    char *file = file_read(PICTURES "scene.png", 1 << 20, &size, NULL);
    assert_non_null(file);
    static const struct {
        uint32_t width, height;
        const char *part;
    } cases[] = {
        { 30000, 4, "30000 x 4 pixels; the limit is 20000" },
        { 15000, 15000, "100 million" },
        { 9000, 9000, "too many for its" },
        { 0, 48, "no width or no height" },
        { 0xffffffffu, 0xffffffffu, "the limit is" },
        { 65, 48, "damaged" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        put32((uint8_t *)file + 16, cases[i].width);
        put32((uint8_t *)file + 20, cases[i].height);
        assert_error(file, size, cases[i].part);
    }
    free(file);
}

// A block of a type that deflate does not define.
static void damaged_png(void **state)
{
    size_t size;
    uint8_t *bytes = small_read("rgba.png", &size), *data = memmem(bytes, size, "IDAT", 4);
    assert_non_null(data);
    data[6] |= 6; // after zlib's header of two bytes
    assert_error(bytes, size, "bad zlib block");
    free(bytes);
}

// Pixels of a colour that the palette lacks; a compressed BMP and one with a rare header.
static void colours_missing_from_a_bmp_palette(void **state)
{
    size_t size;
    uint8_t *bytes = small_read("down.bmp", &size);
    bytes[46] = 16; // colours used
    bytes[47] = 0;
    assert_error(bytes, size, "of a palette of 16");
    bytes[30] = 3; // BI_BITFIELDS, although the pixels are palette indices
    assert_error(bytes, size, "is a compressed BMP");
    bytes[14] = 52;
    assert_error(bytes, size, "a rare header of 52 bytes");
    free(bytes);
}

// Canvases of 2^24 x 2^24 and 65535 x 65535 pixels exceed the limit; one of 8192 x 8192 is too
// large for a file of 29 bytes.
static void large_canvases(void **state)
{
    static const char webp[] = "RIFF\x16\0\0\0WEBPVP8X\x0a\0\0\0\0\0\0\0\xff\xff\xff\xff\xff\xff";
    static const char gif[] = "GIF89a\xff\xff\xff\xff\0\0\0,\0\0\0\0\1\0\1\0\0\2\2\x44\1\0;";
    static const char thin[] = "GIF89a\0\x20\0\x20\0\0\0,\0\0\0\0\1\0\1\0\0\2\2\x44\1\0;";
    assert_error(webp, sizeof webp - 1, "16777216 x 16777216 pixels; the limit is 20000");
    assert_error(gif, sizeof gif - 1, "65535 x 65535 pixels; the limit is 20000");
    assert_error(thin, sizeof thin - 1, "8192 x 8192 pixels, too many for its 29 bytes");
}

// Codes that end before the frame is full, or that are in no table.
static void hostile_codes(void **state)
{
    size_t size;
    uint8_t *bytes = small_read("beyond.gif", &size);
    uint8_t *data = bytes + size - 2;             // near the end of the last sub-block
    while (data > bytes && data[-1] != 3) data--; // stops after the size of codes: 3 bits
    assert_true(data > bytes);
    memset(data + 1, 0xff, data[0]); // codes 15, which a cleared table lacks
    assert_error(bytes, size, "its pixels are damaged");
    memset(data + 1, 0x99, data[0]); // end codes at once
    assert_error(bytes, size, "its pixels are damaged");
    data[-1] = 12;
    assert_error(bytes, size, "first frame is damaged");
    free(bytes);
}

static size_t colours_size(uint8_t flags)
{
    return flags & 0x80 ? (size_t)3 << ((flags & 7) + 1) : 0;
}

// Offset of the end of a whole GIF's first frame.
static size_t first_frame_end(const uint8_t *bytes)
{
    size_t at = 13 + colours_size(bytes[10]);
    for (bool frame = false; !frame;) {
        frame = bytes[at] == ',';
        at += frame ? 11 + colours_size(bytes[at + 9]) : 2;
        while (bytes[at]) at += bytes[at] + (size_t)1;
        at++;
    }
    return at;
}

// Every truncated file is refused with a message, except that a GIF's complete first frame is
// enough and gives the picture of the whole file.
static void cut_off(void **state)
{
    for (size_t i = 0; i < SMALL; i++) {
        size_t size;
        uint8_t *whole = small_read(small[i].file, &size);
        const size_t enough = memcmp(whole, "GIF8", 4) ? size : first_frame_end(whole);
        for (size_t n = 0; n < size; n++) {
            struct image image = { 0 };
            struct err err = { "" };
            // Allocated exactly, so that the sanitizer finds reads past the end.
            uint8_t *bytes = xmalloc(n + !n);
            memcpy(bytes, whole, n);
            const bool opened = image_decode_here(&image, bytes, n, "it", &err) == 0;
            if (opened != (n >= enough) || (!opened && !*err.text))
                fail_msg("the first %zu bytes of %s %s", n, small[i].file,
                         opened ? "pass" : "are refused");
            if (opened) assert_int_equal(checksum(&image), small[i].checksum);
            image_release(&image);
            free(bytes);
        }
        free(whole);
    }
}

static void changed_bytes(void **state)
{
    uint32_t seed = 1;
    for (int round = 0; round < 3000; round++) {
        size_t size;
        uint8_t *bytes = small_read(small[round % SMALL].file, &size);
        for (int k = 0; k < 1 + round % 3; k++) {
            seed = seed * 1664525u + 1013904223u;
            bytes[(seed >> 8) % size] = (uint8_t)(seed >> 24);
        }
        struct image image;
        struct err err = { "" };
        if (image_decode_here(&image, bytes, size, "it", &err) < 0)
            assert_true(*err.text);
        else
            assert_true(image.width > 0 && image.height > 0);
        image_release(&image);
        free(bytes);
    }
}

// 420.jpg with damaged pixel data gives the picture that Pillow shows, or a message.
static void damaged_jpegs(void **state)
{
    static const uint8_t rubbish[] = { 0, 0x12, 0xff, 0, 0x34, 0xff, 0xd9 };
    size_t size;
    uint8_t *whole = small_read("420.jpg", &size), *bytes = xmalloc(size + sizeof rubbish);
    uint8_t *scan = memmem(whole, size, "\xff\xda", 2);
    assert_non_null(scan);
    scan = bytes + (scan - whole) + 2 + scan[3];

    memcpy(bytes, whole, size);
    memcpy(bytes + size - 2, rubbish, sizeof rubbish); // replaces the end marker
    struct image image = decoded(bytes, size - 2 + sizeof rubbish);
    assert_int_equal(checksum(&image), 0xd8b7111c); // the whole picture
    image_release(&image);

    memcpy(bytes, whole, size);
    memcpy(scan + 40, "\xff\xd9", 2); // an end marker amid the pixels
    image = decoded(bytes, (size_t)(scan - bytes) + 42);
    assert_int_equal(checksum(&image), 0xae4f1f97);
    image_release(&image);

    memcpy(bytes, whole, size);
    for (int i = 0; i < 20; i++) memcpy(scan + 2 * i, "\xff", 2); // no code is all ones
    assert_error(bytes, size, "bad Huffman code");

    memcpy(bytes, whole, size);
    memset((uint8_t *)memmem(bytes, size, "\xff\xc4", 2) + 5, 0xff, 16); // 16 x 255 codes
    assert_error(bytes, size, "Huffman table");

    memcpy(bytes, whole, size);
    // The table becomes a segment to skip.
    ((uint8_t *)memmem(bytes, size, "\xff\xdb", 2))[1] = 0xec;
    assert_error(bytes, size, "Quantization table 0x00 was not defined");
    free(whole);
    free(bytes);
}

// Formats that few decoders read are refused by name. YCCK, as the Adobe marker calls it, is
// accepted.
static void rare_jpegs(void **state)
{
    size_t size;
    uint8_t *bytes = small_read("420.jpg", &size), *frame = memmem(bytes, size, "\xff\xc0", 2);
    assert_non_null(frame);
    frame[1] = 0xc9;
    assert_error(bytes, size, "arithmetic-coded");
    frame[1] = 0xc3;
    assert_error(bytes, size, "lossless");
    frame[1] = 0xc0, frame[4] = 12;
    assert_error(bytes, size, "12-bit");
    free(bytes);

    bytes = small_read("cmyk.jpg", &size);
    uint8_t *adobe = memmem(bytes, size, "Adobe", 5);
    assert_non_null(adobe);
    adobe[11] = 2;
    struct image image = decoded(bytes, size);
    assert_int_equal(checksum(&image), 0x47ddaeb8);
    image_release(&image);
    free(bytes);
}

// Inserts `xml` as XMP after the header of a PNG with orientation 1 in EXIF (or none), and compares
// the picture with the file `same_as`.
static void check_xmp(bool exif, const char *xml, const char *same_as)
{
    enum { HEADER = 33 };
    static const char key[] = "XML:com.adobe.xmp\0\0\0\0";
    const size_t key_size = sizeof key, length = key_size + strlen(xml);
    size_t size, wanted_size;
    uint8_t *png = small_read("exif-orientation-1.png", &size);
    uint8_t *wanted_png = small_read(same_as, &wanted_size);
    uint8_t *tag = memmem(png, size, "eXIf", 4), *bytes = xcalloc(1, size + length + 12);
    struct image got, wanted;
    struct err err;
    assert_non_null(tag);
    if (!exif) memcpy(tag, "eXIx", 4);
    memcpy(bytes, png, HEADER);
    bytes[HEADER + 3] = (uint8_t)length;
    memcpy(bytes + HEADER + 4, "iTXt", 4);
    memcpy(bytes + HEADER + 8, key, key_size);
    memcpy(bytes + HEADER + 8 + key_size, xml, strlen(xml));
    memcpy(bytes + HEADER + 12 + length, png + HEADER, size - HEADER);
    assert_int_equal(image_decode_here(&got, bytes, size + length + 12, "it", &err), 0);
    assert_int_equal(image_decode_here(&wanted, wanted_png, wanted_size, "it", &err), 0);
    assert_int_equal(got.width, wanted.width);
    assert_int_equal(got.height, wanted.height);
    assert_memory_equal(got.pixels, wanted.pixels, (size_t)(got.width * got.height * 3));
    image_release(&got);
    image_release(&wanted);
    free(bytes);
    free(png);
    free(wanted_png);
}

// As in Pillow, XMP's orientation applies if EXIF has none.
static void orientation_of_xmp(void **state)
{
    check_xmp(false, "<x tiff:Orientation=\"6\"/>", "exif-orientation-6.png");
    check_xmp(false, "<tiff:Orientation>8</tiff:Orientation>", "exif-orientation-8.png");
    check_xmp(true, "<x tiff:Orientation=\"6\"/>", "exif-orientation-1.png");
    check_xmp(false, "<x tiff:Orientation=\"9\"/>", "exif-orientation-1.png");
    check_xmp(false, "<x tiff:Orientation=", "exif-orientation-1.png");
}

// Arbitrary offsets and counts in EXIF.
static void hostile_exif(void **state)
{
    size_t size;
    uint8_t *bytes = small_read("exif-orientation-6.jpg", &size);
    uint8_t *tiff = memmem(bytes, size, "Exif\0\0", 6);
    assert_non_null(tiff);
    tiff += 6;
    for (int i = 0; i < 26; i++) {
        uint8_t before = tiff[i];
        for (int value = 0; value < 256; value += 5) {
            tiff[i] = (uint8_t)value;
            struct image image;
            struct err err;
            assert_int_equal(image_decode_here(&image, bytes, size, "it", &err), 0);
            image_release(&image);
        }
        tiff[i] = before;
    }
    free(bytes);
}

static int open_files(void)
{
    int count = 0;
    for (int fd = 0; fd < 256; fd++) count += fcntl(fd, F_GETFD) >= 0;
    return count;
}

// The decoding child has no side effects: no files, no signal masks, no duplicate output.
static void child_has_no_side_effects(void **state)
{
    int before = open_files();
    sigset_t mask, after;
    pthread_sigmask(SIG_SETMASK, NULL, &mask);
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    FILE *out = fdopen(ends[1], "w");
    fputs("once", out);
    for (int i = 0; i < 50; i++) {
        struct image image = decoded(numbered, sizeof numbered - 1);
        image_release(&image);
    }
    fclose(out);
    char text[64];
    assert_int_equal(read(ends[0], text, sizeof text), 4);
    close(ends[0]);
    assert_int_equal(open_files(), before);
    pthread_sigmask(SIG_SETMASK, NULL, &after);
    for (int s = 1; s < SIGRTMIN; s++)
        assert_int_equal(sigismember(&mask, s), sigismember(&after, s));
}

// A wrong header makes the child write to unmapped memory, as a faulty decoder would.
static void failing_decoder(void **state)
{
    size_t size;
    struct err err;
    struct image image = { 0 };
    char *bytes = file_read(PICTURES "scene.png", 1 << 20, &size, &err);
    assert_non_null(bytes);
    struct image_header h = { .format = IMAGE_PNG, .width = 1, .height = 1, .orientation = 1 };
    for (int i = 0; i < 5; i++) {
        assert_int_equal(image_decode_child(&image, &h, (uint8_t *)bytes, size, "scene.png", &err),
                         -1);
        assert_non_null(strstr(err.text, "cannot read 'scene.png'"));
        assert_null(image.pixels);
    }
    free(bytes);
}

// The process that decodes pictures, which is the test's only child; 0: none.
static pid_t only_child(void)
{
    char text[64] = "";
    FILE *f = fopen("/proc/thread-self/children", "r");
    if (!f) return 0;
    size_t n = fread(text, 1, sizeof text - 1, f);
    fclose(f);
    return n ? (pid_t)atoi(text) : 0;
}

// One decoder gives the same pixels and messages for picture after picture, even after a broken
// file, and when its child is killed.
static void one_decoder_for_many_pictures(void **state)
{
    int before = open_files();
    struct image_decoder *d = image_decoder_new();
    struct image want = decoded(numbered, sizeof numbered - 1), image;
    struct err err;
    for (int i = 0; i < 700; i++) {
        if (i % 100 == 50) {
            char broken[sizeof numbered];
            memcpy(broken, numbered, sizeof numbered);
            broken[sizeof numbered / 2] ^= 0x55;
            struct err alone;
            int status = image_decode(&image, broken, sizeof numbered - 1, "it", &alone);
            image_release(&image);
            assert_int_equal(image_decoder_run(d, &image, broken, sizeof numbered - 1, "it", &err),
                             status);
            if (status < 0) assert_string_equal(err.text, alone.text);
            image_release(&image);
        }
        if (i % 300 == 200 && only_child()) { // each picture has the whole time
            struct rlimit time;
            assert_int_equal(prlimit(only_child(), RLIMIT_CPU, NULL, &time), 0);
            time.rlim_cur = 5;
            assert_int_equal(prlimit(only_child(), RLIMIT_CPU, &time, NULL), 0);
            assert_int_equal(
                image_decoder_run(d, &image, numbered, sizeof numbered - 1, "it", &err), 0);
            image_release(&image);
            assert_int_equal(prlimit(only_child(), RLIMIT_CPU, NULL, &time), 0);
            assert_true(time.rlim_cur > 20);
        }
        if (i % 300 == 299 && only_child()) {
            kill(only_child(), SIGKILL);
            assert_int_equal(
                image_decoder_run(d, &image, numbered, sizeof numbered - 1, "it", &err), -1);
            assert_non_null(strstr(err.text, "cannot read 'it'"));
        }
        assert_int_equal(image_decoder_run(d, &image, numbered, sizeof numbered - 1, "it", &err),
                         0);
        assert_int_equal(image.width, want.width);
        assert_int_equal(checksum(&image), checksum(&want));
        image_release(&image);
    }
    image_release(&want);
    image_decoder_free(d);
    assert_int_equal(only_child(), 0);
    assert_int_equal(open_files(), before);
}

static void ignored_children(void **state)
{
    signal(SIGCHLD, SIG_IGN);
    struct image image = decoded(numbered, sizeof numbered - 1);
    image_release(&image);
    signal(SIGCHLD, SIG_DFL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(golden_pictures),
        cmocka_unit_test(kinds_of_files),
        cmocka_unit_test(ppm),
        cmocka_unit_test(flatten),
        cmocka_unit_test(other_formats),
        cmocka_unit_test(png_header_sizes),
        cmocka_unit_test(damaged_png),
        cmocka_unit_test(colours_missing_from_a_bmp_palette),
        cmocka_unit_test(large_canvases),
        cmocka_unit_test(hostile_codes),
        cmocka_unit_test(cut_off),
        cmocka_unit_test(changed_bytes),
        cmocka_unit_test(orientation_of_xmp),
        cmocka_unit_test(hostile_exif),
        cmocka_unit_test(damaged_jpegs),
        cmocka_unit_test(rare_jpegs),
        cmocka_unit_test(child_has_no_side_effects),
        cmocka_unit_test(failing_decoder),
        cmocka_unit_test(one_decoder_for_many_pictures),
        cmocka_unit_test(frames_are_counted),
        cmocka_unit_test(ignored_children),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
