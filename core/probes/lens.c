// core/probes/lens.c -- /lens: the words that each layer would predict at a position (logit lens:
// nostalgebraist 2020), for text positions and for visual tokens.
//
//   p = softmax(head(norm(h[l + 1])))       the model's own final norm and head
//
// At a text position of the last layer, p is the model's distribution, bit for bit, because each
// text position is computed alone, as for the pass's own logits.
//
// --nearest: the word of the conversation whose own state h[l + 1] has the largest cosine with the
// visual token's. Visual tokens can resemble words in context long before the head can read them
// (LatentLens, arXiv 2602.00462). --corpus searches a text file (core/probes/corpus.h).
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/names.h"
#include "core/methods/calibration.h"
#include "core/ops/ops.h"
#include "core/positions/positions.h"
#include "core/probes/corpus.h"
#include "core/probes/kit.h"
#include "core/template/template.h"
#include "core/tokenizer/tokenizer.h"

// A layer's prediction at a position. With --nearest, p and target_p are cosines, and the entropy
// and the rank are not set.
struct guess {
    int32_t best;      // -1: the layer does not compute the position, or no token is near it
    double p, entropy; // of the best token; of the distribution, in nats
    double target_p, target_rank; // of the target (rank 1: the best); NaN: none
};

struct lens {
    const struct probe_env *env;
    bool *at;             // [N] chosen positions
    bool *said;           // [N] positions of words in the messages and the answer, for --nearest
    int32_t word;         // the target at every position; -1: the token that follows
    struct guess *guess;  // [L,N]
    bool searching;       // --corpus
    struct corpus corpus; // its queries: the chosen rows, in order
    float *update, *bias; // [L,D,D], [L,D] of --tuned; NULL: none
    struct rows rows;
};

static void lens_release(void *state)
{
    struct lens *s = state;
    free(s->at);
    free(s->said);
    if (s->searching) corpus_close(&s->corpus);
    free(s->update);
    free(s->bias);
    free(s->guess);
    rows_release(&s->rows);
    free(s);
}

static int lens_words(const char *words, struct err *err)
{
    return *words ? positions_check(words, err) : 0;
}

// Sets the target to the first token of --word, written after a space.
static int find_word(struct lens *s, struct err *err)
{
    const char *word = s->env->options->word;
    struct ids ids = { 0 };
    s->word = -1;
    if (!word) return 0;
    char *text = xasprintf(" %s", word);
    int status = tokenizer_encode(s->env->model->tokenizer, text, strlen(text), 0, &ids, err);
    if (status == 0 && !ids.count) status = err_set(err, "--word '%s' has no token", word);
    if (status == 0) s->word = ids.data[0];
    // If the first token is only the space, takes the second.
    struct buf first = { 0 };
    if (status == 0) tokenizer_decode(s->env->model->tokenizer, ids.data, 1, false, &first);
    if (status == 0 && ids.count > 1 && first.data && !*(first.data + strspn(first.data, " ")))
        s->word = ids.data[1];
    buf_release(&first);
    ids_release(&ids);
    free(text);
    return status;
}

static int choose(struct lens *s, struct err *err)
{
    const struct probe_options *o = s->env->options;
    const struct sequence *q = s->env->sequence;
    const bool one = o->token == PROBE_TOKEN_NUMBER,
               default_token = o->token == PROBE_TOKEN_DEFAULT;
    const char *words = o->words && *o->words ? o->words : NULL;
    if (!default_token && !one && o->token != PROBE_TOKEN_ANSWER)
        return err_set(err, "--token takes answer or the number of a token of the answer here");
    if (!default_token && words)
        return err_set(err, "give either positions ('%s') or --token", words);
    if (one && o->number >= q->n - q->prompt)
        return err_set(err, "--token %lld: the answer has %lld tokens, counted from 0",
                       (long long)o->number, (long long)(q->n - q->prompt));
    if (one) {
        s->at[q->prompt - 1 + o->number] = true;
        return 0;
    }
    if (!words) words = !default_token ? "answer" : s->env->visual ? "picture,last" : "last";
    return probe_positions(s->env, words, s->at, err) < 0 ? -1 : 0;
}

static int open_corpus(struct lens *s, int64_t count, struct err *err)
{
    const struct corpus like = { .model = s->env->model,
                                 .path = s->env->options->corpus,
                                 .shared = s->env->data,
                                 .from = s->env->from,
                                 .to = s->env->to,
                                 .count = count,
                                 .word = s->word };
    s->searching = true;
    return corpus_open(&s->corpus, &like, err);
}

