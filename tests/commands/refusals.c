// tests/commands/refusals.c -- core/engine/proposal.c: /set, /toggle, /reset, presets, /compare,
// /sweep, the panel of settings, and changes in the middle of an answer refuse impossible
// values with the same message, and change nothing; /session resume leaves such a value out, with
// this message.
#include "tests/sessions/fixture.h"

#include "commands/command.h"
#include "core/adapter/adapter.h"
#include "core/adapter/adapters.h"
#include "core/settings/changes.h"
#include "core/talk/conversation.h"
#include "kernels/backend.h"
#include "sessions/records.h"
#include "tui/panel.h"

#define LLAVA "tests/goldens/llava-1.5"

// One engine with an adapter, pruning and a skipped FFN on, in the middle of a conversation.
struct program {
    struct sinks sinks;
    struct shell shell;
    char *data, *out; // for sweeps
};

static const char *const lines[] = {
    "/load " LLAVA,
    "/set sample.max_tokens 4",
    "/set sample.ignore_eos on",
    "/set train.validation 0.5",
    "/adapter load " LLAVA "/adapters/lora",
    "/set prune.score contribution",
    "/set prune.layer 1",
    "/set prune.keep 0.5",
    "/set ffn.layers 1",
    "/set ffn.approx skip",
    "/image tests/goldens/pictures/scene.png",
    "What is this?",
};

static void line(struct program *p, const char *text)
{
    struct err err = { 0 };
    if (shell_line(&p->shell, text, &err) < 0) fail_msg("%s: %s", text, err.text);
}

static void begin(struct program *p)
{
    struct err err = { 0 };
    struct store *s = store_open(database, &err);
    *p = (struct program){ .data = xasprintf("%s/data.jsonl", folder),
                           .out = xasprintf("%s/out", folder) };
    if (!s) fail_msg("%s", err.text);
    FILE *f = fopen(p->data, "w");
    assert_non_null(f);
    for (int i = 0; i < 8; i++)
        fprintf(f, "{\"id\": \"%d\", \"question\": \"What?\", \"answer\": \"It is %d.\"}\n", i, i);
    fclose(f);
    sinks_add(&p->sinks, (struct sink){ .emit = note });
    sinks_add(&p->sinks, store_sink(s, &p->sinks));
    p->shell = (struct shell){ .engine = engine_new(backend_cpu(), &p->sinks),
                               .store = s,
                               .sinks = &p->sinks };
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) line(p, lines[i]);
}

static void end(struct program *p)
{
    engine_free(p->shell.engine);
    store_close(p->shell.store);
    free(p->data);
    free(p->out);
}

// --- state that must not change ------------------------------------------------------------------

static void add_settings(struct buf *b, const struct engine *e)
{
    for (int i = 0; i < settings_count(); i++)
        buf_printf(b, "%s=%s\n", settings_row(i)->key,
                   settings_text(engine_settings(e), settings_row(i)->key));
}

// Settings, adapters, the conversation's cached rows, and the states of the methods.
static char *snapshot(const struct engine *e)
{
    const struct conversation *c = engine_conversation(e);
    const struct adapters *a = engine_adapters(e);
    struct buf b = { 0 };
    add_settings(&b, e);
    buf_printf(&b, "adapters %zu %p\n", a->count, (void *)a->active);
    for (size_t i = 0; i < a->count; i++)
        buf_printf(&b, "%s %d\n", a->list[i]->folder, a->list[i]->applied);
    buf_printf(&b, "messages %zu rows %lld kv %lld\n", c->message_count, (long long)c->cached.n,
               (long long)c->kv.layer[0].rows);
    for (int i = 0; i < METHODS_MAX; i++)
        buf_printf(&b, "%d %p\n", c->methods.slot[i].on, c->methods.slot[i].state);
    return buf_take(&b);
}

extern const struct panel panel_settings;

// --- the ways ------------------------------------------------------------------------------------

