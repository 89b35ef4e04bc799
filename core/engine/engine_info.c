// core/engine/engine_info.c -- describes the engine's model, its memory use and its chat template.
#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/file_in.h"
#include "core/base/names.h"
#include "core/base/utf8.h"
#include "core/engine/device.h"
#include "core/engine/engine_parts.h"
#include "core/files/quantised/quantised.h"
#include "core/files/safetensors.h"
#include "core/model/companions.h"
#include "core/model/families/family.h"
#include "core/probes/results.h"

void engine_info(const struct engine *e, struct event_info *info)
{
    const struct model *m = e->model;
    const struct decoder_config *d = &m->decoder.config;
    const struct vision_config *c = &m->vision.config;
    struct model_part parts[MODEL_PARTS];
    *info = (struct event_info){ .family = m->family->name,
                                 .path = m->checkpoint->gguf_count ? m->checkpoint->shards[0]->path
                                                                   : m->checkpoint->name,
                                 .fingerprint = m->checkpoint->fingerprint,
                                 .device = device_text(e->backend),
                                 .arithmetic = engine_arithmetic(e),
                                 .layers = d->layers,
                                 .width = d->hidden,
                                 .heads = d->heads,
                                 .kv_heads = d->kv_heads,
                                 .ffn = d->ffn,
                                 .vocabulary = d->vocab,
                                 .positions = d->max_positions };
    model_count(m, parts);
    for (int i = 0; i < MODEL_PARTS; i++) info->parameters += parts[i].parameters;
    if (model_has_vision(m)) {
        info->visual_layers = vision_depth(c);
        info->visual_width = c->hidden;
        info->patch = c->patch;
        info->side = c->image_size;
    }
    if (info->side) {
        struct picture_shape usual = { 0 };
        m->family->pictures->usual(m, &usual.width, &usual.height);
        info->visual_tokens = m->family->pictures->tokens(m, usual);
    }
}

static void add_vision(struct table_builder *t, const struct model *m)
{
    const struct vision_config *c = &m->vision.config;
    if (c->layers)
        table_row(t, "vision encoder|%d of %d layers, width %" PRId64 ", %" PRId64 " heads",
                  vision_depth(c), c->layers, c->hidden, c->heads);
    else
        table_row(t, "vision encoder|none: one linear layer for each patch, width %" PRId64,
                  c->hidden);
    table_add(t, "picture");
    if (m->picture.fit == FIT_SLICES) {
        const int64_t side = m->picture.scale;
        table_add(t,
                  "overview and at most %" PRId64 " slices of the area of %" PRId64 " x %" PRId64
                  " pixels, patches of %" PRId64,
                  m->picture.max_tiles, side, side, c->patch);
        return;
    }
    if (!c->image_size) {
        table_add(t, "native resolution, patches of %" PRId64, c->patch);
        return;
    }
    struct picture_shape usual = { 0 };
    m->family->pictures->usual(m, &usual.width, &usual.height);
    const int64_t tokens = m->family->pictures->tokens(m, usual);
    if (usual.width == c->image_size && usual.height == c->image_size)
        table_add(t, "%" PRId64 " pixels a side, patches of %" PRId64 ", %" PRId64 " visual tokens",
                  c->image_size, c->patch, tokens);
    else
        table_add(t,
                  "tiles of %" PRId64 " pixels a side, patches of %" PRId64 ", %" PRId64
                  " visual tokens for %" PRId64 " x %" PRId64 " pixels",
                  c->image_size, c->patch, tokens, usual.width, usual.height);
}

// Adds the formats of quantised matrices, and how many matrices of each part are not quantised.
static void show_quantised(struct table_builder *t, const struct model *m)
{
    const struct checkpoint *c = m->checkpoint;
    int64_t plain[MODEL_PARTS] = { 0 };
    struct buf b = { 0 };
    char *text = quantised_text(c);
    if (!text) return;
    table_row(t, "quantised|%s", text);
    for (int64_t i = 0; i < c->tensor_count; i++)
        if (c->tensors[i]->rank >= 2 && !quantised_has(c, c->tensors[i]->name))
            plain[m->family->part(m, c->tensors[i]->name)]++;
    for (int i = 0; i < MODEL_PARTS; i++)
        if (plain[i])
            buf_printf(&b, "%s%" PRId64 " of the %s", b.length ? ", " : "", plain[i],
                       part_name((enum model_part_kind)i));
    table_row(t, "plain matrices|%s", b.length ? b.data : "none");
    buf_release(&b);
    free(text);
}

