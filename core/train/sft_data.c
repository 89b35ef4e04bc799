// core/train/sft_data.c -- the samples for training and validation.
//
// Every sample is checked before training: an unusable one is skipped, never truncated; the log
// names the first of them. Pictures are decoded once here (for a forecast, only their headers are
// read), so that a broken one does not stop a run hours later.
#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/hash.h"
#include "core/base/text.h"
#include "core/data/order.h"
#include "core/model/families/family.h"
#include "core/sets/set.h"
#include "core/talk/conversation.h"
#include "core/train/data_check.h"
#include "core/train/sft_parts.h"

enum { NAMED = 10 }; // findings in the log

struct checked {
    struct sft *t;
    struct sft_set *set;
};

static bool report(void *self, int64_t done, int64_t count)
{
    const struct checked *c = self;
    job_yield(c->t->job);
    return job_stopped(c->t->job) == JOB_GO;
}

// Caches a picture that the check has decoded, so that the first epoch need not decode it again.
static void take_picture(void *self, const char *path, size_t shown, struct image *image)
{
    struct checked *c = self;
    loader_keep(&c->set->loader, path, shown, image);
}

// Returns the kinds of train.filter, which the caller releases.
static struct names read_filter(const struct settings *s)
{
    struct names kinds = { 0 };
    char *words = xstrdup(settings_text(s, "train.filter")), *save;
    if (!settings_is(s, "train.filter", "none"))
        for (char *k = strtok_r(words, ", \t", &save); k; k = strtok_r(NULL, ", \t", &save))
            names_add(&kinds, k, NULL);
    free(words);
    return kinds;
}

// Logs the first problems, remarks on the data, and the number of usable samples.
static void report_findings(struct job *j, const struct data_check *c, const char *path)
{
    size_t logged = 0;
    char *remark;
    for (size_t i = 0; i < c->finding_count; i++) {
        const struct data_finding *f = &c->findings[i];
        if (f->problem == DATA_SAME_ID || logged++ >= NAMED) continue;
        job_log(j, "skipped: sample %s (line %lld): %s: %s", f->id, (long long)f->line,
                data_problem_name(f->problem), f->why);
    }
    if (logged > NAMED)
        job_log(j, "... and %zu more; /data check %s lists them all", logged - NAMED, path);
    for (int i = 0; (remark = data_notice(&c->notices, i)); i++) {
        job_log(j, "'%s': %s", path, remark);
        free(remark);
    }
    job_log(j, "using %lld of %lld samples of '%s'", (long long)c->usable, (long long)c->count,
            path);
}

// Sets the error of a file without usable samples.
static int none_usable(const struct data_check *c, const char *path, struct err *err)
{
    if (!c->chosen)
        return err_set(
            err, "'%s' has no sample of the kinds in train.filter: /data check lists its kinds",
            path);
    for (size_t i = 0; i < c->finding_count; i++)
        if (c->findings[i].problem != DATA_SAME_ID)
            return err_set(err, "no sample of '%s' is usable for training; sample %s: %s: %s", path,
                           c->findings[i].id, data_problem_name(c->findings[i].problem),
                           c->findings[i].why);
    return err_set(err, "no sample of '%s' has a trained token", path);
}

// Takes the check's usable samples, and a summary of the others.
static void take(struct sft_set *set, const struct data_check *c)
{
    set->item = xreallocarray(NULL, (size_t)c->usable + 1, sizeof *set->item);
    set->length = xreallocarray(NULL, (size_t)c->usable + 1, sizeof *set->length);
    set->trained = xreallocarray(NULL, (size_t)c->usable + 1, sizeof *set->trained);
    set->group = xreallocarray(NULL, (size_t)c->usable + 1, sizeof *set->group);
    for (int64_t i = 0; i < c->count; i++) {
        const struct data_sample *s = &c->samples[i];
        if (!s->usable || s->trained == 0) continue;
        if (s->trained > set->answer) set->answer = s->trained;
        set->item[set->count] = i;
        set->group[set->count] = s->group;
        set->trained[set->count] = (int32_t)s->trained;
        set->length[set->count++] = s->text + s->visual;
    }
    set->chosen = c->chosen;
    set->skipped = c->chosen - c->usable;
    set->unread = key_counts_text(&c->notices.unread);
    char *absent = data_notices_absent_text(&c->notices);
    if (absent) text_append(&set->unread, absent);
    for (size_t i = 0; i < c->finding_count && !set->why; i++) {
        const struct data_finding *f = &c->findings[i];
        if (f->problem != DATA_SAME_ID)
            set->why = xasprintf("%s: %s: %s", f->id, data_problem_name(f->problem), f->why);
    }
}

