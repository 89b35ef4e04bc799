// tests/bench/screen.c -- how long the full screen takes to draw a frame, and what its live map
// adds to a token. Prints Markdown.
//
// Frames: a long conversation, a picture under a map, settings and curves, on a canvas; what the
// terminal then gets is only what changed. Tokens: the same answer with and without the live map,
// in turn, on the small random model and on a model folder when one is given.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "core/message.h"
#include "tui/layout.h"
#include "tui/status.h"

enum { ENTRIES = 1000, FRAMES = 200, ROUNDS = 5, TOKENS = 64 };

// --- frames --------------------------------------------------------------------------------------

static void fill(struct view *v)
{
    static const char text[] =
        "The picture shows a large red circle on the left and a small blue square that touches it; "
        "below both a line of seven green triangles grows smaller towards the right edge.";
    struct preview *p = xcalloc(1, sizeof *p);
    const size_t side = 384;
    float values[24 * 24];
    for (int i = 0; i < ENTRIES; i++) view_add(v, i % 2 ? ENTRY_ANSWER : ENTRY_USER, text);
    p->path = xstrdup("picture.png");
    p->width = p->height = (int64_t)side;
    p->image = (struct image){ (int64_t)side, (int64_t)side, 3, xcalloc(side * side, 3) };
    image_take_picture(&v->image, p);
    for (int i = 0; i < 24 * 24; i++) values[i] = (float)(i * 7919 % 97);
    const struct event_heatmap map = { .name = "live",
                                       .layer = 3,
                                       .head = -1,
                                       .rows = 24,
                                       .cols = 24,
                                       .values = values,
                                       .max = 96,
                                       .area = { 0, 0, 1, 1 } };
    image_take_map(&v->image, &map);
}

static double frame(struct view *v, struct canvas *c, int layout)
{
    struct placed placed[PANEL_COUNT];
    const struct area all = { 0, 0, c->columns, c->lines - 2 };
    const double begin = clock_seconds();
    canvas_clear(c);
    const int count = layout_place(layout, PANEL_settings, all, placed);
    for (int i = 0; i < count; i++)
        panel_at(placed[i].panel)->draw(v, c, canvas_box(c, placed[i].area, "panel", false), true);
    status_draw(v, c, (struct area){ 0, c->lines - 2, c->columns, 1 });
    return clock_seconds() - begin;
}

static void bench_frames(void)
{
    static const int sizes[][2] = { { 24, 80 }, { 36, 120 }, { 60, 200 } };
    struct view *v = view_new();
    fill(v);
    printf("| screen | layout | frame, ms (mean of %d) |\n|---|---|---|\n", FRAMES);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        for (int layout = 0; layout_names[layout]; layout++) {
            struct canvas c = { 0 };
            double sum = 0;
            canvas_resize(&c, sizes[i][0], sizes[i][1]);
            frame(v, &c, layout); // wraps the conversation at this width
            for (int k = 0; k < FRAMES; k++) sum += frame(v, &c, layout);
            printf("| %dx%d | %s | %.2f |\n", sizes[i][1], sizes[i][0], layout_names[layout],
                   1000 * sum / FRAMES);
            canvas_release(&c);
        }
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
    engine_watch(e, watch);
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
    sinks_add(&sinks, (struct sink){ take_time, &decode });
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
