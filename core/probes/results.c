// core/probes/results.c -- tables and maps, their means over samples, how they are written.
#include "core/probes/results.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "core/base/csv.h"
#include "core/base/file_out.h"
#include "core/base/json.h"
#include "core/base/tally.h"

static char **split(const char *text, int *count)
{
    char **words = NULL;
    *count = 0;
    for (const char *p = text;; p++) {
        const size_t n = strcspn(p, "|");
        words = xreallocarray(words, (size_t)*count + 1, sizeof *words);
        words[(*count)++] = xstrndup(p, n);
        p += n;
        if (!*p) return words;
    }
}

struct result_table *results_table(struct results *r, const char *name, const char *columns)
{
    struct result_table *t = xcalloc(1, sizeof *t);
    t->name = xstrdup(name);
    t->columns = split(columns, &t->column_count);
    r->tables = xreallocarray(r->tables, r->table_count + 1, sizeof *r->tables);
    return r->tables[r->table_count++] = t;
}

static double *add_row(struct result_table *t, char *key)
{
    const size_t count = (size_t)t->column_count - 1;
    t->rows = xreallocarray(t->rows, t->row_count + 1, sizeof *t->rows);
    struct result_row *row = &t->rows[t->row_count++];
    row->key = key;
    row->value = xreallocarray(NULL, count + 1, sizeof *row->value);
    for (size_t i = 0; i < count; i++) row->value[i] = NAN;
    return row->value;
}

double *result_row(struct result_table *t, const char *key, ...)
{
    struct buf b = { 0 };
    va_list args;
    va_start(args, key);
    buf_vprintf(&b, key, args);
    va_end(args);
    return add_row(t, buf_take(&b));
}

struct result_map *results_map(struct results *r, const char *name, int rows, int cols)
{
    const size_t count = (size_t)rows * (size_t)cols;
    r->maps = xreallocarray(r->maps, r->map_count + 1, sizeof *r->maps);
    struct result_map *m = &r->maps[r->map_count++];
    *m = (struct result_map){ .name = xstrdup(name),
                              .picture = -1,
                              .layer = -1,
                              .head = -1,
                              .token = -1,
                              .rows = rows,
                              .cols = cols };
    m->values = xreallocarray(NULL, count + 1, sizeof *m->values);
    for (size_t i = 0; i < count; i++) m->values[i] = NAN;
    return m;
}

void results_note(struct results *r, const char *format, ...)
{
    struct buf b = { 0 };
    va_list args;
    va_start(args, format);
    buf_vprintf(&b, format, args);
    va_end(args);
    r->notes = xreallocarray(r->notes, r->note_count + 1, sizeof *r->notes);
    r->notes[r->note_count++] = buf_take(&b);
}

void results_texts(struct results *r, const char *const title[2], const char *const text[2])
{
    for (int k = 0; k < 2; k++) {
        r->title[k] = xstrdup(title[k]);
        r->text[k] = xstrdup(text[k]);
    }
}

void results_starts(struct results *r, int side, const size_t *starts, size_t tokens)
{
    r->tokens[side] = tokens;
    r->starts[side] = xcalloc(tokens + 1, sizeof *starts);
    for (size_t i = 0; i < tokens; i++) r->starts[side][i] = starts[i];
}

static void table_free(struct result_table *t)
{
    for (int c = 0; c < t->column_count; c++) free(t->columns[c]);
    for (size_t i = 0; i < t->row_count; i++) {
        free(t->rows[i].key);
        free(t->rows[i].value);
    }
    free(t->columns);
    free(t->rows);
    free(t->name);
    free(t);
}

void results_release(struct results *r)
{
    for (size_t i = 0; i < r->table_count; i++) table_free(r->tables[i]);
    for (size_t i = 0; i < r->map_count; i++) {
        free(r->maps[i].name);
        free(r->maps[i].tile);
        free(r->maps[i].values);
        free(r->maps[i].state);
    }
    for (size_t i = 0; i < r->note_count; i++) free(r->notes[i]);
    free(r->tables);
    free(r->maps);
    free(r->notes);
    for (int k = 0; k < 2; k++) {
        free(r->title[k]);
        free(r->text[k]);
        free(r->starts[k]);
    }
    *r = (struct results){ 0 };
}

