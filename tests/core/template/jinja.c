// tests/core/template/jinja.c -- core/template/jinja*.c: templates as Python renders them,
// origins of text, refusals, bounds, and the variables that a template reads.
//
// The expected texts are from Python's Jinja2 3.1.6, in the environment that transformers sets up:
// trim_blocks, lstrip_blocks, loop controls, {% generation %}, its own tojson.
#include "core/template/jinja.h"
#include "core/base/cancel.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

// --- rendering -----------------------------------------------------------------------------------

static char *render_json(const char *text, const char *json, int32_t source,
                         struct jinja_output *output, struct err *err)
{
    struct jinja_arena arena = { 0 };
    struct jinja_value values;
    struct jinja *t = jinja_parse(text, strlen(text), "t", err);
    char *rendered = NULL;
    *output = (struct jinja_output){ 0 };
    assert_int_equal(jinja_json(&arena, json, strlen(json), "json", source, &values, NULL), 0);
    if (t && jinja_render(t, &arena, values, 0, output, err) == 0)
        rendered = xstrdup(output->text.data);
    jinja_arena_release(&arena);
    jinja_free(t);
    return rendered;
}

static void check(const char *text, const char *json, const char *expected)
{
    struct err err = { "" };
    struct jinja_output output;
    char *rendered = render_json(text, json, 0, &output, &err);
    if (!rendered) fail_msg("%s: %s", text, err.text);
    assert_string_equal(rendered, expected);
    free(rendered);
    jinja_output_release(&output);
}

static void refused(const char *text, const char *part)
{
    struct err err = { "" };
    struct jinja_output output;
    char *rendered =
        render_json(text, "{\"x\": [1, 2], \"u\": \"<a>\", \"f\": 0.1}", 0, &output, &err);
    if (rendered) fail_msg("%s gave '%s'", text, rendered);
    if (!strstr(err.text, part)) fail_msg("%s: '%s' does not contain '%s'", text, err.text, part);
    jinja_output_release(&output);
}

// --- as Python -----------------------------------------------------------------------------------

// clang-format off
static const char variables[] =
    "{\"s\": \" H\303\251 \\\"q\\\" \", \"n\": 7, \"f\": 2.5, \"one\": 1.0, \"long\": 123456789012345.0, \"sum\": 0.30000000000000004, \"big\": 1e+20, \"t\": true, \"z\": null, \"l\": [3, 1, 2], \"e\": [], \"d\": {\"b\": 1, \"a\": [1, \"x\"], \"items\": 5}, \"m\": [{\"role\": \"user\", \"content\": \"a\", \"n\": 2}, {\"role\": \"assistant\", \"content\": \"B\", \"n\": 1}, {\"role\": \"user\", \"content\": \"c\"}], \"u\": \"\346\227\245\346\234\254\350\252\236 \307\206 \303\237\", \"h\": \"<a> & b\"}";

