// core/draw/figure_text.c -- text of figures: made harmless, measured, shortened, drawn.
#include <fontconfig/fontconfig.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <utf8proc.h>

#include "core/draw/figure_parts.h"

enum { CHARACTERS = 400 };                        // of a text that are drawn
static const char replacement[] = "\xEF\xBF\xBD"; // U+FFFD

// --- text of others ------------------------------------------------------------------------------

// Not to be drawn, or not allowed in XML: controls, unpaired halves, marks that turn the direction
// of what follows.
static bool is_harmful(utf8proc_int32_t code)
{
    const utf8proc_category_t kind = utf8proc_category(code);
    return kind == UTF8PROC_CATEGORY_CC || kind == UTF8PROC_CATEGORY_CS ||
           kind == UTF8PROC_CATEGORY_ZL || kind == UTF8PROC_CATEGORY_ZP ||
           (code >= 0x202a && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069) ||
           (code & 0xfffe) == 0xfffe;
}

void figure_text_clean(struct buf *to, const char *text)
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

void figure_xml(struct buf *to, const char *text)
{
    for (const char *p = text; *p; p++) {
        switch (*p) {
        case '&': buf_puts(to, "&amp;"); break;
        case '<': buf_puts(to, "&lt;"); break;
        case '>': buf_puts(to, "&gt;"); break;
        case '"': buf_puts(to, "&quot;"); break;
        case '\'': buf_puts(to, "&#39;"); break;
        default: buf_putc(to, *p);
        }
    }
}

// --- measured ------------------------------------------------------------------------------------

// Metrics without hinting: the same place in all kinds of files.
void figure_set_font(const struct figure *f)
{
    cairo_font_options_t *o = cairo_font_options_create();
    struct buf name = { 0 };
    figure_text_clean(&name, f->look.font);
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
    figure_text_clean(&b, text);
    const double width = clean_width(f, size, b.data);
    buf_release(&b);
    return width;
}

// The beginning of character `n`, or the end.
static size_t place_of(const char *text, size_t n)
{
    size_t at = 0;
    for (; text[at]; at++)
        if (((unsigned char)text[at] & 0xc0) != 0x80 && !n--) break;
    return at;
}

// The first half of `kept` characters and the last, between them "...".
static char *shorten(const char *text, size_t count, size_t kept)
{
    const size_t head = place_of(text, (kept + 1) / 2), tail = place_of(text, count - kept / 2);
    return xasprintf("%.*s...%s", (int)head, text, text + tail);
}

// Names differ at their ends as often as at their beginnings: the middle is left out.
char *figure_text_fit(const struct figure *f, double size, const char *text, double width)
{
    struct buf b = { 0 };
    size_t count = 0;
    figure_text_clean(&b, text);
    if (clean_width(f, size, b.data) <= width) return buf_take(&b);
    for (size_t i = 0; i < b.length; i++) count += ((unsigned char)b.data[i] & 0xc0) != 0x80;
    size_t low = 0, high = count; // as many fit, as many do not
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

// How many bytes of clean text fit, up to a blank; all of the first word at least.
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
    figure_text_clean(&b, text);
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

// --- drawn ---------------------------------------------------------------------------------------

void figure_svg_font(struct buf *to, const struct figure *f)
{
    struct buf font = { 0 };
    figure_text_clean(&font, f->look.font);
    for (char *p = font.data; *p; p++)
        if (strchr("'\"\\;,", *p)) *p = ' '; // they would end the name
    buf_puts(to, "<g font-family=\"");
    figure_xml(to, font.data);
    buf_printf(to, ", sans-serif\" fill=\"#%06x\">\n", (unsigned)f->look.theme->text);
    buf_release(&font);
}

static const double long_width = 40; // points: numbers are shorter

// The width of a long one is said too: a viewer without the font stretches another one to it.
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
    figure_xml(b, text);
    buf_puts(b, "</text>\n");
}

void figure_text(struct figure *f, const struct figure_text *t)
{
    struct buf b = { 0 };
    figure_text_clean(&b, t->text);
    const double width = clean_width(f, t->size, b.data);
    struct buf *svg = figure_svg_texts(f);
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

bool figure_has_fonts(void)
{
    cairo_surface_t *s = cairo_image_surface_create(CAIRO_FORMAT_A8, 1, 1);
    cairo_t *cr = cairo_create(s);
    const bool any = cairo_scaled_font_get_type(cairo_get_scaled_font(cr)) != CAIRO_FONT_TYPE_USER;
    cairo_destroy(cr);
    cairo_surface_destroy(s);
    return any;
}

// Generic names, which fontconfig maps to an installed font.
static bool is_generic(const char *font)
{
    static const char *const names[] = { "sans",      "sans-serif", "serif",   "mono",
                                         "monospace", "cursive",    "fantasy", "system-ui" };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcasecmp(font, names[i])) return true;
    return false;
}

// As Cairo chooses it.
char *figure_font_instead(const char *font)
{
    struct buf name = { 0 };
    FcChar8 *family = NULL;
    FcResult result;
    char *instead = NULL;
    figure_text_clean(&name, font);
    FcPattern *asked = FcPatternBuild(NULL, FC_FAMILY, FcTypeString, name.data, (char *)NULL);
    FcConfigSubstitute(NULL, asked, FcMatchPattern);
    FcDefaultSubstitute(asked);
    FcPattern *found = FcFontMatch(NULL, asked, &result);
    bool same = !found || is_generic(name.data); // a font has a name in each of several languages
    for (int i = 0; !same && FcPatternGetString(found, FC_FAMILY, i, &family) == FcResultMatch; i++)
        same = !FcStrCmpIgnoreCase(family, (const FcChar8 *)name.data);
    if (!same && FcPatternGetString(found, FC_FAMILY, 0, &family) == FcResultMatch)
        instead = xstrdup((const char *)family);
    if (found) FcPatternDestroy(found);
    FcPatternDestroy(asked);
    buf_release(&name);
    return instead;
}
