// core/eval/compare_text.c -- two forms of one model on a text, token by token.
#include "core/eval/compare_text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/tally.h"
#include "core/files/content.h"
#include "core/model/families/family.h"
#include "core/model/sampler.h"
#include "core/model/visual.h"
#include "core/ops/ops.h"
#include "core/probes/hellinger.h"

enum { PIECE = 512, ROWS = 32 }; // tokens of a pass; rows of logits computed together

struct reader {
    const struct model *model;
    struct arena arena;
    struct graph g;
    struct tensor *hidden; // [n,D] before the final norm
    float *logits;         // [ROWS,V]
};

static void reader_init(struct reader *r, const struct model *m, const atomic_bool *cancel)
{
    *r = (struct reader){ .model = m, .arena = { .backend = m->arena.backend } };
    r->g = (struct graph){ .backend = m->arena.backend,
                           .arena = &r->arena,
                           .matmul = MATMUL_F32, // so that rounding does not hide small differences
                           .cancel = cancel };
    r->logits = xreallocarray(NULL, (size_t)(ROWS * m->decoder.config.vocab), sizeof *r->logits);
}

// Reads the logits of rows first .. first+n-1 of the piece.
static int read_logits(struct reader *r, int64_t first, int64_t n)
{
    const struct decoder *d = &r->model->decoder;
    struct arena_mark mark = arena_mark(&r->arena);
    struct tensor *x = graph_rows(&r->g, r->hidden, first, n);
    x = decoder_logits(&r->g, d, x);
    if (x) graph_download(&r->g, r->logits, x);
    arena_reset(&r->arena, mark);
    return graph_ok(&r->g) ? 0 : -1;
}

// --- one token -----------------------------------------------------------------------------------

struct sums {
    const struct load_progress *progress;
    uint64_t done, all; // tokens
    struct tally kl;
    double kl_most, loss[2];
    int64_t same;
};

static void add_token(struct sums *s, const float *a, const float *b, int64_t vocab, int32_t next)
{
    const double whole[2] = { logits_log_sum(a, vocab), logits_log_sum(b, vocab) };
    double kl = 0;
    for (int64_t i = 0; i < vocab; i++) {
        const double p = (double)a[i] - whole[0], q = (double)b[i] - whole[1];
        kl += exp(p) * (p - q);
    }
    tally_add(&s->kl, kl);
    s->kl_most = fmax(s->kl_most, kl);
    s->loss[0] += whole[0] - (double)a[next];
    s->loss[1] += whole[1] - (double)b[next];
    s->same += logits_best(a, vocab) == logits_best(b, vocab);
}

// A cancelled pass has no error message.
static int reader_failed(const struct reader *r, struct err *err)
{
    return err_set(err, "%s", r->g.err.text[0] ? r->g.err.text : "cancelled");
}

static int add_piece(struct sums *sums, struct reader r[2], const struct sequence *s,
                     struct err *err)
{
    const int64_t vocab = r[0].model->decoder.config.vocab;
    const struct load_progress *p = sums->progress;
    for (int i = 0; i < 2; i++) {
        const struct decoder *d = &r[i].model->decoder;
        struct graph *g = &r[i].g;
        arena_reset(&r[i].arena, (struct arena_mark){ 0 });
        model_pass(r[i].model, true); // applies the whole adapter, which a written model contains
        struct tensor *h = splice(g, d, s, 0, NULL, NULL, 0);
        if (decoder_forward(g, d, NULL, s, h, LOGITS_HIDDEN, true, &r[i].hidden) < 0)
            return reader_failed(&r[i], err);
        sums->done += (uint64_t)s->n;
        if (p && !p->report(p->self, sums->done, sums->all)) return err_set(err, "cancelled");
    }
    for (int64_t from = 0; from < s->n - 1; from += ROWS) {
        const int64_t n = s->n - 1 - from < ROWS ? s->n - 1 - from : ROWS;
        for (int i = 0; i < 2; i++)
            if (read_logits(&r[i], from, n) < 0) return reader_failed(&r[i], err);
        for (int64_t k = 0; k < n; k++) {
            const float *logits[] = { r[0].logits + k * vocab, r[1].logits + k * vocab };
            for (int i = 0; i < 2; i++) {
                const char *damage = logits_damage(logits[i], vocab);
                if (damage)
                    return err_set(err, "'%s' computed %s for token %lld of the text: %s",
                                   r[i].model->name, damage, (long long)(from + k + 1), DAMAGED);
            }
            add_token(sums, logits[0], logits[1], vocab, s->ids[from + k + 1]);
        }
    }
    return 0;
}

// --- the text ------------------------------------------------------------------------------------

static int read_ids(const struct model *m, const char *text, struct ids *ids, struct err *err)
{
    if (tokenizer_encode(m->tokenizer, text, strlen(text), TOKENIZE_SPECIAL, ids, err) < 0)
        return -1;
    return ids->count < 2 ? err_set(err, "the text has fewer than two tokens") : 0;
}

int compare_text_check(const struct model *m, const char *text, struct err *err)
{
    struct ids ids = { 0 };
    const int status = read_ids(m, text, &ids, err);
    ids_release(&ids);
    return status;
}

static int compare_models(const struct model *a, const struct model *b, const char *text,
                          const struct load_progress *progress, const atomic_bool *cancel,
                          struct text_difference *difference, struct err *err)
{
    struct ids ids = { 0 };
    struct reader r[2];
    struct sums sums = { .progress = progress };
    if (a->decoder.config.vocab != b->decoder.config.vocab)
        return err_set(err, "the two models have vocabularies of different sizes");
    int status = read_ids(a, text, &ids, err);
    sums.all = 2 * (uint64_t)ids.count;
    reader_init(&r[0], a, cancel);
    reader_init(&r[1], b, cancel);
    for (int64_t i = 0, all = (int64_t)ids.count; i < all - 1 && status == 0; i += PIECE) {
        struct sequence s;
        sequence_init(&s, all - i < PIECE ? all - i : PIECE, 1);
        memcpy(s.ids, ids.data + i, (size_t)s.n * sizeof *s.ids);
        if (a->family->positions) a->family->positions(a, NULL, &s);
        status = add_piece(&sums, r, &s, err);
        sequence_release(&s);
    }
    for (int i = 0; i < 2; i++) {
        arena_release(&r[i].arena);
        free(r[i].logits);
    }
    ids_release(&ids);
    const double n = (double)sums.kl.count;
    *difference = (struct text_difference){
        .tokens = sums.kl.count,
        .kl = tally_mean(&sums.kl),
        .kl_most = sums.kl_most,
        .same = (double)sums.same / n,
        .perplexity = { exp(sums.loss[0] / n), exp(sums.loss[1] / n) },
    };
    return status;
}

int compare_text(const struct model *a, const char *b, const char *text,
                 const struct load_progress *progress, const atomic_bool *cancel,
                 struct text_difference *difference, struct err *err)
{
    struct model *other = model_load(b, a->arena.backend, NULL, err);
    if (!other) return -1;
    const int status = compare_models(a, other, text, progress, cancel, difference, err);
    if (status == 0 && model_has_vision(other))
        difference->pictures = picture_config_differ(&a->picture, &other->picture);
    model_free(other);
    return status;
}
