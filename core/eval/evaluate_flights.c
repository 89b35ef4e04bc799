// core/eval/evaluate_flights.c -- an evaluation of a model whose layers are dealt to ranks
// (core/stages/stages.h): twice as many samples as stages are under way at a time, so that a stage
// computes for one while the others are elsewhere.
//
//   round:   flight 0: samples 0..3    flight 1: samples 4..7    ...     each in a thread of its
//   own then:    what the flights have packed is counted and reported in the order of the samples
//
// All ranks do the same in the same order, and all have all scores. Rank 0 decides when to stop.
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/eval/evaluate_parts.h"
#include "core/stages/stages.h"

// For each stage: with one alone, a prompt in one stage keeps the tokens of all others waiting.
enum { FLIGHTS = 2 };

struct flight {
    struct evaluate_request request;
    struct evaluation scratch; // counts nothing: what it scores is packed
    struct evaluating *v;
    pthread_t thread;
    bool more;
};

static struct ranks *ranks_of(const struct evaluating *v)
{
    return stages_of(&v->r->model->decoder)->ranks;
}

// A round of a flight.
static void *fly(void *self)
{
    struct flight *f = self;
    struct evaluating *v = f->v;
    ranks_turn_take(ranks_of(v));
    do {
        f->more = evaluate_next(v);
    } while (f->more && !evaluate_ends_round(v));
    ranks_turn_pass(ranks_of(v));
    return NULL;
}

static int start(struct flight *f, struct err *err)
{
    sigset_t all, before;
    sigfillset(&all); // signals are the main thread's
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const int failed = pthread_create(&f->thread, NULL, fly, f);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return failed ? err_set(err, "cannot start a thread: %s", strerror(failed)) : 0;
}

// One round of all flights: 1, or 0 for the last. -1 if a flight could not start: the other ranks
// then wait for it until the job ends with this error.
static int fly_all(struct flight *flights, int count, struct evaluating *all, struct err *err)
{
    struct ranks *ranks = ranks_of(all);
    int started = 0;
    ranks_flights(ranks, count);
    while (started < count && start(&flights[started], err) == 0) started++;
    for (int i = 0; i < started; i++) pthread_join(flights[i].thread, NULL);
    ranks_flights(ranks, 1);
    if (started < count) return -1;
    for (int i = 0; i < count; i++) {
        struct evaluating *v = flights[i].v;
        all->stopped |= v->stopped;
        evaluate_unpack(all, &v->kept);
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
    struct err ignored; // of flights, which have counted nothing, or of a part, without totals
    int more;
    for (int i = 0; i < count; i++) {
        struct flight *f = &flights[i];
        f->request = *r;
        f->request.report = NULL;
        if (i) f->request.notices = NULL; // each reads all samples
        f->v = evaluate_open(&f->request, &f->scratch);
        f->v->c.number = f->v->number = i;
        f->v->team = count;
        f->v->packs = true;
    }
    while ((more = fly_all(flights, count, all, err)) > 0) continue;
    for (int i = 0; i < count; i++) {
        evaluate_close(flights[i].v, &ignored);
        evaluation_release(&flights[i].scratch);
    }
    free(flights);
    if (more == 0) return evaluate_close(all, err);
    if (evaluate_close(all, &ignored) == 0) evaluation_release(e);
    return -1;
}
