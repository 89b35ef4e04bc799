// tests/core/eval/evaluate.c -- core/eval/evaluate*.c: questions asked, answers scored, samples
// skipped, pictures decoded ahead, losses, choices ranked, notices. Batches: evaluate_batch.c; a
// first question: evaluate_first.c.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
// needs the headers above
#include <cmocka.h>

#include "core/base/file_in.h"
#include "core/data/dataset.h"
#include "core/data/dialogue.h"
#include "core/data/notices.h"
#include "core/eval/evaluate.h"
#include "core/eval/loss.h"
#include "core/model/visual.h"
#include "core/ops/ops.h"
#include "core/talk/answer.h"
#include "tests/core/scratch.h"
#include "tests/device.h"

#define PICTURES "tests/goldens/pictures/"

// A model, a data set, and the reports of the last run.
struct fixture {
    struct model *model;
    struct settings *settings;
    char *folder;
    struct dataset data;
    struct evaluate_request request;
    struct evaluation e;
    struct err err;
    // One line per report: "ID TURN METRIC SCORE" or "ID TURN METRIC skipped: REASON"
    struct buf told;
    double scores[32];
    char *answers[32];
    int count, stop_after;
};

static bool keep(void *self, const struct evaluated *e)
{
    struct fixture *f = self;
    buf_printf(&f->told, "%s %d %s ", e->id, e->turn, e->metric ? e->metric->name : "-");
    if (e->skipped)
        buf_printf(&f->told, "skipped: %s\n", e->skipped);
    else
        buf_printf(&f->told, "%.4g\n", e->score);
    if (f->count < 32) {
        f->scores[f->count] = e->score;
        f->answers[f->count] = xstrdup(e->answer);
    }
    f->count++;
    return !f->stop_after || f->count < f->stop_after;
}

static void open_model(struct fixture *f, const char *folder)
{
    *f = (struct fixture){ .settings = settings_new(), .folder = scratch_new() };
    f->model = model_load(folder, test_device(), NULL, &f->err);
    if (!f->model) fail_msg("%s", f->err.text);
    assert_int_equal(settings_set(f->settings, "sample.max_tokens", "6", &f->err), 0);
    assert_int_equal(settings_set(f->settings, "chat.date", "26 Jul 2024", &f->err), 0);
    // This test's own passes compute in f32.
    assert_int_equal(settings_set(f->settings, "compute.matmul", "f32", &f->err), 0);
}

static void forget(struct fixture *f)
{
    evaluation_release(&f->e);
    dataset_close(&f->data);
    buf_release(&f->told);
    for (int i = 0; i < f->count && i < 32; i++) free(f->answers[i]);
    f->count = 0;
}

static void close_model(struct fixture *f)
{
    forget(f);
    scratch_remove(f->folder);
    settings_free(f->settings);
    model_free(f->model);
}

// Evaluates the data (JSON text); 0 or -1.
static int run(struct fixture *f, const char *metric, const char *text)
{
    char *path = xasprintf("%s/data.json", f->folder);
    forget(f);
    scratch_write(f->folder, "data.json", text, strlen(text));
    if (dataset_open(&f->data, path, PICTURES, &f->err) < 0) fail_msg("%s", f->err.text);
    free(path);
    f->request.model = f->model;
    f->request.backend = test_device();
    f->request.settings = f->settings;
    f->request.data = &f->data;
    f->request.metric = metric ? metric_find(metric) : NULL;
    f->request.report = keep;
    f->request.self = f;
    return evaluate_run(&f->request, &f->e, &f->err);
}

