// tests/core/text/jinja.c -- core/text/jinja*.c: templates as Python renders them, where texts came
// from, what is refused, and bounds.
//
// The expected texts are those of Python's Jinja2 3.1.6, in the environment that transformers sets
// up: trim_blocks, lstrip_blocks, loop controls, {% generation %}, its tojson.
#include "core/text/jinja.h"
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
    struct jinja_room room = { 0 };
    struct jinja_value values;
    struct jinja *t = jinja_parse(text, strlen(text), "t", err);
    char *rendered = NULL;
    *output = (struct jinja_output){ 0 };
    assert_int_equal(jinja_json(&room, json, strlen(json), "json", source, &values, NULL), 0);
    if (t && jinja_render(t, &room, values, 0, output, err) == 0)
        rendered = xstrdup(output->text.data);
    jinja_room_release(&room);
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
    char *rendered = render_json(text, "{\"x\": [1, 2], \"u\": \"<a>\"}", 0, &output, &err);
    if (rendered) fail_msg("%s gave '%s'", text, rendered);
    if (!strstr(err.text, part)) fail_msg("%s: '%s' does not contain '%s'", text, err.text, part);
    jinja_output_release(&output);
}

// --- as Python -----------------------------------------------------------------------------------

// clang-format off
static const char variables[] =
    "{\"s\": \" H\303\251 \\\"q\\\" \", \"n\": 7, \"f\": 2.5, \"big\": 1e+20, \"t\": true, \"z\": null, \"l\": [3, 1, 2], \"e\": [], \"d\": {\"b\": 1, \"a\": [1, \"x\"], \"items\": 5}, \"m\": [{\"role\": \"user\", \"content\": \"a\", \"n\": 2}, {\"role\": \"assistant\", \"content\": \"B\", \"n\": 1}, {\"role\": \"user\", \"content\": \"c\"}], \"u\": \"\346\227\245\346\234\254\350\252\236 \307\206 \303\237\", \"h\": \"<a> & b\"}";

