// core/files/gguf_vision.c -- presents the picture encoder and projector of a GGUF file (mmproj)
// with the config and tensor names of Hugging Face, according to the encoder's row in
// gguf_encoders.c or in a family's file.
//
// Easy to get wrong: LLaVA's converter may exchange the names of the two layers of an FFN (their
// shapes show this), and a convolution over two video frames is stored as two convolutions over one
// frame each, which this file joins again.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/dtype.h"
#include "core/base/text.h"
#include "core/files/gguf_parts.h"

// --- selection of the encoder --------------------------------------------------------------------

static const struct gguf_encoder *(*of_families)(int index);

void gguf_encoders_register(const struct gguf_encoder *(*at)(int index))
{
    of_families = at;
}

// Returns encoder i: first the rows of the table, then those of the families; NULL after the last.
static const struct gguf_encoder *encoder_at(int i)
{
    int own = 0;
    while (gguf_encoders[own].type) own++;
    if (i < own) return &gguf_encoders[i];
    return of_families ? of_families(i - own) : NULL;
}

const struct gguf_encoder *gguf_encoder_find(const struct gguf *mmproj, const struct gguf *text,
                                             struct err *err)
{
    const char *type, *architecture = gguf_text(text, "general.architecture");
    // Files that may also hold an audio encoder store a projector type per encoder, one level
    // further down.
    if (gguf_text_read(mmproj, "clip.projector_type", &type, err) < 0 ||
        (!type && gguf_text_read(mmproj, "clip.vision.projector_type", &type, err) < 0)) {
        err_in(err, "'%s'", mmproj->path);
        return NULL;
    }
    if (!type) type = "mlp";
    struct buf known = { 0 };
    const struct gguf_encoder *e, *found = NULL, *last = NULL;
    bool fits = false; // `found` goes with this language model
    for (int i = 0; (e = encoder_at(i)); last = e, i++) {
        if ((!strcmp(type, e->type) || (e->also && !strcmp(type, e->also))) &&
            (!e->needs || gguf_find(mmproj, e->needs))) {
            const bool goes = e->texts && text_listed(e->texts, architecture);
            if (!found || (goes && !fits)) found = e, fits = goes;
        }
        if (!last || strcmp(last->type, e->type) != 0)
            buf_printf(&known, "%s%s", known.length ? ", " : "", e->type);
    }
    if (!found)
        err_set(err, "'%s': projector type '%s' is not supported (known: %s)", mmproj->path, type,
                known.data);
    buf_release(&known);
    return found;
}

int gguf_encoder_fits(const struct gguf_encoder *e, const struct gguf *mmproj,
                      const struct gguf *text, struct err *err)
{
    const char *architecture = gguf_text(text, "general.architecture");
    const struct safetensor *last = gguf_find(mmproj, e->last);
    const struct safetensor *embed = gguf_find(text, "token_embd.weight");
    char why[160];
    if (e->texts && !text_listed(e->texts, architecture))
        snprintf(why, sizeof why, "projector type '%s' does not go with architecture '%.60s'",
                 e->type, architecture ? architecture : "");
    else if (!last && gguf_find(mmproj, "token_embd.weight"))
        snprintf(why, sizeof why, "it is a language model");
    else if (!last || !embed || embed->rank != 2)
        snprintf(why, sizeof why, "tensor '%s' is missing, or not a matrix",
                 last ? "token_embd.weight" : e->last);
    else if (last->shape[e->last_columns] != embed->shape[1])
        snprintf(why, sizeof why, "its visual tokens are %lld numbers wide, the embeddings %lld",
                 (long long)last->shape[e->last_columns], (long long)embed->shape[1]);
    else
        return 0;
    return err_set(err, "the encoder '%s' does not belong to '%s': %s", mmproj->path, text->path,
                   why);
}

// --- config --------------------------------------------------------------------------------------