// The answer of a separate chat to the dialogue of a sample's JSON.
static char *chat(struct fixture *f, const char *json)
{
    struct dialogue d = { 0 };
    struct conversation c;
    struct sinks sinks = { 0 };
    bool answered;
    cJSON *parsed = json_parse(json, strlen(json), "test", &f->err);
    assert_int_equal(dialogue_read_sample(&d, parsed, PICTURES, &f->err), 0);
    conversation_init(&c, test_device());
    conversation_set_model(&c, f->model);
    for (size_t i = 0; i < d.path_count; i++) {
        size_t size;
        char *bytes = file_read(d.paths[i], IMAGE_MAX_FILE, &size, &f->err);
        assert_non_null(bytes);
        assert_true(conversation_attach(&c, d.paths[i], bytes, size, &f->err) >= 0);
        free(bytes);
    }
    for (size_t i = 0; i < d.count; i++)
        message_copy(conversation_add(&c, d.messages[i].role), &d.messages[i]);
    const struct answer_options options = { 0 };
    assert_int_equal(answer_run(&c, f->settings, NULL, NULL, &options, &sinks, &answered, &f->err),
                     0);
    char *text = message_text(&c.messages[c.message_count - 1]);
    conversation_release(&c);
    dialogue_release(&d);
    cJSON_Delete(parsed);
    return text;
}

// --- generated answers ---------------------------------------------------------------------------

#define TURN(question, answer) \
    "{\"from\":\"human\",\"value\":\"" question "\"},{\"from\":\"gpt\",\"value\":\"" answer "\"}"

static void test_answers(void **state)
{
    struct fixture f;
    open_model(&f, "tests/goldens/llava-1.5");
    // Two samples with one picture, one with another picture, one without, and a dialogue: each
    // question is answered as in a chat of its own.
    assert_int_equal(
        run(&f, "exact",
            "[{\"image\":\"scene.png\",\"question\":\"What?\",\"answer\":\"x\"},"
            "{\"image\":\"scene.png\",\"question\":\"What else?\",\"answer\":\"x\"},"
            "{\"image\":\"tall.jpg\",\"question\":\"What?\",\"answer\":\"x\"},"
            "{\"question\":\"What?\",\"answer\":\"x\"},"
            "{\"conversations\":[" TURN("One?", "first") "," TURN("Two?", "second") "]}]"),
        0);
    assert_int_equal(f.count, 6);
    static const char *const alone[] = {
        "{\"image\":\"scene.png\",\"question\":\"What?\"}",
        "{\"image\":\"scene.png\",\"question\":\"What else?\"}",
        "{\"image\":\"tall.jpg\",\"question\":\"What?\"}",
        "{\"question\":\"What?\"}",
        "{\"conversations\":[{\"from\":\"human\",\"value\":\"One?\"}]}",
        "{\"conversations\":[" TURN("One?", "first") ",{\"from\":\"human\",\"value\":\"Two?\"}]}",
    };
    for (int i = 0; i < 6; i++) {
        char *text = chat(&f, alone[i]);
        assert_true(strlen(text) > 0);
        assert_string_equal(f.answers[i], text);
        free(text);
    }
    assert_int_equal(f.e.total_count, 1);
    assert_int_equal(evaluation_main(&f.e)->tally.scores.count, 6);
    assert_int_equal(f.e.samples, 5);
    close_model(&f);
}

// The model's own answer is right even under sampling settings, which an evaluation ignores.
static void test_scores(void **state)
{
    struct fixture f;
    open_model(&f, "tests/goldens/llama-3.2");
    char *own = chat(&f, "{\"question\":\"What?\"}");
    cJSON *sample = cJSON_CreateObject();
    cJSON_AddStringToObject(sample, "question", "What?");
    cJSON_AddStringToObject(sample, "answer", own);
    char *json = cJSON_PrintUnformatted(sample);
    char *data =
        xasprintf("[%s,{\"question\":\"What?\",\"answer\":\"zzz\",\"kind\":\"other\"}]", json);
    assert_int_equal(settings_set(f.settings, "sample.temperature", "9", &f.err), 0);
    assert_int_equal(settings_set(f.settings, "sample.repeat_penalty", "9", &f.err), 0);
    static const char *const names[] = { "exact", "contains" };
    for (int i = 0; i < 2; i++) {
        assert_int_equal(run(&f, names[i], data), 0);
        assert_true(f.scores[0] == 1 && f.scores[1] == 0);
        assert_int_equal(f.e.total_count, 3);
        assert_null(f.e.totals[0].kind);
        assert_true(f.e.totals[0].tally.scores.mean == 0.5);
        assert_true(f.e.totals[0].low > 0.09 && f.e.totals[0].high < 0.91);
        assert_string_equal(f.e.totals[2].kind, "other");
        assert_true(f.e.totals[2].tally.scores.mean == 0);
    }
    // Selects one kind, then one sample, then listed samples in their order.
    const char *const kinds[] = { "other" };
    f.request.kinds = kinds;
    f.request.kind_count = 1;
    assert_int_equal(run(&f, "exact", data), 0);
    assert_string_equal(f.told.data, "#1 0 exact 0\n");
    f.request.kind_count = 0;
    f.request.limit = 1;
    assert_int_equal(run(&f, "exact", data), 0);
    assert_string_equal(f.told.data, "#0 0 exact 1\n");
    f.request.limit = 0;
    f.request.indices = (const int64_t[]){ 1, 0, 1 };
    f.request.index_count = 3;
    assert_int_equal(run(&f, "exact", data), 0);
    assert_string_equal(f.told.data, "#1 0 exact 0\n#0 0 exact 1\n#1 0 exact 0\n");
    cJSON_free(json);
    cJSON_Delete(sample);
    free(data);
    free(own);
    close_model(&f);
}

