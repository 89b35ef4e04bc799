// core/draw/plot_figure.c -- curves and bars as a figure.
//
//      title
//      legend, in as many rows as it takes
//   y  +---------------------------+
//      |  few points of a line are marked, very many are drawn as means in a band
//      +---------------------------+
//                   x
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/draw/plot_parts.h"

enum {
    MARKED = 60, // a line with at most this many points has marks
    BINS = 240,  // bins of a line with very many points
    TITLE_LINES = 3,
    TICKS_X = 9,
    TICKS_Y = 8
};

// In points.
static const double width = 480, height = 300, edge = 10, size = 9, line = 13, title_size = 11;
static const double slant = 30; // degrees; for bar names that are too long to be horizontal

struct sheet {
    struct figure *f;
    struct plot_frame frame;
    double left, right, top, bottom; // of the frame
};

static const struct figure_theme *theme_of(const struct sheet *s)
{
    return s->f->look.theme;
}

// Rounds to an eighth of a point (a quarter of a PNG's pixel at the default scale): saves digits in
// a file.
static double snapped(double at)
{
    return round(at * 8) / 8;
}

// Positions on the sheet.
static double sheet_x(const struct sheet *s, double x)
{
    const struct plot_frame *f = &s->frame;
    return snapped(s->left + plot_share(x, f->x0, f->x1) * (s->right - s->left));
}

static double sheet_y(const struct sheet *s, double y)
{
    const struct plot_frame *f = &s->frame;
    return snapped(s->bottom - plot_share(y, f->y0, f->y1) * (s->bottom - s->top));
}

static void stroke(const struct sheet *s, double thick, uint32_t rgb)
{
    figure_colour(s->f, rgb, 1);
    cairo_set_line_width(s->f->cr, thick);
    cairo_stroke(s->f->cr);
}

// --- marks ---------------------------------------------------------------------------------------

// Adds a mark to the path that marks_draw draws. The first six lines have different marks, so that
// they differ without colours.
static void mark(const struct sheet *s, double x, double y, size_t l, double half)
{
    static const double square[][2] = { { -.9, -.9 }, { .9, -.9 }, { .9, .9 }, { -.9, .9 } };
    static const double up[][2] = { { 0, -1.1 }, { 1.1, .9 }, { -1.1, .9 } };
    static const double diamond[][2] = { { 0, -1.25 }, { 1.25, 0 }, { 0, 1.25 }, { -1.25, 0 } };
    static const double down[][2] = { { 0, 1.1 }, { 1.1, -.9 }, { -1.1, -.9 } };
    static const double cross[][2] = { { -1, -.5 }, { -.5, -1 }, { 0, -.5 }, { .5, -1 },
                                       { 1, -.5 },  { .5, 0 },   { 1, .5 },  { .5, 1 },
                                       { 0, .5 },   { -.5, 1 },  { -1, .5 }, { -.5, 0 } };
    static const double disc[][2] = { { 0, 0 } };
    static const struct {
        const double (*at)[2];
        int n;
    } shapes[] = {
        { disc, 1 }, { square, 4 }, { up, 3 }, { diamond, 4 }, { cross, 12 }, { down, 3 }
    };
    const size_t i = l % (sizeof shapes / sizeof shapes[0]);
    const double(*at)[2] = shapes[i].at;
    const int n = shapes[i].n;
    for (int k = 0; k < (n > 1 ? n : 2); k++) // a disc: a line of zero length
        (k ? cairo_line_to : cairo_move_to)(s->f->cr, snapped(x + at[k % n][0] * half),
                                            snapped(y + at[k % n][1] * half));
    if (n > 1) cairo_close_path(s->f->cr);
}

