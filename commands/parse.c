// commands/parse.c -- splits a line into arguments: spaces, quotes (with JSON escapes in double
// ones), variables, """. Also reads lists of token ids.
//
// Variables are replaced while the line is read, character by character, so that their values are
// never read as separators, quotes or commands.
#include "commands/parse.h"

#include <ctype.h>
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "commands/command.h"
#include "core/base/mem.h"

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

const char *skip_blanks(const char *text)
{
    while (is_blank(*text)) text++;
    return text;
}

const char *name_end(const char *text)
{
    while (*text && !is_blank(*text)) text++;
    return text;
}

void words_release(struct words *w)
{
    for (int i = 0; i < w->count; i++) free(w->list[i]);
    free(w->list);
    *w = (struct words){ 0 };
}

char *words_join(int count, char *const *words)
{
    struct buf b = { 0 };
    for (int i = 0; i < count; i++) buf_printf(&b, "%s%s", i ? " " : "", words[i]);
    return b.data ? buf_take(&b) : xstrdup("");
}

// Adds the finished word, or drops it if reading it failed.
static int words_take(struct words *w, struct buf *word, int status)
{
    if (status == 0) {
        w->list = xgrow(w->list, &w->capacity, w->count, sizeof *w->list);
        w->list[w->count++] = buf_take(word);
    }
    buf_release(word);
    return status;
}

bool parse_is_name(const char *text, size_t length)
{
    for (size_t i = 0; i < length; i++)
        if (!isalnum((unsigned char)text[i]) && text[i] != '_') return false;
    return length && !isdigit((unsigned char)*text);
}

// *p is at "${": appends the value and moves *p past "}". "${NAME:-VALUE}" defaults to VALUE.
static int add_variable(struct buf *to, const char **p, const struct shell *shell, struct err *err)
{
    const char *name = *p + 2, *end = name;
    while (isalnum((unsigned char)*end) || *end == '_') end++;
    const char *other = !strncmp(end, ":-", 2) ? end + 2 : NULL;
    const char *close = other ? strchr(other, '}') : *end == '}' ? end : NULL;
    if (!close || !parse_is_name(name, (size_t)(end - name)))
        return err_set(err, "'${' needs a name and a closing '}'; write $${ for a literal ${");
    char *copy = xstrndup(name, (size_t)(end - name));
    const char *value = NULL;
    for (size_t i = 0; i < shell->variable_count && !value; i++)
        if (!strcmp(shell->variables[i].name, copy)) {
            shell->variables[i].used = true;
            value = shell->variables[i].value;
        }
    if (!value) value = getenv(copy);
    if (value)
        buf_puts(to, value);
    else if (other)
        buf_add(to, other, (size_t)(close - other));
    else
        err_set(err,
                "unknown variable '%s': set it with -D %s=VALUE or in the environment, or write "
                "$${%s} for a literal ${",
                copy, copy, copy);
    free(copy);
    *p = close + 1;
    return value || other ? 0 : -1;
}

// Appends the character at *p (or a variable's value, or "${" for "$${") and advances *p.
static int add_next(struct buf *to, const char **p, const struct shell *shell, struct err *err)
{
    if (!strncmp(*p, "${", 2)) return add_variable(to, p, shell, err);
    if (!strncmp(*p, "$${", 3)) ++*p;
    const size_t length = !strncmp(*p, "${", 2) ? 2 : 1;
    buf_add(to, *p, length);
    *p += length;
    return 0;
}

// --- quoted strings ------------------------------------------------------------------------------

static int hex4(const char *p, uint32_t *value)
{
    *value = 0;
    for (int i = 0; i < 4; i++) {
        if (!isxdigit((unsigned char)p[i])) return -1;
        const int c = tolower((unsigned char)p[i]);
        *value = *value * 16 + (uint32_t)(c <= '9' ? c - '0' : c - 'a' + 10);
    }
    return 0;
}

static void add_utf8(struct buf *to, uint32_t c)
{
    if (c < 0x80) {
        buf_putc(to, (char)c);
        return;
    }
    const int more = c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
    static const unsigned char lead[] = { 0, 0xc0, 0xe0, 0xf0 };
    buf_putc(to, (char)(lead[more] | c >> (6 * more)));
    for (int i = more - 1; i >= 0; i--) buf_putc(to, (char)(0x80 | (c >> (6 * i) & 0x3f)));
}