// An error in one sample skips that sample only.
static void test_skipped(void **state)
{
    struct fixture f;
    open_model(&f, "tests/goldens/llava-1.5");
    assert_int_equal(
        run(&f, NULL,
            "{\"id\":\"a\",\"image\":\"absent.png\",\"question\":\"q\",\"answer\":\"r\"}\n"
            "{\"id\":\"b\",\"question\":\"q\",\"metric\":\"exact\"}\n"
            "{\"id\":\"c\",\"question\":\"q\",\"answer\":\"r\",\"metric\":\"bleu\"}\n"
            "{broken\n"
            "{\"id\":\"e\",\"question\":\"q\",\"answer\":\"perhaps\",\"metric\":\"yesno\"}\n"
            "{\"id\":\"f\",\"question\":\"q\",\"answer\":\"r\",\"metric\":\"loglik\"}\n"
            "{\"id\":\"g\",\"question\":\"q\",\"answer\":\"r\",\"metric\":\"exact\"}\n"
            "{\"id\":\"h\",\"question\":\"q\",\"answer\":\"\"}\n"
            "{\"id\":\"i\",\"question\":\"q\",\"answer\":{},\"metric\":\"exact\"}\n"
            "{\"id\":\"j\",\"question\":\"\",\"answer\":\"\xC3\xA4\",\"metric\":\"cider\"}\n"),
        0);
    assert_non_null(strstr(f.told.data, "a 0 loss skipped: cannot"));
    assert_non_null(strstr(f.told.data, "b 0 exact skipped: no question has a reference"));
    assert_non_null(strstr(f.told.data, "c 0 - skipped: \"metric\": no metric 'bleu'"));
    assert_non_null(strstr(f.told.data, "#3 0 - skipped: line 4"));
    assert_non_null(strstr(f.told.data, "e 0 yesno skipped: the reference is neither"));
    assert_non_null(strstr(f.told.data, "f 0 loglik skipped: fewer than two"));
    assert_non_null(strstr(f.told.data, "g 0 exact 0\n"));
    assert_non_null(strstr(f.told.data, "h 0 loss skipped: every answer is"));
    assert_non_null(strstr(f.told.data, "i 0 exact skipped"));
    assert_non_null(strstr(f.told.data, "\nj 0 cider 0\n"));
    assert_int_equal(f.e.skipped, 8);
    assert_int_equal(f.e.samples, 10);
    assert_non_null(strstr(f.e.why, "sample a: "));
    assert_int_equal(f.e.total_count, 2); // exact and cider
    assert_int_equal(run(&f, NULL, "[{\"question\":\"q\"}]"), -1);
    assert_non_null(strstr(f.err.text, "no sample could be scored: sample #0: "));
    const char *const kinds[] = { "absent" };
    f.request.kinds = kinds;
    f.request.kind_count = 1;
    assert_int_equal(run(&f, NULL, "[{\"question\":\"q\",\"answer\":\"r\"}]"), -1);
    assert_string_equal(f.err.text, "no sample of this kind");
    // A sample that exceeds the context is skipped.
    f.request.kind_count = 0;
    assert_int_equal(settings_set(f.settings, "ctx.max", "5", &f.err), 0);
    static const char *const names[] = { "exact", "loss", "loglik" };
    for (int i = 0; i < 3; i++) {
        assert_int_equal(run(&f, names[i],
                             "[{\"question\":\"a long question\",\"choices\":[\"a\",\"b\"],"
                             "\"answer\":\"a\"}]"),
                         -1);
        assert_non_null(strstr(f.err.text, "context"));
    }
    close_model(&f);
}

