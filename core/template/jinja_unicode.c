// core/template/jinja_unicode.c -- characters as in Python's str: white space, upper and lower
// case, letters and digits.
#include <string.h>
#include <utf8proc.h>

#include "core/base/utf8.h"
#include "core/template/jinja_parts.h"

size_t jinja_space_start(const char *text, size_t length)
{
    size_t n;
    return length && python_is_space(jinja_char_at(text, length, &n)) ? n : 0;
}

size_t jinja_space_end(const char *text, size_t length)
{
    for (size_t n = 1; n <= 3 && n <= length; n++)
        if (jinja_space_start(text + length - n, n) == n) return n;
    return 0;
}

static size_t break_at(const char *text, size_t left)
{
    const unsigned char c = (unsigned char)*text;
    if (c == '\r') return left > 1 && text[1] == '\n' ? 2 : 1;
    if ((c >= '\n' && c <= '\f') || (c >= 0x1C && c <= 0x1E)) return 1;
    if (left > 1 && !memcmp(text, "\xC2\x85", 2)) return 2;
    if (left > 2 && (!memcmp(text, "\xE2\x80\xA8", 3) || !memcmp(text, "\xE2\x80\xA9", 3)))
        return 3;
    return 0;
}

size_t jinja_line_end(const struct jinja_string *s, size_t at, size_t *next)
{
    size_t n = 0;
    while (at < s->length && !(n = break_at(s->bytes + at, s->length - at))) at++;
    *next = at + n;
    return at;
}

int32_t jinja_char_at(const char *text, size_t left, size_t *length)
{
    int32_t c;
    if (!((unsigned char)*text & 0x80)) {
        *length = 1;
        return (unsigned char)*text;
    }
    *length = utf8_next(text, left, &c);
    return c;
}

size_t jinja_char_length(const char *text, size_t left)
{
    size_t n;
    jinja_char_at(text, left, &n);
    return n;
}

size_t jinja_char_put(char *bytes, int32_t c)
{
    utf8proc_ssize_t n = utf8proc_encode_char(c, (utf8proc_uint8_t *)bytes);
    return n > 0 ? (size_t)n : 0;
}

static bool is_letter(utf8proc_category_t k)
{
    return k >= UTF8PROC_CATEGORY_LU && k <= UTF8PROC_CATEGORY_LO;
}

bool jinja_char_is_name(int32_t c, bool first)
{
    if (c < 0) return false;
    const utf8proc_category_t k = utf8proc_category(c);
    if (c == '_' || is_letter(k) || k == UTF8PROC_CATEGORY_NL) return true;
    return !first && (k == UTF8PROC_CATEGORY_ND || k == UTF8PROC_CATEGORY_MN ||
                      k == UTF8PROC_CATEGORY_MC || k == UTF8PROC_CATEGORY_PC);
}

bool jinja_char_printable(int32_t c)
{
    if (c == ' ') return true;
    if (c < 0) return false;
    const utf8proc_category_t k = utf8proc_category(c);
    return k != UTF8PROC_CATEGORY_CN && k < UTF8PROC_CATEGORY_ZS;
}

static bool is_cased(int32_t c)
{
    if (c < 0) return false;
    const utf8proc_category_t k = utf8proc_category(c);
    return k == UTF8PROC_CATEGORY_LU || k == UTF8PROC_CATEGORY_LL || c == 0xAA || c == 0xBA ||
           (utf8proc_tolower(c) != c) != (utf8proc_toupper(c) != c);
}

static void put_upper(struct builder *b, const struct jinja_string *s, size_t at, int32_t c,
                      bool title)
{
    // Only these letters become several, although Python expands more.
    if (c == 0xDF)
        jinja_put_derived(b, title ? "Ss" : "SS", 2, s, at);
    else if (c == 0xFB01 || c == 0xFB02)
        jinja_put_derived(b, c == 0xFB01 ? title ? "Fi" : "FI" : title ? "Fl" : "FL", 2, s, at);
    else if (c == 0xFB00)
        jinja_put_derived(b, title ? "Ff" : "FF", 2, s, at);
    else
        jinja_put_character(b, title ? utf8proc_totitle(c) : utf8proc_toupper(c), s, at);
}

// True if the sigma at `at` follows a letter and no letter follows it.
static bool final_sigma(const struct jinja_string *s, size_t at, bool letter_before)
{
    size_t n;
    if (!letter_before) return false;
    if (at + 2 >= s->length) return true;
    const int32_t c = jinja_char_at(s->bytes + at + 2, s->length - at - 2, &n);
    return c < 0 || !is_letter(utf8proc_category(c));
}

static void put_lower(struct builder *b, const struct jinja_string *s, size_t at, int32_t c,
                      bool letter_before)
{
    if (c == 0x130)
        jinja_put_derived(b, "i\xCC\x87", 3, s, at);
    else
        jinja_put_character(
            b, c == 0x3A3 && final_sigma(s, at, letter_before) ? 0x3C2 : utf8proc_tolower(c), s,
            at);
}

// True if the filter `title` starts a new word after this character.
static bool is_word_separator(const char *text, size_t length)
{
    return jinja_space_start(text, length) || strchr("-({[<", *text) != NULL;
}

struct jinja_value jinja_string_case(struct jinja_run *r, const struct jinja_string *s,
                                     enum letter_case how)
{
    struct builder b = { .r = r };
    bool begins = true, letter = false; // at the start of a word; after a letter
    for (size_t i = 0, n; i < s->length && jinja_step(r, 1); i += n) {
        const int32_t c = jinja_char_at(s->bytes + i, s->length - i, &n);
        if (c < 0) {
            jinja_put_piece(&b, s, i, i + n);
        } else if (how == CASE_TITLE_WORDS && is_word_separator(s->bytes + i, n) && s->bytes[i]) {
            jinja_put_piece(&b, s, i, i + n);
            begins = true;
            letter = false;
            continue;
        } else if (how == CASE_UPPER) {
            put_upper(&b, s, i, c, false);
        } else if (how == CASE_LOWER || !begins) {
            put_lower(&b, s, i, c, letter);
        } else {
            put_upper(&b, s, i, c, how != CASE_TITLE_WORDS);
        }
        letter = is_cased(c);
        begins = how == CASE_TITLE && !letter;
    }
    return jinja_builder_value(&b);
}
