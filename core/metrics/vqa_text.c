// core/metrics/vqa_text.c -- clean-up of short answers as the VQA evaluation does it.
#include "core/metrics/vqa_text.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/metrics/python.h"

enum { MOST_STOPS = 32 };

// --- punctuation ---------------------------------------------------------------------------------

static bool digit_at(const char *p)
{
    size_t length;
    return *p && python_is_digit(python_char(p, &length));
}

// The character that ends before p.
static bool digit_before(const char *text, const char *p)
{
    if (p == text) return false;
    do p--;
    while (p > text && ((unsigned char)*p & 0xC0) == 0x80);
    return digit_at(p);
}

static bool comma_in_number(const char *text, bool many)
{
    for (const char *p = text; (p = strchr(p, ',')); p++) {
        const char *after = p + (many ? strspn(p, ",") : 1);
        if (digit_before(text, p) && digit_at(after)) return true;
    }
    return false;
}

static bool beside_blank(const char *text, char mark)
{
    for (const char *p = text; (p = strchr(p, mark)); p++)
        if (p[1] == ' ' || (p > text && p[-1] == ' ')) return true;
    return false;
}

static char *drop_stops(const char *text, bool keep_after_digit)
{
    struct buf b = { 0 };
    int dropped = 0;
    for (const char *p = text; *p; p++) {
        const bool stop = *p == '.' && !digit_at(p + 1) &&
                          !(keep_after_digit && digit_before(text, p)) && dropped < MOST_STOPS;
        if (stop)
            dropped++;
        else
            buf_putc(&b, *p);
    }
    return buf_take(&b);
}

char *vqa_text_punctuation(const char *text, struct vqa_text_rule rule)
{
    static const char marks[] = ";/[]\"{}()=+\\_-><@`,?!";
    const bool number = comma_in_number(text, rule.many_commas);
    struct buf b = { 0 };
    bool drop[sizeof marks];
    for (size_t i = 0; marks[i]; i++) drop[i] = number || beside_blank(text, marks[i]);
    for (const char *p = text; *p; p++) {
        const char *mark = strchr(marks, *p);
        if (!mark)
            buf_putc(&b, *p);
        else if (!drop[mark - marks])
            buf_putc(&b, ' ');
    }
    char *without = buf_take(&b), *result = drop_stops(without, rule.keep_after_digit);
    free(without);
    return result;
}

// --- words ---------------------------------------------------------------------------------------

// Contractions whose apostrophes people leave out: "arent" becomes "aren't". As in the evaluation's
// table, "somebody'd" is the odd one out that loses it.
static const char *const contractions[] = {
    "ain't",       "aren't",       "can't",      "could've",  "couldn't",   "didn't",
    "doesn't",     "don't",        "hadn't",     "hasn't",    "haven't",    "he'd",
    "he's",        "how'd",        "how'll",     "how's",     "isn't",      "it'd",
    "it'll",       "ma'am",        "mightn't",   "might've",  "mustn't",    "must've",
    "needn't",     "not've",       "o'clock",    "oughtn't",  "shan't",     "should've",
    "shouldn't",   "somebody'll",  "somebody's", "someone'd", "someone'll", "someone's",
    "something'd", "something'll", "that's",     "there'd",   "there're",   "there's",
    "they'd",      "they'll",      "they're",    "they've",   "'twas",      "wasn't",
    "we've",       "weren't",      "what'll",    "what're",   "what's",     "what've",
    "when's",      "where'd",      "where's",    "where've",  "who'd",      "who'll",
    "who's",       "who've",       "why'll",     "why're",    "why's",      "won't",
    "would've",    "wouldn't",     "y'all",      "you'd",     "you'll",     "you're",
    "you've",
};

