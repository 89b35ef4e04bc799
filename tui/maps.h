// tui/maps.h -- steps through the maps of the last answer; requests missing maps, which the worker
// computes in the background from the cached conversation.
//
//   maps_step(v, AXIS_LAYER, 1);        // shows that map, or requests it (view->quiet)
//   maps_take(v, heatmap);              // takes a requested map
//   maps_select_box(v, box);            // colours the tokens that attend to this box
#ifndef TUI_MAPS_H
#define TUI_MAPS_H

#include "tui/view.h"

enum axis { AXIS_TOKEN, AXIS_LAYER, AXIS_HEAD };

// direction +1, -1: to the next, previous map; +2, -2: to the last, first. Further steps start from
// the requested map while it is still being computed.
void maps_step(struct view *v, enum axis axis, int direction);
void maps_go(struct view *v, int token); // to the map of that token
void maps_kind(struct view *v);          // the next kind of map of the same layer and token
void maps_take(struct view *v, const struct event_heatmap *h);
void maps_failed(struct view *v, const char *why);
bool maps_steps(const struct map *m);      // whether the step keys apply to this kind of map
void maps_last(struct view *v, int token); // shows that token's map if live maps ended earlier
void maps_forget(struct view *v);          // drops the maps of an answer that is no longer current
// Colours the words that attend to a box: left, top, right, bottom as fractions of the picture.
void maps_select_box(struct view *v, const double box[4]);
// Returns how much a token attends to the box, 0..1 (1: the most of all tokens); below 0: no box,
// or not known yet.
double maps_box_attention(const struct view *v, size_t token);
// Plays one step; false: the end is reached.
bool maps_play(struct view *v);

#endif
