// core/data/dataset.c -- finds the samples of a data file, and reads one of them.
//
// The index needs no JSON parser: in a list, a sample ends at a comma or bracket at depth 1 outside
// strings; in JSON lines, at the end of the line. The content is checked when a sample is read, so
// that a file of any size needs memory only for the offsets.
#include "core/data/dataset.h"
#include "core/data/shots.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/cancel.h"
#include "core/base/file_in.h"
#include "core/base/folder.h"
#include "core/base/names.h"
#include "core/base/text.h"
#include "core/data/keys.h"
#include "core/picture/source.h"

// LONG: bytes after which scanning a file can be cancelled; PROBE: samples that decide whether a
// file is a data set.
enum { BLOCK = 1 << 20, LONG = 64 << 20, SAMPLE_MAX = 64 << 20, PROBE = 16 };

// --- the index -----------------------------------------------------------------------------------

struct scan {
    struct dataset *d;
    size_t capacity;
    uint64_t at;   // offset of the next byte
    int64_t line;  // line of that byte
    int64_t depth; // number of open brackets before it
    bool text, escaped, closed;
    bool begun, wanted; // inside a sample; after a comma, which a sample must follow
    struct dataset_entry entry;
};

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static void begin_entry(struct scan *s)
{
    if (s->begun) return;
    s->begun = true;
    s->wanted = false;
    s->entry = (struct dataset_entry){ .at = s->at, .line = s->line };
}

static void end_entry(struct scan *s)
{
    struct dataset *d = s->d;
    if (!s->begun) return;
    d->entries = xgrow(d->entries, &s->capacity, (size_t)d->count, sizeof *d->entries);
    s->entry.size = s->at - s->entry.at;
    d->entries[d->count++] = s->entry;
    s->begun = false;
}

static int not_json(const struct scan *s, struct err *err)
{
    return err_set(err, "'%s' is not valid JSON (near line %lld)", s->d->path, (long long)s->line);
}

// Scans one byte of a list. Only counts brackets; reading a sample checks that they match.
static int scan_list(struct scan *s, char c, struct err *err)
{
    if (s->text) {
        if (s->escaped)
            s->escaped = false;
        else if (c == '\\')
            s->escaped = true;
        else if (c == '"')
            s->text = false;
        return 0;
    }
    if (is_blank(c)) return 0;
    if (s->closed && c == '[')
        return err_set(
            err,
            "'%s' contains several lists (near line %lld): each JSON line must be an object, "
            "as {\"messages\": [...]}",
            s->d->path, (long long)s->line);
    if (s->closed) return not_json(s, err);
    if (c == ']' || c == '}') {
        if (s->depth-- > 1) return 0;
        if (c != ']' || s->wanted) return not_json(s, err);
        end_entry(s);
        s->closed = true;
        return 0;
    }
    if (c == ',' && s->depth == 1) {
        if (!s->begun) return not_json(s, err);
        end_entry(s);
        s->wanted = true;
        return 0;
    }
    if (s->depth > 0) begin_entry(s);
    s->depth += c == '[' || c == '{';
    s->text = c == '"';
    return 0;
}

static int scan_block(struct scan *s, const char *block, size_t size, struct err *err)
{
    for (size_t i = 0; i < size; i++, s->at++) {
        const char c = block[i];
        if (!s->d->lines) {
            if (scan_list(s, c, err) < 0) return -1;
        } else if (c == '\n') {
            end_entry(s);
        } else if (!is_blank(c)) {
            begin_entry(s);
        }
        s->line += c == '\n';
    }
    return 0;
}

static int read_error(const struct dataset *d, struct err *err)
{
    return err_set(err, "cannot read '%s': %s", d->path, strerror(errno));
}

// Scans the file, or only its first block if `begin`; sets *whole if this covers the whole file.
static int scan_file(struct scan *s, char *block, bool begin, bool *whole, struct err *err)
{
    ssize_t n = file_read_at(s->d->file, block, BLOCK, 0);
    if (n < 0) return read_error(s->d, err);
    if (text_wide(block, (size_t)n)) return text_check(block, (size_t)n, s->d->path, err);
    // A list starts with '[', after white space or a byte order mark.
    size_t skip = text_mark(block, (size_t)n), begins = skip;
    while (begins < (size_t)n && is_blank(block[begins])) begins++;
    s->d->lines = begins == (size_t)n || block[begins] != '[';
    s->at = skip;
    while (n > 0) {
        if (s->at > LONG && cancel_requested()) return err_set(err, "cancelled");
        if (scan_block(s, block + skip, (size_t)n - skip, err) < 0) return -1;
        skip = 0;
        *whole = !begin || n < BLOCK;
        if (!*whole) return 0;
        if ((n = file_read_at(s->d->file, block, BLOCK, s->at)) < 0) return read_error(s->d, err);
    }
    if (s->d->lines)
        end_entry(s);
    else if (!s->closed)
        return err_set(err, "'%s' ends in the middle of its list: it is truncated", s->d->path);
    return 0;
}

