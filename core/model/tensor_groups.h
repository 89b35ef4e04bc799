// core/model/tensor_groups.h -- names many tensors in a short text.
//
//   struct tensor_groups g = { 0 };
//   tensor_groups_add(&g, tensor_pattern(name, false));
//   char *text = tensor_groups_text(&g); // "3 tensors ('layers.*.a.weight' x 2, 'b')"
//   tensor_groups_release(&g);
#ifndef CORE_MODEL_TENSOR_GROUPS_H
#define CORE_MODEL_TENSOR_GROUPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TENSOR_GROUPS = 6 };

// Tensors grouped by their names with "*" for numbers; those beyond the last group are only
// counted.
struct tensor_groups {
    int64_t tensors, listed;
    int count;
    struct {
        char *pattern;
        int64_t tensors;
    } group[TENSOR_GROUPS];
};

// Adds a tensor by its pattern and takes ownership of the pattern.
void tensor_groups_add(struct tensor_groups *g, char *pattern);
// Returns the number of tensors and their patterns. The caller frees the text.
char *tensor_groups_text(const struct tensor_groups *g);
void tensor_groups_release(struct tensor_groups *g);

// Returns the name with "*" for numbers. `layer`: the name belongs to a layer that is not computed;
// keeps the layer's number and writes one "*" for all levels after it. The caller frees it.
char *tensor_pattern(const char *name, bool layer);
// Returns the length of the first level of a name, without its dot.
size_t name_level(const char *name);
// Returns the first level that is a number; NULL: none.
const char *name_number(const char *name);

#endif
