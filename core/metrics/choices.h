// core/metrics/choices.h -- multiple-choice questions: letters, and the right choice.
#ifndef CORE_METRICS_CHOICES_H
#define CORE_METRICS_CHOICES_H

#include "core/metrics/metric.h"

enum { LETTERS = 26, NO_LETTER = -1 };

// How many options a question lists as lines "A. ...", "B) ...", "(C) ..." or "D: ...", starting
// with A.
int choices_listed(const char *question);
// Whether every choice is one capital letter.
bool choices_are_letters(const struct metric_case *c);
// Whether the data gives the right choice by number or letter, not by its text.
bool choices_by_label(const struct metric_case *c);
// Index of the right choice, which the data gives by number from 0, by its text, or by its letter
// ("B", "(B)"). -1 with a message if it gives none.
int choices_right(const struct metric_case *c, struct err *err);
// Index of a text that is a single letter ("B", "b.", "(B)", a full-width one) among `count`
// choices, or -1.
int choices_letter(const char *text, int count);
// Returns the code points of a text in compatibility form (NFKC), in which full-width letters and
// punctuation are ASCII. The first is at [1]; [0] and the one after the last are 0; a byte that is
// not UTF-8 is negative. free() it.
int32_t *choices_points(const char *text);
// Whether the code point next to a Latin letter makes one word with it. Letters of scripts without
// blanks between words (CJK, Thai) do not.
bool choices_joins(int32_t c);

// --- rules that read a letter --------------------------------------------------------------------

// A metric's score: compares the letter that m->letter reads with the right one.
int choices_score(const struct metric *m, const struct metric_case *c, struct metric_outcome *o,
                  struct err *err);
// The same with a letter that was read already.
int choices_score_letter(const struct metric_case *c, int letter, struct metric_outcome *o,
                         struct err *err);
// The outcome of an answer's letter (NO_LETTER: none).
struct metric_outcome choices_outcome(const struct metric_case *c, int letter, int right);
// Counts answers without a letter.
int choices_summary(const struct metric_tally *t, struct metric_number *to);
// "B": 1; NO_LETTER: anything but one capital letter.
int choices_whole_letter(const char *text);
// Whether the sample has a choice with this letter; without choices: A to D.
bool choices_has(const struct metric_case *c, int letter);
// The only choice whose text, in lower case, is part of the lower-case answer; NO_LETTER.
int choices_only_text(const struct metric_case *c, const char *lower, int most);

#endif
