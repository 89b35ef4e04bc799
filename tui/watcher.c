// tui/watcher.c -- reads jobs and stores drafts in one thread, loads previews in another, lists
// files in a third.
#include "tui/watcher.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/base/file_in.h"
#include "core/base/mem.h"
#include "core/base/names.h"
#include "sessions/jobs.h"
#include "tui/list.h"
#include "tui/snapshot.h"
#include "tui/threads.h"
#include "tui/view.h"

struct watcher {
    struct news_queue *queue;
    char *db;
    const struct draft_owner *owner;
    struct store *store;
    // Previews and lists of files have threads of their own: reading a file or folder may block.
    pthread_t thread, previewer, lister;
    pthread_mutex_t mutex;
    pthread_cond_t wake, wake_previewer, wake_lister;
    bool stop;
    char *preview;             // requested path; NULL: none
    struct list_request files; // number 0: none
    struct kept_draft {        // drafts to store, the oldest first
        char *session;
        struct draft draft;
    } * drafts;
    size_t draft_count;
    struct jobs_wanted wanted;
    // State at the last report: database version, wanted jobs, number of unfinished jobs, and the
    // sum of their steps (reports of ranks reach the database through this connection, and the
    // version shows only changes by other connections).
    int64_t version;
    struct jobs_wanted posted;
    int lived;
    double steps;
};

// --- jobs ----------------------------------------------------------------------------------------

enum { CURVES_MAX = 16 };

// Returns whether the screen draws the series. Those of single layers ("grad_mean.layers.0...") are
// too many to read every second; /plot draws them.
static bool is_drawn(const char *series)
{
    return !strchr(series, '.') || !strncmp(series, "validation_", 11);
}

// Reads a job's curves: those of the whole model, or only the loss.
static void read_curves(struct store *s, struct jobs_news *n, int64_t job, bool all)
{
    struct names names = { 0 };
    store_series(s, job, &names, NULL);
    for (size_t i = 0; i < names.count && n->curve_count < CURVES_MAX; i++) {
        struct job_curve c = { .job = job };
        if (!is_drawn(names.list[i]) || (!all && strcmp(names.list[i], "loss") != 0)) continue;
        if (store_curve(s, job, names.list[i], &c.curve, NULL) < 0) continue;
        c.name = xstrdup(names.list[i]);
        n->curves = xreallocarray(n->curves, n->curve_count + 1, sizeof *n->curves);
        n->curves[n->curve_count++] = c;
    }
    names_release(&names);
}

static void read_wanted(struct store *s, struct jobs_news *n, const struct jobs_wanted *wanted)
{
    n->job = wanted->job ? wanted->job : n->count ? n->rows[0].id : 0;
    if (!n->job) return;
    read_curves(s, n, n->job, true);
    for (int i = 0; i < JOBS_MARKED; i++)
        if (wanted->marked[i] && wanted->marked[i] != n->job)
            read_curves(s, n, wanted->marked[i], false);
    if (store_job_results(s, n->job, &n->results, &n->result_count, NULL) < 0) n->result_count = 0;
}

// Reads the resident memory of the jobs' processes on this machine.
static void read_memory(struct jobs_news *n)
{
    n->memory = xcalloc(n->count + 1, sizeof *n->memory);
    for (size_t i = 0; i < n->count; i++) {
        uint64_t kilobytes;
        if (n->rows[i].state != STATE_RUNNING || n->rows[i].pid <= 0) continue;
        char *path = xasprintf("/proc/%ld/status", (long)n->rows[i].pid);
        if (file_number(path, "VmRSS:", &kilobytes)) n->memory[i] = 1024.0 * (double)kilobytes;
        free(path);
    }
}

static bool is_same(const struct jobs_wanted *a, const struct jobs_wanted *b)
{
    bool same = a->job == b->job;
    for (int i = 0; i < JOBS_MARKED; i++) same &= a->marked[i] == b->marked[i];
    return same;
}

// Posts the jobs if they changed. A killed job changes nothing in the database, so running jobs are
// checked each time.
static void look_at_jobs(struct watcher *w, const struct jobs_wanted *wanted)
{
    struct job_row *rows;
    size_t count;
    int64_t version = 0;
    if (!w->store || store_version_seen(w->store, &version, NULL) < 0) return;
    const bool same = version == w->version && is_same(wanted, &w->posted);
    if (same && !w->lived) return;
    if (store_jobs_read(w->store, &rows, &count, NULL) < 0) return;
    int alive = 0;
    double steps = 0;
    for (size_t i = 0; i < count; i++) {
        if (job_state_ended(rows[i].state)) continue;
        alive++;
        if (rows[i].step > 0) steps += rows[i].step;
    }
    if (same && alive == w->lived && steps == w->steps) {
        job_rows_free(rows, count);
        return;
    }
    w->version = version;
    w->posted = *wanted;
    w->lived = alive;
    w->steps = steps;
    struct jobs_news *n = xcalloc(1, sizeof *n);
    n->rows = rows;
    n->count = count;
    read_wanted(w->store, n, wanted);
    read_memory(n);
    news_post(w->queue, NEWS_JOBS, NULL, n, jobs_news_free);
}

// --- drafts --------------------------------------------------------------------------------------

// Stores the drafts. The caller holds the mutex, which is released during writes to the database.
static void keep_drafts(struct watcher *w)
{
    while (w->draft_count) {
        struct kept_draft d = w->drafts[0];
        memmove(w->drafts, w->drafts + 1, --w->draft_count * sizeof d);
        pthread_mutex_unlock(&w->mutex);
        if (w->store) store_draft_keep(w->store, w->owner, d.session, &d.draft, NULL);
        free(d.session);
        draft_release(&d.draft);
        pthread_mutex_lock(&w->mutex);
    }
}

