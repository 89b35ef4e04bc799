// core/checkup/record.c -- what checks find: rows of the record.
#include "core/checkup/checkup_parts.h"

#include <math.h>
#include <stdarg.h>

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
