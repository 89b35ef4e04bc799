// tests/core/engine/engine.c -- core/engine/, core/talk/conversation.c and answer.c on a golden
// model: turns, reuse of the cache, undo, regen, cancel, raw ids, passes that leave no trace;
// failures lose nothing.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/event.h"
#include "core/base/mem.h"
#include "core/engine/engine.h"
#include "core/model/model.h"
#include "core/talk/conversation.h"
#include "core/template/message.h"
#include "tests/device.h"

#define LLAVA   "tests/goldens/llava-1.5"
#define PICTURE "tests/goldens/pictures/scene.png"

// golden.json, forward.gen_ids: prompt "single", end of sequence ignored.
static const int32_t GOLDEN_IDS[24] = {
    330, 143, 509, 148, 412, 304, 509, 318, 409, 304, 412, 54,
    399, 84,  34,  301, 89,  399, 78,  266, 465, 99,  547, 456
};

// A sink that records events and may cancel.
struct heard {
    struct engine *engine;
    struct ids ids; // of the last answer
    struct buf tokens, text, stop;
    int64_t prompt, visual, computed;
    int answers, messages, undone, cancel_after, token_count; // cancel_after: tokens; 0: never
    bool in_conversation, cancel_early; // cancel_early: cancels before the answer begins
};

static void hear(void *self, const struct event *e)
{
    struct heard *h = self;
    switch (e->kind) {
    case EVENT_TOKEN:
        buf_puts(&h->tokens, e->text);
        if (++h->token_count == h->cancel_after) engine_cancel(h->engine);
        break;
    case EVENT_ANSWER:
        ids_clear(&h->ids);
        ids_append(&h->ids, e->answer->ids, e->answer->count);
        buf_clear(&h->text);
        buf_puts(&h->text, e->answer->text);
        buf_clear(&h->stop);
        buf_puts(&h->stop, e->answer->stop);
        h->prompt = e->answer->prompt_tokens;
        h->visual = e->answer->visual_tokens;
        h->computed = e->answer->computed_tokens;
        h->in_conversation = e->answer->in_conversation;
        h->answers++;
        break;
    case EVENT_MESSAGE:
        h->messages++;
        if (h->cancel_early) engine_cancel(h->engine);
        break;
    case EVENT_UNDO: h->undone += (int)e->count; break;
    default: break;
    }
}

struct bench {
    struct sinks sinks;
    struct heard heard;
    struct engine *e;
};

static void set(struct bench *b, const char *key, const char *value)
{
    struct err err;
    if (engine_set(b->e, key, value, &err) < 0) fail_msg("%s", err.text);
}

static int begin(void **state)
{
    struct bench *b = xcalloc(1, sizeof *b);
    struct err err;
    sinks_add(&b->sinks, (struct sink){ .emit = hear, .self = &b->heard });
    b->e = b->heard.engine = engine_new(test_device(), &b->sinks);
    if (engine_load(b->e, LLAVA, &err) < 0) {
        print_error("%s\n", err.text);
        return -1;
    }
    set(b, "sample.max_tokens", "24");
    set(b, "sample.ignore_eos", "on");
    *state = b;
    return 0;
}

static int end(void **state)
{
    struct bench *b = *state;
    engine_free(b->e);
    ids_release(&b->heard.ids);
    buf_release(&b->heard.tokens);
    buf_release(&b->heard.text);
    buf_release(&b->heard.stop);
    free(b);
    return 0;
}

static void ask(struct bench *b, const char *text)
{
    struct err err;
    if (engine_ask(b->e, text, &err) < 0) fail_msg("%s", err.text);
}

static void attach(struct bench *b)
{
    struct err err;
    if (engine_attach(b->e, PICTURE, &err) < 0) fail_msg("%s", err.text);
}

static void expect_golden(const struct bench *b)
{
    assert_int_equal(b->heard.ids.count, 24);
    assert_memory_equal(b->heard.ids.data, GOLDEN_IDS, sizeof GOLDEN_IDS);
}

static void a_picture_and_a_question_give_the_golden_answer(void **state)
{
    struct bench *b = *state;
    attach(b);
    ask(b, "What is in the picture?");
    expect_golden(b);
    assert_int_equal(b->heard.prompt, 37);
    assert_int_equal(b->heard.visual, 25);
    assert_string_equal(b->heard.stop.data, "length");
    assert_string_equal(b->heard.tokens.data, b->heard.text.data);
    assert_true(b->heard.in_conversation);
    assert_int_equal(engine_conversation(b->e)->message_count, 2);
}

