// core/text/template.h -- prompt layouts: messages to token ids.
//
// A layout writes messages the way the model was trained to read them (Vicuna, Llama-3, ChatML...).
// Layouts are rows of one table; `chat.template` overrides the one found from the folder's own chat
// template. Rendering gives pieces: text, pictures, and ids kept from generated answers. Adjacent
// text is tokenised as one stretch, as the reference does with the whole prompt.
#ifndef CORE_TEXT_TEMPLATE_H
#define CORE_TEXT_TEMPLATE_H

#include "core/settings/settings.h"
#include "core/text/message.h"
#include "core/text/sequence.h"
#include "core/text/tokenizer.h"

struct checkpoint;

struct layout; // one row of the table

// Names for `chat.template`: "vicuna", "llama-3", ... NULL past the end.
const char *layout_name(int index);
const struct layout *layout_find(const char *name);
// The layout that writes what the folder's chat template writes; a plain one when there is none.
// Needs no model: it is recognised by marks in the template's text.
const struct layout *layout_detect(const char *chat_template, const struct tokenizer *t);

struct prompt_options {
    const struct layout *layout;
    const char
        *chat_template; // the folder's own text (default system message is read from it) or NULL
    const char *date;   // chat.date: "today" or text, for layouts that name the date
    const char *picture_before, *picture_after; // around a picture's tokens ("" for LLaVA)
    int32_t placeholder;                        // token id at visual places
    bool generation_prompt;                     // end with what opens the assistant's answer
};

// The rendered text with one "<image>" per picture (transcripts, tests); belongs to the caller.
char *prompt_text(const struct message *messages, size_t count, const struct prompt_options *o);
// Token ids of the whole conversation, pictures expanded to pictures[i].tokens placeholders each:
// fills ids, picture and cell of `s` (positions are the family's).
int prompt_sequence(const struct message *messages, size_t count, const struct picture *pictures,
                    size_t picture_count, const struct tokenizer *t, const struct prompt_options *o,
                    struct sequence *s, struct err *err);

// Does the layout tell the model the date? And which (chat.date, or that of today): belongs to the
// caller.
bool prompt_dated(const struct prompt_options *o);
char *prompt_date(const struct prompt_options *o);

// The rows [first, end) that stand for one given answer: what the layout writes after the
// generation prompt, the end of the turn included. Where a token belongs to both sides, first is
// that token (the rows differ from a prompt's from there on), and end is before it.
struct prompt_answer {
    int64_t first, end;
    bool open; // the layout writes nothing that ends it
};

// prompt_sequence, and where the answers are: *answers [*answer_count] belongs to the caller. The
// prompt of the sequence (what pruning asks) ends where the last of them begins.
int prompt_answers(const struct message *messages, size_t count, const struct picture *pictures,
                   size_t picture_count, const struct tokenizer *t, const struct prompt_options *o,
                   struct sequence *s, struct prompt_answer **answers, size_t *answer_count,
                   struct err *err);

#endif
