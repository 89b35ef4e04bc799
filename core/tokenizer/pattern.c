// core/tokenizer/pattern.c -- the regular expressions of tokenizer.json, run by PCRE2.
//
// The expressions are written for Oniguruma (Ruby's dialect). Constructs that PCRE2 reads
// differently are rewritten before compiling:
//   \s \w \h \v   match other characters in Oniguruma (\s does not match U+180E; \h: a hex digit)
//
//   \b \B         boundaries of Oniguruma's \w
//
//   [[:punct:]]   matches other characters in Oniguruma, where such names are also properties:
//                 \p{Alnum}
//
//   \p{Han}       the script; in PCRE2, the script extensions
//
//   [a&&[^b]]     intersection of sets -> (?:(?![b])[a])
//
//   [a[bc]]       union of sets -> [abc]
//
//   [a\W]         PCRE2 cannot negate part of a set -> (?:[a]|[^...])
//
//   (?m:.)        the dot matches newlines -> (?s:.)
//
//   x{1,3}+       a repeated interval, not a possessive one -> (?:x{1,3})+
//
//   x{,3}         zero to three
//
//   ^ $           match at every line
//
// Matching is bounded in steps, memory and time, so that a hostile pattern gives an error. PCRE2's
// own limit does not count the characters that possessive repeats, look-aheads and back references
// scan, so callouts at the start of every group and after every repeat check the clock and Ctrl-C.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/base/cancel.h"
#include "core/tokenizer/tokenizer_parts.h"

enum {
    PATTERN_MAX = 65536,            // bytes
    SET_DEPTH_MAX = 16,             // sets in sets
    MATCH_LIMIT = 20 * 1000000,     // steps of one match
    HEAP_LIMIT = 256 * 1024,        // KiB
    STACK_LIMIT = 64 * 1024 * 1024, // bytes; a repeated group needs about 30 per character matched
};
static const size_t TEXT_MAX = (size_t)256 << 20; // bytes; limit on a text after replacements

static const char CALLOUT[] = "(?C1)";

#define WHITE  \
    "\\t-\\r " \
    "\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}\\x{3000}"
#define NOT_WHITE                                                                             \
    "\\x{0}-\\x{8}\\x{e}-\\x{1f}!-\\x{84}\\x{86}-\\x{9f}\\x{a1}-\\x{167f}\\x{1681}-\\x{1fff}" \
    "\\x{200b}-\\x{2027}\\x{202a}-\\x{202e}\\x{2030}-\\x{205e}\\x{2060}-\\x{2fff}"            \
    "\\x{3001}-\\x{d7ff}\\x{e000}-\\x{10ffff}"
#define ANY  "\\x{0}-\\x{d7ff}\\x{e000}-\\x{10ffff}"
#define WORD "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}"
#define HEX  "0-9a-fA-F"
// Outside sets, Oniguruma uses another table below U+0100: \w matches ², [\w] does not.
#define WORD_ALONE WORD "\\x{b2}\\x{b3}\\x{b9}\\x{bc}-\\x{be}"
#define EDGE \
    "(?:(?<=[" WORD_ALONE "])(?![" WORD_ALONE "])|(?<![" WORD_ALONE "])(?=[" WORD_ALONE "]))"
#define NO_EDGE \
    "(?:(?<=[" WORD_ALONE "])(?=[" WORD_ALONE "])|(?<![" WORD_ALONE "])(?![" WORD_ALONE "]))"
#define GRAPH "\\p{L}\\p{M}\\p{N}\\p{P}\\p{S}\\p{Cf}\\p{Co}"

struct rewrite {
    const char *at, *end;
    struct buf out;
    const char *where;
    struct err *err;
};

// A set, written as look-aheads that must match (guards), then [items]. `others`: members that need
// a negated set, each as "|[^...]".
struct set {
    struct buf items, others, guards;
    bool negated;
};

static void set_release(struct set *s)
{
    buf_release(&s->items);
    buf_release(&s->others);
    buf_release(&s->guards);
}