// Draws discs as points with a round pen.
static void marks_draw(const struct sheet *s, size_t l, double half, double alpha)
{
    cairo_t *cr = s->f->cr;
    figure_colour(s->f, theme_of(s)->lines[l], alpha);
    if (l % 6 != 0) {
        cairo_fill(cr);
        return;
    }
    cairo_set_line_cap(cr, CAIRO_LINE_CAP_ROUND);
    cairo_set_line_width(cr, 2 * half);
    cairo_stroke(cr);
    cairo_set_line_cap(cr, CAIRO_LINE_CAP_BUTT);
}

// --- around the frame ----------------------------------------------------------------------------

// Writes the legend with its first baseline at y. Returns the number of rows.
static int legend(const struct sheet *s, const struct plot_line *lines, size_t count, bool bars,
                  double y)
{
    const double key = 14, most = s->right - s->left - key;
    double x = s->left;
    int rows = count > 0;
    for (size_t l = 0; l < count; l++) {
        char *name = figure_text_fit(s->f, size, lines[l].name, most);
        const double wide = key + figure_text_width(s->f, size, name);
        if (x > s->left && x + wide > s->right) {
            x = s->left;
            y += line;
            rows++;
        }
        figure_colour(s->f, theme_of(s)->lines[l], 1);
        if (bars) {
            cairo_rectangle(s->f->cr, x, y - 7, 8, 7);
            cairo_fill(s->f->cr);
        } else {
            mark(s, x + 4, y - 3.2, l, 3.2);
            marks_draw(s, l, 3.2, 1);
        }
        figure_label(s->f, x + key, y, 0, 0, size, name);
        x += wide + 14;
        free(name);
    }
    return rows;
}

static void draw_x_axis(const struct sheet *s)
{
    const struct plot_frame *f = &s->frame;
    double end = 0;
    for (int i = 0; i < f->x_count; i++) {
        char *text = plot_number(f->x_format, f->x_ticks[i]);
        const double x = sheet_x(s, plot_at(f->log_x, f->x_ticks[i]));
        const double half = figure_text_width(s->f, size, text) / 2;
        figure_line(s->f, x, s->top, x, s->bottom);
        if (x - half > end && x + half < width) {
            figure_label(s->f, x, s->bottom + line, 0.5, 0, size, text);
            end = x + half + 4;
        }
        free(text);
    }
    stroke(s, 0.5, theme_of(s)->grid);
}

enum { NAME_LINES = 3 };
static const double name_most = 130; // maximum width of a slanted name, in points

// Breaks a bar's name into lines; 0 if it does not fit.
static int name_lines(const struct sheet *s, const char *name, double space, char **lines)
{
    bool whole;
    const int count = figure_text_wrap(s->f, size, name, space, lines, NAME_LINES, &whole);
    for (int i = 0; i < count && !whole; i++) free(lines[i]);
    return whole ? count : 0;
}

// Returns the maximum number of lines of a bar's name; 0 if a name does not fit, so that all are
// slanted.
static int names_lines(const struct sheet *s, const struct plot_axes *axes, double frame)
{
    const double space = frame / (double)axes->name_count - 4;
    int most = 1;
    for (size_t i = 0; i < axes->name_count; i++) {
        char *lines[NAME_LINES];
        const int count = name_lines(s, axes->names[i], space, lines);
        for (int k = 0; k < count; k++) free(lines[k]);
        if (!count && *axes->names[i]) return 0;
        if (count > most) most = count;
    }
    return most;
}

static void draw_slanted(const struct sheet *s, double x, const char *text)
{
    char *name = figure_text_fit(s->f, size, text, name_most);
    figure_label(s->f, x + 4, s->bottom + line - 2, 1, slant, size, name);
    free(name);
}

