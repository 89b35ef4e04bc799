// core/checkup/markdown.c -- the record as a page in Markdown.
#include "core/checkup/checkup_parts.h"

#include "core/base/json.h"
#include "core/base/text.h"

static void put_numbers(struct buf *b, const cJSON *row)
{
    const cJSON *n;
    bool first = true;
    cJSON_ArrayForEach(n, json_get(row, "numbers"))
    {
        const cJSON *samples = json_get(n, "samples");
        buf_puts(b, first ? "" : "; ");
        text_put_markdown(b, record_text(n, "name"));
        buf_putc(b, ' ');
        record_number(b, n);
        if (cJSON_IsNumber(samples)) buf_printf(b, " (n = %.0f)", samples->valuedouble);
        first = false;
    }
}

static void put_check(struct buf *b, const cJSON *check)
{
    const cJSON *row, *figure;
    buf_printf(b, "\n### %s: %s\n\n%s\n\n| | verdict | findings | numbers |\n|---|---|---|---|\n",
               record_text(check, "name"), check_verdict(check), record_text(check, "shows"));
    cJSON_ArrayForEach(row, json_get(check, "rows"))
    {
        buf_puts(b, "| ");
        text_put_markdown(b, record_text(row, "name"));
        buf_printf(b, " | %s | ", record_text(row, "verdict"));
        text_put_markdown(b, record_text(row, "text"));
        buf_puts(b, " | ");
        put_numbers(b, row);
        buf_puts(b, " |\n");
    }
    cJSON_ArrayForEach(figure, json_get(check, "figures"))
        buf_printf(b, "\n*%s.* %s\n", record_text(figure, "title"), record_text(figure, "text"));
}

static void put_model(struct buf *b, const cJSON *model)
{
    const cJSON *check;
    buf_printf(b, "\n## %s\n\n", record_text(model, "name"));
    if (*record_text(model, "family")) {
        buf_printf(b, "Family %s, %.4g million weights in %s, products in %s, ",
                   record_text(model, "family"),
                   cJSON_GetNumberValue(json_get(model, "parameters")) / 1e6,
                   record_text(model, "weights"), record_text(model, "arithmetic"));
        if (*record_text(model, "adapter"))
            buf_printf(b, "adapter %s, ", record_text(model, "adapter"));
        buf_printf(b, "identity `%.16s`.\n", record_text(model, "identity"));
    }
    cJSON_ArrayForEach(check, json_get(model, "checks")) put_check(b, check);
}

void checkup_markdown(const cJSON *record, struct buf *b)
{
    const cJSON *machine = json_get(record, "machine"), *model;
    buf_printf(b, "# Check-up\n\n%s on %s, %.4g GiB of memory%s.\n", record_text(record, "program"),
               record_text(machine, "device"),
               cJSON_GetNumberValue(json_get(machine, "memory GiB")),
               cJSON_IsTrue(json_get(record, "quick")) ? "; quick" : "");
    cJSON_ArrayForEach(model, json_get(record, "models")) put_model(b, model);
}