static const struct {
    const char *text, *expected;
} cases[] = {
    { "{{ 1 + 2 * 3 - -7 % 3 }} {{ -7 % 3 }} {{ 7 % -3 }} {{ -8 % 2 }} {{ n % -1 }} {{ true + 1 }}",
      "5 2 -2 0 0 2" },
    { "{{ 1 < 2 and 2 <= 2 }} {{ 3 > 3 or 3 >= 4 }} {{ 1 in l and 4 not in l }} {{ not 1 == 2 }} {{ 'H' in s }} {{ 'b' in d }} {{ 1 != one }}",
      "True False True True True True False" },
    { "{{ 'yes' if t else 'no' }}{{ 'yes' if z }}{{ 1 if false else 2 if false else 3 }}{{ t and 5 or 6 }}{{ e or 'none' }}",
      "yes35none" },
    { "{{ 'a' 'b' \"c\" ~ 1 ~ none ~ one }} {{ \"x\" * 3 }}{{ 2 * 'y' }} {{ [1] + [3] }} {{ (1, 2) + (3,) }}",
      "abc1None1.0 xxxyy [1, 3] (1, 2, 3)" },
    { "{{ none }} {{ true }} {{ f }} {{ one }} {{ long }} {{ sum }} {{ big }} {{ d }} {{ (1,) }} {{ () }} {{ (1) }} {{ ['it\\'s', \"\\n\\\\\"] }}",
      "None True 2.5 1.0 123456789012345.0 0.30000000000000004 1e+20 {'b': 1, 'a': [1, 'x'], 'items': 5} (1,) () 1 [\"it's\", '\\n\\\\']" },
    { "{{ l[0] }} {{ l[-1] }} {{ l[1:] }} {{ l[::-1] }} {{ u[0] }} {{ u[-3:] }} {{ s[1:3] }} {{ d['a'][1][0] }} {{ l[5] }} {{ d.a.0 }} {{ [[1, 2]].0.1 }} {{ m[-1].n }} {{ l[-9:2] }} {{ l[2:1] }} {{ l[:-1] }} {{ u[:2] }} {{ u[1:-3] }}",
      "3 2 [1, 2] [2, 1, 3] \346\227\245 \307\206 \303\237 H\303\251 x  1 2  [3, 1] [] [3, 1] \346\227\245\346\234\254 \346\234\254\350\252\236 " },
    { "{{ d.items() | list }} {{ d['items'] }} {{ d.get('q') }} {{ d.get('q', 4) }} {{ d.keys() | list }}",
      "[('b', 1), ('a', [1, 'x']), ('items', 5)] 5 None 4 ['b', 'a', 'items']" },
    { "{% for x in l %}{{ loop.index }}{{ loop.index0 }}{{ loop.first }}{{ loop.last }}{{ loop.previtem }}-{{ loop.nextitem }};{% endfor %}",
      "10TrueFalse-1;21FalseFalse3-2;32FalseTrue1-;" },
    { "{% for a, b in d.items() if b %}{{ a }}={{ b }}{% else %}no{% endfor %}{% for x in e %}{% else %}empty{% endfor %}{% for x in none_such %}x{% endfor %}{% for c in 'ab' %}{{ c }}.{% endfor %}{% for k in d %}{{ k }}{% endfor %}",
      "b=1a=[1, 'x']items=5emptya.b.baitems" },
    { "{% for x in range(10) %}{% if x > 4 %}{% break %}{% endif %}{{ x }}{% endfor %}{{ range(5, 0, -2) | list }}{{ range(3)[1] }}{{ range(2, 4) | length }}",
      "01234[5, 3, 1]12" },
    { "{% set x = 1 %}{% for i in l %}{% set x = x + i %}{{ x }}{% endfor %}{{ x }}{% set ns = namespace(y=0) %}{% for i in l %}{% set ns.y = ns.y + i %}{% endfor %}{{ ns.y }}{% set a, b = 1, 2 %}{{ a }}{{ b }}{% set c = 1, 2 %}{{ c }}",
      "4231612(1, 2)" },
    { "{% set x %}  in {{ n }}{% endset %}[{{ x }}]",
      "[  in 7]" },
    { "{% macro f(a, b=2, c=a) %}{{ a }}{{ b }}{{ c }}{% endmacro %}{{ f(1) }} {{ f(1, c=3) }} {{ f() }}{% macro g() %}{{ f(n) }}{{ t }}{% endmacro %} {{ g() }}",
      "121 123 2 727True" },
    { "{% macro f(a) %}<{{ caller() if caller is defined }}{{ a }}>{% endmacro %}{% macro g(a) %}{{ f(a) }}{{ caller() }}{{ caller() }}{% endmacro %}{% call f(9) %}{{ n }}{% endcall %}{{ f(1) }}{% for i in l %}{% call g(i) %}{{ i }}{% endcall %}{% endfor %}",
      "<79><1><3>33<1>11<2>22" },
    { "{% filter upper | replace('B', '-') %}a{{ 'b' }}c{% endfilter %}{% generation %}x{% endgeneration %}",
      "A-Cx" },
    { "|{# a comment {{ x }} #}|{#- b -#}  x",
      "||x" },
    { "  {% if t %}\n  a\n    {% endif %}\nb {% if t %} c\n{% endif %}\n  {{- ' d ' -}}   \n  e\n  {% if t %}f{% endif %}\ng\n{#- c -#}\n\nh\n{# line #}\ni",
      "  a\nb  c\n d e\nfgh\ni" },
    { "{%- for x in l %}\n    {{ x }}\n{%- endfor %}\n\n{% for x in l -%}\n    {{ x }}\n{% endfor %}\nend",
      "    3    1    2\n3\n1\n2\nend" },
    { "{{ s | trim }}|{{ s | upper }}|{{ s | lower }}|{{ s | length }}|{{ 'hello wORLD foo-bar' | title }}|{{ 'hELLO' | capitalize }}|{{ \"it's a dog\" | title }}|{{ \"it's a dog\".title() }}|{{ 'xaxx' | trim('x') }}",
      "H\303\251 \"q\"| H\303\211 \"Q\" | h\303\251 \"q\" |8|Hello World Foo-Bar|Hello|It's A Dog|It'S A Dog|a" },
    { "{{ l | sort }} {{ ['b', 'A', 'c'] | sort }} {{ m[:2] | sort(attribute='n') | map(attribute='n') | list }} {{ [none, none] | sort }} {{ l | min }} {{ l | first }} {{ l | last }}",
      "[1, 2, 3] ['A', 'b', 'c'] [1, 2] [None, None] 1 3 2" },
    { "{{ m | map(attribute='role') | join(', ') }} {{ m | selectattr('role', 'equalto', 'user') | map(attribute='content') | list }} {{ m | rejectattr('n') | list | length }} {{ l | reject('in', [1, 4]) | list }} {{ l | reject('eq', 3) | list }} {{ ['a', ' b '] | map('trim') | list }} {{ l | map('string') | join }} {{ m | selectattr('n', 'defined') | list | length }} {% if e | reject('none') %}true{% endif %}",
      "user, assistant, user ['a', 'c'] 1 [3, 2] [1, 2] ['a', 'b'] 312 2 true" },
    { "{{ none_such | default('x') }} {{ '' | default('x') }} {{ '' | default('x', true) }} {{ none | default('x') }} {{ none_such is defined }} {{ none_such }}{{ d.q is undefined }} {{ none_such | length }} {{ none_such is string }}",
      "x  x None False True 0 False" },
    { "{{ d | tojson }} {{ u | tojson }} {{ [1, one, none, true, 'a\"b\\n<'] | tojson }} {{ d | tojson(indent=2) }} {{ {} | tojson(indent=2) }} {{ d | tojson(separators=(',', ':')) }} {{ u | tojson(ensure_ascii=true) }} {{ {1: 2, none: true} | tojson }}",
      "{\"b\": 1, \"a\": [1, \"x\"], \"items\": 5} \"\346\227\245\346\234\254\350\252\236 \307\206 \303\237\" [1, 1.0, null, true, \"a\\\"b\\n<\"] {\n  \"b\": 1,\n  \"a\": [\n    1,\n    \"x\"\n  ],\n  \"items\": 5\n} {} {\"b\":1,\"a\":[1,\"x\"],\"items\":5} \"\\u65e5\\u672c\\u8a9e \\u01c6 \\u00df\" {\"1\": 2, \"null\": true}" },
    { "{{ d | dictsort }} {{ d | items | list }} {{ {'x': 2, 'B': 1} | dictsort }} {{ [1, 'a', 1, 'A'] | unique | list }}",
      "[('a', [1, 'x']), ('b', 1), ('items', 5)] [('b', 1), ('a', [1, 'x']), ('items', 5)] [('B', 1), ('x', 2)] [1, 'a']" },
    { "{{ 'a\\nb\\n\\nc' | indent }}|{{ 'a\\nb' | indent(2, true) }}|{{ 'a\\nb' | indent(3, first=true) }}|{{ (h | safe) + '<' }}|{{ h | safe }}|{{ '<' + (h | safe) + u }}",
      "a\n    b\n\n    c|  a\n  b|   a\n   b|<a> & b&lt;|<a> & b|&lt;<a> & b\346\227\245\346\234\254\350\252\236 \307\206 \303\237" },
    { "{{ '42' | int }} {{ ' 42 ' | int }} {{ 'x' | int }} {{ 'x' | int(9) }} {{ '3.9' | int }} {{ f | int }} {{ true | int }} {{ none | int }} {{ '9007199254740993' | int }} {{ 7 | string + '!' }}",
      "42 42 0 9 3 2 1 0 9007199254740993 7!" },
    { "{{ 'a,b,,c'.split(',') }} {{ 'a b c'.split(' ', 1) }} {{ 'xxabxx'.strip('x') }} {{ ' a '.lstrip() }}| {{ 'a\\n '.rstrip() }} {{ 'abc'.startswith('ab') }} {{ 'abc'.endswith('x') }} {{ 'abcabc'.replace('b', 'X') }} {{ 'abab' | replace('b', 'c') }} {{ 'abc'.endswith('bc') }} {{ 'ab'.upper() }} {{ u.upper() }}",
      "['a', 'b', '', 'c'] ['a', 'b c'] ab a | a True False aXcaXc acac True AB \346\227\245\346\234\254\350\252\236 \307\204 SS" },
    { "{{ 'a{}b{{{}}}'.format(1, 3) }} {{ '<{}>'.format(':x') }}",
      "a1b{3} <:x>" },
    { "{{ 1 is number }} {{ true is number }} {{ f is number }} {{ 'a' is string }} {{ d is mapping }} {{ l is sequence }} {{ 'a' is iterable }} {{ none is none }} {{ 1 is in l }} {{ 2 is not in l }} {{ 3 is eq 3 }} {{ true is boolean }} {{ false is false }} {{ n is not none }} {{ 2 is equalto(3) }} {{ t is true }}", // words: ok
      "True True True True True True True True True False True True True True False True" },
    { "{{ {'a': 1, 'b': {'c': [1, 2]}} }} {{ {}.x is defined }} {{ [[1, 2], [3]] }} {{ '\303\251\\t\\q\\\\' }} {{ \"\\'\" }}",
      "{'a': 1, 'b': {'c': [1, 2]}} False [[1, 2], [3]] \303\251\011\\q\\ '" },
    { "{{ dict(a=1, b=2) }} {{ namespace(a=1).a }}",
      "{'a': 1, 'b': 2} 1" },
    { "{% if 1 is defined and z is none or false %}a{% endif %}{% if not z %}b{% endif %}{% if l %}c{% endif %}{% if e %}d{% elif n - 7 %}e{% else %}f{% endif %}", // words: ok
      "abcf" },
    { "{%- set ns = namespace(found=false) -%}\n{%- for x in m if x.role == 'assistant' -%}\n    {%- set ns.found = true -%}{{ loop.index }}\n{%- endfor -%}\n{{- ns.found }}{{ 'a' < 'b' }}{{ 1 == one }}{{ 1 == true }}{{ '1' == 1 }}{{ none == false }}{{ [1, {'a': 2}] == [1, {'a': 2}] }}",
      "1TrueTrueTrueTrueFalseFalseTrue" },
    { "{{ [3, 4] | join('-') }} {{ 'abc' | list }} {{ 'a b' | replace(' ', '_') }} {{ [{'a': {'b': 3}}] | map(attribute='a') | first }}",
      "3-4 ['a', 'b', 'c'] a_b {'b': 3}" },
    { "{{ \"}}\" }}{{ '%}' }}{{ {'a': {'b': 1}}['a']['b'] }}{{ not true is false }}{{ 'ab'[0] ~ 'cd'[-1] }}{{ '\316\243\316\221\316\243 \304\260' | lower }}{{ '\357\254\201' | upper }}",
      "}}%}1Truead\317\203\316\261\317\202 i\314\207FI" },
};
// clang-format on

