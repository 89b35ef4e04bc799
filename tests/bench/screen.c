// tests/bench/screen.c -- the full screen's time per frame, and the cost of its live map per token.
// Prints Markdown.
//
// Frames: a long conversation, a picture under a map that changes with every frame, settings, two
// answers compared; drawn on a canvas and shown on a terminal in true colour that another thread
// reads. Tokens: the same answer with and without the live map, in turn, on the given model folder
// or, without one, a small random model. The real program on a 1B model: tests/bench/screen.py.
#include <fcntl.h>
#include <pthread.h>
#include <pty.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/template/message.h"
#include "kernels/backend.h"
#include "tui/layout.h"
#include "tui/status.h"
#include "tui/terminal.h"

enum { ENTRIES = 1000, FRAMES = 200, ROUNDS = 5, TOKENS = 64 };

// --- frames --------------------------------------------------------------------------------------

static void fill(struct view *v)
{
    static const char text[] =
        "The picture shows a large red circle on the left and a small blue square that touches it; "
        "below both a line of seven green triangles grows smaller towards the right edge.";
    struct preview *p = xcalloc(1, sizeof *p);
    const size_t side = 384;
    for (int i = 0; i < ENTRIES; i++) view_add(v, i % 2 ? ENTRY_ANSWER : ENTRY_USER, text);
    p->path = xstrdup("picture.png");
    p->width = p->height = (int64_t)side;
    p->image = (struct image){ (int64_t)side, (int64_t)side, 3, xcalloc(side * side, 3) };
    image_take_picture(&v->image, p);
    const struct event_columns columns = { .title = { "A: off", "B: ira.on=on" },
                                           .text = { text, text + 4 } };
    compare_take(&v->compare, &columns);
}

// The attention of the newest token.
static void take_map(struct view *v, const char *name, int token)
{
    float values[24 * 24];
    for (int i = 0; i < 24 * 24; i++) values[i] = (float)((i + token) * 7919 % 97);
    const struct event_heatmap map = { .name = name,
                                       .layer = 3,
                                       .head = -1,
                                       .token = token % 512,
                                       .rows = 24,
                                       .cols = 24,
                                       .values = values,
                                       .max = 96,
                                       .area = { 0, 0, 1, 1 } };
    image_take_map(*name == 'c' ? &v->compare.maps : &v->image, &map);
}

// Processor time of this thread: excludes the terminal's reading time.
static double own_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

// Draws a frame and returns its seconds; *shown: those of writing it to the terminal.
static double frame(struct view *v, struct canvas *c, struct terminal *t, int layout, int token,
                    double *shown)
{
    struct placed_panel placed[PANEL_COUNT];
    const struct area all = { 0, 0, c->columns, c->lines - 2 };
    take_map(v, "live", token);
    take_map(v, "compare.A", token);
    take_map(v, "compare.B", token + 1);
    v->compare.token = token % 512;
    const double begin = own_seconds();
    canvas_clear(c);
    const int count = layout_place(layout, PANEL_settings, PANEL_NONE, all, placed);
    for (int i = 0; i < count; i++)
        panel_at(placed[i].panel)->draw(v, c, canvas_box(c, placed[i].area, "panel", false), true);
    status_draw(v, c, (struct area){ 0, c->lines - 2, c->columns, 1 }, "F1 keys");
    const double drawn = own_seconds();
    terminal_show(t, c, theme_find("default"));
    *shown = own_seconds() - drawn;
    return drawn - begin;
}

static void *read_all(void *fd)
{
    char bytes[65536];
    while (read(*(int *)fd, bytes, sizeof bytes) > 0) {
    }
    return NULL;
}

// Replaces standard input and output with a terminal, and starts a thread that reads its bytes.
static struct terminal *open_terminal(int *master, int saved[2], int lines, int columns)
{
    struct winsize size = { .ws_row = (unsigned short)lines, .ws_col = (unsigned short)columns };
    struct err err;
    pthread_t reader;
    int slave;
    fflush(stdout);
    if (openpty(master, &slave, NULL, NULL, &size) < 0) exit(1);
    pthread_create(&reader, NULL, read_all, master);
    pthread_detach(reader);
    for (int i = 0; i < 2; i++) {
        saved[i] = fcntl(i, F_DUPFD_CLOEXEC, 3);
        dup2(slave, i);
    }
    close(slave);
    setenv("TERM", "xterm-256color", 1);
    setenv("COLORTERM", "truecolor", 1);
    struct terminal *t = terminal_open(&err);
    if (t) return t;
    fprintf(stderr, "%s\n", err.text);
    exit(1);
}