// Those that lose one of several, and what they become.
static const char *const doubles[][2] = {
    { "couldn'tve", "couldn't've" },
    { "couldnt've", "couldn't've" },
    { "hadnt've", "hadn't've" },
    { "hadn'tve", "hadn't've" },
    { "hed've", "he'd've" },
    { "he'dve", "he'd've" },
    { "itd've", "it'd've" },
    { "it'dve", "it'd've" },
    { "mightnt've", "mightn't've" },
    { "mightn'tve", "mightn't've" },
    { "ow's'at", "'ow's'at" },
    { "'ows'at", "'ow's'at" },
    { "'ow'sat", "'ow's'at" },
    { "shed've", "she'd've" },
    { "she'dve", "she'd've" },
    { "shouldnt've", "shouldn't've" },
    { "shouldn'tve", "shouldn't've" },
    { "somebody'd", "somebodyd" },
    { "somebodyd've", "somebody'd've" },
    { "somebody'dve", "somebody'd've" },
    { "someoned've", "someone'd've" },
    { "someone'dve", "someone'd've" },
    { "somethingd've", "something'd've" },
    { "something'dve", "something'd've" },
    { "thered've", "there'd've" },
    { "there'dve", "there'd've" },
    { "theyd've", "they'd've" },
    { "they'dve", "they'd've" },
    { "wed've", "we'd've" },
    { "we'dve", "we'd've" },
    { "whod've", "who'd've" },
    { "who'dve", "who'd've" },
    { "wouldnt've", "wouldn't've" },
    { "wouldn'tve", "wouldn't've" },
    { "yall'll", "y'all'll" },
    { "y'allll", "y'all'll" },
    { "yall'd've", "y'all'd've" },
    { "y'alld've", "y'all'd've" },
    { "y'all'dve", "y'all'd've" },
    { "youd've", "you'd've" },
    { "you'dve", "you'd've" },
};

static const char *const numbers[] = { "zero", "one",   "two",   "three", "four", "five",
                                       "six",  "seven", "eight", "nine",  "ten" };

// Is the word the contraction without its apostrophes?
static bool is_bare(const char *word, const char *contraction)
{
    for (; *contraction; contraction++) {
        if (*contraction == '\'') continue;
        if (*word++ != *contraction) return false;
    }
    return !*word;
}

static void put_word(struct buf *b, const char *word)
{
    for (size_t i = 0; i < sizeof doubles / sizeof *doubles; i++) {
        if (strcmp(doubles[i][0], word) != 0) continue;
        buf_puts(b, doubles[i][1]);
        return;
    }
    for (size_t i = 0; i < sizeof contractions / sizeof *contractions; i++) {
        if (!is_bare(word, contractions[i])) continue;
        buf_puts(b, contractions[i]);
        return;
    }
    if (!strcmp(word, "none")) word = "0";
    for (int i = 0; i <= 10; i++) {
        if (strcmp(numbers[i], word) != 0) continue;
        buf_printf(b, "%d", i);
        return;
    }
    buf_puts(b, word);
}

char *vqa_text_digits_articles(const char *text)
{
    char *lower = python_lower(text), *words = python_words(lower), *rest = words;
    struct buf b = { 0 };
    for (char *word; (word = strsep(&rest, " "));) {
        if (!*word || !strcmp(word, "a") || !strcmp(word, "an") || !strcmp(word, "the")) continue;
        if (b.length) buf_putc(&b, ' ');
        put_word(&b, word);
    }
    free(words);
    free(lower);
    return buf_take(&b);
}

// --- whole clean-ups -----------------------------------------------------------------------------

static char *replace_in(char *text, const char *from, const char *to)
{
    char *result = python_replace(text, from, to);
    free(text);
    return result;
}

char *vqa_text_line(const char *text)
{
    return python_strip_in(replace_in(python_replace(text, "\n", " "), "\t", " "));
}

char *vqa_text_evalai(const char *text)
{
    char *words = python_lower(text);
    words = replace_in(replace_in(words, ",", ""), "?", "");
    words = python_strip_in(replace_in(words, "'s", " 's"));
    char *line = vqa_text_line(words);
    char *marks_out = vqa_text_punctuation(line, (struct vqa_text_rule){ .many_commas = true });
    char *result = vqa_text_digits_articles(marks_out);
    free(marks_out);
    free(line);
    free(words);
    return result;
}
