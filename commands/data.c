// commands/data.c -- /data: counts and checks the samples of a data set; mixing is in data_mix.c.
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands/command.h"
#include "commands/data_mix.h"
#include "core/base/clock.h"
#include "core/base/csv.h"
#include "core/base/file_out.h"
#include "core/base/pace.h"
#include "core/data/dataset.h"
#include "core/train/data_check.h"

enum { SHOWN = 20, KINDS_MAX = 64 };

struct data_options {
    const char *file, *images, *out;
    char *kind_list; // cut into kinds
    const char *kinds[KINDS_MAX];
    size_t kind_count;
    bool decode;
};

// --- options -------------------------------------------------------------------------------------

static int read_kinds(struct data_options *o, const char *list, struct err *err)
{
    char *rest = NULL;
    free(o->kind_list);
    o->kind_list = xstrdup(list);
    o->kind_count = 0;
    for (char *kind = strtok_r(o->kind_list, ",", &rest); kind; kind = strtok_r(NULL, ",", &rest)) {
        if (o->kind_count == KINDS_MAX)
            return err_set(err, "--kind takes at most %d kinds", KINDS_MAX);
        o->kinds[o->kind_count++] = kind;
    }
    return o->kind_count ? 0 : err_set(err, "--kind needs a kind: --kind detail,reasoning");
}

static int read_options(struct data_options *o, int argc, char **argv, struct err *err)
{
    for (int i = 0; i < argc; i++) {
        const char *word = argv[i], *value = i + 1 < argc ? argv[i + 1] : NULL;
        if (!strcmp(word, "--no-decode")) {
            o->decode = false;
            continue;
        }
        if (strncmp(word, "--", 2)) {
            if (o->file) return err_set(err, "give one FILE only: unexpected '%s'", word);
            o->file = word;
            continue;
        }
        const char **place = !strcmp(word, "--images") ? &o->images
                             : !strcmp(word, "--out")  ? &o->out
                                                       : NULL;
        if (!place && strcmp(word, "--kind"))
            return err_set(err, "/data check has no option '%s' (/help data)", word);
        if (!value) return err_set(err, "'%s' needs a value (/help data)", word);
        if (place)
            *place = value;
        else if (read_kinds(o, value, err) < 0)
            return -1;
        i++;
    }
    if (!o->file) return err_set(err, "FILE is missing: /data check FILE");
    return o->out ? file_out_check(o->out, err) : 0;
}

// --- tables --------------------------------------------------------------------------------------

