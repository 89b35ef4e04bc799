// core/model/sampler.c -- picks the next token from logits.
#include "core/model/sampler.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/base/random.h"
#include "core/settings/settings.h"
#include "kernels/backend.h"

const struct setting sample_settings[] = {
    { .key = "sample.temperature",
      .type = SETTING_REAL,
      .max = 100,
      .def = "0",
      .stale = STALE_NEXT,
      .use = USE_SAMPLING,
      .help = "Sampling temperature; 0 is greedy decoding.",
      .also = "creativity randomness greedy" },
    { .key = "sample.top_k",
      .type = SETTING_INTEGER,
      .max = 1e9,
      .def = "0",
      .unit = "tokens",
      .stale = STALE_NEXT,
      .use = USE_SAMPLING,
      .help = "Top-k sampling: draws from the k most likely tokens; 0 disables it." },
    { .key = "sample.top_p",
      .type = SETTING_REAL,
      .max = 1,
      .def = "1",
      .stale = STALE_NEXT,
      .use = USE_SAMPLING,
      .help = "Top-p (nucleus) sampling: draws from the fewest tokens whose probabilities reach p; "
              "1 disables it.",
      .also = "nucleus" },
    { .key = "sample.min_p",
      .type = SETTING_REAL,
      .max = 1,
      .def = "0",
      .stale = STALE_NEXT,
      .use = USE_SAMPLING,
      .help =
          "Min-p sampling: drops tokens whose probability is below this fraction of the highest." },
    { .key = "sample.repeat_penalty",
      .type = SETTING_REAL,
      .min = 0.01,
      .max = 100,
      .def = "1",
      .stale = STALE_NEXT,
      .use = USE_SAMPLING,
      .help = "Repetition penalty for tokens already in the context; 1 disables it." },
    { .key = "sample.seed",
      .type = SETTING_INTEGER,
      .max = 9007199254740991,
      .def = "0",
      .stale = STALE_NEXT,
      .use = USE_SEED,
      .help = "Random seed of sampling: the same seed and conversation give the same answer. "
              "With sample.temperature above 0, /regen increments it.",
      .also = "random reproducible" },
    { .key = "sample.max_tokens",
      .type = SETTING_INTEGER,
      .min = 1,
      .max = 1e9,
      .def = "512",
      .unit = "tokens",
      .stale = STALE_NEXT,
      .use = USE_LENGTH,
      .help = "Maximum length of an answer.",
      .also = "length limit longer shorter cut" },
    { .key = "sample.ignore_eos",
      .type = SETTING_FLAG,
      .def = "off",
      .stale = STALE_NEXT,
      .use = USE_SAMPLING,
      .help = "Ignores the end-of-sequence token and generates up to sample.max_tokens." },
    { 0 },
};

struct candidate {
    int32_t id;
    float logit;
    double probability;
};

// Returns the index of the maximum, the first one on ties. Skips blocks without a larger logit: a
// GPU computes a token in one or two milliseconds, and a plain loop over a large vocabulary would
// add a tenth to that.
static int32_t argmax(const float *logits, int64_t vocab)
{
    enum { BLOCK = 64 };
    int64_t best = 0, i = 0;
    while (i < vocab) {
        const int64_t end = i + BLOCK < vocab ? i + BLOCK : vocab;
        const float high = logits[best];
        int higher = end - i < BLOCK;
        if (!higher)
            for (int j = 0; j < BLOCK; j++) higher |= logits[i + j] > high;
        for (; higher && i < end; i++)
            if (logits[i] > logits[best]) best = i;
        i = end;
    }
    return (int32_t)best;
}

// Penalises each id of the history once: divides positive logits, multiplies negative ones (like
// transformers' RepetitionPenaltyLogitsProcessor).
static void penalise(float *logits, int64_t vocab, const int32_t *history, size_t count,
                     double penalty)
{
    bool *seen = xcalloc((size_t)vocab, sizeof *seen);
    for (size_t i = 0; i < count; i++) {
        int32_t id = history[i];
        if (id < 0 || id >= vocab || seen[id]) continue;
        seen[id] = true;
        logits[id] *= (float)(logits[id] > 0 ? 1 / penalty : penalty);
    }
    free(seen);
}

// Sorts the most likely token first and, on ties, the lower id, so that the order is the same
// everywhere.
static int by_logit(const void *a, const void *b)
{
    const struct candidate *x = a, *y = b;
    if (x->logit != y->logit) return x->logit < y->logit ? 1 : -1;
    return x->id < y->id ? -1 : x->id > y->id;
}

