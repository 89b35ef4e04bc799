// core/probes/masks_paint.c -- paints an object's outline or box as white pixels. A pixel is inside
// if its centre is.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/json.h"
#include "core/base/mem.h"
#include "core/probes/masks.h"

enum { POINTS_MAX = 100000 }; // of an object's polygons

int64_t mask_work(const struct image *mask)
{
    const int64_t often = 1000 * mask->width * mask->height, most = 1000000000;
    return often < most ? often : most;
}

static void paint(struct image *mask, int64_t x, int64_t y)
{
    memset(mask->pixels + (y * mask->width + x) * 3, 255, 3);
}

static const cJSON *first_of(const cJSON *object, const char *const *keys)
{
    const cJSON *found = NULL;
    for (; *keys && !found; keys++) found = json_get(object, *keys);
    return found;
}

// --- run lists -----------------------------------------------------------------------------------

static const cJSON *runs_of(const cJSON *object)
{
    const cJSON *mask = first_of(object, (const char *const[]){ "mask", "segmentation", NULL });
    return json_get(mask, "counts") ? mask : NULL;
}

bool mask_runs_size(const cJSON *object, double size[2])
{
    const cJSON *list = json_get(runs_of(object), "size"); // height, width
    size[0] = cJSON_GetNumberValue(cJSON_GetArrayItem(list, 1));
    size[1] = cJSON_GetNumberValue(cJSON_GetArrayItem(list, 0));
    return runs_of(object) != NULL;
}

// Paints a run of pixels in column-major order, starting at *at.
static int paint_run(struct image *mask, int64_t run, bool inside, int64_t *at, int64_t *work)
{
    const int64_t all = mask->width * mask->height;
    if (run < 0 || run > all - *at) return -1;
    if ((*work -= run) < 0) return -1;
    for (const int64_t end = *at + run; *at < end; ++*at)
        if (inside) paint(mask, *at / mask->height, *at % mask->height);
    return 0;
}

// Paints COCO's compressed form. A run is a signed number in characters of five bits above '0',
// lowest first; the bit of value 32 marks that another character follows. The fourth and later
// runs are differences from the run before the previous one.
static int paint_compressed(struct image *mask, const char *text, int64_t *work)
{
    int64_t at = 0, before[2] = { 0 }; // the last two runs
    for (int64_t i = 0; *text; i++) {
        int64_t run = 0;
        int shift = 0, bits = 32;
        for (; bits & 32; shift += 5, text++) {
            bits = *text - '0';
            if (bits < 0 || bits > 63 || shift > 30) return -1;
            run |= (int64_t)(bits & 31) << shift;
        }
        if (bits & 16) run -= INT64_C(1) << shift;
        if (i > 2) run += before[0];
        if (paint_run(mask, run, i % 2, &at, work) < 0) return -1;
        before[0] = before[1];
        before[1] = run;
    }
    return 0;
}

static int paint_runs(struct image *mask, const cJSON *counts, int64_t *work)
{
    const cJSON *run;
    int64_t at = 0;
    bool inside = false;
    if (cJSON_IsString(counts)) return paint_compressed(mask, counts->valuestring, work);
    cJSON_ArrayForEach(run, counts)
    {
        if (paint_run(mask, json_whole(run, -1), inside, &at, work) < 0) return -1;
        inside = !inside;
    }
    return 0;
}

// --- polygons ------------------------------------------------------------------------------------

// Returns the first column whose centre is not left of x; at most `width`.
static int64_t column_of(double x, int64_t width)
{
    return (int64_t)fmin(fmax(ceil(x - 0.5), 0), (double)width);
}

// Marks the column at which an edge crosses the middle of each row: from there on, inside and
// outside swap. `marks` begins with row `first`.
static void mark_edge(const struct image *mask, uint8_t *marks, int64_t first, const double a[2],
                      const double b[2])
{
    const double *top = a[1] < b[1] ? a : b, *bottom = a[1] < b[1] ? b : a;
    const int64_t end = column_of(bottom[1], mask->height);
    for (int64_t y = column_of(top[1], mask->height); y < end; y++) {
        const double part = ((double)y + 0.5 - top[1]) / (bottom[1] - top[1]);
        const int64_t x = column_of(top[0] + part * (bottom[0] - top[0]), mask->width);
        if (x < mask->width) marks[(y - first) * mask->width + x] ^= 1;
    }
}