static const struct {
    const char *text, *expected;
} cases[] = {
    { "{{ 1 + 2 * 3 ** 2 // 4 - -7 % 3 }} {{ 7 / 2 }} {{ -7 // 2 }} {{ -7 % 3 }} {{ 7 % -3 }} {{ 2 ** -1 }} {{ 7.5 // 2 }} {{ -7.5 % 2 }}",
      "3 3.5 -4 2 -2 0.5 3.0 0.5" },
    { "{{ 1 < 2 < 3 }} {{ 1 < 2 > 3 }} {{ 1 in l and 4 not in l }} {{ not 1 == 2 }} {{ 'H' in s }} {{ 'b' in d }}",
      "True False True True True True" },
    { "{{ 'yes' if t else 'no' }}{{ 'yes' if z }}{{ 1 if false else 2 if false else 3 }}{{ t and 5 or 6 }}{{ e or 'none' }}",
      "yes35none" },
    { "{{ 'a' 'b' ~ 1 ~ none ~ 2.0 }} {{ \"x\" * 3 }} {{ [1] * 2 + [3] }} {{ (1, 2) + (3,) }} {{ '%s-%d-%5.2f|%-4s|%r' % (s, 7, f, 'x', 'y') }}",
      "ab1None2.0 xxx [1, 1, 3] (1, 2, 3)  H\303\251 \"q\" -7- 2.50|x   |'y'" },
    { "{{ none }} {{ true }} {{ f }} {{ 1.0 }} {{ 1e16 }} {{ 123456789012345.0 }} {{ 1e-5 }} {{ 0.1 + 0.2 }} {{ big }} {{ d }} {{ (1,) }} {{ ['it\\'s', \"\\n\\\\\"] }}",
      "None True 2.5 1.0 1e+16 123456789012345.0 1e-05 0.30000000000000004 1e+20 {'b': 1, 'a': [1, 'x'], 'items': 5} (1,) [\"it's\", '\\n\\\\']" },
    { "{{ l[0] }} {{ l[-1] }} {{ l[1:] }} {{ l[::-1] }} {{ u[0] }} {{ u[::-1] }} {{ u[-3:] }} {{ s[1:3] }} {{ d['a'][1][0] }} {{ d.a.0 }} {{ l[5] }} {{ m[-1].n }} {{ l[-9:2:2] }}",
      "3 2 [1, 2] [2, 1, 3] \346\227\245 \303\237 \307\206 \350\252\236\346\234\254\346\227\245 \307\206 \303\237 H\303\251 x 1   [3]" },
    { "{{ d.items() | list }} {{ d['items'] }} {{ d.get('q') }} {{ d.get('q', 4) }} {{ d.keys() | list }} {{ d.values() | list }} {{ d.items is callable }}",
      "[('b', 1), ('a', [1, 'x']), ('items', 5)] 5 None 4 ['b', 'a', 'items'] [1, [1, 'x'], 5] True" },
    { "{% for x in l %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.previtem }}-{{ loop.nextitem }}{{ loop.cycle('a', 'b') }}{{ loop.depth }};{% endfor %}",
      "1032TrueFalse3-1a1;2121FalseFalse33-2b1;3210FalseTrue31-a1;" },
    { "{% for a, b in d.items() if b %}{{ a }}={{ b }}{% else %}no{% endfor %}{% for x in e %}{% else %}empty{% endfor %}{% for x in none_such %}x{% endfor %}",
      "b=1a=[1, 'x']items=5empty" },
    { "{% for x in range(10) %}{% if x == 2 %}{% continue %}{% elif x > 4 %}{% break %}{% endif %}{{ x }}{% endfor %}{{ range(5, 0, -2) | list }}{{ range(3) }}",
      "0134[5, 3, 1]range(0, 3)" },
    { "{% set x = 1 %}{% for i in l %}{% set x = x + i %}{{ x }}{% endfor %}{{ x }}{% set ns = namespace(y=0) %}{% for i in l %}{% set ns.y = ns.y + i %}{% endfor %}{{ ns.y }}{% set a, b = 1, 2 %}{{ a }}{{ b }}",
      "4231612" },
    { "{% set x %}  in {{ n }}{% endset %}[{{ x }}]{% set y | upper | trim %} low {% endset %}[{{ y }}]",
      "[  in 7][LOW]" },
    { "{% macro f(a, b=2, c=a) %}{{ a }}{{ b }}{{ c }}{{ caller() if caller is defined }}{% endmacro %}{{ f(1) }} {{ f(1, c=3) }} {{ f() }} {% call f(9) %}body{% endcall %}",
      "121 123 2 929body" },
    { "{% macro g(x) %}{{ caller(x, 'z') }}{% endmacro %}{% call(p, q='d') g(5) %}{{ p }}{{ q }}{{ n }}{% endcall %}",
      "5z7" },
    { "{% filter upper | replace('B', '-') %}a{{ 'b' }}c{% endfilter %}{% with a = 1, b = n %}{{ a + b }}{% endwith %}{% generation %}x{% endgeneration %}",
      "A-C8x" },
    { "{% raw %}{{ not }} {% if %}{% endraw %}|{# a comment {{ x }} #}|{%- raw -%}  x  {%- endraw -%}  y",
      "{{ not }} {% if %}||xy" },
    { "  {% if t %}\n  a\n    {% endif %}\nb {% if t %} c\n{% endif %}\n  {{- ' d ' -}}   \n  e\n  {%+ if t %}f{% endif +%}\ng\n{#- c -#}\n\nh\n{# line #}\ni",
      "  a\nb  c\n d e\n  f\ngh\ni" },
    { "{%- for x in l %}\n    {{ x }}\n{%- endfor %}\n\n{% for x in l -%}\n    {{ x }}\n{% endfor %}\nend",
      "    3    1    2\n3\n1\n2\nend" },
    { "{{ s | trim }}|{{ s | upper }}|{{ s | lower }}|{{ s | length }}|{{ 'hello wORLD foo-bar' | title }}|{{ 'hELLO' | capitalize }}|{{ \"it's a dog\" | title }}|{{ \"it's a dog\".title() }}",
      "H\303\251 \"q\"| H\303\211 \"Q\" | h\303\251 \"q\" |8|Hello World Foo-Bar|Hello|It's A Dog|It'S A Dog" },
    { "{{ l | sort }} {{ l | sort(reverse=true) }} {{ ['b', 'A', 'c'] | sort }} {{ ['b', 'A', 'c'] | sort(case_sensitive=true) }} {{ l | max }} {{ l | min }} {{ l | sum }} {{ l | first }} {{ l | last }} {{ l | reverse | list }} {{ 'abc' | reverse }}",
      "[1, 2, 3] [3, 2, 1] ['A', 'b', 'c'] ['A', 'b', 'c'] 3 1 6 3 2 [2, 1, 3] cba" },
    { "{{ m | map(attribute='role') | join(', ') }} {{ m | selectattr('role', 'equalto', 'user') | map(attribute='content') | list }} {{ m | rejectattr('n') | list | length }} {{ m | map(attribute='n', default=0) | sum }} {{ l | select('odd') | list }} {{ l | reject('gt', 1) | list }} {{ ['a', ' b '] | map('trim') | list }} {{ l | map('string') | join }}",
      "user, assistant, user ['a', 'c'] 1 3 [3, 1] [1] ['a', 'b'] 312" },
    { "{{ none_such | default('x') }} {{ '' | default('x') }} {{ '' | default('x', true) }} {{ none | default('x') }} {{ none_such is defined }} {{ none_such }}{{ d.q is undefined }} {{ none_such | length }} {{ none_such is string }}",
      "x  x None False True 0 False" },
    { "{{ d | tojson }} {{ u | tojson }} {{ [1, 2.0, none, true, 'a\"b\\n<'] | tojson }} {{ d | tojson(indent=2) }} {{ {} | tojson(indent=2) }} {{ d | tojson(separators=(',', ':')) }} {{ d | tojson(sort_keys=true) }} {{ u | tojson(ensure_ascii=true) }} {{ {1: 2, none: true} | tojson }}",
      "{\"b\": 1, \"a\": [1, \"x\"], \"items\": 5} \"\346\227\245\346\234\254\350\252\236 \307\206 \303\237\" [1, 2.0, null, true, \"a\\\"b\\n<\"] {\n  \"b\": 1,\n  \"a\": [\n    1,\n    \"x\"\n  ],\n  \"items\": 5\n} {} {\"b\":1,\"a\":[1,\"x\"],\"items\":5} {\"a\": [1, \"x\"], \"b\": 1, \"items\": 5} \"\\u65e5\\u672c\\u8a9e \\u01c6 \\u00df\" {\"1\": 2, \"null\": true}" },
    { "{{ d | dictsort }} {{ d | items | list }} {{ {'x': 2, 'y': 1} | dictsort(by='value') }} {{ [1, 2, 3, 4, 5] | batch(2) | list }} {{ [1, 2, 3, 4, 5] | slice(2) | list }} {{ [1, 'a', 1, 'A'] | unique | list }}",
      "[('a', [1, 'x']), ('b', 1), ('items', 5)] [('b', 1), ('a', [1, 'x']), ('items', 5)] [('y', 1), ('x', 2)] [[1, 2], [3, 4], [5]] [[1, 2, 3], [4, 5]] [1, 'a']" },
    { "{% for g, xs in m | groupby('role') %}{{ g }}:{{ xs | map(attribute='content') | join('+') }};{% endfor %}{{ (m | groupby('role'))[0].grouper }}",
      "assistant:B;user:a+c;assistant" },
    { "{{ 'a\\nb\\n\\nc' | indent }}|{{ 'a\\nb' | indent(2, true) }}|{{ 'a\\n\\nb' | indent('> ', blank=true) }}|{{ h | escape }}|{{ h | e | escape }}|{{ (h | safe) + '<' }}|{{ h | safe }}",
      "a\n    b\n\n    c|  a\n  b|a\n> \n> b|&lt;a&gt; &amp; b|&lt;a&gt; &amp; b|<a> & b&lt;|<a> & b" },
    { "{{ '42' | int }} {{ ' 4_2 ' | int }} {{ 'x' | int }} {{ 'x' | int(9) }} {{ '3.9' | int }} {{ 3.9 | int }} {{ '0x1f' | int(base=16) }} {{ '2.5' | float }} {{ 'x' | float }} {{ true | int }} {{ -3 | abs }} {{ 2.5 | round }} {{ 2.567 | round(2) }} {{ 2.1 | round(0, 'ceil') }} {{ 7 | string + '!' }}",
      "42 42 0 9 3 3 31 2.5 0.0 1 3 2.0 2.57 3.0 7!" },
    { "{{ 'a,b,,c'.split(',') }} {{ ' a  b '.split() }} {{ 'a b c'.split(' ', 1) }} {{ 'a b c'.rsplit(' ', 1) }} {{ 'a--b'.partition('--') }} {{ 'a\\nb\\r\\nc'.splitlines() }} {{ '-'.join(['a', 'b']) }} {{ 'xxabxx'.strip('x') }} {{ ' a '.lstrip() }}| {{ 'abc'.startswith('ab') }} {{ 'abc'.endswith(('x', 'c')) }} {{ 'abcabc'.replace('b', 'X', 1) }} {{ 'abc'.find('c') }} {{ 'abc'.find('z') }} {{ 'aaa'.count('a') }} {{ 'ab'.upper() }} {{ 'Ab'.swapcase() }} {{ '7'.zfill(3) }} {{ 'a'.isalpha() }} {{ '12'.isdigit() }} {{ u.upper() }} {{ '\346\227\245x'.find('x') }}",
      "['a', 'b', '', 'c'] ['a', 'b'] ['a', 'b c'] ['a b', 'c'] ('a', '--', 'b') ['a', 'b', 'c'] a-b ab a | True True aXcabc 2 -1 3 AB aB 007 True True \346\227\245\346\234\254\350\252\236 \307\204 SS 1" },
    { "{{ 'a{}b{x}{{{}}}'.format(1, 3, x=2) }}{{ '{0}{1[a]}{0!r}'.format('q', {'a': 5}) }} {{ '{:>5}|{:<5}|{:^5}|{:05d}|{:.2f}'.format('a', 'b', 'c', 42, 1.5) }} {{ '%s=%s' | format('a', 1) }}",
      "a1b2{3}q5'q'     a|b    |  c  |00042|1.50 a=1" },
    { "{{ 1 is number }} {{ true is integer }} {{ 1 is integer }} {{ 1.5 is float }} {{ 'a' is string }} {{ d is mapping }} {{ l is sequence }} {{ 'a' is iterable }} {{ none is none }} {{ 4 is even }} {{ 3 is odd }} {{ 9 is divisibleby 3 }} {{ 'a' is lower }} {{ 'A' is upper }} {{ 1 is sameas 1 }} {{ 1 is in l }} {{ 2 is not in l }} {{ 3 is eq 3 }} {{ 3 is gt 2 }} {{ true is boolean }} {{ false is false }} {{ n is not none }}",
      "True False True True True True True True True True True True True True True True False True True True True True" },
    { "{{ {'a': 1, 'b': {'c': [1, 2]}} }} {{ {}.x is defined }} {{ [[1, 2], [3]] }} {{ '\\u00e9\\x41\\t\\101\\q' }} {{ \"\\'\" }} {{ 0x1F }} {{ 1_000 }} {{ 1.5e3 }} {{ 0b11 }}",
      "{'a': 1, 'b': {'c': [1, 2]}} False [[1, 2], [3]] \303\251A\tA\\q ' 31 1000 1500.0 3" },
    { "{{ dict(a=1, b=2) }} {{ dict(d, z=3).z }} {{ namespace(a=1).a }} {% set c = cycler('x', 'y') %}{{ c.next() }}{{ c.next() }}{{ c.current }}{% set j = joiner('|') %}{{ j() }}a{{ j() }}b",
      "{'a': 1, 'b': 2} 3 1 xyxa|b" },
    { "{% for x in [1, [2, [3]]] recursive %}{% if x is iterable %}({{ loop(x) }}){% else %}{{ x }}.{{ loop.depth }} {% endif %}{% endfor %}",
      "1.1 (2.2 (3.3 ))" },
    { "{% if 1 is defined and z is none or false %}a{% endif %}{% if not z %}b{% endif %}{% if l %}c{% endif %}{% if e %}d{% elif 0.0 %}e{% else %}f{% endif %}",
      "abcf" },
    { "{%- set ns = namespace(found=false) -%}\n{%- for x in m if x.role == 'assistant' -%}\n    {%- set ns.found = true -%}{{ loop.index }}\n{%- endfor -%}\n{{- ns.found }}{{ 'a' < 'b' }}{{ [1, 2] < [1, 3] }}{{ 1 == 1.0 }}{{ 1 == true }}{{ '1' == 1 }}{{ none == false }}",
      "1TrueTrueTrueTrueTrueFalseFalse" },
    { "{{ 'a long text of words' | truncate(12) }} {{ 'one two' | wordcount }} {{ 'a b&c' | urlencode }} {{ 'x' | center(5) }}| {{ [3, 4] | join('-') }} {{ 'abc' | list }} {{ 'a b' | replace(' ', '_') }} {{ [{'a': {'b': 3}}] | map(attribute='a.b') | first }}",
      "a long... 2 a%20b%26c   x  | 3-4 ['a', 'b', 'c'] a_b 3" },
    { "{{ \"}}\" }}{{ '%}' }}{{ {'a': {'b': 1}}['a']['b'] }}{{ -1 | abs }}{{ (-1) | abs }}{{ 2 ** 3 ** 2 }}{{ not true is false }}{{ 'ab'[0] ~ 'cd'[-1] }}",
      "}}%}11164Truead" },
};
// clang-format on

