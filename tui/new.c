// tui/new.c -- `vlmsh new`: counts a shape's parameters, and writes a folder of that shape.
#include "tui/new.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/mem.h"
#include "core/new_model.h"
#include "tui/lines.h"
#include "tui/options.h"
#include "tui/plain.h"
#include "tui/signals.h"

struct new_options {
    const char *shape, *folder;
    long long seed;
    bool dry;
};

static int take_shape(void *self, const char *value, struct err *err)
{
    struct new_options *o = self;
    o->shape = value;
    return 0;
}

static int take_dry(void *self, const char *value, struct err *err)
{
    struct new_options *o = self;
    o->dry = true;
    return 0;
}

static int take_seed(void *self, const char *value, struct err *err)
{
    struct new_options *o = self;
    return option_integer(value, 0, INT64_MAX, &o->seed, "--seed", err);
}

static int take_folder(void *self, const char *value, struct err *err)
{
    struct new_options *o = self;
    if (o->folder) return err_set(err, "one folder, please: '%s' and '%s'", o->folder, value);
    o->folder = value;
    return 0;
}

static const struct option_row rows[] = {
    { "--like", "SHAPE", "which shape", take_shape },
    { "--dry", NULL, "count only, write nothing", take_dry },
    { "--seed", "N", "of the random weights (default 42)", take_seed },
    { 0 },
};
static const struct option_table table = { rows, take_folder };

static int name_shapes(const char *problem, struct err *err)
{
    struct buf b = { 0 };
    for (int i = 0; new_model_shape(i); i++) buf_printf(&b, i ? ", %s" : "%s", new_model_shape(i));
    err_set(err, "%s; there are %s", problem, b.data ? b.data : "none");
    buf_release(&b);
    return STATUS_USAGE;
}

static bool is_shape(const char *name)
{
    for (int i = 0; new_model_shape(i); i++)
        if (strcmp(new_model_shape(i), name) == 0) return true;
    return false;
}

static void show_counts(const struct sinks *sinks, const struct new_model_counts *n)
{
    static const char *const columns[] = { "part", "parameters" };
    static const bool numeric[] = { false, true };
    struct table_builder t;
    table_begin(&t, "parameters", 2, columns, numeric);
    for (int i = 0; i < MODEL_PARTS; i++) {
        if (!n->parts[i].parameters) continue;
        table_add(&t, "%s", n->parts[i].name);
        table_add(&t, "%lld", (long long)n->parts[i].parameters);
    }
    table_add(&t, "total");
    table_add(&t, "%lld", (long long)n->total);
    table_emit(&t, sinks);
    sinks_text(sinks, "%.2f GB of bf16 weights", (double)n->bytes / 1e9);
}

static bool report(void *self, uint64_t done, uint64_t total)
{
    const struct event_progress progress = {
        .what = "writing", .step = (double)done, .steps = (double)total, .loss = NAN, .eta_s = NAN
    };
    sinks_emit(self, &(struct event){ .kind = EVENT_PROGRESS, .progress = &progress });
    return !signals_interrupted();
}

static int write_model(const struct new_options *o, struct sinks *sinks, struct err *err)
{
    struct new_model_counts counts;
    const struct load_progress progress = { .report = report, .self = sinks };
    if (new_model_count(o->shape, &counts, err) < 0) return STATUS_FAILED;
    show_counts(sinks, &counts);
    if (o->dry) return STATUS_OK;
    signals_start(NULL, SIGNALS_SCRIPT);
    int status = new_model_write(o->shape, o->folder, (uint64_t)o->seed, &progress, err);
    signals_stop();
    if (status < 0) return signals_interrupted() ? STATUS_INTERRUPTED : STATUS_FAILED;
    sinks_text(sinks, "written to %s; open it with: vlmsh %s", o->folder, o->folder);
    return STATUS_OK;
}

int new_run(int argc, char **argv, struct err *err)
{
    struct new_options o = { .seed = 42 };
    int at = 0;
    if (option_table_read(&table, &o, argc, argv, &at, err) < 0) return STATUS_USAGE;
    if (!o.shape) return name_shapes("--like SHAPE is missing", err);
    if (!is_shape(o.shape)) return name_shapes("there is no such shape", err);
    if (!o.folder && !o.dry) {
        err_set(err, "DIR, the folder to write, is missing");
        return STATUS_USAGE;
    }
    struct sinks sinks = { 0 };
    struct plain *p = plain_new(false);
    sinks_add(&sinks, plain_sink(p));
    int status = write_model(&o, &sinks, err);
    plain_free(p);
    return status;
}
