// tests/sessions/replay.c -- the whole way with a model: what was said is kept, comes back with
// /session resume as it was, and an exported script replays to the same answers.
#include "tests/sessions/fixture.h"

#include "commands/command.h"
#include "kernels/backend.h"

#define PICTURE "tests/goldens/pictures/scene.png"

struct program {
    struct sinks sinks;
    struct shell shell;
};

static void begin_program(struct program *p, const char *db)
{
    struct err err = { 0 };
    *p = (struct program){ 0 };
    struct store *s = store_open(db, &err);
    if (!s) fail_msg("%s", err.text);
    sinks_add(&p->sinks, store_sink(s, &p->sinks));
    p->shell = (struct shell){ .engine = engine_new(backend_cpu(), &p->sinks),
                               .store = s,
                               .sinks = &p->sinks };
}

static void end_program(struct program *p)
{
    engine_free(p->shell.engine);
    store_close(p->shell.store);
}

static void line(struct program *p, const char *text)
{
    struct err err = { 0 };
    if (shell_line(&p->shell, text, &err) < 0) fail_msg("%s: %s", text, err.text);
}

// Same roles, texts and ids; pictures of the same bytes.
static void assert_same(const struct program *a, const struct program *b)
{
    const struct conversation *x = engine_conversation(a->shell.engine);
    const struct conversation *y = engine_conversation(b->shell.engine);
    assert_int_equal(x->message_count, y->message_count);
    for (size_t i = 0; i < x->message_count; i++) {
        const struct message *m = &x->messages[i], *n = &y->messages[i];
        assert_int_equal(m->role, n->role);
        assert_int_equal(m->generated, n->generated);
        assert_int_equal(m->ids.count, n->ids.count);
        if (m->ids.count)
            assert_memory_equal(m->ids.data, n->ids.data, m->ids.count * sizeof *m->ids.data);
        assert_int_equal(m->part_count, n->part_count);
        for (size_t k = 0; k < m->part_count; k++) {
            if (m->parts[k].text)
                assert_string_equal(m->parts[k].text, n->parts[k].text);
            else
                assert_string_equal(x->pictures[m->parts[k].picture].sha256,
                                    y->pictures[n->parts[k].picture].sha256);
        }
    }
}

static void converse(struct program *p)
{
    line(p, "/load tests/goldens/llava-1.5");
    line(p, "/set sample.max_tokens 6");
    line(p, "/set sample.ignore_eos on");
    line(p, "/system Be brief.");
    line(p, "/image " PICTURE);
    line(p, "What is this?");
    line(p, "/set sample.temperature 0.8");
    line(p, "/set sample.seed 11");
    line(p, "/ask \"/no command\\n\\u0024{HOME} \\\\ \\u732b \"");
    line(p, "/regen");
    line(p, "Gone soon.");
    line(p, "/undo");
    line(p, "/set sample.top_k 20");
    line(p, "/system \"\"");
    line(p, "And then?");
}

static void test_resume(void **state)
{
    struct program a, b;
    struct err err = { 0 };
    begin_program(&a, database);
    converse(&a);
    begin_program(&b, database);
    if (store_resume(b.shell.store, b.shell.engine, store_session(a.shell.store), &err) < 0)
        fail_msg("%s", err.text);
    assert_same(&a, &b);
    // Both go on with the same answer (the second to write in a copy of its own).
    line(&a, "Once more.");
    line(&b, "Once more.");
    assert_same(&a, &b);
    assert_string_not_equal(store_session(a.shell.store), store_session(b.shell.store));
    end_program(&a);
    end_program(&b);
}

static void test_replay(void **state)
{
    struct program a, b;
    struct err err = { 0 };
    char *script = xasprintf("%s/session.vlmsh", folder), *db = xasprintf("%s/b.db", folder);
    begin_program(&a, database);
    converse(&a);
    if (store_export(a.shell.store, NULL, script, &err) < 0) fail_msg("%s", err.text);
    begin_program(&b, db);
    if (shell_script(&b.shell, script, &err) < 0) fail_msg("%s", err.text);
    assert_same(&a, &b);
    end_program(&a);
    end_program(&b);
    free(script);
    free(db);
}

// An answer that could not be given again stands where it was: before the setting that was at
// fault.
static void test_failed_regen(void **state)
{
    struct program a, b, c;
    struct err err = { 0 };
    char *script = xasprintf("%s/session.vlmsh", folder), *db = xasprintf("%s/b.db", folder);
    begin_program(&a, database);
    line(&a, "/load tests/goldens/llava-1.5");
    line(&a, "/set sample.max_tokens 6");
    line(&a, "What is this?");
    line(&a, "/set ctx.max 2");
    assert_int_equal(shell_line(&a.shell, "/regen", &err), -1);
    line(&a, "/reset ctx.max");
    line(&a, "And then?");
    if (store_export(a.shell.store, NULL, script, &err) < 0) fail_msg("%s", err.text);
    begin_program(&b, db);
    if (shell_script(&b.shell, script, &err) < 0) fail_msg("%s", err.text);
    assert_same(&a, &b);
    begin_program(&c, database);
    if (store_resume(c.shell.store, c.shell.engine, store_session(a.shell.store), &err) < 0)
        fail_msg("%s", err.text);
    assert_same(&a, &c);
    end_program(&a);
    end_program(&b);
    end_program(&c);
    free(script);
    free(db);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_resume, setup, teardown),
        cmocka_unit_test_setup_teardown(test_replay, setup, teardown),
        cmocka_unit_test_setup_teardown(test_failed_regen, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
