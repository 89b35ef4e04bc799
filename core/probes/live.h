// core/probes/live.h -- live attention during an answer: a map of one layer for each token and
// picture, or for each tile of a picture.
//
//   struct live *l = live_new("live", model, settings, backend, pictures, count, sinks);
//   struct hook hook = live_hook(l);             // for the passes of one answer
//   live_show(l, tokens);                        // before a token is chosen
//   live_free(l);
//
// live_pause(l, 1.0 / 30) skips tokens within 1/30 s of the last map: their passes run at the speed
// of passes without a probe.
//
// Recomputes only the attention of the pass's rows (the newest token and drafts) in the layer
// screen.live_layer, from that layer's queries and keys: a small part of the layer's work. Emits
// EVENT_HEATMAP with the given name and the index of the token in the answer. Maps of drafted
// tokens stay pending until the tokens are part of the answer.
#ifndef CORE_PROBES_LIVE_H
#define CORE_PROBES_LIVE_H

#include "core/base/event.h"

struct backend;
struct model;
struct settings;

// All arguments must last until live_free.
struct live *live_new(const char *name, const struct model *model, const struct settings *settings,
                      const struct backend *backend, const struct picture *pictures, size_t count,
                      const struct sinks *sinks);
void live_free(struct live *l);
struct hook live_hook(struct live *l);
// Sets the minimum seconds between two maps; 0: a map per token.
void live_pause(struct live *l, double seconds);
// Shows the pending maps of the answer's first `tokens` tokens.
void live_show(struct live *l, int64_t tokens);

#endif