// Finds the visual tokens to compare, and the words of the conversation or the corpus.
static int find_said(struct lens *s, struct err *err)
{
    const struct sequence *q = s->env->sequence;
    const struct positions_env *where = s->env->where;
    bool any = false, word = s->word < 0;
    int64_t visual = 0;
    for (size_t k = 0; k < where->text_count; k++)
        for (int64_t i = where->texts[k].first; i < where->texts[k].end; i++)
            s->said[i] = q->picture[i] < 0;
    for (int64_t i = q->prompt; i < q->n; i++) s->said[i] = true;
    for (int64_t i = 0; i < q->n; i++) {
        any |= s->said[i];
        word |= s->said[i] && q->ids[i] == s->word;
        visual += s->at[i] &= q->picture[i] >= 0;
    }
    if (!visual)
        return err_set(err, s->env->visual ? "--nearest compares visual tokens: name those, as in "
                                             "/lens picture --nearest"
                                           : "--nearest compares visual tokens: the prompt has no "
                                             "picture");
    if (s->env->options->corpus) return open_corpus(s, visual, err);
    if (!any) return err_set(err, "--nearest needs words: a question or an answer");
    if (!word)
        return err_set(err, "--nearest compares words of the conversation, but '%s' is not one",
                       s->env->options->word);
    return 0;
}

static int find_tuned(struct lens *s, struct err *err)
{
    const struct decoder_config *d = &s->env->model->decoder.config;
    struct calibration c;
    if (!s->env->options->tuned) return 0;
    if (s->env->options->nearest) return err_set(err, "give either --tuned or --nearest");
    if (calibration_of_setting(&c, s->env->settings, "lens.calibration", s->env->model, err) < 0)
        return -1;
    if (!c.file)
        return err_set(err, "--tuned needs a calibration: /calibrate lens DATA OUT, then "
                            "/calibration load OUT");
    s->update = calibration_numbers(&c, "lens.update", 3,
                                    (int64_t[]){ d->layers, d->hidden, d->hidden }, err);
    if (s->update)
        s->bias = calibration_numbers(&c, "lens.bias", 2, (int64_t[]){ d->layers, d->hidden }, err);
    calibration_close(&c);
    return s->bias ? 0 : -1;
}

static void *lens_start(const struct probe_env *env, struct err *err)
{
    const int64_t n = env->sequence->n, cells = env->model->decoder.config.layers * n;
    struct lens *s = xcalloc(1, sizeof *s);
    s->env = env;
    s->at = xcalloc((size_t)n + 1, sizeof *s->at);
    s->guess = xcalloc((size_t)cells + 1, sizeof *s->guess);
    for (int64_t i = 0; i < cells; i++) s->guess[i].best = -1;
    s->said = xcalloc((size_t)n + 1, sizeof *s->said);
    if (find_word(s, err) == 0 && choose(s, err) == 0 &&
        (!env->options->nearest || find_said(s, err) == 0) && find_tuned(s, err) == 0 &&
        (env->options->nearest || !env->options->corpus ||
         err_set(err, "--corpus needs --nearest") == 0))
        return s;
    lens_release(s);
    return NULL;
}

// Maps need only the chosen layers; the table of text positions covers all layers unless --layer
// names one.
static bool maps_layer(const struct lens *s, int layer)
{
    return layer >= s->env->from && layer <= s->env->to;
}

static bool lens_wants(void *state, const struct site *site, int layer)
{
    const struct lens *s = state;
    return site == SITE_LAYER_OUT &&
           (layer < 0 || s->env->options->layer < 0 || maps_layer(s, layer));
}

// --- reading -------------------------------------------------------------------------------------

// Returns the target of a position; -1: none.
static int32_t target_of(const struct lens *s, int64_t row)
{
    const struct sequence *q = s->env->sequence;
    if (s->word >= 0) return s->word;
    return row + 1 < q->n && q->picture[row + 1] < 0 ? q->ids[row + 1] : -1;
}

static struct guess guess_of(const float *logits, int64_t vocab, int32_t target)
{
    struct guess g = { .target_p = NAN, .target_rank = NAN };
    double sum = 0, weighted = 0;
    int64_t above = 0;
    for (int64_t v = 1; v < vocab; v++)
        if (logits[v] > logits[g.best]) g.best = (int32_t)v;
    for (int64_t v = 0; v < vocab; v++) {
        const double x = (double)logits[v] - (double)logits[g.best], e = exp(x);
        sum += e;
        weighted += x * e;
        above += target >= 0 && logits[v] > logits[target];
    }
    g.p = 1 / sum;
    g.entropy = log(fmax(sum, 1)) - weighted / sum;
    if (target < 0) return g;
    g.target_p = exp((double)logits[target] - (double)logits[g.best]) / sum;
    g.target_rank = (double)above + 1;
    return g;
}