static struct result_table *find(const struct results *r, const char *name)
{
    for (size_t i = 0; i < r->table_count; i++)
        if (!strcmp(r->tables[i]->name, name)) return r->tables[i];
    return NULL;
}

const struct result_table *results_find(const struct results *r, const char *table)
{
    return find(r, table);
}

static double *row_of(const struct result_table *t, const char *key)
{
    for (size_t i = 0; i < t->row_count; i++)
        if (!strcmp(t->rows[i].key, key)) return t->rows[i].value;
    return NULL;
}

const double *results_value(const struct results *r, const char *table, const char *key,
                            const char *column)
{
    const struct result_table *t = find(r, table);
    const double *row = t ? row_of(t, key) : NULL;
    for (int c = 1; row && c < t->column_count; c++)
        if (!strcmp(t->columns[c], column)) return row + c - 1;
    return NULL;
}

// --- means ---------------------------------------------------------------------------------------

static struct result_table *copy_head(struct results *to, const struct result_table *from,
                                      const char *name)
{
    struct result_table *t = results_table(to, name, from->columns[0]);
    t->columns = xreallocarray(t->columns, (size_t)from->column_count, sizeof *t->columns);
    for (int c = 1; c < from->column_count; c++) t->columns[c] = xstrdup(from->columns[c]);
    t->column_count = from->column_count;
    t->curve = from->curve;
    t->points = from->points;
    return t;
}

static struct result_table *need_table(struct results *to, const struct result_table *from)
{
    struct result_table *t = find(to, from->name);
    return t ? t : copy_head(to, from, from->name);
}

// The number of the key's row, most often `near`; added when it is new.
static size_t need_row(struct result_table *t, const char *key, size_t near)
{
    if (near < t->row_count && !strcmp(t->rows[near].key, key)) return near;
    for (size_t i = 0; i < t->row_count; i++)
        if (!strcmp(t->rows[i].key, key)) return i;
    add_row(t, xstrdup(key));
    return t->row_count - 1;
}

static double or_nothing(double x)
{
    return isfinite(x) ? x : 0;
}

// Adds the table's cells to those of the three results, whose rows lie in the same order.
static void add_table(struct results_mean *m, const struct result_table *from)
{
    struct result_table *mean = need_table(&m->means, from);
    struct result_table *squares = need_table(&m->squares, from);
    struct result_table *count = need_table(&m->counts, from);
    for (size_t i = 0; i < from->row_count; i++) {
        const char *key = from->rows[i].key;
        const size_t row = need_row(mean, key, i);
        need_row(squares, key, row);
        need_row(count, key, row);
        for (int c = 0; c + 1 < mean->column_count && c + 1 < from->column_count; c++) {
            double *at[] = { &mean->rows[row].value[c], &squares->rows[row].value[c],
                             &count->rows[row].value[c] };
            if (!isfinite(from->rows[i].value[c])) continue;
            struct tally t = { (int64_t)or_nothing(*at[2]), or_nothing(*at[0]),
                               or_nothing(*at[1]) };
            tally_add(&t, from->rows[i].value[c]);
            *at[0] = t.mean, *at[1] = t.squares, *at[2] = (double)t.count;
        }
    }
}

static bool same_map(const struct result_map *a, const struct result_map *b)
{
    return !strcmp(a->name, b->name) && a->picture == b->picture && a->layer == b->layer &&
           a->head == b->head && a->rows == b->rows && a->cols == b->cols && !a->tile == !b->tile &&
           (!a->tile || !strcmp(a->tile, b->tile));
}