// Paints a polygon by the even-odd rule.
static int paint_polygon(struct image *mask, const cJSON *list, int *points, int64_t *work)
{
    const int count = cJSON_GetArraySize(list) / 2;
    *points += count;
    if (count < 3 || cJSON_GetArraySize(list) % 2 || *points > POINTS_MAX) return -1;
    double(*at)[2] = xreallocarray(NULL, (size_t)count, sizeof *at);
    double top = INFINITY, bottom = -INFINITY;
    const cJSON *number;
    int n = 0, status = 0;
    cJSON_ArrayForEach(number, list)
    {
        const double x = cJSON_GetNumberValue(number);
        if (!(fabs(x) < 1e9)) status = -1;
        if (n % 2) top = fmin(top, x), bottom = fmax(bottom, x);
        at[n / 2][n % 2] = x, n++;
    }
    const int64_t first = column_of(top, mask->height), end = column_of(bottom, mask->height);
    if ((*work -= (end - first) * (mask->width + count)) < 0) status = -1;
    const int64_t rows = status == 0 && end > first ? end - first : 0;
    uint8_t *marks = xcalloc((size_t)(rows * mask->width) + 1, 1); // of the polygon's rows
    for (int i = 0; i < count && rows; i++)
        mark_edge(mask, marks, first, at[i], at[(i + 1) % count]);
    for (int64_t y = 0; y < rows; y++) {
        const uint8_t *row = marks + y * mask->width;
        uint8_t inside = 0;
        for (int64_t x = 0; x < mask->width; x++) {
            inside ^= row[x];
            if (inside) paint(mask, x, first + y);
        }
    }
    free(marks);
    free(at);
    return status;
}

// Paints a list of polygons x, y, x, y ..., or a single one.
static int paint_polygons(struct image *mask, const cJSON *list, int64_t *work)
{
    const bool one = cJSON_IsNumber(cJSON_GetArrayItem(list, 0));
    const cJSON *part = one ? list : list->child;
    int points = 0, status = 0;
    for (; part && status == 0; part = one ? NULL : part->next)
        status = paint_polygon(mask, part, &points, work);
    return status;
}

// --- an object -----------------------------------------------------------------------------------

// Paints a box: left, top, width, height, or the corners in Qwen-VL's rows of RefCOCO, which have
// "sent".
static int paint_box(struct image *mask, const cJSON *list, bool corners, int64_t *work)
{
    double box[4];
    if (cJSON_GetArraySize(list) != 4) return -1;
    for (int i = 0; i < 4; i++) box[i] = cJSON_GetNumberValue(cJSON_GetArrayItem(list, i));
    if (!corners) box[2] += box[0], box[3] += box[1];
    if (!(box[2] > box[0]) || !(box[3] > box[1]) || !(fabs(box[0]) < 1e9) ||
        !(fabs(box[1]) < 1e9) || !(box[2] < 2e9) || !(box[3] < 2e9))
        return -1;
    const int64_t left = column_of(box[0], mask->width), right = column_of(box[2], mask->width);
    const int64_t top = column_of(box[1], mask->height), end = column_of(box[3], mask->height);
    if ((*work -= (right - left) * (end - top)) < 0) return -1;
    for (int64_t y = top; y < end; y++)
        for (int64_t x = left; x < right; x++) paint(mask, x, y);
    return 0;
}

// Paints the mask, polygons or box of the object. Returns NULL, or the fault.
static const char *paint_object(struct image *mask, const cJSON *object, bool boxes, int64_t *work)
{
    static const char *const outlines[] = { "segmentation", "polygons", "polygon", NULL };
    static const char *const rectangles[] = { "bbox", "box", NULL };
    const cJSON *outline = first_of(object, outlines), *box = first_of(object, rectangles);
    const bool corners = json_get(object, "sent") != NULL;
    double size[2];
    if (boxes && !box) return "an object has no box";
    if (!boxes && mask_runs_size(object, size)) {
        const bool fits = size[0] == (double)mask->width && size[1] == (double)mask->height;
        if (fits && paint_runs(mask, json_get(runs_of(object), "counts"), work) == 0) return NULL;
        return "a mask is not a run list of the mask's size";
    }
    if (!boxes && cJSON_IsArray(outline) && outline->child) {
        if (paint_polygons(mask, outline, work) == 0) return NULL;
        return "a polygon needs x and y of at least three points in pixels, and an object's "
               "polygons have at most 100000 points";
    }
    if (!box) return "an object has no mask, polygon or box";
    if (paint_box(mask, box, corners, work) == 0) return NULL;
    return corners ? "a box beside \"sent\" needs left, top, right and bottom in pixels"
                   : "a box needs left, top, width and height in pixels";
}

int mask_paint(struct image *mask, const cJSON *object, bool boxes, int64_t *work, struct err *err)
{
    const char *wrong = paint_object(mask, object, boxes, work);
    if (*work < 0) return err_set(err, "its objects overlap too often to be painted");
    return wrong ? err_set(err, "%s", wrong) : 0;
}