// A layer's map (--tuned) on the device; NULL: none, as at the last layer.
struct tuned {
    struct tensor *update, *bias;
};

static struct tuned tuned_of(const struct lens *s, struct graph *g, int layer)
{
    const int64_t D = s->env->model->decoder.config.hidden, shape[] = { D, D };
    if (!s->update || layer + 1 == s->env->model->decoder.config.layers)
        return (struct tuned){ NULL, NULL };
    return (struct tuned){ graph_upload(g, DTYPE_F32, 2, shape, s->update + layer * D * D),
                           graph_upload(g, DTYPE_F32, 1, shape, s->bias + layer * D) };
}

// Predicts from rows index[0..m) of h.
static void read_rows(struct lens *s, struct graph *g, const struct site_args *args,
                      struct tuned tuned, const int32_t *index, int64_t m)
{
    const struct decoder *d = &s->env->model->decoder;
    const int64_t vocab = d->config.vocab;
    struct arena_mark scratch = graph_scratch_begin(g);
    struct tensor *rows = m == 1 && !tuned.update ? graph_rows(g, args->x, index[0], 1)
                                                  : op_gather_rows(g, args->x, index, m);
    // op_add overwrites `rows`, which is a copy here.
    if (tuned.update) rows = op_add(g, rows, op_matmul(g, rows, tuned.update, tuned.bias));
    struct tensor *logits = decoder_logits(g, d, rows); // [m, V]
    const float *x = logits && graph_ok(g) ? rows_read(&s->rows, g, logits) : NULL;
    for (int64_t i = 0; x && i < m; i++) {
        const int64_t row = site_row(args, index[i]);
        s->guess[args->layer * s->env->sequence->n + row] =
            guess_of(x + i * vocab, vocab, target_of(s, row));
    }
    graph_scratch_end(g, scratch);
}

// Finds the nearest word of each chosen row among the rows of h [N,D].
static void find_nearest(struct lens *s, const struct site_args *args, const float *h)
{
    const int64_t n = args->x->shape[0], width = args->x->shape[1];
    const struct sequence *q = s->env->sequence;
    for (int64_t i = 0; i < n; i++) {
        struct guess *g = &s->guess[args->layer * q->n + site_row(args, i)];
        if (!s->at[site_row(args, i)]) continue;
        *g = (struct guess){ .best = -1, .p = -2, .target_p = NAN };
        for (int64_t j = 0; j < n; j++) {
            const int64_t row = site_row(args, j);
            if (!s->said[row]) continue;
            const double cosine = rows_cosine(h + i * width, h + j * width, width);
            if (q->ids[row] == s->word) g->target_p = fmax(g->target_p, cosine);
            if (cosine > g->p) g->p = cosine, g->best = q->ids[row];
        }
    }
}

// Keeps the chosen rows of h [N,D] for the search.
static void keep_queries(struct lens *s, const struct site_args *args, const float *h)
{
    const struct corpus *c = &s->corpus;
    float *to = c->query + (args->layer - c->from) * c->count * c->width;
    for (int64_t i = 0, row = 0; i < args->x->shape[0]; i++) {
        // A row that a method dropped keeps a state of zeros, to which no token is near.
        for (; row < site_row(args, i); row++) to += s->at[row] ? c->width : 0;
        if (s->at[row]) memcpy(to, h + i * c->width, (size_t)c->width * sizeof *to);
    }
}

static int lens_after(void *state, struct passing *p, struct err *err)
{
    struct lens *s = state;
    const struct corpus *c = &s->corpus;
    const int64_t n = s->env->sequence->n;
    if (!s->searching) return 0;
    if (corpus_search(&s->corpus, p, err) < 0) return -1;
    for (int l = c->from; l <= c->to; l++)
        for (int64_t row = 0, at = (l - c->from) * c->count; row < n; row++) {
            if (!s->at[row]) continue;
            const struct corpus_nearest *b = &c->best[at++];
            const bool there = b->id >= 0 && b->cosine != 0;
            s->guess[l * n + row] =
                (struct guess){ .best = there ? b->id : -1, .p = b->cosine, .target_p = b->word };
        }
    return 0;
}

