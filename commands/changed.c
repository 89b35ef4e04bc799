// commands/changed.c -- /changed: shows a question that one side of a comparison answers better,
// with its picture.
//
// The shell keeps the texts of the questions. A picture is read from the data and decoded only when
// its question is shown. The questions of a comparison job come from the job's state file, even
// while the job runs.
#include "commands/changed.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "commands/jobs.h"
#include "core/data/dataset.h"
#include "core/eval/evaluate_job.h"
#include "core/template/message.h"
#include "sessions/jobs.h"

struct changed {
    char *title[2], *data, *images, *columns, *shots;
    struct set_source set; // borrows data, images, columns and shots above
    struct compared_data questions;
};

static char *copy(const char *text)
{
    return text ? xstrdup(text) : NULL;
}

void changed_forget(struct shell *shell)
{
    struct changed *c = shell->changed;
    shell->changed = NULL;
    if (!c) return;
    for (int k = 0; k < 2; k++) free(c->title[k]);
    free(c->data);
    free(c->images);
    free(c->columns);
    free(c->shots);
    compared_data_release(&c->questions);
    free(c);
}

// --- the selection -------------------------------------------------------------------------------

const char *const changed_which[CHANGED_COUNT] = { "all", "worse", "better" };

static bool is_better(const struct compared_question *q, int side)
{
    return metric_better(q->side[0].outcome.metric, q->side[side].outcome.score,
                         q->side[!side].outcome.score);
}

static bool is_selected(const struct compared_question *q, const char *which)
{
    const bool worse = is_better(q, 0), better = is_better(q, 1);
    return *which == 'a' ? worse || better : *which == 'w' ? worse : better;
}

static int64_t count_selected(const struct changed *c, const char *which)
{
    int64_t n = 0;
    for (size_t i = 0; i < c->questions.count; i++) n += is_selected(&c->questions.list[i], which);
    return n;
}

// --- one question --------------------------------------------------------------------------------

// Shows question `number` of the selection, counted from 1; the caller has checked that it exists.
static void show(struct shell *shell, const char *which, int64_t number)
{
    const struct changed *c = shell->changed;
    const struct compared_question *q = c->questions.list;
    for (int64_t n = number; !is_selected(q, which) || --n > 0;) q++;
    const struct evaluated *a = &q->side[0].outcome, *b = &q->side[1].outcome;

    // The data may have changed since the comparison.
    struct dataset data;
    struct sample s = { 0 };
    struct picture *pictures = NULL;
    size_t count = 0;
    struct err err;
    int status = set_source_open(&c->set, &data, &err);
    if (status == 0) {
        status = a->index < data.count
                     ? dataset_read(&data, a->index, &s, &err)
                     : err_set(&err, "'%s' has fewer samples than when it was compared", c->data);
        pictures = xcalloc(s.dialogue.path_count + 1, sizeof *pictures);
        while (status == 0 && count < s.dialogue.path_count) {
            status = evaluate_picture(&data, NULL, s.dialogue.paths[count], &pictures[count], &err);
            count += status == 0;
        }
        sample_release(&s);
        dataset_close(&data);
    }
    if (status < 0) sinks_notice(shell->sinks, "%s", err.text);
    const struct event_changed changed = {
        .number = number,
        .count = count_selected(c, which),
        .which = which,
        .title = { c->title[0], c->title[1] },
        .id = a->id,
        .kind = a->kind,
        .question = a->prompt,
        .reference = a->reference,
        .metric = a->metric->name,
        .answer = { a->answer, b->answer },
        .score = { a->score, b->score },
        .better = { is_better(q, 0), is_better(q, 1) },
        .picture_count = count,
    };
    sinks_emit(shell->sinks,
               &(struct event){ .kind = EVENT_CHANGED, .changed = &changed, .pictures = pictures });
    for (size_t i = 0; i < count; i++) picture_release(&pictures[i]);
    free(pictures);
}

static void keep(struct shell *shell, const struct changed_source *source, struct compared_data *d)
{
    changed_forget(shell);
    struct changed *c = shell->changed = xcalloc(1, sizeof *c);
    for (int k = 0; k < 2; k++) c->title[k] = xstrdup(source->title[k]);
    c->data = xstrdup(source->set.data);
    c->images = copy(source->set.images);
    c->columns = copy(source->set.columns);
    c->shots = copy(source->set.shots);
    c->set = (struct set_source){ .data = c->data,
                                  .images = c->images,
                                  .columns = c->columns,
                                  .shots = c->shots,
                                  .kind = source->set.kind,
                                  .way = source->set.way };
    c->questions.list = d->list;
    c->questions.count = d->count;
    d->list = NULL;
    d->count = 0;
}

void changed_keep(struct shell *shell, const struct changed_source *source, struct compared_data *d)
{
    keep(shell, source, d);
    if (shell->screen && count_selected(shell->changed, changed_which[CHANGED_ALL]))
        show(shell, changed_which[CHANGED_ALL], 1);
}

