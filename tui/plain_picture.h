// tui/plain_picture.h -- pictures among plain lines, where the terminal has graphics of its own.
//
//   struct plain_picture p = { .interactive = true };
//   if (plain_picture_possible(&p, stdout)) plain_picture_map(&p, stdout, map);
#ifndef TUI_PLAIN_PICTURE_H
#define TUI_PLAIN_PICTURE_H

#include <stdio.h>

#include "core/base/event.h"
#include "core/picture/image.h"
#include "core/settings/settings.h"
#include "tui/graphics.h"

struct plain_picture {
    bool interactive; // a prompt reads the keys: the terminal may be queried
    bool asked;
    struct graphics graphics;
    struct settings *settings; // as events report them
    uint32_t last_id;
};

// Whether the terminal draws pictures. The first call queries it.
bool plain_picture_possible(struct plain_picture *p, FILE *file);
// Both leave the cursor at the beginning of the line below.
void plain_picture_map(struct plain_picture *p, FILE *file, const struct event_heatmap *map);
void plain_picture_image(struct plain_picture *p, FILE *file, const struct image *image);

#endif
