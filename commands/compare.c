// commands/compare.c -- /compare: one question, or a data set, under two sets of settings.
//
// The engine's settings, conversation and adapter are as before afterwards: both sides are computed
// with settings of their own in a conversation of their own.
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands/compare_table.h"
#include "commands/option_table.h"
#include "commands/presets.h"
#include "core/clock.h"
#include "core/compare_data.h"

enum { SHOWN = 20 };

struct asking {
    struct shell *shell;
    struct settings *settings[2];
    char *title[2]; // as typed
    char *question; // NULL: none
    const char *csv, *data, *images;
    const struct metric *metric;
    int64_t limit;
    bool all_steps, text_begins;
    double begin, told;
};

// --- what is typed -------------------------------------------------------------------------------

static int take_csv(void *self, const char *value, struct err *err)
{
    ((struct asking *)self)->csv = value;
    return 0;
}

static int take_data(void *self, const char *value, struct err *err)
{
    ((struct asking *)self)->data = value;
    return 0;
}

static int take_images(void *self, const char *value, struct err *err)
{
    ((struct asking *)self)->images = value;
    return 0;
}

static int take_metric(void *self, const char *value, struct err *err)
{
    return (((struct asking *)self)->metric = metric_need(value, err)) ? 0 : -1;
}

static int take_limit(void *self, const char *value, struct err *err)
{
    long long n;
    if (option_integer(value, 1, INT64_MAX, &n, "--limit", err) < 0) return -1;
    ((struct asking *)self)->limit = n;
    return 0;
}

static int take_steps(void *self, const char *value, struct err *err)
{
    ((struct asking *)self)->all_steps = true;
    return 0;
}

// A word of the question: it begins here.
static int take_word(void *self, const char *value, struct err *err)
{
    ((struct asking *)self)->text_begins = true;
    return 1;
}

static const struct option_row option_rows[] = {
    { "--data", "FILE", "a data set", take_data },
    { "--csv", "FILE", "all steps, or all questions of a data set", take_csv },
    { "--limit", "N", "samples", take_limit },
    { "--metric", "M", "for all samples", take_metric },
    { "--images", "DIR", "where relative paths begin", take_images },
    { "--steps", NULL, "shows every step", take_steps },
    { 0 },
};
static const struct option_table options = { option_rows, take_word };

// The settings of a side, from its words; *argc of them are taken.
static int read_side(struct asking *a, int side, int *argc, char **argv, struct err *err)
{
    struct preset_values v = { 0 };
    struct buf title = { 0 };
    const int used = preset_words(a->shell, *argc, argv, &v, err);
    struct settings *s = settings_copy(engine_settings(a->shell->engine));
    int status = used < 0 ? -1 : 0;
    for (size_t i = 0; i < v.count && status == 0; i++) {
        const char *value = v.list[i].value;
        if (!strcmp(v.list[i].key, "adapter") && (!*value || !strcmp(value, "off"))) value = "none";
        status = settings_set(s, v.list[i].key, value, err);
    }
    for (int i = 0; i < used; i++) buf_printf(&title, "%s%s", i ? " " : "", argv[i]);
    a->settings[side] = s;
    a->title[side] = used > 0 ? buf_take(&title) : xstrdup("now");
    *argc = used;
    buf_release(&title);
    preset_values_release(&v);
    return status;
}

static int read_question(struct asking *a, int argc, char **argv, struct err *err)
{
    struct buf text = { 0 };
    int at = 0;
    if (option_table_read(&options, a, argc, argv, &at, err) < 0) return -1;
    if (at > 0 && a->text_begins) at--; // the word at which the question begins was read
    for (int i = at; i < argc; i++) buf_printf(&text, "%s%s", i > at ? " " : "", argv[i]);
    if (text.length) a->question = buf_take(&text);
    buf_release(&text);
    if (a->data && a->question)
        return err_set(err, "a question or --data, not both: '%s'", a->question);
    if (!a->data && (a->metric || a->limit || a->images))
        return err_set(err, "--metric, --limit and --images belong to --data FILE");
    return 0;
}