// --- the threads ---------------------------------------------------------------------------------

static void *watch(void *self)
{
    struct watcher *w = self;
    if (w->db) w->store = store_open(w->db, NULL);
    pthread_mutex_lock(&w->mutex);
    while (!w->stop) {
        keep_drafts(w);
        const struct jobs_wanted wanted = w->wanted;
        pthread_mutex_unlock(&w->mutex);
        look_at_jobs(w, &wanted);
        pthread_mutex_lock(&w->mutex);
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_sec++;
        if (!w->stop && !w->draft_count && is_same(&w->wanted, &wanted))
            pthread_cond_timedwait(&w->wake, &w->mutex, &until);
    }
    keep_drafts(w);
    pthread_mutex_unlock(&w->mutex);
    store_close(w->store);
    return NULL;
}

static void *show_previews(void *self)
{
    struct watcher *w = self;
    pthread_mutex_lock(&w->mutex);
    while (!w->stop) {
        char *path = w->preview;
        w->preview = NULL;
        if (!path) {
            pthread_cond_wait(&w->wake_previewer, &w->mutex);
            continue;
        }
        pthread_mutex_unlock(&w->mutex);
        news_post(w->queue, NEWS_PICTURE, NULL, preview_file(path, 160), preview_free);
        free(path);
        pthread_mutex_lock(&w->mutex);
    }
    pthread_mutex_unlock(&w->mutex);
    return NULL;
}

static void request_release(struct list_request *r)
{
    free(r->what);
    free(r->folder);
    *r = (struct list_request){ 0 };
}

// Returns whether the running listing is still wanted: no other has been requested.
static bool is_listing(void *self)
{
    struct watcher *w = self;
    pthread_mutex_lock(&w->mutex);
    const bool wanted = !w->stop && !w->files.number;
    pthread_mutex_unlock(&w->mutex);
    return wanted;
}

static void post_files(void *self, struct list_view *part)
{
    struct watcher *w = self;
    news_post(w->queue, NEWS_FILES, NULL, part, list_files_free);
}

static void *list_wanted(void *self)
{
    struct watcher *w = self;
    pthread_mutex_lock(&w->mutex);
    while (!w->stop) {
        struct list_request r = w->files;
        w->files = (struct list_request){ 0 };
        if (!r.number) {
            pthread_cond_wait(&w->wake_lister, &w->mutex);
            continue;
        }
        pthread_mutex_unlock(&w->mutex);
        list_files(&r, is_listing, post_files, w);
        request_release(&r);
        pthread_mutex_lock(&w->mutex);
    }
    pthread_mutex_unlock(&w->mutex);
    return NULL;
}

struct watcher *watcher_start(const char *db, const struct draft_owner *owner,
                              struct news_queue *queue)
{
    struct watcher *w = xcalloc(1, sizeof *w);
    w->queue = queue;
    w->owner = owner;
    w->db = db ? xstrdup(db) : NULL;
    w->version = -1;
    pthread_mutex_init(&w->mutex, NULL);
    pthread_cond_init(&w->wake, NULL);
    pthread_cond_init(&w->wake_previewer, NULL);
    pthread_cond_init(&w->wake_lister, NULL);
    threads_start(&w->thread, "watcher", watch, w);
    threads_start(&w->previewer, "previewer", show_previews, w);
    threads_start(&w->lister, "lister", list_wanted, w);
    return w;
}

void watcher_preview(struct watcher *w, const char *path)
{
    pthread_mutex_lock(&w->mutex);
    free(w->preview);
    w->preview = xstrdup(path);
    pthread_cond_signal(&w->wake_previewer);
    pthread_mutex_unlock(&w->mutex);
}

void watcher_files(struct watcher *w, const struct list_view *l)
{
    pthread_mutex_lock(&w->mutex);
    request_release(&w->files);
    w->files = (struct list_request){ l->request, l->what ? xstrdup(l->what) : NULL,
                                      l->folder ? xstrdup(l->folder) : NULL };
    pthread_cond_signal(&w->wake_lister);
    pthread_mutex_unlock(&w->mutex);
}

void watcher_draft(struct watcher *w, const char *session, struct draft d)
{
    pthread_mutex_lock(&w->mutex);
    w->drafts = xreallocarray(w->drafts, w->draft_count + 1, sizeof *w->drafts);
    w->drafts[w->draft_count++] = (struct kept_draft){ session ? xstrdup(session) : NULL, d };
    pthread_cond_signal(&w->wake);
    pthread_mutex_unlock(&w->mutex);
}

void watcher_jobs(struct watcher *w, const struct jobs_wanted *wanted)
{
    pthread_mutex_lock(&w->mutex);
    if (!is_same(&w->wanted, wanted)) {
        w->wanted = *wanted;
        pthread_cond_signal(&w->wake);
    }
    pthread_mutex_unlock(&w->mutex);
}

bool watcher_stop(struct watcher *w)
{
    if (!w) return true;
    pthread_mutex_lock(&w->mutex);
    w->stop = true;
    pthread_cond_signal(&w->wake);
    pthread_cond_signal(&w->wake_previewer);
    pthread_cond_signal(&w->wake_lister);
    pthread_mutex_unlock(&w->mutex);
    const bool stored = threads_join(w->thread, 2), shown = threads_join(w->previewer, 1);
    const bool listed = threads_join(w->lister, 1);
    if (!stored || !shown || !listed) return false;
    pthread_mutex_destroy(&w->mutex);
    pthread_cond_destroy(&w->wake);
    pthread_cond_destroy(&w->wake_previewer);
    pthread_cond_destroy(&w->wake_lister);
    free(w->preview);
    request_release(&w->files);
    free(w->drafts);
    free(w->db);
    free(w);
    return true;
}