// The second turn computes only the new rows, and equals a conversation computed at once.
static void later_turns_reuse_the_cache_and_equal_a_fresh_run(void **state)
{
    struct bench *b = *state;
    attach(b);
    ask(b, "What is in the picture?");
    ask(b, "And the rectangle?");
    int64_t computed = b->heard.computed;
    assert_true(computed > 0 && computed < 25);
    struct ids second = { 0 };
    ids_append(&second, b->heard.ids.data, b->heard.ids.count);

    // The same messages with nothing cached.
    conversation_stale((struct conversation *)engine_conversation(b->e), STALE_VISUAL);
    struct err err;
    assert_int_equal(engine_regenerate(b->e, &err), 0);
    assert_int_equal(b->heard.computed, b->heard.prompt);
    assert_int_equal(b->heard.ids.count, second.count);
    assert_memory_equal(b->heard.ids.data, second.data, second.count * sizeof *second.data);
    ids_release(&second);
}

static void regen_and_undo_lead_back(void **state)
{
    struct bench *b = *state;
    struct err err;
    assert_int_equal(engine_undo(b->e, &err), -1);
    assert_int_equal(engine_regenerate(b->e, &err), -1);
    attach(b);
    ask(b, "What is in the picture?");
    ask(b, "Why?");
    assert_int_equal(engine_undo(b->e, &err), 0);
    assert_int_equal(engine_conversation(b->e)->message_count, 2);
    assert_int_equal(engine_regenerate(b->e, &err), 0);
    expect_golden(b);
    assert_int_equal(engine_undo(b->e, &err), 0);
    assert_int_equal(engine_conversation(b->e)->message_count, 0);
    attach(b);
    ask(b, "What is in the picture?");
    expect_golden(b);
}

static void sampling_again_draws_anew_and_repeats_with_its_seed(void **state)
{
    struct bench *b = *state;
    struct err err;
    set(b, "sample.temperature", "1");
    ask(b, "Hello");
    struct ids first = { 0 };
    ids_append(&first, b->heard.ids.data, b->heard.ids.count);
    assert_int_equal(engine_regenerate(b->e, &err), 0);
    assert_memory_not_equal(b->heard.ids.data, first.data, first.count * sizeof *first.data);
    assert_int_equal(settings_integer(engine_settings(b->e), "sample.seed"), 1);
    // A failed answer does not change the seed either.
    set(b, "ctx.max", "2");
    assert_int_equal(engine_regenerate(b->e, &err), -1);
    assert_int_equal(settings_integer(engine_settings(b->e), "sample.seed"), 1);
    set(b, "ctx.max", "auto");
    set(b, "sample.seed", "0");
    assert_int_equal(engine_undo(b->e, &err), 0);
    ask(b, "Hello");
    assert_memory_equal(b->heard.ids.data, first.data, first.count * sizeof *first.data);
    ids_release(&first);
}

static void cancel_keeps_what_was_said_so_far(void **state)
{
    struct bench *b = *state;
    b->heard.cancel_after = 3;
    attach(b);
    ask(b, "What is in the picture?");
    assert_string_equal(b->heard.stop.data, "cancelled");
    assert_int_equal(b->heard.ids.count, 3);
    assert_memory_equal(b->heard.ids.data, GOLDEN_IDS, 3 * sizeof *GOLDEN_IDS);
    struct err err;
    engine_uncancel(b->e);
    assert_int_equal(engine_regenerate(b->e, &err), 0);
    expect_golden(b);
}

// Ctrl-C between Enter and the answer takes effect: no token is generated.
static void cancel_holds_before_the_answer_begins(void **state)
{
    struct bench *b = *state;
    struct err err;
    b->heard.cancel_early = true;
    engine_ask(b->e, "What is in the picture?", &err);
    assert_int_equal(b->heard.token_count, 0);
    assert_string_equal(b->heard.stop.data, "cancelled");
}