static void draw_names(const struct sheet *s, const struct plot_axes *axes)
{
    const double frame = s->right - s->left, each = frame / (double)axes->name_count;
    const bool fit = names_lines(s, axes, frame) > 0;
    // Writes only every n-th name if there are too many.
    const size_t every = fit ? 1 : (size_t)ceil(fmax(size * 2.2 / each, 1));
    for (size_t i = 0; i < axes->name_count; i += every) {
        char *lines[NAME_LINES];
        const double x = sheet_x(s, (double)i);
        const int count = fit ? name_lines(s, axes->names[i], each - 4, lines) : 0;
        for (int k = 0; k < count; k++) {
            figure_label(s->f, x, s->bottom + (k + 1) * line, 0.5, 0, size, lines[k]);
            free(lines[k]);
        }
        if (!fit) draw_slanted(s, x, axes->names[i]);
    }
}

static void draw_y_axis(const struct sheet *s)
{
    const struct plot_frame *f = &s->frame;
    for (int i = 0; i < f->y_count; i++) {
        char *text = plot_number(f->y_format, f->y_ticks[i]);
        const double y = sheet_y(s, plot_at(f->log_y, f->y_ticks[i]));
        figure_line(s->f, s->left, y, s->right, y);
        figure_label(s->f, s->left - 5, y + size * 0.36, 1, 0, size, text);
        free(text);
    }
    stroke(s, 0.5, theme_of(s)->grid);
}

static void draw_frame(const struct sheet *s, const struct plot_axes *axes)
{
    draw_y_axis(s);
    if (axes->names)
        draw_names(s, axes);
    else
        draw_x_axis(s);
    figure_line(s->f, s->left, s->top, s->left, s->bottom);
    figure_line(s->f, s->left, s->bottom, s->right, s->bottom);
    // If bars have both signs, draws their base line.
    if (axes->names && !s->frame.log_y && s->frame.y0 < 0)
        figure_line(s->f, s->left, sheet_y(s, 0), s->right, sheet_y(s, 0));
    stroke(s, 0.8, theme_of(s)->axis);
    if (axes->x) {
        char *text = figure_text_fit(s->f, size, axes->x, s->right - s->left);
        figure_label(s->f, (s->left + s->right) / 2, height - edge, 0.5, 0, size, text);
        free(text);
    }
    if (axes->y) {
        char *text = figure_text_fit(s->f, size, axes->y, height - 2 * edge);
        const double half = figure_text_width(s->f, size, text) / 2;
        // Centres the label on the frame, but keeps a long label on the sheet.
        const double y = fmin((s->bottom + s->top) / 2, height - edge - half);
        figure_label(s->f, edge + size, fmax(y, edge + half), 0.5, 90, size, text);
        free(text);
    }
}

// --- inside the frame ---------------------------------------------------------------------------

// Adds an interval to the path: from low to high at x, with a cap at both ends.
static void add_interval(const struct sheet *s, const struct plot_line *of, size_t i, double x)
{
    double low, high;
    if (!plot_interval(&s->frame, of, i, &low, &high)) return;
    const double top = sheet_y(s, high), bottom = sheet_y(s, low);
    cairo_t *cr = s->f->cr;
    cairo_move_to(cr, x, top);
    cairo_line_to(cr, x, bottom);
    cairo_move_to(cr, x - 2, top);
    cairo_line_to(cr, x + 2, top);
    cairo_move_to(cr, x - 2, bottom);
    cairo_line_to(cr, x + 2, bottom);
}

// Computes the position of point i. Returns false if it has none.
static bool position_of(const struct sheet *s, const struct plot_line *of, size_t i, double *x,
                        double *y)
{
    const double at_x = plot_at(s->frame.log_x, of->x[i]), at_y = plot_at(s->frame.log_y, of->y[i]);
    *x = sheet_x(s, at_x);
    *y = sheet_y(s, at_y);
    return isfinite(at_x) && isfinite(at_y);
}