// Opens a data file and collects its usable samples. 0, JOB_STOPPED or -1.
static int open_set(struct sft *t, struct sft_set *set, const char *path, const char *images,
                    struct err *err)
{
    struct job *j = t->job;
    struct data_check c = { 0 };
    struct checked checked = { t, set };
    if (dataset_open(&set->data, path, images, err) < 0) return -1;
    set->loader = (struct loader){
        .data = &set->data, .model = j->model, .settings = j->settings, .backend = j->backend
    };
    struct names kinds = read_filter(j->settings);
    const struct data_check_options o = {
        .kinds = (const char *const *)kinds.list,
        .kind_count = kinds.count,
        .decode = !t->headers,
        .limit = conversation_limit(j->model, j->settings),
        .picture = take_picture,
        .report = report,
        .self = &checked,
    };
    int status = data_check_run(&c, &set->data, j->model, j->settings, &o, err);
    if (job_stopped(j) != JOB_GO)
        status = JOB_STOPPED;
    else if (status == 0) {
        report_findings(j, &c, path);
        take(set, &c);
        set->picture_files = c.picture_files;
        set->contents = c.contents;
        c.contents = (struct names){ 0 };
        memcpy(set->pictures, c.pictures, sizeof set->pictures);
        if (!set->count) status = none_usable(&c, path, err);
    }
    data_check_release(&c);
    names_release(&kinds);
    return status;
}

// Moves about `asked` samples from training to validation, together with all others that show the
// same pictures: validation on pictures seen in training would be misleading.
static int split(struct sft *t, int64_t asked, struct err *err)
{
    struct sft_set *from = &t->train, *to = &t->validation;
    bool *chosen = xcalloc((size_t)from->count + 1, sizeof *chosen);
    const int64_t seed =
        t->series ? t->series->seed : settings_integer(t->job->settings, "train.seed");
    const int64_t count = order_split(chosen, from->group, from->count, asked, (uint64_t)seed);
    to->item = xreallocarray(NULL, (size_t)count + 1, sizeof *to->item);
    int64_t kept = 0;
    for (int64_t i = 0; i < from->count; i++) {
        if (chosen[i]) {
            to->item[to->count++] = from->item[i];
        } else {
            from->item[kept] = from->item[i];
            from->group[kept] = from->group[i];
            from->trained[kept] = from->trained[i];
            from->length[kept++] = from->length[i];
        }
    }
    from->count = kept;
    free(chosen);
    if (!count)
        return err_set(
            err,
            "train.validation %s: all usable samples are linked by shared pictures and cannot be "
            "split; set train.validation to a data file with other pictures, or to none",
            settings_text(t->job->settings, "train.validation"));
    job_log(t->job, "%lld %s held out for validation, %lld requested%s", (long long)count,
            count == 1 ? "sample is" : "samples are", (long long)asked,
            from->picture_files ? "; training uses none of their pictures" : "");
    return 0;
}

// Returns the file that train.validation names; NULL if it holds out a fraction of the samples
// (*share), names evaluation sets, or is off.
static const char *file_of_validation(const struct settings *s, const struct sft_sets *sets,
                                      double *share)
{
    const char *text = settings_text(s, "train.validation");
    char *end;
    *share = strtod(text, &end);
    if (settings_is(s, "train.validation", "none")) return NULL;
    return (end == text || *end) && !sets->count ? text : NULL;
}

int sft_validation_check(const struct settings *s, struct err *err)
{
    double share;
    struct sft_sets sets;
    if (sft_sets_read(&sets, s, err) < 0) return -1;
    const char *file = file_of_validation(s, &sets, &share);
    int status = file ? dataset_check(file, err) : 0;
    for (size_t i = 0; i < sets.count && status == 0; i++)
        status = set_source_check(&sets.list[i].from, err);
    sft_sets_release(&sets);
    return status == 0 ? 0 : err_in(err, "train.validation");
}

