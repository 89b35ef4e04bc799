// core/talk/answer_marks.c -- finds the marks around the reasoning (such as <think>) in an answer's
// tokens and its prompt.
#include <stdlib.h>
#include <string.h>

#include "core/talk/answer.h"

void answer_put_mark(const struct model *m, int32_t id, struct buf *text)
{
    const char *token = tokenizer_token(m->tokenizer, id);
    if (tokenizer_is_special(m->tokenizer, id) && thinking_has_token(&m->thinking, token))
        buf_puts(text, token);
}

const struct thinking_marks *answer_opened(const struct model *m, const struct sequence *s)
{
    enum { LAST = 16 }; // tokens: enough for a mark and white space
    const int64_t n = s->prompt < LAST ? s->prompt : LAST;
    struct buf text = { 0 };
    tokenizer_decode(m->tokenizer, s->ids + s->prompt - n, (size_t)n, false, &text);
    const struct thinking_marks *opened = thinking_opened(&m->thinking, text.data ? text.data : "");
    buf_release(&text);
    return opened;
}

char *answer_whole(const struct model *m, const struct sequence *s, const struct ids *ids)
{
    const struct thinking_marks *opened = answer_opened(m, s);
    struct detokenizer words;
    struct buf text = { 0 };
    detokenizer_start(&words, m->tokenizer, true);
    for (size_t i = 0; i < ids->count; i++) {
        answer_put_mark(m, ids->data[i], &text);
        detokenizer_push(&words, ids->data[i], &text);
    }
    detokenizer_finish(&words, &text);
    detokenizer_release(&words);
    char *whole = buf_take(&text);
    char *marked = opened && !strstr(whole, opened->close) ? xasprintf("%s%s", opened->open, whole)
                                                           : xstrdup(whole);
    free(whole);
    return marked;
}
