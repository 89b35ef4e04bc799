// tests/core/data/dialogue.c -- core/data/dialogue.c, keys.c: messages and samples of data sets,
// answers marked as context, and keys that vlmsh does not use.
#include "core/data/dialogue.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/data/keys.h"
#include "core/template/message.h"

typedef int reader(struct dialogue *d, const cJSON *json, const char *folder, struct err *err);

// Expects "role: 'text' <path> 'text'; role: ...", then " = reference"; or "error: ...".
static void check(reader *read, const char *text, const char *expected)
{
    struct dialogue d = { 0 };
    struct err err = { "" };
    struct buf b = { 0 };
    cJSON *json = json_parse(text, strlen(text), "test", &err);
    assert_non_null(json);
    if (read(&d, json, "dir", &err) < 0) {
        buf_printf(&b, "error: %s", err.text);
    } else {
        for (size_t i = 0; i < d.count; i++) {
            const struct message *m = &d.messages[i];
            buf_printf(&b, "%s%s:", i ? "; " : "", role_name(m->role));
            for (size_t j = 0; j < m->content_count; j++)
                buf_printf(&b, m->content[j].text ? " '%s'" : " <%s>",
                           m->content[j].text ? m->content[j].text
                                              : d.paths[m->content[j].picture]);
        }
        if (d.reference) buf_printf(&b, " = %s", d.reference);
    }
    assert_string_equal(b.data, expected);
    buf_release(&b);
    dialogue_release(&d);
    cJSON_Delete(json);
}

static void test_messages(void **state)
{
    check(dialogue_read_messages,
          "[{\"role\":\"system\",\"content\":\"s\"},{\"role\":\"user\",\"content\":[{\"type\":"
          "\"image\",\"path\":\"a.png\"},{\"type\":\"text\",\"text\":\"q\"}]},{\"role\":"
          "\"assistant\",\"content\":[{\"type\":\"text\",\"text\":\"r\"}]}]",
          "system: 's'; user: <dir/a.png> 'q'; assistant: 'r'");
    check(dialogue_read_messages,
          "[{\"role\":\"user\",\"content\":[{\"type\":\"image\",\"path\":\"/a.png\"}]}]",
          "user: </a.png>");
    check(dialogue_read_messages,
          "[{\"role\":\"user\",\"content\":[{\"type\":\"image\",\"image\":\"b.png\"}]}]",
          "user: <dir/b.png>");
}

static void test_messages_errors(void **state)
{
    check(dialogue_read_messages, "{}", "error: must be a list of messages");
    check(dialogue_read_messages, "[]", "error: the list of messages is empty");
    check(dialogue_read_messages, "[1]",
          "error: message 0: must be an object with \"role\" and \"content\"");
    check(dialogue_read_messages, "[{\"role\":\"user\",\"content\":\"x\"},{\"role\":\"king\"}]",
          "error: message 1: \"role\" must be \"system\", \"user\" or \"assistant\"");
    check(dialogue_read_messages, "[{\"role\":\"raw\",\"content\":\"x\"}]",
          "error: message 0: \"role\" must be \"system\", \"user\" or \"assistant\"");
    check(dialogue_read_messages, "[{\"role\":\"user\"}]",
          "error: message 0: \"content\" must be a string or a list of items");
    check(
        dialogue_read_messages, "[{\"role\":\"user\",\"content\":[{\"type\":\"video\"}]}]",
        "error: message 0: \"content\"[0]: \"type\" must be \"text\", \"image\" or \"image_url\"");
    check(dialogue_read_messages, "[{\"role\":\"user\",\"content\":[{\"type\":\"image\"}]}]",
          "error: message 0: \"content\"[0]: \"path\" of the picture is missing");
    check(dialogue_read_messages,
          "[{\"role\":\"assistant\",\"content\":[{\"type\":\"image\",\"path\":\"x\"}]}]",
          "error: message 0: \"content\"[0]: only user messages may contain pictures");
}

