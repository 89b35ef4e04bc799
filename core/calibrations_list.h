// core/calibrations_list.h -- the kinds of calibrations. X(NAME): the file of its subject defines
// `const struct calibration_kind calibration_kind_NAME`.
#ifndef CORE_CALIBRATIONS_LIST_H
#define CORE_CALIBRATIONS_LIST_H

// clang-format off
#define CALIBRATION_KINDS(X)                                                                       \
    X(ffn)   /* core/calibration_ffn.c */                                                          \
    X(norms) /* core/calibration_norms.c */                                                        \
    X(sinks) /* core/calibration_sinks.c */
// clang-format on

#endif