static void test_as_python(void **state)
{
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        check(cases[i].text, variables, cases[i].expected);
}

// Templates can change lists, as they can outside of Jinja2's sandbox; published templates do.
static void test_changes(void **state)
{
    check("{% set l = [1] %}{% set _ = l.append(2) %}{{ l }}{{ l.pop() }}{{ l.pop(0) }}{{ l }}",
          "{}", "[1, 2]21[]");
}

static void test_line_ends(void **state)
{
    check("a\r\n{% if true %}\r\nb\r{% endif %}\r\nc\r\n", "{}", "a\nb\nc");
    check("x\n\n", "{}", "x\n");
    check("", "{}", "");
}

static void test_dates(void **state)
{
    struct err err;
    struct jinja_arena arena = { 0 };
    struct jinja_output output;
    static const char text[] = "{{ strftime_now('%d %b %Y|%B|%Y-%m-%d') }}";
    struct jinja *t = jinja_parse(text, strlen(text), "t", &err);
    struct tm tm = { .tm_year = 124, .tm_mon = 6, .tm_mday = 6, .tm_hour = 9, .tm_isdst = -1 };
    assert_int_equal(jinja_render(t, &arena, jinja_dict(&arena), mktime(&tm), &output, &err), 0);
    assert_string_equal(output.text.data, "06 Jul 2024|July|2024-07-06");
    jinja_output_release(&output);
    jinja_arena_release(&arena);
    jinja_free(t);
}