// A | B OPTIONS TEXT
static int read_line(struct asking *a, int argc, char **argv, struct err *err)
{
    int bar = 0, first, second;
    while (bar < argc && strcmp(argv[bar], "|") != 0) bar++;
    if (bar == argc)
        return err_set(err, "two sets of settings with a | between them are compared: /compare off "
                            "| prune.score=contribution");
    first = bar;
    if (read_side(a, 0, &first, argv, err) < 0) return -1;
    if (first < bar)
        return err_set(err, "'%s' is no setting: KEY=VALUE, @PRESET, off or now", argv[first]);
    second = argc - bar - 1;
    if (read_side(a, 1, &second, argv + bar + 1, err) < 0) return -1;
    const int used = bar + 1 + second;
    return read_question(a, argc - used, argv + used, err);
}

// --- CSV -----------------------------------------------------------------------------------------

static FILE *csv_open(const char *path, struct err *err)
{
    FILE *f = fopen(path, "wxe");
    if (!f && errno == EEXIST)
        err_set(err, "'%s' exists: nothing is overwritten, choose another name", path);
    else if (!f)
        err_set(err, "cannot write '%s': %s", path, strerror(errno));
    return f;
}

static void csv_text(FILE *f, const char *text)
{
    putc('"', f);
    for (; text && *text; text++) {
        if (*text == '"') putc('"', f);
        putc(*text, f);
    }
    putc('"', f);
}

static int csv_close(FILE *f, const char *path, struct err *err)
{
    const bool failed = ferror(f);
    if (fclose(f) || failed) return err_set(err, "cannot write '%s': %s", path, strerror(errno));
    return 0;
}

// --- one question --------------------------------------------------------------------------------

static void show_progress(void *self, double done, double count)
{
    struct asking *a = self;
    const double now = clock_seconds();
    if (now - a->told < 0.2) return;
    const double left = done > 0 ? (now - a->begin) * (count - done) / done : NAN;
    const struct event_progress progress = {
        .what = "comparing", .step = done, .steps = count, .loss = NAN, .eta_s = left
    };
    sinks_emit(a->shell->sinks, &(struct event){ .kind = EVENT_PROGRESS, .progress = &progress });
    a->told = now;
}

static int use_side(void *self, const struct settings *s, struct method_tensors *tensors,
                    struct err *err)
{
    return engine_lend(((struct asking *)self)->shell->engine, s, tensors, err);
}

static struct compare_request request_of(struct asking *a)
{
    struct engine *e = a->shell->engine;
    return (struct compare_request){ .model = engine_model(e),
                                     .backend = engine_backend(e),
                                     .settings = { a->settings[0], a->settings[1] },
                                     .from = engine_conversation(e),
                                     .question = a->question,
                                     .use = use_side,
                                     .progress = show_progress,
                                     .self = a,
                                     .cancel = engine_cancel_flag(e) };
}

// Without a question the last one is asked again.
static int find_question(struct compare_request *r, struct err *err)
{
    const struct conversation *c = r->from;
    r->messages = c->message_count;
    if (r->question) return 0;
    while (r->messages && c->messages[r->messages - 1].role == ROLE_ASSISTANT) r->messages--;
    if (r->messages && (c->messages[r->messages - 1].role == ROLE_USER ||
                        c->messages[r->messages - 1].role == ROLE_RAW))
        return 0;
    return err_set(err, "nothing has been asked yet: give a question behind the settings");
}

static size_t common_bytes(const char *a, const char *b)
{
    size_t n = 0;
    while (a[n] && a[n] == b[n]) n++;
    while (n && ((unsigned char)a[n] & 0xC0) == 0x80) n--; // not inside a character
    while (n && ((unsigned char)b[n] & 0xC0) == 0x80) n--;
    return n;
}

