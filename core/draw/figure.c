// core/draw/figure.c -- figures through Cairo: opening by the file's ending, shapes, writing.
// Text: core/draw/figure_text.c.
#include "core/draw/figure.h"

#include <cairo/cairo-pdf.h>
#include <cairo/cairo-svg.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "core/base/file_out.h"
#include "core/base/mem.h"
#include "core/draw/figure_parts.h"
#include "core/settings/settings.h"

enum { SIDE_MOST = 32000 }; // pixels of a PNG: Cairo takes 32767
static const double size_most = 100000;

// Colours that differ in lightness too, also for readers who confuse red and green.
static const struct figure_theme themes[] = {
    { "light",
      0xffffff,
      0x1a1a1a,
      0x444444,
      0xe4e4e4,
      { 0x2b66b0, 0xd95f02, 0x2a8a45, 0xb3327f, 0x2aa6c4, 0xa88a00, 0x5c4033, 0x7d7d7d } },
    { "dark",
      0x16181d,
      0xe6e6e6,
      0xb0b0b0,
      0x33373f,
      { 0x6cabf0, 0xff9a52, 0x6dce85, 0xee84bf, 0x6fd8ee, 0xe2cd5e, 0xcfa98c, 0xa8a8a8 } },
};
static const char *const theme_words[] = { "light", "dark", NULL };

const struct setting plot_settings[] = {
    { .key = "plot.theme",
      .type = SETTING_CHOICE,
      .def = "light",
      .choices = theme_words,
      .stale = STALE_NOTHING,
      .help = "Colours of figures written to files: on white, or on near black." },
    { .key = "plot.font",
      .type = SETTING_TEXT,
      .def = "DejaVu Sans",
      .stale = STALE_NOTHING,
      .help =
          "Font of figures written to files; a similar one replaces one that is not installed." },
    { .key = "plot.scale",
      .type = SETTING_REAL,
      .min = 0.5,
      .max = 8,
      .def = "2",
      .stale = STALE_NOTHING,
      .help = "Pixels of a PNG figure for each point (1/72 inch); a plot is 480 points wide." },
    { 0 },
};

struct figure_look figure_look(const struct settings *settings)
{
    struct figure_look look = { &themes[0], "DejaVu Sans", "viridis", 2 };
    if (!settings) return look;
    if (!strcmp(settings_text(settings, "plot.theme"), themes[1].name)) look.theme = &themes[1];
    look.font = settings_text(settings, "plot.font");
    look.ramp = settings_text(settings, "screen.map");
    look.scale = settings_real(settings, "plot.scale");
    return look;
}

// --- the file ------------------------------------------------------------------------------------

static cairo_status_t keep(void *self, const unsigned char *bytes, unsigned int count)
{
    buf_add(self, bytes, count);
    return CAIRO_STATUS_SUCCESS;
}

static cairo_surface_t *open_png(struct buf *bytes, double width, double height, double *scale)
{
    *scale = fmin(*scale, SIDE_MOST / fmax(width, height));
    cairo_surface_t *s = cairo_image_surface_create(CAIRO_FORMAT_RGB24, (int)lround(width * *scale),
                                                    (int)lround(height * *scale));
    cairo_surface_set_device_scale(s, *scale, *scale);
    return s;
}

static cairo_surface_t *open_svg(struct buf *bytes, double width, double height, double *scale)
{
    return cairo_svg_surface_create_for_stream(keep, bytes, width, height);
}

static cairo_surface_t *open_pdf(struct buf *bytes, double width, double height, double *scale)
{
    return cairo_pdf_surface_create_for_stream(keep, bytes, width, height);
}

static const struct kind {
    const char *ending;
    cairo_surface_t *(*open)(struct buf *bytes, double width, double height, double *scale);
    bool png, svg, pdf;
} kinds[] = {
    { ".png", open_png, .png = true },
    { ".svg", open_svg, .svg = true },
    { ".pdf", open_pdf, .pdf = true },
};

