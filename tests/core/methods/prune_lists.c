// tests/core/methods/prune_lists.c -- core/methods/prune_parts.h: lists of keys written to a note
// and read back are unchanged; truncated notes and impossible counts are refused.
#include "core/methods/prune_parts.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/mem.h"

static struct stage_note written(void)
{
    int32_t first[] = { 0, 4, 7 }, third[] = { 2 };
    int32_t *keys[] = { first, NULL, third };
    int64_t count[] = { 3, 0, 1 };
    struct stage_note note = { 0 };
    seen_lists_put(&note, &(struct seen_lists){ 5, 3, keys, count });
    return note;
}

static void round_trip(void **state)
{
    struct stage_note note = written();
    struct seen_lists l = { 0 };
    (void)state;
    assert_true(seen_lists_get(&note, 3, &l));
    assert_int_equal(note.at, note.bytes.length);
    assert_int_equal(l.from, 5);
    assert_int_equal(l.rows, 3);
    assert_int_equal(l.count[0], 3);
    assert_int_equal(l.keys[0][2], 7);
    assert_int_equal(l.count[1], 0);
    assert_int_equal(l.keys[2][0], 2);
    seen_lists_clear(&l);
    assert_false(seen_lists_get(&note, 3, &l)); // nothing is left
    buf_release(&note.bytes);
}

static void no_lists(void **state)
{
    struct stage_note note = { 0 };
    struct seen_lists l = { .from = 9 };
    (void)state;
    seen_lists_put(&note, &l);
    l = (struct seen_lists){ 0 };
    assert_true(seen_lists_get(&note, 0, &l));
    assert_null(l.keys);
    buf_release(&note.bytes);
}

// Notes truncated at any byte are refused; the whole note is accepted.
static void cut(void **state)
{
    (void)state;
    for (size_t length = 0;; length++) {
        struct stage_note note = written();
        struct seen_lists l = { 0 };
        const bool whole = length == note.bytes.length;
        note.bytes.length = length;
        assert_int_equal(seen_lists_get(&note, 3, &l), whole);
        seen_lists_clear(&l);
        buf_release(&note.bytes);
        if (whole) break;
    }
}

// Refuses more rows than possible, and counts that do not fit.
static void changed(void **state)
{
    static const int64_t bad[] = { -1, 4, INT64_MAX, INT64_MIN };
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        for (size_t at = 1; at <= 2; at++) {
            struct stage_note note = written();
            struct seen_lists l = { 0 };
            memcpy(note.bytes.data + at * sizeof bad[i], &bad[i], sizeof bad[i]);
            // Four keys in the first list move the rest, so that the note ends too early.
            assert_false(seen_lists_get(&note, 3, &l));
            seen_lists_clear(&l);
            buf_release(&note.bytes);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(round_trip),
        cmocka_unit_test(no_lists),
        cmocka_unit_test(cut),
        cmocka_unit_test(changed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
