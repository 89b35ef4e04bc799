// tests/sessions/resume.c -- sessions/resume.c and saved.c: a session is restored unchanged, or the
// program's state does not change.
//
// Both files are compiled here with a fake engine, which records the models that it loads and can
// be made to fail when it loads or identifies one. tests/sessions/replay.c tests the same with a
// real model.
#include "core/base/file_in.h"
#include "core/model/families/family.h"
#include "core/settings/changes.h"
#include "core/talk/conversation.h"
#include "tests/sessions/fixture.h"

static int64_t one(const struct model *m, struct picture_shape shape)
{
    return 1;
}

static const struct picture_kind one_token = { .tokens = one };
static const struct family seeing = { .pictures = &one_token }, blind;

static struct checkpoint files = { .folder = "none", .name = "none" };

struct engine {
    struct model model;
    bool loaded, fails, lost; // lost: the model's files are no longer readable
    const char *identity;     // identity that the next load finds
    struct conversation c;
    struct settings *settings;
    struct buf calls;
};

static int fake_load(struct engine *e, const char *name, struct err *err)
{
    if (e->fails) return err_set(err, "load %s: no such folder", name);
    buf_printf(&e->calls, "load %s\n", name);
    e->loaded = true;
    e->lost = false;
    const char *list = strchr(e->identity, ' ');
    snprintf(files.fingerprint, sizeof files.fingerprint, "%.*s", (int)strcspn(e->identity, " "),
             e->identity);
    files.files = (char *)(uintptr_t)(list ? list + 1 : NULL);
    model(name, e->identity);
    return 0;
}

static int fake_identify(struct engine *e, struct err *err)
{
    return e->lost ? err_set(err, "cannot read 'model.safetensors'") : 0;
}

static bool fake_cancelled(const struct engine *e)
{
    return false;
}

static const struct model *fake_model(const struct engine *e)
{
    return e->loaded ? &e->model : NULL;
}

static const struct conversation *fake_conversation(const struct engine *e)
{
    return &e->c;
}

static const char *fake_arithmetic(const struct engine *e)
{
    return e->loaded ? "f32" : NULL;
}

static const struct settings *fake_settings(const struct engine *e)
{
    return e->settings;
}

static struct sinks *fake_sinks(struct engine *e)
{
    return &sinks;
}

static int fake_set(struct engine *e, const char *key, const char *value, struct err *err)
{
    if (settings_set(e->settings, key, value, err) < 0) return -1;
    set(key, settings_text(e->settings, key));
    return 0;
}

static void fake_restore(struct engine *e, const struct change *list, size_t count)
{
    for (size_t i = 0; i < count; i++) fake_set(e, list[i].key, list[i].value, NULL);
}

static void told(struct engine *e, const struct message *m)
{
    tell(&(struct event){ .kind = EVENT_MESSAGE, .message = m, .pictures = e->c.pictures });
}

static int fake_add_message(struct engine *e, const struct message *m, struct err *err)
{
    conversation_append(&e->c, m, 1);
    told(e, m);
    return 0;
}

static int fake_system(struct engine *e, const char *text, struct err *err)
{
    struct message m = { .role = ROLE_SYSTEM };
    message_add_text(&m, text);
    fake_add_message(e, &m, err);
    message_release(&m);
    return 0;
}

static const struct backend *fake_backend(const struct engine *e)
{
    return backend_cpu();
}

static void fake_adopt_pictures(struct engine *e, struct conversation *from)
{
    conversation_adopt_pictures(&e->c, from);
}

static void fake_clear(struct engine *e)
{
    conversation_clear(&e->c);
    tell(&(struct event){ .kind = EVENT_CLEAR });
}

#define engine_add_message    fake_add_message
#define engine_adopt_pictures fake_adopt_pictures
#define engine_arithmetic     fake_arithmetic
#define engine_backend        fake_backend
#define engine_cancelled      fake_cancelled
#define engine_clear          fake_clear
#define engine_conversation   fake_conversation
#define engine_identify       fake_identify
#define engine_load           fake_load
#define engine_model          fake_model
#define engine_restore        fake_restore
#define engine_set            fake_set
#define engine_settings       fake_settings
#define engine_sinks          fake_sinks
#define engine_system         fake_system
#include "sessions/resume.c"
#include "sessions/saved.c"

