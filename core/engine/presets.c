// core/engine/presets.c -- the papers' recipes as sets of settings.
#include "core/engine/presets.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/base/names.h"
#include "core/methods/method.h"
#include "core/methods/phases.h"
#include "core/model/families/family.h"
#include "core/settings/changes.h"
#include "core/settings/settings.h"

#define ONE_EPOCH                                                                                \
    " train.params=none train.epochs=1 train.steps=auto train.schedule=cosine train.warmup=0.03" \
    " train.beta2=0.999 train.clip=1 train.shuffle=on train.seed=42"

static const struct preset presets[] = {
    { "baseline", "", "every method off" },
    { "capa",
      "prune.score=contribution prune.layer={late} prune.keep=0.25 prune.mode=prefill "
      "ffn.approx=hadamard ffn.layers={ffn} ffn.eta=0.96",
      "CAPA: prunes by contribution at the late layer, approximates FFNs by Hadamard products "
      "(needs a calibration)" },
    { "capa-auto",
      "prune.score=contribution prune.layer=auto prune.keep=0.25 prune.mode=prefill "
      "ffn.approx=hadamard ffn.layers=auto ffn.eta=0.96",
      "CAPA with pruning at the transition layer, and FFNs selected by the calibration" },
    { "capa-prune",
      "prune.score=contribution prune.layer={late} prune.keep=0.25 prune.mode=prefill",
      "CAPA's pruning only, at the late layer" },
    { "capa-transition",
      "prune.score=contribution prune.layer={transition} prune.keep=0.25 prune.mode=prefill",
      "CAPA's pruning at the transition layer, where the choice of tokens matters most" },
    { "capa-stages",
      "prune.score=contribution prune.layer={early},{transition},{late} prune.keep=0.5,0.25,0.1 "
      "prune.mode=prefill",
      "CAPA's pruning in three stages" },
    { "capa-dynamic",
      "prune.score=contribution prune.layer={transition} prune.keep=0.25 prune.mode=dynamic",
      "CAPA's dynamic pruning: every generated token selects its own visual tokens" },
    { "fastv", "prune.score=attention prune.layer=2 prune.keep=0.5 prune.mode=prefill",
      "FastV: keeps half of the tokens by attention, after layer 2" },
    { "divprune", "prune.score=diversity prune.layer=input prune.keep=0.25 prune.mode=prefill",
      "DivPrune: prunes for diversity, before the first layer" },
    { "feather", "prune.score=norope prune.layer={transition} prune.keep=0.25 prune.mode=prefill",
      "Feather's score (attention without rotary positions), without its ensemble" },
    { "uniform", "prune.score=uniform prune.layer={transition} prune.keep=0.25 prune.mode=prefill",
      "baseline: keeps every fourth token" },
    { "norm-alignment", "norm.align=on norm.init=text",
      "norm alignment: scales visual tokens to the norm of text embeddings" },
    { "norm-alignment-1",
      "norm.align=on norm.init=text train.method=connector train.ira=off train.lr=0.001 "
      "train.lr.projector=auto train.weight_decay=0 train.batch=2 train.accumulate=2" ONE_EPOCH,
      "norm alignment training, stage 1: projector and norm" },
    { "norm-alignment-2",
      "norm.align=on norm.init=text train.method=all train.ira=off train.lr=1e-05 "
      "train.lr.projector=auto train.lr.vision=2e-06 train.weight_decay=0 train.batch=1 "
      "train.accumulate=4" ONE_EPOCH,
      "norm alignment training, stage 2: all weights" },
    { "layernorm-1",
      "train.method=connector train.ira=off train.lr=0.002 train.lr.projector=auto "
      "train.weight_decay=0" ONE_EPOCH " train.epochs=3",
      "LayerNorm tuning, stage 1: projector" },
    { "layernorm-2",
      "train.method=layernorm train.ira=off train.lr=auto train.lr.projector=auto "
      "train.weight_decay=0" ONE_EPOCH,
      "LayerNorm tuning, stage 2: norms, projector, embedding and head" },
    { "layernorm-simple",
      "train.method=layernorm-simple train.ira=off train.lr=auto train.weight_decay=0" ONE_EPOCH,
      "LayerNorm tuning, stage 2 with norms only" },
    { "ira", "ira.on=on ira.layers=60%-80% ira.sample=off ira.gate=on",
      "IRA (information-regularized attention) with the adapter's parameters" },
    { "ira-train",
      "ira.layers=60%-80% ira.gate=on ira.prior=local ira.beta=0.0001 ira.warmup=0.5 "
      "train.ira=on train.method=all train.lr=1e-05 train.lr.projector=auto train.lr.vision=auto "
      "train.lr.ira=0.0001 train.weight_decay=0.05 train.weight_decay.ira=0.01" ONE_EPOCH,
      "IRA training, as of InternVL" },
    { "ira-train-onevision",
      "ira.layers=60%-80% ira.gate=on ira.prior=local ira.beta=0.0001 ira.warmup=0.5 "
      "train.ira=on train.method=all train.lr=1e-05 train.lr.projector=auto train.lr.vision=2e-06 "
      "train.lr.ira=0.0001 train.weight_decay=0 train.weight_decay.ira=0" ONE_EPOCH,
      "IRA training, as of LLaVA-OneVision" },
};

