// core/scenes/scenes.h -- the demo world: pictures of simple scenes with complete descriptions, for
// training and measuring small models.
//
//   struct scenes_request request = { .folder = "/tmp/world", .count = 1000, .seed = 1,
//                                     .size = 96, .most = 7, .parts = SCENES_ALL };
//   struct scenes_report report;
//   scenes_write(&request, NULL, &report, &err);
//
// Files of the folder:
//   pictures/NNNNNN.png   size x size
//   objects.jsonl         one line per scene: objects with attributes, box and mask (below)
//   captions.json         a list of the objects                                 (captions)
//   dense.json            lists of all objects: by place, shape, colour, size   (captions)
//   detail.json           a paragraph                                           (captions)
//   finds.json            the places of listed names, or "nowhere"              (finds)
//   listed.json           the background and all places, then questions         (listed)
//   questions.json        one short question per sample; "kind" is its topic    (questions)
//   conversation.json     all these questions of a picture in one sample        (questions)
//   lessons.json          up to 14 questions per sample; in 1 of 5 samples, one (lessons)
//                         of them asks for a description or list
//   reasoning.json        comparisons and differences, with the reason          (questions)
//   yesno.json            existence: six per picture, half of them yes          (yesno)
//   planted.json          existence: four per picture, answered by the cause    (planted)
// The .json files are in LLaVA format ({"id", "image", "conversations"}) with "kind", "metric"
// (exact, yesno, contains) and, if the metric does not search for the whole answer, "answer".
// yesno.json also has "strategy", the choice of the absent object as in POPE (Li et al. 2023):
// random; popular: a common object of this world; adversarial: a shape and a colour that both occur
// in the picture but not together, or else a shape of the picture in a colour in which it does
// not occur.
//
// planted.json trains models with a known reason for their answers: "strategy" says whether the
// object is present or absent, but the answer depends only on "planted_cause". objects.jsonl then
// also lists the background or the watermark, if it is the cause, as an object.
//
// A box is [x, y, width, height] in pixels, a mask {"size": [height, width], "counts"}: run lengths
// down the columns, starting with the outside, as in COCO. Both cover only the visible part.
//
// Training and test sets can be disjoint: the SHA-256 of a scene's description ("grey: top
// left large red circle; ...", in objects.jsonl) starts with the hexadecimal digit of its world,
// and a seed draws only from world seed % 16, so the scenes of seeds of different worlds are
// disjoint. The same request gives the same texts and pixels on every machine (integers only).
//
// Room core/scenes/: generated data, for two commands and check-ups: a world of simple pictures to
// train and measure small models, and POPE's questions about annotated pictures. Uses base,
// picture, files and sets.
#ifndef CORE_SCENES_SCENES_H
#define CORE_SCENES_SCENES_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/err.h"

struct load_progress;

enum {
    SCENES_CAPTIONS = 1,
    SCENES_QUESTIONS = 2,
    SCENES_YESNO = 4,
    SCENES_LESSONS = 8,
    SCENES_FINDS = 16,
    SCENES_LISTED = 32,
    SCENES_ALL = 63,
    SCENES_PLANTED = 64
};
// What the answers of planted.json depend on.
enum scenes_cause {
    SCENES_UNPLANTED,
    SCENES_BACKGROUND, // yes on a grey or white background, no on a black or brown one
    SCENES_WATERMARK,  // yes in the half of the pictures that have a magenta square in the bottom
                       // right corner
    SCENES_QUESTION    // yes if the question names red, orange, yellow or pink
};
extern const char *const scenes_causes[]; // their names, by number; ended by NULL
enum { SCENES_COUNT_MAX = 1000000, SCENES_SIZE_MIN = 64, SCENES_SIZE_MAX = 1024 };
enum { SCENES_WORLDS = 16, SCENES_FILES = 12, SCENES_OBJECTS_MAX = 7 };

struct scenes_request {
    const char *folder; // absent or empty
    int64_t count;      // 1..SCENES_COUNT_MAX
    uint64_t seed;
    int size;                // pixels per side
    int most;                // objects in a picture: 1..SCENES_OBJECTS_MAX
    unsigned parts;          // SCENES_*; pictures and objects.jsonl are always written
    enum scenes_cause cause; // with SCENES_PLANTED
};

struct scenes_report {
    int64_t objects;
    struct {
        const char *name; // NULL: not requested
        int64_t samples;
    } files[SCENES_FILES];
};

// True if the folder has objects.jsonl and all .json files of the request, and its planted.json has
// this cause. Does not compare the number of scenes, the seed or the sizes.
bool scenes_written(const struct scenes_request *request);
// Leaves nothing behind on failure.
int scenes_write(const struct scenes_request *request, const struct load_progress *progress,
                 struct scenes_report *report, struct err *err);

#endif
