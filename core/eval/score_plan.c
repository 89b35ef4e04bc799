// core/eval/score_plan.c -- reads a plan of scores: its rows, and what multiplies them.
#include "core/eval/score_plan.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/adapter/adapter.h"
#include "core/base/folder.h"
#include "core/base/text.h"
#include "core/engine/presets.h"
#include "core/files/checkpoint.h"
#include "core/model/model.h"

enum { ROWS_MAX = 10000, SEED_MAX = 100 };
static const size_t text_max = (size_t)64 << 20; // bytes of the texts of all rows

// The lines of a plan that multiply its rows: model, seeds, checkpoints.
struct factors {
    struct named_model {
        char *name, *folder;
    } * models;
    size_t model_count;
    struct names seeds;
    struct run {
        char *folder, *row, *words; // row: the row to replace; "": every row
    } * runs;
    size_t run_count;
};

// --- rows ----------------------------------------------------------------------------------------

// Checks that the plan stays within ROWS_MAX if its rows are multiplied by `times`.
static int check_rows(const struct score_plan *p, size_t times, struct err *err)
{
    size_t rows;
    if (!mul_overflows(p->row_count, times, &rows) && rows <= ROWS_MAX) return 0;
    return err_set(err, "a plan has at most %d rows", ROWS_MAX);
}

// Returns the key to put before a word that names an existing folder or file: "adapter=" or
// "model="; "" for other words.
static const char *key_of(const char *word)
{
    if (strchr(word, '=') || *word == '@') return "";
    if (adapter_is(word)) return "adapter=";
    return access(word, F_OK) == 0 ? "model=" : "";
}

// Takes ownership of the name and the words.
static int add_row(struct score_plan *p, char *name, char *words, struct err *err)
{
    static const char of_model[] = "model=";
    struct buf b = { 0 };
    char **list;
    const int count = plan_words(words, &list);
    p->rows = xreallocarray(p->rows, p->row_count + 1, sizeof *p->rows);
    struct score_row *r = &p->rows[p->row_count++];
    *r = (struct score_row){ .name = name, .step = -1 };
    for (int i = 0; i < count; i++) {
        char *word = xasprintf("%s%s", key_of(list[i]), list[i]);
        const char *quote = strchr(word, ' ') ? "\"" : "";
        if (strncmp(word, of_model, strlen(of_model)) != 0) {
            buf_printf(&b, "%s%s%s%s", b.length ? " " : "", quote, word, quote);
        } else {
            free(r->model);
            r->model = xstrdup(word + strlen(of_model));
        }
        free(word);
    }
    r->words = buf_take(&b);
    free(list);
    free(words);
    return check_rows(p, 1, err);
}

// Adds a row from "NAME: SETTINGS", or from "SETTINGS", which is then also the name.
static int add_text_row(struct score_plan *p, const char *text, struct err *err)
{
    const char *colon = strstr(text, ": ");
    if (!colon && text_ends(text, ":")) colon = text + strlen(text) - 1;
    const bool named = colon && !memchr(text, '=', (size_t)(colon - text));
    char *words = plan_trimmed(named ? colon + 1 : text, strlen(named ? colon + 1 : text));
    return add_row(p, named ? plan_trimmed(text, (size_t)(colon - text)) : xstrdup(words), words,
                   err);
}

static char *with_name(const char *name, const char *more)
{
    return *name && *more ? xasprintf("%s, %s", name, more) : xstrdup(*name ? name : more);
}

static int row_copy(struct score_plan *to, const struct score_row *r, const char *more,
                    const char *model, const char *adapter, int64_t step, struct err *err)
{
    to->rows = xreallocarray(to->rows, to->row_count + 1, sizeof *to->rows);
    struct score_row *row = &to->rows[to->row_count++];
    *row = (struct score_row){ .name = with_name(r->name, more),
                               .model = model      ? xstrdup(model)
                                        : r->model ? xstrdup(r->model)
                                                   : NULL,
                               .words = adapter ? xasprintf("adapter=\"%s\" %s", adapter, r->words)
                                                : xstrdup(r->words),
                               .step = step >= 0 ? step : r->step };
    to->text += strlen(row->name) + (row->model ? strlen(row->model) : 0) + strlen(row->words);
    return to->text <= text_max
               ? 0
               : err_set(err, "the rows have more than 64 MB of text: divide the plan");
}

