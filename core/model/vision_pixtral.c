// core/model/vision_pixtral.c -- the encoder of Pixtral (Agrawal et al. 2024, arXiv 2410.07073,
// section 2.2) and of Mistral Small 3.1 and later: pictures of any size, 2-D rotary positions.
//
//   pixels [3,H,W] -> patches, row by row -> linear -> RMSNorm
//   -> blocks: RMSNorm, attention over the whole picture, gated FFN
//
// Easy to get wrong: pair j of a head rotates by the row for j < d/4, with frequency 2j of d/2, and
// else by the column, with frequency 2(j - d/4) + 1. No norm follows the last block. The prompt has
// text between the rows of a picture's visual tokens.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/files/gguf_parts.h"
#include "core/files/gguf_write.h"
#include "core/model/families/mistral3.h"
#include "core/model/vision.h"
#include "core/template/message.h"

// --- config --------------------------------------------------------------------------------------

static int pixtral_read(struct vision_config *v, const cJSON *json, struct err *err)
{
    static const struct vision_sizes usual = {
        .layers = 24, .hidden = 1024, .ffn = 4096, .heads = 16, .patch = 16
    };
    int64_t image, width;
    const char *act;
    v->eps = 1e-5; // no config gives it
    v->times = v->merge = 1;
    if (vision_sizes_read(v, &usual, json, err) < 0 || vision_theta_read(v, json, 10000, err) < 0 ||
        json_int(json, "head_dim", 1, 100000, v->hidden / v->heads, &width, err) < 0 ||
        json_int(json, "image_size", 1, 100000, 1024, &image, err) < 0 ||
        json_text(json, "hidden_act", "gelu", &act, err) < 0)
        return -1;
    v->table_rows = v->table_cols = image / v->patch;
    if (v->table_rows < 1) return err_set(err, "\"image_size\" is less than a patch");
    if (width != v->hidden / v->heads)
        return err_set(err, "\"head_dim\" %lld is not \"hidden_size\" / \"num_attention_heads\"",
                       (long long)width);
    if (strcmp(act, "silu") == 0) return 0;
    return err_set(err, "\"hidden_act\" \"%s\" is not supported (known: silu)", act);
}

// --- pictures ------------------------------------------------------------------------------------

// Reads "size": {"longest_edge": n}, or equal height and width.
static int read_size(struct picture_config *p, const cJSON *json, struct err *err)
{
    const cJSON *size;
    int64_t width, height;
    if (json_object(json, "size", &size, err) < 0) return -1;
    if (!json_get(size, "height") && !json_get(size, "width"))
        return json_int(size, "longest_edge", 1, IMAGE_MAX_SIDE, p->longest, &p->longest, err);
    if (json_int(size, "height", 1, IMAGE_MAX_SIDE, 0, &height, err) < 0 ||
        json_int(size, "width", 1, IMAGE_MAX_SIDE, 0, &width, err) < 0)
        return -1;
    p->longest = height;
    if (width == height) return 0;
    return err_set(err, "\"size\": height and width must be equal, or longest_edge must be given");
}

// Checks "patch_size": n, or {"height": n, "width": n}.
static int check_patch(const struct vision_config *v, const cJSON *json, struct err *err)
{
    const cJSON *patch = json_get(json, "patch_size");
    if (!cJSON_IsObject(patch)) return vision_check_equal(json, "patch_size", v->patch, err);
    if (vision_check_equal(patch, "height", v->patch, err) == 0 &&
        vision_check_equal(patch, "width", v->patch, err) == 0)
        return 0;
    return err_in(err, "\"patch_size\"");
}

// The processor makes sides multiples of patch * merge.
static int pixtral_read_pictures(struct picture_config *p, const struct vision_config *v,
                                 const cJSON *json, struct err *err)
{
    *p = vision_picture_defaults(v, FIT_WITHIN);
    p->multiple = v->patch * v->merge;
    p->longest = 1024;
    memcpy(p->mean, picture_clip_mean, sizeof p->mean);
    memcpy(p->std, picture_clip_std, sizeof p->std);
    if (picture_config_read_shared(p, json, err) < 0 || read_size(p, json, err) < 0 ||
        check_patch(v, json, err) < 0)
        return -1;
    return p->resize ? 0 : err_set(err, "\"do_resize\" false is not supported");
}

static void mark_row(struct buf *to, const struct picture_mark *mark)
{
    if (mark->i && mark->i < mark->count) buf_puts(to, PIXTRAL_BREAK);
}