static int lens_run(void *state, struct graph *g, const struct site *site, struct site_args *args)
{
    enum { ROWS = 64 }; // visual tokens at a time
    struct lens *s = state;
    int32_t list[ROWS];
    int64_t m = 0;
    if (s->env->options->nearest) {
        const float *h = maps_layer(s, args->layer) ? rows_read(&s->rows, g, args->x) : NULL;
        if (h && s->searching)
            keep_queries(s, args, h);
        else if (h)
            find_nearest(s, args, h);
        return graph_ok(g) ? 0 : -1;
    }
    struct arena_mark scratch = graph_scratch_begin(g);
    const struct tuned tuned = tuned_of(s, g, args->layer);
    for (int32_t i = 0; i < args->x->shape[0] && graph_ok(g); i++) {
        if (!s->at[site_row(args, i)]) continue;
        if (!site_visual(args, i)) {
            read_rows(s, g, args, tuned, &i, 1);
        } else if (maps_layer(s, args->layer)) {
            list[m++] = i;
        }
        if (m == ROWS) read_rows(s, g, args, tuned, list, m), m = 0;
    }
    if (m) read_rows(s, g, args, tuned, list, m);
    graph_scratch_end(g, scratch);
    return graph_ok(g) ? 0 : -1;
}

// --- results -------------------------------------------------------------------------------------

struct count {
    char *word;
    double tokens, sum; // of the values
};

static int by_tokens(const void *a, const void *b)
{
    const struct count *x = a, *y = b;
    if (x->tokens != y->tokens) return x->tokens < y->tokens ? 1 : -1;
    return strcmp(x->word, y->word);
}

// Adds the most frequent words of a layer's map.
static void put_counts(struct results *r, int layer, char *const *words, const float *values,
                       int64_t visual)
{
    enum { SHOWN = 10 };
    struct count *list = xcalloc((size_t)visual + 1, sizeof *list);
    struct names known = { 0 };
    for (int64_t i = 0; i < visual; i++) {
        if (!words[i]) continue;
        const size_t k = names_add(&known, words[i], NULL);
        list[k].word = words[i];
        list[k].tokens++;
        list[k].sum += (double)values[i];
    }
    qsort(list, known.count, sizeof *list, by_tokens);
    struct result_table *t = (struct result_table *)(uintptr_t)results_find(r, "lens.picture");
    if (!t) t = results_table(r, "lens.picture", "layer word|tokens|mean");
    t->own = true;
    for (size_t k = 0; k < known.count && k < SHOWN; k++) {
        double *v = result_row(t, "%d %s", layer, list[k].word);
        v[0] = list[k].tokens, v[1] = list[k].sum / list[k].tokens;
    }
    names_release(&known);
    free(list);
}

static void put_maps(const struct lens *s, struct results *r, int layer)
{
    const struct sequence *q = s->env->sequence;
    float *values = probe_values(s->env, 1);
    char **words = xcalloc((size_t)s->env->visual + 1, sizeof *words);
    bool any = false;
    for (int64_t i = 0; i < q->n; i++) {
        const struct guess *g = &s->guess[layer * q->n + i];
        const int32_t token = s->env->number[i];
        if (token < 0 || !s->at[i] || g->best < 0) continue;
        any = true;
        values[token] = (float)(s->word >= 0 ? g->target_p : g->p);
        words[token] = probe_word(s->env->model->tokenizer, g->best);
    }
    if (any) {
        put_counts(r, layer, words, values, s->env->visual);
        probe_word_maps(s->env, r, s->env->options->nearest ? "lens.nearest" : "lens", layer, -2,
                        -2, values, (const char *const *)words);
    }
    for (int64_t i = 0; i < s->env->visual; i++) free(words[i]);
    free(words);
    free(values);
}

// Adds a layer's means over the text positions to t, and each position to `each`.
static void put_layer(const struct lens *s, int layer, struct result_table *t,
                      struct result_table *each)
{
    const struct sequence *q = s->env->sequence;
    struct tally p = { 0 }, entropy = { 0 }, target = { 0 }, rank = { 0 };
    for (int64_t i = 0; i < q->n; i++) {
        const struct guess *g = &s->guess[layer * q->n + i];
        if (!s->at[i] || g->best < 0 || q->picture[i] >= 0) continue;
        char *word = probe_word(s->env->model->tokenizer, g->best);
        double *v = result_row(each, "%d.%lld %s", layer, (long long)i, word);
        free(word);
        v[0] = g->p, v[1] = g->entropy, v[2] = g->target_p, v[3] = g->target_rank;
        tally_add(&p, g->p);
        tally_add(&entropy, g->entropy);
        if (isnan(g->target_p)) continue;
        tally_add(&target, g->target_p);
        tally_add(&rank, g->target_rank);
    }
    if (!p.count) return;
    double *v = result_row(t, "%d", layer);
    v[0] = tally_mean(&target), v[1] = tally_mean(&rank);
    v[2] = tally_mean(&p), v[3] = tally_mean(&entropy);
}

