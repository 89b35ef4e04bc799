// core/model/model.c -- loads a model by name; sizes pictures for it; the setting compute.matmul.
#include "core/model/model.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/cancel.h"
#include "core/base/event.h"
#include "core/base/mem.h"
#include "core/files/content.h"
#include "core/files/quantised/quantised.h"
#include "core/files/safetensors.h"
#include "core/model/converted.h"
#include "core/model/families/pooling.h"
#include "core/model/matrices.h"
#include "core/model/unread.h"
#include "core/template/message.h"

// Adds the ids of a key, one id or a list. Ignores negative ids.
static int add_ids(struct ids *to, const char *key, const char *file, const cJSON *config,
                   struct err *err)
{
    const cJSON *value = json_get(config, key);
    for (const cJSON *x = cJSON_IsArray(value) ? value->child : value; x; x = x->next) {
        const int64_t id = json_whole(x, INT64_MIN);
        if (id == INT64_MIN)
            return err_set(err, "%s: \"%s\" must be a token id or a list of them", file, key);
        if (id >= 0 && id <= INT32_MAX) ids_add(to, (int32_t)id);
        if (x == value) break; // a single value's siblings are other keys
    }
    return 0;
}

// Reads the ids that end an answer: from generation_config.json, else from config.json, else the
// tokenizer's eos_token.
static int read_ends(struct model *m, struct err *err)
{
    static const char ends[] = "eos_token_id";
    const struct checkpoint *c = m->checkpoint;
    const cJSON *text = json_get(c->config, "text_config");
    m->ends_from = c->gguf_count ? "metadata" : "generation_config.json";
    if (add_ids(&m->eos, ends, m->ends_from, c->generation, err) < 0) return -1;
    if (m->eos.count) return 0;
    m->ends_from = c->gguf_count ? "metadata" : "config.json";
    if (add_ids(&m->eos, ends, m->ends_from, c->config, err) < 0) return -1;
    if (!m->eos.count && add_ids(&m->eos, ends, m->ends_from, text, err) < 0) return -1;
    if (m->eos.count) return 0;
    m->ends_from = "tokenizer_config.json";
    const cJSON *word = json_get(c->tokenizer_config, "eos_token");
    if (cJSON_IsObject(word)) word = json_get(word, "content");
    int32_t id = cJSON_IsString(word) ? tokenizer_id(m->tokenizer, word->valuestring) : -1;
    if (id >= 0) ids_add(&m->eos, id);
    return 0;
}

// Finds the ids that end an answer. If config.json names a layout, its end token is one of them:
// the authors' code (InternVL) ends answers at this token too.
static int find_ends(struct model *m, struct err *err)
{
    if (read_ends(m, err) < 0) return -1;
    const int32_t end = m->conversation ? layout_end(m->layout, m->tokenizer) : -1;
    if (end >= 0 && !model_is_eos(m, end)) ids_add(&m->eos, end);
    return 0;
}

static int find_barred(struct model *m, struct err *err)
{
    const struct checkpoint *c = m->checkpoint;
    return add_ids(&m->barred, "suppress_tokens",
                   c->gguf_count ? "metadata" : "generation_config.json", c->generation, err);
}

// Opens the folder's chat template. If it cannot be rendered, the layout replaces it, and
// m->template_problem says why. -1: Ctrl-C cancelled the attempt.
static int open_template(struct model *m, struct err *why)
{
    const struct checkpoint *c = m->checkpoint;
    struct err err;
    if (!c->chat_template || m->conversation) return 0; // config.json names a layout
    const char *word = m->family->picture_word;
    if (word && !strstr(c->chat_template, word)) word = NULL;
    const int32_t mark = word ? tokenizer_id(m->tokenizer, word) : m->placeholder;
    m->template = chat_template_open(c->chat_template, c->tokenizer_config, m->tokenizer,
                                     model_has_vision(m) ? mark : -1, &err);
    if (!m->template && cancel_requested()) return err_set(why, "cancelled");
    if (!m->template) m->template_problem = xstrdup(err.text);
    return 0;
}