static void test_as_python(void **state)
{
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        check(cases[i].text, variables, cases[i].expected);
}

// Lists and dicts can be changed, as outside of the sandbox of Jinja2: published templates do so.
static void test_changes(void **state)
{
    check("{% set l = [1] %}{% set _ = l.append(2) %}{{ l }}{{ l.pop() }}{{ l.pop(0) }}{{ l }}",
          "{}", "[1, 2]21[]");
    check("{% set d = {'a': 1} %}{% set _ = d.update({'b': 2}) %}{{ d }}{{ d.pop('a') }}{{ d }}",
          "{}", "{'a': 1, 'b': 2}1{'b': 2}");
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
    struct jinja_room room = { 0 };
    struct jinja_output output;
    static const char text[] = "{{ strftime_now('%d %b %Y|%A %B|%H:%M:%S|%-d|%y%%') }}";
    struct jinja *t = jinja_parse(text, strlen(text), "t", &err);
    struct tm tm = { .tm_year = 124, .tm_mon = 6, .tm_mday = 6, .tm_hour = 9, .tm_isdst = -1 };
    assert_int_equal(jinja_render(t, &room, jinja_dict(&room), mktime(&tm), &output, &err), 0);
    assert_string_equal(output.text.data, "06 Jul 2024|Saturday July|09:00:00|6|24%");
    jinja_output_release(&output);
    jinja_room_release(&room);
    jinja_free(t);
}

