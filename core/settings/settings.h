// core/settings/settings.h -- every setting of the program: one table read by commands, panels,
// scripts, sessions, help and completion.
//
// A setting is a row: key, type, range, default, unit, what a change invalidates, one sentence of
// help, and other words that find it in a search. Each subject (the sampler, a method, the jobs)
// has an array of rows, NAME_settings, in its own file, and a line in core/lists.h. Code reads
// values where it uses them: the sampler's at every token, others when an answer begins. A set
// belongs to one thread; other threads get copies.
//
// Room core/settings/: the table of settings, sets of their values, and changes posted from another
// thread. Uses base.
#ifndef CORE_SETTINGS_SETTINGS_H
#define CORE_SETTINGS_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/err.h"

struct adapter;
struct adapters;
struct backend;
struct conversation;
struct model;
struct settings;
struct sinks;

enum setting_type {
    SETTING_FLAG,    // on | off
    SETTING_INTEGER, // min..max
    SETTING_REAL,    // min..max
    SETTING_CHOICE,  // one of choices
    SETTING_TEXT,    // anything
    SETTING_PATH,    // a file or folder
    SETTING_LIST,    // numbers of layers, or of other items: 3 | 2-5,22-29 | 60%-80%
    SETTING_REALS,   // numbers min..max: 0.5,0.25
    SETTING_FACTORS, // files, each with a factor min..max: a.safetensors=2.5,b.gguf=-1
    SETTING_VALUE,   // true, false, a number, a text, or JSON
};

// What a change invalidates; each value includes the ones above it. From STALE_NEXT on, a change
// affects answers (core/adapter/provenance.h); from STALE_SEEN on, it makes cached results stale,
// and the next answer recomputes the conversation from the first stale result.
enum setting_stale {
    STALE_NOTHING,  // no results
    STALE_MODELS,   // models loaded later
    STALE_JOBS,     // jobs started later
    STALE_RUNS,     // how later training runs execute, but not their result
    STALE_TRAINING, // training runs started later
    STALE_SCORED,   // later evaluations; no answer in a conversation
    STALE_MEASURED, // measurements of a conversation
    STALE_NEXT,     // later tokens
    STALE_SEEN,     // keys and values from the first visual token on; earlier ones stay
    STALE_KV,       // keys and values
    STALE_VISUAL,   // visual tokens, and therefore keys and values
    STALE_PROMPT,   // the prompt's text, and therefore keys and values
};

// How answers use a setting, for code that treats settings by their use (settings_used).
enum setting_use {
    USE_OTHER,
    USE_SAMPLING,   // sampling, which greedy decoding (validation, evaluation) ignores
    USE_SEED,       // random seed of sampling
    USE_LENGTH,     // maximum number of tokens
    USE_ARITHMETIC, // precision of matrix products
};

// The state that settings act on. Pointers may be NULL; each setting uses only some of the fields.
struct setting_env {
    const struct setting *row; // the row that is checked
    struct settings *settings; // the values that are checked or applied
    const struct backend *backend;
    struct model *model;
    struct adapters *adapters; // loaded for the model
    struct adapter *adapter;   // selected by the setting `adapter`, once checked
    bool reload;               // reads the folder of `adapter` again even if it is loaded
    struct conversation *conversation, *stashed;
    struct sinks *sinks;
};

struct setting {
    const char *key; // "sample.top_p"; "chat.template.*": a pattern
    enum setting_type type;
    double min, max;            // of numbers, inclusive
    const char *def;            // default, in canonical spelling
    const char *unit;           // "tokens", or NULL
    const char *const *choices; // NULL-terminated; for other types: words accepted besides values
    enum setting_stale stale;
    enum setting_use use;
    const char *help; // one sentence
    const char *also; // other search words, separated by spaces; NULL: none

    // Checks a value of the right type in this state. -1 with a message; 1: valid, and applied even
    // if its spelling is unchanged. NULL: always valid.
    int (*check)(struct setting_env *env, struct err *err);
    // Applies the new value; returns what becomes stale. NULL: takes no action; `stale` then names
    // the state that becomes stale.
    enum setting_stale (*apply)(const struct setting *row, const struct setting_env *env);
    // Resolves a value such as `auto` for comparing and recording; the caller frees the result.
    // `model` may be NULL. NULL: not recorded as a setting.
    char *(*effective)(const struct model *model, const struct backend *backend,
                       const struct settings *s);
    // Returns the value that a script sets to replay a session's `value` for the answer that began
    // at `began` (0: between answers). `arithmetic`: what compute.matmul auto meant in the session
    // (NULL: no model yet). The caller frees it; NULL: sets nothing yet.
    char *(*replay)(const char *value, const char *arithmetic, int64_t began);
};

// A row of type SETTING_VALUE whose key ends in "*" is a pattern: it describes the rows of all keys
// with a name in place of the "*". Such a row is made when its key is first set or offered, and
// stays. Until then its key finds the pattern's row, so that its value is the default.

