// core/draw/figure.c -- figures through Cairo: file formats, writing, shapes, and text (sanitised,
// measured, shortened, drawn).
#include "core/draw/figure.h"

#include <cairo/cairo-pdf.h>
#include <cairo/cairo-svg.h>
#include <fontconfig/fontconfig.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <utf8proc.h>

#include "core/base/file_out.h"
#include "core/base/mem.h"
#include "core/base/text.h"
#include "core/settings/settings.h"

enum { SIDE_MOST = 32000 }; // pixels of a PNG side; Cairo's limit is 32767
static const double size_most = 100000;

// Colours that also differ in lightness, for readers with red-green colour blindness.
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
      .help = "Colour theme of figures written to files: light or dark background." },
    { .key = "plot.font",
      .type = SETTING_TEXT,
      .def = "DejaVu Sans",
      .stale = STALE_NOTHING,
      .help = "Font of figures written to files; if it is not installed, a similar one is used." },
    { .key = "plot.scale",
      .type = SETTING_REAL,
      .min = 0.5,
      .max = 8,
      .def = "2",
      .stale = STALE_NOTHING,
      .help = "Resolution of PNG figures, in pixels per point (1/72 inch); a plot is 480 points "
              "wide." },
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

struct figure_file {
    char *path, *title;
    bool png, svg;
    struct buf bytes;
    struct buf texts; // text elements of an SVG file
};

enum { CHARACTERS = 400 };                        // maximum number of characters drawn of a text
static const char replacement[] = "\xEF\xBF\xBD"; // U+FFFD

// --- untrusted text ------------------------------------------------------------------------------

// True for characters that cannot be drawn, that XML forbids or that reorder text: controls,
// unpaired surrogates, line and paragraph separators, bidirectional controls, noncharacters.
static bool is_harmful(utf8proc_int32_t code)
{
    const utf8proc_category_t kind = utf8proc_category(code);
    return kind == UTF8PROC_CATEGORY_CC || kind == UTF8PROC_CATEGORY_CS ||
           kind == UTF8PROC_CATEGORY_ZL || kind == UTF8PROC_CATEGORY_ZP ||
           (code >= 0x202a && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069) ||
           (code & 0xfffe) == 0xfffe;
}

static void text_clean(struct buf *to, const char *text)
{
    utf8proc_ssize_t left = (utf8proc_ssize_t)strlen(text), n;
    buf_puts(to, "");
    for (int count = 0; left > 0; text += n, left -= n) {
        utf8proc_int32_t code;
        n = utf8proc_iterate((const utf8proc_uint8_t *)text, left, &code);
        if (count++ == CHARACTERS) {
            buf_puts(to, "...");
            return;
        }
        if (n <= 0) {
            n = 1;
            buf_puts(to, replacement);
        } else if (code == '\n' || code == '\t') {
            buf_putc(to, ' ');
        } else if (is_harmful(code)) {
            buf_puts(to, replacement);
        } else {
            buf_add(to, text, (size_t)n);
        }
    }
}

// --- measuring text -----------------------------------------------------------------------------

// Sets the font without hinting, so that texts have the same positions in all formats.
static void set_font(const struct figure *f)
{
    cairo_font_options_t *o = cairo_font_options_create();
    struct buf name = { 0 };
    text_clean(&name, f->look.font);
    cairo_font_options_set_hint_style(o, CAIRO_HINT_STYLE_NONE);
    cairo_font_options_set_hint_metrics(o, CAIRO_HINT_METRICS_OFF);
    cairo_font_options_set_antialias(o, CAIRO_ANTIALIAS_GRAY);
    cairo_set_font_options(f->cr, o);
    cairo_select_font_face(f->cr, name.data, CAIRO_FONT_SLANT_NORMAL, CAIRO_FONT_WEIGHT_NORMAL);
    cairo_font_options_destroy(o);
    buf_release(&name);
}

static double clean_width(const struct figure *f, double size, const char *text)
{
    cairo_text_extents_t e;
    cairo_set_font_size(f->cr, size);
    cairo_text_extents(f->cr, text, &e);
    return e.x_advance;
}

double figure_text_width(const struct figure *f, double size, const char *text)
{
    struct buf b = { 0 };
    text_clean(&b, text);
    const double width = clean_width(f, size, b.data);
    buf_release(&b);
    return width;
}

// Returns the byte offset of character `n`, or the length if the text is shorter.
static size_t byte_offset(const char *text, size_t n)
{
    size_t at = 0;
    for (; text[at]; at++)
        if (((unsigned char)text[at] & 0xc0) != 0x80 && !n--) break;
    return at;
}

// Keeps `kept` of `count` characters, half of them at each end, with "..." between the halves.
static char *shorten(const char *text, size_t count, size_t kept)
{
    const size_t head = byte_offset(text, (kept + 1) / 2),
                 tail = byte_offset(text, count - kept / 2);
    return xasprintf("%.*s...%s", (int)head, text, text + tail);
}

