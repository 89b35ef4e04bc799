// tests/sessions/export.c -- sessions/export.c, script.c, transcript.c: the files' content.
// replay.c tests with a model that a script replays to the same answers.
#include "tests/sessions/fixture.h"

#include <sys/stat.h>

#include "core/base/file_in.h"
#include "core/files/checkpoint.h"
#include "core/picture/boxes.h"

static char *export_text(struct store *s, const char *file)
{
    struct err err = { 0 };
    char *path = xasprintf("%s/%s", folder, file);
    if (store_export(s, NULL, path, &err) < 0) fail_msg("%s", err.text);
    char *text = file_read(path, 1 << 24, NULL, &err);
    assert_non_null(text);
    free(path);
    return text;
}

// Returns the export from the line after "/set sample.seed 0", with DAY for the date and DIR for
// the folder.
static char *export_commands(struct store *s, const char *file)
{
    char *text = export_text(s, file), *real = realpath(folder, NULL);
    char *from = strstr(text, "/set sample.seed 0\n");
    assert_non_null(from);
    struct buf b = { 0 };
    for (char *p = from + strlen("/set sample.seed 0\n"); *p;) {
        if (!strncmp(p, "/set chat.date \"", 16)) {
            buf_puts(&b, "/set chat.date DAY");
            p = strchr(p, '\n');
        } else if (!strncmp(p, real, strlen(real))) {
            buf_puts(&b, "DIR");
            p += strlen(real);
        } else {
            buf_putc(&b, *p++);
        }
    }
    free(real);
    free(text);
    return buf_take(&b);
}

static void test_quoting(void **state)
{
    static const char *const texts[] = {
        "",          " ",         "/help", "# no comment", "two\nlines",
        "tab\there", "trailing ", "end\\", "\"quoted\"",   "${HOME} $${X}",
        "\x01\x7f",  "猫\\n\"",   "\r",    "\"\"\"",
    };
    struct err err;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        struct buf b = { 0 };
        assert_false(script_plain(texts[i]) && i != 11);
        script_quote(&b, texts[i]);
        assert_null(strpbrk(b.data, "\n\r$"));
        cJSON *json = json_parse(b.data, b.length, "quoted", &err);
        assert_non_null(json);
        assert_string_equal(cJSON_GetStringValue(json), texts[i]);
        cJSON_Delete(json);
        buf_release(&b);
    }
    assert_true(script_plain("What is this?"));
    assert_true(script_plain("a \"b\" /c #d \\e 猫"));
}

// The placeholder of an unknown fingerprint means nothing to a reader, so scripts must not contain
// it.
static void test_script_before_hash(void **state)
{
    struct store *s = open_store();
    model("/m", UNHASHED "1");
    say(ROLE_USER, "hi");
    reply("Ho.");
    char *text = export_commands(s, "early.vlmsh");
    assert_contains(
        text, "# fingerprint of the weights unknown: they had not been hashed yet\n/load /m\n");
    free(text);
    store_close(s);
}

static void test_script(void **state)
{
    struct store *s = open_store();
    model("/models/a b", "f00d");
    set("sample.temperature", "0.7");
    say(ROLE_SYSTEM, "Be brief.");
    say_picture("/gone/my cat.png", "bytes", 5, "What is this?");
    reply("A cat.");
    set("sample.seed", "4");
    say(ROLE_USER, "/not a command\n${HOME}");
    set("sample.top_k", "2");
    reply("Right.");
    char *text = export_commands(s, "one.vlmsh");
    assert_string_equal(text, "# weights f00d\n"
                              "/load \"/models/a b\"\n"
                              "/set compute.matmul f32\n"
                              "/set sample.temperature 0.7\n"
                              "/system \"Be brief.\"\n"
                              "/set chat.date DAY\n"
                              "/image DIR/one.vlmsh.files/277089d91c0b-my_cat.png\n"
                              "What is this?\n"
                              "/set sample.seed 4\n"
                              "/set sample.top_k 2\n"
                              "/ask \"/not a command\\n\\u0024{HOME}\"\n");
    free(text);
    char *path = xasprintf("%s/one.vlmsh.files/277089d91c0b-my_cat.png", folder);
    size_t size;
    char *bytes = file_read(path, 100, &size, NULL);
    assert_non_null(bytes);
    assert_int_equal(size, 5);
    assert_memory_equal(bytes, "bytes", 5);
    free(bytes);
    free(path);
    store_close(s);
}

