// core/talk/lookahead.c -- drafts of the tokens to come, from what the conversation holds already
// (prompt lookup; Saxena 2023, github.com/apoorvumang/prompt-lookup-decoding).
//
//   the newest 3 tokens, or else 2, are looked up where they stood last; what followed is the draft
//   one pass computes the newest token and the drafts: it reads the weights once, which is what a
//   token's time goes to; drafts that the model does not choose are taken back
//
// An answer has the same bits with and without drafts: a pass of few rows gives each row the bits
// of the row alone (backend->few_rows), and each token is chosen from its row as ever.
//
// Where nothing repeats, drafts only cost time. So `auto` drafts less after a miss, and pauses
// after several, each time for longer.
#include "core/talk/lookahead.h"

#include <stdlib.h>
#include <string.h>

static const char *const words[] = { "auto", "off", NULL };

const struct setting lookahead_settings[] = {
    { "sample.lookahead", SETTING_INTEGER, 1, LOOKAHEAD_MOST, "auto", "tokens", words,
      STALE_NOTHING,
      "Speculative decoding by n-gram lookup: tokens drafted from repetitions in the conversation "
      "and verified in one pass. Faster, the same answer. auto adapts to how many are accepted." },
    { 0 },
};

enum {
    LONG = 3, // tokens looked up
    SHORT = 2,
    LENGTH = 3,     // drafts of an answer's first pass
    MISSES = 3,     // passes without a hit before a pause
    PAUSE = 8,      // tokens of the first pause
    PAUSE_MOST = 64 // of the longest
};

void lookahead_obey(struct lookahead *l, const struct settings *s, int64_t rows)
{
    const int64_t wanted = settings_integer(s, "sample.lookahead");
    l->adapts = settings_is(s, "sample.lookahead", "auto");
    l->most = rows - 1 < LOOKAHEAD_MOST ? rows - 1 : LOOKAHEAD_MOST;
    if (!l->adapts && wanted < l->most) l->most = wanted; // off is 0
    if (l->length) return;
    l->length = LENGTH;
    l->pause = PAUSE;
}

void lookahead_forget(struct lookahead *l)
{
    l->known = 0;
}

void lookahead_release(struct lookahead *l)
{
    free(l->place);
    *l = (struct lookahead){ 0 };
}

// --- where n-grams stood last --------------------------------------------------------------------

// The entry of `count` tokens. N-grams with the same entry displace each other: what is found there
// is compared.
static int32_t *entry(const struct lookahead *l, const int32_t *ids, int count)
{
    uint64_t hash = (uint64_t)count;
    for (int i = 0; i < count; i++) hash = (hash ^ (uint32_t)ids[i]) * 0x9e3779b97f4a7c15u;
    return &l->place[(hash ^ hash >> 32) & (uint64_t)(l->size - 1)];
}

// Enters the n-grams in front of each new row.
static void enter(struct lookahead *l, const struct sequence *s)
{
    if (l->size < 4 * s->n) {
        for (l->size = 1024; l->size < 8 * s->n;) l->size *= 2;
        free(l->place);
        l->place = xcalloc((size_t)l->size, sizeof *l->place);
        l->known = 0;
    }
    for (int64_t row = l->known > LONG ? l->known : LONG; row < s->n; row++) {
        *entry(l, s->ids + row - LONG, LONG) = (int32_t)row;
        *entry(l, s->ids + row - SHORT, SHORT) = (int32_t)row;
    }
    l->known = s->n;
}

// The row behind the place where the newest `count` tokens stood before; -1: they did not.
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

int64_t lookahead_draft(struct lookahead *l, const struct sequence *s, int64_t room,
                        int32_t to[LOOKAHEAD_MOST])
{
    if (!l->most) return 0;
    if (l->adapts && l->resting > 0) {
        l->resting--;
        return 0;
    }
    if (l->adapts && room > l->length) room = l->length;
    if (room > l->most) room = l->most;
    enter(l, s);
    int64_t from = find(l, s, LONG), n = 0;
    if (from < 0) from = find(l, s, SHORT);
    for (; from >= 0 && n < room; n++, from++) {
        if (from < s->n && s->picture[from] >= 0) break;
        to[n] = from < s->n ? s->ids[from] : to[from - s->n]; // it repeats itself
    }
    return n;
}

void lookahead_judge(struct lookahead *l, int64_t drafted, int64_t right)
{
    if (!drafted) return;
    l->drafted += drafted;
    l->accepted += right;
    l->length = right == drafted ? 2 * drafted + 1 : right + 1;
    if (right) {
        l->misses = 0;
        l->pause = PAUSE;
    } else if (++l->misses >= MISSES) {
        l->misses = MISSES - 1; // the next miss is enough
        l->resting = l->pause;
        l->pause = 2 * l->pause < PAUSE_MOST ? 2 * l->pause : PAUSE_MOST;
    }
}
