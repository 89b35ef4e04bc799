// tui/screen.c -- the full screen: start, main loop, end.
#include "tui/screen.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/file_in.h"
#include "core/base/file_out.h"
#include "core/base/places.h"
#include "core/base/text.h"
#include "tui/lines.h"
#include "tui/list.h"
#include "tui/maps.h"
#include "tui/screen_parts.h"
#include "tui/signals.h"
#include "tui/text.h"

// Seconds between two frames (key_pause: if a key arrived after the first), and how long to wait
// for the rest of a sequence after ESC, or for more of a paste or reply.
static const double frame_pause = 1.0 / 30, key_pause = 0.005;
static const double escape_pause = 0.04, paste_pause = 1.0;
static const double token_time = 0.3; // per token while maps play

struct screen *screen_new(void)
{
    struct screen *s = xcalloc(1, sizeof *s);
    s->queue = news_queue_new();
    s->view = view_new();
    s->layout = s->before = -1;
    s->focus = PANEL_NONE;
    canvas_resize(&s->canvas, 24, 80);
    return s;
}

void screen_free(struct screen *s)
{
    if (!s) return;
    news_queue_free(s->queue);
    view_free(s->view);
    canvas_release(&s->canvas);
    key_reader_release(&s->reader);
    free(s->remembered);
    free(s->stored);
    free(s->stored_session);
    free(s);
}

struct sink screen_sink(struct screen *s)
{
    return news_sink(s->queue);
}

// --- the layout of the last start ----------------------------------------------------------------

static char *layout_file(void)
{
    return places_file("XDG_STATE_HOME", ".local/state", "layout");
}

void screen_remember(const char *layout)
{
    char *path = layout_file();
    if (path && places_make_parents(path, NULL) == 0)
        file_out_update(path, layout, strlen(layout),
                        NULL); // without it, the next start has `auto`
    free(path);
}

static char *remembered_layout(void)
{
    enum { LONGEST = 64 };
    size_t size;
    char *path = layout_file(), *name = path ? file_read(path, LONGEST, &size, NULL) : NULL;
    if (name && !text_listed(layout_names, name)) {
        free(name);
        name = NULL;
    }
    free(path);
    return name;
}

void screen_forget_layout(struct screen *s)
{
    s->layout = -1;
    free(s->remembered);
    s->remembered = NULL;
    screen_remember("auto");
}

// --- news ----------------------------------------------------------------------------------------

static void serve_capture(struct screen *s, struct capture *k)
{
    struct canvas c = { .ascii = s->canvas.ascii, .mono = s->canvas.mono };
    if (s->canvas.graphics < GRAPHICS_KITTY) c.graphics = s->canvas.graphics;
    canvas_resize(&c, k->lines ? k->lines : s->canvas.lines,
                  k->columns ? k->columns : s->canvas.columns);
    screen_draw(s, &c);
    pthread_mutex_lock(&k->mutex);
    canvas_write(&c, &k->text);
    k->done = true;
    pthread_cond_signal(&k->wake);
    pthread_mutex_unlock(&k->mutex);
    canvas_release(&c);
}

// Switches to the layout `name` if its comparison has not been viewed yet (*fresh). Esc, or
// choosing another layout, leaves that layout.
static void show_layout(struct screen *s, const char *name, bool *fresh)
{
    const int now = screen_layout_find(name, s->canvas.columns);
    if (!*fresh) return;
    *fresh = false;
    if (s->layout == now) return;
    if (!screen_shows_compared(s)) s->before = s->layout;
    s->layout = now;
}

// Restores a draft, unless the input line already has text.
static void take_draft(struct screen *s, const struct draft *d)
{
    if (!s->prompt || *prompt_typed(s->prompt) || typed_open(&s->typed)) return;
    if (s->view->list.kind == LIST_START) list_release(&s->view->list);
    prompt_set(s->prompt, d->text);
    s->taken = d->id;
    screen_draft_typed(s);
    screen_draft_announce(s, d);
}

