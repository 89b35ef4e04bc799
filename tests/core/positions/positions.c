// tests/core/positions/positions.c -- core/positions/positions.c: names of positions and the rows
// that they select, rows of the messages' texts, lists of layers.
#include "core/positions/positions.h"
#include "core/picture/image.h"
#include "core/probes/measure.h"
#include "core/template/template.h"
#include "core/tokenizer/tokenizer.h"
#include "tests/core/model/families/golden.h"

static void texts_are_read_or_refused(void **state)
{
    static const struct {
        const char *text, *wrong; // wrong: part of the message; NULL: accepted
        size_t count;
    } cases[] = {
        { "picture", NULL, 1 },
        { " picture:1 , question", NULL, 2 },
        { "picture[1,2.5,30%,40%],7,3 - 9", NULL, 3 },
        { "object red circle , last", NULL, 2 },
        { "all,text,sinks,system,answer", NULL, 5 },
        { "", "is not a position", 0 },
        { "pictures", "is not a position", 0 },
        { "picture question", "is not a position", 0 },
        { "picture,", "is not a position", 0 },
        { "picture[1,2,3]", "write a box", 0 },
        { "picture[1,2,0,4]", "write a box", 0 },
        { "picture[nan,2,3,4]", "write a box", 0 },
        { "picture:x", "picture:0", 0 },
        { "object", "object's name", 0 },
        { "9-3", "write positions", 0 },
        { "-3", "is not a position", 0 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct positions p;
        struct err err = { 0 };
        const int status = positions_parse(&p, cases[i].text, &err);
        if ((status < 0) != (cases[i].wrong != NULL) || p.count != cases[i].count ||
            (status < 0 && !strstr(err.text, cases[i].wrong)))
            fail_msg("'%s': %zu, '%s'", cases[i].text, p.count, err.text);
        positions_release(&p);
    }
}

static int left_half(void *self, const char *name, int *picture, struct image *mask,
                     struct err *err)
{
    assert_string_equal(name, "red circle");
    *picture = 0;
    *mask = (struct image){ .width = 2, .height = 1, .channels = 3 };
    mask->pixels = xcalloc(6, 1);
    memset(mask->pixels, 255, 3); // the left half
    return 0;
}

// The rows of a text as "0,3-5"; the caller frees it. NULL: refused.
static char *rows_of(const struct positions_env *env, const char *text, struct err *err)
{
    struct positions p;
    struct buf b = { 0 };
    const int64_t n = env->sequence->n;
    bool *rows = xcalloc((size_t)n + 1, sizeof *rows);
    must(positions_parse(&p, text, err), err);
    const int64_t count = positions_rows(&p, env, rows, err);
    int64_t found = 0;
    for (int64_t i = 0, to; i < n; i = to + 1) {
        for (to = i; rows[to]; to++) found++;
        if (to - i == 1) buf_printf(&b, "%s%lld", b.length ? "," : "", (long long)i);
        if (to - i > 1)
            buf_printf(&b, "%s%lld-%lld", b.length ? "," : "", (long long)i, (long long)to - 1);
    }
    if (count >= 0) assert_int_equal(count, found);
    positions_release(&p);
    free(rows);
    if (count >= 0) return buf_take(&b);
    buf_release(&b);
    return NULL;
}

// LLaVA's prompt: BOS, "USER: ", 5 x 5 tokens, the question, " ASSISTANT:", the answer.
static void names_select_rows(void **state)
{
    struct golden g;
    struct err err = { 0 };
    struct sequence s;
    struct prompt_text *texts;
    golden_open(&g, "llava-1.5");
    say(&g, chat_named(&g, "single"));
    must(engine_set(g.engine, "sample.max_tokens", "3", &err), &err);
    must(engine_answer(g.engine, &err), &err);
    struct conversation *c = golden_conversation(&g);
    const struct settings *settings = engine_settings(g.engine);
    must(measure_sequence(c, settings, &s, &err), &err);
    struct positions_env env = { .model = engine_model(g.engine),
                                 .sequence = &s,
                                 .pictures = c->pictures,
                                 .picture_count = c->picture_count,
                                 .messages = c->messages,
                                 .message_count = c->message_count - 1,
                                 .object = left_half };
    must(conversation_texts(c, env.message_count, settings, true, &texts, &env.text_count, &err),
         &err);
    env.texts = texts;
    int64_t first = 0;
    while (s.picture[first] < 0) first++;
    const long long v = first, p = s.prompt, n = s.n;
    const struct {
        const char *text;
        char *rows; // NULL: refused
    } cases[] = {
        { "picture", xasprintf("%lld-%lld", v, v + 24) },
        { "picture:0", xasprintf("%lld-%lld", v, v + 24) },
        { "picture[0,0,100%,20%]", xasprintf("%lld-%lld", v, v + 4) },
        { "picture[49%,49%,2%,2%]", xasprintf("%lld", v + 12) },
        { "picture[0,49%,100%,2%]", xasprintf("%lld-%lld", v + 10, v + 14) },
        { "last", xasprintf("%lld", p - 1) },
        { "answer", xasprintf("%lld-%lld", p - 1, n - 1) },
        { "text", xasprintf("0-%lld,%lld-%lld", v - 1, v + 25, n - 1) },
        { "all", xasprintf("0-%lld", n - 1) },
        { "2,0,1,5-6", xasprintf("0-2,5-6") },
        { "object red circle",
          xasprintf("%lld-%lld,%lld-%lld,%lld-%lld,%lld-%lld,%lld-%lld", v, v + 2, v + 5, v + 7,
                    v + 10, v + 12, v + 15, v + 17, v + 20, v + 22) },
        { "picture:1", NULL },
        { "picture[200%,0,5,5]", NULL },
        { "9999", NULL },
        { "sinks", NULL },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *rows = rows_of(&env, cases[i].text, &err);
        if (!rows != !cases[i].rows || (rows && strcmp(rows, cases[i].rows) != 0))
            fail_msg("'%s' is %s, not %s (%s)", cases[i].text, rows ? rows : "refused",
                     cases[i].rows, err.text);
        free(rows);
        free(cases[i].rows);
    }
    free(texts);
    sequence_release(&s);
    golden_close(&g);
}

// The rows of a message's texts spell that text, in templates and layouts alike.
static void texts_of_messages_are_found(void **state)
{
    static const char *const folders[] = { "llava-1.5",       "internvl3", "qwen2.5-vl",
                                           "llava-onevision", "smolvlm",   "llama-3.2" };
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        struct golden g;
        struct err err = { 0 };
        struct sequence s;
        struct prompt_text *texts;
        size_t count;
        golden_open(&g, folders[i]);
        must(engine_system(g.engine, "Be brief.", &err), &err);
        struct message m[3] = { { .role = ROLE_USER },
                                { .role = ROLE_ASSISTANT },
                                { .role = ROLE_USER } };
        static const char *const words[] = { "Be brief.", "What is it?", "A cat.", "Is it red?" };
        for (int k = 0; k < 3; k++) {
            message_add_text(&m[k], words[k + 1]);
            must(engine_add_message(g.engine, &m[k], &err), &err);
            message_release(&m[k]);
        }
        struct conversation *c = golden_conversation(&g);
        const struct settings *settings = engine_settings(g.engine);
        must(conversation_sequence(c, c->message_count, settings, true, &s, &err), &err);
        must(conversation_texts(c, c->message_count, settings, true, &texts, &count, &err), &err);
        assert_int_equal(count, 4);
        for (size_t k = 0; k < count; k++) {
            struct buf said = { 0 };
            assert_int_equal(texts[k].message, k);
            tokenizer_decode(c->model->tokenizer, s.ids + texts[k].first,
                             (size_t)(texts[k].end - texts[k].first), false, &said);
            const char *from = said.data ? said.data : "";
            while (*from == ' ') from++;
            if (strcmp(from, words[k]) != 0)
                fail_msg("%s: message %zu is '%s', not '%s'", g.name, k, from, words[k]);
            buf_release(&said);
        }
        free(texts);
        sequence_release(&s);
        golden_close(&g);
    }
}

static void layers_are_read(void **state)
{
    struct err err = { 0 };
    bool set[20];
    assert_int_equal(positions_layers(NULL, "--layers", 5, set, &err), 5);
    assert_int_equal(positions_layers("all", "--layers", 5, set, &err), 5);
    assert_int_equal(positions_layers("0,2-3", "--layers", 5, set, &err), 3);
    assert_true(set[0] && !set[1] && set[2] && set[3] && !set[4]);
    assert_int_equal(positions_layers("5", "--layers", 5, set, &err), -1);
    assert_int_equal(positions_layers("a", "--layers", 5, set, &err), -1);
    assert_int_equal(positions_layers("", "--layers", 5, set, &err), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_are_read_or_refused),
        cmocka_unit_test(names_select_rows),
        cmocka_unit_test(texts_of_messages_are_found),
        cmocka_unit_test(layers_are_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