static void test_json(void **state)
{
    struct jinja_arena arena = { 0 };
    struct jinja_value v;
    struct err err;
    static const char *const wrong[] = { "",      "{",   "[1,]",        "{\"a\" 1}", "\"a",
                                         "[1 2]", "nul", "01x",         "\"\\q\"",   "1 2",
                                         "+1",    "--1", "\"\\u12g4\"", "{1: 2}" };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_int_equal(jinja_json(&arena, wrong[i], strlen(wrong[i]), "j", 0, &v, &err), -1);
    static const char deep[] = "\n\n[[[[[";
    assert_int_equal(jinja_json(&arena, deep, strlen(deep), "j", 0, &v, &err), -1);
    assert_string_equal(err.text, "'j' is not valid JSON (near line 3)");
    jinja_arena_release(&arena);
    // cJSON accepts leading zeros.
    check("{{ [a, b, c] }}", "{\"a\": 007, \"b\": 001.5, \"c\": 0009951084489762988941}",
          "[7, 1.5, 9.951084489762988e+18]");
    check("{{ [a, b, c, d] }}",
          "{\"a\": 1, \"b\": 1.0, \"c\": -2e2, \"d\": \"\\ud83d\\ude00\\u00e9\"}",
          "[1, 1.0, -200.0, '\xF0\x9F\x98\x80\xC3\xA9']");
}

// --- origins of text -----------------------------------------------------------------------------

// In `expected`, [ ] encloses text from the values.
static void origin(const char *text, const char *expected)
{
    struct err err = { "" };
    struct jinja_output output;
    struct buf shown = { 0 };
    buf_puts(&shown, "");
    char *rendered =
        render_json(text, "{\"u\": \"aBc\", \"l\": [\"x\", \"y\"], \"d\": {\"k\": \"v\\\"\"}}", 7,
                    &output, &err);
    if (!rendered) {
        fail_msg("%s: %s", text, err.text);
        return;
    }
    size_t at = 0;
    for (size_t i = 0; i < output.span_count; i++) {
        const struct jinja_span *s = &output.spans[i];
        assert_int_equal(s->source, 7);
        assert_true(s->start >= at && s->end > s->start);
        buf_add(&shown, rendered + at, s->start - at);
        buf_putc(&shown, '[');
        buf_add(&shown, rendered + s->start, s->end - s->start);
        buf_putc(&shown, ']');
        at = s->end;
    }
    buf_puts(&shown, rendered + at);
    assert_string_equal(shown.data, expected);
    buf_release(&shown);
    free(rendered);
    jinja_output_release(&output);
}

static void test_origin(void **state)
{
    origin("a{{ u }}b", "a[aBc]b");
    origin("{{ 'a' + u ~ 'b' }}", "a[aBc]b");
    origin("{{ u | upper }}{{ u | lower }}{{ u | title }}", "[ABCabcAbc]");
    origin("{{ u[1:] }}|{{ u[0] }}", "[Bc]|[a]");
    origin("{{ (' ' + u + ' ') | trim }}", "[aBc]");
    origin("{{ u | replace('B', '-') }}|{{ 'a-b' | replace('-', u) }}", "[a]-[c]|a[aBc]b");
    origin("{{ l | join(', ') }}|{{ u.split('B') }}", "[x], [y]|['[a]', '[c]']");
    origin("{{ d | tojson }}|{{ d }}", "{\"k\": \"[v][\\\"]\"}|{'k': '[v\"]'}");
    origin("{{ '{}!'.format(u) }}|{{ u * 2 }}|{{ u + ('<' | safe) }}", "[aBc]!|[aBc][aBc]|[aBc]<");
    origin("{% set x %}<{{ u }}>{% endset %}{{ x }}|{% filter upper %}y{{ u }}{% endfilter %}",
           "<[aBc]>|Y[ABC]");
    origin("{% macro m(a) %}({{ a }}){% endmacro %}{{ m(u) | indent }}{{ u | length }}",
           "([aBc])3");
    origin("{% for c in u %}{{ c }}.{% endfor %}{{ u | safe }}{{ u | list | first }}",
           "[a].[B].[c].[aBc][a]");
}