// Writes a character class or its complement. `inside`: the enclosing set.
static void rewrite_kind(struct rewrite *r, struct set *inside, const char *members, bool negated)
{
    if (!inside)
        buf_printf(&r->out, "[%s%s]", negated ? "^" : "", members);
    else if (negated)
        buf_printf(&inside->others, "|[^%s]", members);
    else
        buf_puts(&inside->items, members);
}

// Named character classes.
static const struct named {
    const char *name, *members;
    const char *property; // members of \p{NAME} if they differ
} kinds[] = {
    { "alnum", "\\p{Alphabetic}\\p{Nd}", NULL },
    { "alpha", "\\p{Alphabetic}", NULL },
    { "ascii", "\\x{0}-\\x{7f}", NULL },
    { "blank", "\\t\\p{Zs}", NULL },
    { "cntrl", "\\p{Cc}", NULL },
    { "digit", "\\p{Nd}", NULL },
    { "graph", GRAPH, NULL },
    { "lower", "\\p{Lowercase}", NULL },
    { "print", GRAPH "\\p{Zs}", NULL },
    { "punct", "\\p{P}\\p{S}", "\\p{P}" },
    { "space", WHITE, NULL },
    { "upper", "\\p{Uppercase}", NULL },
    { "word", WORD, NULL },
    { "xdigit", HEX, NULL },
};

static const struct named *find_kind(const char *name, size_t length)
{
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strlen(kinds[i].name) == length && !strncasecmp(name, kinds[i].name, length))
            return &kinds[i];
    return NULL;
}

// Writes a property that the table lacks. Translates long names that the two libraries spell
// differently.
static void write_property(struct buf *out, bool negated, const char *text, size_t length)
{
    static const char *const names[][2] = {
        { "Letter", "L" }, { "Mark", "M" },      { "Number", "N" },
        { "Symbol", "S" }, { "Separator", "Z" }, { "Punctuation", "P" },
    };
    char name[48], script[64];
    snprintf(name, sizeof name, "%.*s", (int)length, text);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcmp(name, names[i][0])) snprintf(name, sizeof name, "%s", names[i][1]);
    snprintf(script, sizeof script, "\\p{sc:%s}", name);
    int code;
    PCRE2_SIZE place;
    pcre2_code *compiled = pcre2_compile((PCRE2_SPTR)script, PCRE2_ZERO_TERMINATED,
                                         PCRE2_UTF | PCRE2_UCP, &code, &place, NULL);
    const bool is_script = strlen(name) > 2 && compiled;
    pcre2_code_free(compiled);
    buf_printf(out, "\\%c{%s%s}", negated ? 'P' : 'p', is_script ? "sc:" : "", name);
}

// Rewrites \p{NAME}, \P{NAME} or \p{^NAME}, with `at` on the p.
static void rewrite_property(struct rewrite *r, struct set *inside)
{
    struct buf *out = inside ? &inside->items : &r->out;
    char p = *r->at++;
    const char *close =
        r->at < r->end && *r->at == '{' ? memchr(r->at, '}', (size_t)(r->end - r->at)) : NULL;
    size_t length = close ? (size_t)(close - r->at) - 1 : 0;
    if (!close || length > 40) {
        buf_printf(out, "\\%c", p);
        return;
    }
    const char *name = r->at + 1;
    bool opposite = length && *name == '^', negated = (p == 'P') != opposite;
    name += opposite;
    length -= opposite;
    r->at = close + 1;
    const struct named *kind = find_kind(name, length);
    if (!kind) {
        write_property(out, negated, name, length);
        return;
    }
    const char *members = kind->property ? kind->property : kind->members;
    if (!inside && !strcmp(kind->name, "word")) members = WORD_ALONE;
    rewrite_kind(r, inside, members, negated);
}

