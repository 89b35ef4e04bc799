// tui/snapshot.h -- what the screen shows of the engine, copied between two lines.
//
// The engine belongs to the thread that computes; after every line it makes a snapshot and posts
// it. Pictures are posted once each.
#ifndef TUI_SNAPSHOT_H
#define TUI_SNAPSHOT_H

#include "commands/command.h"
#include "core/picture/image.h"
#include "tui/screen_events.h"

struct snapshot {
    char *model; // last part of its name; NULL: none is loaded
    char *device, *session;
    int64_t layers, heads;
    int place[METHODS_MAX]; // in the order of method_shown: the layer it chooses itself, or -1
    bool sees;
    struct settings *settings;
    bool counted; // the context below is known
    struct engine_context context;
    size_t waiting; // pictures
    double memory;  // bytes of this process
};

struct preview {
    int index; // of the picture in the conversation
    char *path;
    int64_t width, height, tokens;
    struct image image; // RGB, small
};

struct snapshot *snapshot_make(const struct shell *shell);
void snapshot_free(void *snapshot);
void preview_free(void *preview);
// A picture at most `side` pixels wide and high; image.pixels NULL when it cannot be had.
struct preview *preview_file(const char *path, int side);

// Which pictures were posted already.
struct told_pictures {
    char (*sha256)[65];
    size_t count;
};

void post_pictures(struct told_pictures *told, const struct shell *shell, struct news_queue *q);

#endif
