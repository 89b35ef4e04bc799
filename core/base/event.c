// core/base/event.c -- sinks and tables.
#include "core/base/event.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/csv.h"
#include "core/base/err.h"
#include "core/base/file_out.h"
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

bool sinks_read_token(const struct sinks *sinks)
{
    for (int i = 0; sinks && i < sinks->count; i++)
        if (sinks->list[i].reads_token) return true;
    return false;
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

void table_take(struct table_builder *t, char *text)
{
    t->cells = xgrow(t->cells, &t->capacity, t->count, sizeof *t->cells);
    t->cells[t->count++] = text;
}

void table_add(struct table_builder *t, const char *format, ...)
{
    struct buf b = { 0 };
    va_list args;
    va_start(args, format);
    buf_vprintf(&b, format, args);
    va_end(args);
    table_take(t, buf_take(&b));
}

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
void table_row(struct table_builder *t, const char *format, ...)
{
    struct buf cell = { 0 };
    va_list args;
    va_start(args, format);
    for (const char *p = format;;) {
        if (!*p || *p == '|') {
            table_take(t, cell.data ? buf_take(&cell) : xstrdup(""));
            if (!*p++) break;
            continue;
        }
        const size_t text = strcspn(p, "|%");
        buf_add(&cell, p, text);
        p += text;
        if (*p != '%') continue;
        // The conversion gives the type of the argument: 64 bits for PRId64 and %zu.
        const char *kind = p + 1 + strspn(p + 1, "+-0123456789.");
        char *form = xstrndup(p, (size_t)(kind - p) + strspn(kind, "lz") + 1);
        p += strlen(form);
        // NOLINTBEGIN(bugprone-branch-clone): the types of va_arg differ
        const char *string = *kind == 's' ? va_arg(args, const char *) : NULL;
        if (*kind == '%')
            buf_putc(&cell, '%');
        else if (*kind == 's')
            buf_printf(&cell, form, string ? string : "");
        else if (strchr("efg", *kind))
            buf_printf(&cell, form, va_arg(args, double));
        else if (*kind == 'l' || *kind == 'z')
            buf_printf(&cell, form, va_arg(args, int64_t));
        else
            buf_printf(&cell, form, va_arg(args, int));
        // NOLINTEND(bugprone-branch-clone)
        free(form);
    }
    va_end(args);
}
#pragma GCC diagnostic pop

static void release_cells(struct table_builder *t)
{
    for (size_t i = 0; i < t->count; i++) free(t->cells[i]);
    free(t->cells);
    *t = (struct table_builder){ 0 };
}

// Fills names and numeric, both [column_count]: the columns' names, and which columns hold numbers.
// Returns the text that holds the names; the caller frees it.
static char *split_columns(const struct table_builder *t, const char **names, bool *numeric)
{
    char *text = xstrdup(t->columns), *to = text;
    int n = 0;
    names[n++] = text;
    for (const char *p = t->columns; *p; p++) {
        const bool bar = *p == '|' && p[1] == '|', ends = *p == '|' && !bar;
        *to++ = ends ? 0 : *p;
        if (ends) names[n++] = to;
        p += bar;
    }
    *to = 0;
    for (int i = 0; i < n; i++) {
        char *end = text + (names[i] - text) + strlen(names[i]) - 1;
        numeric[i] = *end == '#';
        if (numeric[i]) *end = 0;
    }
    return text;
}

void table_emit(struct table_builder *t, const struct sinks *sinks)
{
    const char **columns = xcalloc((size_t)t->column_count, sizeof *columns);
    bool *numeric = xcalloc((size_t)t->column_count, sizeof *numeric);
    char *text = split_columns(t, columns, numeric);
    const struct event_table table = {
        .name = t->name,
        .columns = columns,
        .column_count = t->column_count,
        .row_count = (int)(t->count / (size_t)t->column_count),
        .cells = (const char *const *)t->cells,
        .numeric = numeric,
        .titled = t->titled,
    };
    sinks_emit(sinks, &(struct event){ .kind = EVENT_TABLE, .table = &table });
    release_cells(t);
    free(columns);
    free(numeric);
    free(text);
}

int table_write(struct table_builder *t, const char *path, const struct sinks *sinks,
                struct err *err)
{
    const size_t count = (size_t)t->column_count;
    const char **columns = xcalloc(count, sizeof *columns);
    bool *numeric = xcalloc(count, sizeof *numeric);
    char *text = split_columns(t, columns, numeric);
    FILE *f = file_out_open(path, err);
    for (size_t c = 0; f && c < count; c++)
        fprintf(f, "%s%c", columns[c], c + 1 < count ? ',' : '\n');
    for (size_t i = 0; f && i < t->count; i++) {
        const char end = (i + 1) % count ? ',' : '\n';
        if (numeric[i % count])
            fprintf(f, "%s%c", t->cells[i], end);
        else
            csv_text(f, t->cells[i], end);
    }
    const int status = f ? file_out_close(f, path, err) : -1;
    if (status == 0) sinks_written(sinks, "csv", path, NULL);
    release_cells(t);
    free(columns);
    free(numeric);
    free(text);
    return status;
}
