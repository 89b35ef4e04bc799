// tui/plain.c -- writes events as lines of text.
//
// Three kinds of output share a terminal: the answer, which grows within a line; the progress line,
// which overwrites itself; and whole lines. Writing a whole line first erases the progress line and
// ends an unfinished line of the answer.
#include "tui/plain.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/mem.h"
#include "core/base/pace.h"
#include "core/base/text.h"
#include "core/draw/heatmap.h"
#include "core/draw/heatmap_words.h"
#include "core/draw/ramp.h"
#include "core/picture/boxes.h"
#include "core/picture/resize.h"
#include "core/template/message.h"
#include "tui/drawing.h"
#include "tui/event_text.h"
#include "tui/flow.h"
#include "tui/graphics.h"
#include "tui/input.h"
#include "tui/stream.h"
#include "tui/text.h"
#include "tui/theme.h"

struct plain {
    struct stream out, err; // standard output and error
    struct stream *note;    // for notices, errors and progress: &out or &err
    bool interactive;
    bool mid_line;  // the answer's last line has no newline yet
    bool answering; // a token of this answer has arrived
    bool begun;     // some text of the answer was printed
    struct growing growing;
    bool reasoning;  // the last line of the reasoning has no newline yet
    int64_t thought; // tokens of the reasoning so far
    bool page;       // a page is open: texts belong to it
    bool progress;   // the progress line is on the screen
    struct throttle throttle;
    struct settings *settings; // as reported by events
    struct boxes boxes;        // of the last answer
    int boxed;                 // index of their picture
    bool asked;                // the terminal was queried
    struct graphics graphics;
    uint32_t last_id; // id of the last picture
};

// True if maps are only described (screen.graphics words). Then no line is overwritten either:
// screen readers would read it again.
static bool only_words(const struct plain *p)
{
    return settings_is(p->settings, "screen.graphics", "words");
}

static bool overwrites(const struct plain *p)
{
    return p->note->escapes && !only_words(p);
}

static void wipe_progress(struct plain *p)
{
    if (!p->progress) return;
    fputs("\r\033[K", p->note->file);
    fflush(p->note->file);
    p->progress = false;
}

// Prepares for a whole line on `s`: ends the answer's line if `s` is standard output, or if both
// are terminals.
static void begin_lines(struct plain *p, const struct stream *s)
{
    wipe_progress(p);
    if (p->mid_line && (s == &p->out || (s->terminal && p->out.terminal))) {
        growing_end_line(&p->growing, &p->out);
        p->mid_line = false;
    }
    fflush(p->out.file);
}

static void put_line(struct plain *p, struct stream *s, enum style style, const char *text)
{
    begin_lines(p, s);
    stream_put_lines(s, style, text);
    fflush(s->file);
}

// --- the answer ----------------------------------------------------------------------------------

// Shows the reasoning as it grows, or counts its tokens on the progress line.
static void show_reasoning(struct plain *p, const char *text)
{
    p->thought++;
    if (settings_is(p->settings, "screen.reasoning", "show")) {
        wipe_progress(p);
        growing_add(&p->growing, p->note, STYLE_DIM, text);
        p->reasoning = text[strlen(text) - 1] != '\n';
    } else if (p->interactive && overwrites(p)) {
        fprintf(p->note->file, "\r\033[Kreasoning: %lld tokens", (long long)p->thought);
        p->progress = true;
    }
    fflush(p->note->file);
}

static void end_reasoning(struct plain *p)
{
    if (p->reasoning) growing_end_line(&p->growing, p->note);
    p->reasoning = false;
    p->thought = 0;
}

// Ends the line of an answer or of its reasoning that is cut off, of which a word may be held.
static void end_growing(struct plain *p)
{
    wipe_progress(p);
    end_reasoning(p);
    if (p->mid_line && p->out.terminal) {
        growing_end_line(&p->growing, &p->out);
        p->mid_line = false;
        fflush(p->out.file);
    }
}