static void add_map(struct results *to, const struct result_map *from, bool ones)
{
    struct result_map *m = NULL;
    for (size_t i = 0; i < to->map_count && !m; i++)
        if (same_map(&to->maps[i], from)) m = &to->maps[i];
    if (!m) {
        m = results_map(to, from->name, from->rows, from->cols);
        m->tile = from->tile ? xstrdup(from->tile) : NULL;
        m->picture = from->picture, m->layer = from->layer;
        m->head = from->head, m->token = from->token;
    }
    for (int i = 0; i < m->rows * m->cols; i++) {
        if (!isfinite(from->values[i])) continue;
        const float more = ones ? 1 : from->values[i];
        m->values[i] = isfinite(m->values[i]) ? m->values[i] + more : more;
    }
}

void results_mean_add(struct results_mean *m, const struct results *r)
{
    for (size_t i = 0; i < r->table_count; i++) {
        if (!r->tables[i]->own) add_table(m, r->tables[i]);
    }
    for (size_t i = 0; i < r->map_count; i++) {
        add_map(&m->means, &r->maps[i], false);
        add_map(&m->counts, &r->maps[i], true);
    }
    m->samples++;
}

// Mean, or population standard deviation, of each cell.
static void take_table(struct results *to, const struct results_mean *m, size_t at, bool deviation)
{
    const struct result_table *mean = m->means.tables[at], *squares = m->squares.tables[at];
    const struct result_table *count = m->counts.tables[at];
    char *name = xasprintf("%s%s", mean->name, deviation ? ".std" : "");
    struct result_table *t = copy_head(to, mean, name);
    t->curve &= !deviation;
    free(name);
    for (size_t i = 0; i < mean->row_count; i++) {
        double *v = add_row(t, xstrdup(mean->rows[i].key));
        for (int c = 0; c + 1 < mean->column_count; c++)
            v[c] = deviation
                       ? tally_std(&(struct tally){ (int64_t)or_nothing(count->rows[i].value[c]),
                                                    mean->rows[i].value[c],
                                                    squares->rows[i].value[c] })
                       : mean->rows[i].value[c];
    }
}

void results_mean_take(struct results_mean *m, struct results *mean)
{
    for (size_t i = 0; i < m->means.table_count; i++) {
        take_table(mean, m, i, false);
        if (m->samples > 1) take_table(mean, m, i, true);
    }
    for (size_t i = 0; i < m->means.map_count; i++) {
        add_map(mean, &m->means.maps[i], false);
        struct result_map *map = &mean->maps[mean->map_count - 1];
        if (map->token >= 0) map->token = -1;
        for (int k = 0; k < map->rows * map->cols; k++)
            map->values[k] /= m->counts.maps[i].values[k];
    }
    results_release(&m->means);
    results_release(&m->squares);
    results_release(&m->counts);
    *m = (struct results_mean){ 0 };
}

// --- writing -------------------------------------------------------------------------------------

static bool is_number(const char *text)
{
    char *end;
    strtod(text, &end);
    return *text && !*end;
}

static void show_table(const struct result_table *t, const struct sinks *sinks)
{
    struct table_builder b;
    const size_t columns = (size_t)t->column_count;
    bool *numeric = xcalloc(columns, sizeof *numeric);
    for (size_t c = 0; c < columns; c++) numeric[c] = true;
    for (size_t i = 0; i < t->row_count; i++) numeric[0] &= is_number(t->rows[i].key);
    table_begin(&b, t->name, t->column_count, (const char *const *)t->columns, numeric);
    b.titled = true;
    for (size_t i = 0; i < t->row_count; i++) {
        table_add(&b, "%s", t->rows[i].key);
        for (size_t c = 0; c + 1 < columns; c++)
            table_add(&b, isfinite(t->rows[i].value[c]) ? "%.6g" : "", t->rows[i].value[c]);
    }
    table_emit(&b, sinks);
    free(numeric);
}

