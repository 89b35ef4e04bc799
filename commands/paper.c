// commands/paper.c -- /paper: reproduces the tables of papers with a plan of ordinary commands.
//
//   OUT/...             models, data and training runs, which tables share
//   OUT/PAPER-TABLE/    the files of one table:
//     plan.vlmsh        the commands; /run runs them as well
//     scores.plan       the plan for /eval --plan, whose results are in scores/
//     measured.csv      results of /collect
//     table.csv, .md, .tex, report.md   the published and the measured values, the verdict
//     readings.csv, .md, .tex           with --readings: the verdicts under each reading
//   OUT/reading-NAME/   with --readings: the same for a reading that changes training runs
//   OUT/PAPER-TABLE-NAME/             the table under a reading that changes only measurements
// Training runs, calibrations and evaluations are jobs; after an interruption, the same command
// continues them.
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "commands/command.h"
#include "commands/parse.h"
#include "core/base/file_in.h"
#include "core/base/file_out.h"
#include "core/base/folder.h"
#include "core/base/pace.h"
#include "core/base/places.h"
#include "core/base/text.h"
#include "core/data/dataset.h"
#include "core/eval/score_plan.h"
#include "core/papers/paper.h"
#include "core/sets/set.h"
#include "core/sets/source.h"
#include "core/train/forecast.h"
#include "sessions/jobs.h"

enum { DEMO_LIMIT = 100, DEMO_STEPS = 60 };

struct asked {
    const char *paper, *table, *model, *sets, *data, *out, *as;
    int64_t limit, steps;
    bool demo, small, dry, readings;
};

static const struct option_row options[] = {
    { "PAPER", NULL, NULL, OPTION_TEXT, .at = offsetof(struct asked, paper), .optional = true },
    { "TABLE", NULL, NULL, OPTION_TEXT, .at = offsetof(struct asked, table), .optional = true },
    { "--model", "M[,M]", "the model to measure or to train; some figures show several",
      OPTION_TEXT, .at = offsetof(struct asked, model) },
    { "--sets", "DIR", "evaluation sets as downloaded, as for /eval --sets", OPTION_TEXT,
      .at = offsetof(struct asked, sets) },
    { "--data", "FILE[,FILE]",
      "training data (one file for each training stage), samples to measure, or other input of the "
      "table (/paper PAPER lists it)",
      OPTION_TEXT, .at = offsetof(struct asked, data) },
    { "--out", "DIR",
      "the output folder (default: papers; with --demo or --small, followed by -demo or -small); "
      "tables share its training runs",
      OPTION_TEXT, .at = offsetof(struct asked, out) },
    { "--as", "NAME", "compares with the paper's numbers for this model (default: its first model)",
      OPTION_TEXT, .at = offsetof(struct asked, as) },
    { "--demo", NULL, "uses the demo model and its scenes, with stand-ins for the sets",
      OPTION_FLAG, .at = offsetof(struct asked, demo) },
    { "--small", NULL,
      "like --demo, but with the demo model's encoder, SmolLM2-135M (make real) and "
      "demo/seeing/adapter; only for tables that train no model, and for layernorm tuned and "
      "norm-alignment text-gain",
      OPTION_FLAG, .at = offsetof(struct asked, small) },
    { "--limit", "N", "samples per set and measurement (with --demo by default 100)", OPTION_WHOLE,
      .at = offsetof(struct asked, limit), 1, INT64_MAX },
    { "--steps", "N",
      "with --demo: steps of each training run (default: 60); otherwise steps between the "
      "checkpoints of ira figure6",
      OPTION_WHOLE, .at = offsetof(struct asked, steps), 1, INT64_MAX },
    { "--readings", NULL,
      "repeats the table for each reading of what the paper leaves open (an equation, a mean), one "
      "changed at a time, in folders of their own; shows which verdicts stay the same",
      OPTION_FLAG, .at = offsetof(struct asked, readings) },
    { "--dry", NULL,
      "runs nothing: writes and shows the plan, checks models and settings, and forecasts time, "
      "memory and disk",
      OPTION_FLAG, .at = offsetof(struct asked, dry) },
    { 0 },
};

struct plan {
    const struct paper *paper;
    const struct paper_table *table;
    const struct asked *asked;
    struct shell *shell;
    char *out, *folder; // folder: the table's folder in `out`
    char *variant, *key;
    char *commands, *scores;             // scores: text of the plan of scores; NULL: none
    const struct paper_reading *reading; // NULL: the default
    struct csv claims;                   // judged
    enum paper_verdict verdict;
};

