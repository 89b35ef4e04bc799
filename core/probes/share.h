// core/probes/share.h -- where an answer's tokens attend: the shares of attention, or of attention
// contribution, that go to pictures, to the rest of the prompt and to the answer so far.
//
//   struct shares *s = shares_new(model, SHARE_ATTENTION);
//   struct hook hook = shares_hook(s);              // for the passes of one answer
//   double part[SHARE_PARTS];
//   if (shares_of(s, token, part)) ... part[SHARE_PICTURE]
//   shares_free(s);
//
// Token t of an answer is predicted at the row before it. For that row and each layer l,
//
//   SHARE_ATTENTION     picture(l) = mean over heads of the sum of A[h,j] over visual keys j
//   SHARE_CONTRIBUTION  picture(l) = sum of C[j] over visual keys / sum of C[j] over all keys,
//                       C[j] = || sum over heads h of A[h,j] (v[j,kv(h)] W_O[h]) ||
//
// and the same for the other parts, so that the parts of a layer add up to 1. A token's share is
// the mean over all attention layers (recurrent layers have no share).
#ifndef CORE_PROBES_SHARE_H
#define CORE_PROBES_SHARE_H

#include <stdbool.h>
#include <stdint.h>

#include "core/graph/hooks.h"

struct model;
struct settings;

enum share_by { SHARE_ATTENTION, SHARE_CONTRIBUTION };
enum share_part { SHARE_PICTURE, SHARE_PROMPT, SHARE_ANSWER, SHARE_PARTS };

struct shares;

// Returns the value of why.share.
enum share_by share_setting(const struct settings *s);
// The model must outlive the shares.
struct shares *shares_new(const struct model *model, enum share_by by);
void shares_free(struct shares *s);
// True if s measures `by`; false for NULL.
bool shares_measure(const struct shares *s, enum share_by by);
// A probe's hook: it reads the rows that predict tokens of the answer, and changes nothing.
struct hook shares_hook(struct shares *s);
// Sets the parts of a token of the answer, counted from 0; SHARE_PICTURE is NaN if no row that was
// read attends to a visual token. False: no pass has read its row.
bool shares_of(const struct shares *s, int64_t token, double part[SHARE_PARTS]);

#endif