// Draws line `l` of `count`. Dashes reveal a line below another.
static void draw_line(const struct sheet *s, const struct plot_line *of, size_t l, size_t count)
{
    static const double dash[] = { 7, 3 };
    const uint32_t rgb = theme_of(s)->lines[l];
    const bool marked = of->points || of->count <= MARKED;
    cairo_t *cr = s->f->cr;
    double x, y;
    bool pen = false;
    for (size_t i = 0; i < of->count && !of->points; i++) {
        const bool there = position_of(s, of, i, &x, &y);
        if (there) (pen ? cairo_line_to : cairo_move_to)(cr, x, y);
        pen = there;
    }
    cairo_set_dash(cr, dash, l && marked ? 2 : 0, 0);
    stroke(s, 1.4, rgb);
    cairo_set_dash(cr, dash, 0, 0);
    // Places the intervals of several lines side by side.
    const double aside = 2.5 * ((double)l - (double)(count - 1) / 2);
    for (size_t i = 0; i < of->count; i++)
        if (position_of(s, of, i, &x, &y)) add_interval(s, of, i, x + aside);
    stroke(s, 0.9, rgb);
    // Earlier lines have larger marks, which stay visible behind later ones.
    const double half = of->points ? 2.2 : fmin(2.2 + 0.5 * (double)(count - 1 - l), 3.7);
    for (size_t i = 0; i < of->count && marked; i++)
        if (position_of(s, of, i, &x, &y)) mark(s, x, y, l, half);
    marks_draw(s, l, half, of->points ? 0.7 : 1);
}

// Fills the range of each bin in a transparent colour, so that other lines show through. A gap ends
// the band.
static void draw_band(const struct sheet *s, const struct plot_bins *b, uint32_t rgb)
{
    const struct plot_frame *f = &s->frame;
    size_t end;
    figure_colour(s->f, rgb, 0.22);
    for (size_t i = 0; i < b->count; i = end + 1) {
        for (end = i; end < b->count && isfinite(plot_at(f->log_y, b->most[end]));) end++;
        for (size_t k = i; k < end; k++)
            cairo_line_to(s->f->cr, sheet_x(s, plot_at(f->log_x, b->x[k])),
                          sheet_y(s, plot_at(f->log_y, b->most[k])));
        for (size_t k = end; k > i; k--) {
            const double low = plot_at(f->log_y, b->least[k - 1]);
            cairo_line_to(s->f->cr, sheet_x(s, plot_at(f->log_x, b->x[k - 1])),
                          sheet_y(s, isfinite(low) ? low : f->y0));
        }
        cairo_close_path(s->f->cr);
        cairo_new_sub_path(s->f->cr);
    }
    cairo_fill(s->f->cr);
}

// Draws all bands first, then the means over them.
static void draw_lines(const struct sheet *s, const struct plot_line *lines, size_t count)
{
    const struct plot_frame *f = &s->frame;
    struct plot_bins bins[PLOT_LINES];
    bool crowded[PLOT_LINES];
    for (size_t l = 0; l < count; l++) {
        crowded[l] = plot_bin(&bins[l], &lines[l], f->log_x, f->x0, f->x1, BINS);
        draw_band(s, &bins[l], theme_of(s)->lines[l]);
    }
    for (size_t l = 0; l < count; l++) {
        const struct plot_line mean = { .x = bins[l].x, .y = bins[l].mean, .count = bins[l].count };
        draw_line(s, crowded[l] ? &mean : &lines[l], l, count);
        plot_bins_release(&bins[l]);
    }
}

// Draws the bars of line `l` of `count`.
static void draw_bars(const struct sheet *s, const struct plot_line *of, size_t l, size_t count)
{
    const struct plot_frame *f = &s->frame;
    const double wide = 0.8 / (double)count, base = sheet_y(s, f->log_y ? f->y0 : 0);
    for (size_t i = 0; i < of->count; i++) {
        const double at = plot_at(f->log_y, of->y[i]), x = of->x[i] - 0.4 + wide * (double)l;
        if (!isfinite(at)) continue;
        const double y = sheet_y(s, at), left = sheet_x(s, x), right = sheet_x(s, x + wide);
        cairo_rectangle(s->f->cr, left, fmin(y, base), fmax(right - left - (right - left > 3), 0.2),
                        fabs(base - y));
    }
    figure_colour(s->f, theme_of(s)->lines[l], 1);
    cairo_fill(s->f->cr);
    for (size_t i = 0; i < of->count; i++)
        if (isfinite(of->x[i]))
            add_interval(s, of, i, sheet_x(s, of->x[i] - 0.4 + wide * ((double)l + 0.5)));
    stroke(s, 1, theme_of(s)->text);
}

