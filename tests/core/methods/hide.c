// tests/core/methods/hide.c -- core/methods/hide.c: a hidden token changes the answer as /ablate
// tokens says, even with pruning; positions that do not exist have no effect; hide.layers;
// recurrent states. tests/core/methods/toggles.c switches the method during a conversation.
#include "core/probes/kit.h"
#include "tests/core/methods/fresh.h"
#include "tests/core/probes/probe.h"

static double number(struct golden *g, const char *words, const char *table, const char *row,
                     const char *column)
{
    struct results r = { 0 };
    struct probe_options o = probe_defaults;
    o.words = words;
    run_probe(g, &probe_ablate, &o, &r);
    const double *v = results_value(&r, table, row, column);
    if (!v) fail_msg("%s: /ablate %s has no row '%s'", g->name, words, row);
    const double found = *v;
    results_release(&r);
    return found;
}

static double answer_logp(struct golden *g)
{
    return number(g, "tokens 0", "ablate", "the answer", "log-probability");
}

static void set(struct golden *g, const char *key, const char *value)
{
    struct err err = { 0 };
    must(engine_set(g->engine, key, value, &err), &err);
}

// Returns the first visual token's position, and the name of its row in ablate.tokens.
static int64_t first_visual(struct golden *g, char row[80])
{
    struct err err = { 0 };
    struct ids positions = { 0 };
    struct measure_request request = { .options = probe_defaults };
    request.options.words = "picture";
    must(engine_positions(g->engine, &request, &positions, &err), &err);
    const int64_t first = positions.data[0];
    snprintf(row, 80, "%lld (picture 0, token 0)", (long long)first);
    ids_release(&positions);
    return first;
}

static void check_model(const char *folder, const char *const *settings)
{
    struct golden g;
    char row[80], value[32], words[48];
    ask(&g, folder, 3);
    const double before = answer_logp(&g);
    const int64_t at = first_visual(&g, row);
    for (; settings && *settings; settings += 2) set(&g, settings[0], settings[1]);
    const double plain = answer_logp(&g);
    snprintf(value, sizeof value, "%lld", (long long)at);
    snprintf(words, sizeof words, "tokens %s", value);
    const double change = number(&g, words, "ablate.tokens", row, "change");
    set(&g, "hide.tokens", value);
    near(&g, "the answer with a hidden token", answer_logp(&g), plain + change, 2e-5);
    // Hiding it once more, by an intervention, changes nothing.
    near(&g, "a token hidden twice", number(&g, words, "ablate.tokens", row, "change"), 0, 2e-5);
    set(&g, "hide.tokens", "100000");
    assert_true(answer_logp(&g) == plain); // bit for bit: there is no such position
    set(&g, "hide.tokens", "none");
    assert_true(answer_logp(&g) == plain);
    if (!settings) assert_true(plain == before);
    golden_close(&g);
}

static void a_hidden_token_is_one_that_ablate_hides(void **state)
{
    static const char *const folders[] = { "llava-1.5", "gemma3", "kimi-vl", "qwen3.5" };
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) check_model(folders[i], NULL);
}

// Prunes by a list; a score would choose other tokens if one is hidden.
static void pruning_acts_too(void **state)
{
    static const char *const modes[] = { "prefill", "dynamic" };
    for (int i = 0; i < 2; i++) {
        const char *const settings[] = { "prune.layer", "0",          "prune.tokens",
                                         "0-5",         "prune.mode", modes[i],
                                         "prune.score", "list",       NULL };
        check_model("llava-1.5", settings);
    }
}

// Scores without a query choose only among visible tokens: with half of the tokens hidden,
// pruning to half of them keeps exactly the visible ones.
static void pruning_chooses_visible_tokens(void **state)
{
    static const char *const scores[][2] = {
        { "diversity", "0" }, { "cls", "0" }, { "random", "input" }, { "uniform", "input" }
    };
    struct golden g;
    char row[80], value[48];
    ask(&g, "llava-1.5", 0);
    const int64_t at = first_visual(&g, row);
    const int64_t tokens = engine_conversation(g.engine)->pictures[0].tokens;
    const int64_t hidden = (tokens + 1) / 2;
    const float layers = (float)engine_model(g.engine)->decoder.config.layers;
    snprintf(value, sizeof value, "%lld-%lld", (long long)at, (long long)(at + hidden - 1));
    set(&g, "hide.tokens", value);
    set(&g, "prune.keep", "0.5");
    for (size_t i = 0; i < sizeof scores / sizeof *scores; i++) {
        struct results r = { 0 };
        set(&g, "prune.score", scores[i][0]);
        set(&g, "prune.layer", scores[i][1]);
        run_probe(&g, &probe_pruned, NULL, &r);
        for (int64_t k = 0; k < tokens; k++)
            if ((r.maps[0].values[k] == layers) != (k >= hidden))
                fail_msg("%s: %g layers compute token %lld, with %lld hidden", scores[i][0],
                         (double)r.maps[0].values[k], (long long)k, (long long)hidden);
        results_release(&r);
    }
    golden_close(&g);
}

// With pruning, too, text that is hidden only in some layers is visible in the later ones.
static void hidden_text_returns_after_its_layers(void **state)
{
    struct golden g;
    ask(&g, "llava-1.5", 3);
    set(&g, "hide.tokens", "1-2");
    const double everywhere = answer_logp(&g);
    set(&g, "hide.layers", "0-1");
    const double two_layers = answer_logp(&g);
    assert_true(fabs(everywhere - two_layers) > 1e-4);
    set(&g, "prune.layer", "0");
    set(&g, "prune.tokens", "0%-100%");
    set(&g, "prune.mode", "dynamic");
    set(&g, "prune.score", "list"); // keeps all visual tokens
    near(&g, "hidden text and pruning", answer_logp(&g), two_layers, 2e-5);
    golden_close(&g);
}

// If a picture's last token is hidden, the cached recurrent state after the picture is computed
// again.
static void recurrent_states_are_computed_again(void **state)
{
    struct golden g;
    struct err err = { 0 };
    char row[80], value[64];
    ask(&g, "qwen3.5", 3);
    const int64_t last =
        first_visual(&g, row) + engine_conversation(g.engine)->pictures[0].tokens - 1;
    const int64_t later = last + 5;
    snprintf(value, sizeof value, "%lld", (long long)later);
    set(&g, "hide.tokens", value);
    must(engine_ask(g.engine, "where", &err), &err);
    equals_a_fresh_run(&g);
    snprintf(value, sizeof value, "%lld,%lld", (long long)last, (long long)later);
    set(&g, "hide.tokens", value);
    must(engine_ask(g.engine, "and now", &err), &err);
    equals_a_fresh_run(&g);
    golden_close(&g);
}

static void lists_are_checked(void **state)
{
    struct golden g;
    struct err err;
    golden_open(&g, "llava-1.5");
    assert_int_equal(engine_set(g.engine, "hide.tokens", "20%-50%", &err), -1);
    assert_non_null(strstr(err.text, "not shares"));
    assert_int_equal(engine_set(g.engine, "hide.tokens", "5000000", &err), -1);
    golden_close(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_hidden_token_is_one_that_ablate_hides),
        cmocka_unit_test(pruning_acts_too),
        cmocka_unit_test(pruning_chooses_visible_tokens),
        cmocka_unit_test(hidden_text_returns_after_its_layers),
        cmocka_unit_test(recurrent_states_are_computed_again),
        cmocka_unit_test(lists_are_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
