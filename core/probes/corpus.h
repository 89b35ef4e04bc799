// core/probes/corpus.h -- compares states of the residual stream with those of the tokens of a
// corpus, in the same layers (nearest text: LatentLens, arXiv 2602.00462).
//
//   struct corpus c;
//   corpus_open(&c, &request, err);          // c.query: the caller fills in its states
//   corpus_search(&c, p, err);               // reads the texts with the model; c.best
//   corpus_close(&c);
#ifndef CORE_PROBES_CORPUS_H
#define CORE_PROBES_CORPUS_H

#include "core/base/mem.h"
#include "core/probes/text_file.h"

struct buf;
struct model;
struct passing;

// The token of the corpus with the largest cosine to a state.
struct corpus_nearest {
    int32_t id;   // -1: none
    int64_t line; // the text that contains it
    int64_t at;   // its number among the tokens of the text
    double cosine;
    double word; // largest cosine to the token `word`; -2: none
};

// Texts that share a pass.
struct corpus_pass {
    struct ids ids;     // of all texts
    int64_t *line, *at; // [ids] the text of each row; the row's number in it, -1: a special token
    size_t *lengths, texts;
    float *state; // [to-from+1, ids, D] states of unit norm; NULL: not kept
};

// The texts of a corpus, with the states that the model has computed. Samples of a data set share
// them, under the same model and settings; zero-initialised at first.
struct corpus_texts {
    struct text_file file;
    struct corpus_pass *list;
    size_t count, capacity;
    int64_t tokens; // without special tokens
    uint64_t kept;  // bytes of all states
};

struct corpus {
    const struct model *model;
    const char *path;
    struct corpus_texts *shared; // NULL: reads the texts for this search alone
    struct corpus_texts own, *texts;
    int from, to;                // layers, the last included
    int64_t count;               // states in each layer
    int64_t width;               // D
    int32_t word;                // -1: none
    float *query;                // [to-from+1, count, D]
    struct corpus_nearest *best; // [to-from+1, count]
};

// Reads the file like->path, unless `shared` has its texts; copies path, model, shared, from, to,
// count and word from `like`. *c must not move. Call corpus_close even after a failure.
int corpus_open(struct corpus *c, const struct corpus *like, struct err *err);
void corpus_close(struct corpus *c);
void corpus_texts_release(struct corpus_texts *t);
// Runs the model over the first 512 tokens of each text, without the methods of the settings, and
// finds the nearest token of each state. Special tokens do not count. Scales c->query to unit norm.
// Keeps the texts' states in `shared`, up to 1 GiB, and reads only texts without them.
int corpus_search(struct corpus *c, struct passing *p, struct err *err);
// Appends a token between » and «, with the words around it.
void corpus_context(const struct corpus *c, const struct corpus_nearest *n, struct buf *text);

#endif
