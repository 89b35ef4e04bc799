// tests/core/probes/lens.c -- core/probes/lens.c: at the last layer, the lens gives the bits of the
// model's logits; chosen words and tokens; nearest words, of the prompt and of a corpus.
// tests/toys/layers.c compares all layers with plain loops.
#include "core/probes/kit.h"
#include "core/template/template.h"
#include "tests/core/probes/probe.h"

// Probability of the most likely token, and entropy, in the order of operations of the lens.
static void summarise(const float *logits, int64_t vocab, double *p, double *entropy)
{
    float most = logits[0];
    for (int64_t v = 0; v < vocab; v++) most = fmaxf(most, logits[v]);
    const double first = (double)logits[0] - (double)most;
    double sum = exp(first), weighted = first * exp(first);
    for (int64_t v = 1; v < vocab; v++) {
        const double x = (double)logits[v] - (double)most;
        sum += exp(x);
        weighted += x * exp(x);
    }
    *p = 1 / sum;
    *entropy = log(sum) - weighted / sum;
}

static void the_last_layer_has_the_bits_of_the_logits(void **state)
{
    static const char *const folders[] = { "llava-1.5", "internvl3", "qwen2.5-vl", "kimi-vl" };
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        struct golden g;
        struct results r = { 0 };
        double p, entropy;
        char last[16];
        golden_open(&g, folders[i]);
        say(&g, chat_named(&g, "single"));
        run_probe(&g, &probe_lens, NULL, &r);
        struct safetensors *f = answer(&g, chat_named(&g, "single"), 1, "logits");
        const struct safetensor *logits = safetensors_find(f, "logits");
        const int64_t vocab = logits->shape[logits->rank - 1];
        const float *row = (const float *)logits->data + logits->bytes / 4 - vocab;
        summarise(row, vocab, &p, &entropy);
        snprintf(last, sizeof last, "%d", golden_layers(&g) - 1);
        if (*results_value(&r, "lens", last, "best") != p ||
            *results_value(&r, "lens", last, "entropy") != entropy)
            fail_msg("%s: %.17g, not %.17g", g.name, *results_value(&r, "lens", last, "best"), p);
        assert_int_equal(results_find(&r, "lens")->row_count, golden_layers(&g));
        assert_true(r.map_count > 0 && r.maps[0].layer == probe_middle(engine_model(g.engine)));
        for (size_t m = 0; m < r.map_count; m++)
            for (int k = 0; k < r.maps[m].rows * r.maps[m].cols; k++)
                assert_true(isnan(r.maps[m].values[k]) == !r.maps[m].words[k]);
        safetensors_close(f);
        results_release(&r);
        golden_close(&g);
    }
}

// --token N selects the rows of token N from the table of the whole answer; --word gives a map of a
// picture.
static void words_and_tokens_can_be_chosen(void **state)
{
    struct golden g;
    struct err err = { 0 };
    struct results r = { 0 }, one = { 0 };
    struct probe_options o = probe_defaults;
    ask(&g, "llava-1.5", 3);
    o.token = PROBE_TOKEN_ANSWER;
    run_probe(&g, &probe_lens, &o, &r);
    const int layers = golden_layers(&g);
    const struct result_table *t = results_find(&r, "lens.words");
    assert_int_equal(t->row_count, 4 * layers); // the prompt's last position, and three tokens
    o.token = PROBE_TOKEN_NUMBER;
    o.number = 1;
    run_probe(&g, &probe_lens, &o, &one);
    const struct result_table *single = results_find(&one, "lens.words");
    assert_int_equal(single->row_count, layers);
    for (int l = 0; l < layers; l++) {
        assert_string_equal(single->rows[l].key, t->rows[4 * l + 1].key);
        assert_true(single->rows[l].value[2] == t->rows[4 * l + 1].value[2]);
    }
    // Greedy: at the last layer, the token of the answer is the best.
    assert_true(single->rows[layers - 1].value[3] == 1 &&
                single->rows[layers - 1].value[0] == single->rows[layers - 1].value[2]);
    results_release(&one);
    o = probe_defaults;
    o.words = "picture:0";
    o.word = "red";
    o.layer = 0;
    run_probe(&g, &probe_lens, &o, &one);
    assert_null(results_find(&one, "lens"));
    assert_int_equal(one.map_count, 1);
    for (int k = 0; k < 25; k++) assert_true(one.maps[0].values[k] > 0 && one.maps[0].words[k]);
    results_release(&one);
    results_release(&r);
    struct measure_request request = { .probe = &probe_lens, .options = o };
    request.options.token = PROBE_TOKEN_ANSWER;
    assert_int_equal(engine_measure(g.engine, &request, &one, &err), -1);
    request.options.words = NULL;
    request.options.token = PROBE_TOKEN_NUMBER;
    request.options.number = 3;
    assert_int_equal(engine_measure(g.engine, &request, &one, &err), -1);
    results_release(&one);
    golden_close(&g);
}

