// tests/fuzz/jinja.c -- reads arbitrary bytes as a chat template and renders it with a
// conversation. After a NUL byte, the input may contain JSON, which becomes the variable `more`.
// The spans of the output are in order and inside it.
#include <stdlib.h>
#include <string.h>

#include "core/template/jinja.h"

static const char variables[] =
    "{\"messages\": [{\"role\": \"system\", \"content\": \" S\\u00e9 \"}, {\"role\": \"user\", "
    "\"content\": [{\"type\": \"image\"}, {\"type\": \"text\", \"text\": \"a <b>\\n\"}]}, "
    "{\"role\": \"assistant\", \"content\": \"B\", \"n\": 1.5}], \"tools\": null, "
    "\"add_generation_prompt\": true, \"bos_token\": \"<s>\"}";

static void check_spans(const struct jinja_output *o)
{
    size_t at = 0;
    for (size_t i = 0; i < o->span_count; i++) {
        const struct jinja_span *s = &o->spans[i];
        if (s->start < at || s->end <= s->start || s->end > o->text.length) abort();
        at = s->end;
    }
}

static void count_name(void *count, const char *name)
{
    *(size_t *)count += strlen(name);
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);
int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
    struct jinja_arena arena = { 0 };
    struct jinja_output output = { 0 };
    struct jinja_value values, more;
    struct err err;
    const char *text = (const char *)data, *end = size ? memchr(text, '\0', size) : NULL;
    const size_t length = end ? (size_t)(end - text) : size;
    struct jinja *t = jinja_parse(text, length, "fuzz", &err);
    if (jinja_json(&arena, variables, strlen(variables), "fuzz", 0, &values, &err) < 0) abort();
    if (end && jinja_json(&arena, end + 1, size - length - 1, "fuzz", 1, &more, &err) == 0)
        jinja_set(&arena, values, "more", more);
    if (t) jinja_variables(t, count_name, &(size_t){ 0 });
    if (t && jinja_render(t, &arena, values, 1, &output, &err) == 0) check_spans(&output);
    jinja_output_release(&output);
    jinja_arena_release(&arena);
    jinja_free(t);
    return 0;
}