// Shortens the text in its middle, because names differ at their ends.
char *figure_text_fit(const struct figure *f, double size, const char *text, double width)
{
    struct buf b = { 0 };
    size_t count = 0;
    text_clean(&b, text);
    if (clean_width(f, size, b.data) <= width) return buf_take(&b);
    for (size_t i = 0; i < b.length; i++) count += ((unsigned char)b.data[i] & 0xc0) != 0x80;
    size_t low = 0, high = count; // `low` characters fit, `high` do not
    while (low + 1 < high) {
        const size_t middle = (low + high) / 2;
        char *some = shorten(b.data, count, middle);
        if (clean_width(f, size, some) <= width)
            low = middle;
        else
            high = middle;
        free(some);
    }
    char *some = shorten(b.data, count, low);
    buf_release(&b);
    return some;
}

// Returns the length in bytes of the words that fit, at least that of the first word. `text` is
// sanitised.
static size_t words_that_fit(const struct figure *f, double size, const char *text, double width)
{
    size_t fit = 0;
    for (size_t end = 0;; end++) {
        if (text[end] && text[end] != ' ') continue;
        char *some = xstrndup(text, end);
        const bool fits = clean_width(f, size, some) <= width;
        free(some);
        if (fits || !fit) fit = end;
        if (!fits || !text[end]) return fit;
    }
}

int figure_text_wrap(const struct figure *f, double size, const char *text, double width,
                     char **lines, int most, bool *whole)
{
    struct buf b = { 0 };
    int count = 0;
    bool cut = false;
    text_clean(&b, text);
    for (const char *p = b.data; *p && count < most; count++) {
        const size_t n = words_that_fit(f, size, p, width);
        char *some = xstrndup(p, count + 1 < most ? n : strlen(p));
        lines[count] = figure_text_fit(f, size, some, width);
        cut |= strcmp(lines[count], some) != 0;
        p += strlen(some);
        while (*p == ' ') p++;
        free(some);
    }
    if (whole) *whole = !cut;
    buf_release(&b);
    return count;
}

// --- drawing text -------------------------------------------------------------------------------

static void put_svg_font(struct buf *to, const struct figure *f)
{
    struct buf font = { 0 };
    text_clean(&font, f->look.font);
    for (char *p = font.data; *p; p++)
        if (strchr("'\"\\;,", *p)) *p = ' '; // these would end the font name
    buf_puts(to, "<g font-family=\"");
    text_put_xml(to, font.data);
    buf_printf(to, ", sans-serif\" fill=\"#%06x\">\n", (unsigned)f->look.theme->text);
    buf_release(&font);
}

static const double long_width = 40; // points; numbers on axes are shorter

// Also writes the width of a long text: a viewer without the font then stretches the text in its
// substitute font to that width.
static void put_svg(struct buf *b, const struct figure *f, const struct figure_text *t,
                    const char *text, double width)
{
    static const char *const anchors[] = { "start", "middle", "end" };
    buf_printf(b, "<text x=\"%.1f\" y=\"%.1f\" font-size=\"%.3g\" text-anchor=\"%s\"", t->x, t->y,
               t->size, anchors[lround(t->at * 2)]);
    if (width > long_width)
        buf_printf(b, " textLength=\"%.1f\" lengthAdjust=\"spacingAndGlyphs\"", width);
    if (t->rgb != f->look.theme->text) buf_printf(b, " fill=\"#%06x\"", (unsigned)t->rgb);
    if (t->turn != 0) buf_printf(b, " transform=\"rotate(%.3g %.1f %.1f)\"", -t->turn, t->x, t->y);
    buf_putc(b, '>');
    text_put_xml(b, text);
    buf_puts(b, "</text>\n");
}

void figure_text(struct figure *f, const struct figure_text *t)
{
    struct buf b = { 0 };
    text_clean(&b, t->text);
    const double width = clean_width(f, t->size, b.data);
    struct buf *svg = f->file->svg ? &f->file->texts : NULL;
    if (svg && b.length) {
        put_svg(svg, f, t, b.data, width);
    } else if (!svg) {
        cairo_save(f->cr);
        cairo_translate(f->cr, t->x, t->y);
        cairo_rotate(f->cr, -t->turn * M_PI / 180);
        figure_colour(f, t->rgb, 1);
        cairo_move_to(f->cr, -t->at * width, 0);
        cairo_show_text(f->cr, b.data);
        cairo_restore(f->cr);
    }
    buf_release(&b);
}

void figure_label(struct figure *f, double x, double y, double at, double turn, double size,
                  const char *text)
{
    const uint32_t rgb = f->look.theme->text;
    figure_text(f, &(struct figure_text){ x, y, size, at, turn, rgb, text });
}

bool figure_has_fonts(void)
{
    cairo_surface_t *s = cairo_image_surface_create(CAIRO_FORMAT_A8, 1, 1);
    cairo_t *cr = cairo_create(s);
    const bool any = cairo_scaled_font_get_type(cairo_get_scaled_font(cr)) != CAIRO_FONT_TYPE_USER;
    cairo_destroy(cr);
    cairo_surface_destroy(s);
    return any;
}

