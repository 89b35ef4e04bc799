// tests/core/metrics/metrics.c -- core/metrics/: words; the scores of vlmsh's own rules, and the
// texts that they extract from answers; thoughts removed from answers; captions (CIDEr-D, CHAIR);
// intervals and summaries. The suites' rules: suites.c.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
// needs the headers above
#include <cmocka.h>

#include "core/base/scratch.h"
#include "core/metrics/choices.h"
#include "core/metrics/ptb.h"
#include "core/metrics/python.h"
#include "core/metrics/suite.h"
#include "core/metrics/vqa.h"
#include "core/metrics/words.h"
#include "core/template/thinking.h"
#include "tests/core/metrics/chair_sentences.h"

static void close_to(double value, double expected, double allowed)
{
    if (!(fabs(value - expected) <= allowed)) fail_msg("%.15g is not %.15g", value, expected);
}

// --- words ---------------------------------------------------------------------------------------

static void check_words(char *(*split)(struct scratch *s, const char *text), const char *text,
                        const char *expected)
{
    struct scratch s = { 0 };
    assert_string_equal(split(&s, text), expected);
    scratch_release(&s);
}

static void test_words(void **state)
{
    check_words(words_split, "", "");
    check_words(words_split, " ?!.\n", "");
    check_words(words_split, "The  RED-circle, (left).", "the red circle left");
    check_words(words_split, "Don't say \xE2\x80\x9Cit\xE2\x80\x99s\xE2\x80\x9D", "dont say its");
    check_words(words_split, "3.5 and 1,000; -2, a-b 1. 2", "3.5 and 1000 -2 a b 1 2");
    check_words(words_split, "50% of $3", "50% of $3");
    check_words(words_split,
                "\xC3\x84PFEL stra\xC3\x9F"
                "e",
                "\xC3\xA4pfel strasse");
    check_words(words_split, "A\xCC\x88pfel", "\xC3\xA4pfel"); // composed form
    check_words(words_split,
                "A\xFF"
                "B c",
                "a\xFF"
                "b c"); // not UTF-8
    check_words(words_normal, "There are two of the Dogs!", "there are 2 of dogs");
    check_words(words_normal, "Ten, zero, eleven", "10 0 eleven");
    check_words(words_normal, "A", "a"); // articles alone stay
    check_words(words_normal, "the a", "the a");
}

static void test_contain(void **state)
{
    assert_true(words_contain("a big red circle", "red circle"));
    assert_true(words_contain("cat", "cat"));
    assert_false(words_contain("category 12", "cat"));
    assert_false(words_contain("category 12", "1"));
    assert_true(words_contain("category 12 1", "1"));
    assert_false(words_contain("cat", ""));
    assert_true(words_contain("\xE8\xBF\x99\xE6\x98\xAF\xE7\x8C\xAB", "\xE7\x8C\xAB"));
}

// --- one answer ----------------------------------------------------------------------------------

// The score; -1 if it cannot be scored. *found: the extracted text ("-": none), static.
static double score(const char *name, const struct metric_case *c, const char **found)
{
    static char text[256];
    const struct metric *m = metric_find(name);
    struct metric_outcome o;
    struct err err;
    struct scratch scratch = { 0 };
    struct metric_case own = *c;
    own.scratch = &scratch;
    if (m->score(m, &own, &o, &err) < 0) {
        assert_true(strlen(err.text) > 0);
        scratch_release(&scratch);
        return -1;
    }
    snprintf(text, sizeof text, "%s", o.found ? o.found : "-");
    scratch_release(&scratch);
    if (found) *found = text;
    return o.score;
}

static double simple(const char *name, const char *answer, const char *reference)
{
    const struct metric_case c = { .question = "q",
                                   .answer = answer,
                                   .references = &reference,
                                   .reference_count = reference != NULL,
                                   .right = -1 };
    return score(name, &c, NULL);
}