// *p is after "\u": appends one character, for which two escapes may form a surrogate pair, and
// moves *p past it.
static int add_unicode(struct buf *to, const char **p, struct err *err)
{
    uint32_t c, low;
    if (hex4(*p, &c) < 0) return err_set(err, "\\u needs four hexadecimal digits");
    *p += 4;
    if (c >= 0xd800 && c < 0xdc00 && (*p)[0] == '\\' && (*p)[1] == 'u' && hex4(*p + 2, &low) == 0 &&
        low >= 0xdc00 && low < 0xe000) {
        c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
        *p += 6;
    }
    if (c >= 0xd800 && c < 0xe000)
        return err_set(err, "\\u%04x is half of a surrogate pair: the other half is missing",
                       (unsigned)c);
    if (!c) return err_set(err, "\\u0000 is not allowed in a line");
    add_utf8(to, c);
    return 0;
}

// *p is at a backslash: appends the escaped character and moves *p past the escape.
static int add_escape(struct buf *to, const char **p, struct err *err)
{
    static const char from[] = "\"\\/bfnrt", into[] = "\"\\/\b\f\n\r\t";
    const char c = (*p)[1];
    if (!c) return err_set(err, "the closing quote is missing");
    *p += 2;
    if (c == 'u') return add_unicode(to, p, err);
    const char *found = strchr(from, c);
    if (!found)
        return err_set(err,
                       "unknown escape '\\%c': in double quotes write \\\\ for a backslash, \\\" "
                       "for a quote, \\n for a newline",
                       c);
    buf_putc(to, into[found - from]);
    return 0;
}

// *p is at the opening quote: appends the string's content and moves *p past the closing quote.
static int add_quoted(struct buf *to, const char **p, const struct shell *shell, struct err *err)
{
    ++*p;
    while (**p != '"') {
        if (!**p) return err_set(err, "the closing quote is missing");
        if ((**p == '\\' ? add_escape(to, p, err) : add_next(to, p, shell, err)) < 0) return -1;
    }
    ++*p;
    return 0;
}

// Returns whether the whole text is one quoted string.
static bool one_quoted(const char *text)
{
    if (*text++ != '"') return false;
    for (; *text && *text != '"'; text++)
        if (*text == '\\' && text[1]) text++;
    return *text == '"' && !*skip_blanks(text + 1);
}

// --- text between """ ----------------------------------------------------------------------------

const char *triple_start(const char *line)
{
    const char *p = skip_blanks(line);
    if (p[0] == '/' && p[1] != '/') p = skip_blanks(name_end(p));
    return !strncmp(p, "\"\"\"", 3) ? p + 3 : NULL;
}

bool triple_closed(const char *text, size_t length)
{
    while (length && is_blank(text[length - 1])) length--;
    return length >= 3 && !memcmp(text + length - 3, "\"\"\"", 3);
}

// `text` follows the opening """. Drops one newline after the opening mark and one before the
// closing mark.
static int triple_parse(struct words *w, const char *text, const struct shell *shell,
                        struct err *err)
{
    size_t length = strlen(text);
    if (!triple_closed(text, length)) return err_set(err, "the closing \"\"\" is missing");
    while (is_blank(text[length - 1])) length--;
    length -= 3;
    if (length && text[0] == '\n') text++, length--;
    if (length && text[length - 1] == '\n') length--;
    char *body = xstrndup(text, length);
    const int status = text_parse(w, body, shell, err);
    free(body);
    return status;
}

// --- interface -----------------------------------------------------------------------------------

int text_parse(struct words *w, const char *text, const struct shell *shell, struct err *err)
{
    struct buf word = { 0 };
    int status = 0;
    for (const char *p = text; *p && status == 0;) status = add_next(&word, &p, shell, err);
    return words_take(w, &word, status);
}

int rest_parse(struct words *w, const char *text, const struct shell *shell, struct err *err)
{
    const char *p = skip_blanks(text);
    if (!*p) return 0;
    if (!strncmp(p, "\"\"\"", 3)) return triple_parse(w, p + 3, shell, err);
    if (!one_quoted(p)) return text_parse(w, p, shell, err);
    struct buf word = { 0 };
    return words_take(w, &word, add_quoted(&word, &p, shell, err));
}

