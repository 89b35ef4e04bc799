// tests/core/model/families/golden.h -- a reference model with its golden tensors, run through
// the engine and read through /dump's taps.
//
//   struct golden g;
//   golden_open(&g, "llava-1.5");
//   struct safetensors *f = answer(&g, chat_named(&g, "single"), 8, "logits layer.out");
//   compare_all(&g, f, "layer.out", "ffn.hadamard.h_last");
//   safetensors_close(f);
//   golden_close(&g);
#ifndef TESTS_CORE_MODEL_FAMILIES_GOLDEN_H
#define TESTS_CORE_MODEL_FAMILIES_GOLDEN_H

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/base/event.h"
#include "core/base/json.h"
#include "core/engine/engine.h"
#include "core/files/safetensors.h"
#include "core/model/model.h"
#include "core/talk/conversation.h"
#include "core/template/message.h"
#include "tests/core/model/families/models.h"
#include "tests/device.h"

struct event;

struct golden {
    const char *name;
    cJSON *json;
    struct safetensors *tensors;
    struct sinks sinks;
    struct engine *engine;
    struct ids answer; // ids of the last EVENT_ANSWER
    char dump[256];
};

static inline void must(int status, const struct err *err)
{
    if (status < 0) fail_msg("%s", err->text);
}

static inline void hear(void *self, const struct event *e)
{
    struct golden *g = self;
    if (e->kind != EVENT_ANSWER) return;
    ids_clear(&g->answer);
    ids_append(&g->answer, e->answer->ids, e->answer->count);
}

// Opens the model on a device, with the settings of its goldens: float32, a fixed date, no end of
// sequence, the variables of the chat template.
static inline void golden_open_on(struct golden *g, const char *name, const struct backend *backend)
{
    struct err err = { 0 };
    char path[256];
    *g = (struct golden){ .name = name };
    const char *base = getenv("TMPDIR");
    snprintf(g->dump, sizeof g->dump, "%s/vlmsh-golden-%d.safetensors", base ? base : "/tmp",
             (int)getpid());
    snprintf(path, sizeof path, "build/goldens/%s/golden.json", name);
    if (!(g->json = json_read(path, 1 << 24, &err))) fail_msg("%s", err.text);
    snprintf(path, sizeof path, "build/goldens/%s/golden.safetensors", name);
    if (!(g->tensors = safetensors_open(path, &err))) fail_msg("%s", err.text);
    sinks_add(&g->sinks, (struct sink){ .emit = hear, .self = g });
    g->engine = engine_new(backend, &g->sinks);
    snprintf(path, sizeof path, "tests/goldens/%s", name);
    must(engine_load(g->engine, path, &err), &err);
    must(engine_set(g->engine, "sample.ignore_eos", "on", &err), &err);
    must(engine_set(g->engine, "compute.matmul", "f32", &err), &err); // also on a GPU
    must(engine_set(g->engine, "kv.dtype", "f32", &err), &err);
    must(engine_set(g->engine, "chat.date", "26 Jul 2024", &err), &err);
    // The variables of the chat template with which the golden was made.
    const cJSON *chat = cJSON_GetArrayItem(json_get(g->json, "chat"), 0), *variable;
    cJSON_ArrayForEach(variable, json_get(chat, "template_arguments"))
    {
        if (!cJSON_IsBool(variable)) continue; // the date: set above
        snprintf(path, sizeof path, "chat.template.%s", variable->string);
        must(engine_set(g->engine, path, cJSON_IsTrue(variable) ? "true" : "false", &err), &err);
    }
}

static inline void golden_open(struct golden *g, const char *name)
{
    golden_open_on(g, name, test_device());
}

static inline void golden_close(struct golden *g)
{
    engine_free(g->engine);
    safetensors_close(g->tensors);
    cJSON_Delete(g->json);
    ids_release(&g->answer);
    unlink(g->dump);
}

static inline double tolerance(const struct golden *g, const char *tensor)
{
    const cJSON *entry = json_get(json_get(g->json, "tensors"), tensor);
    return json_get(entry, "tol")->valuedouble;
}

static inline int golden_layers(const struct golden *g)
{
    return engine_model(g->engine)->decoder.config.layers;
}

