// tui/markdown.c -- renders Markdown line by line, and the spans within each line.
//
// Reads the subset of CommonMark (spec.commonmark.org) and GitHub's tables that models write. A
// source line becomes one shown line, except fences and the rulers of wide tables, which are not
// shown. Code lines begin with a tab, for wrap_begin_marked.
#include "tui/markdown.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "tui/text.h"

// --- output --------------------------------------------------------------------------------------

static void put(struct markdown *m, const char *bytes, size_t length, size_t from, enum style style)
{
    if (m->text.length + length > m->capacity) {
        m->capacity = 2 * (m->text.length + length) + 256;
        m->from = xreallocarray(m->from, m->capacity, sizeof *m->from);
        m->styles = xreallocarray(m->styles, m->capacity, sizeof *m->styles);
    }
    for (size_t i = 0; i < length; i++) {
        m->from[m->text.length + i] = from;
        m->styles[m->text.length + i] = (uint8_t)style;
    }
    buf_add(&m->text, bytes, length);
}

static void put_ours(struct markdown *m, const char *text, enum style style)
{
    put(m, text, strlen(text), m->at, style);
}

static void put_remarks(struct markdown *m, size_t before)
{
    const bool ascii = m->options & MARKDOWN_ASCII;
    for (; m->remarks_left && m->remarks->at <= before; m->remarks++, m->remarks_left--) {
        char *text = xasprintf(ascii ? "<%s>" : "\xe2\x9f\xa8%s\xe2\x9f\xa9", m->remarks->text);
        put_ours(m, text, STYLE_CHANGED);
        free(text);
    }
}

// Copies bytes of the source.
static void put_source(struct markdown *m, size_t begin, size_t end, enum style style)
{
    for (size_t i = begin; i < end; i++) {
        put_remarks(m, i);
        m->at = i;
        put(m, m->source + i, 1, i, style);
    }
}

// --- spans ---------------------------------------------------------------------------------------

enum { DEEPEST = 6, TICKS = 8, LINK_TEXT = 300, LINK_URL = 2000 };