// Explains how to get more colours, once, with the first map.
static void explain_colours(struct screen *s)
{
    const char *term = getenv("TERM");
    const int colours = s->canvas.colours;
    const bool own = graphics_way(s->canvas.graphics)->encode != NULL;
    if (s->colours_explained || !s->view->image.map_count || !colours || own || s->canvas.ascii)
        return;
    s->colours_explained = true;
    if (colours >= 256)
        view_add(s->view, ENTRY_NOTICE,
                 "the map has 256 colours here; if your terminal has more, restart with "
                 "COLORTERM=truecolor");
    if (!term) term = "";
    if (colours >= 256 || colours < 8 || !strncmp(term, "linux", 5)) return; // a console has eight
    const char *better = !strncmp(term, "screen", 6) ? "screen-256color" : "xterm-256color";
    char *text =
        xasprintf("the map has four colours here; if your terminal has 256 or more, restart "
                  "with TERM=%s, and COLORTERM=truecolor for all colours",
                  getenv("TMUX") ? "tmux-256color" : better);
    view_add(s->view, ENTRY_NOTICE, text);
    free(text);
}

// Shows and copies the line that does what the last key did.
static void copy_last(struct view *v)
{
    view_add(v, ENTRY_TEXT,
             v->key_line ? v->key_line : "no key has changed or measured anything yet");
    free(v->copy);
    v->copy = v->key_line ? xstrdup(v->key_line) : NULL;
}

// Lists how to begin, unless the user has typed already.
static void open_start(struct screen *s)
{
    if (s->prompt && !*prompt_typed(s->prompt) && !s->used && !typed_open(&s->typed) &&
        !screen_covered(s))
        list_open_start(s->view, &s->lookup);
}

static void take_news(struct screen *s)
{
    struct news *n;
    while ((n = news_next(s->queue))) {
        if (n->kind == NEWS_CAPTURE)
            serve_capture(s, n->data);
        else if (n->kind == NEWS_OPEN && !strcmp(n->text, "tour"))
            s->view->tour = 1;
        else if (n->kind == NEWS_OPEN && !strcmp(n->text, "begin"))
            open_start(s);
        else if (n->kind == NEWS_OPEN && !strcmp(n->text, "last"))
            copy_last(s->view);
        else if (n->kind == NEWS_OPEN)
            list_open_picker(s->view, n->text, &s->lookup);
        else if (n->kind == NEWS_LEAVE)
            s->leave = s->ended = true;
        else if (n->kind == NEWS_FILES)
            list_take_files(s->view, n->data, &s->lookup);
        else if (n->kind == NEWS_DRAFT)
            take_draft(s, n->data);
        else
            view_take(s->view, n);
        if (n->kind == NEWS_IDLE) {
            s->stopping = false;
            screen_tour_offer(s);
        }
        if (n->kind == NEWS_EVENT && n->event.kind == EVENT_SETTING && n->event.ok &&
            !strcmp(n->event.key, "screen.layout"))
            s->layout = -1; // the setting applies again
        show_layout(s, "compare", &s->view->compare.fresh);
        show_layout(s, "changed", &s->view->changed.fresh);
        if (n->kind == NEWS_IDLE) explain_colours(s);
        s->dirty = true;
        news_free(n);
    }
    if (s->worker) screen_apply(s);
}

// Runs in the worker's thread; waits until the screen's thread has drawn the capture.
static int capture(void *self, int lines, int columns, struct buf *text, struct err *err)
{
    struct screen *s = self;
    struct capture k = { .lines = lines, .columns = columns };
    pthread_mutex_init(&k.mutex, NULL);
    pthread_cond_init(&k.wake, NULL);
    news_post(s->queue, NEWS_CAPTURE, NULL, &k, NULL);
    pthread_mutex_lock(&k.mutex);
    while (!k.done) pthread_cond_wait(&k.wake, &k.mutex);
    pthread_mutex_unlock(&k.mutex);
    pthread_mutex_destroy(&k.mutex);
    pthread_cond_destroy(&k.wake);
    *text = k.text;
    return 0;
}