// Each way returns the message of its refusal: err.text or the notices.
typedef int (*propose_fn)(struct program *p, const char *key, const char *value, struct err *err);

static int run_line(struct program *p, char *text, struct err *err)
{
    const int status = shell_line(&p->shell, text, err);
    free(text);
    return status;
}

static int by_set(struct program *p, const char *key, const char *value, struct err *err)
{
    return run_line(p, xasprintf("/set %s \"%s\"", key, value), err);
}

static int by_toggle(struct program *p, const char *key, const char *value, struct err *err)
{
    return run_line(p, xasprintf("/toggle %s \"%s\"", key, value), err);
}

// Sets the value among other, possible ones.
static int by_preset(struct program *p, const char *key, const char *value, struct err *err)
{
    const struct change list[] = { { "norm.align", "on" },
                                   { key, value },
                                   { "sample.top_k", "7" } };
    assert_int_equal(store_preset_save(p->shell.store, "bad", list, 3, err), 0);
    return shell_line(&p->shell, "/preset load bad", err);
}

static int by_compare(struct program *p, const char *key, const char *value, struct err *err)
{
    return run_line(p, xasprintf("/compare norm.align=on | \"%s=%s\" Hi", key, value), err);
}

static int by_sweep(struct program *p, const char *key, const char *value, struct err *err)
{
    return run_line(p, xasprintf("/sweep %s \"%s|other\" %s %s", key, value, p->data, p->out), err);
}

static int by_post(struct program *p, const char *key, const char *value, struct err *err)
{
    const struct change list[] = { { key, value }, { "norm.align", "on" } };
    buf_clear(&notices);
    engine_post(p->shell.engine, list, 2, 0);
    engine_apply_posted(p->shell.engine);
    return err_set(err, "%s", notices.length ? notices.data : "");
}

// Types Enter on the row, the value, Enter.
static int by_panel(struct program *p, const char *key, const char *value, struct err *err)
{
    struct view *v = view_new();
    settings_free(v->settings);
    v->settings = settings_copy(engine_settings(p->shell.engine));
    struct canvas canvas = { 0 };
    canvas_resize(&canvas, 20, 40);
    panel_settings.draw(v, &canvas, (struct area){ 0, 0, 40, 20 }, true); // lists the rows
    canvas_release(&canvas);
    while (strcmp(v->set.rows[v->set.selected]->key, key) != 0) v->set.selected++;
    panel_settings.act(v, "change");
    panel_settings.type(v, &(struct key){ .name = "Ctrl-U" });
    for (const char *c = value; *c; c++) {
        struct key typed = { .kind = KEY_TEXT, .length = 1 };
        typed.bytes[0] = *c;
        panel_settings.type(v, &typed);
    }
    panel_settings.type(v, &(struct key){ .name = "Enter" });
    const int status = shell_line(&p->shell, v->run, err);
    view_free(v);
    return status;
}

static int by_reset(struct program *p, const char *key, const char *value, struct err *err)
{
    return run_line(p, xasprintf("/reset %s", key), err);
}

static const struct {
    const char *name;
    propose_fn propose;
} ways[] = {
    { "set", by_set },         { "toggle", by_toggle }, { "preset", by_preset },
    { "compare", by_compare }, { "sweep", by_sweep },   { "post", by_post },
    { "panel", by_panel },     { "reset", by_reset },
};

// --- refused values ------------------------------------------------------------------------------

