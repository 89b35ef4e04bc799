// commands/data_mix.c -- /data mix: one data set of several, each with a share.
#include "commands/data_mix.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "commands/option_table.h"
#include "core/data/mix.h"

enum { SOURCES_MAX = 32, KINDS_MAX = 64 };

struct mix_request {
    const char *out;
    struct mix_source sources[SOURCES_MAX];
    char *paths[SOURCES_MAX]; // of the sources
    size_t count;
    char *kind_list; // cut into kinds
    const char *kinds[KINDS_MAX];
    size_t kind_count;
    long long samples, seed;
    bool once;
};

static int take_count(void *self, const char *value, struct err *err)
{
    struct mix_request *r = self;
    return option_integer(value, 1, MIX_SAMPLES_MAX, &r->samples, "--count", err);
}

static int take_seed(void *self, const char *value, struct err *err)
{
    struct mix_request *r = self;
    return option_integer(value, 0, INT64_MAX, &r->seed, "--seed", err);
}

static int take_once(void *self, const char *value, struct err *err)
{
    struct mix_request *r = self;
    r->once = true;
    return 0;
}

static int take_kinds(void *self, const char *value, struct err *err)
{
    struct mix_request *r = self;
    char *rest = NULL;
    if (r->kind_list) return err_set(err, "give --kind once: --kind detail,reasoning");
    r->kind_list = xstrdup(value);
    for (char *kind = strtok_r(r->kind_list, ",", &rest); kind; kind = strtok_r(NULL, ",", &rest)) {
        if (r->kind_count == KINDS_MAX)
            return err_set(err, "--kind takes at most %d kinds", KINDS_MAX);
        r->kinds[r->kind_count++] = kind;
    }
    return r->kind_count ? 0 : err_set(err, "--kind needs a kind: --kind detail,reasoning");
}

// The first word is OUT, the others are FILE=SHARE; the name of a file may hold a "=".
static int take_word(void *self, const char *value, struct err *err)
{
    struct mix_request *r = self;
    const char *equals = strrchr(value, '=');
    if (!r->out) {
        r->out = value;
        return 0;
    }
    if (!equals || equals == value)
        return err_set(err, "'%s' is not FILE=SHARE: lessons.json=0.8", value);
    if (r->count == SOURCES_MAX) return err_set(err, "at most %d files", SOURCES_MAX);
    struct mix_source *s = &r->sources[r->count];
    if (option_real(equals + 1, 1e-9, 1e9, &s->share, "the share", err) < 0)
        return err_in(err, "'%s'", value);
    s->path = r->paths[r->count++] = xasprintf("%.*s", (int)(equals - value), value);
    return 0;
}

static const struct option_row rows[] = {
    { "--count", "N", "samples of the result", take_count },
    { "--kind", "K,...", "only samples of these kinds", take_kinds },
    { "--seed", "N", "of the choice and the order", take_seed },
    { "--once", NULL, "does nothing if OUT already exists", take_once },
    { 0 },
};
static const struct option_table table = { rows, take_word };

static void show_written(const struct shell *shell, const struct mix_request *r,
                         const int64_t *written)
{
    static const char *const columns[] = { "file", "share", "samples" };
    static const bool numeric[] = { false, true, true };
    struct table_builder t;
    int64_t total = 0;
    double shares = 0;
    for (size_t i = 0; i < r->count; i++) shares += r->sources[i].share;
    table_begin(&t, "data mix", 3, columns, numeric);
    for (size_t i = 0; i < r->count; i++) {
        table_add(&t, "%s", r->sources[i].path);
        table_add(&t, "%.4g", r->sources[i].share / shares);
        table_add(&t, "%" PRId64, written[i]);
        total += written[i];
    }
    table_emit(&t, shell->sinks);
    sinks_notice(shell->sinks, "'%s': %" PRId64 " samples", r->out, total);
}

static int mix(struct shell *shell, struct mix_request *r, struct err *err)
{
    int64_t written[SOURCES_MAX] = { 0 };
    const struct mix_options options = { .count = r->samples,
                                         .seed = (uint64_t)r->seed,
                                         .kinds = r->kinds,
                                         .kind_count = r->kind_count };
    if (!r->out || !r->count)
        return err_set(err, "OUT and files are missing: /data mix OUT.jsonl FILE=SHARE ...");
    if (access(r->out, F_OK) == 0) {
        if (!r->once) return err_set(err, "'%s' already exists: choose another name", r->out);
        sinks_notice(shell->sinks, "'%s' already exists: nothing to do", r->out);
        return 0;
    }
    if (mix_write(r->sources, r->count, &options, r->out, written, err) < 0) return -1;
    sinks_written(shell->sinks, "data", r->out, NULL);
    show_written(shell, r, written);
    return 0;
}

int data_mix(struct shell *shell, int argc, char **argv, struct err *err)
{
    struct mix_request r = { .seed = 42 };
    int at = 0;
    int status = option_table_read(&table, &r, argc, argv, &at, err);
    if (status == 0) status = mix(shell, &r, err);
    for (size_t i = 0; i < r.count; i++) free(r.paths[i]);
    free(r.kind_list);
    return status < 0 ? -1 : 0;
}
