// core/interventions/why.c -- /why: for each token of an answer, its probability, the shares of
// picture, prompt and answer in its attention, and its dependence on the pictures.
//
//   pass 1: for each token, at the row that predicts it: probability, entropy, most probable
//           alternatives, and shares of attention or contribution (core/probes/share.h)
//   pass 2: the same answer with attention to the pictures cut, and the pictures hidden from
//           recurrent states (core/interventions/cut.h); the drop in log-probability measures how
//           much a token depends on them
//
// Both passes compute logits row by row: products with quantised weights round differently in
// passes of many rows.
//
// An object that the answer names is reported if the first mention of its name loses less than
// why.threshold: the model would have named it without the picture.
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "core/interventions/cut.h"
#include "core/interventions/objects.h"
#include "core/model/layer.h"
#include "core/model/sampler.h"
#include "core/probes/kit.h"
#include "core/probes/passes.h"
#include "core/probes/share.h"
#include "core/tokenizer/tokenizer.h"

enum { ALTERNATIVES = 3 };

// A token of the answer.
struct asked {
    double logp, entropy, without; // without: log-probability without the pictures; NaN: no picture
    struct {
        int32_t id; // -1: none
        double p;
    } other[ALTERNATIVES]; // the most probable other tokens
};

struct why {
    const struct probe_env *env;
    struct cut cut;
    struct shares *shares;
    bool reading; // the current pass reads the shares
    int64_t count;
    struct asked *tokens; // [count]
    float *probs;         // [V]
    struct buf text;      // of the answer
    size_t *start;        // [count + 1] where each token's text begins
};

static void why_release(void *state)
{
    struct why *s = state;
    cut_close(&s->cut);
    shares_free(s->shares);
    buf_release(&s->text);
    free(s->tokens);
    free(s->probs);
    free(s->start);
    free(s);
}

static int why_words(const char *words, struct err *err)
{
    const size_t digits = strspn(words, "0123456789");
    if (!*words || (digits && digits < 10 && !words[digits] && strspn(words, "0") < digits))
        return 0;
    return err_set(err,
                   "/why takes the number of an answer, counted from 1 (default: the last), "
                   "not '%s'",
                   words);
}

// Joins the texts of the answer's tokens; a character that spans several tokens belongs to the
// last of them.
static void read_text(struct why *s)
{
    const struct sequence *q = s->env->sequence;
    struct detokenizer d;
    buf_puts(&s->text, "");
    detokenizer_start(&d, s->env->model->tokenizer, true);
    for (int64_t t = 0; t < s->count; t++) {
        s->start[t] = s->text.length;
        detokenizer_push(&d, q->ids[q->prompt + t], &s->text);
    }
    detokenizer_finish(&d, &s->text);
    detokenizer_release(&d);
    s->start[s->count] = s->text.length;
}

static void *why_start(const struct probe_env *env, struct err *err)
{
    const struct sequence *q = env->sequence;
    struct why *s = xcalloc(1, sizeof *s);
    s->env = env;
    s->count = q->n - q->prompt;
    s->tokens = xcalloc((size_t)s->count + 1, sizeof *s->tokens);
    s->start = xcalloc((size_t)s->count + 1, sizeof *s->start);
    s->probs = xcalloc((size_t)env->model->decoder.config.vocab, sizeof *s->probs);
    s->shares = shares_new(env->model, share_setting(env->settings));
    cut_open(&s->cut, env);
    for (int64_t i = 0; i < q->n; i++) {
        s->cut.from[i] = q->picture[i] >= 0;
        s->cut.to[i] = true;
    }
    for (int l = 0; l < env->model->decoder.config.layers; l++) s->cut.listens[l] = true;
    read_text(s);
    return s;
}

// --- the passes ----------------------------------------------------------------------------------

static bool wants(void *self, const struct site *site, int layer)
{
    return site == SITE_VALUES || site == SITE_STATE;
}