enum { PRESETS = sizeof presets / sizeof *presets };

const struct preset *preset_at(int index)
{
    return index >= 0 && index < PRESETS ? &presets[index] : NULL;
}

const struct preset *preset_find(const char *name)
{
    for (int i = 0; i < PRESETS; i++)
        if (!strcmp(presets[i].name, name)) return &presets[i];
    return NULL;
}

// --- values --------------------------------------------------------------------------------------

void preset_values_release(struct preset_values *v)
{
    changes_free(v->list, v->count);
    *v = (struct preset_values){ 0 };
}

// Returns the index of a key, or v->count if it is not found.
static size_t find(const struct preset_values *v, const char *key)
{
    size_t i = 0;
    while (i < v->count && strcmp(v->list[i].key, key) != 0) i++;
    return i;
}

bool preset_says(const struct preset_values *v, const char *key)
{
    return find(v, key) < v->count;
}

void preset_add(struct preset_values *v, const char *key, const char *value)
{
    const size_t i = find(v, key);
    if (i == v->count) {
        v->list = xreallocarray(v->list, v->count + 1, sizeof *v->list);
        v->list[v->count++] = (struct change){ .key = xstrdup(key) };
    }
    free((char *)(uintptr_t)v->list[i].value);
    v->list[i].value = xstrdup(value);
}

// Returns the layer of phase 0, 1 or 2 (early, transition, late) for a model whose phases are
// unknown. Never returns the last of several layers, because pruning after it saves nothing.
static int by_depth(int phase, int depth)
{
    const int layer = family_phase_by_depth(phase, depth);
    return layer <= depth - 2 ? layer : depth > 2 ? depth - 2 : 0;
}

static bool is_word(const char *word, size_t length, const char *name)
{
    return strlen(name) == length && !memcmp(word, name, length);
}

// Appends the value of a placeholder for model m. Returns 1 if the placeholder is unknown.
static int add_word(struct buf *b, const char *word, size_t length, const struct model *m,
                    struct preset_values *v, struct err *err)
{
    const struct phase_layers *p = family_phases(m);
    int i = 0, calibrated[PHASES];
    bool known = false;
    if (is_word(word, length, "ffn")) {
        buf_puts(b, p && p->ffn_layers ? p->ffn_layers : "auto");
        return 0;
    }
    while (i < PHASES && !is_word(word, length, phase_names[i])) i++;
    if (i == PHASES) return 1;
    if (v->settings && phases_calibrated(v->settings, m, calibrated, &known, err) < 0) return -1;
    v->guessed |= !known && !p;
    buf_printf(b, "%d",
               known ? calibrated[i]
               : p   ? p->phase[i]
                     : by_depth(i, m->decoder.config.layers));
    return 0;
}

static int add_value(struct preset_values *v, const char *key, const char *value,
                     const struct model *m, struct err *err)
{
    struct buf b = { 0 };
    int status = 0;
    for (const char *p = value; *p && status == 0;) {
        const char *end = *p == '{' ? strchr(p, '}') : NULL;
        if (!end) {
            buf_putc(&b, *p++);
            continue;
        }
        if (!m)
            status = err_set(err, "%s=%s depends on the model: /load MODEL first", key, value);
        else if ((status = add_word(&b, p + 1, (size_t)(end - p) - 1, m, v, err)) == 1)
            status = err_set(err, "%s=%s: use {early}, {transition}, {late} or {ffn}", key, value);
        p = end + 1;
    }
    if (status == 0) preset_add(v, key, b.data ? b.data : "");
    buf_release(&b);
    return status;
}

