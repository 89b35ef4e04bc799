// tests/core/draw/figure.c -- core/draw/figure.c, plot_figure.c, heatmap.c, film.c: file formats,
// pixels at known positions, untrusted text, NaN and infinities, films.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/base/file_in.h"
#include "core/draw/film.h"
#include "core/draw/heatmap.h"
#include "core/draw/plot.h"
#include "core/draw/ramp.h"
#include "core/lists.h"
#include "core/picture/image.h"
#include "tests/core/scratch.h"

static char *folder;

static const char *path_of(const char *name)
{
    static char path[200];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static char *read_all(const char *name, size_t *size)
{
    struct err err = { 0 };
    char *bytes = file_read(path_of(name), 1 << 26, size, &err);
    if (!bytes) fail_msg("%s", err.text);
    file_in_clear(); // so that the file may be written again
    return bytes;
}

static struct image read_png(const char *name)
{
    size_t size;
    struct err err = { 0 };
    struct image image = { 0 };
    char *bytes = read_all(name, &size);
    if (image_decode_here(&image, bytes, size, name, &err) < 0) fail_msg("%s", err.text);
    free(bytes);
    return image;
}

static uint32_t pixel(const struct image *image, int x, int y)
{
    const uint8_t *p = image->pixels + ((size_t)y * (size_t)image->width + (size_t)x) * 3;
    return (uint32_t)p[0] << 16 | (uint32_t)p[1] << 8 | p[2];
}

static size_t count(const char *text, const char *what)
{
    size_t n = 0;
    for (const char *p = text; (p = strstr(p, what)); p += strlen(what)) n++;
    return n;
}

static void the_extension_selects_the_format(void **state)
{
    double x[] = { 0, 1, 2 }, y[] = { 1, 2, 4 };
    const struct plot_line line = { .name = "loss", .x = x, .y = y, .count = 3 };
    const struct figure_look look = figure_look(NULL);
    static const char *const kinds[][2] = { { "a.png", "\x89PNG" },
                                            { "a.SVG", "<?xml" },
                                            { "a.pdf", "%PDF-" } };
    struct err err = { 0 };
    for (size_t i = 0; i < 3; i++) {
        size_t size;
        assert_int_equal(plot_figure(path_of(kinds[i][0]), &look, NULL, &line, 1, &err), 0);
        char *bytes = read_all(kinds[i][0], &size);
        assert_memory_equal(bytes, kinds[i][1], strlen(kinds[i][1]));
        free(bytes);
    }
    assert_int_equal(plot_figure(path_of("a.jpg"), &look, NULL, &line, 1, &err), -1);
    assert_non_null(strstr(err.text, "a.jpg': a figure's name must end in .png, .svg or .pdf"));
    assert_int_equal(figure_check("png", &err), -1);
    assert_int_equal(figure_check("/dev/stdout", &err), 0);
    assert_int_equal(plot_figure("/no/such/folder/a.png", &look, NULL, &line, 1, &err), -1);
    assert_non_null(strstr(err.text, "/no/such/folder/a.png"));
}

// Two bars, the left one half as high as the right one.
static void bars_are_where_they_belong(void **state)
{
    static const char *const names[] = { "left", "right" };
    double x[] = { 0, 1 }, y[] = { 2, 4 };
    const struct plot_line line = { .name = "a", .x = x, .y = y, .count = 2 };
    const struct plot_axes bars = { .names = names, .name_count = 2 };
    struct figure_look look = figure_look(NULL);
    struct err err = { 0 };
    for (int scale = 1; scale <= 2; scale++) {
        look.scale = scale;
        assert_int_equal(plot_figure(path_of("bars.png"), &look, &bars, &line, 1, &err), 0);
        struct image image = read_png("bars.png");
        assert_int_equal(image.width, 480 * scale);
        assert_int_equal(image.height, 300 * scale);
        assert_int_equal(pixel(&image, 1, 1), look.theme->paper);
        int high[2] = { 0 };
        for (int side = 0; side < 2; side++) // within each bar
            for (int r = 0; r < image.height; r++)
                high[side] += pixel(&image, (side ? 360 : 140) * scale, r) == look.theme->lines[0];
        assert_in_range(high[1], 230 * scale, 250 * scale);
        assert_true(abs(high[1] - 2 * high[0]) <= 2);
        assert_int_equal(pixel(&image, 250 * scale, 270 * scale), look.theme->paper); // between
        image_release(&image);
    }
}

// Settings choose the theme, ramp and scale; a curve has its own colour on dark paper.
static void settings_say_how_it_looks(void **state)
{
    struct settings *s = settings_new();
    struct err err = { 0 };
    double x[] = { 0, 1 }, y[] = { 1, 1 };
    const struct plot_line line = { .name = "a", .x = x, .y = y, .count = 2 };
    assert_int_equal(settings_set(s, "plot.theme", "dark", &err), 0);
    assert_int_equal(settings_set(s, "screen.map", "cividis", &err), 0);
    assert_int_equal(settings_set(s, "plot.scale", "3", &err), 0);
    const struct figure_look look = figure_look(s);
    assert_string_equal(look.theme->name, "dark");
    assert_int_equal(plot_figure(path_of("dark.png"), &look, NULL, &line, 1, &err), 0);
    struct image image = read_png("dark.png");
    assert_int_equal(image.width, 480 * 3);
    assert_int_equal(pixel(&image, 0, 0), look.theme->paper);
    int found = 0;
    for (int r = 0; r < image.height; r++) found += pixel(&image, 720, r) == look.theme->lines[0];
    assert_in_range(found, 2, 5); // 1.4 points
    image_release(&image);
    const float values[] = { 0, 1 };
    const struct event_heatmap map = { .name = "m",
                                       .rows = 1,
                                       .cols = 2,
                                       .values = values,
                                       .max = 1,
                                       .picture = 0,
                                       .unit = "cosine" };
    assert_int_equal(heatmap_figure(path_of("map.png"), &look, &map, 1, &err), 0);
    image = read_png("map.png");
    int low = 0, high = 0;
    for (int r = 0; r < image.height; r++) {
        low += pixel(&image, 120, r) == ramp_colour("cividis", 0);
        high += pixel(&image, 420, r) == ramp_colour("cividis", 1);
    }
    assert_in_range(low, 239, 241); // cells of 80 x 80 points
    assert_in_range(high, 239, 241);
    image_release(&image);
    settings_free(s);
}

// Markup stays text; control characters, broken UTF-8 and direction marks become U+FFFD.
static void untrusted_text_stays_text(void **state)
{
    static const char name[] = "a<b>&\"'\x1b[31m\x01\xff]]>\xE2\x80\xAE\xEF\xBF\xBF -->";
    double x[] = { 0, 1 }, y[] = { 0, 1 };
    const struct plot_line line = { .name = name, .x = x, .y = y, .count = 2 };
    const struct plot_axes axes = { .title = "</title><script>x</script>", .x = "x\ny", .y = name };
    struct figure_look look = figure_look(NULL);
    struct err err = { 0 };
    size_t size;
    look.font = "Sans\", x' onload='y";
    assert_int_equal(plot_figure(path_of("h.svg"), &look, &axes, &line, 1, &err), 0);
    char *svg = read_all("h.svg", &size);
    assert_int_equal(count(svg, "a&lt;b&gt;&amp;&quot;&#39;\xEF\xBF\xBD[31m\xEF\xBF\xBD\xEF\xBF\xBD"
                                "]]&gt;\xEF\xBF\xBD\xEF\xBF\xBD --&gt;</text>"),
                     2); // legend and axis
    assert_non_null(strstr(svg, "<title>&lt;/title&gt;&lt;script&gt;x"));
    assert_null(strstr(svg, "<script"));
    assert_non_null(strstr(svg, ">x y</text>"));
    assert_null(strstr(svg, "onload='"));
    for (size_t i = 0; i < size; i++)
        // No control characters except newlines: XML forbids most of them.
        assert_true((unsigned char)svg[i] >= 0x20 || svg[i] == '\n');
    free(svg);
    assert_int_equal(plot_figure(path_of("h.png"), &look, &axes, &line, 1, &err), 0);
    assert_int_equal(plot_figure(path_of("h.pdf"), &look, &axes, &line, 1, &err), 0);
}

// One mark for each finite point; a line of many points becomes a band.
static void each_point_is_drawn_once(void **state)
{
    enum { MANY = 5000 };
    double x[] = { 0, 1, 2, 3, NAN }, y[] = { 1, NAN, INFINITY, 4, 5 };
    double *many = xcalloc(2 * MANY, sizeof *many);
    for (int i = 0; i < MANY; i++) many[i] = i, many[MANY + i] = sin(i);
    const struct plot_line line = { .name = "a", .x = x, .y = y, .count = 5, .points = true };
    const struct plot_line crowd = { .name = "b", .x = many, .y = many + MANY, .count = MANY };
    const struct plot_line lines[] = { line, crowd };
    const struct figure_look look = figure_look(NULL);
    struct err err = { 0 };
    size_t size;
    assert_int_equal(plot_figure(path_of("p.svg"), &look, NULL, &line, 1, &err), 0);
    char *svg = read_all("p.svg", &size);
    // The legend's mark is a separate path; the two points are one path, with one "L" per disc.
    char *last = strstr(svg, "d=\""), *next;
    while ((next = strstr(last + 1, "d=\""))) last = next;
    *strchr(last + 3, '"') = '\0';
    assert_int_equal(count(last, "L"), 2);
    free(svg);
    assert_int_equal(plot_figure(path_of("p.svg"), &look, NULL, lines, 2, &err), 0);
    svg = read_all("p.svg", &size);
    assert_true(size < 40000); // 5000 points would take more
    assert_int_equal(count(svg, ">b</text>"), 1);
    free(svg);
    free(many);
}

static void odd_numbers_do_no_harm(void **state)
{
    const struct event_heatmap wide = { .picture = -1, .rows = 8, .cols = 171 };
    assert_int_equal(heatmap_height(&wide, 100), 40); // not flattened to a line
    static const char *const names[] = { "", "a rather long name of a bar", "b" };
    double x[] = { 0, 1, 2 }, y[] = { 1e308, -1e308, NAN }, none[] = { NAN, NAN, NAN };
    double far[] = { -1e300, 1e-300, 1e300 }, low[] = { -INFINITY, -1e308, 0 },
           high[] = { INFINITY, 1e308, 1 };
    const struct plot_line lines[] = {
        { .name = "wild", .x = x, .y = y, .low = low, .high = high, .count = 3 },
        { .name = "none", .x = x, .y = none, .count = 3 },
        { .name = "", .x = x, .y = y, .count = 0 },
        { .name = "far", .x = far, .y = far, .count = 3 },
    };
    const struct figure_look look = figure_look(NULL);
    struct err err = { 0 };
    for (size_t i = 0; i < 4; i++)
        for (int kind = 0; kind < 6; kind++) {
            const struct plot_axes axes = { .names = kind % 2 ? names : NULL,
                                            .name_count = 3,
                                            .log_y = kind >= 2,
                                            .log_x = kind >= 4 };
            if (plot_figure(path_of("odd.png"), &look, &axes, &lines[i], 1, &err) < 0)
                fail_msg("line %zu, kind %d: %s", i, kind, err.text);
        }
    const float values[] = { NAN, INFINITY, 1e38f, -1e38f };
    const struct event_heatmap map = {
        .name = "m", .rows = 2, .cols = 2, .values = values, .min = -1e38f, .max = 1e38f
    };
    assert_int_equal(heatmap_figure(path_of("odd.svg"), &look, &map, 1, &err), 0);
    assert_int_equal(heatmap_figure(path_of("odd.svg"), &look, &map, 0, &err), 0);
}

// More maps than a PNG with four maps per row can hold.
static void many_maps_are_arranged_in_a_square(void **state)
{
    enum { MAPS = 400 };
    static const float value = 1;
    static struct event_heatmap maps[MAPS];
    struct figure_look look = figure_look(NULL);
    struct err err = { 0 };
    look.scale = 1;
    for (int i = 0; i < MAPS; i++)
        maps[i] = (struct event_heatmap){ .name = "m",
                                          .layer = i,
                                          .rows = 1,
                                          .cols = 1,
                                          .values = &value,
                                          .max = 1,
                                          .picture = 0,
                                          .unit = "cosine" };
    assert_int_equal(heatmap_figure(path_of("maps.png"), &look, maps, MAPS, &err), 0);
    struct image image = read_png("maps.png");
    assert_in_range(image.width, 20 * 160, 20 * 190);
    assert_in_range(image.height, 20 * 160, 20 * 250);
    image_release(&image);
}

// --- films (core/draw/film.c) --------------------------------------------------------------------

enum { SIDE = 10, CELLS = SIDE * SIDE };

static struct event_heatmap map_of(const float *values)
{
    return (struct event_heatmap){
        .name = "m", .rows = SIDE, .cols = SIDE, .values = values, .picture = 0
    };
}

// Writes a film of two words with one map for each; first, second: which words; cell: text written
// in the maps.
static void write_film(const char *name, size_t first, size_t second, const char *cell)
{
    static char *words[] = { "one", " two", " three" };
    const struct figure_look look = figure_look(NULL);
    struct film f = { .look = &look, .words = words, .count = 3 };
    struct err err = { 0 };
    float few[CELLS], large[CELLS];
    for (int i = 0; i < CELLS; i++) few[i] = large[i] = (float)i / CELLS;
    large[7] = 50;
    const char *cells[CELLS] = { [SIDE + 1] = cell };
    struct event_heatmap maps[] = { map_of(few), map_of(large) };
    if (cell) maps[0].words = maps[1].words = cells;
    assert_int_equal(film_open(&f, path_of(name), &err), 0);
    assert_int_equal(film_add(&f, first, &maps[0], 1, &err), 0);
    assert_int_equal(film_add(&f, second, &maps[1], 1, &err), 0);
    for (size_t i = 0; i < 2; i++) assert_int_equal(film_draw(&f, i, &err), 0);
    for (size_t i = 0; i < 2; i++) { // a common scale that ends below the largest value
        assert_true(f.cut);
        assert_true(f.frames[i].maps[0].min == 0);
        assert_true(f.frames[i].maps[0].max > 0.95F && f.frames[i].maps[0].max < 1);
    }
    assert_int_equal(film_close(&f, &err), 0);
    film_release(&f);
}

// Each frame marks its word; texts of cells are drawn over the maps.
static void films_mark_the_word_of_each_frame(void **state)
{
    static const char *const names[] = { "a.gif", "b.gif", "c.gif", "d.gif" };
    size_t sizes[4];
    char *bytes[4];
    write_film("a.gif", 0, 1, NULL);
    write_film("b.gif", 0, 2, NULL);
    write_film("c.gif", 0, 1, NULL);
    write_film("d.gif", 0, 1, "cat");
    for (int i = 0; i < 4; i++) bytes[i] = read_all(names[i], &sizes[i]);
    assert_int_equal(sizes[0], sizes[2]);
    assert_memory_equal(bytes[0], bytes[2], sizes[0]);
    for (int i = 1; i < 4; i += 2)
        assert_true(sizes[0] != sizes[i] || memcmp(bytes[0], bytes[i], sizes[0]) != 0);
    for (int i = 0; i < 4; i++) free(bytes[i]);
}

static void bad_films_are_refused_before_the_work(void **state)
{
    enum { MAPS = 65 };
    static float values[CELLS];
    struct event_heatmap maps[MAPS];
    char *words[] = { "one" };
    const struct figure_look look = figure_look(NULL);
    struct err err = { 0 };
    struct film f = { .look = &look, .words = words, .count = 1 };
    for (int i = 0; i < MAPS; i++) maps[i] = map_of(values);
    assert_int_equal(film_open(&f, "/no/such/folder/a.gif", &err), -1);
    film_release(&f);
    f = (struct film){ .look = &look, .words = words, .count = 1 };
    assert_int_equal(film_open(&f, path_of("many.gif"), &err), 0);
    assert_int_equal(film_add(&f, 0, maps, MAPS, &err), -1);
    assert_non_null(strstr(err.text, "--layer"));
    film_release(&f);
    assert_int_equal(access(path_of("many.gif"), F_OK), -1);
    // One map fewer fits.
    f = (struct film){ .look = &look, .words = words, .count = 1 };
    assert_int_equal(film_open(&f, path_of("many.gif"), &err), 0);
    assert_int_equal(film_add(&f, 0, maps, MAPS - 1, &err), 0);
    film_release(&f);
}

int main(void)
{
    folder = scratch_new();
    lists_register();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_extension_selects_the_format),
        cmocka_unit_test(bars_are_where_they_belong),
        cmocka_unit_test(settings_say_how_it_looks),
        cmocka_unit_test(untrusted_text_stays_text),
        cmocka_unit_test(each_point_is_drawn_once),
        cmocka_unit_test(odd_numbers_do_no_harm),
        cmocka_unit_test(many_maps_are_arranged_in_a_square),
        cmocka_unit_test(films_mark_the_word_of_each_frame),
        cmocka_unit_test(bad_films_are_refused_before_the_work),
    };
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    scratch_remove(folder);
    return failed;
}
