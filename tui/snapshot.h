// tui/snapshot.h -- the engine's state for the screen, copied between two lines.
//
// Only the computing thread uses the engine; that thread posts a snapshot after every line, except
// lines that run only for their maps. Each picture is posted once, and again when its boxes change.
#ifndef TUI_SNAPSHOT_H
#define TUI_SNAPSHOT_H

#include "commands/command.h"
#include "core/methods/method.h"
#include "core/picture/image.h"
#include "tui/screen_events.h"

// A method, and what its key would change in the next prompt.
struct method_state {
    const struct method *method;
    int default_layer; // -1: none
    char *badge;       // text shown while the method is on; set even if it is off
    bool possible;     // its key is not known to be refused
    bool known;        // the changes are known
    double tokens;     // visual tokens that the last layer would compute, less those now
    double flops;      // FLOPs that the prompt would take, divided by those now
};

struct snapshot {
    char *model; // last part of the model's path; NULL: no model is loaded
    char *device, *session;
    int64_t layers, heads, width;
    struct method_state methods[METHODS_MAX]; // in the order of method_shown
    int method_count;
    bool has_vision;
    struct settings *settings;
    bool counted; // `context` is valid
    struct engine_context context;
    size_t waiting; // number of pictures attached to the next message
    double memory;  // bytes of this process
};

struct preview {
    int index;  // of the picture in the conversation; -1: of a file (preview_file)
    char *path; // NULL: the picture was removed from the conversation
    int64_t width, height, tokens;
    struct image image; // RGB, small
    uint64_t key;       // differs between pictures
};

struct snapshot *snapshot_make(const struct shell *shell);
void snapshot_free(void *snapshot);
void preview_free(void *preview);
struct picture;
// Several previews, for one piece of news.
struct previews {
    struct preview **list; // [count]
    size_t count;
};
struct previews *previews_new(const struct picture *list, size_t count);
void previews_free(void *previews);
// Reads a picture, shrunk to at most `side` pixels wide and high; image.pixels NULL if unavailable.
struct preview *preview_file(const char *path, int side);

// The pictures that have been posted.
struct posted_pictures {
    char (*sha256)[65];
    size_t count;
    int boxed;      // index of the picture with boxes, if `boxes` is not 0
    uint64_t boxes; // identifies the boxes drawn on that picture
};

// Posts the conversation's pictures that are new or whose boxes have changed, and those that were
// removed since the last call.
void post_pictures(struct posted_pictures *posted, const struct shell *shell, struct news_queue *q);

#endif
