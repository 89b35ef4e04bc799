// core/methods/calibration.h -- calibrations: files of numbers measured on a data set for a method,
// with their provenance.
//
//   struct calibration c;
//   if (calibration_open(&c, "llava-ffn.safetensors", &err) < 0) ...
//   if (calibration_fits(&c, model, &err) < 0) ...           // rejects another model's calibration
//   float *alpha = calibration_numbers(&c, "ffn.alpha", 2, (int64_t[]){ L, D }, &err);
//   calibration_close(&c);
//
// Jobs write calibrations (core/eval/calibrate.c). Each kind of calibration is one constant struct
// in its own file, with its tensors and the sums that it collects at the sites of a pass, and has a
// line in core/lists.h.
//
// A calibration is a safetensors file with these tensors, by kind (CAPA's paper: docs/papers.md):
//   ffn    ffn.alpha [L,D] of visual tokens, ffn.alpha_text, ffn.redundancy [L],
//          ffn.redundancy_text [L], ffn.fit [2,3,L] (of visual and text tokens: residual J of a
//          token, R^2, share of the FFN that alpha explains); and, for merging files, the sums
//          behind them, each double as two f32 that add up to it: ffn.sum_xy, ffn.sum_xx,
//          ffn.sum_xy_text, ffn.sum_xx_text [2,L,D], ffn.sum_yy [2,2,L,D], ffn.sum_cos [2,2,L]
//          (visual, text)
//   norms  norms.visual, norms.text [L+1] mean norm of h[l]; norms.visual_std, norms.text_std [L+1]
//          its standard deviation; norms.visual_cosine, norms.text_cosine [L+1] mean
//          cos(h[l-1], h[l]); norms.tally [2,2,4,L+1] (per modality: mean norm, sum of squared
//          distances from the mean, count, sum of the cosines)
//   sinks  sinks.profile [L,D] mean |rmsnorm(h[l])_k| of the first token, sinks.dims [L,2] the k of
//          its two largest values, sinks.share [L] share of tokens with phi > tau; sinks.sums
//          [2,L,D], sinks.counts [2,2,L] (sinks, tokens), sinks.samples [2,1]
//   lens   lens.bias [L,D], lens.update [L,D,D], lens.left [L] (share of the squared distance to
//          the last layer's output that remains); lens.sum_x, lens.sum_delta [2,L,D], lens.sum_xx,
//          lens.sum_xdelta [2,L,D,D], lens.sum_dd, lens.rows [2,L]
//   phases phases.curves [L,2] (contribution, Hellinger distance), phases.layers [3] (early,
//          transition, late); phases.sum_contribution, phases.sum_hellinger [2,L]
// and the metadata "model" (hash of the weights), "model files" (names and hashes of all files of
// the model, for messages), "data" (hash of the data set), "count" (samples), "arithmetic" ("f32",
// "bf16"; "mixed" if merged files differ). Files without metadata are accepted unchecked.
#ifndef CORE_METHODS_CALIBRATION_H
#define CORE_METHODS_CALIBRATION_H

#include "core/base/err.h"
#include "core/base/event.h"
#include "core/graph/hooks.h"

struct model;
struct settings;

// Maximum number of samples or tokens in a file; keeps merged sums far from overflow.
#define CALIBRATION_MOST INT64_C(1000000000000000)

struct calibration {
    struct safetensors *file;
    const char *model, *data; // hash of the weights, of the data; NULL: not in the file
    const char *files; // names and hashes of the model's files, as in checkpoint.files; NULL: not
                       // in the file
    int64_t count;     // samples; -1: not in the file
    const char *arithmetic; // precision of the passes: "f32", "bf16"; NULL: not in the file
};

// Checks the format; -1 with a message if it is not a calibration.
int calibration_open(struct calibration *c, const char *path, struct err *err);
void calibration_close(struct calibration *c); // also accepts a zeroed one
// Opens the file that a setting names and checks that it fits the model; *c is zeroed if the
// setting names no file.
int calibration_of_setting(struct calibration *c, const struct settings *s, const char *key,
                           const struct model *m, struct err *err);
// Checks that the calibration was made with this model's weights; accepts a file without that
// metadata.
int calibration_fits(const struct calibration *c, const struct model *m, struct err *err);
// Returns the tensor of that name and shape as f32 on the host; the caller frees it. NULL if it is
// missing or has a different shape. (calibration_open rejects NaN and infinity.)
float *calibration_numbers(const struct calibration *c, const char *name, int rank,
                           const int64_t *shape, struct err *err);
// Like calibration_numbers, for a tensor of indices below `limit`; messages call such an index
// `what` ("layer").
float *calibration_indices(const struct calibration *c, const char *name, int rank,
                           const int64_t *shape, int64_t limit, const char *what, struct err *err);

