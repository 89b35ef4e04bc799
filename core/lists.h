// core/lists.h -- the registries: one line per item, in the order in which items are shown or act.
//
//   lists_register();   // first in main: rooms reach the items only through the pointers that this
//   call passes to them
//
// A new item is a file in its room and one line here. Rooms below do not name the items, so no
// dependency runs from a table back to the files it lists. (Metrics and training methods have lists
// in their own rooms, because settings spell out their names.)
#ifndef CORE_LISTS_H
#define CORE_LISTS_H

#include "core/settings/settings.h"

// clang-format off

// `const struct setting NAME_settings[]`, ended by a row without a key, in the file of core/ that
// uses the settings. Methods and commands name their own settings: those of methods are registered
// between the two lists, those of commands at the end.
#define SETTINGS_FIRST(X)                                                                          \
    X(sample)  /* core/model/sampler.c */                                                          \
    X(lookahead) /* core/talk/lookahead.c */                                                       \
    X(chat)    /* core/model/prompt.c */                                                            \
    X(data)    /* core/template/layouts.c */                                                           \
    X(ctx)     /* core/talk/conversation.c */                                                      \
    X(image)   /* core/talk/conversation.c */                                                     \
    X(compute) /* core/model/model.c */                                                            \
    X(kv)      /* core/model/kv.c */                                                               \
    X(weights) /* core/model/converted.c */                                                            \
    X(adapter) /* core/adapter/adapters.c */                                                       \
    X(train)   /* core/train/settings.c */
#define SETTINGS_LAST(X)                                                                           \
    X(sinks)  /* core/methods/sinks.c */                                                           \
    X(phases) /* core/methods/phases.c */                                                          \
    X(lens)   /* core/probes/calibration_lens.c */                                                \
    X(norms)  /* core/probes/norms.c */                                                            \
    X(why)    /* core/probes/share.c */                                                            \
    X(dice)   /* core/probes/dice.c */                                                             \
    X(eval)   /* core/eval/evaluate_batch.c */                                                    \
    X(first)  /* core/eval/evaluate_first.c */                                                    \
    X(job)    /* core/jobs/job.c */                                                               \
    X(plot)   /* core/draw/figure.c */                                                             \
    X(screen) /* core/settings/screen_settings.c */

// core/model/families/NAME.c: `const struct family family_NAME`.
#define FAMILIES(X)                                                                                 \
    X(llava) X(llava_onevision) X(llava_next) X(llama) X(mistral) X(qwen2) X(qwen3) X(qwen3_moe)    \
    X(qwen2_vl) X(qwen2_5_vl) X(qwen3_vl) X(glm4v) X(glm4) X(glm4_moe) X(deepseek_v3) X(internlm2)  \
    X(internvl) X(internvl_chat) X(kimi_vl) X(smolvlm) X(gemma3) X(gemma3_text)                     \
    X(gemma4) X(gemma4_text) X(gemma4_unified) X(gemma4_unified_text) X(mistral3) X(ministral3)     \
    X(qwen3_5) X(qwen3_5_text) X(qwen3_5_moe_text) X(minicpmv4_6)

// core/methods/NAME.c: `const struct method method_NAME`, in the order in which methods act at a
// site.
#define METHODS(X)                                                                                 \
    X(norm_align)                                                                                  \
    X(steer) /* before pruning, which drops rows */                                                \
    X(hide) /* before pruning, which chooses among the visible tokens */                           \
    X(ira) /* before pruning, which scores with the values that IRA changes */                     \
    X(prune)                                                                                       \
    X(ffn_approx)

// core/probes/NAME.c, core/interventions/NAME.c: `const struct probe probe_NAME`; commands/probe.c
// turns it into a command.
#define PROBES(X)                                                                                  \
    X(norms) X(redundancy) X(similarity) X(attention) X(contribution) X(stream) X(sinks)           \
    X(recurrence) X(curvature) X(sink_ratio) X(kl) X(pruned) X(dice) X(flops)                      \
    X(lens) X(why) X(consistency) X(knockout) X(ablate) X(patch) X(attribute) X(faithful)

// core/probes/calibration_NAME.c: `const struct calibration_kind calibration_kind_NAME`.
#define CALIBRATION_KINDS(X) X(ffn) X(norms) X(sinks) X(phases) X(lens)

// `const struct job_kind job_kind_NAME` in the file of its subject.
#define JOB_KINDS(X)                                                                               \
    X(train)     /* core/train/sft.c */                                                            \
    X(sweep)     /* core/train/sweep.c */                                                          \
    X(evaluate)  /* core/eval/evaluate_job.c */                                                   \
    X(scores)    /* core/eval/score_job.c */                                                      \
    X(calibrate) /* core/eval/calibrate.c */                                                      \
    X(ask)       /* core/eval/ask_job.c */                                                        \
    X(compare)   /* core/eval/compare_job.c */                                                     \
    X(checkup)   /* core/checkup/checkup.c */

// clang-format on

#define X(name) extern const struct setting name##_settings[];
SETTINGS_FIRST(X)
SETTINGS_LAST(X)
#undef X
#define X(name) extern const struct family family_##name;
FAMILIES(X)
#undef X
#define X(name) extern const struct method method_##name;
METHODS(X)
#undef X
#define X(name) extern const struct probe probe_##name;
PROBES(X)
#undef X

void lists_register(void);
// Registers only settings, without those of commands (commands_register adds them).
void lists_register_settings(void);

#endif