// Returns the text of a sample, valid UTF-8 without zero bytes; free() it. NULL on error.
static char *read_entry(const struct dataset *d, int64_t index, struct err *err)
{
    const struct dataset_entry *e = &d->entries[index];
    if (e->size > SAMPLE_MAX) {
        err_set(err, "the sample at line %lld is %llu MB long; the limit is %d", (long long)e->line,
                (unsigned long long)(e->size >> 20), SAMPLE_MAX >> 20);
        return NULL;
    }
    char *text = xmalloc((size_t)e->size + 1);
    const ssize_t n = file_read_at(d->file, text, (size_t)e->size, e->at);
    int status = 0;
    if (n < 0)
        status = read_error(d, err);
    else if ((uint64_t)n < e->size)
        status = err_set(err, "'%s' was truncated while it was read", d->path);
    else
        status = text_check_part(text, (size_t)e->size, e->line, err);
    if (status == 0) return text;
    free(text);
    return NULL;
}

// Refuses arbitrary text: one of the first lines must be an object.
static int check_kind(const struct dataset *d, struct err *err)
{
    bool object = false;
    struct err why;
    if (!d->count) return err_set(err, "'%s' contains no samples", d->path);
    for (int64_t i = 0; d->lines && !object && i < d->count && i < PROBE; i++) {
        cJSON *json = dataset_json(d, i, NULL);
        object = cJSON_IsObject(json);
        cJSON_Delete(json);
    }
    if (!d->lines || object) return 0;
    // Says why the first line is invalid if it was meant as JSON or is not UTF-8 text.
    char *first = read_entry(d, 0, &why);
    if (first && *first == '{') {
        cJSON_Delete(dataset_json(d, 0, &why));
        err_set(err, "'%s' is neither a JSON list of samples nor JSON lines: %s", d->path,
                why.text);
    } else if (first) {
        err_set(err, "'%s' is neither a JSON list of samples nor JSON lines", d->path);
    } else {
        err_set(err, "'%s': %s", d->path, why.text);
    }
    free(first);
    return -1;
}

// If the path is a folder, names the data sets in it.
static int name_files(const char *path, struct err *err)
{
    enum { MOST = 12 };
    struct names found = { 0 };
    struct buf b = { 0 };
    char **names = folder_list(path);
    for (char **name = names; *name; name++)
        if (text_ends(*name, ".json") || text_ends(*name, ".jsonl")) names_add(&found, *name, NULL);
    folder_list_free(names);
    if (found.count) {
        names_put(&b, &found, MOST);
        err_set(err, "'%s' is a folder: choose a file in it (%s)", path, b.data);
    }
    buf_release(&b);
    names_release(&found);
    return -1;
}

// `begin`: scans only the first block; checks the kind of a longer file only if that block has
// enough samples (PROBE).
static int open_file(struct dataset *d, const char *path, const char *images, bool begin,
                     struct err *err)
{
    struct scan s = { .d = d, .line = 1 };
    bool whole = true;
    *d = (struct dataset){ .path = xstrdup(path),
                           .folder = images ? xstrdup(images) : path_folder(path) };
    char *block = xmalloc(BLOCK);
    d->file = file_in_open(path, err);
    int status = d->file < 0 ? name_files(path, err) : 0;
    if (status == 0) status = scan_file(&s, block, begin, &whole, err);
    if (status == 0 && (whole || d->count >= PROBE)) status = check_kind(d, err);
    free(block);
    if (status < 0) dataset_close(d);
    return status;
}

int dataset_check(const char *path, struct err *err)
{
    struct dataset d;
    if (open_file(&d, path, NULL, true, err) < 0) return -1;
    dataset_close(&d);
    return 0;
}

int dataset_open(struct dataset *d, const char *path, const char *images, struct err *err)
{
    return open_file(d, path, images, false, err);
}

void dataset_close(struct dataset *d)
{
    if (d->reader) d->reader->close(d->self);
    if (d->path && d->file >= 0) close(d->file);
    free(d->path);
    free(d->folder);
    free(d->entries);
    shots_free(d->shots);
    *d = (struct dataset){ .file = -1 };
}

// --- one sample ----------------------------------------------------------------------------------

cJSON *dataset_json(const struct dataset *d, int64_t index, struct err *err)
{
    const struct dataset_entry *e = &d->entries[index];
    const long long line = (long long)e->line;
    const size_t size = (size_t)e->size;
    char *text = read_entry(d, index, err);
    cJSON *json = NULL;
    if (!text) return NULL;
    if (json_has_nul(text, size))
        err_set(err,
                "the sample at line %lld has a character \\u0000, which texts must not contain",
                line);
    else if (!(json = json_parse_exact(text, size, "data", NULL)) && d->lines)
        err_set(err, "line %lld of the data is not valid JSON%s", line, json_python(text, size));
    else if (!json)
        err_set(err, "sample %lld (line %lld of the data) is not valid JSON%s", (long long)index,
                line, json_python(text, size));
    free(text);
    return json;
}