// Provenance of a new file.
struct calibration_source {
    const char *model, *data; // hash of the weights, of the data
    int64_t count;            // samples
    const char *arithmetic;   // precision of the passes; NULL: unknown
    const char *files;        // of the model; NULL: unknown
};

enum { CALIBRATION_TENSORS = 12, OF_LAYERS = -1, OF_WIDTH = -2, OF_STATES = -3 };

// A tensor in files of a kind; an entry without a shape is a count of tokens or samples in the
// metadata.
struct calibration_tensor {
    const char *name;
    int shape[4]; // OF_LAYERS: L, OF_WIDTH: D, OF_STATES: L + 1; ended by 0
};

// Sums over samples.
struct calibration_sums {
    const struct calibration_kind *kind;
    const struct model *model; // NULL: the sums were read from a file
    int64_t layers, width;     // L, D
    double *data,
        *part[CALIBRATION_TENSORS]; // [count]; part: the start of each of kind->sums in it
    size_t count;
    // Rows that `take` or `run` keeps for a later site of the pass.
    float *rows; // [capacity, D]
    bool *there; // [capacity] whether `rows` holds the row
    int64_t capacity;
};

struct calibration_kind {
    const char *name;   // "ffn"
    const char *prefix; // prefix of its tensors: "ffn."
    const char *help;   // one sentence
    // Tensors of the file, each list ended by a row without a name: the f32 results, the first of
    // which gives L and, if it is [L,D], also D; then the doubles that they are computed from.
    const struct calibration_tensor *results, *sums;
    const char *former;          // a tensor of earlier versions, whose sums cannot be merged
    const struct site *sites[4]; // sites where a pass over a prompt calls take; ended by NULL
    // For a kind that needs more than x: called instead of `take`, with the same `self`.
    int (*run)(void *self, struct graph *g, const struct site *site, struct site_args *args);
    readback_fn take; // adds to its `self`, a struct calibration_sums
    void (*compute)(const struct calibration_sums *s, float *const *results);
    // Returns how far the samples added since `before` have changed the results. The job reports
    // this number whenever the number of samples has doubled. NULL: not reported.
    double (*change)(const struct calibration_sums *now, const struct calibration_sums *before);
    // True if no sample showed a picture, without which the results mean nothing. NULL: never.
    bool (*empty)(const struct calibration_sums *s);
    // Adds the sums of other samples; NULL: adds them element by element.
    void (*merge)(struct calibration_sums *s, const struct calibration_sums *other);
    bool (*valid)(const struct calibration_sums *s); // true if the sums are plausible; NULL: always
    // A table of the results, one row per layer and, with `states`, one for the last layer's
    // output. `results` has NULL for a tensor that the file lacks.
    const char *columns; // for table_begin
    bool states;
    void (*show)(const struct calibration_sums *s, float *const *results, int64_t layer,
                 struct table_builder *b);
    const struct result_kind *units; // of the table (core/probes/results.h)
};

struct calibration_sums *calibration_start(const struct calibration_kind *kind,
                                           const struct model *m);
void calibration_free(struct calibration_sums *s); // NULL is allowed
struct hook calibration_hook(struct calibration_sums *s);
// Grows s->rows and s->there to that many rows.
void calibration_rows(struct calibration_sums *s, int64_t rows);
// Adds other sums for the same model, from another rank, an earlier process, or another file.
void calibration_add(struct calibration_sums *s, const struct calibration_sums *other);
int calibration_write(const struct calibration_sums *s, const struct calibration_source *source,
                      const char *path, struct err *err);
// Reads the sums behind a file's results. NULL with a message if the file lacks them.
struct calibration_sums *calibration_read(const struct calibration *c, struct err *err);
// Emits the results by layer as a table.
void calibration_show(const struct calibration *c, const struct sinks *sinks);

// Registers all kinds, ended by NULL; they must last as long as the program.
void calibration_kinds_register(const struct calibration_kind *const *all);
const struct calibration_kind *calibration_kind_at(int index); // NULL past the end
const struct calibration_kind *calibration_kind_find(const char *name, struct err *err);
const struct calibration_kind *calibration_kind_of(const struct calibration *c);
// Creates a writer with the provenance in its metadata.
struct safetensors_writer *calibration_writer(const char *path,
                                              const struct calibration_source *source);
// Writes each double as two f32 that add up to it: [2, count].
int calibration_write_doubles(struct safetensors_writer *w, const double *numbers, int64_t count,
                              struct err *err);
// Merges the sums of several files of one kind and model into one file.
int calibration_merge(const char *const *paths, size_t count, const char *out, struct err *err);

#endif