// --- the list ------------------------------------------------------------------------------------

static void list(const struct shell *shell, const struct paper *only)
{
    struct table_builder t;
    table_begin(&t, "papers", "paper|table|shows|needs");
    for (int i = 0; papers[i]; i++)
        for (const struct paper_table *row = papers[i]->tables;
             row->name && (!only || only == papers[i]); row++)
            table_row(&t, "%s|%s%s%s|%s|%s", papers[i]->name, row->name, row->also ? " " : "",
                      row->also ? row->also : "", row->title, row->needs);
    table_emit(&t, shell->sinks);
    if (only) sinks_notice(shell->sinks, "%s", only->title);
}

// --- the plan ------------------------------------------------------------------------------------

// Names the option that sets the plan's missing variable.
static int missing(const struct plan *p, const char *name, struct err *err)
{
    static const char *const hints[][2] = {
        { "MODEL", "--model FOLDER" },        { "SETS", "--sets DIR" },
        { "DATA1", "--data FILE" },           { "DATA2", "--data FILE,FILE" },
        { "DATA3", "--data FILE,FILE,FILE" },
    };
    for (size_t i = 0; i < sizeof hints / sizeof *hints; i++)
        if (!strcmp(name, hints[i][0]))
            return err_set(err, "%s %s needs %s: %s; or try it with --demo", p->paper->name,
                           p->table->name, hints[i][1], p->table->needs);
    BUG("a plan of %s has ${%s}", p->paper->name, name);
}

static int write_out(const struct plan *p, const char *name, const char *text, struct err *err)
{
    char *path = xasprintf("%s/%s", p->folder, name);
    const int status = file_out_update(path, text, strlen(text), err);
    free(path);
    return status;
}

// Returns whether a path is in OUT.
static bool is_inside(const struct plan *p, const char *path)
{
    const size_t length = strlen(p->out);
    // NOLINTNEXTLINE(clang-analyzer-core.NonNullParamChecker): an argument is a text
    return !strncmp(path, p->out, length) && path[length] == '/';
}

// Returns whether OUT has tables of earlier commands.
static bool has_tables(const struct plan *p)
{
    bool found = false;
    char **files = folder_list(p->out);
    for (size_t i = 0; files[i] && !found; i++) {
        char *plan = xasprintf("%s/%s/plan.vlmsh", p->out, files[i]);
        found = access(plan, F_OK) == 0;
        free(plan);
    }
    folder_list_free(files);
    return found;
}

// Refuses results of a different plan: a table must not mix models or numbers of samples.
static int check_results(const struct plan *p, struct err *err)
{
    static const char *const files[] = { "measured.csv", "scores" };
    char *plan = xasprintf("%s/plan.vlmsh", p->folder);
    size_t size;
    struct err none;
    char *was = file_read(plan, strlen(p->commands) + 1, &size, &none);
    bool results = false;
    for (int i = 0; i < 2; i++) {
        char *path = xasprintf("%s/%s", p->folder, files[i]);
        results |= access(path, F_OK) == 0;
        free(path);
    }
    const bool same = was && size == strlen(p->commands) && !memcmp(was, p->commands, size);
    free(was);
    free(plan);
    if (same || !results) return 0;
    return err_set(err,
                   "'%s' has results of a different plan (model, data, options or version differ): "
                   "choose another folder with --out, or remove its measured.csv and scores",
                   p->folder);
}

// Makes OUT, unless another program's files are there, and the table's folder.
static int open_folder(const struct plan *p, struct err *err)
{
    if (mkdir(p->out, 0777) < 0 && errno != EEXIST)
        return err_set(err, "cannot create '%s': %s", p->out, strerror(errno));
    if (!folder_is_empty(p->out) && !has_tables(p))
        return err_set(err, "'%s' holds other files: choose another folder with --out", p->out);
    if (mkdir(p->folder, 0777) < 0 && errno != EEXIST)
        return err_set(err, "cannot create '%s': %s", p->folder, strerror(errno));
    return check_results(p, err);
}

