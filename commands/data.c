// commands/data.c -- /data: counts and checks the samples of a data set; mixes several.
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "commands/command.h"
#include "core/base/clock.h"
#include "core/base/file_out.h"
#include "core/base/names.h"
#include "core/base/pace.h"
#include "core/data/dataset.h"
#include "core/data/mix.h"
#include "core/train/data_check.h"

enum { SHOWN = 20, SOURCES_MAX = 32 };

struct data_options {
    const char *file, *images, *out;
    struct names kinds;
    bool headers;
};

static const struct option_row check_options[] = {
    { "FILE", NULL, "the data set", OPTION_TEXT, .at = offsetof(struct data_options, file) },
    { "--images", "DIR", "base folder for relative picture paths (default: the folder of FILE)",
      OPTION_TEXT, .at = offsetof(struct data_options, images) },
    { "--kind", "K,...", "only samples whose \"kind\" (or \"type\", \"category\") is one of these",
      OPTION_NAMES, .at = offsetof(struct data_options, kinds) },
    { "--no-decode", NULL, "reads only the headers of pictures, which is faster", OPTION_FLAG,
      .at = offsetof(struct data_options, headers) },
    { "--out", "FILE.csv", "writes all reported samples; the screen shows 20 per problem",
      OPTION_TEXT, .at = offsetof(struct data_options, out), .check = file_out_check },
    { 0 },
};

// --- tables --------------------------------------------------------------------------------------