// settings_clear empties the table; settings_add adds an array, which ends with a row without a key
// and lasts as long as the program.
void settings_clear(void);
void settings_add(const struct setting *rows);

// All rows, in display order. settings_row returns NULL past the end.
int settings_count(void);
const struct setting *settings_row(int index);
const struct setting *settings_find(const char *key); // NULL if unknown
int settings_index(const char *key);                  // -1 if unknown
// Like settings_index, but makes the row of a key that matches a pattern. -1: unknown, or too many
// rows.
int settings_make(const char *key);
bool setting_is_pattern(const struct setting *row);
// True if users see the row in lists: it is not a pattern and, if made from a pattern, it is
// offered or set in s (NULL: the defaults).
bool setting_listed(const struct setting *row, const struct settings *s);
// Offers users the pattern's rows of these names, and no others.
void settings_offer(const char *pattern, const char *const *names, size_t count);
// The rows to show to users: all but patterns and rows that are not offered. NULL past the end.
const struct setting *settings_shown(int index);
const struct setting *settings_used(enum setting_use use); // the first row of that use
// Returns the key most similar to a typed one, for "did you mean"; NULL: none is similar.
const char *settings_nearest(const char *key);
// Returns the canonical spelling of a typed value, which the caller frees; NULL with a message that
// lists the allowed values.
char *setting_spell(const struct setting *row, const char *value, struct err *err);
// Returns the row's effective value in `s`, or NULL (`effective`); the caller frees it.
char *setting_effective(const struct setting *row, const struct model *model,
                        const struct backend *backend, const struct settings *s);
// Returns the value as sessions store it: an existing path, even one with a factor, becomes
// absolute, because a session may be resumed in another folder. The caller frees it.
char *settings_stored(const char *key, const char *value);
// Groups: the group of train.lr is "train".
bool settings_group(const char *name); // true if the group exists
bool setting_in(const struct setting *row, const char *group);
// Reports an unknown setting, with suggestions. Returns -1.
int settings_unknown(const char *key, struct err *err);

// A set of values; new ones hold the defaults. Copies are independent (immutable snapshots).
struct settings *settings_new(void);
struct settings *settings_copy(const struct settings *s); // NULL: the defaults
void settings_free(struct settings *s);
// Swaps the values that differ.
void settings_swap(struct settings *a, struct settings *b);

// Checks the value against the row and stores it in canonical spelling, the only one that readers
// see ("none" for no adapter, whatever was typed). -1 with a message that lists the allowed values;
// the old value stays. Makes the row of a key that matches a pattern.
int settings_set(struct settings *s, const char *key, const char *value, struct err *err);
void settings_reset(struct settings *s, const char *key);
bool settings_changed(const struct settings *s, const char *key); // differs from the default

// Values; the key must exist, else BUG, and should have that type, which is not checked. s == NULL
// reads the defaults.
const char *settings_text(const struct settings *s, const char *key); // any type, as stored
bool settings_flag(const struct settings *s, const char *key);
int64_t settings_integer(const struct settings *s, const char *key);
double settings_real(const struct settings *s, const char *key);
// True if the value is this word: one that a number setting accepts, or a choice.
bool settings_is(const struct settings *s, const char *key, const char *word);

// Reads a SETTING_LIST for a model of that many layers; BUG if it holds a word (settings_is).
// Layers count from 0; A-B includes both ends; percentages of depth are rounded to layers, p% =
// round(p / 100 x layers), half to even, and P%-Q% ends before Q: 60%-80% of 16 layers is 10..12.
// If all ranges of percentages are empty, the layer nearest to the last one is used. Lists are
// ascending without repetition. Sets the flags of listed layers in set[layers]; returns their
// number, or -1 with a message when a layer is outside the model, listed twice or out of order.
int settings_layers(const struct settings *s, const char *key, int64_t layers, bool *set,
                    struct err *err);
// Like settings_layers, for lists of other items. Messages name the whole `of` and an item `what`
// ("prompt", "visual token").
int settings_numbers(const struct settings *s, const char *key, int64_t count, const char *of,
                     const char *what, bool *set, struct err *err);
// Like settings_numbers, for a list that is not a setting; `key` names it in messages ("--layers").
int list_numbers(const char *text, const char *key, int64_t count, const char *of, const char *what,
                 bool *set, struct err *err);
bool settings_has_layer(const struct settings *s, const char *key, int64_t layers, int64_t layer);
// Returns the value of a SETTING_VALUE as JSON; the caller frees it. NULL: the default.
char *settings_json(const struct settings *s, const char *key);
// Returns the numbers of a SETTING_REALS in the order typed; the caller frees them.
double *settings_reals(const struct settings *s, const char *key, size_t *count);
// A file of a SETTING_FACTORS. setting_spell drops files with a factor of 0; without files it
// returns the row's first word ("none").
struct file_factor {
    char *path;
    double factor;
};
// Reads a value of a SETTING_FACTORS in the order typed; free it with file_factors_free.
struct file_factor *file_factors(const char *value, size_t *count);
void file_factors_free(struct file_factor *list, size_t count);

#endif
