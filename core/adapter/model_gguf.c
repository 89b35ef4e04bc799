// core/adapter/model_gguf.c -- a model as a GGUF file: metadata, tokenizer, then each tensor, a
// block of rows at a time.
//
// Keys and names: llama.cpp's gguf-py (constants.py, tensor_mapping.py) and converters.
// The step easy to get wrong: files of the architecture `llama` have the rows of queries and keys
// in another order (kernels/tensor.h, struct head_order).
#include "core/adapter/model_gguf.h"

#include <stdlib.h>
#include <string.h>

#include "core/adapter/model_write.h"
#include "core/base/dtype.h"
#include "core/base/mem.h"
#include "core/files/gguf.h"
#include "core/files/gguf_write.h"
#include "core/model/families/family.h"
#include "kernels/blocks.h"

enum { BLOCK_NUMBERS = 4 << 20 }; // numbers of a tensor that are worked on at a time

static const struct gguf_kind kinds[] = {
    { "q8_0", DTYPE_Q8_0, DTYPE_Q8_0, 7 },
    { "q4_k", DTYPE_Q4_K, DTYPE_Q6_K, 15 },
    { "f16", DTYPE_F16, DTYPE_F16, 1 },
    { "bf16", DTYPE_BF16, DTYPE_BF16, 32 },
    { 0 },
};

const struct gguf_kind *gguf_kind_find(const char *name)
{
    for (const struct gguf_kind *k = kinds; k->name; k++)
        if (!strcmp(k->name, name)) return k;
    return NULL;
}

char *gguf_kind_names(void)
{
    struct buf names = { 0 };
    for (const struct gguf_kind *k = kinds; k->name; k++)
        buf_printf(&names, "%s%s", k == kinds ? "" : ", ", k->name);
    return buf_take(&names);
}

// One of llama.cpp's architectures.
static const struct architecture {
    const char *family, *name; // of a language model's family here, and there
    bool paired;               // rows of queries and keys are in the other order
} architectures[] = {
    { "llama", "llama", true },
    { "mistral", "llama", true },
    { "qwen2", "qwen2", false },
    { "qwen3", "qwen3", false },
    { 0 },
};

struct export
{
    const struct model *model;
    const struct gguf_kind *kind;
    const struct architecture *architecture;
    const struct load_progress *progress;
    struct gguf_writer *out;
    struct gguf_summary *summary;
    uint64_t done;
};

static const struct architecture *find_architecture(const struct model *m, struct err *err)
{
    struct buf known = { 0 };
    for (const struct architecture *a = architectures; a->family; a++) {
        const struct family *f = family_named(a->family);
        if (f && f->decoder == m->decoder.config.kind) {
            buf_release(&known);
            return a;
        }
        buf_printf(&known, "%s%s", a == architectures ? "" : ", ", a->family);
    }
    err_set(err, "the language model of the family %s cannot be written as GGUF (known: %s)",
            m->family->name, known.data);
    buf_release(&known);
    return NULL;
}

// --- metadata ------------------------------------------------------------------------------------

static void put_u32(struct export *e, const char *key, int64_t value)
{
    char *whole = xasprintf("%s.%s", e->architecture->name, key);
    gguf_writer_u32(e->out, whole, (uint32_t)value);
    free(whole);
}

static void put_f32(struct export *e, const char *key, double value)
{
    char *whole = xasprintf("%s.%s", e->architecture->name, key);
    gguf_writer_f32(e->out, whole, (float)value);
    free(whole);
}

// A scaling that files say in another way, as divisors of the frequencies.
static bool has_divisors(const struct rope_config *r)
{
    const char *name = rope_scaling_name(r);
    return !strcmp(name, "llama3") || !strcmp(name, "divisors");
}