static void show_model(const struct engine *e, const char *unknown)
{
    const struct model *m = e->model;
    const struct decoder_config *d = &m->decoder.config;
    const cJSON *names = json_get(m->checkpoint->config, "architectures");
    const cJSON *first = cJSON_IsArray(names) ? cJSON_GetArrayItem(names, 0) : NULL;
    struct table_builder t;
    table_begin(&t, "model", "field|value");
    table_row(&t, "family|%s", m->family->name);
    if (first && cJSON_IsString(first)) table_row(&t, "architecture|%s", first->valuestring);
    const struct checkpoint *c = m->checkpoint;
    if (!c->gguf_count) table_row(&t, "folder|%s", c->name);
    for (int i = 0; i < c->gguf_count; i++) table_row(&t, "file|%s", c->shards[i]->path);
    if (*m->checkpoint->fingerprint)
        table_row(&t, "fingerprint|%s", m->checkpoint->fingerprint);
    else
        table_row(&t, "fingerprint|not known yet: %s", unknown);
    show_quantised(&t, m);
    if (m->mixed) table_row(&t, "matrices|%s", m->mixed);
    if (m->unread) table_row(&t, "not read|%s", m->unread);
    if (model_has_vision(m)) add_vision(&t, m);
    table_row(&t,
              "decoder|%d layers, width %" PRId64 ", %" PRId64 " heads, %" PRId64
              " key-value heads, ffn %" PRId64 "%s",
              d->layers, d->hidden, d->heads, d->kv_heads, d->ffn, d->tied ? ", tied head" : "");
    table_row(&t, "vocabulary|%" PRId64, (int64_t)d->vocab);
    table_row(&t, "positions|%" PRId64, (int64_t)d->max_positions);
    int sliding = 0;
    for (int l = 0; l < d->layers; l++) sliding += decoder_slides(d, l);
    if (sliding)
        table_row(&t, "sliding window|%" PRId64 " tokens, in %d of %d layers", (int64_t)d->window,
                  sliding, d->layers);
    table_add(&t, "chat template");
    table_take(&t, companions_template(m));
    table_add(&t, "end of answers");
    table_take(&t, companions_ends(m));
    char *sampling = unused_generation(m);
    if (sampling) table_row(&t, "sampling, not used|%s", sampling);
    free(sampling);
    if (model_has_vision(m)) {
        table_add(&t, "preprocessor");
        table_take(&t, companions_preprocessor(m));
    }
    table_row(&t, "device|%s", device_text(e->backend));
    table_row(&t, "arithmetic|%s (compute.matmul %s)", engine_arithmetic(e),
              settings_text(e->settings, "compute.matmul"));
    table_emit(&t, e->sinks);
}

static void show_parts(const struct engine *e)
{
    struct model_part parts[MODEL_PARTS];
    int64_t parameters = 0;
    uint64_t bytes = 0;
    struct table_builder t;
    model_count(e->model, parts);
    table_begin(&t, "parameters", "part|parameters#|dtype|bytes#");
    for (int i = 0; i < MODEL_PARTS; i++) {
        if (!parts[i].parameters) continue;
        table_row(&t, "%s|%" PRId64 "|%s|%" PRIu64, parts[i].name, parts[i].parameters,
                  dtype_form(parts[i].dtype).name, parts[i].bytes);
        parameters += parts[i].parameters;
        bytes += parts[i].bytes;
    }
    table_row(&t, "total|%" PRId64 "|%s|%" PRIu64, parameters, "", bytes);
    table_emit(&t, e->sinks);
}

// Returns the number of bytes that /proc/self/status gives for a key ("VmRSS:"); 0: unknown.
static uint64_t process_bytes(const char *key)
{
    uint64_t kb = 0;
    return file_number("/proc/self/status", key, &kb) ? kb * 1024 : 0;
}

static void add_memory(struct table_builder *t, const char *what, uint64_t bytes)
{
    table_row(t, "%s|%" PRIu64 "|%.1f MiB", what, bytes, (double)bytes / (1 << 20));
}

static void show_memory(const struct engine *e)
{
    const struct model *m = e->model;
    struct table_builder t;
    table_begin(&t, "memory", "memory|bytes#|size");
    if (m) {
        add_memory(&t, "weights (mapped)", checkpoint_mapped(m->checkpoint));
        add_memory(&t, "weights (converted)", m->arena.reserved);
        add_memory(&t, "keys and values", kv_bytes(&e->conversation.kv));
        if (kv_recurrent(&e->conversation.kv))
            add_memory(&t, "recurrent states", kv_state_bytes(&e->conversation.kv));
        add_memory(&t, "activations", e->conversation.step.reserved);
    }
    add_memory(&t, "resident", process_bytes("VmRSS:"));
    add_memory(&t, "peak resident", process_bytes("VmHWM:"));
    table_emit(&t, e->sinks);
}

void engine_show(struct engine *e, const char *unknown)
{
    struct event_info info;
    if (e->model) {
        show_model(e, unknown);
        engine_info(e, &info);
        engine_emit(e, &(struct event){ .kind = EVENT_INFO, .info = &info });
        show_parts(e);
    } else {
        sinks_text(e->sinks, "no model is loaded; device: %s", device_text(e->backend));
    }
    show_memory(e);
}

// --- memory, layer by layer ----------------------------------------------------------------------

static void put_size(struct result_table *t, const char *what, double bytes)
{
    result_row(t, "%s", what)[0] = bytes / (1 << 20);
}