static size_t common_bytes(const char *a, const char *b)
{
    size_t n = 0;
    while (a[n] && a[n] == b[n]) n++;
    while (n && ((unsigned char)a[n] & 0xC0) == 0x80) n--; // not inside a character
    while (n && ((unsigned char)b[n] & 0xC0) == 0x80) n--;
    return n;
}

void results_show(const struct results *r, const struct sinks *sinks)
{
    if (r->text[0]) {
        const struct event_columns columns = { .title = { r->title[0], r->title[1] },
                                               .text = { r->text[0], r->text[1] },
                                               .common = common_bytes(r->text[0], r->text[1]),
                                               .starts = { r->starts[0], r->starts[1] },
                                               .tokens = { r->tokens[0], r->tokens[1] } };
        sinks_emit(sinks, &(struct event){ .kind = EVENT_COLUMNS, .columns = &columns });
    }
    for (size_t i = 0; i < r->table_count; i++) show_table(r->tables[i], sinks);
    for (size_t i = 0; i < r->note_count; i++) sinks_notice(sinks, "%s", r->notes[i]);
}

static void csv_map(const struct result_map *m, struct buf *b)
{
    for (int r = 0; r < m->rows; r++)
        for (int c = 0; c < m->cols; c++) {
            const int i = r * m->cols + c;
            csv_quote(b, m->name);
            buf_printf(b, ",%d,", m->picture);
            csv_quote(b, m->tile ? m->tile : "");
            buf_printf(b, ",%d,%d,%d,%d,%d,", m->layer, m->head, m->token, r, c);
            if (isfinite(m->values[i])) buf_printf(b, "%.9g", (double)m->values[i]);
            buf_printf(b, ",%d\n", m->state ? m->state[i] : 0);
        }
}

static void table_csv(const struct result_table *t, struct buf *b)
{
    for (int c = 0; c < t->column_count; c++) {
        if (c) buf_putc(b, ',');
        csv_quote(b, t->columns[c]);
    }
    buf_putc(b, '\n');
    for (size_t k = 0; k < t->row_count; k++) {
        csv_quote(b, t->rows[k].key);
        for (int c = 0; c + 1 < t->column_count; c++)
            buf_printf(b, isfinite(t->rows[k].value[c]) ? ",%.9g" : ",", t->rows[k].value[c]);
        buf_putc(b, '\n');
    }
}

static void maps_csv(const struct results *r, struct buf *b)
{
    buf_puts(b, "map,picture,tile,layer,head,token,row,column,value,dropped\n");
    for (size_t i = 0; i < r->map_count; i++) csv_map(&r->maps[i], b);
}

char *results_path(const char *path, const char *ending, const char *name, int number)
{
    const size_t n = strlen(path), e = strlen(ending), word = strcspn(name, ".");
    const size_t base = n > e && !strcasecmp(path + n - e, ending) ? n - e : n;
    const char *last = path + base - (base < word ? base : word);
    const bool said = base >= word && !strncmp(last, name, word) &&
                      (last == path || !isalnum((unsigned char)last[-1]));
    struct buf b = { 0 };
    buf_add(&b, path, base);
    if (!said) buf_putc(&b, '-');
    for (const char *p = said ? name + word : name; *p; p++) buf_putc(&b, *p == '/' ? '_' : *p);
    if (number > 1) buf_printf(&b, "-%d", number);
    buf_puts(&b, ending);
    return buf_take(&b);
}

struct part {
    const char *name; // of its table, or "maps"
    char *path;
    FILE *file; // NULL: not open
};

static void name_part(struct part *p, const struct results *r, size_t at, const char *path)
{
    const struct result_table *t = at < r->table_count ? r->tables[at] : NULL;
    const bool single = r->table_count + (r->map_count > 0) == 1;
    int number = 1;
    for (size_t i = 0; t && i < at; i++) number += !strcmp(r->tables[i]->name, t->name);
    p->name = t ? t->name : "maps";
    p->path = single ? xstrdup(path) : results_path(path, ".csv", p->name, number);
}

