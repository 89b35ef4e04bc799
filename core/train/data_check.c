// core/train/data_check.c -- checks every sample: reads it and its pictures, and makes its rows and
// targets as training does. A picture file shared by several samples is checked once.
#include "core/train/data_check.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/base/hash.h"
#include "core/data/dataset.h"
#include "core/data/dialogue.h"
#include "core/data/labels.h"
#include "core/picture/source.h"
#include "core/picture/zipped.h"
#include "core/template/message.h"

const char *data_problem_name(enum data_problem problem)
{
    static const char *const names[DATA_PROBLEMS] = {
        "not readable", "marks differ", "picture missing", "picture broken",
        "too long",     "no answer",    "same id",
    };
    return names[problem];
}

// Findings about a picture file.
struct picture_file {
    int64_t width, height;
    char *why; // why it cannot be used; NULL: usable
    enum data_problem problem;
    size_t content; // index in contents, if the file could be read
};

struct checking {
    struct data_check *c;
    const struct dataset *d;
    const struct model *m;
    const struct settings *s;
    const struct data_check_options *o;
    struct names ids, paths;
    struct picture_file *files; // [paths.count]
    size_t file_capacity;
    struct image_decoder *decoder;
    struct hash bytes; // of the pictures
    int64_t *shown;    // [contents.count] a sample that shows the picture; -1: none yet
};

static void add_finding(struct data_check *c, enum data_problem problem, const struct sample *s,
                        const char *why)
{
    c->findings = xgrow(c->findings, &c->finding_capacity, c->finding_count, sizeof *c->findings);
    c->findings[c->finding_count++] = (struct data_finding){
        .problem = problem,
        .index = s->index,
        .line = s->line,
        .id = s->id ? xstrdup(s->id) : xasprintf("#%lld", (long long)s->index),
        .why = xstrdup(why),
    };
}

// --- pictures ------------------------------------------------------------------------------------

static void read_picture_file(struct picture_file *f, struct checking *k, const char *path,
                              size_t shown)
{
    struct stat st;
    struct err err;
    size_t size;
    *f = (struct picture_file){ .problem = DATA_PICTURE_MISSING };
    const bool file = picture_source_is_file(path) && strlen(path) <= PATH_MAX;
    if (file && stat(path, &st) < 0) {
        const int why = errno, found = zipped_find(path, &err);
        if (!found) f->why = xasprintf("'%s': %s", path, strerror(why));
        if (found < 0) f->why = xstrdup(err.text);
        if (found <= 0) return;
    }
    char *bytes = picture_source_read(path, IMAGE_MAX_FILE, &size, &err);
    if (!picture_source_is_url(path)) f->problem = DATA_PICTURE_BROKEN;
    if (!bytes) {
        f->why = xstrdup(err.text);
        return;
    }
    struct image image;
    char *title = picture_source_title(path);
    f->problem = DATA_PICTURE_BROKEN;
    char hex[HASH_HEX];
    bool known;
    hash_add(&k->bytes, &size, sizeof size);
    hash_add(&k->bytes, bytes, size);
    hash_hex(bytes, size, hex);
    f->content = names_add(&k->c->contents, hex, &known);
    if (!known) {
        k->shown = xreallocarray(k->shown, k->c->contents.capacity, sizeof *k->shown);
        k->shown[f->content] = -1;
    }
    data_notices_picture(&k->c->notices, path, bytes, size);
    if (image_size(bytes, size, title, &f->width, &f->height, &err) < 0 ||
        (k->o->decode && image_decoder_run(k->decoder, &image, bytes, size, title, &err) < 0))
        f->why = xstrdup(err.text);
    else if (k->o->decode) {
        if (k->o->picture) k->o->picture(k->o->self, path, shown, &image);
        image_release(&image);
    }
    free(title);
    free(bytes);
}