static int run(void *self, struct graph *g, const struct site *site, struct site_args *args)
{
    struct why *s = self;
    const struct hook reader = shares_hook(s->shares);
    if (cut_run(&s->cut, g, site, args) < 0) return -1;
    return s->reading && site == SITE_VALUES ? reader.run(reader.self, g, site, args) : 0;
}

// Inserts a token into the list of the most probable ones.
static void offer(struct asked *t, int32_t id, double p)
{
    int at = ALTERNATIVES;
    while (at > 0 && (t->other[at - 1].id < 0 || p > t->other[at - 1].p)) at--;
    for (int i = ALTERNATIVES - 1; i > at; i--) t->other[i] = t->other[i - 1];
    if (at == ALTERNATIVES) return;
    t->other[at].id = id;
    t->other[at].p = p;
}

static int32_t id_of(const struct why *s, int64_t t)
{
    return s->env->sequence->ids[s->env->sequence->prompt + t];
}

static void take_logits(void *self, int64_t t, const float *logits)
{
    struct why *s = self;
    struct asked *a = &s->tokens[t];
    const int64_t vocab = s->env->model->decoder.config.vocab;
    const int32_t id = id_of(s, t);
    const struct logits_spread spread = logits_spread(logits, vocab, s->probs);
    a->logp = (double)logits[id] - spread.log_sum;
    a->entropy = spread.entropy;
    for (int i = 0; i < ALTERNATIVES; i++) a->other[i].id = -1;
    for (int32_t i = 0; i < vocab; i++)
        if (i != id && (a->other[ALTERNATIVES - 1].id < 0 ||
                        (double)s->probs[i] > a->other[ALTERNATIVES - 1].p))
            offer(a, i, (double)s->probs[i]);
}

static void take_without(void *self, int64_t t, const float *logits)
{
    struct why *s = self;
    const int64_t vocab = s->env->model->decoder.config.vocab;
    s->tokens[t].without =
        (double)logits[id_of(s, t)] - logits_spread(logits, vocab, s->probs).log_sum;
}

static int why_passes(void *state, struct passing *p, struct err *err)
{
    struct why *s = state;
    const struct hook hook = { .wants = wants, .run = run, .self = s, .changes = true };
    const struct sequence *q = s->env->sequence;
    const int64_t first = s->env->visual ? cut_first(&s->cut) : -1;
    const int64_t from = first < 0 ? q->prompt - 1 : first, all = first < 0 ? 1 : 2;
    for (int64_t t = 0; t < s->count; t++) s->tokens[t].without = NAN;
    passes_progress(p, 0, all);
    s->reading = true;
    int status = passes_run_logits(p, &hook, from, take_logits, s, err);
    s->reading = false;
    passes_progress(p, 1, all);
    memset(s->cut.layers, first >= 0, (size_t)s->env->model->decoder.config.layers);
    if (status == 0 && first >= 0) {
        status = passes_run_logits(p, &hook, from, take_without, s, err);
        passes_progress(p, 2, all);
    }
    return status;
}

// --- results -------------------------------------------------------------------------------------

// The first mention of an object in the answer, and its drop in log-probability without the
// pictures.
struct named {
    char *name;
    int64_t first, last; // tokens
    double lost;
};

static bool is_known(const struct named *list, size_t count, const struct object_name *o)
{
    for (size_t i = 0; i < count; i++) {
        const size_t n = strlen(list[i].name), common = n < o->length ? n : o->length;
        const size_t longer = n > o->length ? n : o->length;
        if (longer - common <= 2 && !strncasecmp(list[i].name, o->text, common)) return true;
    }
    return false;
}