// Returns the line that joins the demo's encoder and SmolLM2 in OUT/joined. NULL if one of them is
// missing, or if the table's demo trains models.
static char *make_small(const struct plan *p, struct err *err)
{
    char *encoder = places_installed("demo/model", "config.json");
    char *decoder = places_installed("build", "smollm2.gguf");
    char *lines = NULL;
    if (!p->table->small && strstr(p->table->demo, "/train "))
        err_set(err, "%s %s trains models, which --small does not: use --demo", p->paper->name,
                p->table->name);
    else if (!encoder || !decoder)
        err_set(err, "--small needs build/smollm2.gguf beside the program: run make real");
    else
        lines = xasprintf("/new --encoder %s --decoder %s/smollm2.gguf --merge 4 --seed 1 "
                          "%s/joined --once\n",
                          encoder, decoder, p->out);
    free(encoder);
    free(decoder);
    return lines;
}

// Adds a line that loads the demo's adapter after each line that loads `model`.
static char *with_adapter(char *commands, const char *model)
{
    char *folder = places_installed("demo/seeing/adapter", "adapter_config.json");
    char *load = xasprintf("/load %s\n", model);
    struct buf b = { 0 };
    for (const char *p = commands; *p; p++) {
        if (strncmp(p, load, strlen(load)) != 0) {
            buf_putc(&b, *p);
            continue;
        }
        buf_printf(&b, "%s/adapter load %s\n", load, folder ? folder : "demo/seeing/adapter");
        p += strlen(load) - 1;
    }
    free(folder);
    free(load);
    free(commands);
    return buf_take(&b);
}

// Names the options that the plan does not use.
static void name_unused(const struct plan *p)
{
    const struct asked *a = p->asked;
    const struct paper_table *t = p->table;
    const char *of_sets = !t->rows ? "" : a->demo ? "${LIMIT}" : "${SETS} ${LIMIT}";
    char *text = xasprintf("%s%s%s%s", a->demo ? t->demo : t->plan, t->rows ? t->rows : "",
                           t->after ? t->after : "", of_sets);
    const struct {
        const char *option, *variable;
        bool given;
    } all[] = {
        { "--model", a->small ? "" : "${MODEL}", a->model != NULL },
        { "the second model of --model", "${each}", a->model && strchr(a->model, ',') },
        { "--sets", "${SETS}", a->sets != NULL },
        { "--data", "${DATA", a->data != NULL },
        { "the second file of --data", "${DATA2}",
          a->data && strchr(a->data, ',') && strstr(text, "${DATA1}") },
        { "the third file of --data", "${DATA3}",
          a->data && strchr(a->data, ',') != strrchr(a->data, ',') && strstr(text, "${DATA2}") },
        { "--limit", "${LIMIT}", a->limit > 0 },
        { "--steps", "${STEPS}", a->steps > 0 },
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i].given && (!*all[i].variable || !strstr(text, all[i].variable)))
            sinks_notice(p->shell->sinks, "%s is not used by %s %s%s", all[i].option,
                         p->paper->name, t->name,
                         a->small  ? " --small"
                         : a->demo ? " --demo"
                                   : "");
    free(text);
}

// Checks that a file of --data can be read, or the file of SET:FILE, a value of train.validation.
static int check_data(const char *text, struct err *err)
{
    const char *colon = strchr(text, ':');
    if (!colon || access(text, R_OK) == 0) return dataset_check(text, err);
    char *set = xstrndup(text, strcspn(text, "/:"));
    const int status = eval_set_need(set, err) ? eval_set_check(colon + 1, NULL, err) : -1;
    free(set);
    return status;
}

// Checks the paths, which the plan's commands do not quote, and that the data can be read.
static int check_words(const struct plan *p, const char *model, const char *const data[3],
                       struct err *err)
{
    const char *const words[] = { p->out, model, data[0], data[1], data[2] };
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (words[i] && strpbrk(words[i], " \t\n\"'|#"))
            return err_set(err,
                           "'%s': a path in a plan of commands cannot have spaces or any of \"'|#; "
                           "make a link without them",
                           words[i]);
    for (size_t i = 2; i < sizeof words / sizeof *words; i++)
        if (words[i] && !p->asked->demo && check_data(words[i], err) < 0)
            return err_in(err, "--data");
    return 0;
}

