// tests/core/data/labels.c -- core/data/labels.c and prompt_answers: rows and targets equal the
// reference's training labels; targets of several answers, of layouts, at the borders of answers
// and of special tokens; answers marked as context.
#include "core/data/labels.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/file_in.h"
#include "core/files/safetensors.h"
#include "core/settings/settings.h"
#include "core/template/message.h"

struct fixture {
    struct model *model;
    struct settings *settings;
};

static struct fixture open_model(const char *name)
{
    struct err err = { "" };
    char *path = xasprintf("tests/goldens/%s", name);
    struct fixture f = { .model = model_load(path, backend_cpu(), NULL, &err),
                         .settings = settings_new() };
    free(path);
    if (!f.model) fail_msg("%s", err.text);
    if (settings_set(f.settings, "chat.date", "26 Jul 2024", &err) < 0) fail_msg("%s", err.text);
    return f;
}

static void close_model(struct fixture *f)
{
    model_free(f->model);
    settings_free(f->settings);
}

static struct labels make(const struct fixture *f, const struct message *m, size_t count,
                          const struct picture *pictures, size_t picture_count)
{
    struct labels l;
    struct err err = { "" };
    if (labels_make(&l, m, count, pictures, picture_count, f->model, f->settings, &err) < 0)
        fail_msg("%s", err.text);
    return l;
}

static struct message say(enum role role, const char *text)
{
    struct message m = { .role = role };
    message_add_text(&m, text);
    return m;
}

static void release_all(struct message *m, size_t count)
{
    for (size_t i = 0; i < count; i++) message_release(&m[i]);
}

// --- goldens -------------------------------------------------------------------------------------

static struct picture read_picture(const struct fixture *f, const char *picture)
{
    char *png = xasprintf("tests/goldens/pictures/%s.png", picture);
    char *jpg = xasprintf("tests/goldens/pictures/%s.jpg", picture);
    struct err err = { "" };
    size_t size;
    int64_t width, height;
    struct picture p = { 0 };
    char *bytes = file_read(png, 1 << 24, &size, NULL);
    if (!bytes) bytes = file_read(jpg, 1 << 24, &size, &err);
    if (!bytes || image_size(bytes, size, picture, &width, &height, &err) < 0)
        fail_msg("%s", err.text);
    model_size_picture(f->model, &p, width, height, 1, (struct picture_limit){ 0 });
    free(bytes);
    free(png);
    free(jpg);
    return p;
}

static size_t read_chat(const struct fixture *f, const cJSON *chat, struct message *messages,
                        struct picture *pictures, size_t *picture_count)
{
    size_t count = 0;
    const cJSON *item, *part;
    *picture_count = 0;
    cJSON_ArrayForEach(item, json_get(chat, "messages"))
    {
        struct message *m = &messages[count++];
        *m = (struct message){ .role = (enum role)role_parse(json_get(item, "role")->valuestring) };
        if (cJSON_IsString(json_get(item, "content")))
            message_add_text(m, json_get(item, "content")->valuestring);
        cJSON_ArrayForEach(part, json_get(item, "content"))
        {
            if (json_get(part, "text")) {
                message_add_text(m, json_get(part, "text")->valuestring);
                continue;
            }
            pictures[*picture_count] = read_picture(f, json_get(part, "picture")->valuestring);
            message_add_picture(m, (int)(*picture_count)++);
        }
    }
    return count;
}

static const struct safetensor *find(const struct safetensors *file, const char *name,
                                     const char *what, int64_t n)
{
    char *full = xasprintf("train.%s.%s", name, what);
    const struct safetensor *t = safetensors_find(file, full);
    if (!t) fail_msg("no tensor %s", full);
    assert_int_equal(t->rank, 1);
    assert_int_equal(t->shape[0], n);
    free(full);
    return t;
}