static void show_texts(const struct asking *a, const struct comparison *c)
{
    const char *text[] = { c->side[0].text, c->side[1].text };
    char *title[2];
    for (int k = 0; k < 2; k++) title[k] = xasprintf("%c: %s", 'A' + k, a->title[k]);
    const struct event_columns columns = { .title = { title[0], title[1] },
                                           .text = { text[0], text[1] },
                                           .common = common_bytes(text[0], text[1]) };
    sinks_emit(a->shell->sinks, &(struct event){ .kind = EVENT_COLUMNS, .columns = &columns });
    free(title[0]);
    free(title[1]);
}

static char *token_text(const struct asking *a, int64_t id)
{
    struct buf b = { 0 };
    const int32_t one = (int32_t)id;
    tokenizer_decode(engine_tokenizer(a->shell->engine), &one, 1, false, &b);
    return buf_take(&b);
}

static void show_tables(const struct asking *a, const struct comparison *c)
{
    const struct compared_side *s = c->side;
    struct table_builder t;
    compare_costs_begin(&t);
    compare_row(&t, "answer tokens", (double)s[0].ids.count, (double)s[1].ids.count, 0);
    for (const struct compare_cost_row *row = compare_cost_rows; row->what; row++)
        compare_row(&t, row->what, row->of(&s[0].cost), row->of(&s[1].cost), row->digits);
    table_emit(&t, a->shell->sinks);
    compare_distance_begin(&t);
    compare_number(&t, "first token that differs", c->first < 0 ? NAN : (double)c->first);
    compare_number(&t, "Hellinger distance, mean", c->mean);
    compare_number(&t, "Hellinger distance, largest", c->most);
    compare_number(&t, "steps", (double)c->steps);
    compare_number(&t, "steps with the same likeliest token", (double)c->agreed);
    table_emit(&t, a->shell->sinks);
}

static void show_steps(const struct asking *a, const struct comparison *c)
{
    static const char *const columns[] = { "step", "hellinger", "A", "B" };
    static const bool numeric[] = { true, true, false, false };
    struct table_builder t;
    int64_t step = 0;
    table_begin(&t, "compare.steps", 4, columns, numeric);
    for (; step < c->steps && (a->all_steps || step < SHOWN); step++) {
        table_add(&t, "%" PRId64, step);
        table_add(&t, "%.6f", c->hellinger[step]);
        for (int k = 0; k < 2; k++) {
            char *text = token_text(a, c->best[k][step]);
            table_add(&t, "%s", text);
            free(text);
        }
    }
    table_emit(&t, a->shell->sinks);
    if (step < c->steps)
        sinks_notice(a->shell->sinks, "and %" PRId64 " more steps (--steps, --csv FILE)",
                     c->steps - step);
}

static int write_steps(const struct asking *a, const struct comparison *c, struct err *err)
{
    FILE *f = csv_open(a->csv, err);
    if (!f) return -1;
    fputs("step,hellinger,a,b,token_a,token_b\n", f);
    for (int64_t t = 0; t < c->steps; t++) {
        fprintf(f, "%" PRId64 ",%.9g,%" PRId64 ",%" PRId64, t, c->hellinger[t], c->best[0][t],
                c->best[1][t]);
        for (int k = 0; k < 2; k++) {
            char *text = token_text(a, c->best[k][t]);
            putc(',', f);
            csv_text(f, text);
            free(text);
        }
        putc('\n', f);
    }
    return csv_close(f, a->csv, err);
}

static int compare_question(struct asking *a, struct err *err)
{
    struct compare_request r = request_of(a);
    struct comparison c;
    if (find_question(&r, err) < 0 || compare_run(&r, &c, err) < 0) return -1;
    show_texts(a, &c);
    show_tables(a, &c);
    show_steps(a, &c);
    const int status = a->csv ? write_steps(a, &c, err) : 0;
    comparison_release(&c);
    return status;
}

// --- a data set ----------------------------------------------------------------------------------

