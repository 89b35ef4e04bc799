// core/sets/format.c -- recognises the format of a file; functions that all formats share.
#include "core/sets/format.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/file_in.h"
#include "core/base/text.h"
#include "core/data/dialogue.h"
#include "core/metrics/python.h"
#include "core/picture/source.h"

enum { HEAD = 65536 };

static const struct set_format *const formats[] = { &set_format_parquet, &set_format_tsv,
                                                    &set_format_lines, &set_format_object,
                                                    &set_format_csv };

// True if the first line has a tab. With --columns, such a file is TSV if no format recognises it.
static bool has_tabs(const char *head)
{
    return head[strcspn(head, "\t\n")] == '\t';
}

const struct set_format *set_format_of(const char *path, const struct set_columns *columns,
                                       struct err *err)
{
    const int fd = file_in_open(path, err);
    if (fd < 0) return NULL;
    char *head = xmalloc(HEAD + 1);
    ssize_t n = read(fd, head, HEAD);
    const int why = errno;
    close(fd);
    const struct set_format *found = NULL;
    const char *wide = n > 0 ? text_wide(head, (size_t)n) : NULL;
    if (wide) {
        text_check(head, (size_t)n, path, err);
        free(head);
        return NULL;
    }
    if (n >= 0) head[n] = 0;
    // The formats' checks get the file without its byte order mark.
    const size_t skip = n > 0 ? text_mark(head, (size_t)n) : 0;
    for (size_t i = 0; n > 0 && !found && i < sizeof formats / sizeof *formats; i++)
        if (formats[i]->is(path, head + skip, (size_t)n - skip)) found = formats[i];
    if (n > 0 && !found && columns->count && has_tabs(head + skip)) found = &set_format_tsv;
    free(head);
    if (n < 0) err_set(err, "cannot read '%s': %s", path, strerror(why));
    if (n >= 0 && !found)
        err_set(err,
                "'%s' is not in a known format of evaluation sets: it must be a TSV file with the "
                "columns index and question, JSON lines, JSON, parquet or a CSV file of MMLU "
                "(/help sets)",
                path);
    if (found && columns->count && (found == &set_format_object || found == &set_format_csv)) {
        err_set(err, "--columns reads TSV files, JSON lines, JSON lists and parquet, not '%s'",
                path);
        found = NULL;
    }
    return found;
}

const char *set_text(const struct set_record *r, const char *key)
{
    const char *text = cJSON_GetStringValue(json_get(r->json, key));
    // lmms-eval's MMBench writes "nan" for absent texts.
    return text && *text && strcmp(text, "nan") != 0 ? text : NULL;
}

const char *set_id(struct set_record *r)
{
    const char *id = set_text(r, "index");
    return id && r->shared ? scratch_printf(&r->scratch, "%s_%s", r->file, id) : id;
}

const char *set_item_text(struct set_record *r, const cJSON *item)
{
    if (!cJSON_IsNumber(item)) return cJSON_GetStringValue(item);
    return scratch_keep(&r->scratch, json_number_text(item));
}

const char *set_text_of(const cJSON *json, const char *key, const char *otherwise)
{
    const char *text = cJSON_GetStringValue(json_get(json, key));
    return text ? text : otherwise;
}

// COCO's archives unpack into folders: COCO_val2014_000000000042.jpg is in val2014. Returns the
// picture there if `folder` itself lacks it and has that folder; NULL: no. The caller frees it.
static char *find_coco(const char *name, const char *folder)
{
    static const char mark[] = "COCO_";
    const char *split = name + sizeof mark - 1;
    if (strncmp(name, mark, sizeof mark - 1) != 0 || strchr(name, '/')) return NULL;
    char *here = picture_source(name, folder);
    char *below = xasprintf("%s/%.*s/%s", folder, (int)strcspn(split, "_"), split, name);
    if (access(here, F_OK) == 0 || access(below, F_OK) < 0) {
        free(below);
        below = NULL;
    }
    free(here);
    return below;
}

void set_add_picture(struct set_record *r, const char *path, const char *folder)
{
    char *coco = find_coco(path, folder);
    r->pictures = xreallocarray(r->pictures, r->picture_count + 1, sizeof *r->pictures);
    r->pictures[r->picture_count++] = coco ? coco : picture_source(path, folder);
}

int set_add_item(struct set_record *r, const cJSON *item, const char *folder, struct err *err)
{
    char *name = dialogue_picture(item);
    const bool named = name || !item || cJSON_IsNull(item);
    if (name && *name) set_add_picture(r, name, folder);
    free(name);
    if (named) return 0;
    return err_set(err,
                   "a picture must be a path, base64, {\"path\", \"bytes\"} or a list of them");
}

