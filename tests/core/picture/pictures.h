// tests/core/picture/pictures.h -- shared by the tests of pictures: files, goldens, comparing
// pixels.
#ifndef TESTS_CORE_PICTURE_PICTURES_H
#define TESTS_CORE_PICTURE_PICTURES_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/file_in.h"
#include "core/files/safetensors.h"
#include "core/picture/image.h"

#define PICTURES "tests/goldens/pictures/"

// Decodes a picture of the goldens; fails the test with the message.
static inline struct image picture_open(const char *file)
{
    struct err err;
    struct image image;
    char *path = xasprintf(PICTURES "%s", file);
    size_t size;
    char *bytes = file_read(path, IMAGE_MAX_FILE, &size, &err);
    if (!bytes || image_decode(&image, bytes, size, path, &err) < 0) fail_msg("%s", err.text);
    free(bytes);
    free(path);
    return image;
}

static inline struct safetensors *golden_open(const char *path)
{
    struct err err;
    struct safetensors *f = safetensors_open(path, &err);
    if (!f) fail_msg("%s", err.text);
    return f;
}

// The error of a decoding that must fail, equally in both ways to decode.
static inline char *decode_error(const void *bytes, size_t size)
{
    struct err err = { "" }, here = { "" };
    struct image image;
    assert_int_equal(image_decode(&image, bytes, size, "it", &err), -1);
    assert_null(image.pixels);
    assert_int_equal(image_decode_here(&image, bytes, size, "it", &here), -1);
    assert_string_equal(err.text, here.text);
    return xstrdup(err.text);
}

static inline void assert_error(const void *bytes, size_t size, const char *part)
{
    char *text = decode_error(bytes, size);
    if (!strstr(text, part)) fail_msg("\"%s\" does not hold \"%s\"", text, part);
    free(text);
}

#endif
