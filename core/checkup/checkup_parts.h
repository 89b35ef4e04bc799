// core/checkup/checkup_parts.h -- the input and output of a check: a loaded model, pictures, and
// the record of its findings.
//
// A check is one file core/checkup/checks/NAME.c with one constant struct, and has a line in
// CHECKS:
//
//   static int run(struct checkup *c, struct err *err)
//   {
//       struct finding f = finding(c, "gate 0");
//       ... finding_number(&f, "logits, largest difference", d, "", 1);
//       if (d == 0) finding_works(&f, "the same bits");
//       else finding_fails(&f, "the logits differ by %g", d);
//       return 0;                                   // -1: the check could not be completed
//   }
//   const struct checkup_check check_identities = { .name = "identities", ..., .run = run };
#ifndef CORE_CHECKUP_CHECKUP_PARTS_H
#define CORE_CHECKUP_CHECKUP_PARTS_H

#include <cjson/cJSON.h>
#include <stdint.h>

#include "core/base/hash.h"
#include "core/base/mem.h"
#include "core/checkup/checkup.h"
#include "core/methods/method.h"
#include "core/talk/conversation.h"

struct adapter;
struct event_heatmap;
struct result_table;
struct checkup;

// The checks, in their order. The first one reports how the model was opened.
#define CHECKS(X) X(opens) X(identities) X(intact) X(sees) X(inside) X(methods) X(learns) X(speed)

// The work of a check at full length, from which vlmsh forecasts the time of a run.
struct checkup_cost {
    double prompts; // prefills of a prompt whose picture is already encoded
    double tokens;  // tokens generated one by one
    double encodes; // pictures encoded
    double reads;   // reads of all weights
};

struct checkup_check {
    const char *name;
    const char *shows;               // description of the check, in one sentence
    bool sees;                       // the check needs a model with a vision encoder
    bool closed;                     // the check runs even if the model could not be opened
    struct checkup_cost cost, quick; // quick: cost with --quick
    double (*seconds)(const struct checkup *c); // additional forecast seconds; NULL: none
    int (*run)(struct checkup *c, struct err *err);
};

enum { CHECKUP_SCENES = 6, CHECKUP_PICTURES = 16 };

// A picture of the conversation, with a description if it is a scene drawn by vlmsh.
struct checkup_picture {
    char *path, *name;
    char *truth; // a scene's description: "a red circle and a blue star"; NULL: the user's picture
};

struct checkup {
    struct checkup_work *work;
    const char *scratch; // folder of temporary files
    const char *name;    // name of the model, as given
    struct model *model; // NULL: it could not be opened
    struct err closed;   // why the model could not be opened
    struct err unfit;    // why the adapter of the settings could not be applied; "": no error
    struct adapter *adapter;
    struct settings *settings; // greedy, every method off
    const struct backend *backend;
    struct conversation talk; // holds all pictures as attachments, and one question at a time
    struct checkup_picture *views;
    size_t view_count, scenes; // the scenes come first
    int blank;                 // index of a grey picture in `talk`; -1: none
    double load_s;
    uint64_t memory[2]; // memory of this process before and after loading
    double scale;       // share of the samples for which there is time; 1: all
    // Seconds to prefill a prompt with a picture, to run checkup_text_nats, to decode a token, and
    // to encode a picture.
    double prompt_s, text_s, token_s, encode_s;
    struct method_tensors tensors; // replace the adapter's tensors; find NULL: they do not
    const struct hook *listener;   // observes the passes, after the methods; NULL: none
    bool stopped;

    // The record of the current check, and a function that reports the progress of the check.
    cJSON *rows, *figures;
    void (*progress)(struct checkup *c, double share);
};

// --- findings (record.c) -------------------------------------------------------------------------

struct finding {
    cJSON *row, *numbers;
};

struct finding finding(struct checkup *c, const char *name);
// `samples`: number of samples from which the value was measured; 0: not measured from samples (a
// count). A value that is not finite becomes null.
void finding_number(struct finding *f, const char *name, double value, const char *unit,
                    int64_t samples);
// These functions complete the finding with a verdict and a sentence.
void finding_works(struct finding *f, const char *text, ...) __attribute__((format(printf, 2, 3)));
void finding_fails(struct finding *f, const char *text, ...) __attribute__((format(printf, 2, 3)));
void finding_skip(struct finding *f, const char *why, ...) __attribute__((format(printf, 2, 3)));
void finding_measured(struct finding *f, const char *text, ...)
    __attribute__((format(printf, 2, 3)));
void checkup_figure(struct checkup *c, const char *title, const char *text, const char *svg);
// Adds a figure that shows columns of a table as curves over the keys of its rows. `columns`: names
// of the columns, separated by "|"; NULL: all columns except deviations.
int checkup_curves(struct checkup *c, const char *title, const char *text,
                   const struct result_table *t, const char *columns, struct err *err);
// Adds a figure with maps side by side.
int checkup_maps(struct checkup *c, const char *title, const char *text,
                 const struct event_heatmap *maps, size_t count, struct err *err);
// Returns how many of `full` samples the time allows, but at least `least`.
int checkup_samples(const struct checkup *c, int full, int least);
void checkup_progress(struct checkup *c, double done, double all);
// Returns whether the check-up must stop, and sets c->stopped (checkup.c). The passes below stop by
// themselves and set c->stopped; other long work must call this function.
bool checkup_stopped(struct checkup *c);

// --- pictures (pictures.c) -----------------------------------------------------------------------

