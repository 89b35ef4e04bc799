// core/methods/phases.c -- finds the phases of layers, and reads them from a calibration.
#include "core/methods/phases.h"

#include <stdlib.h>

#include "core/methods/calibration.h"
#include "core/model/families/family.h"
#include "core/model/model.h"
#include "core/settings/settings.h"

const char *const phase_names[PHASES] = { "early", "transition", "late" };
static const char *const word_none[] = { "none", NULL };

static int check_calibration(struct setting_env *env, struct err *err)
{
    int phase[PHASES];
    bool known;
    return env->model ? phases_calibrated(env->settings, env->model, phase, &known, err) : 0;
}

const struct setting phases_settings[] = {
    { .key = "phases.calibration",
      .type = SETTING_PATH,
      .def = "none",
      .choices = word_none,
      .stale = STALE_SEEN,
      .help = "Calibration file written by /calibrate phases: prune.layer auto uses its "
              "transition layer.",
      .check = check_calibration },
    { 0 },
};

void phases_find(const float *contribution, const float *hellinger, int layers, int phase[PHASES])
{
    int early = 0;
    for (int l = 1; l < layers / 2; l++)
        if (contribution[l] > contribution[early]) early = l;
    int transition = early + 1 < layers - 1 ? early + 1 : early;
    for (int l = transition + 1; l + 1 < layers; l++)
        if (contribution[l] - contribution[l + 1] >
            contribution[transition] - contribution[transition + 1])
            transition = l;
    int late = transition + 1 < layers - 1 ? transition + 1 : transition;
    while (late + 2 < layers && hellinger[late] > hellinger[transition] / 2) late++;
    phase[PHASE_EARLY] = early;
    phase[PHASE_TRANSITION] = transition;
    phase[PHASE_LATE] = late;
}

int phases_calibrated(const struct settings *s, const struct model *m, int phase[PHASES],
                      bool *known, struct err *err)
{
    const int64_t shape = PHASES;
    struct calibration c;
    *known = false;
    if (calibration_of_setting(&c, s, "phases.calibration", m, err) < 0) return -1;
    if (!c.file) return 0;
    float *layers =
        calibration_indices(&c, "phases.layers", 1, &shape, m->decoder.config.layers, "layer", err);
    for (int i = 0; layers && i < PHASES; i++) phase[i] = (int)layers[i];
    *known = layers != NULL;
    free(layers);
    calibration_close(&c);
    return *known ? 0 : -1;
}

int phases_of(const struct settings *s, const struct model *m, int phase[PHASES],
              const char **source, struct err *err)
{
    const struct phase_layers *p = family_phases(m);
    bool known;
    if (phases_calibrated(s, m, phase, &known, err) < 0) return -1;
    *source = known ? settings_text(s, "phases.calibration") : p ? "the paper" : "the depth";
    if (known) return 0;
    for (int i = 0; i < PHASES; i++)
        phase[i] = p ? p->phase[i] : family_phase_by_depth(i, m->decoder.config.layers);
    return 0;
}
