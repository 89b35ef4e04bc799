// core/metrics/choices.h -- multiple-choice questions: letters, and the right choice.
#ifndef CORE_METRICS_CHOICES_H
#define CORE_METRICS_CHOICES_H

#include "core/metrics/metric.h"

enum { LETTERS = 26, NO_LETTER = -1 };

// Returns how many options a question lists as lines "A. ...", "B) ...", "(C) ..." or "D: ...",
// starting with A; 0 if it lists only A.
int choices_listed(const char *question);
// True if every choice is one capital letter.
bool choices_are_letters(const struct metric_case *c);
// True if the data gives the right choice by number or letter rather than by text.
bool choices_by_label(const struct metric_case *c);
// Returns the index of the right choice, given by number from 0, by text or by letter ("B", "(B)");
// -1 with a message if the data names no choice.
int choices_right(const struct metric_case *c, struct err *err);
// Returns the index of the choice that the text names by one letter ("B", "b.", "(B)" or
// full-width), or -1 if it names none of the `count` choices.
int choices_letter(const char *text, int count);
// Returns the code points of a text in compatibility form (NFKC), in which full-width letters and
// punctuation are ASCII. The first is at [1]; [0] and the one after the last are 0; a byte that is
// not UTF-8 is negative. The caller frees the result.
int32_t *choices_code_points(const char *text);
// True if the code point next to a Latin letter forms one word with it. Letters of scripts that do
// not separate words (CJK, Thai) do not.
bool choices_extends_word(int32_t c);

// --- rules that read a letter --------------------------------------------------------------------

// Scores a case: compares the letter that m->letter reads with the right one.
int choices_score(const struct metric *m, const struct metric_case *c, struct metric_outcome *o,
                  struct err *err);
// Like choices_score, for a letter that is already read.
int choices_score_letter(const struct metric_case *c, int letter, struct metric_outcome *o,
                         struct err *err);
// Returns the outcome of an answer's letter (NO_LETTER: none).
struct metric_outcome choices_outcome(const struct metric_case *c, int letter, int right);
// Counts answers without a letter.
int choices_summary(const struct metric_tally *t, struct metric_number *to);
// Returns the index of a text that is one capital letter ("B": 1), else NO_LETTER.
int choices_whole_letter(const char *text);
int choices_letter_ignoring_case(const char *text); // "b" too
// Shortens "B. ..." to "B", like lmms-eval's filter for AI2D and MuirBench. The filter runs before
// thinking is removed, so it misses a letter after the thinking.
char *choices_extract_dot(struct scratch *s, const char *raw);
// True if the sample has a choice with this letter that is not empty; without choices: A to D.
bool choices_has(const struct metric_case *c, int letter);
// Returns the only one of the first `most` choices whose lower-case text is part of the lower-case
// answer, or NO_LETTER.
int choices_only_text(const struct metric_case *c, const char *lower, int most);

#endif