static void rows_release(struct score_row *rows, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        free(rows[i].name);
        free(rows[i].model);
        free(rows[i].words);
    }
    free(rows);
}

static void replace_rows(struct score_plan *p, struct score_plan *by)
{
    rows_release(p->rows, p->row_count);
    p->rows = by->rows;
    p->row_count = by->row_count;
    p->text = by->text;
}

static int multiply_models(struct score_plan *p, const struct factors *f, struct err *err)
{
    struct score_plan to = { 0 };
    bool used = false;
    int status = 0;
    for (size_t i = 0; i < p->row_count && status == 0; i++) {
        const struct score_row *r = &p->rows[i];
        used |= !r->model;
        if (r->model) status = row_copy(&to, r, "", NULL, NULL, -1, err);
        for (size_t m = 0; m < f->model_count && !r->model && status == 0; m++)
            status = row_copy(&to, r, f->models[m].name, f->models[m].folder, NULL, -1, err);
    }
    replace_rows(p, &to);
    if (status < 0) return -1;
    return used ? 0
                : err_set(err, "model %s is unused: every row names its own model",
                          f->models[0].name);
}

static int by_step(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

// Lists the steps of a run's checkpoints that have weights (train.keep).
static int64_t *list_steps(const char *run, size_t *count)
{
    char **names = folder_list(run);
    size_t n = 0;
    while (names[n]) n++;
    int64_t *steps = xcalloc(n + 1, sizeof *steps);
    *count = 0;
    for (size_t i = 0; i < n; i++) {
        bool unfinished;
        const int64_t step = checkpoint_step(names[i], &unfinished);
        char *config = xasprintf("%s/%s/config.json", run, names[i]);
        char *folder = xasprintf("%s/%s", run, names[i]);
        if (step >= 0 && !unfinished && (adapter_is(folder) || access(config, F_OK) == 0))
            steps[(*count)++] = step;
        free(config);
        free(folder);
    }
    folder_list_free(names);
    if (*count) qsort(steps, *count, sizeof *steps, by_step);
    return steps;
}

static bool has_row(const struct score_plan *p, const char *name)
{
    for (size_t i = 0; i < p->row_count; i++)
        if (!strcmp(p->rows[i].name, name)) return true;
    return false;
}

// Fails with the names of the rows. `line`: the keyword of the line that names a missing row.
static int lacks_row(const struct score_plan *p, const char *line, const char *name,
                     struct err *err)
{
    struct buf rows = { 0 };
    for (size_t i = 0; i < p->row_count; i++)
        buf_printf(&rows, "%s'%s'", i ? "; " : "", p->rows[i].name);
    err_set(err, "%s: there is no row '%s'; the rows are %s", line, name,
            rows.data ? rows.data : "none");
    buf_release(&rows);
    return -1;
}

// Replaces the row run->row (every row if "") with several rows: the unchanged row as step 0,
// before training; then, for each checkpoint, the row with that checkpoint and run->words.
static int multiply_checkpoints(struct score_plan *p, const struct run *run, struct err *err)
{
    struct score_plan to = { 0 };
    size_t count;
    if (*run->row && !has_row(p, run->row)) return lacks_row(p, "checkpoints", run->row, err);
    int64_t *steps = list_steps(run->folder, &count);
    if (check_rows(p, count + 1, err) < 0) {
        free(steps);
        return -1;
    }
    int status = 0;
    for (size_t i = 0; i < p->row_count && count && status == 0; i++) {
        const struct score_row *r = &p->rows[i];
        if (*run->row && strcmp(run->row, r->name) != 0) {
            status = row_copy(&to, r, "", NULL, NULL, -1, err);
            continue;
        }
        status = row_copy(&to, r, "step 0", NULL, NULL, 0, err);
        for (size_t k = 0; k < count && status == 0; k++) {
            char *folder = xasprintf("%s/checkpoint-%lld", run->folder, (long long)steps[k]);
            char *step = xasprintf("step %lld", (long long)steps[k]);
            char *config = xasprintf("%s/config.json", folder);
            // Full training with a method that learns saves both a model and an adapter.
            const bool model = access(config, F_OK) == 0, adapter = adapter_is(folder);
            status = row_copy(&to, r, step, model ? folder : NULL, adapter ? folder : NULL,
                              steps[k], err);
            char **own = &to.rows[to.row_count - 1].words,
                 *both = xasprintf("%s %s", *own, run->words);
            free(*own);
            *own = both;
            to.text += strlen(run->words);
            free(config);
            free(folder);
            free(step);
        }
    }
    free(steps);
    if (!count)
        return err_set(err,
                       "'%s' has no checkpoints with weights: train with /set train.keep N, which "
                       "keeps the weights of the last N checkpoints",
                       run->folder);
    replace_rows(p, &to);
    return status;
}

static const char seed_mark[] = "{seed}";

// Puts the seed in place of each mark. Returns the number of bytes added.
static size_t put_seed(char **text, const char *seed)
{
    struct buf b = { 0 };
    const char *at = *text;
    const size_t before = strlen(at);
    for (const char *mark; (mark = strstr(at, seed_mark)); at = mark + sizeof seed_mark - 1) {
        buf_add(&b, at, (size_t)(mark - at));
        buf_puts(&b, seed);
    }
    buf_puts(&b, at);
    const size_t after = b.length;
    free(*text);
    *text = buf_take(&b);
    return after > before ? after - before : 0;
}

static int multiply_seeds(struct score_plan *p, const struct names *seeds, struct err *err)
{
    struct score_plan to = { 0 };
    bool used = false;
    int status = 0;
    for (size_t k = 0; k < seeds->count && status == 0; k++)
        if (strlen(seeds->list[k]) > SEED_MAX)
            status =
                err_set(err, "seed '%.20s...' has more than %d bytes", seeds->list[k], SEED_MAX);
    for (size_t i = 0; i < p->row_count && status == 0; i++) {
        const struct score_row *r = &p->rows[i];
        const bool has = strstr(r->words, seed_mark) || (r->model && strstr(r->model, seed_mark));
        used |= has;
        for (size_t k = 0; k < (has ? seeds->count : 1) && status == 0; k++) {
            status = row_copy(&to, r, "", NULL, NULL, -1, err);
            struct score_row *row = &to.rows[to.row_count - 1];
            if (has) to.text += put_seed(&row->words, seeds->list[k]);
            if (has && row->model) to.text += put_seed(&row->model, seeds->list[k]);
        }
    }
    replace_rows(p, &to);
    if (status < 0) return -1;
    return used ? 0 : err_set(err, "seeds: no row contains {seed}");
}

static int multiply(struct score_plan *p, const struct factors *f, struct err *err)
{
    int status = 0;
    if (!p->row_count) status = add_row(p, xstrdup(""), xstrdup(""), err);
    if (status == 0 && f->model_count && (status = check_rows(p, f->model_count, err)) == 0)
        status = multiply_models(p, f, err);
    for (size_t i = 0; i < f->run_count && status == 0; i++)
        status = multiply_checkpoints(p, &f->runs[i], err);
    if (status == 0 && f->seeds.count && (status = check_rows(p, f->seeds.count, err)) == 0)
        status = multiply_seeds(p, &f->seeds, err);
    for (size_t i = 0; i < p->row_count; i++)
        if (!*p->rows[i].name) {
            free(p->rows[i].name);
            p->rows[i].name = xstrdup("now");
        }
    return status;
}

// --- the file ------------------------------------------------------------------------------------

static int check_compares(const struct score_plan *p, struct err *err)
{
    for (size_t i = 0; i < p->compare_count; i++) {
        const struct score_compare *c = &p->compares[i];
        const char *missing = !has_row(p, c->from) ? c->from : !has_row(p, c->to) ? c->to : NULL;
        if (missing) return lacks_row(p, "compare", missing, err);
    }
    return 0;
}

// Adds the run of a line "checkpoints [ROW:] FOLDER WORDS"; `text` is FOLDER WORDS. Takes ownership
// of `row`.
static void add_run(struct factors *f, char *row, const char *text)
{
    const size_t length = plan_until(text, " \t");
    f->runs = xreallocarray(f->runs, f->run_count + 1, sizeof *f->runs);
    f->runs[f->run_count++] =
        (struct run){ plan_unquoted(text, length), row, xstrdup(text + length) };
}

// Adds the seeds of a line "seeds N N ...", which are separated by spaces.
static void add_words(struct names *to, char *text)
{
    char *rest = NULL;
    for (char *w = strtok_r(text, " \t", &rest); w; w = strtok_r(NULL, " \t", &rest))
        names_add(to, w, NULL);
}

// Reads a line "KEY [NAME:] TEXT".
static int read_line(struct score_plan *p, struct factors *f, const char *line, int64_t limit,
                     struct err *err)
{
    const size_t length = strcspn(line, " \t");
    char *key = xstrndup(line, length), *text = plan_trimmed(line + length, strlen(line + length));
    const bool of_run = !strcmp(key, "checkpoints");
    const bool named = !strcmp(key, "row") || !strcmp(key, "model");
    const size_t colon = plan_until(text, named || of_run ? ":" : "|");
    char *name = text[colon] ? plan_unquoted(text, colon) : xstrdup("");
    char *after =
        plan_trimmed(text + colon + (text[colon] != 0), text[colon] ? strlen(text + colon + 1) : 0);
    int status = 0;
    if (named && !*name)
        status = err_set(err, "write '%s NAME: ...'", key);
    else if (!strcmp(key, "set"))
        status = score_sets_line(&p->sets, text, limit, err);
    else if (!strcmp(key, "row")) {
        status = add_row(p, name, after, err);
        name = after = NULL;
    } else if (!strcmp(key, "model")) {
        f->models = xreallocarray(f->models, f->model_count + 1, sizeof *f->models);
        f->models[f->model_count++] =
            (struct named_model){ name, plan_unquoted(after, strlen(after)) };
        name = NULL;
    } else if (!strcmp(key, "sets") && *text) {
        char *path = plan_unquoted(text, strlen(text));
        status = score_sets_add(&p->sets, path, limit, err);
        free(path);
    } else if (of_run) {
        add_run(f, name, text[colon] ? after : text);
        name = NULL;
    } else if (!strcmp(key, "seeds") && *text) {
        add_words(&f->seeds, text);
    } else if (!strcmp(key, "compare") && *name && *after) {
        p->compares = xreallocarray(p->compares, p->compare_count + 1, sizeof *p->compares);
        p->compares[p->compare_count++] =
            (struct score_compare){ name, plan_unquoted(after, strlen(after)) };
        name = NULL;
    } else {
        status = err_set(
            err,
            "a line of a plan cannot begin with '%s': use set NAME: DATA, sets DIR, sets FILE, row "
            "NAME: SETTINGS, model NAME: FOLDER, checkpoints [ROW:] RUN, seeds N N ..., compare "
            "ROW | ROW",
            key);
    }
    free(key);
    free(text);
    free(name);
    free(after);
    return status;
}

static void factors_release(struct factors *f)
{
    for (size_t i = 0; i < f->model_count; i++) {
        free(f->models[i].name);
        free(f->models[i].folder);
    }
    free(f->models);
    for (size_t i = 0; i < f->run_count; i++) {
        free(f->runs[i].folder);
        free(f->runs[i].row);
        free(f->runs[i].words);
    }
    free(f->runs);
    names_release(&f->seeds);
}

int score_plan_parse(struct score_plan *p, const char *text, const char *name, int64_t limit,
                     struct err *err)
{
    struct factors f = { 0 };
    int number = 0, status = 0;
    char *all = xstrdup(text), *rest = all;
    *p = (struct score_plan){ 0 };
    for (char *line; status == 0 && (line = strsep(&rest, "\n"));) {
        char *plain = plan_trimmed(line, strlen(line));
        number++;
        if (*plain && *plain != '#') status = read_line(p, &f, plain, limit, err);
        free(plain);
    }
    free(all);
    if (status < 0)
        err_in(err, "%s:%d", name, number);
    else if (!p->sets.count)
        status = err_set(err, "%s: a plan needs a line 'set NAME: DATA', 'sets DIR' or 'sets FILE'",
                         name);
    else if ((status = multiply(p, &f, err)) < 0 || (status = check_compares(p, err)) < 0)
        err_in(err, "%s", name);
    factors_release(&f);
    if (status < 0) score_plan_release(p);
    return status;
}

int score_plan_read(struct score_plan *p, const char *file, int64_t limit, struct err *err)
{
    char *text = plan_text(file, err);
    const int status = text ? score_plan_parse(p, text, file, limit, err) : -1;
    free(text);
    return status;
}

int score_plan_of_sets(struct score_plan *p, const char *sets, const char *settings, int64_t limit,
                       struct err *err)
{
    *p = (struct score_plan){ 0 };
    int status = score_sets_add(&p->sets, sets, limit, err);
    char *copy = xstrdup(settings ? settings : "now"), *rest = copy;
    for (char *row; status == 0 && (row = strsep(&rest, "|"));) {
        char *words = plan_trimmed(row, strlen(row));
        status = add_text_row(p, words, err);
        free(words);
    }
    free(copy);
    if (status < 0) score_plan_release(p);
    return status;
}

// Returns the last component of a model's path, or the whole path if another model's path has the
// same last component.
static char *model_name(const struct names *models, size_t model)
{
    const char *path = models->list[model], *name = text_file_name(path);
    bool taken = !*name;
    for (size_t i = 0; i < models->count; i++)
        taken |= i != model && !strcmp(name, text_file_name(models->list[i]));
    return xstrdup(taken ? path : name);
}

int score_plan_of_rows(struct score_plan *p, const char *const *texts, size_t count,
                       const struct names *models, const char *run, const struct names *seeds,
                       struct err *err)
{
    struct factors f = { 0 };
    int status = 0;
    *p = (struct score_plan){ 0 };
    for (size_t i = 0; i < count && status == 0; i++) status = add_text_row(p, texts[i], err);
    for (size_t i = 0; i < models->count; i++) {
        f.models = xreallocarray(f.models, f.model_count + 1, sizeof *f.models);
        f.models[f.model_count++] =
            (struct named_model){ model_name(models, i), xstrdup(models->list[i]) };
    }
    if (run) add_run(&f, xstrdup(""), run);
    for (size_t i = 0; i < seeds->count; i++) names_add(&f.seeds, seeds->list[i], NULL);
    if (status == 0) status = multiply(p, &f, err);
    factors_release(&f);
    if (status < 0) score_plan_release(p);
    return status;
}

// --- settings ------------------------------------------------------------------------------------

static int add_word(struct preset_values *v, const char *word, const struct proposal *base,
                    struct err *err)
{
    const struct model *m = base->env.model;
    if (!strcmp(word, "now")) return 0;
    if (!strcmp(word, "off")) {
        preset_off(v);
        return 0;
    }
    if (*word != '@') {
        if (!strchr(word, '='))
            return err_set(
                err,
                "'%s' is neither a setting (KEY=VALUE, @PRESET, off, now) nor the folder of an "
                "adapter or model",
                word);
        if (!strchr(word, '{')) return preset_add_word(v, word, err);
        return m ? preset_read_text(v, word, m, err) : 0;
    }
    const struct preset *preset = preset_find(word + 1);
    if (!preset)
        return err_set(err, "there is no built-in preset '%s': a plan takes KEY=VALUE for others",
                       word + 1);
    if (!m && strchr(preset->set, '{')) return 0;
    struct preset_values all = { .settings = base->from };
    const int status = preset_read(&all, preset, m, err);
    if (status == 0) preset_fit(&all, m, base->from, true);
    for (size_t i = 0; i < all.count && status == 0; i++)
        preset_add(v, all.list[i].key, all.list[i].value);
    preset_values_release(&all);
    return status;
}

struct settings *score_row_settings(const struct score_row *r, const struct proposal *base,
                                    struct names *notices, struct err *err)
{
    struct preset_values v = { .settings = base->from };
    struct proposal p = *base;
    struct settings *settings = NULL;
    char **words, *copy = xstrdup(r->words);
    const int count = plan_words(copy, &words);
    int status = 0;
    for (int i = 0; i < count && status == 0; i++) status = add_word(&v, words[i], base, err);
    if (status == 0 && (status = proposal_check(&p, v.list, v.count, err)) == 0) {
        settings = p.env.settings;
        p.env.settings = NULL;
        for (size_t i = 0; i < p.notices.count && notices; i++)
            names_add(notices, p.notices.list[i], NULL);
        proposal_release(&p);
    }
    if (status < 0) err_in(err, "row %s", r->name);
    preset_values_release(&v);
    free(words);
    free(copy);
    return settings;
}

// Creates the settings of all rows of one model, made[row]. name NULL: the model of `base`;
// otherwise opens the model `name` for this, without the adapter and phases.calibration of `base`.
static int settings_of_model(const struct score_plan *p, const char *name,
                             const struct proposal *base, struct settings **made,
                             struct names *notices, struct err *err)
{
    struct settings *from = settings_copy(base->from);
    struct adapters adapters = { 0 };
    struct proposal one = *base;
    int status = 0;
    one.from = from;
    if (name) {
        settings_reset(from, "adapter");
        settings_reset(from, "phases.calibration");
        one.env.model = model_open(name, backend_cpu(), NULL, NULL, err);
        one.env.adapters = &adapters;
        one.loaded = one.resets = true;
        status = one.env.model ? 0 : -1;
    }
    for (size_t i = 0; i < p->row_count && status == 0; i++) {
        const struct score_row *r = &p->rows[i];
        if (made[i] || !r->model != !name || (name && strcmp(name, r->model) != 0)) continue;
        struct names said = { 0 };
        made[i] = score_row_settings(r, &one, &said, err);
        for (size_t k = 0; k < said.count; k++) {
            char *notice = xasprintf("%s: %s", r->name, said.list[k]);
            names_add(notices, notice, NULL);
            free(notice);
        }
        names_release(&said);
        if (!made[i]) status = -1;
    }
    adapters_release(&adapters);
    if (name) model_free(one.env.model);
    settings_free(from);
    return status < 0 && name ? err_in(err, "%s", name) : status;
}

int score_plan_settings(const struct score_plan *p, const struct proposal *base,
                        struct settings **made, struct names *notices, struct err *err)
{
    for (size_t i = 0; i < p->row_count; i++)
        if (!made[i] && settings_of_model(p, p->rows[i].model, base, made, notices, err) < 0)
            return -1;
    return 0;
}

int score_plan_check(const struct score_plan *p, const struct settings *settings, struct model *m,
                     struct err *err)
{
    for (size_t i = 0; i < p->sets.count; i++)
        if (evaluate_options_check(&p->sets.list[i].options, err) < 0)
            return err_in(err, "set %s", p->sets.list[i].name);
    for (size_t i = 0; i < p->row_count; i++) {
        const struct score_row *r = &p->rows[i];
        const struct proposal base = { .from = settings,
                                       .training = true,
                                       .env = { .model = r->model ? NULL : m } };
        if (r->model && *r->model == '/' && access(r->model, F_OK) < 0)
            return err_set(err, "row %s: cannot open the model '%s': %s", r->name, r->model,
                           strerror(errno));
        struct settings *row = score_row_settings(r, &base, NULL, err);
        if (!row) return -1;
        settings_free(row);
    }
    return 0;
}

void score_plan_release(struct score_plan *p)
{
    score_sets_release(&p->sets);
    rows_release(p->rows, p->row_count);
    for (size_t i = 0; i < p->compare_count; i++) {
        free(p->compares[i].from);
        free(p->compares[i].to);
    }
    free(p->compares);
    *p = (struct score_plan){ 0 };
}
