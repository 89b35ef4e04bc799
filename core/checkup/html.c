// core/checkup/html.c -- writes the record of a check-up as one self-contained HTML page.
//
// The page loads no other files. Figures are data URIs, so that identifiers of two SVG images
// cannot collide and scripts in a figure of an untrusted record cannot run. Findings are blocks
// with headings, side by side or, on a narrow screen, below each other. A verdict is shown by a
// sign and a word, never by colour alone.
#include "core/checkup/checkup_parts.h"

#include <stdio.h>
#include <string.h>

#include "core/base/base64.h"
#include "core/base/json.h"
#include "core/base/text.h"

static const char style[] =
    ":root{color-scheme:light dark;--back:#fff;--text:#1b1f24;--soft:#59636e;--line:#d1d9e0;"
    "--panel:#f6f8fa;--works:#116329;--fails:#a40e26;--link:#0550ae}\n"
    "@media(prefers-color-scheme:dark){:root{--back:#0d1117;--text:#e6edf3;--soft:#9da7b1;"
    "--line:#3d444d;--panel:#161b22;--works:#56d364;--fails:#ff7b72;--link:#79c0ff}}\n"
    "*{box-sizing:border-box}\n"
    "body{margin:0 auto;max-width:80rem;padding:1rem;background:var(--back);color:var(--text);"
    "font:1rem/1.5 system-ui,sans-serif;overflow-wrap:anywhere}\n"
    "a{color:var(--link)}a:focus-visible,[tabindex]:focus-visible{outline:3px solid var(--link);"
    "outline-offset:2px}\n"
    ".skip{position:absolute;left:-99rem}.skip:focus{position:static}\n"
    "h1{font-size:1.6rem;line-height:1.2}h2{margin-top:2.5rem;border-bottom:1px solid var(--line)}"
    "h3{margin:1.5rem 0 .25rem;font-size:1.05rem}h4{margin:0;font-size:.95rem}p{margin:.25rem 0}\n"
    ".soft,figcaption,th{color:var(--soft)}\n"
    ".wide{overflow-x:auto}table{border-collapse:collapse;font-variant-numeric:tabular-nums}"
    "th,td{padding:.2rem .8rem .2rem 0;border-bottom:1px solid var(--line);text-align:left;"
    "vertical-align:top;font-weight:normal}.models th{overflow-wrap:normal}"
    ".wide th,.wide td{white-space:nowrap}.wide{margin:1rem 0}thead th{font-weight:bold}"
    ".numbers{width:100%}.numbers td{text-align:right;overflow-wrap:normal}"
    ".numbers .soft{white-space:nowrap;padding-right:0}\n"
    ".models{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(21rem,100%),1fr));"
    "gap:.75rem}.models>div{background:var(--panel);border:1px solid var(--line);"
    "border-radius:6px;padding:.5rem .75rem;min-width:0}.models>div>h3{margin:0}\n"
    ".works,.fails{font-weight:bold}.works{color:var(--works)}.fails{color:var(--fails)}\n"
    ".figures{display:grid;gap:1rem;align-items:start;"
    "grid-template-columns:repeat(auto-fit,minmax(min(26rem,100%),1fr))}"
    "figure{margin:1rem 0 0;max-width:44rem}figure img{max-width:100%;height:auto;background:#fff;"
    "border:1px solid var(--line);border-radius:6px}\n"
    "@media print{body{max-width:none;padding:0;font-size:10pt}.skip{display:none}"
    ".models>div,figure{break-inside:avoid}h2,h3{break-after:avoid}}\n";

// Writes the escaped text of a field between `open` and `close`, which are not escaped.
static void put_field(struct buf *b, const char *open, const cJSON *object, const char *key,
                      const char *close)
{
    buf_puts(b, open);
    text_put_xml(b, record_text(object, key));
    buf_puts(b, close);
}

static void put_verdict(struct buf *b, const char *verdict)
{
    static const struct {
        const char *verdict, *opening; // tags with a class, which sets the colour, and a sign
    } signs[] = { { "works", "<span class=\"works\"><span aria-hidden=\"true\">✓ </span>" },
                  { "fails", "<span class=\"fails\"><span aria-hidden=\"true\">✗ </span>" } };
    const char *opening = "<span>";
    for (size_t i = 0; i < sizeof signs / sizeof *signs; i++)
        if (!strcmp(verdict, signs[i].verdict)) opening = signs[i].opening;
    buf_puts(b, opening);
    text_put_xml(b, verdict);
    buf_puts(b, "</span>");
}

