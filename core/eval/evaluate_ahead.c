// core/eval/evaluate_ahead.c -- reads the samples of an evaluation and decodes their pictures in a
// thread, while the model answers.
//
// The thread reads and queues the samples in the order of evaluate_next. The queue is bounded by a
// number of samples, and by the bytes of their pictures (one sample may exceed that bound).
// Decoding stops at a sample's first picture that fails. A picture that is not prepared is decoded
// when it is shown, and only that reports an error.
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>

#include "core/eval/evaluate_parts.h"

// Limits of the queue: number of samples; bytes of pixels and files.
enum { SAMPLES = 32, CAPACITY = 32 << 20 };

struct ahead {
    const struct evaluating *v;
    pthread_t thread;
    pthread_mutex_t lock;      // protects the fields below
    pthread_cond_t put, taken; // signalled after each put and take
    struct ahead_sample list[SAMPLES];
    size_t from, count; // a ring
    size_t bytes;
    bool stop;
};

// State that only the thread uses.
struct walk {
    struct image_decoder *decoder;
    int64_t chosen;     // samples so far that the request includes
    struct shown shown; // pictures of the last sample whose pictures were decoded
};

static size_t bytes_of(const struct ahead_sample *s)
{
    size_t bytes = 0;
    for (size_t i = 0; i < s->picture_count; i++) {
        const struct picture *p = &s->pictures[i];
        bytes += p->size + (size_t)(p->image.width * p->image.height * p->image.channels);
    }
    return bytes;
}

// --- the thread ----------------------------------------------------------------------------------

// Decodes the pictures up to the first that fails.
static void decode(const struct ahead *a, struct walk *w, struct ahead_sample *s)
{
    const struct dialogue *d = &s->sample.dialogue;
    struct err nothing;
    if (shown_are(&w->shown, d)) return;
    shown_clear(&w->shown);
    for (size_t i = 0; i < d->path_count; i++) shown_add(&w->shown, d->paths[i]);
    s->pictures = xcalloc(d->path_count + 1, sizeof *s->pictures);
    while (s->picture_count < d->path_count &&
           evaluate_picture(a->v->r->data, w->decoder, d->paths[s->picture_count],
                            &s->pictures[s->picture_count], &nothing) == 0)
        s->picture_count++;
}

// Reads sample i. Decodes its pictures if this process is to ask the model about it.
static void prepare(const struct ahead *a, struct walk *w, int64_t i, struct ahead_sample *s)
{
    const struct evaluate_request *r = a->v->r;
    *s = (struct ahead_sample){ 0 };
    s->status = dataset_read(r->data, evaluate_sample_at(r, i), &s->sample, &s->err);
    if (!evaluate_is_chosen(r, &s->sample)) return;
    const int64_t number = w->chosen++;
    if (s->status == 0 && number >= r->first && evaluate_is_mine(a->v, number) && !r->answer_file &&
        model_has_vision(r->model))
        decode(a, w, s);
}

// Queues a sample, once the queue has space; false: stopped.
static bool put(struct ahead *a, struct ahead_sample *s)
{
    pthread_mutex_lock(&a->lock);
    while (!a->stop && (a->count == SAMPLES || (a->count && a->bytes + bytes_of(s) > CAPACITY)))
        pthread_cond_wait(&a->taken, &a->lock);
    const bool stop = a->stop;
    if (!stop) {
        a->list[(a->from + a->count++) % SAMPLES] = *s;
        a->bytes += bytes_of(s);
        pthread_cond_signal(&a->put);
    }
    pthread_mutex_unlock(&a->lock);
    if (stop) evaluate_ahead_release(s);
    return !stop;
}

static void *run(void *self)
{
    struct ahead *a = self;
    const struct evaluate_request *r = a->v->r;
    struct walk w = { .decoder = image_decoder_new() };
    const int64_t count = evaluate_sample_count(r);
    bool wanted = true;
    for (int64_t i = 0; i < count && wanted && (!r->limit || w.chosen < r->limit); i++) {
        struct ahead_sample s;
        prepare(a, &w, i, &s);
        wanted = put(a, &s);
    }
    shown_clear(&w.shown);
    image_decoder_free(w.decoder); // its child ends with the thread that started it
    return NULL;
}

// --- the evaluation's thread ---------------------------------------------------------------------

static void release(struct ahead *a)
{
    pthread_mutex_destroy(&a->lock);
    pthread_cond_destroy(&a->put);
    pthread_cond_destroy(&a->taken);
    free(a);
}

struct ahead *evaluate_ahead_new(const struct evaluating *v)
{
    struct ahead *a = xcalloc(1, sizeof *a);
    a->v = v;
    pthread_mutex_init(&a->lock, NULL);
    pthread_cond_init(&a->put, NULL);
    pthread_cond_init(&a->taken, NULL);
    sigset_t all, before;
    sigfillset(&all); // the main thread handles signals
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const int failed = pthread_create(&a->thread, NULL, run, a);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!failed) return a;
    release(a);
    return NULL;
}

void evaluate_ahead_take(struct ahead *a, struct ahead_sample *s)
{
    pthread_mutex_lock(&a->lock);
    while (!a->count) pthread_cond_wait(&a->put, &a->lock);
    *s = a->list[a->from];
    a->from = (a->from + 1) % SAMPLES;
    a->count--;
    a->bytes -= bytes_of(s);
    pthread_cond_signal(&a->taken);
    pthread_mutex_unlock(&a->lock);
}

void evaluate_ahead_release(struct ahead_sample *s)
{
    for (size_t i = 0; i < s->picture_count; i++) picture_release(&s->pictures[i]);
    free(s->pictures);
    sample_release(&s->sample);
    *s = (struct ahead_sample){ 0 };
}

void evaluate_ahead_free(struct ahead *a)
{
    if (!a) return;
    pthread_mutex_lock(&a->lock);
    a->stop = true;
    pthread_cond_signal(&a->taken);
    pthread_mutex_unlock(&a->lock);
    pthread_join(a->thread, NULL);
    for (; a->count; a->count--, a->from = (a->from + 1) % SAMPLES)
        evaluate_ahead_release(&a->list[a->from]);
    release(a);
}