static void test_stop(void **state)
{
    static const char data[] = "[{\"question\":\"a\",\"answer\":\"b\"},{\"question\":\"a\","
                               "\"answer\":\"b\"},{\"question\":\"a\",\"answer\":\"b\"}]";
    struct fixture f;
    atomic_bool cancel = true;
    static const char *const names[] = { "exact", "loss" };
    open_model(&f, "tests/goldens/llama-3.2");
    for (int i = 0; i < 2; i++) {
        f.stop_after = 2;
        f.request.cancel = NULL;
        assert_int_equal(run(&f, names[i], data), 0);
        assert_true(f.e.cancelled);
        assert_int_equal(f.count, 2);
        assert_int_equal(evaluation_main(&f.e)->tally.scores.count, 2);
        f.stop_after = 0;
        f.request.cancel = &cancel;
        assert_int_equal(run(&f, names[i], data), 0);
        assert_true(f.e.cancelled);
        assert_null(evaluation_main(&f.e));
        assert_int_equal(f.count, 0);
    }
    close_model(&f);
}

// --- pictures decoded ahead ----------------------------------------------------------------------

// All that a run reports: outcomes, then answers.
static char *everything(struct fixture *f, const char *data, bool ahead)
{
    struct buf b = { 0 };
    f->request.ahead = ahead;
    assert_int_equal(run(f, NULL, data), 0);
    buf_puts(&b, f->told.data);
    for (int i = 0; i < f->count && i < 32; i++) buf_printf(&b, "%s\n", f->answers[i]);
    buf_printf(&b, "%lld %lld\n", (long long)f->e.samples, (long long)f->e.skipped);
    return buf_take(&b);
}

static void check_ahead(struct fixture *f, const char *data, const char *what)
{
    char *plain = everything(f, data, false), *ahead = everything(f, data, true);
    if (strcmp(plain, ahead) != 0) fail_msg("%s:\n%s\nis not\n%s", what, ahead, plain);
    free(plain);
    free(ahead);
}

// The decoding thread changes no result, whatever errors a sample has and wherever a run begins or
// ends.
static void test_ahead(void **state)
{
    static const char *const pictures[] = { "\"scene.png\"",
                                            "\"scene.png\"",
                                            "[\"tiny.png\",\"grey.png\"]",
                                            "\"absent.png\"",
                                            "\"absent.png\"",
                                            "[\"tiny.png\",\"pictures.json\",\"grey.png\"]",
                                            "[]",
                                            "\"scene.png\"" };
    enum { COUNT = 24, FORMS = sizeof pictures / sizeof *pictures };
    struct fixture f;
    struct buf data = { 0 };
    open_model(&f, "tests/goldens/llava-1.5");
    for (int i = 0; i < COUNT; i++)
        buf_printf(&data,
                   "{\"id\":%d,\"image\":%s,\"question\":\"q %d\",\"answer\":\"r\","
                   "\"metric\":\"exact\",\"kind\":\"%s\"}\n",
                   i, pictures[i % FORMS], i / 2, i % 3 ? "most" : "some");
    buf_puts(&data, "{broken\n");
    check_ahead(&f, data.data, "all");
    assert_int_equal(f.e.samples, COUNT + 1);
    assert_int_equal(f.e.skipped, 3 * COUNT / FORMS + 1);
    f.stop_after = 5;
    check_ahead(&f, data.data, "stopped");
    f.stop_after = 0;
    f.request.limit = 10;
    check_ahead(&f, data.data, "the first ten");
    f.request.first = 7;
    check_ahead(&f, data.data, "the last three of ten");
    static const char *const kinds[] = { "some" };
    static const int64_t order[] = { 21, 3, 0, 1, 9, 12, 12, 24, 5 };
    f.request.first = f.request.limit = 0;
    f.request.kinds = kinds;
    f.request.kind_count = 1;
    check_ahead(&f, data.data, "a kind");
    f.request.indices = order;
    f.request.index_count = sizeof order / sizeof *order;
    check_ahead(&f, data.data, "a kind, in an order");
    assert_int_equal(f.e.samples, 7);
    buf_release(&data);
    close_model(&f);
}

