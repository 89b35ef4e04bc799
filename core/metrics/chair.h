// core/metrics/chair.h -- how CHAIR encodes the outcome of a caption.
#ifndef CORE_METRICS_CHAIR_H
#define CORE_METRICS_CHAIR_H

// An outcome's class holds the number of mentions of objects in the caption, and the number of
// mentions of objects that are not in the picture; each is at most CHAIR_MOST.
enum { CHAIR_MOST = 4095 };

static inline int chair_mentions(int class)
{
    return class >> 12;
}

static inline int chair_hallucinated(int class)
{
    return class & CHAIR_MOST;
}

#endif
