// core/lists.c -- passes each room its registry.
#include "core/lists.h"

#include "core/jobs/job.h"
#include "core/methods/calibration.h"
#include "core/methods/method.h"
#include "core/model/families/family.h"
#include "core/probes/probe.h"

#define X(name) extern const struct calibration_kind calibration_kind_##name;
CALIBRATION_KINDS(X)
#undef X
#define X(name) extern const struct job_kind job_kind_##name;
JOB_KINDS(X)
#undef X

#define X(name) &family_##name,
static const struct family *const families[] = { FAMILIES(X) NULL };
#undef X
#define X(name) &method_##name,
static const struct method *const methods[] = { METHODS(X) NULL };
#undef X
#define X(name) &probe_##name,
static const struct probe *const probes[] = { PROBES(X) NULL };
#undef X
#define X(name) &calibration_kind_##name,
static const struct calibration_kind *const calibrations[] = { CALIBRATION_KINDS(X) NULL };
#undef X
#define X(name) &job_kind_##name,
static const struct job_kind *const jobs[] = { JOB_KINDS(X) NULL };
#undef X

void lists_register_settings(void)
{
    const struct method *m;
    settings_clear();
#define X(name) settings_add(name##_settings);
    SETTINGS_FIRST(X)
    for (int i = 0; (m = method_shown(i)); i++) settings_add(m->settings);
    SETTINGS_LAST(X)
#undef X
}

void lists_register(void)
{
    families_register(families);
    methods_register(methods);
    lists_register_settings();
    probes_register(probes);
    calibration_kinds_register(calibrations);
    job_kinds_register(jobs);
}
