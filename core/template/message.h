// core/template/message.h -- messages made of text and pictures, and the pictures themselves.
#ifndef CORE_TEMPLATE_MESSAGE_H
#define CORE_TEMPLATE_MESSAGE_H

#include <stdbool.h>

#include "core/base/mem.h"
#include "core/picture/image.h"

enum role { ROLE_SYSTEM, ROLE_USER, ROLE_ASSISTANT, ROLE_RAW, ROLE_COUNT };

// Returns "system", "user", "assistant" or "raw".
const char *role_name(enum role role);
int role_parse(const char *name); // -1: unknown

struct content_item {
    char *text;  // NULL for a picture
    int picture; // index into the pictures of the conversation or sample, -1 for text
};

struct message {
    enum role role;
    struct content_item *content;
    size_t content_count;
    // Generated answers and raw messages have token ids. An answer is tokenised again only after
    // message_drop_ids, or if a chat template gets its reasoning separately or does not keep its
    // whole text.
    bool generated;
    struct ids ids;
    // The reasoning of an answer, without marks; NULL: none. The answer proper starts at byte
    // answer_at of the message's text.
    char *reasoning;
    size_t answer_at;
    int64_t reasoning_tokens;
    // From a data set: special tokens spelled in its texts are tokens (data.special_tokens).
    bool from_data;
    bool untrained; // an answer that the data marks as context, without loss
    bool example;   // from --shots: precedes a sample's own messages and is not scored
};

void message_add_text(struct message *m, const char *text);
void message_add_picture(struct message *m, int picture);
// Returns all texts of the message, joined; the caller frees the result.
char *message_text(const struct message *m);
// Sets the reasoning of an answer.
void message_set_reasoning(struct message *m, const char *reasoning, int64_t tokens,
                           size_t answer_at);
// Drops ids: an answer keeps its text, a raw message becomes empty.
void message_drop_ids(struct message *m);
void message_copy(struct message *to, const struct message *from);
void message_release(struct message *m);

// Determines the number and positions of a picture's visual tokens.
struct picture_shape {
    int64_t width, height; // pixels
    int64_t most_tokens;   // limit on visual tokens before `share`; 0: none
    int64_t budget;        // of visual tokens, in place of the model's (FIT_BUDGET); 0: the model's
    int64_t mode;          // patches per visual token, in place of the model's (FIT_SLICES); 0: the
                           // model's
    double share;          // share of its grids' tokens that averaging keeps; 0: all
    bool several;          // the prompt has other pictures, and the family encodes several
                           // differently from one
};

// A picture of the conversation: the bytes of its file, its pixels and its visual tokens.
struct picture {
    char *path; // as given, but long names shortened (picture_source_title); "-": standard input
    char sha256[65];
    void *bytes; // [size] content of the file
    size_t size;
    struct image image; // decoded, with alpha
    struct picture_shape shape;
    int64_t tokens; // number of visual tokens in this model (family->pictures->tokens)
    // Tokens newline, newline + newline_step ... end a row of the picture; step 0: none.
    int64_t newline, newline_step;
    // The prompt has text between the tokens (prompt_options.picture_mark): before each part of
    // part_tokens tokens; the parts form rows of part_cols parts. part_tokens 0: no such text.
    // part_first: the tokens of the first part if it differs from the others, else 0.
    int64_t part_tokens, part_cols, part_first;
    // [tokens, D] after the projector, before methods; NULL: not computed yet. Made by visual_keep.
    struct tensor *visual;
    float *focus; // [tokens] encoder's attention to them (SITE_FOCUS); NULL: not requested
    bool used;    // a pass has needed its visual tokens
};

// Where in a picture a prompt's text stands: before part i of `count`, or after the last (i ==
// count). The parts form rows of `cols` parts.
struct picture_mark {
    int64_t i, count, cols;
    int64_t number; // of the picture in the prompt, from 0; -1: the prompt does not number pictures
};

// Frees all but the visual tokens and their focus, which the conversation owns.
void picture_release(struct picture *p);

#endif
