// core/metrics/vqa_text.h -- clean-up of short answers as the VQA evaluation does it (Antol et al.
// 2015), in the variants that are in use.
#ifndef CORE_METRICS_VQA_TEXT_H
#define CORE_METRICS_VQA_TEXT_H

#include <stdbool.h>

// How the regular expressions of a program read: each was copied with a change.
struct vqa_text_rule {
    bool many_commas;      // commas between digits: (?<=\d),+(?=\d), otherwise \d,\d
    bool keep_after_digit; // a full stop after a digit stays ("3."), otherwise only one before
                           // a digit does
};

// Punctuation out: where one of the marks stands beside a blank, or anywhere if the text has a
// comma between digits, it is dropped; otherwise it becomes a blank. Then the first 32 full stops
// that the rule does not keep (the programs pass re.UNICODE, 32, as the count). free() it.
char *vqa_text_punctuation(const char *text, struct vqa_text_rule rule);
// Lower case, number words to digits, articles out, contractions get their apostrophe. free() it.
char *vqa_text_digits_articles(const char *text);
// Blanks for line ends and tabs, none at the ends. free() it.
char *vqa_text_line(const char *text);
// All that EvalAI's processor does: lower case, no commas and question marks, "'s" apart, then the
// above. free() it.
char *vqa_text_evalai(const char *text);

#endif
