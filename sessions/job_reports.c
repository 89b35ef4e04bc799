// sessions/job_reports.c -- writes reports as rows of the database or as lines of JSON, and imports
// such lines into the database.
//
//   {"is": "metric", "n": 12, "t": 1790000000, "r": [0.25], "s": ["loss"]}
//
// Unknown values are null. The table job_reads holds each file's read position; the transaction
// that adds the rows updates it.
#include "sessions/job_reports.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "core/base/json.h"
#include "core/base/mem.h"
#include "sessions/job_internal.h"

// Bytes read at once, and at most for a long line (a table, a prompt).
static const size_t piece = (size_t)4 << 20, longest = (size_t)256 << 20;

static const struct {
    const char *name;
    int texts; // required texts
} kinds[REPORT_KINDS] = {
    [REPORT_METRIC] = { "metric", 1 },     [REPORT_LINE] = { "line", 1 },
    [REPORT_RESULT] = { "result", 2 },     [REPORT_SCORE] = { "score", 0 },
    [REPORT_REWIND] = { "rewind", 0 },     [REPORT_MEASURED] = { "measured", 2 },
    [REPORT_PROGRESS] = { "progress", 0 }, [REPORT_STATE] = { "state", 1 },
};

// --- lists ---------------------------------------------------------------------------------------

struct report *report_add(struct report_list *l, enum report_kind kind, int64_t number, double real,
                          int texts, const char *const *text)
{
    l->list = xgrow(l->list, &l->capacity, l->count, sizeof *l->list);
    struct report *t = &l->list[l->count++];
    *t = (struct report){ .kind = kind, .number = number, .time = time(NULL), .real = { real } };
    for (int i = 0; i < texts; i++) t->text[i] = text[i] ? xstrdup(text[i]) : NULL;
    return t;
}

void reports_clear(struct report_list *l)
{
    for (size_t i = 0; i < l->count; i++)
        for (int t = 0; t < REPORT_TEXTS; t++) free(l->list[i].text[t]);
    l->count = 0;
}

void reports_release(struct report_list *l)
{
    reports_clear(l);
    free(l->list);
    *l = (struct report_list){ 0 };
}

// --- rows ----------------------------------------------------------------------------------------

static int write_metric(struct report_writer *w, const struct report *t, const char *name,
                        struct err *err)
{
    bool known;
    const size_t i = names_add(&w->series, name, &known);
    if (!known) {
        w->series_ids = xreallocarray(w->series_ids, w->series.capacity, sizeof *w->series_ids);
        w->series_ids[i] = 0;
    }
    int64_t *id = &w->series_ids[i];
    if (!*id &&
        (store_run(w->store, err, "INSERT OR IGNORE INTO job_series(job, name) VALUES(?, ?)", "it",
                   w->job, name) < 0 ||
         store_number(w->store, err, 0, id, "SELECT id FROM job_series WHERE job = ? AND name = ?",
                      "it", w->job, name) < 0))
        return -1;
    if (!w->insert)
        w->insert = store_query(w->store, err,
                                "INSERT OR REPLACE INTO metrics(series, step, value) "
                                "VALUES(?, ?, ?)",
                                "");
    if (!w->insert) return -1;
    sqlite3_bind_int64(w->insert, 1, *id);
    sqlite3_bind_int64(w->insert, 2, t->number);
    sqlite3_bind_double(w->insert, 3, t->real[0]); // NaN becomes NULL
    const int status = store_step(w->store, w->insert, err);
    sqlite3_reset(w->insert);
    return status < 0 ? -1 : 0;
}

int job_write_result(struct store *s, int64_t job, const char *key, const char *value,
                     struct err *err)
{
    return store_run(s, err,
                     "INSERT INTO job_results(job, key, value) VALUES(?, ?, ?) "
                     "ON CONFLICT(job, key) DO UPDATE SET value = excluded.value",
                     "itt", job, key, value);
}

int job_write_score(struct store *s, int64_t job, const struct event_score *score, struct err *err)
{
    return store_run(s, err,
                     "INSERT OR REPLACE INTO job_scores(job, place, sample, prompt, answer, "
                     "reference, part, score) VALUES(?, ?, ?, ?, ?, ?, ?, ?)",
                     "iitttttd", job, score->index, score->id, score->prompt, score->answer,
                     score->reference, score->group, score->score);
}

