// core/base/event.h -- what the engine and the commands say. They never print: they emit events to
// a sink. Plain lines, JSON lines, the full screen and the session database are sinks.
//
//   sinks_emit(sinks, &(struct event){ .kind = EVENT_NOTICE, .text = "model loaded" });
//
// Everything an event points to is borrowed for the duration of the call.
#ifndef CORE_BASE_EVENT_H
#define CORE_BASE_EVENT_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct image;
struct message;
struct picture;

enum event_kind {
    EVENT_TOKEN,    // text, id: one generated token as it comes (text may be empty)
    EVENT_ANSWER,   // answer: it is complete
    EVENT_TEXT,     // text: lines for the person (help, info); ok: a drawing, lines stay whole
    EVENT_IDS,      // ids: token ids
    EVENT_TABLE,    // table
    EVENT_HEATMAP,  // heatmap
    EVENT_COLUMNS,  // columns: two texts side by side
    EVENT_PROGRESS, // progress of a load (job 0) or a job
    EVENT_SETTING,  // key, value: changed (ok is true), or asked for; count: in the middle of an
                    // answer that had so many tokens, 0: not so
    EVENT_NOTICE,   // text: something worth knowing
    EVENT_ERROR,    // where, text
    EVENT_DONE,     // ok: a line of input has been dealt with
    // For the session database, shown to nobody:
    EVENT_MODEL,     // text = folder, value = fingerprint, key = what compute.matmul auto means for
                     // it here: "f32", "bf16", or "f32 only" where the device has nothing else
    EVENT_MESSAGE,   // message, pictures: said to the model, before the answer begins
    EVENT_UNDO,      // count: that many last messages are taken back
    EVENT_CLEAR,     // the conversation begins anew
    EVENT_MEASURED,  // key = what, text = its tables and maps as JSON
    EVENT_ANSWERING, // ok: an answer is being computed from now on / no longer
    // What a job tells (core/train/job.h):
    EVENT_METRIC, // key = series, count = step, real
    EVENT_STEP,   // count: all of this step has been told; stored from here on
    EVENT_REWIND, // count: it goes on with this step; what was told of it and later is forgotten.
                  // key: only in series whose names end so; NULL: in all
    EVENT_RESULT, // key, value: what came out of it
    EVENT_SCORE,  // score: one sample evaluated
};

struct event_answer {
    const char *text;
    const int32_t *ids; // generated ids, the end token not among them
    size_t count;
    int64_t prompt_tokens, visual_tokens; // of the whole prompt
    int64_t computed_tokens;              // of the prompt, not found in the cache
    double prefill_s, decode_s, vision_s;
    const char *stop;     // "eos", "length", "cancelled"
    bool full;            // "length" is that of the context, not sample.max_tokens
    bool in_conversation; // part of the conversation; false for a mere prefill or a batch of
                          // questions
    bool again;           // it takes the place of the answer that was the last message
};

struct event_table {
    const char *name;
    const char *const *columns; // [column_count]
    int column_count, row_count;
    // [row_count * column_count], row by row; as shown. Numbers are recognised by json sinks
    // through `numeric`.
    const char *const *cells;
    const bool *numeric; // [column_count]
    bool titled;         // several come together: people see the name
};

struct event_heatmap {
    const char *name;
    int picture, layer, head, token; // -1 = all / mean; head, token -2: it has none
    int rows, cols;
    const float *values; // [rows * cols]; NaN: nothing is there
    float min, max;
    // For drawing; all may be NULL.
    const char *tile;          // which part of the picture
    const uint8_t *dropped;    // [rows * cols] 1: pruning dropped the token
    const struct image *image; // what it lies over, and where:
    double area[4];            // left, top, right, bottom in its pixels
};

struct event_columns {
    const char *title[2], *text[2];
    size_t common; // bytes at the beginning of both texts that are the same
    // Where each token's text begins, where the texts are answers; else NULL. Maps of these tokens
    // may have been told before ("compare.A", "compare.B").
    const size_t *starts[2];
    size_t tokens[2];
};

struct event_progress {
    int64_t job;
    const char *what;                // "loading", "training"
    double step, steps, loss, eta_s; // loss, eta_s: NaN when unknown
};

struct event_score {
    int64_t index;                                // of the sample; told again, it replaces
    const char *id, *prompt, *answer, *reference; // NULL: none
    const char *group;                            // "colour", "adversarial", or NULL
    double score;                                 // 0..1, or what the metric gives
};

struct event {
    enum event_kind kind;
    const char *text, *where, *key, *value;
    int32_t id;
    int64_t count;
    double real;
    bool ok;
    const int32_t *ids;
    const struct event_answer *answer;
    const struct event_table *table;
    const struct event_heatmap *heatmap;
    const struct event_columns *columns;
    const struct event_progress *progress;
    const struct event_score *score;
    const struct message *message;
    const struct picture *pictures; // what the message's parts count by
};

struct sink {
    void (*emit)(void *self, const struct event *event);
    void *self;
};

enum { SINKS_MAX = 8 };

struct sinks {
    struct sink list[SINKS_MAX];
    int count;
};

void sinks_add(struct sinks *sinks, struct sink sink);
void sinks_emit(const struct sinks *sinks, const struct event *event);
void sinks_notice(const struct sinks *sinks, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void sinks_text(const struct sinks *sinks, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void sinks_drawing(const struct sinks *sinks, const char *text); // its lines stay whole

// A table filled row by row:  table_begin(&t, "norms", 2, columns); table_add(&t, "%d", 3); ...
struct table_builder {
    const char *name;
    const char *const *columns;
    const bool *numeric;
    bool titled;
    int column_count;
    char **cells;
    size_t count, capacity;
};

void table_begin(struct table_builder *t, const char *name, int column_count,
                 const char *const *columns, const bool *numeric);
void table_add(struct table_builder *t, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
// Emits and frees it.
void table_emit(struct table_builder *t, const struct sinks *sinks);

#endif
