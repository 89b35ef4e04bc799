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
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "commands/paper_plan.h"
#include "commands/parse.h"
#include "core/base/file_in.h"
#include "core/base/file_out.h"
#include "core/base/folder.h"
#include "core/base/places.h"
#include "core/base/text.h"
#include "core/data/dataset.h"
#include "core/sets/source.h"
#include "sessions/jobs.h"

static const struct option_row options[] = {
    { "PAPER", NULL, NULL, OPTION_TEXT, .at = offsetof(struct paper_request, paper),
      .optional = true },
    { "TABLE", NULL, NULL, OPTION_TEXT, .at = offsetof(struct paper_request, table),
      .optional = true },
    { "--model", "M[,M]", "the model to measure or to train; some figures show several",
      OPTION_TEXT, .at = offsetof(struct paper_request, model) },
    { "--sets", "DIR",
      "evaluation sets as downloaded, or a file that names them, as for /eval --sets", OPTION_TEXT,
      .at = offsetof(struct paper_request, sets) },
    { "--data", "FILE[,FILE]",
      "training data (one file for each training stage), samples to measure, or other input of the "
      "table (/paper PAPER lists it)",
      OPTION_TEXT, .at = offsetof(struct paper_request, data) },
    { "--out", "DIR",
      "the output folder (default: papers; with --demo or --small, followed by -demo or -small); "
      "tables share its training runs",
      OPTION_TEXT, .at = offsetof(struct paper_request, out) },
    { "--as", "NAME", "compares with the paper's numbers for this model (default: its first model)",
      OPTION_TEXT, .at = offsetof(struct paper_request, as) },
    { "--demo", NULL, "uses the demo model and its scenes, with stand-ins for the sets",
      OPTION_FLAG, .at = offsetof(struct paper_request, demo) },
    { "--small", NULL,
      "like --demo, but with the demo model's encoder, SmolLM2-135M (make real) and "
      "demo/seeing/adapter; only for tables that train no model, and for layernorm tuned and "
      "norm-alignment text-gain",
      OPTION_FLAG, .at = offsetof(struct paper_request, small) },
    { "--limit", "N",
      "samples per measurement (default: 100) and per set (default: all; with --demo 100)",
      OPTION_WHOLE, .at = offsetof(struct paper_request, limit), 1, INT64_MAX },
    { "--steps", "N",
      "with --demo: steps of each training run (default: 60); otherwise steps between the "
      "checkpoints of ira figure6",
      OPTION_WHOLE, .at = offsetof(struct paper_request, steps), 1, INT64_MAX },
    { "--readings", NULL,
      "repeats the table for each reading of what the paper leaves open (an equation, a mean), one "
      "changed at a time, in folders of their own; shows which verdicts stay the same",
      OPTION_FLAG, .at = offsetof(struct paper_request, readings) },
    { "--dry", NULL,
      "measures and trains nothing: writes and shows the plan, checks models and settings, and "
      "forecasts time, memory and disk",
      OPTION_FLAG, .at = offsetof(struct paper_request, dry) },
    { 0 },
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

// True for a setting that the plan keeps, because it changes no result: where and how jobs run, the
// screen, figures. Settings of STALE_RUNS are reset, although they change no result either.
static bool is_kept(const struct setting *row)
{
    return row->stale == STALE_JOBS || row->stale == STALE_NOTHING;
}

// After each line that resets all settings, adds lines that restore the kept ones (job.ranks 8).
static char *keep_settings(char *commands, const struct settings *s)
{
    static const char reset[] = "/reset all\n";
    struct buf lines = { 0 }, b = { 0 };
    const struct setting *row;
    for (int i = 0; (row = settings_row(i)); i++)
        if (is_kept(row) && settings_changed(s, row->key))
            buf_printf(&lines, "/set %s %s\n", row->key, settings_text(s, row->key));
    for (const char *p = commands; *p;) {
        const size_t n = strcspn(p, "\n") + (strchr(p, '\n') != NULL);
        buf_add(&b, p, n);
        if (lines.length && !strncmp(p, reset, strlen(reset))) buf_puts(&b, lines.data);
        p += n;
    }
    buf_release(&lines);
    free(commands);
    return buf_take(&b);
}

// Returns the next line of *text, but skips lines that set a kept setting; NULL at the end.
static const char *next_line(const char **text, size_t *length)
{
    static const char set[] = "/set ";
    while (**text) {
        const char *line = *text;
        const size_t n = strcspn(line, "\n");
        *text += n + (line[n] == '\n');
        *length = n;
        if (strncmp(line, set, strlen(set)) != 0) return line;
        char *key = xstrndup(line + strlen(set), strcspn(line + strlen(set), " \n"));
        const struct setting *row = settings_find(key);
        free(key);
        if (!row || !is_kept(row)) return line;
    }
    return NULL;
}

// Returns whether two plans have the same commands, except for kept settings.
static bool same_plan(const char *a, const char *b)
{
    const char *x, *y;
    size_t n = 0, m = 0;
    do {
        x = next_line(&a, &n);
        y = next_line(&b, &m);
        if (!x != !y || (x && (n != m || strncmp(x, y, n) != 0))) return false;
    } while (x);
    return true;
}

// Fails because the plan's variable `name` has no value; the message names the option that sets it.
static int missing(const struct paper_plan *p, const char *name, struct err *err)
{
    static const char *const hints[][2] = {
        { "MODEL", "--model FOLDER" },        { "SETS", "--sets DIR" },
        { "DATA1", "--data FILE" },           { "DATA2", "--data FILE,FILE" },
        { "DATA3", "--data FILE,FILE,FILE" },
    };
    if (p->asked->demo && !strcmp(name, "MODEL"))
        return err_set(err, "--demo needs the folder demo/model beside the program, as in its "
                            "source tree, or --model FOLDER");
    for (size_t i = 0; i < sizeof hints / sizeof *hints; i++)
        if (!strcmp(name, hints[i][0]))
            return err_set(err, "%s %s needs %s: %s%s", p->paper->name, p->table->name, hints[i][1],
                           p->table->needs, p->table->small ? "" : "; or try it with --demo");
    BUG("a plan of %s has ${%s}", p->paper->name, name);
}

static int write_out(const struct paper_plan *p, const char *name, const char *text,
                     struct err *err)
{
    char *path = xasprintf("%s/%s", p->folder, name);
    const int status = file_out_update(path, text, strlen(text), err);
    free(path);
    return status;
}

bool paper_plan_contains(const struct paper_plan *p, const char *path)
{
    const size_t length = strlen(p->out);
    // NOLINTNEXTLINE(clang-analyzer-core.NonNullParamChecker): never NULL
    return !strncmp(path, p->out, length) && path[length] == '/';
}

// Returns whether OUT has tables of earlier commands.
static bool has_tables(const struct paper_plan *p)
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

// Refuses results of a different plan in the table's folder: a table must not mix models, data or
// numbers of samples.
static int check_results(const struct paper_plan *p, struct err *err)
{
    enum { PLAN_MAX = 1 << 20 };
    static const char *const files[] = { "measured.csv", "scores" };
    char *plan = xasprintf("%s/plan.vlmsh", p->folder);
    size_t size;
    struct err none;
    char *was = file_read(plan, PLAN_MAX, &size, &none);
    bool results = false;
    for (int i = 0; i < 2; i++) {
        char *path = xasprintf("%s/%s", p->folder, files[i]);
        results |= access(path, F_OK) == 0;
        free(path);
    }
    const bool same = was && same_plan(was, p->commands);
    free(was);
    free(plan);
    if (same || !results) return 0;
    return err_set(err,
                   "'%s' has results of a different plan (model, data, options or version differ): "
                   "choose another folder with --out, or remove its measured.csv and scores",
                   p->folder);
}

// Makes OUT and the table's folder. Refuses an OUT that has files but no table, and a table's
// folder with results of a different plan.
static int open_folder(const struct paper_plan *p, struct err *err)
{
    if (mkdir(p->out, 0777) < 0 && errno != EEXIST)
        return err_set(err, "cannot create '%s': %s", p->out, strerror(errno));
    if (!folder_is_empty(p->out) && !has_tables(p))
        return err_set(err, "'%s' holds other files: choose another folder with --out", p->out);
    if (mkdir(p->folder, 0777) < 0 && errno != EEXIST)
        return err_set(err, "cannot create '%s': %s", p->folder, strerror(errno));
    return check_results(p, err);
}

// Like places_installed, but a path in the current folder becomes relative, so that reports do not
// name that folder.
static char *installed(const char *name, const char *file)
{
    char *path = places_installed(name, file), *here = getcwd(NULL, 0);
    const size_t n = here ? strlen(here) : 0;
    if (path && n && !strncmp(path, here, n) && path[n] == '/')
        memmove(path, path + n + 1, strlen(path + n + 1) + 1);
    free(here);
    return path;
}

// Returns the plan's line that joins the demo's encoder and SmolLM2 into OUT/joined. NULL with a
// message if one of them is missing, or if the table's demo trains a model but not that of --small.
static char *make_small(const struct paper_plan *p, struct err *err)
{
    char *encoder = installed("demo/model", "config.json");
    char *decoder = installed("build", "smollm2.gguf");
    char *lines = NULL;
    if (!p->table->small && strstr(p->table->demo, "/train "))
        err_set(err, "%s %s trains models, which --small does not: use --demo", p->paper->name,
                p->table->name);
    else if (!encoder || !decoder)
        err_set(err,
                "--small needs demo/model and build/smollm2.gguf (make real) beside the program");
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
    char *folder = installed("demo/seeing/adapter", "adapter_config.json");
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

// Emits a notice for each given option that the plan does not use.
static void name_unused(const struct paper_plan *p)
{
    const struct paper_request *a = p->asked;
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

// Checks a set of train.validation and one of its pictures: training would read them only after the
// first stage.
static int check_set(struct set_source *s, struct err *err)
{
    struct dataset d = { .file = -1 };
    bool pictures;
    if (set_source_find(s, err) < 0 || set_source_check(s, err) < 0 ||
        set_source_open(s, &d, err) < 0)
        return -1;
    const int status = set_source_check_picture(&d, &pictures, err);
    dataset_close(&d);
    return status;
}

// Checks that a value of --data can be read: a file or, for train.validation,
// SET[/SUITE]:FILE[:DIR].
static int check_data(const char *text, struct err *err)
{
    struct set_source s = { 0 };
    char *copy = xstrdup(text);
    const int status = access(text, R_OK) == 0 || !set_source_split(&s, copy)
                           ? dataset_check(text, err)
                           : check_set(&s, err);
    set_source_release(&s);
    free(copy);
    return status;
}

// Refuses characters in the paths of OUT, model and data that a plan cannot have, because its lines
// do not quote these paths. Without --demo, also checks that the data can be read.
static int check_words(const struct paper_plan *p, const char *model, const char *const data[3],
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

// Expands the plan's templates: makes p->commands and p->scores.
static int expand(struct paper_plan *p, struct err *err)
{
    const struct paper_request *a = p->asked;
    if (p->table->small && a->demo && !a->small)
        return err_set(
            err, "%s %s trains the model of --small, not the demo model: use --small (make real)",
            p->paper->name, p->table->name);
    char *small = a->small ? make_small(p, err) : NULL;
    char *joined = small ? xasprintf("%s/joined", p->out) : NULL;
    if (a->small && !small) return -1;
    char *data = xstrdup(a->data ? a->data : ""), *rest = a->data ? data : NULL;
    const char *data1 = strsep(&rest, ","), *data2 = strsep(&rest, ","), *data3 = rest;
    char *limit = xasprintf("%lld", (long long)(a->limit ? a->limit : PAPER_DEMO_SAMPLES));
    char *steps = xasprintf("%lld", (long long)(a->steps ? a->steps : PAPER_DEMO_STEPS));
    char *texts = installed("demo/seeing", "choices.jsonl");
    char *demo = a->demo && !a->model ? installed("demo/model", "config.json") : NULL;
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
        p->commands = keep_settings(p->commands, engine_settings(p->shell->engine));
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
static int write_report(const struct paper_plan *p, const struct csv *layout, struct err *err)
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

static int fill(struct paper_plan *p, struct err *err)
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

// Waits for the running jobs that were started in the current folder and have an argument in OUT,
// such as those of an interrupted run of the plan.
static int wait_for_jobs(const struct paper_plan *p, struct err *err)
{
    struct job_row *rows;
    size_t count;
    int status = store_jobs_read(p->shell->store, &rows, &count, err);
    if (status < 0) return -1;
    char *here = getcwd(NULL, 0);
    for (size_t i = 0; i < count && status == 0; i++) {
        bool ours = false;
        for (int k = 0; k < rows[i].argc; k++) ours |= paper_plan_contains(p, rows[i].argv[k]);
        if (!ours || rows[i].state != STATE_RUNNING || !here || strcmp(rows[i].folder, here) != 0)
            continue;
        char *line = xasprintf("/wait %lld", (long long)rows[i].id);
        sinks_notice(p->shell->sinks, "job %lld (%s) of an earlier run is still running in '%s'",
                     (long long)rows[i].id, rows[i].kind, p->out);
        status = shell_line(p->shell, line, err);
        free(line);
    }
    job_rows_free(rows, count);
    free(here);
    return status;
}

static int run_plan(const struct paper_plan *p, struct err *err)
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

static int reproduce(struct paper_plan *p, struct err *err)
{
    struct err later;
    p->variant = paper_variant(p->table, p->asked->as, &p->key, err);
    if (!p->variant || expand(p, err) < 0 || open_folder(p, err) < 0) return -1;
    if (write_out(p, "plan.vlmsh", p->commands, err) < 0) return -1;
    if (p->scores && write_out(p, "scores.plan", p->scores, err) < 0) return -1;
    sinks_text(p->shell->sinks, "%s", p->commands);
    if (p->scores) sinks_text(p->shell->sinks, "# %s/scores.plan\n%s", p->folder, p->scores);
    if (p->asked->dry) return paper_forecast(p, err);
    const int status = run_plan(p, err);
    // Even if some cells failed, the others have results.
    char *scores = xasprintf("%s/scores/scores.csv", p->folder);
    const bool filled = status == 0 || access(scores, F_OK) == 0;
    free(scores);
    return filled && fill(p, status < 0 ? &later : err) < 0 ? -1 : status;
}

static void plan_release(struct paper_plan *p)
{
    free(p->out);
    free(p->folder);
    free(p->variant);
    free(p->key);
    free(p->commands);
    free(p->scores);
    csv_release(&p->claims);
}

// Reproduces the table under one reading (NULL: the default). Unless --dry is given, adds its
// claims to *all.
static int reproduce_in(const struct paper_request *a, const struct paper_plan *like,
                        const struct paper_reading *reading, struct csv *all, struct err *err)
{
    struct paper_plan p = {
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

// Writes and shows the verdicts of a table under each reading.
static int compare_readings(const struct paper_plan *p, struct csv *all, struct err *err)
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

static int reproduce_all(const struct paper_request *a, const struct paper_plan *p, struct err *err)
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
    struct paper_request a = { 0 };
    struct paper_plan p = { .asked = &a, .shell = shell };
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
        "The resulting table shows the measured numbers beside the paper's, 95% intervals, and a "
        "verdict on each claim of the paper. Training runs, calibrations and evaluations are jobs: "
        "to continue after an interruption, repeat the command. The plan resets all settings "
        "except some that change no result (job.ranks, screen.theme ...) and loads models, so run "
        "it in a shell of its own. Without arguments, lists papers and tables.\n"
        "    /paper capa table1 --demo\n"
        "    /paper capa table1 --model llava-1.5-7b-hf --sets benchmarks --dry",
    .options = options,
    .complete = COMPLETE_NOTHING,
    .needs = NEEDS_STORE,
    .run = paper_run,
};
