// tests/fuzz/template.c -- reads arbitrary bytes as a model's chat template. It is refused, or
// renders conversations (one answer keeps its ids, one has reasoning); then checks the rows of
// pictures and of answers, and that texts lie in the prompt.
#include <stdlib.h>

#include "core/template/message.h"
#include "core/template/sequence.h"
#include "core/template/template.h"
#include "core/tokenizer/tokenizer.h"

enum { MESSAGES = 5, VISUAL = 6 };

static void check_prompt(const struct message *messages, size_t count, size_t pictures,
                         const struct tokenizer *t, const struct prompt_options *o)
{
    struct picture picture = { .tokens = VISUAL };
    struct sequence s;
    struct prompt_answer *answers = NULL;
    struct prompt_text *texts = NULL;
    size_t answer_count = 0, text_count = 0;
    struct err err;
    int64_t rows = INT64_MAX;
    if (prompt_answers(messages, count, &picture, pictures, t, o, &s, &answers, &answer_count,
                       &err) == 0) {
        int64_t visual = 0, end = 0;
        for (int64_t i = 0; i < s.n; i++) visual += s.picture[i] == 0;
        if (visual != (pictures ? VISUAL : 0) || s.prompt > s.n) abort();
        for (size_t i = 0; i < answer_count; end = answers[i++].end)
            if (answers[i].first < end || answers[i].end < answers[i].first || answers[i].end > s.n)
                abort();
        rows = s.n;
        sequence_release(&s);
    }
    if (prompt_texts(messages, count, &picture, pictures, t, o, &texts, &text_count, &err) == 0)
        for (size_t i = 0; i < text_count; i++)
            if (texts[i].message >= count || texts[i].first < 0 || texts[i].end < texts[i].first ||
                texts[i].end > rows)
                abort();
    free(answers);
    free(texts);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);
int LLVMFuzzerInitialize(int *argc, char ***argv);

static struct tokenizer *tokenizer;

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    struct err err;
    if (!(tokenizer = tokenizer_open("tests/goldens/llava-1.5/tokenizer.json", &err))) abort();
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    static const enum role roles[] = { ROLE_SYSTEM, ROLE_USER, ROLE_ASSISTANT, ROLE_USER,
                                       ROLE_ASSISTANT };
    static const char *const words[] = { "Be brief. ", "What is this?\n", "<think>a</think> dog ",
                                         "why <b>", "B" };
    static const int32_t answer[] = { 5, 6, 7 };
    const struct tokenizer *t = tokenizer;
    struct err err;
    struct message messages[MESSAGES] = { 0 };
    const int32_t placeholder = tokenizer_id(t, "<image>");
    char *text = xstrndup((const char *)bytes, size);
    struct chat_template *template = chat_template_open(text, NULL, t, placeholder, &err);
    for (size_t i = 0; i < MESSAGES; i++) {
        messages[i].role = roles[i];
        if (i == 1) message_add_picture(&messages[i], 0);
        message_add_text(&messages[i], words[i]);
    }
    ids_append(&messages[2].ids, answer, sizeof answer / sizeof *answer);
    messages[2].generated = true;
    message_set_reasoning(&messages[4], "C", 1, 0);
    struct prompt_options o = { .template = template,
                                .layout = layout_detect(text, t),
                                .chat_template = text,
                                .date = "26 Jul 2024",
                                .picture_before = "",
                                .picture_after = "",
                                .placeholder = placeholder };
    if (template) {
        check_prompt(messages, MESSAGES, 1, t, &o);
        check_prompt(messages, 1, 0, t, &o);
        o.generation_prompt = true;
        check_prompt(messages, MESSAGES - 1, 1, t, &o);
    }
    chat_template_free(template);
    for (size_t i = 0; i < MESSAGES; i++) message_release(&messages[i]);
    free(text);
    return 0;
}