// --- weights -------------------------------------------------------------------------------------

static void pixtral_bind(struct vision *v, struct binder *b)
{
    const struct vision_config *c = &v->config;
    const int64_t Dv = c->hidden;
    bind_squares(b, &v->patch.weight, Dv, 3, c->patch, "patch_conv.weight");
    bind_norm(b, &v->pre, Dv, false, "ln_pre");
    for (int l = 0; l < c->layers; l++) {
        struct vision_layer *w = &v->layer[l];
        char block[64];
        snprintf(block, sizeof block, "transformer.layers.%d", l);
        bind_norm(b, &w->norm1, Dv, false, "%s.attention_norm", block);
        vision_bind_qkv(b, w, Dv, false, block, "attention.qkv_proj");
        bind_linear(b, &w->out, Dv, Dv, false, "%s.attention.o_proj", block);
        bind_norm(b, &w->norm2, Dv, false, "%s.ffn_norm", block);
        bind_linear(b, &w->gate, c->ffn, Dv, false, "%s.feed_forward.gate_proj", block);
        bind_linear(b, &w->up, c->ffn, Dv, false, "%s.feed_forward.up_proj", block);
        bind_linear(b, &w->down, Dv, c->ffn, false, "%s.feed_forward.down_proj", block);
    }
}

// --- the pass ------------------------------------------------------------------------------------

static void pixtral_angles(const struct vision_batch *b, float *cos_out, float *sin_out)
{
    const struct vision_config *c = &b->vision->config;
    const int64_t d = c->hidden / c->heads, half = d / 2, quarter = half / 2;
    float *frequency = xreallocarray(NULL, (size_t)half, sizeof *frequency);
    for (int64_t j = 0; j < half; j++)
        frequency[j] = (float)(1 / pow(c->theta, 2 * (double)j / (double)d));
    for (size_t k = 0; k < b->count; k++)
        for (int64_t i = b->at[k]; i < b->at[k + 1]; i++) {
            const int64_t patch = i - b->at[k], cols = b->picture[k].cols;
            for (int64_t j = 0; j < half; j++) {
                const bool by_row = j < quarter;
                const float f = frequency[by_row ? 2 * j : 2 * (j - quarter) + 1];
                const float angle = (float)(by_row ? patch / cols : patch % cols) * f;
                cos_out[i * half + j] = (float)cos((double)angle);
                sin_out[i * half + j] = (float)sin((double)angle);
            }
        }
    free(frequency);
}

// --- GGUF files ----------------------------------------------------------------------------------

static const char PATCH_MERGER[] = "mm.patch_merger.weight";

// Reads Mistral 3's file or, if it has no patch merger, a LLaVA's.
static void read_gguf(struct encoder_config *e)
{
    const int64_t side = config_value(&e->c, "image_size", 1, GGUF_NEEDED);
    const int64_t patch = config_value(&e->c, "patch_size", 1, GGUF_NEEDED);
    const bool merges = encoder_has(e, PATCH_MERGER);
    config_put_text(e->vision, "model_type", "pixtral");
    encoder_sizes(e, "num_hidden_layers", "num_attention_heads");
    config_int(&e->c, "image_size", "image_size", GGUF_NEEDED);
    config_put_text(e->vision, "hidden_act",
                    config_flag(&e->c, ".clip.use_silu") ? "silu" : "gelu");
    config_real(&e->c, ".clip.rope.freq_base", "rope_theta", 10000);
    gguf_expect(e->c.file, "clip.vision.attention.layer_norm_epsilon", 1e-5);
    encoder_means(e);
    encoder_placeholder(e, "image_token_index", "[IMG]");
    const int64_t merge = config_value(&e->c, "spatial_merge_size", 1, 1);
    const int64_t longest = config_value(&e->c, "longest_edge", 1, side); // vlmsh's own key
    if (!merges && merge > 1)
        config_refuse(&e->c, "'clip.vision.spatial_merge_size' is %lld, but tensor '%s' is missing",
                      (long long)merge, PATCH_MERGER);
    cJSON_AddNumberToObject(e->whole, "vision_feature_layer", -1);
    cJSON_AddBoolToObject(e->whole, "multimodal_projector_bias", encoder_has(e, "mm.1.bias"));
    config_put_text(e->preprocessor, "image_processor_type", "PixtralImageProcessor");
    cJSON_AddNumberToObject(e->preprocessor, "patch_size", (double)patch);
    cJSON_AddNumberToObject(cJSON_AddObjectToObject(e->preprocessor, "size"), "longest_edge",
                            (double)longest);
    if (merges) {
        cJSON_AddNumberToObject(e->whole, "spatial_merge_size", (double)merge);
        return;
    }
    config_put_text(e->whole, "vision_feature_select_strategy", "full");
    config_put_text(e->whole, "model_type", "llava");
    cJSON_SetValuestring(json_get(e->whole, "architectures")->child,
                         "LlavaForConditionalGeneration");
}

