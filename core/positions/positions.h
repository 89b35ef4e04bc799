// core/positions/positions.h -- names for positions of a sequence, and lists of layers, for
// commands that measure or change parts of a pass.
//
//   struct positions from;
//   if (positions_parse(&from, "picture[0,0,50%,50%],question", &err) < 0) ...
//   bool *rows = xcalloc(n, sizeof *rows);
//   positions_rows(&from, &env, rows, &err);       // sets the flags of these rows
//   positions_release(&from);
//
// A text lists names from position_names, separated by commas.
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

// Parses a text and checks its syntax; needs no sequence.
int positions_parse(struct positions *p, const char *text, struct err *err);
void positions_release(struct positions *p);
// Only checks the syntax.
int positions_check(const char *text, struct err *err);
// Splits "FROM > TO" at the arrow; the caller frees both texts. False: the text has no arrow.
bool positions_split(const char *text, char **from, char **to);

// What is needed to find the rows of names in one sequence.
struct positions_env {
    const struct model *model;
    const struct sequence *sequence; // rows before sequence->prompt are the prompt
    const struct picture *pictures;
    size_t picture_count;
    const struct message *messages; // of the prompt
    size_t message_count;
    const struct prompt_text *texts; // of `messages`
    size_t text_count;
    // Makes a mask, white where the object is, and sets *picture to the index of the picture that
    // shows it. NULL: objects are unknown.
    int (*object)(void *self, const char *name, int *picture, struct image *mask, struct err *err);
    // Sets the flags of attention sinks. NULL: they are unknown.
    int (*sinks)(void *self, bool *rows, struct err *err);
    void *self;
};

// Sets rows[n] at the positions and leaves other flags unchanged. Returns the number of flags that
// it set, or -1 if a name has no meaning in this sequence or selects no position.
int64_t positions_rows(const struct positions *p, const struct positions_env *env, bool *rows,
                       struct err *err);

// Return the share of a cell (left, top, right, bottom, in pixels of the picture) that is covered
// by a box (left, top, width, height) or by the bright opaque pixels of a mask, whose size may
// differ from the picture's, width x height.
double positions_box_share(const double box[4], const double cell[4]);
double positions_mask_share(const struct image *mask, double width, double height,
                            const double cell[4]);

// Reads a list of layers ("0-3,8", or "all" or NULL for all) into set[layers]. Messages call the
// text `name`. Returns the number of chosen layers, or -1.
int positions_layers(const char *text, const char *name, int layers, bool *set, struct err *err);

#endif