// Checks a picture of each set before training, not at the first validation, and reports the set.
static int check_sets(const struct sft *t, struct err *err)
{
    bool pictures;
    for (size_t i = 0; i < t->sets.count; i++) {
        const struct sft_scored *one = &t->sets.list[i];
        int status = set_source_check_picture(&one->data, &pictures, err);
        if (status < 0 && pictures && !one->from.images)
            err_in(err, "name the folder of its pictures as SET:FILE:DIR");
        if (pictures && !t->job->model->family->pictures)
            status = err_set(err, "it has pictures, but the model is text-only");
        if (status < 0) return err_in(err, "train.validation: %s", one->name);
        job_log(t->job, "validation: %s as %s, %lld sample%s of '%s'", one->name,
                one->from.way->suite, (long long)one->data.count, one->data.count == 1 ? "" : "s",
                one->from.data);
    }
    return 0;
}

static int open_validation(struct sft *t, struct err *err)
{
    const struct settings *s = t->job->settings;
    const char *text = settings_text(s, "train.validation");
    double share;
    const char *file = file_of_validation(s, &t->sets, &share);
    t->validation_file = file != NULL;
    if (t->sets.count) return check_sets(t, err);
    if (file) { // a separate data file
        size_t both = 0, which;
        const int status = open_set(t, &t->validation, file, t->options.images, err);
        for (size_t i = 0; status == 0 && i < t->validation.contents.count; i++)
            both += names_find(&t->train.contents, t->validation.contents.list[i], &which);
        if (both)
            job_log(t->job,
                    "%zu of the %zu pictures in '%s' are also used for training: validation is "
                    "less reliable",
                    both, t->validation.contents.count, file);
        return status;
    }
    if (settings_is(s, "train.validation", "none")) return 0;
    if (!(share >= 0 && share < 1))
        return err_set(err, "train.validation %s: a fraction must be at least 0 and below 1", text);
    if (share == 0) return 0;
    const int64_t n = t->train.count;
    if (n < 2)
        return err_set(err, "train.validation %s: with one usable sample, none can be held out",
                       text);
    int64_t count = (int64_t)nearbyint(share * (double)n);
    if (count < 1) count = 1;
    if (count > n - 1) count = n - 1;
    return split(t, count, err);
}

// --- identity ------------------------------------------------------------------------------------

// Lists the settings that change the computed numbers; other settings may change before a run is
// resumed. Validations answer greedily (core/eval/evaluate.c), so sampling does not count.
static char *list_settings(const struct job *j, const char *but)
{
    struct buf b = { 0 };
    const struct setting *row;
    for (int i = 0; (row = settings_row(i)); i++) {
        if (row->use == USE_SAMPLING || row->use == USE_SEED || row->stale < STALE_TRAINING ||
            row->stale == STALE_MEASURED || (but && !strcmp(row->key, but)))
            continue;
        // `auto` may mean another precision on another device.
        char *choice = row->type == SETTING_CHOICE
                           ? setting_effective(row, j->model, j->backend, j->settings)
                           : NULL;
        buf_printf(&b, "%s=%s\n", row->key, choice ? choice : settings_text(j->settings, row->key));
        free(choice);
    }
    return buf_take(&b);
}

struct identity sft_identity(const struct sft *t)
{
    struct checkpoint *c = t->job->model->checkpoint;
    const struct sft_hashes *h = &t->plan.hashes;
    return (struct identity){ .settings = t->plan.settings,
                              .model = c->fingerprint,
                              .files = c->files,
                              .checkpoint = c,
                              .data = h->data,
                              .validation = h->validation,
                              .adapter = h->adapter,
                              .calibration = h->calibration,
                              .pictures = *h->pictures ? h->pictures : NULL,
                              .samples = *h->samples ? h->samples : NULL };
}

