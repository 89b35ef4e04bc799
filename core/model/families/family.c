// core/model/families/family.c -- the list of families; finds the family of a config.json.
#include "core/model/families/family.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/base/text.h"
#include "core/files/gguf_parts.h"
#include "core/model/bind.h"

static const struct family *const *families; // NULL-terminated

// Returns the index-th encoder of GGUF files among those of families; NULL past the end.
static const struct gguf_encoder *encoder_at(int index)
{
    for (int i = 0; families[i]; i++)
        if (families[i]->mmproj && families[i]->mmproj->read && index-- == 0)
            return families[i]->mmproj->read;
    return NULL;
}

void families_register(const struct family *const *all)
{
    families = all;
    gguf_encoders_register(encoder_at);
}

const struct family *family_named(const char *name)
{
    for (int i = 0; families[i]; i++)
        if (!strcmp(families[i]->name, name)) return families[i];
    return NULL;
}

const struct family_shape *family_shape_at(int index)
{
    for (int i = 0; families[i]; i++)
        for (const struct family_shape *s = families[i]->shapes; s && s->name; s++)
            if (index-- == 0) return s;
    return NULL;
}

static const char *first_architecture(const cJSON *config)
{
    const cJSON *first = cJSON_GetArrayItem(json_get(config, "architectures"), 0);
    return first && cJSON_IsString(first) ? first->valuestring : NULL;
}

const struct decoder_kind *family_decoder(const cJSON *config, struct err *err)
{
    const char *type, *architecture = first_architecture(config);
    const struct decoder_kind *plain = NULL;
    struct buf known = { 0 };
    if (json_text(config, "model_type", NULL, &type, err) < 0) return NULL;
    for (int i = 0; families[i]; i++) {
        const struct family *f = families[i];
        if (!f->decoder) continue;
        if (type ? text_listed(f->model_types, type)
                 : text_listed(f->architectures, architecture)) {
            buf_release(&known);
            return f->decoder;
        }
        if (!plain) plain = f->decoder;
        buf_printf(&known, "%s%s", known.length ? ", " : "", f->model_types[0]);
    }
    if (type) err_set(err, "language model \"%s\" is not supported (known: %s)", type, known.data);
    buf_release(&known);
    return type ? NULL : plain;
}

bool family_sparse(const cJSON *config)
{
    const cJSON *type = json_get(json_get(config, "text_config"), "model_type");
    if (!type) type = json_get(config, "model_type");
    const char *name = cJSON_IsString(type) ? type->valuestring : first_architecture(config);
    return name && (strstr(name, "moe") || strstr(name, "Moe"));
}

const struct family *family_find(const cJSON *config, struct err *err)
{
    const char *type = NULL, *architecture = first_architecture(config);
    if (json_text(config, "model_type", NULL, &type, err) < 0) {
        err_in(err, "config.json");
        return NULL;
    }
    for (int i = 0; families[i]; i++)
        if (architecture ? text_listed(families[i]->architectures, architecture)
                         : text_listed(families[i]->model_types, type))
            return families[i];
    for (int i = 0; families[i]; i++)
        if (text_listed(families[i]->relatives, architecture)) {
            err_set(err, "config.json: architecture %s is not supported; its relative %s is",
                    architecture, families[i]->architectures[0]);
            return NULL;
        }
    struct buf known = { 0 };
    for (int i = 0; families[i]; i++)
        for (const char *const *a = families[i]->architectures; *a; a++)
            buf_printf(&known, "%s%s", known.length ? ", " : "", *a);
    const char *what = architecture ? architecture : type;
    if (what)
        err_set(err, "config.json: architecture %s is not supported (known: %s)", what, known.data);
    else
        err_set(err, "config.json has neither \"architectures\" nor \"model_type\"");
    buf_release(&known);
    return NULL;
}

int family_text_read(struct model *m, const struct decoder_kind *kind, const cJSON *config,
                     struct err *err)
{
    const cJSON *text;
    bool tied;
    if (json_object(config, "text_config", &text, err) < 0) return -1;
    if (!kind) kind = family_decoder(text, err);
    if (!kind || decoder_config_read(&m->decoder.config, kind, text, err) < 0)
        return err_in(err, "text_config");
    if (json_bool(config, "tie_word_embeddings", false, &tied, err) < 0) return -1;
    m->decoder.config.tied |= tied;
    return 0;
}

int family_placeholder_read(struct model *m, const cJSON *config, const char *key,
                            const char *other, int64_t otherwise, struct err *err)
{
    int64_t id;
    if (json_int(config, json_get(config, key) ? key : other, 0, INT32_MAX, otherwise, &id, err) <
        0)
        return -1;
    m->placeholder = (int32_t)id;
    return 0;
}

int family_bind(struct model *m, const struct checkpoint *c, const struct family_prefixes *p,
                struct err *err)
{
    const struct vision_config *v = &m->vision.config;
    struct binder b = {
        .checkpoint = c, .arena = &m->arena, .weights = &m->weights, .prefix = p->text, .err = err
    };
    if (decoder_bind(&m->decoder, &b, p->head) < 0) return -1;
    b.shapes_only = !decoder_first(&m->decoder);
    b.prefix = p->vision;
    if (vision_bind(&m->vision, &b) < 0) return -1;
    b.prefix = p->projector;
    return projector_bind(&m->projector, &b, vision_feature_width(v), m->decoder.config.hidden);
}

const struct phase_layers *family_phases(const struct model *m)
{
    const struct decoder_config *c = &m->decoder.config;
    for (const struct phase_layers *p = m->family->phases; p && p->layers; p++)
        if (p->layers == c->layers && p->hidden == c->hidden && p->ffn == c->ffn) return p;
    return NULL;
}

int family_phase_by_depth(int phase, int layers)
{
    return (int)rint((2 * phase + 1) / 8.0 * layers);
}

char *family_module_name(const struct family *f, const struct weight *w)
{
    char *plain = weight_plain_name(w->name), *dot = strrchr(plain, '.');
    if (dot) *dot = 0;
    const char *prefix = f->module_prefix[w->part], *rest = plain, *module = "";
    for (const struct module_name *m = f->modules; m && m->file; m++) {
        const size_t n = strlen(m->file);
        if (strncmp(plain, m->file, n) != 0 || (plain[n] && plain[n] != '.')) continue;
        module = m->module, rest = plain + n;
        break;
    }
    char *name = xasprintf("%s%s%s", prefix ? prefix : "", module, rest);
    free(plain);
    return name;
}
