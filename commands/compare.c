// commands/compare.c -- /compare: answers one question, or all of a data set, with two sets of
// settings.
//
// Each side is computed with separate settings in a separate conversation: the engine's settings,
// conversation and adapter are unchanged afterwards.
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands/changed.h"
#include "commands/jobs.h"
#include "commands/parse.h"
#include "core/base/file_out.h"
#include "core/data/dataset.h"
#include "core/engine/presets.h"
#include "core/eval/compare_results.h"
#include "core/probes/results.h"
#include "core/sets/set.h"
#include "core/settings/changes.h"
#include "core/template/message.h"
#include "core/tokenizer/tokenizer.h"

enum { SHOWN = 20 };

struct asking {
    struct evaluate_options data; // the data set, and how its questions are asked
    struct shell *shell;
    struct grid grid; // its cells are the sides
    char *title[2];
    char *question; // NULL: none
    const char *csv;
    bool all_steps, text_begins, job;
    struct preset_values values[2]; // settings of the sides, with presets expanded
};

// --- arguments -----------------------------------------------------------------------------------

// Ends the options: the question begins with this word.
static int take_word(void *self, const char *value, struct err *err)
{
    ((struct asking *)self)->text_begins = true;
    return 1;
}

static const struct option_row options[] = {
    { "TEXT", NULL, "the question (default: the last one of the conversation)", .take = take_word,
      .optional = true },
    { "--data", "FILE",
      "a data set as for /eval; answers are greedy. Reports the paired difference with a 95% "
      "bootstrap interval over questions (2000 resamples, fixed seed) and, for scores that are "
      "only 0 or 1, McNemar's exact test. /changed shows the flips: questions that one side "
      "answers better",
      OPTION_TEXT, .at = offsetof(struct asking, data.set.data) },
    EVALUATE_DATA_OPTIONS,
    { "--job", NULL,
      "runs as a job (/jobs, /wait, /job N resume); /results compare shows the result", OPTION_FLAG,
      .at = offsetof(struct asking, job) },
    { "--csv", "FILE", "writes every step or, with --data, every question", OPTION_TEXT,
      .at = offsetof(struct asking, csv), .check = file_out_check },
    { "--steps", NULL, "shows all steps, not only the first 20", OPTION_FLAG,
      .at = offsetof(struct asking, all_steps) },
    { 0 },
};

// Refuses presets that choose layers by the loaded model, for a side with another model.
static int check_presets(int argc, char **argv, const char *model, struct err *err)
{
    for (int i = 0; model && i < argc; i++) {
        const struct preset *p = argv[i][0] == '@' ? preset_find(argv[i] + 1) : NULL;
        if (p && strchr(p->set, '{'))
            return err_set(err, "%s chooses layers of the loaded model: write KEY=VALUE for '%s'",
                           argv[i], model);
    }
    return 0;
}

// Reads the settings of a side from argv; *argc becomes the number of words used.
static int read_side(struct asking *a, int side, int *argc, char **argv, struct err *err)
{
    static const char of_model[] = "model=";
    struct preset_values *v = &a->values[side];
    const char *model = NULL;
    if (*argc && !strncmp(argv[0], of_model, sizeof of_model - 1))
        model = argv[0] + sizeof of_model - 1;
    const int own = model != NULL;
    int used = preset_words(a->shell, *argc - own, argv + own, v, err);
    if (used < 0 || check_presets(used, argv + own, model, err) < 0) return -1;
    used += own;
    struct settings *s = model ? engine_propose_elsewhere(a->shell->engine, v->list, v->count, err)
                               : engine_propose(a->shell->engine, v->list, v->count, err);
    if (!s) return err_in(err, "side %c", 'A' + side);
    char *title = words_join(used, argv);
    grid_add(&a->grid, side ? "B" : "A", s)->model = model;
    a->title[side] = compare_title(used > 0 ? title : "now", v, s);
    *argc = used;
    free(title);
    return 0;
}