static void test_exact(void **state)
{
    assert_true(simple("exact", "Red.", "red") == 1);
    assert_true(simple("exact", "the red one", "Red 1") == 1);
    assert_true(simple("exact", "red circle", "red") == 0);
    assert_true(simple("exact", "", "red") == 0);
    assert_true(simple("exact", "A", "A.") == 1);
    assert_true(simple("exact", "A", "B") == 0);
    assert_true(simple("exact", "?", "?") == 1);
    assert_true(simple("exact", "?", "!") == 0);
    assert_true(simple("exact", "", "") == 1);
    assert_true(simple("exact", "red", NULL) == -1);
    const char *const several[] = { "crimson", "red" };
    const struct metric_case c = {
        .answer = "Red", .references = several, .reference_count = 2, .right = -1
    };
    assert_true(score("exact", &c, NULL) == 1);
    assert_true(score("contains", &c, NULL) == 1);
}

static void test_contains(void **state)
{
    assert_true(simple("contains", "2 circles and 1 star, so yes", "so yes") == 1);
    assert_true(simple("contains", "2 circles and 1 star, so no", "so yes") == 0);
    assert_true(simple("contains", "It is a Category.", "cat") == 0);
    assert_true(simple("contains", "there are three", "3") == 1);
    assert_true(simple("contains", "what?!", "?!") == 1);
    assert_true(simple("contains", "anything", "") == 0);
    assert_true(simple("contains", "anything", NULL) == -1);
}

static void check_yesno(const char *answer, const char *reference, double right, const char *said)
{
    const struct metric_case c = {
        .answer = answer, .references = &reference, .reference_count = 1, .right = -1
    };
    const char *found;
    assert_true(score("yesno", &c, &found) == right);
    assert_string_equal(found, said);
}

static void test_yesno(void **state)
{
    check_yesno("Yes, there is.", "yes", 1, "yes");
    check_yesno("NO", "No, it is not", 1, "no");
    check_yesno("I think there is no dog, yes", "yes", 0, "no");
    check_yesno("nothing, yesterday", "no", 0, "-");
    check_yesno("", "yes", 0, "-");
    assert_true(simple("yesno", "yes", "maybe") == -1);
    assert_true(simple("yesno", "yes", NULL) == -1);
}

static void check_letter(const char *answer, const char *said)
{
    static const char *const choices[] = { "a cat", "a dog", "a red bird", "a bird" };
    const char *const reference = "B";
    const struct metric_case c = { .question = "Which?",
                                   .answer = answer,
                                   .references = &reference,
                                   .reference_count = 1,
                                   .choices = choices,
                                   .choice_count = 4,
                                   .right = -1 };
    const char *found;
    const double right = score("letter", &c, &found);
    assert_string_equal(found, said);
    assert_true(right == !strcmp(said, "B"));
}

static void test_letter(void **state)
{
    check_letter("B", "B");
    check_letter("b", "B");
    check_letter("(b)", "B");
    check_letter("B.", "B");
    check_letter("B. a dog", "B");
    check_letter("(B) a dog, not (A)", "B");
    check_letter("Answer: B", "B");
    check_letter("Of A, B and C the answer is C.", "C");
    check_letter("The answer is (D)", "D");
    check_letter("A dog is on the picture: B", "B");
    check_letter("I'd say A-frames, E and B", "B");
    check_letter("It is a dog.", "B");
    check_letter("It is a cat or a dog", "-"); // mentions two choices
    check_letter("It is a red bird", "-");     // without articles, contains "bird", too
    check_letter("BAD", "-");
    check_letter("\xC3\x84"
                 "B",
                 "-");
    check_letter("", "-");
    check_letter("A", "A");
    check_letter("'C'", "C");
    check_letter("It's 'C', not 'B'.", "C");
    check_letter("The correct answer is c.", "C");
    check_letter("answer: (c) because", "C");
    check_letter("I think it is c.", "C");
    check_letter("The correct option is (d).", "D");
    check_letter("The answer is a dog", "B");
    check_letter("The answer is a.", "A");
    check_letter("This c. is what it is", "-");
    check_letter("It is \xFF", "-");
    check_letter("It is", "-");
}