// Writes the anchor's name for a check of model `m`.
static void put_anchor(struct buf *b, int m, const cJSON *check)
{
    buf_printf(b, "%d-", m + 1);
    text_put_xml(b, record_text(check, "name"));
}

// --- the head ------------------------------------------------------------------------------------

// Writes a table with a row for each check and a column for each model; verdicts link to findings.
static void put_overview(struct buf *b, const cJSON *models, const struct names *checks)
{
    const cJSON *model;
    buf_puts(b, "<div class=\"wide\" tabindex=\"0\" role=\"region\" aria-label=\"Verdicts\">"
                "<table><thead><tr><th scope=\"col\">Check</th>");
    cJSON_ArrayForEach(model, models) put_field(b, "<th scope=\"col\">", model, "name", "</th>");
    buf_puts(b, "</tr></thead><tbody>\n");
    for (size_t i = 0; i < checks->count; i++) {
        int m = 0;
        buf_puts(b, "<tr><th scope=\"row\">");
        text_put_xml(b, checks->list[i]);
        buf_puts(b, "</th>");
        cJSON_ArrayForEach(model, models)
        {
            const cJSON *check = record_find(json_get(model, "checks"), checks->list[i]);
            buf_puts(b, "<td>");
            if (check) {
                buf_puts(b, "<a href=\"#");
                put_anchor(b, m, check);
                buf_puts(b, "\">");
                put_verdict(b, check_verdict(check));
                buf_puts(b, "</a>");
            } else {
                buf_puts(b, "not run");
            }
            buf_puts(b, "</td>");
            m++;
        }
        buf_puts(b, "</tr>\n");
    }
    buf_puts(b, "</tbody></table></div>\n");
}

static void put_models(struct buf *b, const cJSON *models)
{
    static const struct {
        const char *key, *name;
    } facts[] = { { "family", "Family" },
                  { "weights", "Weights" },
                  { "arithmetic", "Products" },
                  { "adapter", "Adapter" } };
    const cJSON *model;
    buf_puts(b, "<div class=\"models\">\n");
    cJSON_ArrayForEach(model, models)
    {
        const cJSON *parameters = json_get(model, "parameters");
        put_field(b, "<div><h4>", model, "name", "</h4><table><tbody>");
        if (cJSON_IsNumber(parameters))
            buf_printf(b, "<tr><th scope=\"row\">Parameters</th><td>%.4g million</td></tr>",
                       parameters->valuedouble / 1e6);
        for (size_t i = 0; i < sizeof facts / sizeof *facts; i++) {
            if (!*record_text(model, facts[i].key)) continue;
            buf_printf(b, "<tr><th scope=\"row\">%s</th>", facts[i].name);
            put_field(b, "<td>", model, facts[i].key, "</td></tr>");
        }
        if (*record_text(model, "identity")) {
            char short_identity[17];
            snprintf(short_identity, sizeof short_identity, "%s", record_text(model, "identity"));
            buf_puts(b, "<tr><th scope=\"row\">Identity</th><td><code>");
            text_put_xml(b, short_identity);
            buf_puts(b, "</code></td></tr>");
        }
        buf_puts(b, "</tbody></table></div>\n");
    }
    buf_puts(b, "</div>\n");
}

// --- the findings --------------------------------------------------------------------------------

static void put_numbers(struct buf *b, const cJSON *row)
{
    const cJSON *numbers = json_get(row, "numbers"), *n;
    if (!cJSON_GetArraySize(numbers)) return;
    buf_puts(b, "<table class=\"numbers\"><tbody>");
    cJSON_ArrayForEach(n, numbers)
    {
        const cJSON *samples = json_get(n, "samples");
        put_field(b, "<tr><th scope=\"row\">", n, "name", "</th><td>");
        struct buf value = { 0 };
        record_number(&value, n);
        text_put_xml(b, value.data);
        buf_release(&value);
        buf_puts(b, "</td><td class=\"soft\">");
        if (cJSON_IsNumber(samples)) buf_printf(b, "n = %.0f", samples->valuedouble);
        buf_puts(b, "</td></tr>");
    }
    buf_puts(b, "</tbody></table>");
}

static void put_finding(struct buf *b, const cJSON *row)
{
    buf_puts(b, "<p>");
    put_verdict(b, record_text(row, "verdict"));
    if (*record_text(row, "text")) put_field(b, ": ", row, "text", "");
    buf_puts(b, "</p>");
    put_numbers(b, row);
}