static void a_failure_leaves_everything_as_it_was(void **state)
{
    struct bench *b = *state;
    struct err err;
    attach(b);
    set(b, "ctx.max", "20");
    assert_int_equal(engine_ask(b->e, "What is in the picture?", &err), -1);
    assert_non_null(strstr(err.text, "25 visual"));
    assert_int_equal(engine_conversation(b->e)->message_count, 0);
    assert_int_equal(engine_conversation(b->e)->waiting_count, 1);
    assert_int_equal(b->heard.messages, b->heard.undone);
    assert_int_equal(engine_attach(b->e, "tests/goldens/README.md", &err), -1);
    assert_int_equal(engine_attach(b->e, "no/such.png", &err), -1);
    assert_int_equal(engine_load(b->e, "tests/goldens/pictures", &err), -1);
    assert_int_equal(engine_load(b->e, "no/such/folder", &err), -1);
    assert_string_equal(engine_model(b->e)->name, LLAVA);
    set(b, "ctx.max", "auto");
    ask(b, "What is in the picture?");
    expect_golden(b);
    assert_int_equal(engine_answer(b->e, &err), -1);
}

static void raw_ids_are_the_prompt_as_they_are(void **state)
{
    struct bench *b = *state;
    struct err err;
    const int32_t ids[5] = { 1, 300, 301, 302, 303 };
    assert_int_equal(engine_raw(b->e, ids, 5, &err), 0);
    assert_int_equal(b->heard.prompt, 5);
    const struct conversation *c = engine_conversation(b->e);
    assert_int_equal(c->message_count, 2);
    // More raw ids continue directly after the answer.
    assert_int_equal(engine_raw(b->e, ids, 5, &err), 0);
    assert_int_equal(b->heard.prompt, 5 + 24 + 5);
    assert_int_equal(engine_raw(b->e, (int32_t[]){ 99999 }, 1, &err), -1);
}

static void forward_leaves_no_trace(void **state)
{
    struct bench *b = *state;
    struct err err;
    attach(b);
    assert_int_equal(engine_forward(b->e, "What is in the picture?", &err), 0);
    assert_int_equal(b->heard.prompt, 37);
    assert_int_equal(b->heard.ids.count, 0);
    assert_false(b->heard.in_conversation);
    assert_int_equal(engine_conversation(b->e)->message_count, 0);
    assert_int_equal(engine_conversation(b->e)->waiting_count, 1);
    ask(b, "What is in the picture?");
    expect_golden(b);
    assert_int_equal(b->heard.computed, 1); // the prefill above is reused
}

static void given_messages_wait_for_their_answer(void **state)
{
    struct bench *b = *state;
    struct err err;
    attach(b);
    struct message m = { .role = ROLE_USER };
    message_add_picture(&m, 0);
    message_add_text(&m, "What is in the picture?");
    assert_int_equal(engine_add_message(b->e, &m, &err), 0);
    assert_int_equal(engine_conversation(b->e)->waiting_count, 0);
    assert_int_equal(engine_answer(b->e, &err), 0);
    expect_golden(b);
    message_release(&m);
}

static void the_context_is_counted_before_anything_is_computed(void **state)
{
    struct bench *b = *state;
    struct err err;
    struct engine_context context;
    attach(b);
    assert_int_equal(engine_context(b->e, &context, &err), 0);
    assert_int_equal(context.waiting_visual, 25);
    assert_int_equal(context.text + context.visual, 0);
    assert_int_equal(context.limit, 4096);
    ask(b, "What is in the picture?");
    assert_int_equal(engine_context(b->e, &context, &err), 0);
    assert_int_equal(context.visual, 25);
    assert_int_equal(context.waiting_visual, 0);
    assert_true(context.text >= 12 + 24);
}

static void a_batch_leaves_the_conversation_alone(void **state)
{
    struct bench *b = *state;
    attach(b);
    ask(b, "What is in the picture?");
    int messages = b->heard.messages;
    engine_stash(b->e);
    ask(b, "Something else");
    assert_false(b->heard.in_conversation);
    assert_int_equal(b->heard.messages, messages);
    engine_unstash(b->e);
    assert_int_equal(engine_conversation(b->e)->message_count, 2);
    ask(b, "And the rectangle?");
    assert_true(b->heard.computed < 25);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
    const struct CMUnitTest tests[] = {
        TEST(a_picture_and_a_question_give_the_golden_answer),
        TEST(later_turns_reuse_the_cache_and_equal_a_fresh_run),
        TEST(regen_and_undo_lead_back),
        TEST(sampling_again_draws_anew_and_repeats_with_its_seed),
        TEST(cancel_keeps_what_was_said_so_far),
        TEST(cancel_holds_before_the_answer_begins),
        TEST(a_failure_leaves_everything_as_it_was),
        TEST(raw_ids_are_the_prompt_as_they_are),
        TEST(forward_leaves_no_trace),
        TEST(given_messages_wait_for_their_answer),
        TEST(the_context_is_counted_before_anything_is_computed),
        TEST(a_batch_leaves_the_conversation_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
