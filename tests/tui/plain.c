// tests/tui/plain.c -- tui/plain.c, tui/stream.c: where lines end on a terminal of 20 columns.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <poll.h>
#include <pty.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tui/plain.h"

enum { COLUMNS = 20 };

struct screen {
    struct plain *plain;
    int terminal, output; // our side of the terminal; standard output of the test
};

static struct screen begin(void)
{
    struct screen s;
    struct termios raw = { 0 };
    const struct winsize size = { .ws_row = 24, .ws_col = COLUMNS };
    int end;
    cfmakeraw(&raw);
    setenv("TERM", "dumb", 1);
    fflush(stdout);
    s.output = dup(STDOUT_FILENO);
    assert_int_equal(openpty(&s.terminal, &end, NULL, &raw, &size), 0);
    dup2(end, STDOUT_FILENO);
    close(end);
    s.plain = plain_new(true);
    return s;
}

static void emit(const struct screen *s, enum event_kind kind, const char *text)
{
    const struct sink sink = plain_sink(s->plain);
    sink.emit(sink.self, &(struct event){ .kind = kind, .text = text });
}

// Reads at least `least` bytes, which the terminal may deliver in parts, or all that come within
// ten seconds.
static void receive(const struct screen *s, char shown[512], size_t least)
{
    size_t have = 0;
    struct pollfd waiting = { s->terminal, POLLIN, 0 };
    for (ssize_t n; have < least && have < 511 && poll(&waiting, 1, 10000) > 0; have += (size_t)n)
        if ((n = read(s->terminal, shown + have, 511 - have)) <= 0) break;
    shown[have] = 0;
}

// Ends the output and expects this text on the terminal.
static void expect(struct screen *s, const char *text)
{
    char shown[512];
    plain_free(s->plain);
    fflush(stdout);
    dup2(s->output, STDOUT_FILENO); // the terminal's last writer
    close(s->output);
    receive(s, shown, sizeof shown);
    close(s->terminal);
    assert_string_equal(shown, text);
}

// Text without spaces appears before its end, and its rest at once.
static void test_long_word(void **state)
{
    static const char word[] = "0123456789abcdefghijklmnop", more[] = "qrst";
    struct screen s = begin();
    static const char early[] = "A\n0123456789abcdefghijklmnopqrst";
    char shown[512];
    emit(&s, EVENT_TOKEN, "A ");
    emit(&s, EVENT_TOKEN, word);
    emit(&s, EVENT_TOKEN, more);
    receive(&s, shown, strlen(early));
    emit(&s, EVENT_TOKEN, " and its end\n");
    expect(&s, " and its\nend\n");
    assert_string_equal(shown, early);
}

static void test_spaces_at_end(void **state)
{
    struct screen s = begin();
    emit(&s, EVENT_TOKEN, "one two three, four.  \nfive\n");
    expect(&s, "one two three, four.\nfive\n");
}

static void test_cut_off(void **state)
{
    struct screen s = begin();
    emit(&s, EVENT_TOKEN, "one two");
    expect(&s, "one two\n");
    s = begin();
    emit(&s, EVENT_TOKEN, "one two");
    emit(&s, EVENT_ERROR, "no memory");
    expect(&s, "one two\nerror: no memory\n");
}

// Commands and code are not wrapped in whole texts either.
static void test_code(void **state)
{
    struct screen s = begin();
    emit(&s, EVENT_TEXT,
         "/train demo/data.json run1\none two three four five\n\n```\na =  b +  c +  d +  e\n```\n"
         "    return one + two + 3;\n");
    expect(&s, "/train demo/data.json run1\none two three four\nfive\n\n```\n"
               "a =  b +  c +  d +  e\n```\n    return one + two + 3;\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_long_word),
        cmocka_unit_test(test_spaces_at_end),
        cmocka_unit_test(test_cut_off),
        cmocka_unit_test(test_code),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
