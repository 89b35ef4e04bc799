// core/eval/ask.c -- many questions: data file in, JSON lines out, resumable.
#include "core/eval/ask.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/adapter/provenance.h"
#include "core/base/mem.h"
#include "core/base/utf8.h"
#include "core/data/notices.h"
#include "core/engine/engine.h"
#include "core/eval/ask_file.h"
#include "core/eval/grid.h"
#include "core/jobs/job.h"
#include "core/stages/stages.h"
#include "core/talk/conversation.h"

struct asking {
    struct grid *grid;
    const struct ask_options *o;
    struct engine *engine;
    struct ranks *ranks;
    bool resumed; // a resumed job: with --again, the job's earlier lines may be in --out
    struct provenance provenance;
    struct ask_data data;
    struct ask_output output;
    struct sinks former_sinks;
    struct buf round; // this rank's lines that are not written yet
    struct data_notices notices;
    struct ask_report report;
};

// --- one sample ----------------------------------------------------------------------------------

// Receives the answer's event and writes it into the result line.
struct capture {
    const struct asking *a;
    cJSON *line;
    bool answered, cancelled;
    enum cut cut;
    bool changed; // model, adapter or settings changed during the answer
    struct err change;
};

static int state_now(const struct asking *a, struct provenance *p, struct err *err)
{
    if (engine_provenance(a->engine, STALE_NEXT, p, err) < 0) return -1;
    if (a->o->system) provenance_add(p, "system message", a->o->system);
    return 0;
}

// Settings may change during an answer (/later, a live /set), and the date changes at midnight.
static void note_change(struct capture *c)
{
    struct provenance now;
    struct err *why = c->changed ? NULL : &c->change;
    c->changed |=
        state_now(c->a, &now, why) < 0 || provenance_same(&c->a->provenance, &now, why) < 0;
    provenance_release(&now);
}

static void capture_emit(void *self, const struct event *event)
{
    struct capture *c = self;
    if (event->kind == EVENT_SETTING) {
        // The change also applies to the user's settings: reports it, but not as part of the
        // answer.
        struct event copy = *event;
        copy.count = 0;
        sinks_emit(&c->a->former_sinks, &copy);
        note_change(c);
    }
    if (event->kind != EVENT_ANSWER) return;
    const struct event_answer *a = event->answer;
    c->cancelled = a->stop && !strcmp(a->stop, "cancelled");
    c->answered = true;
    c->cut = cut_of(a);
    cJSON_AddStringToObject(c->line, "answer", a->text ? a->text : "");
    if (a->reasoning && *a->reasoning) cJSON_AddStringToObject(c->line, "reasoning", a->reasoning);
    cJSON *ids = cJSON_AddArrayToObject(c->line, "ids");
    for (size_t i = 0; i < a->count; i++) cJSON_AddItemToArray(ids, cJSON_CreateNumber(a->ids[i]));
    cJSON_AddNumberToObject(c->line, "prompt_tokens", (double)a->prompt_tokens);
    cJSON_AddNumberToObject(c->line, "visual_tokens", (double)a->visual_tokens);
    cJSON_AddNumberToObject(c->line, "vision_s", a->vision_s);
    cJSON_AddNumberToObject(c->line, "prefill_s", a->prefill_s);
    cJSON_AddNumberToObject(c->line, "decode_s", a->decode_s);
    cJSON_AddStringToObject(c->line, "stop", a->stop ? a->stop : "");
}

// If the ranks share the layers, every rank answers every sample; rank 0 writes the lines.
static const struct stages *asked_stages(const struct asking *a)
{
    return stages_of(&engine_model(a->engine)->decoder);
}

static void note_sample(struct asking *a, const cJSON *json)
{
    struct sample s;
    const bool read = json && sample_read(&s, json, a->data.set.folder, NULL) == 0;
    if (!json) return;
    data_notices_sample(&a->notices, engine_model(a->engine)->tokenizer, &s,
                        DATA_UNUSED_CHOICES | (read ? DATA_PROMPT : 0));
    sample_release(&s);
}

static void note_index(struct asking *a, int64_t index)
{
    cJSON *json = dataset_json(&a->data.set, index, NULL);
    note_sample(a, json);
    cJSON_Delete(json);
}

