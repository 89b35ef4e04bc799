// commands/paper_forecast.c -- /paper: time, memory and disk of a plan, from the model's size, the
// data files and this machine's speed.
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "commands/paper_plan.h"
#include "commands/parse.h"
#include "core/base/pace.h"
#include "core/base/text.h"
#include "core/data/dataset.h"
#include "core/eval/score_plan.h"
#include "core/sets/set.h"
#include "core/sets/source.h"
#include "core/train/forecast.h"
#include "sessions/job_ranks.h"

struct costs {
    struct table_builder table;
    struct paper_plan *plan;
    double speed, seconds, disk, memory;
    bool partly; // some lines need output of earlier lines
};

// Returns the FLOPs of one token in all weights of the loaded model.
static double token_flops(const struct costs *c)
{
    struct event_info info = { 0 };
    engine_info(c->plan->shell->engine, &info);
    return 2 * (double)info.parameters;
}

// Returns the assumed number of tokens of a sample with one picture.
static double sample_tokens(const struct costs *c)
{
    enum { TEXT = 64 };
    struct event_info info = { 0 };
    engine_info(c->plan->shell->engine, &info);
    return (double)(info.visual_tokens > 0 ? info.visual_tokens : 576) + TEXT;
}

static void add_cost(struct costs *c, const char *what, double samples, double seconds,
                     double memory, double disk)
{
    char time[PACE_TEXT];
    table_row(&c->table, "%s|%.0f|%s|%.1f|%.1f", what, samples, pace_text(time, seconds),
              memory / 1e6, disk / 1e6);
    c->seconds += seconds;
    c->disk += disk;
    c->memory = fmax(c->memory, memory);
}

// Checks the first picture of a data set. Fails if there is one but the model is text-only, unless
// c->partly: then the loaded model may not be the plan's.
static int check_picture(const struct costs *c, const struct dataset *d, const char *what,
                         struct err *err)
{
    struct event_info info = { 0 };
    bool pictures;
    engine_info(c->plan->shell->engine, &info);
    const int status = set_source_check_picture(d, &pictures, err);
    if (pictures && !info.visual_width && !c->partly)
        return err_set(err, "%s has pictures, but the model is text-only", what);
    return status < 0 ? err_in(err, "%s", what) : 0;
}

// Counts the samples of a training file and checks a picture. *count is NaN if the file does not
// exist: usually the plan has yet to make it.
static int count_samples(const struct costs *c, const char *file, double *count, struct err *err)
{
    struct dataset d = { .file = -1 };
    *count = NAN;
    if (access(file, F_OK) < 0) return 0;
    if (dataset_open(&d, file, NULL, err) < 0) return -1;
    *count = (double)d.count;
    const int status = check_picture(c, &d, file, err);
    dataset_close(&d);
    return status;
}

// Adds the cost of `runs` training runs on a data file; `out`: their folder.
static int cost_training(struct costs *c, const char *data, const char *out, double runs,
                         struct err *err)
{
    const struct engine *e = c->plan->shell->engine;
    const struct settings *s = engine_settings(e);
    struct forecast f;
    double samples;
    if (count_samples(c, data, &samples, err) < 0) return -1;
    double steps =
        settings_is(s, "train.steps", "auto") ? NAN : (double)settings_integer(s, "train.steps");
    const double batch =
        (double)(settings_integer(s, "train.batch") * settings_integer(s, "train.accumulate"));
    if (isnan(steps)) steps = ceil(settings_real(s, "train.epochs") * samples / batch);
    if (forecast_model(&f, engine_model(e), s, 0, err) < 0) return err_in(err, "%s", out);
    const double trained = (double)f.count[MODEL_PARTS].trained;
    // Time: forward and backward passes. Disk: the weights, and the state of the newest checkpoint.
    add_cost(c, out, runs * steps * batch,
             runs * steps * batch * 3 * token_flops(c) * (sample_tokens(c) + 192) / c->speed,
             (double)memory_own(&f.parts), runs * trained * (2 + 3 * 4));
    return 0;
}

// /sweep lr-grid DATA OUT, or /sweep KEY V1,V2,... DATA OUT
static int cost_sweep(struct costs *c, const struct words *w, struct err *err)
{
    enum { GRID = 11 };
    const int at = strcmp(w->list[1], "lr-grid") != 0;
    double runs = at ? 1 : GRID;
    for (const char *p = w->list[2]; at && (p = strchr(p, ',')); p++) runs++;
    return cost_training(c, w->list[2 + at], w->list[3 + at], runs, err);
}