// Adds the pictures of a cell.
static int add_pictures(struct set_record *r, const cJSON *cell, const char *folder,
                        struct err *err)
{
    const char *text = cJSON_GetStringValue(cell);
    cJSON *parsed = text && *text == '[' ? set_python_list(text) : NULL, *item;
    const cJSON *list = parsed ? parsed : cJSON_IsArray(cell) ? cell : NULL;
    int status = 0;
    if (!list && (!text || !python_is_missing(text))) status = set_add_item(r, cell, folder, err);
    cJSON_ArrayForEach(item, list)
    {
        if (status == 0) status = set_add_item(r, item, folder, err);
    }
    cJSON_Delete(parsed);
    return status;
}

int set_add_columns(struct set_record *r, const struct set_columns *columns, const char *folder,
                    struct err *err)
{
    const char *name;
    for (int i = 1; (name = set_columns_picture(columns, i)); i++)
        if (add_pictures(r, json_get(r->json, name), folder, err) < 0) return -1;
    return 0;
}

void set_record_release(struct set_record *r)
{
    cJSON_Delete(r->json);
    for (size_t i = 0; i < r->picture_count; i++) free(r->pictures[i]);
    free(r->pictures);
    free(r->numbers);
    scratch_release(&r->scratch);
    *r = (struct set_record){ 0 };
}

bool set_picture_is_in(const char *name, const char *path)
{
    const char *mark = strrchr(name, '#');
    const size_t n = strlen(path);
    return mark && (size_t)(mark - name) == n && !strncmp(name, path, n);
}

bool set_picture_number(const char *name, int64_t rows, int64_t *row, long *number, struct err *err)
{
    const char *mark = strrchr(name, '#');
    char *end = NULL;
    *row = mark ? strtoll(mark + 1, &end, 10) : -1;
    *number = end && *end == '.' ? strtol(end + 1, NULL, 10) : -1;
    if (*row >= 0 && *row < rows && *number >= 0) return true;
    err_set(err, "no picture '%s'", name);
    return false;
}

// --- rows of JSON --------------------------------------------------------------------------------

void set_put(struct set_record *r, const char *key, const char *text)
{
    cJSON_DeleteItemFromObjectCaseSensitive(r->json, key);
    cJSON_AddStringToObject(r->json, key, text);
}

bool set_put_answers(struct set_record *r, const cJSON *list, const char *key)
{
    cJSON *answers = cJSON_CreateArray();
    const cJSON *item;
    cJSON_ArrayForEach(item, list)
    {
        const char *text = set_text_of(item, key, NULL);
        if (text) cJSON_AddItemToArray(answers, cJSON_CreateString(text));
    }
    if (!cJSON_GetArraySize(answers)) {
        cJSON_Delete(answers);
        return false;
    }
    cJSON_DeleteItemFromObjectCaseSensitive(r->json, "answer");
    cJSON_AddItemToObject(r->json, "answer", answers);
    return true;
}

// Returns the value of the first key of `n` that the record has, or NULL.
static cJSON *find_named(const struct set_record *r, const struct set_names *n)
{
    const cJSON *item = json_get(r->json, n->to);
    for (size_t i = 0; !item && i < sizeof n->from / sizeof *n->from && n->from[i]; i++)
        item = json_get(r->json, n->from[i]);
    return (cJSON *)(uintptr_t)item;
}

// Adds VLMEvalKit's columns to a row of HallusionBench's own file or of lmms-eval's.
static void name_hallusion(cJSON *row)
{
    static const char *const parts[] = { "visual_input", "category",  "subcategory",
                                         "set_id",       "figure_id", "question_id" };
    const cJSON *truth = json_get(row, "gt_answer");
    struct buf index = { 0 };
    if (!truth || !json_get(row, "figure_id") || json_get(row, "index")) return;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        const cJSON *part = json_get(row, parts[i]);
        char *number = cJSON_IsNumber(part) ? json_number_text(part) : NULL;
        buf_printf(&index, "%s%s", i ? "_" : "", number ? number : set_text_of(row, parts[i], ""));
        free(number);
    }
    cJSON_AddStringToObject(row, "index", index.data);
    const bool yes = cJSON_IsNumber(truth) ? truth->valuedouble == 1
                                           : !strcmp(set_text_of(row, "gt_answer", ""), "1");
    cJSON_AddStringToObject(row, "answer", yes ? "Yes" : "No");
    const char *category = set_text_of(row, "category", "");
    char *sub = xasprintf("%s_%s", category, set_text_of(row, "subcategory", ""));
    if (!json_get(row, "l2-category")) cJSON_AddStringToObject(row, "l2-category", sub);
    free(sub);
    buf_release(&index);
}

