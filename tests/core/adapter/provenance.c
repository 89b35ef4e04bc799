// tests/core/adapter/provenance.c -- core/adapter/provenance.c: which settings count, hashes of
// files, "auto" resolved, differences by name, and reading from JSON.
#include "tests/core/model/families/golden.h"
// needs the headers above
#include "core/adapter/provenance.h"
#include "tests/core/scratch.h"

#define LORA "tests/goldens/llava-1.5/adapters/lora"

static struct provenance of(struct golden *g, enum setting_stale from)
{
    struct provenance p;
    struct err err = { 0 };
    must(engine_provenance(g->engine, from, &p, &err), &err);
    return p;
}

static void set(struct golden *g, const char *key, const char *value)
{
    struct err err = { 0 };
    must(engine_set(g->engine, key, value, &err), &err);
}

// Each setting's row names the results that a change affects. Checks the groups that readers rely
// on.
static void rows_mark_settings_that_change_answers(void **state)
{
    static const char *const changing[] = { "sample.", "chat.", "ctx.",   "image.", "compute.",
                                            "kv.",     "norm.", "prune.", "ffn.",   "adapter" };
    static const char *const leaving[] = { "train.", "job.", "screen.", "sinks.", "norms." };
    const struct setting *row;
    for (int i = 0; (row = settings_row(i)); i++) {
        if (!strcmp(row->key, "sample.lookahead")) continue; // gives the same answer faster
        if (!strcmp(row->key, "image.boxes")) continue;      // reads boxes of the same answer
        for (size_t k = 0; k < sizeof changing / sizeof *changing; k++)
            if (!strncmp(row->key, changing[k], strlen(changing[k])) && row->stale < STALE_NEXT)
                fail_msg("%s must be marked as changing answers", row->key);
        for (size_t k = 0; k < sizeof leaving / sizeof *leaving; k++)
            if (!strncmp(row->key, leaving[k], strlen(leaving[k])) && row->stale >= STALE_NEXT)
                fail_msg("%s must not be marked as changing answers", row->key);
    }
}

// A question asked before those of an evaluation changes its scores, but not answers or
// measurements.
static void scores_record_more_settings(void **state)
{
    struct golden g;
    struct provenance p;
    golden_open(&g, "llava-1.5");
    set(&g, "eval.first", "What is there?");
    for (int k = 0; k < 2; k++) {
        p = of(&g, k ? STALE_MEASURED : STALE_NEXT);
        assert_null(provenance_value(&p, "eval.first"));
        provenance_release(&p);
    }
    const struct provenance_env env = { .settings = engine_settings(g.engine) };
    provenance_of_scores(&p, &env);
    assert_string_equal(provenance_value(&p, "eval.first"), "What is there?");
    provenance_release(&p);
    golden_close(&g);
}

