// core/train/identity.c -- compares the inputs of a run when it started with the current ones.
#include "core/train/identity.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"

void identity_each(struct identity *id, void (*each)(void *self, const char *name, const char **at),
                   void *self)
{
    each(self, "settings", &id->settings);
    each(self, "model", &id->model);
    each(self, "data", &id->data);
    each(self, "held", &id->held);
    each(self, "adapter", &id->adapter);
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
    struct identity id;
    identity_each(&id, take_one, (void *)json_get(record, "identity"));
    return id;
}

// --- differences ---------------------------------------------------------------------------------

// The first line of `now` that is not the one of `then`; the caller frees both.
static void first_difference(const char *then, const char *now, char **was, char **is)
{
    for (;;) {
        const size_t a = strcspn(then, "\n"), b = strcspn(now, "\n");
        if (a != b || memcmp(then, now, a) != 0 || !then[a] || !now[b]) {
            *was = xstrndup(then, a);
            *is = xstrndup(now, b);
            return;
        }
        then += a + 1;
        now += b + 1;
    }
}

static int settings_differ(const char *then, const char *now, struct err *err)
{
    char *was, *is;
    first_difference(then, now, &was, &is);
    err_set(err,
            "the run started with %s, but now it is %s: restore it, or train into another folder",
            *was ? was : "fewer settings", *is ? is : "without");
    free(was);
    free(is);
    return -1;
}

static bool differ(const char *was, const char *is)
{
    return was && is && strcmp(was, is) != 0;
}

static int file_differs(const char *what, struct err *err)
{
    return err_set(err,
                   "%s has changed since the run started (its SHA-256 differs); restore it, or "
                   "train into another folder",
                   what);
}

// The settings say that it is another file, before the hashes do.
int identity_same(const struct identity *was, const struct identity *is, struct err *err)
{
    if (differ(was->model, is->model))
        return err_set(err, "the run started with another model (or its files have changed); load "
                            "that one, or train into another folder");
    if (differ(was->data, is->data)) return file_differs("the data file", err);
    if (differ(was->settings, is->settings))
        return settings_differ(was->settings, is->settings, err);
    if (differ(was->held, is->held)) return file_differs("the data file of train.validation", err);
    if (differ(was->adapter, is->adapter))
        return file_differs("the adapter (setting adapter)", err);
    if (differ(was->samples, is->samples))
        return err_set(
            err,
            "the set of usable samples has changed since the run started: pictures are missing or "
            "changed (the log lists what is skipped); restore them, or train into another folder");
    if (differ(was->pictures, is->pictures))
        return err_set(err, "a picture of the data has changed since the run started; restore it, "
                            "or train into another folder");
    return 0;
}