// A pipe or a terminal gets a PNG.
static const struct kind *kind_of(const char *path)
{
    const size_t n = strlen(path);
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (n > 4 && !strcasecmp(path + n - 4, kinds[i].ending)) return &kinds[i];
    return file_out_special(path) ? &kinds[0] : NULL;
}

int figure_check(const char *path, struct err *err)
{
    if (kind_of(path)) return file_out_check(path, err);
    return err_set(err, "cannot draw '%s': the name of a figure ends in .png, .svg or .pdf", path);
}

struct figure_file {
    const struct kind *kind;
    char *path, *title;
    struct buf bytes;
    struct buf texts; // of an SVG
};

static void release(struct figure *f)
{
    cairo_destroy(f->cr);
    buf_release(&f->file->bytes);
    buf_release(&f->file->texts);
    free(f->file->path);
    free(f->file->title);
    free(f->file);
    free(f);
}

static struct figure *open_kind(const struct kind *kind, const char *path, double width,
                                double height, const struct figure_look *look, struct err *err)
{
    if (!(width > 0 && height > 0 && fmax(width, height) <= size_most)) {
        err_set(err, "cannot draw '%s': %.0f x %.0f points are too many", path, width, height);
        return NULL;
    }
    struct figure *f = xcalloc(1, sizeof *f);
    f->look = *look;
    f->file = xcalloc(1, sizeof *f->file);
    f->file->kind = kind;
    f->file->path = xstrdup(path);
    cairo_surface_t *s = f->file->kind->open(&f->file->bytes, width, height, &f->look.scale);
    f->cr = cairo_create(s);
    cairo_surface_destroy(s); // the context holds it
    figure_set_font(f);
    figure_colour(f, look->theme->paper, 1);
    cairo_paint(f->cr);
    return f;
}

struct figure *figure_open(const char *path, double width, double height,
                           const struct figure_look *look, struct err *err)
{
    if (figure_check(path, err) < 0) return NULL;
    return open_kind(kind_of(path), path, width, height, look, err);
}

struct figure *figure_open_pixels(double width, double height, const struct figure_look *look,
                                  struct err *err)
{
    return open_kind(&kinds[0], "pixels", width, height, look, err);
}

void figure_name(struct figure *f, const char *title)
{
    struct buf b = { 0 };
    figure_text_clean(&b, title);
    free(f->file->title);
    f->file->title = buf_take(&b);
    if (f->file->kind->pdf)
        cairo_pdf_surface_set_metadata(cairo_get_target(f->cr), CAIRO_PDF_METADATA_TITLE,
                                       f->file->title);
}

struct buf *figure_svg_texts(struct figure *f)
{
    return f->file->kind->svg ? &f->file->texts : NULL;
}

// Cairo writes letters of an SVG as outlines. Ours are text, behind the drawing.
static void add_texts(const struct figure *f)
{
    struct figure_file *file = f->file;
    static const char end[] = "</svg>";
    struct buf all = { 0 };
    size_t at = file->bytes.length;
    while (at > 0 && (at + sizeof end - 1 > file->bytes.length ||
                      memcmp(file->bytes.data + at, end, sizeof end - 1) != 0))
        at--;
    if (!at) return;
    buf_add(&all, file->bytes.data, at);
    if (file->title) {
        buf_puts(&all, "<title>");
        figure_xml(&all, file->title);
        buf_puts(&all, "</title>\n");
    }
    figure_svg_font(&all, f);
    buf_add(&all, file->texts.data, file->texts.length);
    buf_puts(&all, "</g>\n");
    buf_add(&all, file->bytes.data + at, file->bytes.length - at);
    buf_release(&file->bytes);
    file->bytes = all;
}

