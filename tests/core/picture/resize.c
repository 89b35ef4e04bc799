// tests/core/picture/resize.c -- core/picture/resize.c: filters, pass orders, parts and cropping.
//
// Checksums (FNV-1a) are those of Pillow 13's results for the same generated pictures; for the
// order of passes in Pillow 12, Pillow 13 resized in two steps, width first.
#include "tests/core/picture/pictures.h"

#include "core/picture/resize.h"

static uint32_t checksum(const struct image *image)
{
    uint32_t h = 2166136261u;
    int64_t n = image->width * image->height * image->channels;
    for (int64_t i = 0; i < n; i++) h = (h ^ image->pixels[i]) * 16777619u;
    return h;
}

// Noise, random black and white, and repeated ramps: with such edges, the clamp between the passes
// matters.
static struct image made(int64_t width, int64_t height, int channels)
{
    struct image image = { .width = width, .height = height, .channels = channels };
    image.pixels = xmalloc((size_t)(width * height * channels));
    uint32_t seed = (uint32_t)(width * 31 + height);
    for (int64_t i = 0; i < width * height * channels; i++) {
        seed = seed * 1664525u + 1013904223u;
        int64_t pixel = i / channels;
        int kind = (int)(pixel / width * 3 / height);
        image.pixels[i] = kind == 0   ? (uint8_t)(seed >> 24)
                          : kind == 1 ? (uint8_t)(seed >> 31 ? 255 : 0)
                                      : (uint8_t)(i * 7);
    }
    return image;
}

static struct image resized(const struct image *from, int64_t width, int64_t height,
                            enum resample resample, enum resize_order order)
{
    struct err err;
    struct image to;
    if (image_resize(&to, from, width, height, resample, order, &err) < 0) fail_msg("%s", err.text);
    return to;
}

static const struct {
    int width, height, channels, to_width, to_height;
    uint32_t pillow13[6], pillow12[6]; // by enum resample
} cases[] = {
    { 97,
      61,
      3,
      32,
      32,
      { 0x722c3f0c, 0x9d0723b8, 0x8fc5398a, 0x5dd188b9, 0x77f4946c, 0xe41fe787 },
      { 0x722c3f0c, 0x9d0723b8, 0x8fc5398a, 0x5dd188b9, 0x77f4946c, 0xe41fe787 } },
    { 45,
      160,
      3,
      32,
      32,
      { 0xf156a512, 0x81967cbe, 0x9d142331, 0xd9aec77e, 0x9f6d0aed, 0x5f727459 },
      { 0xf156a512, 0xf9d3775d, 0x4afdeba7, 0x74e3d587, 0x95741cdb, 0xe53a1d7f } },
    { 20,
      130,
      3,
      20,
      31,
      { 0x57b83eff, 0xd2fc8f38, 0x68be9f62, 0x4d658cc1, 0x9226e3c1, 0xae8e9901 },
      { 0x57b83eff, 0xd2fc8f38, 0x68be9f62, 0x4d658cc1, 0x9226e3c1, 0xae8e9901 } },
    { 33,
      17,
      3,
      70,
      80,
      { 0x30b997e3, 0xf083b309, 0x769322fc, 0x9452f295, 0x30b997e3, 0x81cfa8f5 },
      { 0x30b997e3, 0xf083b309, 0x769322fc, 0x9452f295, 0x30b997e3, 0x81cfa8f5 } },
    { 64,
      90,
      4,
      24,
      24,
      { 0xc29faab0, 0xa9f8420b, 0x9e0b749e, 0x9c023a76, 0x7652c1de, 0xb498628f },
      { 0xc29faab0, 0xa9f8420b, 0x9e0b749e, 0x9c023a76, 0x7652c1de, 0xb498628f } },
    { 200,
      9,
      3,
      13,
      40,
      { 0xd8151365, 0x9dc6a0b4, 0x051bccf0, 0xf6d242dd, 0xa7b8229a, 0xfcd0d496 },
      { 0xd8151365, 0x9dc6a0b4, 0x051bccf0, 0xf6d242dd, 0xa7b8229a, 0xfcd0d496 } },
    { 31,
      300,
      4,
      29,
      35,
      { 0xb2668b41, 0x8b2416b8, 0x57ebca5c, 0xe8084699, 0x7be724ad, 0x2f7a9611 },
      { 0xb2668b41, 0x72dcfdd3, 0xf0cee695, 0xea74dd63, 0xbb5590e9, 0x9c8e8012 } },
};

