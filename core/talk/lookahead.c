// core/talk/lookahead.c -- speculative decoding: drafts tokens from repetitions in the conversation
// (prompt lookup; Saxena 2023, github.com/apoorvumang/prompt-lookup-decoding).
//
// Each step finds the latest earlier occurrence of the newest 3 tokens (or else of the newest 2)
// and drafts the tokens that followed it. One pass then computes the newest token and the drafts;
// drafts that the model does not choose are removed. The pass reads the weights only once, and this
// reading dominates the time of a token.
//
// An answer has the same bits with and without drafts: in a pass of few rows, each row has the same
// bits as in a pass of its own (backend->few_rows), and each token is chosen from its own row.
//
// Without repetitions, drafts only cost time. `auto` therefore chooses the number of drafts by the
// acceptance rate of the proposals. The rate includes proposals that were not drafted, because
// checking them against the chosen tokens costs nothing.
#include "core/talk/lookahead.h"

#include <stdlib.h>
#include <string.h>

static const char *const words[] = { "auto", "off", NULL };

const struct setting lookahead_settings[] = {
    { .key = "sample.lookahead",
      .type = SETTING_INTEGER,
      .min = 1,
      .max = LOOKAHEAD_MOST,
      .def = "auto",
      .choices = words,
      .stale = STALE_NOTHING,
      .help = "Speculative decoding by n-gram lookup: drafts tokens from repetitions in the "
              "conversation and verifies them in one pass. Faster, same answer. auto adapts to the "
              "acceptance rate.",
      .also = "speculative drafts" },
    { 0 },
};

enum { LONG = 3, SHORT = 2 }; // lengths of the n-grams that are looked up

// Drafts per pass by acceptance rate, chosen for the most tokens per second on a CPU (not yet
// measured on a GPU). With bf16 weights, a pass of two rows takes hardly longer than a pass of one
// row, four and six rows take 1.6 and 2.2 times as long, and more rows exceed the registers. With
// block-quantised weights and AVX-512, products of two rows already take 1.9 to 2.4 times as long
// as those of one row, and four rows 3.1 to 4.0 times (docs/speed.md).
static const struct length {
    double share;
    int64_t drafts;
} lengths[] = { { 0.8, 5 }, { 0.6, 3 }, { 0.3, 1 }, { 0, 0 } },
  lengths_blocks[] = { { 0.9, 5 }, { 0.8, 3 }, { 0, 0 } };

static const double begin_share = 0.5, newest_counts = 0.25;

void lookahead_configure(struct lookahead *l, const struct settings *s, int64_t rows)
{
    const int64_t wanted = settings_integer(s, "sample.lookahead");
    if (!l->size) l->share = begin_share;
    l->adapts = settings_is(s, "sample.lookahead", "auto");
    l->most = rows - 1 < LOOKAHEAD_MOST ? rows - 1 : LOOKAHEAD_MOST;
    if (!l->adapts && wanted < l->most) l->most = wanted; // off is 0
}

void lookahead_forget(struct lookahead *l)
{
    l->known = l->guess_row = 0;
}

void lookahead_release(struct lookahead *l)
{
    free(l->after);
    *l = (struct lookahead){ 0 };
}

// --- the table of n-grams ------------------------------------------------------------------------

// Returns the entry of an n-gram of `count` tokens. N-grams with the same hash displace each other,
// so callers compare the tokens.
static int32_t *entry(const struct lookahead *l, const int32_t *ids, int count)
{
    uint64_t hash = (uint64_t)count;
    for (int i = 0; i < count; i++) hash = (hash ^ (uint32_t)ids[i]) * 0x9e3779b97f4a7c15u;
    return &l->after[(hash ^ hash >> 32) & (uint64_t)(l->size - 1)];
}

// Adds the n-grams that end just before each new row to the table.
static void enter(struct lookahead *l, const struct sequence *s)
{
    if (l->size < 4 * s->n) {
        for (l->size = 1024; l->size < 8 * s->n;) l->size *= 2;
        free(l->after);
        l->after = xcalloc((size_t)l->size, sizeof *l->after);
        l->known = 0;
    }
    for (int64_t row = l->known > LONG ? l->known : LONG; row < s->n; row++) {
        *entry(l, s->ids + row - LONG, LONG) = (int32_t)row;
        *entry(l, s->ids + row - SHORT, SHORT) = (int32_t)row;
    }
    l->known = s->n;
}

// Returns the row after the latest earlier occurrence of the newest `count` tokens; -1: none.
static int64_t find(const struct lookahead *l, const struct sequence *s, int count)
{
    if (s->n <= count) return -1;
    const int32_t *newest = s->ids + s->n - count;
    const int64_t row = *entry(l, newest, count);
    const bool same = row >= count && row < s->n &&
                      !memcmp(s->ids + row - count, newest, (size_t)count * sizeof *newest);
    return same ? row : -1;
}

// --- drafts --------------------------------------------------------------------------------------

// Updates the acceptance rate with the outcome of one proposal.
static void observe(struct lookahead *l, bool right)
{
    l->share += newest_counts * ((right ? 1 : 0) - l->share);
}

// Returns the number of tokens to draft now.
static int64_t length(const struct lookahead *l)
{
    const struct length *is = l->blocks ? lengths_blocks : lengths;
    while (l->share < is->share) is++;
    return l->adapts && is->drafts < l->most ? is->drafts : l->most;
}

// Copies up to `count` tokens from row `from` on as drafts; stops at a picture. Returns the number
// of drafts.
static int64_t copy(const struct sequence *s, int64_t from, int64_t count, int32_t *to)
{
    int64_t n = 0;
    for (; n < count; n++, from++) {
        if (from < s->n && s->picture[from] >= 0) break;
        to[n] = from < s->n ? s->ids[from] : to[from - s->n]; // past the end, repeats the draft
    }
    return n;
}

int64_t lookahead_draft(struct lookahead *l, const struct sequence *s, int64_t limit,
                        int32_t to[LOOKAHEAD_MOST])
{
    if (!l->most || limit < 1) return 0;
    if (l->guess_row && l->guess_row < s->n) observe(l, s->ids[l->guess_row] == l->guess);
    l->guess_row = 0;
    enter(l, s);
    int64_t from = find(l, s, LONG);
    if (from < 0) from = find(l, s, SHORT);
    if (from < 0) return 0;
    const int64_t wanted = length(l);
    if (wanted) return copy(s, from, wanted < limit ? wanted : limit, to);
    l->guess = s->ids[from];
    l->guess_row = s->n;
    return 0;
}

void lookahead_judge(struct lookahead *l, int64_t drafted, int64_t right)
{
    for (int64_t i = 0; i < right; i++) observe(l, true);
    if (right < drafted) observe(l, false);
    l->drafted += drafted;
    l->accepted += right;
}