static int open_list(void *self, const char *what, struct err *err)
{
    struct screen *s = self;
    news_post(s->queue, NEWS_OPEN, what, NULL, NULL);
    return 0;
}

static int text_columns(void *self)
{
    return atomic_load(&((struct screen *)self)->text_columns);
}

// --- the loop ------------------------------------------------------------------------------------

static void take_signals(struct screen *s)
{
    int number;
    while ((number = signals_next())) {
        if (number == SIGINT) screen_stop(s);
        if (number == SIGWINCH) terminal_resize(s->terminal);
        if (number == SIGTSTP) screen_suspend(s);
        if (number == SIGCONT) screen_enter(s); // also after SIGSTOP, which cannot be caught
        if (signals_terminated()) s->leave = true;
        s->dirty = true;
    }
}

static void take_input(struct screen *s)
{
    char bytes[4096];
    const ssize_t n = read(STDIN_FILENO, bytes, sizeof bytes);
    if (n > 0) {
        key_reader_add(&s->reader, bytes, (size_t)n);
        s->key_at = clock_seconds();
        screen_bytes(s, false);
    } else if (n == 0 || (errno != EINTR && errno != EAGAIN)) {
        s->leave = true; // the terminal was closed
    }
}

static int milliseconds(double seconds)
{
    return seconds <= 0 ? 0 : (int)(seconds * 1000) + 1;
}

// Returns the time when the next frame may be drawn: soon after a key, even if a frame was just
// drawn.
static double frame_time(const struct screen *s)
{
    return s->drawn + (s->acted > s->drawn ? key_pause : frame_pause);
}

static double rest_pause(const struct screen *s)
{
    return s->reader.pasting || key_reader_replying(&s->reader) ? paste_pause : escape_pause;
}

static void wait_at_most(int *wait, double seconds)
{
    const int pause = milliseconds(seconds);
    if (*wait < 0 || pause < *wait) *wait = pause;
}

// Returns for how long poll may wait (ms) until something is due: a frame, a step of the spinner, a
// draft, a step of maps that play, a picture to resend, the end of a key; -1: without limit.
static int patience(const struct screen *s)
{
    const double now = clock_seconds(), again = terminal_wait(s->terminal, now);
    int wait = s->view->busy ? 150 : -1;
    if (s->dirty) wait = milliseconds(frame_time(s) - now);
    if (s->draft_at > 0) wait_at_most(&wait, s->draft_at - now);
    if (s->view->image.playing) wait_at_most(&wait, s->view->image.play_at - now);
    if (again >= 0) wait_at_most(&wait, again);
    if (key_reader_open(&s->reader)) wait_at_most(&wait, s->key_at + rest_pause(s) - now);
    return wait;
}

static bool frame_due(const struct screen *s)
{
    return s->dirty && clock_seconds() >= frame_time(s);
}

// Reads news only when the next frame is due: a small model posts thousands of events per second,
// and waking for each would take CPU time from the model.
static void loop(struct screen *s)
{
    while (!s->leave) {
        struct pollfd wait[] = { { .fd = STDIN_FILENO, .events = POLLIN },
                                 { .fd = s->dirty ? -1 : news_fd(s->queue), .events = POLLIN },
                                 { .fd = signals_fd(), .events = POLLIN } };
        const int ready = poll(wait, 3, patience(s));
        if (ready < 0 && errno != EINTR) break;
        take_signals(s);
        if (ready > 0 && wait[0].revents) take_input(s);
        if ((ready > 0 && wait[1].revents) || frame_due(s)) take_news(s);
        const double now = clock_seconds();
        if (key_reader_open(&s->reader) && now - s->key_at >= rest_pause(s)) screen_bytes(s, true);
        if (s->draft_at > 0 && now >= s->draft_at) screen_draft_keep(s);
        if (ready == 0 && s->view->busy) s->dirty = true;
        if (terminal_wait(s->terminal, now) == 0) s->dirty = true;
        if (s->view->image.playing && now >= s->view->image.play_at) {
            maps_play(s->view);
            s->view->image.play_at = now + token_time;
            screen_apply(s);
            s->dirty = true;
        }
        if (frame_due(s)) screen_show(s);
    }
}