static void engine_begin(struct engine *e)
{
    *e = (struct engine){ .settings = settings_new(), .identity = "f00d" };
    conversation_init(&e->c, backend_cpu());
    e->model.decoder.config.vocab = 100;
    e->model.family = &seeing;
    e->model.checkpoint = &files;
    e->model.name = "fake";
}

static void engine_end(struct engine *e)
{
    fake_clear(e);
    settings_free(e->settings);
    buf_release(&e->calls);
}

// Expects "user[0]:hi assistant(3):ho": [index of a picture], (number of ids).
static void assert_conversation(const struct engine *e, const char *expected)
{
    struct buf b = { 0 };
    for (size_t i = 0; i < e->c.message_count; i++) {
        const struct message *m = &e->c.messages[i];
        buf_printf(&b, "%s%s", i ? " " : "", role_name(m->role));
        for (size_t k = 0; k < m->content_count; k++)
            if (!m->content[k].text) buf_printf(&b, "[%d]", m->content[k].picture);
        if (m->generated || m->ids.count) buf_printf(&b, "(%zu)", m->ids.count);
        char *text = message_text(m);
        buf_printf(&b, ":%s", text);
        free(text);
    }
    assert_string_equal(b.data ? b.data : "", expected);
    buf_release(&b);
}

static const char *const picture_file = "tests/goldens/pictures/tiny.png";

// Makes a session "old" of a model in /m, with a picture stored under `picture_path`.
static void make_session(const char *picture_path)
{
    size_t size;
    struct err err = { 0 };
    char *bytes = file_read(picture_file, 1 << 20, &size, &err);
    assert_non_null(bytes);
    struct store *s = open_store();
    assert_int_equal(store_begin(s, "old", &err), 0);
    model("/m", "f00d");
    set("sample.top_k", "9");
    say(ROLE_SYSTEM, "Be brief.");
    say_picture(picture_path, bytes, size, "What is this?");
    reply("A cat.");
    set("sample.top_k", "7");
    set("sample.top_p", "0.5");
    free(bytes);
    store_close(s);
}

static void test_resumes(void **state)
{
    struct engine e;
    struct err err = { 0 };
    make_session("/gone/tiny.png");
    struct store *s = open_store();
    engine_begin(&e);
    fake_set(&e, "sample.min_p", "0.25", &err);
    say(ROLE_USER, "something else");
    assert_int_equal(store_use(s, &e, "old", &err), 0);
    assert_string_equal(e.calls.data, "load /m\n");
    assert_conversation(&e, "system:Be brief. user[0]:What is this? assistant(3):A cat.");
    assert_int_equal(e.c.messages[2].ids.data[1], 6);
    assert_string_equal(e.c.pictures[0].path, "/gone/tiny.png");
    assert_int_equal(settings_integer(e.settings, "sample.top_k"), 7);
    assert_true(settings_real(e.settings, "sample.top_p") == 0.5);
    assert_true(settings_real(e.settings, "sample.min_p") == 0);
    assert_string_equal(store_session(s), "old");
    // The session continues; resuming has written nothing.
    say(ROLE_USER, "more");
    assert_kept("old", "/m=f00d sample.top_k=9 system:Be brief. user:What is this? "
                       "assistant:A cat. sample.top_k=7 sample.top_p=0.5 user:more");
    engine_end(&e);
    store_close(s);
}

static void test_use_begins(void **state)
{
    struct engine e;
    struct err err = { 0 };
    struct store *s = open_store();
    engine_begin(&e);
    assert_int_equal(store_use(s, &e, "new", &err), 0);
    say(ROLE_USER, "hi");
    assert_string_equal(store_session(s), "new");
    assert_int_equal(store_use(s, &e, "a\nb", &err), -1);
    engine_end(&e);
    store_close(s);
}