static void only_relevant_settings_are_recorded(void **state)
{
    struct golden g;
    struct err err = { 0 };
    golden_open(&g, "llava-1.5");
    struct provenance first = of(&g, STALE_NEXT);
    assert_string_equal(provenance_value(&first, "model"),
                        engine_model(g.engine)->checkpoint->fingerprint);
    // Values `auto` are recorded as resolved on this device.
    assert_non_null(provenance_value(&first, "compute.matmul"));
    assert_string_not_equal(provenance_value(&first, "compute.matmul"), "auto");
    assert_non_null(provenance_value(&first, "kv.dtype"));
    assert_null(provenance_value(&first, "adapter"));
    // Settings of disabled methods, jobs and the screen do not count; sinks.tau counts for
    // measurements, but not for answers.
    set(&g, "prune.keep", "0.5");
    set(&g, "train.lr", "0.1");
    set(&g, "screen.live", "off");
    set(&g, "sinks.tau", "3");
    struct provenance now = of(&g, STALE_NEXT);
    must(provenance_same(&first, &now, &err), &err);
    provenance_release(&now);
    now = of(&g, STALE_MEASURED);
    assert_int_equal(provenance_same(&first, &now, &err), -1);
    assert_string_equal(err.text, "sinks.tau was auto, now 3");
    provenance_release(&now);
    set(&g, "prune.score", "uniform");
    now = of(&g, STALE_NEXT);
    assert_string_equal(provenance_value(&now, "prune.keep"), "0.5");
    assert_int_equal(provenance_same(&first, &now, &err), -1);
    assert_string_equal(err.text, "prune.score was off, now uniform");
    assert_int_equal(provenance_same(&now, &first, &err), -1);
    assert_string_equal(err.text, "prune.score was uniform, now off");
    // The record survives JSON; provenance_state() gives all of it but the model on one line.
    cJSON *json = cJSON_CreateObject();
    struct provenance back;
    assert_false(provenance_get(&back, json));
    provenance_put(&now, json);
    assert_true(provenance_get(&back, json));
    must(provenance_same(&back, &now, &err), &err);
    char *line = provenance_state(&back);
    assert_non_null(strstr(line, "prune.score=uniform, prune.keep=0.5"));
    assert_null(strstr(line, provenance_value(&now, "model")));
    free(line);
    cJSON_Delete(json);
    provenance_release(&back);
    provenance_release(&now);
    provenance_release(&first);
    golden_close(&g);
}

static void copy_file(const char *from, const char *folder, const char *name, size_t change)
{
    struct err err = { 0 };
    size_t size;
    char *path = xasprintf("%s/%s", from, name), *bytes = file_read(path, 1 << 26, &size, &err);
    if (!bytes) fail_msg("%s", err.text);
    if (change) bytes[size - change] ^= 1; // the lowest bit of a number
    scratch_write(folder, name, bytes, size);
    free(bytes);
    free(path);
}

// Tells adapters of the same name apart by content: a copy of the folder is the same adapter; a
// copy with one changed bit is not.
static void files_are_known_by_content(void **state)
{
    struct golden g;
    struct err err = { 0 };
    golden_open(&g, "llava-1.5");
    set(&g, "adapter", LORA);
    struct provenance first = of(&g, STALE_NEXT);
    assert_int_equal(strncmp(provenance_value(&first, "adapter"), "lora@", 5), 0);
    for (int changed = 0; changed < 2; changed++) {
        char *scratch = scratch_new(), *folder = xasprintf("%s/lora", scratch);
        assert_int_equal(mkdir(folder, 0700), 0);
        copy_file(LORA, folder, "adapter_config.json", 0);
        copy_file(LORA, folder, "adapter_model.safetensors", changed ? 4 : 0);
        set(&g, "adapter", folder);
        struct provenance now = of(&g, STALE_NEXT);
        assert_int_equal(provenance_same(&first, &now, &err), changed ? -1 : 0);
        provenance_release(&now);
        set(&g, "adapter", "none");
        free(folder);
        scratch_remove(scratch);
    }
    provenance_release(&first);
    golden_close(&g);
}

// The date counts if the chat template passes it to the model.
static void the_date_counts_if_the_template_uses_it(void **state)
{
    static const char *const models[] = { "llava-1.5", "llama-3.2" };
    for (int i = 0; i < 2; i++) {
        struct golden g;
        golden_open(&g, models[i]);
        set(&g, "chat.date", "26 Jul 2024");
        struct provenance p = of(&g, STALE_NEXT);
        assert_int_equal(provenance_value(&p, "chat.date") != NULL, i);
        provenance_release(&p);
        set(&g, "chat.date", "today");
        p = of(&g, STALE_NEXT);
        const char *date = provenance_value(&p, "chat.date");
        assert_true(!date == !i && (!date || strcmp(date, "today") != 0));
        provenance_release(&p);
        golden_close(&g);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_mark_settings_that_change_answers),
        cmocka_unit_test(scores_record_more_settings),
        cmocka_unit_test(only_relevant_settings_are_recorded),
        cmocka_unit_test(files_are_known_by_content),
        cmocka_unit_test(the_date_counts_if_the_template_uses_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
