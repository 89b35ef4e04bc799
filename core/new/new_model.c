// core/new/new_model.c -- writes a model folder in a published shape with random weights.
//
//   config.json  generation_config.json  preprocessor_config.json  processor_config.json
//   tokenizer.json  tokenizer_config.json  special_tokens_map.json  chat_template.jinja
//   model.safetensors, or model-0000K-of-0000N.safetensors and model.safetensors.index.json
//
// Only shapes with an encoder have preprocessor_config.json and, unless they define their own
// preprocessing, processor_config.json.
//
// Random weights are normally distributed and rounded to bf16: 16 random bits index a table of
// 65536 equally likely values, so that drawing keeps up with the disk.
#include "core/new/new_model.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "core/base/dtype.h"
#include "core/base/folder.h"
#include "core/base/mem.h"
#include "core/base/random.h"
#include "core/files/content.h"
#include "core/files/safetensors.h"
#include "core/model/families/family.h"
#include "core/new/new_tokenizer.h"
#include "core/new/shapes.h"
#include "core/new/shards.h"

enum { PIECE = 8 << 20 }; // weights drawn and written at a time
enum { QUANTILES = 4 };   // maximum number of distinct spreads in a shape

struct job {
    const struct shape *shape;
    const char *folder; // the temporary folder until all files are complete
    bool zeros;
    struct shape_tensor *tensors;
    int count;
    size_t capacity;
    uint64_t seed, done, total; // done, total: bytes of weights
    uint64_t offset; // index of the next tensor's first weight, with counts rounded up to 4
    const struct load_progress *progress;
    struct {
        double spread;
        uint16_t *values; // [65536] bf16
    } quantiles[QUANTILES];
    int quantiles_count;
    const char *text; // for the tokenizer
    uint16_t *piece;  // [PIECE]
};

// --- shapes and counts ---------------------------------------------------------------------------

const char *new_model_shape(int index)
{
    const struct shape *s = shape_at(index);
    return s ? s->name : NULL;
}

void new_model_add(void *counts, const struct shape_tensor *t)
{
    struct new_model_counts *n = counts;
    n->parts[t->part].name = part_name(t->part);
    n->parts[t->part].parameters += shape_tensor_count(t);
    n->total += shape_tensor_count(t);
}

int new_model_count(const char *shape, struct new_model_counts *counts, struct err *err)
{
    const struct shape *s = shape_find(shape, err);
    if (!s) return -1;
    *counts = (struct new_model_counts){ 0 };
    shape_tensors(s, new_model_add, counts);
    counts->bytes = (uint64_t)counts->total * dtype_size(DTYPE_BF16);
    return 0;
}

// --- files ---------------------------------------------------------------------------------------

// Writes and frees the text of `b`.
static int write_text(struct job *j, const char *name, struct buf *b, struct err *err)
{
    const int status = folder_write(j->folder, name, b->data, b->length, err);
    buf_release(b);
    return status;
}

int new_model_check_space(const char *folder, uint64_t bytes, struct err *err)
{
    struct statvfs fs;
    if (statvfs(folder, &fs) < 0) return 0; // writing will report it
    const uint64_t space = (uint64_t)fs.f_bavail * fs.f_frsize, need = bytes + (32u << 20);
    if (space >= need || bytes <= space / 2) return 0;
    return err_set(err, "the model needs %.0f MB, but only %.0f MB of disk space is free",
                   (double)need / 1e6, (double)space / 1e6);
}

// --- configs -------------------------------------------------------------------------------------

static void put_eos(struct buf *b, const struct shape *s, const struct new_tokenizer *t)
{
    const long long bos = (long long)t->bos;
    if (s->tokens == TOKENS_LLAMA3)
        buf_printf(b, "\"eos_token_id\": [%lld, %lld, %lld],\n", bos + 1, bos + 8, bos + 9);
    else
        buf_printf(b, "\"eos_token_id\": %lld,\n", (long long)t->eos);
}