static void test_json(void **state)
{
    struct jinja_room room = { 0 };
    struct jinja_value v;
    struct err err;
    static const char *const wrong[] = { "",      "{",   "[1,]",        "{\"a\" 1}", "\"a",
                                         "[1 2]", "nul", "01x",         "\"\\q\"",   "1 2",
                                         "+1",    "--1", "\"\\u12g4\"", "{1: 2}",    "\"\n\"" };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_int_equal(jinja_json(&room, wrong[i], strlen(wrong[i]), "j", 0, &v, &err), -1);
    static const char deep[] = "\n\n[[[[[";
    assert_int_equal(jinja_json(&room, deep, strlen(deep), "j", 0, &v, &err), -1);
    assert_non_null(strstr(err.text, "j: line 3: "));
    jinja_room_release(&room);
    check("{{ [a, b, c, d] }}",
          "{\"a\": 1, \"b\": 1.0, \"c\": -2e2, \"d\": \"\\ud83d\\ude00\\u00e9\"}",
          "[1, 1.0, -200.0, '\xF0\x9F\x98\x80\xC3\xA9']");
}

// --- where texts came from -----------------------------------------------------------------------

// In `expected`, what came from the values stands in [ ].
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
    origin("{{ u | upper }}{{ u.lower() }}{{ u | title }}", "[ABCabcAbc]");
    origin("{{ u[1:] }}|{{ u[::-1] }}|{{ u[0] }}", "[Bc]|[c][B][a]|[a]");
    origin("{{ (' ' + u + ' ') | trim }}", "[aBc]");
    origin("{{ u | replace('B', '-') }}|{{ 'a-b' | replace('-', u) }}", "[a]-[c]|a[aBc]b");
    origin("{{ l | join(', ') }}|{{ u.split('B') }}", "[x], [y]|['[a]', '[c]']");
    origin("{{ d | tojson }}|{{ d }}", "{\"k\": \"[v][\\\"]\"}|{'k': '[v\"]'}");
    origin("{{ '%s!' % u }}|{{ '{}!'.format(u) }}|{{ u * 2 }}", "[aBc]!|[aBc]!|[aBc][aBc]");
    origin("{% set x %}<{{ u }}>{% endset %}{{ x }}|{% filter upper %}y{{ u }}{% endfilter %}",
           "<[aBc]>|Y[ABC]");
    origin("{% macro m(a) %}({{ a }}){% endmacro %}{{ m(u) | indent }}{{ u | length }}",
           "([aBc])3");
    origin("{% for c in u %}{{ c }}.{% endfor %}{{ u | e | safe }}{{ u | list | first }}",
           "[a].[B].[c].[aBc][a]");
}

