// core/engine/proposal.c -- checks settings: their values, the adapter they name, and the methods
// that use them.
#include "core/engine/proposal.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/probes/norms.h"
#include "core/probes/sinks.h"

bool changes_name(const struct change *list, size_t count, const char *key)
{
    for (size_t i = 0; i < count; i++)
        if (!strcmp(list[i].key, key)) return true;
    return false;
}

static int set_fault(struct proposal *p, const struct setting *rows, int count)
{
    p->fault = rows;
    p->fault_count = rows ? count : 0;
    return -1;
}

static int set_values(struct proposal *p, const struct change *list, size_t count, struct err *err)
{
    for (size_t i = 0; i < count; i++)
        if (settings_set(p->settings, list[i].key, list[i].value, err) < 0)
            return set_fault(p, settings_find(list[i].key), 1);
    return 0;
}

// --- values that only the core can check ---------------------------------------------------------

static int check_template(const struct proposal *p, struct err *err)
{
    const char *name = settings_text(p->settings, "chat.template");
    struct buf b = { 0 };
    if (!strcmp(name, "auto") || layout_find(name)) return 0;
    for (int i = 0; layout_name(i); i++) buf_printf(&b, ", %s", layout_name(i));
    err_set(err, "no chat template '%s': use auto%s", name, b.data ? b.data : "");
    buf_release(&b);
    return -1;
}

static int check_sinks(const struct proposal *p, struct err *err)
{
    float *dims = NULL;
    const int status = p->model ? sinks_calibrated(p->settings, p->model, &dims, err) : 0;
    free(dims);
    return status;
}

static int check_norms(const struct proposal *p, struct err *err)
{
    float *norms = NULL;
    const int status = p->model ? norms_calibrated(p->settings, p->model, &norms, err) : 0;
    free(norms);
    return status;
}

// Can the model read a small picture for so many visual tokens?
static int check_max_tokens(const struct proposal *p, struct err *err)
{
    const int64_t most = preprocess_limit(p->settings).most;
    struct picture alone = { 0 }, beside = { 0 };
    if (!most || !p->model || !model_sees(p->model)) return 0;
    model_place_picture(p->model, &alone, 1, 1, 1, (struct picture_limit){ most, 1 });
    model_place_picture(p->model, &beside, 1, 1, 2, (struct picture_limit){ most, 1 });
    const int64_t least = alone.tokens < beside.tokens ? alone.tokens : beside.tokens;
    if (least <= most) return 0;
    return err_set(err,
                   "image.max_tokens: a picture costs at least %lld visual tokens with this model",
                   (long long)least);
}

static const struct {
    const char *key;
    int (*check)(const struct proposal *p, struct err *err);
} checks[] = {
    { "chat.template", check_template },
    { "image.max_tokens", check_max_tokens },
    { "sinks.calibration", check_sinks },
    { "norms.calibration", check_norms },
};

static int check_values(struct proposal *p, const struct change *list, size_t count,
                        struct err *err)
{
    for (size_t i = 0; i < sizeof checks / sizeof *checks; i++)
        if ((p->loaded || changes_name(list, count, checks[i].key)) && checks[i].check(p, err) < 0)
            return set_fault(p, settings_find(checks[i].key), 1);
    return 0;
}

// --- the adapter and the methods -----------------------------------------------------------------

static int find_adapter(struct proposal *p, struct err *err)
{
    const char *name = settings_text(p->settings, "adapter");
    const bool anew = p->anew;
    p->anew = false;
    p->adapter = NULL;
    if (!strcmp(name, "none")) return 0;
    if (!p->model || !p->adapters) return adapter_need(name, err);
    p->adapter = adapters_open(p->adapters, name, anew, p->model, err);
    if (!p->adapter) return -1;
    settings_set(p->settings, "adapter", p->adapter->folder, NULL); // it may have been a name
    return 0;
}

static int check_method(const struct proposal *p, const struct method *m, bool agree,
                        struct err *err)
{
    const struct method_env env = { .model = p->model,
                                    .backend = p->backend,
                                    .settings = p->settings,
                                    .tensors = adapter_tensors(p->adapter),
                                    .training = p->training };
    if (!p->model) return methods_possible(m, p->settings, err);
    if (methods_check(m, &env, err) < 0) return -1;
    return agree && methods_inconsistent(m, &env, err) ? -1 : 0;
}

static int row_count(const struct setting *rows)
{
    int n = 0;
    while (rows[n].key) n++;
    return n;
}

static bool names_method(const struct change *list, size_t count, const struct method *m)
{
    for (size_t i = 0; i < count; i++)
        if (method_of(list[i].key) == m) return true;
    return false;
}

// Checks the methods whose settings are named, and with another adapter all of them, because they
// may lack their parameters.
static int check_methods(struct proposal *p, const struct change *list, size_t count, bool others,
                         struct err *err)
{
    const struct method *m;
    for (int i = 0; (m = method_at(i)); i++) {
        const bool named = p->all || names_method(list, count, m);
        if ((named || others) && check_method(p, m, named && !p->single, err) < 0)
            return set_fault(p, m->settings, row_count(m->settings));
    }
    return 0;
}

int proposal_check(struct proposal *p, const struct change *list, size_t count, struct err *err)
{
    const bool adapter = p->all || changes_name(list, count, "adapter");
    proposal_release(p);
    p->settings = settings_copy(p->from);
    p->adapter = p->adapters ? p->adapters->active : NULL;
    int status = set_values(p, list, count, err);
    if (status == 0) status = check_values(p, list, count, err);
    if (status == 0 && adapter && find_adapter(p, err) < 0)
        status = set_fault(p, settings_find("adapter"), 1);
    if (status == 0) status = check_methods(p, list, count, adapter, err);
    if (status < 0) proposal_release(p);
    return status;
}

void proposal_release(struct proposal *p)
{
    settings_free(p->settings);
    p->settings = NULL;
    p->adapter = NULL;
}