static void show_token(struct plain *p, const struct event *e)
{
    if (!p->answering) p->growing.fenced = false; // an earlier answer may have been cut off in code
    p->answering = true;
    if (e->reasoning && *e->reasoning) show_reasoning(p, e->reasoning);
    const char *text = e->text ? e->text : "";
    if (e->ok && p->begun) { // the text so far was the reasoning
        begin_lines(p, &p->out);
        p->begun = false;
    }
    if (!p->begun) text = text_trimmed(text);
    if (!*text) return;
    p->begun = true;
    wipe_progress(p);
    end_reasoning(p);
    growing_add(&p->growing, &p->out, STYLE_TEXT, text);
    p->mid_line = text[strlen(text) - 1] != '\n';
    fflush(p->out.file);
}

static void show_answer(struct plain *p, const struct event *e)
{
    const struct event_answer *a = e->answer;
    boxes_release(&p->boxes);
    p->boxed = a->boxes ? a->boxed : -1;
    if (a->boxes) boxes_copy(&p->boxes, a->boxes);
    // A prefill without tokens has no text to show; a notice reports it.
    if (!p->answering && !a->in_conversation && !a->count && !strcmp(a->stop, "length")) return;
    if (!p->answering) {
        put_line(p, &p->out, STYLE_TEXT, a->text ? text_trimmed(a->text) : "");
    } else {
        wipe_progress(p);
        end_reasoning(p);
        if (p->mid_line || !p->begun) growing_end_line(&p->growing, &p->out);
        p->mid_line = false;
        fflush(p->out.file);
    }
    p->answering = p->begun = false;
    if (!p->interactive) return;
    struct buf b = { 0 };
    buf_putc(&b, '[');
    measures_text(&b, a, true);
    buf_putc(&b, ']');
    put_line(p, p->note, STYLE_DIM, b.data);
    buf_release(&b);
}

// --- pictures ------------------------------------------------------------------------------------

// Size limits in cells; ids of pictures, as in tui/painter.c.
enum { COLUMNS = 48, LINES_MAX = 16, NAMES = 240, FIRST_NAME = 16 };
static const double patience = 0.4; // seconds for the terminal's reply

static const struct graphics_way *way_of(const struct plain *p)
{
    const char *setting = settings_text(p->settings, "screen.graphics");
    return graphics_way(graphics_choose(&p->graphics, setting));
}

// Returns whether the terminal draws pictures. The first call queries it if a person types, else
// guesses.
static bool draws_pictures(struct plain *p)
{
    struct buf typed = { 0 };
    if (!p->out.escapes) return false;
    if (!p->asked && p->interactive && isatty(STDIN_FILENO))
        graphics_query_now(&p->graphics, STDIN_FILENO, patience, &typed);
    else if (!p->asked)
        graphics_guess(&p->graphics);
    p->asked = true;
    input_add_early(typed.data, typed.length);
    buf_release(&typed);
    return way_of(p)->encode;
}

// The available cells, and the size of a cell in pixels.
struct room {
    int columns, lines, cell_width, cell_height;
};

static struct room find_room(const struct plain *p)
{
    struct winsize w = { 0 };
    struct room r = { COLUMNS, LINES_MAX, 0, 0 };
    const int fd = fileno(p->out.file);
    graphics_cell(&p->graphics, fd, &r.cell_width, &r.cell_height);
    if (ioctl(fd, TIOCGWINSZ, &w) < 0) return r;
    if (w.ws_col && w.ws_col - 1 < r.columns) r.columns = w.ws_col - 1;
    if (w.ws_row && w.ws_row - 2 < r.lines) r.lines = w.ws_row - 2;
    return r;
}

// pixels [lines * cell_height, columns * cell_width, 4]
static void put_picture(struct plain *p, const struct room *r, const uint8_t *pixels)
{
    struct buf b = { 0 };
    const struct graphics_way *way = way_of(p);
    p->last_id = (p->last_id + 1) % NAMES;
    const struct graphics_picture picture = { .pixels = pixels,
                                              .width = r->columns * r->cell_width,
                                              .height = r->lines * r->cell_height,
                                              .columns = r->columns,
                                              .lines = r->lines,
                                              .id = FIRST_NAME + p->last_id };
    for (int i = 0; i < r->lines; i++) buf_putc(&b, '\n');
    buf_printf(&b, "\033[%dA\0337", r->lines);
    way->encode(&picture, p->graphics.tmux, &b);
    buf_printf(&b, "\0338\033[%dB\r", r->lines);
    fwrite(b.data, 1, b.length, p->out.file);
    fflush(p->out.file);
    buf_release(&b);
}

