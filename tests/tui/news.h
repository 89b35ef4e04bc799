// tests/tui/news.h -- for tests of the screen's view: posts events as the engine's sinks would.
//
//   say(q, "What?", (const char *const[]){ "A ", "cat", NULL });   // a question and its answer
//   emit(q, (struct event){ .kind = EVENT_UNDO, .count = 2 });     // any other event
//   take_all(v, q);                                                // the view follows them
#ifndef TESTS_TUI_NEWS_H
#define TESTS_TUI_NEWS_H

#include "core/template/message.h"
#include "tui/view.h"

static inline void take_all(struct view *v, struct news_queue *q)
{
    struct news *n;
    while ((n = news_next(q))) {
        view_take(v, n);
        news_free(n);
    }
}

static inline void emit(struct news_queue *q, struct event event)
{
    const struct sink sink = news_sink(q);
    sink.emit(sink.self, &event);
}

static inline void say(struct news_queue *q, const char *question, const char *const *tokens)
{
    struct message m = { .role = ROLE_USER };
    const struct event_answer answer = { .text = "",
                                         .stop = "eos",
                                         .in_conversation = true,
                                         .count = 2,
                                         .prompt_tokens = 9,
                                         .drafted = 4,
                                         .accepted = 3,
                                         .decode_s = 0.5 };
    message_add_text(&m, question);
    news_post(q, NEWS_BUSY, question, NULL, NULL);
    emit(q, (struct event){ .kind = EVENT_MESSAGE, .message = &m });
    emit(q, (struct event){ .kind = EVENT_ANSWERING, .ok = true });
    for (int i = 0; tokens[i]; i++)
        emit(q, (struct event){ .kind = EVENT_TOKEN, .text = tokens[i] });
    emit(q, (struct event){ .kind = EVENT_TOKEN, .id = -1, .text = "" }); // not a token
    emit(q, (struct event){ .kind = EVENT_ANSWERING });
    emit(q, (struct event){ .kind = EVENT_ANSWER, .answer = &answer });
    emit(q, (struct event){ .kind = EVENT_DONE, .ok = true });
    news_post(q, NEWS_IDLE, NULL, NULL, NULL);
    message_release(&m);
}

#endif
