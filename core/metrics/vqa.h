// core/metrics/vqa.h -- clean-up of short answers as the VQA evaluation does it (Antol et al.
// 2015).
#ifndef CORE_METRICS_VQA_H
#define CORE_METRICS_VQA_H

#include <stdbool.h>

struct scratch;

// Differences between the programs' regular expressions.
struct vqa_punctuation {
    bool many_commas;      // commas between digits: (?<=\d),+(?=\d), otherwise \d,\d
    bool keep_after_digit; // a full stop after a digit stays ("3."), otherwise only one before
                           // a digit does
};

// Drops each mark that occurs beside a space, or every mark if the text has a comma between digits;
// replaces other marks by spaces. Then drops the first 32 full stops that the rule does not keep
// (the programs pass re.UNICODE, 32, as the count).
char *vqa_drop_punctuation(struct scratch *s, const char *text, struct vqa_punctuation rule);
// Normalises as EvalAI's processor does: lower case, no commas and question marks, "'s" as a word,
// no punctuation, digits for number words, no articles, contractions with their apostrophe.
char *vqa_clean_evalai(struct scratch *s, const char *text);

#endif