// Splits a word at its first "="; without "=", *value is NULL.
static char *split_word(const char *word, const char **value)
{
    const size_t length = strcspn(word, "=");
    *value = word[length] ? word + length + 1 : NULL;
    return xstrndup(word, length);
}

int preset_add_word(struct preset_values *v, const char *word, struct err *err)
{
    const char *value;
    char *key = split_word(word, &value);
    if (value) preset_add(v, key, value);
    free(key);
    return value ? 0 : err_set(err, "'%s' is not KEY=VALUE", word);
}

int preset_read_text(struct preset_values *v, const char *text, const struct model *m,
                     struct err *err)
{
    char *copy = xstrdup(text), *rest = NULL;
    int status = 0;
    for (char *word = strtok_r(copy, " ", &rest); word && status == 0;
         word = strtok_r(NULL, " ", &rest)) {
        const char *value;
        char *key = split_word(word, &value);
        status =
            value ? add_value(v, key, value, m, err) : err_set(err, "'%s' is not KEY=VALUE", word);
        free(key);
    }
    free(copy);
    return status;
}

// Lists the keys that recipes set, and the key of each method's switch.
static void recipe_keys(struct names *keys)
{
    const struct method *m;
    for (int i = 0; (m = method_shown(i)); i++) names_add(keys, m->toggle.key, NULL);
    for (int i = 0; i < PRESETS; i++)
        for (const char *word = presets[i].set; *word; word += strspn(word, " ")) {
            char *key = xstrndup(word, strcspn(word, "="));
            names_add(keys, key, NULL);
            free(key);
            word += strcspn(word, " ");
        }
}

static bool is_of_training(const char *key)
{
    const struct setting *row = settings_find(key);
    return row && row->stale == STALE_TRAINING;
}

int preset_read(struct preset_values *v, const struct preset *p, const struct model *m,
                struct err *err)
{
    struct names keys = { 0 };
    bool training = false;
    if (preset_read_text(v, p->set, m, err) < 0) return -1;
    for (size_t i = 0; i < v->count; i++) training |= is_of_training(v->list[i].key);
    recipe_keys(&keys);
    for (size_t i = 0; i < keys.count; i++) {
        const struct setting *row = settings_find(keys.list[i]);
        if (row && (training || !is_of_training(row->key)) && !preset_says(v, row->key))
            preset_add(v, row->key, row->def);
    }
    names_release(&keys);
    return 0;
}

bool preset_sets(const char *key)
{
    struct names keys = { 0 };
    size_t number;
    recipe_keys(&keys);
    const bool found = names_find(&keys, key, &number);
    names_release(&keys);
    return found;
}

void preset_off(struct preset_values *v)
{
    const struct method *m;
    for (int i = 0; (m = method_shown(i)); i++) preset_add(v, m->toggle.key, m->toggle.off);
}

// --- adapters and calibrations in a model's folder -----------------------------------------------

// Training recipes start from fresh parameters, never from the adapter in the model's folder.
void preset_fit(struct preset_values *v, const struct model *m, const struct settings *s,
                bool recipe)
{
    const struct method *method;
    bool training = false; // a value differs from the default of its train.* setting
    for (size_t i = 0; i < v->count; i++) {
        const struct setting *row = settings_find(v->list[i].key);
        training |= row && setting_in(row, "train") && strcmp(v->list[i].value, row->def) != 0;
    }
    for (int pass = 0; pass < 2; pass++) // pass 0: methods that need their file; 1: others
        for (int i = 0; m && (method = method_shown(i)); i++) {
            const struct method_fit *fit = &method->fit;
            const size_t at = find(v, method->toggle.key);
            const bool on = at < v->count && strcmp(v->list[at].value, method->toggle.off) != 0;
            const bool needed = on && !training;
            if (needed == (pass == 1) || !fit->key || preset_says(v, fit->key)) continue;
            // An absolute path, because sessions may be resumed in another folder; NULL: the
            // model's folder has no such file.
            char *file = xasprintf("%s/%s", m->name, fit->path), *path = realpath(file, NULL);
            free(file);
            const bool used = path && settings_is(s, fit->key, path);
            if (path && needed && (used || !settings_changed(s, fit->key)))
                preset_add(v, fit->key, path);
            else if (used && !needed && (recipe || training))
                preset_add(v, fit->key, settings_find(fit->key)->def);
            free(path);
        }
}