static const struct picture_file *check_picture(struct checking *k, const char *path, size_t shown)
{
    bool known;
    const size_t i = names_add(&k->paths, path, &known);
    if (known) return &k->files[i];
    k->files = xgrow(k->files, &k->file_capacity, i, sizeof *k->files);
    read_picture_file(&k->files[i], k, path, shown);
    return &k->files[i];
}

// Returns the first sample of a sample's group, as known so far.
static int64_t group_of(struct data_check *c, int64_t index)
{
    struct data_sample *s = c->samples;
    while (s[index].group != index) index = s[index].group = s[s[index].group].group;
    return index;
}

// Computes the token counts of the sample's pictures; -1, after adding a finding, if one cannot be
// used.
static int check_pictures(struct checking *k, const struct sample *s, struct picture *pictures)
{
    const size_t shown = s->dialogue.path_count;
    for (size_t i = 0; i < shown; i++) {
        const struct picture_file *f = check_picture(k, s->dialogue.paths[i], shown);
        if (f->why) {
            add_finding(k->c, f->problem, s, f->why);
            return -1;
        }
        model_size_picture(k->m, &pictures[i], f->width, f->height, shown, preprocess_limit(k->s));
        struct err err;
        if (model_check_picture(k->m, &pictures[i], &err) == 0) continue;
        char *title = picture_source_title(s->dialogue.paths[i]);
        err_in(&err, "'%s'", title);
        free(title);
        add_finding(k->c, DATA_PICTURE_BROKEN, s, err.text);
        return -1;
    }
    return 0;
}

// --- samples -------------------------------------------------------------------------------------

// Checks the rows and targets that training would make.
static bool check_rows(struct checking *k, const struct sample *s, const struct picture *pictures,
                       struct data_sample *to)
{
    const struct dialogue *d = &s->dialogue;
    struct labels l;
    struct err err;
    if (labels_make(&l, d->messages, d->count, pictures, d->path_count, k->m, k->s, &err) < 0) {
        add_finding(k->c, DATA_UNREADABLE, s, err.text);
        return false;
    }
    to->visual = (int32_t)sequence_visual_count(&l.sequence, 0);
    to->text = (int32_t)l.sequence.n - to->visual;
    to->trained = (int32_t)l.trained;
    to->counted = true;
    const struct sequence *q = &l.sequence;
    const int64_t limit = k->o->limit;
    bool good = q->n <= limit;
    if (!good) {
        const bool inside = limit > 0 && q->picture[limit] >= 0 && q->cell[limit] > 0;
        char *why = xasprintf("%lld tokens, but the context holds %lld%s", (long long)q->n,
                              (long long)limit, inside ? " and would end inside a picture" : "");
        add_finding(k->c, DATA_TOO_LONG, s, why);
        free(why);
    }
    if (!l.trained || !labels_answered(d->messages, d->count)) {
        add_finding(k->c, DATA_NO_ANSWER, s, dialogue_unanswered(d->messages, d->count));
        good = false;
    }
    labels_release(&l);
    if (good) data_notices_texts(&k->c->notices, k->m->tokenizer, s, DATA_PROMPT | DATA_ANSWERS);
    return good;
}

static void check_sample(struct checking *k, const struct sample *s, struct data_sample *to)
{
    const struct dialogue *d = &s->dialogue;
    for (size_t i = 0; i < d->count; i++) {
        const bool answer = d->messages[i].role == ROLE_ASSISTANT;
        to->answers += answer;
        k->c->notices.untrained += answer && d->messages[i].untrained;
    }
    to->pictures = (int32_t)d->path_count;
    bool known = false;
    if (s->id) names_add(&k->ids, s->id, &known);
    if (known) add_finding(k->c, DATA_SAME_ID, s, "an earlier sample has the same id");
    if (d->marks_differ) {
        char *why =
            xasprintf("%zu pictures, but \"<image>\" marks for %zu", d->path_count, d->placed);
        add_finding(k->c, DATA_MARKS, s, why);
        free(why);
        return;
    }
    struct picture *pictures = xcalloc(d->path_count + 1, sizeof *pictures);
    // A text-only model does not count pictures; preparing the rows reports the error.
    if (!model_has_vision(k->m) || check_pictures(k, s, pictures) == 0)
        to->usable = check_rows(k, s, pictures, to);
    free(pictures);
    // An unusable sample does not link others.
    struct data_sample *samples = k->c->samples;
    for (size_t i = 0; to->usable && model_has_vision(k->m) && i < d->path_count; i++) {
        int64_t *shown = &k->shown[check_picture(k, d->paths[i], d->path_count)->content];
        const int64_t own = group_of(k->c, s->index);
        if (*shown >= 0) {
            const int64_t other = group_of(k->c, *shown), first = other < own ? other : own;
            samples[other].group = samples[own].group = first;
        }
        *shown = samples[s->index].group = group_of(k->c, s->index);
    }
}

