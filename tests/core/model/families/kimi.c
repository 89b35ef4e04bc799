// tests/core/model/families/kimi.c -- pictures of native resolution (core/picture/preprocess.c,
// core/model/families/native.c): the patches of Kimi-VL's golden pictures, the numbers of their
// visual tokens, the area that the tokens cover, and pictures that are too long.
#include "core/base/file_in.h"
#include "core/model/families/family.h"
#include "core/picture/preprocess.h"
#include "tests/core/model/families/golden.h"

static struct image open_picture(const char *name)
{
    char path[160];
    struct image image;
    struct err err = { 0 };
    size_t size;
    snprintf(path, sizeof path, "tests/goldens/pictures/%s.%s", name,
             strcmp(name, "tall") ? "png" : "jpg");
    char *bytes = file_read(path, IMAGE_MAX_FILE, &size, &err);
    if (!bytes || image_decode(&image, bytes, size, path, &err) < 0) fail_msg("%s", err.text);
    free(bytes);
    return image;
}

static const char *const folders[] = { "kimi-vl" };

// Compares the patches of a picture with a golden tensor.
static void check_patches(const struct golden *g, const struct safetensor *t,
                          const struct image *from, enum resize_order order)
{
    const struct model *m = engine_model(g->engine);
    const struct vision_config *v = &m->vision.config;
    const bool bytes = strncmp(t->name, "pixu8", 5) == 0;
    struct picture_config c = m->picture;
    struct err err = { 0 };
    struct image to;
    if (bytes) c.rescale = c.normalize = false;
    must(preprocess_bytes(&to, from, &c, order, &err), &err);
    const int64_t merge = v->kind->row_by_row ? 1 : v->merge;
    const int64_t count = to.width * to.height * 3 * v->times;
    float *rows = xreallocarray(NULL, (size_t)count, sizeof *rows);
    preprocess_patches(rows, &to, &c, v->patch, merge, v->times);
    assert_int_equal(t->bytes, (uint64_t)count * (bytes ? 1 : sizeof(float)));
    for (int64_t i = 0; i < count; i++) {
        const float want =
            bytes ? (float)((const uint8_t *)t->data)[i] : ((const float *)t->data)[i];
        if (!(fabsf(rows[i] - want) <= (bytes ? 0 : (float)tolerance(g, t->name))))
            fail_msg("%s: %s, number %d is %g, not %g", g->name, t->name, (int)i, rows[i], want);
    }
    const struct picture_shape shape = { .width = from->width, .height = from->height };
    const int64_t side = v->patch * v->merge;
    assert_int_equal(m->family->pictures->tokens(m, shape), to.width / side * (to.height / side));
    free(rows);
    image_release(&to);
}

static void every_picture_equals_the_reference(void **state)
{
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        struct golden g;
        int checked = 0;
        golden_open(&g, folders[i]);
        for (int64_t k = 0; k < g.tensors->count; k++) {
            const struct safetensor *t = &g.tensors->tensors[k];
            const bool first = strncmp(t->name, "pixu8_hfirst.", 13) == 0;
            if (!first && strncmp(t->name, "pix.", 4) != 0 && strncmp(t->name, "pixu8.", 6) != 0)
                continue;
            // If a model reads video, these goldens hold the pixels of one time only.
            if (t->name[3] == 'u' && engine_model(g.engine)->vision.config.times > 1) continue;
            const char *name = strchr(t->name, '.') + 1;
            struct image from = open_picture(name);
            check_patches(&g, t, &from, first ? RESIZE_PILLOW12 : RESIZE_PILLOW13);
            image_release(&from);
            checked++;
        }
        assert_true(checked >= 2);
        golden_close(&g);
    }
}

// The tokens cover the border that Kimi adds, which lies outside of the picture.
static void tokens_reach_into_the_border(void **state)
{
    struct golden g;
    struct picture_tile t;
    golden_open(&g, "kimi-vl");
    const struct model *m = engine_model(g.engine);
    // 30 x 20 pixels with patches of 7 pixels: the picture is not resized; with the border it has
    // 42 x 28.
    assert_int_equal(
        m->family->pictures->tiles(m, (struct picture_shape){ .width = 30, .height = 20 }, &t, 1),
        1);
    assert_int_equal(t.rows, 2);
    assert_int_equal(t.cols, 3);
    assert_true(fabs(t.right - 42) < 1e-9 && fabs(t.bottom - 28) < 1e-9);
    golden_close(&g);
}

// 512 patches on a side are one too many, including those of the border.
static void too_long_pictures_are_refused(void **state)
{
    struct golden g;
    struct err err;
    int64_t w, h;
    golden_open(&g, "kimi-vl");
    struct picture_config c = engine_model(g.engine)->picture;
    c.most_patches = 100000;
    assert_int_equal(preprocess_size(&c, 510 * 7, 7, &w, &h, &err), 0);
    assert_int_equal(w, 510 * 7);
    assert_int_equal(preprocess_size(&c, 7, 510 * 7 + 1, &w, &h, &err), -1);
    assert_int_equal(preprocess_size(&c, 512 * 7, 7, &w, &h, &err), -1);
    assert_non_null(strstr(err.text, "512"));
    c.most_side = 16, c.limit_side = 0; // Kimi-K2.5 reduces the picture
    assert_int_equal(preprocess_size(&c, 512 * 7, 70, &w, &h, &err), 0);
    assert_int_equal(w, 16 * 7);
    golden_close(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_picture_equals_the_reference),
        cmocka_unit_test(tokens_reach_into_the_border),
        cmocka_unit_test(too_long_pictures_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
