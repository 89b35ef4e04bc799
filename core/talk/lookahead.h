// core/talk/lookahead.h -- speculative decoding: drafts tokens from repetitions in the
// conversation.
//
//   struct lookahead l = { 0 };
//   lookahead_configure(&l, settings, rows);        // `rows` of a pass, with the newest token
//   n = lookahead_draft(&l, &sequence, limit, to);   // the tokens that may follow
//   ... a pass computes the newest token and the drafts; the first `right` drafts are accepted
//   lookahead_judge(&l, n, right);
//   lookahead_release(&l);
#ifndef CORE_TALK_LOOKAHEAD_H
#define CORE_TALK_LOOKAHEAD_H

#include "core/settings/settings.h"
#include "core/template/sequence.h"

enum { LOOKAHEAD_MOST = 7 }; // maximum number of drafts in a pass

struct lookahead {
    int64_t most; // maximum number of drafts in a pass; 0: none
    bool adapts;  // sample.lookahead auto
    bool blocks;  // block-quantised weights (set by the caller): each further row takes more time

    int32_t *after; // [size] by the hash of an n-gram: the row after its latest occurrence; 0: none
    int64_t size;   // a power of two
    int64_t known;  // rows of the sequence whose n-grams are in the table

    double share;      // acceptance rate: moving average of the latest proposals
    int32_t guess;     // a proposal that was not drafted: the token of row `guess_row`
    int64_t guess_row; // 0: none
    int64_t drafted, accepted;
};

// Reads sample.lookahead. A pass may have `rows` rows; 1: no drafts.
void lookahead_configure(struct lookahead *l, const struct settings *s, int64_t rows);
// Forgets the sequence; call it before passing another sequence.
void lookahead_forget(struct lookahead *l);
// Drafts up to `limit` tokens after the sequence, which may have grown since the last call. Returns
// their number.
int64_t lookahead_draft(struct lookahead *l, const struct sequence *s, int64_t limit,
                        int32_t to[LOOKAHEAD_MOST]);
// Reports that the first `right` of `drafted` tokens were accepted.
void lookahead_judge(struct lookahead *l, int64_t drafted, int64_t right);
void lookahead_release(struct lookahead *l);

#endif
