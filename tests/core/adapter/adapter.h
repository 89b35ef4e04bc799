// tests/core/adapter/adapter.h -- shared by the tests of adapters: models, folders, logits of one
// prompt.
#ifndef TESTS_CORE_ADAPTER_ADAPTER_H
#define TESTS_CORE_ADAPTER_ADAPTER_H

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
// needs the headers above
#include <cmocka.h>

#include "core/adapter/adapter.h"
#include "core/base/file_in.h"
#include "core/engine/engine.h"
#include "core/talk/answer.h"
#include "tests/core/scratch.h"
#include "tests/device.h"

#define LLAVA "tests/goldens/llava-1.5"
#define LLAMA "tests/goldens/llama-3.2" // ties its head
#define KIMI  "tests/goldens/kimi-text" // a mixture of experts
#define LORA  LLAVA "/adapters/lora"
#define NORMS LLAVA "/adapters/ln_tuning"
#define SCENE "tests/goldens/pictures/scene.png"

static inline void must(int status, const struct err *err)
{
    if (status < 0) fail_msg("%s", err->text);
}

static inline struct model *load(const char *folder)
{
    struct err err;
    struct model *m = model_load(folder, test_device(), NULL, &err);
    if (!m) fail_msg("%s", err.text);
    return m;
}

static inline struct adapter *read_folder(const char *folder, struct model *m)
{
    struct err err;
    struct adapter *a = adapter_read(folder, m, &err);
    if (!a) fail_msg("%s", err.text);
    return a;
}

// --- logits of the goldens' prompt "single" ------------------------------------------------------

struct logits {
    float *x;
    int64_t rows, vocab;
};

static inline bool wants_logits(void *self, const struct site *site, int layer)
{
    return site == SITE_LOGITS;
}

static inline int take_logits(void *self, struct graph *g, const struct site *site,
                              struct site_args *args)
{
    struct logits *l = self;
    l->rows = args->x->shape[0];
    l->vocab = args->x->shape[1];
    l->x = xmalloc(tensor_bytes(args->x));
    memcpy(l->x, args->x->data, tensor_bytes(args->x));
    return 0;
}

static inline struct logits logits_of(const struct model *m)
{
    struct err err;
    struct logits l = { 0 };
    struct hooks hooks = { 0 };
    const struct hook hook = { .wants = wants_logits, .run = take_logits, .self = &l };
    const struct answer_options options = { .forward_only = true, .all_logits = true };
    const struct sinks nobody = { 0 };
    struct conversation c;
    bool answered;
    hooks_add(&hooks, &hook);
    conversation_init(&c, test_device());
    conversation_set_model(&c, m);
    struct message *said = conversation_add(&c, ROLE_USER);
    if (model_has_vision(m)) {
        size_t size;
        char *bytes = file_read(SCENE, 1 << 20, &size, &err);
        assert_non_null(bytes);
        must(conversation_attach(&c, SCENE, bytes, size, &err), &err);
        message_add_picture(said, 0);
        free(bytes);
    }
    message_add_text(said, "What is in the picture?");
    must(answer_run(&c, NULL, &hooks, NULL, &options, &nobody, &answered, &err), &err);
    conversation_release(&c);
    return l;
}

static inline void expect_equal(struct logits a, struct logits b, bool equal)
{
    assert_int_equal(a.rows, b.rows);
    bool same = !memcmp(a.x, b.x, (size_t)(a.rows * a.vocab) * sizeof *a.x);
    free(a.x);
    free(b.x);
    assert_int_equal(same, equal);
}

// Pseudo-random numbers in -1..1, the same in each run.
static inline float noise(void)
{
    static uint32_t seed = 7;
    seed = seed * 1664525 + 1013904223;
    return (float)(int32_t)(seed >> 8 << 8) * 0x1p-31f;
}

#endif
