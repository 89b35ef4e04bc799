// tui/worker.c -- runs lines one after the other in a separate thread.
#include "tui/worker.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "commands/jobs.h"
#include "core/base/mem.h"
#include "core/engine/engine.h"
#include "tui/snapshot.h"
#include "tui/threads.h"

struct worker {
    struct shell *shell;
    struct news_queue *queue;
    const struct draft_owner *owner;
    void (*begin)(void *self);
    void *self;
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t wake;
    struct waiting {
        char *line;
        bool live; // runs between two tokens of the running answer
        bool key;  // submitted by a panel's key
    } * lines;
    int count;
    char *quiet; // queued line that runs only for its maps; NULL: none
    bool quiet_now;
    bool busy, stop, joined;
    struct posted_pictures posted;
    char *session; // the session whose draft was posted; NULL: none yet
};

// --- the thread ----------------------------------------------------------------------------------

static void free_draft(void *draft)
{
    draft_release(draft);
    free(draft);
}

// Posts the unsent line of the session that became current; at the start, without a session, the
// last unsent line of any session. At the start, also reports the session of a crashed shell.
static void report_draft(struct worker *w)
{
    struct store *store = w->shell->store;
    const char *now = store && store_session(store) ? store_session(store) : "";
    const bool first = !w->session;
    if (!store || (!first && !strcmp(w->session, now))) return;
    free(w->session);
    w->session = xstrdup(now);
    char *crashed = first ? store_shell_crashed(store, w->owner) : NULL;
    if (crashed && strcmp(crashed, now) != 0)
        sinks_notice(w->shell->sinks,
                     "the last shell did not end properly; its session is saved: /session "
                     "resume %s",
                     crashed);
    free(crashed);
    store_shell_note(store, w->owner, *now ? now : NULL, NULL);
    if (!first && !*now) return;
    struct draft *d = xcalloc(1, sizeof *d);
    if (store_draft_find(store, w->owner, *now ? now : NULL, d, NULL) > 0)
        news_post(w->queue, NEWS_DRAFT, NULL, d, free_draft);
    else
        free(d);
}

static void report_state(struct worker *w)
{
    post_pictures(&w->posted, w->shell, w->queue);
    news_post(w->queue, NEWS_SNAPSHOT, NULL, snapshot_make(w->shell), snapshot_free);
    report_draft(w);
}

// Runs a line and outputs only its maps.
static void run_quiet(struct worker *w, const char *line)
{
    struct err err = { 0 };
    const struct sinks usual = *w->shell->sinks;
    *w->shell->sinks = (struct sinks){ 0 };
    sinks_add(w->shell->sinks, news_map_sink(w->queue));
    const bool ok = shell_line(w->shell, line, &err) == 0;
    *w->shell->sinks = usual;
    pthread_mutex_lock(&w->mutex);
    const bool dropped = w->count > 0; // a queued line has priority
    w->quiet_now = false;
    pthread_mutex_unlock(&w->mutex);
    if (!ok) news_post(w->queue, NEWS_NO_MAP, dropped ? NULL : err.text, NULL, NULL);
}

static void run_line(struct worker *w, const char *line, bool key)
{
    struct err err = { 0 };
    news_post(w->queue, key ? NEWS_BUSY_KEY : NEWS_BUSY, line, NULL, NULL);
    const bool ok = shell_line(w->shell, line, &err) == 0;
    if (!ok)
        sinks_emit(w->shell->sinks,
                   &(struct event){ .kind = EVENT_ERROR, .where = "", .text = err.text });
    sinks_emit(w->shell->sinks, &(struct event){ .kind = EVENT_DONE, .ok = ok });
    shell_job_news(w->shell);
    report_state(w);
}

// Takes the first waiting line; live lines precede others. NULL: none. The caller holds the mutex.
static char *take_line(struct worker *w, bool live, bool *key)
{
    int i = 0;
    while (i < w->count && !w->lines[i].live) i++;
    if (i == w->count && (live || !w->count)) return NULL;
    if (i == w->count) i = 0;
    char *line = w->lines[i].line;
    *key = w->lines[i].key;
    memmove(&w->lines[i], &w->lines[i + 1], (size_t)(--w->count - i) * sizeof *w->lines);
    return line;
}

static void release_settings(void *settings)
{
    settings_free(settings);
}

// Runs before each token of an answer: executes queued lines that change settings.
static void run_between(void *self)
{
    struct worker *w = self;
    struct err err;
    bool key = false;
    for (;;) {
        pthread_mutex_lock(&w->mutex);
        char *line = take_line(w, true, &key);
        pthread_mutex_unlock(&w->mutex);
        if (!line) return;
        if (shell_line(w->shell, line, &err) < 0)
            sinks_notice(w->shell->sinks, "not changed: %s", err.text);
        // Posts settings even if nothing changed: the screen waits for them.
        if (key)
            news_post(w->queue, NEWS_KEY_DONE, NULL,
                      settings_copy(engine_settings(w->shell->engine)), release_settings);
        free(line);
    }
}