int figure_close(struct figure *f, struct err *err)
{
    struct figure_file *file = f->file;
    cairo_surface_t *s = cairo_get_target(f->cr);
    cairo_status_t status = cairo_status(f->cr);
    if (!status && file->kind->png)
        status = cairo_surface_write_to_png_stream(s, keep, &file->bytes);
    cairo_surface_finish(s);
    if (!status) status = cairo_surface_status(s);
    if (!status && file->kind->svg) add_texts(f);
    const int done =
        status ? err_set(err, "cannot draw '%s': %s", file->path, cairo_status_to_string(status))
               : file_out_write(file->path, file->bytes.data, file->bytes.length, err);
    release(f);
    return done;
}

int figure_close_pixels(struct figure *f, uint8_t **pixels, int *width, int *height,
                        struct err *err)
{
    cairo_surface_t *s = cairo_get_target(f->cr);
    const cairo_status_t status = cairo_status(f->cr);
    cairo_surface_flush(s);
    const unsigned char *from = cairo_image_surface_get_data(s);
    const size_t stride = (size_t)cairo_image_surface_get_stride(s);
    if (status || !from) {
        release(f);
        return err_set(err, "cannot draw: %s",
                       cairo_status_to_string(status ? status : CAIRO_STATUS_NO_MEMORY));
    }
    *width = cairo_image_surface_get_width(s);
    *height = cairo_image_surface_get_height(s);
    uint8_t *to = *pixels = malloc((size_t)*width * (size_t)*height * 3);
    if (!to) {
        release(f);
        return err_set(err, "cannot draw: no memory for %d x %d pixels", *width, *height);
    }
    for (int y = 0; y < *height; y++)
        for (int x = 0; x < *width; x++, to += 3) {
            uint32_t rgb;
            memcpy(&rgb, from + (size_t)y * stride + (size_t)x * 4, 4);
            to[0] = rgb >> 16 & 255;
            to[1] = rgb >> 8 & 255;
            to[2] = rgb & 255;
        }
    release(f);
    return 0;
}

// --- shapes --------------------------------------------------------------------------------------

void figure_colour(const struct figure *f, uint32_t rgb, double alpha)
{
    cairo_set_source_rgba(f->cr, (rgb >> 16 & 255) / 255.0, (rgb >> 8 & 255) / 255.0,
                          (rgb & 255) / 255.0, alpha);
}

// The middle of a pixel near to it.
static double crisp(const struct figure *f, double at)
{
    return (floor(at * f->look.scale) + 0.5) / f->look.scale;
}

void figure_line(const struct figure *f, double x0, double y0, double x1, double y1)
{
    if (x0 == x1) x0 = x1 = crisp(f, x0);
    if (y0 == y1) y0 = y1 = crisp(f, y0);
    cairo_move_to(f->cr, x0, y0);
    cairo_line_to(f->cr, x1, y1);
}

void figure_pixels(const struct figure *f, const uint8_t *pixels, int width, int height, double x,
                   double y, double over, double down)
{
    cairo_surface_t *s = cairo_image_surface_create(CAIRO_FORMAT_RGB24, width, height);
    unsigned char *to = cairo_image_surface_get_data(s);
    const int stride = cairo_image_surface_get_stride(s);
    cairo_surface_flush(s);
    for (int r = 0; to && r < height; r++)
        for (int c = 0; c < width; c++) {
            const uint8_t *p = pixels + ((size_t)r * (size_t)width + (size_t)c) * 3;
            const uint32_t rgb = (uint32_t)p[0] << 16 | (uint32_t)p[1] << 8 | p[2];
            memcpy(to + (size_t)r * (size_t)stride + (size_t)c * 4, &rgb, 4);
        }
    cairo_surface_mark_dirty(s);
    cairo_save(f->cr);
    cairo_translate(f->cr, x, y);
    cairo_scale(f->cr, over / width, down / height);
    cairo_set_source_surface(f->cr, s, 0, 0);
    cairo_pattern_set_filter(cairo_get_source(f->cr), CAIRO_FILTER_NEAREST);
    cairo_rectangle(f->cr, 0, 0, width, height);
    cairo_fill(f->cr);
    cairo_restore(f->cr);
    cairo_surface_destroy(s);
}
