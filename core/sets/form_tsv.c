// core/sets/form_tsv.c -- VLMEvalKit's form: a TSV file whose column "image" holds pictures in
// base64 -- one, or a Python list of several -- or, in at most 64 characters, the index of another
// row with that picture. Without it, "image_path" names files.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/base64.h"
#include "core/metrics/python.h"
#include "core/sets/form.h"
#include "core/sets/index.h"

enum { SHORT_IMAGE = 64, STEPS = 8 };

struct tsv {
    struct set_index x;
    char *folder;
};

// The first line has tabs, and a column that the form needs.
static bool is_tsv(const char *path, const char *head, size_t size)
{
    const char *stop = memchr(head, '\n', size);
    if (!stop || !memchr(head, '\t', (size_t)(stop - head))) return false;
    char *line = xasprintf("\t%.*s\t", (int)(stop - head - (stop[-1] == '\r')), head);
    const bool good =
        strstr(line, "\tindex\t") && (strstr(line, "\tquestion\t") || strstr(line, "\timage\t") ||
                                      strstr(line, "\timage_path\t"));
    free(line);
    return good;
}

static void tsv_close(void *self)
{
    struct tsv *t = self;
    set_index_close(&t->x);
    free(t->folder);
    free(t);
}

static void *tsv_open(const char *path, const char *folder, int64_t *count, struct err *err)
{
    struct tsv *t = xcalloc(1, sizeof *t);
    t->folder = xstrdup(folder);
    if (set_index_open(&t->x, path, err) < 0) {
        tsv_close(t);
        return NULL;
    }
    *count = t->x.count;
    return t;
}

static const char *tsv_hash(const void *self)
{
    return ((const struct tsv *)self)->x.hash;
}

// In a text of this program a byte 0 would hide the rest.
static int refuse_zero(const struct set_index *x, int64_t row, const struct buf *text,
                       struct err *err)
{
    if (!text->length || !memchr(text->data, 0, text->length)) return 0;
    return err_set(err, "row %lld of '%s' holds a byte 0, which no text may hold", (long long)row,
                   x->path);
}

// --- pictures ------------------------------------------------------------------------------------

// The picture column of a row, quotes undone; of the row that it names, if it names one.
static char *image_text(const struct tsv *t, int64_t *row, struct err *err)
{
    const struct set_index *x = &t->x;
    for (int step = 0; step < STEPS; step++) {
        struct buf text = { 0 };
        if (set_index_image(x, *row, &text, err) < 0) {
            buf_release(&text);
            return NULL;
        }
        if (refuse_zero(x, *row, &text, err) < 0) {
            buf_release(&text);
            return NULL;
        }
        char *image = buf_take(&text);
        const size_t n = strlen(image);
        if (n > 1 && image[0] == '"' && image[n - 1] == '"') {
            memmove(image, image + 1, n - 2);
            image[n - 2] = 0;
        }
        size_t other;
        if (!*image || strlen(image) > SHORT_IMAGE) return image;
        const bool known = names_find(&x->keys, image, &other);
        if (!known)
            err_set(err, "the picture of row %lld is that of index '%s', which no row has",
                    (long long)*row, image);
        else if (x->key_rows[other] == SET_ROWS)
            err_set(err,
                    "the picture of row %lld is that of index '%s', which several rows have: "
                    "number them differently",
                    (long long)*row, image);
        if (!known || x->key_rows[other] == SET_ROWS) {
            free(image);
            return NULL;
        }
        *row = x->key_rows[other];
        free(image);
    }
    err_set(err, "row %lld names its picture by other rows in a circle", (long long)*row);
    return NULL;
}

// "FILE#ROW.NUMBER": the same for rows that show the same picture.
static void name_pictures(const struct tsv *t, int64_t row, size_t count, struct set_record *r)
{
    r->pictures = xcalloc(count + 1, sizeof *r->pictures);
    for (size_t i = 0; i < count; i++)
        r->pictures[r->picture_count++] = xasprintf("%s#%lld.%zu", t->x.path, (long long)row, i);
}