static void close_terminal(struct terminal *t, int master, const int saved[2])
{
    terminal_close(t);
    fflush(stdout);
    for (int i = 0; i < 2; i++) {
        dup2(saved[i], i);
        close(saved[i]);
    }
    close(master);
}

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void bench_layout(struct view *v, int lines, int columns, int layout)
{
    struct canvas c = { 0 };
    double drawn[FRAMES], shown[FRAMES], both[FRAMES], first;
    int master, saved[2];
    struct terminal *t = open_terminal(&master, saved, lines, columns);
    canvas_resize(&c, lines, columns);
    frame(v, &c, t, layout, 0, &first); // wraps the conversation at this width
    for (int k = 0; k < FRAMES; k++) {
        drawn[k] = frame(v, &c, t, layout, k + 1, &shown[k]);
        both[k] = drawn[k] + shown[k];
    }
    close_terminal(t, master, saved);
    qsort(drawn, FRAMES, sizeof *drawn, by_size);
    qsort(shown, FRAMES, sizeof *shown, by_size);
    qsort(both, FRAMES, sizeof *both, by_size);
    printf("| %dx%d | %s | %.2f | %.2f | %.2f |\n", columns, lines, layout_names[layout],
           1000 * drawn[FRAMES / 2], 1000 * shown[FRAMES / 2], 1000 * both[FRAMES / 2]);
    canvas_release(&c);
}

static void bench_frames(void)
{
    static const int sizes[][2] = { { 24, 80 }, { 40, 120 }, { 60, 200 } };
    struct view *v = view_new();
    fill(v);
    printf("| screen | layout | drawn, ms | shown, ms | frame, ms (median of %d) |\n"
           "|---|---|---|---|---|\n",
           FRAMES);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        for (int layout = 0; layout_names[layout]; layout++)
            bench_layout(v, sizes[i][0], sizes[i][1], layout);
    view_free(v);
}

// --- tokens --------------------------------------------------------------------------------------

static void take_time(void *self, const struct event *e)
{
    double *decode = self;
    if (e->kind == EVENT_ANSWER) *decode = e->answer->decode_s;
}

static double answer(struct engine *e, double *decode, bool watch)
{
    engine_watch(e, watch, 0);
    if (engine_regenerate(e, NULL) < 0) return 0;
    return *decode;
}

static int bench_live(const char *folder, const char *picture)
{
    struct sinks sinks = { 0 };
    struct err err;
    double decode = 0, best[2] = { 1e9, 1e9 };
    char tokens[16];
    snprintf(tokens, sizeof tokens, "%d", TOKENS);
    sinks_add(&sinks, (struct sink){ .emit = take_time, .self = &decode });
    struct engine *e = engine_new(backend_cpu(), &sinks);
    if (engine_load(e, folder, &err) < 0 || engine_attach(e, picture, &err) < 0 ||
        engine_set(e, "sample.max_tokens", tokens, &err) < 0 ||
        engine_set(e, "sample.ignore_eos", "on", &err) < 0 ||
        engine_ask(e, "What is in the picture?", &err) < 0) {
        fprintf(stderr, "%s: %s\n", folder, err.text);
        engine_free(e);
        return 1;
    }
    for (int i = 0; i < ROUNDS; i++)
        for (int watch = 0; watch < 2; watch++) {
            const double seconds = answer(e, &decode, watch);
            if (seconds < best[watch]) best[watch] = seconds;
        }
    printf("\n%s: %.2f ms a token, %.2f ms with the live map (%+.1f%%)\n", folder,
           1000 * best[0] / TOKENS, 1000 * best[1] / TOKENS, 100 * (best[1] / best[0] - 1));
    engine_free(e);
    return 0;
}

// usage: screen [MODEL PICTURE]
int main(int argc, char **argv)
{
    printf("## The full screen\n\n");
    bench_frames();
    if (argc > 2) return bench_live(argv[1], argv[2]);
    return bench_live("tests/goldens/llava-1.5", "tests/goldens/pictures/scene.png");
}