// Returns the plan of scores without the rows that need output of the plan of commands. *rows
// counts all rows; a training run counts as a few checkpoints.
static char *scores_now(const struct paper_plan *p, size_t *rows)
{
    enum { CHECKPOINTS = 5 };
    struct buf b = { 0 };
    char *copy = xstrdup(p->scores), *rest = copy, *made = xasprintf("=%s/", p->out);
    size_t seeded = 0;
    *rows = 0;
    for (char *line; (line = strsep(&rest, "\n"));) {
        const bool row = !strncmp(line, "row ", 4), run = !strncmp(line, "checkpoints", 11);
        *rows += row ? 1 : run ? CHECKPOINTS : 0;
        seeded += row && strstr(line, "{seed}");
        for (const char *s = line; !strncmp(line, "seeds", 5) && (s = strchr(s, ' ')); s++)
            *rows += s > line + 5 ? seeded : 0; // the rows once more for each further seed
        if (!strncmp(line, "set", 3) || (row && !strstr(line, made))) buf_printf(&b, "%s\n", line);
    }
    free(copy);
    free(made);
    return buf_take(&b);
}

// Emits a notice of the text and the names, if there are any.
static void note_names(const struct costs *c, const char *text, const struct names *names)
{
    enum { SHOWN = 8 };
    struct buf b = { 0 };
    names_put(&b, names, SHOWN);
    if (names->count) sinks_notice(c->plan->shell->sinks, "%s: %s", text, b.data);
    buf_release(&b);
}

// Names the sets of the paper's columns that --sets lacks, and the files that are no sets: if a
// file's name does not tell its set, only a gap in the finished table would show it.
static void note_gaps(const struct costs *c, const struct score_plan *p)
{
    struct names gaps = { 0 };
    struct err ignored;
    for (const struct paper_column *k = c->plan->table->columns; k->name; k++) {
        // "mme cognition" is a total of the set mme.
        char *set = k->ours ? xstrndup(k->ours, strcspn(k->ours, " ")) : xstrdup("");
        bool found = !eval_set_need(set, &ignored);
        for (size_t i = 0; i < p->sets.count && !found; i++)
            found = !strcmp(p->sets.list[i].name, set);
        if (!found) names_add(&gaps, set, NULL);
        free(set);
    }
    note_names(c,
               "--sets (DIR, or a file with lines 'set NAME: DATA ...') lacks sets of this table",
               &gaps);
    note_names(c, "--sets: these files are not read as sets", &p->sets.others);
    names_release(&gaps);
}

// Checks the settings of the rows and a picture of each set. Returns the number of samples in all
// rows, or -1.
static double check_scores(const struct costs *c, const char *file, struct err *err)
{
    const struct engine *e = c->plan->shell->engine;
    struct model *m = (struct model *)(uintptr_t)engine_model(e); // not changed without adapters
    struct score_plan p;
    double samples = 0;
    size_t rows;
    char *text = scores_now(c->plan, &rows);
    int status = score_plan_parse(&p, text, file, c->plan->asked->limit, err);
    free(text);
    if (status < 0) return -1;
    note_gaps(c, &p);
    status = score_plan_check(&p, engine_settings(e), m, err);
    for (size_t i = 0; i < p.sets.count && status == 0; i++) {
        const struct evaluate_options *o = &p.sets.list[i].options;
        struct dataset d = { .file = -1 };
        if ((status = set_source_open(&o->set, &d, err)) < 0) break;
        samples += (double)(o->limit && o->limit < d.count ? o->limit : d.count);
        char *what = xasprintf("set %s", p.sets.list[i].name);
        status = check_picture(c, &d, what, err);
        free(what);
        dataset_close(&d);
    }
    score_plan_release(&p);
    return status < 0 ? -1 : samples * (double)rows;
}

static int cost_scores(struct costs *c, const char *file, struct err *err)
{
    enum { ANSWER = 16, OF_TOKEN = 8 }; // a generated token takes as long as 8 prompt tokens
    const struct paper_request *a = c->plan->asked;
    struct event_info info = { 0 };
    double samples = 0;
    if (a->demo) { // the plan makes the demo's four sets
        size_t rows;
        free(scores_now(c->plan, &rows));
        samples = 4 * (double)rows * (double)(a->limit ? a->limit : PAPER_DEMO_SAMPLES);
    } else if ((samples = check_scores(c, file, err)) < 0) {
        return -1;
    }
    engine_info(c->plan->shell->engine, &info);
    add_cost(c, "scores", samples,
             samples * token_flops(c) * (sample_tokens(c) + ANSWER * OF_TOKEN) / c->speed,
             2 * (double)info.parameters, samples * 300);
    return 0;
}

// Returns the value of an option among the words; NULL: none.
static const char *option_of(const struct words *w, const char *name)
{
    for (int i = 0; i + 1 < w->count; i++)
        if (!strcmp(w->list[i], name)) return w->list[i + 1];
    return NULL;
}