static int write_row(struct report_writer *w, const struct report *t, struct err *err)
{
    struct store *s = w->store;
    char *const *text = t->text;
    const char *first = text[0] ? text[0] : "";
    switch (t->kind) {
    case REPORT_METRIC: return write_metric(w, t, first, err);
    case REPORT_LINE:
        return store_run(s, err, "INSERT INTO job_log(job, time, text) VALUES(?, ?, ?)", "iit",
                         w->job, t->time, text[0]);
    case REPORT_RESULT: return job_write_result(s, w->job, text[0], text[1], err);
    case REPORT_SCORE:
        return job_write_score(s, w->job,
                               &(struct event_score){ t->number, text[0], text[1], text[2], text[3],
                                                      text[4], t->real[0] },
                               err);
    case REPORT_REWIND:
        return store_run(s, err,
                         "DELETE FROM metrics WHERE step >= ? AND series IN "
                         "(SELECT id FROM job_series WHERE job = ? AND "
                         "(? = '' OR substr(name, -length(?)) = ?))",
                         "iittt", t->number, w->job, first, first, first);
    case REPORT_MEASURED: return store_result_keep(s, 0, t->time, text[0], text[1], err);
    case REPORT_PROGRESS:
        return store_run(s, err,
                         "UPDATE jobs SET step = ?, steps = ?, loss = ?, eta = ? WHERE id = ?",
                         "ddddi", t->real[0], t->real[1], t->real[2], t->real[3], w->job);
    case REPORT_STATE:
        if (strcmp(first, job_state_name(STATE_RUNNING)) != 0)
            return job_write_end(s, w->job, first, text[1] ? text[1] : "", t->time, err);
        // Drops a pending request unless it arrived during start-up.
        return store_run(s, err,
                         "UPDATE jobs SET request = CASE state WHEN 'waiting' THEN request END, "
                         "state = 'running', runs = runs + 1, started = ?, ended = NULL, "
                         "message = '', eta = NULL, queue = coalesce(?, queue) WHERE id = ?",
                         "iti", t->time, text[2], w->job);
    case REPORT_KINDS: break;
    }
    BUG("a job reported a row of kind %d", (int)t->kind);
}

static int write_rows(struct report_writer *w, const struct report_list *l, struct err *err)
{
    int status = 0;
    for (size_t i = 0; i < l->count && status == 0; i++) status = write_row(w, &l->list[i], err);
    return status;
}

// --- lines ---------------------------------------------------------------------------------------