// Spans record where their bytes begin in the value, so that a complete value is recognised, or
// SIZE_MAX if the template changed them.
static void test_whole(void **state)
{
    struct err err;
    struct jinja_output output;
    free(render_json("<{{ ('  ' + u + ' ') | trim }}>{{ u | upper }}", "{\"u\": \"abc\"}", 3,
                     &output, &err));
    assert_int_equal(output.span_count, 2);
    assert_int_equal(output.spans[0].from, 0);
    assert_int_equal(output.spans[0].end - output.spans[0].start, 3);
    assert_true(output.spans[1].from == SIZE_MAX);
    jinja_output_release(&output);
}

// --- refusals ------------------------------------------------------------------------------------

static void test_refused(void **state)
{
    refused("a\n\n{% include 'x' %}", "t: line 3: the statement 'include' is not known");
    refused("\n{{ 1 | nonsense }}", "t: line 2: the filter 'nonsense' is not known");
    refused("{{ 1 is nonsense }}", "the test 'nonsense' is not known");
    refused("{{ u.nonsense() }}", "the function or method 'nonsense' is not known");
    refused("{{ nonsense() }}", "the function or method 'nonsense' is not known");
    refused("{% if true %}", "line 1: 'endif' is missing");
    refused("{{ 1", "'}}' is missing");
    refused("{# x", "'#}' is missing");
    refused("{{ 'a }}", "a string is not closed");
    refused("{{ (1 }}", "line 1");
    refused("{{ 1) }}", "a closing bracket has no opening bracket");
    refused("{{ }}", "an expression is missing");
    refused("{{ 1 2 }}", "expected '}}'");
    refused("{{ a.b }}", "'a' is undefined");
    refused("{{ none.a.b }}", "'a' is undefined");
    refused("{{ 'a' + 1 }}", "'+' does not work for a str and an int");
    refused("{{ 1 % 0 }}", "division by zero");
    refused("{{ 9223372036854775807 + 1 }}", "too large");
    refused("{{ 99999999999999999999 }}", "a number is too large");
    refused("{{ raise_exception('No ' + u) }}", "line 1: No <a>");
    refused("{% break %}", "outside a loop");
    refused("{% set a.b = 1 %}{% set a = 1 %}", "namespace");
    refused("{{ x | tojson(1, 2, 3, 4, 5) }}", "at most 3 arguments");
    refused("{{ {[]: 1} }}", "cannot be the key");
    refused("{{ 'x'.replace('', 'y') }}", "replacing an empty text is not supported");
}

