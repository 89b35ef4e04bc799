// core/new/shape_list.c -- the tensors of a config: those that the family asks for when it binds a
// model; a shape's config with fewer layers.
#include <string.h>

#include "core/base/json.h"

#include "core/model/families/family.h"
#include "core/new/shapes.h"

struct asker {
    struct model *model;
    double spread;
    void (*each)(void *self, const struct shape_tensor *t);
    void *self;
};

static void asked(void *self, const char *name, int rank, const int64_t *shape)
{
    const struct asker *a = self;
    struct shape_tensor t = { .part = a->model->family->part(a->model, name),
                              .spread = a->spread,
                              .rank = rank };
    if (rank > WEIGHT_MAX_RANK || strlen(name) >= sizeof t.name) BUG("tensor %s", name);
    memcpy(t.name, name, strlen(name) + 1);
    memcpy(t.size, shape, (size_t)rank * sizeof *shape);
    const bool norm = strstr(name, "norm") || strstr(name, "ln_");
    t.ones = rank == 1 && norm && strstr(name, ".weight");
    a->each(a->self, &t);
}

int config_tensors(const char *name, cJSON *config, cJSON *preprocessor, double spread,
                   void (*each)(void *self, const struct shape_tensor *t), void *self,
                   struct err *err)
{
    struct model m = { .name = (char *)(uintptr_t)name };
    struct asker asker = { &m, spread, each, self };
    struct checkpoint c = { .folder = m.name,
                            .config = config,
                            .preprocessor = preprocessor,
                            .asked = asked,
                            .asker = &asker };
    m.checkpoint = &c;
    m.arena.backend = backend_cpu();
    const bool bound = (m.family = family_find(config, err)) &&
                       m.family->configure(&m, &c, err) == 0 && m.family->bind(&m, &c, err) == 0;
    decoder_release(&m.decoder);
    vision_release(&m.vision);
    weights_release(&m.weights);
    arena_release(&m.arena);
    return bound ? 0 : -1;
}

void shape_tensors_bound(const struct shape *s,
                         void (*each)(void *self, const struct shape_tensor *t), void *self)
{
    struct err err = { "" };
    cJSON *config = json_parse(s->config, strlen(s->config), "config.json", &err);
    cJSON *preprocessor =
        json_parse(s->preprocessor, strlen(s->preprocessor), "preprocessor_config.json", &err);
    if (!config || !preprocessor ||
        config_tensors(s->name, config, preprocessor, s->spread, each, self, &err) < 0)
        BUG("shape %s: %s", s->name, err.text);
    cJSON_Delete(config);
    cJSON_Delete(preprocessor);
}

char *shape_config_layers(const struct shape *s, int64_t layers)
{
    struct err err;
    if (!s->config) return NULL;
    cJSON *config = json_parse(s->config, strlen(s->config), s->name, &err);
    cJSON *text = cJSON_GetObjectItemCaseSensitive(config, "text_config");
    if (!text) text = cJSON_GetObjectItemCaseSensitive(config, "llm_config");
    cJSON *count = cJSON_GetObjectItemCaseSensitive(text ? text : config, "num_hidden_layers");
    if (!count) BUG("shape %s has no layers", s->name);
    cJSON_SetNumberValue(count, (double)layers);
    char *changed = cJSON_PrintUnformatted(config);
    if (!changed) BUG("shape %s cannot be written", s->name);
    cJSON_Delete(config);
    return changed;
}
