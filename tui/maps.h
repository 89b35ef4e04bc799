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

// direction +1 or -1: to the next or previous token or layer; +2 or -2: to the last or first token.
// Heads ignore the direction: a step goes to the next head, and after the last to their mean. While
// a requested map is being computed, further steps start from that map.
void maps_step(struct view *v, enum axis axis, int direction);
void maps_go(struct view *v, int token); // to the map of that token
// Returns the index of the map of `layer` that otherwise agrees with `now`; -1: none.
int maps_layer(const struct view *v, const struct map *now, int layer);
// Returns the number of layers in the strip of maps of this kind; 0: no strip.
int maps_layers(const struct view *v, const struct map *now);
// Shows the map of that layer, which the worker measures if none exists yet. False: no map is
// shown, an answer is being generated, or the layer has no map of the shown kind.
bool maps_go_layer(struct view *v, int layer);
// Requests the maps that are drawn but missing, each set once: those of the other layers or heads,
// those that a changed setting has outdated, and the layer's sinks.
void maps_fill(struct view *v);
// Finds the maps of the grid, at most `most` (of each, its first tile): the mean and the heads of
// the layer, or the heads of all layers with the most attention to the picture first. Returns their
// number; `list` gets their indices.
int maps_grid(const struct view *v, const struct map *now, int *list, int most);
// Opens the next form of the grid, or closes it. Says why if the shown kind of map has no heads.
void maps_next_grid(struct view *v);
// Shows the map at an index of image.maps.
void maps_go_to(struct view *v, int index);
// Returns whether the map's values are shares of attention.
bool maps_share(const struct map *m);
// Returns the sum of the values of all tiles of a map.
double maps_sum(const struct image_view *i, const struct map *m);
// Returns the sinks.phi map of the tile's layer and picture; NULL: not measured yet.
const struct map *maps_phi(const struct image_view *i, const struct map *m);
// Returns whether sinks can be left out of the map: it covers the patches, for one layer, and its
// kind has a map for each token.
bool maps_has_sinks(const struct map *m);
// Notes that a setting changed: drops the maps that the panel requested; maps_fill measures the
// shown one again.
void maps_outdate(struct view *v);
void maps_kind(struct view *v); // to the next kind of map, of the same token and nearest layer
void maps_take(struct view *v, const struct event_heatmap *h);
// Ends the requests. why: the error; NULL: another line was queued, which has priority.
void maps_failed(struct view *v, const char *why);
// Returns the command that measures the requested map, or else the shown one; NULL: no command
// does. free() it.
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
