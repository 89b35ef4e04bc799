// tests/core/base/pace.c -- core/base/pace.c: the remaining time of work, and its report in
// progress events (core/base/event.c).
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// needs the headers above
#include <cmocka.h>

#include "core/base/clock.h"
#include "core/base/event.h"
#include "core/base/pace.h"

// A pace whose work began `seconds` ago, at step `from`.
static struct pace ago(double seconds, double from)
{
    struct pace p = pace_from(from);
    p.begin -= seconds;
    return p;
}

static void the_rest_takes_the_mean_time_per_step(void **state)
{
    struct pace p = ago(30, 0);
    assert_float_equal(pace_left(&p, 10, 40), 90, 1);
    assert_float_equal(pace_left(&p, 20, 40), 30, 1);
    assert_float_equal(pace_left(&p, 40, 40), 0, 0);
    struct pace resumed = ago(30, 1000); // steps of an earlier process do not count
    assert_float_equal(pace_left(&resumed, 1010, 1040), 90, 1);
}

static void no_estimate_before_the_first_step(void **state)
{
    struct pace p = pace_from(0), zero = { 0 };
    assert_true(isnan(pace_left(&p, 0, 10)));
    assert_true(isnan(pace_left(&zero, 3, 10))); // the pace begins here
    zero.begin -= 2;
    assert_float_equal(pace_left(&zero, 5, 10), 5, 1);
}

// Each part of the work counts from its own first report. A new number of steps, or a step before
// the last one, begins a part.
static void each_part_is_timed_separately(void **state)
{
    struct pace p = ago(1000, 0);
    assert_float_equal(pace_left(&p, 5, 10), 1000, 5);
    assert_true(isnan(pace_left(&p, 6, 50))); // the number of steps has changed
    p.begin -= 4;
    assert_float_equal(pace_left(&p, 8, 50), 84, 3);
    assert_true(isnan(pace_left(&p, 1, 50))); // the step went back
}

static void spans_are_written(void **state)
{
    char text[PACE_TEXT];
    assert_string_equal(pace_text(text, 12.3), "12 s");
    assert_string_equal(pace_text(text, 180), "3 min");
    assert_string_equal(pace_text(text, 5400), "1.5 h");
    assert_string_equal(pace_text(text, NAN), "");
    assert_true(*pace_text(text, 1e300) != '\0');
}

static void keep(void *self, const struct event *e)
{
    *(struct event_progress *)self = *e->progress;
}

static void progress_events_have_the_time_left(void **state)
{
    struct event_progress told = { 0 };
    struct sinks sinks = { 0 };
    struct pace p = ago(10, 0);
    sinks_add(&sinks, (struct sink){ .emit = keep, .self = &told });
    sinks_progress(&sinks, &p, "writing", 1, 4);
    assert_string_equal(told.what, "writing");
    assert_float_equal(told.step, 1, 0);
    assert_float_equal(told.steps, 4, 0);
    assert_float_equal(told.eta_s, 30, 1);
    assert_true(isnan(told.loss));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_rest_takes_the_mean_time_per_step),
        cmocka_unit_test(no_estimate_before_the_first_step),
        cmocka_unit_test(each_part_is_timed_separately),
        cmocka_unit_test(spans_are_written),
        cmocka_unit_test(progress_events_have_the_time_left),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
