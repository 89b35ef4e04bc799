// core/eval/ask_file.c -- reads the questions and the existing lines, and appends lines.
#include "core/eval/ask_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/cancel.h"
#include "core/base/file_in.h"
#include "core/base/hash.h"
#include "core/base/json.h"
#include "core/base/mem.h"
#include "core/base/utf8.h"
#include "core/picture/image.h"
#include "core/picture/source.h"
#include "core/template/message.h"

static const size_t file_limit = (size_t)8 << 30;

// --- the data ------------------------------------------------------------------------------------

void ask_data_release(struct ask_data *d)
{
    for (int64_t i = 0; d->list && i < d->set.count; i++) free(d->list[i].key);
    free(d->list);
    dataset_close(&d->set);
    d->list = NULL;
}

// Returns the sample's id as JSON, or its index if it has none. LLaVA's evaluation files call the
// id "question_id".
static char *sample_key(const cJSON *json, int64_t index)
{
    const cJSON *id = json_get(json, "id");
    if (!id) id = json_get(json, "question_id");
    if (!cJSON_IsString(id) && !cJSON_IsNumber(id)) return xasprintf("%lld", (long long)index);
    return json_print(id);
}

enum { LOOK = 1024 }; // samples between two checks for a cancel

int ask_data_read(struct ask_data *d, const char *path, const char *images, struct err *err)
{
    if (dataset_open(&d->set, path, images, err) < 0) return -1;
    d->list = xcalloc((size_t)d->set.count, sizeof *d->list);
    for (int64_t i = 0; i < d->set.count; i++) {
        if (i % LOOK == LOOK - 1 && cancel_requested()) return err_set(err, "cancelled");
        cJSON *json = dataset_json(&d->set, i, NULL);
        d->list[i] = (struct ask_question){ .key = sample_key(json, i), .index = i };
        cJSON_Delete(json);
    }
    return 0;
}

// --- earlier output ------------------------------------------------------------------------------

static int compare_lines(const void *a, const void *b)
{
    const struct ask_line *x = a, *y = b;
    const int c = strcmp(x->key, y->key);
    return c ? c : (x->number > y->number) - (x->number < y->number);
}

static const char *advice(const struct ask_output *o)
{
    return o->temporary ? "or delete that file"
                        : "choose another --out, or use --again to answer all samples again";
}

static int not_results(const struct ask_output *o, struct err *err)
{
    return err_set(err, "'%s' is not an output file of /ask: choose another --out", o->path);
}

// Checks that the line has the same model, adapter and settings as new lines.
static int check_provenance(struct ask_output *o, const cJSON *json, struct err *err)
{
    struct provenance there;
    struct err why;
    const bool said = provenance_get(&there, json);
    const int status = said ? provenance_same(&there, o->now, &why) : -1;
    if (status == 0) o->earlier |= provenance_earlier(&there, o->now);
    provenance_release(&there);
    if (!said)
        err_set(err, "'%s' line %zu does not say which model and settings gave the answer: %s",
                o->path, o->count + 1, advice(o));
    else if (status < 0)
        err_set(err, "'%s' line %zu was answered with different settings: %s; restore them, %s",
                o->path, o->count + 1, why.text, advice(o));
    return status;
}

static char *pictures_there(const cJSON *line)
{
    struct buf b = { 0 };
    const cJSON *x;
    buf_puts(&b, "");
    cJSON_ArrayForEach(x, json_get(line, "pictures"))
        buf_printf(&b, "%s ", cJSON_IsString(x) ? x->valuestring : "");
    return buf_take(&b);
}

// A line of a data file may have an answer too, but neither token ids nor provenance.
static bool is_result(const cJSON *json)
{
    const bool answered =
        json_get(json, "answer") && (json_get(json, "provenance") || json_get(json, "ids"));
    return json_get(json, "id") && (answered || json_get(json, "error"));
}

static int add_line(struct ask_output *o, const char *line, size_t length, struct err *err)
{
    cJSON *json = json_parse_exact(line, length, o->path, NULL);
    const char *question = cJSON_GetStringValue(json_get(json, "question"));
    int status = is_result(json) ? 0 : not_results(o, err);
    if (status == 0 && o->now) status = check_provenance(o, json, err);
    if (status == 0) {
        o->lines = xreallocarray(o->lines, o->count + 1, sizeof *o->lines);
        o->lines[o->count] =
            (struct ask_line){ .key = sample_key(json, 0),
                               .question = question ? xstrdup(question) : NULL,
                               .pictures = json_get(json, "answer") ? pictures_there(json) : NULL,
                               .number = o->count + 1 };
        o->count++;
    }
    cJSON_Delete(json);
    return status;
}

// A crash may have cut off the last line: removes it if /ask wrote it.
static int cut_torn_line(const struct ask_output *o, const char *torn, size_t length, off_t offset,
                         struct err *err)
{
    static const char ours[] = "{\"id\":";
    if (!length) return 0;
    const size_t n = length < sizeof ours - 1 ? length : sizeof ours - 1;
    cJSON *whole = json_parse(torn, length, o->path, NULL);
    const bool foreign = memcmp(torn, ours, n) || (whole && !is_result(whole));
    cJSON_Delete(whole);
    if (foreign) return not_results(o, err);
    if (ftruncate(o->file, offset) < 0)
        return err_set(err, "cannot truncate '%s': %s", o->path, strerror(errno));
    return 0;
}

