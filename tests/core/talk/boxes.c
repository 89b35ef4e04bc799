// tests/core/talk/boxes.c -- core/talk/conversation_boxes.c: answers about a wide picture, as
// several families write them, become boxes in pixels of the picture.
#include "core/picture/boxes.h"
#include "core/talk/answer.h"
#include "tests/core/model/families/golden.h"

static struct {
    struct picture_box first;
    size_t count;
    int picture;
} heard;

static void hear_boxes(void *self, const struct event *e)
{
    if (e->kind != EVENT_ANSWER) return;
    heard.count = e->answer->boxes->count;
    heard.picture = e->answer->boxed;
    if (heard.count) heard.first = e->answer->boxes->list[0];
}

// Makes the model say a text about a picture, and expects one box, `want`. style, limit: values of
// image.boxes and image.max_tokens.
static void check_read(const char *model, const char *style, const char *limit, const char *said,
                       const double want[4])
{
    struct golden g;
    struct err err = { 0 };
    struct hooks hooks = { 0 };
    struct ids ids = { 0 };
    bool answered;
    golden_open(&g, model);
    sinks_add(&g.sinks, (struct sink){ .emit = hear_boxes, .self = NULL });
    must(engine_set(g.engine, "image.boxes", style, &err), &err);
    must(engine_set(g.engine, "image.max_tokens", limit, &err), &err);
    must(engine_attach(g.engine, "tests/goldens/pictures/big.png", &err), &err);
    must(engine_set(g.engine, "sample.ignore_eos", "off", &err), &err);
    struct conversation *c = (struct conversation *)(uintptr_t)engine_conversation(g.engine);
    struct settings *s = settings_copy(engine_settings(g.engine));
    must(tokenizer_encode(engine_tokenizer(g.engine), said, strlen(said), 0, &ids, &err), &err);
    char count[16];
    snprintf(count, sizeof count, "%zu", ids.count);
    must(settings_set(s, "sample.max_tokens", count, &err), &err);
    conversation_say(c, ROLE_USER, "Where is it?", NULL, 0, NULL);
    const struct answer_options options = { .forced = ids.data, .forced_count = ids.count };
    must(answer_run(c, s, &hooks, NULL, &options, &g.sinks, &answered, &err), &err);
    if (heard.count != 1 || heard.picture != 0)
        fail_msg("%s: %zu boxes on picture %d in '%s'", model, heard.count, heard.picture, said);
    const double got[4] = { heard.first.x, heard.first.y, heard.first.w, heard.first.h };
    for (int i = 0; i < 4; i++)
        if (fabs(got[i] - want[i]) > 1e-6)
            fail_msg("%s: '%s' is %g %g %g %g", model, said, got[0], got[1], got[2], got[3]);
    settings_free(s);
    ids_release(&ids);
    golden_close(&g);
}

static void check_said(const char *model, const char *said, const double want[4])
{
    check_read(model, "auto", "0", said, want);
}

// big.png has 173 x 121 pixels.
static void families_write_boxes(void **state)
{
    static const double middle[] = { 43.25, 30.25, 86.5, 60.5 };
    // Padded with 26 rows at the top.
    check_said("llava-onevision", "cat: [0.25, 0.4, 0.75, 0.6]",
               (const double[]){ 43.25, 43.2, 86.5, 34.6 });
    // Boxes in the reasoning are not the answer's.
    check_said("llava-onevision",
               "<think>Is it at [0.1, 0.4, 0.2, 0.6]?</think>cat: [0.25, 0.4, 0.75, 0.6]",
               (const double[]){ 43.25, 43.2, 86.5, 34.6 });
    // 50 x 35 is cropped to 35 x 35: 121.1 of 173 columns remain.
    check_said("llava-1.5", "cat: [0.25, 0.25, 0.75, 0.75]",
               (const double[]){ 56.225, 30.25, 60.55, 60.5 });
    // Resized to 56 x 42.
    check_said("qwen2.5-vl", "{\"bbox_2d\": [14, 7, 28, 14], \"label\": \"cat\"}",
               (const double[]){ 43.25, 121 / 6., 43.25, 121 / 6. });
    check_said("internvl3", "<ref>cat</ref><box>[[250, 250, 750, 750]]</box>", middle);
    check_said("internvl2.5-qwen2", "<ref>cat</ref><box>[[250, 250, 750, 750]]</box>", middle);
    check_said("glm-4.1v", "<|begin_of_box|>[[250,250,750,750]]<|end_of_box|>", middle);
    check_said("kimi-vl", "cat: [0.25, 0.25, 0.75, 0.75]", middle);
}

// Pixels of the resized picture, chosen for models that do not write them; a limit on visual tokens
// changes nothing.
static void models_of_other_styles_are_read(void **state)
{
    static const char said[] = "{\"bbox_2d\": [14, 7, 28, 14], \"label\": \"cat\"}";
    for (int i = 0; i < 2; i++) {
        const char *limit = i ? "600" : "0";
        // Resized to 50 x 35.
        check_read("llava-1.5", "qwen2.5-vl", limit, said,
                   (const double[]){ 48.44, 24.2, 48.44, 24.2 });
        // Its parts have sizes of their own, so the box is read in pixels of the picture.
        check_read("minicpm-v-4.6", "qwen2.5-vl", limit, said, (const double[]){ 14, 7, 14, 7 });
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(families_write_boxes),
                                        cmocka_unit_test(models_of_other_styles_are_read) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