// A word ends where letters or punctuation of another script begin.
static void test_letter_unicode(void **state)
{
    static const char *const c[] = {
        "\u201cC\u201d",
        "The answer is \u201cC\u201d.",
        "\u2018C\u2019",
        "C\u2026",
        "C\u3002",
        "\uff08C\uff09",
        "\u7b54\u6848\uff1aC\u3002",
        "\u7b54\u6848\u662f c",
        "\u7b54\u6848\u662fC",
        "A\u548cB\u90fd\u4e0d\u5bf9\uff0c\u7b54\u6848\u662fC",
        "\u9009C",
        "C\uff0c\u56e0\u4e3a\u5b83\u662f\u7eff\u8272\u7684",
        "\uc815\ub2f5\uc740 C\uc785\ub2c8\ub2e4.",
        "\u7b54\u3048\u306fC\u3067\u3059",
        "\u00abC\u00bb",
        "\u2192C",
        "\uff23",
        "\uff23\u3002",
        "\uff08\uff43\uff09",
        "\u24b8",
        "\u0e15\u0e2d\u0e1aC",
        "C\u2014the green one",
        "C\ufe0f",
    };
    for (size_t i = 0; i < sizeof c / sizeof *c; i++) check_letter(c[i], "C");
    check_letter("\u00c7a va", "-");
    check_letter("C\u0301 est", "-");
    check_letter("20 \u00b0C", "-");
    check_letter("\u00c0C", "-");
    check_letter("I\u2019d say B", "B");
    check_letter("A \u00e9t\u00e9: D", "D");
    check_letter("l\u2019A", "-");
    assert_int_equal(choices_listed("\uff21\uff0e x\n\uff22\uff0e y"), 2);
    assert_int_equal(choices_listed("\uff08A\uff09x\n\uff08B\uff09y"), 2);
    assert_int_equal(choices_listed("A\u3001x\nB\u3001y"), 2);
}

// Reads the choices from the question; several ways to name the right one.
static void test_letter_question(void **state)
{
    const char *reference = "B";
    struct metric_case c = { .question = "Which?\nA. cat\nB. dog\n(C) bird",
                             .answer = "D or B",
                             .references = &reference,
                             .reference_count = 1,
                             .right = -1 };
    const char *found;
    assert_int_equal(choices_listed(c.question), 3);
    assert_int_equal(choices_listed("A. only one"), 0);
    assert_int_equal(choices_listed("Is A.B. here?"), 0);
    assert_true(score("letter", &c, &found) == 1);
    c.right = 1;
    c.reference_count = 0;
    assert_true(score("letter", &c, &found) == 1);
    c.right = 3;
    assert_true(score("letter", &c, &found) == -1);
    c.right = -1;
    assert_true(score("letter", &c, &found) == -1);
    reference = "dog";
    c.reference_count = 1;
    assert_true(score("letter", &c, &found) == -1);
}

static int right_of(const char *reference, int number)
{
    static const char *const choices[] = { "red", "A blue one", "3" };
    struct scratch scratch = { 0 };
    const struct metric_case c = { .references = &reference,
                                   .reference_count = reference != NULL,
                                   .choices = choices,
                                   .choice_count = 3,
                                   .right = number,
                                   .scratch = &scratch };
    const int right = choices_right(&c, NULL);
    scratch_release(&scratch);
    return right;
}

static void test_right(void **state)
{
    assert_int_equal(right_of("Blue one", -1), 1);
    assert_int_equal(right_of("(C)", -1), 2);
    assert_int_equal(right_of("3", -1), 2); // a choice's text takes precedence over its number
    assert_int_equal(right_of("1", -1), 1);
    assert_int_equal(right_of("1", 1), 1);
    assert_int_equal(right_of("7", 7), -1);
    assert_int_equal(right_of("D", -1), -1);
    assert_int_equal(right_of("", -1), -1);
    assert_int_equal(right_of("green", -1), -1);
    assert_int_equal(right_of(NULL, -1), -1);
}

// Expects suite_answer to leave the text `said` of an answer, and to return `expected` in *thought.
static void check_thinking(enum suite suite, enum thinking thinking, const char *answer,
                           const char *said, enum thought expected)
{
    static const struct metric m = { .name = "any" };
    enum thought thought;
    struct scratch s = { 0 };
    static char open[] = "<seed:think>", close[] = "</seed:think>";
    static const struct thinking_list model = { .open = open, .close = close };
    assert_string_equal(suite_answer(&s, suite, &m, answer, &model, thinking, &thought), said);
    assert_int_equal(thought, expected);
    scratch_release(&s);
}

static void own(const char *answer, const char *said, enum thought thought)
{
    check_thinking(SUITE_OWN, THINKING_AUTO, answer, said, thought);
}

