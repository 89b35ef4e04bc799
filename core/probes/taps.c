// core/probes/taps.c -- the table of taps.
#include "core/probes/taps.h"

#include <stdio.h>

#include "core/methods/prune.h"

static const struct tap taps[] = {
    { "ids", NULL, TAP_IDS, "[N] token ids, the placeholder at visual positions (int32)" },
    { "positions", NULL, TAP_POSITIONS, "[N] or [3,N] rotary positions (int32)" },
    { "pixels.%I", SITE_PIXELS, TAP_X,
      "pixels of a picture as the encoder reads them: [3,H,W], [tiles,3,H,W] or [patches,values]" },
    { "vision.layer.%L.%I", SITE_VISION_LAYER, TAP_X,
      "[S',Dv] input of an encoder block; K one past the last: output of the encoder" },
    { "vision.%I", SITE_VISION, TAP_X, "[S,Dv] input of the projector" },
    { "visual.%I", SITE_PROJECTED, TAP_X, "[S,D] visual tokens after the projector" },
    { "visual_aligned.%I", SITE_VISUAL, TAP_CHANGED,
      "[S,D] visual tokens as spliced, if a method changed them" },
    { "embed", SITE_EMBED, TAP_X, "[N,D] input of the decoder" },
    { "rows.%L", SITE_LAYER_IN, TAP_ALIVE, "[n] positions that a layer computes (int32)" },
    { "layer.%L.in", SITE_LAYER_IN, TAP_X, "[N,D] residual stream entering a layer" },
    { "layer.out", SITE_FINAL, TAP_X, "[N,D] residual stream after the last layer" },
    { "attn.%L.probs", SITE_ATTN, TAP_X, "[H,N,N] attention probabilities" },
    { "attn.%L.value", SITE_VALUES, TAP_HEADS_FIRST, "[Hkv,N,d] values that attention uses" },
    { "ffn.%L.in", SITE_FFN_IN, TAP_X, "[N,D] residual stream entering an FFN, before its norm" },
    { "ffn.%L.out", SITE_FFN_OUT, TAP_X, "[N,D] residual stream after an FFN" },
    { "score.%L", SITE_SCORE, TAP_X,
      "[S] pruning scores of the visual tokens in a layer (score.input: before the first)" },
    { "kept", SITE_KEPT, TAP_X,
      "[k] visual tokens kept in the end, counted among all of them (int32)" },
    { "kept.%L", SITE_KEPT, TAP_X,
      "[k] visual tokens kept after layer K (kept.input: before the first)" },
    { "logits", SITE_LOGITS, TAP_X, "[N,V] logits of every prompt position" },
    { "step.logits", SITE_STEP_LOGITS, TAP_ROWS,
      "[n,V] logits from which each generated token was chosen" },
};

const struct tap *tap_at(int index)
{
    return index >= 0 && index < (int)(sizeof taps / sizeof *taps) ? &taps[index] : NULL;
}

void tap_name(const struct tap *tap, int layer, int picture, char name[TAP_NAME_SIZE])
{
    int used = 0;
    name[0] = 0;
    for (const char *p = tap->name; *p && used < TAP_NAME_SIZE - 16; p++) {
        bool place = p[0] == '%';
        if (place) p++;
        if (place && *p == 'L' && layer < 0)
            used += snprintf(name + used, 16, "input");
        else if (place)
            used += snprintf(name + used, 16, "%d", *p == 'L' ? layer : picture);
        else
            name[used++] = *p, name[used] = 0;
    }
}

int tap_lowest(const struct tap *tap)
{
    return tap->site == SITE_SCORE || tap->site == SITE_KEPT ? -1 : 0;
}

bool tap_match(const char *pattern, const char *name)
{
    // On a mismatch, goes back to the last star, which then matches one more character.
    const char *star = NULL, *resume = NULL;
    while (*name) {
        if (*pattern == '*') {
            star = pattern++;
            resume = name;
        } else if (*pattern == '?' || *pattern == *name) {
            pattern++;
            name++;
        } else if (star) {
            pattern = star + 1;
            name = ++resume;
        } else {
            return false;
        }
    }
    while (*pattern == '*') pattern++;
    return !*pattern;
}
