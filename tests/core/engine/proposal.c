// tests/core/engine/proposal.c -- core/engine/proposal.c and engine_settings.c: settings are
// checked together in any order and applied together or not at all; the states that they make stale
// are reported once; adapters that are refused, changed or unloaded; settings of a saved session.
#include "core/engine/proposal.h"
#include "tests/core/model/families/golden.h"
// needs the headers above
#include "core/adapter/adapter.h"
#include "core/adapter/adapters.h"
#include "core/settings/changes.h"
#include "tests/core/scratch.h"

#define LLAVA "tests/goldens/llava-1.5"
#define LORA  LLAVA "/adapters/lora"
#define NORMS LLAVA "/adapters/ln_tuning"

static void hear_notices(void *self, const struct event *e)
{
    if (e->kind == EVENT_NOTICE) buf_printf(self, "%s\n", e->text);
}

// Opens the model and records notices in `said`.
static void begin(struct golden *g, struct buf *said)
{
    struct err err = { 0 };
    *said = (struct buf){ 0 };
    golden_open(g, "llava-1.5");
    must(engine_set(g->engine, "sample.max_tokens", "2", &err), &err);
    sinks_add(&g->sinks, (struct sink){ .emit = hear_notices, .self = said });
}

static void end(struct golden *g, struct buf *said)
{
    golden_close(g);
    buf_release(said);
}

static const char *value(const struct golden *g, const char *key)
{
    return settings_text(engine_settings(g->engine), key);
}

static char *all_values(const struct settings *s)
{
    struct buf b = { 0 };
    for (int i = 0; i < settings_count(); i++)
        buf_printf(&b, "%s=%s\n", settings_row(i)->key, settings_text(s, settings_row(i)->key));
    return buf_take(&b);
}

// Some of these settings are impossible without others of them.
static struct change dependent[] = {
    { "ira.on", "on" },           { "ira.layers", "2-3" },  { "adapter", NULL }, // set by trained()
    { "ffn.approx", "skip" },     { "ffn.layers", "1" },    { "prune.score", "contribution" },
    { "prune.keep", "0.5,0.25" }, { "prune.layer", "0,2" },
};
enum { DEPENDENT = sizeof dependent / sizeof *dependent };

// A folder with parameters of IRA, which `dependent` names; the caller removes it with
// scratch_remove.
static char *trained(const struct golden *g)
{
    char *folder = scratch_new();
    write_ira(g, folder);
    dependent[2].value = folder;
    return folder;
}

static void the_order_does_not_matter(void **state)
{
    struct golden g;
    struct buf said;
    struct err err = { 0 };
    char *first = NULL;
    begin(&g, &said);
    char *folder = trained(&g);
    must(engine_reset(g.engine, NULL, &err), &err);
    for (int turn = 0; turn < 2 * DEPENDENT; turn++) {
        struct change list[DEPENDENT];
        for (int i = 0; i < DEPENDENT; i++)
            list[turn < DEPENDENT ? i : DEPENDENT - 1 - i] = dependent[(i + turn) % DEPENDENT];
        must(engine_set_all(g.engine, list, DEPENDENT, &err), &err);
        char *now = all_values(engine_settings(g.engine));
        if (!first) first = xstrdup(now);
        assert_string_equal(now, first);
        free(now);
        must(engine_reset(g.engine, NULL, &err), &err);
        struct settings *proposed = engine_propose(g.engine, list, DEPENDENT, &err);
        if (!proposed) fail_msg("%s", err.text);
        assert_true(settings_is(proposed, "ira.on", "on"));
        assert_string_equal(value(&g, "ira.on"), "off");
        settings_free(proposed);
        engine_restore(g.engine, list, DEPENDENT);
        assert_string_equal(value(&g, "prune.layer"), "0,2");
        assert_string_equal(value(&g, "ira.on"), "on");
        must(engine_reset(g.engine, NULL, &err), &err);
    }
    assert_null(strstr(said.data ? said.data : "", "cannot restore"));
    free(first);
    end(&g, &said);
    scratch_remove(folder);
}

// If the folder of an adapter now lacks the parameters of an enabled method, it is refused, and the
// adapter read before stays in use; without the method, it replaces that adapter.
static void a_changed_adapter_is_replaced_only_if_valid(void **state)
{
    struct golden g;
    struct buf said;
    struct err err = { 0 };
    begin(&g, &said);
    char *folder = scratch_new();
    write_ira(&g, folder);
    must(engine_set(g.engine, "adapter", folder, &err), &err);
    struct adapters *kept = (struct adapters *)(uintptr_t)engine_adapters(g.engine);
    const struct adapter *before = kept->active;
    const size_t count = before->count;
    char *extra = xasprintf("%s/extra.safetensors", folder);
    assert_int_equal(unlink(extra), 0);
    free(extra);
    scratch_copy(folder, LORA, "adapter_config.json");
    scratch_copy(folder, LORA, "adapter_model.safetensors");

    struct proposal p = { .from = engine_settings(g.engine),
                          .env = { .model = (struct model *)(uintptr_t)engine_model(g.engine),
                                   .backend = test_device(),
                                   .adapters = kept,
                                   .reload = true } };
    const struct change list[] = { { "adapter", folder }, { "ira.on", "on" } };
    assert_int_equal(proposal_check(&p, list, 2, &err), -1);
    proposal_release(&p);
    assert_ptr_equal(kept->active, before);
    assert_ptr_equal(kept->list[0], before);
    assert_int_equal(kept->list[0]->count, count);
    assert_ptr_equal(adapters_find(kept, folder), before);

    must(engine_adapter_load(g.engine, folder, &err), &err);
    assert_int_equal(kept->count, 1);
    assert_true(adapter_has(kept->active, ADAPTER_LORA));
    scratch_remove(folder);
    end(&g, &said);
}

