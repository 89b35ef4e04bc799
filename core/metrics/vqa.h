// core/metrics/vqa.h -- clean-up of short answers as the VQA evaluation does it (Antol et al.
// 2015).
#ifndef CORE_METRICS_VQA_H
#define CORE_METRICS_VQA_H

#include <stdbool.h>

struct scratch;

// Where the regular expressions of the programs differ: each copied them with a change.
struct vqa_punctuation {
    bool many_commas;      // commas between digits: (?<=\d),+(?=\d), otherwise \d,\d
    bool keep_after_digit; // a full stop after a digit stays ("3."), otherwise only one before
                           // a digit does
};

// Drops punctuation: a mark that somewhere is beside a blank, or any if the text has a comma
// between digits; others become blanks. Then drops the first 32 full stops that the rule does not
// keep (the programs pass re.UNICODE, 32, as the count).
char *vqa_drop_punctuation(struct scratch *s, const char *text, struct vqa_punctuation rule);
// Does what EvalAI's processor does: lower case, no commas and question marks, "'s" apart, no
// punctuation, digits for number words, no articles, contractions with their apostrophe.
char *vqa_clean_evalai(struct scratch *s, const char *text);

#endif