static void put_line(struct buf *b, const struct report *t)
{
    cJSON *o = cJSON_CreateObject();
    cJSON_AddStringToObject(o, "is", kinds[t->kind].name);
    cJSON_AddNumberToObject(o, "n", (double)t->number);
    cJSON_AddNumberToObject(o, "t", (double)t->time);
    cJSON *reals = cJSON_AddArrayToObject(o, "r"), *texts = cJSON_AddArrayToObject(o, "s");
    const int count = t->kind == REPORT_PROGRESS ? REPORT_REALS : 1;
    int last = 0;
    for (int i = 0; i < REPORT_TEXTS; i++)
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

// Adds the report in a line; skips a line that is not one.
static void take_line(struct report_list *l, const char *line, size_t size)
{
    const char *texts[REPORT_TEXTS] = { NULL };
    cJSON *o = json_parse(line, size, "reports", NULL);
    const char *name = cJSON_GetStringValue(json_get(o, "is"));
    const cJSON *item;
    int count = 0, i = 0, kind = 0;
    while (name && kind < REPORT_KINDS && strcmp(kinds[kind].name, name) != 0) kind++;
    bool good = name && kind < REPORT_KINDS;
    cJSON_ArrayForEach(item, json_get(o, "s")) if (count < REPORT_TEXTS) texts[count++] =
        cJSON_GetStringValue(item);
    for (int k = 0; good && k < kinds[kind].texts; k++) good = texts[k] != NULL;
    if (good) {
        struct report *t = report_add(l, (enum report_kind)kind, json_whole(json_get(o, "n"), 0),
                                      NAN, REPORT_TEXTS, texts);
        t->time = json_whole(json_get(o, "t"), 0);
        for (int k = 0; k < REPORT_REALS; k++) t->real[k] = NAN;
        cJSON_ArrayForEach(item, json_get(o, "r")) if (i < REPORT_REALS) t->real[i++] =
            cJSON_IsNumber(item) ? item->valuedouble : NAN;
    }
    cJSON_Delete(o);
}

// Reads the complete lines in a piece of the file; returns their size in bytes.
static size_t take_lines(struct report_list *l, const char *text, size_t size)
{
    const char *p = text, *end;
    while ((end = memchr(p, '\n', size - (size_t)(p - text)))) {
        take_line(l, p, (size_t)(end - p));
        p = end + 1;
    }
    return (size_t)(p - text);
}

static char *reports_path(const char *folder, int part)
{
    return part ? xasprintf("%s/reports-%d.jsonl", folder, part)
                : xasprintf("%s/reports.jsonl", folder);
}

// Reopens the file for each write: other machines see what was written only once the file is
// closed.
static int write_lines(struct report_writer *w, const struct report_list *l, struct err *err)
{
    struct buf b = { 0 };
    size_t done = 0;
    ssize_t n = 0;
    int status = 0;
    char c;
    for (size_t i = 0; i < l->count; i++) put_line(&b, &l->list[i]);
    const int file = open(w->path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    off_t end = file >= 0 ? lseek(file, 0, SEEK_END) : 0; // of the last whole line
    while (end > 0 && pread(file, &c, 1, end - 1) == 1 && c != '\n') end--;
    if (file >= 0 && ftruncate(file, end) == 0)
        while (done < b.length &&
               (n = pwrite(file, b.data + done, b.length - done, end + (off_t)done)) > 0)
            done += (size_t)n;
    if (done < b.length) {
        status = err_set(err, "cannot write '%s': %s", w->path, strerror(errno));
        if (file >= 0 && ftruncate(file, end) < 0) errno = 0; // the next write truncates it
    }
    if (file >= 0 && close(file) < 0 && status == 0)
        status = err_set(err, "cannot write '%s': %s", w->path, strerror(errno));
    buf_release(&b);
    return status;
}

// --- the writer ----------------------------------------------------------------------------------

struct report_writer reports_to_store(struct store *s, int64_t job)
{
    return (struct report_writer){ .job = job, .store = s };
}

struct report_writer reports_to_file(const char *folder, int64_t job, int part)
{
    return (struct report_writer){ .job = job, .path = reports_path(folder, part) };
}

int report_write(struct report_writer *w, const struct report_list *l, struct err *err)
{
    if (!w->store) return write_lines(w, l, err);
    int status = store_lock(w->store, err);
    if (status == 0) status = store_unlock(w->store, write_rows(w, l, err), err);
    // The rollback also removed the series that the transaction made.
    for (size_t i = 0; i < w->series.count && status < 0; i++) w->series_ids[i] = 0;
    return status;
}

void report_writer_release(struct report_writer *w)
{
    names_release(&w->series);
    free(w->series_ids);
    free(w->path);
    sqlite3_finalize(w->insert);
    *w = (struct report_writer){ 0 };
}

// --- reading -------------------------------------------------------------------------------------

static int read_place(struct store *s, int64_t id, int part, int64_t *place, struct err *err)
{
    return store_number(s, err, 0, place, "SELECT place FROM job_reads WHERE job = ? AND part = ?",
                        "ii", id, (int64_t)part);
}

// The bytes at a place of a file.
struct block {
    char *text; // [room]
    size_t size, room;
};

// Reads a piece from `place` on: as much as it takes to have a whole line, at most `longest`. The
// size is 0 at the end, and on failure.
static void read_block(struct block *p, const char *path, int64_t place)
{
    const int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    bool whole = false;
    p->size = 0;
    while (file >= 0 && !whole) {
        const size_t before = p->size, most = p->room ? 2 * p->room : piece;
        if (before == p->room) {
            if (most > longest) break;
            p->text = xreallocarray(p->text, p->room = most, 1);
        }
        const ssize_t n = pread(file, p->text + before, p->room - before, place + (int64_t)before);
        if (n <= 0) break;
        p->size += (size_t)n;
        whole = memchr(p->text + before, '\n', (size_t)n);
    }
    if (file >= 0) close(file);
}

// Takes the complete lines; returns their size in bytes. If a block of the largest size has none,
// skips the block and reports this.
static size_t take_block(struct report_list *l, const struct block *p)
{
    const size_t used = p->size ? take_lines(l, p->text, p->size) : 0;
    if (used || p->size < longest) return used;
    const char *text = "a report of more than 256 MB was not saved";
    report_add(l, REPORT_LINE, 0, NAN, 1, &text);
    return p->size;
}

// Reads the rest of a file, each piece in one transaction.
static int import_file(struct store *s, int64_t id, int part, const char *path, struct err *err)
{
    struct block read = { 0 };
    int status = 0;
    size_t used;
    do {
        struct report_list l = { 0 };
        struct report_writer w = reports_to_store(s, id);
        int64_t place = 0;
        used = 0;
        if ((status = store_lock(s, err)) < 0) break;
        status = read_place(s, id, part, &place, err);
        if (status == 0) {
            read_block(&read, path, place);
            used = take_block(&l, &read);
            status = write_rows(&w, &l, err);
        }
        if (status == 0 && used)
            status = store_run(s, err,
                               "INSERT OR REPLACE INTO job_reads(job, part, place) VALUES(?, ?, ?)",
                               "iii", id, (int64_t)part, place + (int64_t)used);
        status = store_unlock(s, status, err);
        report_writer_release(&w);
        reports_release(&l);
    } while (status == 0 && used);
    free(read.text);
    return status;
}

// Returns one more than the highest part number among the files; a lower part that has not reported
// yet has no file.
static int count_parts(const char *folder)
{
    DIR *dir = opendir(folder);
    const struct dirent *entry;
    int last = 0, part, end;
    while (dir && (entry = readdir(dir))) {
        end = 0;
        // NOLINTNEXTLINE(cert-err34-c): five digits
        if (sscanf(entry->d_name, "reports-%5d.jsonl%n", &part, &end) == 1 && end &&
            !entry->d_name[end] && part > last)
            last = part;
    }
    if (dir) closedir(dir);
    return last + 1;
}

// Imports rank 0's file last, because it contains the job's end.
void job_import(struct store *s, int64_t id)
{
    if (!sqlite3_get_autocommit(s->db)) return;
    char *folder = job_path(s, id, NULL);
    for (int part = count_parts(folder); part-- > 0;) {
        char *path = reports_path(folder, part);
        struct stat st;
        int64_t place;
        if (stat(path, &st) == 0 && S_ISREG(st.st_mode) &&
            read_place(s, id, part, &place, NULL) == 0 && st.st_size > place)
            import_file(s, id, part, path, NULL); // on failure, the next import retries
        free(path);
    }
    free(folder);
}

int job_import_all(struct store *s, int64_t id, struct err *err)
{
    char *folder = job_path(s, id, NULL);
    int status = 0;
    for (int part = count_parts(folder); part-- > 0 && status == 0;) {
        char *path = reports_path(folder, part);
        if (access(path, F_OK) == 0) status = import_file(s, id, part, path, err);
        if (status == 0) status = store_lock(s, err);
        if (status == 0) {
            status = store_run(s, err, "DELETE FROM job_reads WHERE job = ? AND part = ?", "ii", id,
                               (int64_t)part);
            unlink(path);
            status = store_unlock(s, status, err);
        }
        free(path);
    }
    free(folder);
    return status;
}

// --- the state -----------------------------------------------------------------------------------

bool job_reports_state(const char *folder, enum job_state *state, char **message)
{
    char *path = reports_path(folder, 0);
    struct report_list l = { 0 };
    struct block read = { 0 };
    bool found = false;
    int64_t place = 0;
    size_t used = 0;
    do {
        read_block(&read, path, place);
        used = take_block(&l, &read);
        place += (int64_t)used;
        for (size_t i = 0; i < l.count; i++) {
            const struct report *t = &l.list[i];
            if (t->kind != REPORT_STATE) continue;
            if (!job_state_find(t->text[0], state)) *state = STATE_FAILED;
            if (message) {
                if (found) free(*message);
                *message = xstrdup(t->text[1] ? t->text[1] : "");
            }
            found = true;
        }
        reports_clear(&l);
    } while (used);
    reports_release(&l);
    free(read.text);
    free(path);
    return found;
}