int gguf_encoder_config(const struct gguf_encoder *e, const struct gguf *mmproj,
                        const struct gguf *text, cJSON **config, cJSON **preprocessor,
                        struct err *err)
{
    cJSON *language = *config, *whole = e->flat ? language : cJSON_CreateObject();
    if (!e->flat) cJSON_AddItemToObject(whole, "text_config", language);
    *config = whole;
    *preprocessor = cJSON_CreateObject();
    cJSON_DeleteItemFromObjectCaseSensitive(whole, "architectures");
    cJSON_AddItemToArray(cJSON_AddArrayToObject(whole, "architectures"),
                         cJSON_CreateString(e->architecture));
    config_put_text(whole, "model_type", e->model_type);
    struct encoder_config to = { .text = text,
                                 .whole = whole,
                                 .vision = cJSON_AddObjectToObject(whole, "vision_config"),
                                 .preprocessor = *preprocessor,
                                 .c = { .file = mmproj, .arch = "clip.vision", .err = err } };
    struct gguf_config *c = &to.c;
    c->to = to.vision;
    e->read(&to);
    // vlmsh requires as many query heads as key/value heads and, unless `read` reads it, a head
    // width of width / heads.
    if (!e->blocks) return c->failed ? err_in(err, "'%s'", mmproj->path) : 0;
    const int64_t heads = config_value(c, "attention.head_count", 1, GGUF_NEEDED);
    const int64_t width = config_value(c, "embedding_length", 1, GGUF_NEEDED);
    const int64_t keys = config_value(c, "attention.head_count_kv", 0, heads);
    const int64_t one = c->failed ? 0 : config_value(c, "attention.head_dim", 0, width / heads);
    if (!c->failed && (keys != heads || (!e->own_heads && one != width / heads)))
        config_refuse(c,
                      "'clip.vision.attention.%s' is %lld, with %lld heads in a width of %lld; "
                      "this is not supported",
                      keys != heads ? "head_count_kv" : "head_dim",
                      (long long)(keys != heads ? keys : one), (long long)heads, (long long)width);
    return c->failed ? err_in(err, "'%s'", mmproj->path) : 0;
}

// --- tensors -------------------------------------------------------------------------------------

int64_t gguf_square_side(int64_t rows)
{
    const int64_t side = (int64_t)(sqrt((double)rows) + 0.5);
    return side * side == rows ? side : 0;
}

static void reshape(struct safetensor *t, enum gguf_form form)
{
    const int more = form == BARE_3D ? 3 - t->rank : 0;
    const int64_t side = gguf_square_side(t->shape[0]);
    if (form == SQUARE && t->rank == 2 && side) { // any other shape is refused later
        t->rank = 3;
        t->shape[2] = t->shape[1], t->shape[1] = t->shape[0] = side;
    }
    if (more <= 0) return;
    memmove(t->shape + more, t->shape, (size_t)t->rank * sizeof *t->shape);
    for (int i = 0; i < more; i++) t->shape[i] = 1;
    t->rank = 3;
}

// Returns whether each of an FFN's two layers has the name of the other one.
static bool ffn_exchanged(const struct gguf *f)
{
    const struct safetensor *down = gguf_find(f, "v.blk.0.ffn_down.weight");
    const struct safetensor *norm = gguf_find(f, "v.blk.0.ln1.weight");
    return down && norm && down->rank == 2 && down->shape[0] != norm->shape[0];
}

static const char PATCHES[] = "v.patch_embd.weight"; // the first of the two convolutions

// Joins two convolutions [D,3,p,p] into [D,3,2,p,p].
static int join_patches(const struct gguf_encoder *e, const struct gguf *f, struct renamed *r,
                        struct err *err)
{
    const struct safetensor *a = gguf_find(f, PATCHES);
    const struct safetensor *b = gguf_find(f, "v.patch_embd.weight.1");
    if (!a || !b || a->rank != 4 || b->rank != 4 || a->dtype != b->dtype || a->bytes != b->bytes)
        return err_set(err, "'%s': the two parts of the patch convolution are missing, or differ",
                       f->path);
    const uint64_t channels = (uint64_t)a->shape[0] * (uint64_t)a->shape[1];
    const size_t one = (size_t)(a->bytes / channels);
    char *both = renamed_make(r, 2 * a->bytes);
    if (!both) return err_set(err, "out of memory for the patch convolution");
    for (uint64_t i = 0; i < channels; i++) {
        memcpy(both + 2 * i * one, (const char *)a->data + i * one, one);
        memcpy(both + (2 * i + 1) * one, (const char *)b->data + i * one, one);
    }
    struct safetensor *t = renamed_add(r, a, xstrdup(e->patches));
    t->data = both;
    t->bytes = 2 * a->bytes;
    t->rank = 5;
    t->shape[4] = a->shape[3], t->shape[3] = a->shape[2], t->shape[2] = 2;
    return 0;
}

static const char MERGERS[] = "v.deepstack.", HEADS[] = "clip.vision.attention.head_count";

