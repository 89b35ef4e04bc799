// core/jobs/identity.c -- records the inputs of a run or job, and reports the first input that has
// changed since the start.
#include "core/jobs/identity.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/hash.h"
#include "core/base/items.h"
#include "core/base/mem.h"
#include "core/data/dataset.h"
#include "core/data/notices.h"
#include "core/files/checkpoint.h"
#include "core/files/content.h"
#include "core/picture/image.h"
#include "core/settings/settings.h"

void identity_each(struct identity *id, void (*each)(void *self, const char *name, const char **at),
                   void *self)
{
    each(self, "settings", &id->settings);
    each(self, "model", &id->model);
    each(self, "files", &id->files);
    each(self, "data", &id->data);
    each(self, "held", &id->validation);
    each(self, "answers", &id->answers);
    each(self, "shots", &id->shots);
    each(self, "adapter", &id->adapter);
    each(self, "calibration", &id->calibration);
    each(self, "pictures", &id->pictures);
    each(self, "samples", &id->samples);
}

// --- records -------------------------------------------------------------------------------------

static void put_one(void *self, const char *name, const char **at)
{
    if (*at) cJSON_AddStringToObject(self, name, *at);
}

void identity_put(const struct identity *id, cJSON *record)
{
    struct identity copy = *id;
    identity_each(&copy, put_one, cJSON_AddObjectToObject(record, "identity"));
}

static void take_one(void *self, const char *name, const char **at)
{
    *at = cJSON_GetStringValue(json_get(self, name));
}

struct identity identity_of(const cJSON *record)
{
    struct identity id = { 0 };
    identity_each(&id, take_one, (void *)json_get(record, "identity"));
    return id;
}

// --- differences ---------------------------------------------------------------------------------

// Returns the first line of `list` that `others` lacks, or NULL; *other: the line of `others` with
// the same key, or NULL. The caller frees both.
static char *first_difference(const char *list, const char *others, char **other)
{
    char *one;
    for (*other = NULL; (one = items_take(&list, "\n")); free(one)) {
        if (items_has(others, one, "\n")) continue;
        *other = items_with_key(others, one, "\n");
        // Earlier versions had fewer settings: a setting that `others` lacks is not a difference if
        // it has its default.
        const char *equals = strchr(one, '=');
        char *key = equals ? xstrndup(one, (size_t)(equals - one)) : NULL;
        const struct setting *row = key ? settings_find(key) : NULL;
        free(key);
        if (*other || !row || strcmp(equals + 1, row->def) != 0) return one;
    }
    return NULL;
}

static bool differ(const char *was, const char *is)
{
    return was && is && strcmp(was, is) != 0;
}

static const char *work_of(const struct identity *is)
{
    return is->data_path ? "job" : "run";
}

static const char *otherwise(const struct identity *is)
{
    return is->data_path ? "start another job" : "train into another folder";
}

static int file_differs(const struct identity *is, const char *what, struct err *err)
{
    return err_set(err,
                   "%s has changed since the %s started (its SHA-256 differs); restore it, or %s",
                   what, work_of(is), otherwise(is));
}

// An earlier version's fingerprint of the same weights counts as equal.
static int model_differs(const struct identity *was, const struct identity *is, struct err *err)
{
    if (!differ(was->model, is->model)) return 0;
    if (is->checkpoint && checkpoint_matches_earlier(is->checkpoint, was->model)) return 0;
    char *which = checkpoint_files_differ(was->files, is->files);
    err_set(err,
            "the %s started with a different model (or its files have changed%s%s); load that "
            "model, or %s",
            work_of(is), which ? ": " : "", which ? which : "", otherwise(is));
    free(which);
    return -1;
}

// Compares settings before the hashes of files that they name, for a clearer message.
int identity_same(const struct identity *was, const struct identity *is, struct err *err)
{
    if (model_differs(was, is, err) < 0) return -1;
    if (differ(was->data, is->data)) {
        char *what =
            is->data_path ? xasprintf("the data '%s'", is->data_path) : xstrdup("the data file");
        file_differs(is, what, err);
        free(what);
        return -1;
    }
    if (was->settings && is->settings) {
        char *then, *now = first_difference(is->settings, was->settings, &then);
        if (!now) then = first_difference(was->settings, is->settings, &now);
        if (then || now)
            err_set(err,
                    "the run started with %s, but now it is %s: restore it, or train into another "
                    "folder",
                    then ? then : "fewer settings", now ? now : "without");
        const bool changed = then || now;
        free(then);
        free(now);
        if (changed) return -1;
    }
    if (differ(was->validation, is->validation))
        return file_differs(is, "the data file of train.validation", err);
    if (differ(was->answers, is->answers)) return file_differs(is, "the file of --answers", err);
    if (differ(was->shots, is->shots)) return file_differs(is, "the file of --shots", err);
    if (differ(was->adapter, is->adapter))
        return file_differs(is, "the adapter (setting adapter)", err);
    if (differ(was->calibration, is->calibration))
        return file_differs(is, "the calibration (setting phases.calibration)", err);
    if (differ(was->samples, is->samples))
        return err_set(
            err,
            "the set of usable samples has changed since the run started: pictures are missing or "
            "changed (the log lists what is skipped); restore them, or train into another folder");
    if (differ(was->pictures, is->pictures))
        return err_set(err,
                       "a picture of the data has changed since the %s started; restore it, or %s",
                       work_of(is), otherwise(is));
    return 0;
}

// --- pictures ------------------------------------------------------------------------------------

void identity_add_pictures(const struct dataset *data, const struct sample *s, char hex[HASH_HEX],
                           struct data_notices *n)
{
    struct hash h;
    hash_start(&h);
    hash_add(&h, hex, strlen(hex));
    for (size_t i = 0; s && i < s->dialogue.path_count; i++) {
        const char *name = s->dialogue.paths[i];
        char one[HASH_HEX] = "unreadable";
        size_t size;
        char *bytes = dataset_picture(data, name, IMAGE_MAX_FILE, &size, NULL);
        if (bytes) content_hash_bytes(bytes, size, one);
        if (bytes && n) data_notices_picture(n, name, bytes, size);
        hash_add(&h, one, strlen(one));
        free(bytes);
    }
    hash_end(&h, hex);
}

void identity_add_pictures_at(const struct dataset *data, int64_t index, char hex[HASH_HEX],
                              struct data_notices *n)
{
    struct sample s;
    const bool good = dataset_read(data, index, &s, NULL) == 0;
    identity_add_pictures(data, good ? &s : NULL, hex, n);
    sample_release(&s);
}

int identity_same_pictures(const struct dataset *data, int64_t index, const char *was,
                           struct data_notices *n, struct err *err)
{
    char is[HASH_HEX] = "";
    identity_add_pictures_at(data, index, is, n);
    if (!strcmp(was, is)) return 0;
    struct sample s;
    dataset_read(data, index, &s, NULL);
    err_set(err,
            "the pictures of sample %s (line %lld of '%s') have changed since the job started; "
            "restore them, or start another job",
            s.id ? s.id : "without an id", (long long)s.line, data->path);
    sample_release(&s);
    return -1;
}