// A text-only model refuses pictures, with the same message whether they are decoded ahead or not.
static void test_ahead_without_eyes(void **state)
{
    struct fixture f;
    open_model(&f, "tests/goldens/llama-3.2");
    check_ahead(&f,
                "[{\"image\":\"scene.png\",\"question\":\"q\",\"answer\":\"r\","
                "\"metric\":\"exact\"},{\"question\":\"q\",\"answer\":\"r\","
                "\"metric\":\"exact\"}]",
                "text only");
    assert_non_null(strstr(f.told.data, "text-only"));
    close_model(&f);
}

// --- the loss ------------------------------------------------------------------------------------

static double plain_loss(struct fixture *f, const char *question, const char *answer)
{
    struct message messages[2] = { { .role = ROLE_USER }, { .role = ROLE_ASSISTANT } };
    struct arena step = { .backend = test_device() };
    struct graph g = { .backend = test_device(), .arena = &step, .settings = f->settings };
    struct labels l;
    double loss;
    message_add_text(&messages[0], question);
    message_add_text(&messages[1], answer);
    assert_int_equal(labels_make(&l, messages, 2, NULL, 0, f->model, f->settings, &f->err), 0);
    assert_int_equal(loss_sample(&g, f->model, NULL, 0, &l, 1, &loss), 0);
    labels_release(&l);
    for (int i = 0; i < 2; i++) message_release(&messages[i]);
    arena_release(&step);
    return loss;
}

static void test_loss(void **state)
{
    struct fixture f;
    open_model(&f, "tests/goldens/llama-3.2");
    assert_int_equal(run(&f, NULL,
                         "[{\"question\":\"What?\",\"answer\":\"a longer answer\"},"
                         "{\"question\":\"Who?\",\"answer\":\"me\"}]"),
                     0);
    const double a = plain_loss(&f, "What?", "a longer answer"), b = plain_loss(&f, "Who?", "me");
    const struct evaluation_total *t = evaluation_main(&f.e);
    assert_string_equal(t->metric->name, "loss");
    assert_true(f.scores[0] == a && f.scores[1] == b);
    assert_true(fabs(t->tally.scores.mean - (a + b) / 2) < 1e-12);
    assert_true(t->low < t->tally.scores.mean && t->high > t->tally.scores.mean);
    close_model(&f);
    // The loss is the same whether a picture was encoded for this sample or for the one before.
    open_model(&f, "tests/goldens/llava-1.5");
    assert_int_equal(run(&f, NULL,
                         "[{\"image\":\"scene.png\",\"question\":\"a\",\"answer\":\"b\"},"
                         "{\"image\":\"scene.png\",\"question\":\"a\",\"answer\":\"b\"},"
                         "{\"image\":\"tall.jpg\",\"question\":\"a\",\"answer\":\"b\"}]"),
                     0);
    assert_true(f.scores[0] == f.scores[1] && f.scores[0] != f.scores[2]);
    close_model(&f);
}

// --- choices -------------------------------------------------------------------------------------