static void put_text_config(struct buf *b, const struct shape *s, const struct new_tokenizer *t,
                            const char *indent)
{
    struct buf lines = { 0 };
    buf_printf(&lines,
               "\"architectures\": [\"%s\"],\n\"attention_bias\": false,\n"
               "\"bos_token_id\": %lld,\n",
               family_named(s->decoder)->architectures[0], (long long)t->bos);
    put_eos(&lines, s, t);
    buf_printf(&lines,
               "\"head_dim\": %lld,\n\"hidden_act\": \"silu\",\n\"hidden_size\": %lld,\n"
               "\"intermediate_size\": %lld,\n\"max_position_embeddings\": %lld,\n"
               "\"mlp_bias\": false,\n\"model_type\": \"%s\",\n\"num_attention_heads\": %lld,\n"
               "\"num_hidden_layers\": %lld,\n\"num_key_value_heads\": %lld,\n"
               "\"rms_norm_eps\": 1e-05,\n",
               (long long)s->head_size, (long long)s->hidden, (long long)s->ffn,
               (long long)s->context, s->decoder, (long long)s->heads, (long long)s->layers,
               (long long)s->kv_heads);
    if (s->rope_factor > 0)
        buf_printf(&lines,
                   "\"rope_scaling\": {\"factor\": %.1f, \"high_freq_factor\": 4.0, "
                   "\"low_freq_factor\": 1.0, \"original_max_position_embeddings\": 8192, "
                   "\"rope_type\": \"llama3\"},\n",
                   s->rope_factor);
    buf_printf(&lines,
               "\"rope_theta\": %.1f,\n\"tie_word_embeddings\": %s,\n"
               "\"torch_dtype\": \"bfloat16\",\n\"vocab_size\": %lld",
               s->rope_theta, s->tied ? "true" : "false", (long long)s->vocab);
    for (char *rest = lines.data, *one; (one = strsep(&rest, "\n"));)
        buf_printf(b, "%s%s\n", indent, one);
    buf_release(&lines);
}

// Writes the shape's own config with the ids of this tokenizer.
static void put_own_config(struct buf *b, const struct shape *s, const struct new_tokenizer *t)
{
    const struct {
        const char *key;
        int64_t id;
    } ids[] = {
        { "bos_token_id", t->bos },           { "eos_token_id", t->eos },
        { "pad_token_id", t->pad },           { "image_token_id", t->image },
        { "image_token_index", t->image },    { "media_placeholder_token_id", t->image },
        { "img_context_token_id", t->image },
    };
    struct err err;
    cJSON *json = json_parse(s->config, strlen(s->config), s->name, &err);
    if (!json) BUG("shape %s: %s", s->name, err.text);
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++)
        if (json_get(json, ids[i].key))
            cJSON_SetNumberValue(cJSON_GetObjectItem(json, ids[i].key), (double)ids[i].id);
    char *text = cJSON_Print(json);
    buf_printf(b, "%s\n", text);
    cJSON_free(text);
    cJSON_Delete(json);
}

