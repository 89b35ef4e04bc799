// core/scenes/pope.h -- POPE's questions for any annotated pictures (Li et al. 2023, arXiv
// 2305.10355, section 5.1): per picture, `each` present objects and up to as many absent ones,
// alternating yes and no. Absent objects are chosen three ways:
//
//   random       uniformly
//   popular      the objects in the most pictures
//   adversarial  the objects that most often co-occur with this picture's objects. The score of an
//                absent object is the sum, over the picture's objects, of the number of pictures
//                that have both
//
// On ties, the first object in the annotations wins. The seed determines the pictures, the
// present objects and the random absent ones. Pictures and present objects are the same in the
// three files pope_{random,popular,adversarial}.json, in the format of coco_pope_*.json: JSON lines
// {question_id, image, text, label}.
#ifndef CORE_SCENES_POPE_H
#define CORE_SCENES_POPE_H

#include <stdint.h>

#include "core/base/err.h"

struct annotated;

enum { POPE_WAYS = 3 };
extern const char *const pope_ways[POPE_WAYS]; // "random", "popular", "adversarial"

struct pope_request {
    const char *folder; // must exist
    uint64_t seed;
    int64_t pictures; // at most this many; 500 in the paper
    int64_t each;     // 3 in the paper; pictures with fewer objects are skipped
};

struct pope_report {
    int64_t pictures, questions[POPE_WAYS];
};

int pope_write(const struct annotated *a, const struct pope_request *request,
               struct pope_report *report, struct err *err);

#endif
