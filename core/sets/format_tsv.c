// core/sets/format_tsv.c -- VLMEvalKit's format: a TSV file whose column "image" holds one picture
// in base64, a Python list of several, or (in at most 64 characters) the index of another row with
// that picture. Tables without "image" name files in "image_path".
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/base64.h"
#include "core/metrics/python.h"
#include "core/picture/image.h"
#include "core/picture/source.h"
#include "core/sets/format.h"
#include "core/sets/index.h"

enum { SHORT_IMAGE = 64, STEPS = 8 };

struct tsv {
    struct set_index x;
    const struct set_columns *columns;
    const char *folder;
};

// True if the first line has tabs and the columns of the format.
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
    free(t);
}

static void *tsv_open(const char *path, const char *folder, const struct set_columns *columns,
                      int64_t *count, struct err *err)
{
    struct tsv *t = xcalloc(1, sizeof *t);
    t->folder = folder;
    t->columns = columns;
    if (set_index_open(&t->x, path, columns, err) < 0) {
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

// A zero byte would end the C string early.
static int refuse_zero(const struct set_index *x, int64_t row, const struct buf *text,
                       struct err *err)
{
    if (!text->length || !memchr(text->data, 0, text->length)) return 0;
    return err_set(err, "row %lld of '%s' contains a zero byte, which texts must not contain",
                   (long long)row, x->path);
}

// --- pictures ------------------------------------------------------------------------------------

// Returns the picture column of a row, unquoted. Follows references to other rows; *row becomes the
// row with the picture.
static const char *image_text(const struct tsv *t, struct scratch *s, int64_t *row, struct err *err)
{
    const struct set_index *x = &t->x;
    for (int step = 0; step < STEPS; step++) {
        struct buf text = { 0 };
        const int status =
            set_index_image(x, *row, &text, err) == 0 ? refuse_zero(x, *row, &text, err) : -1;
        char *image = scratch_take(s, &text);
        const size_t n = strlen(image);
        if (status < 0) return NULL;
        if (n > 1 && image[0] == '"' && image[n - 1] == '"') {
            image[n - 1] = 0;
            image++;
        }
        size_t other;
        if (!*image || strlen(image) > SHORT_IMAGE) return image;
        const bool known = names_find(&x->keys, image, &other);
        if (!known || x->key_rows[other] == SET_ROWS) {
            err_set(err, "row %lld takes its picture from index '%s', which %s", (long long)*row,
                    image, known ? "several rows share: number them differently" : "no row has");
            return NULL;
        }
        *row = x->key_rows[other];
    }
    err_set(err, "row %lld takes its picture from a cycle of references", (long long)*row);
    return NULL;
}

// Names the pictures of a row. Reads a large cell only if it is a list, to count its pictures.
static int find_pictures(const struct tsv *t, int64_t row, struct set_record *r, struct err *err)
{
    const struct set_index *x = &t->x;
    int64_t from = row;
    int count = 1;
    if (x->rows[row].image_size <= SHORT_IMAGE) {
        const char *image = image_text(t, &r->scratch, &from, err);
        if (!image) return -1;
        if (!*image) return 0;
    }
    struct buf start = { 0 };
    struct set_index part = *x;
    struct set_row one = x->rows[from];
    one.image_size = one.image_size < 2 ? one.image_size : 2;
    part.rows = &one;
    const int status = set_index_image(&part, 0, &start, err);
    const char *begin = scratch_take(&r->scratch, &start);
    if (status < 0) return -1;
    if (strchr(begin, '[')) {
        const char *image = image_text(t, &r->scratch, &from, err);
        cJSON *parts = image ? set_python_list(image) : NULL;
        count = cJSON_GetArraySize(parts);
        cJSON_Delete(parts);
        if (!count) return err_set(err, "the pictures of row %lld are not a list", (long long)row);
    }
    // The name "FILE#ROW.NUMBER" is the same for all rows that show the same picture.
    r->pictures = xcalloc((size_t)count, sizeof *r->pictures);
    for (int i = 0; i < count; i++)
        r->pictures[r->picture_count++] = xasprintf("%s#%lld.%d", x->path, (long long)from, i);
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
    struct scratch s = { 0 };
    int64_t row;
    long number;
    char *bytes = NULL;
    if (!set_picture_is_in(name, t->x.path))
        return picture_source_read(name, IMAGE_MAX_FILE, size, err);
    if (!set_picture_number(name, t->x.count, &row, &number, err)) return NULL;
    const char *image = image_text(t, &s, &row, err), *part = image;
    cJSON *parts = image && *image == '[' ? set_python_list(image) : NULL;
    if (parts) part = cJSON_GetStringValue(cJSON_GetArrayItem(parts, (int)number));
    if (part) bytes = decode(part, strlen(part), name, size, err);
    if (image && !part) err_set(err, "no picture '%s'", name);
    cJSON_Delete(parts);
    scratch_release(&s);
    return bytes;
}

// --- rows ----------------------------------------------------------------------------------------

// "None" is a valid question, answer or choice, and "" is a valid choice; otherwise both mean a
// missing value. "image" is read elsewhere.
static bool is_there(const char *name, const char *field)
{
    if (name[0] >= 'A' && name[0] <= 'Z' && !name[1]) return true;
    const bool any = !strcmp(name, "question") || !strcmp(name, "answer");
    return *field && strcmp(name, "image") != 0 && (any || !python_is_missing(field));
}

static int read_row(void *self, int64_t index, struct set_record *r, struct err *err)
{
    const struct tsv *t = self;
    struct buf text = { 0 };
    *r = (struct set_record){ .number = true };
    int status = set_index_read(&t->x, index, &text, err);
    if (status == 0) status = refuse_zero(&t->x, index, &text, err);
    const char *rest = scratch_take(&r->scratch, &text);
    if (status < 0) return -1;
    r->json = cJSON_CreateObject();
    for (size_t i = 0; i < t->x.columns.count; i++) {
        const char *name = t->x.columns.list[i], *field = set_index_field(&r->scratch, &rest);
        if (is_there(name, field)) cJSON_AddStringToObject(r->json, name, field);
    }
    if (rest[strspn(rest, "\t")]) // a tab in a text shifts all fields after it
        return err_set(err, "it has more fields than the head line: a text with tabs needs quotes");
    const char *answers = set_text(r, "answers"); // VLMBlind
    if (answers && !json_get(r->json, "answer")) set_put(r, "answer", answers);
    if (!json_get(r->json, "index")) // only with --columns
        set_put(r, "index", scratch_printf(&r->scratch, "%" PRId64, index));
    const char *path = set_text(r, "image_path");
    // The user's column of pictures holds file names or base64, which contains no full stop.
    if (t->x.rows[index].image_size && set_columns_picture(t->columns, 0)) {
        struct buf cell = { 0 };
        if (set_index_image(&t->x, index, &cell, err) < 0) return -1;
        const char *picture = scratch_take(&r->scratch, &cell);
        if (strchr(picture, '.')) path = set_index_field(&r->scratch, &picture);
        if (!path) return find_pictures(t, index, r, err);
    } else if (t->x.rows[index].image_size) {
        return find_pictures(t, index, r, err);
    }
    // Tables without embedded pictures name files.
    cJSON *parts = path && *path == '[' ? set_python_list(path) : NULL, *part;
    cJSON_ArrayForEach(part, parts) set_add_picture(r, part->valuestring, t->folder);
    if (path && !parts) set_add_picture(r, path, t->folder);
    cJSON_Delete(parts);
    return 0;
}

// Only the first column of pictures may be large or refer to other rows.
static int tsv_read(void *self, int64_t index, struct set_record *r, struct err *err)
{
    const struct tsv *t = self;
    if (read_row(self, index, r, err) < 0) return -1;
    return set_add_columns(r, t->columns, t->folder, err);
}

const struct set_format set_format_tsv = {
    .name = "TSV with pictures in base64 (VLMEvalKit)",
    .is = is_tsv,
    .open = tsv_open,
    .read = tsv_read,
    .picture = tsv_picture,
    .hash = tsv_hash,
    .close = tsv_close,
};
