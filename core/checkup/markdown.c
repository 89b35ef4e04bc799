// core/checkup/markdown.c -- the record as a page in Markdown.
#include "core/checkup/checkup_parts.h"

#include <string.h>

#include "core/base/json.h"

static const char *text_of(const cJSON *object, const char *key)
{
    const char *text = cJSON_GetStringValue(json_get(object, key));
    return text ? text : "";
}

// Text within a cell of a table.
static void put_cell(struct buf *b, const char *text)
{
    for (; *text; text++)
        if (*text == '|' || *text == '<')
            buf_puts(b, *text == '|' ? "\\|" : "&lt;");
        else
            buf_putc(b, *text == '\n' ? ' ' : *text);
}

static void put_numbers(struct buf *b, const cJSON *row)
{
    const cJSON *n;
    bool first = true;
    cJSON_ArrayForEach(n, json_get(row, "numbers"))
    {
        const cJSON *value = json_get(n, "value"), *samples = json_get(n, "samples");
        buf_puts(b, first ? "" : "; ");
        put_cell(b, text_of(n, "name"));
        if (cJSON_IsNumber(value))
            buf_printf(b, " %.4g", value->valuedouble);
        else
            buf_puts(b, " –");
        if (*text_of(n, "unit")) buf_printf(b, " %s", text_of(n, "unit"));
        if (cJSON_IsNumber(samples)) buf_printf(b, " (n = %.0f)", samples->valuedouble);
        first = false;
    }
}

static void put_check(struct buf *b, const cJSON *check)
{
    const cJSON *row, *figure;
    buf_printf(b, "\n### %s: %s\n\n%s\n\n| | verdict | findings | numbers |\n|---|---|---|---|\n",
               text_of(check, "name"), check_verdict(check), text_of(check, "shows"));
    cJSON_ArrayForEach(row, json_get(check, "rows"))
    {
        buf_puts(b, "| ");
        put_cell(b, text_of(row, "name"));
        buf_printf(b, " | %s | ", text_of(row, "verdict"));
        put_cell(b, text_of(row, "text"));
        buf_puts(b, " | ");
        put_numbers(b, row);
        buf_puts(b, " |\n");
    }
    cJSON_ArrayForEach(figure, json_get(check, "figures"))
        buf_printf(b, "\n*%s.* %s\n", text_of(figure, "title"), text_of(figure, "text"));
}

static void put_model(struct buf *b, const cJSON *model)
{
    const cJSON *check;
    buf_printf(b, "\n## %s\n\n", text_of(model, "name"));
    if (*text_of(model, "family")) {
        buf_printf(b, "Family %s, %.4g million weights in %s, products in %s, ",
                   text_of(model, "family"),
                   cJSON_GetNumberValue(json_get(model, "parameters")) / 1e6,
                   text_of(model, "weights"), text_of(model, "arithmetic"));
        if (*text_of(model, "adapter")) buf_printf(b, "adapter %s, ", text_of(model, "adapter"));
        buf_printf(b, "identity `%.16s`.\n", text_of(model, "identity"));
    }
    cJSON_ArrayForEach(check, json_get(model, "checks")) put_check(b, check);
}

void checkup_markdown(const cJSON *record, struct buf *b)
{
    const cJSON *machine = json_get(record, "machine"), *model;
    buf_printf(b, "# Check-up\n\n%s on %s, %.4g GiB of memory%s.\n", text_of(record, "program"),
               text_of(machine, "device"), cJSON_GetNumberValue(json_get(machine, "memory GiB")),
               cJSON_IsTrue(json_get(record, "quick")) ? "; quick" : "");
    cJSON_ArrayForEach(model, json_get(record, "models")) put_model(b, model);
}
