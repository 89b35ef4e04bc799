// core/base/event.h -- events, through which the engine and the commands report. They never print:
// they emit events to sinks. Plain lines, JSON lines, the full screen and the session database are
// sinks.
//
//   sinks_emit(sinks, &(struct event){ .kind = EVENT_NOTICE, .text = "model loaded" });
//
// All pointers of an event are borrowed for the duration of the call.
#ifndef CORE_BASE_EVENT_H
#define CORE_BASE_EVENT_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct boxes;
struct err;
struct image;
struct message;
struct pace;
struct picture;

enum event_kind {
    EVENT_TOKEN,    // text, id: one generated token (text may be empty); id -1: no token, only the
                    // rest of the text. reasoning: text of the reasoning; value: all text, with
                    // marks; ok: a closing mark came without an opening one, so all earlier text is
                    // reasoning; token: probability and entropy, NULL: not computed
    EVENT_ANSWER,   // answer: the complete answer
    EVENT_TEXT,     // text: lines for the user (help, info); ok: they are a drawing and must not be
                    // wrapped
    EVENT_PAGE,     // text: the title of a page of help texts (commands/help_text.h), whose lines
                    // front ends rewrap; NULL: the page ends. Not in JSON
    EVENT_IDS,      // ids: token ids
    EVENT_RENDERED, // text: a rendered chat template, unchanged
    EVENT_TABLE,    // table
    EVENT_HEATMAP,  // heatmap
    EVENT_COLUMNS,  // columns: two texts side by side
    EVENT_CHANGED,  // changed: a question that one of two sides answers better; pictures: those
                    // of the question
    EVENT_PROGRESS, // progress: of loading or other work (job 0), or of a job
    EVENT_SETTING,  // key, value: a setting that was changed (ok) or queried; count: number of
                    // answer tokens before the change, 0 outside an answer
    EVENT_NOTICE,   // text: a notice
    EVENT_ERROR,    // where, text
    EVENT_DONE,     // a line of input was processed; ok: without an error
    EVENT_REQUEST,  // text: the "id" (JSON) of the request whose line begins; NULL: the line has
                    // ended
    EVENT_ATTACHED, // pictures: one that was attached to the next message; id: its number
    // The content of tables and notices as fields, for programs:
    EVENT_JOB,     // job: the current state of a job
    EVENT_SESSION, // session: the current state of a session
    EVENT_INFO,    // info: the model
    EVENT_WRITTEN, // text: the path of a file or folder; key: a word for what it holds
    // Mainly for the session database, not in JSON:
    EVENT_MODEL,     // text = folder, value = identity (UNHASHED...: not known yet), key = what
                     // compute.matmul auto means here: "f32", "bf16", or "f32 only" if the device
                     // supports nothing else
    EVENT_IDENTITY,  // text = folder, key = the placeholder that EVENT_MODEL had as value, value =
                     // the identity
    EVENT_MESSAGE,   // message, pictures: sent to the model, before the answer begins
    EVENT_UNDO,      // count: number of messages removed from the end
    EVENT_CLEAR,     // the conversation was cleared
    EVENT_MEASURED,  // key = name of a measurement, text = its tables and maps as JSON; value = the
                     // words of the command line that repeats it, as a JSON list; NULL: none; ok:
                     // the line makes a file that later settings may name (a steering vector)
    EVENT_ANSWERING, // ok: true when an answer starts, false when it has ended
    // Emitted by jobs (core/jobs/job.h):
    EVENT_METRIC, // key = series, count = step, real = value
    EVENT_STEP,   // count: the step whose events are complete; the database stores them now
    EVENT_REWIND, // count: the job continues at this step; discards metrics of this and later
                  // steps. key: only in series whose names end with key; NULL: in all
    EVENT_RESULT, // key, value: a result
    EVENT_SCORE,  // score: one evaluated sample
};

// Computed only if a sink reads it (sink.reads_token).
struct event_token {
    // From the softmax of the logits at temperature 1, before any sampling setting acts.
    double probability; // of the token
    double entropy;     // in nats
    double share;       // of the token that comes from the pictures (core/probes/share.h); NaN: not
                        // measured
};

struct event_answer {
    const char *text;      // without the reasoning
    const char *reasoning; // before the answer, without marks; "": none
    const char *whole;     // the text that the model wrote, with reasoning and marks
    const char *unended;   // opening mark, if the prompt ends with it and no closing mark follows;
                           // else NULL
    int64_t reasoning_tokens; // among the `count` tokens
    const int32_t *ids;       // generated ids, without the end token
    size_t count;
    int64_t prompt_tokens, visual_tokens; // of the whole prompt
    int64_t computed_tokens;              // prompt tokens that were not in the cache
    int64_t drafted, accepted;            // tokens that lookahead drafted; those accepted
    double prefill_s, decode_s, vision_s;
    const char *stop;     // "eos", "length", "cancelled"
    bool full;            // stop is "length" because of the context limit, not of sample.max_tokens
    bool in_conversation; // part of the conversation; false for a prefill without answer, or in a
                          // batch of questions
    bool again;           // replaces the answer that was the last message
    const struct boxes *boxes; // in the answer (core/picture/boxes.h); NULL or empty: none
    int boxed;                 // index of the picture that the boxes refer to
};

struct event_table {
    const char *name;
    const char *const *columns; // [column_count]
    int column_count, row_count;
    // [row_count * column_count], row by row; as shown. JSON sinks recognise numbers by `numeric`.
    const char *const *cells;
    const bool *numeric; // [column_count]
    bool titled;         // one of several tables: its name is shown
};