static void an_adapter_of_a_refused_request_is_freed(void **state)
{
    const struct change list[] = { { "adapter", NORMS }, { "prune.layer", "9" } };
    struct golden g;
    struct buf said;
    struct err err = { 0 };
    begin(&g, &said);
    must(engine_set(g.engine, "adapter", LORA, &err), &err);
    const struct adapter *active = engine_adapters(g.engine)->active;
    assert_int_equal(engine_set_all(g.engine, list, 2, &err), -1);
    assert_null(engine_propose(g.engine, list, 2, &err));
    assert_int_equal(engine_adapters(g.engine)->count, 1);
    assert_ptr_equal(engine_adapters(g.engine)->active, active);
    assert_true(active->applied);
    assert_string_equal(value(&g, "adapter"), LORA);
    end(&g, &said);
}

static int count_of(const struct buf *said, const char *part)
{
    int n = 0;
    for (const char *p = said->data; p && (p = strstr(p, part)); p++) n++;
    return n;
}

static void stale_results_are_announced_once(void **state)
{
    const struct change list[] = { { "norm.align", "on" },
                                   { "adapter", LORA },
                                   { "prune.score", "contribution" },
                                   { "chat.template", "plain" } };
    struct golden g;
    struct buf said;
    struct err err = { 0 };
    begin(&g, &said);
    must(engine_attach(g.engine, "tests/goldens/pictures/scene.png", &err), &err);
    must(engine_ask(g.engine, "What is this?", &err), &err);
    must(engine_set_all(g.engine, list, 4, &err), &err);
    assert_int_equal(count_of(&said, "recomputes"), 1);
    assert_int_equal(engine_conversation(g.engine)->cached.n, 0);
    must(engine_regenerate(g.engine, &err), &err);
    buf_clear(&said);
    must(engine_reset(g.engine, NULL, &err), &err);
    assert_int_equal(count_of(&said, "recomputes"), 1);
    end(&g, &said);
}

// On the CPU auto means f32, and this model's prompts have no date.
static void equivalent_values_keep_the_cache(void **state)
{
    struct golden g;
    struct buf said;
    struct err err = { 0 };
    begin(&g, &said);
    must(engine_ask(g.engine, "What is this?", &err), &err);
    const int64_t rows = engine_conversation(g.engine)->cached.n;
    must(engine_set(g.engine, "chat.date", "1 Jan 2020", &err), &err);
    if (!test_device()->own_memory) must(engine_set(g.engine, "kv.dtype", "auto", &err), &err);
    assert_int_equal(count_of(&said, "recomputes"), 0);
    assert_int_equal(engine_conversation(g.engine)->cached.n, rows);
    assert_string_equal(value(&g, "chat.date"), "1 Jan 2020");
    end(&g, &said);
}

// An adapter may be unloaded alone or with changes of other settings, but not with a change of the
// method that needs it.
static void unloading_an_adapter_disables_its_method(void **state)
{
    const struct change off[] = { { "sample.top_k", "7" }, { "adapter", "off" } },
                        odd[] = { { "adapter", "off" }, { "ira.gate", "off" } };
    struct golden g;
    struct buf said;
    struct err err = { 0 };
    begin(&g, &said);
    char *folder = trained(&g);
    for (int alone = 0; alone < 2; alone++) {
        must(engine_set_all(g.engine, dependent, 3, &err), &err); // ira.on
        assert_int_equal(engine_set_all(g.engine, odd, 2, &err), -1);
        assert_string_equal(value(&g, "ira.on"), "on");
        assert_string_equal(value(&g, "ira.gate"), "on");
        buf_clear(&said);
        must(alone ? engine_set(g.engine, "adapter", "off", &err)
                   : engine_set_all(g.engine, off, 2, &err),
             &err);
        assert_string_equal(value(&g, "ira.on"), "off");
        assert_string_equal(value(&g, "adapter"), "none");
        assert_int_equal(count_of(&said, "these settings are reset to their defaults"), 1);
    }
    assert_string_equal(value(&g, "sample.top_k"), "7");
    end(&g, &said);
    scratch_remove(folder);
}