// --nearest: the largest cosine with a word of the question, from dumped states in doubles.
static void the_nearest_word_has_the_largest_cosine(void **state)
{
    enum { LAYER = 1 }; // its output enters layer 2
    struct golden g;
    struct err err = { 0 };
    struct results r = { 0 };
    struct sequence s;
    struct prompt_text *texts;
    size_t count;
    struct probe_options o = probe_defaults;
    o.nearest = true;
    o.layer = LAYER;
    golden_open(&g, "llava-1.5");
    say(&g, chat_named(&g, "single"));
    run_probe(&g, &probe_lens, &o, &r);
    struct conversation *c = golden_conversation(&g);
    const struct settings *settings = engine_settings(g.engine);
    must(conversation_sequence(c, c->message_count, settings, true, &s, &err), &err);
    must(conversation_texts(c, c->message_count, settings, true, &texts, &count, &err), &err);
    struct safetensors *f = answer(&g, chat_named(&g, "single"), 1, "layer.2.in");
    const struct safetensor *h = safetensors_find(f, "layer.2.in");
    const int64_t width = h->shape[1];
    const float *x = h->data;
    int checked = 0;
    for (int64_t i = 0; i < s.n; i++) {
        double best = -2;
        if (s.picture[i] < 0) continue;
        for (size_t k = 0; k < count; k++)
            for (int64_t j = texts[k].first; j < texts[k].end; j++)
                if (s.picture[j] < 0)
                    best = fmax(best, rows_cosine(x + i * width, x + j * width, width));
        near(&g, "cosine", (double)r.maps[0].values[s.cell[i]], best, 1e-6);
        assert_non_null(r.maps[0].words[s.cell[i]]);
        checked++;
    }
    assert_int_equal(checked, r.maps[0].rows * r.maps[0].cols);
    free(texts);
    sequence_release(&s);
    safetensors_close(f);
    results_release(&r);
    golden_close(&g);
}

static void write_lines(const char *path, const char *const *line, int count)
{
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    for (int i = 0; i < count; i++) fprintf(f, "%s\n", line[i]);
    fclose(f);
}

static void search(struct golden *g, const char *path, const char *word, struct results *r)
{
    struct probe_options o = probe_defaults;
    o.words = "picture";
    o.nearest = true;
    o.corpus = path;
    o.word = word;
    run_probe(g, &probe_lens, &o, r);
}