static void add_totals(struct table_builder *t, const struct compared_data *d)
{
    const struct evaluation_total *x = evaluation_main(&d->evaluation[0]);
    const struct evaluation_total *y = evaluation_main(&d->evaluation[1]);
    char *score = xasprintf("%s", x ? x->metric->name : "score");
    compare_row(t, score, x ? x->tally.mean : NAN, y ? y->tally.mean : NAN, 4);
    compare_row(t, "95% low", x ? x->low : NAN, y ? y->low : NAN, 4);
    compare_row(t, "95% high", x ? x->high : NAN, y ? y->high : NAN, 4);
    compare_row(t, "questions", x ? (double)x->tally.n : 0, y ? (double)y->tally.n : 0, 0);
    compare_row(t, "samples skipped", (double)d->evaluation[0].skipped,
                (double)d->evaluation[1].skipped, 0);
    free(score);
}

// Means over the questions that both sides answered.
static void add_means(struct table_builder *t, const struct compared_data *d)
{
    for (const struct compare_cost_row *row = compare_cost_rows; row->what && d->generated; row++) {
        double mean[2] = { 0 };
        for (size_t i = 0; i < d->count; i++)
            for (int k = 0; k < 2 && d->list[i].generated; k++)
                mean[k] += row->of(&d->list[i].cost[k]) / (double)d->generated;
        compare_row(t, row->what, mean[0], mean[1], row->digits ? 4 : 2);
    }
}

static void add_shares(struct table_builder *t, const struct compared_data *d)
{
    if (!d->generated) return;
    compare_number(t, "Hellinger distance, mean", d->hellinger.mean);
    compare_number(t, "95% low", d->hellinger.low);
    compare_number(t, "95% high", d->hellinger.high);
    compare_number(t, "share of the same answers", (double)d->same / (double)d->generated);
    compare_number(t, "share of steps with the same likeliest token",
                   (double)d->agreed / (double)d->steps);
}

static void show_mean_steps(const struct asking *a, const struct compared_data *d)
{
    static const char *const columns[] = { "step", "hellinger", "answers" };
    static const bool numeric[] = { true, true, true };
    struct table_builder t;
    int64_t step = 0;
    if (d->step_count < 2) return;
    table_begin(&t, "compare.steps", 3, columns, numeric);
    for (; step < d->step_count && (a->all_steps || step < SHOWN); step++) {
        const struct compared_step *s = &d->by_step[step];
        table_add(&t, "%" PRId64, step);
        table_add(&t, "%.6f", s->sum / (double)s->answers);
        table_add(&t, "%" PRId64, s->answers);
    }
    table_emit(&t, a->shell->sinks);
    if (step < d->step_count)
        sinks_notice(a->shell->sinks, "and %" PRId64 " more steps (--steps)", d->step_count - step);
}

static void show_data(const struct asking *a, const struct compared_data *d)
{
    struct table_builder t;
    compare_costs_begin(&t);
    add_totals(&t, d);
    add_means(&t, d);
    table_emit(&t, a->shell->sinks);
    compare_distance_begin(&t);
    compare_number(&t, "difference B - A", d->difference.mean);
    compare_number(&t, "95% low", d->difference.low);
    compare_number(&t, "95% high", d->difference.high);
    compare_number(&t, "pairs", (double)d->pairs);
    compare_number(&t, "better in A alone", (double)d->only[0]);
    compare_number(&t, "better in B alone", (double)d->only[1]);
    if (d->metric && d->metric->share) compare_number(&t, "McNemar's exact test, p", d->mcnemar);
    add_shares(&t, d);
    table_emit(&t, a->shell->sinks);
    show_mean_steps(a, d);
}

static void write_question(FILE *f, const struct compared_question *q)
{
    const char *const texts[] = { q->kind, q->prompt, q->reference, q->answer[0], q->answer[1] };
    csv_text(f, q->id);
    fprintf(f, ",%s,%.9g,%.9g,", q->metric->name, q->score[0], q->score[1]);
    if (q->generated)
        fprintf(f, "%.9g,%.9g,%" PRId64 ",%" PRId64, q->mean, q->most, q->steps, q->first);
    else
        fputs(",,,", f);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        putc(',', f);
        csv_text(f, texts[i]);
    }
    putc('\n', f);
}