// Makes the texts of the plan.
static int expand(struct plan *p, struct err *err)
{
    const struct asked *a = p->asked;
    if (p->table->small && a->demo && !a->small)
        return err_set(
            err, "%s %s trains the model of --small, not the demo model: use --small (make real)",
            p->paper->name, p->table->name);
    char *small = a->small ? make_small(p, err) : NULL;
    char *joined = small ? xasprintf("%s/joined", p->out) : NULL;
    if (a->small && !small) return -1;
    char *data = xstrdup(a->data ? a->data : ""), *rest = a->data ? data : NULL;
    const char *data1 = strsep(&rest, ","), *data2 = strsep(&rest, ","), *data3 = rest;
    char *limit = xasprintf("%lld", (long long)(a->limit ? a->limit : DEMO_LIMIT));
    char *steps = xasprintf("%lld", (long long)(a->steps ? a->steps : DEMO_STEPS));
    char *texts = places_installed("demo/seeing", "choices.jsonl");
    char *demo = a->demo && !a->model ? places_installed("demo/model", "config.json") : NULL;
    const char *model = joined ? joined : a->model ? a->model : demo;
    char *start = a->demo    ? xasprintf("%s/start", p->out)
                  : a->model ? xstrndup(a->model, strcspn(a->model, ","))
                             : NULL;
    const char *const values[] = { "MODEL",   model,
                                   "OUT",     p->out,
                                   "TABLE",   p->folder,
                                   "SETS",    a->sets,
                                   "DATA1",   data1,
                                   "DATA2",   data2,
                                   "DATA3",   data3,
                                   "LIMIT",   limit,
                                   "STEPS",   steps,
                                   "BASE",    start,
                                   "TEXTS",   texts ? texts : "demo/seeing",
                                   "READING", p->reading ? p->reading->settings : "",
                                   NULL };
    struct err name = { 0 };
    char *text = paper_expand(a->demo ? p->table->demo : p->table->plan, values, &name);
    char *after = paper_expand(p->table->after ? p->table->after : "", values, &name);
    if (text && p->table->rows) p->scores = paper_scores_plan(p->table, a->demo, values, &name);
    const bool whole = text && after && (p->scores || !p->table->rows);
    const int status =
        whole ? check_words(p, model, (const char *[]){ data1, data2, data3 }, err) : 0;
    if (whole) {
        name_unused(p);
        struct buf b = { 0 };
        buf_printf(&b, "# %s, %s: %s\n%s%s", p->paper->name, p->table->name, p->table->title,
                   small ? small : "", text);
        if (p->scores)
            buf_printf(&b, "/eval --plan %s/scores.plan %s/scores%s%s\n/wait\n", p->folder,
                       p->folder, a->limit && !a->demo ? " --limit " : "",
                       a->limit && !a->demo ? limit : "");
        buf_puts(&b, after);
        p->commands = buf_take(&b);
        if (small) p->commands = with_adapter(p->commands, joined);
    }
    free(small);
    free(joined);
    free(text);
    free(after);
    free(data);
    free(limit);
    free(steps);
    free(demo);
    free(start);
    free(texts);
    return whole ? status : missing(p, name.text, err);
}

// --- the forecast --------------------------------------------------------------------------------

