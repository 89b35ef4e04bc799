// tests/core/template/thinking.c -- core/template/thinking.c: the marks of a model, and answers
// split into reasoning and answer, wherever their tokens end.
#include "core/template/thinking.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/files/checkpoint.h"
#include "core/tokenizer/tokenizer.h"

static struct tokenizer *tokenizer;

static int setup(void **state)
{
    struct err err;
    tokenizer = checkpoint_tokenizer_open("tests/goldens/qwen2", &err);
    return tokenizer ? 0 : -1;
}

static int teardown(void **state)
{
    tokenizer_free(tokenizer);
    return 0;
}

// --- marks ---------------------------------------------------------------------------------------

static void test_marks(void **state)
{
    static const struct {
        const char *template, *text, *open; // open NULL: the text opens no reasoning
    } cases[] = {
        { NULL, "assistant\n<think>\n", "<think>" },
        { NULL, "\u25c1think\u25b7", "\u25c1think\u25b7" },
        { NULL, "<think>\n\n</think>\n\n", NULL },
        { NULL, "<think> so", NULL },
        { NULL, "", NULL },
        { NULL, "<analysis>", NULL },
        { "{% if '</analysis>' in m %}", "<analysis>", "<analysis>" },
        { NULL, "[THINK]", NULL },
        { "[/THINK]", "[THINK]", "[THINK]" },
        { NULL, "<seed:think>", NULL },
        { "x.split('</think>') y.split('</seed:think>')", "<seed:think>", "<seed:think>" },
        { "</REASONING>", "<REASONING>", "<REASONING>" },
        { "</answer> a/think>", "<answer>", NULL },
        { "<|START_THINKING|><|END_THINKING|>", "<|START_THINKING|>", "<|START_THINKING|>" },
        { "'<channel|>'", "<|channel>thought\n", "<|channel>thought" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct thinking_list l;
        thinking_list_make(&l, cases[i].template, tokenizer);
        const struct thinking_marks *m = thinking_opened(&l, cases[i].text);
        assert_string_equal(m ? m->open : "none", cases[i].open ? cases[i].open : "none");
        thinking_list_release(&l);
    }
    struct thinking_list l;
    thinking_list_make(&l, "'<channel|>'", tokenizer);
    assert_true(thinking_has_token(&l, "<|channel>"));
    assert_true(thinking_has_token(&l, "</think>"));
    assert_false(thinking_has_token(&l, "<|im_end|>"));
    assert_false(thinking_has_token(&l, ""));
    thinking_list_release(&l);
}

// --- answers -------------------------------------------------------------------------------------

// Pushes the text in pieces of `size` bytes; joins the new texts like a program that reads events:
// "REASONING|ANSWER".
static void check_in(const struct thinking_list *l, bool opened, const char *text, size_t size,
                     const char *expected)
{
    struct thinking_text t;
    struct buf reasoning = { 0 }, answer = { 0 }, both = { 0 };
    thinking_start(&t, l, opened ? &l->marks[0] : NULL);
    for (size_t at = 0, n = strlen(text); at < n; at += size) {
        char *piece = xstrndup(text + at, size < n - at ? size : n - at);
        thinking_push(&t, piece, &reasoning, &answer);
        if (t.turned) { // the text before a closing mark was reasoning
            buf_clear(&reasoning);
            buf_puts(&reasoning, t.reasoning.data);
            buf_clear(&answer);
            buf_puts(&answer, t.answer.data ? t.answer.data : "");
        }
        free(piece);
    }
    thinking_finish(&t, &reasoning, &answer);
    buf_printf(&both, "%s|%s", reasoning.data ? reasoning.data : "",
               answer.data ? answer.data : "");
    if (strcmp(both.data, expected) != 0)
        fail_msg("'%s' in pieces of %zu: '%s', not '%s'", text, size, both.data, expected);
    buf_clear(&both);
    buf_printf(&both, "%s|%s", t.reasoning.data ? t.reasoning.data : "",
               t.answer.data ? t.answer.data : "");
    assert_string_equal(both.data, expected);
    buf_release(&reasoning);
    buf_release(&answer);
    buf_release(&both);
    thinking_release(&t);
}

static void test_answers(void **state)
{
    static const struct {
        bool opened; // by the prompt
        const char *text, *expected;
    } cases[] = {
        { false, "", "|" },
        { false, " yes", "| yes" },
        { false, " \n", "| \n" },
        { false, "<", "|<" },
        { false, "a < b </p> <thin", "|a < b </p> <thin" },
        { false, "<think>\na\nb</think>\n\nyes\n", "a\nb|yes\n" },
        { false, "\n<think>no</think>yes", "no|yes" },
        { false, "<think>a</think>\n<think>b</think> c", "ab|c" },
        { false, "<think></think>yes", "|yes" },
        { false, "<think>it goes on", "it goes on|" },
        { false, "<think>it goes on</thi", "it goes on</thi|" },
        { false, "<think>a</b></think><", "a</b>|<" },
        { false, "\u25c1think\u25b7no\u25c1/think\u25b7yes", "no|yes" },
        { false, "<thinking>no</thinking>yes", "no|yes" },
        { false, "no</think>\n\nyes", "no|yes" }, // only a closing mark
        { false, "no</think>yes</think>", "no|yes</think>" },
        { false, "The mark <think> has an end, </think>.",
          "|The mark <think> has an end, </think>." },
        { true, "no</think>yes", "no|yes" },
        { true, "</think>\n\nyes", "|yes" },
        { true, "it goes on", "it goes on|" },
        { true, "a</thinking>b</think>yes", "a</thinking>b|yes" },
    };
    struct thinking_list l;
    thinking_list_make(&l, NULL, tokenizer);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (size_t size = 1; size < 50; size += size < 9 ? 1 : 40)
            check_in(&l, cases[i].opened, cases[i].text, size, cases[i].expected);
    thinking_list_release(&l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_marks),
        cmocka_unit_test(test_answers),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