static void test_given(void **state)
{
    static const int32_t raw[] = { 1, 22, 333 };
    struct store *s = open_store();
    struct message m = { .role = ROLE_RAW, .ids = { (int32_t *)raw, 3, 3 } };
    say(ROLE_USER, "a");
    say(ROLE_ASSISTANT, "b");
    say(ROLE_USER, "c");
    reply("d");
    set("chat.date", "26 Jul 2024");
    tell(&(struct event){ .kind = EVENT_MESSAGE, .message = &m });
    reply("e");
    say(ROLE_USER, "unanswered");
    char *text = export_commands(s, "x");
    const char *line = strstr(text, "DIR/x.files/");
    assert_non_null(line);
    assert_memory_equal(text, "/messages DIR/x.files/", 22);
    assert_contains(text, "-messages.json\n/set chat.date DAY\nc\n/set chat.date DAY\n"
                          "/raw 1 22 333\n/messages DIR/x.files/");
    char *path = xasprintf("%s%.*s", folder, (int)strcspn(line + 3, "\n"), line + 3);
    cJSON *json = json_read(path, 10000, NULL);
    char *given = cJSON_PrintUnformatted(json);
    assert_string_equal(given,
                        "[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"a\"}]},"
                        "{\"role\":\"assistant\",\"content\":[{\"type\":\"text\",\"text\":"
                        "\"b\"}]}]");
    cJSON_free(given);
    cJSON_Delete(json);
    free(path);
    free(text);
    store_close(s);
}

// A stopped answer is replayed with its length; a regenerated answer follows its question.
static void test_cut_and_again(void **state)
{
    static const int32_t ids[] = { 5, 6 };
    const struct event_answer cut = {
        .text = "x", .ids = ids, .count = 2, .stop = "cancelled", .in_conversation = true
    };
    struct store *s = open_store();
    set("sample.max_tokens", "100");
    say(ROLE_USER, "one");
    reply("1");
    tell(&(struct event){ .kind = EVENT_UNDO, .count = 1 });
    set("sample.temperature", "1");
    tell(&(struct event){ .kind = EVENT_ANSWER, .answer = &cut });
    char *text = export_commands(s, "x");
    assert_string_equal(text, "/set sample.max_tokens 100\n"
                              "/set sample.temperature 1\n"
                              "/set chat.date DAY\n"
                              "# the answer was stopped by the user\n"
                              "/set sample.max_tokens 2\n"
                              "one\n"
                              "/set sample.max_tokens 100\n");
    free(text);
    store_close(s);
}

static void test_transcript(void **state)
{
    struct store *s = open_store();
    model("/models/a", "f00d");
    set("sample.temperature", "0.5");
    say_picture("/gone/cat.png", "bytes", 5, "What is this?");
    reply("A **cat**.");
    set("sample.temperature", "0");
    say(ROLE_USER, "    code?");
    reply(" Code.");
    char *text = export_text(s, "one.md");
    assert_contains(text, "-what-is-this\n");
    assert_contains(text, "## You\n\n    code?\n\n## Model\n\nCode.\n\n");
    assert_contains(text,
                    "- model `/models/a` (fingerprint `f00d`)\n- `sample.temperature` = `0.5`\n");
    assert_contains(text, "## You\n\n![cat.png](<one.md.files/277089d91c0b-cat.png>)\n\n"
                          "What is this?\n\n## Model\n\nA **cat**.\n\n"
                          "*40 prompt tokens (16 of pictures), 24 computed in 0.50 s; 3 tokens in "
                          "0.25 s (12.0 per second); end: eos*\n\n"
                          "- `sample.temperature` = `0`\n");
    free(text);
    store_close(s);
}

static void measured(const char *words)
{
    tell(&(struct event){ .kind = EVENT_MEASURED, .key = "lens", .text = "{}", .value = words });
}

static void made(const char *words)
{
    tell(&(struct event){
        .kind = EVENT_MEASURED, .key = "steer", .text = "{}", .value = words, .ok = true });
}