// Waits for the next line, and checks jobs meanwhile. NULL: the worker was asked to stop.
static char *next_line(struct worker *w, bool *quiet, bool *key)
{
    char *line = NULL;
    pthread_mutex_lock(&w->mutex);
    w->busy = false;
    while (!w->stop && !w->count && !w->quiet) {
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_sec++;
        const bool late = pthread_cond_timedwait(&w->wake, &w->mutex, &until) == ETIMEDOUT;
        if (!late) continue;
        pthread_mutex_unlock(&w->mutex);
        if (w->shell->job_count) shell_job_news(w->shell);
        if (engine_report_identity(w->shell->engine)) report_state(w);
        pthread_mutex_lock(&w->mutex);
    }
    if (!w->stop) {
        line = take_line(w, false, key);
        *quiet = w->quiet_now = !line;
        if (!line) line = w->quiet, w->quiet = NULL;
        engine_uncancel(w->shell->engine); // a cancel from now on applies to this line
        w->busy = true;
    }
    pthread_mutex_unlock(&w->mutex);
    return line;
}

static void *work(void *self)
{
    struct worker *w = self;
    char *line;
    engine_between(w->shell->engine, run_between, w);
    news_post(w->queue, NEWS_BUSY, "", NULL, NULL);
    w->begin(w->self);
    report_state(w);
    news_post(w->queue, NEWS_IDLE, NULL, NULL, NULL);
    bool quiet = false, key = false;
    while (!w->shell->quit && (line = next_line(w, &quiet, &key))) {
        if (quiet)
            run_quiet(w, line);
        else
            run_line(w, line, key);
        free(line);
        if (!quiet) news_post(w->queue, NEWS_IDLE, NULL, NULL, NULL);
    }
    engine_between(w->shell->engine, NULL, NULL);
    news_post(w->queue, NEWS_LEAVE, NULL, NULL, NULL);
    return NULL;
}

// --- from outside --------------------------------------------------------------------------------

struct worker *worker_start(struct shell *shell, struct news_queue *queue,
                            const struct draft_owner *owner, void (*begin)(void *self), void *self)
{
    struct worker *w = xcalloc(1, sizeof *w);
    w->shell = shell;
    w->queue = queue;
    w->owner = owner;
    w->begin = begin;
    w->self = self;
    w->busy = true;
    pthread_mutex_init(&w->mutex, NULL);
    pthread_cond_init(&w->wake, NULL);
    threads_start(&w->thread, "worker", work, w);
    return w;
}

void worker_submit(struct worker *w, const char *line, bool live, bool key)
{
    pthread_mutex_lock(&w->mutex);
    w->lines = xreallocarray(w->lines, (size_t)w->count + 1, sizeof *w->lines);
    w->lines[w->count++] = (struct waiting){ xstrdup(line), live, key };
    if (w->quiet_now) engine_cancel(w->shell->engine);
    pthread_cond_signal(&w->wake);
    pthread_mutex_unlock(&w->mutex);
}

void worker_submit_quiet(struct worker *w, const char *line)
{
    pthread_mutex_lock(&w->mutex);
    free(w->quiet);
    w->quiet = xstrdup(line);
    pthread_cond_signal(&w->wake);
    pthread_mutex_unlock(&w->mutex);
}

int worker_cancel(struct worker *w, struct buf *dropped)
{
    pthread_mutex_lock(&w->mutex);
    int waited = 0, kept = 0;
    for (int i = 0; i < w->count; i++) {
        if (w->lines[i].live) {
            w->lines[kept++] = w->lines[i]; // a change of settings still applies to the next answer
            continue;
        }
        if (dropped) buf_printf(dropped, waited ? ", %s" : "%s", w->lines[i].line);
        free(w->lines[i].line);
        waited++;
    }
    w->count = kept;
    if (w->busy) engine_cancel(w->shell->engine);
    pthread_mutex_unlock(&w->mutex);
    return waited;
}

bool worker_busy(struct worker *w)
{
    pthread_mutex_lock(&w->mutex);
    const bool busy = w->busy || w->count;
    pthread_mutex_unlock(&w->mutex);
    return busy;
}

int worker_waiting(struct worker *w)
{
    pthread_mutex_lock(&w->mutex);
    const int count = w->count;
    pthread_mutex_unlock(&w->mutex);
    return count;
}

bool worker_stop(struct worker *w, int seconds)
{
    worker_cancel(w, NULL);
    pthread_mutex_lock(&w->mutex);
    w->stop = true;
    pthread_cond_signal(&w->wake);
    pthread_mutex_unlock(&w->mutex);
    if (!w->joined) w->joined = threads_join(w->thread, seconds);
    return w->joined;
}

void worker_free(struct worker *w)
{
    if (!w) return;
    for (int i = 0; i < w->count; i++) free(w->lines[i].line);
    free(w->lines);
    free(w->quiet);
    free(w->posted.sha256);
    free(w->session);
    pthread_mutex_destroy(&w->mutex);
    pthread_cond_destroy(&w->wake);
    free(w);
}