const char *single_close(const char *p)
{
    const char *close = strchr(p + 1, '\'');
    while (close && close[1] && !is_blank(close[1])) close = strchr(close + 1, '\'');
    return close;
}

// Returns whether quotes at `p` enclose, in an argument that begins at `start`: at its start, and
// after "NAME=". In a line that may end in a question, single quotes and those after "=" enclose
// only the first argument and values of options ("--out 'FILE'", "--out='FILE'"): a question may
// contain any of them.
static bool encloses(const struct words *w, const char *start, const char *p, bool question)
{
    if (p > start) {
        const bool named = p - start > 1 && memchr(start, '=', (size_t)(p - start)) == p - 1;
        return named && (!question || !w->count || !strncmp(start, "--", 2));
    }
    if (*p == '"' || !question || !w->count) return true;
    const char *before = w->list[w->count - 1];
    return !strncmp(before, "--", 2) && before[2] && !strchr(before, '=');
}

// Appends the text up to the closing quote, and moves *p from the opening quote past the closing
// one.
static int add_single(struct buf *to, const char **p, const char *close, const struct shell *shell,
                      struct err *err)
{
    ++*p;
    while (*p < close)
        if (add_next(to, p, shell, err) < 0) return -1;
    *p += *p == close; // not if a variable's default has the closing quote
    return 0;
}

// Appends an argument, which ends at white space (but not at "\ ") or at a closing quote, and moves
// *p past it. w: the words before it.
static int add_word(struct buf *to, const char **p, const struct words *w, bool question,
                    const struct shell *shell, struct err *err)
{
    const char *start = *p, *home = !strncmp(*p, "~/", 2) ? getenv("HOME") : NULL;
    if (home) {
        buf_puts(to, home);
        ++*p;
    }
    while (**p && !is_blank(**p)) {
        const bool quote = strchr("\"'", **p) && encloses(w, start, *p, question);
        const char *close = quote && **p == '\'' ? single_close(*p) : NULL;
        if (quote && **p == '"') {
            if (add_quoted(to, p, shell, err) < 0) return -1;
            if (!**p || is_blank(**p)) return 0;
            return err_set(err, "a space is missing after the closing quote (before '%.20s')", *p);
        }
        if (close && add_single(to, p, close, shell, err) < 0) return -1;
        if (close) continue;
        if ((*p)[0] == '\\' && (*p)[1] == ' ') ++*p;
        if (add_next(to, p, shell, err) < 0) return -1;
    }
    return 0;
}

int words_parse(struct words *w, const char *text, bool question, const struct shell *shell,
                struct err *err)
{
    const char *p = skip_blanks(text);
    if (!strncmp(p, "\"\"\"", 3)) return triple_parse(w, p + 3, shell, err);
    for (; *p; p = skip_blanks(p)) {
        struct buf word = { 0 };
        const int status = add_word(&word, &p, w, question, shell, err);
        if (words_take(w, &word, status) < 0) return -1;
    }
    return 0;
}

// --- token ids -----------------------------------------------------------------------------------

static const char between[] = " \t\r\n,[]";

static int read_list(struct ids *ids, const char *text, int64_t limit, struct err *err)
{
    for (const char *p = text + strspn(text, between); *p; p += strspn(p, between)) {
        char *end;
        errno = 0;
        const long long id = strtoll(p, &end, 10);
        if (!isdigit((unsigned char)*p) || (*end && !strchr(between, *end)))
            return err_set(err, "'%.*s' is not a token id", (int)strcspn(p, between), p);
        if (errno || id >= limit)
            return err_set(err, "token id %.*s is not in the vocabulary (0 to %lld)",
                           (int)(end - p), p, (long long)limit - 1);
        ids_add(ids, (int32_t)id);
        p = end;
    }
    return 0;
}

int token_ids_read(struct ids *ids, int argc, char **argv, int64_t limit, struct err *err)
{
    for (int i = 0; i < argc; i++)
        if (read_list(ids, argv[i], limit, err) < 0) return -1;
    return 0;
}
