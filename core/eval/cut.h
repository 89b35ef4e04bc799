// core/eval/cut.h -- answers that a limit ended: their scores may be too low.
#ifndef CORE_EVAL_CUT_H
#define CORE_EVAL_CUT_H

#include "core/base/event.h"

enum cut { CUT_NONE, CUT_CONTEXT, CUT_LENGTH, CUTS }; // ctx.max, sample.max_tokens

enum cut cut_of(const struct event_answer *a);
// "3 hit the context limit (ctx.max); 1 reached sample.max_tokens"; NULL: none did.
char *cut_text(const int64_t counts[CUTS]);

#endif