// Answers a dialogue and writes the result into c->line.
static int answer_dialogue(struct asking *a, const struct dialogue *d, struct capture *c,
                           struct err *err)
{
    struct engine *e = a->engine;
    const struct conversation *shown = engine_conversation(e);
    const char *system = a->o->system;
    char *question = message_text(&d->messages[d->count - 1]);
    cJSON_AddStringToObject(c->line, "question", question);
    free(question);
    if (d->reference) cJSON_AddStringToObject(c->line, "reference", d->reference);
    engine_clear(e);
    if (system && d->messages[0].role != ROLE_SYSTEM && engine_system(e, system, err) < 0)
        return -1;
    int status = engine_add_messages(e, d->messages, d->count, (const char *const *)d->paths,
                                     d->path_count, err);
    data_notices_shown(&a->notices, d, shown->pictures, (size_t)shown->picture_count);
    // If one stage cannot read a picture, no stage answers.
    status = stages_agree_status(asked_stages(a), 0, d->path_count, status, err);
    if (status < 0) return -1;
    cJSON *list = shown->picture_count ? cJSON_AddArrayToObject(c->line, "pictures") : NULL;
    for (size_t i = 0; i < (size_t)shown->picture_count; i++)
        cJSON_AddItemToArray(list, cJSON_CreateString(shown->pictures[i].sha256));
    if (engine_answer(e, err) < 0) return -1;
    return c->answered ? 0 : err_set(err, "the model gave no answer");
}

// Answers a sample and adds its line to the round.
static int run_sample(struct asking *a, const struct ask_question *q, struct err *err)
{
    struct err why = { 0 };
    struct capture c = { .a = a, .line = cJSON_CreateObject() };
    struct sinks *sinks = engine_sinks(a->engine);
    struct ask_report *report = &a->report;
    struct dialogue d = { 0 };
    cJSON_AddRawToObject(c.line, "id", q->key);
    *sinks = (struct sinks){ 0 };
    sinks_add(sinks, (struct sink){ .emit = capture_emit, .self = &c });
    cJSON *json = dataset_json(&a->data.set, q->index, &why);
    note_sample(a, json);
    int answered = json ? dialogue_read_sample(&d, json, a->data.set.folder, &why) : -1;
    if (answered == 0) answered = answer_dialogue(a, &d, &c, &why);
    dialogue_release(&d);
    cJSON_Delete(json);
    *sinks = a->former_sinks;
    note_change(&c);
    if (answered < 0) { // the message may name a file whose name is not UTF-8
        struct buf text = { 0 };
        utf8_repair(&text, why.text, strlen(why.text));
        cJSON_AddStringToObject(c.line, "error", text.data ? text.data : "");
        buf_release(&text);
        if (!report->failed) report->why = why;
    }
    provenance_put(&a->provenance, c.line);
    report->stopped |= c.cancelled;
    report->failed += answered < 0;
    report->answered += answered == 0 && !c.cancelled;
    report->cut[c.cut]++;
    ranks_add_done(a->ranks, 1);
    char *text = cJSON_PrintUnformatted(c.line);
    cJSON_Delete(c.line);
    int status = 0;
    if (c.changed && !c.cancelled) // an answer computed under two states belongs to neither
        status = err_set(err,
                         "stopped because a setting changed during the run: %s; '%s' keeps the "
                         "answers so far: restore the setting to continue, or choose another --out",
                         c.change.text, a->o->out);
    else if (!text)
        status = err_set(err, "out of memory for an answer");
    else if (!c.cancelled && decoder_first(&engine_model(a->engine)->decoder))
        buf_printf(&a->round, "%s\n", text);
    cJSON_free(text);
    return status;
}

// --- rounds --------------------------------------------------------------------------------------