static void check_golden_sample(const struct fixture *f, const cJSON *golden,
                                const struct safetensors *file, const char *name)
{
    struct message messages[4];
    struct picture pictures[4];
    int64_t trained = 0;
    size_t picture_count;
    const cJSON *chat;
    char *chat_name = xasprintf("train_%s", name);
    cJSON_ArrayForEach(chat,
                       json_get(golden, "chat")) if (!strcmp(json_get(chat, "name")->valuestring,
                                                             chat_name)) break;
    assert_non_null(chat);
    const size_t count = read_chat(f, chat, messages, pictures, &picture_count);
    struct labels l = make(f, messages, count, pictures, picture_count);
    const int64_t n = l.sequence.n;
    const struct safetensor *ids = find(file, name, "input_ids", n);
    const struct safetensor *labels = find(file, name, "labels", n);
    const int from = json_get(json_get(golden, "labelled_from"), name)->valueint;
    assert_int_equal(ids->bytes, n * 4);
    for (int64_t i = 0; i < n; i++) {
        int32_t id, label;
        memcpy(&id, (const char *)ids->data + 4 * i, 4);
        memcpy(&label, (const char *)labels->data + 4 * i, 4);
        assert_int_equal(l.sequence.ids[i], id);
        // The label of row i is what row i - 1 predicts.
        if (i) assert_int_equal(l.target[i - 1], label == -100 ? -1 : label);
        assert_true((i >= from) == (label != -100));
        trained += label != -100;
    }
    assert_int_equal(l.target[n - 1], -1);
    assert_int_equal(l.trained, trained);
    labels_release(&l);
    release_all(messages, count);
    free(chat_name);
}

static void check_golden(const char *folder)
{
    struct fixture f = open_model(folder);
    struct err err = { "" };
    char *path = xasprintf("build/goldens/%s/golden.json", folder);
    cJSON *golden = json_read(path, 1 << 24, &err);
    free(path);
    path = xasprintf("build/goldens/%s/golden.safetensors", folder);
    struct safetensors *file = safetensors_open(path, &err);
    if (!golden || !file) fail_msg("%s", err.text);
    check_golden_sample(&f, golden, file, "a");
    check_golden_sample(&f, golden, file, "b");
    safetensors_close(file);
    cJSON_Delete(golden);
    free(path);
    close_model(&f);
}

static void test_goldens(void **state)
{
    check_golden("llava-1.5");
    check_golden("llava-siglip-llama3");
    check_golden("internvl3");
    check_golden("internvl3.5");
    check_golden("qwen2.5-vl");
    check_golden("glm-4.1v");
}

// --- several answers -----------------------------------------------------------------------------

// The trained tokens as text: one part per run of consecutive rows, separated by "|".
static char *trained_text(const struct fixture *f, const struct labels *l)
{
    struct buf b = { 0 };
    struct ids ids = { 0 };
    buf_puts(&b, "");
    for (int64_t i = 0; i < l->sequence.n; i++) {
        if (l->target[i] >= 0) ids_add(&ids, l->target[i]);
        if (!ids.count || (i + 1 < l->sequence.n && l->target[i + 1] >= 0)) continue;
        if (b.length) buf_puts(&b, "|");
        tokenizer_decode(f->model->tokenizer, ids.data, ids.count, false, &b);
        ids_clear(&ids);
    }
    ids_release(&ids);
    return buf_take(&b);
}

static void check_turns(const char *folder, const char *layout, const char *first,
                        const char *expected)
{
    struct fixture f = open_model(folder);
    struct err err;
    if (layout) assert_int_equal(settings_set(f.settings, "chat.template", layout, &err), 0);
    struct message m[] = { say(ROLE_USER, "One?"), say(ROLE_ASSISTANT, first),
                           say(ROLE_USER, "Two?"), say(ROLE_ASSISTANT, "No.") };
    struct labels l = make(&f, m, 4, NULL, 0);
    char *text = trained_text(&f, &l);
    assert_string_equal(text, expected);
    free(text);
    labels_release(&l);
    release_all(m, 4);
    close_model(&f);
}

static void test_no_such_end(void **state)
{
    struct fixture f = open_model("llava-1.5");
    struct message m[] = { say(ROLE_USER, "One?"), say(ROLE_ASSISTANT, "Yes.") };
    struct labels l;
    struct err err;
    f.model->eos.data[0] = 50000000;
    assert_int_equal(labels_make(&l, m, 2, NULL, 0, f.model, f.settings, &err), -1);
    assert_non_null(strstr(err.text, "50000000"));
    release_all(m, 2);
    close_model(&f);
}