static void put_image(struct plain *p, const struct image *image)
{
    struct room r = find_room(p);
    struct image flat = { 0 };
    static const uint8_t white[3] = { 255, 255, 255 };
    struct drawing d = { .picture = &flat };
    if (r.columns < 1 || r.lines < 1) return;
    if (image_flat_copy(&flat, image, white, NULL) < 0) return;
    drawing_fit(&d, r.columns * r.cell_width, r.lines * r.cell_height, 1);
    r.columns = (d.width + r.cell_width - 1) / r.cell_width;
    r.lines = (d.height + r.cell_height - 1) / r.cell_height;
    uint8_t *pixels = drawing_pixels(&d, r.columns * r.cell_width, r.lines * r.cell_height);
    put_picture(p, &r, pixels);
    free(pixels);
    image_release(&flat);
}

static void put_map(struct plain *p, const struct event_heatmap *map)
{
    struct room r = find_room(p);
    int width = r.columns * r.cell_width, height = heatmap_height(map, width);
    const int most = r.lines * r.cell_height;
    if (width < 1 || most < 1) return;
    if (height > most) {
        width = (int)((int64_t)width * most / height);
        height = heatmap_height(map, width > 0 ? width : 1);
    }
    if (height > most) height = most;
    r.columns = (width + r.cell_width - 1) / r.cell_width;
    r.lines = (height + r.cell_height - 1) / r.cell_height;
    uint8_t *rgb = xmalloc((size_t)width * (size_t)height * 3);
    const int across = r.columns * r.cell_width;
    uint8_t *pixels = xcalloc((size_t)across * (size_t)(r.lines * r.cell_height), 4);
    heatmap_draw(map, settings_text(p->settings, "screen.map"), width, height, rgb);
    for (int y = 0; y < height; y++)
        for (int x = 0; x < width; x++) {
            uint8_t *to = pixels + ((size_t)y * (size_t)across + (size_t)x) * 4;
            memcpy(to, rgb + ((size_t)y * (size_t)width + (size_t)x) * 3, 3);
            to[3] = 255;
        }
    put_picture(p, &r, pixels);
    free(rgb);
    free(pixels);
}

// --- tables and maps -----------------------------------------------------------------------------

static void put_flow(struct plain *p, struct flow *f)
{
    for (size_t i = 0; i < f->count; i++) put_line(p, &p->out, STYLE_TEXT, f->lines[i].text);
    flow_release(f);
}

// Writes a line of a table, cut with an ellipsis if the terminal is too narrow.
static void put_row(struct plain *p, enum style style, const char *line, int width)
{
    const bool cut = width && text_width(line) > width;
    char *shown = cut ? xasprintf("%.*s\xE2\x80\xA6", (int)text_fit(line, width - 1), line) : NULL;
    put_line(p, &p->out, style, cut ? shown : line);
    free(shown);
}

static void show_table(struct plain *p, const struct event *e)
{
    const int width = text_terminal_columns(p->out.file);
    struct table_copy *copy = table_copy_new(e->table);
    if (p->page && width) { // a page does not cut cells
        struct flow f = { 0 };
        flow_add_table(&f, copy, width);
        put_flow(p, &f);
    } else {
        char *text = table_copy_text(copy, INT_MAX), *rest = text, *line;
        if (e->table->titled) put_line(p, &p->out, STYLE_DIM, strsep(&rest, "\n"));
        put_row(p, STYLE_STRONG, strsep(&rest, "\n"), width);
        while ((line = strsep(&rest, "\n"))) put_row(p, STYLE_TEXT, line, width);
        free(text);
    }
    table_copy_free(copy);
}

static const char shades[] = " .:-=+*#%@"; // from sparse to dense

// Draws each cell as a shade, doubled because a character is twice as high as wide. papers: gives
// high values a background colour (step_of_eight).
static void put_shades(struct buf *b, const struct event_heatmap *h, bool papers)
{
    enum { BLACK = 0, BLUE = 4, WHITE = 7 };
    for (int r = 0; r < h->rows; r++) {
        for (int c = 0; c < h->cols; c++) {
            const double share = heatmap_share(h, r, c);
            const bool dropped = h->dropped && h->dropped[r * h->cols + c];
            const char shade = shades[isnan(share) ? 0 : (int)(share * 9 + 0.5)];
            const int paper = papers && !isnan(share) && !dropped ? step_of_eight(share) : -1;
            if (paper >= 0)
                buf_printf(b, "\033[%d;%dm", 40 + paper, 30 + (paper == BLUE ? WHITE : BLACK));
            buf_putc(b, shade);
            buf_putc(b, dropped ? '\'' : shade);
            if (paper >= 0) buf_puts(b, "\033[0m");
        }
        buf_putc(b, '\n');
    }
}

