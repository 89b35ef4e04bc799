// tui/watcher.c -- jobs and previews, looked at in a thread of their own.
#include "tui/watcher.h"

#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/mem.h"
#include "sessions/drafts.h"
#include "sessions/jobs.h"
#include "tui/snapshot.h"
#include "tui/view.h"

struct watcher {
    struct news_queue *queue;
    char *db;
    struct store *store;
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t wake;
    bool stop;
    char *preview; // wanted
    struct draft { // to be kept, the oldest first
        char *session, *text;
    } * drafts;
    size_t draft_count;
    int64_t curve;
    double seen; // what the jobs looked like last
};

// --- jobs ----------------------------------------------------------------------------------------

// A number that changes when anything that is shown does.
static double look_of(const struct job_row *rows, size_t count, int64_t curve)
{
    double sum = (double)count + 1e-3 * (double)curve;
    for (size_t i = 0; i < count; i++) {
        const double step = isfinite(rows[i].step) ? rows[i].step : -1;
        sum += (double)(i + 1) * ((double)rows[i].id + 31 * (double)rows[i].state + 7 * step);
    }
    return sum;
}

// The curve of the loss, or of whatever the job told first.
static void read_curve(struct store *s, struct jobs_news *n, int64_t job)
{
    char **names = NULL;
    size_t count = 0, at = 0;
    if (store_series(s, job, &names, &count, NULL) < 0) return;
    for (size_t i = count; i-- > 0;)
        if (!strcmp(names[i], "loss")) at = i;
    if (count && store_curve(s, job, names[at], &n->curve, NULL) == 0) {
        n->curve_job = job;
        n->curve_name = xstrdup(names[at]);
    }
    series_free(names, count);
}

static void look_at_jobs(struct watcher *w, int64_t curve)
{
    struct job_row *rows;
    size_t count;
    if (!w->store || store_jobs_read(w->store, &rows, &count, NULL) < 0) return;
    const double look = look_of(rows, count, curve);
    if (look == w->seen) {
        job_rows_free(rows, count);
        return;
    }
    w->seen = look;
    struct jobs_news *n = xcalloc(1, sizeof *n);
    n->rows = rows;
    n->count = count;
    if (!curve && count) curve = rows[0].id;
    if (curve) read_curve(w->store, n, curve);
    news_post(w->queue, NEWS_JOBS, NULL, n, jobs_news_free);
}

// --- drafts --------------------------------------------------------------------------------------

// Called with the mutex, which is open while the database is written.
static void keep_drafts(struct watcher *w)
{
    while (w->draft_count) {
        const struct draft d = w->drafts[0];
        memmove(w->drafts, w->drafts + 1, --w->draft_count * sizeof d);
        pthread_mutex_unlock(&w->mutex);
        if (w->store) store_draft_keep_of(w->store, d.session, d.text, NULL);
        free(d.session);
        free(d.text);
        pthread_mutex_lock(&w->mutex);
    }
}

// --- the thread ----------------------------------------------------------------------------------

static void *watch(void *self)
{
    struct watcher *w = self;
    if (w->db) w->store = store_open(w->db, NULL);
    pthread_mutex_lock(&w->mutex);
    while (!w->stop) {
        keep_drafts(w);
        char *path = w->preview;
        const int64_t curve = w->curve;
        w->preview = NULL;
        pthread_mutex_unlock(&w->mutex);
        if (path)
            news_post(w->queue, NEWS_PICTURE, NULL, preview_file(path, 160), preview_free);
        else
            look_at_jobs(w, curve);
        free(path);
        pthread_mutex_lock(&w->mutex);
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_sec++;
        if (!w->stop && !w->preview && !w->draft_count)
            pthread_cond_timedwait(&w->wake, &w->mutex, &until);
    }
    keep_drafts(w);
    pthread_mutex_unlock(&w->mutex);
    store_close(w->store);
    return NULL;
}

struct watcher *watcher_start(const char *db, struct news_queue *queue)
{
    struct watcher *w = xcalloc(1, sizeof *w);
    sigset_t all, former;
    w->queue = queue;
    w->db = db ? xstrdup(db) : NULL;
    pthread_mutex_init(&w->mutex, NULL);
    pthread_cond_init(&w->wake, NULL);
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &former);
    const int failed = pthread_create(&w->thread, NULL, watch, w);
    pthread_sigmask(SIG_SETMASK, &former, NULL);
    if (failed) fatal("cannot start a thread: %s", strerror(failed));
    return w;
}

void watcher_preview(struct watcher *w, const char *path)
{
    pthread_mutex_lock(&w->mutex);
    free(w->preview);
    w->preview = xstrdup(path);
    pthread_cond_signal(&w->wake);
    pthread_mutex_unlock(&w->mutex);
}

void watcher_draft(struct watcher *w, const char *session, const char *text)
{
    pthread_mutex_lock(&w->mutex);
    w->drafts = xreallocarray(w->drafts, w->draft_count + 1, sizeof *w->drafts);
    w->drafts[w->draft_count++] =
        (struct draft){ session ? xstrdup(session) : NULL, xstrdup(text) };
    pthread_cond_signal(&w->wake);
    pthread_mutex_unlock(&w->mutex);
}

void watcher_curve(struct watcher *w, int64_t job)
{
    pthread_mutex_lock(&w->mutex);
    if (w->curve != job) {
        w->curve = job;
        pthread_cond_signal(&w->wake);
    }
    pthread_mutex_unlock(&w->mutex);
}

void watcher_stop(struct watcher *w)
{
    if (!w) return;
    pthread_mutex_lock(&w->mutex);
    w->stop = true;
    pthread_cond_signal(&w->wake);
    pthread_mutex_unlock(&w->mutex);
    pthread_join(w->thread, NULL);
    pthread_mutex_destroy(&w->mutex);
    pthread_cond_destroy(&w->wake);
    free(w->preview);
    free(w->drafts);
    free(w->db);
    free(w);
}