// Features of Jinja2 that this engine leaves out are refused by name, with the line.
static void test_left_out(void **state)
{
    static const char *const statements[] = { "with", "include", "block", "autoescape",
                                              "continue" };
    static const char *const filters[] = { "abs",    "attr",  "batch",    "center",    "e",
                                           "escape", "float", "format",   "groupby",   "round",
                                           "slice",  "sum",   "truncate", "urlencode", "wordcount",
                                           "d",      "count", "select",   "reverse",   "max" };
    static const char *const tests[] = { "callable", "divisibleby", "escaped", "filter",  "lower",
                                         "sameas",   "test",        "upper",   "integer", "float",
                                         "odd",      "even",        "ne",      "gt",      "ge",
                                         "lt",       "le",          "lessthan" };
    static const char *const methods[] = { "center",      "index", "isdigit",    "ljust",
                                           "partition",   "rfind", "rsplit",     "swapcase",
                                           "zfill",       "lower", "capitalize", "splitlines",
                                           "join",        "find",  "count",      "removeprefix",
                                           "removesuffix" };
    static const char *const attributes[] = { "length", "revindex", "revindex0", "depth" };
    char text[100], part[100];
    for (size_t i = 0; i < sizeof statements / sizeof *statements; i++) {
        snprintf(text, sizeof text, "\n{%% %s %%}", statements[i]);
        snprintf(part, sizeof part, "t: line 2: the statement '%s' is not known", statements[i]);
        refused(text, part);
    }
    for (size_t i = 0; i < sizeof filters / sizeof *filters; i++) {
        snprintf(text, sizeof text, "\n\n{{ x | %s }}", filters[i]);
        snprintf(part, sizeof part, "t: line 3: the filter '%s' is not known", filters[i]);
        refused(text, part);
    }
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++) {
        snprintf(text, sizeof text, "\n{{ u is %s }}", tests[i]);
        snprintf(part, sizeof part, "t: line 2: the test '%s' is not known", tests[i]);
        refused(text, part);
    }
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++) {
        snprintf(text, sizeof text, "\n{{ u.%s('x') }}", methods[i]);
        snprintf(part, sizeof part, "t: line 2: the function or method '%s' is not known",
                 methods[i]);
        refused(text, part);
    }
    for (size_t i = 0; i < sizeof attributes / sizeof *attributes; i++) {
        snprintf(text, sizeof text, "{%% for i in x %%}\n{{ loop.%s }}{%% endfor %%}",
                 attributes[i]);
        snprintf(part, sizeof part, "t: line 2: the loop attribute '%s' is not known",
                 attributes[i]);
        refused(text, part);
    }
    refused("\n{{ x.extend(x) }}", "line 2: the function or method 'extend' is not known");
    refused("\n{{ {}.update(x) }}", "line 2: the function or method 'update' is not known");
    refused("\n{{ {}.values() }}", "line 2: the function or method 'values' is not known");
    refused("\n{{ 7 / 2 }}", "line 2: the operator '/' is not supported");
    refused("{{ 1 + 7 // 2 }}", "line 1: the operator '//' is not supported");
    refused("{{ 2 * 1.5 }}", "line 1: numbers with a decimal point are not supported");
    refused("{{ f + 1 }}", "line 1: arithmetic with floats is not supported");
    refused("{{ 2 - f }}", "line 1: arithmetic with floats is not supported");
    refused("\n{% raw %}{{ x y }}{% endraw %}", "line 2: the statement 'raw' is not supported");
    refused("{%+ if x %}{% endif %}", "line 1: the statement '+' is not known");
    refused("{% if x +%}{% endif %}", "line 1: '+%}' is not supported");
    refused("a\n  {#+ x #}\nb", "line 2: '{#+' is not supported");
    refused("a\n  {# x\n +#}\nb", "line 3: '+#}' is not supported");
    refused("{% set y | upper %}a{% endset %}", "line 1: filters of a set block are not supported");
    refused("{{ x[::2] }}",
            "line 1: a slice with a step, except [::-1] of a list, is not supported");
    refused("{{ x[1::-1] }}", "line 1: a slice with a step, except");
    refused("{{ x | sort(true) }}", "line 1: sort(reverse) is not supported");
    refused("{{ [{}] | map(attribute='a.b') | list }}", "line 1: attribute paths ('a.b')");
    refused("{{ u.replace('a', 'b', 1) }}", "line 1: 'replace' takes at most 2 arguments, not 3");
    refused("{{ u.split() }}", "line 1: 'split' needs more arguments");
    refused("{{ '{a}'.format(a=1) }}",
            "line 1: a field of format other than '{}' is not supported");
    refused("{{ namespace({}) }}", "line 1: positional arguments of dict and namespace are not");
    refused("{{ '\\u00e9' }}", "line 1: the escape '\\u' in a string is not supported");
    refused("{{ '\\x41' }}", "line 1: the escape '\\x' in a string is not supported");
    refused("{{ strftime_now('%-d') }}", "line 1: the date format '%-' is not known");
    refused("{{ cycler(1) }}", "line 1: the function or method 'cycler' is not known");
    refused("{{ joiner() }}", "line 1: the function or method 'joiner' is not known");
    refused("{% for i in x %}{{ loop.cycle(1) }}{% endfor %}",
            "loop attribute 'cycle' is not known");
    refused("{% for i in x %}{{ loop(x) }}{% endfor %}", "line 1: a loop cannot be called");
    refused("\n{% for i in x recursive %}{% endfor %}", "line 2: expected '%}', not 'recursive'");
    refused("{% macro m() %}{{ caller() }}{% endmacro %}{{ m() }}", "'caller' is not known");
    refused("{% macro m() %}\n{{ kwargs }}{% endmacro %}", "line 2: 'kwargs' in a macro is not");
    refused("{{ raise_exception(*x) }}", "line 1: '*' in a call is not supported");
    refused("\n{{ 1 < 2 < 3 }}", "line 2: chained comparisons are not supported");
    refused("{{ 2 ** 3 }}", "line 1: unexpected '*'");
    refused("{{ +1 }}", "line 1: unexpected '+'");
    refused("{{ 0x1F }}", "line 1: expected '}}', not 'x1F'");
    refused("{{ 1_000 }}", "line 1: expected '}}', not '_000'");
    refused("{{ '\\101' }}", "line 1: the escape '\\1' in a string is not supported");
    refused("{{ '%s' % u }}", "line 1: '%' does not work for a str and a str");
    refused("{{ '{:>5}'.format(u) }}",
            "line 1: a field of format other than '{}' is not supported");
    refused("{{ x * 2 }}", "line 1: '*' does not work for a list and an int");
    refused("{{ x < x }}", "line 1: a list and a list have no order");
    refused("{{ u[::-1] }}", "line 1: a slice with a step, except [::-1] of a list");
    refused("{{ x[1, 2] }}", "line 1: expected ']', not ','");
    refused("{% call(a) m() %}{% endcall %}", "line 1: a call block needs a call");
    refused("{{ range(2) }}", "line 1: a range cannot be printed");
    refused("{{ x | map('string') }}", "line 1: a generator cannot be printed");
    refused("{{ strftime_now('%Y %c') }}", "line 1: the date format '%c' is not known");
    refused("{{ x | sort(case_sensitive=true) }}", "'sort' has no argument 'case_sensitive'");
    refused("{{ x | tojson(sort_keys=true) }}", "'tojson' has no argument 'sort_keys'");
}