int gguf_deepstack_blocks(const struct gguf *f, int64_t *block, int most)
{
    const char *end;
    long number;
    int count = 0;
    for (uint64_t i = 0; i < f->tensor_count && count < most; i++) {
        char *stem = gguf_stem(f->tensors[i].name, MERGERS, &number, &end);
        const bool first = number >= 0 && !strcmp(stem, "norm") && !strcmp(end, ".weight");
        free(stem);
        if (!first) continue;
        int at = count++;
        for (; at && block[at - 1] > number; at--) block[at] = block[at - 1];
        block[at] = number;
    }
    return count;
}

// An encoder's file while its tensors are renamed.
struct encoder {
    const struct gguf_encoder *kind;
    const struct gguf *file;
    int64_t blocks, heads;
    int64_t merged[64]; // the blocks with a DeepStack merger, ascending
    int merged_count;
};

// Adds a tensor of a DeepStack merger. The file numbers a merger by its block, Hugging Face by its
// position among the mergers. Returns 1, or 0 for other tensors.
static int rename_merger(const struct encoder *e, const struct safetensor *t, struct renamed *r)
{
    const char *end;
    long number;
    if (!e->kind->mergers) return 0;
    char *stem = gguf_stem(t->name, MERGERS, &number, &end);
    const struct gguf_name *n = number < 0 ? NULL : gguf_name_find(e->kind->merger, stem);
    free(stem);
    const int count = n ? e->merged_count : 0;
    int i = 0;
    while (i < count && e->merged[i] != number) i++;
    if (i == count) return 0;
    renamed_add(r, t, xasprintf("%s%d.%s%s", e->kind->mergers, i, n->hf, end));
    return 1;
}

// Reorders each row of t, 3 planes of `area` numbers, so that the channels are last. Numbers in
// blocks become f32.
static int put_channels_last(struct renamed *r, struct safetensor *t, int64_t area, struct err *err)
{
    const int64_t count = safetensor_count(t);
    if (area < 1 || count % (3 * area) || t->dtype < 0 || t->dtype == DTYPE_I32)
        return err_set(err, "tensor '%.200s' does not hold numbers for 3 channels", t->stored);
    const bool packed = dtype_in_blocks((enum dtype)t->dtype);
    const size_t size = packed ? sizeof(float) : dtype_size((enum dtype)t->dtype);
    float *wide = packed ? malloc((size_t)count * size) : NULL;
    char *made = packed && !wide ? NULL : renamed_make(r, (uint64_t)count * size), *to = made;
    if (made && wide) floats_from(wide, t->data, (enum dtype)t->dtype, (size_t)count);
    const char *from = wide ? (const char *)wide : t->data;
    for (int64_t n = 0; made && n < count / (3 * area); n++)
        for (int64_t i = 0; i < area; i++)
            for (int64_t c = 0; c < 3; c++, to += size)
                memcpy(to, from + (size_t)((n * 3 + c) * area + i) * size, size);
    free(wide);
    if (!made) return err_set(err, "out of memory for tensor '%.200s'", t->stored);
    t->data = made;
    t->bytes = (uint64_t)count * size;
    if (packed) {
        t->dtype = DTYPE_F32;
        t->type = "F32";
    }
    return 0;
}

// Turns the weight of a convolution over patches [n, 3, side, side] into a matrix.
static int put_pixels(struct renamed *r, struct safetensor *t, struct err *err)
{
    const int64_t area = t->rank == 4 && t->shape[1] == 3 ? t->shape[2] * t->shape[3] : 0;
    if (put_channels_last(r, t, area, err) < 0) return -1;
    t->rank = 2;
    t->shape[1] = 3 * area;
    return 0;
}

// Exchanges the first two axes of t [2, n, width].
static int put_axes(struct renamed *r, struct safetensor *t, struct err *err)
{
    if (t->rank != 3 || t->shape[0] != 2 || t->dtype < 0 || dtype_in_blocks((enum dtype)t->dtype))
        return err_set(err, "tensor '%.200s' is not a table of positions for two axes", t->stored);
    const int64_t n = t->shape[1];
    const size_t row = (size_t)t->shape[2] * dtype_size((enum dtype)t->dtype);
    char *made = renamed_make(r, t->bytes);
    if (!made) return err_set(err, "out of memory for tensor '%.200s'", t->stored);
    for (int64_t i = 0; i < n; i++)
        for (int64_t axis = 0; axis < 2; axis++)
            memcpy(made + (size_t)(2 * i + axis) * row,
                   (const char *)t->data + (size_t)(axis * n + i) * row, row);
    t->data = made;
    t->shape[0] = n, t->shape[1] = 2;
    return 0;
}

