// commands/batch.c -- many questions in one process: data file in, JSON lines out, resumable.
//
// A sample is identified by its id and the number of earlier samples with that id, so that repeated
// ids lose nothing. The user's conversation is stashed; front end and session database receive no
// events except progress.
#include "commands/batch.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/adapter/provenance.h"
#include "core/base/file_in.h"
#include "core/base/hash.h"
#include "core/base/pace.h"
#include "core/data/dataset.h"
#include "core/text/tokenizer_parts.h"

static const size_t file_limit = (size_t)8 << 30;

// --- the data ------------------------------------------------------------------------------------

struct question {
    char *key;     // id as JSON
    int64_t index; // in the data
    bool done;     // stands in the output
};

struct data {
    struct dataset set;
    struct question *list; // [set.count]
};

static void data_release(struct data *d)
{
    for (int64_t i = 0; d->list && i < d->set.count; i++) free(d->list[i].key);
    free(d->list);
    dataset_close(&d->set);
    d->list = NULL;
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

static int read_data(struct data *d, const char *path, const char *images, struct err *err)
{
    if (dataset_open(&d->set, path, images, err) < 0) return -1;
    d->list = xcalloc((size_t)d->set.count, sizeof *d->list);
    for (int64_t i = 0; i < d->set.count; i++) {
        cJSON *json = dataset_json(&d->set, i, NULL);
        d->list[i] = (struct question){ .key = sample_key(json, i), .index = i };
        cJSON_Delete(json);
    }
    return 0;
}

// --- what the output already has -----------------------------------------------------------------

struct answer_line {
    char *key;      // id
    char *question; // NULL: a sample that could not be read
    char *pictures; // SHA-256 of each, with a blank behind; NULL: nothing was answered
    size_t number;  // of the line, from 1
};

struct output {
    int file;
    const char *path;
    const struct provenance *now; // what new lines come from; NULL: those that are there go anyway
    bool temporary;               // written by --again until it replaces --out
    struct answer_line *lines;    // sorted by id
    size_t count;
};

static int compare_lines(const void *a, const void *b)
{
    const struct answer_line *x = a, *y = b;
    const int c = strcmp(x->key, y->key);
    return c ? c : (x->number > y->number) - (x->number < y->number);
}

static const char *advice(const struct output *o)
{
    return o->temporary ? "or delete that file"
                        : "choose another --out, or use --again to answer all samples again";
}

static int not_results(const struct output *o, struct err *err)
{
    return err_set(err, "'%s' is not an output file of /ask: choose another --out", o->path);
}

// Does the line come from the same model, adapter and settings as those to be written?
static int check_provenance(const struct output *o, const cJSON *json, struct err *err)
{
    struct provenance there;
    struct err why;
    const bool said = provenance_get(&there, json);
    const int status = said ? provenance_same(&there, o->now, &why) : -1;
    provenance_release(&there);
    if (!said)
        err_set(err, "'%s' line %zu does not say which model and settings gave the answer: %s",
                o->path, o->count + 1, advice(o));
    else if (status < 0)
        err_set(err, "'%s' line %zu was answered with other settings: %s; restore them, %s",
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

static int add_line(struct output *o, const char *line, size_t length, struct err *err)
{
    cJSON *json = json_parse(line, length, o->path, NULL);
    const cJSON *id = json_get(json, "id");
    const char *question = cJSON_GetStringValue(json_get(json, "question"));
    const bool result = id && (json_get(json, "answer") || json_get(json, "error"));
    int status = result ? 0 : not_results(o, err);
    if (status == 0 && o->now) status = check_provenance(o, json, err);
    if (status == 0) {
        o->lines = xreallocarray(o->lines, o->count + 1, sizeof *o->lines);
        o->lines[o->count] =
            (struct answer_line){ .key = sample_key(json, 0),
                                  .question = question ? xstrdup(question) : NULL,
                                  .pictures =
                                      json_get(json, "answer") ? pictures_there(json) : NULL,
                                  .number = o->count + 1 };
        o->count++;
    }
    cJSON_Delete(json);
    return status;
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
        return err_set(err, "cannot truncate '%s': %s", o->path, strerror(errno));
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
    if (o->count) qsort(o->lines, o->count, sizeof *o->lines, compare_lines);
    return status;
}

static void free_lines(struct output *o)
{
    for (size_t i = 0; i < o->count; i++) {
        free(o->lines[i].key);
        free(o->lines[i].question);
        free(o->lines[i].pictures);
    }
    free(o->lines);
    o->lines = NULL;
    o->count = 0;
}

// `now` NULL: only what is no answer is refused.
static int open_output(struct output *o, const char *path, const struct provenance *now,
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

static void output_release(struct output *o)
{
    free_lines(o);
    if (o->file >= 0) close(o->file);
}

static int compare_samples(const void *a, const void *b)
{
    const struct question *x = *(struct question *const *)a, *y = *(struct question *const *)b;
    const int c = strcmp(x->key, y->key);
    return c ? c : (x->index > y->index) - (x->index < y->index);
}

static int other_question(const struct question *q, const struct output *o,
                          const struct answer_line *line, const char *asked, struct err *err)
{
    enum { MOST = 60 };
    return err_set(err,
                   "'%s' line %zu answers \"%.*s\", but sample %s of the data asks \"%.*s\": %s",
                   o->path, line->number, utf8_head(line->question, MOST), line->question, q->key,
                   utf8_head(asked, MOST), asked, advice(o));
}

// Are the sample's pictures those that the line's answer saw?
static int check_pictures(const struct dialogue *d, const struct question *q,
                          const struct output *o, const struct answer_line *line, struct err *err)
{
    struct buf b = { 0 };
    char hex[HASH_HEX];
    int status = 0;
    buf_puts(&b, "");
    for (size_t i = 0; i < d->path_count && status == 0; i++) {
        status = hash_file(d->paths[i], hex, err);
        buf_printf(&b, "%s ", hex);
    }
    if (status == 0 && strcmp(b.data, line->pictures) != 0)
        status = err_set(err,
                         "'%s' line %zu was answered for other pictures than sample %s has now "
                         "(SHA-256): restore them, %s",
                         o->path, line->number, q->key, advice(o));
    buf_release(&b);
    return status;
}

// Are the sample's question and pictures those that the line answers? Samples that cannot be read
// have none.
static int check_question(const struct data *d, const struct question *q, const struct output *o,
                          const struct answer_line *line, struct err *err)
{
    struct dialogue dialogue = { 0 };
    int status = 0;
    cJSON *json = line->question ? dataset_json(&d->set, q->index, NULL) : NULL;
    if (json && dialogue_read_sample(&dialogue, json, d->set.folder, NULL) == 0) {
        char *asked = message_text(&dialogue.messages[dialogue.count - 1]);
        if (strcmp(asked, line->question) != 0)
            status = other_question(q, o, line, asked, err);
        else if (line->pictures)
            status = check_pictures(&dialogue, q, o, line, err);
        free(asked);
    }
    dialogue_release(&dialogue);
    cJSON_Delete(json);
    return status;
}

// Marks, of every id, as many samples as the output has lines of it. Returns how many, or -1.
static int64_t mark_done(struct data *d, const struct output *o, struct err *err)
{
    const size_t count = (size_t)d->set.count;
    struct question **sorted = xreallocarray(NULL, count, sizeof *sorted);
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

// --- one sample ----------------------------------------------------------------------------------

// Keeps the answer's event as the fields of the result line.
struct capture {
    const struct batch *batch;
    cJSON *line;
    bool answered, cancelled, full;
    bool changed; // what the answer comes from, while it was given
    struct err change;
};

struct batch {
    struct shell *shell;
    const struct batch_options *options;
    struct provenance provenance;
    struct data data;
    struct output output;
    char *system;      // the person's system message or NULL
    struct sinks said; // where events went before
    int64_t answered, failed;
    int64_t full; // answers that the end of the context cut off
    bool cancelled;
};

static void state_now(const struct batch *b, struct provenance *p)
{
    engine_provenance(b->shell->engine, STALE_NEXT, p);
    if (b->system) provenance_add(p, "system message", b->system);
}

// Settings may change in the middle of an answer (/later, a live /set), the date at midnight.
static void note_change(struct capture *c)
{
    struct provenance now;
    state_now(c->batch, &now);
    c->changed |= provenance_same(&c->batch->provenance, &now, c->changed ? NULL : &c->change) < 0;
    provenance_release(&now);
}

// The user's settings change permanently, so this is reported, but not as part of the answer.
static void report_setting(const struct batch *b, const struct event *event)
{
    struct event told = *event;
    told.count = 0;
    sinks_emit(&b->said, &told);
}

static void capture_emit(void *self, const struct event *event)
{
    struct capture *c = self;
    if (event->kind == EVENT_SETTING) {
        report_setting(c->batch, event);
        note_change(c);
    }
    if (event->kind != EVENT_ANSWER) return;
    const struct event_answer *a = event->answer;
    c->cancelled = a->stop && !strcmp(a->stop, "cancelled");
    c->answered = true;
    c->full = a->full;
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

static void put_pictures(const struct conversation *c, cJSON *line)
{
    cJSON *list = c->picture_count ? cJSON_AddArrayToObject(line, "pictures") : NULL;
    for (size_t i = 0; i < (size_t)c->picture_count; i++)
        cJSON_AddItemToArray(list, cJSON_CreateString(c->pictures[i].sha256));
}

static int answer_dialogue(struct batch *b, const struct dialogue *d, cJSON *line, struct err *err)
{
    struct engine *e = b->shell->engine;
    engine_clear(e);
    if (b->system && d->messages[0].role != ROLE_SYSTEM && engine_system(e, b->system, err) < 0)
        return -1;
    if (engine_add_messages(e, d->messages, d->count, (const char *const *)d->paths, d->path_count,
                            err) < 0)
        return -1;
    put_pictures(engine_conversation(e), line);
    return engine_answer(e, err);
}

// Answers into c->line. -1 with why not.
static int answer_sample(struct batch *b, const struct question *q, struct capture *c,
                         struct err *err)
{
    struct dialogue d = { 0 };
    cJSON *json = dataset_json(&b->data.set, q->index, err);
    if (!json) return -1;
    int status = dialogue_read_sample(&d, json, b->data.set.folder, err);
    if (status == 0) {
        char *question = message_text(&d.messages[d.count - 1]);
        cJSON_AddStringToObject(c->line, "question", question);
        free(question);
        if (d.reference) cJSON_AddStringToObject(c->line, "reference", d.reference);
        status = answer_dialogue(b, &d, c->line, err);
    }
    if (status == 0 && !c->answered) status = err_set(err, "the model gave no answer");
    dialogue_release(&d);
    cJSON_Delete(json);
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
        if (ftruncate(o->file, start) < 0) err_in(err, "(an incomplete line remains)");
    }
    buf_release(&b);
    return status;
}

// An answer computed under two states belongs to neither.
static int changed(const struct capture *c, struct err *err)
{
    return err_set(err,
                   "stopped because a setting changed during the run: %s; '%s' keeps the answers "
                   "so far: restore the setting to continue, or choose another --out",
                   c->change.text, c->batch->output.path);
}

static int run_sample(struct batch *b, const struct question *q, struct err *err)
{
    struct err why = { 0 };
    struct capture c = { .batch = b, .line = cJSON_CreateObject() };
    struct sinks *sinks = b->shell->sinks;
    cJSON_AddRawToObject(c.line, "id", q->key);
    *sinks = (struct sinks){ 0 };
    sinks_add(sinks, (struct sink){ capture_emit, &c });
    const int answered = answer_sample(b, q, &c, &why);
    *sinks = b->said;
    note_change(&c);
    if (answered < 0) cJSON_AddStringToObject(c.line, "error", why.text);
    provenance_put(&b->provenance, c.line);
    b->cancelled = c.cancelled;
    int status = 0;
    if (!c.cancelled) status = c.changed ? changed(&c, err) : write_line(&b->output, c.line, err);
    if (answered < 0) b->failed++;
    b->answered += answered == 0 && !c.cancelled;
    b->full += c.full;
    cJSON_Delete(c.line);
    return status;
}

// --- the run -------------------------------------------------------------------------------------

static int run_samples(struct batch *b, int64_t skipped, struct err *err)
{
    int64_t steps = b->data.set.count - skipped, step = 0;
    struct pace pace = pace_from(0);
    int status = 0;
    if (b->options->limit && b->options->limit < steps) steps = b->options->limit;
    for (int64_t i = 0; i < b->data.set.count && step < steps && status == 0; i++) {
        if (b->cancelled || b->shell->quit) break;
        if (b->data.list[i].done) continue;
        status = run_sample(b, &b->data.list[i], err);
        if (status == 0 && !b->cancelled)
            sinks_progress(b->shell->sinks, &pace, "answering", (double)++step, (double)steps);
    }
    return status;
}

static char *system_text(const struct engine *e)
{
    const struct conversation *c = engine_conversation(e);
    if (!c->message_count || c->messages[0].role != ROLE_SYSTEM) return NULL;
    return message_text(&c->messages[0]);
}

// Beside --out, links followed.
static char *temporary_path(const char *out)
{
    char *real = realpath(out, NULL), *path = xasprintf("%s.again", real ? real : out);
    free(real);
    return path;
}

// With --again, existing answers stay until all new ones are written: these go to a temporary file
// beside them, which an interrupted run continues. `former` keeps --out locked.
static int open_outputs(struct batch *b, struct output *former, char **temporary, struct err *err)
{
    const struct batch_options *o = b->options;
    if (!o->again) return open_output(&b->output, o->out, &b->provenance, err);
    if (open_output(former, o->out, NULL, err) < 0) return -1;
    if (!former->count) {
        output_release(former);
        former->file = -1;
        return open_output(&b->output, o->out, &b->provenance, err);
    }
    *temporary = temporary_path(o->out);
    b->output.temporary = true;
    return open_output(&b->output, *temporary, &b->provenance, err);
}

// Replaces --out once all samples are answered again.
static int put_in_place(const struct batch *b, const char *temporary, int64_t skipped,
                        struct err *err)
{
    const char *out = b->options->out;
    char *real = realpath(out, NULL);
    const bool whole = skipped + b->answered + b->failed == b->data.set.count;
    int status = 0;
    if (!whole)
        sinks_notice(b->shell->sinks,
                     "'%s' is unchanged until all samples are answered again; '%s' holds the new "
                     "answers, and the same command continues there",
                     out, temporary);
    else if (rename(temporary, real ? real : out) < 0)
        status = err_set(err, "cannot replace '%s' with '%s': %s", temporary, out, strerror(errno));
    free(real);
    return status;
}

static void report_done(const struct batch *b, int64_t skipped, const char *path)
{
    struct buf t = { 0 };
    size_t errors = 0;
    for (size_t i = 0; i < b->output.count; i++) errors += !b->output.lines[i].pictures;
    buf_printf(&t, "%s%lld answered, %lld with errors, %lld already there",
               b->cancelled || b->shell->quit ? "stopped: " : "", (long long)b->answered,
               (long long)b->failed, (long long)skipped);
    if (errors) buf_printf(&t, " (%zu with errors: delete these lines to ask again)", errors);
    buf_printf(&t, ": '%s'", path);
    if (b->full) buf_printf(&t, "; %lld hit the context limit (ctx.max)", (long long)b->full);
    sinks_notice(b->shell->sinks, "%s", t.data);
    buf_release(&t);
}

int batch_run(struct shell *shell, const struct batch_options *options, struct err *err)
{
    struct batch b = { .shell = shell, .options = options, .output = { .file = -1 } };
    struct output former = { .file = -1 };
    char *temporary = NULL;
    int64_t skipped = 0;
    int status = -1;
    b.system = system_text(shell->engine);
    state_now(&b, &b.provenance);
    if (read_data(&b.data, options->data, options->images, err) < 0) goto out;
    if (open_outputs(&b, &former, &temporary, err) < 0) goto out;
    if ((skipped = mark_done(&b.data, &b.output, err)) < 0) goto out;
    b.said = *shell->sinks;
    engine_stash(shell->engine);
    status = run_samples(&b, skipped, err);
    engine_unstash(shell->engine);
    if (status == 0) report_done(&b, skipped, options->out);
    if (status == 0 && temporary) status = put_in_place(&b, temporary, skipped, err);
out:
    data_release(&b.data);
    output_release(&b.output);
    output_release(&former);
    provenance_release(&b.provenance);
    free(b.system);
    free(temporary);
    return status;
}