// `unknown` is set for a construct that is not known, but not for raise_exception or an error of
// types.
static void test_unknown(void **state)
{
    struct err err;
    struct jinja_output output;
    assert_null(render_json("{{ 1 | nonsense }}", "{}", 0, &output, &err));
    assert_true(output.unknown);
    assert_null(render_json("{{ raise_exception('x') }}", "{}", 0, &output, &err));
    assert_false(output.unknown);
    assert_null(render_json("{{ 1 + 'a' }}", "{}", 0, &output, &err));
    assert_false(output.unknown);
}

static char *nested(const char *open, const char *middle, const char *close, int count)
{
    struct buf b = { 0 };
    for (int i = 0; i < count; i++) buf_puts(&b, open);
    buf_puts(&b, middle);
    for (int i = 0; i < count; i++) buf_puts(&b, close);
    return buf_take(&b);
}

static void test_bounds(void **state)
{
    refused(
        "{% set r = range(9999) %}{% for i in r %}{% for j in r %}{{ 1 if r and i }}{% endfor %}"
        "{% endfor %}",
        "takes more than 20 million steps");
    // Each search first reads the whole text to be found.
    refused("{% set s = 'a' * 100000 %}{% set w = 'a' * 50000 + 'b' %}{% for i in range(9000) %}"
            "{% set found = w in s %}{% endfor %}",
            "takes more than 20 million steps");
    // A search may cost ten nanoseconds for each byte of the text that it reads.
    refused("{% set s = 'a' * 100000 %}{% for i in range(900) %}{% set found = 'aaab' in s %}"
            "{% endfor %}",
            "takes more than 20 million steps");
    // Methods that read each character or move all items count that work as steps.
    static const char *const slow[] = {
        "s.split('b')",  "s | length", "b | int",    "s.replace('b', '')",
        "s.endswith(s)", "l.pop(0)",   "s | indent", "'{}'.format(f)",
    };
    for (size_t i = 0; i < sizeof slow / sizeof *slow; i++) {
        char *text = xasprintf("{%% set s = 'a' * 1000000 %%}{%% set b = ' ' * 1000000 %%}"
                               "{%% set l = range(99999) | list %%}{%% for i in range(90000) %%}"
                               "{%% for j in range(90000) %%}{%% set x = %s %%}{%% endfor %%}"
                               "{%% endfor %%}",
                               slow[i]);
        refused(text, "takes more than 20 million steps");
        free(text);
    }
    refused("{{ range(1000000) }}", "a range is longer");
    refused("{{ 'abcdefgh' * 100000000 }}", "needs more than");
    refused("{% set ns = namespace(s='ab') %}{% for i in range(60) %}{% set ns.s = ns.s + ns.s %}"
            "{% endfor %}",
            "needs more than");
    refused("{% set s = 'abcdefgh' * 1000000 %}{% for i in range(99) %}{{ s }}{% endfor %}",
            "exceeds 64 MB");
    refused("{% set ns = namespace(l=[1]) %}{% for i in range(60) %}{% set ns.l = ns.l + ns.l %}"
            "{% endfor %}",
            "needs more than 256 MB");
    refused("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", "too deep");
    refused("{% set l = [] %}{% set _ = l.append(l) %}{{ l }}", "nested too deeply");
    refused("{% set l = [] %}{% set _ = l.append(l) %}{{ l | tojson }}", "nested too deeply");
    refused("{{ [1] | tojson(indent=99999999999) }}{{ 'x' | indent(99999999999) }}",
            "20 million steps");
    static const char *const forms[][3] = {
        { "{{ ", "1", " }}" },       { "(", "1", ")" },    { "[", "", "]" },  { "-", "1", "" },
        { "not ", "1", "" },         { "1 + ", "1", "" },  { "", "x", ".a" }, { "", "x", "|list" },
        { "1 if ", "1", " else 2" }, { "{1: ", "1", "}" },
    };
    for (size_t i = 1; i < sizeof forms / sizeof *forms; i++) {
        char *middle = nested(forms[i][0], forms[i][1], forms[i][2], 5000);
        char *text = xasprintf("{{ %s }}", middle);
        refused(text, "nested too deeply");
        free(middle);
        free(text);
    }
    char *text = nested("{% if 1 %}", "x", "{% endif %}", 5000);
    refused(text, "nested too deeply");
    free(text);
}

// A text with `count` copies of `item` between `before` and `behind`; each '#' becomes the copy's
// number.
static char *long_list(const char *before, const char *item, const char *behind, int count)
{
    struct buf b = { 0 };
    buf_puts(&b, before);
    for (int i = 0; i < count; i++) {
        for (const char *p = item; *p; p++) {
            if (*p == '#')
                buf_printf(&b, "%d", i);
            else
                buf_putc(&b, *p);
        }
    }
    buf_puts(&b, behind);
    return buf_take(&b);
}