// log p of the ids of `answer` after the prompt of the question (about a picture, or NULL),
// computed from all rows at once without a cache.
static double plain_loglik(struct fixture *f, const char *picture, const char *question,
                           const char *answer)
{
    struct conversation c;
    struct hooks hooks = { 0 };
    struct sequence s = { 0 };
    struct ids ids = { 0 };
    struct arena step = { .backend = test_device() };
    struct graph g = {
        .backend = test_device(), .arena = &step, .settings = f->settings, .hooks = &hooks
    };
    const struct method_env env = { .model = f->model,
                                    .backend = test_device(),
                                    .settings = f->settings };
    const struct decoder *d = &f->model->decoder;
    struct tensor *logits, *visual[1] = { NULL };
    conversation_init(&c, test_device());
    conversation_set_model(&c, f->model);
    if (picture) {
        size_t size;
        char *bytes = file_read(picture, IMAGE_MAX_FILE, &size, &f->err);
        assert_int_equal(conversation_attach(&c, picture, bytes, size, &f->err), 0);
        free(bytes);
    }
    struct message *m = conversation_add(&c, ROLE_USER);
    if (picture) message_add_picture(m, 0);
    message_add_text(m, question);
    assert_int_equal(methods_attach(&c.methods, &hooks, &env, &f->err), 0);
    assert_int_equal(conversation_sequence(&c, c.message_count, f->settings, true, &s, &f->err), 0);
    const int64_t n = s.prompt = s.n, vocab = d->config.vocab;
    assert_int_equal(tokenizer_encode(f->model->tokenizer, answer, strlen(answer),
                                      TOKENIZE_CONTINUATION, &ids, &f->err),
                     0);
    for (size_t i = 0; i < ids.count; i++) sequence_append(&s, ids.data[i]);
    if (picture) assert_int_equal(conversation_encode(&c, &g, 0), 0);
    if (picture) visual[0] = c.pictures[0].visual;
    struct tensor *h = splice(&g, d, &s, 0, visual, NULL, picture != NULL);
    assert_int_equal(decoder_forward(&g, d, NULL, &s, h, LOGITS_ALL, true, &logits), 0);
    double sum = 0;
    for (int64_t i = n; i < s.n; i++) {
        // Counts rows from the end, because pruning may have dropped earlier ones.
        const float *row = (const float *)logits->data + (logits->shape[0] - s.n + i - 1) * vocab;
        double most = -INFINITY, all = 1e-300;
        for (int64_t k = 0; k < vocab; k++) most = fmax(most, (double)row[k]);
        for (int64_t k = 0; k < vocab; k++) all += exp((double)row[k] - most);
        sum += (double)row[s.ids[i]] - most - log(all);
    }
    ids_release(&ids);
    sequence_release(&s);
    conversation_release(&c);
    arena_release(&step);
    return sum;
}

// The chosen option says little, so a metric of this test reads the log-likelihoods.
static double seen[4];
static int64_t seen_lengths[4];

static int look(const struct metric *m, const struct metric_case *c, struct metric_outcome *o,
                struct err *err)
{
    for (size_t i = 0; i < c->choice_count; i++) {
        seen[i] = c->loglik[i];
        seen_lengths[i] = c->lengths[i];
    }
    *o = (struct metric_outcome){ .class = -1 };
    return 0;
}

static void check_ranks(struct fixture *f, const char *picture, const char *data,
                        const char *question, const char *const answers[],
                        const char *const ranked[], int count)
{
    static struct metric spy;
    const struct metric *loglik = metric_find("loglik");
    assert_int_equal(run(f, "loglik", data), 0); // opens the data
    spy = *loglik;
    spy.score = look;
    spy.summary = NULL;
    evaluation_release(&f->e);
    f->request.metric = &spy;
    assert_int_equal(evaluate_run(&f->request, &f->e, &f->err), 0);
    for (int i = 0; i < count; i++) {
        const double expected = plain_loglik(f, picture, question, answers[i]);
        if (!(fabs(seen[i] - expected) < 1e-4 * (1 + fabs(expected))))
            fail_msg("'%s': %.9g, not %.9g", ranked[i], seen[i], expected);
        assert_int_equal(seen_lengths[i], (int64_t)strlen(ranked[i]));
    }
}