// Adds a margin between points and frame; bars start at the frame.
static void add_margin(struct plot_frame *f, bool bars)
{
    const double margin = (f->y1 / 2 - f->y0 / 2) * 0.06;
    f->y1 = fmin(f->y1 + margin, 1.7e308);
    if (!bars || f->y0 < 0 || f->log_y) // so that the smallest bar on a logarithmic axis is visible
        f->y0 = fmax(f->y0 - margin, -1.7e308);
    if (bars) return;
    const double beside = (f->x1 / 2 - f->x0 / 2) * 0.03;
    f->x0 = fmax(f->x0 - beside, -1.7e308);
    f->x1 = fmin(f->x1 + beside, 1.7e308);
}

// Computes the frame so that its labels fit around it.
static void lay_out_frame(struct sheet *s, const struct plot_axes *axes)
{
    double numbers = 0, names = 0;
    for (int i = 0; i < s->frame.y_count; i++) {
        char *text = plot_number(s->frame.y_format, s->frame.y_ticks[i]);
        numbers = fmax(numbers, figure_text_width(s->f, size, text));
        free(text);
    }
    s->left = snapped(edge + (axes->y ? line + 2 : 0) + numbers + 5);
    s->right = width - edge - 6;
    s->bottom = height - edge - (axes->x ? line + 2 : 0) - line;
    const int rows = axes->names ? names_lines(s, axes, s->right - s->left) : 1;
    if (rows) s->bottom -= (rows - 1) * line;
    if (rows) return;
    for (size_t i = 0; i < axes->name_count; i++)
        names = fmax(names, figure_text_width(s->f, size, axes->names[i]));
    names = fmin(names, name_most);
    s->bottom -= names * sin(slant * M_PI / 180);
    // The first name starts left of its bars.
    const double first = names * cos(slant * M_PI / 180) + edge + (axes->y ? line : 0);
    s->left = fmax(s->left, first - (s->right - first) * 0.5 / (double)axes->name_count);
}

int plot_figure(const char *path, const struct figure_look *look, const struct plot_axes *axes,
                const struct plot_line *lines, size_t count, struct err *err)
{
    static const struct plot_axes plain = { 0 };
    char *title[TITLE_LINES];
    if (!axes) axes = &plain;
    if (count > PLOT_LINES) count = PLOT_LINES;
    const bool bars = axes->names != NULL;
    struct sheet s = { .f = figure_open(path, width, height, look, err) };
    if (!s.f) return -1;
    if (axes->title) figure_name(s.f, axes->title);
    plot_fit(&s.frame, axes, lines, count, TICKS_X, TICKS_Y);
    add_margin(&s.frame, bars);
    lay_out_frame(&s, axes);
    const int rows = axes->title ? figure_text_wrap(s.f, title_size, axes->title, width - 2 * edge,
                                                    title, TITLE_LINES, NULL)
                                 : 0;
    s.top = edge + rows * (title_size + 4);
    for (int i = 0; i < rows; i++) {
        figure_label(s.f, width / 2, edge + title_size + i * (title_size + 4), 0.5, 0, title_size,
                     title[i]);
        free(title[i]);
    }
    const double first = s.top + size + 2;
    s.top = first + legend(&s, lines, count, bars, first) * line - line + 8;
    draw_frame(&s, axes);
    for (size_t l = 0; l < count && bars; l++) draw_bars(&s, &lines[l], l, count);
    if (!bars) draw_lines(&s, lines, count);
    return figure_close(s.f, err);
}