static void put_figures(struct buf *b, const cJSON *check, const char *model)
{
    const cJSON *figure;
    cJSON_ArrayForEach(figure, json_get(check, "figures"))
    {
        const char *svg = record_text(figure, "svg");
        buf_puts(b, "<figure><img src=\"data:image/svg+xml;base64,");
        base64_encode(b, svg, strlen(svg));
        put_field(b, "\" alt=\"", figure, "title", "\"><figcaption>");
        if (model) text_put_xml(b, model);
        put_field(b, model ? ": " : "", figure, "title", ". ");
        put_field(b, "", figure, "text", "</figcaption></figure>\n");
    }
}

// Writes one check: under each finding's name, a block for each model.
static void put_check(struct buf *b, const cJSON *models, const char *name)
{
    struct names rows = { 0 };
    const cJSON *model, *row, *shown = NULL;
    const bool several = cJSON_GetArraySize(models) > 1;
    bool known;
    cJSON_ArrayForEach(model, models)
    {
        const cJSON *check = record_find(json_get(model, "checks"), name);
        if (!shown) shown = check;
        cJSON_ArrayForEach(row, json_get(check, "rows"))
            names_add(&rows, record_text(row, "name"), &known);
    }
    put_field(b, "<section><h2>", shown, "name", "</h2>");
    int m = 0;
    cJSON_ArrayForEach(model, models)
    {
        buf_puts(b, "<a id=\"");
        put_anchor(b, m++, shown);
        buf_puts(b, "\"></a>");
    }
    put_field(b, "<p class=\"soft\">", shown, "shows", "</p>\n");
    // With one model, its findings are side by side. With several models, the blocks of the models
    // are side by side below the name of each finding.
    if (!several) buf_puts(b, "<div class=\"models\">\n");
    for (size_t i = 0; i < rows.count; i++) {
        if (!several) buf_puts(b, "<div>");
        buf_puts(b, "<h3>");
        text_put_xml(b, rows.list[i]);
        buf_puts(b, several ? "</h3><div class=\"models\">\n" : "</h3>");
        cJSON_ArrayForEach(model, models)
        {
            const cJSON *check = record_find(json_get(model, "checks"), name);
            row = record_find(json_get(check, "rows"), rows.list[i]);
            if (several) put_field(b, "<div><h4>", model, "name", "</h4>");
            if (row)
                put_finding(b, row);
            else
                buf_puts(b, "<p class=\"soft\">not run</p>");
            if (several) buf_puts(b, "</div>\n");
        }
        buf_puts(b, "</div>\n");
    }
    if (!several) buf_puts(b, "</div>\n");
    buf_puts(b, "<div class=\"figures\">\n");
    cJSON_ArrayForEach(model, models) put_figures(b, record_find(json_get(model, "checks"), name),
                                                  several ? record_text(model, "name") : NULL);
    buf_puts(b, "</div></section>\n");
    names_release(&rows);
}

void checkup_html(const cJSON *record, struct buf *b)
{
    const cJSON *models = json_get(record, "models"), *machine = json_get(record, "machine");
    const cJSON *model, *check;
    struct names checks = { 0 };
    bool known;
    cJSON_ArrayForEach(model, models) cJSON_ArrayForEach(check, json_get(model, "checks"))
        names_add(&checks, record_text(check, "name"), &known);
    buf_puts(b, "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
                "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
                "<title>Check-up");
    cJSON_ArrayForEach(model, models)
        put_field(b, model == models->child ? " of " : ", ", model, "name", "");
    buf_printf(b, "</title>\n<style>\n%s</style></head>\n<body>", style);
    buf_puts(b, "<a class=\"skip\" href=\"#findings\">Skip to the findings</a>\n"
                "<header><h1>Check-up");
    if (cJSON_GetArraySize(models) == 1) put_field(b, " of ", models->child, "name", "");
    put_field(b, "</h1>\n<p class=\"soft\">", record, "program", " on ");
    put_field(b, "", machine, "device", "");
    if (cJSON_IsNumber(json_get(machine, "memory GiB")))
        buf_printf(b, ", %.4g GiB of memory",
                   cJSON_GetNumberValue(json_get(machine, "memory GiB")));
    if (cJSON_IsTrue(json_get(record, "quick"))) buf_puts(b, "; quick: fewer samples");
    buf_puts(b, "</p></header>\n<main>\n");
    put_overview(b, models, &checks);
    put_models(b, models);
    buf_puts(b, "<div id=\"findings\" tabindex=\"-1\">\n");
    for (size_t i = 0; i < checks.count; i++) put_check(b, models, checks.list[i]);
    buf_puts(b, "</div></main></body></html>\n");
    names_release(&checks);
}
