// sessions/job_reports.c -- rows of reports as lines of JSON, and back.
//
//   {"is": "metric", "n": 12, "t": 1790000000, "r": [0.25], "s": ["loss"]}
//
// What is unknown is null. The reader keeps the place in each file up to which it has read in the
// table job_reads, changed in the transaction that adds the rows.
#include "sessions/job_reports.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/json.h"
#include "core/base/mem.h"
#include "sessions/job_internal.h"

// Most bytes read at once: longer lines are none of ours.
static const size_t piece = (size_t)4 << 20;

static const char *const kind_names[TOLD_KINDS] = {
    [TOLD_METRIC] = "metric",     [TOLD_LINE] = "line",     [TOLD_RESULT] = "result",
    [TOLD_SCORE] = "score",       [TOLD_REWIND] = "rewind", [TOLD_MEASURED] = "measured",
    [TOLD_PROGRESS] = "progress", [TOLD_STATE] = "state",
};
// Texts that a row of the kind must have.
static const int texts_needed[TOLD_KINDS] = {
    [TOLD_METRIC] = 1, [TOLD_LINE] = 1, [TOLD_RESULT] = 2, [TOLD_MEASURED] = 2, [TOLD_STATE] = 1,
};

// --- one line ------------------------------------------------------------------------------------

static void put_line(struct buf *b, const struct told *t)
{
    cJSON *o = cJSON_CreateObject();
    cJSON_AddStringToObject(o, "is", kind_names[t->kind]);
    cJSON_AddNumberToObject(o, "n", (double)t->number);
    cJSON_AddNumberToObject(o, "t", (double)t->time);
    cJSON *reals = cJSON_AddArrayToObject(o, "r"), *texts = cJSON_AddArrayToObject(o, "s");
    const int count = t->kind == TOLD_PROGRESS ? TOLD_REALS : 1;
    int last = 0;
    for (int i = 0; i < TOLD_TEXTS; i++)
        if (t->text[i]) last = i + 1;
    for (int i = 0; i < count; i++)
        cJSON_AddItemToArray(reals, isfinite(t->real[i]) ? cJSON_CreateNumber(t->real[i])
                                                         : cJSON_CreateNull());
    for (int i = 0; i < last; i++)
        cJSON_AddItemToArray(texts,
                             t->text[i] ? cJSON_CreateString(t->text[i]) : cJSON_CreateNull());
    char *text = cJSON_PrintUnformatted(o);
    cJSON_Delete(o);
    if (!text) fatal("out of memory while writing a job's report");
    buf_printf(b, "%s\n", text);
    cJSON_free(text);
}

static bool read_kind(const cJSON *o, enum told_kind *kind)
{
    const char *name = cJSON_GetStringValue(json_get(o, "is"));
    for (int k = 0; name && k < TOLD_KINDS; k++) {
        *kind = (enum told_kind)k;
        if (!strcmp(kind_names[k], name)) return true;
    }
    return false;
}

// Lines that are none of ours are left out.
static void take_line(struct told_list *l, const char *line, size_t size)
{
    const char *texts[TOLD_TEXTS] = { NULL };
    enum told_kind kind;
    cJSON *o = json_parse(line, size, "reports", NULL);
    const cJSON *item;
    int count = 0, i = 0;
    bool good = read_kind(o, &kind);
    cJSON_ArrayForEach(item, json_get(o, "s")) if (count < TOLD_TEXTS) texts[count++] =
        cJSON_GetStringValue(item);
    for (int k = 0; good && k < texts_needed[kind]; k++) good = texts[k] != NULL;
    if (good) {
        struct told *t = told_add(l, kind, json_whole(json_get(o, "n"), 0), NAN, TOLD_TEXTS, texts);
        t->time = json_whole(json_get(o, "t"), 0);
        for (int k = 0; k < TOLD_REALS; k++) t->real[k] = NAN;
        cJSON_ArrayForEach(item, json_get(o, "r")) if (i < TOLD_REALS) t->real[i++] =
            cJSON_IsNumber(item) ? item->valuedouble : NAN;
    }
    cJSON_Delete(o);
}

// Whole lines of a piece of the file; returns their bytes.
static size_t take_lines(struct told_list *l, const char *text, size_t size)
{
    const char *p = text, *end;
    while ((end = memchr(p, '\n', size - (size_t)(p - text)))) {
        take_line(l, p, (size_t)(end - p));
        p = end + 1;
    }
    return (size_t)(p - text);
}

// --- writing -------------------------------------------------------------------------------------

static char *reports_path(const char *folder, int part)
{
    return part ? xasprintf("%s/reports-%d.jsonl", folder, part)
                : xasprintf("%s/reports.jsonl", folder);
}

// Where the last whole line ends.
static off_t whole_lines(int file)
{
    char c;
    off_t end = lseek(file, 0, SEEK_END);
    while (end > 0 && pread(file, &c, 1, end - 1) == 1 && c != '\n') end--;
    return end;
}

