// core/model/vision_bind.c -- a vision encoder's weights by name.
#include "core/model/vision.h"

#include <stdlib.h>

#include "core/base/mem.h"

static void bind_block(struct binder *b, struct vision_layer *w, const struct vision_config *c,
                       int l)
{
    int64_t Dv = c->hidden;
    bind_vector(b, &w->norm1_gain, Dv, "encoder.layers.%d.layer_norm1.weight", l);
    bind_vector(b, &w->norm1_bias, Dv, "encoder.layers.%d.layer_norm1.bias", l);
    bind_linear(b, &w->q, Dv, Dv, true, "encoder.layers.%d.self_attn.q_proj", l);
    bind_linear(b, &w->k, Dv, Dv, true, "encoder.layers.%d.self_attn.k_proj", l);
    bind_linear(b, &w->v, Dv, Dv, true, "encoder.layers.%d.self_attn.v_proj", l);
    bind_linear(b, &w->out, Dv, Dv, true, "encoder.layers.%d.self_attn.out_proj", l);
    bind_vector(b, &w->norm2_gain, Dv, "encoder.layers.%d.layer_norm2.weight", l);
    bind_vector(b, &w->norm2_bias, Dv, "encoder.layers.%d.layer_norm2.bias", l);
    bind_linear(b, &w->fc1, c->ffn, Dv, true, "encoder.layers.%d.mlp.fc1", l);
    bind_linear(b, &w->fc2, Dv, c->ffn, true, "encoder.layers.%d.mlp.fc2", l);
}

int vision_bind(struct vision *v, struct binder *b)
{
    struct vision_config *config = &v->config;
    int64_t Dv = config->hidden;
    bind_patches(b, &v->patch.weight, Dv, config->patch, "embeddings.patch_embedding.weight");
    if (config->patch_bias) bind_vector(b, &v->patch.bias, Dv, "embeddings.patch_embedding.bias");
    bind_matrix(b, &v->position, vision_rows(config), Dv, "embeddings.position_embedding.weight");
    if (config->class_token) {
        bind_vector(b, &v->class_token, Dv, "embeddings.class_embedding");
        v->class_token.rank = 2;
        v->class_token.shape[0] = 1;
        v->class_token.shape[1] = Dv;
    }
    if (config->pre_norm) { // spelled so in every file
        bind_vector(b, &v->pre_gain, Dv, "pre_layrnorm.weight");
        bind_vector(b, &v->pre_bias, Dv, "pre_layrnorm.bias");
    }
    v->layer = xcalloc((size_t)config->layers, sizeof *v->layer);
    for (int l = 0; l < config->layers; l++) bind_block(b, &v->layer[l], config, l);

    config->post_norm = bind_has(b->checkpoint, b->prefix, "post_layernorm.weight");
    return b->failed ? -1 : 0;
}

void vision_release(struct vision *v)
{
    free(v->layer);
    *v = (struct vision){ 0 };
}
