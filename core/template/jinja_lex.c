// core/template/jinja_lex.c -- template to tokens. Drops the white space that Jinja2 drops with
// trim_blocks and lstrip_blocks: the line break after a block or comment, and the spaces before one
// that starts its line; '-' in a tag drops all white space on its side of the tag.
#include <errno.h>
#include <stdlib.h>
#include <string.h>

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
    struct jinja_token dropped; // receives the tokens after the budget is spent
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

// Adds the text before a tag, without the white space at its end that the tag drops: all of it if
// `strips` ('-'), else the spaces before a `block` ({% or {#) that starts its line.
static void add_data(struct lexer *l, size_t start, size_t end, bool strips, bool block)
{
    size_t n;
    if (strips) {
        while (end > start && (n = jinja_space_end(l->text + start, end - start))) end -= n;
    } else if (block) {
        size_t from = end;
        while (from > start && l->text[from - 1] != '\n') from--;
        if ((from > start || l->line_begins) && behind_space(l, from) >= end) end = from;
    }
    if (end > start) add_text(l, T_DATA, l->text + start, end - start);
}

// Moves past the end of a tag: `close`, after '-' if present. `trim`: also past a line break.
static void pass_close(struct lexer *l, const char *close, bool trim)
{
    const bool strips = l->text[l->at] == '-';
    size_t at = l->at + strips + strlen(close);
    if (strips)
        at = behind_space(l, at);
    else if (trim && ahead(l, at, "\n"))
        at++;
    move(l, at);
    l->line_begins = l->text[at - 1] == '\n';
}

// Skips a comment; `inside`: the offset after "{#" or "{#-".
static int lex_comment(struct lexer *l, size_t inside)
{
    const char *end;
    move(l, inside);
    if (ahead(l, l->at, "+")) return fail(l, "'{#+' is not supported");
    end = memmem(l->text + l->at, l->length - l->at, "#}", 2);
    if (!end) return fail(l, "a comment is not closed: '#}' is missing");
    size_t at = (size_t)(end - l->text);
    if (at > l->at && end[-1] == '-') at--;
    move(l, at);
    if (at > inside && end[-1] == '+') return fail(l, "'+#}' is not supported");
    pass_close(l, "#}", true);
    return 0;
}

// --- inside tags -------------------------------------------------------------------------------

// Resolves escapes of quotes, backslashes, \n, \r and \t as in Python's strings; refuses Python's
// other escapes, and keeps escapes unknown to Python.
static int resolve(struct lexer *l, const char *text, size_t end, struct buf *out)
{
    static const char letters[] = "\\'\"nrt", bytes[] = "\\'\"\n\r\t";
    for (size_t i = 0; i < end;) {
        const char c = text[i++];
        if (c != '\\' || i >= end) {
            buf_putc(out, c);
            continue;
        }
        const char e = text[i++], *found = e ? strchr(letters, e) : NULL;
        if (e && strchr("\nabfvxuNU01234567", e))
            return err_set(l->err, "line %d: the escape '\\%c' in a string is not supported",
                           l->line, e);
        if (!found) buf_putc(out, '\\');
        buf_putc(out, found ? bytes[found - letters] : e);
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

static int lex_number(struct lexer *l)
{
    size_t end = l->at;
    while (digit_at(l, end)) end++;
    const bool index = l->at > 0 && l->text[l->at - 1] == '.'; // x.1.2: two indices
    if (!index && ahead(l, end, ".") && digit_at(l, end + 1))
        return fail(l, "numbers with a decimal point are not supported");
    errno = 0;
    add(l, T_INT)->integer = strtoll(l->text + l->at, NULL, 10);
    move(l, end);
    return errno ? fail(l, "a number is too large") : 0;
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
        if (!l->brackets &&
            (ahead(l, l->at, close) || (ahead(l, l->at, "-") && ahead(l, l->at + 1, close)))) {
            add(l, l->print ? T_PRINT_END : T_CLOSE);
            pass_close(l, close, !l->print);
            return 0;
        }
        if (ahead(l, l->at, "+%}")) return fail(l, "'+%}' is not supported");
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
    const char kind = l->text[at + 1];
    const bool strips = at + 2 < l->length && l->text[at + 2] == '-';
    const size_t inside = at + 2 + strips;
    add_data(l, l->at, at, strips, kind != '{');
    move(l, at);
    if (kind == '#') return lex_comment(l, inside);
    // The content of a raw block could be anything, so it must not be lexed.
    if (kind == '%' && ahead(l, behind_space(l, inside), "raw"))
        return fail(l, "the statement 'raw' is not supported");
    l->print = kind == '{';
    l->brackets = 0;
    add(l, l->print ? T_PRINT : T_OPEN);
    move(l, inside);
    return lex_tag(l);
}

// Converts line breaks to \n; drops a final one.
static void normalise(struct lexer *l, const char *text, size_t length)
{
    char *out = jinja_take(l->arena, length + 1);
    size_t n = 0;
    for (size_t i = 0; i < length; i++) {
        if (text[i] == '\r' && i + 1 < length && text[i + 1] == '\n') continue;
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
        if (l.text[i] != '{' || !l.text[i + 1] || !strchr("{%#", l.text[i + 1])) {
            i++;
            continue;
        }
        if (lex_one(&l, i) < 0) return -1;
        if (arena->spent) return fail(&l, arena->spent);
        i = l.at;
    }
    add_data(&l, l.at, l.length, false, false);
    move(&l, l.length);
    add(&l, T_END);
    return arena->spent ? fail(&l, arena->spent) : 0;
}