// Number `index` of a list of layers: methods.METHOD.layers, or methods.METHOD.PART.layers.
static inline int golden_layer(const struct golden *g, const char *method, const char *part,
                               int index)
{
    const cJSON *of = json_get(json_get(g->json, "methods"), method);
    if (part) of = json_get(of, part);
    const cJSON *layer = cJSON_GetArrayItem(json_get(of, "layers"), index);
    assert_true(cJSON_IsNumber(layer));
    return layer->valueint;
}

// The layer after which CAPA's goldens prune (1 if golden.json names none).
static inline int golden_capa_layer(const struct golden *g)
{
    const cJSON *capa = json_get(json_get(g->json, "methods"), "capa");
    return (int)json_whole(json_get(capa, "layer"), 1);
}

// Compares elements [from, from + count) of a golden tensor with a dumped one.
static inline void compare(const struct golden *g, const struct safetensor *ours, const char *name,
                           int64_t from, int64_t count)
{
    const struct safetensor *theirs = safetensors_find(g->tensors, name);
    assert_non_null(theirs);
    double worst = 0, allowed = tolerance(g, name);
    assert_int_equal(ours->bytes, (uint64_t)count * 4);
    assert_true((uint64_t)(from + count) * 4 <= theirs->bytes);
    for (int64_t i = 0; i < count; i++) {
        double a, b;
        if (ours->dtype == DTYPE_I32) {
            a = ((const int32_t *)ours->data)[i];
            b = ((const int32_t *)theirs->data)[from + i];
        } else {
            a = ((const float *)ours->data)[i];
            b = ((const float *)theirs->data)[from + i];
        }
        double d = fabs(a - b);
        if (!(d <= worst)) worst = d;
    }
    if (!(worst <= allowed))
        fail_msg("%s: %s differs from %s by %g, allowed is %g", g->name, ours->name, name, worst,
                 allowed);
}

static inline void compare_all(const struct golden *g, const struct safetensors *f,
                               const char *ours, const char *theirs)
{
    const struct safetensor *t = safetensors_find(f, ours);
    const struct safetensor *r = safetensors_find(g->tensors, theirs);
    if (!t || !r)
        fail_msg("%s: no %s or no %s", g->name, ours, theirs);
    else
        compare(g, t, theirs, 0, (int64_t)r->bytes / 4);
}

// Compares the dumped tensor named by `format` and `index` with a slice along the first dimension
// of a golden tensor, if there is such a golden tensor.
static inline void compare_slice(const struct golden *g, const struct safetensors *f,
                                 const char *format, int index, const char *theirs, int64_t slice)
{
    char ours[64];
    snprintf(ours, sizeof ours, format, index);
    const struct safetensor *t = safetensors_find(f, ours);
    const struct safetensor *r = safetensors_find(g->tensors, theirs);
    if (!r) return;
    const int64_t count = (int64_t)r->bytes / 4 / r->shape[0];
    if (!t)
        fail_msg("%s: no %s in the dump", g->name, ours);
    else
        compare(g, t, theirs, slice * count, count);
}

// Appends the messages of a chat of golden.json, with pictures from tests/goldens/pictures.
static inline void say(struct golden *g, const cJSON *chat)
{
    const cJSON *message, *part;
    struct err err = { 0 };
    cJSON_ArrayForEach(message, json_get(chat, "messages"))
    {
        struct message m = { .role =
                                 (enum role)role_parse(json_get(message, "role")->valuestring) };
        const cJSON *content = json_get(message, "content");
        if (cJSON_IsString(content)) message_add_text(&m, content->valuestring);
        cJSON_ArrayForEach(part, content)
        {
            const cJSON *picture = json_get(part, "picture");
            if (!picture) {
                message_add_text(&m, json_get(part, "text")->valuestring);
                continue;
            }
            char path[256];
            const char *kind = strcmp(picture->valuestring, "tall") ? "png" : "jpg";
            snprintf(path, sizeof path, "tests/goldens/pictures/%s.%s", picture->valuestring, kind);
            must(engine_attach(g->engine, path, &err), &err);
            message_add_picture(&m, (int)engine_conversation(g->engine)->picture_count - 1);
        }
        must(engine_add_message(g->engine, &m, &err), &err);
        message_release(&m);
    }
}

// The conversation itself, writable; the engine lends it read-only.
static inline struct conversation *golden_conversation(const struct golden *g)
{
    return (struct conversation *)engine_conversation(g->engine);
}