// Sets the colour of the text or the background (ground): exactly, or the nearest colour of the
// cube in the palette of 256.
static void put_colour(struct buf *b, bool ground, const uint8_t rgb[3], bool exact)
{
    if (exact)
        buf_printf(b, "\033[%d;2;%d;%d;%dm", ground ? 48 : 38, rgb[0], rgb[1], rgb[2]);
    else
        buf_printf(b, "\033[%d;5;%dm", ground ? 48 : 38,
                   16 + 36 * ((rgb[0] + 25) / 51) + 6 * ((rgb[1] + 25) / 51) + (rgb[2] + 25) / 51);
}

// Draws two pixels per character, the map over the picture.
static void put_blocks(struct buf *b, const struct event_heatmap *h, const char *ramp, int room,
                       bool exact)
{
    const int most = room > 1 && room < 64 ? room - 1 : 64;
    const int width = h->cols < most ? h->cols * (most / h->cols) : most;
    const int height = (heatmap_height(h, width) + 1) / 2 * 2;
    uint8_t *pixels = xmalloc((size_t)width * (size_t)height * 3);
    heatmap_draw(h, ramp, width, height, pixels);
    for (int y = 0; y < height; y += 2) {
        for (int x = 0; x < width; x++) {
            const uint8_t *upper = pixels + ((size_t)y * (size_t)width + (size_t)x) * 3;
            put_colour(b, false, upper, exact);
            put_colour(b, true, upper + (size_t)width * 3, exact);
            buf_puts(b, "\xE2\x96\x80"); // upper half block
        }
        buf_puts(b, "\033[0m\n");
    }
    free(pixels);
}

// "12 x 12, mean 0.04, sum 5.8; maximum at row 3, column 1: 0.31"
static void put_numbers(struct buf *b, const struct event_heatmap *h)
{
    double sum = 0;
    int count = 0, most = -1, dropped = 0;
    for (int i = 0; i < h->rows * h->cols; i++) {
        dropped += h->dropped && h->dropped[i];
        if (!isfinite(h->values[i])) continue;
        sum += (double)h->values[i];
        count++;
        if (most < 0 || h->values[i] > h->values[most]) most = i;
    }
    if (!count) return;
    buf_printf(b, "%d x %d, mean %.4g, sum %.4g; maximum at row %d, column %d: %.4g", h->rows,
               h->cols, sum / count, sum, most / h->cols, most % h->cols, (double)h->values[most]);
    if (h->dropped) buf_printf(b, "; %d dropped, %d kept", dropped, h->rows * h->cols - dropped);
    buf_putc(b, '\n');
}

// Writes the colours of the minimum and the maximum. b: scratch.
static void put_scale(struct plain *p, const struct event_heatmap *h, struct buf *b)
{
    const char *ramp = settings_text(p->settings, "screen.map");
    uint8_t low[3], high[3];
    ramp_bytes(ramp, 0, low);
    ramp_bytes(ramp, 1, high);
    put_colour(b, true, low, false);
    buf_printf(b, "  \033[0m = %.4g ... ", (double)h->min);
    put_colour(b, true, high, false);
    buf_printf(b, "  \033[0m = %.4g%s\n", (double)h->max, h->dropped ? "; grey: dropped" : "");
    fputs(b->data, p->out.file);
    buf_clear(b);
}

// Describes in words where the values of the map are.
static void put_words(struct plain *p, const struct event_heatmap *h)
{
    struct buf b = { 0 };
    heatmap_say(h, h->picture == p->boxed ? &p->boxes : NULL, &b);
    if (b.length) put_line(p, &p->out, STYLE_TEXT, b.data);
    buf_release(&b);
}