static void test_samples(void **state)
{
    check(dialogue_read_sample, "{\"image\":\"a.png\",\"question\":\"q\"}",
          "user: <dir/a.png> 'q'");
    check(dialogue_read_sample, "{\"images\":[\"a\",\"b\"],\"question\":\"<image>\\nx <image> y\"}",
          "user: <dir/a> 'x ' <dir/b> ' y'");
    check(dialogue_read_sample, "{\"image\":\"a\",\"text\":\"q\\n<image>\"}", "user: 'q' <dir/a>");
    check(dialogue_read_sample,
          "{\"image\":\"a\",\"conversations\":[{\"from\":\"human\",\"value\":\"<image>\\nq1\"},"
          "{\"from\":\"gpt\",\"value\":\"r1\"},{\"from\":\"human\",\"value\":\"q2\"},"
          "{\"from\":\"gpt\",\"value\":\"r2\"}]}",
          "user: <dir/a> 'q1'; assistant: 'r1'; user: 'q2' = r2");
    check(dialogue_read_sample, "{\"messages\":[{\"role\":\"user\",\"content\":\"q\"}]}",
          "user: 'q'");
    check(dialogue_read_sample, "{\"question\":\"no picture\"}", "user: 'no picture'");
    check(dialogue_read_sample, "{\"image\":\"\",\"videos\":[],\"question\":\"q\"}", "user: 'q'");
    check(dialogue_read_sample, "{\"images\":[\"\",\"a\"],\"question\":\"q\"}",
          "user: <dir/a> 'q'");
    check(dialogue_read_sample,
          "{\"system\":\"s\",\"conversations\":[{\"from\":\"human\",\"value\":\"q\"}]}",
          "system: 's'; user: 'q'");
    check(dialogue_read_sample,
          "{\"system\":\"s\",\"messages\":[{\"role\":\"system\",\"content\":\"its own\"},"
          "{\"role\":\"user\",\"content\":\"q\"}]}",
          "system: 'its own'; user: 'q'");
}

// Formats that data sets and other programs write.
static void test_foreign_formats(void **state)
{
    check(dialogue_read_messages,
          "[{\"role\":\"user\",\"content\":[{\"type\":\"image_url\",\"image_url\":{\"url\":"
          "\"data:image/png;base64,AA==\"}},{\"type\":\"image_url\",\"image_url\":\"b.png\"},"
          "{\"type\":\"text\",\"text\":\"q\"}]}]",
          "user: <data:image/png;base64,AA==> <dir/b.png> 'q'");
    check(dialogue_read_messages,
          "[{\"role\":\"user\",\"content\":[{\"type\":\"image\",\"image\":{\"bytes\":\"AA==\","
          "\"path\":\"x\"}},{\"type\":\"input_image\",\"image_url\":\"file:///a%20b.png\"}]}]",
          "user: <data:;base64,AA==> </a b.png>");
    check(dialogue_read_sample,
          "{\"image\":{\"path\":\"a.png\",\"bytes\":null},\"question\":\"q\"}",
          "user: <dir/a.png> 'q'");
    check(dialogue_read_sample,
          "{\"images\":[\"https://x.org/a.png\",\"file://localhost/b\",\"file://c\"],"
          "\"question\":\"q\"}",
          "user: <https://x.org/a.png> </b> <dir/c> 'q'");
    check(dialogue_read_sample, "{\"image\":\"file:///a%00b%41\",\"question\":\"q\"}",
          "user: </a%00bA> 'q'");
    // MiniCPM-V: turns as messages, marks with names.
    check(dialogue_read_sample,
          "{\"image\":\"a\",\"conversations\":[{\"role\":\"user\",\"content\":\"<image>\\nq\"},"
          "{\"role\":\"assistant\",\"content\":\"r\"}]}",
          "user: <dir/a> 'q' = r");
    check(dialogue_read_sample,
          "{\"image\":{\"<image_00>\":\"a\",\"<image_01>\":\"b\"},\"conversations\":[{\"role\":"
          "\"user\",\"content\":\"<image_01>\\nand <image_00>?\"},{\"role\":\"assistant\","
          "\"content\":\"r\"}]}",
          "user: <dir/b> 'and ' <dir/a> '?' = r");
    // Pictures named beside the messages, together with pictures inside messages.
    check(dialogue_read_sample,
          "{\"image\":{\"<image_00>\":\"a\"},\"conversations\":[{\"role\":\"user\",\"content\":[{"
          "\"type\":\"image\",\"path\":\"b\"},{\"type\":\"image\",\"path\":\"c\"},{\"type\":"
          "\"image\",\"path\":\"d\"}]},{\"role\":\"assistant\",\"content\":\"r\"},{\"role\":"
          "\"user\",\"content\":\"and <image_00>?\"}]}",
          "user: <dir/b> <dir/c> <dir/d>; assistant: 'r'; user: 'and ' <dir/a> '?'");
    check(dialogue_read_sample,
          "{\"conversations\":[{\"from\":\"USER\",\"value\":\"q\"},{\"from\":\"chatgpt\",\"value\":"
          "\"r\"},{\"from\":\"observation\",\"value\":\"o\"},{\"from\":\"bard\",\"value\":\"s\"}]}",
          "user: 'q'; assistant: 'r'; user: 'o' = s");
}