static int compare_number(const void *a, const void *b)
{
    const int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

// Smallest value that `share` of all do not exceed.
static int32_t quantile(const int32_t *sorted, int64_t n, double share)
{
    const int64_t rank = (int64_t)ceil(share * (double)n);
    return sorted[rank > 0 ? rank - 1 : 0];
}

static int32_t length_of(const struct data_sample *s, int what)
{
    const int32_t lengths[] = { s->text + s->visual, s->text, s->visual, s->trained };
    return lengths[what];
}

static bool belongs(const struct data_sample *s, int32_t kind)
{
    return s->chosen && (kind < 0 || s->kind == kind);
}

static void add_lengths(struct table_builder *t, const struct data_check *c, int32_t kind,
                        const char *name, int32_t *values)
{
    static const char *const what[] = { "all", "text", "visual", "trained" };
    for (int w = 0; w < 4; w++) {
        int64_t n = 0;
        double sum = 0;
        for (int64_t i = 0; i < c->count; i++)
            if (belongs(&c->samples[i], kind) && c->samples[i].counted)
                sum += values[n++] = length_of(&c->samples[i], w);
        if (!n) return;
        qsort(values, (size_t)n, sizeof *values, compare_number);
        table_add(t, "%s", name);
        table_add(t, "%s", what[w]);
        table_add(t, "%d", values[0]);
        table_add(t, "%d", quantile(values, n, 0.5));
        table_add(t, "%.1f", sum / (double)n);
        table_add(t, "%d", quantile(values, n, 0.95));
        table_add(t, "%d", values[n - 1]);
    }
}

static void add_counts(struct table_builder *t, const struct data_check *c, int32_t kind,
                       const char *name)
{
    int64_t samples = 0, usable = 0, answers = 0, pictures = 0, tokens = 0, trained = 0;
    for (int64_t i = 0; i < c->count; i++) {
        const struct data_sample *s = &c->samples[i];
        if (!belongs(s, kind)) continue;
        samples++;
        usable += s->usable;
        answers += s->answers;
        pictures += s->pictures;
        tokens += s->text + s->visual;
        trained += s->trained;
    }
    if (!samples) return;
    table_add(t, "%s", name);
    table_add(t, "%" PRId64, samples);
    table_add(t, "%" PRId64, usable);
    table_add(t, "%" PRId64, answers);
    table_add(t, "%" PRId64, pictures);
    table_add(t, "%" PRId64, tokens);
    table_add(t, "%.1f", tokens ? 100.0 * (double)trained / (double)tokens : 0.0);
}

// Kinds one after another, then all of them together.
static void show_counts(const struct shell *shell, const struct data_check *c)
{
    static const char *const columns[] = { "kind",     "samples", "usable",   "answers",
                                           "pictures", "tokens",  "trained %" };
    static const char *const length_columns[] = { "kind", "tokens", "min", "median",
                                                  "mean", "p95",    "max" };
    static const bool numeric[] = { false, true, true, true, true, true, true };
    static const bool length_numeric[] = { false, false, true, true, true, true, true };
    int32_t *values = xreallocarray(NULL, (size_t)c->count + 1, sizeof *values);
    const int32_t kinds = c->kinds.count > 1 || *c->kinds.list[0] ? (int32_t)c->kinds.count : 0;
    struct table_builder t;
    table_begin(&t, "data", 7, columns, numeric);
    for (int32_t k = 0; k < kinds; k++)
        add_counts(&t, c, k, *c->kinds.list[k] ? c->kinds.list[k] : "(none)");
    add_counts(&t, c, -1, "all");
    table_emit(&t, shell->sinks);
    table_begin(&t, "data tokens", 7, length_columns, length_numeric);
    for (int32_t k = 0; k < kinds; k++)
        add_lengths(&t, c, k, *c->kinds.list[k] ? c->kinds.list[k] : "(none)", values);
    add_lengths(&t, c, -1, "all", values);
    if (t.count) table_emit(&t, shell->sinks);
    free(values);
}

static int64_t count_problem(const struct data_check *c, int problem)
{
    int64_t n = 0;
    for (size_t i = 0; i < c->finding_count; i++) n += (int)c->findings[i].problem == problem;
    return n;
}

static void add_problem(struct table_builder *t, const struct data_check *c, int problem)
{
    int shown = 0;
    for (size_t i = 0; i < c->finding_count && shown < SHOWN; i++) {
        const struct data_finding *f = &c->findings[i];
        if ((int)f->problem != problem) continue;
        table_add(t, "%s", data_problem_name(f->problem));
        table_add(t, "%s", f->id);
        table_add(t, "%" PRId64, f->line);
        table_add(t, "%s", f->why);
        shown++;
    }
}

static void show_problems(const struct shell *shell, const struct data_check *c)
{
    static const char *const columns[] = { "problem", "id", "line", "why" };
    static const bool numeric[] = { false, false, true, false };
    struct table_builder t;
    if (!c->finding_count) return;
    table_begin(&t, "data problems", 4, columns, numeric);
    for (int i = 0; i < DATA_PROBLEMS; i++) add_problem(&t, c, i);
    table_emit(&t, shell->sinks);
    for (int i = 0; i < DATA_PROBLEMS; i++) {
        const int64_t more = count_problem(c, i) - SHOWN;
        if (more > 0)
            sinks_notice(shell->sinks, "%s: and %" PRId64 " more (--out FILE.csv has all of them)",
                         data_problem_name((enum data_problem)i), more);
    }
}

// --- CSV -----------------------------------------------------------------------------------------

static int write_findings(const struct data_check *c, const char *path, struct err *err)
{
    FILE *f = file_out_open(path, err);
    if (!f) return -1;
    fputs("problem,id,line,why\n", f);
    for (int problem = 0; problem < DATA_PROBLEMS; problem++)
        for (size_t i = 0; i < c->finding_count; i++) {
            const struct data_finding *found = &c->findings[i];
            if ((int)found->problem != problem) continue;
            csv_text(f, data_problem_name(found->problem), ',');
            csv_text(f, found->id, ',');
            fprintf(f, "%" PRId64 ",", found->line);
            csv_text(f, found->why, '\n');
        }
    return file_out_close(f, path, err);
}

// --- the command ---------------------------------------------------------------------------------

struct progress {
    struct engine *engine;
    struct pace pace;
    double told;
};

static bool report(void *self, int64_t done, int64_t count)
{
    struct progress *p = self;
    const double now = clock_seconds();
    if (now - p->told >= 0.2) {
        sinks_progress(engine_sinks(p->engine), &p->pace, "checking", (double)done, (double)count);
        p->told = now;
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
    sinks_notice(
        shell->sinks,
        "'%s': %" PRId64 " of %" PRId64 " samples are usable for training%s; %zu picture files%s",
        o->file, c->usable, c->chosen, c->chosen < d->count ? " (the rest are of other kinds)" : "",
        c->picture_files, o->decode ? "" : ", headers only");
}

// Pictures that are all looked for in the wrong folder are the usual reason.
static int refuse_unusable(const struct data_check *c, const struct data_options *o,
                           struct err *err)
{
    size_t missing = 0;
    for (size_t i = 0; i < c->finding_count; i++)
        missing += c->findings[i].problem == DATA_PICTURE_MISSING;
    if (!missing) return err_set(err, "no sample of '%s' is usable for training", o->file);
    return err_set(err,
                   "no sample of '%s' is usable for training: %zu pictures are missing; --images "
                   "DIR sets their base folder (now %s)",
                   o->file, missing, o->images ? o->images : "the folder of the data file");
}

static int check(struct shell *shell, const struct data_options *o, struct err *err)
{
    struct engine *e = shell->engine;
    struct dataset d;
    struct data_check c;
    if (dataset_open(&d, o->file, o->images, err) < 0) return -1;
    struct progress p = { .engine = e, .pace = pace_from(0), .told = clock_seconds() };
    const struct data_check_options options = {
        .kinds = o->kinds,
        .kind_count = o->kind_count,
        .decode = o->decode,
        .limit = engine_limit(e),
        .report = report,
        .self = &p,
    };
    int status = data_check_run(&c, &d, engine_model(e), engine_settings(e), &options, err);
    if (status == 0) {
        if (!c.chosen)
            status = err_set(err, "'%s' has no sample of this kind", o->file);
        else if (o->out)
            status = write_findings(&c, o->out, err);
        if (status == 0 && o->out) sinks_written(shell->sinks, "csv", o->out, NULL);
        if (status == 0) show(shell, &c, o, &d);
        if (status == 0 && !c.usable) status = refuse_unusable(&c, o, err);
        data_check_release(&c);
    }
    dataset_close(&d);
    return status;
}

static int data_run(struct shell *shell, int argc, char **argv, struct err *err)
{
    struct data_options o = { .decode = true };
    if (!strcmp(argv[0], "mix")) return data_mix(shell, argc - 1, argv + 1, err);
    int status = read_options(&o, argc - 1, argv + 1, err);
    if (status == 0) status = check(shell, &o, err);
    free(o.kind_list);
    return status;
}

static const char *const words[] = { "check", "mix", NULL };

const struct command command_data = {
    .name = "data",
    .also = "dataset samples",
    .usage = "/data check FILE [--images DIR] [--kind K,...] [--no-decode] [--out FILE.csv] | "
             "mix OUT.jsonl FILE=SHARE... [--count N] [--kind K,...] [--seed N] [--once]",
    .help = "Counts samples and tokens of a data set and lists errors; mixes data sets.",
    .details =
        "/data check: FILE is a JSON list or JSON lines, as for /ask --data: LLaVA, ShareGPT or "
        "messages.\n"
        "Tokens are counted with the loaded model's tokenizer, chat template and picture size;\n"
        "no weights are used. Trained tokens: those the template puts after the generation\n"
        "prompt of each answer, including the end-of-turn token.\n"
        "Reported samples: unreadable, \"<image>\" marks that do not match the pictures,\n"
        "missing or broken pictures, longer than ctx.max (samples are never truncated), no\n"
        "answer, duplicate ids. Answers marked as not to be trained (\"weight\": 0, \"loss\",\n"
        "\"train\" or \"training\": false) are context; keys that nothing reads are named.\n"
        "Samples without an id are called #INDEX, counted from 0.\n"
        "--images DIR   base folder of relative picture paths (default: the folder of FILE)\n"
        "--kind K,...   only samples whose \"kind\" (or \"type\", \"category\") is one of these\n"
        "--no-decode    reads picture headers only: faster\n"
        "--out FILE.csv  writes all reported samples; the screen shows 20 per problem\n"
        "\n"
        "/data mix writes one data set of several, in random order, with the given share of\n"
        "samples of each: text.jsonl=0.2 lessons.json=0.8. Pictures' paths become absolute.\n"
        "Ids begin with the number of their file. OUT must not exist.\n"
        "--count N      samples of OUT (default: as many as the files give without repeating\n"
        "               one). More than a file's share has: its samples repeat\n"
        "--kind K,...   only samples of these kinds\n"
        "--seed N       of choice and order (default 42)\n"
        "--once         does nothing if OUT already exists",
    .writes = true,
    .min = 1,
    .max = -1,
    .needs = NEEDS_MODEL,
    .complete = COMPLETE_WORDS,
    .words = words,
    .action_at = 1,
    .usual = "check",
    .run = data_run,
};
