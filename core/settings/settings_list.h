// core/settings/settings_list.h -- whose settings there are, in the order in which they are shown.
//
// X(name): an array `const struct setting name_settings[]` that ends with a row without a key, in
// the file of whatever obeys them.
#ifndef CORE_SETTINGS_SETTINGS_LIST_H
#define CORE_SETTINGS_SETTINGS_LIST_H

#include "core/settings/settings.h"

// clang-format off
#define SETTING_LISTS(X)                                                                           \
    X(sample)  /* core/model/sampler.c */                                                                \
    X(chat)    /* core/text/layouts.c */                                                                \
    X(ctx)     /* core/talk/conversation.c */                                                           \
    X(image)   /* core/picture/preprocess.c */                                                             \
    X(compute) /* core/graph/graph.c */                                                                  \
    X(kv)      /* core/model/kv.c */                                                                     \
    X(adapter) /* core/adapter/adapters.c */                                                               \
    X(train)   /* core/train/settings.c */                                                         \
    X(norm)    /* core/methods/norm_align.c */                                                     \
    X(ffn)     /* core/methods/ffn_approx.c */                                                     \
    X(prune)   /* core/methods/prune.c */                                                          \
    X(ira)     /* core/methods/ira.c */                                                            \
    X(sinks)   /* core/probes/sinks.c */                                                           \
    X(norms)   /* core/probes/norms.c */                                                           \
    X(job)     /* core/train/job.c */                                                                    \
    X(screen)  /* core/settings/screen_settings.c */
// clang-format on

#define X(name) extern const struct setting name##_settings[];
SETTING_LISTS(X)
#undef X

#endif