// Lists the nearest token of each visual token, in its text.
static void put_contexts(const struct lens *s, struct results *r)
{
    const struct corpus *c = &s->corpus;
    struct result_table *t = results_table(r, "lens.texts", "layer.position text|cosine");
    t->ranked = -1;
    t->own = true;
    for (int l = c->from; l <= c->to; l++)
        for (int64_t row = 0, at = (l - c->from) * c->count; row < s->env->sequence->n; row++) {
            if (!s->at[row]) continue;
            const struct corpus_nearest *b = &c->best[at++];
            struct buf text = { 0 };
            if (s->guess[l * s->env->sequence->n + row].best < 0) continue;
            corpus_context(c, b, &text);
            result_row(t, "%d.%lld %s", l, (long long)row, text.data)[0] = b->cosine;
            buf_release(&text);
        }
    results_note(r, "%lld tokens of %lld texts of '%s'", (long long)c->texts->tokens,
                 (long long)c->texts->file.count, c->path);
}

static int lens_finish(void *state, struct results *r, struct err *err)
{
    const struct lens *s = state;
    const int layers = s->env->model->decoder.config.layers;
    bool text = false;
    for (int64_t i = 0; i < s->env->sequence->n; i++)
        text |= s->at[i] && s->env->sequence->picture[i] < 0;
    if (text) {
        struct result_table *t = results_table(r, "lens", "layer|target|rank|best|entropy");
        struct result_table *each =
            results_table(r, "lens.words", "layer.position word|best|entropy|target|rank");
        t->curve = true;
        each->own = true;
        for (int l = 0; l < layers; l++) put_layer(s, l, t, each);
        if (s->word >= 0)
            results_note(r, "target: '%s', by its first token", s->env->options->word);
        else
            results_note(r, "target: the token that follows the position");
    }
    for (int l = s->env->from; l <= s->env->to; l++) put_maps(s, r, l);
    if (s->searching) put_contexts(s, r);
    return 0;
}

// Over a data set, all samples share the texts of --corpus.
static void *lens_data_start(void)
{
    return xcalloc(1, sizeof(struct corpus_texts));
}

static void lens_data_finish(void *data, struct results *r)
{
    corpus_texts_release(data);
    free(data);
}

static const struct result_kind lens_results[] = {
    { "lens.texts", .unit = "cosine" },
    { "lens.nearest", "cosine", .map = true, .on_request = true },
    { "lens", "probability", "target|best|mean", .map = true, .each = EACH_LAYER, .high = 1,
      .finds = "probability of the target" },
    { "lens", "nats", .columns = "entropy" },
    { "lens", "rank", .columns = "rank" },
    { "lens", "visual tokens", .columns = "tokens" },
    { 0 },
};

const struct probe probe_lens = {
    .name = "lens",
    .also = "logit lens words layers predict unembed vocabulary measure probe",
    .usage =
        "/lens [POSITIONS] [--layer K|all] [--token answer|N] [--word TEXT] [--tuned | --nearest "
        "[--corpus FILE]] "
        "[--picture I] [--objects FILE [--boxes]]" PROBE_USAGE,
    .help = "Words that each layer would predict at positions of text and picture (logit lens).",
    .details =
        "Applies the final norm and the head to the output of each layer: at the last layer,\n"
        "these are the model's own probabilities. POSITIONS (/help positions) are picture,last by\n"
        "default; --token N is the position that predicts token N of the answer. Tables show text\n"
        "positions: target is the probability of the token that follows, or of --word. Maps show\n"
        "visual tokens in one layer (default: the middle one): the best word, and its probability\n"
        "or that of --word; the table lens.picture has the most frequent words. Early layers "
        "often\n"
        "look meaningless: they need not use the head's coordinates. --nearest compares the "
        "states\n"
        "of visual tokens with those of the words of the conversation instead, or with those of\n"
        "the texts in --corpus FILE (table lens.texts)." PROBE_DETAILS,
    .results = lens_results,
    .words = lens_words,
    .layers = MIDDLE_LAYER,
    .start = lens_start,
    .release = lens_release,
    .wants = lens_wants,
    .run = lens_run,
    .after = lens_after,
    .finish = lens_finish,
    .data_start = lens_data_start,
    .data_finish = lens_data_finish,
};
