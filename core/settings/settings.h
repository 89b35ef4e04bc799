// core/settings/settings.h -- every setting of the program: one table that commands, panels,
// scripts, sessions, help and completion read.
//
// A setting is a row: key, type, range, default, unit, one sentence of help, and what a change
// makes stale. Each subject (the sampler, a method, the jobs) has an array of rows, NAME_settings,
// in its own file, and a line in core/lists.h. A value is read where it is needed:
// those of the sampler at every token, the others when an answer begins. A set belongs to one
// thread; another one gets a copy.
//
// Room core/settings/: the table of settings, sets of their values, and changes posted from another
// thread. It uses base.
#ifndef CORE_SETTINGS_SETTINGS_H
#define CORE_SETTINGS_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/err.h"

enum setting_type {
    SETTING_FLAG,    // on | off
    SETTING_INTEGER, // min..max
    SETTING_REAL,    // min..max
    SETTING_CHOICE,  // one of choices
    SETTING_TEXT,    // anything
    SETTING_PATH,    // a file or folder
    SETTING_LIST,    // layers: 3 | 2-5,22-29 | 60%-80%
    SETTING_REALS,   // numbers min..max: 0.5,0.25
};

// What a change reaches, each with what stands before it. From STALE_NEXT on it changes answers
// (core/adapter/provenance.h); from STALE_SEEN on what was computed is stale, and the conversation
// is computed again from there with the next answer.
enum setting_stale {
    STALE_NOTHING,  // no number at all: the screen
    STALE_JOBS,     // jobs that are started from now on
    STALE_TRAINING, // trainings that are started from now on
    STALE_MEASURED, // what measurements show of a conversation
    STALE_NEXT,     // tokens to come
    STALE_SEEN,     // keys and values from the first visual token on: what stands before it stays
    STALE_KV,       // keys and values
    STALE_VISUAL,   // visual tokens, and with them keys and values
    STALE_PROMPT,   // the prompt's text, and with it keys and values
};

struct setting {
    const char *key; // "sample.top_p"
    enum setting_type type;
    double min, max;            // of numbers, inclusive
    const char *def;            // default as one would type it
    const char *unit;           // "tokens", or NULL
    const char *const *choices; // NULL-terminated; for others: words accepted beside values
    enum setting_stale stale;
    const char *help; // one sentence
};

// The arrays of all subjects, NULL behind the last; they live as long as the program.
void settings_hand_over(const struct setting *const *all);

// All rows, in the order they are shown. settings_row NULL past the end.
int settings_count(void);
const struct setting *settings_row(int index);
const struct setting *settings_find(const char *key); // NULL if unknown
// The known key nearest to what was typed, for "did you mean"; NULL if none is near.
const char *settings_nearest(const char *key);
// The value as it is stored for another day, which may be spent in another folder: a path whole, if
// there is something. Belongs to the caller (free).
char *settings_stored(const char *key, const char *value);
// Do keys begin with `name` and a point?
bool settings_group(const char *name);
// Says that there is no such setting, and which one or ones may be meant. Returns -1.
int settings_unknown(const char *key, struct err *err);

// A set of values; new ones hold the defaults. Copies are independent (immutable snapshots).
struct settings;

struct settings *settings_new(void);
struct settings *settings_copy(const struct settings *s); // NULL: the defaults
void settings_free(struct settings *s);

// Checks the value against the row and stores it in its plain spelling, the only one that others
// ever see (no adapter is "none", whatever was typed). -1 with a message that says what is allowed;
// the former value stays.
int settings_set(struct settings *s, const char *key, const char *value, struct err *err);
void settings_reset(struct settings *s, const char *key);
bool settings_changed(const struct settings *s, const char *key); // differs from the default

// Values; the key must exist and have that type, else BUG. s == NULL reads the defaults.
const char *settings_text(const struct settings *s, const char *key); // any type, as typed
bool settings_flag(const struct settings *s, const char *key);
int64_t settings_integer(const struct settings *s, const char *key);
double settings_real(const struct settings *s, const char *key);
// True when a number setting holds one of its words, or a choice holds this one.
bool settings_is(const struct settings *s, const char *key, const char *word);

// A SETTING_LIST for a model of that many layers; when it holds a word (settings_is), BUG. Layers
// count from 0; A-B holds both ends; percentages of depth are rounded to layers, p% =
// round(p layers), half to even, and P%-Q% ends before Q: 60%-80% of 16 layers is 10..12. Lists are
// ascending without repetition. Sets the flags of those listed in set[layers]; returns how many
// there are, or -1 with a message when a layer is outside of the model or listed twice.
int settings_layers(const struct settings *s, const char *key, int64_t layers, bool *set,
                    struct err *err);
// The numbers of a SETTING_REALS in the order typed; belongs to the caller (free).
double *settings_reals(const struct settings *s, const char *key, size_t *count);

#endif