static int compare_number(const void *a, const void *b)
{
    const int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

// Returns the quantile by nearest rank: the smallest value such that at least the fraction `share`
// of all values are no larger.
static int32_t quantile(const int32_t *sorted, int64_t n, double share)
{
    const int64_t rank = (int64_t)ceil(share * (double)n);
    return sorted[rank > 0 ? rank - 1 : 0];
}

// The chosen samples of one kind, or all.
struct samples {
    const char *name;
    const struct data_sample **list;
    int64_t count;
};

static void add_lengths(struct table_builder *t, const struct samples *of, int32_t *values)
{
    static const char *const what[] = { "all", "text", "visual", "trained" };
    for (int w = 0; w < 4; w++) {
        int64_t n = 0;
        double sum = 0;
        for (int64_t i = 0; i < of->count; i++) {
            const struct data_sample *s = of->list[i];
            const int32_t lengths[] = { s->text + s->visual, s->text, s->visual, s->trained };
            if (s->counted) sum += values[n++] = lengths[w];
        }
        if (!n) return;
        qsort(values, (size_t)n, sizeof *values, compare_number);
        table_row(t, "%s|%s|%d|%d|%.1f|%d|%d", of->name, what[w], values[0],
                  quantile(values, n, 0.5), sum / (double)n, quantile(values, n, 0.95),
                  values[n - 1]);
    }
}

static void add_counts(struct table_builder *t, const struct samples *of)
{
    int64_t usable = 0, answers = 0, pictures = 0, tokens = 0, trained = 0;
    for (int64_t i = 0; i < of->count; i++) {
        const struct data_sample *s = of->list[i];
        usable += s->usable;
        answers += s->answers;
        pictures += s->pictures;
        tokens += s->text + s->visual;
        trained += s->trained;
    }
    if (!of->count) return;
    table_row(t, "%s|%" PRId64 "|%" PRId64 "|%" PRId64 "|%" PRId64 "|%" PRId64 "|%.1f", of->name,
              of->count, usable, answers, pictures, tokens,
              tokens ? 100.0 * (double)trained / (double)tokens : 0.0);
}

// Sorts the chosen samples by kind into `list`; returns the samples of each kind [kinds.count].
static struct samples *by_kind(const struct data_check *c, const struct data_sample **list)
{
    struct samples *of = xcalloc(c->kinds.count + 1, sizeof *of);
    for (int64_t i = 0; i < c->count; i++)
        if (c->samples[i].chosen) of[c->samples[i].kind].count++;
    for (size_t k = 0; k < c->kinds.count; k++) {
        of[k].name = *c->kinds.list[k] ? c->kinds.list[k] : "(none)";
        of[k].list = k ? of[k - 1].list + of[k - 1].count : list;
    }
    for (size_t k = 0; k < c->kinds.count; k++) of[k].count = 0;
    for (int64_t i = 0; i < c->count; i++) {
        struct samples *own = &of[c->samples[i].kind];
        if (c->samples[i].chosen) own->list[own->count++] = &c->samples[i];
    }
    return of;
}

// Shows the counts and token lengths of each kind of sample, then of all samples.
static void show_counts(const struct shell *shell, const struct data_check *c)
{
    int32_t *values = xreallocarray(NULL, (size_t)c->count + 1, sizeof *values);
    const struct data_sample **list = xcalloc((size_t)c->count + 1, sizeof *list);
    struct samples *of = by_kind(c, list), all = { "all", list, c->chosen };
    const size_t kinds = c->kinds.count > 1 || *c->kinds.list[0] ? c->kinds.count : 0;
    struct table_builder t;
    table_begin(&t, "data", "kind|samples#|usable#|answers#|pictures#|tokens#|trained %#");
    for (size_t k = 0; k < kinds; k++) add_counts(&t, &of[k]);
    add_counts(&t, &all);
    table_emit(&t, shell->sinks);
    table_begin(&t, "data tokens", "kind|tokens|min#|median#|mean#|p95#|max#");
    for (size_t k = 0; k < kinds; k++) add_lengths(&t, &of[k], values);
    add_lengths(&t, &all, values);
    if (t.count) table_emit(&t, shell->sinks);
    free(values);
    free(list);
    free(of);
}

static void add_problem(struct table_builder *t, const struct data_check *c, int problem,
                        size_t most)
{
    size_t shown = 0;
    for (size_t i = 0; i < c->finding_count && shown < most; i++) {
        const struct data_finding *f = &c->findings[i];
        if ((int)f->problem != problem) continue;
        table_row(t, "%s|%s|%" PRId64 "|%s", data_problem_name(f->problem), f->id, f->line, f->why);
        shown++;
    }
}

static void show_problems(const struct shell *shell, const struct data_check *c)
{
    struct table_builder t;
    if (!c->finding_count) return;
    table_begin(&t, "data problems", "problem|id|line#|why");
    for (int i = 0; i < DATA_PROBLEMS; i++) add_problem(&t, c, i, SHOWN);
    table_emit(&t, shell->sinks);
    for (int i = 0; i < DATA_PROBLEMS; i++) {
        int64_t more = -SHOWN;
        for (size_t k = 0; k < c->finding_count; k++) more += (int)c->findings[k].problem == i;
        if (more > 0)
            sinks_notice(shell->sinks, "%s: %" PRId64 " more (--out FILE.csv writes all of them)",
                         data_problem_name((enum data_problem)i), more);
    }
}

static int write_findings(const struct shell *shell, const struct data_check *c, const char *path,
                          struct err *err)
{
    struct table_builder t;
    table_begin(&t, "data problems", "problem|id|line#|why");
    for (int i = 0; i < DATA_PROBLEMS; i++) add_problem(&t, c, i, SIZE_MAX);
    return table_write(&t, path, shell->sinks, err);
}

// --- /data check ---------------------------------------------------------------------------------

struct progress {
    struct engine *engine;
    struct pace pace;
    double reported;
};

static bool report(void *self, int64_t done, int64_t count)
{
    struct progress *p = self;
    const double now = clock_seconds();
    if (now - p->reported >= 0.2) {
        sinks_progress(engine_sinks(p->engine), &p->pace, "checking", (double)done, (double)count);
        p->reported = now;
    }
    return !engine_cancelled(p->engine);
}

static void show(const struct shell *shell, const struct data_check *c,
                 const struct data_options *o, const struct dataset *d)
{
    show_counts(shell, c);
    char *remark;
    show_problems(shell, c);
    for (int i = 0; (remark = data_notice(&c->notices, i)); i++) {
        sinks_notice(shell->sinks, "%s", remark);
        free(remark);
    }
    char *others = c->chosen < d->count ? xasprintf(" (%" PRId64 " of other kinds not counted)",
                                                    d->count - c->chosen)
                                        : xstrdup("");
    sinks_notice(shell->sinks,
                 "'%s': %" PRId64 " of %" PRId64
                 " samples are usable for training%s; %zu picture file%s%s",
                 o->file, c->usable, c->chosen, others, c->picture_files,
                 c->picture_files == 1 ? "" : "s", o->headers ? ", headers only" : "");
    free(others);
}

// Fails because no sample is usable. If pictures are missing, the message names their base folder,
// which is then usually wrong.
static int refuse_unusable(const struct data_check *c, const struct data_options *o,
                           struct err *err)
{
    size_t missing = 0;
    for (size_t i = 0; i < c->finding_count; i++)
        missing += c->findings[i].problem == DATA_PICTURE_MISSING;
    if (!missing) return err_set(err, "no sample of '%s' is usable for training", o->file);
    return err_set(err,
                   "no sample of '%s' is usable for training: %zu picture%s missing; --images DIR "
                   "sets their base folder (now %s)",
                   o->file, missing, missing == 1 ? " is" : "s are",
                   o->images ? o->images : "the folder of the data file");
}

static int check_samples(struct shell *shell, const struct data_options *o, struct err *err)
{
    struct engine *e = shell->engine;
    struct dataset d;
    struct data_check c;
    if (dataset_open(&d, o->file, o->images, err) < 0) return -1;
    struct progress p = { .engine = e, .pace = pace_from(0), .reported = clock_seconds() };
    const struct data_check_options options = {
        .kinds = (const char *const *)o->kinds.list,
        .kind_count = o->kinds.count,
        .decode = !o->headers,
        .limit = engine_limit(e),
        .report = report,
        .self = &p,
    };
    int status = data_check_run(&c, &d, engine_model(e), engine_settings(e), &options, err);
    if (status == 0) {
        if (!c.chosen)
            status = err_set(err, "'%s' has no sample%s", o->file,
                             o->kinds.count ? " of the kinds in --kind" : "");
        else if (o->out)
            status = write_findings(shell, &c, o->out, err);
        if (status == 0) show(shell, &c, o, &d);
        if (status == 0 && !c.usable) status = refuse_unusable(&c, o, err);
        data_check_release(&c);
    }
    dataset_close(&d);
    return status;
}

static int check(struct shell *shell, int argc, char **argv, struct err *err)
{
    struct data_options o = { 0 };
    int status =
        options_parse(check_options, &o, argc, argv, err) < 0 ? -1 : check_samples(shell, &o, err);
    names_release(&o.kinds);
    return status;
}

// --- /data mix -----------------------------------------------------------------------------------

struct mix_request {
    const char *out;
    struct mix_source sources[SOURCES_MAX];
    char *paths[SOURCES_MAX]; // of the sources
    size_t count;
    struct names kinds;
    int64_t samples, seed;
    bool once;
};

// Takes FILE=SHARE; the file's name may contain "=".
static int take_source(void *self, const char *value, struct err *err)
{
    struct mix_request *r = self;
    const char *equals = strrchr(value, '=');
    if (!equals || equals == value)
        return err_set(err, "'%s' is not FILE=SHARE, as in lessons.json=0.8", value);
    if (r->count == SOURCES_MAX) return err_set(err, "at most %d files", SOURCES_MAX);
    struct mix_source *s = &r->sources[r->count];
    if (option_real(equals + 1, 1e-9, 1e9, &s->share, "the share", err) < 0)
        return err_in(err, "'%s'", value);
    s->path = r->paths[r->count++] = xasprintf("%.*s", (int)(equals - value), value);
    return 0;
}

static const struct option_row mix_options[] = {
    { "OUT", NULL, "the file to write", OPTION_TEXT, .at = offsetof(struct mix_request, out) },
    { "FILE=SHARE", NULL, NULL, .take = take_source, .optional = true, .many = true },
    { "--count", "N",
      "number of samples in OUT (default: as many as possible without repeating a sample). If a "
      "file has too few samples for its share, its samples repeat",
      OPTION_WHOLE, .at = offsetof(struct mix_request, samples), 1, MIX_SAMPLES_MAX },
    { "--kind", "K,...", "only samples of these kinds", OPTION_NAMES,
      .at = offsetof(struct mix_request, kinds) },
    { "--seed", "N", "random seed for selection and order (default 42)", OPTION_WHOLE,
      .at = offsetof(struct mix_request, seed), 0, INT64_MAX },
    { "--once", NULL, "does nothing if OUT already exists", OPTION_FLAG,
      .at = offsetof(struct mix_request, once) },
    { 0 },
};

static void show_written(const struct shell *shell, const struct mix_request *r,
                         const int64_t *written)
{
    struct table_builder t;
    int64_t total = 0;
    double shares = 0;
    for (size_t i = 0; i < r->count; i++) shares += r->sources[i].share;
    table_begin(&t, "data mix", "file|share#|samples#");
    for (size_t i = 0; i < r->count; i++) {
        table_row(&t, "%s|%.4g|%" PRId64, r->sources[i].path, r->sources[i].share / shares,
                  written[i]);
        total += written[i];
    }
    table_emit(&t, shell->sinks);
    sinks_notice(shell->sinks, "'%s': %" PRId64 " sample%s", r->out, total, total == 1 ? "" : "s");
}

static int write_mix(struct shell *shell, struct mix_request *r, struct err *err)
{
    int64_t written[SOURCES_MAX] = { 0 };
    const struct mix_options options = { .count = r->samples,
                                         .seed = (uint64_t)r->seed,
                                         .kinds = (const char *const *)r->kinds.list,
                                         .kind_count = r->kinds.count };
    if (!r->count)
        return err_set(err, "no files to mix are named: /data mix OUT.jsonl FILE=SHARE ...");
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

static int mix(struct shell *shell, int argc, char **argv, struct err *err)
{
    struct mix_request r = { .seed = 42 };
    int status =
        options_parse(mix_options, &r, argc, argv, err) < 0 ? -1 : write_mix(shell, &r, err);
    for (size_t i = 0; i < r.count; i++) free(r.paths[i]);
    names_release(&r.kinds);
    return status;
}

// --- the command ---------------------------------------------------------------------------------

static const struct command_action actions[] = {
    { "check", "FILE", "counts the samples of a data set and lists errors", 0, -1, .run = check,
      .options = check_options },
    { "mix", "OUT.jsonl FILE=SHARE...",
      "mixes the samples of data sets in random order, with the given share of each, as in "
      "text.jsonl=0.2 lessons.json=0.8; shares need not add up to 1. Picture paths become "
      "absolute; each id begins with the number of its file. OUT must not exist",
      0, -1, .run = mix, .options = mix_options },
    { 0 },
};

const struct command command_data = {
    .name = "data",
    .also = "dataset samples",
    .usage = "/data check FILE [--images DIR] [--kind K,...] [--no-decode] [--out FILE.csv] | "
             "mix OUT.jsonl FILE=SHARE... [--count N] [--kind K,...] [--seed N] [--once]",
    .help = "Counts samples and tokens of a data set and lists errors; mixes data sets.",
    .details =
        "FILE is a JSON list or JSON lines in LLaVA, ShareGPT or \"messages\" format, as for /ask "
        "--data:\n"
        "    {\"image\": \"cat.png\", \"conversations\": [{\"from\": \"human\", \"value\": "
        "\"<image>\\nWhat is it?\"}, {\"from\": \"gpt\", \"value\": \"a cat\"}]}\n"
        "/data check counts tokens with the loaded model's tokenizer, chat template and "
        "picture size, without its weights. Trained tokens are those that the template puts "
        "after the generation prompt of each answer, including the end-of-turn token. Answers "
        "excluded from training (\"weight\": 0, \"loss\", \"train\" or \"training\": false) "
        "count as context.\n"
        "\n"
        "/data check reports samples that are unreadable, have no answer, have a duplicate id, "
        "have missing or broken pictures, have \"<image>\" marks that do not match their "
        "pictures, or are longer than ctx.max (samples are never truncated). It also lists keys "
        "that vlmsh does not read. Samples without an id are called #INDEX, counted from 0.",
    .writes = true,
    .min = 1,
    .needs = NEEDS_MODEL,
    .complete = COMPLETE_WORDS,
    .actions = actions,
    .action_at = 1,
    .usual = "check",
};
