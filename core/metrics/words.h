// core/metrics/words.h -- answers as words, so that case, punctuation and blanks do not count.
#ifndef CORE_METRICS_WORDS_H
#define CORE_METRICS_WORDS_H

#include <stdbool.h>

// The words of a text, one blank between: folded case (Unicode), composed (NFC). Letters, marks,
// digits, '%' and signs of currency make words; apostrophes inside are dropped ("don't": dont); a
// point between digits and a minus before one stay, a comma between digits goes; all else parts
// words. Invalid UTF-8 is read byte by byte. Never NULL; free() it.
char *words_split(const char *text);
// The same as VQA's evaluation compares answers (Antol et al. 2015): besides, number words zero to
// ten become digits, and a, an, the go unless nothing else is there.
char *words_normal(const char *text);
// Do the words of `part` stand in `text` (both from above), one after another? Where the edge of
// `part` belongs to a script that writes no blanks (CJK), it may stand inside a word.
bool words_contain(const char *text, const char *part);

#endif
