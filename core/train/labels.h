// core/train/labels.h -- a conversation as training reads it: its rows, and what each must predict.
//
//   struct labels l;
//   if (labels_make(&l, s.dialogue.messages, s.dialogue.count, tokens, s.dialogue.path_count,
//                   model, settings, &err) < 0) ...
//   loss of the sample = mean over rows i with l.target[i] >= 0 of -log p(l.target[i] | rows 0..i)
//
// Trained is everything the prompt layout writes after the generation prompt of each answer, the
// end of the turn included. Where a layout writes nothing that ends an answer (LLaVA-1.5), the
// model's end token does: behind the last answer it is a row more; an earlier answer predicts it
// too, although the conversation goes on without it, as it does when the model answers.
//
// LLaVA-1.5's layout puts a blank behind every answer. Between turns it is the beginning of the
// next token (" USER"), so an earlier answer's last row predicts the end itself; behind the last
// answer it is a token of its own, and the reference's labels hold it: answer, " ", end. A model
// trained on both ends an answer either way; the blank is not seen.
#ifndef CORE_TRAIN_LABELS_H
#define CORE_TRAIN_LABELS_H

#include "core/model/model.h"

struct labels {
    struct sequence sequence; // [n] rows, with the family's positions
    int32_t *target;          // [n] id that row i must predict (the label of row i + 1), -1: none
    int64_t trained;          // how many are not -1
};

// picture_tokens [picture_count]: visual tokens of each picture (content_item.picture counts in
// them).
int labels_make(struct labels *l, const struct message *messages, size_t count,
                const int64_t *picture_tokens, size_t picture_count, const struct model *m,
                const struct settings *s, struct err *err);
void labels_release(struct labels *l);
// Is there an answer that says something?
bool labels_answered(const struct message *messages, size_t count);

// Visual tokens of a picture file by its header alone, without its pixels; `size` bytes of it.
int labels_picture_tokens(const struct model *m, const void *bytes, size_t size, const char *name,
                          int64_t *tokens, struct err *err);

#endif