// Each text of a corpus is read by itself: the nearest token of two corpora is the nearer of their
// nearest tokens, in any order of the texts.
static void texts_of_a_corpus_are_separate(void **state)
{
    static const char *const line[] = { "a red circle", "", "two cats sit on the grey table today",
                                        "what is it" };
    static const char *const turned[] = { line[3], line[2], line[0] };
    static const char *const folders[] = { "llava-1.5", "qwen3.5" };
    char path[300];
    const char *base = getenv("TMPDIR");
    snprintf(path, sizeof path, "%s/vlmsh-corpus-%d", base ? base : "/tmp", (int)getpid());
    for (int f = 0; f < 2; f++) {
        struct golden g;
        struct results r[4] = { { 0 } };
        ask(&g, folders[f], 0);
        write_lines(path, line, 2);
        search(&g, path, NULL, &r[0]);
        write_lines(path, line + 2, 2);
        search(&g, path, NULL, &r[1]);
        write_lines(path, line, 4);
        search(&g, path, NULL, &r[2]);
        write_lines(path, turned, 3);
        search(&g, path, NULL, &r[3]);
        const int cells = r[2].maps[0].rows * r[2].maps[0].cols;
        for (int k = 0; k < cells; k++) {
            const double x = (double)r[0].maps[0].values[k], y = (double)r[1].maps[0].values[k];
            near(&g, "both", (double)r[2].maps[0].values[k], fmax(x, y), 1e-5);
            near(&g, "in a different order", (double)r[3].maps[0].values[k], fmax(x, y), 1e-5);
        }
        assert_non_null(results_find(&r[2], "lens.texts"));
        for (int i = 0; i < 4; i++) results_release(&r[i]);
        golden_close(&g);
    }
    unlink(path);
}

static const char *corpus_path;
static struct results sample_of[2];

// Keeps a sample's map, and replaces the corpus.
static void take_sample(void *self, int64_t index, const struct results *one)
{
    static const char *const other[] = { "another text" };
    const struct result_map *m = &one->maps[0];
    struct result_map *to = results_map(&sample_of[index], m->name, m->rows, m->cols);
    memcpy(to->values, m->values, (size_t)(m->rows * m->cols) * sizeof *m->values);
    write_lines(corpus_path, other, 1);
}

// Over a data set, the texts are read for the first sample only.
static void samples_share_a_corpus(void **state)
{
    static const char *const line[] = { "a red circle", "two cats sit on the grey table today" };
    char corpus[300], data[300], cwd[1024], sample[1536], texts[3200];
    const char *base = getenv("TMPDIR");
    struct golden g;
    struct results r = { 0 };
    struct err err = { 0 };
    snprintf(corpus, sizeof corpus, "%s/vlmsh-corpus-%d", base ? base : "/tmp", (int)getpid());
    snprintf(data, sizeof data, "%s/vlmsh-corpus-%d.json", base ? base : "/tmp", (int)getpid());
    assert_non_null(getcwd(cwd, sizeof cwd));
    snprintf(sample, sizeof sample,
             "{\"image\":\"%s/tests/goldens/pictures/scene.png\",\"conversations\":[{\"from\":"
             "\"human\",\"value\":\"<image>\\nWhat?\"},{\"from\":\"gpt\",\"value\":\"A\"}]}",
             cwd);
    snprintf(texts, sizeof texts, "[%s,%s]", sample, sample);
    write_lines(data, (const char *const[]){ texts }, 1);
    write_lines(corpus_path = corpus, line, 2);
    golden_open(&g, "llava-1.5");
    struct measure_request request = { .probe = &probe_lens,
                                       .options = probe_defaults,
                                       .set.data = data,
                                       .limit = 2,
                                       .given = true,
                                       .sample = take_sample };
    request.options.words = "picture";
    request.options.nearest = true;
    request.options.corpus = corpus;
    must(engine_measure(g.engine, &request, &r, &err), &err);
    const struct result_map *a = &sample_of[0].maps[0], *b = &sample_of[1].maps[0];
    assert_memory_equal(a->values, b->values, (size_t)(a->rows * a->cols) * sizeof *a->values);
    for (int i = 0; i < 2; i++) results_release(&sample_of[i]);
    results_release(&r);
    golden_close(&g);
    unlink(data);
    unlink(corpus);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_of_a_corpus_are_separate),
        cmocka_unit_test(samples_share_a_corpus),
        cmocka_unit_test(the_last_layer_has_the_bits_of_the_logits),
        cmocka_unit_test(words_and_tokens_can_be_chosen),
        cmocka_unit_test(the_nearest_word_has_the_largest_cosine),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