// All of it reaches the disk, and nothing is in place yet.
static int write_part(struct part *p, const struct results *r, size_t at, struct err *err)
{
    struct buf b = { 0 };
    if (!(p->file = file_out_open(p->path, err))) return -1;
    if (at < r->table_count)
        table_csv(r->tables[at], &b);
    else
        maps_csv(r, &b);
    errno = 0;
    const bool good = fwrite(b.data, 1, b.length, p->file) == b.length && fflush(p->file) == 0;
    buf_release(&b);
    return good ? 0 : err_set(err, "cannot write '%s': %s", p->path, strerror(errno));
}

static int put_part(struct part *p, const struct sinks *sinks, struct err *err)
{
    const int status = file_out_close(p->file, p->path, err);
    p->file = NULL;
    if (status == 0) sinks_written(sinks, "csv", p->path, p->name);
    return status;
}

// All are written before the first is put in place: none is new beside others of an earlier time.
static int write_parts(struct part *parts, size_t count, const struct results *r,
                       const struct sinks *sinks, struct err *err)
{
    int status = 0;
    for (size_t i = 0; i < count && status == 0; i++) status = write_part(&parts[i], r, i, err);
    for (size_t i = 0; i < count && status == 0; i++) status = put_part(&parts[i], sinks, err);
    return status;
}

int results_write_csv(const struct results *r, const char *path, const struct sinks *sinks,
                      struct err *err)
{
    const size_t count = r->table_count + (r->map_count > 0);
    if (!count) sinks_notice(sinks, "no table: '%s' was not written", path);
    if (count > 1 && file_out_special(path))
        return err_set(err,
                       "'%s' is not a regular file, and %zu tables need one file each: give a "
                       "name, and FILE-TABLE.csv are written",
                       path, count);
    struct part *parts = xcalloc(count + 1, sizeof *parts);
    for (size_t i = 0; i < count; i++) name_part(&parts[i], r, i, path);
    const int status = write_parts(parts, count, r, sinks, err);
    for (size_t i = 0; i < count; i++) {
        if (parts[i].file) file_out_abandon(parts[i].file, parts[i].path);
        free(parts[i].path);
    }
    free(parts);
    return status;
}

struct event_heatmap results_heatmap(const struct result_map *m)
{
    struct event_heatmap e = { .name = m->name,
                               .picture = m->picture,
                               .layer = m->layer,
                               .head = m->head,
                               .token = m->token,
                               .rows = m->rows,
                               .cols = m->cols,
                               .values = m->values,
                               .tile = m->tile,
                               .dropped = m->state };
    bool any = false;
    for (int i = 0; i < m->rows * m->cols; i++) {
        const float v = m->values[i];
        if (!isfinite(v)) continue;
        e.min = !any || v < e.min ? v : e.min;
        e.max = !any || v > e.max ? v : e.max;
        any = true;
    }
    memcpy(e.area, m->area, sizeof e.area);
    return e;
}

// --- kept ----------------------------------------------------------------------------------------

static void json_number(struct buf *b, double v)
{
    if (isfinite(v))
        buf_printf(b, "%.17g", v);
    else
        buf_puts(b, "null");
}

static void json_table(const struct result_table *t, struct buf *b)
{
    buf_puts(b, "{\"name\":");
    json_put_text(b, t->name);
    buf_puts(b, ",\"columns\":[");
    for (int c = 0; c < t->column_count; c++) {
        if (c) buf_putc(b, ',');
        json_put_text(b, t->columns[c]);
    }
    buf_puts(b, "],\"rows\":[");
    for (size_t i = 0; i < t->row_count; i++) {
        buf_puts(b, i ? ",[" : "[");
        json_put_text(b, t->rows[i].key);
        for (int c = 0; c + 1 < t->column_count; c++) {
            buf_putc(b, ',');
            json_number(b, t->rows[i].value[c]);
        }
        buf_putc(b, ']');
    }
    buf_puts(b, "]}");
}

