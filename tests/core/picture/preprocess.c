// tests/core/picture/preprocess.c -- core/picture/preprocess.c: the goldens' pixels,
// configurations, edges.
#include "tests/core/picture/pictures.h"

#include <math.h>

#include "core/picture/preprocess.h"

static const struct picture_config clip = {
    .fit = FIT_SHORTEST_CROP,
    .resize = true,
    .crop = true,
    .rescale = true,
    .normalize = true,
    .flatten = true,
    .shortest = 224,
    .width = 224,
    .height = 224,
    .resample = RESAMPLE_BICUBIC,
    .rescale_factor = 1.0 / 255,
    .mean = { 0.48145466f, 0.4578275f, 0.40821073f },
    .std = { 0.26862954f, 0.26130258f, 0.27577711f },
    .background = { 255, 255, 255 },
};
static const struct picture_config siglip = {
    .fit = FIT_EXACT,
    .resize = true,
    .rescale = true,
    .normalize = true,
    .flatten = false,
    .width = 224,
    .height = 224,
    .resample = RESAMPLE_BICUBIC,
    .rescale_factor = 1.0 / 255,
    .mean = { 0.5f, 0.5f, 0.5f },
    .std = { 0.5f, 0.5f, 0.5f },
    .background = { 255, 255, 255 },
};

static struct picture_config config(const char *json, const struct picture_config *otherwise)
{
    struct err err;
    struct picture_config c;
    cJSON *parsed = cJSON_Parse(json);
    assert_non_null(parsed);
    if (picture_config_read(&c, parsed, otherwise, &err) < 0) fail_msg("%s: %s", json, err.text);
    cJSON_Delete(parsed);
    return c;
}

// Compares a stored tensor [1, 3, H, W] with our [H, W, 3].
static void compare_bytes(const struct image *image, const struct safetensor *t)
{
    int64_t area = image->width * image->height;
    const uint8_t *expected = t->data;
    assert_int_equal(t->shape[2], image->height);
    assert_int_equal(t->shape[3], image->width);
    for (int64_t i = 0; i < 3 * area; i++)
        if (image->pixels[i % area * 3 + i / area] != expected[i])
            fail_msg("%s: pixel %lld is %d, not %d", t->name, (long long)i,
                     image->pixels[i % area * 3 + i / area], expected[i]);
}

static void compare_floats(const float *pixels, const struct safetensor *t, double tolerance)
{
    for (uint64_t i = 0; i < t->bytes / sizeof(float); i++) {
        float expected;
        memcpy(&expected, (const char *)t->data + i * sizeof expected, sizeof expected);
        if (!(fabs((double)pixels[i] - expected) <= tolerance))
            fail_msg("%s: value %llu is %.9g, not %.9g", t->name, (unsigned long long)i, pixels[i],
                     expected);
    }
}

static int family_goldens(const char *folder, const struct picture_config *otherwise)
{
    struct err err;
    struct picture_config c;
    char *path = xasprintf("tests/goldens/%s/preprocessor_config.json", folder);
    cJSON *json = json_read(path, 1 << 20, &err);
    if (!json || picture_config_read(&c, json, otherwise, &err) < 0) fail_msg("%s", err.text);
    char *golden = xasprintf("build/goldens/%s/golden.safetensors", folder);
    char *notes = xasprintf("build/goldens/%s/golden.json", folder);
    cJSON *tolerances = json_read(notes, 64 << 20, &err);
    struct safetensors *f = golden_open(golden);
    int count = 0;
    for (int64_t i = 0; i < f->count; i++) {
        const struct safetensor *t = &f->tensors[i];
        bool across_first = strncmp(t->name, "pixu8_hfirst.", 13) == 0;
        bool floats = strncmp(t->name, "pix.", 4) == 0;
        if (!across_first && !floats && strncmp(t->name, "pixu8.", 6) != 0) continue;
        const char *picture = strchr(t->name, '.') + 1;
        char *file = xasprintf("%s.%s", picture, strcmp(picture, "tall") ? "png" : "jpg");
        struct image from = picture_open(file), to;
        if (preprocess_bytes(&to, &from, &c, across_first ? RESIZE_PILLOW12 : RESIZE_PILLOW13,
                             &err) < 0)
            fail_msg("%s", err.text);
        assert_int_equal(to.width, c.width);
        assert_int_equal(to.height, c.height);
        if (floats) {
            const cJSON *entry =
                cJSON_GetObjectItem(cJSON_GetObjectItem(tolerances, "tensors"), t->name);
            float *pixels = xmalloc((size_t)(3 * to.width * to.height) * sizeof *pixels);
            preprocess_floats(pixels, &to, &c);
            compare_floats(pixels, t, cJSON_GetObjectItem(entry, "tol")->valuedouble);
            free(pixels);
        } else {
            compare_bytes(&to, t);
        }
        image_release(&to);
        image_release(&from);
        free(file);
        count++;
    }
    safetensors_close(f);
    cJSON_Delete(tolerances);
    cJSON_Delete(json);
    free(notes);
    free(golden);
    free(path);
    return count;
}

