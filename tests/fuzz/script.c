// tests/fuzz/script.c -- parses arbitrary bytes as a script and as lines: logical lines, arguments,
// variables. No command is run.
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "commands/command.h"
#include "commands/parse.h"
#include "commands/script.h"

static struct variable variables[] = { { .name = "A", .value = "value with \"spaces\" and ${A}" },
                                       { .name = "B", .value = "" } };

static void read_line(const char *line)
{
    const struct shell shell = { .variables = variables, .variable_count = 2 };
    struct err err;
    struct words w = { 0 };
    const char *p = skip_blanks(line), *end = name_end(p);
    char *name = xstrndup(p, (size_t)(end - p));
    command_nearest(name);
    command_find(name);
    free(name);
    words_parse(&w, end, false, &shell, &err);
    words_parse(&w, end, true, &shell, &err);
    rest_parse(&w, end, &shell, &err);
    rest_parse(&w, line, &shell, &err);
    text_parse(&w, line, &shell, &err);
    for (int i = 0; i < w.count; i++)
        if (!w.list[i]) abort();
    struct ids ids = { 0 };
    token_ids_read(&ids, w.count, w.list, 1000, &err);
    for (size_t i = 0; i < ids.count; i++)
        if (ids.data[i] < 0 || ids.data[i] >= 1000) abort();
    ids_release(&ids);
    words_release(&w);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct line_reader r = { 0 };
    char *text = xstrndup((const char *)data, size);
    for (char *p = text, *end = text + size; p <= end;) {
        char *next = p + strcspn(p, "\n");
        *next = 0;
        if (line_reader_add(&r, p)) read_line(r.text.length ? r.text.data : "");
        p = next + 1;
    }
    line_reader_release(&r);
    free(text);
    return 0;
}
