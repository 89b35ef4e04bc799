// core/probes/masks.c -- boxes and masks of objects as a picture. The file is untrusted.
#include "core/probes/masks.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

int masks_open(struct masks *m, const char *path, struct err *err)
{
    *m = (struct masks){ .lines.file = -1 };
    if (dataset_open(&m->lines, path, NULL, err) < 0) return -1;
    m->line = xcalloc((size_t)m->lines.count + 1, sizeof *m->line);
    for (int64_t i = 0; i < m->lines.count; i++) {
        cJSON *json = dataset_json(&m->lines, i, err);
        const char *image = json ? cJSON_GetStringValue(json_get(json, "image")) : NULL;
        if (image) {
            bool known;
            const size_t number = names_add(&m->pictures, base_name(image), &known);
            if (!known) m->line[number] = i;
        }
        cJSON_Delete(json);
    }
    if (m->pictures.count) return 0;
    err_set(err, "'%s' lists no pictures: its lines need \"image\" and \"objects\"", path);
    masks_close(m);
    return -1;
}

void masks_close(struct masks *m)
{
    if (m->line) dataset_close(&m->lines);
    names_release(&m->pictures);
    free(m->line);
    *m = (struct masks){ .lines.file = -1 };
}

static void paint(struct image *mask, int64_t x, int64_t y)
{
    if (x < 0 || y < 0 || x >= mask->width || y >= mask->height) return;
    memset(mask->pixels + (y * mask->width + x) * 3, 255, 3);
}

// Runs down the columns, beginning with those outside.
static int paint_runs(struct image *mask, const cJSON *counts)
{
    const cJSON *run;
    int64_t at = 0, all = mask->width * mask->height;
    bool inside = false;
    cJSON_ArrayForEach(run, counts)
    {
        if (!cJSON_IsNumber(run) || !(run->valuedouble >= 0) ||
            run->valuedouble > (double)(all - at))
            return -1;
        const int64_t end = at + (int64_t)run->valuedouble;
        for (; at < end; at++)
            if (inside) paint(mask, at / mask->height, at % mask->height);
        inside = !inside;
    }
    return 0;
}

static int mask_size(const cJSON *object, struct image *mask)
{
    const cJSON *size = json_get(json_get(object, "mask"), "size");
    const double h = cJSON_GetNumberValue(cJSON_GetArrayItem(size, 0));
    const double w = cJSON_GetNumberValue(cJSON_GetArrayItem(size, 1));
    if (!(h >= 1) || !(w >= 1) || h > IMAGE_MAX_SIDE || w > IMAGE_MAX_SIDE ||
        h * w > IMAGE_MAX_AREA)
        return -1;
    if (mask->pixels) return mask->width == (int64_t)w && mask->height == (int64_t)h ? 0 : -1;
    *mask = (struct image){ .width = (int64_t)w, .height = (int64_t)h, .channels = 3 };
    mask->pixels = xcalloc((size_t)(mask->width * mask->height), 3);
    return 0;
}

static bool named(const cJSON *object, const char *text)
{
    const char *name = cJSON_GetStringValue(json_get(object, "name"));
    return name && *name && strcasestr(text, name);
}

int masks_read(const struct masks *m, const char *picture, const char *text, struct image *mask,
               struct err *err)
{
    size_t number;
    *mask = (struct image){ 0 };
    if (!names_find(&m->pictures, base_name(picture), &number))
        return err_set(err, "'%s' does not list the picture '%s'", m->lines.path,
                       base_name(picture));
    cJSON *json = dataset_json(&m->lines, m->line[number], err);
    const cJSON *objects = json_get(json, "objects"), *object;
    bool any = false;
    int status = json ? 0 : -1;
    cJSON_ArrayForEach(object, objects) any |= named(object, text);
    cJSON_ArrayForEach(object, objects)
    {
        if (status < 0 || (any && !named(object, text))) continue;
        if (mask_size(object, mask) < 0 ||
            paint_runs(mask, json_get(json_get(object, "mask"), "counts")) < 0)
            status = err_set(err, "'%s': a mask of '%s' is not a run list of the mask's size",
                             m->lines.path, base_name(picture));
    }
    if (status == 0 && !mask->pixels)
        status = err_set(err, "'%s' lists no objects of '%s'", m->lines.path, base_name(picture));
    if (status < 0) image_release(mask);
    cJSON_Delete(json);
    return status;
}
