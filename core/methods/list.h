// core/methods/list.h -- the methods, in the order in which they act at a site.
//
// X(NAME): core/methods/NAME.c defines `const struct method method_NAME`.
#ifndef CORE_METHODS_LIST_H
#define CORE_METHODS_LIST_H

#include "core/methods/method.h"

// clang-format off
#define METHODS(X)                                                                                 \
    X(norm_align)                                                                                  \
    X(ira) /* before pruning, which scores with the values that it changes */                      \
    X(prune)                                                                                       \
    X(ffn_approx)
// clang-format on

#define X(name) extern const struct method method_##name;
METHODS(X)
#undef X

#endif