struct event_heatmap {
    const char *name;
    int picture, layer, head, token; // -1: all, or the mean; head, token -2: does not apply
    int rows, cols;
    const float *values; // [rows * cols]; NaN: no value
    float min, max;
    // For drawing; all may be NULL.
    const char *unit;          // of the values ("cosine")
    const char *axes[2];       // what rows and columns count, if not patches ("layer")
    const char *tile;          // tile of the picture
    const char *condition;     // of a measurement under several conditions
    const char *const *words;  // [rows * cols] written over the cells; NULL: none in that cell
    const uint8_t *dropped;    // [rows * cols] 1: pruning dropped the token
    const struct image *image; // the picture under the map
    double area[4]; // the part under the map: left, top, right, bottom in the picture's pixels
};

struct event_columns {
    const char *title[2], *text[2];
    size_t common; // length of the common prefix of both texts in bytes
    // Start of each token's text if the texts are answers; else NULL. Maps of these tokens may have
    // been emitted before ("compare.A", "compare.B").
    const size_t *starts[2];
    size_t tokens[2];
};

struct event_changed {
    int64_t number, count; // question `number`, from 1, of the `count` selected
    const char *which;     // the selection: "all", "worse" in B, "better" in B
    const char *title[2];  // of the sides
    const char *id, *kind, *question, *reference, *metric;
    const char *answer[2];
    double score[2];
    bool better[2]; // this side's score is the better one
    size_t picture_count;
};

struct event_progress {
    int64_t job;
    const char *what;                // "loading", "training"
    double step, steps, loss, eta_s; // loss, eta_s: NaN when unknown
};

struct event_score {
    int64_t index; // sample id; a second event with the same id replaces the first
    const char *id, *prompt, *answer, *reference; // NULL: none
    const char *group;                            // "colour", "adversarial", or NULL
    double score;                                 // 0..1, or the range of the metric
};

struct event_job {
    int64_t job;
    const char *change; // "listed", "shown", "started", "submitted", "prepared", "asked to pause",
                        // "asked to end", "continued", "deleted", "ended"
    const char *kind, *state, *message, *folder, *model;
    char *const *arguments; // [argument_count]
    int argument_count;
    double step, steps, loss, eta_s; // NaN: unknown
    int64_t created, started, ended; // seconds since 1970; 0: not yet
};

struct event_session {
    const char *change; // "current", "listed", "begun", "resumed", "copied", "renamed", "deleted",
                        // "exported"
    const char *name;   // NULL: the session begins with the next message
    const char *database, *file; // file: the target of an export, else NULL
    const char *model, *title;   // of a listed session, else NULL
    int64_t began, ended;        // of a listed session, seconds since 1970; else 0
    int64_t turns, pictures;     // -1: not counted
};

struct event_info {
    const char *family, *path, *fingerprint, *device, *arithmetic;
    int64_t layers, width, heads, kv_heads, ffn, vocabulary, positions, parameters;
    int64_t visual_layers, visual_width, patch, side,
        visual_tokens; // 0: no vision encoder, or the number varies
};

struct event {
    enum event_kind kind;
    const char *text, *where, *key, *value, *reasoning;
    int32_t id;
    int64_t count;
    double real;
    bool ok;
    const int32_t *ids;
    const struct event_token *token;
    const struct event_answer *answer;
    const struct event_table *table;
    const struct event_heatmap *heatmap;
    const struct event_columns *columns;
    const struct event_changed *changed;
    const struct event_progress *progress;
    const struct event_score *score;
    const struct event_job *job;
    const struct event_session *session;
    const struct event_info *info;
    const struct message *message;
    const struct picture *pictures; // the pictures that the parts of a message refer to
};

struct sink {
    void (*emit)(void *self, const struct event *event);
    void *self;
    bool reads_token; // reads event.token
};

enum { SINKS_MAX = 8 };

struct sinks {
    struct sink list[SINKS_MAX];
    int count;
};

void sinks_add(struct sinks *sinks, struct sink sink);
void sinks_emit(const struct sinks *sinks, const struct event *event);
bool sinks_read_token(const struct sinks *sinks); // true if any sink reads event.token
void sinks_notice(const struct sinks *sinks, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void sinks_text(const struct sinks *sinks, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
// Reports the progress of loading or other work (job 0); `pace` (core/base/pace.h) estimates the
// time left.
void sinks_progress(const struct sinks *sinks, struct pace *pace, const char *what, double step,
                    double steps);
// Reports a written file or folder: to programs by a fixed word ("figure"; docs/scripting.md lists
// them), to users as "SAID written to 'PATH'"; `said` NULL: no notice to users.
void sinks_written(const struct sinks *sinks, const char *what, const char *path, const char *said);
void sinks_drawing(const struct sinks *sinks, const char *text); // its lines must not be wrapped

// A table filled row by row:
//   table_begin(&t, "norms", "layer#|norm#|kind");   // #: a column of numbers; ||: a literal |
//   table_row(&t, "%d|%.4g|%s", layer, norm, kind);  // or table_add for each cell
//   table_emit(&t, sinks);
struct table_builder {
    const char *name, *columns;
    int column_count;
    bool titled;
    char **cells;
    size_t count, capacity;
};

// `name` and `columns` must last until table_emit or table_write.
void table_begin(struct table_builder *t, const char *name, const char *columns);
void table_add(struct table_builder *t, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void table_take(struct table_builder *t, char *text); // adds a cell and frees it later
// Adds the cells of the format, which are separated by |; a NULL string counts as "".
void table_row(struct table_builder *t, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
// Emits and frees the table.
void table_emit(struct table_builder *t, const struct sinks *sinks);
// Writes the table to a CSV file, with columns of numbers unquoted, reports the file, and frees the
// table.
int table_write(struct table_builder *t, const char *path, const struct sinks *sinks,
                struct err *err);

#endif
