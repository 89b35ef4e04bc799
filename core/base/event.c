// core/base/event.c -- sinks and tables.
#include "core/base/event.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/err.h"
#include "core/base/mem.h"
#include "core/base/pace.h"

void sinks_add(struct sinks *sinks, struct sink sink)
{
    if (sinks->count == SINKS_MAX) BUG("more than %d sinks", SINKS_MAX);
    sinks->list[sinks->count++] = sink;
}

void sinks_emit(const struct sinks *sinks, const struct event *event)
{
    if (!sinks) return;
    for (int i = 0; i < sinks->count; i++) sinks->list[i].emit(sinks->list[i].self, event);
}

static void emit_text(const struct sinks *sinks, enum event_kind kind, const char *format,
                      va_list args)
{
    struct buf b = { 0 };
    buf_vprintf(&b, format, args);
    sinks_emit(sinks, &(struct event){ .kind = kind, .text = b.data });
    buf_release(&b);
}

void sinks_notice(const struct sinks *sinks, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    emit_text(sinks, EVENT_NOTICE, format, args);
    va_end(args);
}

void sinks_text(const struct sinks *sinks, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    emit_text(sinks, EVENT_TEXT, format, args);
    va_end(args);
}

void sinks_progress(const struct sinks *sinks, struct pace *pace, const char *what, double step,
                    double steps)
{
    const struct event_progress progress = { .what = what,
                                             .step = step,
                                             .steps = steps,
                                             .loss = NAN,
                                             .eta_s = pace_left(pace, step, steps) };
    sinks_emit(sinks, &(struct event){ .kind = EVENT_PROGRESS, .progress = &progress });
}

void sinks_written(const struct sinks *sinks, const char *what, const char *path, const char *said)
{
    sinks_emit(sinks, &(struct event){ .kind = EVENT_WRITTEN, .key = what, .text = path });
    if (said) sinks_notice(sinks, "%s written to '%s'", said, path);
}

void sinks_drawing(const struct sinks *sinks, const char *text)
{
    sinks_emit(sinks, &(struct event){ .kind = EVENT_TEXT, .text = text, .ok = true });
}

void table_begin(struct table_builder *t, const char *name, const char *columns)
{
    *t = (struct table_builder){ .name = name, .columns = columns, .column_count = 1 };
    for (const char *p = columns; (p = strchr(p, '|')); p++)
        if (p[1] == '|')
            p++;
        else
            t->column_count++;
}

static void add_cell(struct table_builder *t, char *text)
{
    if (t->count == t->capacity) {
        t->capacity = t->capacity ? t->capacity * 2 : 32;
        t->cells = xreallocarray(t->cells, t->capacity, sizeof *t->cells);
    }
    t->cells[t->count++] = text;
}

void table_add(struct table_builder *t, const char *format, ...)
{
    struct buf b = { 0 };
    va_list args;
    va_start(args, format);
    buf_vprintf(&b, format, args);
    va_end(args);
    add_cell(t, buf_take(&b));
}

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
void table_row(struct table_builder *t, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    for (const char *p = format, *end; p; p = *end ? end + 1 : NULL) {
        end = p + strcspn(p, "|");
        char *cell = xstrndup(p, (size_t)(end - p));
        const char *kind = cell + strcspn(cell, "%");
        kind += strspn(kind, "%+-0123456789.");
        // The conversion decides which argument is read: 64 bits with PRId64 or %zu.
        if (!*kind)
            add_cell(t, xstrdup(cell));
        else if (*kind == 's')
            add_cell(t, xasprintf(cell, va_arg(args, const char *)));
        else if (strchr("efg", *kind))
            add_cell(t, xasprintf(cell, va_arg(args, double)));
        else if (*kind == 'l' || *kind == 'z')
            add_cell(t, xasprintf(cell, va_arg(args, int64_t)));
        else
            add_cell(t, xasprintf(cell, va_arg(args, int)));
        free(cell);
    }
    va_end(args);
}
#pragma GCC diagnostic pop

void table_emit(struct table_builder *t, const struct sinks *sinks)
{
    char *text = xstrdup(t->columns), *to = text;
    const char **columns = xcalloc((size_t)t->column_count, sizeof *columns);
    bool *numeric = xcalloc((size_t)t->column_count, sizeof *numeric);
    int n = 0;
    columns[n++] = text;
    for (const char *p = t->columns; *p; p++) {
        const bool bar = *p == '|' && p[1] == '|', ends = *p == '|' && !bar;
        *to++ = ends ? 0 : *p;
        if (ends) columns[n++] = to;
        p += bar;
    }
    *to = 0;
    for (int i = 0; i < n; i++) {
        char *end = text + (columns[i] - text) + strlen(columns[i]) - 1;
        numeric[i] = *end == '#';
        if (numeric[i]) *end = 0;
    }
    const struct event_table table = {
        .name = t->name,
        .columns = columns,
        .column_count = n,
        .row_count = (int)(t->count / (size_t)n),
        .cells = (const char *const *)t->cells,
        .numeric = numeric,
        .titled = t->titled,
    };
    sinks_emit(sinks, &(struct event){ .kind = EVENT_TABLE, .table = &table });
    for (size_t i = 0; i < t->count; i++) free(t->cells[i]);
    free(t->cells);
    free(columns);
    free(numeric);
    free(text);
    *t = (struct table_builder){ 0 };
}