// Answers this rank's share of the samples `todo`. Rank 0 writes the lines of all ranks after each
// round.
static int run_samples(struct asking *a, const int64_t *todo, int64_t steps, struct err *err)
{
    const int ranks = ranks_count(a->ranks), number = ranks_number(a->ranks);
    struct grid *g = a->grid;
    int status = 0;
    g->pace = pace_from(0);
    for (int64_t i = 0; i < steps && status == 0 && !a->report.stopped;) {
        const struct ask_question *q = &a->data.list[todo[i]];
        if (asked_stages(a) || grid_computes(i, ranks, number)) {
            status = run_sample(a, q, err);
        } else if (number == 0) { // another rank answers it
            note_index(a, q->index);
        }
        const bool ends = ++i == steps || !a->ranks || grid_ends_round(i, ranks);
        // Cancelling a job ends all its ranks: none waits for these lines.
        if (status < 0 || !ends || (a->report.stopped && a->ranks)) continue;
        grid_gather(a->ranks, &a->round);
        if (a->round.length && number == 0)
            status = ask_output_write(&a->output, a->round.data, a->round.length, err);
        buf_clear(&a->round);
        if (status < 0 || a->report.stopped) continue;
        grid_progress(g, "answering", (double)i, (double)steps);
        const bool stop = g->job ? job_agree(g->job) != JOB_GO : grid_stopped(g);
        a->report.stopped = stop && i < steps;
    }
    return status;
}

// Sums the ranks' counts of answers, and collects the names of animations that they read.
static void add_up(struct asking *a)
{
    struct ask_report *r = &a->report;
    struct names *own = &a->notices.animations;
    struct buf all = { 0 };
    if (asked_stages(a)) return; // each rank has counted all answers
    double sums[2 + CUTS] = { (double)r->answered, (double)r->failed };
    for (int i = 0; i < CUTS; i++) sums[2 + i] = (double)r->cut[i];
    ranks_sum_doubles(a->ranks, sums, 2 + CUTS);
    r->answered = (int64_t)sums[0];
    r->failed = (int64_t)sums[1];
    for (int i = 0; i < CUTS; i++) r->cut[i] = (int64_t)sums[2 + i];
    for (size_t i = 0; i < own->count; i++) buf_add(&all, own->list[i], strlen(own->list[i]) + 1);
    grid_gather(a->ranks, &all);
    for (size_t at = 0; at < all.length; at += strlen(all.data + at) + 1)
        names_add(own, all.data + at, NULL);
    buf_release(&all);
}

// --- the run -------------------------------------------------------------------------------------

// Returns the name of a file beside --out, or beside the file that --out links to.
char *ask_temporary(const char *out)
{
    char *real = realpath(out, NULL), *path = xasprintf("%s.again", real ? real : out);
    free(real);
    return path;
}

// With --again, existing answers stay until all new ones are written to a temporary file in the
// same folder, which a repeated run continues. `former` keeps --out locked. If --out has no
// answers, or a resumed job finds no temporary file, answers go directly into --out.
static int open_outputs(struct asking *a, struct ask_output *former, char **temporary,
                        struct err *err)
{
    const char *out = a->o->out;
    if (!a->o->again) return ask_output_open(&a->output, out, &a->provenance, err);
    if (ask_output_open(former, out, NULL, err) < 0) return -1;
    char *beside = ask_temporary(out);
    if (!former->count || (a->resumed && access(beside, F_OK) < 0)) {
        free(beside);
        ask_output_release(former);
        former->file = -1;
        return ask_output_open(&a->output, out, &a->provenance, err);
    }
    *temporary = beside;
    a->output.temporary = true;
    return ask_output_open(&a->output, *temporary, &a->provenance, err);
}