static int check_placeholder(const struct model *m, struct err *err)
{
    if (!m->family->pictures || m->placeholder < m->decoder.config.vocab) return 0;
    return err_set(err,
                   "the picture placeholder is token %d, but the vocabulary of config.json has "
                   "only %lld tokens",
                   m->placeholder, (long long)m->decoder.config.vocab);
}

static int need_token(const struct model *m, const char *text, const char *use, struct err *err)
{
    if (tokenizer_id(m->tokenizer, text) >= 0) return 0;
    return err_set(err, "the tokenizer has no token %s, which %s", text, use);
}

// The family's texts around the parts of a picture consist of tokens such as <slice>. If
// plain_marks allows it, the model may have learned them as plain text, but then all of them.
static int check_part_marks(const struct model *m, struct err *err)
{
    const int64_t count = m->picture.max_tiles ? 2 : 1;
    struct buf marks = { 0 };
    int status = 0;
    for (int64_t i = 0; i <= count; i++)
        m->family->picture_mark(
            &marks,
            &(struct picture_mark){
                .i = i, .count = count, .cols = 1, .number = m->picture.numbered ? 0 : -1 });
    char *text = buf_take(&marks);
    bool tokens = false;       // of the texts that may be plain, some are tokens
    struct err lacks = { "" }; // and this one is not
    for (char *at = strchr(text, '<'), *end; status == 0 && at && (end = strchr(at, '>'));
         at = strchr(end, '<')) {
        char *token = xstrndup(at, (size_t)(end + 1 - at));
        const bool may = m->family->plain_marks && strcmp(token, m->family->picture_after) != 0;
        const int has = need_token(m, token, "marks a picture or a part of it", may ? &lacks : err);
        tokens |= may && has == 0;
        if (!may) status = has;
        free(token);
    }
    free(text);
    if (status == 0 && tokens && *lacks.text) status = err_set(err, "%s", lacks.text);
    return status;
}

// The texts between and after visual tokens must be single tokens: split into several, they would
// mean nothing to the model.
static int check_marks(const struct model *m, struct err *err)
{
    const struct vision_kind *kind = m->vision.config.kind; // NULL: text only
    if (!kind || !kind->picture_mark) return m->family->picture_mark ? check_part_marks(m, err) : 0;
    struct buf mark = { 0 };
    kind->picture_mark(&mark, &(struct picture_mark){ .i = 1, .count = 2, .cols = 1 });
    char *text = buf_take(&mark);
    const int status = need_token(m, text, "follows each row of a picture's visual tokens", err);
    free(text);
    return status < 0
               ? -1
               : need_token(m, kind->picture_after, "follows a picture's visual tokens", err);
}

static int load_tokenizer(struct model *m, struct err *err)
{
    m->tokenizer = checkpoint_tokenizer(m->checkpoint, err);
    if (!m->tokenizer) return -1;
    m->layout = m->conversation ? layout_find(m->conversation)
                                : layout_detect(m->checkpoint->chat_template, m->tokenizer);
    // Without a chat template, uses the family's layout unless the tokenizer has special tokens of
    // Llama 3's or ChatML's.
    if (m->usual_layout && !m->conversation && !m->checkpoint->chat_template &&
        tokenizer_id(m->tokenizer, "<|start_header_id|>") < 0 &&
        tokenizer_id(m->tokenizer, "<|im_start|>") < 0)
        m->layout = layout_find(m->usual_layout);
    if (check_marks(m, err) < 0) return -1;
    if (!m->placeholder_word) return 0;
    m->placeholder = tokenizer_id(m->tokenizer, m->placeholder_word);
    return m->placeholder >= 0
               ? check_placeholder(m, err)
               : err_set(err, "the tokenizer has no token %s, the picture placeholder",
                         m->placeholder_word);
}

bool model_quantised(const struct model *m)
{
    for (size_t i = 0; i < m->weights.count; i++)
        if (dtype_in_blocks(m->weights.list[i].tensor->dtype)) return true;
    return false;
}

