// core/data/labels.c -- converts conversations to rows and targets.
#include "core/data/labels.h"

#include <stdlib.h>
#include <string.h>

#include "core/model/families/family.h"
#include "core/template/message.h"

// Sets the targets of the rows that predict an answer's rows. Answers are in the order of their
// messages; untrained ones stay context.
static void mark_answers(struct labels *l, const struct message *messages, size_t count,
                         const struct prompt_answer *answers, size_t answer_count,
                         int32_t end_token)
{
    const struct sequence *s = &l->sequence;
    size_t k = 0;
    for (size_t i = 0; i < count; i++) {
        if (messages[i].role != ROLE_ASSISTANT || messages[i].generated) continue;
        if (!answers || k == answer_count) BUG("more answers than the prompt has");
        const struct prompt_answer *a = &answers[k++];
        if (messages[i].untrained) continue;
        for (int64_t row = a->first > 0 ? a->first : 1; row < a->end; row++)
            if (s->picture[row] < 0) l->target[row - 1] = s->ids[row];
        if (a->open && end_token >= 0 && a->end > a->first) l->target[a->end - 1] = end_token;
    }
}

int labels_make(struct labels *l, const struct message *messages, size_t count,
                const struct picture *pictures, size_t picture_count, const struct model *m,
                const struct settings *s, struct err *err)
{
    struct prompt_answer *answers = NULL;
    struct prompt_options options;
    struct sequence *rows = &l->sequence;
    const int64_t vocab = m->decoder.config.vocab;
    const int32_t end_token = m->eos.count ? m->eos.data[0] : -1;
    size_t answer_count = 0;
    *l = (struct labels){ 0 };
    if (picture_count && !model_has_vision(m))
        return err_set(err, "it has a picture, but the model '%s' is text-only", m->name);
    for (size_t i = 0; i < picture_count; i++)
        if (model_check_picture(m, &pictures[i], err) < 0) return -1;
    if (end_token >= vocab)
        return err_set(
            err,
            "the token that ends answers (%d, \"eos_token_id\") is not one of the model's "
            "%lld tokens",
            end_token, (long long)vocab);
    if (model_prompt(m, s, false, &options, err) < 0 ||
        prompt_answers(messages, count, pictures, picture_count, m->tokenizer, &options, rows,
                       &answers, &answer_count, err) < 0) {
        labels_release(l);
        free(answers);
        return -1;
    }
    const struct prompt_answer *last = answer_count ? &answers[answer_count - 1] : NULL;
    if (last && last->open && last->end == rows->n && m->eos.count)
        sequence_append(rows, end_token);
    if (m->family->positions) m->family->positions(m, pictures, rows);
    l->target = xreallocarray(NULL, (size_t)rows->n + 1, sizeof *l->target);
    for (int64_t i = 0; i < rows->n; i++) l->target[i] = -1;
    mark_answers(l, messages, count, answers, answer_count, end_token);
    for (int64_t i = 0; i < rows->n; i++) l->trained += l->target[i] >= 0;
    free(answers);
    return 0;
}

void labels_release(struct labels *l)
{
    sequence_release(&l->sequence);
    free(l->target);
    *l = (struct labels){ 0 };
}

bool labels_answered(const struct message *messages, size_t count)
{
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; messages[i].role == ROLE_ASSISTANT && !messages[i].untrained &&
                           k < messages[i].content_count;
             k++) {
            const char *text = messages[i].content[k].text;
            if (text && text[strspn(text, " \t\r\n")]) return true;
        }
    return false;
}