static int write_questions(const struct asking *a, const struct compared_data *d, struct err *err)
{
    FILE *f = csv_open(a->csv, err);
    if (!f) return -1;
    fputs("id,metric,score_a,score_b,hellinger_mean,hellinger_largest,steps,first,kind,question,"
          "reference,answer_a,answer_b\n",
          f);
    for (size_t i = 0; i < d->count; i++) write_question(f, &d->list[i]);
    return csv_close(f, a->csv, err);
}

static int compare_data(struct asking *a, struct err *err)
{
    struct dataset data;
    struct compared_data d;
    if (dataset_open(&data, a->data, a->images, err) < 0) return -1;
    struct compare_data_request r = {
        .request = request_of(a), .data = &data, .limit = a->limit, .metric = a->metric
    };
    int status = compare_data_run(&r, &d, err);
    if (status == 0) {
        show_data(a, &d);
        if (a->csv) status = write_questions(a, &d, err);
        if (status == 0 && d.evaluation[0].cancelled)
            status = err_set(err, "stopped after %" PRId64 " samples", d.evaluation[1].samples);
        compared_data_release(&d);
    }
    dataset_close(&data);
    return status;
}

// --- the command ---------------------------------------------------------------------------------

// Looks at both sides before anything is computed.
static int check_sides(struct asking *a, struct err *err)
{
    struct method_tensors tensors;
    for (int k = 0; k < 2; k++)
        if (engine_lend(a->shell->engine, a->settings[k], &tensors, err) < 0)
            return err_in(err, "%s", a->title[k]);
    return 0;
}

static int compare_run_command(struct shell *shell, int argc, char **argv, struct err *err)
{
    struct asking a = { .shell = shell, .begin = clock_seconds(), .told = clock_seconds() };
    engine_uncancel(shell->engine);
    int status = read_line(&a, argc, argv, err);
    if (status == 0) status = check_sides(&a, err);
    if (status == 0) status = a.data ? compare_data(&a, err) : compare_question(&a, err);
    engine_lend(shell->engine, NULL, NULL, NULL);
    for (int k = 0; k < 2; k++) {
        settings_free(a.settings[k]);
        free(a.title[k]);
    }
    free(a.question);
    return status;
}

const struct command command_compare = {
    .name = "compare",
    .usage = "/compare SETTINGS | SETTINGS [--csv FILE] [--steps] [TEXT] | ... --data FILE "
             "[--limit N] [--metric M] [--images DIR]",
    .help = "Answers one question, or a data set, under two sets of settings, side by side.",
    .details =
        "SETTINGS: KEY=VALUE ..., @PRESET, `off` (every method off, the adapter stays) or `now`;\n"
        "the rest is as it is set. Without TEXT the last question is asked again. Settings and\n"
        "conversation are as before afterwards.\n"
        "    /compare off | prune.score=contribution prune.keep=0.25\n"
        "    /compare adapter= | adapter=out/ln What is this?\n"
        "    /compare @capa-prune | @fastv --data yesno.json --limit 200\n"
        "Each side computes prompt and pictures from nothing. Then B is fed A's tokens: the\n"
        "Hellinger distance of step t is that between what A and B would choose next after the\n"
        "same t tokens, over the whole vocabulary (0 the same, 1 apart).\n"
        "GFLOP: 2 a multiply-add, of the language model's passes as they ran, without norms,\n"
        "softmax and the encoder.\n"
        "--data FILE    questions as in /eval, answered greedily; the difference is paired, its "
        "95%\n"
        "               interval a bootstrap over questions (2000 resamples, always the same);\n"
        "               for shares McNemar's exact test besides\n"
        "--csv FILE     every step; with --data every question\n"
        "--steps        shows all steps, not the first 20",
    .min = 1,
    .max = -1,
    .needs = NEEDS_MODEL,
    .complete = COMPLETE_SETTING,
    .run = compare_run_command,
};
