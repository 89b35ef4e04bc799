// core/template/jinja_lex.c -- template to tokens. Drops white space as Jinja2 does with
// trim_blocks and lstrip_blocks on: the line break after a block, and blanks before a block at the
// start of its line; '-' drops all, '+' nothing.
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/utf8.h"
#include "core/template/jinja_parts.h"

struct lexer {
    struct jinja_arena *arena;
    struct jinja_tokens *tokens;
    const char *text;
    size_t length, at;
    int line;
    bool line_begins;           // the preceding text ended with a line break
    bool print;                 // inside {{ }}, not {% %}
    int brackets;               // open brackets; a tag cannot end inside them
    struct jinja_token dropped; // once the budget is spent
    struct err *err;
};

static int fail(const struct lexer *l, const char *why)
{
    return err_set(l->err, "line %d: %s", l->line, why);
}

static struct jinja_token *add(struct lexer *l, enum jinja_token_kind kind)
{
    struct jinja_tokens *t = l->tokens;
    void *list = jinja_grow(l->arena, t->list, t->count, &t->capacity, sizeof *t->list);
    if (!jinja_spend(l->arena, 1) || !list) return &l->dropped;
    t->list = list;
    t->list[t->count] = (struct jinja_token){ .kind = kind, .line = l->line };
    return &t->list[t->count++];
}

static void add_text(struct lexer *l, enum jinja_token_kind kind, const char *text, size_t length)
{
    struct jinja_token *t = add(l, kind);
    t->text = jinja_keep(l->arena, text, length);
    t->length = length;
}

static bool ahead(const struct lexer *l, size_t at, const char *word)
{
    const size_t n = strlen(word);
    return at <= l->length && l->length - at >= n && !memcmp(l->text + at, word, n);
}

static void move(struct lexer *l, size_t to)
{
    for (; l->at < to; l->at++) l->line += l->text[l->at] == '\n';
}

static size_t behind_space(const struct lexer *l, size_t at)
{
    size_t n;
    while (at < l->length && (n = jinja_space_start(l->text + at, l->length - at))) at += n;
    return at;
}

// --- between tags ------------------------------------------------------------------------------

// Adds the text before a tag with this sign ('-', '+' or 0), without the white space that the tag
// drops. `block`: drops blanks before a tag that starts its line too.
static void add_data(struct lexer *l, size_t start, size_t end, char sign, bool block)
{
    size_t n;
    if (sign == '-') {
        while (end > start && (n = jinja_space_end(l->text + start, end - start))) end -= n;
    } else if (sign != '+' && block) {
        size_t from = end;
        while (from > start && l->text[from - 1] != '\n') from--;
        if ((from > start || l->line_begins) && behind_space(l, from) >= end) end = from;
    }
    if (end > start) add_text(l, T_DATA, l->text + start, end - start);
}

// Passes the end of a tag: `close`, after '-' or '+' if present.
static void pass_close(struct lexer *l, const char *close, bool trim)
{
    const char sign = l->text[l->at];
    size_t at = l->at + (sign == '-' || sign == '+') + strlen(close);
    if (sign == '-')
        at = behind_space(l, at);
    else if (sign != '+' && trim && ahead(l, at, "\n"))
        at++;
    move(l, at);
    l->line_begins = l->text[at - 1] == '\n';
}

static bool at_close(const struct lexer *l, const char *close, bool plus)
{
    return ahead(l, l->at, close) ||
           ((ahead(l, l->at, "-") || (plus && ahead(l, l->at, "+"))) && ahead(l, l->at + 1, close));
}

// `inside`: after its opening sign.
static int lex_comment(struct lexer *l, size_t inside)
{
    const char *end;
    move(l, inside);
    end = memmem(l->text + l->at, l->length - l->at, "#}", 2);
    if (!end) return fail(l, "a comment is not closed: '#}' is missing");
    size_t at = (size_t)(end - l->text);
    if (at > l->at && (end[-1] == '-' || end[-1] == '+')) at--;
    move(l, at);
    pass_close(l, "#}", true);
    return 0;
}