static void json_map(const struct result_map *m, struct buf *b)
{
    buf_puts(b, "{\"name\":");
    json_put_text(b, m->name);
    if (m->tile) {
        buf_puts(b, ",\"tile\":");
        json_put_text(b, m->tile);
    }
    buf_printf(b,
               ",\"picture\":%d,\"layer\":%d,\"head\":%d,\"token\":%d,\"rows\":%d,\"cols\":%d,"
               "\"values\":[",
               m->picture, m->layer, m->head, m->token, m->rows, m->cols);
    for (int i = 0; i < m->rows * m->cols; i++) {
        if (i) buf_putc(b, ',');
        json_number(b, (double)m->values[i]);
    }
    buf_puts(b, "]");
    for (int i = 0; m->state && i < m->rows * m->cols; i++)
        buf_printf(b, i ? ",%d" : ",\"dropped\":[%d", m->state[i]);
    buf_puts(b, m->state ? "]}" : "}");
}

void results_arithmetic(struct results *r, const char *first, const char *second)
{
    const bool two = second && strcmp(first, second) != 0;
    snprintf(r->arithmetic, sizeof r->arithmetic, "%s%s%s", first, two ? " | " : "",
             two ? second : "");
}

void results_json(const struct results *r, struct buf *b)
{
    buf_puts(b, "{\"arithmetic\":");
    json_put_text(b, r->arithmetic);
    buf_puts(b, ",\"tables\":[");
    for (size_t i = 0; i < r->table_count; i++) {
        if (i) buf_putc(b, ',');
        json_table(r->tables[i], b);
    }
    buf_puts(b, "],\"maps\":[");
    for (size_t i = 0; i < r->map_count; i++) {
        if (i) buf_putc(b, ',');
        json_map(&r->maps[i], b);
    }
    buf_puts(b, "],\"notes\":[");
    for (size_t i = 0; i < r->note_count; i++) {
        if (i) buf_putc(b, ',');
        json_put_text(b, r->notes[i]);
    }
    buf_puts(b, "],\"texts\":[");
    for (int k = 0; k < 2 && r->text[0]; k++) {
        buf_puts(b, k ? ",[" : "[");
        json_put_text(b, r->title[k]);
        buf_putc(b, ',');
        json_put_text(b, r->text[k]);
        for (size_t t = 0; r->starts[k] && t < r->tokens[k]; t++)
            buf_printf(b, "%s%zu", t ? "," : ",[", r->starts[k][t]);
        buf_puts(b, r->starts[k] && r->tokens[k] ? "]]" : "]");
    }
    buf_puts(b, "]}");
}

// The texts of an array joined by "|"; false: it holds something else.
static bool read_columns(const cJSON *array, struct buf *b)
{
    const cJSON *x;
    cJSON_ArrayForEach(x, array)
    {
        const char *text = cJSON_GetStringValue(x);
        if (!text) return false;
        buf_printf(b, "%s%s", b->length ? "|" : "", text);
    }
    return b->length > 0;
}

static double read_number(const cJSON *x)
{
    return cJSON_IsNumber(x) ? x->valuedouble : NAN;
}

static bool read_table(struct results *r, const cJSON *json)
{
    const char *name = cJSON_GetStringValue(json_get(json, "name"));
    struct buf columns = { 0 };
    const cJSON *row;
    if (!name || !read_columns(json_get(json, "columns"), &columns)) {
        buf_release(&columns);
        return false;
    }
    struct result_table *t = results_table(r, name, columns.data);
    buf_release(&columns);
    cJSON_ArrayForEach(row, json_get(json, "rows"))
    {
        const cJSON *cell = cJSON_IsArray(row) ? row->child : NULL;
        const char *key = cJSON_GetStringValue(cell);
        if (!cell || !key) return false;
        double *v = result_row(t, "%s", key);
        for (int c = 0; c + 1 < t->column_count && cell->next; c++)
            v[c] = read_number(cell = cell->next);
    }
    return true;
}