// Runs a line that opens an existing model or changes settings, and with --small the /new that
// joins the model. Adds the cost of a line that trains, measures or evaluates; skips all others.
static int cost_line(struct costs *c, const char *line, struct err *err)
{
    struct shell *shell = c->plan->shell;
    struct words w = { 0 };
    int status = words_parse(&w, line, false, shell, err);
    if (status < 0 || !w.count) {
        words_release(&w);
        return status;
    }
    const char *name = w.list[0], *limit = option_of(&w, "--limit");
    const char *first = w.count > 1 ? w.list[1] : "";
    double sides = 1; // conditions of a measurement, or sides of a comparison
    for (int i = 0; i < w.count; i++) sides += !strcmp(w.list[i], "|");
    double samples = limit ? strtod(limit, NULL) : 100, held = NAN; // held: in the data
    const bool made = paper_plan_contains(c->plan, first) && access(first, F_OK) < 0;
    if (!strcmp(name, "/new") && c->plan->asked->small) { // the model whose size counts
        status = shell_line(shell, line, err);
    } else if (!strcmp(name, "/scenes") || !strcmp(name, "/new")) {
        c->partly = true;
    } else if (!strcmp(name, "/load") || !strcmp(name, "/adapter") ||
               !strcmp(name, "/calibration")) {
        if (made || strcmp(name, "/load") != 0)
            c->partly = true;
        else
            status = shell_line(shell, line, err);
    } else if (!strcmp(name, "/set") || !strcmp(name, "/reset") || !strcmp(name, "/preset")) {
        // The line may need output of an earlier line of the plan; then it fails here.
        c->partly |= paper_plan_contains(c->plan, w.list[w.count - 1]);
        if (shell_line(shell, line, err) < 0 && !c->partly) status = -1;
    } else if (!strcmp(name, "/train") && w.count > 2) {
        status = cost_training(c, w.list[1], w.list[2], 1, err);
    } else if (!strcmp(name, "/sweep") && w.count > 4) {
        status = cost_sweep(c, &w, err);
    } else if (!strcmp(name, "/eval") && w.count > 2) {
        status = cost_scores(c, w.list[2], err);
    } else if (!strcmp(name, "/calibrate") || !strcmp(name, "/collect")) {
        if (!strcmp(name, "/calibrate") && w.count > 2)
            status = count_samples(c, w.list[2], &held, err);
        samples = sides * fmin(samples, held); // samples if `held` is NaN
        if (status == 0 && !strstr(line, "/train plan") && !strstr(line, "/adapter show"))
            add_cost(c, name + 1, samples, samples * token_flops(c) * sample_tokens(c) / c->speed,
                     0, 1e6);
    }
    words_release(&w);
    return status;
}

// Emits a notice if this machine has less free memory or disk space than the plan needs.
static void note_room(const struct costs *c)
{
    struct shell *shell = c->plan->shell;
    const double memory = (double)memory_free(engine_backend(shell->engine));
    struct statvfs fs;
    if (c->memory > memory)
        sinks_notice(shell->sinks, "this machine has only %.1f GB of memory free", memory / 1e9);
    if (statvfs(c->plan->out, &fs) < 0) return;
    const double disk = (double)fs.f_bavail * (double)fs.f_frsize;
    if (c->disk > disk)
        sinks_notice(shell->sinks,
                     "the disk of '%s' has only %.1f GB free: name a folder on another with --out",
                     c->plan->out, disk / 1e9);
}

int paper_forecast(struct paper_plan *p, struct err *err)
{
    struct costs c = { .plan = p };
    char *copy = xstrdup(p->commands), *rest = copy, time[PACE_TEXT];
    int status = command_check_needs(p->shell, NEEDS_MODEL, err);
    table_begin(&c.table, "paper.forecast", "step|samples#|time|memory MB#|disk MB#");
    c.speed = engine_speed(p->shell->engine);
    for (char *line; status == 0 && (line = strsep(&rest, "\n"));)
        if (*line == '/') status = cost_line(&c, line, err);
    free(copy);
    table_emit(&c.table, p->shell->sinks);
    if (status < 0) return -1;
    const bool known = *pace_text(time, c.seconds);
    sinks_notice(p->shell->sinks,
                 "%s%s on this machine (%.0f GFLOP/s), at most %.1f GB of memory, %.1f GB on "
                 "disk; a sample has a picture and 64 tokens, an answer 16",
                 known ? "about " : "",
                 known ? time : "an unknown time (it depends on data that the plan generates)",
                 c.speed / 1e9, c.memory / 1e9, c.disk / 1e9);
    note_room(&c);
    const long long ranks = settings_integer(engine_settings(p->shell->engine), "job.ranks");
    struct err why;
    if (ranks > 1)
        sinks_notice(p->shell->sinks,
                     "memory is that of each of the %lld ranks; time is that of one rank with all "
                     "samples, of which ranks with a GPU each compute a part",
                     ranks);
    if (ranks > 1 && job_ranks_check(&why) < 0) sinks_notice(p->shell->sinks, "%s", why.text);
    if (c.partly)
        sinks_notice(p->shell->sinks,
                     "lines that use the plan's own results are checked when they run");
    return 0;
}