// After "{%" and its sign: the end of the word `name` if the block consists of it, else 0.
static size_t raw_word(const struct lexer *l, size_t at, const char *name)
{
    at = behind_space(l, at);
    if (!ahead(l, at, name)) return 0;
    at = behind_space(l, at + strlen(name));
    return ahead(l, at, "%}") || ahead(l, at, "-%}") || ahead(l, at, "+%}") ? at : 0;
}

// Lexes a raw block; `at`: before "%}" of its first tag.
static int lex_raw(struct lexer *l, size_t at)
{
    move(l, at);
    pass_close(l, "%}", false);
    const size_t start = l->at;
    for (size_t end = start; end + 1 < l->length; end++) {
        if (!ahead(l, end, "{%")) continue;
        const char sign = end + 2 < l->length ? l->text[end + 2] : '\0';
        const bool has_sign = sign == '-' || sign == '+';
        at = raw_word(l, end + 2 + has_sign, "endraw");
        if (!at) continue;
        add_data(l, start, end, has_sign ? sign : '\0', true);
        move(l, at);
        pass_close(l, "%}", true);
        return 0;
    }
    return fail(l, "a raw block is not closed: '{% endraw %}' is missing");
}

// --- inside tags -------------------------------------------------------------------------------

// Resolves escapes as in Python's strings; keeps escapes unknown to Python.
static int resolve(struct lexer *l, const char *text, size_t end, struct buf *out)
{
    static const char letters[] = "\\'\"abfnrtv", bytes[] = "\\'\"\a\b\f\n\r\t\v";
    for (size_t i = 0; i < end;) {
        const char c = text[i++];
        if (c != '\\' || i >= end) {
            buf_putc(out, c);
            continue;
        }
        const char e = text[i++], *found = e ? strchr(letters, e) : NULL;
        if (found) {
            buf_putc(out, bytes[found - letters]);
        } else if (e == 'x' || e == 'u') {
            char digits[5] = "", *stop = digits;
            const size_t n = e == 'x' ? 2 : 4;
            if (end - i >= n) memcpy(digits, text + i, n);
            const long code = isxdigit((unsigned char)*digits) ? strtol(digits, &stop, 16) : 0;
            if (stop != digits + n || (code >= 0xD800 && code < 0xE000))
                return fail(l, "an escape in a string is not a character");
            utf8_put(out, (int32_t)code);
            i += n;
        } else if (e == '\n' || e == 'N' || e == 'U' || (e >= '0' && e <= '7')) {
            return err_set(l->err, "line %d: the escape '\\%c' in a string is not known", l->line,
                           e);
        } else {
            buf_putc(out, '\\');
            buf_putc(out, e);
        }
    }
    return 0;
}

static int lex_string(struct lexer *l)
{
    const char quote = l->text[l->at];
    size_t end = l->at + 1;
    while (end < l->length && l->text[end] != quote) end += l->text[end] == '\\' ? 2 : 1;
    if (end >= l->length) return fail(l, "a string is not closed");
    struct buf out = { 0 };
    const int status = resolve(l, l->text + l->at + 1, end - l->at - 1, &out);
    if (status == 0) add_text(l, T_STRING, out.data ? out.data : "", out.length);
    buf_release(&out);
    move(l, end + 1);
    return status;
}

static bool digit_at(const struct lexer *l, size_t at)
{
    return at < l->length && l->text[at] >= '0' && l->text[at] <= '9';
}

// "12" or "1.5".
static int lex_number(struct lexer *l)
{
    size_t end = l->at;
    while (digit_at(l, end)) end++;
    const bool index = l->at > 0 && l->text[l->at - 1] == '.'; // x.1.2: two indices
    const bool real = !index && ahead(l, end, ".") && digit_at(l, end + 1);
    struct jinja_token *t = add(l, real ? T_REAL : T_INT);
    errno = 0;
    if (real) {
        for (end++; digit_at(l, end);) end++;
        char *digits = xstrndup(l->text + l->at, end - l->at);
        t->real = strtod(digits, NULL);
        free(digits);
    } else {
        t->integer = strtoll(l->text + l->at, NULL, 10);
    }
    move(l, end);
    return errno && !real ? fail(l, "a number is too large") : 0;
}

