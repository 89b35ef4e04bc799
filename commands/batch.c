// commands/batch.c -- many questions in one process: data file in, JSON lines out, resumable.
//
// A sample is known by its id and by how often that id came before in the data, so that repeated
// ids lose nothing. The conversation of the person is put aside and every event kept away from the
// front end and the session database, but for the progress.
#include "commands/batch.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "commands/dialogue.h"
#include "core/clock.h"

static const size_t file_limit = (size_t)8 << 30;

// --- the data ------------------------------------------------------------------------------------

struct sample {
    cJSON *json;   // NULL: the line is no JSON, `broken` says why
    char *broken;  //
    char *key;     // id as JSON
    int64_t index; // in the data
    bool done;     // stands in the output
};

struct data {
    struct sample *list;
    size_t count, capacity;
};

static void data_release(struct data *d)
{
    for (size_t i = 0; i < d->count; i++) {
        cJSON_Delete(d->list[i].json);
        free(d->list[i].broken);
        free(d->list[i].key);
    }
    free(d->list);
    *d = (struct data){ 0 };
}

// The id as it is written in the output: "question_id" is LLaVA's name for it in evaluation files.
static char *sample_key(const cJSON *json, int64_t index)
{
    const cJSON *id = json_get(json, "id");
    if (!id) id = json_get(json, "question_id");
    if (!cJSON_IsString(id) && !cJSON_IsNumber(id)) return xasprintf("%lld", (long long)index);
    char *printed = cJSON_PrintUnformatted(id), *key = xstrdup(printed ? printed : "null");
    cJSON_free(printed);
    return key;
}

static void data_add(struct data *d, cJSON *json, const char *broken)
{
    if (d->count == d->capacity) {
        d->capacity = d->capacity ? d->capacity * 2 : 256;
        d->list = xreallocarray(d->list, d->capacity, sizeof *d->list);
    }
    const int64_t index = (int64_t)d->count;
    d->list[d->count++] = (struct sample){ .json = json,
                                           .broken = broken ? xstrdup(broken) : NULL,
                                           .key = sample_key(json, index),
                                           .index = index };
}

static void read_lines(struct data *d, const char *text, size_t size)
{
    const char *end = text + size;
    int line = 1;
    for (const char *p = text, *next; p < end; p = next, line++) {
        const char *stop = memchr(p, '\n', (size_t)(end - p));
        next = stop ? stop + 1 : end;
        const size_t length = (size_t)((stop ? stop : end) - p);
        size_t blank = 0;
        while (blank < length && strchr(" \t\r", p[blank]) && p[blank]) blank++;
        if (blank == length) continue;
        char *why = xasprintf("line %d of the data is not valid JSON", line);
        cJSON *json = json_parse(p, length, "data", NULL);
        data_add(d, json, json ? NULL : why);
        free(why);
    }
}

static bool any_object(const struct data *d)
{
    for (size_t i = 0; i < d->count; i++)
        if (cJSON_IsObject(d->list[i].json)) return true;
    return false;
}

static int read_data(struct data *d, const char *path, struct err *err)
{
    size_t size;
    char *text = file_read(path, file_limit, &size, err);
    if (!text) return -1;
    const char *p = text + strspn(text, " \t\r\n");
    int status = 0;
    if (*p == '[') {
        cJSON *list = json_parse(text, size, path, err), *item;
        status = list ? 0 : -1;
        while (list && (item = list->child)) {
            cJSON_DetachItemViaPointer(list, item);
            data_add(d, item, NULL);
        }
        cJSON_Delete(list);
    } else {
        read_lines(d, text, size);
        if (d->count && !any_object(d))
            status = err_set(err, "'%s' is neither a JSON list of samples nor JSON lines", path);
    }
    free(text);
    if (status == 0 && !d->count) status = err_set(err, "'%s' holds no sample", path);
    return status;
}

// --- what the output already has -----------------------------------------------------------------

struct output {
    int file;
    const char *path;
    char **keys; // ids of its lines, sorted
    size_t count;
};

static int compare_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static int not_results(const struct output *o, struct err *err)
{
    return err_set(err, "'%s' holds something else than answers of /ask: choose another --out",
                   o->path);
}

static int add_line(struct output *o, const char *line, size_t length, struct err *err)
{
    cJSON *json = json_parse(line, length, o->path, NULL);
    const cJSON *id = json_get(json, "id");
    const bool result = id && (json_get(json, "answer") || json_get(json, "error"));
    if (result) {
        o->keys = xreallocarray(o->keys, o->count + 1, sizeof *o->keys);
        o->keys[o->count++] = sample_key(json, 0);
    }
    cJSON_Delete(json);
    return result ? 0 : not_results(o, err);
}