static int read_output(struct ask_output *o, struct err *err)
{
    size_t size;
    char *text = file_read(o->path, file_limit, &size, err), *p = text;
    if (!text) return -1;
    int status = 0;
    for (char *stop; status == 0 && (stop = memchr(p, '\n', size - (size_t)(p - text)));
         p = stop + 1)
        status = add_line(o, p, (size_t)(stop - p), err);
    const size_t done = (size_t)(p - text);
    if (status == 0) status = cut_torn_line(o, p, size - done, (off_t)done, err);
    free(text);
    if (o->count) qsort(o->lines, o->count, sizeof *o->lines, compare_lines);
    return status;
}

int ask_output_open(struct ask_output *o, const char *path, const struct provenance *now,
                    struct err *err)
{
    struct stat st;
    o->path = path;
    o->now = now;
    o->file = open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (o->file < 0) return err_set(err, "cannot write '%s': %s", path, strerror(errno));
    if (fstat(o->file, &st) < 0 || !S_ISREG(st.st_mode))
        return err_set(err, "'%s' is not a regular file: choose another --out", path);
    if (flock(o->file, LOCK_EX | LOCK_NB) < 0)
        return err_set(err, "another run is writing '%s'", path);
    return read_output(o, err);
}

void ask_output_release(struct ask_output *o)
{
    for (size_t i = 0; i < o->count; i++) {
        free(o->lines[i].key);
        free(o->lines[i].question);
        free(o->lines[i].pictures);
    }
    free(o->lines);
    o->lines = NULL;
    o->count = 0;
    if (o->file >= 0) close(o->file);
}

static int compare_samples(const void *a, const void *b)
{
    const struct ask_question *x = *(struct ask_question *const *)a,
                              *y = *(struct ask_question *const *)b;
    const int c = strcmp(x->key, y->key);
    return c ? c : (x->index > y->index) - (x->index < y->index);
}

// Checks that the sample's pictures match the hashes in the line.
static int check_pictures(const struct dialogue *d, const struct ask_question *q,
                          const struct ask_output *o, const struct ask_line *line, struct err *err)
{
    struct buf b = { 0 };
    char hex[HASH_HEX];
    int status = 0;
    buf_puts(&b, "");
    for (size_t i = 0; i < d->path_count && status == 0; i++) {
        size_t size;
        char *bytes = picture_source_read(d->paths[i], IMAGE_MAX_FILE, &size, err);
        status = bytes ? 0 : -1;
        if (bytes) hash_hex(bytes, size, hex);
        if (bytes) buf_printf(&b, "%s ", hex);
        free(bytes);
    }
    if (status == 0 && strcmp(b.data, line->pictures) != 0)
        status = err_set(err,
                         "'%s' line %zu was answered with different pictures (SHA-256) than "
                         "sample %s has now: restore them, %s",
                         o->path, line->number, q->key, advice(o));
    buf_release(&b);
    return status;
}

// Checks that the line answers the sample's question about the sample's pictures. Accepts lines and
// samples without a readable question.
static int check_question(const struct ask_data *d, const struct ask_question *q,
                          const struct ask_output *o, const struct ask_line *line, struct err *err)
{
    enum { MOST = 60 }; // bytes of a question in a message
    struct dialogue dialogue = { 0 };
    int status = 0;
    cJSON *json = line->question ? dataset_json(&d->set, q->index, NULL) : NULL;
    if (json && dialogue_read_sample(&dialogue, json, d->set.folder, NULL) == 0) {
        char *asked = message_text(&dialogue.messages[dialogue.count - 1]);
        if (strcmp(asked, line->question) != 0)
            status = err_set(
                err, "'%s' line %zu answers \"%.*s\", but sample %s of the data asks \"%.*s\": %s",
                o->path, line->number, utf8_head(line->question, MOST), line->question, q->key,
                utf8_head(asked, MOST), asked, advice(o));
        else if (line->pictures)
            status = check_pictures(&dialogue, q, o, line, err);
        free(asked);
    }
    dialogue_release(&dialogue);
    cJSON_Delete(json);
    return status;
}

int64_t ask_mark_done(struct ask_data *d, const struct ask_output *o, struct err *err)
{
    const size_t count = (size_t)d->set.count;
    struct ask_question **sorted = xreallocarray(NULL, count, sizeof *sorted);
    int64_t marked = 0;
    for (size_t i = 0; i < count; i++) sorted[i] = &d->list[i];
    qsort(sorted, count, sizeof *sorted, compare_samples);
    for (size_t i = 0, j = 0; i < count && j < o->count && marked >= 0;) {
        const int c = strcmp(sorted[i]->key, o->lines[j].key);
        if (c == 0) {
            sorted[i]->done = true;
            marked = check_question(d, sorted[i], o, &o->lines[j], err) < 0 ? -1 : marked + 1;
        }
        i += c <= 0;
        j += c >= 0;
    }
    free(sorted);
    return marked;
}

// --- writing -------------------------------------------------------------------------------------

int ask_output_write(const struct ask_output *o, const char *text, size_t length, struct err *err)
{
    const off_t start = lseek(o->file, 0, SEEK_END);
    size_t done = 0;
    ssize_t n = 0;
    while (done < length && (n = write(o->file, text + done, length - done)) >= 0)
        done += (size_t)n;
    if (n >= 0 && fsync(o->file) == 0) return 0;
    err_set(err, "cannot write '%s': %s", o->path, strerror(errno));
    if (ftruncate(o->file, start) < 0) err_in(err, "(an incomplete line remains)");
    return -1;
}
