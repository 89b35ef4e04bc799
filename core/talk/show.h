// core/talk/show.h -- converts a dialogue of a data set to a conversation.
#ifndef CORE_TALK_SHOW_H
#define CORE_TALK_SHOW_H

#include "core/data/dialogue.h"
#include "core/talk/conversation.h"

// Replaces the conversation by the first `count` messages of d, with their pictures. 0 or -1.
int conversation_show(struct conversation *c, const struct dialogue *d, size_t count,
                      struct err *err);

#endif