static void goldens(void **state)
{
    assert_true(family_goldens("llava-1.5", &clip) >= 10);
    assert_true(family_goldens("llava-siglip-llama3", &siglip) >= 12);
}

// SigLIP2's preprocessors of a fixed size have "resample" 2 (bilinear), with which transformers
// resizes by Pillow.
static void bilinear_goldens(void **state)
{
    struct err err;
    struct picture_config c =
        config("{\"size\": {\"height\": 32, \"width\": 32}, \"resample\": 2}", &siglip);
    struct safetensors *f = golden_open("tests/goldens/llava-siglip-llama3/bilinear.safetensors");
    assert_int_equal(f->count, 5);
    for (int64_t i = 0; i < f->count; i++) {
        const struct safetensor *t = &f->tensors[i];
        char *file = xasprintf("%s.%s", t->name, strcmp(t->name, "tall") ? "png" : "jpg");
        struct image from = picture_open(file), to;
        if (preprocess_bytes(&to, &from, &c, RESIZE_PILLOW13, &err) < 0) fail_msg("%s", err.text);
        compare_bytes(&to, t);
        image_release(&to);
        image_release(&from);
        free(file);
    }
    safetensors_close(f);
}

static void config_forms(void **state)
{
    struct picture_config c = config("{}", &clip);
    assert_memory_equal(&c, &clip, sizeof c);
    c = config("{\"size\": 336, \"crop_size\": 300}", &clip);
    assert_int_equal(c.fit, FIT_SHORTEST_CROP);
    assert_int_equal(c.shortest, 336);
    assert_int_equal(c.width, 300);
    c = config("{\"size\": {\"height\": 40, \"width\": 30}}", &siglip);
    assert_int_equal(c.width, 30);
    assert_int_equal(c.height, 40);
    c = config("{\"size\": 384, \"image_mean\": 0.25, \"resample\": 2}", &siglip);
    assert_int_equal(c.width, 384);
    assert_int_equal(c.height, 384);
    assert_true(c.mean[2] == 0.25f);
    assert_int_equal(c.resample, RESAMPLE_BILINEAR);
    // CLIP's processor with an exact size still crops.
    c = config("{\"size\": {\"height\": 40, \"width\": 30}, \"crop_size\": 20}", &clip);
    assert_int_equal(c.fit, FIT_EXACT);
    assert_int_equal(c.width, 20);
    assert_int_equal(c.exact_height, 40);
    // null means absent, except for do_convert_rgb, where it means no.
    c = config("{\"do_convert_rgb\": null, \"do_resize\": null, \"size\": null}", &clip);
    assert_false(c.flatten);
    assert_true(c.resize);
    assert_true(config("{\"do_convert_rgb\": true}", &siglip).flatten);
}

static void config_refused(void **state)
{
    static const char *const bad[] = {
        "[]",
        "{\"size\": 0}",
        "{\"size\": 1e9}",
        "{\"size\": -3}",
        "{\"size\": \"224\"}",
        "{\"size\": {}}",
        "{\"size\": {\"height\": 3}}",
        "{\"size\": {\"shortest_edge\": 0}}",
        "{\"size\": {\"shortest_edge\": 224, \"longest_edge\": 448}}",
        "{\"crop_size\": {}}",
        "{\"crop_size\": 0}",
        "{\"crop_size\": {\"height\": 1.5, \"width\": 2}}",
        "{\"image_std\": [0.5, 0, 0.5]}",
        "{\"image_std\": [0.5, 0.5]}",
        "{\"image_std\": [1, 1, 1e999]}",
        "{\"image_mean\": [1, 2, \"x\"]}",
        "{\"image_mean\": {}}",
        "{\"rescale_factor\": 0}",
        "{\"rescale_factor\": 1e999}",
        "{\"rescale_factor\": \"1/255\"}",
        "{\"resample\": 6}",
        "{\"resample\": -1}",
        "{\"resample\": 2.5}",
        "{\"do_resize\": 1}",
        "{\"do_convert_rgb\": \"yes\"}",
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct picture_config c;
        struct err err = { "" };
        cJSON *json = cJSON_Parse(bad[i]);
        assert_non_null(json);
        if (picture_config_read(&c, json, &clip, &err) == 0 || !*err.text)
            fail_msg("%s passes", bad[i]);
        cJSON_Delete(json);
    }
}

static struct image grey(int64_t width, int64_t height, int level)
{
    struct image image = { .width = width, .height = height, .channels = 3 };
    image.pixels = xmalloc((size_t)(width * height * 3));
    memset(image.pixels, level, (size_t)(width * height * 3));
    return image;
}

static struct image processed(const struct image *from, const struct picture_config *c)
{
    struct err err;
    struct image to;
    if (preprocess_bytes(&to, from, c, RESIZE_PILLOW13, &err) < 0) fail_msg("%s", err.text);
    return to;
}