// Measurements are repeated where they were made: after an answer, or after a question without an
// answer; not if their messages were undone. A fork has them too.
static void test_measurements(void **state)
{
    struct err err = { 0 };
    struct store *s = open_store();
    measured("[\"norms\",\"--data\",\"/x\"]"); // before the first message: no session
    say(ROLE_USER, "one");
    reply("1");
    measured("[\"knockout\",\"picture\",\">\",\"object red circle\",\"--layers\",\"5-6\"]");
    set("steer.vectors", "/v.safetensors=2.5");
    measured("[\"lens\",\"last\"]");
    measured("[\"norms\",\"--data\",\"/x\"]");
    tell(&(struct event){ .kind = EVENT_UNDO, .count = 1 });
    reply("2");
    say(ROLE_USER, "two");
    measured("[\"lens\"]");
    reply("3");
    assert_int_equal(store_fork(s, "copy", &err), 0);
    char *text = export_commands(s, "x");
    assert_contains(
        text,
        "# left out, because it measured messages that were undone later: /knockout picture > "
        "\"object red circle\" --layers 5-6\n"
        "/set steer.vectors /v.safetensors=2.5\n"
        "# left out, because it measured messages that were undone later: /lens last\n"
        "/norms --data /x\n"
        "/set chat.date DAY\none\n/messages DIR/x.files/");
    assert_contains(text, "-messages.json\n/lens\n/answer\n");
    assert_null(strstr(strstr(text, "norms") + 1, "norms"));
    free(text);
    measured("[\"ablate\",\"heads\"]");
    text = export_commands(s, "y");
    assert_contains(text, "/answer\n/ablate heads\n");
    free(text);
    // A setting changed during an answer is written with /later even if a measurement precedes the
    // answer.
    say(ROLE_USER, "three");
    measured("[\"norms\"]");
    tell(&(struct event){
        .kind = EVENT_SETTING, .key = "steer.vectors", .value = "/v.safetensors=1", .count = 3 });
    reply("4");
    text = export_commands(s, "w");
    assert_contains(text, "\n/norms\n/later 3 steer.vectors=/v.safetensors=1\n/answer\n");
    free(text);
    text = export_text(s, "z.md");
    assert_contains(text, "- measured: `/lens last` (of messages that were undone later)\n");
    assert_contains(text, "> \"object red circle\" --layers 5-6` (of messages");
    assert_contains(text, "- measured: `/ablate heads`\n");
    free(text);
    store_close(s);
}

// A command that makes a file is repeated even if it precedes the session: before the setting that
// names the file, and in each session of the model.
static void test_makers(void **state)
{
    static const char want[] = "/set sample.top_k 7\n/steer make /v --plus /a --once\n"
                               "/set steer.vectors /v=2\n";
    struct store *s = open_store();
    set("steer.vectors", "/v=2");
    set("sample.top_k", "7");
    measured("[\"lens\",\"--word\",\"--once\"]"); // makes no file
    made("[\"steer\",\"make\",\"/v\",\"--plus\",\"/a\",\"--once\"]");
    for (int i = 0; i < 2; i++) {
        say(ROLE_USER, "one");
        reply("1");
        char *text = export_commands(s, i ? "y" : "x");
        assert_contains(text, want);
        assert_null(strstr(text, "/lens"));
        free(text);
        tell(&(struct event){ .kind = EVENT_CLEAR });
    }
    store_close(s);
}

static void test_refusals(void **state)
{
    struct err err = { 0 };
    struct store *s = open_store();
    char *path = xasprintf("%s/x", folder), *large = xcalloc(STORED_PICTURE + 1, 1);
    assert_int_equal(store_export(s, NULL, path, &err), -1);
    assert_contains(err.text, "first message");
    assert_int_equal(store_export(s, "none", path, &err), -1);
    assert_contains(err.text, "no session 'none'");
    say(ROLE_USER, "hi");
    free(export_text(s, "x"));
    assert_int_equal(store_export(s, NULL, path, &err), -1);
    assert_contains(err.text, "already exists");
    assert_int_equal(truncate(path, 0), 0);
    assert_int_equal(store_export(s, NULL, path, &err), 0);
    assert_int_equal(store_export(s, NULL, "/dev/null/x", &err), -1);
    assert_contains(err.text, "/dev/null/x");
    // If a picture is lost, no partial script remains.
    say_picture("-", large, STORED_PICTURE + 1, "one");
    free(path);
    path = xasprintf("%s/y", folder);
    assert_int_equal(store_export(s, NULL, path, &err), -1);
    assert_contains(err.text, "standard input");
    assert_int_equal(access(path, F_OK), -1);
    free(large);
    free(path);
    store_close(s);
}

// Pictures without a file name get the extension of their format.
static void test_endings(void **state)
{
    struct store *s = open_store();
    say_picture("clipboard", "P6 1 1 255\nabc", 14, "One");
    say_picture("-", "P6 1 1 255\nabd", 14, "Two");
    say_picture("/gone/noise", "bytes", 5, "Three");
    char *text = export_text(s, "one.md");
    assert_contains(text, "-clipboard.ppm>)");
    assert_contains(text, "-standard-input.ppm>)");
    assert_contains(text, "-noise>)");
    free(text);
    store_close(s);
}