static int read_question(struct asking *a, int argc, char **argv, struct err *err)
{
    struct set_source *set = &a->data.set;
    int at = options_parse(options, a, argc, argv, err);
    if (at < 0) return -1;
    if (at > 0 && a->text_begins) at--; // take_word has read the first word of the question
    if (at < argc && preset_find(argv[at]))
        sinks_notice(a->shell->sinks,
                     "'%s' was read as the start of the question; to name the "
                     "preset, write @%s",
                     argv[at], argv[at]);
    char *text = words_join(argc - at, argv + at);
    if (*text)
        a->question = text;
    else
        free(text);
    if (a->data.set.data && (a->grid.cells[0].model || a->grid.cells[1].model))
        return err_set(err, "model= compares one question; /eval --plan scores several models on "
                            "data sets");
    if (a->data.set.data && a->question)
        return err_set(err, "give either a question or --data, not both: '%s'", a->question);
    if (!set->data && (a->data.metric || a->data.limit || set->images || set->shots || a->job))
        return err_set(err, "--metric, --limit, --images, --shots and --job need --data FILE");
    if (set_source_find(set, err) < 0) return -1;
    if (a->job && a->csv)
        return err_set(
            err, "--csv cannot be used with --job: run /results N --csv FILE when the job is done");
    return 0;
}

// Reads A | B OPTIONS TEXT.
static int read_line(struct asking *a, int argc, char **argv, struct err *err)
{
    int bar = 0, first, second;
    while (bar < argc && strcmp(argv[bar], "|") != 0) bar++;
    if (bar == argc)
        return err_set(
            err,
            "write two sets of settings separated by |: /compare off | prune.score=contribution");
    first = bar;
    if (read_side(a, 0, &first, argv, err) < 0) return -1;
    if (first < bar && !strncmp(argv[first], "--", 2))
        return err_set(err, "write %s after the settings: /compare SETTINGS | SETTINGS %s ...",
                       argv[first], argv[first]);
    if (first < bar)
        return err_set(err, "'%s' is not a setting: use KEY=VALUE, @PRESET, off or now",
                       argv[first]);
    second = argc - bar - 1;
    if (read_side(a, 1, &second, argv + bar + 1, err) < 0) return -1;
    const int used = bar + 1 + second;
    if (used < argc && !strcmp(argv[used], "|"))
        return err_set(err, "/compare has two sides: measurements (/norms A | B | C) and plans "
                            "(/eval --sets DIR OUT --settings \"A | B | C\") take more");
    return read_question(a, argc - used, argv + used, err);
}

// --- one question --------------------------------------------------------------------------------

// Without a question in *r, selects the last question of the conversation.
static int find_question(const struct engine *e, struct compare_request *r, struct err *err)
{
    const struct engine_talk c = engine_talk(e);
    r->messages = c.message_count;
    if (r->question) return 0;
    while (r->messages && c.messages[r->messages - 1].role == ROLE_ASSISTANT) r->messages--;
    if (r->messages && (c.messages[r->messages - 1].role == ROLE_USER ||
                        c.messages[r->messages - 1].role == ROLE_RAW))
        return 0;
    return err_set(err, "no question has been asked yet: add one after the settings");
}

// Returns the text of a token, or its number if the loaded model has other tokens.
static char *token_text(const struct asking *a, const struct comparison *c, int64_t id)
{
    struct buf b = { 0 };
    const int32_t one = (int32_t)id;
    if (!c->known) return xasprintf("%" PRId64, id);
    tokenizer_decode(engine_tokenizer(a->shell->engine), &one, 1, false, &b);
    return buf_take(&b);
}

static void show_steps(const struct asking *a, const struct comparison *c)
{
    struct table_builder t;
    int64_t step = 0;
    if (!c->comparable) return;
    table_begin(&t, "compare.steps", "step#|hellinger#|A|B");
    for (; step < c->distance.steps && (a->all_steps || step < SHOWN); step++) {
        table_row(&t, "%" PRId64 "|%.6f", step, c->distance.hellinger[step]);
        for (int k = 0; k < 2; k++) table_take(&t, token_text(a, c, c->distance.best[k][step]));
    }
    table_emit(&t, a->shell->sinks);
    if (step < c->distance.steps)
        sinks_notice(a->shell->sinks,
                     "%" PRId64 " more step%s: --steps shows all, --csv FILE writes them",
                     c->distance.steps - step, c->distance.steps - step == 1 ? "" : "s");
}

static int write_steps(const struct asking *a, const struct comparison *c, struct err *err)
{
    struct table_builder t;
    table_begin(&t, "steps", "step#|hellinger#|a#|b#|token_a|token_b");
    for (int64_t i = 0; i < c->distance.steps; i++) {
        table_row(&t, "%" PRId64 "|%.9g|%" PRId64 "|%" PRId64, i, c->distance.hellinger[i],
                  (int64_t)c->distance.best[0][i], (int64_t)c->distance.best[1][i]);
        for (int k = 0; k < 2; k++) table_take(&t, token_text(a, c, c->distance.best[k][i]));
    }
    return table_write(&t, a->csv, a->shell->sinks, err);
}