static int lex_name(struct lexer *l)
{
    size_t end = l->at, n;
    while (end < l->length &&
           jinja_char_is_name(jinja_char_at(l->text + end, l->length - end, &n), end == l->at))
        end += n;
    if (end == l->at) return fail(l, "an unknown character");
    if (end - l->at > JINJA_NAME) return fail(l, "a name is too long");
    add_text(l, T_NAME, l->text + l->at, end - l->at);
    move(l, end);
    return 0;
}

static int lex_sign(struct lexer *l)
{
    static const char *const signs[] = { "//", "==", "!=", ">=", "<=", "+", "-", "/",
                                         "*",  "%",  "~",  "[",  "]",  "(", ")", "{",
                                         "}",  ">",  "<",  "=",  ".",  ":", "|", "," };
    for (size_t i = 0; i < sizeof signs / sizeof *signs; i++) {
        if (!ahead(l, l->at, signs[i])) continue;
        if (strchr("[({", *signs[i])) l->brackets++;
        if (strchr("])}", *signs[i]) && l->brackets-- == 0)
            return fail(l, "a closing bracket has no opening bracket");
        add_text(l, T_SIGN, signs[i], strlen(signs[i]));
        move(l, l->at + strlen(signs[i]));
        return 0;
    }
    return lex_name(l);
}

// Lexes up to the end of a tag.
static int lex_tag(struct lexer *l)
{
    const char *close = l->print ? "}}" : "%}";
    for (;;) {
        move(l, behind_space(l, l->at));
        if (l->at >= l->length) return fail(l, l->print ? "'}}' is missing" : "'%}' is missing");
        const char c = l->text[l->at];
        int status;
        if (!l->brackets && at_close(l, close, !l->print)) {
            add(l, l->print ? T_PRINT_END : T_CLOSE);
            pass_close(l, close, !l->print);
            return 0;
        }
        if (c == '"' || c == '\'')
            status = lex_string(l);
        else if (digit_at(l, l->at))
            status = lex_number(l);
        else
            status = lex_sign(l);
        if (status < 0) return -1;
        if (l->arena->spent) return fail(l, l->arena->spent);
    }
}

// Lexes the text from l->at, then the tag at `at`.
static int lex_one(struct lexer *l, size_t at)
{
    const char kind = l->text[at + 1], next = at + 2 < l->length ? l->text[at + 2] : '\0';
    const char sign = next == '-' || next == '+' ? next : '\0';
    const size_t inside = at + 2 + (sign != '\0');
    add_data(l, l->at, at, sign, kind != '{');
    const size_t raw = kind == '%' ? raw_word(l, inside, "raw") : 0;
    if (raw && l->text[raw] != '+') return lex_raw(l, raw);
    move(l, at);
    if (kind == '#') return lex_comment(l, inside);
    l->print = kind == '{';
    l->brackets = 0;
    add(l, l->print ? T_PRINT : T_OPEN);
    move(l, inside);
    return lex_tag(l);
}

// Converts line breaks to \n; drops one at the end.
static void normalise(struct lexer *l, const char *text, size_t length)
{
    char *out = jinja_take(l->arena, length + 1);
    size_t n = 0;
    for (size_t i = 0; i < length; i++) {
        const bool both = text[i] == '\r' && i + 1 < length && text[i + 1] == '\n';
        if (both) continue;
        out[n++] = text[i] == '\r' ? '\n' : text[i];
    }
    if (n && out[n - 1] == '\n') n--;
    out[n] = '\0';
    l->text = out;
    l->length = n;
}

int jinja_lex(struct jinja_arena *arena, const char *text, size_t length,
              struct jinja_tokens *tokens, struct err *err)
{
    struct lexer l = {
        .arena = arena, .tokens = tokens, .line = 1, .line_begins = true, .err = err
    };
    normalise(&l, text, length);
    for (size_t i = 0; i + 1 < l.length;) {
        const bool tag = l.text[i] == '{' && strchr("{%#", l.text[i + 1]) && l.text[i + 1];
        if (!tag) {
            i++;
            continue;
        }
        if (lex_one(&l, i) < 0) return -1;
        if (arena->spent) return fail(&l, arena->spent);
        i = l.at;
    }
    add_data(&l, l.at, l.length, '\0', false);
    move(&l, l.length);
    add(&l, T_END);
    return arena->spent ? fail(&l, arena->spent) : 0;
}