// --- questions of a job --------------------------------------------------------------------------

static char *from_folder(const struct job_row *row, const char *path)
{
    if (!path || *path == '/') return copy(path);
    return xasprintf("%s/%s", row->folder, path);
}

// The arguments of a comparison job are SETTINGS_A | SETTINGS_B | arguments of /eval.
static int take_words(struct shell *shell, const struct job_row *row, struct compared_data *d,
                      struct err *err)
{
    struct buf title[2] = { { 0 } };
    struct evaluate_options o = { 0 };
    int at = 0;
    for (int k = 0; k < 2; k++, at++) {
        for (; at < row->argc && strcmp(row->argv[at], "|") != 0; at++)
            buf_printf(&title[k], "%s%s", title[k].length ? " " : "", row->argv[at]);
        if (!title[k].length) buf_puts(&title[k], "now");
    }
    const int status = at > row->argc
                           ? err_set(err, "the arguments of this job are incomplete")
                           : evaluate_options_read(&o, row->argc - at, row->argv + at, err);
    if (status == 0) {
        char *data = from_folder(row, o.set.data), *images = from_folder(row, o.set.images);
        char *shots = from_folder(row, o.set.shots);
        const struct changed_source source = { { title[0].data, title[1].data },
                                               { .data = data,
                                                 .images = images,
                                                 .columns = o.set.columns,
                                                 .shots = shots,
                                                 .kind = o.set.kind,
                                                 .way = o.set.way } };
        keep(shell, &source, d);
        evaluate_options_release(&o);
        free(data);
        free(images);
        free(shots);
    }
    for (int k = 0; k < 2; k++) buf_release(&title[k]);
    return status;
}

static int read_job(struct shell *shell, int64_t id, struct err *err)
{
    struct job_row row;
    struct compared_data d = { 0 };
    if (command_check_needs(shell, NEEDS_STORE, err) < 0 ||
        store_job_read(shell->store, id, &row, err) < 0)
        return -1;
    char *state = job_path(shell->store, id, "compare.jsonl");
    int status =
        strcmp(row.kind, "compare") != 0
            ? err_set(err, "job %" PRId64 " is not a comparison: its kind is '%s'", id, row.kind)
            : compare_data_read(state, &d, err);
    if (status == 0) status = take_words(shell, &row, &d, err);
    compared_data_release(&d);
    free(state);
    job_row_release(&row);
    return status;
}

// --- the command ---------------------------------------------------------------------------------

struct changed_options {
    bool worse, better;
    int64_t number, job;
};

static int take_job(void *self, const char *value, struct err *err)
{
    return job_number(value, &((struct changed_options *)self)->job, err);
}

static const struct option_row options[] = {
    { "N", NULL, NULL, OPTION_WHOLE, .at = offsetof(struct changed_options, number), 1, INT64_MAX,
      .optional = true },
    { "--worse", NULL, "only questions that side B answers worse (/help compare)", OPTION_FLAG,
      .at = offsetof(struct changed_options, worse) },
    { "--better", NULL, "only questions that side B answers better", OPTION_FLAG,
      .at = offsetof(struct changed_options, better) },
    { "--job", "JOB", "flips of a job (/compare --job), even while it runs", .take = take_job },
    { 0 },
};

static int changed_run(struct shell *shell, int argc, char **argv, struct err *err)
{
    struct changed_options w = { .number = 1 };
    if (options_parse(options, &w, argc, argv, err) < 0) return -1;
    if (w.worse && w.better) return err_set(err, "--worse and --better cannot be combined");
    const char *which = changed_which[w.worse    ? CHANGED_WORSE
                                      : w.better ? CHANGED_BETTER
                                                 : CHANGED_ALL];
    if (w.job && read_job(shell, w.job, err) < 0) return -1;
    if (!shell->changed)
        return err_set(err, "no data set has been compared yet: /compare off | @fastv --data FILE, "
                            "or /changed --job N");
    const int64_t count = count_selected(shell->changed, which);
    if (!count)
        return err_set(err, "no question is answered %s",
                       *which == 'a'   ? "better by one side"
                       : *which == 'w' ? "worse by B"
                                       : "better by B");
    if (w.number > count)
        return err_set(err, "no question %" PRId64 ": the last is %" PRId64, w.number, count);
    show(shell, which, w.number);
    return 0;
}

const struct command command_changed = {
    .name = "changed",
    .also = "samples sides flips right wrong",
    .usage = "/changed [N] [--worse|--better] [--job JOB]",
    .help = "Shows a flip of the last comparison: a question that one side answers better.",
    .details = "Shows the question with its picture, the reference and both answers. N numbers the "
               "flips of the last /compare --data, or of JOB, from 1; --worse and --better count "
               "only their own. In the full screen, press Alt-s, then step through the flips with "
               "the arrow keys.",
    .options = options,
    .run = changed_run,
};