// A link in a folder from elsewhere is not followed: it may lead to a file of the user's.
static void test_link(void **state)
{
    struct err err = { 0 };
    struct store *s = open_store();
    say_picture("/gone/cat", "abc", 3, "What?");
    char *files = xasprintf("%s/x.files", folder), *path = xasprintf("%s/x", folder),
         *link = xasprintf("%s/ba7816bf8f01-cat", files); // the SHA-256 of "abc"
    assert_int_equal(mkdir(files, 0777), 0);
    assert_int_equal(symlink("../victim", link), 0);
    assert_int_equal(store_export(s, NULL, path, &err), -1);
    assert_contains(err.text, link);
    assert_contains(err.text, "a link or special file is there");
    assert_int_equal(access(path, F_OK), -1);
    assert_int_equal(unlink(link), 0);
    assert_int_equal(store_export(s, NULL, path, &err), 0);
    assert_int_equal(access(link, F_OK), 0);
    free(files);
    free(path);
    free(link);
    store_close(s);
}

// An answer's boxes are listed below a copy of their picture with the boxes drawn in, in a fork
// too.
static void test_boxes(void **state)
{
    struct picture_box list[] = { { "a|cat", 1, 2.5, 30, 40, false }, { "eye", 7, 8, 0, 0, true } };
    const struct boxes boxes = { .list = list, .count = 2 };
    const struct event_answer answer = {
        .text = "Two.", .stop = "eos", .boxes = &boxes, .in_conversation = true
    };
    static const char table[] = "-boxes.png>)\n\n"
                                "| label | x | y | w | h |\n"
                                "|---|---:|---:|---:|---:|\n"
                                "| a\\|cat | 1 | 2.5 | 30 | 40 |\n"
                                "| eye | 7 | 8 | | |\n\n";
    struct err err = { 0 };
    size_t size, before;
    char *bytes = file_read("demo/pictures/scene-0.png", 1 << 20, &size, &err);
    struct store *s = open_store();
    assert_non_null(bytes);
    say_picture("/gone/scene.png", bytes, size, "What?");
    tell(&(struct event){ .kind = EVENT_ANSWER, .answer = &answer });
    assert_int_equal(store_fork(s, "copy", &err), 0);
    char *text = export_text(s, "one.md"), *from = strstr(text, "![boxes](<one.md.files/");
    assert_contains(text, table);
    char *drawn = xasprintf("%s/%.*s", folder, (int)(strchr(from, '>') - strchr(from, '<') - 1),
                            strchr(from, '<') + 1);
    char *figure = file_read(drawn, 1 << 20, &before, NULL);
    assert_non_null(figure);
    assert_memory_equal(figure, "\x89PNG", 4);
    free(figure);
    free(drawn);
    free(text);
    // If the picture cannot be read, only the table is written.
    say_picture("/gone/noise.png", "bytes", 5, "And here?");
    tell(&(struct event){ .kind = EVENT_ANSWER, .answer = &answer });
    text = export_text(s, "two.md");
    from = strstr(text, "noise.png>)");
    assert_non_null(from);
    assert_contains(from, strstr(table, "| label"));
    assert_null(strstr(from, "boxes.png"));
    free(text);
    free(bytes);
    store_close(s);
}

// Another program may have divided the text of an answer with reasoning.
static void test_divided(void **state)
{
    struct event_answer answer = { .text = "cat",
                                   .whole = "hm cat",
                                   .reasoning = "hm",
                                   .reasoning_tokens = 1,
                                   .stop = "eos",
                                   .in_conversation = true };
    struct err err = { 0 };
    struct store *s = open_store();
    say(ROLE_USER, "What?");
    tell(&(struct event){ .kind = EVENT_ANSWER, .answer = &answer });
    assert_int_equal(store_run(s, &err,
                               "UPDATE parts SET text = 'h' WHERE message = (SELECT message FROM "
                               "answers)",
                               ""),
                     0);
    assert_int_equal(store_run(s, &err,
                               "INSERT INTO parts(message, place, text) SELECT message, 1, 'm cat' "
                               "FROM answers",
                               ""),
                     0);
    char *text = export_text(s, "divided.md");
    assert_contains(text, "</details>\n\ncat\n\n");
    free(text);
    store_close(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_quoting, setup, teardown),
        cmocka_unit_test_setup_teardown(test_script_before_hash, setup, teardown),
        cmocka_unit_test_setup_teardown(test_script, setup, teardown),
        cmocka_unit_test_setup_teardown(test_given, setup, teardown),
        cmocka_unit_test_setup_teardown(test_cut_and_again, setup, teardown),
        cmocka_unit_test_setup_teardown(test_transcript, setup, teardown),
        cmocka_unit_test_setup_teardown(test_endings, setup, teardown),
        cmocka_unit_test_setup_teardown(test_link, setup, teardown),
        cmocka_unit_test_setup_teardown(test_boxes, setup, teardown),
        cmocka_unit_test_setup_teardown(test_divided, setup, teardown),
        cmocka_unit_test_setup_teardown(test_measurements, setup, teardown),
        cmocka_unit_test_setup_teardown(test_makers, setup, teardown),
        cmocka_unit_test_setup_teardown(test_refusals, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
