// core/model/parts.h -- the parts of a model, and the greatest rank of a weight.
#ifndef CORE_MODEL_PARTS_H
#define CORE_MODEL_PARTS_H

// Which part of a model a weight belongs to.
enum model_part_kind {
    PART_VISION,
    PART_PROJECTOR,
    PART_EMBEDDING,
    PART_DECODER,
    PART_HEAD,
    MODEL_PARTS
};

const char *part_name(enum model_part_kind part); // "vision encoder"

enum { WEIGHT_MAX_RANK = 5 };

#endif