static const struct {
    const char *key, *value, *says;
} impossible[] = {
    { "prune.layer", "9", "0 to 3" },
    { "prune.layer", "first", "prune.layer cannot be 'first'" },
    { "prune.keep", "0,0.5", "cannot increase" },
    { "prune.score", "capa", "choose one of" },
    { "sample.top_p", "2", "from 0 to 1" },
    { "ffn.layers", "auto", "needs a calibration" }, // its default
    { "ffn.approx", "hadamard", "needs a calibration" },
    { "ffn.calibration", "no/such", "no/such" },
    { "sinks.calibration", "no/such", "no/such" },
    { "norms.calibration", "no/such", "no/such" },
    { "ira.layers", "9", "0 to 3" },
    { "ira.on", "on", "needs trained parameters" },
    { "adapter", "no/such", "no folder 'no/such'" },
    { "adapter", "/dev", "is not an adapter" },
    { "chat.template", "nobody", "no chat template 'nobody': use auto, " },
};
enum { WAYS = sizeof ways / sizeof *ways, IMPOSSIBLE = sizeof impossible / sizeof *impossible };

static bool applies(int way, int i)
{
    const struct setting *row = settings_find(impossible[i].key);
    if (ways[way].propose == by_reset) return !strcmp(row->def, impossible[i].value);
    // Training creates missing parameters.
    if (ways[way].propose == by_sweep) return strcmp(row->key, "ira.on") != 0;
    return true;
}

// All ways give the message of /set.
static void every_way_to_set_gives_the_same_error(void **state)
{
    struct program p;
    begin(&p);
    for (int i = 0; i < IMPOSSIBLE; i++) {
        const char *key = impossible[i].key, *value = impossible[i].value;
        char *former = snapshot(p.shell.engine);
        char sentence[1024] = "";
        for (int way = 0; way < WAYS; way++) {
            struct err err = { 0 };
            if (!applies(way, i)) continue;
            if (ways[way].propose(&p, key, value, &err) == 0)
                fail_msg("%s: %s '%s' is accepted", ways[way].name, key, value);
            if (!*sentence) snprintf(sentence, sizeof sentence, "%s", err.text);
            if (!strstr(err.text, sentence) || !strstr(err.text, impossible[i].says))
                fail_msg("%s: '%s', not '%s'", ways[way].name, err.text, sentence);
            char *now = snapshot(p.shell.engine);
            if (strcmp(former, now) != 0)
                fail_msg("%s: %s '%s' leaves %s", ways[way].name, key, value, now);
            free(now);
        }
        free(former);
    }
    end(&p);
}

// Stores a session with the engine's changed settings and with this value.
static void write_session(const struct engine *e, const char *name, const char *key,
                          const char *value)
{
    struct err err = { 0 };
    struct store *s = open_store();
    assert_int_equal(store_begin(s, name, &err), 0);
    for (int i = 0; i < settings_count(); i++)
        if (settings_changed(engine_settings(e), settings_row(i)->key))
            set(settings_row(i)->key, settings_text(engine_settings(e), settings_row(i)->key));
    set(key, value);
    say(ROLE_USER, "hi");
    store_close(s);
}

static void sessions_resume_without_impossible_values(void **state)
{
    struct program p;
    begin(&p);
    for (int i = 0; i < IMPOSSIBLE; i++) {
        const char *key = impossible[i].key, *value = impossible[i].value;
        struct err err = { 0 };
        struct buf former = { 0 }, now = { 0 };
        char name[24];
        assert_int_equal(by_set(&p, key, value, &err), -1);
        snprintf(name, sizeof name, "session-%d", i);
        add_settings(&former, p.shell.engine);
        write_session(p.shell.engine, name, key, value);
        buf_clear(&notices);
        char *expected = xasprintf("cannot restore %s: %s\n", key, err.text);
        if (store_resume(p.shell.store, p.shell.engine, name, &err) < 0) fail_msg("%s", err.text);
        if (!strstr(notices.data, expected)) fail_msg("'%s', not '%s'", notices.data, expected);
        add_settings(&now, p.shell.engine);
        assert_string_equal(former.data, now.data);
        buf_release(&former);
        buf_release(&now);
        free(expected);
    }
    end(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(every_way_to_set_gives_the_same_error, setup, teardown),
        cmocka_unit_test_setup_teardown(sessions_resume_without_impossible_values, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
