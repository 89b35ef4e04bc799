// core/base/event.c -- sinks and tables.
#include "core/base/event.h"

#include <math.h>
#include <stdlib.h>

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

void table_begin(struct table_builder *t, const char *name, int column_count,
                 const char *const *columns, const bool *numeric)
{
    *t = (struct table_builder){
        .name = name, .columns = columns, .numeric = numeric, .column_count = column_count
    };
}

void table_add(struct table_builder *t, const char *format, ...)
{
    struct buf b = { 0 };
    va_list args;
    va_start(args, format);
    buf_vprintf(&b, format, args);
    va_end(args);
    if (t->count == t->capacity) {
        t->capacity = t->capacity ? t->capacity * 2 : 32;
        t->cells = xreallocarray(t->cells, t->capacity, sizeof *t->cells);
    }
    t->cells[t->count++] = buf_take(&b);
}

void table_emit(struct table_builder *t, const struct sinks *sinks)
{
    const struct event_table table = {
        .name = t->name,
        .columns = t->columns,
        .column_count = t->column_count,
        .row_count = (int)(t->count / (size_t)t->column_count),
        .cells = (const char *const *)t->cells,
        .numeric = t->numeric,
        .titled = t->titled,
    };
    sinks_emit(sinks, &(struct event){ .kind = EVENT_TABLE, .table = &table });
    for (size_t i = 0; i < t->count; i++) free(t->cells[i]);
    free(t->cells);
    *t = (struct table_builder){ 0 };
}
