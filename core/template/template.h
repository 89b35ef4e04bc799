// core/template/template.h -- chat templates: messages to token ids.
//
// The folder's own template renders the messages (core/template/jinja.h). A layout (a row of a
// table of built-in formats: Vicuna, Llama-3, ChatML...) renders them instead if `chat.template`
// names the layout, if the folder has no template that can be rendered, or if the conversation is
// empty or has raw ids. Both yield pieces: text, pictures, and ids kept from messages. Adjacent
// texts are tokenised together, because the reference tokenises the whole prompt at once.
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
struct picture_mark;
struct sequence;
struct settings;
struct tokenizer;

struct buf;
struct names;
struct layout; // one row of the table

// Names for `chat.template`: "vicuna", "llama-3", ... NULL past the end.
const char *layout_name(int index);
const struct layout *layout_find(const char *name);
const char *layout_title(const struct layout *layout); // its name
// Returns the token that ends an answer in the layout; -1 if the layout ends answers with no single
// token, or if the tokenizer lacks the token.
int32_t layout_end(const struct layout *layout, const struct tokenizer *t);
// Detects the layout by marks in the text of the folder's chat template, or by the tokenizer's
// special tokens; `plain` if neither decides, or without a template. Needs no model.
const struct layout *layout_detect(const char *chat_template, const struct tokenizer *t);

// Parses a folder's chat template and tries it on small conversations, one with a picture when
// `placeholder` is the id of visual tokens (not -1). `config`: tokenizer_config.json, for bos_token
// and the like; may be NULL. Returns NULL with the reason if the template is unusable.
struct chat_template *chat_template_open(const char *text, const cJSON *config,
                                         const struct tokenizer *t, int32_t placeholder,
                                         struct err *err);
// Returns true if the template changes the texts of messages (upper case, other spaces). False for
// NULL.
bool chat_template_changes(const struct chat_template *t);
// Returns the names of the variables that the template takes besides those that vlmsh sets
// (messages, special tokens ...), at most 64; users set them as chat.template.NAME. t NULL: none.
const struct names *chat_template_variables(const struct chat_template *t);
void chat_template_free(struct chat_template *t);

struct prompt_options {
    const struct chat_template *template; // NULL: the layout renders
    const struct settings *variables;     // values of the template's variables; NULL: none
    const struct layout *layout;
    const char *chat_template; // text of the folder's template, which may have a default system
                               // message for the layout; or NULL
    const char *date;          // chat.date: "today" or text, for layouts that name the date
    const char *picture_before, *picture_after; // around a picture's tokens ("" for LLaVA)
    // Writes the text before each part of a picture's tokens (picture.part_tokens) and after the
    // last; NULL: no text.
    void (*picture_mark)(struct buf *to, const struct picture_mark *mark);
    bool picture_numbers;   // the marks number the prompt's pictures
    int32_t placeholder;    // placeholder id of visual tokens
    int64_t vocab;          // size of the model's vocabulary; 0: ids are not checked
    int64_t context;        // context length in tokens; much longer prompts are errors. 0: unknown
    bool plain_data;        // special tokens spelled in messages of data stay text
    bool written;           // adds no BOS beyond what the template writes
    bool generation_prompt; // ends with the start of the assistant's answer
};

// Tokenises the whole conversation, with pictures[i].tokens placeholders for picture i: fills ids,
// picture, cell and newline of `s` (the family sets positions).
int prompt_sequence(const struct message *messages, size_t count, const struct picture *pictures,
                    size_t picture_count, const struct tokenizer *t, const struct prompt_options *o,
                    struct sequence *s, struct err *err);

// prompt_dated returns true if the template or the layout includes the date. The other two return
// the date (chat.date, or today); the caller frees it.
bool prompt_dated(const struct prompt_options *o);
char *prompt_date(const struct prompt_options *o);
char *prompt_date_at(const char *date, int64_t time); // chat.date at that time

// The rows [first, end) of an answer in the messages: everything after the generation prompt,
// including the end of the turn. A token that spans the start of an answer is part of the answer
// (from there, the rows differ from a prompt's); a token that spans the end of an answer is not.
struct prompt_answer {
    int64_t first, end;
    bool open; // no end-of-turn text follows it
};

// Like prompt_sequence, but also locates the answers' rows, in *answers [*answer_count], which the
// caller frees. The sequence's prompt (used by pruning) ends where the last answer begins. answers
// NULL: skips this.
int prompt_answers(const struct message *messages, size_t count, const struct picture *pictures,
                   size_t picture_count, const struct tokenizer *t, const struct prompt_options *o,
                   struct sequence *s, struct prompt_answer **answers, size_t *answer_count,
                   struct err *err);

// The rows [first, end) of a message's text; the first token may also hold the end of the preceding
// text.
struct prompt_text {
    size_t message; // index
    int64_t first, end;
};

// Locates the texts of the messages in the rows that prompt_sequence makes of them; messages that
// keep ids instead of text have none. The caller frees *texts [*text_count].
int prompt_texts(const struct message *messages, size_t count, const struct picture *pictures,
                 size_t picture_count, const struct tokenizer *t, const struct prompt_options *o,
                 struct prompt_text **texts, size_t *text_count, struct err *err);

#endif