static bool begins_with_any(const char *name, const char *const *starts)
{
    while (*starts && strncmp(name, *starts, strlen(*starts)) != 0) starts++;
    return *starts;
}

// Sets the order of rows of queries or keys whose rotary pairs are adjacent.
static int order_pairs(struct safetensor *t, const struct encoder *e, struct err *err)
{
    const int64_t head = t->shape[0] / e->heads;
    if (head > INT16_MAX || t->shape[0] % e->heads)
        return err_set(err, "'%s': tensor '%.200s' has %lld rows, but '%s' is %lld", e->file->path,
                       t->name, (long long)t->shape[0], HEADS, (long long)e->heads);
    t->order = (struct head_order){ (int16_t)head, (int16_t)head };
    return 0;
}

static int rename_tensor(const struct encoder *e, const struct safetensor *t, struct renamed *r,
                         struct err *err)
{
    // Parts that do not process pictures: the text half of CLIP, SigLIP's pooling head; and
    // Pixtral's copy of a row of the language model's embedding.
    static const char *const unused[] = { "t.",          "v.head.",       "text_projection",
                                          "logit_scale", "v.token_embd.", "visual_projection",
                                          NULL };
    static const char *const audio[] = { "a.", "mm.a.", NULL };
    const struct gguf_encoder *kind = e->kind;
    const char *end;
    long layer;
    if (begins_with_any(t->name, unused)) return 0;
    if (begins_with_any(t->name, audio)) { // not read; the name says so, as in model folders
        renamed_add(r, t, xasprintf("model.audio_tower.%s", t->name));
        return 0;
    }
    if (kind->patches && !strncmp(t->name, PATCHES, strlen(PATCHES)))
        return 0; // join_patches adds it
    if (rename_merger(e, t, r)) return 0;
    char *stem = gguf_stem(t->name, "v.blk.", &layer, &end);
    const bool up = !strcmp(stem, "ffn_up"), down = !strcmp(stem, "ffn_down");
    const char *gguf = (up || down) && ffn_exchanged(e->file) ? up ? "ffn_down" : "ffn_up" : stem;
    const struct gguf_name *n = gguf_name_find(layer < 0 ? kind->outer : kind->block, gguf);
    free(stem);
    if (layer >= e->blocks)
        return err_set(err,
                       "'%s': tensor '%.200s' belongs to a block beyond 'clip.vision.block_count', "
                       "which is %lld",
                       e->file->path, t->name, (long long)e->blocks);
    if (!n)
        return err_set(err,
                       "'%s': tensor '%.200s' is not known to projector type '%s', and without it "
                       "the model would misread pictures: open the model's folder instead, or "
                       "--mmproj none for text only",
                       e->file->path, t->name, kind->type);
    if (n->form == BARE || n->form == BARE_3D || n->form == AXES) end = "";
    char *name = layer < 0 ? xasprintf("%s%s", n->hf, end)
                           : xasprintf("%s%ld.%s%s", kind->blocks, layer, n->hf, end);
    struct safetensor *put = renamed_add(r, t, name);
    reshape(put, n->form);
    if (n->form == PAIRS) return order_pairs(put, e, err);
    if (n->form == PIXELS) return put_pixels(r, put, err);
    if (n->form == AXES) return put_axes(r, put, err);
    if (n->form == PLANES || (n->form == PLANES_OF_ROWS && put->rank == 2))
        return put_channels_last(r, put, put->shape[put->rank - 1] / 3, err);
    return n->form == LESS_1 ? renamed_less_1(r, put, err) : 0;
}

int gguf_encoder_tensors(const struct gguf_encoder *kind, const struct gguf *mmproj,
                         struct renamed *r, struct err *err)
{
    struct encoder e = { .kind = kind, .file = mmproj, .heads = 1 };
    if (gguf_int(mmproj, "clip.vision.block_count", 0, INT32_MAX, 0, &e.blocks, err) < 0 ||
        (kind->blocks && gguf_int(mmproj, HEADS, 1, INT32_MAX, 1, &e.heads, err) < 0))
        return -1;
    if (!kind->blocks) e.blocks = 0; // whatever the metadata says
    if (kind->mergers)
        e.merged_count =
            gguf_deepstack_blocks(mmproj, e.merged, sizeof e.merged / sizeof *e.merged);
    for (uint64_t i = 0; i < mmproj->tensor_count; i++)
        if (rename_tensor(&e, &mmproj->tensors[i], r, err) < 0) return -1;
    return kind->patches ? join_patches(kind, mmproj, r, err) : 0;
}