// Returns the text of a string, or of a number as written; NULL for any other value.
static char *read_name(const cJSON *json, const char *key)
{
    const cJSON *item = json_get(json, key);
    if (cJSON_IsString(item)) return xstrdup(item->valuestring);
    return cJSON_IsNumber(item) ? json_number_text(item) : NULL;
}

static int read_choices(struct sample *s, const cJSON *json, struct err *err)
{
    const cJSON *list = json_get(json, "choices"), *item;
    const char *key = list ? "choices" : "endings"; // the latter in HellaSwag
    if (!list) list = json_get(json, key);
    s->endings = *key == 'e';
    if (!list) return 0;
    if (!cJSON_IsArray(list)) return err_set(err, "\"%s\" must be a list of strings", key);
    s->choices = xreallocarray(NULL, (size_t)cJSON_GetArraySize(list) + 1, sizeof *s->choices);
    cJSON_ArrayForEach(item, list)
    {
        if (!cJSON_IsString(item)) return err_set(err, "\"%s\" must be a list of strings", key);
        s->choices[s->choice_count++] = xstrdup(item->valuestring);
    }
    return 0;
}

static void add_reference(struct sample *s, const cJSON *item)
{
    if (cJSON_IsString(item)) {
        s->references[s->reference_count++] = xstrdup(item->valuestring);
    } else if (cJSON_IsNumber(item) || cJSON_IsBool(item)) {
        s->references[s->reference_count++] = json_number_text(item);
    }
}

// Skips values other than strings, numbers and booleans (VQA's answers with confidences).
static void read_references(struct sample *s, const cJSON *json)
{
    static const char *const keys[] = { "answer",   "answers", "references",
                                        "captions", "caption", "label" };
    const cJSON *found = NULL, *item;
    for (size_t i = 0; i < sizeof keys / sizeof *keys && !found; i++)
        found = json_get(json, keys[i]);
    if (!found) return;
    const int count = cJSON_IsArray(found) ? cJSON_GetArraySize(found) : 1;
    s->references = xreallocarray(NULL, (size_t)count + 1, sizeof *s->references);
    if (!cJSON_IsArray(found)) add_reference(s, found);
    if (cJSON_IsArray(found)) cJSON_ArrayForEach(item, found) add_reference(s, item);
    const int64_t number = json_whole(found, -1);
    if (number >= 0 && number < INT32_MAX) s->right = (int)number;
}

char *sample_kind(const cJSON *json)
{
    static const char *const keys[] = { "kind", "type", "category" };
    char *kind = NULL;
    for (size_t i = 0; i < sizeof keys / sizeof *keys && !kind; i++)
        kind = read_name(json, keys[i]);
    return kind ? kind : xstrdup("");
}

int sample_read(struct sample *s, const cJSON *json, const char *folder, struct err *err)
{
    static const char *const ids[] = { "id", "question_id" }; // the latter in LLaVA's evaluations
    *s = (struct sample){ .right = -1 };
    for (size_t i = 0; i < sizeof ids / sizeof *ids && !s->id; i++) s->id = read_name(json, ids[i]);
    s->kind = sample_kind(json);
    s->metric = read_name(json, "metric");
    keys_unread(json, &s->unread);
    read_references(s, json);
    if (read_choices(s, json, err) < 0) return -1;
    return dialogue_read_conversation(&s->dialogue, json, folder, err);
}

char *dataset_picture(const struct dataset *d, const char *name, size_t limit, size_t *size,
                      struct err *err)
{
    if (d->reader) return d->reader->picture(d->self, name, limit, size, err);
    return picture_source_read(name, limit, size, err);
}

static int read_alone(const struct dataset *d, int64_t index, struct sample *s, struct err *err)
{
    if (d->reader) return d->reader->read(d->self, index, s, err);
    cJSON *json = dataset_json(d, index, err);
    int status = -1;
    if (json)
        status = sample_read(s, json, d->folder, err);
    else
        *s = (struct sample){ .broken = true, .right = -1, .kind = xstrdup("") };
    s->index = index;
    s->line = d->entries[index].line;
    cJSON_Delete(json);
    return status;
}

int dataset_read(const struct dataset *d, int64_t index, struct sample *s, struct err *err)
{
    const int status = read_alone(d, index, s, err);
    if (status == 0 && d->shots) shots_put(d->shots, s);
    return status;
}

void sample_release(struct sample *s)
{
    free(s->id);
    free(s->kind);
    free(s->metric);
    free(s->group);
    for (size_t i = 0; i < s->choice_count; i++) free(s->choices[i]);
    free(s->choices);
    for (size_t i = 0; i < s->reference_count; i++) free(s->references[i]);
    free(s->references);
    free(s->unanswered);
    free(s->repeats);
    dialogue_release(&s->dialogue);
    names_release(&s->unread);
    *s = (struct sample){ 0 };
}
