// core/positions/positions.h -- positions of a sequence by name, for commands that measure or
// change parts of a pass: one table, one parser, one form for layers.
//
//   struct positions from;
//   if (positions_parse(&from, "picture[0,0,50%,50%],question", &err) < 0) ...
//   bool *rows = xcalloc(n, sizeof *rows);
//   positions_rows(&from, &env, rows, &err);       // sets the flags of these rows
//   positions_release(&from);
//
// A text names one or several of the rows of position_names, separated by commas.
//
// Room core/positions/: positions of a sequence and layers by name. Uses talk, model and what they
// use.
#ifndef CORE_POSITIONS_POSITIONS_H
#define CORE_POSITIONS_POSITIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/err.h"

struct image;
struct model;
struct picture;
struct prompt_text;
struct message;
struct sequence;

enum position_kind {
    POSITION_PICTURE,
    POSITION_OBJECT,
    POSITION_SYSTEM,
    POSITION_QUESTION,
    POSITION_LAST,
    POSITION_ANSWER,
    POSITION_TEXT,
    POSITION_SINKS,
    POSITION_ALL,
    POSITION_NUMBERS,
};

struct position_name {
    const char *name; // the word
    const char *form; // as help shows it
    const char *help;
    enum position_kind kind;
};

extern const struct position_name position_names[]; // ended by a row without a form
extern const char *const position_words[];          // the names, for completion; ended by NULL

struct position {
    enum position_kind kind;
    char *text;       // as written
    int picture;      // POSITION_PICTURE; -1: every picture
    bool region;      // only the tokens that `box` touches
    double box[4];    // left, top, width, height
    bool percent[4];  // of the picture's size; false: in pixels
    char *object;     // POSITION_OBJECT
    int64_t from, to; // POSITION_NUMBERS, the last included
};

struct positions {
    struct position *list;
    size_t count;
};

// Reads a text; checks its form, without a sequence.
int positions_parse(struct positions *p, const char *text, struct err *err);
void positions_release(struct positions *p);

// What the names mean in one sequence.
struct positions_env {
    const struct model *model;
    const struct sequence *sequence; // rows up to sequence->prompt are the prompt
    const struct picture *pictures;
    size_t picture_count;
    const struct message *messages; // of the prompt
    size_t message_count;
    const struct prompt_text *texts; // of `messages`
    size_t text_count;
    // Makes an image as large as a picture, white where the object is. *picture: its number. NULL:
    // objects are unknown.
    int (*object)(void *self, const char *name, int *picture, struct image *mask, struct err *err);
    // Sets the flags of attention sinks. NULL: they are unknown.
    int (*sinks)(void *self, bool *rows, struct err *err);
    void *self;
};

// Sets the flags rows[n] of the positions, and leaves the others. Returns their number, or -1: a
// name means nothing here, or selects no position.
int64_t positions_rows(const struct positions *p, const struct positions_env *env, bool *rows,
                       struct err *err);

// Returns the share of a cell (left, top, right, bottom, in pixels of the picture) that a box
// (left, top, width, height) or the bright pixels of a mask cover; the mask's size may differ from
// the picture's, width x height.
double positions_box_share(const double box[4], const double cell[4]);
double positions_mask_share(const struct image *mask, double width, double height,
                            const double cell[4]);

// Reads a list of layers, "all" or "0-3,8", into set[layers]. `name` names the text in messages.
// Returns the number of chosen ones, or -1.
int positions_layers(const char *text, const char *name, int layers, bool *set, struct err *err);

#endif
