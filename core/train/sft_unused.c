// core/train/sft_unused.c -- names the settings of training that the user has changed, but that
// have no effect in a run.
#include <stdlib.h>

#include "core/model/parts.h"
#include "core/ranks/ranks.h"
#include "core/settings/settings.h"
#include "core/train/sft_parts.h"

// Returns whether a parameter of the group is trained; `decayed`: one that weight decay applies to.
static bool trains(const struct params *p, enum param_group group, bool decayed)
{
    for (size_t i = 0; i < p->count; i++)
        if (p->list[i].group == group && (p->list[i].decay || !decayed)) return true;
    return false;
}

static void add(struct buf *to, const struct settings *s, const char *key, bool used)
{
    if (used || !settings_changed(s, key)) return;
    buf_printf(to, "%s%s", to->length ? ", " : "", key);
}

char *sft_unused(const struct sft *t)
{
    const struct settings *s = t->job->settings;
    const struct params *p = &t->params;
    const bool validates = t->validation.count || t->sets.count;
    const struct method *m;
    struct buf b = { 0 };
    bool decays = false;
    for (int g = GROUP_BACKBONE; g < PARAM_GROUPS; g++) {
        m = g < GROUP_METHODS ? NULL : method_at(g - GROUP_METHODS);
        decays |= (!m || !m->training.decay) && trains(p, (enum param_group)g, true);
    }
    add(&b, s, "train.method", settings_is(s, "train.params", "none"));
    add(&b, s, "train.epochs", settings_is(s, "train.steps", "auto"));
    add(&b, s, "train.lr.projector", trains(p, GROUP_PROJECTOR, false));
    add(&b, s, "train.lr.vision", trains(p, GROUP_VISION, false));
    add(&b, s, "train.weight_decay", decays);
    add(&b, s, "train.lora.rank", p->lora);
    add(&b, s, "train.lora.alpha", p->lora);
    add(&b, s, "train.lora.rs", p->lora);
    add(&b, s, "train.shard", ranks_count(t->job->ranks) > 1);
    add(&b, s, "train.score", validates);
    add(&b, s, "train.eval_every", validates);
    for (int i = 0; (m = method_at(i)); i++) {
        const enum param_group group = GROUP_METHODS + (enum param_group)i;
        if (m->training.rate) add(&b, s, m->training.rate, trains(p, group, false));
        if (m->training.decay) add(&b, s, m->training.decay, trains(p, group, true));
    }
    return b.length ? buf_take(&b) : NULL;
}