static const struct gguf_name gguf_outer[] = {
    { "v.patch_embd", "vision_tower.patch_conv", PLAIN },
    { "v.pre_ln", "vision_tower.ln_pre", PLAIN },
    { "mm.input_norm", "multi_modal_projector.norm", PLAIN },
    { "mm.patch_merger", "multi_modal_projector.patch_merger.merging_layer", PLAIN },
    { "mm.1", "multi_modal_projector.linear_1", PLAIN },
    { "mm.2", "multi_modal_projector.linear_2", PLAIN },
    { 0 },
};

static const struct gguf_name gguf_block[] = {
    { "ln1", "attention_norm", PLAIN },
    { "ln2", "ffn_norm", PLAIN },
    { "attn_q", "attention.q_proj", PAIRS },
    { "attn_k", "attention.k_proj", PAIRS },
    { "attn_v", "attention.v_proj", PLAIN },
    { "attn_out", "attention.o_proj", PLAIN },
    { "ffn_gate", "feed_forward.gate_proj", PLAIN },
    { "ffn_up", "feed_forward.up_proj", PLAIN },
    { "ffn_down", "feed_forward.down_proj", PLAIN },
    { 0 },
};

static const struct gguf_encoder gguf_encoder = {
    .type = "pixtral",
    .architecture = "Mistral3ForConditionalGeneration",
    .model_type = "mistral3",
    .prefixes = { "language_model.model.", "language_model." },
    .outer = gguf_outer,
    .blocks = "vision_tower.transformer.layers.",
    .block = gguf_block,
    .last = "mm.2.weight",
    .read = read_gguf,
};

static int check_gguf(const struct model *m, struct err *err)
{
    if (m->vision.config.theta != 10000)
        return err_set(err, FAMILY_MMPROJ_REFUSED, "its \"rope_theta\"");
    if (m->projector.act != GELU_ERF)
        return err_set(err, FAMILY_MMPROJ_REFUSED, "the projector's activation");
    if (tokenizer_id(m->tokenizer, PIXTRAL_BREAK) >= 0) return 0;
    return err_set(err, FAMILY_MMPROJ_REFUSED,
                   "llama.cpp needs the embedding of the token " PIXTRAL_BREAK
                   ", which the tokenizer does not have");
}

static void put_gguf(const struct model *m, struct gguf_writer *out)
{
    const struct vision_config *v = &m->vision.config;
    const int64_t side = v->table_rows * v->patch;
    gguf_writer_u32(out, ".image_size", side);
    gguf_writer_u32(out, ".spatial_merge_size", v->merge);
    if (m->picture.longest != side) gguf_writer_u32(out, ".longest_edge", m->picture.longest);
    gguf_writer_bool(out, "clip.use_silu", true);
}

const struct family_mmproj pixtral_mmproj = { .type = "pixtral",
                                              .pre = "v.pre_ln",
                                              .pairs = true,
                                              .norm = "mm.input_norm",
                                              .linear = { "mm.1", "mm.2" },
                                              .word = PIXTRAL_BREAK,
                                              .word_row = "v.token_embd.img_break",
                                              .check = check_gguf,
                                              .put = put_gguf,
                                              .read = &gguf_encoder };

const struct vision_kind vision_pixtral = {
    .model_types = (const char *const[]){ "pixtral", NULL },
    .keys = (const char *const[]){ "rope_theta", NULL },
    .read = pixtral_read,
    .read_pictures = pixtral_read_pictures,
    .picture_processors = (const char *const[]){ "Pixtral", NULL },
    .picture_keys = (const char *const[]){ PICTURE_SHARED_KEYS, "size", "patch_size", NULL },
    .reads_planes = true,
    .picture_mark = mark_row,
    .picture_after = PIXTRAL_END,
    .mmproj = &pixtral_mmproj,
    .patch_weight = "patch_conv.weight",
    .bind = pixtral_bind,
    .angles = pixtral_angles,
    .row_by_row = true,
    .joined_later = true,
};
