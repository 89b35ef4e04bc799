// tests/bench/lookahead.c -- sample.lookahead: the cost of a pass of several rows relative to one
// row, and the speed of answers that repeat their prompt and of others, with and without drafts, in
// turn.
//
//   build/opt/tests/bench/lookahead FOLDER [TASK]     a model that follows instructions
#include <omp.h>
#include <stdio.h>
#include <string.h>

#include "core/base/event.h"
#include "core/engine/engine.h"
#include "core/model/model.h"
#include "core/talk/conversation.h"
#include "tests/bench/limits.h"
#include "tests/bench/must.h"

enum { ROUNDS = 3, PASSES = 15, MOST = 8 };

static const struct task {
    const char *name, *question;
} tasks[] = {
    { "repeat a text",
      "Repeat this text exactly: The quick brown fox jumps over the lazy dog, while the seven "
      "wizards of the northern valley prepare a potion of silver leaves, golden roots and a single "
      "feather of the phoenix. Nobody knows what it is for, and the old king, who once drank from "
      "it, has not spoken a word since." },
    { "table to JSON",
      "Convert this table to a JSON list of objects.\n\nname, age, city, profession\nAnna Berg, "
      "31, "
      "Oslo, carpenter\nJohn Miller, 45, Boston, teacher\nMaria Rossi, 28, Milan, engineer\nPaul "
      "Dubois, 52, Lyon, baker\nKenji Sato, 39, Osaka, carpenter" },
    { "change a JSON",
      "Here is a JSON object: {\"title\": \"Invoice\", \"number\": 4711, \"customer\": {\"name\": "
      "\"Miller & Sons\", \"street\": \"12 Harbour Road\", \"city\": \"Bristol\"}, \"items\": "
      "[{\"article\": \"oak board\", \"count\": 12, \"price\": 8.50}, {\"article\": \"steel "
      "screw\", "
      "\"count\": 400, \"price\": 0.05}]}. Write it again with the number 4712." },
    { "a story", "Write a short story about a lighthouse keeper who finds a map." },
    { "a question", "Why is the sky blue, and why are sunsets red?" },
    { "advice", "How can I learn to play the piano as an adult? Give me some advice." },
};
enum { TASKS = sizeof tasks / sizeof *tasks };

struct heard {
    double rate;
    int64_t drafted, accepted, tokens;
};

static void hear(void *self, const struct event *e)
{
    struct heard *h = self;
    if (e->kind != EVENT_ANSWER || e->answer->count < 2) return;
    h->rate = (double)(e->answer->count - 1) / e->answer->decode_s;
    h->drafted = e->answer->drafted;
    h->accepted = e->answer->accepted;
    h->tokens = (int64_t)e->answer->count;
}

// Seconds of a pass of n rows after the cached ones.
static double pass_seconds(struct engine *e, int n)
{
    struct conversation *c = (struct conversation *)engine_conversation(e);
    const int64_t past = c->cached.n;
    struct graph g = conversation_graph(c, engine_settings(e), NULL, NULL);
    struct arena_mark mark = arena_mark(&c->step);
    struct sequence s;
    struct tensor *logits;
    sequence_copy(&s, &c->cached);
    for (int i = 0; i < n; i++) sequence_append(&s, 100 + i);
    const double start = omp_get_wtime();
    must(conversation_forward(c, &g, &s, n > 1 ? LOGITS_ALL : LOGITS_LAST, false, &logits), &g.err);
    const double took = omp_get_wtime() - start;
    arena_reset(&c->step, mark);
    sequence_release(&s);
    conversation_trim(c, past);
    return took;
}

static void measure_passes(struct engine *e)
{
    double took[MOST + 1][PASSES];
    const int most = (int)backend_few_rows(backend_cpu());
    for (int i = -1; i < PASSES; i++)
        for (int n = 1; n <= most; n++) took[n][i < 0 ? 0 : i] = pass_seconds(e, n);
    printf("\nA pass of n rows takes, of one row's %.1f ms:", 1e3 * median_of(took[1], PASSES));
    for (int n = 2; n <= most; n++)
        printf(" %.2f", median_of(took[n], PASSES) / median_of(took[1], PASSES));
    printf("\n");
}

static void measure_task(struct engine *e, struct heard *heard, const struct task *t)
{
    double off[ROUNDS] = { 0 }, on[ROUNDS] = { 0 }, ratio[ROUNDS];
    struct err err;
    for (int i = -1; i < ROUNDS; i++)
        for (int drafts = 0; drafts < 2; drafts++) {
            must(engine_set(e, "sample.lookahead", drafts ? "auto" : "off", &err), &err);
            engine_clear(e);
            must(engine_ask(e, t->question, &err), &err);
            if (i >= 0) (drafts ? on : off)[i] = heard->rate;
        }
    for (int i = 0; i < ROUNDS; i++) ratio[i] = on[i] / off[i];
    printf("| %s | %lld | %.1f tokens/s | %.1f tokens/s | %.2f | %lld of %lld |\n", t->name,
           (long long)heard->tokens, median_of(off, ROUNDS), median_of(on, ROUNDS),
           median_of(ratio, ROUNDS), (long long)heard->accepted, (long long)heard->drafted);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    struct heard heard;
    struct sinks sinks = { 0 };
    struct err err;
    if (argc < 2) return 2;
    sinks_add(&sinks, (struct sink){ .emit = hear, .self = &heard });
    struct engine *e = engine_new(backend_cpu(), &sinks);
    must(engine_load(e, argv[1], &err), &err);
    must(engine_set(e, "sample.max_tokens", "128", &err), &err);
    printf("## Lookahead: %s, %s\n\n", argv[1], backend_cpu()->describe());
    printf("| answer | tokens | off | auto | faster | drafts accepted |\n"
           "|---|---|---|---|---|---|\n");
    for (int t = 0; t < TASKS; t++)
        if (argc < 3 || !strcmp(argv[2], tasks[t].name)) measure_task(e, &heard, &tasks[t]);
    measure_passes(e);
    engine_free(e);
    return 0;
}