// Bytes of a text know where in it they stood, so that a whole text is known as such.
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

// --- what is refused -----------------------------------------------------------------------------

static void test_refused(void **state)
{
    refused("a\n\n{% include 'x' %}", "t: line 3: the statement 'include' is not known");
    refused("\n{{ 1 | nonsense }}", "t: line 2: the filter 'nonsense' is not known");
    refused("{{ 1 is nonsense }}", "the test 'nonsense' is not known");
    refused("{{ u.nonsense() }}", "the function or method 'nonsense' is not known");
    refused("{{ nonsense() }}", "the function or method 'nonsense' is not known");
    refused("{% if true %}", "line 1: 'endif' is missing");
    refused("{{ 1", "'}}' is missing");
    refused("{% raw %}", "endraw");
    refused("{# x", "'#}' is missing");
    refused("{{ 'a }}", "a string is not closed");
    refused("{{ (1 }}", "line 1");
    refused("{{ 1) }}", "a bracket is closed that was not opened");
    refused("{{ }}", "an expression is missing");
    refused("{{ 1 2 }}", "expected '}}'");
    refused("{{ a.b }}", "'a' is undefined");
    refused("{{ none.a.b }}", "'a' is undefined");
    refused("{{ 'a' + 1 }}", "'+' does not work for a str and a int");
    refused("{{ 1 / 0 }}{{ 1 // 0 }}", "division by zero");
    refused("{{ 9223372036854775807 + 1 }}", "too large");
    refused("{{ 99999999999999999999 }}", "a number is too large");
    refused("{{ raise_exception('No ' + u) }}", "line 1: No <a>");
    refused("{% break %}", "outside a loop");
    refused("{% set a.b = 1 %}{% set a = 1 %}", "namespace");
    refused("{{ x | tojson(1, 2, 3, 4, 5) }}", "at most 4 arguments");
    refused("{{ x[::0] }}", "the step of a slice is 0");
    refused("{{ {[]: 1} }}", "cannot be the key");
}