static void as_pillow(void **state)
{
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct image from = made(cases[i].width, cases[i].height, cases[i].channels);
        for (int r = RESAMPLE_NEAREST; r <= RESAMPLE_HAMMING; r++)
            for (int order = RESIZE_PILLOW13; order <= RESIZE_PILLOW12; order++) {
                struct image to = resized(&from, cases[i].to_width, cases[i].to_height,
                                          (enum resample)r, (enum resize_order)order);
                uint32_t expected =
                    order == RESIZE_PILLOW13 ? cases[i].pillow13[r] : cases[i].pillow12[r];
                if (checksum(&to) != expected)
                    fail_msg("case %zu, filter %d, order %d: %08x", i, r, order, checksum(&to));
                image_release(&to);
            }
        image_release(&from);
    }
}

// Resizing a part gives the same pixels as that part of the whole.
static void parts(void **state)
{
    struct image from = made(61, 47, 3);
    for (int r = RESAMPLE_NEAREST; r <= RESAMPLE_HAMMING; r++)
        for (int size = 20; size <= 100; size += 27)
            for (int order = RESIZE_PILLOW13; order <= RESIZE_PILLOW12; order++) {
                struct err err;
                struct image whole =
                    resized(&from, 61, size, (enum resample)r, (enum resize_order)order);
                struct image part, expected;
                assert_int_equal(image_resize_part(&part, &from, 61, size, 7, 5, 30, 11,
                                                   (enum resample)r, (enum resize_order)order,
                                                   &err),
                                 0);
                assert_int_equal(
                    image_crop(&expected, &whole, 7, 5, 30, 11, (uint8_t[3]){ 0 }, &err), 0);
                assert_memory_equal(part.pixels, expected.pixels, 30 * 11 * 3);
                image_release(&part);
                image_release(&expected);
                image_release(&whole);
            }
    image_release(&from);
}

static void absurd_shapes(void **state)
{
    static const int64_t sides[][4] = { { 1, 20000, 20000, 1 },
                                        { 20000, 1, 1, 1 },
                                        { 1, 20000, 1, 3 },
                                        { 20000, 2, 3, 2 },
                                        { 1, 1, 20000, 300 } };
    for (size_t i = 0; i < sizeof sides / sizeof *sides; i++) {
        struct image from = made(sides[i][0], sides[i][1], 3);
        memset(from.pixels, 77, (size_t)(from.width * from.height * 3));
        for (int r = RESAMPLE_NEAREST; r <= RESAMPLE_HAMMING; r++) {
            struct image to =
                resized(&from, sides[i][2], sides[i][3], (enum resample)r, RESIZE_PILLOW13);
            for (int64_t k = 0; k < to.width * to.height * 3; k++)
                assert_int_equal(to.pixels[k], 77);
            image_release(&to);
        }
        image_release(&from);
    }
}

static void refused(void **state)
{
    struct image from = made(4, 4, 3), to;
    struct err err;
    static const int64_t sizes[][2] = { { 0, 4 }, { 4, -1 }, { 20001, 4 }, { 20000, 20000 } };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        assert_int_equal(image_resize(&to, &from, sizes[i][0], sizes[i][1], RESAMPLE_BICUBIC,
                                      RESIZE_PILLOW13, &err),
                         -1);
        assert_null(to.pixels);
    }
    assert_int_equal(image_resize(&to, &from, 4, 5, (enum resample)6, RESIZE_PILLOW13, &err), -1);
    assert_int_equal(
        image_resize_part(&to, &from, 8, 8, 5, 0, 4, 4, RESAMPLE_BOX, RESIZE_PILLOW13, &err), -1);
    image_release(&from);
}

static void crop(void **state)
{
    struct image from = made(3, 2, 3), to;
    struct err err;
    assert_int_equal(image_crop(&to, &from, -1, 1, 3, 2, (uint8_t[3]){ 9, 8, 7 }, &err), 0);
    assert_memory_equal(to.pixels, "\x09\x08\x07", 3);
    assert_memory_equal(to.pixels + 3, from.pixels + 9, 6);
    assert_memory_equal(to.pixels + 9, "\x09\x08\x07\x09\x08\x07\x09\x08\x07", 9);
    image_release(&to);
    image_release(&from);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_pillow), cmocka_unit_test(parts), cmocka_unit_test(absurd_shapes),
        cmocka_unit_test(refused),   cmocka_unit_test(crop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