// A last line without its end was cut off by a crash: it goes, when it is one of ours.
static int cut_torn_line(const struct output *o, const char *torn, size_t length, off_t offset,
                         struct err *err)
{
    static const char ours[] = "{\"id\":";
    if (!length) return 0;
    const size_t n = length < sizeof ours - 1 ? length : sizeof ours - 1;
    if (memcmp(torn, ours, n)) return not_results(o, err);
    if (ftruncate(o->file, offset) < 0)
        return err_set(err, "cannot shorten '%s': %s", o->path, strerror(errno));
    return 0;
}

static int read_output(struct output *o, struct err *err)
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
    if (o->count) qsort(o->keys, o->count, sizeof *o->keys, compare_text);
    return status;
}

static int open_output(struct output *o, const char *path, struct err *err)
{
    struct stat st;
    o->path = path;
    o->file = open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (o->file < 0) return err_set(err, "cannot write '%s': %s", path, strerror(errno));
    if (fstat(o->file, &st) < 0 || !S_ISREG(st.st_mode))
        return err_set(err, "'%s' is no plain file: --out must be one", path);
    if (flock(o->file, LOCK_EX | LOCK_NB) < 0)
        return err_set(err, "another run is writing '%s'", path);
    return read_output(o, err);
}

static void output_release(struct output *o)
{
    for (size_t i = 0; i < o->count; i++) free(o->keys[i]);
    free(o->keys);
    if (o->file >= 0) close(o->file);
}

static int compare_samples(const void *a, const void *b)
{
    const struct sample *x = *(struct sample *const *)a, *y = *(struct sample *const *)b;
    const int c = strcmp(x->key, y->key);
    return c ? c : (x->index > y->index) - (x->index < y->index);
}

// Marks, of every id, as many samples as the output has lines of it. Returns how many.
static int64_t mark_done(struct data *d, const struct output *o)
{
    struct sample **sorted = xreallocarray(NULL, d->count, sizeof *sorted);
    int64_t marked = 0;
    for (size_t i = 0; i < d->count; i++) sorted[i] = &d->list[i];
    qsort(sorted, d->count, sizeof *sorted, compare_samples);
    for (size_t i = 0, j = 0; i < d->count && j < o->count;) {
        const int c = strcmp(sorted[i]->key, o->keys[j]);
        if (c == 0) {
            sorted[i]->done = true;
            marked++;
        }
        i += c <= 0;
        j += c >= 0;
    }
    free(sorted);
    return marked;
}

// --- one sample ----------------------------------------------------------------------------------

// Keeps the answer's event as the fields of the result line.
struct capture {
    cJSON *line;
    bool answered, cancelled;
};

static void capture_emit(void *self, const struct event *event)
{
    struct capture *c = self;
    if (event->kind != EVENT_ANSWER) return;
    const struct event_answer *a = event->answer;
    c->cancelled = a->stop && !strcmp(a->stop, "cancelled");
    c->answered = true;
    cJSON_AddStringToObject(c->line, "answer", a->text ? a->text : "");
    cJSON *ids = cJSON_AddArrayToObject(c->line, "ids");
    for (size_t i = 0; i < a->count; i++) cJSON_AddItemToArray(ids, cJSON_CreateNumber(a->ids[i]));
    cJSON_AddNumberToObject(c->line, "prompt_tokens", (double)a->prompt_tokens);
    cJSON_AddNumberToObject(c->line, "visual_tokens", (double)a->visual_tokens);
    cJSON_AddNumberToObject(c->line, "vision_s", a->vision_s);
    cJSON_AddNumberToObject(c->line, "prefill_s", a->prefill_s);
    cJSON_AddNumberToObject(c->line, "decode_s", a->decode_s);
    cJSON_AddStringToObject(c->line, "stop", a->stop ? a->stop : "");
}

struct batch {
    struct shell *shell;
    const struct batch_options *options;
    struct data data;
    struct output output;
    char *folder;      // of relative picture paths
    char *system;      // the person's system message or NULL
    struct sinks said; // where events went before
    int64_t answered, failed;
    bool cancelled;
};

static int answer_dialogue(struct batch *b, const struct dialogue *d, struct err *err)
{
    struct engine *e = b->shell->engine;
    engine_clear(e);
    if (b->system && d->messages[0].role != ROLE_SYSTEM && engine_system(e, b->system, err) < 0)
        return -1;
    if (engine_add_messages(e, d->messages, d->count, (const char *const *)d->paths, d->path_count,
                            err) < 0)
        return -1;
    return engine_answer(e, err);
}