void new_model_config(struct buf *b, const struct shape *s, const struct new_tokenizer *t)
{
    if (s->config) {
        put_own_config(b, s, t);
        return;
    }
    buf_puts(b, "{\n");
    if (!s->tower) {
        put_text_config(b, s, t, "  ");
        buf_puts(b, "}\n");
        return;
    }
    bool clip = s->tower == TOWER_CLIP;
    const struct family *family = family_named(s->family ? s->family : "llava");
    buf_printf(b, "  \"architectures\": [\"%s\"],\n  \"ignore_index\": -100,\n",
               family->architectures[0]);
    if (s->tiles) buf_printf(b, "  \"image_grid_pinpoints\": %s,\n", s->tiles);
    if (s->tiles_limit) buf_printf(b, "  \"vision_aspect_ratio\": \"%s\",\n", s->tiles_limit);
    buf_printf(b, "  \"image_seq_length\": %lld,\n  \"image_token_index\": %lld,\n",
               (long long)((s->image / s->patch) * (s->image / s->patch)), (long long)t->image);
    buf_printf(b, "  \"mm_projector_type\": \"%s\",\n",
               s->projector_layers == 1 ? "linear" : "mlp2x_gelu");
    buf_printf(b,
               "  \"model_type\": \"%s\",\n  \"pad_token_id\": %lld,\n"
               "  \"projector_hidden_act\": \"gelu\",\n  \"text_config\": {\n",
               family->model_types[0], (long long)t->pad);
    put_text_config(b, s, t, "    ");
    buf_printf(b,
               "  },\n  \"tie_word_embeddings\": %s,\n  \"torch_dtype\": \"bfloat16\",\n"
               "  \"vision_config\": {\n    \"hidden_size\": %lld,\n    \"image_size\": %lld,\n",
               s->tied ? "true" : "false", (long long)s->tower_hidden, (long long)s->image);
    buf_printf(b,
               "    \"intermediate_size\": %lld,\n    \"model_type\": \"%s\",\n"
               "    \"num_attention_heads\": %lld,\n    \"num_hidden_layers\": %lld,\n"
               "    \"patch_size\": %lld%s\n  },\n",
               (long long)s->tower_ffn, clip ? "clip_vision_model" : "siglip_vision_model",
               (long long)s->tower_heads, (long long)s->tower_layers, (long long)s->patch,
               s->no_pooling ? ",\n    \"vision_use_head\": false" : "");
    buf_printf(b,
               "  \"vision_feature_layer\": %d,\n"
               "  \"vision_feature_select_strategy\": \"%s\"\n}\n",
               s->feature_layer ? s->feature_layer : -2, clip ? "default" : "full");
}

static int write_generation(struct job *j, const struct new_tokenizer *t, struct err *err)
{
    struct buf b = { 0 };
    buf_printf(&b, "{\n  \"bos_token_id\": %lld,\n  ", (long long)t->bos);
    put_eos(&b, j->shape, t);
    if (j->shape->tokens == TOKENS_LLAMA3)
        buf_puts(&b, "  \"do_sample\": true,\n  \"temperature\": 0.6,\n  \"top_p\": 0.9,\n");
    buf_printf(&b, "  \"pad_token_id\": %lld\n}\n", (long long)t->pad);
    return write_text(j, "generation_config.json", &b, err);
}

void new_model_preprocessor(struct buf *b, const struct shape *s)
{
    bool clip = s->tower == TOWER_CLIP;
    const char *whole = clip ? "CLIP" : "Siglip", *tiled = clip ? "LlavaNext" : "LlavaOnevision";
    if (s->preprocessor) {
        buf_printf(b, "%s\n", s->preprocessor);
        return;
    }
    buf_puts(b, "{\n");
    if (clip)
        buf_printf(b,
                   "  \"crop_size\": {\"height\": %lld, \"width\": %lld},\n"
                   "  \"do_center_crop\": true,\n",
                   (long long)s->image, (long long)s->image);
    if (s->tiles) buf_printf(b, "  \"image_grid_pinpoints\": %s,\n", s->tiles);
    buf_puts(b, "  \"do_convert_rgb\": true,\n  \"do_normalize\": true,\n"
                "  \"do_rescale\": true,\n  \"do_resize\": true,\n");
    buf_printf(b,
               "  \"image_mean\": %s,\n  \"image_processor_type\": \"%sImageProcessor\",\n"
               "  \"image_std\": %s,\n",
               clip ? "[0.48145466, 0.4578275, 0.40821073]" : "[0.5, 0.5, 0.5]",
               s->tiles ? tiled : whole,
               clip ? "[0.26862954, 0.26130258, 0.27577711]" : "[0.5, 0.5, 0.5]");
    buf_puts(b, "  \"processor_class\": \"LlavaProcessor\",\n  \"resample\": 3,\n"
                "  \"rescale_factor\": 0.00392156862745098,\n");
    if (clip)
        buf_printf(b, "  \"size\": {\"shortest_edge\": %lld}\n}\n", (long long)s->image);
    else
        buf_printf(b, "  \"size\": {\"height\": %lld, \"width\": %lld}\n}\n", (long long)s->image,
                   (long long)s->image);
}