// True for generic names, which fontconfig maps to an installed font.
static bool is_generic(const char *font)
{
    static const char *const names[] = { "sans",      "sans-serif", "serif",   "mono",
                                         "monospace", "cursive",    "fantasy", "system-ui" };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcasecmp(font, names[i])) return true;
    return false;
}

// Looks the font up in fontconfig, as Cairo does.
char *figure_font_instead(const char *font)
{
    struct buf name = { 0 };
    FcChar8 *family = NULL;
    FcResult result;
    char *instead = NULL;
    text_clean(&name, font);
    FcPattern *pattern = FcPatternBuild(NULL, FC_FAMILY, FcTypeString, name.data, (char *)NULL);
    FcConfigSubstitute(NULL, pattern, FcMatchPattern);
    FcDefaultSubstitute(pattern);
    FcPattern *found = FcFontMatch(NULL, pattern, &result);
    bool same = !found || is_generic(name.data);
    // The font may have a name in each of several languages.
    for (int i = 0; !same && FcPatternGetString(found, FC_FAMILY, i, &family) == FcResultMatch; i++)
        same = !FcStrCmpIgnoreCase(family, (const FcChar8 *)name.data);
    if (!same && FcPatternGetString(found, FC_FAMILY, 0, &family) == FcResultMatch)
        instead = xstrdup((const char *)family);
    if (found) FcPatternDestroy(found);
    FcPatternDestroy(pattern);
    buf_release(&name);
    return instead;
}

// --- the file ------------------------------------------------------------------------------------

static cairo_status_t keep(void *self, const unsigned char *bytes, unsigned int count)
{
    buf_add(self, bytes, count);
    return CAIRO_STATUS_SUCCESS;
}

enum kind { NO_FIGURE, PNG, SVG, PDF };

// Selects PNG for pipes and terminals.
static enum kind kind_of(const char *path)
{
    static const char *const endings[] = { [PNG] = ".png", [SVG] = ".svg", [PDF] = ".pdf" };
    const size_t n = strlen(path);
    for (int kind = PNG; kind <= PDF; kind++)
        if (n > 4 && !strcasecmp(path + n - 4, endings[kind])) return (enum kind)kind;
    return file_out_special(path) ? PNG : NO_FIGURE;
}

int figure_check(const char *path, struct err *err)
{
    if (kind_of(path)) return file_out_check(path, err);
    return err_set(err, "cannot draw '%s': a figure's name must end in .png, .svg or .pdf", path);
}

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

static struct figure *open_kind(enum kind kind, const char *path, double width, double height,
                                const struct figure_look *look, struct err *err)
{
    if (!(width > 0 && height > 0 && fmax(width, height) <= size_most)) {
        err_set(err, "cannot draw '%s': a figure of %.0f x %.0f points is too large", path, width,
                height);
        return NULL;
    }
    struct figure *f = xcalloc(1, sizeof *f);
    f->look = *look;
    f->file = xcalloc(1, sizeof *f->file);
    f->file->png = kind == PNG;
    f->file->svg = kind == SVG;
    f->file->path = xstrdup(path);
    cairo_surface_t *s = NULL;
    if (kind == SVG) s = cairo_svg_surface_create_for_stream(keep, &f->file->bytes, width, height);
    if (kind == PDF) s = cairo_pdf_surface_create_for_stream(keep, &f->file->bytes, width, height);
    if (kind == PNG) {
        f->look.scale = fmin(f->look.scale, SIDE_MOST / fmax(width, height));
        const double scale = f->look.scale;
        s = cairo_image_surface_create(CAIRO_FORMAT_RGB24, (int)lround(width * scale),
                                       (int)lround(height * scale));
        cairo_surface_set_device_scale(s, scale, scale);
    }
    f->cr = cairo_create(s);
    cairo_surface_destroy(s); // the context keeps a reference to it
    set_font(f);
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
    return open_kind(PNG, "pixels", width, height, look, err);
}

void figure_name(struct figure *f, const char *title)
{
    struct buf b = { 0 };
    text_clean(&b, title);
    free(f->file->title);
    f->file->title = buf_take(&b);
    if (!f->file->png && !f->file->svg)
        cairo_pdf_surface_set_metadata(cairo_get_target(f->cr), CAIRO_PDF_METADATA_TITLE,
                                       f->file->title);
}

// Inserts the texts before </svg> as text elements, because Cairo would write their letters as
// outlines.
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
        text_put_xml(&all, file->title);
        buf_puts(&all, "</title>\n");
    }
    put_svg_font(&all, f);
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
    if (!status && file->png) status = cairo_surface_write_to_png_stream(s, keep, &file->bytes);
    cairo_surface_finish(s);
    if (!status) status = cairo_surface_status(s);
    if (!status && file->svg) add_texts(f);
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

// Returns the centre of the pixel that contains position `at`.
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