static void test_turns(void **state)
{
    // LLaVA-1.5 writes no </s> between turns, but the first answer predicts it.
    check_turns("llava-1.5", NULL, "Yes.", "Yes.</s>|No. </s>");
    check_turns("llava-siglip-llama3", NULL, "Yes.", "Yes.<|eot_id|>|No.<|eot_id|>");
    check_turns("llama-3.2", NULL, "Yes.", "Yes.<|eot_id|>|No.<|eot_id|>");
    check_turns("qwen2", NULL, "Yes.", "Yes.<|im_end|>\n|No.<|im_end|>\n");
}

static void test_layouts(void **state)
{
    check_turns("llava-1.5", "llama-2", "Yes.", "Yes. </s>|No. </s>");
    check_turns("llava-1.5", "chatml", "Yes.", "Yes.<|im_end|>\n|No.<|im_end|>\n");
    check_turns("llava-1.5", "plain", "Yes.", "Yes.</s>|No.</s>");
    check_turns("llava-1.5", "glm-4v", "Yes.", "Yes.|No.");
    check_turns("qwen2", "llava-onevision", "Yes.", " \nYes.<|im_end|>| \nNo.<|im_end|>");
}

// A token that spans the border of an answer, an answer that ends with a space, an empty answer.
static void test_borders(void **state)
{
    // "\n\n" is one token, the end of the prompt and the beginning of the answer.
    check_turns("qwen2", NULL, "\nYes.", "\n\nYes.<|im_end|>\n|No.<|im_end|>\n");
    check_turns("llava-1.5", NULL, "Yes. ", "Yes.</s>|No. </s>");
    check_turns("llava-1.5", NULL, "", "No. </s>");
}

static void check_whole(const char *folder, const char *answer)
{
    struct fixture f = open_model(folder);
    struct message m[] = { say(ROLE_SYSTEM, "S"), say(ROLE_USER, "One?"),
                           say(ROLE_ASSISTANT, answer), say(ROLE_USER, "Two?") };
    struct labels l = make(&f, m, 4, NULL, 0);
    struct prompt_options o;
    struct sequence s;
    struct err err = { "" };
    assert_int_equal(model_prompt(f.model, f.settings, false, &o, &err), 0);
    assert_int_equal(prompt_sequence(m, 4, NULL, 0, f.model->tokenizer, &o, &s, &err), 0);
    // The conversation ends with a question: nothing is appended.
    assert_int_equal(l.sequence.n, s.n);
    assert_memory_equal(l.sequence.ids, s.ids, (size_t)s.n * sizeof *s.ids);
    assert_int_equal(l.target[s.n - 1], -1);
    sequence_release(&s);
    labels_release(&l);
    release_all(m, 4);
    close_model(&f);
}

static void test_same_rows(void **state)
{
    check_whole("llava-1.5", "Yes.  ");
    check_whole("llava-1.5", "<image></s>");
    check_whole("qwen2", "\n\n x");
    check_whole("llama-3.2", "Cafe\xCC\x81");
}

static void test_no_answer(void **state)
{
    struct fixture f = open_model("llava-1.5");
    struct message m[] = { say(ROLE_USER, "One?"), say(ROLE_ASSISTANT, " \n") };
    struct labels l = make(&f, m, 1, NULL, 0);
    assert_int_equal(l.trained, 0);
    assert_false(labels_answered(m, 2));
    labels_release(&l);
    release_all(m, 2);
    close_model(&f);
}

// An answer marked as context keeps its rows; only the other answer has targets.
static void test_untrained(void **state)
{
    static const char *const folders[] = { "llava-1.5", "qwen2" };
    for (size_t k = 0; k < 2; k++) {
        struct fixture f = open_model(folders[k]);
        struct message m[] = { say(ROLE_USER, "One?"), say(ROLE_ASSISTANT, "Yes."),
                               say(ROLE_USER, "Two?"), say(ROLE_ASSISTANT, "No.") };
        struct labels both = make(&f, m, 4, NULL, 0);
        int64_t first = 0;
        while (both.target[first] < 0) first++;
        while (both.target[first] >= 0) first++; // moves past the first answer
        m[1].untrained = true;
        struct labels one = make(&f, m, 4, NULL, 0);
        assert_int_equal(one.sequence.n, both.sequence.n);
        for (int64_t i = 0; i < both.sequence.n; i++)
            assert_int_equal(one.target[i], i < first ? -1 : both.target[i]);
        assert_true(one.trained > 0 && one.trained < both.trained);
        assert_true(labels_answered(m, 4));
        labels_release(&one);
        m[3].untrained = true;
        one = make(&f, m, 4, NULL, 0);
        assert_int_equal(one.trained, 0);
        assert_false(labels_answered(m, 4));
        labels_release(&one);
        labels_release(&both);
        release_all(m, 4);
        close_model(&f);
    }
}