static int put_rotary(struct export *e, struct err *err)
{
    const struct rope_config *r = &e->model->decoder.config.rope;
    const char *name = rope_scaling_name(r);
    char *key = xasprintf("%s.rope.scaling.type", e->architecture->name);
    int status = 0;
    put_u32(e, "rope.dimension_count", r->dim);
    put_f32(e, "rope.freq_base", r->theta);
    if (!strcmp(name, "linear") || !strcmp(name, "yarn")) {
        gguf_writer_text(e->out, key, name);
        put_f32(e, "rope.scaling.factor", r->factor);
        if (*name == 'y')
            put_u32(e, "rope.scaling.original_context_length", (int64_t)r->original_positions);
    } else if (strcmp(name, "default") != 0 && !has_divisors(r)) {
        status = err_set(err, "the rotary scaling \"%s\" cannot be written as GGUF", name);
    }
    free(key);
    return status;
}

static int put_sizes(struct export *e, struct err *err)
{
    const struct decoder_config *d = &e->model->decoder.config;
    const char *slash = strrchr(e->model->name, '/');
    gguf_writer_text(e->out, "general.architecture", e->architecture->name);
    gguf_writer_text(e->out, "general.name", slash && slash[1] ? slash + 1 : e->model->name);
    gguf_writer_u32(e->out, "general.file_type", e->kind->file_type);
    gguf_writer_u32(e->out, "general.quantization_version", 2);
    put_u32(e, "block_count", d->layers);
    put_u32(e, "context_length", d->max_positions);
    put_u32(e, "embedding_length", d->hidden);
    put_u32(e, "feed_forward_length", d->ffn);
    put_u32(e, "attention.head_count", d->heads);
    put_u32(e, "attention.head_count_kv", d->kv_heads);
    put_u32(e, "attention.key_length", d->dim);
    put_u32(e, "attention.value_length", d->dim);
    put_u32(e, "vocab_size", d->vocab);
    put_f32(e, "attention.layer_norm_rms_epsilon", d->eps);
    return put_rotary(e, err);
}

static void put_texts(struct export *e, const char *key, const struct token_text *list,
                      size_t count)
{
    gguf_writer_texts(e->out, key, count);
    for (size_t i = 0; i < count; i++) gguf_writer_text_of(e->out, list[i].text, list[i].length);
}

static void put_types(struct export *e, const struct token_list *l)
{
    int32_t *types = xreallocarray(NULL, l->count + 1, sizeof *types);
    for (size_t i = 0; i < l->count; i++) types[i] = l->types[i];
    gguf_writer_i32s(e->out, "tokenizer.ggml.token_type", types, l->count);
    free(types);
}

static void put_id(struct export *e, const char *name, int32_t id)
{
    char *key = xasprintf("tokenizer.ggml.%s_token_id", name);
    if (id >= 0) gguf_writer_u32(e->out, key, (uint32_t)id);
    free(key);
}

// Id of a token that tokenizer_config.json names by its text, alone or in an object; -1: none.
static int32_t named_token(const struct model *m, const char *key)
{
    const cJSON *token = json_get(m->checkpoint->tokenizer_config, key);
    if (cJSON_IsObject(token)) token = json_get(token, "content");
    return cJSON_IsString(token) ? tokenizer_id(m->tokenizer, token->valuestring) : -1;
}

// Besides the token that ends a text, two more that end an answer have a key.
static void put_ids(struct export *e, const struct token_list *l)
{
    static const char *const names[] = { "eot", "eom" };
    const struct model *m = e->model;
    const int32_t bos = named_token(m, "bos_token");
    int32_t eos = named_token(m, "eos_token");
    if (eos < 0 && m->eos.count) eos = m->eos.data[0];
    put_id(e, "bos", l->bos >= 0 ? l->bos : bos);
    put_id(e, "eos", eos);
    put_id(e, "unknown", named_token(m, "unk_token"));
    put_id(e, "padding", named_token(m, "pad_token"));
    for (size_t i = 0, n = 0; i < m->eos.count && n < 2; i++)
        if (m->eos.data[i] != eos) put_id(e, names[n++], m->eos.data[i]);
}