static int ask(struct grid *g, size_t cell, struct err *err)
{
    struct ask_work *w = g->self;
    struct asking a = { .grid = g,
                        .o = &w->options,
                        .engine = g->engine,
                        .ranks = g->job ? g->job->ranks : NULL,
                        .resumed = g->job && g->job->resumed,
                        .data = { .set = { .file = -1 } },
                        .output = { .file = -1 },
                        .notices = data_notices_new(g->cells[cell].settings) };
    struct ask_report *r = &a.report;
    struct ask_output former = { .file = -1 };
    const bool first = ranks_number(a.ranks) == 0;
    char *temporary = NULL;
    int64_t *todo = NULL, steps = 0;
    int status = state_now(&a, &a.provenance, err);
    if (status == 0)
        status = ask_data_read(&a.data, g->cells[cell].set.data, g->cells[cell].set.images, err);
    if (status == 0 && first && (status = open_outputs(&a, &former, &temporary, err)) == 0) {
        if (a.output.earlier)
            sinks_notice(
                engine_sinks(a.engine),
                "an earlier version wrote answers in '%s' and did not record tokenizer, chat "
                "template and preprocessor: make sure that they are unchanged",
                a.o->out);
        if ((r->there = ask_mark_done(&a.data, &a.output, err)) < 0) status = -1;
        for (size_t i = 0; i < a.output.count; i++) r->errors += !a.output.lines[i].pictures;
    }
    if (status == 0) {
        // Shares rank 0's list of the samples to answer with all ranks.
        todo = xcalloc((size_t)a.data.set.count + 1, sizeof *todo);
        for (int64_t i = 0; i < a.data.set.count; i++)
            if (!a.data.list[i].done) todo[steps++] = i;
        if (a.o->limit && a.o->limit < steps) steps = a.o->limit;
        ranks_share(a.ranks, &steps, sizeof steps, 0);
        ranks_share(a.ranks, todo, (size_t)steps * sizeof *todo, 0);
        ranks_share(a.ranks, &r->there, sizeof r->there, 0);
        ranks_share(a.ranks, &r->errors, sizeof r->errors, 0);

        a.former_sinks = *engine_sinks(a.engine);
        engine_stash(a.engine);
        // Counts notices on the questions that an earlier run answered.
        for (int64_t i = 0; first && steps && i < todo[steps - 1]; i++)
            if (a.data.list[i].done) note_index(&a, a.data.list[i].index);
        status = run_samples(&a, todo, steps, err);
        engine_unstash(a.engine);
    }
    if (status == 0 && !(r->stopped && engine_cancelled(a.engine))) add_up(&a);

    // True if neither this run nor an earlier one has answered anything. Rank 0 computes the first
    // sample, so its r->why is set if this run had only errors.
    const bool none = !r->stopped && !r->answered && r->there == (int64_t)r->errors;
    if (status == 0 && none && r->failed)
        status =
            err_set(err, "no question could be answered, %lld with errors (in '%s'), the first: %s",
                    (long long)r->failed, a.o->out, r->why.text);
    else if (status == 0 && none && r->there)
        status = err_set(err,
                         "no question is answered: all %zu lines of '%s' are errors of an earlier "
                         "run; --again asks all questions again",
                         r->errors, a.o->out);
    if (status == 0 && temporary) { // replaces --out once every sample has a new answer
        char *real = realpath(a.o->out, NULL);
        const char *out = real ? real : a.o->out;
        r->waits = r->there + r->answered + r->failed != a.data.set.count;
        if (!r->waits && rename(temporary, out) < 0)
            status =
                err_set(err, "cannot replace '%s' with '%s': %s", out, temporary, strerror(errno));
        free(real);
    }
    if (status == 0 && !r->stopped && first) r->notices = data_notices_text(&a.notices);
    w->report = *r;
    data_notices_release(&a.notices);
    ask_data_release(&a.data);
    ask_output_release(&a.output);
    ask_output_release(&former);
    provenance_release(&a.provenance);
    buf_release(&a.round);
    free(temporary);
    free(todo);
    return status == 0 && r->stopped ? JOB_STOPPED : status;
}

const struct grid_plan ask_plan = { .run = ask };

void ask_report_release(struct ask_report *report)
{
    free(report->notices);
    report->notices = NULL;
}

char *ask_report_text(const struct ask_report *r, const char *out)
{
    struct buf t = { 0 };
    char *cut = cut_text(r->cut);
    buf_printf(&t, "%s%lld answered, %lld with errors, %lld already there",
               r->stopped ? "stopped: " : "", (long long)r->answered, (long long)r->failed,
               (long long)r->there);
    if (r->errors) buf_printf(&t, " (%zu with errors: delete these lines to ask again)", r->errors);
    buf_printf(&t, ": '%s'", out);
    if (r->notices) buf_printf(&t, "; %s", r->notices);
    if (cut) buf_printf(&t, "; %s", cut);
    free(cut);
    return buf_take(&t);
}