// Rewrites an escape, with `at` after the backslash: as members inside a set, as a set elsewhere.
static void rewrite_escape(struct rewrite *r, struct set *inside)
{
    static const struct {
        const char *letters, *members, *alone; // letters: the class and its negation
    } shorthands[] = {
        { "sS", WHITE, WHITE },
        { "wW", WORD, WORD_ALONE },
        { "hH", HEX, HEX },
    };
    struct buf *out = inside ? &inside->items : &r->out;
    char c = r->at < r->end ? *r->at : 0;
    if (c == 'p' || c == 'P') {
        rewrite_property(r, inside);
        return;
    }
    if (c) r->at++;
    for (size_t i = 0; i < sizeof shorthands / sizeof *shorthands; i++) {
        if (!c || !strchr(shorthands[i].letters, c)) continue;
        if (c == 'S' && inside)
            buf_puts(&inside->items, NOT_WHITE);
        else
            rewrite_kind(r, inside, inside ? shorthands[i].members : shorthands[i].alone,
                         c == shorthands[i].letters[1]);
        return;
    }
    if (c == 'v') {
        buf_puts(out, "\\x{b}");
    } else if ((c == 'b' || c == 'B') && !inside) {
        buf_puts(out, c == 'b' ? EDGE : NO_EDGE);
    } else if (c == 'u' && r->end - r->at >= 4) {
        buf_printf(out, "\\x{%.4s}", r->at);
        r->at += 4;
    } else {
        buf_putc(out, '\\');
        if (c) buf_putc(out, c);
    }
}

static void set_write(const struct set *s, struct buf *out)
{
    const char *items = s->items.length ? s->items.data : "";
    const char *guards = s->guards.length ? s->guards.data : "";
    const bool plain = !s->guards.length && !s->others.length;
    if (plain) {
        buf_printf(out, "[%s%s]", s->negated ? "^" : "", items);
        return;
    }
    buf_printf(out, "%s%s", s->negated ? "(?:(?!" : "(?:", guards);
    if (!s->others.length)
        buf_printf(out, "[%s]", items);
    else if (!s->items.length)
        buf_printf(out, "(?:%s)", s->others.data + 1);
    else
        buf_printf(out, "(?:[%s]%s)", items, s->others.data);
    buf_puts(out, s->negated ? ")(?s:.))" : ")");
}

static int rewrite_set(struct rewrite *r, struct set *s, int depth);

// Adds a set that must match too, as a look-ahead.
static void add_guard(struct set *s, const struct set *other)
{
    buf_puts(&s->guards, "(?=");
    set_write(other, &s->guards);
    buf_putc(&s->guards, ')');
}

// Rewrites a nested set: merges a plain one into `s`; any other must be alone on its side of &&.
static int rewrite_nested(struct rewrite *r, struct set *s, int depth)
{
    struct set inner = { .negated = r->at < r->end && *r->at == '^' };
    r->at += inner.negated;
    int status = rewrite_set(r, &inner, depth + 1);
    if (status == 0 && !inner.negated && !inner.guards.length) {
        buf_add(&s->items, inner.items.data, inner.items.length);
        buf_add(&s->others, inner.others.data, inner.others.length);
    } else if (status == 0 && !s->items.length && !s->others.length && !s->negated &&
               r->at < r->end && strchr("]&", *r->at)) {
        add_guard(s, &inner);
        buf_puts(&s->items, ANY);
    } else if (status == 0) {
        status = err_set(r->err, "%s: this nesting of character sets is not supported", r->where);
    }
    set_release(&inner);
    return status;
}

// Rewrites the members of a set, with `at` after "[" or "[^"; leaves it after "]".
static int rewrite_set(struct rewrite *r, struct set *s, int depth)
{
    if (depth > SET_DEPTH_MAX) return err_set(r->err, "%s: too many nested sets", r->where);
    const char *start = r->at;
    while (r->at < r->end) {
        char c = *r->at++;
        if (c == ']' && r->at - 1 > start) return 0;
        if (c == '\\') {
            rewrite_escape(r, s);
        } else if (c == '[') {
            // [:name:] or [:^name:]; else a set
            const char *close = *r->at == ':' ? strstr(r->at + 1, ":]") : NULL;
            const bool opposite = close && r->at[1] == '^';
            const char *name = r->at + 1 + opposite;
            const struct named *kind = close ? find_kind(name, (size_t)(close - name)) : NULL;
            if (kind) {
                rewrite_kind(r, s, kind->members, opposite);
                r->at = close + 2;
            } else if (rewrite_nested(r, s, depth) < 0) {
                return -1;
            }
        } else if (c == '&' && r->at < r->end && *r->at == '&') {
            // The right side extends to the closing bracket of the set.
            struct set right = { 0 };
            r->at++;
            const int status = rewrite_set(r, &right, depth + 1);
            if (status == 0) add_guard(s, &right);
            set_release(&right);
            return status;
        } else if (c == ']') {
            buf_puts(&s->items, "\\]");
        } else {
            buf_putc(&s->items, c);
        }
    }
    return err_set(r->err, "%s: the pattern ends inside [...]", r->where);
}