static int put_tokenizer(struct export *e, struct err *err)
{
    const struct model *m = e->model;
    struct token_export *x = tokenizer_export(m->tokenizer, m->decoder.config.vocab, err);
    if (!x) return -1;
    const struct token_list *l = token_export_list(x);
    gguf_writer_text(e->out, "tokenizer.ggml.model", l->model);
    if (l->pre) gguf_writer_text(e->out, "tokenizer.ggml.pre", l->pre);
    put_texts(e, "tokenizer.ggml.tokens", l->tokens, l->count);
    put_types(e, l);
    if (l->scores) gguf_writer_f32s(e->out, "tokenizer.ggml.scores", l->scores, l->count);
    if (l->merges) put_texts(e, "tokenizer.ggml.merges", l->merges, l->merge_count);
    put_ids(e, l);
    gguf_writer_bool(e->out, "tokenizer.ggml.add_bos_token", l->add_bos);
    gguf_writer_bool(e->out, "tokenizer.ggml.add_eos_token", l->add_eos);
    if (l->scores) {
        gguf_writer_bool(e->out, "tokenizer.ggml.add_space_prefix", l->prefix);
        gguf_writer_bool(e->out, "tokenizer.ggml.remove_extra_whitespaces", l->squeeze);
    }
    if (m->checkpoint->chat_template)
        gguf_writer_text(e->out, "tokenizer.chat_template", m->checkpoint->chat_template);
    token_export_free(x);
    return 0;
}

// --- tensors -------------------------------------------------------------------------------------

static bool is_written(const struct weight *w)
{
    return w->part == PART_EMBEDDING || w->part == PART_DECODER || w->part == PART_HEAD;
}

// Numbers of a row, of a vector 1.
static int64_t row_width(const struct weight *w)
{
    const int64_t width = w->tensor->rank > 1 ? tensor_row(w->tensor) : 1;
    return width > 0 ? width : 1;
}

// A matrix's dtype: the kind's, or with smaller blocks, or none, where its rows do not fit.
static enum dtype dtype_of(const struct export *e, const struct weight *w)
{
    const int64_t width = tensor_row(w->tensor);
    if (w->tensor->rank < 2) return DTYPE_F32;
    const enum dtype first = w->part == PART_DECODER ? e->kind->matrix : e->kind->outer;
    const enum dtype order[] = { first, DTYPE_Q8_0, DTYPE_F16 };
    int i = 0;
    while (i < 2 && width % dtype_form(order[i]).numbers) i++;
    return order[i];
}

static void declare(struct export *e, const struct weight *w)
{
    const enum dtype dtype = dtype_of(e, w);
    char *plain = weight_plain_name(w->common), *name = gguf_text_theirs(plain);
    if (!name) BUG("'%s' has no name in GGUF files", plain);
    gguf_writer_declare(e->out, name, dtype, w->tensor->rank, w->tensor->shape);
    e->summary->bytes += dtype_bytes(dtype, tensor_count(w->tensor));
    if (w->tensor->rank > 1) {
        e->summary->tensors++;
        e->summary->other += dtype != (w->part == PART_DECODER ? e->kind->matrix : e->kind->outer);
    }
    free(name);
    free(plain);
}

// What brings a weight's rows from Hugging Face's order into the file's.
static struct head_order order_in_file(const struct export *e, const struct weight *w)
{
    const int16_t dim = (int16_t)e->model->decoder.config.dim;
    const bool turned =
        strstr(w->common, "self_attn.q_proj.") || strstr(w->common, "self_attn.k_proj.");
    if (!turned || !e->architecture->paired) return (struct head_order){ 0 };
    return (struct head_order){ dim, (int16_t)-dim };
}

// n numbers, of whole rows, as they lie in the file.
static void pack(void *to, enum dtype dtype, const float *from, int64_t rows, int64_t width)
{
    const int64_t bytes = (int64_t)dtype_bytes(dtype, width);
#pragma omp parallel for schedule(dynamic, 4)
    for (int64_t i = 0; i < rows; i++) {
        char *row = (char *)to + i * bytes;
        if (dtype_in_blocks(dtype))
            blocks_pack(row, dtype, from + i * width, width);
        else
            floats_to(row, dtype, from + i * width, (size_t)width);
    }
}

static int check_range(const struct weight *w, enum dtype dtype, const void *bytes, float *room,
                       int64_t n, struct err *err)
{
    floats_from(room, bytes, dtype, (size_t)n);
    if (floats_finite(room, (size_t)n)) return 0;
    return err_set(err, "tensor '%s' has values that overflow %s", w->name, dtype_form(dtype).name);
}