static bool is_word(char c)
{
    return isalnum((unsigned char)c) || (c & 0x80);
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

static size_t run_of(const char *s, size_t at, size_t end)
{
    size_t n = 1;
    while (at + n < end && s[at + n] == s[at]) n++;
    return n;
}

// Returns whether the run of `count` marks before s[after] can close a span.
static bool closes(const char *s, size_t after, size_t end, char mark, size_t count)
{
    const char last = s[after - count - 1], next = after < end ? s[after] : ' ';
    if (mark == '`' || (mark == '$' && count > 1)) return true;
    if (is_blank(last)) return false;
    if (mark == '$') return !isdigit((unsigned char)next); // "5$6" does not end math
    return mark == '*' ? !isalnum((unsigned char)next) : !is_word(next);
}

// Returns the position, from `at` on, of a run of `count` marks that closes the span; `end`: none.
static size_t closing(const char *s, size_t at, size_t end, char mark, size_t count)
{
    while (at < end) {
        if (s[at] == '\\' && mark != '`') {
            at += 2;
            continue;
        }
        if (s[at] != mark) {
            at++;
            continue;
        }
        const size_t n = run_of(s, at, end);
        if (n == count && closes(s, at + n, end, mark, count)) return at;
        at += n;
    }
    return end;
}

static void spans(struct markdown *m, size_t at, size_t end, enum style style, int depth);

// Writes a `code` span and returns the position after it; `at`: no code span.
static size_t code_span(struct markdown *m, size_t at, size_t end, bool none[TICKS])
{
    const size_t n = run_of(m->source, at, end);
    if (n >= TICKS || none[n]) return at;
    const size_t close = closing(m->source, at + n, end, '`', n);
    none[n] = close == end;
    if (close == end) return at;
    size_t from = at + n, to = close;
    if (to - from > 2 && m->source[from] == ' ' && m->source[to - 1] == ' ') from++, to--;
    put_source(m, from, to, STYLE_CODE);
    return close + n;
}

// Returns whether a word or a factor ends before `at`. A star may follow an ideograph, because such
// scripts do not separate words by spaces.
static bool is_inner(const char *s, size_t at, size_t begin)
{
    if (at == begin) return false;
    const char last = s[at - 1];
    if (s[at] == '_') return is_word(last);
    return isalnum((unsigned char)last) || last == ')' || last == ']';
}

// Writes *italics*, **bold** and ***both*** (as bold), around whole words only (not in 5*3 and
// 4*2). Returns the position after the span; `at`: no span.
static size_t emphasis(struct markdown *m, size_t at, size_t end, int depth, size_t begin,
                       bool none[4])
{
    const char *s = m->source;
    const size_t n = run_of(s, at, end);
    if (n > 3 || none[n] || is_inner(s, at, begin) || depth >= DEEPEST) return at;
    if (at + n >= end || is_blank(s[at + n])) return at;
    const size_t close = closing(s, at + n + 1, end, s[at], n);
    none[n] = close >= end;
    if (close >= end) return at;
    spans(m, at + n, close, n > 1 ? STYLE_STRONG : STYLE_EMPHASIS, depth + 1);
    return close + n;
}

// Writes [text](address) as text (address) and returns the position after it; `at`: no link.
static size_t link_span(struct markdown *m, size_t at, size_t end, enum style style, int depth)
{
    const char *s = m->source;
    const size_t near = end - at < LINK_TEXT ? end : at + LINK_TEXT;
    const char *shut = memchr(s + at, ']', near - at);
    const size_t open = shut ? (size_t)(shut - s) + 1 : end;
    if (open >= end || s[open] != '(' || depth >= DEEPEST) return at;
    const size_t far = end - open < LINK_URL ? end : open + LINK_URL;
    const char *last = memchr(s + open, ')', far - open);
    if (!last || last == s + open + 1 || memchr(s + open, ' ', (size_t)(last - s) - open))
        return at;
    spans(m, at + 1, open - 1, STYLE_EMPHASIS, depth + 1);
    put_ours(m, " ", style);
    put_source(m, open, (size_t)(last - s) + 1, STYLE_DIM);
    return (size_t)(last - s) + 1;
}

// Returns the position after \(math\) or \[math\]; `at`: no math.
static size_t latex_math(const char *s, size_t at, size_t end, bool none[2])
{
    const char open = at + 1 < end ? s[at + 1] : 0;
    if ((open != '(' && open != '[') || none[open == '[']) return at;
    const char shut = open == '[' ? ']' : ')';
    for (size_t i = at + 2; i + 1 < end; i++) {
        if (s[i] != '\\') continue;
        if (s[i + 1] == shut) return i + 2;
        i++;
    }
    none[open == '['] = true;
    return at;
}

// Returns the position after $math$ or $$math$$, by pandoc's rules; `at`: no math.
static size_t dollar_math(const char *s, size_t at, size_t end, bool none[3])
{
    const size_t n = run_of(s, at, end);
    if (n > 2 || none[n] || at + n >= end || (n == 1 && is_blank(s[at + n]))) return at;
    const size_t close = closing(s, at + n + 1, end, '$', n);
    none[n] = close >= end;
    return close < end ? close + n : at;
}

static void spans(struct markdown *m, size_t at, size_t end, enum style style, int depth)
{
    const char *s = m->source;
    const size_t begin = at;
    // If a mark has no end, later marks of its kind have none either. Remembering that avoids
    // scanning the line again.
    bool no_ticks[TICKS] = { false }, no_stars[4] = { false }, no_lines[4] = { false };
    bool no_dollars[3] = { false }, no_latex[2] = { false };
    while (at < end) {
        size_t next = at;
        if (s[at] == '`') next = code_span(m, at, end, no_ticks);
        if (s[at] == '*') next = emphasis(m, at, end, depth, begin, no_stars);
        if (s[at] == '_') next = emphasis(m, at, end, depth, begin, no_lines);
        if (s[at] == '[') next = link_span(m, at, end, style, depth);
        if (next > at) {
            at = next;
            continue;
        }
        if (s[at] == '$') next = dollar_math(s, at, end, no_dollars);
        if (s[at] == '\\') next = latex_math(s, at, end, no_latex);
        if (next > at) { // in math, stars, underscores and backslashes are not marks
            put_source(m, at, next, style);
            at = next;
            continue;
        }
        const size_t n = strchr("`*_$", s[at]) ? run_of(s, at, end) : 1;
        if (s[at] == '\\' && at + 1 < end && ispunct((unsigned char)s[at + 1])) at++;
        put_source(m, at, at + n, style);
        at += n;
    }
}

// --- tables --------------------------------------------------------------------------------------

enum { COLUMNS_MAX = 24 };

struct line {
    size_t begin, end, next; // next: start of the next line
};

struct cells {
    size_t begin[COLUMNS_MAX], end[COLUMNS_MAX];
    int count; // of the row; only the first COLUMNS_MAX are stored
};

static struct line line_at(const char *source, size_t begin)
{
    const size_t end = begin + strcspn(source + begin, "\n");
    return (struct line){ begin, end, end + (source[end] == '\n') };
}

static struct cells read_cells(const char *s, struct line l)
{
    struct cells c = { .count = 0 };
    size_t at = l.begin, end = l.end;
    while (at < end && is_blank(s[at])) at++;
    while (end > at && is_blank(s[end - 1])) end--;
    if (at < end && s[at] == '|') at++;
    if (end > at && s[end - 1] == '|') end--;
    for (; at <= end; c.count++) {
        size_t stop = at;
        while (stop < end && s[stop] != '|') stop += s[stop] == '\\' && stop + 1 < end ? 2 : 1;
        size_t a = at, b = stop;
        while (a < b && is_blank(s[a])) a++;
        while (b > a && is_blank(s[b - 1])) b--;
        if (c.count < COLUMNS_MAX) c.begin[c.count] = a, c.end[c.count] = b;
        at = stop + 1;
    }
    return c;
}

static bool has_bar(const char *s, struct line l)
{
    return memchr(s + l.begin, '|', l.end - l.begin) != NULL;
}

// Returns whether the line has headings with a ruler (|---|:--:|) below. A table with too many
// columns stays as written.
static bool is_table(const char *s, struct line l)
{
    if (!s[l.end] || !has_bar(s, l)) return false;
    const struct line ruler = line_at(s, l.next);
    const size_t length = ruler.end - ruler.begin;
    return strspn(s + ruler.begin, "|-: \t") >= length && has_bar(s, ruler) &&
           memchr(s + ruler.begin, '-', length) && read_cells(s, l).count <= COLUMNS_MAX;
}

static int cell_width(const struct markdown *m, size_t begin, size_t end)
{
    struct markdown one = { .source = m->source, .options = m->options };
    spans(&one, begin, end, STYLE_ANSWER, 0);
    const int width = text_width(one.text.data ? one.text.data : "");
    markdown_release(&one);
    return width;
}

static void put_blanks(struct markdown *m, int count)
{
    for (; count > 0; count--) put_ours(m, " ", STYLE_ANSWER);
}

struct table {
    int widths[COLUMNS_MAX], columns;
    bool right[COLUMNS_MAX], padded;
};

static void put_row(struct markdown *m, const struct table *t, struct line l, enum style style)
{
    const struct cells c = read_cells(m->source, l);
    const char *bar = m->options & MARKDOWN_ASCII ? " | " : " \xe2\x94\x82 ";
    for (int i = 0; i < t->columns; i++) {
        const bool there = i < c.count;
        const int width = there && t->padded ? cell_width(m, c.begin[i], c.end[i]) : 0;
        const int room = t->padded ? t->widths[i] - width : 0;
        if (i) put_ours(m, bar, STYLE_BORDER);
        if (t->right[i]) put_blanks(m, room);
        if (there) spans(m, c.begin[i], c.end[i], style, 0);
        if (!t->right[i] && i + 1 < t->columns) put_blanks(m, room);
    }
}

// Writes a table and returns the position after it. If it is too wide, its columns are not aligned.
static size_t put_table(struct markdown *m, struct line head)
{
    const char *s = m->source;
    const struct line ruler = line_at(s, head.next);
    const struct cells ways = read_cells(s, ruler);
    struct table t = { .columns = read_cells(s, head).count };
    size_t stop = ruler.next;
    int sum = 3 * (t.columns - 1);
    for (struct line l = head; l.begin == head.begin || (has_bar(s, l) && l.begin < l.end);
         l = line_at(s, l.begin == head.begin ? ruler.next : l.next)) {
        const struct cells c = read_cells(s, l);
        for (int i = 0; i < c.count && i < t.columns; i++) {
            const int width = cell_width(m, c.begin[i], c.end[i]);
            if (width > t.widths[i]) t.widths[i] = width;
        }
        if (l.begin != head.begin) stop = l.next;
        if (!s[l.end]) break;
    }
    for (int i = 0; i < t.columns; i++) {
        sum += t.widths[i];
        t.right[i] = i < ways.count && ways.end[i] > ways.begin[i] + 1 &&
                     s[ways.end[i] - 1] == ':' && s[ways.begin[i]] != ':';
    }
    t.padded = sum <= m->width;
    put_row(m, &t, head, STYLE_TITLE);
    if (t.padded) put_ours(m, "\n", STYLE_ANSWER);
    for (int i = 0; i < t.columns && t.padded; i++) {
        const bool ascii = m->options & MARKDOWN_ASCII;
        if (i) put_ours(m, ascii ? "-+-" : "\xe2\x94\x80\xe2\x94\xbc\xe2\x94\x80", STYLE_BORDER);
        for (int k = 0; k < t.widths[i]; k++)
            put_ours(m, ascii ? "-" : "\xe2\x94\x80", STYLE_BORDER);
    }
    for (size_t at = ruler.next; at < stop;) {
        const struct line l = line_at(s, at);
        put_ours(m, "\n", STYLE_ANSWER);
        put_row(m, &t, l, STYLE_ANSWER);
        at = l.next;
    }
    if (s[stop - 1] == '\n') put_ours(m, "\n", STYLE_ANSWER);
    return stop;
}

// --- lines ---------------------------------------------------------------------------------------

static size_t blanks_at(const char *s, struct line l)
{
    size_t at = l.begin;
    while (at < l.end && s[at] == ' ') at++;
    return at - l.begin;
}

// A run of three or more ` or ~; length 0: none.
struct fence {
    char mark;
    size_t length;
};

// Returns the fence that the line opens. Backticks that close on the same line are a code span.
static struct fence fence_opened(const char *s, struct line l)
{
    const size_t at = l.begin + blanks_at(s, l);
    struct fence f = { 0 };
    if (at < l.end && strchr("`~", s[at])) f = (struct fence){ s[at], run_of(s, at, l.end) };
    const size_t after = at + f.length;
    if (f.length < 3 || (f.mark == '`' && memchr(s + after, '`', l.end - after)))
        f = (struct fence){ 0 };
    return f;
}

// Returns whether the line closes the fence: it has at least as many of the same marks, and nothing
// after them.
static bool is_closed(struct fence f, const char *s, struct line l)
{
    const size_t at = l.begin + blanks_at(s, l);
    size_t end = l.end;
    while (end > at && strchr(" \t\r", s[end - 1])) end--;
    return at < end && s[at] == f.mark && run_of(s, at, end) >= f.length &&
           run_of(s, at, end) == end - at;
}

// Returns the end mark of math that continues on the next line; NULL: none.
static const char *math_opened(const char *s, struct line l)
{
    const size_t at = l.begin + blanks_at(s, l);
    const bool latex = l.end - at >= 2 && !memcmp(s + at, "\\[", 2);
    if (!latex && (l.end - at < 2 || memcmp(s + at, "$$", 2) != 0)) return NULL;
    const char *end = latex ? "\\]" : "$$";
    return memmem(s + at + 2, l.end - at - 2, end, 2) ? NULL : end;
}

// Returns whether the line has three or more of the same mark (- * _) and otherwise only spaces.
static bool is_rule(const char *s, struct line l)
{
    size_t count = 0;
    char of = 0;
    for (size_t i = l.begin; i < l.end; i++) {
        if (is_blank(s[i])) continue;
        if (!strchr("-*_", s[i]) || (of && s[i] != of)) return false;
        of = s[i];
        count++;
    }
    return count >= 3;
}

// Writes a line of text: heading, list item, quote, or plain.
static void put_line(struct markdown *m, struct line l)
{
    const char *s = m->source;
    const bool ascii = m->options & MARKDOWN_ASCII;
    const size_t blanks = blanks_at(s, l);
    size_t at = l.begin + blanks;
    const size_t hashes = at < l.end && s[at] == '#' ? run_of(s, at, l.end) : 0;
    if (is_rule(s, l)) {
        for (int i = 0; i < m->width && i < 40; i++)
            put_ours(m, ascii ? "-" : "\xe2\x94\x80", STYLE_BORDER);
        return;
    }
    if (hashes && hashes <= 6 && at + hashes < l.end && s[at + hashes] == ' ') {
        spans(m, at + hashes + 1, l.end, STYLE_TITLE, 0);
        return;
    }
    put_source(m, l.begin, at, STYLE_ANSWER);
    while (at < l.end && s[at] == '>') {
        put_ours(m, ascii ? "| " : "\xe2\x94\x82 ", STYLE_BORDER);
        at += 1 + (at + 1 < l.end && s[at + 1] == ' ');
    }
    if (at + 1 < l.end && strchr("-*+", s[at]) && s[at + 1] == ' ') {
        put_ours(m, ascii ? "* " : "\xe2\x80\xa2 ", STYLE_KEY);
        at += 2;
    }
    spans(m, at, l.end, STYLE_ANSWER, 0);
}

static void put_lines(struct markdown *m)
{
    const char *s = m->source, *math = NULL; // end mark of math over several lines
    struct fence fence = { 0 };
    for (size_t at = 0; s[at];) {
        const struct line l = line_at(s, at);
        const bool fenced = fence.length, within = math;
        at = l.next;
        if (fenced && is_closed(fence, s, l)) { // the closing fence is not shown
            fence.length = 0;
            continue;
        }
        if (!fenced && !within) fence = fence_opened(s, l);
        if (!fenced && fence.length) continue;
        if (!fenced && !within && is_table(s, l)) {
            at = put_table(m, l);
            continue;
        }
        if (!fenced && !within) math = math_opened(s, l);
        // An empty line ends math too: math cannot contain one.
        if (within &&
            (l.begin + blanks_at(s, l) == l.end || memmem(s + l.begin, l.end - l.begin, math, 2)))
            math = NULL;
        if (fenced) {
            put_ours(m, "\t", STYLE_CODE);
            put_source(m, l.begin, l.end, STYLE_CODE);
        } else if (within || math) {
            put_source(m, l.begin, l.end, STYLE_ANSWER);
        } else {
            put_line(m, l);
        }
        if (s[l.end]) put_source(m, l.end, l.next, STYLE_ANSWER);
    }
}

void markdown_render(struct markdown *m, const char *source, const struct remark *remarks,
                     size_t remark_count, int width, unsigned options)
{
    buf_clear(&m->text);
    m->source = source;
    m->remarks = remarks;
    m->remarks_left = remark_count;
    m->at = 0;
    m->width = width;
    m->options = options;
    if (options & MARKDOWN_ON)
        put_lines(m);
    else
        put_source(m, 0, strlen(source), STYLE_ANSWER);
    while (m->text.length && m->text.data[m->text.length - 1] == '\n')
        m->text.data[--m->text.length] = '\0';
    m->at = strlen(source);
    if (m->remarks_left && m->text.length) put_ours(m, " ", STYLE_ANSWER);
    put_remarks(m, SIZE_MAX);
    m->source = NULL;
    m->remarks = NULL;
}

void markdown_release(struct markdown *m)
{
    buf_release(&m->text);
    free(m->from);
    free(m->styles);
    *m = (struct markdown){ 0 };
}

// Returns the first shown byte of a source byte, or of the next source byte that is shown.
static size_t shown_at(const struct markdown *m, size_t source)
{
    size_t low = 0, high = m->text.length;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (m->from[middle] < source)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

bool markdown_find(const struct markdown *m, size_t begin, size_t end, size_t *first, size_t *last)
{
    *first = shown_at(m, begin);
    *last = shown_at(m, end);
    while (*first < *last && m->styles[*first] == STYLE_CHANGED) ++*first;
    while (*last > *first && m->styles[*last - 1] == STYLE_CHANGED) --*last;
    return *last > *first;
}
