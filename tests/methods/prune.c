// tests/methods/prune.c -- core/methods/prune.c against the reference's scores, kept tokens, hidden
// states, logits and answers; conversations in which pruning changes against fresh ones.
#include "core/methods/prune_score.h"
#include "core/random.h"
#include "tests/families/golden.h"

static const char *const models[] = { "llava-1.5", "llava-siglip-llama3" };
static const char *const kinds[] = { "contribution", "attention", "norope", "uniform" };
enum { LAYERS = 4, KINDS = sizeof kinds / sizeof *kinds };

static void set(struct golden *g, const char *key, const char *value)
{
    struct err err = { 0 };
    must(engine_set(g->engine, key, value, &err), &err);
}

static const char *refused(struct golden *g, const char *key, const char *value)
{
    static struct err err;
    char *before = strdup(settings_text(engine_settings(g->engine), key));
    assert_int_equal(engine_set(g->engine, key, value, &err), -1);
    assert_string_equal(settings_text(engine_settings(g->engine), key), before);
    free(before);
    return err.text;
}

static void compare_named(const struct golden *g, const struct safetensors *f, const char *ours,
                          const char *format, const char *kind)
{
    char theirs[64];
    snprintf(theirs, sizeof theirs, format, kind);
    compare_all(g, f, ours, theirs);
}

static void check_rows(const struct golden *g, const struct safetensors *f, int from, int to,
                       const char *theirs)
{
    for (int l = from; l < to; l++) {
        char ours[16];
        snprintf(ours, sizeof ours, "rows.%d", l);
        compare_all(g, f, ours, theirs);
    }
}

// --- the reference -------------------------------------------------------------------------------

static void each_score_equals_the_reference(void **state)
{
    for (size_t i = 0; i < sizeof models / sizeof *models; i++)
        for (int k = 0; k < KINDS; k++) {
            struct golden g;
            char name[64];
            golden_open(&g, models[i]);
            set(&g, "prune.layer", "1");
            set(&g, "prune.score", kinds[k]);
            struct safetensors *f = answer(&g, chat_named(&g, "single"), 8, "*");
            if (strcmp(kinds[k], "uniform"))
                compare_named(&g, f, "score.1", "capa.%s.score", kinds[k]);
            compare_named(&g, f, "kept", "capa.%s.kept", kinds[k]);
            snprintf(name, sizeof name, "capa.%s.rows", kinds[k]);
            check_rows(&g, f, 2, LAYERS, name);
            compare_named(&g, f, "layer.out", "capa.%s.h_last", kinds[k]);
            snprintf(name, sizeof name, "capa.%s.logits_last", kinds[k]);
            check_last(&g, f, name);
            compare_slice(&g, f, "ffn.%d.out", 1, "fwd.h", 2); // layers 0 and 1 see everything
            snprintf(name, sizeof name, "capa.%s.gen_ids", kinds[k]);
            if (safetensors_find(g.tensors, name)) check_generated(&g, name);
            safetensors_close(f);
            golden_close(&g);
        }
}

static void stages_equal_the_reference(void **state)
{
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        struct golden g;
        golden_open(&g, models[i]);
        set(&g, "prune.layer", "0,2");
        set(&g, "prune.keep", "0.5,0.25");
        set(&g, "prune.score", "contribution");
        struct safetensors *f = answer(&g, chat_named(&g, "single"), 8, "*");
        compare_all(&g, f, "score.0", "capa.stages.0.score");
        compare_all(&g, f, "kept.0", "capa.stages.0.kept");
        compare_all(&g, f, "score.2", "capa.stages.2.score");
        compare_all(&g, f, "kept.2", "capa.stages.2.kept");
        compare_all(&g, f, "kept", "capa.stages.2.kept");
        check_rows(&g, f, 1, 3, "capa.stages.0.rows");
        check_rows(&g, f, 3, LAYERS, "capa.stages.2.rows");
        check_last(&g, f, "capa.stages.logits_last");
        check_generated(&g, "capa.stages.gen_ids");
        safetensors_close(f);
        golden_close(&g);
    }
}

static void dynamic_mode_equals_the_reference(void **state)
{
    for (size_t i = 0; i < sizeof models / sizeof *models; i++)
        for (int k = 0; k < 2; k++) {
            struct golden g;
            char name[64];
            golden_open(&g, models[i]);
            set(&g, "prune.layer", "1");
            set(&g, "prune.mode", "dynamic");
            set(&g, "prune.score", kinds[k]);
            struct safetensors *f = answer(&g, chat_named(&g, "single"), 8, "*");
            snprintf(name, sizeof name, "capa.dynamic.%s.score", kinds[k]);
            compare_slice(&g, f, "score.%d", 1, name, 0);
            snprintf(name, sizeof name, "capa.dynamic.%s.kept", kinds[k]);
            compare_slice(&g, f, "kept", 0, name, 0);
            compare_named(&g, f, "step.logits", "capa.dynamic.%s.step_logits", kinds[k]);
            snprintf(name, sizeof name, "capa.dynamic.%s.gen_ids", kinds[k]);
            check_generated(&g, name);
            // Dropped keys get no attention from the last row.
            const struct safetensor *p = safetensors_find(f, "attn.2.probs");
            const struct safetensor *kept = safetensors_find(f, "kept");
            const int32_t *ids = safetensors_find(f, "ids")->data;
            const float *row = (const float *)p->data + (p->shape[1] - 1) * p->shape[2];
            int64_t seen = 0;
            for (int64_t j = 0; j < p->shape[2]; j++)
                seen += ids[j] == engine_model(g.engine)->placeholder && row[j] > 0;
            assert_int_equal(seen, kept->shape[0]);
            safetensors_close(f);
            golden_close(&g);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_score_equals_the_reference),
        cmocka_unit_test(stages_equal_the_reference),
        cmocka_unit_test(dynamic_mode_equals_the_reference),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