static bool read_map(struct results *r, const cJSON *json, struct err *err)
{
    const cJSON *values = json_get(json, "values"), *dropped = json_get(json, "dropped"), *x;
    const char *name = cJSON_GetStringValue(json_get(json, "name")), *tile;
    static const char *const keys[] = { "picture", "layer", "head", "token", "rows", "cols" };
    int64_t n[6];
    for (int i = 0; i < 6; i++)
        if (json_int(json, keys[i], i < 4 ? -2 : 1, INT32_MAX, -1, &n[i], err) < 0) return false;
    if (!name || json_text(json, "tile", NULL, &tile, err) < 0 ||
        cJSON_GetArraySize(values) != n[4] * n[5] ||
        (dropped && cJSON_GetArraySize(dropped) != n[4] * n[5]))
        return false;
    struct result_map *m = results_map(r, name, (int)n[4], (int)n[5]);
    m->tile = tile ? xstrdup(tile) : NULL;
    m->picture = (int)n[0], m->layer = (int)n[1], m->head = (int)n[2], m->token = (int)n[3];
    float *to = m->values;
    cJSON_ArrayForEach(x, values) *to++ = (float)read_number(x);
    uint8_t *state = m->state = dropped ? xcalloc((size_t)(n[4] * n[5]), 1) : NULL;
    cJSON_ArrayForEach(x, dropped) *state++ = cJSON_IsNumber(x) && x->valuedouble > 0;
    return true;
}

// Where tokens begin: numbers that grow, within the text.
static bool read_starts(struct results *r, int side, const cJSON *array)
{
    const double most = (double)strlen(r->text[side]);
    const cJSON *x;
    double last = 0;
    size_t n = 0;
    if (!cJSON_IsArray(array)) return !array;
    size_t *starts = xcalloc((size_t)cJSON_GetArraySize(array) + 1, sizeof *starts);
    cJSON_ArrayForEach(x, array)
    {
        const double at = read_number(x);
        if (!(at >= last && at <= most)) break;
        starts[n++] = (size_t)at;
        last = at;
    }
    const bool good = !x;
    if (good) results_starts(r, side, starts, n);
    free(starts);
    return good;
}

// [[title, text, starts], [title, text, starts]], or nothing.
static bool read_texts(struct results *r, const cJSON *json)
{
    const char *word[4];
    const cJSON *x;
    int n = 0;
    cJSON_ArrayForEach(x, json) for (int i = 0; i < 2 && n < 4; i++) word[n++] =
        cJSON_GetStringValue(cJSON_GetArrayItem(x, i));
    for (int i = 0; i < n; i++)
        if (!word[i]) return false;
    if (n == 4)
        results_texts(r, (const char *const[]){ word[0], word[2] },
                      (const char *const[]){ word[1], word[3] });
    bool good = n == 0 || n == 4;
    n = 0;
    cJSON_ArrayForEach(x, json)
    {
        good = good && n < 2 && read_starts(r, n, cJSON_GetArrayItem(x, 2));
        n++;
    }
    return good;
}

static bool read_note(struct results *r, const cJSON *json)
{
    const char *text = cJSON_GetStringValue(json);
    if (text) results_note(r, "%s", text);
    return text != NULL;
}

int results_read(struct results *r, const char *json, struct err *err)
{
    cJSON *all = json_parse(json, strlen(json), "result", err);
    const cJSON *x;
    bool good = true;
    if (!all) return -1;
    const char *arithmetic = cJSON_GetStringValue(json_get(all, "arithmetic"));
    if (arithmetic) results_arithmetic(r, arithmetic, NULL);
    cJSON_ArrayForEach(x, json_get(all, "tables")) good = good && read_table(r, x);
    cJSON_ArrayForEach(x, json_get(all, "maps")) good = good && read_map(r, x, err);
    cJSON_ArrayForEach(x, json_get(all, "notes")) good = good && read_note(r, x);
    good = good && read_texts(r, json_get(all, "texts"));
    cJSON_Delete(all);
    return good ? 0 : err_set(err, "the result is damaged");
}
