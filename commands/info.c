// commands/info.c -- /info: the loaded model, its size and memory.
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands/command.h"
#include "core/model/companions.h"
#include "core/model/families/family.h"
#include "core/model/unused.h"

static void add_row(struct table_builder *t, const char *name, const char *value)
{
    table_add(t, "%s", name);
    table_add(t, "%s", value);
}

// Takes the value over.
static void add_taken(struct table_builder *t, const char *name, char *value)
{
    add_row(t, name, value);
    free(value);
}

static void add_number(struct table_builder *t, const char *name, int64_t value)
{
    table_add(t, "%s", name);
    table_add(t, "%" PRId64, value);
}

static void add_vision(struct table_builder *t, const struct model *m)
{
    const struct vision_config *c = &m->vision.config;
    table_add(t, "vision encoder");
    table_add(t, "%d of %d layers, width %" PRId64 ", %" PRId64 " heads", vision_depth(c),
              c->layers, c->hidden, c->heads);
    table_add(t, "picture");
    if (!c->image_size) {
        table_add(t, "native resolution, patches of %" PRId64, c->patch);
        return;
    }
    struct picture_shape usual = { 0 };
    m->family->picture_usual(m, &usual.width, &usual.height);
    const int64_t tokens = m->family->picture_tokens(m, usual);
    if (usual.width == c->image_size && usual.height == c->image_size)
        table_add(t, "%" PRId64 " pixels a side, patches of %" PRId64 ", %" PRId64 " visual tokens",
                  c->image_size, c->patch, tokens);
    else
        table_add(t,
                  "tiles of %" PRId64 " pixels a side, patches of %" PRId64 ", %" PRId64
                  " visual tokens for %" PRId64 " x %" PRId64 " pixels",
                  c->image_size, c->patch, tokens, usual.width, usual.height);
}

// The folder, or the GGUF files.
static void add_files(struct table_builder *t, const struct checkpoint *c)
{
    if (!c->gguf_count) add_row(t, "folder", c->name);
    for (int i = 0; i < c->gguf_count; i++) add_row(t, "file", c->shards[i]->path);
}

static void show_model(const struct shell *shell, const struct model *m)
{
    static const char *const columns[] = { "what", "value" };
    static const bool numeric[] = { false, false };
    const struct decoder_config *d = &m->decoder.config;
    const cJSON *names = json_get(m->checkpoint->config, "architectures");
    const cJSON *first = cJSON_IsArray(names) ? cJSON_GetArrayItem(names, 0) : NULL;
    struct table_builder t;
    table_begin(&t, "model", 2, columns, numeric);
    add_row(&t, "family", m->family->name);
    if (first && cJSON_IsString(first)) add_row(&t, "architecture", first->valuestring);
    add_files(&t, m->checkpoint);
    add_row(&t, "fingerprint", m->checkpoint->fingerprint);
    if (m->unread) add_row(&t, "not read", m->unread);
    if (model_sees(m)) add_vision(&t, m);
    table_add(&t, "decoder");
    table_add(&t,
              "%d layers, width %" PRId64 ", %" PRId64 " heads, %" PRId64 " key-value heads, ffn "
              "%" PRId64 "%s",
              d->layers, d->hidden, d->heads, d->kv_heads, d->ffn, d->tied ? ", tied head" : "");
    add_number(&t, "vocabulary", d->vocab);
    add_number(&t, "positions", d->max_positions);
    if (d->window) add_number(&t, "sliding window", d->window);
    add_taken(&t, "chat template", companions_template(m));
    add_taken(&t, "end of answers", companions_ends(m));
    char *sampling = unused_generation(m);
    if (sampling) add_row(&t, "sampling, not used", sampling);
    free(sampling);
    if (model_sees(m)) add_taken(&t, "preprocessor", companions_preprocessor(m));
    add_row(&t, "device", engine_backend(shell->engine)->describe());
    table_add(&t, "arithmetic");
    table_add(&t, "%s (compute.matmul %s)", engine_arithmetic(shell->engine),
              settings_text(engine_settings(shell->engine), "compute.matmul"));
    table_emit(&t, shell->sinks);
}

