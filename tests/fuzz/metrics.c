// tests/fuzz/metrics.c -- reads arbitrary bytes as texts separated by zero bytes: an answer, its
// sample's kind, the question, a reference, then choices. Every metric scores or refuses the
// answer, and its thinking can be split off while it grows by 7 bytes at a time.
#include <stdlib.h>
#include <string.h>

#include "core/base/scratch.h"
#include "core/metrics/suite.h"
#include "core/template/thinking.h"

enum { TEXTS = 12, CHOICES = 4, PIECE = 7, MOST = 1 << 24 }; // CHOICES: index of the first

static void score(const struct metric *m, struct metric_case c)
{
    struct scratch s = { 0 };
    struct err err = { "" };
    struct metric_outcome o;
    struct metric_tally tally = { 0 };
    struct metric_number numbers[METRIC_NUMBERS];
    enum thought thought;
    void *corpus = m->corpus_new ? m->corpus_new() : NULL;
    if (corpus) m->corpus_add(m, corpus, c.references, c.reference_count);
    c.corpus = corpus;
    c.scratch = &s;
    c.answer = suite_answer(&s, m->suite, m, c.answer, NULL, (enum thinking)(strlen(c.kind) % 3),
                            &thought);
    if (m->score(m, &c, &o, &err) == 0) {
        if (o.found && strlen(o.found) > MOST) abort();
        metric_tally_add(&tally, &o);
        if (m->summary && m->summary(&tally, numbers) > METRIC_NUMBERS) abort();
    } else if (!*err.text) {
        abort();
    }
    if (corpus) m->corpus_free(corpus);
    scratch_release(&s);
}

static void think(const char *answer)
{
    struct thinking_list list = { 0 };
    struct thinking_text t;
    struct buf reasoning = { 0 }, rest = { 0 };
    for (size_t i = 0; thinking_table[i].open; i++) list.marks[i] = thinking_table[i];
    thinking_start(&t, &list, thinking_opened(&list, answer));
    for (size_t at = 0, size = strlen(answer); at < size; at += PIECE) {
        char *piece = xstrndup(answer + at, size - at < PIECE ? size - at : PIECE);
        thinking_push(&t, piece, &reasoning, &rest);
        free(piece);
    }
    thinking_finish(&t, &reasoning, &rest);
    thinking_release(&t);
    buf_release(&reasoning);
    buf_release(&rest);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    char *copy = xcalloc(size + 1, 1);
    const char *texts[TEXTS] = { "", "", "", "" };
    static const double loglik[TEXTS];
    static const int64_t lengths[TEXTS];
    size_t count = 0;
    if (size) memcpy(copy, bytes, size);
    for (size_t at = 0; at < size && count < TEXTS; at += strlen(copy + at) + 1)
        texts[count++] = copy + at;
    const struct metric_case c = { .answer = texts[0],
                                   .kind = texts[1],
                                   .question = texts[2],
                                   .references = texts + 3,
                                   .reference_count = count > 3,
                                   .choices = texts + CHOICES,
                                   .choice_count = count > CHOICES ? count - CHOICES : 0,
                                   .right = -1,
                                   .loglik = loglik,
                                   .lengths = lengths };
    for (size_t i = 0; metrics[i]; i++) score(metrics[i], c);
    think(texts[0]);
    free(copy);
    return 0;
}