static void check_index(struct checking *k, int64_t index)
{
    struct data_sample *to = &k->c->samples[index];
    struct sample s;
    struct err err;
    const int status = dataset_read(k->d, index, &s, &err);
    // A broken sample has no kind that could exclude it.
    to->chosen = s.broken || k->o->kind_count == 0;
    for (size_t i = 0; i < k->o->kind_count; i++) to->chosen |= !strcmp(k->o->kinds[i], s.kind);
    to->kind = (int32_t)names_add(&k->c->kinds, s.kind, NULL);
    if (to->chosen && status < 0)
        add_finding(k->c, s.dialogue.marks_differ ? DATA_MARKS : DATA_UNREADABLE, &s, err.text);
    else if (to->chosen)
        check_sample(k, &s, to);
    if (to->chosen) data_notices_sample(&k->c->notices, k->m->tokenizer, &s, DATA_UNUSED_CHOICES);
    k->c->chosen += to->chosen;
    k->c->usable += to->usable;
    sample_release(&s);
}

int data_check_run(struct data_check *c, const struct dataset *d, const struct model *m,
                   const struct settings *s, const struct data_check_options *o, struct err *err)
{
    struct checking k = { .c = c, .d = d, .m = m, .s = s, .o = o };
    struct prompt_options prompt;
    int status = 0;
    *c = (struct data_check){ .count = d->count };
    if (model_prompt(m, s, false, &prompt, err) < 0) return -1;
    c->notices.plain = prompt.plain_data;
    c->samples = xcalloc((size_t)d->count + 1, sizeof *c->samples);
    for (int64_t i = 0; i < d->count; i++) c->samples[i].group = i;
    k.decoder = image_decoder_new();
    hash_start(&k.bytes);
    for (int64_t i = 0; i < d->count && status == 0; i++) {
        check_index(&k, i);
        if (o->report && !o->report(o->self, i + 1, d->count))
            status = err_set(err, "stopped after %lld of %lld samples", (long long)(i + 1),
                             (long long)d->count);
    }
    for (int64_t i = 0; i < d->count; i++) c->samples[i].group = group_of(c, i);
    for (size_t i = 0, kind; i < o->kind_count; i++)
        if (!names_find(&c->kinds, o->kinds[i], &kind))
            data_notices_absent(&c->notices, o->kinds[i]);
    image_decoder_free(k.decoder);
    free(k.shown);
    c->picture_files = k.paths.count;
    hash_end(&k.bytes, c->pictures);
    for (size_t i = 0; i < k.paths.count; i++) free(k.files[i].why);
    free(k.files);
    names_release(&k.paths);
    names_release(&k.ids);
    if (status < 0) data_check_release(c);
    return status;
}

void data_check_release(struct data_check *c)
{
    data_notices_release(&c->notices);
    for (size_t i = 0; i < c->finding_count; i++) {
        free(c->findings[i].id);
        free(c->findings[i].why);
    }
    free(c->findings);
    free(c->samples);
    names_release(&c->kinds);
    names_release(&c->contents);
    *c = (struct data_check){ 0 };
}