// The same as fields, for programs.
static void tell_model(const struct shell *shell, const struct model *m)
{
    const struct decoder_config *d = &m->decoder.config;
    const struct vision_config *c = &m->vision.config;
    struct model_part parts[MODEL_PARTS];
    struct event_info info = { .family = m->family->name,
                               .path = m->checkpoint->gguf_count ? m->checkpoint->shards[0]->path
                                                                 : m->checkpoint->name,
                               .fingerprint = m->checkpoint->fingerprint,
                               .device = engine_backend(shell->engine)->describe(),
                               .arithmetic = engine_arithmetic(shell->engine),
                               .layers = d->layers,
                               .width = d->hidden,
                               .heads = d->heads,
                               .kv_heads = d->kv_heads,
                               .ffn = d->ffn,
                               .vocabulary = d->vocab,
                               .positions = d->max_positions };
    model_count(m, parts);
    for (int i = 0; i < MODEL_PARTS; i++) info.parameters += parts[i].parameters;
    if (model_sees(m)) {
        info.visual_layers = vision_depth(c);
        info.visual_width = c->hidden;
        info.patch = c->patch;
        info.side = c->image_size;
    }
    if (info.side) {
        struct picture_shape usual = { 0 };
        m->family->picture_usual(m, &usual.width, &usual.height);
        info.visual_tokens = m->family->picture_tokens(m, usual);
    }
    sinks_emit(shell->sinks, &(struct event){ .kind = EVENT_INFO, .info = &info });
}

static void show_parts(const struct shell *shell, const struct model *m)
{
    static const char *const columns[] = { "part", "parameters", "dtype", "bytes" };
    static const bool numeric[] = { false, true, false, true };
    struct model_part parts[MODEL_PARTS];
    int64_t parameters = 0;
    uint64_t bytes = 0;
    struct table_builder t;
    model_count(m, parts);
    table_begin(&t, "parameters", 4, columns, numeric);
    for (int i = 0; i < MODEL_PARTS; i++) {
        if (!parts[i].parameters) continue;
        table_add(&t, "%s", parts[i].name);
        table_add(&t, "%" PRId64, parts[i].parameters);
        table_add(&t, "%s", dtype_form(parts[i].dtype).name);
        table_add(&t, "%" PRIu64, parts[i].bytes);
        parameters += parts[i].parameters;
        bytes += parts[i].bytes;
    }
    table_add(&t, "total");
    table_add(&t, "%" PRId64, parameters);
    table_add(&t, "%s", "");
    table_add(&t, "%" PRIu64, bytes);
    table_emit(&t, shell->sinks);
}

// Bytes of a line of /proc/self/status ("VmRSS"); 0 where there is none.
static uint64_t process_bytes(const char *key)
{
    char line[256];
    uint64_t kb = 0;
    FILE *f = fopen("/proc/self/status", "re");
    while (f && fgets(line, sizeof line, f))
        if (!strncmp(line, key, strlen(key)) && line[strlen(key)] == ':') {
            kb = strtoull(line + strlen(key) + 1, NULL, 10);
            break;
        }
    if (f) fclose(f);
    return kb * 1024;
}

static void add_memory(struct table_builder *t, const char *what, uint64_t bytes)
{
    table_add(t, "%s", what);
    table_add(t, "%" PRIu64, bytes);
    table_add(t, "%.1f MiB", (double)bytes / (1 << 20));
}

static void show_memory(const struct shell *shell, const struct model *m)
{
    static const char *const columns[] = { "memory", "bytes", "size" };
    static const bool numeric[] = { false, true, false };
    const struct conversation *c = engine_conversation(shell->engine);
    struct table_builder t;
    table_begin(&t, "memory", 3, columns, numeric);
    if (m) {
        add_memory(&t, "weights (mapped)", checkpoint_bytes(m->checkpoint));
        add_memory(&t, "weights (converted)", m->arena.reserved);
        add_memory(&t, "keys and values", kv_bytes(&c->kv));
        add_memory(&t, "activations", c->step.reserved);
    }
    add_memory(&t, "resident", process_bytes("VmRSS"));
    add_memory(&t, "peak resident", process_bytes("VmHWM"));
    table_emit(&t, shell->sinks);
}

static int info_run(struct shell *shell, int argc, char **argv, struct err *err)
{
    const struct model *m = engine_model(shell->engine);
    if (engine_identify(shell->engine, err) < 0) return -1;
    if (m) {
        show_model(shell, m);
        tell_model(shell, m);
        show_parts(shell, m);
    } else {
        sinks_text(shell->sinks, "no model is loaded; device: %s",
                   engine_backend(shell->engine)->describe());
    }
    show_memory(shell, m);
    return 0;
}

const struct command command_info = {
    .name = "info",
    .also = "model about details",
    .usage = "/info",
    .help = "Shows the model: family, parameters by part, precision, memory, device.",
    .run = info_run,
};
