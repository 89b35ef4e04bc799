// core/data/labels.h -- a conversation for training: its rows and their targets.
//
//   struct labels l;
//   if (labels_make(&l, s.dialogue.messages, s.dialogue.count, pictures, s.dialogue.path_count,
//                   model, settings, &err) < 0) ...
//   loss of the sample = mean over rows i with l.target[i] >= 0 of -log p(l.target[i] | rows 0..i)
//
// Answers that the data marks as context (message.untrained) have no targets.
//
// Trained tokens: everything the layout writes after the generation prompt of each answer,
// including the end of the turn. If a layout writes no end of an answer (LLaVA-1.5), the model's
// end token ends it: the last answer gets an extra row for it; earlier answers also predict it,
// although the conversation continues without it, as in generation.
//
// LLaVA-1.5's layout writes a space after every answer. Between turns the space is part of the next
// token (" USER"), so an earlier answer's last row predicts the end directly. After the last answer
// the space is a token, which the reference implementation also trains: answer, " ", end. A model
// trained on both forms ends an answer either way; the space is not visible.
#ifndef CORE_DATA_LABELS_H
#define CORE_DATA_LABELS_H

#include "core/model/model.h"

struct labels {
    struct sequence sequence; // [n] rows, with the family's positions
    int32_t *target;          // [n] target id of row i (the label of row i + 1), -1: none
    int64_t trained;          // number of targets other than -1
};

// Computes rows and targets. content_item.picture is an index into `pictures`, of which only the
// sizes are read (model_size_picture).
int labels_make(struct labels *l, const struct message *messages, size_t count,
                const struct picture *pictures, size_t picture_count, const struct model *m,
                const struct settings *s, struct err *err);
void labels_release(struct labels *l);
// Returns true if at least one answer to train on is not empty.
bool labels_answered(const struct message *messages, size_t count);

#endif