// Lists the first mention of each object; the caller frees the list and its names.
static struct named *find_named(const struct why *s, size_t *count)
{
    struct named *list = NULL;
    struct object_name o;
    size_t capacity = 0;
    const char *more = settings_text(s->env->settings, "why.objects");
    *count = 0;
    for (const char *p = s->text.data; objects_next(&p, more, &o);) {
        const size_t from = (size_t)(o.text - s->text.data), to = from + o.length;
        if (is_known(list, *count, &o)) continue;
        struct named n = { .first = -1 };
        for (int64_t t = 0; t < s->count; t++) {
            if (s->start[t + 1] <= from || s->start[t] >= to) continue;
            if (n.first < 0) n.first = t;
            n.last = t;
            n.lost += s->tokens[t].logp - s->tokens[t].without;
        }
        n.name = xstrndup(o.text, o.length);
        list = xgrow(list, &capacity, *count, sizeof *list);
        list[(*count)++] = n;
    }
    return list;
}

static void put_objects(const struct why *s, struct results *r, struct result_table *summary)
{
    const double threshold = settings_real(s->env->settings, "why.threshold");
    size_t count, nothing = 0;
    struct named *list = find_named(s, &count);
    struct result_table *t = results_table(r, "why.objects", "object|token|lost");
    t->own = t->kept = true;
    for (size_t i = 0; i < count; i++) {
        double *v = result_row(t, "%s", list[i].name);
        v[0] = (double)list[i].first, v[1] = list[i].lost;
        nothing += list[i].lost < threshold;
    }
    result_row(summary, "objects named")[0] = (double)count;
    result_row(summary, "objects that got nothing from the picture")[0] = (double)nothing;
    for (size_t i = 0; i < count; i++)
        if (list[i].lost < threshold)
            results_note(r,
                         "warning: '%s' (token %lld) got nothing from the picture: with attention "
                         "to it cut, the name loses %.3g nats",
                         list[i].name, (long long)list[i].first, list[i].lost);
    results_note(r,
                 "an object gets nothing from the picture if the first mention of its name loses "
                 "less than %g nats of log-probability (why.threshold) when nothing attends to the "
                 "picture",
                 threshold);
    for (size_t i = 0; i < count; i++) free(list[i].name);
    free(list);
}

static void put_alternatives(const struct why *s, struct results *r)
{
    struct result_table *t = results_table(r, "why.alternatives", "token: alternative|probability");
    const int32_t *ids = s->env->sequence->ids + s->env->sequence->prompt;
    const struct tokenizer *words = s->env->model->tokenizer;
    t->own = t->kept = true;
    for (int64_t i = 0; i < s->count; i++)
        for (int k = 0; k < ALTERNATIVES && s->tokens[i].other[k].id >= 0; k++) {
            char *own = probe_word(words, ids[i]);
            char *other = probe_word(words, s->tokens[i].other[k].id);
            result_row(t, "%lld %s: %s", (long long)i, own, other)[0] = s->tokens[i].other[k].p;
            free(own);
            free(other);
        }
}

// Says which layers have no shares.
static void note_layers(const struct why *s, struct results *r)
{
    const struct decoder_config *c = &s->env->model->decoder.config;
    struct buf lacking = { 0 };
    for (int l = 0; l < c->layers; l++)
        if (!decoder_attends(c, l)) buf_printf(&lacking, "%s%d", lacking.length ? ", " : "", l);
    if (lacking.length)
        results_note(r,
                     "the shares leave out layers with a recurrent state in place of attention: %s "
                     "(/recurrence measures what they read); 'without picture' also keeps the "
                     "picture out of their states",
                     lacking.data);
    buf_release(&lacking);
}

// Returns the key of the row with these values.
static const char *key_of(const struct result_table *t, const double *values)
{
    for (size_t i = 0; i < t->row_count; i++)
        if (t->rows[i].value == values) return t->rows[i].key;
    return "";
}