static int put_rows(struct export *e, const struct weight *w, int64_t first, int64_t rows,
                    struct err *err)
{
    const int64_t width = row_width(w);
    const enum dtype dtype = dtype_of(e, w);
    const size_t bytes = dtype_bytes(dtype, rows * width);
    float *floats = xreallocarray(NULL, (size_t)(rows * width), sizeof *floats);
    char *packed = xmalloc(bytes);
    int status = model_weight_rows(e->model, w, first, rows, floats, err);
    if (status == 0 && !floats_finite(floats, (size_t)(rows * width)))
        status = err_set(err, "tensor '%s' has values that are not finite", w->name);
    if (status == 0) {
        rows_reorder(floats, rows, width, order_in_file(e, w));
        pack(packed, dtype, floats, rows, width);
        status = check_range(w, dtype, packed, floats, rows * width, err);
    }
    if (status == 0) status = gguf_writer_data(e->out, packed, bytes, err);
    free(packed);
    free(floats);
    e->done += bytes;
    if (status == 0 && e->progress && e->progress->report &&
        !e->progress->report(e->progress->self, e->done, e->summary->bytes))
        status = err_set(err, "cancelled");
    return status;
}

static int put_tensor(struct export *e, const struct weight *w, struct err *err)
{
    const int64_t all = w->tensor->shape[0];
    const int64_t width = row_width(w);
    const struct head_order now = w->tensor->order, then = order_in_file(e, w);
    const int64_t head = now.head ? now.head : then.head ? then.head : 1;
    int64_t step = BLOCK_NUMBERS / width / head * head;
    if (step < head) step = head;
    for (int64_t i = 0; i < all; i += step)
        if (put_rows(e, w, i, all - i < step ? all - i : step, err) < 0) return -1;
    return 0;
}

// What divides the frequency of each pair.
static int put_divisors(struct export *e, struct err *err)
{
    const struct rope_config *r = &e->model->decoder.config.rope;
    const int64_t pairs = r->dim / 2;
    float *scaled = xcalloc((size_t)pairs, sizeof *scaled);
    struct rope_config plain = *r;
    float *usual = xcalloc((size_t)pairs, sizeof *usual);
    plain.scaling = NULL;
    rope_frequencies(r, scaled);
    rope_frequencies(&plain, usual);
    for (int64_t i = 0; i < pairs; i++) usual[i] /= scaled[i];
    const int status = gguf_writer_data(e->out, usual, (size_t)pairs * sizeof *usual, err);
    free(scaled);
    free(usual);
    return status;
}

static int put_tensors(struct export *e, struct err *err)
{
    const struct model *m = e->model;
    const struct rope_config *r = &m->decoder.config.rope;
    if (has_divisors(r))
        gguf_writer_declare(e->out, "rope_freqs.weight", DTYPE_F32, 1, (int64_t[]){ r->dim / 2 });
    for (size_t i = 0; i < m->weights.count; i++)
        if (is_written(&m->weights.list[i])) declare(e, &m->weights.list[i]);
    if (has_divisors(r) && put_divisors(e, err) < 0) return -1;
    for (size_t i = 0; i < m->weights.count; i++)
        if (is_written(&m->weights.list[i]) && put_tensor(e, &m->weights.list[i], err) < 0)
            return -1;
    return 0;
}

int model_write_gguf(const struct model *m, const struct gguf_kind *kind, const char *path,
                     const struct load_progress *progress, struct gguf_summary *summary,
                     struct err *err)
{
    struct export e = { .model = m,
                        .kind = kind,
                        .architecture = find_architecture(m, err),
                        .progress = progress,
                        .summary = summary };
    *summary = (struct gguf_summary){ 0 };
    if (!e.architecture) return -1;
    e.out = gguf_writer_new(path);
    if (put_sizes(&e, err) == 0 && put_tokenizer(&e, err) == 0 && put_tensors(&e, err) == 0)
        return gguf_writer_finish(e.out, err);
    gguf_writer_abandon(e.out);
    return -1;
}