static void test_samples_errors(void **state)
{
    check(dialogue_read_sample, "5", "error: a sample must be an object");
    check(dialogue_read_sample, "{\"image\":\"a\"}",
          "error: needs \"question\", \"conversations\" or \"messages\"");
    check(dialogue_read_sample, "{\"image\":5,\"question\":\"q\"}",
          "error: \"image\" must be a path, {\"path\", \"bytes\"} or a list of them");
    check(dialogue_read_sample, "{\"video\":\"v.mp4\",\"question\":\"<video> q\"}",
          "error: it contains a video: vlmsh reads only pictures");
    check(dialogue_read_sample, "{\"question\":\"<image> q\"}",
          "error: the text has more \"<image>\" marks than pictures (0)");
    check(dialogue_read_sample, "{\"conversations\":[{\"from\":\"gpt\",\"value\":\"x\"}]}",
          "error: no question: it has no user message");
    check(dialogue_read_sample, "{\"conversations\":[{\"from\":\"cat\",\"value\":\"x\"}]}",
          "error: \"conversations\"[0]: \"from\" must be \"human\", \"gpt\", \"system\" or another "
          "speaker of ShareGPT, not \"cat\"");
}

static void test_folder(void **state)
{
    static const char *const cases[][2] = {
        { "a.json", "." }, { "x/a.json", "x" }, { "/a.json", "/" }, { "/x/y/a", "/x/y" }
    };
    for (size_t i = 0; i < 4; i++) {
        char *folder = path_folder(cases[i][0]);
        assert_string_equal(folder, cases[i][1]);
        free(folder);
    }
}

// --- marks and keys ------------------------------------------------------------------------------

static void test_marks(void **state)
{
    static const struct {
        const char *keys;
        bool untrained;
    } cases[] = {
        { "", false },
        { ",\"weight\":0", true },
        { ",\"weight\":0.0", true },
        { ",\"weight\":1", false },
        { ",\"weight\":0.5", false },
        { ",\"weight\":null", false },
        { ",\"loss\":false", true },
        { ",\"loss\":\"False\"", true },
        { ",\"train\":false", true },
        { ",\"train\":true", false },
        { ",\"training\":false", true },
        { ",\"loss_mask\":0", true },
        { ",\"masked\":true", true },
        { ",\"masked\":false", false },
    };
    static const char *const forms[] = {
        "{\"messages\":[{\"role\":\"user\",\"content\":\"q\"},"
        "{\"role\":\"assistant\",\"content\":\"r\"%s}]}",
        "{\"conversations\":[{\"from\":\"human\",\"value\":\"q\"},"
        "{\"from\":\"gpt\",\"value\":\"r\"%s}]}",
        "[{\"role\":\"user\",\"content\":\"q\"},{\"role\":\"assistant\",\"content\":\"r\"%s}]",
        "{\"question\":\"q\",\"answer\":\"r\"%s}",
    };
    for (size_t f = 0; f < sizeof forms / sizeof *forms; f++)
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
            struct dialogue d = { 0 };
            struct buf text = { 0 };
            const char *at = strstr(forms[f], "%s");
            buf_add(&text, forms[f], (size_t)(at - forms[f]));
            buf_printf(&text, "%s%s", cases[i].keys, at + 2);
            cJSON *json = json_parse(text.data, text.length, "test", NULL);
            assert_int_equal(dialogue_read_conversation(&d, json, "dir", NULL), 0);
            assert_int_equal(d.count, 2);
            if (d.messages[1].untrained != cases[i].untrained) fail_msg("%s", text.data);
            dialogue_release(&d);
            cJSON_Delete(json);
            buf_release(&text);
        }
}

static void check_unread(const char *text, const char *expected)
{
    struct names unread = { 0 };
    struct buf b = { 0 };
    cJSON *json = json_parse(text, strlen(text), "test", NULL);
    assert_non_null(json);
    keys_unread(json, &unread);
    buf_puts(&b, "");
    for (size_t i = 0; i < unread.count; i++) buf_printf(&b, "%s%s", i ? "; " : "", unread.list[i]);
    assert_string_equal(b.data, expected);
    names_release(&unread);
    buf_release(&b);
    cJSON_Delete(json);
}