struct costs {
    struct table_builder table;
    struct plan *plan;
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

static double samples_of(const char *file)
{
    struct dataset d = { .file = -1 };
    struct err ignored;
    if (!file || access(file, R_OK) < 0 || dataset_open(&d, file, NULL, &ignored) < 0) return NAN;
    const double count = (double)d.count;
    dataset_close(&d);
    return count;
}

// Adds the cost of `runs` training runs on a data file; `out`: their folder.
static int cost_training(struct costs *c, const char *data, const char *out, double runs,
                         struct err *err)
{
    const struct engine *e = c->plan->shell->engine;
    const struct settings *s = engine_settings(e);
    struct forecast f;
    double steps =
        settings_is(s, "train.steps", "auto") ? NAN : (double)settings_integer(s, "train.steps");
    const double batch =
        (double)(settings_integer(s, "train.batch") * settings_integer(s, "train.accumulate"));
    if (isnan(steps)) steps = ceil(settings_real(s, "train.epochs") * samples_of(data) / batch);
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
static char *scores_now(const struct plan *p, size_t *rows)
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

// Checks the settings of the rows, and counts the samples; -1 also if a set cannot be read.
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
    status = score_plan_check(&p, engine_settings(e), m, err);
    for (size_t i = 0; i < p.set_count && status == 0; i++) {
        const struct evaluate_options *o = &p.sets[i].options;
        struct dataset d = { .file = -1 };
        if ((status = set_source_open(&o->set, &d, err)) < 0) break;
        samples += (double)(o->limit && o->limit < d.count ? o->limit : d.count);
        dataset_close(&d);
    }
    score_plan_release(&p);
    return status < 0 ? -1 : samples * (double)rows;
}

static int cost_scores(struct costs *c, const char *file, struct err *err)
{
    enum { ANSWER = 16, OF_TOKEN = 8 }; // a generated token takes as long as 8 prompt tokens
    const struct asked *a = c->plan->asked;
    struct event_info info = { 0 };
    double samples = 0;
    if (a->demo) { // the plan makes the demo's four sets
        size_t rows;
        free(scores_now(c->plan, &rows));
        samples = 4 * (double)rows * (double)(a->limit ? a->limit : DEMO_LIMIT);
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

// Runs a line that only opens a model or changes settings; adds the cost of any other line.
static int cost_line(struct costs *c, const char *line, struct err *err)
{
    struct shell *shell = c->plan->shell;
    struct words w = { 0 };
    int status = words_parse(&w, line, shell, err);
    if (status < 0 || !w.count) {
        words_release(&w);
        return status;
    }
    const char *name = w.list[0], *limit = option_of(&w, "--limit");
    const char *first = w.count > 1 ? w.list[1] : "";
    double sides = 1; // conditions of a measurement, or sides of a comparison
    for (int i = 0; i < w.count; i++) sides += !strcmp(w.list[i], "|");
    const double samples = sides * (limit ? strtod(limit, NULL) : 100);
    const bool made = is_inside(c->plan, first) && access(first, F_OK) < 0;
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
        // Fails if the line needs output of an earlier line of the plan.
        if (shell_line(shell, line, err) < 0 && !c->partly) status = -1;
    } else if (!strcmp(name, "/train") && w.count > 2) {
        status = cost_training(c, w.list[1], w.list[2], 1, err);
    } else if (!strcmp(name, "/sweep") && w.count > 4) {
        status = cost_sweep(c, &w, err);
    } else if (!strcmp(name, "/eval") && w.count > 2) {
        status = cost_scores(c, w.list[2], err);
    } else if (!strcmp(name, "/calibrate") || !strcmp(name, "/collect")) {
        if (!strstr(line, "/train plan") && !strstr(line, "/adapter show"))
            add_cost(c, name + 1, samples, samples * token_flops(c) * sample_tokens(c) / c->speed,
                     0, 1e6);
    }
    words_release(&w);
    return status;
}

static int forecast(struct plan *p, struct err *err)
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
    if (c.partly)
        sinks_notice(p->shell->sinks,
                     "lines that use the plan's own results are checked when they run");
    return 0;
}

// --- the result ----------------------------------------------------------------------------------

// Links the figures that the plan has drawn.
static void put_figures(struct buf *b, const char *folder)
{
    char **files = folder_list(folder);
    for (size_t i = 0; files[i]; i++)
        if (text_ends(files[i], ".svg")) buf_printf(b, "\n![%s](%s)\n", files[i], files[i]);
    folder_list_free(files);
}

static void put_claims(struct buf *b, const struct csv *claims)
{
    buf_puts(b, "\n| claim | paper | here | verdict |\n|---|---:|---:|---|\n");
    for (size_t r = 0; r < claims->row_count; r++)
        buf_printf(b, "| %s | %s | %s | %s |\n", csv_cell(claims, r, 0), csv_cell(claims, r, 1),
                   csv_cell(claims, r, 2), csv_cell(claims, r, 3));
}

// Writes the table, its claims and the plan as one page.
static int write_report(const struct plan *p, const struct csv *layout, struct err *err)
{
    struct buf b = { 0 };
    buf_printf(&b, "# %s, %s%s%s%s%s\n\n%s: %s.\n\n", p->paper->name, p->table->name,
               *p->variant ? ", " : "", p->variant, p->reading ? ", " : "",
               p->reading ? p->reading->title : "", p->paper->title, p->table->title);
    csv_put_markdown(layout, &b);
    put_figures(&b, p->folder);
    put_claims(&b, &p->claims);
    buf_printf(&b, "\n**Verdict: %s.** %s\n", paper_verdicts[p->verdict], paper_rule);
    if (p->asked->demo)
        buf_puts(
            &b,
            "\nA small model and generated scenes stand in for the paper's models and sets: only "
            "the direction of differences can be compared.\n");
    if (p->table->note) buf_printf(&b, "\n%s\n", p->table->note);
    buf_printf(&b, "\n## Plan\n\n```text\n%s```\n", p->commands);
    if (p->scores) buf_printf(&b, "\n`scores.plan`:\n\n```text\n%s```\n", p->scores);
    const int status = write_out(p, "report.md", b.data, err);
    buf_release(&b);
    return status;
}

static int fill(struct plan *p, struct err *err)
{
    struct paper_results r;
    struct csv layout = { 0 };
    if (paper_results_read(&r, p->table, p->key, p->asked->demo, p->folder, err) < 0) return -1;
    paper_layout(&r, &layout);
    p->verdict = paper_judge(&r, &p->claims);
    char *table = xasprintf("%s/table", p->folder);
    int status = csv_write_documents(&layout, table, err);
    free(table);
    if (status == 0) status = write_report(p, &layout, err);
    if (status == 0) {
        char *path = xasprintf("%s/report.md", p->folder);
        csv_emit(&layout, "paper.table", p->shell->sinks);
        csv_emit(&p->claims, "paper.claims", p->shell->sinks);
        sinks_notice(p->shell->sinks, "%s %s: %s. %s", p->paper->name, p->table->name,
                     paper_verdicts[p->verdict], paper_rule);
        if (p->table->note) sinks_notice(p->shell->sinks, "%s", p->table->note);
        sinks_written(p->shell->sinks, "report", path, "report");
        free(path);
    }
    csv_release(&layout);
    paper_results_release(&r);
    return status;
}

// --- the command ---------------------------------------------------------------------------------

// Waits for jobs of an interrupted run of the plan, which work in OUT.
static int wait_for_jobs(const struct plan *p, struct err *err)
{
    struct job_row *rows;
    size_t count;
    int status = store_jobs_read(p->shell->store, &rows, &count, err);
    if (status < 0) return -1;
    char *here = getcwd(NULL, 0);
    for (size_t i = 0; i < count && status == 0; i++) {
        bool ours = false;
        for (int k = 0; k < rows[i].argc; k++) ours |= is_inside(p, rows[i].argv[k]);
        if (!ours || rows[i].state != STATE_RUNNING || !here || strcmp(rows[i].folder, here) != 0)
            continue;
        char *line = xasprintf("/wait %lld", (long long)rows[i].id);
        sinks_notice(p->shell->sinks, "job %lld (%s) of an earlier run is still working in '%s'",
                     (long long)rows[i].id, rows[i].kind, p->out);
        status = shell_line(p->shell, line, err);
        free(line);
    }
    job_rows_free(rows, count);
    free(here);
    return status;
}

static int run_plan(const struct plan *p, struct err *err)
{
    struct shell *shell = p->shell;
    if (wait_for_jobs(p, err) < 0) return -1;
    char *file = xasprintf("%s/plan.vlmsh", p->folder);
    if (!shell->depth) engine_uncancel(shell->engine);
    shell->depth++;
    const int status = shell_script(shell, file, err);
    shell->depth--;
    free(file);
    return status;
}

static int reproduce(struct plan *p, struct err *err)
{
    struct err later;
    p->variant = paper_variant(p->table, p->asked->as, &p->key, err);
    if (!p->variant || expand(p, err) < 0 || open_folder(p, err) < 0) return -1;
    if (write_out(p, "plan.vlmsh", p->commands, err) < 0) return -1;
    if (p->scores && write_out(p, "scores.plan", p->scores, err) < 0) return -1;
    sinks_text(p->shell->sinks, "%s", p->commands);
    if (p->scores) sinks_text(p->shell->sinks, "# %s/scores.plan\n%s", p->folder, p->scores);
    if (p->asked->dry) return forecast(p, err);
    const int status = run_plan(p, err);
    // Even if some cells failed, the others have results.
    char *scores = xasprintf("%s/scores/scores.csv", p->folder);
    const bool filled = status == 0 || access(scores, F_OK) == 0;
    free(scores);
    return filled && fill(p, status < 0 ? &later : err) < 0 ? -1 : status;
}

static void plan_release(struct plan *p)
{
    free(p->out);
    free(p->folder);
    free(p->variant);
    free(p->key);
    free(p->commands);
    free(p->scores);
    csv_release(&p->claims);
}

// Reproduces the table under one reading, or by default if NULL, and adds its claims to *all.
static int reproduce_in(const struct asked *a, const struct plan *like,
                        const struct paper_reading *reading, struct csv *all, struct err *err)
{
    struct plan p = {
        .paper = like->paper,
        .table = like->table,
        .asked = a,
        .shell = like->shell,
        .reading = reading,
        .out = reading && !reading->shares ? xasprintf("%s/reading-%s", like->out, reading->name)
                                           : xstrdup(like->out),
    };
    p.folder = xasprintf("%s/%s-%s%s%s", p.out, p.paper->name, p.table->name,
                         reading && reading->shares ? "-" : "",
                         reading && reading->shares ? reading->name : "");
    const int status = reproduce(&p, err);
    if (status == 0 && !a->dry)
        paper_readings_add(all, reading ? reading->title : "default", &p.claims, p.verdict);
    plan_release(&p);
    return status < 0 && reading ? err_in(err, "reading %s", reading->name) : status;
}

// Says which verdicts of a table depend on a reading.
static int compare_readings(const struct plan *p, struct csv *all, struct err *err)
{
    paper_readings_close(all);
    char *stem = xasprintf("%s/readings", p->folder);
    const int status = csv_write_documents(all, stem, err);
    free(stem);
    if (status < 0) return -1;
    size_t kept = 0;
    for (size_t i = 0; i + 1 < all->row_count; i++)
        kept += !strcmp(csv_cell(all, i, all->column_count - 1), "yes");
    csv_emit(all, "paper.readings", p->shell->sinks);
    sinks_notice(p->shell->sinks,
                 "%s %s: %zu of %zu claims keep their verdict under all %d readings",
                 p->paper->name, p->table->name, kept, all->row_count - 1, all->column_count - 2);
    return 0;
}

static int reproduce_all(const struct asked *a, const struct plan *p, struct err *err)
{
    struct csv all = { 0 };
    const struct paper_reading *r = p->paper->readings;
    size_t count = 0;
    for (; a->readings && r && r->name; r++) count += paper_reading_matters(r, p->table);
    if (a->readings && !count)
        return err_set(err, "--readings: no reading changes %s %s", p->paper->name, p->table->name);
    int status = reproduce_in(a, p, NULL, &all, err);
    for (r = p->paper->readings; count && status == 0 && r->name; r++)
        if (paper_reading_matters(r, p->table)) status = reproduce_in(a, p, r, &all, err);
    if (count && status == 0 && !a->dry) status = compare_readings(p, &all, err);
    csv_release(&all);
    return status;
}

static int paper_run(struct shell *shell, int argc, char **argv, struct err *err)
{
    struct asked a = { 0 };
    struct plan p = { .asked = &a, .shell = shell };
    if (options_parse(options, &a, argc, argv, err) < 0) return -1;
    if (a.small) a.demo = true; // a demo with a different model
    if (a.paper && !(p.paper = paper_find(a.paper, err))) return -1;
    if (!p.paper || !a.table) {
        list(shell, p.paper);
        return 0;
    }
    if (!(p.table = paper_table_find(p.paper, a.table, err))) return -1;
    p.out = xstrdup(a.out ? a.out : a.small ? "papers-small" : a.demo ? "papers-demo" : "papers");
    p.folder = xasprintf("%s/%s-%s", p.out, a.paper, p.table->name);
    const int status = reproduce_all(&a, &p, err);
    plan_release(&p);
    return status;
}

const struct command command_paper = {
    .name = "paper",
    .also = "reproduce tables figures publication replicate",
    .usage =
        "/paper [PAPER [TABLE [--model M[,M]] [--sets DIR] [--data FILE[,FILE]] [--demo|--small] "
        "[--as NAME] "
        "[--limit N] [--steps N] [--out DIR] [--readings] [--dry]]]",
    .help = "Reproduces a published table with a model and its evaluation sets.",
    .details =
        "Writes a plan of ordinary commands to OUT/PAPER-TABLE/plan.vlmsh, shows it and runs it. "
        "The "
        "resulting table shows the measured numbers beside the paper's, 95% intervals, and a "
        "verdict on "
        "each claim of the paper. Training runs, calibrations and evaluations are jobs: to "
        "continue "
        "after an interruption, repeat the command. The plan begins with /reset all and loads "
        "models, so run it in a shell of its own. Without arguments, lists papers and tables.\n"
        "    /paper capa table1 --demo\n"
        "    /paper capa table1 --model llava-1.5-7b-hf --sets benchmarks --dry",
    .options = options,
    .complete = COMPLETE_NOTHING,
    .needs = NEEDS_STORE,
    .run = paper_run,
};