bool model_is_eos(const struct model *m, int32_t id)
{
    for (size_t i = 0; i < m->eos.count; i++)
        if (m->eos.data[i] == id) return true;
    return false;
}

void model_bar_tokens(const struct model *m, float *logits)
{
    static const float barred = -1e30f; // finite, because 0 times -Inf is NaN in sums over tokens
    for (size_t i = 0; i < m->barred.count; i++)
        if (m->barred.data[i] < m->decoder.config.vocab) logits[m->barred.data[i]] = barred;
}

static int configure(struct model *m, struct err *err)
{
    m->family = family_find(m->checkpoint->config, err);
    if (!m->family || m->family->configure(m, m->checkpoint, err) < 0 || unread_keys(m, err) < 0)
        return -1;
    return check_placeholder(m, err);
}

static int bind_weights(struct model *m, struct err *err)
{
    if (m->family->bind(m, m->checkpoint, err) < 0) return -1;
    model_weights_changed(m);
    for (size_t i = 0; i < m->weights.count; i++) {
        struct weight *w = &m->weights.list[i];
        w->part = m->family->part(m, w->name);
        w->common = decoder_common_name(m->decoder.config.kind, w->name);
    }
    matrices_choose_dtype(m);
    return 0;
}

int model_bind(struct model *m, struct err *err)
{
    return configure(m, err) < 0 ? -1 : bind_weights(m, err);
}

// Announces the memory that quantised weights will take once unpacked.
static void announce_unpacking(const struct checkpoint *c, const struct load_progress *progress)
{
    char *matrices = quantised_text(c);
    if (matrices && progress && progress->notice) {
        char *text = xasprintf("quantised weights (%s) take %.1f MB of memory once unpacked",
                               matrices, (double)c->quantised->bytes / 1e6);
        progress->notice(progress->self, text);
        free(text);
    }
    free(matrices);
}

struct model *model_load(const char *name, const struct backend *backend,
                         const struct load_progress *progress, struct err *err)
{
    struct model *m = model_open(name, backend, NULL, progress, err);
    if (!m || checkpoint_identify(m->checkpoint, progress, err) == 0) return m;
    model_free(m);
    return NULL;
}

struct model *model_open(const char *name, const struct backend *backend,
                         const struct model_partition *partition,
                         const struct load_progress *progress, struct err *err)
{
    struct model *m = xcalloc(1, sizeof *m);
    const struct gguf_kind *kind;
    char *whole = unread_split(name, &m->ignore);
    m->name = converted_split(whole, &kind);
    free(whole);
    m->arena.backend = backend;
    char *folder = checkpoint_locate(m->name, err);
    // Until the family is known, reads only headers.
    if (!folder || !(m->checkpoint = checkpoint_open_unread(folder, err))) goto out;
    if (configure(m, err) < 0 || (partition && partition->choose(partition, m, err) < 0))
        goto named;
    if (!kind) announce_unpacking(m->checkpoint, progress);
    // Converted weights are cached under the hash of the original ones. Once that hash is cached
    // too, a load need not read the originals. A process that holds only some layers reads their
    // weights when it binds them.
    if (kind && checkpoint_identify(m->checkpoint, progress, err) < 0) goto out;
    if (!kind && !partition && checkpoint_fetch(m->checkpoint, 0, progress, err) < 0) goto out;
    m->checkpoint->progress = progress;
    if ((kind && converted_use(m, kind, progress, err) < 0) || bind_weights(m, err) < 0 ||
        unread_check(m, err) < 0 || load_tokenizer(m, err) < 0 || find_ends(m, err) < 0 ||
        find_barred(m, err) < 0)
        goto named;
    unread_metadata(m);
    m->checkpoint->progress = NULL;
    if (open_template(m, err) < 0) goto out;
    thinking_list_make(&m->thinking, m->checkpoint->chat_template, m->tokenizer);
    free(folder);
    return m;
named:
    err_in(err, "cannot load '%s'%s", folder,
           m->checkpoint->gguf_count ? " (its metadata serves as config.json)" : "");
out:
    free(folder);
    model_free(m);
    return NULL;
}

