// core/metrics/vqa.c -- compares short answers with those of ten people (VQAv2, TextVQA).
//
// Accuracy of an answer (Antol et al. 2015): the mean over the people of min(1, n / 3), where n
// counts the other people who gave the answer. The programs normalise texts differently before
// comparing: the official vqaEval.py (GT-Vision-Lab/VQA) changes only white space if all people
// agree; EvalAI's processor, which LLaVA and lmms-eval use for TextVQA, does more than lmms-eval
// for VQAv2; VLMEvalKit treats punctuation differently.
#include "core/metrics/vqa.h"

#include <stdlib.h>
#include <string.h>

#include "core/metrics/metric.h"
#include "core/metrics/python.h"
#include "core/metrics/words.h"

enum { MOST_STOPS = 32, PEOPLE = 5 };

// --- punctuation ---------------------------------------------------------------------------------

static bool digit_at(const char *p)
{
    size_t length;
    return *p && python_is_digit(python_char(p, &length));
}

static bool digit_before(const char *text, const char *p)
{
    return p > text && digit_at(python_before(text, p));
}

static bool comma_in_number(const char *text, bool many)
{
    for (const char *p = text; (p = strchr(p, ',')); p++) {
        if (!digit_before(text, p)) continue; // skips commas after a comma: a run is read once
        if (digit_at(p + (many ? strspn(p, ",") : 1))) return true;
    }
    return false;
}

static bool beside_blank(const char *text, char mark)
{
    for (const char *p = text; (p = strchr(p, mark)); p++)
        if (p[1] == ' ' || (p > text && p[-1] == ' ')) return true;
    return false;
}

char *vqa_drop_punctuation(struct scratch *s, const char *text, struct vqa_punctuation rule)
{
    static const char marks[] = ";/[]\"{}()=+\\_-><@`,?!";
    const bool number = comma_in_number(text, rule.many_commas);
    struct buf without = { 0 }, b = { 0 };
    bool drop[sizeof marks];
    int stops = 0;
    for (size_t i = 0; marks[i]; i++) drop[i] = number || beside_blank(text, marks[i]);
    for (const char *p = text; *p; p++) {
        const char *mark = strchr(marks, *p);
        if (!mark)
            buf_putc(&without, *p);
        else if (!drop[mark - marks])
            buf_putc(&without, ' ');
    }
    text = scratch_take(s, &without);
    for (const char *p = text; *p; p++) {
        const bool keep = *p != '.' || digit_at(p + 1) || stops == MOST_STOPS ||
                          (rule.keep_after_digit && digit_before(text, p));
        if (keep)
            buf_putc(&b, *p);
        else
            stops++;
    }
    return scratch_take(s, &b);
}

// --- words ---------------------------------------------------------------------------------------

// Contractions, for words that lack one apostrophe: "arent" becomes "aren't".
static const char *const contractions[] = {
    "ain't",        "aren't",        "can't",        "could've",       "couldn't",
    "didn't",       "doesn't",       "don't",        "hadn't",         "hasn't",
    "haven't",      "he'd",          "he's",         "how'd",          "how'll",
    "how's",        "isn't",         "it'd",         "it'll",          "ma'am",
    "mightn't",     "might've",      "mustn't",      "must've",        "needn't",
    "not've",       "o'clock",       "oughtn't",     "shan't",         "should've",
    "shouldn't",    "somebody'll",   "somebody's",   "someone'd",      "someone'll",
    "someone's",    "something'd",   "something'll", "that's",         "there'd",
    "there're",     "there's",       "they'd",       "they'll",        "they're",
    "they've",      "'twas",         "wasn't",       "we've",          "weren't",
    "what'll",      "what're",       "what's",       "what've",        "when's",
    "where'd",      "where's",       "where've",     "who'd",          "who'll",
    "who's",        "who've",        "why'll",       "why're",         "why's",
    "won't",        "would've",      "wouldn't",     "y'all",          "you'd",
    "you'll",       "you're",        "you've",       "couldn't've",    "hadn't've",
    "he'd've",      "it'd've",       "mightn't've",  "'ow's'at",       "she'd've",
    "shouldn't've", "somebody'd've", "someone'd've", "something'd've", "there'd've",
    "they'd've",    "we'd've",       "who'd've",     "wouldn't've",    "y'all'll",
    "y'all'd've",   "you'd've",
};

// True if the word is the contraction without one of its apostrophes.
static bool lacks_apostrophe(const char *word, const char *contraction)
{
    size_t same = 0;
    if (strlen(word) + 1 != strlen(contraction)) return false;
    while (word[same] == contraction[same] && word[same]) same++;
    return contraction[same] == '\'' && !strcmp(word + same, contraction + same + 1);
}

static void put_word(struct buf *b, const char *word)
{
    for (size_t i = 0; i < sizeof contractions / sizeof *contractions; i++)
        if (lacks_apostrophe(word, contractions[i])) {
            buf_puts(b, contractions[i]);
            return;
        }
    const int number = !strcmp(word, "none") ? 0 : words_number(word);
    if (number >= 0)
        buf_printf(b, "%d", number);
    else // the evaluation's table swaps the two forms of this contraction
        buf_puts(b, !strcmp(word, "somebody'd") ? "somebodyd" : word);
}

