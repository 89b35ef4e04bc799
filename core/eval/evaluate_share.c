// core/eval/evaluate_share.c -- distributes samples over a team (the ranks of a job, or the flights
// of a rank), whose members send each other their scores as bytes.
//
// A model whose layers are distributed over ranks (core/stages/stages.h) processes twice as many
// samples at a time as it has stages, so that all stages compute at once:
//
//   round:   flight 0: samples 0..3    flight 1: samples 4..7    ...     each in its own thread
//   then:    the scores of all flights are counted and reported in the order of the samples
//
// All ranks run the same flights in the same order, and get all scores. Rank 0 decides when to
// stop.
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/eval/evaluate_parts.h"
#include "core/eval/grid.h"
#include "core/stages/stages.h"

const char *evaluated_text(struct evaluated *e, int i, const char ***text)
{
#define TEXT(field)                               \
    {                                             \
#field, offsetof(struct evaluated, field) \
    }
    static const struct {
        const char *name;
        size_t at;
    } texts[] = { TEXT(id),      TEXT(kind),  TEXT(prompt), TEXT(reference),  TEXT(answer),
                  TEXT(skipped), TEXT(found), TEXT(group),  TEXT(scored_text) };
#undef TEXT
    if (i == sizeof texts / sizeof *texts) return NULL;
    *text = (const char **)((char *)e + texts[i].at);
    return texts[i].name;
}

// Pointers cannot cross processes: the metric is sent as its index, and the texts follow the
// struct.
struct packed {
    bool ends, bad; // ends: marks a sample's end, has no score; bad: a question has no score
    struct evaluated e;
    int metric; // -1: none
};

void evaluate_pack(struct buf *b, const struct evaluated *e)
{
    struct packed p;
    const char **text;
    memset(&p, 0, sizeof p);
    p.e = *e;
    p.metric = e->metric ? metric_index(e->metric) : -1;
    buf_add(b, &p, sizeof p);
    for (int i = 0; evaluated_text(&p.e, i, &text); i++)
        if (*text) buf_add(b, *text, strlen(*text) + 1);
}

void evaluate_count(struct evaluating *v, const struct evaluated *outcome)
{
    struct evaluation *e = v->e;
    if (outcome->skipped) {
        if (!e->why) e->why = xasprintf("sample %s: %s", outcome->id, outcome->skipped);
    } else {
        evaluation_note(e, outcome);
        e->cut[outcome->cut]++;
        e->thoughts[outcome->thought]++;
        e->lost += outcome->lost;
    }
    if (v->r->report && !v->r->report(v->r->self, outcome)) v->stopped = true;
}

// Counts and reports the packed scores in v, and empties the buffer.
static void unpack(struct evaluating *v, struct buf *kept)
{
    for (size_t at = 0; at < kept->length;) {
        struct packed p;
        const char **text;
        memcpy(&p, kept->data + at, sizeof p);
        at += sizeof p;
        p.e.metric = p.metric >= 0 ? metrics[p.metric] : NULL;
        for (int i = 0; evaluated_text(&p.e, i, &text); i++) {
            if (!*text) continue;
            *text = kept->data + at;
            at += strlen(*text) + 1;
        }
        if (p.ends)
            v->e->skipped += p.bad;
        else if (!v->stopped)
            evaluate_count(v, &p.e);
    }
    buf_clear(kept);
}

bool evaluate_is_mine(const struct evaluating *v, int64_t number)
{
    return grid_computes(number, v->team, v->number);
}

// True if each member of the team has done its share of the round. A run that was resumed within a
// round ends that round first, because scores are in the order of the samples only when the shares
// of a whole round are joined.
static bool ends_round(const struct evaluating *v)
{
    return v->done > v->shared && grid_ends_round(v->done, v->team);
}

void evaluate_end_sample(struct evaluating *v, bool bad)
{
    struct packed p;
    memset(&p, 0, sizeof p);
    p.ends = true;
    p.bad = bad;
    if (v->packs)
        buf_add(&v->kept, &p, sizeof p);
    else
        v->e->skipped += bad;
    const struct stages *stages = stages_of(&v->r->model->decoder);
    ranks_add_done(stages ? stages->ranks : v->r->ranks, 1);
}

void evaluate_share(struct evaluating *v, bool rest)
{
    struct ranks *ranks = v->r->ranks;
    if (!ranks || v->stopped || !(rest ? v->done > v->shared : ends_round(v))) return;
    grid_gather(ranks, &v->kept);
    unpack(v, &v->kept);
    ranks_share(ranks, &v->stopped, sizeof v->stopped, 0);
    v->shared = v->done;
}

// --- flights -------------------------------------------------------------------------------------

// Flights per stage: with one flight per stage, a prompt in one stage would delay the tokens of all
// other flights.
enum { FLIGHTS = 2 };

struct flight {
    struct evaluate_request request;
    struct evaluation scratch; // gets no scores: they are packed
    struct evaluating *v;
    pthread_t thread;
    bool more;
};

static struct ranks *ranks_of(const struct evaluating *v)
{
    return stages_of(&v->r->model->decoder)->ranks;
}

// Runs one round of a flight.
static void *fly(void *self)
{
    struct flight *f = self;
    struct evaluating *v = f->v;
    ranks_turn_take(ranks_of(v));
    do {
        f->more = evaluate_next(v);
    } while (f->more && !ends_round(v));
    ranks_turn_pass(ranks_of(v));
    return NULL;
}

static void start(struct flight *f)
{
    sigset_t all, before;
    sigfillset(&all); // the main thread handles signals
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const int failed = pthread_create(&f->thread, NULL, fly, f);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    // The other ranks wait for this flight.
    if (failed) fatal("cannot start a thread: %s", strerror(failed));
}

// Runs one round of all flights. False: it was the last.
static bool fly_all(struct flight *flights, int count, struct evaluating *all)
{
    struct ranks *ranks = ranks_of(all);
    ranks_flights(ranks, count);
    for (int i = 0; i < count; i++) start(&flights[i]);
    for (int i = 0; i < count; i++) pthread_join(flights[i].thread, NULL);
    ranks_flights(ranks, 1);
    for (int i = 0; i < count; i++) {
        struct evaluating *v = flights[i].v;
        all->stopped |= v->stopped;
        unpack(all, &v->kept);
        all->done = v->shared = v->done;
    }
    ranks_share(ranks, &all->stopped, sizeof all->stopped, 0);
    return flights[0].more && !all->stopped;
}

int evaluate_in_flights(const struct evaluate_request *r, struct evaluation *e, struct err *err)
{
    const int count = FLIGHTS * stages_of(&r->model->decoder)->count;
    struct evaluating *all = evaluate_open(r, e);
    struct flight *flights = xcalloc((size_t)count, sizeof *flights);
    struct err ignored; // evaluate_close fails for flights, which have no totals
    for (int i = 0; i < count; i++) {
        struct flight *f = &flights[i];
        f->request = *r;
        f->request.report = NULL;
        if (i) f->request.notices = NULL; // each flight reads all samples: only one counts notices
        f->v = evaluate_open(&f->request, &f->scratch);
        f->v->c.number = f->v->number = i;
        f->v->team = count;
        f->v->packs = true;
    }
    while (fly_all(flights, count, all)) continue;
    for (int i = 0; i < count; i++) {
        evaluate_close(flights[i].v, &ignored);
        evaluation_release(&flights[i].scratch);
    }
    free(flights);
    return evaluate_close(all, err);
}