// Opened for each write: what is closed is seen by other machines.
static int write_lines(struct told_writer *w, const struct told_list *l, struct err *err)
{
    struct buf b = { 0 };
    size_t done = 0;
    ssize_t n = 0;
    int status = 0;
    for (size_t i = 0; i < l->count; i++) put_line(&b, &l->list[i]);
    const int file = open(w->path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    const off_t end = file >= 0 ? whole_lines(file) : 0;
    if (file >= 0 && ftruncate(file, end) == 0)
        while (done < b.length &&
               (n = pwrite(file, b.data + done, b.length - done, end + (off_t)done)) > 0)
            done += (size_t)n;
    if (done < b.length) {
        status = err_set(err, "cannot write '%s': %s", w->path, strerror(errno));
        if (file >= 0 && ftruncate(file, end) < 0) errno = 0; // cut off by the next write
    }
    if (file >= 0 && close(file) < 0 && status == 0)
        status = err_set(err, "cannot write '%s': %s", w->path, strerror(errno));
    buf_release(&b);
    return status;
}

struct told_writer told_to_file(const char *folder, int64_t job, int part)
{
    return (
        struct told_writer){ .write = write_lines, .job = job, .path = reports_path(folder, part) };
}

// --- reading -------------------------------------------------------------------------------------

static int read_place(struct store *s, int64_t id, int part, int64_t *place, struct err *err)
{
    return store_number(s, err, 0, place, "SELECT place FROM job_reads WHERE job = ? AND part = ?",
                        "ii", id, (int64_t)part);
}

// A piece from `place` on: its size, 0 at the end, -1 if it cannot be read.
static ssize_t read_piece(const char *path, int64_t place, char *text)
{
    const int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    const ssize_t n = file >= 0 ? pread(file, text, piece, place) : -1;
    if (file >= 0) close(file);
    return n;
}

// One piece in one transaction: returns 1 while there may be more.
static int import_piece(struct store *s, int64_t id, int part, const char *path, char *text,
                        struct err *err)
{
    struct told_list l = { 0 };
    struct told_writer w = told_to_store(s, id);
    int64_t place = 0;
    size_t used = 0;
    if (store_lock(s, err) < 0) return -1;
    int status = read_place(s, id, part, &place, err);
    const ssize_t n = status == 0 ? read_piece(path, place, text) : 0;
    if (n > 0) used = take_lines(&l, text, (size_t)n);
    if (!used && n == (ssize_t)piece) used = piece; // no line is that long
    if (status == 0) status = told_write_rows(&w, &l, err);
    if (status == 0 && used)
        status =
            store_run(s, err, "INSERT OR REPLACE INTO job_reads(job, part, place) VALUES(?, ?, ?)",
                      "iii", id, (int64_t)part, place + (int64_t)used);
    status = store_unlock(s, status, err);
    told_writer_release(&w);
    told_release(&l);
    return status < 0 ? -1 : used > 0;
}

static int import_file(struct store *s, int64_t id, int part, const char *path, struct err *err)
{
    char *text = xmalloc(piece);
    int more;
    while ((more = import_piece(s, id, part, path, text, err)) > 0) continue;
    free(text);
    return more;
}

// One more than the highest number: a part that has not reported yet has no file.
static int count_parts(const char *folder)
{
    DIR *dir = opendir(folder);
    const struct dirent *entry;
    int last = 0, part, end;
    while (dir && (entry = readdir(dir))) {
        end = 0;
        // NOLINTNEXTLINE(cert-err34-c): of a number too large `part` is out of the range below
        if (sscanf(entry->d_name, "reports-%5d.jsonl%n", &part, &end) == 1 && end &&
            !entry->d_name[end] && part > last)
            last = part;
    }
    if (dir) closedir(dir);
    return last + 1;
}

static void import_new(struct store *s, int64_t id, const char *folder, int part)
{
    char *path = reports_path(folder, part);
    struct stat st;
    int64_t place;
    if (stat(path, &st) == 0 && S_ISREG(st.st_mode) && read_place(s, id, part, &place, NULL) == 0 &&
        st.st_size > place)
        import_file(s, id, part, path, NULL); // else at the next look
    free(path);
}

// Rank 0's last: it says how the job ended.
void job_import(struct store *s, int64_t id)
{
    if (!sqlite3_get_autocommit(s->db)) return;
    char *folder = job_path(s, id, NULL);
    for (int part = count_parts(folder); part-- > 0;) import_new(s, id, folder, part);
    free(folder);
}

static int import_rest(struct store *s, int64_t id, const char *folder, int part, struct err *err)
{
    char *path = reports_path(folder, part);
    int status = access(path, F_OK) == 0 ? import_file(s, id, part, path, err) : 0;
    if (status == 0) status = store_lock(s, err);
    if (status == 0) {
        status = store_run(s, err, "DELETE FROM job_reads WHERE job = ? AND part = ?", "ii", id,
                           (int64_t)part);
        unlink(path);
        status = store_unlock(s, status, err);
    }
    free(path);
    return status;
}

int job_import_all(struct store *s, int64_t id, struct err *err)
{
    char *folder = job_path(s, id, NULL);
    int status = 0;
    for (int part = count_parts(folder); part-- > 0 && status == 0;)
        status = import_rest(s, id, folder, part, err);
    free(folder);
    return status;
}

// --- the state -----------------------------------------------------------------------------------

bool job_reports_state(const char *folder, enum job_state *state, char **message)
{
    char *path = reports_path(folder, 0), *text = xmalloc(piece);
    struct told_list l = { 0 };
    bool found = false;
    int64_t place = 0;
    ssize_t n;
    size_t used = 0;
    do {
        n = read_piece(path, place, text);
        used = n > 0 ? take_lines(&l, text, (size_t)n) : 0;
        place += (int64_t)used;
        for (size_t i = 0; i < l.count; i++) {
            const struct told *t = &l.list[i];
            if (t->kind != TOLD_STATE) continue;
            if (!job_state_find(t->text[0], state)) *state = STATE_FAILED;
            if (message) {
                if (found) free(*message);
                *message = xstrdup(t->text[1] ? t->text[1] : "");
            }
            found = true;
        }
        told_clear(&l);
    } while (used);
    told_release(&l);
    free(text);
    free(path);
    return found;
}