static int64_t count_target(const struct labels *l, int32_t id)
{
    int64_t n = 0;
    for (int64_t i = 0; i < l->sequence.n; i++) n += l->target[i] == id;
    return n;
}

// Special tokens in texts of a data set become tokens, as in transformers, unless
// data.special_tokens is text; typed ones stay text.
static void check_special(const char *folder, const char *layout, const char *token)
{
    struct fixture f = open_model(folder);
    struct err err = { "" };
    if (layout) assert_int_equal(settings_set(f.settings, "chat.template", layout, &err), 0);
    char *answer = xasprintf("%s(1,2)%s", token, token);
    struct message m[] = { say(ROLE_USER, "Where?"), say(ROLE_ASSISTANT, answer) };
    const int32_t id = tokenizer_id(f.model->tokenizer, token);
    assert_true(id >= 0);
    struct labels l = make(&f, m, 2, NULL, 0);
    assert_int_equal(count_target(&l, id), 0);
    const int64_t plain = l.trained;
    labels_release(&l);
    m[0].from_data = m[1].from_data = true;
    l = make(&f, m, 2, NULL, 0);
    assert_int_equal(count_target(&l, id), 2);
    assert_true(l.trained < plain);
    labels_release(&l);
    assert_int_equal(settings_set(f.settings, "data.special_tokens", "text", &err), 0);
    l = make(&f, m, 2, NULL, 0);
    assert_int_equal(count_target(&l, id), 0);
    assert_int_equal(l.trained, plain);
    labels_release(&l);
    free(answer);
    release_all(m, 2);
    close_model(&f);
}

static void test_special(void **state)
{
    check_special("qwen2.5-vl", NULL, "<|box_start|>");
    check_special("internvl3", NULL, "<ref>");
    check_special("qwen2.5-vl", "plain", "<|box_start|>");
}

// Text from a data set that spells a picture's token is refused; typed text may spell it.
static void test_spelled_picture(void **state)
{
    struct fixture f = open_model("qwen2.5-vl");
    struct message m[] = { say(ROLE_USER, "<|image_pad|> Where?"), say(ROLE_ASSISTANT, "There.") };
    struct labels l = make(&f, m, 2, NULL, 0);
    struct err err = { "" };
    labels_release(&l);
    m[0].from_data = m[1].from_data = true;
    assert_int_equal(labels_make(&l, m, 2, NULL, 0, f.model, f.settings, &err), -1);
    assert_non_null(strstr(err.text, "a text spells '<|image_pad|>'"));
    release_all(m, 2);
    close_model(&f);
}

static void test_pictures(void **state)
{
    struct fixture f = open_model("llava-1.5"), text = open_model("qwen2");
    struct message m[] = { say(ROLE_USER, "One?"), say(ROLE_ASSISTANT, "Yes.") };
    message_add_picture(&m[0], 0);
    struct labels l = make(&f, m, 2, &(struct picture){ .tokens = 3 }, 1);
    assert_int_equal(sequence_visual_count(&l.sequence, 0), 3);
    for (int64_t i = 0; i < l.sequence.n; i++)
        if (l.sequence.picture[i] >= 0) assert_int_equal(l.target[i], -1);
    labels_release(&l);
    struct err err;
    assert_int_equal(
        labels_make(&l, m, 2, &(struct picture){ .tokens = 3 }, 1, text.model, text.settings, &err),
        -1);
    assert_non_null(strstr(err.text, "text-only"));
    assert_int_equal(labels_make(&l, m, 2, NULL, 0, f.model, f.settings, &err), -1);
    release_all(m, 2);
    close_model(&f);
    close_model(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_goldens),         cmocka_unit_test(test_turns),
        cmocka_unit_test(test_no_such_end),     cmocka_unit_test(test_layouts),
        cmocka_unit_test(test_borders),         cmocka_unit_test(test_same_rows),
        cmocka_unit_test(test_no_answer),       cmocka_unit_test(test_pictures),
        cmocka_unit_test(test_untrained),       cmocka_unit_test(test_special),
        cmocka_unit_test(test_spelled_picture),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