// The same weights in another place are used without a notice. If the weights in the same place
// differ, a notice says so, and the ids are dropped.
static void test_models(void **state)
{
    struct engine e;
    struct err err = { 0 };
    make_session("/gone/tiny.png");
    struct store *s = open_store();
    engine_begin(&e);
    assert_int_equal(fake_load(&e, "/moved", &err), 0);
    assert_int_equal(store_resume(s, &e, "old", &err), 0);
    assert_string_equal(e.calls.data, "load /moved\n");
    assert_null(notices.length ? notices.data : NULL);
    // A model whose files are no longer readable does not prevent resuming.
    e.lost = true;
    assert_int_equal(store_resume(s, &e, "old", &err), 0);
    assert_string_equal(e.calls.data, "load /moved\nload /moved\n");
    engine_end(&e);
    store_close(s);

    s = open_store();
    engine_begin(&e);
    e.identity = "beef";
    assert_int_equal(store_resume(s, &e, "old", &err), 0);
    assert_contains(notices.data, "have changed");
    assert_conversation(&e, "system:Be brief. user[0]:What is this? assistant:A cat.");
    engine_end(&e);
    store_close(s);
}

static void say_to(const char *identity)
{
    struct err err = { 0 };
    struct store *s = open_store();
    assert_int_equal(store_begin(s, "old", &err), 0);
    model("/m", identity);
    say(ROLE_USER, "hi");
    reply("A cat.");
    if (!strncmp(identity, UNHASHED, strlen(UNHASHED)))
        assert_int_equal(
            number(s, "SELECT count(*) FROM models WHERE fingerprint LIKE '" UNHASHED "%'"), 1);
    store_close(s);
}

// The notice names the files that differ.
static void test_names_files(void **state)
{
    struct engine e;
    struct err err = { 0 };
    say_to("f00d config.json@1 chat_template.jinja@2 model.safetensors@3");
    struct store *s = open_store();
    engine_begin(&e);
    e.identity = "beef config.json@1 chat_template.jinja@4 model.safetensors@3";
    assert_int_equal(store_resume(s, &e, "old", &err), 0);
    assert_contains(notices.data, "have changed: chat_template.jinja; answers will differ");
    assert_conversation(&e, "user:hi assistant:A cat.");
    engine_end(&e);
    store_close(s);
}

// A session may begin, and even end, before its model is hashed.
static void test_hashed_later(void **state)
{
    struct engine e;
    struct err err = { 0 };
    say_to(UNHASHED "1");
    for (int known = 0; known < 2; known++) {
        struct store *s = open_store();
        buf_release(&notices);
        engine_begin(&e);
        e.identity = "f00d config.json@1";
        assert_int_equal(store_resume(s, &e, "old", &err), 0);
        if (known) {
            assert_null(notices.data);
            assert_conversation(&e, "user:hi assistant(3):A cat.");
        } else {
            assert_contains(notices.data, "ended before the files of '/m' had been hashed");
            assert_conversation(&e, "user:hi assistant:A cat.");
        }
        tell(&(struct event){ .kind = EVENT_IDENTITY,
                              .text = "/m",
                              .key = UNHASHED "1",
                              .value = "f00d config.json@1" });
        engine_end(&e);
        assert_int_equal(number(s, "SELECT count(*) FROM models"), 1);
        assert_int_equal(number(s, "SELECT count(*) FROM model_changes c JOIN models m "
                                   "ON m.id = c.model AND m.fingerprint LIKE 'f00d %'"),
                         number(s, "SELECT count(*) FROM model_changes"));
        store_close(s);
    }
}