// Draws the scenes into FOLDER/scenes unless they exist; if the model has a vision encoder, reads
// all pictures. 0 or -1.
int checkup_pictures_open(struct checkup *c, const char *folder, struct err *err);
void checkup_pictures_release(struct checkup *c);
// Hashes the user's pictures.
void checkup_pictures_hash(const struct checkup *c, char hex[HASH_HEX]);
extern const char checkup_question[]; // the question about a picture
// Returns how many pictures to measure: at most `full`, with --quick at most one. Measures the
// user's pictures if there are any, else scenes. *first becomes the index of the first picture.
int checkup_measured(const struct checkup *c, int full, int *first);

// --- passes (passes.c) ---------------------------------------------------------------------------

// Returns the trained tensors that methods use in passes.
struct method_tensors checkup_tensors(const struct checkup *c);
// Replaces the conversation with one question about pictures[count] (indices in c->talk; count 0:
// no picture).
void checkup_ask(struct checkup *c, const int *pictures, size_t count, const char *question);
struct checkup_answer {
    char *text;
    struct ids ids;
    char stop[16];
    double vision_s, prefill_s, decode_s;
    int64_t prompt, visual, drafted, accepted;
};
// Computes the model's answer of at most `most` tokens. Recomputes the prompt, and with `whole` the
// visual tokens of its pictures, too. The messages are unchanged. -1: c->stopped is set, or err.
int checkup_answer(struct checkup *c, const struct settings *s, int most, bool whole,
                   struct checkup_answer *a, struct err *err);
// Like checkup_answer, but with at least one token: if the answer is empty, answers again with
// sample.ignore_eos.
int checkup_answer_some(struct checkup *c, int most, struct checkup_answer *a, struct err *err);
void checkup_answer_release(struct checkup_answer *a);
// Adds the answer to the conversation.
void checkup_answered(struct checkup *c, const struct checkup_answer *a);

// Logits of the rows that predict the tokens of a given answer and the token after the answer:
// [count + 1, V].
struct checkup_logits {
    float *data;
    int64_t rows, vocab;
    double prefill_s, kv_bytes; // of the prompt
};
// `piece`: the maximum number of rows in a pass; 0: no limit.
int checkup_logits(struct checkup *c, const struct settings *s, const struct ids *given,
                   int64_t piece, struct checkup_logits *l, struct err *err);
void checkup_logits_release(struct checkup_logits *l);
// Returns the sum of the given tokens' log-probabilities. *same becomes true if each of them is the
// likeliest token.
double logits_log_probability(const struct checkup_logits *l, const struct ids *given, bool *same);
// Computes the sum of the log-probabilities of the given answer's tokens, in nats.
int checkup_nats(struct checkup *c, const struct settings *s, const struct ids *given, double *sum,
                 struct err *err);
double logits_distance(const struct checkup_logits *a,
                       const struct checkup_logits *b); // the largest difference
double logits_hellinger(const struct checkup_logits *a, const struct checkup_logits *b); // the mean
bool logits_same_bits(const struct checkup_logits *a, const struct checkup_logits *b);
// Computes the prompt of the conversation while `listener` observes. -1: c->stopped is set, or err.
int checkup_prefill(struct checkup *c, const struct hook *listener, struct err *err);
// Writes a calibration (core/methods/calibration.h) over prompts about these pictures.
int checkup_calibrate(struct checkup *c, const char *kind, const int *pictures, size_t count,
                      const char *path, struct err *err);
// Computes the mean log-probability (in nats per token) of each text as the answer.
int checkup_rank(struct checkup *c, const struct settings *s, const char *const *texts,
                 size_t count, double *nats, struct err *err);
// Computes nats[i * n + k]: the mean log-probability per token of the description of scene
// scenes[k], as the answer to the question about scene scenes[i]. `scenes` has n indices; NULL: the
// first n scenes.
int checkup_scene_nats(struct checkup *c, const struct settings *s, const int *scenes, int n,
                       double *nats, struct err *err);
// Returns the probability that a random assignment of descriptions to scenes is at least as likely
// as the true assignment.
double checkup_scene_chance(const double *nats, int n);
// Returns whether the chance is so small that the model must see the scenes.
bool checkup_scene_seen(double chance, int n);
// Computes the mean log-probability, in nats per token, of plain English text over *tokens
// predicted tokens.
int checkup_text_nats(struct checkup *c, const struct settings *s, double *nats, int64_t *tokens,
                      struct err *err);
// Returns a copy of c->settings with these changes: key, value, ... NULL. The caller frees the
// copy; BUG if a change is refused.
struct settings *checkup_with(const struct checkup *c, ...) __attribute__((sentinel));

// --- tokens (checks/opens.c) ---------------------------------------------------------------------

// Returns a token that ends the model's answers because a chat template ends turns with it
// ("<|im_end|>"); NULL: none.
const char *checkup_turn_end(const struct model *m);

// --- the page (markdown.c, html.c) ---------------------------------------------------------------

// Returns "fails" if any row fails, else "works", "measured" or "not applicable".
const char *check_verdict(const cJSON *check);
void checkup_markdown(const cJSON *record, struct buf *b);
void checkup_html(const cJSON *record, struct buf *b);

// Reads a record, which is not trusted, from its file or from the folder of a check-up; NULL:
// error.
cJSON *checkup_read(const char *path, struct err *err);
const char *record_text(const cJSON *object, const char *key); // "" if there is no such key
const cJSON *record_find(const cJSON *list, const char *name); // by its "name"; NULL: none
void record_number(struct buf *b, const cJSON *number);        // "12,300 tokens", "8.5 ms"

#endif