int set_record_of(struct set_record *r, cJSON *row, const struct set_names *names, struct err *err)
{
    *r = (struct set_record){ .json = row };
    if (!row) return -1;
    if (!cJSON_IsObject(row)) return err_set(err, "a sample must be an object");
    name_hallusion(row);
    const cJSON *id = find_named(r, names);
    r->number = !id || cJSON_IsNumber(id);
    for (const struct set_names *n = names; n->to; n++)
        if (!strcmp(n->to, "answer")) r->numbered = cJSON_IsNumber(find_named(r, n));
    for (cJSON *item = row->child, *after; item; item = after) {
        after = item->next;
        if (!cJSON_IsNumber(item)) continue;
        char *text = json_number_text(item);
        cJSON *string = cJSON_CreateString(text);
        string->string = xstrdup(item->string);
        cJSON_ReplaceItemViaPointer(row, item, string);
        free(text);
    }
    for (; names->to; names++) {
        cJSON *item = find_named(r, names);
        if (!item || !strcmp(item->string, names->to)) continue;
        cJSON_DetachItemViaPointer(row, item);
        cJSON_DeleteItemFromObjectCaseSensitive(row, names->to); // a null value, if any
        cJSON_AddItemToObject(row, names->to, item);
    }
    return 0;
}

// --- Python's list literals: table cells with several texts --------------------------------------

// Python's repr() wrote these cells. It escapes characters that cannot be printed (a no-break
// space, an ideographic space).

// Reads \xNN, \uNNNN or \UNNNNNNNN; p points at the letter. Returns its length, or 0 for anything
// else.
static size_t read_code(const char *p, struct buf *text)
{
    const size_t digits = *p == 'x' ? 2 : *p == 'u' ? 4 : *p == 'U' ? 8 : 0;
    char hex[9] = { 0 };
    if (!digits) return 0;
    for (size_t i = 0; i < digits; i++) {
        if (!strchr("0123456789abcdefABCDEF", p[1 + i]) || !p[1 + i]) return 0;
        hex[i] = p[1 + i];
    }
    const unsigned long c = strtoul(hex, NULL, 16);
    // A C string cannot hold a zero, nor UTF-8 half a surrogate pair.
    python_put_char(text, !c || c > 0x10FFFF || (c & ~0x7FFUL) == 0xD800 ? 0xFFFD : (int32_t)c);
    return digits + 1;
}

// Reads an escape; p points after its backslash. Returns the position after the escape.
static const char *read_escape(const char *p, struct buf *text)
{
    static const char letters[] = "ntrabfv'\"\\", means[] = "\n\t\r\a\b\f\v'\"\\";
    const char *known = strchr(letters, *p);
    const size_t code = read_code(p, text);
    if (code) return p + code;
    if (*p == '\n') return p + 1; // the literal continues on the next line
    if (known)
        buf_putc(text, means[known - letters]);
    else
        buf_printf(text, "\\%c", *p);
    return p + 1;
}

// Reads a string literal at p; NULL if it does not end.
static const char *read_string(const char *p, struct buf *text)
{
    const char quote = *p++;
    while (*p && *p != quote) {
        if (*p != '\\')
            buf_putc(text, *p++);
        else if (p[1])
            p = read_escape(p + 1, text);
        else
            return NULL;
    }
    return *p ? p + 1 : NULL;
}

// Reads any other item: a number, a word.
static const char *read_bare(const char *p, struct buf *text)
{
    const size_t n = strcspn(p, ",]");
    size_t used = n;
    while (used && strchr(" \t\r\n", p[used - 1])) used--;
    buf_add(text, p, used);
    return used ? p + n : NULL;
}

// Reads a nested list as the text that Python prints: such a list is the only choice of one
// question of MMMU-Pro.
static const char *read_nested(const char *p, struct buf *text)
{
    struct buf ignored = { 0 };
    const char *begin = p;
    int depth = 0;
    do {
        depth += (*p == '[') - (*p == ']');
        if (*p == '\'' || *p == '"')
            p = read_string(p, &ignored);
        else
            p++;
    } while (p && *p && depth);
    buf_release(&ignored);
    if (p && !depth) buf_add(text, begin, (size_t)(p - begin));
    return p && !depth ? p : NULL;
}

cJSON *set_python_list(const char *text)
{
    const char *p = text + strspn(text, " \t\r\n");
    cJSON *list = cJSON_CreateArray();
    bool good = *p++ == '[';
    while (good) {
        p += strspn(p, " \t\r\n");
        if (*p == ']') break; // allows a trailing comma
        struct buf item = { 0 };
        p = *p == '\'' || *p == '"' ? read_string(p, &item)
            : *p == '['             ? read_nested(p, &item)
                                    : read_bare(p, &item);
        good = p != NULL;
        if (good) cJSON_AddItemToArray(list, cJSON_CreateString(item.data ? item.data : ""));
        buf_release(&item);
        if (good) p += strspn(p, " \t\r\n");
        if (good && *p == ',')
            p++;
        else if (good)
            good = *p == ']';
    }
    if (good) p++;
    if (good && !p[strspn(p, " \t\r\n")]) return list;
    cJSON_Delete(list);
    return NULL;
}
