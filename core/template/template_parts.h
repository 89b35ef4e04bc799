// core/template/template_parts.h -- a prompt on its way from messages to ids; shared by template.c,
// template_layout.c, layouts.c and template_jinja.c.
#ifndef CORE_TEMPLATE_TEMPLATE_PARTS_H
#define CORE_TEMPLATE_TEMPLATE_PARTS_H

#include "core/base/mem.h"
#include "core/template/template.h"
#include "core/tokenizer/tokenizer.h"

// --- layouts ------------------------------------------------------------------------------------
//
// The strings come from the published chat templates; tests compare a layout's output with that of
// its template.

// Handling of the system message.
enum system_place {
    SYSTEM_MESSAGE,   // a normal message; by default `system`, or the folder's default message
    SYSTEM_WITH_DATE, // always present, after the knowledge cut-off and the date (Llama 3.2)
    SYSTEM_IN_USER,   // inside the first user message (Llama 2)
};

struct layout {
    const char *name;
    const char *marks[3];           // the layout applies to a folder whose chat template contains
                                    // all of them
    const char *begin;              // at the very beginning of a prompt
    const char *open[3], *close[3]; // around a message of ROLE_SYSTEM, ROLE_USER, ROLE_ASSISTANT
    const char *generation;         // start of the assistant's answer
    const char *text_open, *text_close; // around each text
    const char *picture_end;            // after each picture
    bool pictures_first;                // pictures precede the texts of their message
    bool trim;                          // drops white space around a text
    bool bare_answers; // no text ends an answer: training adds the model's end token
    enum system_place place;
    const char *system; // default system message; NULL: that of the folder's template, if any
};

extern const struct layout layouts[]; // ends with a row without a name

// --- renderings ---------------------------------------------------------------------------------

// The content of a hole: tokens of a picture, or the ids of a message.
struct filling {
    int picture;          // -1: ids
    int64_t first, count; // of the picture's tokens; count -1: all
    const struct message *message;
};

// An answer's text, after the generation prompt.
struct answer_range {
    struct text_range text;
    bool open; // no end-of-turn text follows it
};

// A text of a message.
struct message_range {
    struct text_range text;
    const struct message *message;
};

struct rendering {
    const struct prompt_options *options;
    const struct picture *pictures; // [picture_count]
    size_t picture_count;
    struct buf text;
    struct text_range *typed;
    struct text_hole *holes;
    struct filling *fillings;
    struct answer_range *answers;
    struct message_range *said; // the texts of messages, in order
    size_t typed_count, hole_count, answer_count, said_count;
    size_t message_text_end; // end of the newest text that comes from a message
    int64_t shown;           // pictures so far
    bool spelled;            // a message from data may spell special tokens
};

void rendering_release(struct rendering *r);
// Append a message's text, a message's ids, or a picture's tokens with the texts between them
// (picture_mark). rendering_answer records the range of an answer.
void rendering_message_text(struct rendering *r, const struct message *m, const char *text,
                            size_t length);
void rendering_ids(struct rendering *r, const struct message *m);
void rendering_picture(struct rendering *r, int picture);
void rendering_answer(struct rendering *r, size_t start, size_t end, bool open);

// True if the messages begin with raw ids; then no text precedes them.
bool begins_raw(const struct message *messages, size_t count);

// Renders by the template or the layout. `answers`: locates the answers.
int render_messages(struct rendering *r, const struct message *messages, size_t count, bool answers,
                    struct err *err);
void render_layout(struct rendering *r, const struct message *messages, size_t count);
int render_template(struct rendering *r, const struct message *messages, size_t count, bool answers,
                    struct err *err);

#endif