static int write_processor(struct job *j, struct err *err)
{
    const struct shape *s = j->shape;
    struct buf b = { 0 };
    new_model_preprocessor(&b, s);
    if (write_text(j, "preprocessor_config.json", &b, err) < 0) return -1;
    if (s->preprocessor) return 0;
    buf_printf(&b,
               "{\n  \"image_token\": \"<image>\",\n  \"num_additional_image_tokens\": %d,\n"
               "  \"patch_size\": %lld,\n  \"processor_class\": \"LlavaProcessor\",\n"
               "  \"vision_feature_select_strategy\": \"%s\"\n}\n",
               s->tower == TOWER_CLIP, (long long)s->patch,
               s->tower == TOWER_CLIP ? "default" : "full");
    return write_text(j, "processor_config.json", &b, err);
}

static int write_texts(struct job *j, struct err *err)
{
    struct new_tokenizer t;
    struct buf b = { 0 };
    new_tokenizer_make(&t, j->shape, j->text);
    const struct {
        const char *name, *text;
    } files[] = {
        { "tokenizer.json", t.json },
        { "tokenizer_config.json", t.config },
        { "special_tokens_map.json", t.map },
        { "chat_template.jinja", t.chat_template },
    };
    new_model_config(&b, j->shape, &t);
    int status = write_text(j, "config.json", &b, err);
    if (status == 0) status = write_generation(j, &t, err);
    if (status == 0 && j->shape->tower) status = write_processor(j, err);
    for (size_t i = 0; i < sizeof files / sizeof *files && status == 0; i++)
        status = folder_write(j->folder, files[i].name, files[i].text, strlen(files[i].text), err);
    new_tokenizer_release(&t);
    return status;
}

// --- weights -------------------------------------------------------------------------------------

// Solves P(normal < x) = p, 0 < p < 1/2, by Newton's method, which starts at x.
static double normal_quantile(double p, double x)
{
    for (int i = 0; i < 50; i++) {
        double step = (0.5 * erfc(-x * M_SQRT1_2) - p) / (exp(-0.5 * x * x) * 0.3989422804014327);
        x -= step;
        if (fabs(step) < 1e-9) break;
    }
    return x;
}

// Computes the quantiles from the median down: Newton's method converges if it starts at the
// neighbouring quantile.
static uint16_t *make_quantiles(double spread)
{
    float *values = xmalloc(65536 * sizeof *values);
    uint16_t *table = xmalloc(65536 * sizeof *table);
    double x = 0;
    for (int i = 32767; i >= 0; i--) {
        x = normal_quantile((i + 0.5) / 65536, x);
        values[i] = (float)(spread * x);
        values[65535 - i] = -values[i];
    }
    floats_to(table, DTYPE_BF16, values, 65536);
    free(values);
    return table;
}

// Finds or makes the quantiles; a shape has few distinct spreads.
static const uint16_t *find_quantiles(struct job *j, double spread)
{
    int i = 0;
    while (i < j->quantiles_count && j->quantiles[i].spread != spread) i++;
    if (i == QUANTILES) BUG();
    if (i == j->quantiles_count) {
        j->quantiles[j->quantiles_count++].spread = spread;
        j->quantiles[i].values = make_quantiles(spread);
    }
    return j->quantiles[i].values;
}

// Draws `count` weights, starting at index `offset` of the model; both are multiples of 4 except a
// tensor's last count.
static void draw(const struct job *j, const uint16_t *quantiles, uint64_t offset, int64_t count)
{
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < count; i += 4) {
        uint64_t bits = random_bits(j->seed, RANDOM_WEIGHTS, (offset + (uint64_t)i) / 4);
        for (int64_t k = i; k < i + 4 && k < count; k++, bits >>= 16)
            j->piece[k] = quantiles[bits & 65535];
    }
}

