// core/methods/calibrations_list.h -- the kinds of calibrations. X(NAME): the file of its subject
// defines `const struct calibration_kind calibration_kind_NAME`.
#ifndef CORE_METHODS_CALIBRATIONS_LIST_H
#define CORE_METHODS_CALIBRATIONS_LIST_H

// clang-format off
#define CALIBRATION_KINDS(X)                                                                       \
    X(ffn)   /* core/probes/calibration_ffn.c */                                                          \
    X(norms) /* core/probes/calibration_norms.c */                                                        \
    X(sinks) /* core/probes/calibration_sinks.c */
// clang-format on

#endif