void model_free(struct model *m)
{
    if (!m) return;
    decoder_release(&m->decoder);
    vision_release(&m->vision);
    tokenizer_free(m->tokenizer);
    chat_template_free(m->template);
    thinking_list_release(&m->thinking);
    free(m->template_problem);
    free(m->unread);
    free(m->mixed);
    ids_release(&m->eos);
    ids_release(&m->barred);
    weights_release(&m->weights);
    arena_release(&m->arena);
    checkpoint_close(m->checkpoint);
    free(m->name);
    free(m);
}

bool model_has_vision(const struct model *m)
{
    return m->family->pictures != NULL;
}

// True if the encoder reads pictures of any size, so that smaller ones have fewer tokens.
static bool any_size(const struct model *m)
{
    const enum picture_fit fit = m->picture.fit;
    return fit == FIT_NATIVE || fit == FIT_PATCHES || fit == FIT_BUDGET || fit == FIT_WITHIN ||
           fit == FIT_SLICES;
}

struct picture_config model_picture_config(const struct model *m, struct picture_shape shape)
{
    struct picture_config c = m->picture;
    if (shape.budget) c.budget = shape.budget;
    // Other pictures have no such limit; picture_kind.tokens applies that of slices.
    if (!any_size(m) || c.fit == FIT_SLICES) return c;
    return preprocess_limited(&c, shape.width, shape.height, shape.most_tokens);
}

void model_size_picture(const struct model *m, struct picture *p, int64_t width, int64_t height,
                        size_t shown, struct picture_limit limit)
{
    const struct picture_kind *k = m->family->pictures;
    const bool several = shown > 1 && m->family->several_differ;
    const bool downsampled = limit.share > 0 && limit.share < 1 && k;
    p->shape = (struct picture_shape){ .width = width,
                                       .height = height,
                                       .most_tokens = limit.most,
                                       .budget = m->picture.fit == FIT_BUDGET ? limit.budget : 0,
                                       .mode = m->picture.fit == FIT_SLICES ? limit.mode : 0,
                                       .several = several };
    p->tokens = k ? k->tokens(m, p->shape) : 0;
    p->newline = p->newline_step = p->part_tokens = p->part_cols = p->part_first = 0;
    const bool fits = p->tokens && (!limit.most || p->tokens <= limit.most);
    if (downsampled && any_size(m) && fits) {
        // Lowers the limit, but not below the fewest tokens that the encoder can give this picture.
        const int64_t most = llrint(limit.share * (double)p->tokens);
        p->shape.most_tokens = most < 1 ? 1 : most;
        p->tokens = k->tokens(m, p->shape);
        if (p->tokens > p->shape.most_tokens) p->shape.most_tokens = p->tokens;
    }
    if (k && k->newlines) k->newlines(m, p);
    if (k && k->parts) k->parts(m, p);
    if (!downsampled || any_size(m)) return;
    p->shape.share = limit.share;
    pooling_size(m, p);
}

int model_check_picture(const struct model *m, const struct picture *p, struct err *err)
{
    const struct picture_shape s = p->shape;
    int64_t width, height;
    if (p->tokens > 0 || !s.width || !model_has_vision(m)) return 0; // width 0: not sized yet
    if (any_size(m)) {
        const struct picture_config c = model_picture_config(m, s);
        if (preprocess_padded(&c, s.width, s.height, &width, &height, err) < 0) return -1;
    }
    if (m->picture.max_tiles)
        return err_set(err,
                       "this model's preprocessing cuts a picture of %lld x %lld pixels into more "
                       "than %lld tiles: /set image.max_tokens limits them",
                       (long long)s.width, (long long)s.height, (long long)m->picture.max_tiles);
    return err_set(err, "a picture of %lld x %lld pixels has no visual tokens with this model",
                   (long long)s.width, (long long)s.height);
}