// Rewrites {n,m} after the atom at out[atom]; a "+" after it repeats the whole.
static void rewrite_interval(struct rewrite *r, size_t atom)
{
    const char *close = memchr(r->at, '}', (size_t)(r->end - r->at));
    size_t length = close ? (size_t)(close - r->at) : 0;
    if (!length || length > 16 || strspn(r->at, "0123456789,") != length) {
        buf_puts(&r->out, "\\{");
        return;
    }
    bool again = close + 1 < r->end && close[1] == '+';
    char *repeated = xstrndup(r->out.data + atom, r->out.length - atom);
    r->out.length = atom;
    buf_printf(&r->out, "%s%s{%s%.*s}%s", again ? "(?:" : "", repeated, *r->at == ',' ? "0" : "",
               (int)length, r->at, again ? ")+" : "");
    free(repeated);
    r->at = close + 1 + again;
}

// Copies up to and including the first `end` after `least` bytes; without an `end`, copies only
// those bytes.
static void rewrite_copy(struct rewrite *r, size_t least, char end)
{
    const size_t left = (size_t)(r->end - r->at);
    const char *close = end && least < left ? memchr(r->at + least, end, left - least) : NULL;
    const size_t n = close ? (size_t)(close - r->at) + 1 : least < left ? least : left;
    buf_add(&r->out, r->at, n);
    r->at += n;
}

// Adds a callout if a parenthesis begins a group; `at` is after the parenthesis and its options.
static void rewrite_group(struct rewrite *r)
{
    static const struct {
        const char *mark;
        char end; // 0: the mark alone is copied
        bool group;
    } openings[] = {
        { "?:", 0, true },    { "?>", 0, true },    { "?|", 0, true },    { "?=", 0, true },
        { "?!", 0, true },    { "?<=", 0, true },   { "?<!", 0, true },   { "?<", '>', true },
        { "?P<", '>', true }, { "?'", '\'', true }, { "?#", ')', false }, // a comment
        { "?(?", 0, false },  { "?(", ')', false }, // a condition: an assertion, or a group's name
        { "?", 0, false },    { "*", 0, false },    // a call of a group; a verb
    };
    const char last = r->out.data[r->out.length - 1];
    if (last != '(' && last != ':') return; // options alone
    for (size_t i = 0; last == '(' && i < sizeof openings / sizeof *openings; i++) {
        const size_t n = strlen(openings[i].mark);
        if (strncmp(r->at, openings[i].mark, n) != 0) continue;
        const bool assertion = !strcmp(openings[i].mark, "?(?"); // which is a group by itself
        rewrite_copy(r, assertion ? 1 : n, openings[i].end);
        if (!openings[i].group) return;
        break;
    }
    buf_puts(&r->out, CALLOUT);
}