static void test_thinking(void **state)
{
    static const char pair[] = "<think>no</think>Yes", answer[] = "<answer>Yes</answer>";
    own("Yes", "Yes", THOUGHT_NONE);
    own(pair, "Yes", THOUGHT_REMOVED);
    own("no</think>\n\nYes\n", "Yes", THOUGHT_REMOVED);
    own("<think>a</think>b<think>c</think> d", "b d", THOUGHT_REMOVED);
    own("<think>it goes on", "", THOUGHT_OPEN);
    own("<seed:think>no</seed:think>Yes", "Yes", THOUGHT_REMOVED); // the model's own marks
    own("<seed:think>it goes on", "", THOUGHT_OPEN);
    check_thinking(SUITE_LMMS_EVAL, THINKING_AUTO, "no</seed:think>Yes", "no</seed:think>Yes",
                   THOUGHT_KEPT);
    own("[THINK]no[/THINK]Yes", "Yes", THOUGHT_REMOVED);
    own("<thinking>no</thinking>Yes", "Yes", THOUGHT_REMOVED);
    own("<analysis>no</analysis>Yes", "Yes", THOUGHT_REMOVED);
    own("\u25c1think\u25b7no\u25c1/think\u25b7Yes", "Yes", THOUGHT_REMOVED);
    own(answer, "Yes", THOUGHT_REMOVED);
    own("<think>no</think><answer> Yes", "Yes", THOUGHT_REMOVED);
    own("<think>no</think><answer><|begin_of_box|>Yes<|end_of_box|></answer>", "Yes",
        THOUGHT_REMOVED);
    own("It is <|begin_of_box|>red", "red", THOUGHT_REMOVED);
    own("So \\boxed{1} or $\\boxed{\\frac{1}{2}}$.", "\\frac{1}{2}", THOUGHT_REMOVED);
    own("\\boxed{1", "\\boxed{1", THOUGHT_NONE);
    check_thinking(SUITE_LMMS_EVAL, THINKING_AUTO, pair, "Yes", THOUGHT_REMOVED);
    check_thinking(SUITE_LMMS_EVAL, THINKING_AUTO, answer, answer, THOUGHT_NONE);
    check_thinking(SUITE_LMMS_EVAL, THINKING_AUTO, "\u3000Yes\n", "Yes", THOUGHT_NONE);
    check_thinking(SUITE_LLAVA, THINKING_AUTO, pair, pair, THOUGHT_KEPT);
    check_thinking(SUITE_LLAVA, THINKING_STRIP, pair, "Yes", THOUGHT_REMOVED);
    check_thinking(SUITE_VLMEVALKIT, THINKING_AUTO, pair, pair, THOUGHT_KEPT);
    check_thinking(SUITE_VLMEVALKIT, THINKING_STRIP, pair, "Yes", THOUGHT_REMOVED);
    check_thinking(SUITE_VLMEVALKIT, THINKING_AUTO, "None", "nan", THOUGHT_NONE);
    for (enum suite s = SUITE_OWN; s <= SUITE_VLMEVALKIT; s++)
        check_thinking(s, THINKING_KEEP, pair, pair, THOUGHT_KEPT);
    // The time is linear in the number of tags; AddressSanitizer makes strstr() read to the end
    // each time.
    struct buf b = { 0 };
    for (int i = 0; i < 20000; i++) buf_puts(&b, "<think></think>");
    own(b.data, "", THOUGHT_REMOVED);
    buf_release(&b);
}

// Choices that a table leaves empty match no answer.
static void test_absent_choice(void **state)
{
    static const char *const choices[] = { "", "a red circle", "", "a blue ring" };
    static const char *const rules[] = { "mmmu-lmms-eval", "mcq-vlmevalkit", "mmstar-lmms-eval",
                                         "mmbench-lmms-eval", "letter" };
    static const char *const right[] = { "B" };
    struct metric_case c = { .answer = "I think that it is a red circle, really",
                             .choices = choices,
                             .choice_count = 4,
                             .references = right,
                             .reference_count = 1,
                             .right = -1 };
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) score(rules[i], &c, NULL);
    assert_true(score("mmmu-lmms-eval", &c, NULL) == 1);
    assert_true(score("mcq-vlmevalkit", &c, NULL) == 1);
    c.answer = "none of those that you list here";
    assert_true(score("mmmu-lmms-eval", &c, NULL) == 0);
    // The right letter has no text of its own.
    c.choice_count = 2;
    c.references = (const char *const[]){ "D" };
    c.answer = "D";
    assert_true(score("mcq-exact", &c, NULL) == 1);
    assert_true(score("mcq-vlmevalkit", &c, NULL) == 0);
}