static int compare_question(struct asking *a, struct err *err)
{
    struct compare_request request = { .grid = &a->grid,
                                       .from = engine_conversation(a->shell->engine),
                                       .question = a->question };
    struct results r = { 0 };
    struct comparison c;
    if (engine_watched(a->shell->engine)) request.watch = a->shell->sinks;
    if (find_question(a->shell->engine, &request, err) < 0 || compare_run(&request, &c, err) < 0)
        return -1;
    compare_results(&r, (const char *const *)a->title, &c);
    results_show(&r, a->shell->sinks);
    show_steps(a, &c);
    char *found = compare_conclusion(&c);
    sinks_notice(a->shell->sinks, "%s", found);
    results_note(&r, "%s", found);
    free(found);
    compare_results_steps(&r, &c);
    results_emit(&r, "compare", NULL, false, a->shell->sinks);
    const int status = a->csv ? write_steps(a, &c, err) : 0;
    results_release(&r);
    comparison_release(&c);
    return status;
}

// --- a data set ----------------------------------------------------------------------------------

enum { CHANGED = 20 };

// Shows the first flips: questions that one side answers better.
static void show_changed(const struct asking *a, const struct compared_data *d)
{
    struct table_builder t;
    size_t changed = 0;
    table_begin(&t, "compare.changed", "id|kind|A#|B#|answer A|answer B|reference|question");
    for (size_t i = 0; i < d->count; i++) {
        const struct evaluated *x = &d->list[i].side[0].outcome, *y = &d->list[i].side[1].outcome;
        if (x->score == y->score || changed++ >= CHANGED) continue;
        table_row(&t, "%s|%s|%.4g|%.4g|%s|%s|%s|%s", x->id, x->kind, x->score, y->score, x->answer,
                  y->answer, x->reference, x->prompt);
    }
    t.titled = true;
    if (changed) table_emit(&t, a->shell->sinks);
    if (changed > CHANGED)
        sinks_notice(a->shell->sinks, "%zu more flip%s: --csv FILE writes all questions",
                     changed - CHANGED, changed - CHANGED == 1 ? "" : "s");
}

static void show_data(const struct asking *a, const struct compared_data *d)
{
    struct results r = { 0 };
    compare_data_results(&r, (const char *const *)a->title, d);
    results_note(&r, "over %" PRId64 " sample%s of %s", d->evaluation[0].samples,
                 d->evaluation[0].samples == 1 ? "" : "s", a->data.set.data);
    results_show(&r, a->shell->sinks);
    show_changed(a, d);
    compare_data_results_questions(&r, d);
    results_emit(&r, "compare", NULL, false, a->shell->sinks);
    results_release(&r);
}

static int write_questions(const struct asking *a, const struct compared_data *d, struct err *err)
{
    struct table_builder t;
    table_begin(&t, "questions",
                "id|metric#|score_a#|score_b#|hellinger_mean#|hellinger_largest#|steps#|first#|"
                "kind|question|reference|answer_a|answer_b");
    for (size_t i = 0; i < d->count; i++) {
        const struct compared_question *q = &d->list[i];
        const struct evaluated *x = &q->side[0].outcome, *y = &q->side[1].outcome;
        const struct compare_distance *distance = &q->side[1].distance;
        table_row(&t, "%s|%s|%.9g|%.9g", x->id, x->metric->name, x->score, y->score);
        if (q->generated)
            table_row(&t, "%.9g|%.9g|%" PRId64 "|%" PRId64, distance->mean, distance->most,
                      distance->steps, q->first);
        else
            table_row(&t, "|||");
        table_row(&t, "%s|%s|%s|%s|%s", x->kind, x->prompt, x->reference, x->answer, y->answer);
    }
    return table_write(&t, a->csv, a->shell->sinks, err);
}

static int compare_data(struct asking *a, struct err *err)
{
    struct compare_work w = { .options = a->data };
    struct compared_data *d = &w.result;
    a->grid.self = &w;
    for (int k = 0; k < 2; k++) a->grid.cells[k].set = a->data.set;
    int status = grid_run(&a->grid, &compare_plan, err);
    if (status < 0) return -1;
    show_data(a, d);
    status = a->csv ? write_questions(a, d, err) : 0;
    const struct changed_source source = { { a->title[0], a->title[1] }, a->data.set };
    changed_keep(a->shell, &source, d);
    if (status == 0 && (d->stopped || d->evaluation[0].cancelled))
        status = err_set(err, "stopped after %" PRId64 " samples", d->evaluation[1].samples);
    compared_data_release(d);
    return status;
}