// Rewrites the whole pattern; tracks groups to know the atom before an interval.
static int rewrite_all(struct rewrite *r)
{
    size_t open[256], atom = 0;
    int depth = 0;
    bool repeated = false; // the last atom has a repeat
    buf_puts(&r->out, CALLOUT);
    while (r->at < r->end) {
        char c = *r->at++;
        size_t here = r->out.length;
        const bool interval = c == '{' && here > sizeof CALLOUT - 1;
        repeated |= interval || strchr("*+?", c);
        if (interval) {
            rewrite_interval(r, atom);
        } else if (c == '\\') {
            rewrite_escape(r, NULL);
        } else if (c == '[') {
            struct set s = { .negated = r->at < r->end && *r->at == '^' };
            r->at += s.negated;
            const int status = rewrite_set(r, &s, 0);
            if (status == 0) set_write(&s, &r->out);
            set_release(&s);
            if (status < 0) return -1;
        } else {
            buf_putc(&r->out, c);
            // (?imx-imx: or (?imx-imx)
            size_t n = c == '(' && *r->at == '?' ? 1 + strspn(r->at + 1, "imx-") : 0;
            if (n >= 2 && (r->at[n] == ':' || r->at[n] == ')'))
                for (; n > 0; n--, r->at++) buf_putc(&r->out, *r->at == 'm' ? 's' : *r->at);
            if (c == '(') rewrite_group(r);
        }
        if (c == '(' && depth < 256) open[depth++] = here;
        if (c == ')' && depth > 0) here = open[--depth];
        // Continuation bytes of a character, and repeats, belong to the previous atom.
        if (((uint8_t)c & 0xC0) != 0x80 && !interval && !strchr("*+?", c)) atom = here;
        // Adds a callout after a repeat once its end is known.
        if (!repeated || (r->at < r->end && strchr("*+?{", *r->at))) continue;
        buf_puts(&r->out, CALLOUT);
        repeated = false;
    }
    return 0;
}

int pattern_compile(struct pattern *p, const char *regex, const char *where, struct err *err)
{
    size_t length = strlen(regex);
    if (length > PATTERN_MAX)
        return err_set(err, "%s: the pattern is too long (%zu bytes)", where, length);
    struct rewrite r = { .at = regex, .end = regex + length, .where = where, .err = err };
    pcre2_compile_context *context = pcre2_compile_context_create(NULL);
    int status = context ? rewrite_all(&r) : err_set(err, "%s: out of memory", where);
    if (status == 0) {
        int code;
        PCRE2_SIZE place;
        pcre2_set_newline(context, PCRE2_NEWLINE_LF);
        p->code = pcre2_compile((PCRE2_SPTR)r.out.data, PCRE2_ZERO_TERMINATED,
                                PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C,
                                &code, &place, context);
        char why[128] = "";
        if (!p->code) pcre2_get_error_message(code, (PCRE2_UCHAR *)why, sizeof why);
        if (!p->code) status = err_set(err, "%s: invalid pattern: %s", where, why);
    }
    if (status == 0) pcre2_jit_compile(p->code, PCRE2_JIT_COMPLETE); // optional: only faster
    pcre2_compile_context_free(context);
    buf_release(&r.out);
    return status;
}

void pattern_literal(struct pattern *p, const char *text)
{
    p->literal = xstrdup(text);
    p->literal_length = strlen(text);
}

void pattern_release(struct pattern *p)
{
    pcre2_code_free(p->code);
    free(p->literal);
    *p = (struct pattern){ 0 };
}