// The line of an unknown construct is told apart from a template's own complaint.
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
    // Each search begins with a look at all that it is for.
    refused("{% set s = 'a' * 100000 %}{% set w = 'a' * 50000 + 'b' %}{% for i in range(9000) %}"
            "{% set found = w in s %}{% endfor %}",
            "takes more than 20 million steps");
    // So do methods that look at each character, or move all items.
    static const char *const slow[] = {
        "s.isalpha()",   "s is lower",    "s | e",    "s.split()",  "s.splitlines()",   "b | int",
        "s.endswith(s)", "s is sameas s", "l.pop(0)", "s | indent", "'{}'.format(0.1)",
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
    refused("{% set ns = namespace(t=()) %}{% for i in range(99999) %}{% set ns.t = (ns.t,) %}"
            "{% endfor %}{{ {ns.t: 1} }}",
            "nested too deeply");
    refused("{{ range(1000000) }}", "a range is longer");
    refused("{{ 'abcdefgh' * 100000000 }}", "needs more than");
    refused("{% set ns = namespace(s='ab') %}{% for i in range(60) %}{% set ns.s = ns.s + ns.s %}"
            "{% endfor %}",
            "needs more than");
    refused("{% set s = 'abcdefgh' * 1000000 %}{% for i in range(99) %}{{ s }}{% endfor %}",
            "exceeds 64 MB");
    refused("{% set l = [] %}{% for i in range(99999) %}{% set _ = l.extend(range(9999)) %}"
            "{% endfor %}",
            "needs more than 256 MB");
    refused("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", "too deep");
    refused("{% for a in [[1]] recursive %}{{ loop([[1]]) }}{% endfor %}", "too deep");
    refused("{% set l = [] %}{% set _ = l.append(l) %}{{ l }}", "nested too deeply");
    refused("{% set l = [] %}{% set _ = l.append(l) %}{{ l | tojson }}", "nested too deeply");
    refused("{{ '%%' % 1 }}", "fewer places");
    refused("{{ '%999999999d' % 1 }}{{ 'x'.rjust(99999999999) }}", "");
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

// `item` so many times, with its number for each '#', between `before` and `behind`.
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
        const char *expected; // NULL: too much
    } lists[] = {
        { "{{ ", "1 < ", "1 }}", 40000, "False" },
        { "{{ 1 ", "<= 1 ", "}}", 40000, "True" },
        { "{{ dict(", "a#=1,", ") | length }}", 3000, "3000" },
        { "{{ dict(", "a#=1,", ") | length }}", 25000, NULL },
        { "{% macro m(x, ", "a#=#,", ") %}{{ a5 }}{% endmacro %}{{ m(1) }}{{ m(2) }}", 2000, "55" },
        { "{% macro m(x, ", "a#=#,", ") %}{{ a5 }}{% endmacro %}{{ m(1) }}", 8000, NULL },
        { "{% macro m() %}{{ kwargs | length }}{% endmacro %}{{ m(", "a#=1,", ") }}", 9000, NULL },
        { "{% with ", "a#=1, ", "z=2 %}{{ a7 }}{% endwith %}", 9000, NULL },
        { "", "{% set a# = 1 %}", "", 9000, NULL },
        { "{{ '{a9}{a9}{a9}{a9}' * 1000 }}{{ ('{a9}' * 1000).format(", "a#=1,", ") }}", 90000,
          NULL },
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
    struct jinja_room room = { 0 };
    struct jinja_value v;
    struct err err;
    assert_int_equal(jinja_json(&room, text, strlen(text), "j", 0, &v, &err), -1);
    assert_non_null(strstr(err.text, "more values and keys"));
    jinja_room_release(&room);
    free(text);
}

// Ctrl-C ends what takes long, and nothing else.
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
        cmocka_unit_test(test_unknown),   cmocka_unit_test(test_bounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
