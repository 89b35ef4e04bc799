// core/model/decoder_config.c -- reads the config of a language model, and maps its family's tensor
// names.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/base/text.h"
#include "core/model/layer_inputs.h"

int model_type_check(const char *const *known, const cJSON *json, struct err *err)
{
    const char *type;
    if (json_text(json, "model_type", "", &type, err) < 0) return -1;
    if (!*type || !known || text_listed(known, type)) return 0;
    return err_set(err, "\"model_type\" \"%s\" is not supported (known: %s)", type, known[0]);
}

// Sets embed_scale and score_scale. Reads "query_pre_attn_scalar" only if the kind of decoder lists
// this key.
static int read_scales(struct decoder_config *d, const cJSON *json, struct err *err)
{
    double scalar = (double)d->dim;
    d->embed_scale = d->kind->embed_scaled ? sqrtf((float)d->hidden) : 1;
    if (text_listed(d->kind->keys, "query_pre_attn_scalar") &&
        json_real(json, "query_pre_attn_scalar", scalar, &scalar, err) < 0)
        return -1;
    if (scalar <= 0) return err_set(err, "\"query_pre_attn_scalar\" must be greater than 0");
    d->score_scale = d->kind->scores_unscaled ? 1 : 1 / sqrtf((float)scalar);
    return 0;
}

// Reads "final_logit_softcapping" only if the kind of decoder lists this key.
static int read_cap(struct decoder_config *d, const cJSON *json, struct err *err)
{
    static const char key[] = "final_logit_softcapping";
    if (!text_listed(d->kind->keys, key)) return 0;
    if (json_real(json, key, 0, &d->logit_cap, err) < 0) return -1;
    return d->logit_cap >= 0 ? 0 : err_set(err, "\"%s\" must not be negative", key);
}

int decoder_config_read(struct decoder_config *d, const struct decoder_kind *kind,
                        const cJSON *json, struct err *err)
{
    int64_t layers;
    *d = (struct decoder_config){ .kind = kind };
    if (model_type_check(kind->model_types, json, err) < 0 ||
        json_int(json, "num_hidden_layers", 1, DECODER_LAYERS, 32, &layers, err) < 0 ||
        json_int(json, "hidden_size", 1, 1000000, 4096, &d->hidden, err) < 0 ||
        json_int(json, "vocab_size", 1, 100000000, kind->vocab, &d->vocab, err) < 0 ||
        json_int(json, "max_position_embeddings", 1, 1000000000, kind->max_positions,
                 &d->max_positions, err) < 0 ||
        json_real(json, "rms_norm_eps", kind->eps > 0 ? kind->eps : 1e-6, &d->eps, err) < 0 ||
        json_bool(json, "tie_word_embeddings", kind->tied, &d->tied, err) < 0 ||
        rope_config_read(&d->rope, kind->rotary, json, kind->theta > 0 ? kind->theta : 10000, err) <
            0)
        return -1;
    d->layers = (int)layers;
    if (d->eps < 0 || d->eps > 1) return err_set(err, "\"rms_norm_eps\" must be within 0..1");
    if (kind->attention->read(d, json, err) < 0 || rope_config_check(&d->rope, err) < 0) return -1;
    if (read_scales(d, json, err) < 0 || read_cap(d, json, err) < 0 ||
        layer_inputs_read(d, json, err) < 0)
        return -1;
    // Bounds the memory of small files: whatever an expert's size, binding it takes 1.5 KB.
    // Qwen3.5-397B has 31 thousand.
    enum { EXPERTS_MOST = 1 << 17 };
    if (kind->ffn->read(d, json, err) < 0) return -1;
    if (d->experts.count * layers <= EXPERTS_MOST) return 0;
    return err_set(err, "%lld layers of %lld experts have more than the supported %d experts",
                   (long long)layers, (long long)d->experts.count, EXPERTS_MOST);
}

bool decoder_uses(const struct decoder_config *c, const struct attention_kind *kind)
{
    for (int l = 0; l < c->layers; l++)
        if (decoder_attention(c, l) == kind) return true;
    return false;
}

bool decoder_attends(const struct decoder_config *c, int layer)
{
    return decoder_attention(c, layer)->cached(c, layer).k[0] > 0;
}

int decoder_attending(const struct decoder_config *c, int layer)
{
    for (int away = 0; away < c->layers; away++) {
        if (layer + away < c->layers && decoder_attends(c, layer + away)) return layer + away;
        if (layer - away >= 0 && decoder_attends(c, layer - away)) return layer - away;
    }
    return layer;
}

int decoder_need_attention(const struct decoder_config *c, int layer, const char *what,
                           struct err *err)
{
    struct buf known = { 0 };
    if (decoder_attends(c, layer)) return 0;
    for (int l = 0; l < c->layers; l++)
        if (decoder_attends(c, l)) buf_printf(&known, "%s%d", known.length ? ", " : "", l);
    err_set(err,
            "%s: layer %d has a recurrence in place of attention; the layers with attention are "
            "%.300s",
            what, layer, known.data ? known.data : "none");
    buf_release(&known);
    return -1;
}

struct attention_traits decoder_traits(const struct decoder_config *c)
{
    struct attention_traits all = { true, true, true, true };
    for (int l = 0; l < c->layers; l++) {
        const struct attention_traits one = decoder_attention(c, l)->traits;
        all.segments &= one.segments;
        all.head_norms &= one.head_norms;
        all.interleaved &= one.interleaved;
        all.gates &= one.gates;
    }
    return all;
}

const char *layer_weight_name(const struct decoder_kind *kind, const struct layer_weight *w,
                              char name[LAYER_NAME_SIZE])
{
    const char *theirs = decoder_name(kind, w->name), *at = strstr(theirs, "%d");
    if (!at) return theirs;
    snprintf(name, LAYER_NAME_SIZE, "%.*s%d%s", (int)(at - theirs), theirs, w->expert, at + 2);
    return name;
}

const char *decoder_name(const struct decoder_kind *kind, const char *ours)
{
    const struct tensor_name *n = kind->names;
    for (; n && n->ours; n++)
        if (!strcmp(n->ours, ours)) return n->theirs;
    return ours;
}

// Finds `levels`, one or more whole levels, in a name: "attention.wq" in
// "layers.3.attention.wq.weight".
static const char *find_levels(const char *name, const char *levels)
{
    const size_t n = strlen(levels);
    for (const char *at = name; (at = strstr(at, levels)); at++)
        if ((at == name || at[-1] == '.') && (at[n] == '.' || !at[n])) return at;
    return NULL;
}

char *decoder_common_name(const struct decoder_kind *kind, const char *name)
{
    char *common = xstrdup(name);
    for (const struct tensor_name *n = kind->names; n && n->ours; n++) {
        const char *at = find_levels(common, n->theirs);
        if (!at) continue;
        char *next =
            xasprintf("%.*s%s%s", (int)(at - common), common, n->ours, at + strlen(n->theirs));
        free(common);
        common = next;
    }
    return common;
}
