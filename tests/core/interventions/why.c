// tests/core/interventions/why.c -- core/interventions/why.c and objects.c: the numbers are those
// of the answer itself; without the picture, its content does not matter; names of objects in
// texts.
#include "core/interventions/objects.h"
#include "core/probes/kit.h"
#include "tests/core/probes/probe.h"

enum { TOKENS = 6 };

struct caught {
    struct event_token numbers[64];
    int count;
};

static void catch_event(void *self, const struct event *e)
{
    struct caught *c = self;
    if (e->kind == EVENT_TOKEN && e->token) c->numbers[c->count++] = *e->token;
}

static double cell(const struct results *r, const char *table, size_t row, const char *column)
{
    const struct result_table *t = results_find(r, table);
    assert_true(t && row < t->row_count);
    const double *v = results_value(r, table, t->rows[row].key, column);
    assert_non_null(v);
    return *v;
}

static void set(struct golden *g, const char *key, const char *value)
{
    struct err err = { 0 };
    must(engine_set(g->engine, key, value, &err), &err);
}

static void numbers_are_those_of_the_answer(void **state)
{
    static const char *const folders[] = { "llava-1.5", "qwen2.5-vl", "gemma3" };
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        struct golden g;
        struct caught c = { 0 };
        struct results r = { 0 };
        struct err err = { 0 };
        golden_open(&g, folders[i]);
        say(&g, chat_named(&g, "single"));
        set(&g, "sample.max_tokens", "6");
        set(&g, "why.live", "on");
        sinks_add(engine_sinks(g.engine),
                  (struct sink){ .emit = catch_event, .self = &c, .reads_token = true });
        must(engine_answer(g.engine, &err), &err);
        run_probe(&g, &probe_why, NULL, &r);
        const struct result_table *t = results_find(&r, "why");
        assert_true(c.count > 1 && t->row_count >= (size_t)c.count);
        for (size_t k = 0; k < (size_t)c.count; k++) {
            const double *v = t->rows[k].value; // rows of equal tokens have different numbers
            near(&g, "probability", v[0], c.numbers[k].probability, 1e-5);
            near(&g, "entropy", v[1], c.numbers[k].entropy, 1e-4);
            near(&g, "picture", v[2], c.numbers[k].share, 1e-5);
            near(&g, "all shares", v[2] + v[3] + v[4], 1, 1e-5);
            near(&g, "lost", v[6], log(v[0] / v[5]), 1e-5);
        }
        // The alternatives are no likelier than the rest of the probability, and sorted.
        const struct result_table *others = results_find(&r, "why.alternatives");
        assert_int_equal(others->row_count, 3 * t->row_count);
        for (size_t k = 0; k < t->row_count; k++) {
            const struct result_row *o = &others->rows[3 * k];
            assert_true(o[0].value[0] >= o[1].value[0] && o[1].value[0] >= o[2].value[0]);
            assert_true(t->rows[k].value[0] + o[0].value[0] <= 1 + 1e-6);
        }
        results_release(&r);
        golden_close(&g);
    }
}

// Replaces the conversation with a question about a picture of noise, and an answer.
static void show(struct golden *g, int seed, const char *answer)
{
    enum { SIDE = 56 };
    struct err err = { 0 };
    struct buf file = { 0 };
    engine_clear(g->engine);
    buf_printf(&file, "P6\n%d %d\n255\n", SIDE, SIDE);
    for (int i = 0; i < 3 * SIDE * SIDE; i++) buf_putc(&file, (char)(i * seed % 251 + i / 97));
    must(engine_attach_bytes(g->engine, "noise.ppm", file.data, file.length, &err), &err);
    struct message m[2] = { { .role = ROLE_USER }, { .role = ROLE_ASSISTANT } };
    message_add_picture(&m[0], (int)engine_talk(g->engine).picture_count - 1);
    message_add_text(&m[0], "What is it?");
    message_add_text(&m[1], answer);
    for (int i = 0; i < 2; i++) {
        must(engine_add_message(g->engine, &m[i], &err), &err);
        message_release(&m[i]);
    }
    buf_release(&file);
}

static bool notes(const struct results *r, const char *text)
{
    for (size_t i = 0; i < r->note_count; i++)
        if (strstr(r->notes[i], text)) return true;
    return false;
}

static void without_the_picture_its_content_does_not_matter(void **state)
{
    struct golden g;
    struct results r[2] = { { 0 } };
    golden_open(&g, "llava-1.5");
    for (int i = 0; i < 2; i++) {
        show(&g, 3 + i, "a small dog and two dogs");
        run_probe(&g, &probe_why, NULL, &r[i]);
    }
    bool differs = false;
    for (size_t k = 0; k < results_find(&r[0], "why")->row_count; k++) {
        differs |= cell(&r[0], "why", k, "probability") != cell(&r[1], "why", k, "probability");
        assert_true(cell(&r[0], "why", k, "without picture") ==
                    cell(&r[1], "why", k, "without picture"));
    }
    assert_true(differs);
    // The second mention does not count.
    assert_int_equal(results_find(&r[0], "why.objects")->row_count, 1);
    for (int i = 0; i < 2; i++) results_release(&r[i]);
    golden_close(&g);
}

