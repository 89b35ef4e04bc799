// core/template/thinking.h -- separates the reasoning at the start of an answer from the answer.
//
//   struct thinking_text t;
//   thinking_start(&t, list, opened);               // opened: marks that the prompt opens, or NULL
//   thinking_push(&t, text, &reasoning, &answer);    // text of each token, in order
//   thinking_finish(&t, &reasoning, &answer);
//   ... t.reasoning, t.answer ...
//   thinking_release(&t);
//
// Marks belong to neither text, nor does white space before an opening mark, at the start of the
// reasoning, or after a closing mark. An answer may start with several pieces of reasoning. A
// closing mark without an opening one makes all text before it reasoning, unless the answer already
// has reasoning.
#ifndef CORE_TEMPLATE_THINKING_H
#define CORE_TEMPLATE_THINKING_H

#include <stdbool.h>
#include <stddef.h>

#include "core/base/mem.h"

struct tokenizer;

struct thinking_marks {
    const char *open, *close;
    bool rare; // recognised in chat only if the chat template or the tokenizer has the closing mark
};

// The marks of known models; ends with a row without marks. The first two rows are the marks that
// lmms-eval knows.
extern const struct thinking_marks thinking_table[];

enum { THINKING_MOST = 12 };

// The marks of a model: those of the table, rare ones only if its template or tokenizer has the
// closing mark, and a pair found there.
struct thinking_list {
    struct thinking_marks marks[THINKING_MOST + 1]; // ends with a row without marks
    char *open, *close;                             // the pair found there, or NULL
};

// chat_template may be NULL.
void thinking_list_make(struct thinking_list *l, const char *chat_template,
                        const struct tokenizer *t);
void thinking_list_release(struct thinking_list *l);
// Returns the marks whose opening mark ends the text, apart from white space; NULL: none.
const struct thinking_marks *thinking_opened(const struct thinking_list *l, const char *text);
// True if a special token is part of a mark, so that it must not be left out of the answer's text.
bool thinking_has_token(const struct thinking_list *l, const char *token);

struct thinking_text {
    const struct thinking_list *list;
    enum { THINKING_AT_START, THINKING_INSIDE, THINKING_OUTSIDE } state;
    const struct thinking_marks *marks; // of the newest reasoning; NULL: no reasoning so far
    bool turned;     // the last push found a closing mark alone: the text before it is reasoning
    struct buf held; // text that may be the start of a mark
    struct buf reasoning, answer; // so far
};

void thinking_start(struct thinking_text *t, const struct thinking_list *l,
                    const struct thinking_marks *opened);
// Appends the new text to `reasoning` or `answer`.
void thinking_push(struct thinking_text *t, const char *text, struct buf *reasoning,
                   struct buf *answer);
void thinking_finish(struct thinking_text *t, struct buf *reasoning, struct buf *answer);
void thinking_release(struct thinking_text *t);

#endif
