// tests/core/interventions/ablate.c -- core/interventions/ablate.c: identities on families whose
// attention differs. tests/toys/layers.c compares with plain loops.
#include "core/probes/kit.h"
#include "tests/core/probes/probe.h"

static double change_of(struct golden *g, const struct probe *probe, const struct probe_options *o,
                        const char *table, const char *key, const char *column)
{
    struct results r = { 0 };
    run_probe(g, probe, o, &r);
    const double *found = results_value(&r, table, key, column);
    if (!found) fail_msg("%s: /%s %s has no row %s", g->name, probe->name, o->words, key);
    const double change = *found;
    results_release(&r);
    return change;
}

// Hiding a token equals a knockout. Removing some head has an effect.
static void parts_are_removed(void **state)
{
    static const char *const folders[] = { "llava-1.5", "qwen2.5-vl", "kimi-vl" };
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        struct golden g;
        struct results r = { 0 };
        struct probe_options o = probe_defaults;
        char words[48];
        ask(&g, folders[i], 3);
        o.words = "tokens picture:0";
        run_probe(&g, &probe_ablate, &o, &r);
        const struct result_table *t = results_find(&r, "ablate.tokens");
        const int64_t row = strtoll(t->rows[0].key, NULL, 10);
        double lowest = t->rows[0].value[0], sum = 0;
        assert_true(lowest <= t->rows[t->row_count - 1].value[0] && r.map_count > 0);
        for (int k = 0; k < r.maps[0].rows * r.maps[0].cols; k++)
            sum += isfinite(r.maps[0].values[k]);
        assert_true(sum > 0 && sum <= (double)t->row_count);
        results_release(&r);
        snprintf(words, sizeof words, "%lld > all", (long long)row);
        o.words = words;
        near(&g, words, change_of(&g, &probe_knockout, &o, "knockout", "change", "log-probability"),
             lowest, 2e-5);

        o.words = "heads";
        run_probe(&g, &probe_ablate, &o, &r);
        const int heads = (int)engine_model(g.engine)->decoder.config.heads;
        assert_int_equal(results_find(&r, "ablate.heads")->row_count, golden_layers(&g) * heads);
        double largest = 0;
        for (int k = 0; k < r.maps[0].rows * r.maps[0].cols; k++)
            largest = fmax(largest, fabs((double)r.maps[0].values[k]));
        assert_true(largest > 0);
        results_release(&r);
        golden_close(&g);
    }
}

// The answer's last token predicts nothing, so removing parts there changes no bit.
static void the_last_token_has_no_effect(void **state)
{
    static const char *const parts[] = { "heads", "ffn", "layers", "tokens" };
    struct golden g;
    ask(&g, "llava-1.5", 3);
    struct results r = { 0 };
    struct probe_options o = probe_defaults;
    o.words = "answer";
    run_probe(&g, &probe_lens, &o, &r); // its rows name the positions of the answer
    const struct result_table *t = results_find(&r, "lens.words");
    const char *last = strchr(t->rows[t->row_count - 1].key, '.') + 1;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        for (int mean = 0; mean < (i < 3 ? 3 : 1); mean++) {
            char *words = xasprintf("%s %lld", parts[i], strtoll(last, NULL, 10));
            struct results one = { 0 };
            o = probe_defaults;
            o.words = words;
            o.mean = mean == 1, o.resample = mean == 2;
            run_probe(&g, &probe_ablate, &o, &one);
            char *name = xasprintf("ablate.%s", parts[i]);
            const struct result_table *found = results_find(&one, name);
            assert_true(found->row_count > 0);
            for (size_t k = 0; k < found->row_count; k++)
                if (found->rows[k].value[0] != 0)
                    fail_msg("%s: %s changes by %g", words, found->rows[k].key,
                             found->rows[k].value[0]);
            results_release(&one);
            free(name);
            free(words);
        }
    results_release(&r);
    golden_close(&g);
}

// Returns the answer's log-probability with one layer's part removed under these settings.
static double without(const char *folder, const char *words, int layer, const char *const *settings)
{
    struct golden g;
    struct err err = { 0 };
    struct results r = { 0 };
    struct probe_options o = probe_defaults;
    char number[16];
    ask(&g, folder, 3);
    for (; *settings; settings += 2)
        must(engine_set(g.engine, settings[0], settings[1], &err), &err);
    snprintf(number, sizeof number, "%d", layer);
    o.words = words;
    o.layers = number;
    run_probe(&g, &probe_ablate, &o, &r);
    char *table = xasprintf("ablate.%s", *words == 'f' ? "ffn" : "layers");
    const double logp = *results_value(&r, "ablate", "the answer", "log-probability") +
                        *results_value(&r, table, number, "change");
    free(table);
    results_release(&r);
    golden_close(&g);
    return logp;
}

// Methods that drop rows or compute FFNs themselves do not disturb an ablation. If layer 0 is
// removed, dropping tokens after it equals dropping them at the input. A layer that skips the FFN
// of visual tokens has no FFN once the FFN of text is removed.
static void methods_act_too(void **state)
{
    static const char *const after[] = { "prune.score", "uniform", "prune.layer", "0", NULL };
    static const char *const before[] = { "prune.score", "uniform", "prune.layer", "input", NULL };
    static const char *const skips[] = { "ffn.layers", "1", "ffn.approx", "skip", NULL };
    static const char *const off[] = { NULL };
    struct golden g = { .name = "llava-1.5" };
    near(&g, "a layer that drops tokens", without("llava-1.5", "layers", 0, after),
         without("llava-1.5", "layers", 0, before), 1e-5);
    near(&g, "an FFN that is skipped", without("llava-1.5", "ffn text", 1, skips),
         without("llava-1.5", "ffn", 1, off), 1e-5);
}

// A token is hidden in the chosen layers alone.
static void tokens_are_hidden_in_chosen_layers(void **state)
{
    struct golden g;
    struct probe_options o = probe_defaults;
    ask(&g, "llava-1.5", 2);
    o.words = "tokens 0";
    const double all = change_of(&g, &probe_ablate, &o, "ablate.tokens", "0", "change");
    o.layers = "1";
    const double one = change_of(&g, &probe_ablate, &o, "ablate.tokens", "0", "change");
    o.words = "0 > all";
    near(&g, "one layer", one,
         change_of(&g, &probe_knockout, &o, "knockout", "change", "log-probability"), 2e-5);
    assert_true(one != all);
    golden_close(&g);
}

static void wrong_words_are_refused(void **state)
{
    struct err err = { 0 };
    assert_int_equal(probe_ablate.words("", &err), -1);
    assert_int_equal(probe_ablate.words("head", &err), -1);
    assert_int_equal(probe_ablate.words("heads nowhere", &err), -1);
    assert_int_equal(probe_ablate.words("ffn picture,last", &err), 0);
    struct golden g;
    struct results r = { 0 };
    ask(&g, "llava-1.5", 1);
    struct measure_request request = { .probe = &probe_ablate, .options = probe_defaults };
    request.options.words = "tokens";
    request.options.zero = true;
    assert_int_equal(engine_measure(g.engine, &request, &r, &err), -1);
    assert_non_null(strstr(err.text, "--zero"));
    results_release(&r);
    golden_close(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_are_removed),
        cmocka_unit_test(the_last_token_has_no_effect),
        cmocka_unit_test(methods_act_too),
        cmocka_unit_test(tokens_are_hidden_in_chosen_layers),
        cmocka_unit_test(wrong_words_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
