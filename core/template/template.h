// core/template/template.h -- chat templates: messages to token ids.
//
// The folder's own template renders the messages (core/template/jinja.h), or a layout, one of a
// table of built-in formats (Vicuna, Llama-3, ChatML...), for `chat.template` and for folders whose
// template cannot be rendered. Either yields pieces: text, pictures, and ids kept from generated
// answers. Adjacent texts are tokenised together, like the whole prompt in the reference.
//
// Room core/template/: messages with pictures, the engine that renders chat templates, and the
// token sequence. Uses base, settings, picture and tokenizer.
#ifndef CORE_TEMPLATE_TEMPLATE_H
#define CORE_TEMPLATE_TEMPLATE_H

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/base/err.h"

struct message;
struct picture;
struct sequence;
struct tokenizer;

struct layout; // one row of the table

// Names for `chat.template`: "vicuna", "llama-3", ... NULL past the end.
const char *layout_name(int index);
const struct layout *layout_find(const char *name);
const char *layout_title(const struct layout *layout); // its name
// Detects the layout by marks in the text of the folder's chat template; the plain layout without
// one. Needs no model.
const struct layout *layout_detect(const char *chat_template, const struct tokenizer *t);

// A folder's own chat template, parsed.

// Parses a template and tries it on small conversations, one with a picture when `placeholder` is
// the id of visual tokens (not -1). `config`: tokenizer_config.json, for bos_token and the like;
// may be NULL. NULL if it is unusable here; the message names the unknown construct and its line.
struct chat_template *chat_template_open(const char *text, const cJSON *config,
                                         const struct tokenizer *t, int32_t placeholder,
                                         struct err *err);
// True if it changes messages' texts (upper case, other spaces). False for NULL.
bool chat_template_changes(const struct chat_template *t);
void chat_template_free(struct chat_template *t);

struct prompt_options {
    const struct chat_template *template; // NULL: the layout renders
    const struct layout *layout;
    const char
        *chat_template; // the folder's own text (default system message is read from it) or NULL
    const char *date;   // chat.date: "today" or text, for layouts that name the date
    const char *picture_before, *picture_after; // around a picture's tokens ("" for LLaVA)
    int32_t placeholder;                        // placeholder id of visual tokens
    int64_t vocab;                              // of the model; 0: ids are not checked
    int64_t context;        // tokens that fit; far more are an error. 0: unknown
    bool plain_data;        // special tokens spelled in messages of data stay text
    bool written;           // BOS only where the template writes it
    bool generation_prompt; // end with the start of the assistant's answer
};

// Tokenises the whole conversation, with pictures[i].tokens placeholders for picture i: fills ids,
// picture and cell of `s` (the family sets positions).
int prompt_sequence(const struct message *messages, size_t count, const struct picture *pictures,
                    size_t picture_count, const struct tokenizer *t, const struct prompt_options *o,
                    struct sequence *s, struct err *err);

// prompt_dated: true if the template includes the date. The others return it (chat.date, or today);
// the caller frees it.
bool prompt_dated(const struct prompt_options *o);
char *prompt_date(const struct prompt_options *o);
char *prompt_date_at(const char *date, int64_t time); // chat.date at that time

// The rows [first, end) of a given answer: everything after the generation prompt, including the
// end of the turn. If a token spans the boundary, first is that token (the rows differ from a
// prompt's from there on), and end is before it.
struct prompt_answer {
    int64_t first, end;
    bool open; // no text ends it
};

// prompt_sequence, plus the answers' rows in *answers [*answer_count], which the caller frees. The
// sequence's prompt (used by pruning) ends where the last answer begins. answers NULL: does not
// locate them.
int prompt_answers(const struct message *messages, size_t count, const struct picture *pictures,
                   size_t picture_count, const struct tokenizer *t, const struct prompt_options *o,
                   struct sequence *s, struct prompt_answer **answers, size_t *answer_count,
                   struct err *err);

#endif