// "None" is a choice of lmms-eval's MMBench; "nan" marks an absent choice.
static void test_none(void **state)
{
    static const char *const choices[] = { "a red circle", "None", "nan" };
    struct metric_case c = { .answer = "none of them",
                             .choices = choices,
                             .choice_count = 3,
                             .references = (const char *const[]){ "B" },
                             .reference_count = 1,
                             .right = 1 };
    assert_true(score("mmbench-lmms-eval", &c, NULL) == 1);
    c.answer = "an elegant nan"; // matches C and D, which are both absent
    assert_true(score("mmbench-lmms-eval", &c, NULL) == 0);
}

static void test_loglik(void **state)
{
    const char *const choices[] = { "short", "much longer" };
    const double loglik[] = { -5, -6 };
    const int64_t lengths[] = { 5, 11 };
    struct metric_case c = {
        .choices = choices, .choice_count = 2, .right = 1, .loglik = loglik, .lengths = lengths
    };
    struct metric_tally t = { 0 };
    struct metric_number numbers[METRIC_NUMBERS];
    const struct metric *m = metric_find("loglik");
    for (int right = 0; right < 2; right++)
        for (int i = 0; i <= right; i++) {
            struct metric_outcome o;
            c.right = right;
            assert_int_equal(m->score(m, &c, &o, NULL), 0);
            assert_string_equal(o.found, "much longer");
            assert_true(o.score == right);
            metric_tally_add(&t, &o);
        }
    assert_true(m->summary(&t, numbers) >= 2);
    assert_string_equal(numbers[0].name, "acc_norm");
    close_to(numbers[0].value, 2.0 / 3, 1e-12);
    assert_string_equal(numbers[1].name, "acc");
    close_to(numbers[1].value, 1.0 / 3, 1e-12);
    close_to(numbers[2].value, 0.06149194472039621, 1e-9);
}

// --- captions ------------------------------------------------------------------------------------

static void test_chair(void **state)
{
#define KIND(name) name,
#define SENTENCE(says, found, mentions, wrong) \
    { says, found, (wrong) > 0, (mentions) << 12 | (wrong) },
    static const char *const kinds[] = { CHAIR_KINDS(KIND) };
    static const char *const there[] = { "person", "dog", "skis" };
    static const struct {
        const char *says, *found;
        double score;
        int class;
    } cases[] = { CHAIR_SENTENCES(SENTENCE) };
#undef KIND
#undef SENTENCE
    const struct metric *m = metric_find("chair");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct scratch scratch = { 0 };
        const struct metric_case c = { .answer = cases[i].says,
                                       .references = there,
                                       .reference_count = 3,
                                       .choices = kinds,
                                       .choice_count = sizeof kinds / sizeof *kinds,
                                       .right = -1,
                                       .scratch = &scratch };
        struct metric_outcome o;
        struct err err = { 0 };
        if (m->score(m, &c, &o, &err) < 0) fail_msg("%s", err.text);
        assert_string_equal(o.found ? o.found : "", cases[i].found);
        assert_true(o.score == cases[i].score);
        assert_int_equal(o.class, cases[i].class);
        scratch_release(&scratch);
    }
    const struct metric_case without = { .answer = "a dog", .right = -1 };
    assert_true(score("chair", &without, NULL) == -1);
}

