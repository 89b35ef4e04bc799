// core/interventions/causes.h -- finds the regions of a picture that an answer depends on:
// exchanges each region with other pictures and measures the change in the answer's
// log-probability.
//
//   struct causes c;
//   causes_open(&c, &w, mask, picture);                     // the candidates
//   causes_exchange(&c, p, "pictures", err);                // c.list[i].change
//   causes_rate(&c, map, map_number); ...                   // c.list[i].auc[map_number]
//   causes_add(&means, &c);                                 // over samples
//   causes_put(&means, names, results);                     // the table, and the cause's name
//   causes_close(&c); causes_close(&means);
#ifndef CORE_INTERVENTIONS_CAUSES_H
#define CORE_INTERVENTIONS_CAUSES_H

#include <stddef.h>

#include "core/base/tally.h"
#include "core/interventions/attribution.h"

enum { CAUSE_MAPS = 2 * ATTRIBUTION_COUNT }; // the kinds, and the kinds corrected

struct cause {
    char *name;
    bool *at;                     // [N] its visual tokens; NULL in means
    struct tally tokens;          // their number
    struct tally change;          // of the answer's log-probability, over the other pictures
    struct tally auc[CAUSE_MAPS]; // of the maps against the region (struct map_score)
};

struct causes {
    const struct attributing *w;
    int picture;
    struct cause *list;
    size_t count, capacity;
    bool cut;       // a picture has more objects than are exchanged
    struct err why; // why nothing was exchanged
};

// Lists the candidates: the whole picture, the object that mask [S] marks, each object of --objects
// that the mask does not cover, and the tokens of no object. If the mask covers all of several
// objects, each of them is a candidate in place of the marked one.
void causes_open(struct causes *c, const struct attributing *w, const float *mask, int picture);
// Exchanges each region with up to 8 pictures of the same size among at most 64 files of a folder.
// Without such a picture, sets c->why and no change. -1 if a pass fails.
int causes_exchange(struct causes *c, struct passing *p, const char *folder, struct err *err);
// Rates a map [S] against each region.
void causes_rate(struct causes *c, const float *map, int number);
// Adds the regions of a sample to the means over samples.
void causes_add(struct causes *means, const struct causes *c);
// Adds the table faithful.causes, with a column for each map that was rated (names[CAUSE_MAPS]),
// and notes that name the cause and the maps that find it.
void causes_put(const struct causes *means, char *const *names, struct results *r);
void causes_close(struct causes *c);

#endif