static int put_tensor(void *self, struct safetensors_writer *w, int i, struct err *err)
{
    struct job *j = self;
    const struct shape_tensor *t = &j->tensors[i];
    int64_t count = shape_tensor_count(t);
    if (j->zeros) return safetensors_writer_zeros(w, (uint64_t)count * sizeof *j->piece, err);
    const uint16_t *quantiles = t->each == 0 ? find_quantiles(j, t->spread) : NULL;
    uint16_t each;
    floats_to(&each, DTYPE_BF16, &t->each, 1);
    for (int64_t at = 0; at < count; at += PIECE) {
        int64_t n = count - at < PIECE ? count - at : PIECE;
        if (quantiles)
            draw(j, quantiles, j->offset + (uint64_t)at, n);
        else
            for (int64_t k = 0; k < n; k++) j->piece[k] = each;
        uint64_t bytes = (uint64_t)n * sizeof *j->piece;
        if (safetensors_writer_data(w, j->piece, bytes, err) < 0) return -1;
        j->done += bytes;
        if (j->progress && !j->progress->report(j->progress->self, j->done, j->total))
            return err_set(err, "cancelled");
    }
    j->offset += ((uint64_t)count + 3) / 4 * 4;
    return 0;
}

static void collect_tensor(void *self, const struct shape_tensor *t)
{
    struct job *j = self;
    j->tensors = xgrow(j->tensors, &j->capacity, j->count, sizeof *j->tensors);
    j->tensors[j->count++] = *t;
    j->total += (uint64_t)shape_tensor_count(t) * sizeof(uint16_t);
}

// True if the folder has a weight file: weight files are written last.
bool new_model_written(const char *folder)
{
    static const char *const names[] = { "model.safetensors", "model.safetensors.index.json" };
    bool found = false;
    for (int i = 0; i < 2 && !found; i++) {
        char *path = xasprintf("%s/%s", folder, names[i]);
        found = access(path, F_OK) == 0;
        free(path);
    }
    return found;
}

static int write_all(struct job *j, const char *folder, struct err *err)
{
    struct folder_work work;
    if (!j->shape || folder_begin(&work, folder, err) < 0) return -1;
    j->folder = work.path;
    j->piece = xreallocarray(NULL, PIECE, sizeof *j->piece);
    shape_tensors(j->shape, collect_tensor, j);
    const struct shards shards = { j->folder, j->tensors, j->count, put_tensor, j };
    int status =
        j->zeros ? 0 : new_model_check_space(j->folder, j->total, err); // zeros take no space
    if (status == 0) status = write_texts(j, err);
    if (status == 0) status = shards_write(&shards, err);
    free(j->tensors);
    for (int i = 0; i < j->quantiles_count; i++) free(j->quantiles[i].values);
    free(j->piece);
    if (status == 0) return folder_commit(&work, folder, err);
    folder_abandon(&work);
    return -1;
}

int new_model_write(const char *shape, const char *folder, uint64_t seed, const char *text,
                    const struct load_progress *progress, struct err *err)
{
    struct job j = {
        .shape = shape_find(shape, err), .seed = seed, .text = text, .progress = progress
    };
    return write_all(&j, folder, err);
}

int new_model_write_layers(const char *shape, int64_t layers, const char *folder, uint64_t seed,
                           struct err *err)
{
    const struct shape *whole = shape_find(shape, err);
    if (!whole) return -1;
    struct shape part = *whole;
    char *config = shape_config_layers(whole, layers);
    part.layers = layers;
    part.config = config;
    struct job j = { .shape = &part, .seed = seed };
    const int status = write_all(&j, folder, err);
    free(config);
    return status;
}

int new_model_write_zeros(const char *shape, const char *folder, const char *text, struct err *err)
{
    struct job j = { .shape = shape_find(shape, err), .text = text, .zeros = true };
    return write_all(&j, folder, err);
}