// Reads the thread's CPU time, which excludes the time when the machine is busy with other work or
// asleep.
double search_clock(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

// A sane pattern reads megabytes per second, and its replacements are short; the limits are far
// above that.
void search_start(struct search *s, size_t text_length)
{
    s->seconds = 2 + (double)text_length / 2e5;
    s->most = text_length < TEXT_MAX / 64 ? 64 * text_length + (64 << 10) : TEXT_MAX;
}

// Counts work in units of about a nanosecond; true if the search must stop.
static bool search_late(struct search *s, size_t work)
{
    enum { LOOK = 1 << 16 };
    if ((s->work += work) < LOOK || s->late) return s->late;
    s->work = 0;
    // Short searches never get here: reading the clock costs more than such a search.
    const double now = search_clock();
    if (s->began == 0) s->began = now;
    const double taken = now - s->began;
    s->late = taken > s->seconds || (taken > 0.1 && cancel_requested());
    return s->late;
}

static int on_callout(pcre2_callout_block *b, void *search)
{
    struct search *s = search;
    const size_t at = b->current_position, last = s->last;
    s->last = at;
    // A failed look-ahead or back reference may have scanned far and backtracked.
    const size_t work = 16 + b->subject_length / 16384 + (at > last ? at - last : last - at);
    return search_late(s, work) ? PCRE2_ERROR_CALLOUT : 0;
}

void search_release(struct search *s)
{
    pcre2_match_data_free(s->match);
    pcre2_match_context_free(s->context);
    pcre2_jit_stack_free(s->stack);
    *s = (struct search){ 0 };
}

static int match(struct search *s, const pcre2_code *code, const char *text, size_t length,
                 size_t from)
{
    int rc =
        pcre2_match(code, (PCRE2_SPTR)text, length, from, PCRE2_NO_UTF_CHECK, s->match, s->context);
    if (rc != PCRE2_ERROR_JIT_STACKLIMIT) return rc;
    if (!s->stack) {
        s->stack = pcre2_jit_stack_create(1 << 16, STACK_LIMIT, NULL);
        pcre2_jit_stack_assign(s->context, NULL, s->stack);
        rc = pcre2_match(code, (PCRE2_SPTR)text, length, from, PCRE2_NO_UTF_CHECK, s->match,
                         s->context);
        if (rc != PCRE2_ERROR_JIT_STACKLIMIT) return rc;
    }
    return pcre2_match(code, (PCRE2_SPTR)text, length, from, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT,
                       s->match, s->context);
}

int search_next(struct search *s, const struct pattern *p, const char *text, size_t length,
                size_t from, size_t *start, size_t *end, struct err *err)
{
    if (search_late(s, 64))
        return err_set(err, cancel_requested()
                                ? "cancelled"
                                : "the tokenizer's patterns take too long on this text");
    if (!p->code) {
        const char *found = p->literal_length
                                ? memmem(text + from, length - from, p->literal, p->literal_length)
                                : NULL;
        *start = found ? (size_t)(found - text) : 0;
        *end = *start + p->literal_length;
        return found != NULL;
    }
    if (!s->match) {
        s->match = pcre2_match_data_create(1, NULL);
        s->context = pcre2_match_context_create(NULL);
        if (!s->match || !s->context)
            return err_set(err, "out of memory for the tokenizer's patterns");
        pcre2_set_match_limit(s->context, MATCH_LIMIT);
        pcre2_set_heap_limit(s->context, HEAP_LIMIT);
        pcre2_set_callout(s->context, on_callout, s);
    }
    int rc = match(s, p->code, text, length, from);
    if (rc == PCRE2_ERROR_NOMATCH) return 0;
    if (rc == PCRE2_ERROR_CALLOUT && cancel_requested()) return err_set(err, "cancelled");
    if (rc < 0) {
        char why[128] = "it takes too long";
        if (rc != PCRE2_ERROR_CALLOUT) pcre2_get_error_message(rc, (PCRE2_UCHAR *)why, sizeof why);
        return err_set(err, "a pattern of the tokenizer fails on this text (byte %zu of %zu): %s",
                       from, length, why);
    }
    const PCRE2_SIZE *place = pcre2_get_ovector_pointer(s->match);
    *start = place[0];
    *end = place[1];
    if (*start < from || *end < *start || *end > length)
        return err_set(err, "a pattern of the tokenizer matches backwards");
    return 1;
}

int normal_limit(const struct search *s, const struct buf *out, struct err *err)
{
    if (out->length <= s->most) return 0;
    return err_set(err,
                   "the tokenizer's replacements make this text longer than %zu bytes: its file "
                   "must be wrong",
                   s->most);
}

int replace_all(struct search *s, const struct pattern *p, const char *content, const char *text,
                size_t length, struct buf *out, struct err *err)
{
    size_t done = 0, from = 0, start = 0, end = 0;
    while (from <= length) {
        int found = search_next(s, p, text, length, from, &start, &end, err);
        if (found < 0) return -1;
        if (!found) break;
        buf_add(out, text + done, start - done);
        buf_puts(out, content);
        if (normal_limit(s, out, err) < 0) return -1;
        done = end;
        int32_t c;
        from =
            end > start ? end : end + (end < length ? utf8_next(text + end, length - end, &c) : 1);
    }
    buf_add(out, text + done, length - done);
    return 0;
}
