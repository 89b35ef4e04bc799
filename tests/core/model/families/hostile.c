// tests/core/model/families/hostile.c -- model folders whose JSON files have a wrong value for a
// key: neither reading them nor a pass of a model that opens fails a check of the sanitizers or
// ends the program. (tests/fuzz/config.c reads such configs without weights, for longer.)
//
// With HOSTILE=1 in the environment, it tries each value of each key and prints the messages.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/folder.h"
#include "core/model/families/family.h"
#include "core/model/model.h"
#include "core/model/visual.h"
#include "core/template/message.h"
#include "tests/core/scratch.h"
#include "tests/device.h"

static const char *const folders[] = {
    "qwen3.5",  "qwen3.5-moe", "mistral3",        "pixtral",       "gemma4",         "gemma4-moe",
    "glm-4.5v", "glm-ocr",     "internvl3.5-moe", "minicpm-v-4.6", "gemma4-unified",
};
static const char *const files[] = { "config.json", "preprocessor_config.json",
                                     "processor_config.json", "generation_config.json" };
// Each replaces the value of a key or an item of a list; cJSON writes them as they are.
static const char *const values[] = { "0",   "1",      "2",     "-1",   "3",     "0.5",
                                      "1e9", "1e18",   "7",     "null", "\"x\"", "[]",
                                      "{}",  "[1e18]", "1e999", "NaN",  "1000",  "2147483647" };

enum { EVERY = 61 }; // the test tries one of this many changes

static char *folder; // the changed folder
static int64_t tried, opened;

// Counts the tokens of a picture and computes two rows, which may fail.
static void use(struct model *m)
{
    const struct decoder *d = &m->decoder;
    struct arena step = { .backend = test_device() };
    struct graph g = { .backend = test_device(), .arena = &step };
    struct sequence s;
    struct kv kv;
    struct tensor *logits = NULL;
    if (m->family->pictures)
        m->family->pictures->tokens(m, (struct picture_shape){ .width = 640, .height = 480 });
    decoder_cache(d, test_device(), &kv);
    sequence_init(&s, 2, 1);
    struct tensor *h = splice(&g, d, &s, 0, NULL, NULL, 0);
    decoder_forward(&g, d, &kv, &s, h, LOGITS_LAST, true, &logits);
    sequence_release(&s);
    kv_release(&kv);
    arena_release(&step);
}

// Opens the folder with this text in place of one of its files.
static void try_text(const char *file, const char *text, const char *key, const char *value)
{
    struct err err = { 0 };
    const bool all = getenv("HOSTILE") != NULL;
    if (tried++ % (all ? 1 : EVERY)) return;
    scratch_text(folder, file, text);
    struct model *m = model_load(folder, test_device(), NULL, &err);
    if (all) print_message("%s %s=%s: %s\n", file, key, value, m ? "opens" : err.text);
    if (!m) assert_true(*err.text);
    if (m) use(m), opened++;
    model_free(m);
}

// Tries each value in place of each member of `parent` and, before that, of the member's members.
static void visit(const char *file, cJSON *root, cJSON *parent)
{
    for (cJSON *item = parent->child; item; item = item->next) {
        if (item->child) visit(file, root, item);
        for (size_t v = 0; v < sizeof values / sizeof *values; v++) {
            cJSON *old = cJSON_Duplicate(item, true), *raw = cJSON_CreateRaw(values[v]);
            char *key = xstrdup(item->string ? item->string : parent->string ? parent->string : "");
            if (item->string) raw->string = xstrdup(item->string);
            cJSON_ReplaceItemViaPointer(parent, item, raw);
            char *text = cJSON_PrintUnformatted(root);
            try_text(file, text, key, values[v]);
            cJSON_free(text);
            free(key);
            if (raw->string) old->string = old->string ? old->string : xstrdup(raw->string);
            cJSON_ReplaceItemViaPointer(parent, raw, old);
            item = old;
        }
    }
}

static void wrong_values_are_refused(void **state)
{
    for (size_t f = 0; f < sizeof folders / sizeof *folders; f++) {
        char *from = xasprintf("tests/goldens/%s", folders[f]);
        folder = scratch_new();
        char **names = folder_list(from);
        for (char **name = names; *name; name++)
            if (strstr(*name, ".json") || strstr(*name, ".jinja") || strstr(*name, ".safetensors"))
                if (!strstr(*name, ".xz") && !strstr(*name, "golden"))
                    scratch_copy(folder, from, *name);
        for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
            struct err err = { 0 };
            char *path = xasprintf("%s/%s", from, files[i]);
            cJSON *json = access(path, F_OK) == 0 ? json_read(path, 1 << 20, &err) : NULL;
            if (getenv("HOSTILE")) print_message("-- %s\n", path);
            if (json) visit(files[i], json, json);
            if (json) scratch_copy(folder, from, files[i]);
            cJSON_Delete(json);
            free(path);
        }
        folder_list_free(names);
        scratch_remove(folder);
        free(from);
    }
    print_message("%lld changes, one of %d tried\n", (long long)tried,
                  getenv("HOSTILE") ? 1 : EVERY);
    assert_true(opened > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(wrong_values_are_refused) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
