// tests/core/model/families/reference.h -- a reference model with its golden tensors and chats,
// used without the engine: for tests of training and of single passes
// (tests/core/model/families/golden.h runs the engine).
//
//   struct reference r;
//   reference_open(&r, "llava-1.5");
//   struct conversation c; struct labels l;
//   reference_sample(&r, "train_a", &c, &l);
//   reference_compare(&r, "train.a.loss", &loss, 1);
//   labels_release(&l); conversation_release(&c);
//   reference_close(&r);
#ifndef TESTS_CORE_MODEL_FAMILIES_REFERENCE_H
#define TESTS_CORE_MODEL_FAMILIES_REFERENCE_H

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
// needs the headers above
#include <cmocka.h>

#include "core/base/file_in.h"
#include "core/base/json.h"
#include "core/data/labels.h"
#include "core/files/safetensors.h"
#include "core/talk/conversation.h"
#include "tests/core/model/families/models.h"
#include "tests/device.h"

struct reference {
    const char *folder;
    cJSON *json;
    struct safetensors *golden;
    struct settings *settings;
    struct model *model;
};

static inline void must(int status, const struct err *err)
{
    if (status < 0) fail_msg("%s", err->text);
}

static inline void reference_open(struct reference *r, const char *name)
{
    struct err err;
    char path[256];
    *r = (struct reference){ .folder = name, .settings = settings_new() };
    snprintf(path, sizeof path, "build/goldens/%s/golden.json", name);
    if (!(r->json = json_read(path, 1 << 24, &err))) fail_msg("%s", err.text);
    snprintf(path, sizeof path, "build/goldens/%s/golden.safetensors", name);
    if (!(r->golden = safetensors_open(path, &err))) fail_msg("%s", err.text);
    snprintf(path, sizeof path, "tests/goldens/%s", name);
    if (!(r->model = model_load(path, test_device(), NULL, &err))) fail_msg("%s", err.text);
    must(settings_set(r->settings, "chat.date", "26 Jul 2024", &err), &err);
    // The variables of the chat template with which the golden was made.
    const cJSON *chat = cJSON_GetArrayItem(json_get(r->json, "chat"), 0), *variable;
    cJSON_ArrayForEach(variable, json_get(chat, "template_arguments"))
    {
        if (!cJSON_IsBool(variable)) continue; // the date: set above
        snprintf(path, sizeof path, "chat.template.%s", variable->string);
        must(settings_set(r->settings, path, cJSON_IsTrue(variable) ? "true" : "false", &err),
             &err);
    }
}

static inline void reference_close(struct reference *r)
{
    settings_free(r->settings);
    model_free(r->model);
    safetensors_close(r->golden);
    cJSON_Delete(r->json);
}

// --- golden tensors ------------------------------------------------------------------------------

static inline const struct safetensor *reference_tensor(const struct reference *r, const char *name,
                                                        double *allowed)
{
    const struct safetensor *t = safetensors_find(r->golden, name);
    if (!t) fail_msg("%s: no %s", r->folder, name);
    *allowed = json_get(json_get(json_get(r->json, "tensors"), name), "tol")->valuedouble;
    return t;
}

static inline void reference_compare(const struct reference *r, const char *name, const float *ours,
                                     int64_t count)
{
    double allowed, worst = 0;
    const struct safetensor *t = reference_tensor(r, name, &allowed);
    assert_int_equal(t->bytes, (uint64_t)count * sizeof *ours);
    for (int64_t i = 0; i < count; i++) {
        double d = fabs((double)((const float *)t->data)[i] - (double)ours[i]);
        if (!(d <= worst)) worst = d;
    }
    if (!(worst <= allowed))
        fail_msg("%s: %s differs by %g, allowed is %g", r->folder, name, worst, allowed);
}

// --- chats ---------------------------------------------------------------------------------------

static inline int reference_attach(struct conversation *c, const char *picture)
{
    struct err err;
    char path[256];
    size_t size;
    snprintf(path, sizeof path, "tests/goldens/pictures/%s.%s", picture,
             strcmp(picture, "tall") ? "png" : "jpg");
    char *bytes = file_read(path, 1 << 20, &size, &err);
    if (!bytes) fail_msg("%s", err.text);
    const int index = conversation_attach(c, path, bytes, size, &err);
    must(index, &err);
    free(bytes);
    return index;
}

static inline void reference_message(struct conversation *c, const cJSON *json)
{
    struct message *m =
        conversation_add(c, (enum role)role_parse(json_get(json, "role")->valuestring));
    const cJSON *part, *content = json_get(json, "content");
    if (cJSON_IsString(content)) message_add_text(m, content->valuestring);
    cJSON_ArrayForEach(part, content)
    {
        const cJSON *picture = json_get(part, "picture");
        if (picture)
            message_add_picture(m, reference_attach(c, picture->valuestring));
        else
            message_add_text(m, json_get(part, "text")->valuestring);
    }
    conversation_unwait(c, m);
}

// The messages of a chat; the caller frees them.
static inline void reference_chat(const struct reference *r, const char *name,
                                  struct conversation *c)
{
    const cJSON *chat, *message;
    conversation_init(c, test_device());
    conversation_set_model(c, r->model);
    cJSON_ArrayForEach(chat, json_get(r->json, "chat"))
    {
        if (strcmp(json_get(chat, "name")->valuestring, name) != 0) continue;
        cJSON_ArrayForEach(message, json_get(chat, "messages")) reference_message(c, message);
    }
    if (!c->message_count) fail_msg("%s has no chat %s", r->folder, name);
}

// The messages of a chat with the tokens that are trained on; the caller frees both.
static inline void reference_sample(const struct reference *r, const char *name,
                                    struct conversation *c, struct labels *l)
{
    struct err err;
    reference_chat(r, name, c);
    conversation_size_pictures(c, c->messages, c->message_count);
    must(labels_make(l, c->messages, c->message_count, c->pictures, c->picture_count, c->model,
                     r->settings, &err),
         &err);
}

#endif