static int why_finish(void *state, struct results *r, struct err *err)
{
    struct why *s = state;
    const int32_t *ids = s->env->sequence->ids + s->env->sequence->prompt;
    const bool seen = s->env->visual > 0;
    struct tally p = { 0 }, entropy = { 0 }, share = { 0 }, lost = { 0 };
    const double *most = NULL, *least = NULL; // rows that lose most and least without the picture
    // Measurements over a data set use the first number: the answer's mean log-probability.
    struct result_table *summary = results_table(r, "why.summary", "what|value");
    struct result_table *t = results_table(
        r, "why", "token|probability|entropy|picture|prompt|answer|without picture|lost");
    t->own = t->kept = t->curve = true;
    for (int64_t i = 0; i < s->count; i++) {
        const struct asked *a = &s->tokens[i];
        double part[SHARE_PARTS] = { NAN, NAN, NAN };
        char *text = probe_word(s->env->model->tokenizer, ids[i]);
        double *v = result_row(t, "%lld %s", (long long)i, text);
        free(text);
        shares_of(s->shares, i, part);
        v[0] = exp(a->logp), v[1] = a->entropy;
        for (int k = 0; k < SHARE_PARTS; k++) v[2 + k] = part[k];
        v[5] = exp(a->without), v[6] = a->logp - a->without;
        tally_add(&p, a->logp);
        tally_add(&entropy, a->entropy);
        if (seen) tally_add(&share, part[SHARE_PICTURE]);
        if (seen) tally_add(&lost, v[6]);
        if (seen && (!most || v[6] > most[6])) most = v;
        if (seen && (!least || v[6] < least[6])) least = v;
    }
    result_row(summary, "log-probability of a token")[0] = tally_mean(&p);
    result_row(summary, "entropy")[0] = tally_mean(&entropy);
    if (seen) result_row(summary, "share from the picture")[0] = tally_mean(&share);
    if (seen) result_row(summary, "lost without the picture")[0] = tally_mean(&lost);
    put_alternatives(s, r);
    results_note(r,
                 "picture, prompt, answer: shares of %s at the position that predicts the token, "
                 "mean over layers%s (why.share)",
                 share_setting(s->env->settings) == SHARE_ATTENTION ? "attention"
                                                                    : "attention contribution",
                 share_setting(s->env->settings) == SHARE_ATTENTION ? " and heads" : "");
    note_layers(s, r);
    if (seen) put_objects(s, r, summary);
    if (most && most != least)
        results_note(r,
                     "without the picture, token %s loses most (%.3g nats), token %s least (%.3g)",
                     key_of(t, most), most[6], key_of(t, least), least[6]);
    return 0;
}

static const struct result_kind why_results[] = {
    { "why", "share", .columns = "picture|prompt|answer" },
    { "why", "probability", .columns = "probability|without picture" },
    { "why", "nats", .columns = "entropy|lost" },
    { "why.alternatives", .unit = "probability" },
    { "why.objects", "nats", .columns = "lost" },
    { .name = "why.summary" },
    { 0 },
};

static const char *const no_words[] = { NULL };

const struct probe probe_why = {
    .name = "why",
    .also = "confidence uncertainty probability entropy attribution hallucination grounding "
            "alternatives source measure probe",
    .usage = "/why [N]" PROBE_USAGE,
    .help = "Confidence in each token of an answer, and the token's dependence on the picture.",
    .details =
        "N is the number of an answer, counted from 1 (default: the last). The table has, for\n"
        "each token: its probability and the entropy in nats, by the model alone, at temperature\n"
        "1; the shares of attention that go to the picture, to the rest of the prompt and to the\n"
        "answer so far (why.share, /help why.share); its probability with attention to the\n"
        "picture cut, and the resulting drop in log-probability. The table why.alternatives has\n"
        "the three most probable other tokens.\n"
        "A warning names each object whose name loses less than why.threshold: the model would\n"
        "have named it without the picture. Objects are the categories of COCO, words for\n"
        "people, the shapes of the demo world and why.objects." PROBE_DETAILS,
    .results = why_results,
    .words = why_words,
    .complete = no_words,
    .numbered = true,
    .answer = true,
    .answered = true,
    .scalar = "why.summary",
    .start = why_start,
    .release = why_release,
    .passes = why_passes,
    .finish = why_finish,
};
