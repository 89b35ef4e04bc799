// tests/sessions/replay.c -- end to end with a model: a session is stored, /session resume restores
// it unchanged, and an exported script replays to the same answers.
#include "tests/sessions/fixture.h"

#include "commands/command.h"
#include "core/base/file_in.h"
#include "core/talk/conversation.h"
#include "kernels/backend.h"

#define PICTURE "tests/goldens/pictures/scene.png"

struct program {
    struct sinks sinks;
    struct shell shell;
};

static void begin_on(struct program *p, const char *db, const struct backend *device)
{
    struct err err = { 0 };
    *p = (struct program){ 0 };
    struct store *s = store_open(db, &err);
    if (!s) fail_msg("%s", err.text);
    sinks_add(&p->sinks, (struct sink){ .emit = note });
    sinks_add(&p->sinks, store_sink(s, &p->sinks));
    p->shell =
        (struct shell){ .engine = engine_new(device, &p->sinks), .store = s, .sinks = &p->sinks };
}

static void begin_program(struct program *p, const char *db)
{
    begin_on(p, db, backend_cpu());
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

// Expects the same roles, texts and ids, and pictures with the same bytes.
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
        assert_int_equal(m->content_count, n->content_count);
        for (size_t k = 0; k < m->content_count; k++) {
            if (m->content[k].text)
                assert_string_equal(m->content[k].text, n->content[k].text);
            else
                assert_string_equal(x->pictures[m->content[k].picture].sha256,
                                    y->pictures[n->content[k].picture].sha256);
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
    // Both continue from the same answer (the second writer in a copy of the session).
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

// An answer that could not be regenerated keeps its position: before the setting that caused the
// failure.
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

// --- arithmetic ----------------------------------------------------------------------------------

static bool yes(void)
{
    return true;
}

// A CPU backend with bf16 products, or one without.
static struct backend cpu_that(bool multiplies)
{
    struct backend b = *backend_cpu();
    b.multiplies_bf16 = b.favours_bf16 = multiplies ? yes : NULL;
    return b;
}

// Returns the values that the session's script sets compute.matmul to, and its /later lines.
static char *exported_arithmetic(struct program *p)
{
    static const char set[] = "/set compute.matmul ";
    char *path = xasprintf("%s/session.vlmsh", folder);
    struct buf b = { 0 };
    struct err err = { 0 };
    size_t size;
    if (store_export(p->shell.store, NULL, path, &err) < 0) fail_msg("%s", err.text);
    char *text = file_read(path, 1 << 20, &size, &err);
    assert_non_null(text);
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
        if (!strncmp(line, set, strlen(set))) buf_printf(&b, "%s ", line + strlen(set));
        if (!strncmp(line, "/later ", 7)) buf_printf(&b, "%s ", line);
    }
    unlink(path);
    free(text);
    free(path);
    return buf_take(&b);
}

static void expect_exported(struct program *p, const char *expected)
{
    char *is = exported_arithmetic(p);
    assert_string_equal(is, expected);
    free(is);
}

// Opens *p on `device` and resumes the session of *from; expects this notice (NULL: none about the
// arithmetic), this setting, and this arithmetic in use.
static void resume_on(struct program *p, const struct backend *device, const struct program *from,
                      const char *notice, const char *setting, const char *arithmetic)
{
    struct err err = { 0 };
    begin_on(p, database, device);
    buf_clear(&notices);
    if (store_resume(p->shell.store, p->shell.engine, store_session(from->shell.store), &err) < 0)
        fail_msg("%s", err.text);
    const char *told = notices.data ? notices.data : "";
    if (notice && !strstr(told, notice)) fail_msg("'%s' does not say '%s'", told, notice);
    if (!notice) assert_null(strstr(told, "computed"));
    assert_string_equal(settings_text(engine_settings(p->shell.engine), "compute.matmul"), setting);
    assert_string_equal(engine_arithmetic(p->shell.engine), arithmetic);
}

// A session whose arithmetic was auto and meant bf16 is exported with bf16, and keeps it on devices
// where auto means something else.
static void test_made_in_bf16(void **state)
{
    const struct backend with = cpu_that(true), without = cpu_that(false);
    struct program a, b;
    begin_on(&a, database, &with);
    line(&a, "/load tests/goldens/llama-3.2"); // bf16 weights
    line(&a, "/set sample.max_tokens 3");
    line(&a, "What is this?");
    assert_string_equal(engine_arithmetic(a.shell.engine), "bf16");
    expect_exported(&a, "bf16 ");
    resume_on(&b, &with, &a, NULL, "auto", "bf16");
    end_program(&b);
    resume_on(&b, &without, &a, "was computed in bf16, which this device does not support", "bf16",
              "f32");
    line(&b, "And then?");
    expect_exported(&b, "bf16 f32 ");
    end_program(&b);
    end_program(&a);
}

// A session computed only in f32 says so, whatever the setting was.
static void test_made_in_f32(void **state)
{
    const struct backend with = cpu_that(true), without = cpu_that(false);
    struct program a, b;
    begin_on(&a, database, &without);
    line(&a, "/load tests/goldens/llama-3.2");
    line(&a, "/set sample.max_tokens 3");
    line(&a, "What is this?");
    line(&a, "/set compute.matmul bf16");
    line(&a, "And then?");
    expect_exported(&a, "f32 ");
    resume_on(&b, &with, &a, "compute.matmul = f32: session", "f32", "f32");
    line(&b, "Once more.");
    line(&b, "/set compute.matmul auto");
    line(&b, "At last?");
    expect_exported(&b, "f32 bf16 f32 bf16 ");
    end_program(&b);
    end_program(&a);
}

// If the arithmetic changes in the middle of an answer, the script changes it there, too, and names
// it instead of auto.
static void test_changed_in_an_answer(void **state)
{
    const struct backend with = cpu_that(true);
    struct program a;
    begin_on(&a, database, &with);
    line(&a, "/load tests/goldens/llama-3.2");
    line(&a, "/set sample.ignore_eos on");
    line(&a, "/set sample.max_tokens 6");
    line(&a, "/set compute.matmul f32");
    line(&a, "/later 3 compute.matmul=auto");
    line(&a, "What is this?");
    expect_exported(&a, "bf16 f32 /later 3 compute.matmul=bf16 ");
    end_program(&a);
}

// When older sessions were made, auto meant f32.
static void test_made_before(void **state)
{
    const struct backend with = cpu_that(true);
    struct program a, b;
    struct err err = { 0 };
    begin_on(&a, database, &with);
    line(&a, "/load tests/goldens/llama-3.2");
    line(&a, "/set sample.max_tokens 3");
    line(&a, "What is this?");
    // The additions of the schema's last eight steps.
    static const char *const drop[] = { "ALTER TABLE jobs DROP COLUMN script",
                                        "ALTER TABLE jobs DROP COLUMN queue",
                                        "ALTER TABLE jobs DROP COLUMN queued",
                                        "ALTER TABLE jobs DROP COLUMN reports",
                                        "ALTER TABLE model_changes DROP COLUMN arithmetic",
                                        "DROP TABLE job_reads",
                                        "DROP TABLE shells",
                                        "ALTER TABLE drafts DROP COLUMN folder",
                                        "ALTER TABLE drafts DROP COLUMN model",
                                        "ALTER TABLE answers DROP COLUMN boxes",
                                        "ALTER TABLE answers DROP COLUMN reasoning",
                                        "ALTER TABLE answers DROP COLUMN reasoning_tokens",
                                        "ALTER TABLE answers DROP COLUMN answer_at",
                                        "DROP TABLE commands" };
    for (size_t i = 0; i < sizeof drop / sizeof *drop; i++)
        assert_int_equal(store_run(a.shell.store, &err, drop[i], ""), 0);
    char *version = xasprintf("PRAGMA user_version = %d", store_version() - 8);
    assert_int_equal(store_run(a.shell.store, &err, version, ""), 0);
    free(version);
    resume_on(&b, &with, &a, "compute.matmul = f32: session", "f32", "f32");
    end_program(&b);
    end_program(&a);
}

// A new session after a resumed one uses the arithmetic set before, unless the user has changed it
// since, even if the resumed session kept its arithmetic as a setting.
static void test_new_after_resume(void **state)
{
    const struct backend with = cpu_that(true), without = cpu_that(false);
    struct program a, b;
    begin_on(&a, database, &without);
    line(&a, "/load tests/goldens/llama-3.2");
    line(&a, "/set sample.max_tokens 3");
    line(&a, "What is this?");
    for (int i = 0; i < 2; i++) {
        resume_on(&b, &with, &a, i ? NULL : "compute.matmul = f32: session", "f32", "f32");
        buf_clear(&notices);
        line(&b, "/session new");
        assert_string_equal(settings_text(engine_settings(b.shell.engine), "compute.matmul"),
                            "auto");
        assert_string_equal(engine_arithmetic(b.shell.engine), "bf16");
        assert_non_null(strstr(notices.data, "compute.matmul = auto restored"));
        line(&b, "And this?");
        expect_exported(&b, "bf16 ");
        end_program(&b);
    }
    resume_on(&b, &with, &a, NULL, "f32", "f32");
    static const char *const values[] = { "bf16", "f32" };
    for (int i = 0; i < 2; i++) {
        char *set = xasprintf("/set compute.matmul %s", values[i]);
        line(&b, set);
        line(&b, "/session new");
        assert_string_equal(settings_text(engine_settings(b.shell.engine), "compute.matmul"),
                            values[i]);
        free(set);
    }
    end_program(&b);
    end_program(&a);
}

// Runs a line and returns the notices.
static const char *told_by(struct program *p, const char *text)
{
    buf_clear(&notices);
    line(p, text);
    return notices.data ? notices.data : "";
}

static int64_t rows(const struct program *p)
{
    return engine_conversation(p->shell.engine)->cached.n;
}

static bool picture_kept(const struct program *p)
{
    return engine_conversation(p->shell.engine)->pictures[0].visual != NULL;
}

// Another name for the same arithmetic changes no result, so the cache stays.
static void test_same_arithmetic(void **state)
{
    const struct backend with = cpu_that(true), without = cpu_that(false);
    const struct backend *const on[] = { &with, &without };
    static const char *const same[] = { "/set compute.matmul bf16", "/set compute.matmul f32" };
    for (int i = 0; i < 2; i++) {
        struct program p;
        begin_on(&p, database, on[i]);
        line(&p, "/load tests/goldens/llava-siglip-llama3"); // bf16 weights
        line(&p, "/set sample.max_tokens 3");
        line(&p, "/image " PICTURE);
        line(&p, "What is this?");
        const int64_t before = rows(&p);
        assert_true(before > 0);
        assert_null(strstr(told_by(&p, same[i]), "recomputes"));
        assert_int_equal(rows(&p), before);
        assert_true(picture_kept(&p));
        assert_null(strstr(told_by(&p, "/reset"), "compute.matmul changed"));
        assert_true(picture_kept(&p));
        // Setting the other arithmetic recomputes the rows only on a device that has it.
        assert_int_equal(!strstr(told_by(&p, same[!i]), "recomputes"), i);
        assert_int_equal(picture_kept(&p), i);
        end_program(&p);
    }
}

// A device without bf16 products reports that when bf16 is requested.
static void test_asked_for_bf16(void **state)
{
    const struct backend with = cpu_that(true), without = cpu_that(false);
    static const char told[] = "compute.matmul = bf16: this device has no bf16 matrix products; "
                               "computing in f32";
    struct program p;
    begin_on(&p, database, &without);
    assert_non_null(strstr(told_by(&p, "/set compute.matmul bf16"), told));
    assert_null(strstr(told_by(&p, "/set compute.matmul auto"), told));
    end_program(&p);
    begin_on(&p, database, &with);
    assert_null(strstr(told_by(&p, "/set compute.matmul bf16"), told));
    end_program(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_resume, setup, teardown),
        cmocka_unit_test_setup_teardown(test_replay, setup, teardown),
        cmocka_unit_test_setup_teardown(test_failed_regen, setup, teardown),
        cmocka_unit_test_setup_teardown(test_made_in_bf16, setup, teardown),
        cmocka_unit_test_setup_teardown(test_made_in_f32, setup, teardown),
        cmocka_unit_test_setup_teardown(test_changed_in_an_answer, setup, teardown),
        cmocka_unit_test_setup_teardown(test_made_before, setup, teardown),
        cmocka_unit_test_setup_teardown(test_new_after_resume, setup, teardown),
        cmocka_unit_test_setup_teardown(test_same_arithmetic, setup, teardown),
        cmocka_unit_test_setup_teardown(test_asked_for_bf16, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
