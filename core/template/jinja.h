// core/template/jinja.h -- chat templates: the part of Jinja2 that published templates use
// (docs/templates.md), in transformers' environment: trim_blocks, lstrip_blocks, `break`,
// `generation`, its tojson and functions. Any other construct of Jinja2 is an error whose message
// names the construct and its line: jinja_parse reports it, or jinja_render when the rendering
// reaches the construct (output.unknown).
//
//   struct jinja *t = jinja_parse(text, length, "chat_template.jinja", &err);
//   struct jinja_arena arena = { 0 };
//   struct jinja_value vars = jinja_dict(&arena);
//   jinja_set(&arena, vars, "name", jinja_text(&arena, "x", 1, 7));   // from source 7
//   jinja_render(t, &arena, vars, 0, &output, &err);
//
// Every operation keeps the origin of each byte of a string, so the rendered text shows which parts
// the user typed. Templates are untrusted: nesting and output are bounded, and parsing and
// rendering share a budget of steps and memory. Ctrl-C ends both.
#ifndef CORE_TEMPLATE_JINJA_H
#define CORE_TEMPLATE_JINJA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "core/base/err.h"
#include "core/base/mem.h"

struct jinja; // a parsed template

// Memory of a parsed template or of one rendering: all values last until jinja_arena_release. Also
// counts the budget used.
struct jinja_arena {
    struct jinja_block *blocks;
    size_t used;       // bytes of all blocks; a rendering adds those of its template
    uint64_t steps;    // operations so far; a rendering adds those of parsing its template
    const char *spent; // why parsing or rendering must stop, or NULL
};

void jinja_arena_release(struct jinja_arena *arena);

enum { JINJA_TEMPLATE = -1 }; // the source of the template's own text

enum jinja_kind {
    JINJA_ABSENT,    // a missing argument
    JINJA_UNDEFINED, // name: the undefined name
    JINJA_NONE,
    JINJA_BOOL,
    JINJA_INT,
    JINJA_REAL,
    JINJA_TEXT,
    JINJA_LIST,
    JINJA_TUPLE,
    JINJA_VIEW,      // of a dict's keys or items
    JINJA_RANGE,     // list: its numbers
    JINJA_GENERATOR, // list: the remaining items
    JINJA_DICT,
    JINJA_NAMESPACE, // dict: its attributes
    JINJA_LOOP,      // `loop`
    JINJA_FUNCTION,  // a global function
    JINJA_METHOD,    // of a value
    JINJA_MACRO,
};

struct jinja_value {
    enum jinja_kind kind;
    union {
        bool truth;
        int64_t integer;
        double real;
        const char *name;
        const struct jinja_string *text;
        struct jinja_list *list;
        struct jinja_dict *dict;
        struct jinja_loop *loop;
        const struct jinja_callable *function;
        struct jinja_method *method;
        struct jinja_macro *macro;
    };
};

// Bytes [start, end) of a text are a copy of a source's bytes, starting at its byte `from`. Bytes
// without a span come from the template.
struct jinja_span {
    size_t start, end;
    int32_t source;
    size_t from; // SIZE_MAX: changed by the template (upper case, escapes)
};

// --- values --------------------------------------------------------------------------------------

struct jinja_value jinja_text(struct jinja_arena *arena, const char *bytes, size_t length,
                              int32_t source);
// Makes a text that belongs to the template.
struct jinja_value jinja_words(struct jinja_arena *arena, const char *text);
struct jinja_value jinja_bool(bool truth);
struct jinja_value jinja_dict(struct jinja_arena *arena);
void jinja_set(struct jinja_arena *arena, struct jinja_value dict, const char *key,
               struct jinja_value value);
// Reads a value from JSON; all its texts, but not the keys of objects, come from `source`. Numbers
// with a point or an exponent, and those beyond int64_t, are reals.
int jinja_json(struct jinja_arena *arena, const char *json, size_t size, const char *name,
               int32_t source, struct jinja_value *value, struct err *err);

// --- templates -----------------------------------------------------------------------------------

// Returns NULL with the reason: the line of an unknown or invalid construct, invalid UTF-8, a
// template that is too long, or a spent budget.
struct jinja *jinja_parse(const char *text, size_t length, const char *name, struct err *err);
void jinja_free(struct jinja *t);
// True if the template mentions this variable or function.
bool jinja_mentions(const struct jinja *t, const char *name);
// Calls `take` for each place where the template reads a name that it has not assigned: its
// variables, not functions. Ignores the rest of a template with very many names.
void jinja_variables(const struct jinja *t, void (*take)(void *self, const char *name), void *self);

struct jinja_output {
    struct buf text;
    struct jinja_span *spans; // in order, disjoint
    size_t span_count;
    bool unknown; // rendering failed at a construct that this engine lacks
};

// Renders with the variables of a dict. `now`: for strftime_now; 0: the current time.
int jinja_render(const struct jinja *t, struct jinja_arena *arena, struct jinja_value variables,
                 time_t now, struct jinja_output *output, struct err *err);
void jinja_output_release(struct jinja_output *output);

#endif
