// core/checkup/record.c -- writes findings as rows of the record, and reads fields of a record.
#include "core/checkup/checkup_parts.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/base/json.h"

struct finding finding(struct checkup *c, const char *name)
{
    struct finding f = { cJSON_CreateObject(), cJSON_CreateArray() };
    cJSON_AddStringToObject(f.row, "name", name);
    cJSON_AddItemToArray(c->rows, f.row);
    return f;
}

void finding_number(struct finding *f, const char *name, double value, const char *unit,
                    int64_t samples)
{
    cJSON *n = cJSON_CreateObject();
    cJSON_AddStringToObject(n, "name", name);
    if (isfinite(value))
        cJSON_AddNumberToObject(n, "value", value);
    else
        cJSON_AddNullToObject(n, "value");
    cJSON_AddStringToObject(n, "unit", unit);
    if (samples) cJSON_AddNumberToObject(n, "samples", (double)samples);
    cJSON_AddItemToArray(f->numbers, n);
}

static void end(struct finding *f, const char *verdict, const char *format, va_list args)
{
    struct buf b = { 0 };
    buf_vprintf(&b, format, args);
    cJSON_AddStringToObject(f->row, "verdict", verdict);
    cJSON_AddStringToObject(f->row, "text", b.data ? b.data : "");
    cJSON_AddItemToObject(f->row, "numbers", f->numbers);
    buf_release(&b);
    *f = (struct finding){ 0 };
}

#define END(name, verdict)                                        \
    void finding_##name(struct finding *f, const char *text, ...) \
    {                                                             \
        va_list args;                                             \
        va_start(args, text);                                     \
        end(f, verdict, text, args);                              \
        va_end(args);                                             \
    }
END(works, "works")
END(fails, "fails")
END(skip, "not applicable")
END(measured, "measured")
#undef END

void checkup_figure(struct checkup *c, const char *title, const char *text, const char *svg)
{
    cJSON *f = cJSON_CreateObject();
    cJSON_AddStringToObject(f, "title", title);
    cJSON_AddStringToObject(f, "text", text);
    cJSON_AddStringToObject(f, "svg", svg);
    cJSON_AddItemToArray(c->figures, f);
}

int checkup_samples(const struct checkup *c, int full, int least)
{
    const int n = (int)floor(full * c->scale + 0.5);
    return n < least ? least : n > full ? full : n;
}

void checkup_progress(struct checkup *c, double done, double all)
{
    if (c->progress) c->progress(c, all > 0 ? done / all : 0);
}

// --- reading -------------------------------------------------------------------------------------

const char *record_text(const cJSON *object, const char *key)
{
    const char *text = cJSON_GetStringValue(json_get(object, key));
    return text ? text : "";
}

const cJSON *record_find(const cJSON *list, const char *name)
{
    const cJSON *item;
    cJSON_ArrayForEach(item, list) if (!strcmp(record_text(item, "name"), name)) return item;
    return NULL;
}

// Writes a number with commas between groups of three digits.
static void put_whole(struct buf *b, double value)
{
    char digits[32];
    snprintf(digits, sizeof digits, "%.0f", fabs(value));
    if (value < 0) buf_putc(b, '-');
    for (size_t left = strlen(digits), i = 0; left; left--, i++) {
        if (i && left % 3 == 0) buf_putc(b, ',');
        buf_putc(b, digits[i]);
    }
}

void record_number(struct buf *b, const cJSON *number)
{
    static const struct {
        const char *unit;
        double below, factor;
        const char *instead;
    } smaller[] = { { "GiB", 0.1, 1024, "MiB" }, { "s", 0.1, 1000, "ms" } };
    const cJSON *item = json_get(number, "value");
    const char *unit = record_text(number, "unit");
    double value = cJSON_GetNumberValue(item);
    for (size_t i = 0; i < sizeof smaller / sizeof *smaller; i++)
        if (!strcmp(unit, smaller[i].unit) && fabs(value) < smaller[i].below && value != 0) {
            value *= smaller[i].factor;
            unit = smaller[i].instead;
        }
    if (!cJSON_IsNumber(item))
        buf_puts(b, "not a number");
    else if (fabs(value) < 1e15 && (fabs(value) >= 1000 || value == rint(value)))
        put_whole(b, value);
    else
        buf_printf(b, "%.3g", value);
    if (*unit) buf_printf(b, "%s%s", !strcmp(unit, "%") ? "" : " ", unit);
}