static inline const cJSON *chat_named(const struct golden *g, const char *name)
{
    const cJSON *chat;
    cJSON_ArrayForEach(chat,
                       json_get(g->json, "chat")) if (!strcmp(json_get(chat, "name")->valuestring,
                                                              name)) return chat;
    fail_msg("%s has no chat %s", g->name, name);
    return NULL;
}

// Answers a chat, dumping `taps`; returns the opened dump.
static inline struct safetensors *answer(struct golden *g, const cJSON *chat, int tokens,
                                         const char *taps)
{
    struct err err = { 0 };
    char count[16];
    engine_clear(g->engine);
    say(g, chat);
    snprintf(count, sizeof count, "%d", tokens);
    must(engine_set(g->engine, "sample.max_tokens", count, &err), &err);
    must(engine_dump(g->engine, taps, g->dump, &err), &err);
    must(engine_answer(g->engine, &err), &err);
    struct safetensors *f = safetensors_open(g->dump, &err);
    if (!f) fail_msg("%s", err.text);
    return f;
}

// Compares the last row of `logits` with a golden tensor.
static inline void check_last(const struct golden *g, const struct safetensors *f, const char *name)
{
    struct safetensor last = *safetensors_find(f, "logits");
    last.bytes = (uint64_t)last.shape[1] * 4;
    last.data = (const float *)last.data + (last.shape[0] - 1) * last.shape[1];
    compare(g, &last, name, 0, last.shape[1]);
}

// Writes the reference's parameters of IRA as an adapter's extra.safetensors.
static inline void write_ira(const struct golden *g, const char *folder)
{
    struct err err = { 0 };
    char path[320];
    snprintf(path, sizeof path, "%s/extra.safetensors", folder);
    struct safetensors_writer *w = safetensors_writer_new(path);
    for (int give = 0; give < 2; give++)
        for (int64_t i = 0; i < g->tensors->count; i++) {
            const struct safetensor *t = &g->tensors->tensors[i];
            // Takes "ira.LAYER.NAME" of layers 0 to 9; skips "ira.train.2" and similar.
            if (strncmp(t->name, "ira.", 4) != 0 || t->name[5] != '.') continue;
            if (give)
                must(safetensors_writer_data(w, t->data, t->bytes, &err), &err);
            else
                safetensors_writer_declare(w, t->name, DTYPE_F32, t->rank, t->shape);
        }
    must(safetensors_writer_finish(w, &err), &err);
}

// Writes alpha and redundancy as the reference measured them.
static inline void write_ffn_calibration(const struct golden *g, const char *path)
{
    struct err err = { 0 };
    const struct safetensor *a = safetensors_find(g->tensors, "ffn.ols_alpha");
    const struct safetensor *r = safetensors_find(g->tensors, "ffn.redundancy");
    struct safetensors_writer *w = safetensors_writer_new(path);
    safetensors_writer_declare(w, "ffn.alpha", DTYPE_F32, 2, a->shape);
    safetensors_writer_declare(w, "ffn.redundancy", DTYPE_F32, 1, r->shape);
    must(safetensors_writer_data(w, a->data, a->bytes, &err), &err);
    must(safetensors_writer_data(w, r->data, r->bytes, &err), &err);
    must(safetensors_writer_finish(w, &err), &err);
}

// Writes steering vectors of layers 1 and 2.
static inline void write_steering(const struct golden *g, const char *path)
{
    struct err err = { 0 };
    const int64_t width = engine_model(g->engine)->decoder.config.hidden;
    float *x = xcalloc((size_t)(2 * width), sizeof *x);
    struct safetensors_writer *w = safetensors_writer_new(path);
    for (int64_t i = 0; i < 2 * width; i++) x[i] = (float)sin((double)i);
    safetensors_writer_declare(w, "direction.1", DTYPE_F32, 1, &width);
    safetensors_writer_declare(w, "direction.2", DTYPE_F32, 1, &width);
    must(safetensors_writer_data(w, x, 2 * (size_t)width * sizeof *x, &err), &err);
    must(safetensors_writer_finish(w, &err), &err);
    free(x);
}

// Compares the answer's ids with a golden tensor.
static inline void check_generated(const struct golden *g, const char *name)
{
    const struct safetensor *t = safetensors_find(g->tensors, name);
    assert_non_null(t);
    assert_int_equal(g->answer.count, t->bytes / 4);
    assert_memory_equal(g->answer.data, t->data, t->bytes);
}

#endif