// Lower-cases, replaces number words with digits, drops articles, restores apostrophes.
static char *clean_words(struct scratch *s, const char *text)
{
    char *rest = python_words(s, python_lower(s, text));
    struct buf b = { 0 };
    for (char *word; (word = strsep(&rest, " "));) {
        if (!*word || words_is_article(word)) continue;
        if (b.length) buf_putc(&b, ' ');
        put_word(&b, word);
    }
    return scratch_take(s, &b);
}

// --- whole clean-ups -----------------------------------------------------------------------------

// Replaces newlines and tabs with spaces, and strips both ends.
static char *clean_line(struct scratch *s, const char *text)
{
    const char *line = python_replace(s, text, "\n", " ");
    return python_strip(s, python_replace(s, line, "\t", " "), NULL);
}

static char *clean(struct scratch *s, const char *text, struct vqa_punctuation rule)
{
    return clean_words(s, vqa_drop_punctuation(s, clean_line(s, text), rule));
}

static char *clean_official(struct scratch *s, const char *text)
{
    return clean(s, text, (struct vqa_punctuation){ 0 });
}

static char *clean_lmms_eval(struct scratch *s, const char *text)
{
    return clean(s, text, (struct vqa_punctuation){ .many_commas = true });
}

static char *clean_vlmevalkit(struct scratch *s, const char *text)
{
    return clean(s, text, (struct vqa_punctuation){ .keep_after_digit = true });
}

char *vqa_clean_evalai(struct scratch *s, const char *text)
{
    const char *words = python_replace(s, python_lower(s, text), ",", "");
    words = python_replace(s, python_replace(s, words, "?", ""), "'s", " 's");
    return clean_lmms_eval(s, python_strip(s, words, NULL));
}

// --- the score -----------------------------------------------------------------------------------

static bool people_agree(const struct metric_case *c)
{
    const char *first = c->reference_count ? clean_line(c->scratch, c->references[0]) : "";
    for (size_t i = 1; i < c->reference_count; i++)
        if (strcmp(first, clean_line(c->scratch, c->references[i])) != 0) return false;
    return true;
}

static int score(const struct metric *m, const struct metric_case *c, struct metric_outcome *o,
                 struct err *err)
{
    char *(*clean_up)(struct scratch * s, const char *text) = m->clean;
    int64_t matching = 0;
    double sum = 0;
    if (!c->reference_count) return err_set(err, "the sample has no reference answer");
    if (m == &metric_vqa_official && people_agree(c)) clean_up = clean_line;
    // Fewer references than PEOPLE are alternatives, not one answer per person.
    const bool any = m == &metric_vqa && c->reference_count < PEOPLE;
    const char *answer = clean_up(c->scratch, c->answer);
    bool *same = scratch_keep(c->scratch, xcalloc(c->reference_count, sizeof *same));
    for (size_t i = 0; i < c->reference_count; i++) {
        same[i] = !strcmp(clean_up(c->scratch, c->references[i]), answer);
        matching += same[i];
    }
    for (size_t i = 0; i < c->reference_count; i++) {
        const double others = (double)(matching - same[i]) / 3;
        sum += others < 1 ? others : 1;
    }
    *o = (struct metric_outcome){ .score = any ? matching > 0 : sum / (double)c->reference_count,
                                  .class = -1,
                                  .found = answer };
    return 0;
}

const struct metric metric_vqa = {
    .name = "vqa",
    .help = "Short answers, compared with one or several reference answers.",
    .rule = "with fewer than five references, 1 if the answer equals one of them; otherwise the "
            "mean over the references of min(1, n / 3), where n other references equal the "
            "answer; after EvalAI's clean-up",
    .graded = true,
    .clean = vqa_clean_evalai,
    .score = score,
};

const struct metric metric_vqa_official = {
    .name = "vqa-official",
    .help = "Short answers as the official VQA evaluation scores them.",
    .rule = "mean over annotators of min(1, n / 3), where n other annotators gave the answer; "
            "after the evaluation's clean-up, which is skipped if all annotators agree",
    .suite = SUITE_LLAVA,
    .graded = true,
    .clean = clean_official,
    .score = score,
};

const struct metric metric_vqa_evalai = {
    .name = "vqa-evalai",
    .help = "Short answers as LLaVA and lmms-eval score TextVQA.",
    .rule =
        "mean over annotators of min(1, n / 3), where n other annotators gave the answer; after "
        "EvalAI's clean-up: lower case; 's split off; number words as digits; punctuation and "
        "articles dropped",
    .suite = SUITE_LMMS_EVAL,
    .graded = true,
    .clean = vqa_clean_evalai,
    .score = score,
};

const struct metric metric_vqa_lmms_eval = {
    .name = "vqa-lmms-eval",
    .help = "Short answers as lmms-eval scores VQAv2.",
    .rule = "mean over annotators of min(1, n / 3), where n other annotators gave the answer; "
            "after EvalAI's clean-up of punctuation, digits and articles",
    .suite = SUITE_LMMS_EVAL,
    .graded = true,
    .clean = clean_lmms_eval,
    .score = score,
};

const struct metric metric_vqa_vlmevalkit = {
    .name = "vqa-vlmevalkit",
    .help = "Short answers as VLMEvalKit scores TextVQA.",
    .rule = "mean over annotators of min(1, n / 3), where n other annotators gave the answer; "
            "after a clean-up that keeps full stops beside digits",
    .suite = SUITE_VLMEVALKIT,
    .graded = true,
    .clean = clean_vlmevalkit,
    .score = score,
};
