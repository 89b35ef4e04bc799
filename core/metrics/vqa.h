// core/metrics/vqa.h -- normalises short answers like the VQA evaluation (Antol et al. 2015).
#ifndef CORE_METRICS_VQA_H
#define CORE_METRICS_VQA_H

#include <stdbool.h>

struct scratch;

// Differences between the programs' regular expressions.
struct vqa_punctuation {
    bool many_commas;      // finds commas between digits by (?<=\d),+(?=\d), otherwise by \d,\d
    bool keep_after_digit; // keeps a full stop after a digit ("3."), otherwise only before one
};

// Drops each mark that occurs beside a space, or every mark if the text has a comma between digits;
// replaces other marks with spaces. Then drops the first 32 full stops that the rule does not keep
// (the programs pass re.UNICODE, 32, as the count).
char *vqa_drop_punctuation(struct scratch *s, const char *text, struct vqa_punctuation rule);
// Normalises like EvalAI's processor: lower case, no commas or question marks, "'s" as a word, no
// punctuation, digits for number words, no articles, contractions with their apostrophe.
char *vqa_clean_evalai(struct scratch *s, const char *text);

#endif