void model_weights_changed(struct model *m)
{
    const struct backend *b = m->arena.backend;
    for (size_t i = 0; i < m->weights.gain_count; i++) {
        const struct gain_from_1 *of = &m->weights.gains[i];
        of->gain->grad = of->stored->grad;
        if (!of->gain->data) continue;
        backend_enter(b, of->gpu);
        if (b->fill(of->gain, 1) == 0) b->add(of->gain, of->gain, of->stored);
    }
    if (m->weights.gain_count) backend_enter(b, 0);
    if (m->decoder.config.tied) m->decoder.head = m->decoder.embed;
}

bool model_head_untied(const struct model *m)
{
    return m->decoder.config.tied && m->decoder.head.data != m->decoder.embed.data;
}

void model_pass(const struct model *m, bool pictures)
{
    if (m->listener.pass) m->listener.pass(m->listener.self, pictures);
}

const char *model_arithmetic(const struct model *m, const struct backend *b,
                             const struct settings *s)
{
    return graph_precision(graph_matmul(b, s, m->dtype));
}

const char *model_arithmetic_then(const char *matmul, const char *arithmetic)
{
    if (!strcmp(arithmetic, "f32 only")) return "f32";
    return strcmp(matmul, "auto") ? matmul : arithmetic;
}

static char *replay_matmul(const char *matmul, const char *arithmetic, int64_t began)
{
    return xstrdup(arithmetic ? model_arithmetic_then(matmul, arithmetic) : matmul);
}

static const char *const matmul_modes[] = { "auto", "f32", "bf16", NULL };

// bf16 on a device without it is not an error: sessions and scripts may come from other devices.
static enum setting_stale apply_matmul(const struct setting *row, const struct setting_env *env)
{
    if (settings_is(env->settings, row->key, "bf16") && !backend_multiplies_bf16(env->backend))
        sinks_notice(
            env->sinks,
            "compute.matmul = bf16: this device has no bf16 matrix products; computing in f32");
    return row->stale;
}

static char *effective_matmul(const struct model *m, const struct backend *b,
                              const struct settings *s)
{
    return xstrdup(m ? model_arithmetic(m, b, s) : settings_text(s, "compute.matmul"));
}

const struct setting compute_settings[] = {
    { .key = "compute.matmul",
      .type = SETTING_CHOICE,
      .def = "auto",
      .choices = matmul_modes,
      .stale = STALE_VISUAL,
      .use = USE_ARITHMETIC,
      .help =
          "Precision of matrix products and attention: f32, or bf16 (faster, less exact) where the "
          "device supports it; with bf16, a GPU multiplies f16 weights as f16. auto is bf16 on a "
          "GPU, and on a CPU with fast bf16 if the weights are bf16 or block-quantised.",
      .also = "precision bf16 f32",
      .apply = apply_matmul,
      .effective = effective_matmul,
      .replay = replay_matmul },
    { 0 },
};

void model_count(const struct model *m, struct model_part parts[MODEL_PARTS])
{
    int64_t held[MODEL_PARTS][DTYPE_COUNT] = { 0 };
    for (int i = 0; i < MODEL_PARTS; i++)
        parts[i] = (struct model_part){ .name = part_name((enum model_part_kind)i) };
    for (int64_t i = 0; i < m->checkpoint->tensor_count; i++) {
        const struct safetensor *t = m->checkpoint->tensors[i];
        enum model_part_kind kind = m->family->part(m, t->name);
        bool stray = kind == PART_HEAD && m->decoder.config.tied;
        // position_ids and inv_freq, tables of old files, are not parameters.
        bool table = strstr(t->name, "position_ids") || strstr(t->name, "inv_freq");
        if (stray || table) continue;
        const int64_t count = safetensor_count(t);
        parts[kind].parameters += count;
        parts[kind].bytes += t->bytes;
        if (t->dtype < 0) continue;
        held[kind][t->dtype] += count;
        if (held[kind][t->dtype] > held[kind][parts[kind].dtype])
            parts[kind].dtype = (enum dtype)t->dtype;
    }
}