// Sets the threshold just below and just above the log-probability that the name loses.
static void objects_without_the_picture_are_reported(void **state)
{
    struct golden g;
    struct results r = { 0 };
    golden_open(&g, "llava-1.5");
    show(&g, 3, "a small dog");
    run_probe(&g, &probe_why, NULL, &r);
    const double lost = cell(&r, "why.objects", 0, "lost");
    assert_string_equal(results_find(&r, "why.objects")->rows[0].key, "dog");
    results_release(&r);
    for (int above = 0; above < 2; above++) {
        char text[32];
        snprintf(text, sizeof text, "%.9f", fmax(0, lost + (above ? 0.01 : -0.01)));
        set(&g, "why.threshold", text);
        run_probe(&g, &probe_why, NULL, &r);
        assert_int_equal(notes(&r, "warning: 'dog'"), lost < atof(text));
        assert_true(notes(&r, "(why.threshold)"));
        results_release(&r);
    }
    set(&g, "why.threshold", "1000");
    set(&g, "why.objects", "small");
    run_probe(&g, &probe_why, NULL, &r);
    assert_true(notes(&r, "warning: 'small'") && notes(&r, "warning: 'dog'"));
    results_release(&r);
    golden_close(&g);
}

static void answers_are_numbered(void **state)
{
    struct golden g;
    struct results r = { 0 };
    struct err err = { 0 };
    struct probe_options o = probe_defaults;
    struct measure_request request = { .probe = &probe_why, .options = o };
    golden_open(&g, "llava-1.5");
    show(&g, 3, "a dog");
    struct message m[2] = { { .role = ROLE_USER }, { .role = ROLE_ASSISTANT } };
    message_add_text(&m[0], "And what else?");
    message_add_text(&m[1], "nothing");
    for (int i = 0; i < 2; i++) {
        must(engine_add_message(g.engine, &m[i], &err), &err);
        message_release(&m[i]);
    }
    o.words = "1";
    run_probe(&g, &probe_why, &o, &r);
    assert_int_equal(results_find(&r, "why.objects")->row_count, 1);
    results_release(&r);
    run_probe(&g, &probe_why, NULL, &r);
    assert_int_equal(results_find(&r, "why.objects")->row_count, 0);
    results_release(&r);
    request.options.words = "3";
    assert_int_equal(engine_measure(g.engine, &request, &r, &err), -1);
    assert_non_null(strstr(err.text, "no answer 3: the conversation has 2"));
    results_release(&r);
    assert_int_equal(probe_why.words("0", &err), -1);
    assert_int_equal(probe_why.words("last", &err), -1);
    assert_int_equal(probe_why.words("12", &err), 0);
    golden_close(&g);
}

// Text models have no share from a picture, and nothing to hide.
static void text_models_have_probabilities(void **state)
{
    struct golden g;
    struct results r = { 0 };
    struct err err = { 0 };
    golden_open(&g, "llama-3.2");
    set(&g, "sample.max_tokens", "4");
    must(engine_ask(g.engine, "hello", &err), &err);
    run_probe(&g, &probe_why, NULL, &r);
    const double *v = results_find(&r, "why")->rows[0].value;
    assert_true(v[0] > 0 && v[0] <= 1 && isnan(v[2]) && v[3] > 0 && isnan(v[5]) && isnan(v[6]));
    assert_null(results_find(&r, "why.objects"));
    results_release(&r);
    golden_close(&g);
}

static void names_are_found(void **state)
{
    static const struct {
        const char *text, *more, *found;
    } cases[] = {
        { "Two dogs, a CAT and a catalogue.", "", "dogs|CAT|" },
        { "a traffic light, hot dog; buses", "", "traffic light|hot dog|buses|" },
        { "a letter H, crosses", "", "letter|crosses|" },
        { "the red tower bridge", "tower , tower bridge", "tower bridge|" },
        { "", "", "" },
        { "na\xc3\xafve dogma", ",,", "" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct buf b = { 0 };
        struct object_name o;
        buf_puts(&b, "");
        for (const char *p = cases[i].text; objects_next(&p, cases[i].more, &o);)
            buf_printf(&b, "%.*s|", (int)o.length, o.text);
        assert_string_equal(b.data, cases[i].found);
        buf_release(&b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_are_those_of_the_answer),
        cmocka_unit_test(without_the_picture_its_content_does_not_matter),
        cmocka_unit_test(objects_without_the_picture_are_reported),
        cmocka_unit_test(answers_are_numbered),
        cmocka_unit_test(text_models_have_probabilities),
        cmocka_unit_test(names_are_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