// Time and memory of a long template grow with its length, or are bounded.
static void test_long(void **state)
{
    static const struct {
        const char *before, *item, *behind;
        int count;
        const char *expected; // NULL: takes too many steps
    } lists[] = {
        { "{{ dict(", "a#=1,", ") | length }}", 3000, "3000" },
        { "{{ dict(", "a#=1,", ") | length }}", 25000, NULL },
        { "{% macro m(x, ", "a#=#,", ") %}{{ a5 }}{% endmacro %}{{ m(1) }}{{ m(2) }}", 2000, "55" },
        { "{% macro m(x, ", "a#=#,", ") %}{{ a5 }}{% endmacro %}{{ m(1) }}", 8000, NULL },
        { "", "{% set a# = 1 %}", "", 9000, NULL },
    };
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        char *text = long_list(lists[i].before, lists[i].item, lists[i].behind, lists[i].count);
        if (lists[i].expected)
            check(text, "{}", lists[i].expected);
        else
            refused(text, "t: line 1: the template takes more than 20 million steps");
        free(text);
    }
    char *text = long_list("{{ [", "1,", "] }}", 2000000);
    refused(text, "the template needs more than 256 MB");
    free(text);
    text = long_list("{{ ", "n", " }}", 2000);
    refused(text, "a name is too long");
    free(text);
    text = long_list("{", "\"a#\": 1,", "\"z\": 1}", 30000);
    struct jinja_arena arena = { 0 };
    struct jinja_value v;
    struct err err;
    assert_int_equal(jinja_json(&arena, text, strlen(text), "j", 0, &v, &err), -1);
    assert_non_null(strstr(err.text, "more values and keys"));
    jinja_arena_release(&arena);
    free(text);
}

// --- the variables that a template reads ---------------------------------------------------------

static void list_name(void *list, const char *name)
{
    buf_printf(list, " %s", name);
}

static void test_variables(void **state)
{
    static const struct {
        const char *text, *names;
    } templates[] = {
        // The expected names are those of Jinja2's meta.find_undeclared_variables, without
        // functions; one for each place that reads them.
        { "{{ a }}{% set b = c | default(d) %}{{ b }}{{ e.f[g] }}{{ 'h' ~ i }}", " a c d e g i" },
        { "{% set x = x if x is defined else 1 %}{{ x }}", " x x" },
        { "{% if not x is defined %}{% set x = 1 %}{% endif %}{{ x }}", " x" },
        { "{% if a %}{% set x = b %}{% elif c %}{% set y = d %}{% else %}{{ e }}{% endif %}",
          " a b c d e" },
        { "{% for k, v in m if v != w %}{{ loop.index }}{{ k }}{{ v }}{% set n = 1 %}{% else %}"
          "{{ k }}{% endfor %}{{ n }}",
          " m w k n" },
        { "{% set ns = namespace(a=b) %}{% set ns.a = c %}{% set q.a = 1 %}{{ ns.a }}", " b c q" },
        { "{% macro m(p, q=r) %}{{ p }}{{ q }}{{ late }}{{ s }}{{ m(1) }}{% endmacro %}"
          "{% set late = 1 %}{{ m(p=t) }}{{ p }}",
          " t p r s" },
        { "{% set b %}{{ u }}{% set inner = 1 %}{% endset %}{{ b }}{{ inner }}", " u inner" },
        { "{% filter upper %}{{ f }}{% endfilter %}{% generation %}{{ g }}{% endgeneration %}",
          " f g" },
        { "{{ raise_exception(x) }}{{ range(n) }}{{ strftime_now('%d') }}{{ {'k': v}['k'] }}"
          "{{ [a, (b, c)][i:j] }}{{ not o and -p }}{{ z is in y }}",
          " x n v a b c i j o p z y" },
    };
    for (size_t i = 0; i < sizeof templates / sizeof *templates; i++) {
        struct buf b = { 0 };
        struct err err = { "" };
        struct jinja *t = jinja_parse(templates[i].text, strlen(templates[i].text), "t", &err);
        if (!t) fail_msg("%s: %s", templates[i].text, err.text);
        jinja_variables(t, list_name, &b);
        assert_string_equal(b.data, templates[i].names);
        buf_release(&b);
        jinja_free(t);
    }
}

// Ctrl-C ends long renderings only.
static void test_cancel(void **state)
{
    const atomic_bool flag = true;
    cancel_watch(&flag, NULL);
    check("{% for i in range(9) %}{{ i }}{% endfor %}", "{}", "012345678");
    refused("{% for i in range(9999) %}{% for j in range(999) %}{% endfor %}{% endfor %}",
            "t: line 1: cancelled");
    cancel_unwatch(&flag);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_long),      cmocka_unit_test(test_cancel),
        cmocka_unit_test(test_as_python), cmocka_unit_test(test_changes),
        cmocka_unit_test(test_line_ends), cmocka_unit_test(test_dates),
        cmocka_unit_test(test_json),      cmocka_unit_test(test_origin),
        cmocka_unit_test(test_whole),     cmocka_unit_test(test_refused),
        cmocka_unit_test(test_left_out),  cmocka_unit_test(test_unknown),
        cmocka_unit_test(test_bounds),    cmocka_unit_test(test_variables),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