static void put_model(struct result_table *t, const struct model *m)
{
    double mapped = 0, resident = 0;
    for (int i = 0; i < m->checkpoint->shard_count; i++) {
        mapped += (double)m->checkpoint->shards[i]->size;
        resident += (double)safetensors_resident(m->checkpoint->shards[i]);
    }
    put_size(t, "weights, mapped", mapped);
    put_size(t, "weights, resident", resident);
    put_size(t, "weights, converted", (double)m->arena.reserved);
}

static void put_conversation(struct result_table *t, const struct conversation *c)
{
    double visual = 0, files = 0;
    for (size_t i = 0; i < c->picture_count; i++) {
        const struct picture *p = &c->pictures[i];
        if (p->visual) visual += (double)tensor_bytes(p->visual);
        files += (double)p->size;
        if (p->image.pixels)
            files += (double)p->image.width * (double)p->image.height * p->image.channels;
    }
    put_size(t, "pictures: files and pixels", files);
    put_size(t, "visual tokens", visual);
    put_size(t, "keys and values", (double)kv_bytes(&c->kv));
    if (kv_recurrent(&c->kv)) put_size(t, "recurrent states", (double)kv_state_bytes(&c->kv));
    put_size(t, "state of methods (pruning's h[K+1])", (double)methods_bytes(&c->methods));
    put_size(t, "activations, peak", (double)c->step.peak);
    put_size(t, "activations, reserved", (double)c->step.reserved);
}

static void put_layers(struct results *r, const struct kv *kv)
{
    struct result_table *t =
        results_table(r, "memory.layers", "layer|rows|MiB in use|MiB reserved");
    for (int l = 0; l < kv->layers; l++) {
        const struct kv_layer *k = &kv->layer[l];
        const double row = (double)kv_row_bytes(kv, l);
        double *v = result_row(t, "%d", l);
        v[0] = (double)k->rows;
        v[1] = (double)k->rows * row / (1 << 20);
        v[2] = (double)(tensor_bytes(&k->k) + tensor_bytes(&k->v)) / (1 << 20);
        const double states = (double)(tensor_bytes(&k->state) + tensor_bytes(&k->tail));
        v[1] += states / (1 << 20);
        v[2] += states / (1 << 20);
    }
}

void engine_memory(const struct engine *e, struct results *r)
{
    struct result_table *t = results_table(r, "memory", "what|MiB");
    put_model(t, e->model);
    put_conversation(t, &e->conversation);
    put_size(t, "process, resident", (double)process_bytes("VmRSS:"));
    put_size(t, "process, peak", (double)process_bytes("VmHWM:"));
    put_layers(r, &e->conversation.kv);
}

// --- the chat template ---------------------------------------------------------------------------

static bool is_of_name(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

// Finds the tag, {% %} or {{ }}, around byte `at` of the template. Returns false if `at` is not in
// a tag, or far from its ends.
static bool find_tag(const char *text, size_t at, size_t *begin, size_t *end)
{
    enum { NEARBY = 2000 };
    size_t from = at, to = at;
    while (from && at - from < NEARBY && strncmp(text + from, "{%", 2) &&
           strncmp(text + from, "{{", 2))
        from--;
    const bool statement = text[from] == '{' && text[from + 1] == '%';
    if (!statement && strncmp(text + from, "{{", 2) != 0) return false;
    const char *close = statement ? "%}" : "}}";
    while (text[to] && to - at < NEARBY && strncmp(text + to, close, 2) != 0) to++;
    if (strncmp(text + to, close, 2) != 0) return false;
    const char *former = memmem(text + from, at - from, close, 2); // `at` follows this tag
    *begin = from;
    *end = to + 2;
    return !former;
}

char *engine_template_tags(const struct engine *e, const char *variable)
{
    enum { MOST = 4, MENTIONS = 1000, LENGTH = 160 };
    const char *text = e->model ? e->model->checkpoint->chat_template : NULL;
    const size_t n = strlen(variable);
    struct names tags = { 0 };
    struct buf b = { 0 };
    const char *at = text;
    for (int i = 0; at && i < MENTIONS && tags.count < MOST && (at = strstr(at, variable));
         at += n, i++) {
        size_t begin, end;
        if ((at > text && is_of_name(at[-1])) || is_of_name(at[n]) ||
            !find_tag(text, (size_t)(at - text), &begin, &end))
            continue;
        char *tag = xstrndup(text + begin, end - begin);
        for (char *p = tag; *p; p++)
            if (*p == '\n') *p = ' ';
        char *line =
            strlen(tag) > LENGTH ? xasprintf("%.*s...", utf8_head(tag, LENGTH), tag) : xstrdup(tag);
        names_add(&tags, line, NULL);
        free(line);
        free(tag);
    }
    for (size_t i = 0; i < tags.count; i++) buf_printf(&b, "%s\n", tags.list[i]);
    names_release(&tags);
    return buf_take(&b);
}