static void add_word(char ***words, int *count, char *word)
{
    *words = xreallocarray(*words, (size_t)*count + 1, sizeof **words);
    (*words)[(*count)++] = word;
}

// Starts a job whose arguments are the settings of both sides, then the arguments that /eval would
// get.
static int start_job(const struct asking *a, struct err *err)
{
    const struct evaluate_options *o = &a->data;
    char limit[32], **words = NULL;
    int count = 0;
    snprintf(limit, sizeof limit, "%" PRId64, o->limit);
    const struct {
        const char *name, *value;
    } options_of[] = { { "--limit", o->limit ? limit : NULL },
                       { "--metric", o->metric ? o->metric->name : NULL },
                       { "--set", o->set.kind ? o->set.kind->name : NULL },
                       { "--rule", o->set.kind ? o->set.way->suite : NULL },
                       { "--columns", o->set.columns },
                       { "--images", o->set.images },
                       { "--shots", o->set.shots } };
    for (int side = 0; side < 2; side++) {
        const struct preset_values *v = &a->values[side];
        for (size_t i = 0; i < v->count; i++)
            add_word(&words, &count,
                     xasprintf("%s=%s", v->list[i].key,
                               settings_text(a->grid.cells[side].settings, v->list[i].key)));
        add_word(&words, &count, xstrdup("|"));
    }
    add_word(&words, &count, xstrdup(o->set.data));
    for (size_t i = 0; i < sizeof options_of / sizeof *options_of; i++) {
        if (!options_of[i].value) continue;
        add_word(&words, &count, xstrdup(options_of[i].name));
        add_word(&words, &count, xstrdup(options_of[i].value));
    }
    int status = command_check_needs(a->shell, NEEDS_STORE, err);
    if (status == 0) status = shell_start_job(a->shell, "compare", count, words, err);
    for (int i = 0; i < count; i++) free(words[i]);
    free(words);
    return status;
}

// --- the command ---------------------------------------------------------------------------------

static int compare_run_command(struct shell *shell, int argc, char **argv, struct err *err)
{
    struct asking a = { .shell = shell, .grid = grid_of_engine(shell->engine) };
    int status = read_line(&a, argc, argv, err);
    if (status == 0 && a.job)
        status = start_job(&a, err);
    else if (status == 0)
        status = a.data.set.data ? compare_data(&a, err) : compare_question(&a, err);
    grid_release(&a.grid);
    evaluate_options_release(&a.data);
    for (int k = 0; k < 2; k++) {
        preset_values_release(&a.values[k]);
        free(a.title[k]);
    }
    free(a.question);
    return status;
}

const struct command command_compare = {
    .name = "compare",
    .also = "diff difference side-by-side ab",
    .usage = "/compare SETTINGS | SETTINGS [--csv FILE] [--steps] [TEXT], or /compare SETTINGS | "
             "SETTINGS --data FILE [--set NAME [--rule SUITE] [--columns NAME=COLUMN,...]] "
             "[--limit N] [--metric M] [--images DIR] [--shots FILE] [--csv FILE] [--job]",
    .help = "Compares two sets of settings on one question or a data set, side by side.",
    .details =
        "Side A is the first SETTINGS, side B the second. SETTINGS is KEY=VALUE ..., @PRESET, "
        "`off` (every method off; the adapter stays) or `now` (the current settings); other "
        "settings keep their values. model=FOLDER before them loads another model for the side, "
        "without the current adapter (not with --data). Without TEXT, asks the last question "
        "again. The settings and the conversation stay as they are.\n"
        "    /compare off | prune.score=contribution prune.keep=0.25\n"
        "    /compare adapter=none | adapter=out/ln What is this?\n"
        "    /compare now | model=out/merged What is this?\n"
        "    /compare @capa-prune | @fastv --data yesno.json --limit 200\n"
        "Each side computes the prompt and the pictures from scratch. Afterwards, B reads A's "
        "tokens (teacher forcing). The Hellinger distance at step t compares the next-token "
        "distributions of A and B after the same t tokens, over the whole vocabulary (0 "
        "identical, 1 disjoint). GFLOP counts 2 FLOPs per multiply-add, in the language model "
        "only, without norms and softmax.",
    .options = options,
    .writes = true,
    .min = 1,
    .needs = NEEDS_MODEL,
    .complete = COMPLETE_SETTING,
    .question = true,
    .run = compare_run_command,
};