// SHA-256 over the hashes of an adapter's files.
static int hash_adapter(const char *folder, char hex[HASH_HEX], struct err *err)
{
    static const char *const names[] = { "adapter_config.json", "adapter_model.safetensors",
                                         "extra.safetensors" };
    struct hash h;
    int status = 0;
    hash_start(&h);
    for (size_t i = 0; i < sizeof names / sizeof *names && status == 0; i++) {
        char one[HASH_HEX] = "", *path = xasprintf("%s/%s", folder, names[i]);
        if (access(path, F_OK) == 0) status = hash_file(path, one, err);
        hash_add(&h, one, sizeof one);
        free(path);
    }
    hash_end(&h, hex);
    return status;
}

int sft_identify(struct sft *t, const char *but, struct err *err)
{
    const struct settings *s = t->job->settings;
    double share;
    if (sft_sets_read(&t->sets, s, err) < 0) return -1;
    const char *file = file_of_validation(s, &t->sets, &share);
    t->plan.settings = list_settings(t->job, but);
    if (hash_file(t->options.data, t->plan.hashes.data, err) < 0) return -1;
    if (file && hash_file(file, t->plan.hashes.validation, err) < 0)
        return err_in(err, "train.validation");
    if (t->sets.count && sft_sets_open(&t->sets, t->plan.hashes.validation, err) < 0) return -1;
    if (settings_is(s, "train.prune", "on") && !settings_is(s, "phases.calibration", "none") &&
        hash_file(settings_text(s, "phases.calibration"), t->plan.hashes.calibration, err) < 0)
        return err_in(err, "phases.calibration");
    if (settings_is(s, "adapter", "none")) return 0;
    return hash_adapter(settings_text(s, "adapter"), t->plan.hashes.adapter, err);
}

int sft_fail_series(const struct sft *t)
{
    if (t->series) t->series->broken = true;
    return -1;
}

int sft_data_open(struct sft *t, struct err *err)
{
    if (sft_identify(t, NULL, err) < 0) return -1;
    // Checks the identity first, before any picture is decoded.
    const struct identity id = sft_identity(t);
    if (t->out.path && save_newest(t->out.path) >= 0 && save_check(t->out.path, &id, err) < 0)
        return sft_fail_series(t);
    int status = open_set(t, &t->train, t->options.data, t->options.images, err);
    // All runs of a series must use the same pictures, so that their scores can be compared.
    if (status == 0 && t->series && *t->series->pictures &&
        strcmp(t->series->pictures, t->train.pictures) != 0) {
        err_set(err, "a picture of the data is missing or differs from the previous runs; restore "
                     "it, or choose another folder");
        status = sft_fail_series(t);
    }
    if (status == 0) status = open_validation(t, err);
    if (status != 0) return status;

    // Completes the identity.
    const struct sft_set *sets[] = { &t->train, &t->validation };
    struct hash samples, pictures;
    hash_start(&samples);
    hash_start(&pictures);
    for (size_t k = 0; k < 2; k++) {
        hash_add(&samples, &sets[k]->count, sizeof sets[k]->count);
        hash_add(&samples, sets[k]->item, (size_t)sets[k]->count * sizeof *sets[k]->item);
        hash_add(&pictures, sets[k]->pictures, sizeof sets[k]->pictures);
    }
    hash_add(&samples, t->train.length, (size_t)t->train.count * sizeof *t->train.length);
    hash_end(&samples, t->plan.hashes.samples);
    hash_end(&pictures, t->plan.hashes.pictures);
    return 0;
}

static void close_set(struct sft_set *set)
{
    if (set->loader.backend) loader_release(&set->loader);
    if (set->data.path) dataset_close(&set->data);
    free(set->item);
    free(set->length);
    free(set->trained);
    free(set->group);
    free(set->why);
    free(set->unread);
    names_release(&set->contents);
    *set = (struct sft_set){ 0 };
}

void sft_data_close(struct sft *t)
{
    close_set(&t->train);
    close_set(&t->validation);
    sft_sets_release(&t->sets);
    free(t->plan.settings);
    free(t->state.order);
    free(t->state.rows);
    free(t->state.tokens);
    t->plan.settings = NULL;
    t->state.order = NULL;
    t->state.rows = NULL;
    t->state.tokens = NULL;
}
