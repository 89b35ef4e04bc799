// core/talk/show.h -- a dialogue of a data set as a conversation.
#ifndef CORE_TALK_SHOW_H
#define CORE_TALK_SHOW_H

#include "core/data/dialogue.h"
#include "core/talk/conversation.h"

// The conversation becomes the first `count` messages, with their pictures.
int conversation_show(struct conversation *c, const struct dialogue *d, size_t count,
                      struct err *err);
// Messages up to and with the last question; 0: it asks nothing.
size_t dialogue_question(const struct dialogue *d);

#endif