static void test_ranks(void **state)
{
    static const char *const folders[] = { "tests/goldens/llama-3.2", "tests/goldens/llava-1.5" };
    // The second layout writes a space after "ASSISTANT:"; the two layouts end an answer
    // differently.
    static const char *const letters[][4] = { { "A", "B" }, { " A", " B" } };
    static const char *const endings[][4] = {
        { "falls down", "eats a very long lunch", "x" },
        { " falls down", " eats a very long lunch", " x" },
    };
    for (int i = 0; i < 2; i++) {
        struct fixture f;
        open_model(&f, folders[i]);
        check_ranks(&f, NULL,
                    "[{\"question\":\"What?\",\"choices\":[\"A\",\"B\"],\"answer\":\"B\"}]",
                    "What?", letters[i], letters[0], 2);
        // MMLU: the prompt lists the choices, and their letters are ranked.
        check_ranks(&f, NULL,
                    "[{\"question\":\"What?\",\"choices\":[\"cat\",\"dog\"],\"answer\":1}]",
                    "What?\nA. cat\nB. dog\nAnswer:", letters[i], letters[0], 2);
        check_ranks(&f, NULL,
                    "[{\"question\":\"What?\\nA. cat\\nB. dog\",\"choices\":[\"cat\",\"dog\"],"
                    "\"answer\":\"A\"}]",
                    "What?\nA. cat\nB. dog", letters[i], letters[0], 2);
        // HellaSwag.
        check_ranks(&f, NULL,
                    "[{\"ctx\":\"A man\",\"endings\":[\"falls down\",\"eats a very long lunch\","
                    "\"x\"],\"label\":\"2\"}]",
                    "A man", endings[i], endings[0], 3);
        check_ranks(&f, NULL,
                    "[{\"question\":\"A man\",\"choices\":[\"falls down\",\"eats a very long "
                    "lunch\",\"x\"],\"answer\":\"x\"}]",
                    "A man", endings[i], endings[0], 3);
        close_model(&f);
    }
}

// Text that the folder's template writes after an answer does not count, even if no layout writes
// that text.
static void test_ranks_with_a_template(void **state)
{
    static const char template[] =
        "{{ bos_token }}{% for m in messages %}<|start_header_id|>{{ m['role'] }}<|end_header_id|>"
        "\n\n{{ m['content'] }}<|eot_id|>{% if m['role'] == 'assistant' %} is it?\n{% endif %}"
        "{% endfor %}{% if add_generation_prompt %}<|start_header_id|>assistant<|end_header_id|>"
        "\n\n{% endif %}";
    static const char *const files[] = { "config.json", "generation_config.json",
                                         "model.safetensors", "tokenizer.json",
                                         "tokenizer_config.json" };
    static const char *const choices[] = { "A", "a very long lunch" };
    struct fixture f;
    char *folder = scratch_new();
    for (int i = 0; i < 5; i++) scratch_copy(folder, "tests/goldens/llama-3.2", files[i]);
    scratch_text(folder, "chat_template.jinja", template);
    open_model(&f, folder);
    assert_non_null(f.model->template);
    check_ranks(&f, NULL,
                "[{\"question\":\"What?\",\"choices\":[\"A\",\"a very long lunch\"],"
                "\"answer\":\"A\",\"format\":\"text\"}]",
                "What?", choices, choices, 2);
    close_model(&f);
    scratch_remove(folder);
}

// Choices are ranked with the methods applied: with prune.mode dynamic each row from the prompt's
// last one on sees its own visual tokens.
static void test_ranks_under_pruning(void **state)
{
    static const char data[] = "[{\"image\":\"scene.png\",\"question\":\"What?\","
                               "\"choices\":[\"A\",\"B\"],\"answer\":\"B\"}]";
    static const char *const answers[] = { " A", " B" }, *const ranked[] = { "A", "B" };
    static const char *const modes[] = { "prefill", "dynamic" };
    struct fixture f;
    open_model(&f, "tests/goldens/llava-1.5");
    const double whole = plain_loglik(&f, PICTURES "scene.png", "What?", answers[0]);
    assert_int_equal(settings_set(f.settings, "prune.score", "contribution", &f.err), 0);
    assert_int_equal(settings_set(f.settings, "prune.layer", "1", &f.err), 0);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(settings_set(f.settings, "prune.mode", modes[i], &f.err), 0);
        check_ranks(&f, PICTURES "scene.png", data, "What?", answers, ranked, 2);
        if (!(fabs(seen[0] - whole) > 1e-3)) fail_msg("%s changes nothing", modes[i]);
    }
    close_model(&f);
}