// Answers into c->line. -1 with why not.
static int answer_sample(struct batch *b, const struct sample *s, struct capture *c,
                         struct err *err)
{
    struct dialogue d = { 0 };
    if (!s->json) return err_set(err, "%s", s->broken);
    int status = dialogue_read_sample(&d, s->json, b->folder, err);
    if (status == 0) {
        char *question = message_text(&d.messages[d.count - 1]);
        cJSON_AddStringToObject(c->line, "question", question);
        free(question);
        if (d.reference) cJSON_AddStringToObject(c->line, "reference", d.reference);
        status = answer_dialogue(b, &d, err);
    }
    if (status == 0 && !c->answered) status = err_set(err, "no answer was given");
    dialogue_release(&d);
    return status;
}

// The whole line reaches the disk in one piece, or is cut off again.
static int write_line(const struct output *o, const cJSON *line, struct err *err)
{
    char *text = cJSON_PrintUnformatted(line);
    if (!text) return err_set(err, "out of memory for an answer");
    struct buf b = { 0 };
    buf_puts(&b, text);
    buf_putc(&b, '\n');
    cJSON_free(text);
    const off_t start = lseek(o->file, 0, SEEK_END);
    size_t done = 0;
    ssize_t n = 0;
    while (done < b.length && (n = write(o->file, b.data + done, b.length - done)) >= 0)
        done += (size_t)n;
    int status = 0;
    if (n < 0 || fsync(o->file) < 0) {
        status = err_set(err, "cannot write '%s': %s", o->path, strerror(errno));
        if (ftruncate(o->file, start) < 0) err_in(err, "(a part of a line stays)");
    }
    buf_release(&b);
    return status;
}

static int run_sample(struct batch *b, const struct sample *s, struct err *err)
{
    struct err why = { 0 };
    struct capture c = { .line = cJSON_CreateObject() };
    struct sinks *sinks = b->shell->sinks;
    cJSON_AddRawToObject(c.line, "id", s->key);
    *sinks = (struct sinks){ 0 };
    sinks_add(sinks, (struct sink){ capture_emit, &c });
    const int answered = answer_sample(b, s, &c, &why);
    *sinks = b->said;
    if (answered < 0) cJSON_AddStringToObject(c.line, "error", why.text);
    b->cancelled = c.cancelled;
    const int status = c.cancelled ? 0 : write_line(&b->output, c.line, err);
    if (answered < 0) b->failed++;
    b->answered += answered == 0 && !c.cancelled;
    cJSON_Delete(c.line);
    return status;
}

// --- the run -------------------------------------------------------------------------------------

static void tell_progress(const struct batch *b, int64_t step, int64_t steps, double begin)
{
    const double eta =
        step ? (clock_seconds() - begin) / (double)step * (double)(steps - step) : NAN;
    const struct event_progress p = {
        .what = "answering", .step = (double)step, .steps = (double)steps, .loss = NAN, .eta_s = eta
    };
    sinks_emit(b->shell->sinks, &(struct event){ .kind = EVENT_PROGRESS, .progress = &p });
}

static int run_samples(struct batch *b, int64_t skipped, struct err *err)
{
    int64_t steps = (int64_t)b->data.count - skipped, step = 0;
    const double begin = clock_seconds();
    int status = 0;
    if (b->options->limit && b->options->limit < steps) steps = b->options->limit;
    for (size_t i = 0; i < b->data.count && step < steps && status == 0; i++) {
        if (b->cancelled || b->shell->quit) break;
        if (b->data.list[i].done) continue;
        status = run_sample(b, &b->data.list[i], err);
        if (status == 0 && !b->cancelled) tell_progress(b, ++step, steps, begin);
    }
    return status;
}

static char *system_text(const struct engine *e)
{
    const struct conversation *c = engine_conversation(e);
    if (!c->message_count || c->messages[0].role != ROLE_SYSTEM) return NULL;
    return message_text(&c->messages[0]);
}

int batch_run(struct shell *shell, const struct batch_options *options, struct err *err)
{
    struct batch b = { .shell = shell, .options = options, .output = { .file = -1 } };
    int status = -1;
    if (read_data(&b.data, options->data, err) < 0) goto out;
    if (open_output(&b.output, options->out, err) < 0) goto out;
    const int64_t skipped = mark_done(&b.data, &b.output);
    b.folder = options->images ? xstrdup(options->images) : path_folder(options->data);
    b.system = system_text(shell->engine);
    b.said = *shell->sinks;
    engine_stash(shell->engine);
    status = run_samples(&b, skipped, err);
    engine_unstash(shell->engine);
    if (status == 0)
        sinks_notice(shell->sinks,
                     "%s%lld answered, %lld with errors, %lld were there already: '%s'",
                     b.cancelled || shell->quit ? "stopped: " : "", (long long)b.answered,
                     (long long)b.failed, (long long)skipped, options->out);
out:
    data_release(&b.data);
    output_release(&b.output);
    free(b.folder);
    free(b.system);
    return status;
}