// --- start and end -------------------------------------------------------------------------------

static void on_line(void *self, const char *text)
{
    struct screen *s = self;
    if (text)
        screen_submit(s, text);
    else if (typed_open(&s->typed))
        typed_drop(&s->typed); // Ctrl-D drops an unfinished text
    else
        s->leave = true;
}

static void open_all(struct screen *s, struct err *err)
{
    char *path = places_file("XDG_STATE_HOME", ".local/state", "history");
    s->lookup = (struct shell){ .interactive = true,
                                .variables = s->shell->variables,
                                .variable_count = s->shell->variable_count };
    if (s->shell->store) s->lookup.store = store_open(store_path(s->shell->store), NULL);
    s->owner =
        s->lookup.store ? draft_owner_begin(s->lookup.store) : (struct draft_owner){ .fd = -1 };
    s->typed.history = history_open(path);
    free(path);
    s->remembered = remembered_layout();
    terminal_locale();
    s->prompt = prompt_new(&s->lookup, on_line, s); // before the terminal: both read terminfo
    s->terminal = terminal_open(err);
}

static void close_all(struct screen *s)
{
    terminal_close(s->terminal);
    prompt_free(s->prompt);
    s->terminal = NULL;
    s->prompt = NULL;
    typed_release(&s->typed);
    history_close(s->typed.history);
    if (s->lookup.store) store_shell_note(s->lookup.store, &s->owner, NULL, NULL);
    draft_owner_end(&s->owner);
    store_close(s->lookup.store);
}

// Ends the threads; false if one hangs. While waiting, serves news whose senders block (captures).
static bool end_threads(struct screen *s)
{
    int tries = 0;
    bool ended = worker_stop(s->worker, 1);
    while (!ended && ++tries < 5) {
        take_news(s);
        view_hint(s->view, "quitting; waiting for the running command to stop");
        screen_show(s);
        ended = worker_stop(s->worker, 1);
    }
    take_news(s);
    return watcher_stop(s->watcher) && ended;
}

int screen_run(struct screen *s, struct shell *shell, struct keys *keys, void (*begin)(void *self),
               void *self)
{
    struct err err = { 0 };
    const struct shell_screen hooks = {
        .self = s, .capture = capture, .open = open_list, .columns = text_columns
    };
    s->shell = shell;
    s->keys = keys;
    signals_busy(false);
    open_all(s, &err);
    if (!s->terminal) {
        close_all(s);
        text_printf(stderr, "vlmsh: %s\n", err.text);
        return STATUS_FAILED;
    }
    shell->screen = &hooks;
    s->painter = painter_start(s->queue);
    engine_watch(shell->engine, true, frame_pause);
    s->watcher = watcher_start(shell->store ? store_path(shell->store) : NULL, &s->owner, s->queue);
    s->worker = worker_start(shell, s->queue, &s->owner, begin, self);
    screen_show(s);
    loop(s);
    const bool ended = end_threads(s);
    screen_draft_last(s);
    painter_stop(s->painter);
    s->painter = NULL;
    close_all(s);
    if (!ended)
        _exit(s->status ? s->status : STATUS_INTERRUPTED); // a hanging thread still uses the memory
    worker_free(s->worker);
    shell->screen = NULL;
    if (signals_terminated()) return 128 + signals_terminated();
    return s->status;
}
