// tui/scenes.c -- `vlmsh scenes`: writes a demo world (core/scenes.h).
#include "tui/scenes.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/mem.h"
#include "core/scenes.h"
#include "tui/lines.h"
#include "tui/options.h"
#include "tui/plain.h"
#include "tui/signals.h"

struct scenes_options {
    const char *folder;
    long long count, seed, size;
    unsigned parts;
};

static int take_seed(void *self, const char *value, struct err *err)
{
    struct scenes_options *o = self;
    return option_integer(value, 0, INT64_MAX, &o->seed, "--seed", err);
}

static int take_size(void *self, const char *value, struct err *err)
{
    struct scenes_options *o = self;
    return option_integer(value, SCENES_SIZE_MIN, SCENES_SIZE_MAX, &o->size, "--size", err);
}

static int take_kind(void *self, const char *value, struct err *err)
{
    static const struct {
        const char *name;
        unsigned part;
    } kinds[] = { { "captions", SCENES_CAPTIONS },
                  { "questions", SCENES_QUESTIONS },
                  { "yesno", SCENES_YESNO },
                  { "all", SCENES_ALL } };
    struct scenes_options *o = self;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (!strcmp(kinds[i].name, value)) {
            o->parts |= kinds[i].part;
            return 0;
        }
    return err_set(err, "--kind is captions, questions, yesno or all, not '%s'", value);
}

static int take_word(void *self, const char *value, struct err *err)
{
    struct scenes_options *o = self;
    if (!o->count) return option_integer(value, 1, SCENES_COUNT_MAX, &o->count, "N", err);
    if (o->folder) return err_set(err, "one folder, please: '%s' and '%s'", o->folder, value);
    o->folder = value;
    return 0;
}

static const struct option_row rows[] = {
    { "--seed", "S", "of the world (default 42)", take_seed },
    { "--size", "PIXELS", "of a picture's side (default 96)", take_size },
    { "--kind", "KIND", "captions, questions, yesno or all; may be repeated", take_kind },
    { 0 },
};
static const struct option_table table = { rows, take_word };

static bool report(void *self, uint64_t done, uint64_t total)
{
    const struct event_progress progress = {
        .what = "drawing", .step = (double)done, .steps = (double)total, .loss = NAN, .eta_s = NAN
    };
    sinks_emit(self, &(struct event){ .kind = EVENT_PROGRESS, .progress = &progress });
    return !signals_interrupted();
}

static void show_report(const struct sinks *sinks, const struct scenes_options *o,
                        const struct scenes_report *r)
{
    static const char *const columns[] = { "file", "samples" };
    static const bool numeric[] = { false, true };
    struct table_builder t;
    table_begin(&t, "files", 2, columns, numeric);
    for (int i = 0; i < SCENES_FILES; i++) {
        if (!r->files[i].name) continue;
        table_add(&t, "%s", r->files[i].name);
        table_add(&t, "%lld", (long long)r->files[i].samples);
    }
    table_emit(&t, sinks);
    sinks_text(sinks,
               "%lld pictures with %lld objects in %s; world %lld of %d: other worlds share "
               "no scene with it",
               o->count, (long long)r->objects, o->folder, o->seed % SCENES_WORLDS, SCENES_WORLDS);
}

static int write_world(const struct scenes_options *o, struct sinks *sinks, struct err *err)
{
    const struct scenes_request request = { .folder = o->folder,
                                            .count = o->count,
                                            .seed = (uint64_t)o->seed,
                                            .size = (int)o->size,
                                            .parts = o->parts ? o->parts : SCENES_ALL };
    const struct load_progress progress = { .report = report, .self = sinks };
    struct scenes_report written;
    signals_start(NULL, SIGNALS_SCRIPT);
    const int status = scenes_write(&request, &progress, &written, err);
    signals_stop();
    if (status < 0) return signals_interrupted() ? STATUS_INTERRUPTED : STATUS_FAILED;
    show_report(sinks, o, &written);
    return STATUS_OK;
}

int scenes_run(int argc, char **argv, struct err *err)
{
    struct scenes_options o = { .seed = 42, .size = 96 };
    int at = 0;
    if (option_table_read(&table, &o, argc, argv, &at, err) < 0) return STATUS_USAGE;
    if (!o.folder) {
        err_set(err, o.count
                         ? "DIR, the folder to write, is missing"
                         : "N, the number of scenes, and DIR, the folder to write, are missing");
        return STATUS_USAGE;
    }
    struct sinks sinks = { 0 };
    struct plain *p = plain_new(false);
    sinks_add(&sinks, plain_sink(p));
    const int status = write_world(&o, &sinks, err);
    plain_free(p);
    return status;
}