// Only a list must be looked into: other pictures are named without being read.
static int find_pictures(const struct tsv *t, int64_t row, struct set_record *r, struct err *err)
{
    const struct set_index *x = &t->x;
    int64_t from = row;
    char *image = NULL;
    if (x->rows[row].image_size <= SHORT_IMAGE) {
        image = image_text(t, &from, err);
        if (!image) return -1;
        const bool none = !*image;
        free(image);
        if (none) return 0;
    }
    struct buf start = { 0 };
    struct set_index part = *x;
    struct set_row one = x->rows[from];
    one.image_size = one.image_size < 2 ? one.image_size : 2;
    part.rows = &one;
    if (set_index_image(&part, 0, &start, err) < 0) {
        buf_release(&start);
        return -1;
    }
    const bool list = start.length && (start.data[0] == '[' || start.data[start.length - 1] == '[');
    buf_release(&start);
    if (!list) {
        name_pictures(t, from, 1, r);
        return 0;
    }
    image = image_text(t, &from, err);
    cJSON *parts = image ? set_python_list(image) : NULL;
    const int count = cJSON_GetArraySize(parts);
    cJSON_Delete(parts);
    free(image);
    if (!count) return err_set(err, "the pictures of row %lld are no list", (long long)row);
    name_pictures(t, from, (size_t)count, r);
    return 0;
}

static char *decode(const char *text, size_t length, const char *name, size_t *size,
                    struct err *err)
{
    struct buf bytes = { 0 };
    while (length && strchr(" \r\n", text[length - 1])) length--;
    // data:image/png;base64,...
    const char *comma = length > 5 && !memcmp(text, "data:", 5) ? memchr(text, ',', length) : NULL;
    if (comma) {
        length -= (size_t)(comma + 1 - text);
        text = comma + 1;
    }
    if (base64_decode(&bytes, text, length) < 0 || !bytes.length) {
        buf_release(&bytes);
        err_set(err, "picture '%s' is not base64", name);
        return NULL;
    }
    *size = bytes.length;
    return buf_take(&bytes);
}

static char *tsv_picture(void *self, const char *name, size_t *size, struct err *err)
{
    const struct tsv *t = self;
    const char *place = strrchr(name, '#');
    char *end = NULL;
    int64_t row = place ? strtoll(place + 1, &end, 10) : -1;
    const long number = end && *end == '.' ? strtol(end + 1, NULL, 10) : -1;
    if (row < 0 || row >= t->x.count || number < 0) {
        err_set(err, "there is no picture '%s'", name);
        return NULL;
    }
    char *image = image_text(t, &row, err), *bytes = NULL;
    cJSON *parts = image && *image == '[' ? set_python_list(image) : NULL;
    const char *part = parts ? cJSON_GetStringValue(cJSON_GetArrayItem(parts, (int)number)) : image;
    if (part) bytes = decode(part, strlen(part), name, size, err);
    if (image && !part) err_set(err, "there is no picture '%s'", name);
    cJSON_Delete(parts);
    free(image);
    return bytes;
}

// --- rows ----------------------------------------------------------------------------------------

// Files named by "image_path", where there are no pictures in the table.
static void add_paths(const struct tsv *t, struct set_record *r)
{
    const char *text = set_text(r, "image_path");
    cJSON *parts = text && *text == '[' ? set_python_list(text) : NULL, *part;
    cJSON_ArrayForEach(part, parts) set_add_picture(r, part->valuestring, t->folder);
    if (text && !parts) set_add_picture(r, text, t->folder);
    cJSON_Delete(parts);
}

// A question, an answer or a choice may be "None", and a choice nothing at all; elsewhere in a
// table these are no texts.
static bool is_there(const char *name, const char *field)
{
    if (name[0] >= 'A' && name[0] <= 'Z' && !name[1]) return true;
    const bool any = !strcmp(name, "question") || !strcmp(name, "answer");
    return *field && strcmp(name, "image") != 0 && (any || !python_is_missing(field));
}

static int tsv_read(void *self, int64_t index, struct set_record *r, struct err *err)
{
    const struct tsv *t = self;
    struct buf text = { 0 };
    *r = (struct set_record){ 0 };
    if (set_index_read(&t->x, index, &text, err) < 0 || refuse_zero(&t->x, index, &text, err) < 0) {
        buf_release(&text);
        return -1;
    }
    char **fields = set_index_split(&t->x, &text);
    r->json = cJSON_CreateObject();
    r->number = true;
    for (size_t i = 0; i < t->x.columns.count; i++) {
        const char *name = t->x.columns.list[i];
        if (is_there(name, fields[i])) cJSON_AddStringToObject(r->json, name, fields[i]);
        free(fields[i]);
    }
    free(fields);
    buf_release(&text);
    if (t->x.rows[index].image_size) return find_pictures(t, index, r, err);
    add_paths(t, r);
    return 0;
}

const struct set_form set_form_tsv = {
    .name = "TSV with pictures in base64 (VLMEvalKit)",
    .is = is_tsv,
    .open = tsv_open,
    .read = tsv_read,
    .picture = tsv_picture,
    .hash = tsv_hash,
    .close = tsv_close,
};
