// core/metrics/ptb.h -- words of captions as pycocoevalcap splits them: the tokens of Stanford's
// PTBTokenizer 3.4.1 in lower case, without punctuation.
#ifndef CORE_METRICS_PTB_H
#define CORE_METRICS_PTB_H

struct scratch;

// Returns the words with one space between them.
char *ptb_words(struct scratch *s, const char *text);

#endif