static int level(const struct image *image, int64_t x, int64_t y)
{
    return image->pixels[(y * image->width + x) * 3];
}

// The crop is larger than the resized picture: it gets a black border, with the odd row on top.
static void crop_pads(void **state)
{
    struct picture_config c =
        config("{\"size\": 4, \"crop_size\": {\"height\": 9, \"width\": 6}}", &clip);
    struct image from = grey(8, 8, 200), to = processed(&from, &c);
    assert_int_equal(to.width, 6);
    assert_int_equal(to.height, 9);
    for (int y = 0; y < 9; y++)
        for (int x = 0; x < 6; x++)
            assert_int_equal(level(&to, x, y), x >= 1 && x < 5 && y >= 3 && y < 7 ? 200 : 0);
    image_release(&to);
    image_release(&from);
}

static void switched_off(void **state)
{
    struct picture_config c = config("{\"do_resize\": false, \"crop_size\": 2}", &clip);
    struct image from = grey(5, 4, 1);
    from.pixels[(1 * 5 + 1) * 3] = 50; // row 1, column 1 is the corner of the crop
    struct image to = processed(&from, &c);
    assert_int_equal(to.width * to.height, 4);
    assert_int_equal(level(&to, 0, 0), 50);
    image_release(&to);
    c = config("{\"do_center_crop\": false, \"size\": 8}", &clip);
    to = processed(&from, &c);
    assert_int_equal(to.width, 10); // int(8 * 5 / 4)
    assert_int_equal(to.height, 8);
    image_release(&to);

    float value[3 * 20];
    c = config("{\"do_rescale\": false, \"do_normalize\": false}", &clip);
    preprocess_floats(value, &from, &c);
    assert_true(value[6] == 50.0f && value[0] == 1.0f && value[20] == 1.0f);
    c = config("{\"do_normalize\": false}", &clip);
    preprocess_floats(value, &from, &c);
    assert_true(value[6] == (float)(50 * (1.0 / 255)));
    image_release(&from);
}

static void long_edge_rounds_down(void **state)
{
    struct picture_config c = config("{\"size\": 336, \"do_center_crop\": false}", &clip);
    struct image from = grey(333, 500, 9), to = processed(&from, &c);
    assert_int_equal(to.width, 336);
    assert_int_equal(to.height, 504); // 504.504...
    image_release(&to);
    image_release(&from);
}

static void absurd_aspect(void **state)
{
    static const int sides[][2] = { { 1, 20000 }, { 20000, 1 }, { 3, 19999 } };
    for (int i = 0; i < 3; i++) {
        struct image from = grey(sides[i][0], sides[i][1], 90);
        struct image to = processed(&from, &clip);
        assert_int_equal(to.width, 224);
        for (int64_t k = 0; k < 3 * 224 * 224; k++) assert_int_equal(to.pixels[k], 90);
        image_release(&to);
        // Without the crop, the result would be up to 4.5 million pixels long.
        struct picture_config whole = config("{\"do_center_crop\": false}", &clip);
        struct err err = { "" };
        assert_int_equal(preprocess_bytes(&to, &from, &whole, RESIZE_PILLOW13, &err), -1);
        assert_true(*err.text);
        assert_null(to.pixels);
        image_release(&from);
    }
}

static void alpha(void **state)
{
    struct image from = picture_open("rgba.png"), to;
    struct err err = { "" };
    assert_int_equal(from.channels, 4);
    assert_int_equal(preprocess_bytes(&to, &from, &siglip, RESIZE_PILLOW13, &err), -1);
    assert_non_null(strstr(err.text, "do_convert_rgb"));
    to = processed(&from, &clip);
    assert_int_equal(to.channels, 3);
    assert_int_equal(from.channels, 4); // the source is unchanged
    image_release(&to);
    image_release(&from);
}

// LlavaImageProcessor's padding: a border of the mean colour, the picture in the middle.
static void padded_square(void **state)
{
    struct picture_config c = config("{\"image_processor_type\": \"LlavaImageProcessor\", "
                                     "\"do_pad\": true, \"size\": 7, \"crop_size\": 7}",
                                     &clip);
    struct image from = grey(7, 4, 255), to = processed(&from, &c);
    for (int y = 0; y < 7; y++)
        assert_int_equal(level(&to, 3, y), y >= 1 && y < 5 ? 255 : 122); // int(0.48145466 * 255)
    image_release(&to);
    c = config("{\"image_processor_type\": \"CLIPImageProcessor\", \"do_pad\": true}", &clip);
    assert_false(c.square); // this config has no padding step
    image_release(&from);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(goldens),
        cmocka_unit_test(bilinear_goldens),
        cmocka_unit_test(config_forms),
        cmocka_unit_test(config_refused),
        cmocka_unit_test(crop_pads),
        cmocka_unit_test(switched_off),
        cmocka_unit_test(long_edge_rounds_down),
        cmocka_unit_test(absurd_aspect),
        cmocka_unit_test(alpha),
        cmocka_unit_test(padded_square),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
