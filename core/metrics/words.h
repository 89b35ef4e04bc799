// core/metrics/words.h -- normalises answers to words, ignoring case, punctuation and spaces.
#ifndef CORE_METRICS_WORDS_H
#define CORE_METRICS_WORDS_H

#include <stdbool.h>

struct scratch;

// Returns the words of a text, separated by one space: case-folded (Unicode), composed (NFC). Words
// consist of letters, marks, digits, '%' and currency signs; apostrophes inside words are dropped
// ("don't": dont); a point between digits and a minus before a digit stay, a comma between digits
// is dropped; everything else separates words. Invalid UTF-8 is read byte by byte.
char *words_split(struct scratch *s, const char *text);
// Like words_split, but also applies the normalisation of VQA (Antol et al. 2015): number words
// zero to ten become digits, and a, an, the are dropped unless nothing else is left.
char *words_normal(struct scratch *s, const char *text);
// Returns the value of a number word from "zero" to "ten"; -1 for another word.
int words_number(const char *word);
bool words_is_article(const char *word); // a, an, the
// True if the words of `part` occur consecutively in `text` (both normalised as above). An edge of
// `part` in a script without spaces (CJK) may be inside a word.
bool words_contain(const char *text, const char *part);

#endif