static void test_unread(void **state)
{
    check_unread(
        "{\"id\":1,\"image\":\"a\",\"conversations\":[{\"from\":\"human\",\"value\":\"q\"}],"
        "\"source\":\"web\",\"tools\":[],\"context\":\"\",\"history\":null}",
        "");
    check_unread(
        "{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"image\",\"path\":\"a\","
        "\"max_pixels\":9,\"text\":null}],\"train\":true},"
        "{\"role\":\"assistant\",\"content\":\"r\",\"thinking\":\"t\",\"weight\":0.5}],"
        "\"tools\":[1],\"text\":\"other\"}",
        "\"tools\"; \"text\"; \"train\" of a message that is not an answer; \"max_pixels\"; "
        "\"thinking\"; \"weight\" other than 0 and 1");
    check_unread(
        "{\"question\":\"q\",\"answer\":\"r\",\"history\":[[\"a\",\"b\"]],\"context\":\"c\"}",
        "\"history\"; \"context\"");
    check_unread("{\"system\":\"s\",\"conversations\":[{\"from\":\"system\",\"value\":\"t\"},"
                 "{\"from\":\"human\",\"value\":\"q\"}],\"image\":\"a\",\"images\":[\"b\"]}",
                 "\"images\" beside \"image\"; \"system\" beside a system message");
    check_unread(
        "[{\"role\":\"assistant\",\"content\":\"r\",\"reasoning_content\":\"t\",\"loss\":false}]",
        "\"reasoning_content\"");
}

static void test_picture_order(void **state)
{
    check_unread(
        "{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"image\",\"index\":0},"
        "{\"type\":\"image\",\"index\":1},{\"type\":\"text\",\"text\":\"q\",\"index\":null}]}]}",
        "");
    check_unread("{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"image\",\"index\":1},"
                 "{\"type\":\"image\",\"index\":0}]}]}",
                 "\"index\" of a picture out of order");
}

// Placeholders of other programs: vlmsh reads them as text, puts the picture elsewhere, and says
// so.
static void test_foreign_marks(void **state)
{
    static const char of[] = " as text, not as a picture";
    static const struct {
        const char *text, *mark;
    } cases[] = {
        { "<img>a.png</img> What?", "<img>" },
        { "<img src=a.png> <imagery> <|image| <image> 1 < 2", NULL },
        { "look: <ImageHere>", "<ImageHere>" },
        { "<Image> What?", "<Image>" },
        { "<|image_1|> What?", "<|image_1|>" },
        { "in <image 2>", "<image 2>" },
        { "<image_02>", "<image_02>" },
        { "<video> What?", "<video>" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        static const char *const forms[] = {
            "{\"question\":\"%s\"}",
            "{\"conversations\":[{\"from\":\"human\",\"value\":\"%s\"}]}",
            "{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"%s\"}]}]"
            "}",
        };
        char *said = cases[i].mark ? xasprintf("\"%s\"%s", cases[i].mark, of) : xstrdup("");
        for (int k = 0; k < 3; k++) {
            const char *at = strstr(forms[k], "%s");
            char *text =
                xasprintf("%.*s%s%s", (int)(at - forms[k]), forms[k], cases[i].text, at + 2);
            check_unread(text, said);
            free(text);
        }
        free(said);
    }
    check_unread("{\"image\":{\"<image_00>\":\"a\"},\"conversations\":[{\"role\":\"user\","
                 "\"content\":\"<image_00> <image_01>\"}]}",
                 "\"<image_01>\" as text, not as a picture");
}

static void test_key_counts(void **state)
{
    struct key_counts c = { 0 };
    assert_null(key_counts_text(&c));
    for (int i = 0; i < 100; i++) {
        struct names unread = { 0 };
        char *key = xasprintf("\"k%02d\"", i);
        names_add(&unread, "\"tools\"", NULL);
        names_add(&unread, key, NULL);
        key_counts_add(&c, &unread, NULL);
        names_release(&unread);
        free(key);
    }
    char *text = key_counts_text(&c);
    assert_non_null(strstr(text, "not used: \"tools\" (100 samples), \"k00\" (1 sample), "));
    assert_non_null(strstr(text, "\"k30\" (1 sample), and others (69 samples)"));
    free(text);
    key_counts_release(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_messages),      cmocka_unit_test(test_messages_errors),
        cmocka_unit_test(test_samples),       cmocka_unit_test(test_samples_errors),
        cmocka_unit_test(test_folder),        cmocka_unit_test(test_foreign_formats),
        cmocka_unit_test(test_marks),         cmocka_unit_test(test_unread),
        cmocka_unit_test(test_picture_order), cmocka_unit_test(test_foreign_marks),
        cmocka_unit_test(test_key_counts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