static void put_drawing(struct plain *p, const struct event_heatmap *h)
{
    struct buf b = { 0 };
    const struct graphics *said = &p->graphics;
    const bool possible = draws_pictures(p);
    if (p->out.palette && (said->colours || said->true_colour)) p->out.palette = 256;
    const bool coloured = p->out.palette && !settings_is(p->settings, "screen.graphics", "ascii");
    if (possible) {
        begin_lines(p, &p->out);
        put_map(p, h);
        put_scale(p, h, &b);
    } else if (coloured && p->out.palette == 256) {
        put_blocks(&b, h, settings_text(p->settings, "screen.map"),
                   text_terminal_columns(p->out.file), stream_true_colour() || said->true_colour);
        begin_lines(p, &p->out);
        fputs(b.data ? b.data : "", p->out.file); // vlmsh's own escapes, no untrusted text
        buf_clear(&b);
        put_scale(p, h, &b);
    } else {
        put_shades(&b, h, coloured);
        begin_lines(p, &p->out);
        fputs(b.data ? b.data : "", p->out.file); // vlmsh's own escapes, as above
        buf_clear(&b);
        buf_printf(&b, "'%c' = %.4g ... '%c' = %.4g%s\n", shades[0], (double)h->min, shades[9],
                   (double)h->max, h->dropped ? "; ' marks dropped tokens" : "");
        put_line(p, &p->out, STYLE_TEXT, b.data);
    }
    buf_release(&b);
}

static void show_heatmap(struct plain *p, const struct event *e)
{
    const struct event_heatmap *h = e->heatmap;
    struct buf b = { 0 };
    char title[256];
    heatmap_title(h, title, sizeof title);
    put_line(p, &p->out, STYLE_STRONG, title);
    if (!only_words(p)) put_drawing(p, h);
    put_numbers(&b, h);
    put_line(p, &p->out, STYLE_TEXT, b.data ? b.data : "");
    put_words(p, h);
    buf_release(&b);
}

static void show_columns(struct plain *p, const struct event *e)
{
    struct buf b = { 0 };
    columns_draw(&b, e->columns, text_wrap_columns(p->out.file));
    put_line(p, &p->out, STYLE_TEXT, b.data ? b.data : "");
    buf_release(&b);
}

// --- other events --------------------------------------------------------------------------------

static void show_line(struct plain *p, const struct event *e)
{
    char *line = event_line(e);
    put_line(p, &p->out, STYLE_TEXT, line);
    free(line);
}

static void show_page(struct plain *p, const struct event *e)
{
    p->page = e->text != NULL;
}

static void show_text(struct plain *p, const struct event *e)
{
    if (p->page) {
        struct flow f = { 0 };
        flow_add_text(&f, e->text, text_wrap_columns(p->out.file));
        put_flow(p, &f);
        return;
    }
    put_line(p, &p->out, STYLE_TEXT, e->text ? e->text : "");
}

static void show_notice(struct plain *p, const struct event *e)
{
    put_line(p, p->note, STYLE_DIM, e->text ? e->text : "");
}

static void show_picture(struct plain *p, const struct image *image)
{
    if (only_words(p) || !image->pixels || !draws_pictures(p)) return;
    begin_lines(p, &p->out);
    put_image(p, image);
}

static void show_attached(struct plain *p, const struct event *e)
{
    show_picture(p, &e->pictures->image);
}

// Writes "question 2 of 5 that B answers worse: ID (KIND)", then a line for each text. Questions
// scored by loss have no answers.
static void show_changed(struct plain *p, const struct event *e)
{
    const struct event_changed *c = e->changed;
    const bool all = !strcmp(c->which, "all");
    struct buf b = { 0 };
    buf_printf(&b, "question %lld of %lld%s%s: %s%s%s%s\n%s", (long long)c->number,
               (long long)c->count, all ? "" : " that B answers ", all ? "" : c->which, c->id,
               *c->kind ? " (" : "", c->kind, *c->kind ? ")" : "", c->question);
    if (*c->reference) buf_printf(&b, "\nreference: %s", c->reference);
    for (int k = 0; k < 2; k++)
        buf_printf(&b, "\n%c, score %.4g%s: %s%s%s", 'A' + k, c->score[k],
                   c->better[k] ? " (better)" : "", c->title[k], *c->answer[k] ? "\n" : "",
                   text_trimmed(c->answer[k]));
    put_line(p, &p->out, STYLE_TEXT, b.data);
    buf_release(&b);
    for (size_t i = 0; i < c->picture_count; i++) show_picture(p, &e->pictures[i].image);
}