static void spellings_of_off_are_normalised(void **state)
{
    static const char *const none[] = { "", "off", "OFF", "none", "None" };
    struct golden g;
    struct buf said;
    struct err err = { 0 };
    begin(&g, &said);
    for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
        must(engine_set(g.engine, "adapter", i % 2 ? LORA "//" : LORA "/", &err), &err);
        assert_string_equal(value(&g, "adapter"), LORA);
        must(engine_set(g.engine, "adapter", none[i], &err), &err);
        assert_string_equal(value(&g, "adapter"), "none");
        must(engine_set(g.engine, "ffn.calibration", none[i], &err), &err);
        assert_string_equal(value(&g, "ffn.calibration"), "none");
    }
    assert_int_equal(engine_adapters(g.engine)->count, 1);
    end(&g, &said);
}

// If a value cannot be restored, the whole method stays unchanged.
static void valid_settings_are_restored(void **state)
{
    const struct change list[] = { { "prune.score", "contribution" },
                                   { "ffn.approx", "skip" },
                                   { "ffn.layers", "1" },
                                   { "ffn.calibration", "/no/such" },
                                   { "sample.top_k", "7" },
                                   { "adapter", "no/such" },
                                   { "prune.layer", "9" },
                                   { "norm.align", "on" },
                                   { "kv.dtype", "int3" } };
    struct golden g;
    struct buf said;
    begin(&g, &said);
    engine_restore(g.engine, list, sizeof list / sizeof *list);
    assert_string_equal(value(&g, "sample.top_k"), "7");
    assert_string_equal(value(&g, "norm.align"), "on");
    assert_string_equal(value(&g, "kv.dtype"), "f32");
    assert_string_equal(value(&g, "prune.score"), "off");
    assert_string_equal(value(&g, "prune.layer"), "auto");
    assert_string_equal(value(&g, "ffn.approx"), "off");
    assert_string_equal(value(&g, "ffn.layers"), "auto");
    assert_string_equal(value(&g, "ffn.calibration"), "none");
    assert_string_equal(value(&g, "adapter"), "none");
    assert_int_equal(count_of(&said, "cannot restore "), 4);
    assert_int_equal(count_of(&said, "cannot restore prune.score, prune.layer: "), 1);
    assert_int_equal(count_of(&said, "cannot restore ffn.calibration, ffn.layers, ffn.approx: "),
                     1);
    assert_int_equal(count_of(&said, "cannot restore kv.dtype: kv.dtype cannot be 'int3'"), 1);
    end(&g, &said);
}

// Values that contradict each other may be set one by one, and do not block other settings; a
// session restores them.
static void inconsistent_values_block_no_other_change(void **state)
{
    const struct change other[] = { { "sample.top_k", "7" }, { "norm.align", "on" } };
    const struct change both[] = { { "prune.score", "contribution" }, { "prune.layer", "0,2" } };
    struct golden g;
    struct buf said;
    struct err err = { 0 };
    begin(&g, &said);
    must(engine_set(g.engine, both[0].key, both[0].value, &err), &err);
    must(engine_set(g.engine, both[1].key, both[1].value, &err), &err);
    assert_int_equal(count_of(&said, "one value per layer"), 1);
    must(engine_set_all(g.engine, other, 2, &err), &err);
    must(engine_set(g.engine, "adapter", LORA, &err), &err);
    assert_string_equal(value(&g, "prune.layer"), "0,2");
    assert_null(engine_propose(g.engine, other, 2, &err)); // a computation needs consistent values
    assert_non_null(strstr(err.text, "one value per layer"));
    must(engine_reset(g.engine, NULL, &err), &err);
    engine_restore(g.engine, both, 2);
    assert_string_equal(value(&g, "prune.layer"), "0,2");
    assert_string_equal(value(&g, "prune.score"), "contribution");
    end(&g, &said);
}

static void make_row(void *self, const struct event *e)
{
    if (e->kind == EVENT_SETTING) settings_make("chat.template.made_meanwhile");
}

// Front ends and lists of jobs make rows of variables while a change is applied.
static void rows_made_during_a_change_are_left_out(void **state)
{
    struct golden g;
    struct err err = { 0 };
    golden_open(&g, "llava-1.5");
    sinks_add(&g.sinks, (struct sink){ .emit = make_row, .self = NULL });
    const int count = settings_count();
    must(engine_set(g.engine, "sample.top_k", "3", &err), &err);
    assert_int_equal(settings_count(), count + 1);
    assert_string_equal(value(&g, "chat.template.made_meanwhile"), "default");
    golden_close(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_order_does_not_matter),
        cmocka_unit_test(an_adapter_of_a_refused_request_is_freed),
        cmocka_unit_test(a_changed_adapter_is_replaced_only_if_valid),
        cmocka_unit_test(stale_results_are_announced_once),
        cmocka_unit_test(equivalent_values_keep_the_cache),
        cmocka_unit_test(unloading_an_adapter_disables_its_method),
        cmocka_unit_test(spellings_of_off_are_normalised),
        cmocka_unit_test(valid_settings_are_restored),
        cmocka_unit_test(inconsistent_values_block_no_other_change),
        cmocka_unit_test(rows_made_during_a_change_are_left_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