// Messages of all models but the last lose their ids (answers become text), and so does an answer
// with an id that the model lacks.
static void test_model_changed(void **state)
{
    static const int32_t ids[] = { 1, 2 };
    struct message raw = { .role = ROLE_RAW, .generated = true, .ids = { (int32_t *)ids, 2, 2 } };
    struct engine e;
    struct err err = { 0 };
    struct store *s = open_store();
    engine_begin(&e);
    assert_int_equal(store_begin(s, "old", &err), 0);
    model("/a", "aaaa");
    tell(&(struct event){ .kind = EVENT_MESSAGE, .message = &raw });
    reply("1");
    model("/b", "f00d");
    tell(&(struct event){ .kind = EVENT_MESSAGE, .message = &raw });
    reply("2");
    assert_int_equal(store_begin(s, NULL, &err), 0);
    assert_int_equal(store_resume(s, &e, "old", &err), 0);
    assert_conversation(&e, "raw: assistant:1 raw(2): assistant(3):2");
    e.model.decoder.config.vocab = 7; // this model has no id 7, which the answer contains
    assert_int_equal(store_resume(s, &e, "old", &err), 0);
    assert_conversation(&e, "raw: assistant:1 raw(2): assistant:2");
    engine_end(&e);
    store_close(s);
}

static void test_failures(void **state)
{
    struct engine e;
    struct err err = { 0 };
    make_session("/gone/tiny.png");
    struct store *s = open_store();
    engine_begin(&e);
    e.identity = "0000";
    assert_int_equal(fake_load(&e, "/other", &err), 0);
    struct message m = { .role = ROLE_USER };
    message_add_text(&m, "before");
    fake_add_message(&e, &m, &err);
    message_release(&m);

    assert_int_equal(store_resume(s, &e, "none", &err), -1);
    assert_contains(err.text, "no session 'none'");
    e.fails = true;
    assert_int_equal(store_resume(s, &e, "old", &err), -1);
    assert_contains(err.text, "/m");
    e.fails = false;
    // The stored bytes are damaged, and the file no longer exists.
    assert_int_equal(store_run(s, &err, "UPDATE pictures SET bytes = x'00'", ""), 0);
    assert_int_equal(store_resume(s, &e, "old", &err), -1);
    assert_contains(err.text, "/gone/tiny.png");
    static const char *const damages[][2] = {
        { "UPDATE messages SET ids = x'0102030405' WHERE ids IS NOT NULL", "invalid length" },
        { "UPDATE messages SET ids = x'ffffffff' WHERE ids IS NOT NULL", "negative" },
        { "UPDATE messages SET role = 'king' WHERE generated", "unknown role" },
        { "UPDATE pictures SET size = -1", "impossible" },
        { "UPDATE sessions SET entries = 9223372036854775807 WHERE name = 'old'",
          "entries out of range" },
        { "UPDATE sessions SET entries = -1 WHERE name = 'old'", "entries out of range" },
    };
    for (size_t i = 0; i < sizeof damages / sizeof damages[0]; i++) {
        assert_int_equal(store_lock(s, &err), 0);
        assert_int_equal(store_run(s, &err, damages[i][0], ""), 0);
        store_unlock(s, 0, &err);
        assert_int_equal(store_resume(s, &e, "old", &err), -1);
        assert_contains(err.text, damages[i][1]);
        if (i == 2)
            store_run(s, &err, "UPDATE messages SET role = 'assistant' WHERE generated", "");
        if (i < 2) store_run(s, &err, "UPDATE messages SET ids = x'' WHERE generated", "");
    }
    assert_conversation(&e, "user:before");
    assert_string_equal(store_session(s) + 10, "-before");
    assert_string_equal(e.calls.data, "load /other\n"); // and no other model
    char *told = kept(store_session(s));
    assert_string_equal(told, "/other=0000 user:before");
    free(told);
    engine_end(&e);
    store_close(s);
}

static void run(struct store *s, const char *sql)
{
    struct err err = { 0 };
    if (store_run(s, &err, sql, "") < 0) fail_msg("%s: %s", sql, err.text);
}

static int interrupt(void *self)
{
    return 1;
}

