// tests/core/sets/expected.h -- compares a sample of an evaluation set with the expected one.
#ifndef TESTS_CORE_SETS_EXPECTED_H
#define TESTS_CORE_SETS_EXPECTED_H

#include <stdlib.h>

#include "core/base/mem.h"
#include "core/data/dataset.h"
#include "core/metrics/metric.h"
#include "core/picture/image.h"
#include "core/template/message.h"

#define SHORT  "\nAnswer the question using a single word or phrase."
#define LETTER "\nAnswer with the option's letter from the given choices directly."

struct expected {
    const char *id, *kind, *question, *references; // references and choices: separated by |
    const char *choices;
    int right;       // index of the right choice; -1: none
    size_t pictures; // how many the sample has
};

static char *join(char *const *texts, size_t count)
{
    struct buf b = { 0 };
    for (size_t i = 0; i < count; i++) buf_printf(&b, "%s%s", i ? "|" : "", texts[i]);
    return buf_take(&b);
}

// Checks that the sample's pictures can be read and have wide x high pixels.
static void check_pictures(const struct dataset *d, const struct sample *s, int64_t wide,
                           int64_t high)
{
    for (size_t i = 0; i < s->dialogue.path_count; i++) {
        struct err err;
        size_t size;
        int64_t width, height;
        char *bytes = dataset_picture(d, s->dialogue.paths[i], IMAGE_MAX_FILE, &size, &err);
        if (!bytes) fail_msg("%s", err.text);
        assert_int_equal(image_size(bytes, size, "x", &width, &height, &err), 0);
        assert_int_equal(width, wide);
        assert_int_equal(height, high);
        free(bytes);
    }
}

static void check_sample(const struct dataset *d, int64_t row, const struct expected *x,
                         int64_t wide, int64_t high)
{
    struct sample s;
    struct err err;
    if (dataset_read(d, row, &s, &err) < 0) fail_msg("%s", err.text);
    assert_int_equal(s.dialogue.count, 1);
    char *question = message_text(&s.dialogue.messages[0]);
    char *references = join(s.references, s.reference_count);
    char *choices = join(s.choices, s.choice_count);
    assert_string_equal(s.id, x->id);
    assert_string_equal(s.kind, x->kind);
    assert_string_equal(question, x->question);
    assert_string_equal(references, x->references);
    assert_string_equal(choices, x->choices);
    assert_int_equal(s.right, x->right);
    assert_int_equal(s.dialogue.path_count, x->pictures);
    assert_non_null(metric_find(s.metric));
    check_pictures(d, &s, wide, high);
    free(choices);
    free(references);
    free(question);
    sample_release(&s);
}

#endif