const char *logits_damage(const float *x, int64_t n)
{
    enum { BLOCK = 64 }; // vectorised, because this runs for every token
    int damaged = 0, any = 0;
    int64_t i = 0;
    for (; i + BLOCK <= n; i += BLOCK)
        for (int j = 0; j < BLOCK; j++) {
            damaged |= !(x[i + j] <= FLT_MAX);
            any |= x[i + j] >= -FLT_MAX;
        }
    for (; i < n; i++) {
        damaged |= !(x[i] <= FLT_MAX);
        any |= x[i] >= -FLT_MAX;
    }
    if (!damaged && any) return NULL;
    for (i = 0; i < n; i++)
        if (isnan(x[i])) return "NaN";
    return "Inf";
}

// Returns the sum of p (x - from); a logit of -Inf, whose p is 0, adds nothing. Sums blocks in
// single precision, in lanes that compilers vectorise: on a GPU, a whole token takes a millisecond.
static double weighted_sum(const float *p, const float *x, int64_t n, float from)
{
    enum { LANES = 16, BLOCK = 1024 };
    static const float least = -1e30f; // in place of -Inf, which times 0 is NaN
    double all = 0;
    for (int64_t i = 0; i < n;) {
        const int64_t end = i + BLOCK < n ? i + BLOCK : n;
        float sum[LANES] = { 0 };
        for (; i + LANES <= end; i += LANES)
            for (int j = 0; j < LANES; j++)
                sum[j] += p[i + j] * ((x[i + j] > least ? x[i + j] : least) - from);
        for (int j = 0; i < end; i++, j++) sum[j] += p[i] * ((x[i] > least ? x[i] : least) - from);
        for (int j = 0; j < LANES; j++) all += (double)sum[j];
    }
    return all;
}

struct logits_spread logits_spread(const float *logits, int64_t n, float *probs)
{
    const int32_t best = argmax(logits, n);
    const struct tensor x = {
        .data = (float *)(uintptr_t)logits, .dtype = DTYPE_F32, .rank = 1, .shape = { n }
    };
    struct tensor y = x;
    y.data = probs;
    backend_cpu()->softmax(&y, &x, 1);
    const double above = -log((double)probs[best]); // log_sum minus the best logit
    const double entropy = above - weighted_sum(probs, logits, n, logits[best]);
    return (struct logits_spread){ (double)logits[best] + above, fmax(entropy, 0) };
}

// Picks a token from logits that already include the penalty.
static int32_t pick(const struct settings *s, const float *logits, int64_t vocab, uint64_t position)
{
    double temperature = settings_real(s, "sample.temperature");
    int32_t best = argmax(logits, vocab);
    if (temperature == 0 || !isfinite(logits[best])) return best;

    // Tokens whose logit is more than 40 temperatures below the best one do not change the sum
    // noticeably.
    struct candidate *list = xreallocarray(NULL, (size_t)vocab, sizeof *list);
    const float least = (float)(logits[best] - 40 * temperature);
    size_t n = 0;
    for (int64_t i = 0; i < vocab; i++)
        if (logits[i] >= least) list[n++] = (struct candidate){ (int32_t)i, logits[i], 0 };
    qsort(list, n, sizeof *list, by_logit);
    int64_t top_k = settings_integer(s, "sample.top_k");
    if (top_k > 0 && (size_t)top_k < n) n = (size_t)top_k;

    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += list[i].probability = exp(((double)list[i].logit - logits[best]) / temperature);
    double top_p = settings_real(s, "sample.top_p"), min_p = settings_real(s, "sample.min_p");
    size_t kept = 0;
    double mass = 0;
    // top-p keeps the token that crosses p; min-p compares with the most likely one (weight 1).
    while (kept < n && (kept == 0 || (mass < top_p * sum && list[kept].probability >= min_p)))
        mass += list[kept++].probability;

    double draw =
        mass * random_unit((uint64_t)settings_integer(s, "sample.seed"), RANDOM_SAMPLE, position);
    size_t chosen = 0;
    while (chosen + 1 < kept && draw >= list[chosen].probability)
        draw -= list[chosen++].probability;
    int32_t id = list[chosen].id;
    free(list);
    return id;
}

int32_t sampler_pick(const struct settings *s, const float *logits, int64_t vocab,
                     const int32_t *history, size_t history_count, uint64_t position)
{
    const double penalty = settings_real(s, "sample.repeat_penalty");
    if (penalty == 1) return pick(s, logits, vocab, position);
    float *copy = xreallocarray(NULL, (size_t)vocab, sizeof *copy);
    memcpy(copy, logits, (size_t)vocab * sizeof *copy);
    penalise(copy, vocab, history, history_count, penalty);
    const int32_t id = pick(s, copy, vocab, position);
    free(copy);
    return id;
}