// Words as PTBTokenizer 3.4.1 and pycocoevalcap split texts.
static void test_ptb(void **state)
{
    static const char *const cases[][2] = {
        { "A man's T-shirt (red) says \"don't\"...",
          "a man 's t-shirt -lrb- red -rrb- says do n't" },
        { "AT&T costs $5.50 & 50% of 1 1/2 in the U.S.",
          "at&t costs $ 5.50 & 50 % of 1 1/2 in the u.s." },
        { "It's the dogs' black-and-white ball, isn't it?",
          "it 's the dogs black-and-white ball is n't it" },
        { "I cannot, 'tis gonna rain; the '90s rock 'n' roll",
          "i can not 't is gon na rain the '90s rock 'n' roll" },
        { "Plan B. A dog.", "plan b a dog" },
        { "Mr. O'Neil, etc. at 3:30 p.m. -- no. 5", "mr. o'neil etc. at 3:30 p.m. no. 5" },
        { "[x] {y} <br> a/b #tag @user :-) \xE2"
          "\x80"
          "\x9C"
          "smart\xE2"
          "\x80"
          "\x9D"
          " caf\xC3"
          "\xA9"
          " \xE2"
          "\x82"
          "\xAC"
          "5 \xC2"
          "\xBD"
          "",
          "-lsb- x -rsb- -lcb- y -rcb- <br> a/b #tag @user :--rrb- smart caf\xC3"
          "\xA9"
          " $ 5 1/2" },
        { "soft\xC2"
          "\xAD"
          "hyphen 5'10\" www.a.com a@b.org img.jpg \xE7"
          "\x8C"
          "\xAB"
          "",
          "softhyphen 5 10 www.a.com a@b.org img.jpg \xE7"
          "\x8C"
          "\xAB"
          "" },
        { "a 555-1234 (555) 123-4567 +4 .5 12/25/2014 C++",
          "a 555-1234 -lrb-555-rrb- 123-4567 +4 .5 12/25/2014 c++" },
        { "y'all can't. !!! ?! -lrb- ___ ** \xE2"
          "\x80"
          "\xA6"
          "",
          "y' all ca n't !!! ?! -lrb- ___ **" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct scratch s = { 0 };
        assert_string_equal(ptb_words(&s, cases[i][0]), cases[i][1]);
        scratch_release(&s);
    }
}

// Two patterns would read the rest of these texts at every position, which takes minutes.
static void test_ptb_long(void **state)
{
    enum { COUNT = 100000 };
    for (int i = 0; i < 2; i++) {
        struct scratch s = { 0 };
        struct buf b = { 0 };
        for (int k = 0; k < COUNT; k++) buf_puts(&b, i ? "1/" : "&");
        const char *words = ptb_words(&s, b.data);
        assert_int_equal(strncmp(words, i ? "1/1/1 / " : "& & & &", 7), 0);
        buf_release(&b);
        scratch_release(&s);
    }
}

// Counting the commas from each of them on would take minutes.
static void test_commas(void **state)
{
    struct scratch s = { 0 };
    struct buf b = { 0 };
    buf_puts(&b, "a");
    for (int i = 0; i < 1 << 20; i++) buf_puts(&b, ",");
    buf_puts(&b, "1 a,b");
    assert_string_equal(
        vqa_drop_punctuation(&s, "1,,2 a,b", (struct vqa_punctuation){ .many_commas = true }),
        "12 ab");
    const char *text =
        vqa_drop_punctuation(&s, b.data, (struct vqa_punctuation){ .many_commas = true });
    assert_int_equal(strlen(text), strlen("a") + (1 << 20) + strlen("1 a b"));
    buf_release(&b);
    scratch_release(&s);
}

// Follows Python's lower(): a capital sigma has a different form at the end of a word.
static void test_lower(void **state)
{
#define SIGMA "\xCE\xA3"
#define SMALL "\xCF\x83"
#define FINAL "\xCF\x82"
    static const char *const cases[][2] = {
        { SIGMA, SMALL },
        { "A" SIGMA, "a" FINAL },
        { "A" SIGMA "B", "a" SMALL "b" },
        { "A" SIGMA ".", "a" FINAL "." },
        { "A." SIGMA, "a." FINAL },
        { "1" SIGMA, "1" SMALL },
        { "A" SIGMA "'b", "a" SMALL "'b" },
        { "A" SIGMA " B", "a" FINAL " b" },
        { "A" SIGMA SIGMA, "a" SMALL FINAL },
        { "\xC4\xB0", "i\xCC\x87" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct scratch s = { 0 };
        assert_string_equal(python_lower(&s, cases[i][0]), cases[i][1]);
        scratch_release(&s);
    }
}

// CIDEr-D against numbers of an independent computation in Python.
static void test_cider(void **state)
{
    static const char *const references[3][3] = {
        { "A red circle is above the blue square.", "The red circle, above a blue square" },
        { "two small green triangles on a grey background", "small green triangles: two of them" },
        { "a big yellow star", "one big yellow star in the middle of the picture", "a star" },
    };
    static const size_t counts[] = { 2, 2, 3 };
    static const char *const captions[][2] = {
        { "a red circle above the blue square", "A red circle is above the blue square." },
        { "two green triangles", "two small green triangles on a grey background" },
        { "a big star star star in a picture", "a big yellow star" },
    };
    static const double expected[][2] = { { 5.154802326641, 6.508282720246 },
                                          { 2.006241965181, 6.429916566770 },
                                          { 0.912778210522, 4.425243148906 } };
    const struct metric *m = metric_find("cider");
    void *corpus = m->corpus_new();
    for (int i = 0; i < 3; i++) m->corpus_add(m, corpus, references[i], counts[i]);
    for (int i = 0; i < 3; i++) {
        struct metric_case c = {
            .references = references[i], .reference_count = counts[i], .right = -1, .corpus = corpus
        };
        for (int k = 0; k < 2; k++) {
            c.answer = captions[i][k];
            close_to(score("cider", &c, NULL), expected[i][k], 1e-9);
        }
        c.answer = "";
        assert_true(score("cider", &c, NULL) == 0);
        c.reference_count = 0;
        assert_true(score("cider", &c, NULL) == -1);
    }
    m->corpus_free(corpus);
    // With only one sample, every n-gram occurs in all samples.
    corpus = m->corpus_new();
    m->corpus_add(m, corpus, references[0], 1);
    const struct metric_case c = {
        .answer = "A red", .references = references[0], .reference_count = 1, .corpus = corpus
    };
    assert_true(score("cider", &c, NULL) == 0);
    m->corpus_free(corpus);
}

// --- totals --------------------------------------------------------------------------------------

static void check_wilson(int right, int n, double low, double high)
{
    const struct metric share = { .graded = false };
    struct metric_tally t = { 0 };
    double l, h;
    for (int i = 0; i < n; i++)
        metric_tally_add(&t, &(struct metric_outcome){ .score = i < right, .class = -1 });
    metric_interval(&share, &t, &l, &h);
    close_to(l, low, 1e-12);
    close_to(h, high, 1e-12);
    // Exactly 0: otherwise 5.6e-17 would be printed.
    if (right == 0) assert_true(l == 0);
    if (right == n) assert_true(h == 1);
}

static void test_intervals(void **state)
{
    static const double values[] = { 1, 2, 4, 7 };
    const struct metric mean = { .graded = true };
    struct metric_tally t = { 0 }, one = { 0 }, rest = { 0 };
    double low, high;
    check_wilson(8, 10, 0.49016247153664183, 0.9433178485456247);
    check_wilson(0, 5, 0, 0.43448246478317476);
    check_wilson(5, 5, 0.5655175352168251, 1);
    for (int n = 1; n < 200; n++) {
        const double z = 1.959963984540054, far = z * z / (n + z * z);
        check_wilson(0, n, 0, far);
        check_wilson(n, n, 1 - far, 1);
    }
    metric_interval(&mean, &t, &low, &high);
    assert_true(isnan(low) && isnan(high));
    for (int i = 0; i < 4; i++) {
        const struct metric_outcome o = { .score = values[i], .class = i % 2 };
        metric_tally_add(&t, &o);
        metric_tally_add(i ? &rest : &one, &o);
    }
    // mean 3.5, sample variance 7, standard error sqrt(7/4)
    metric_interval(&mean, &t, &low, &high);
    close_to(low, 3.5 - 1.959963984540054 * sqrt(1.75), 1e-12);
    close_to(high, 3.5 + 1.959963984540054 * sqrt(1.75), 1e-12);
    metric_interval(&mean, &one, &low, &high);
    assert_true(isnan(low));
    struct metric_tally wide = { 0 };
    metric_tally_add(&wide, &(struct metric_outcome){ .score = 0, .class = -1 });
    metric_tally_add(&wide, &(struct metric_outcome){ .score = 1, .class = -1 });
    metric_interval(&mean, &wide, &low, &high);
    assert_true(low == 0 && high > 1.4);
    metric_tally_merge(&rest, &one);
    close_to(rest.scores.mean, t.scores.mean, 1e-12);
    close_to(rest.scores.squares, t.scores.squares, 1e-12);
    assert_int_equal(rest.classes[1], 2);
    metric_tally_merge(&one, &(struct metric_tally){ 0 });
    assert_int_equal(one.scores.count, 1);
}

// 3 right yes, 1 wrong yes, 2 right no, 1 wrong no, 2 answers with neither (one should be yes).
static void test_yesno_summary(void **state)
{
    static const char *const cases[][2] = { { "yes", "yes" }, { "yes", "yes" }, { "yes", "yes" },
                                            { "yes", "no" },  { "no", "no" },   { "no", "no" },
                                            { "no", "yes" },  { "dog", "yes" }, { "", "no" } };
    const struct metric *m = metric_find("yesno");
    struct metric_tally t = { 0 };
    struct metric_number n[METRIC_NUMBERS];
    assert_int_equal(m->summary(&t, n), 5);
    assert_true(isnan(n[0].value) && isnan(n[2].value));
    for (int i = 0; i < 9; i++) {
        struct metric_outcome o;
        struct scratch scratch = { 0 };
        const struct metric_case c = {
            .answer = cases[i][0],
            .references = &cases[i][1],
            .reference_count = 1,
            .right = -1,
            .scratch = &scratch,
        };
        assert_int_equal(m->score(m, &c, &o, NULL), 0);
        metric_tally_add(&t, &o);
        scratch_release(&scratch);
    }
    close_to(t.scores.mean, 5.0 / 9, 1e-12);
    assert_int_equal(m->summary(&t, n), 5);
    close_to(n[0].value, 3.0 / 4, 1e-12); // precision
    close_to(n[1].value, 3.0 / 5, 1e-12); // recall
    close_to(n[2].value, 2 * 0.75 * 0.6 / 1.35, 1e-12);
    close_to(n[3].value, 4.0 / 9, 1e-12);
    assert_true(n[4].value == 2);
}

static void test_table(void **state)
{
    static const char *const listed[] = {
#define X(id, name) name,
#include "core/metrics/list.h"
#undef X
    };
    struct err err;
    for (int i = 0; metrics[i]; i++) {
        assert_string_equal(metrics[i]->name, listed[i]);
        assert_ptr_equal(metric_find(metrics[i]->name), metrics[i]);
        assert_non_null(metrics[i]->help);
        assert_non_null(metrics[i]->rule);
        assert_int_equal(!metrics[i]->corpus_new, !metrics[i]->corpus_free);
    }
    assert_null(metrics[METRIC_COUNT]);
    assert_null(metric_need("bleu", &err));
    assert_non_null(strstr(err.text, "cider"));
}

// Each metric says whether higher or lower scores are better.
static void each_metric_states_its_direction(void **state)
{
    for (int i = 0; metrics[i]; i++) {
        const bool smaller = metrics[i]->way == METRIC_LOSS || !strcmp(metrics[i]->name, "chair");
        assert_int_equal(metric_better(metrics[i], 0.25, 0.75), smaller);
        assert_int_equal(metric_better(metrics[i], 0.75, 0.25), !smaller);
        assert_false(metric_better(metrics[i], 0.5, 0.5));
        assert_false(metric_better(metrics[i], NAN, 0.5) || metric_better(metrics[i], 0.5, NAN));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_words),
        cmocka_unit_test(test_contain),
        cmocka_unit_test(test_exact),
        cmocka_unit_test(test_contains),
        cmocka_unit_test(test_yesno),
        cmocka_unit_test(test_letter),
        cmocka_unit_test(test_letter_unicode),
        cmocka_unit_test(test_thinking),
        cmocka_unit_test(test_letter_question),
        cmocka_unit_test(test_right),
        cmocka_unit_test(test_absent_choice),
        cmocka_unit_test(test_none),
        cmocka_unit_test(test_loglik),
        cmocka_unit_test(test_ptb),
        cmocka_unit_test(test_ptb_long),
        cmocka_unit_test(test_commas),
        cmocka_unit_test(test_lower),
        cmocka_unit_test(test_cider),
        cmocka_unit_test(test_chair),
        cmocka_unit_test(test_intervals),
        cmocka_unit_test(test_yesno_summary),
        cmocka_unit_test(test_table),
        cmocka_unit_test(each_metric_states_its_direction),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