// Reading takes time and memory in proportion to the file.
static void test_large(void **state)
{
    static const char count_to[] = "WITH RECURSIVE n(i) AS (SELECT 100 UNION ALL SELECT i + 1 FROM "
                                   "n WHERE i < %d) INSERT INTO %s";
    struct err err = { 0 };
    struct saved saved;
    make_session("/gone/tiny.png");
    struct store *s = open_store();
    char *undone = xasprintf(count_to, 3000,
                             "messages(session, place, role, generated, said, undone) "
                             "SELECT 1, i, 'user', 0, 0, i + 1 FROM n"),
         *commands = xasprintf(count_to, 3000,
                               "commands(session, place, words) SELECT 1, 10000 + i, '[]' FROM n"),
         *models =
             xasprintf(count_to, 400, "model_changes(session, place, model) SELECT 1, i, 1 FROM n");
    run(s, undone);
    run(s, commands);
    sqlite3_progress_handler(s->db, 10000000, interrupt, NULL);
    if (saved_read(s, "old", &saved, &err) < 0) fail_msg("%s", err.text);
    assert_int_equal(saved.list[saved.count - 1].kind, SAVED_COMMAND);
    assert_false(saved.list[saved.count - 1].undone);
    saved_release(&saved);
    run(s, "UPDATE models SET folder = printf('%.*c', 1000000, 'x')");
    run(s, "DELETE FROM messages WHERE undone");
    run(s, models);
    assert_int_equal(saved_read(s, "old", &saved, &err), -1);
    assert_contains(err.text, "more than 256 MB");
    free(undone);
    free(commands);
    free(models);
    store_close(s);
}

// A session that ended with a text-only model is restored with that model, with a notice.
static void test_blind(void **state)
{
    struct engine e;
    struct err err = { 0 };
    make_session("/gone/tiny.png");
    struct store *s = open_store();
    engine_begin(&e);
    e.model.family = &blind;
    assert_int_equal(store_resume(s, &e, "old", &err), 0);
    assert_conversation(&e, "system:Be brief. user[0]:What is this? assistant(3):A cat.");
    assert_string_equal(store_session(s), "old");
    assert_contains(notices.data, "text-only");
    engine_end(&e);
    store_close(s);
}

// If the stored bytes are lost, the file itself is used if it is unchanged.
static void test_picture_from_file(void **state)
{
    struct engine e;
    struct err err = { 0 };
    char *copy = xasprintf("%s/tiny.png", folder);
    char *command = xasprintf("cp %s %s", picture_file, copy);
    assert_int_equal(system(command), 0);
    make_session(copy);
    struct store *s = open_store();
    engine_begin(&e);
    assert_int_equal(store_run(s, &err, "UPDATE pictures SET bytes = NULL", ""), 0);
    assert_int_equal(store_resume(s, &e, "old", &err), 0);
    assert_string_equal(e.c.pictures[0].path, copy);
    fake_clear(&e);
    FILE *f = fopen(copy, "ab");
    assert_non_null(f);
    fputs("more", f);
    fclose(f);
    assert_int_equal(store_resume(s, &e, "old", &err), -1);
    assert_contains(err.text, "changed");
    unlink(copy);
    assert_int_equal(store_resume(s, &e, "old", &err), -1);
    assert_contains(err.text, "No such file");
    free(command);
    free(copy);
    engine_end(&e);
    store_close(s);
}

static void test_unanswered(void **state)
{
    struct engine e;
    struct err err = { 0 };
    struct store *s = open_store();
    engine_begin(&e);
    assert_int_equal(store_begin(s, "old", &err), 0);
    say(ROLE_USER, "question");
    store_close(s);
    s = open_store();
    assert_int_equal(store_resume(s, &e, "old", &err), 0);
    assert_conversation(&e, "user:question");
    assert_contains(notices.data, "/answer");
    engine_end(&e);
    store_close(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_resumes, setup, teardown),
        cmocka_unit_test_setup_teardown(test_use_begins, setup, teardown),
        cmocka_unit_test_setup_teardown(test_models, setup, teardown),
        cmocka_unit_test_setup_teardown(test_names_files, setup, teardown),
        cmocka_unit_test_setup_teardown(test_hashed_later, setup, teardown),
        cmocka_unit_test_setup_teardown(test_model_changed, setup, teardown),
        cmocka_unit_test_setup_teardown(test_failures, setup, teardown),
        cmocka_unit_test_setup_teardown(test_large, setup, teardown),
        cmocka_unit_test_setup_teardown(test_blind, setup, teardown),
        cmocka_unit_test_setup_teardown(test_picture_from_file, setup, teardown),
        cmocka_unit_test_setup_teardown(test_unanswered, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