// Writes a queried value to standard output, a changed one as a notice.
static void show_setting(struct plain *p, const struct event *e)
{
    char *line = xasprintf("%s = %s", e->key, e->value);
    settings_set(p->settings, e->key, e->value, NULL);
    put_line(p, e->ok ? p->note : &p->out, e->ok ? STYLE_DIM : STYLE_TEXT, line);
    free(line);
}

static void show_error(struct plain *p, const struct event *e)
{
    const char *where = p->interactive ? "error" : e->where && *e->where ? e->where : "vlmsh";
    char *line = xasprintf("%s: %s", where, e->text);
    p->answering = p->begun = false;
    end_growing(p);
    put_line(p, p->note, STYLE_ERROR, line);
    free(line);
}

// Updates the progress line, once the work has taken 0.3 s.
static void show_progress(struct plain *p, const struct event *e)
{
    const struct event_progress *g = e->progress;
    if (!overwrites(p) || !throttle_pass(&p->throttle, g)) return;
    if (!p->throttle.running) {
        wipe_progress(p);
        return;
    }
    if (clock_seconds() - p->throttle.started < 0.3) return;
    struct buf b = { 0 };
    char left[PACE_TEXT];
    if (g->job) buf_printf(&b, "job %lld: ", (long long)g->job);
    buf_puts(&b, g->what ? g->what : "working");
    if (g->steps > 0) buf_printf(&b, " %.0f%%", 100 * g->step / g->steps);
    if (isfinite(g->loss)) buf_printf(&b, ", loss %.4f", g->loss);
    if (g->eta_s > 0) buf_printf(&b, ", %s left", pace_text(left, g->eta_s));
    int width = text_terminal_columns(p->note->file);
    if (width) b.data[text_fit(b.data, width - 1)] = '\0';
    begin_lines(p, p->note);
    fputs("\r\033[K", p->note->file);
    stream_put(p->note, STYLE_DIM, b.data);
    fflush(p->note->file);
    p->progress = true;
    buf_release(&b);
}

// Clears the screen for an empty conversation.
static void show_clear(struct plain *p, const struct event *e)
{
    if (!p->interactive) return;
    wipe_progress(p);
    if (p->out.escapes && !only_words(p)) fputs("\033[H\033[2J", p->out.file);
    put_line(p, p->note, STYLE_DIM, "the conversation was cleared");
}

static void show_done(struct plain *p, const struct event *e)
{
    p->throttle = (struct throttle){ 0 };
    begin_lines(p, p->note);
    p->answering = p->begun = false;
}

static void (*const show[])(struct plain *p, const struct event *e) = {
    [EVENT_TOKEN] = show_token,       [EVENT_ANSWER] = show_answer,
    [EVENT_TEXT] = show_text,         [EVENT_IDS] = show_line,
    [EVENT_RENDERED] = show_text,     [EVENT_TABLE] = show_table,
    [EVENT_HEATMAP] = show_heatmap,   [EVENT_PROGRESS] = show_progress,
    [EVENT_SETTING] = show_setting,   [EVENT_COLUMNS] = show_columns,
    [EVENT_NOTICE] = show_notice,     [EVENT_ERROR] = show_error,
    [EVENT_DONE] = show_done,         [EVENT_RESULT] = show_line,
    [EVENT_ATTACHED] = show_attached, [EVENT_CHANGED] = show_changed,
    [EVENT_CLEAR] = show_clear,       [EVENT_PAGE] = show_page,
};

static void plain_emit(void *self, const struct event *event)
{
    size_t kind = (size_t)event->kind;
    if (kind < sizeof show / sizeof show[0] && show[kind]) show[kind](self, event);
}

struct plain *plain_new(bool interactive)
{
    struct plain *p = xcalloc(1, sizeof *p);
    p->interactive = interactive;
    p->settings = settings_new();
    stream_open(&p->out, stdout);
    stream_open(&p->err, stderr);
    p->note = interactive && p->out.terminal ? &p->out : &p->err;
    return p;
}

void plain_free(struct plain *p)
{
    if (!p) return;
    end_growing(p);
    settings_free(p->settings);
    boxes_release(&p->boxes);
    buf_release(&p->growing.word);
    free(p);
}

struct sink plain_sink(struct plain *p)
{
    return (struct sink){ .emit = plain_emit, .self = p };
}