// The choice with the highest log-likelihood is scored, with a picture and without.
static void test_rank_scores(void **state)
{
    struct fixture f;
    open_model(&f, "tests/goldens/llava-1.5");
    for (int right = 0; right < 3; right++) {
        char *data = xasprintf("[{\"image\":\"scene.png\",\"question\":\"q\",\"choices\":[\"A\","
                               "\"B\",\"C\"],\"answer\":%d},{\"question\":\"q\",\"choices\":[\"A\","
                               "\"B\",\"C\"],\"answer\":%d}]",
                               right, right);
        assert_int_equal(run(&f, "loglik", data), 0);
        assert_int_equal(f.count, 2);
        for (int k = 0; k < 2; k++) {
            const char *const letters[] = { " A", " B", " C" };
            int best = 0;
            double most = -INFINITY;
            for (int i = 0; i < 3; i++) {
                const double x = plain_loglik(&f, k ? NULL : PICTURES "scene.png", "q", letters[i]);
                if (x > most) {
                    most = x;
                    best = i;
                }
            }
            assert_true(f.scores[k] == (best == right));
        }
        free(data);
    }
    close_model(&f);
}

// The samples of another data set, with a count of reads.
struct counted {
    struct dataset inner;
    int samples_read, pictures_read;
};

static int count_sample(void *self, int64_t index, struct sample *s, struct err *err)
{
    struct counted *c = self;
    c->samples_read++;
    return dataset_read(&c->inner, index, s, err);
}

static char *count_picture(void *self, const char *name, size_t limit, size_t *size,
                           struct err *err)
{
    struct counted *c = self;
    c->pictures_read++;
    return dataset_picture(&c->inner, name, limit, size, err);
}

// Notices are counted while the evaluation reads samples: none is read twice.
static void test_notices(void **state)
{
    static const char text[] =
        "[{\"image\":\"../../core/picture/pictures/animated.webp\",\"question\":\"What?\","
        "\"answer\":\"x\",\"tools\":[{}]},"
        "{\"image\":\"scene.png\",\"question\":\"Is it <image> or </s>?\",\"answer\":\"x\"}]";
    static const struct dataset_reader reader = { .read = count_sample, .picture = count_picture };
    struct fixture f;
    open_model(&f, "tests/goldens/llava-1.5");
    struct counted c = { 0 };
    char *path = xasprintf("%s/data.json", f.folder);
    scratch_write(f.folder, "data.json", text, strlen(text));
    if (dataset_open(&c.inner, path, PICTURES, &f.err) < 0) fail_msg("%s", f.err.text);
    const struct dataset data = { .path = path, .count = 2, .reader = &reader, .self = &c };
    struct data_notices notices = data_notices_new(f.settings);
    f.request.model = f.model;
    f.request.backend = test_device();
    f.request.settings = f.settings;
    f.request.data = &data;
    f.request.metric = metric_find("exact");
    f.request.notices = &notices;
    if (evaluate_run(&f.request, &f.e, &f.err) < 0) fail_msg("%s", f.err.text);
    assert_string_equal(
        f.e.notices, "not used: \"tools\" (1 sample); 1 special token in the texts of 1 sample "
                     "are read as tokens, as transformers does; /set data.special_tokens text "
                     "keeps them text; 1 picture file is animated: only the first frame is read");
    assert_int_equal(c.samples_read, 2);
    assert_int_equal(c.pictures_read, 2);
    data_notices_release(&notices);
    dataset_close(&c.inner);
    free(path);
    close_model(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_answers),
        cmocka_unit_test(test_scores),
        cmocka_unit_test(test_skipped),
        cmocka_unit_test(test_stop),
        cmocka_unit_test(test_notices),
        cmocka_unit_test(test_ahead),
        cmocka_unit_test(test_ahead_without_eyes),
        cmocka_unit_test(test_loss),
        cmocka_unit_test(test_ranks),
        cmocka_unit_test(test_rank_scores),
        cmocka_unit_test(test_ranks_under_pruning),
        cmocka_unit_test(test_ranks_with_a_template),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
