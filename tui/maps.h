// tui/maps.h -- steps through the maps of the last answer; requests missing maps, which the worker
// computes in the background from the cached conversation.
//
//   maps_step(v, AXIS_LAYER, 1);        // shows the next layer's map, or requests it (view->quiet)
//   maps_take(v, heatmap);              // takes a requested map
//   maps_select_box(v, box);            // colours the words that attend to this box
#ifndef TUI_MAPS_H
#define TUI_MAPS_H

#include "tui/view.h"

enum axis { AXIS_TOKEN, AXIS_LAYER, AXIS_HEAD };

// direction +1 or -1: to the next or previous map; +2 or -2: to the last or first. While a
// requested map is being computed, further steps start from that map.
void maps_step(struct view *v, enum axis axis, int direction);
void maps_go(struct view *v, int token); // to the map of that token
// Returns the index of the map of another layer that agrees with `now`; -1: none.
int maps_layer(const struct view *v, const struct map *now, int layer);
// Returns the number of layers that have a map of this kind, shown as a strip; 0: no strip.
int maps_layers(const struct view *v, const struct map *now);
void maps_go_layer(struct view *v, int layer); // to the map of that layer
// Requests the missing maps of the other layers, once for each token, head and kind.
void maps_fill(struct view *v);
void maps_kind(struct view *v); // to the next kind of map of the same layer and token
void maps_take(struct view *v, const struct event_heatmap *h);
void maps_failed(struct view *v, const char *why);
// Returns the command that measures the chosen map, or the requested one; NULL: no command does.
// free() it.
char *maps_line(const struct view *v);
bool maps_steps(const struct map *m);      // whether the step keys apply to this kind of map
void maps_last(struct view *v, int token); // to that token's map if live maps ended before it
void maps_forget(struct view *v);          // drops the maps of an answer that is no longer current
// Colours the words that attend to a box: left, top, right, bottom as fractions of the picture.
void maps_select_box(struct view *v, const double box[4]);
// Returns how much a token attends to the box, 0..1 (1: the most of all tokens). Negative if
// there is no box, or if the attention is not known yet.
double maps_box_attention(const struct view *v, size_t token);
// Plays one step; returns false at the end.
bool maps_play(struct view *v);

#endif
