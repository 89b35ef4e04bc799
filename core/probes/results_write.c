// core/probes/results_write.c -- results as events, as CSV files, and as JSON for the session
// database.
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "core/base/csv.h"
#include "core/base/file_out.h"
#include "core/base/folder.h"
#include "core/base/json.h"
#include "core/base/text.h"
#include "core/probes/results.h"

enum { LONG_TABLE = 1000 }; // a kept table with more rows is not shown
enum { RANKED = 20 };       // rows of a ranked table that are shown

static size_t common_bytes(const char *a, const char *b)
{
    size_t n = 0;
    while (a[n] && a[n] == b[n]) n++;
    while (n && ((unsigned char)a[n] & 0xC0) == 0x80) n--; // ends between characters
    while (n && ((unsigned char)b[n] & 0xC0) == 0x80) n--;
    return n;
}

// Returns whether a key is a number whose text a reader of the number gets back: "12" is, but the
// head "3.10" is not, because it would become 3.1, another head.
static bool is_number(const char *key)
{
    char again[32];
    snprintf(again, sizeof again, "%.15g", strtod(key, NULL));
    return !strcmp(again, key);
}

void results_show_tables(const struct results *r, const struct sinks *sinks)
{
    if (r->text[0]) {
        const struct event_columns columns = { .title = { r->title[0], r->title[1] },
                                               .text = { r->text[0], r->text[1] },
                                               .common = common_bytes(r->text[0], r->text[1]),
                                               .starts = { r->starts[0], r->starts[1] },
                                               .tokens = { r->tokens[0], r->tokens[1] } };
        sinks_emit(sinks, &(struct event){ .kind = EVENT_COLUMNS, .columns = &columns });
    }
    for (size_t i = 0; i < r->table_count; i++) {
        const struct result_table *t = r->tables[i];
        if (text_ends(t->name, RESULTS_INTERVAL) &&
            !text_ends(t->name, RESULTS_DIFFERENCE RESULTS_INTERVAL))
            continue;
        if (t->kept && t->row_count > LONG_TABLE) {
            sinks_notice(sinks, "%s has %zu rows: --csv FILE writes them", t->name, t->row_count);
            continue;
        }
        struct table_builder b;
        struct buf columns = { 0 };
        bool numbers = true;
        for (size_t k = 0; k < t->row_count; k++) numbers &= is_number(t->rows[k].key);
        buf_printf(&columns, "%s%s%s", r->condition_count ? RESULTS_CONDITION "|" : "",
                   t->columns[0], numbers ? "#" : "");
        for (int c = 1; c < t->column_count; c++) buf_printf(&columns, "|%s#", t->columns[c]);
        table_begin(&b, t->name, columns.data);
        b.titled = true;
        const bool some = t->ranked && !r->condition_count && t->row_count > RANKED;
        const size_t shown = some ? RANKED : t->row_count;
        for (size_t k = 0; k < shown; k++) {
            if (r->condition_count) table_add(&b, "%s", results_condition(r, t->rows[k].condition));
            table_add(&b, "%s", t->rows[k].key);
            for (int c = 0; c + 1 < t->column_count; c++)
                table_add(&b, isfinite(t->rows[k].value[c]) ? "%.6g" : "", t->rows[k].value[c]);
        }
        table_emit(&b, sinks);
        buf_release(&columns);
        if (shown < t->row_count)
            sinks_notice(sinks, "%s: the first %d of %zu rows; --csv FILE writes all", t->name,
                         RANKED, t->row_count);
    }
}

void results_show_notes(const struct results *r, const struct sinks *sinks)
{
    for (size_t i = 0; i < r->note_count; i++) sinks_notice(sinks, "%s", r->notes[i]);
}

void results_show(const struct results *r, const struct sinks *sinks)
{
    results_show_tables(r, sinks);
    results_show_notes(r, sinks);
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

int results_check(const char *path, const char *ending, const char *part, struct err *err)
{
    if (file_out_special(path)) return 0;
    char *first = results_path(path, ending, part, 1);
    const size_t at = (size_t)(text_file_name(first) - first);
    const size_t n = strlen(first + at) - strlen(ending);
    char *folder = text_folder(path);
    char **names = folder_list(folder);
    int status = 0;
    for (size_t i = 0; names[i] && status == 0; i++) {
        // x-norms.csv, x-norms.layers.csv, x-norms-2.csv
        if (strncmp(names[i], first + at, n) != 0 || !strchr(".-", names[i][n]) ||
            !text_ends(names[i], ending))
            continue;
        char *one = xasprintf("%.*s%s", (int)at, first, names[i]);
        status = file_out_check(one, err);
        free(one);
    }
    folder_list_free(names);
    free(folder);
    free(first);
    return status;
}

static void put_condition(const struct results *r, int condition, struct buf *b)
{
    if (!r->condition_count) return;
    csv_quote(b, results_condition(r, condition));
    buf_putc(b, ',');
}

static void put_table(const struct results *r, const struct result_table *t, struct buf *b)
{
    if (r->condition_count) buf_puts(b, "\"" RESULTS_CONDITION "\",");
    for (int c = 0; c < t->column_count; c++) {
        if (c) buf_putc(b, ',');
        csv_quote(b, t->columns[c]);
    }
    buf_putc(b, '\n');
    for (size_t k = 0; k < t->row_count; k++) {
        put_condition(r, t->rows[k].condition, b);
        csv_quote(b, t->rows[k].key);
        for (int c = 0; c + 1 < t->column_count; c++)
            buf_printf(b, isfinite(t->rows[k].value[c]) ? ",%.9g" : ",", t->rows[k].value[c]);
        buf_putc(b, '\n');
    }
}

static void put_maps(const struct results *r, struct buf *b)
{
    bool words = false;
    for (size_t i = 0; i < r->map_count; i++) words |= r->maps[i].words != NULL;
    if (r->condition_count) buf_puts(b, RESULTS_CONDITION ",");
    buf_puts(b, "map,picture,tile,layer,head,token,row,column,value,dropped");
    buf_puts(b, words ? ",word\n" : "\n");
    for (size_t i = 0; i < r->map_count; i++) {
        const struct result_map *m = &r->maps[i];
        for (int k = 0; k < m->rows * m->cols; k++) {
            put_condition(r, m->condition, b);
            csv_quote(b, m->name);
            buf_printf(b, ",%d,", m->picture);
            csv_quote(b, m->tile ? m->tile : "");
            buf_printf(b, ",%d,%d,%d,%d,%d,", m->layer, m->head, m->token, k / m->cols,
                       k % m->cols);
            if (isfinite(m->values[k])) buf_printf(b, "%.9g", (double)m->values[k]);
            buf_printf(b, ",%d", m->state ? m->state[k] : 0);
            if (words) buf_putc(b, ',');
            if (words) csv_quote(b, m->words && m->words[k] ? m->words[k] : "");
            buf_putc(b, '\n');
        }
    }
}

int results_write_csv(const struct results *r, const char *path, const struct sinks *sinks,
                      struct err *err)
{
    const size_t count = r->table_count + (r->map_count > 0);
    if (!*path) return err_set(err, "the name of the CSV file is empty");
    if (!count) sinks_notice(sinks, "no table: '%s' was not written", path);
    if (count > 1 && file_out_special(path))
        return err_set(err,
                       "'%s' is not a regular file, and %zu tables need one file each: give a file "
                       "name such as x.csv; table T is then written to x-T.csv",
                       path, count);
    struct part {
        const char *name; // of its table, or "maps"
        char *path;
        FILE *file; // NULL: not open
    } *parts = xcalloc(count + 1, sizeof *parts);
    int status = 0;
    // Writes all files completely before it moves the first one into place: a failed write replaces
    // none.
    for (size_t i = 0; i < count && status == 0; i++) {
        struct part *p = &parts[i];
        const bool maps = i == r->table_count;
        const struct result_table *t = maps ? NULL : r->tables[i];
        struct buf b = { 0 };
        int number = 1;
        for (size_t k = 0; !maps && k < i; k++) number += !strcmp(r->tables[k]->name, t->name);
        p->name = maps ? "maps" : t->name;
        p->path = count == 1 ? xstrdup(path) : results_path(path, ".csv", p->name, number);
        if (!(p->file = file_out_open(p->path, err))) {
            status = -1;
            break;
        }
        if (maps)
            put_maps(r, &b);
        else
            put_table(r, t, &b);
        errno = 0;
        if (fwrite(b.data, 1, b.length, p->file) != b.length || fflush(p->file) != 0)
            status = err_set(err, "cannot write '%s': %s", p->path, strerror(errno));
        buf_release(&b);
    }
    for (size_t i = 0; i < count && status == 0; i++) {
        status = file_out_close(parts[i].file, parts[i].path, err);
        parts[i].file = NULL;
        if (status == 0) sinks_written(sinks, "csv", parts[i].path, parts[i].name);
    }
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
                               .words = (const char *const *)m->words,
                               .dropped = m->state };
    const struct result_kind *kind = result_kind(m->name);
    bool any = false;
    for (int i = 0; i < m->rows * m->cols; i++) {
        const float v = m->values[i];
        if (!isfinite(v)) continue;
        e.min = !any || v < e.min ? v : e.min;
        e.max = !any || v > e.max ? v : e.max;
        any = true;
    }
    if (kind) e.unit = kind->unit;
    if (kind) e.axes[0] = map_axis_name(kind->rows), e.axes[1] = map_axis_name(kind->cols);
    if (kind && kind->high > kind->low) e.min = (float)kind->low, e.max = (float)kind->high;
    memcpy(e.area, m->area, sizeof e.area);
    return e;
}

// --- JSON ----------------------------------------------------------------------------------------

static void json_number(struct buf *b, double v)
{
    if (isfinite(v))
        buf_printf(b, "%.17g", v);
    else
        buf_puts(b, "null");
}

static void put_names(struct buf *b, const char *key, char *const *names, size_t count)
{
    buf_puts(b, key);
    for (size_t i = 0; i < count; i++) {
        buf_putc(b, i ? ',' : '[');
        json_put_text(b, names[i]);
    }
    buf_putc(b, ']');
}

void results_json(const struct results *r, struct buf *b)
{
    buf_puts(b, "{\"arithmetic\":");
    json_put_text(b, r->arithmetic);
    if (r->condition_count) put_names(b, ",\"conditions\":", r->conditions, r->condition_count);
    buf_puts(b, ",\"tables\":[");
    for (size_t i = 0; i < r->table_count; i++) {
        if (i) buf_putc(b, ',');
        const struct result_table *t = r->tables[i];
        buf_puts(b, "{\"name\":");
        json_put_text(b, t->name);
        put_names(b, ",\"columns\":", t->columns, (size_t)t->column_count);
        for (size_t k = 0; r->condition_count && k < t->row_count; k++)
            buf_printf(b, k ? ",%d" : ",\"condition\":[%d", t->rows[k].condition);
        if (r->condition_count && t->row_count) buf_putc(b, ']');
        buf_puts(b, ",\"rows\":[");
        for (size_t k = 0; k < t->row_count; k++) {
            buf_puts(b, k ? ",[" : "[");
            json_put_text(b, t->rows[k].key);
            for (int c = 0; c + 1 < t->column_count; c++) {
                buf_putc(b, ',');
                json_number(b, t->rows[k].value[c]);
            }
            buf_putc(b, ']');
        }
        buf_puts(b, "]}");
    }
    buf_puts(b, "],\"maps\":[");
    for (size_t i = 0; i < r->map_count; i++) {
        if (i) buf_putc(b, ',');
        const struct result_map *m = &r->maps[i];
        buf_puts(b, "{\"name\":");
        json_put_text(b, m->name);
        if (m->tile) {
            buf_puts(b, ",\"tile\":");
            json_put_text(b, m->tile);
        }
        if (r->condition_count) buf_printf(b, ",\"condition\":%d", m->condition);
        buf_printf(b,
                   ",\"picture\":%d,\"layer\":%d,\"head\":%d,\"token\":%d,\"rows\":%d,\"cols\":%d,"
                   "\"values\":[",
                   m->picture, m->layer, m->head, m->token, m->rows, m->cols);
        for (int k = 0; k < m->rows * m->cols; k++) {
            if (k) buf_putc(b, ',');
            json_number(b, (double)m->values[k]);
        }
        buf_puts(b, "]");
        for (int k = 0; m->state && k < m->rows * m->cols; k++)
            buf_printf(b, k ? ",%d" : ",\"dropped\":[%d", m->state[k]);
        if (m->state) buf_putc(b, ']');
        for (int k = 0; m->words && k < m->rows * m->cols; k++) {
            buf_puts(b, k ? "," : ",\"words\":[");
            json_put_text(b, m->words[k] ? m->words[k] : "");
        }
        buf_puts(b, m->words ? "]}" : "}");
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

void results_emit(const struct results *r, const char *key, const char *words, bool makes,
                  const struct sinks *sinks)
{
    struct buf json = { 0 };
    results_json(r, &json);
    sinks_emit(
        sinks,
        &(struct event){
            .kind = EVENT_MEASURED, .key = key, .text = json.data, .value = words, .ok = makes });
    buf_release(&json);
}

static double read_number(const cJSON *x)
{
    return cJSON_IsNumber(x) ? x->valuedouble : NAN;
}

static bool read_table(struct results *r, const cJSON *json)
{
    const char *name = cJSON_GetStringValue(json_get(json, "name"));
    struct buf columns = { 0 };
    const cJSON *row, *x;
    bool texts = name;
    cJSON_ArrayForEach(x, json_get(json, "columns"))
    {
        texts = texts && cJSON_IsString(x);
        if (texts) buf_printf(&columns, "%s%s", columns.length ? "|" : "", x->valuestring);
    }
    struct result_table *t = texts && columns.length ? results_table(r, name, columns.data) : NULL;
    buf_release(&columns);
    if (!t) return false;
    cJSON_ArrayForEach(row, json_get(json, "rows"))
    {
        const cJSON *cell = cJSON_IsArray(row) ? row->child : NULL;
        const char *key = cJSON_GetStringValue(cell);
        if (!cell || !key) return false;
        double *v = result_row(t, "%s", key);
        for (int c = 0; c + 1 < t->column_count && cell->next; c++)
            v[c] = read_number(cell = cell->next);
    }
    size_t k = 0;
    cJSON_ArrayForEach(x, json_get(json, "condition"))
    {
        const double condition = read_number(x);
        if (k == t->row_count ||
            !(condition >= RESULTS_ALL && condition < (double)r->condition_count))
            return false;
        t->rows[k++].condition = (int)condition;
    }
    return true;
}

static bool read_map(struct results *r, const cJSON *json, struct err *err)
{
    const cJSON *values = json_get(json, "values"), *dropped = json_get(json, "dropped"), *x;
    const cJSON *words = json_get(json, "words");
    const char *name = cJSON_GetStringValue(json_get(json, "name")), *tile;
    static const char *const keys[] = { "picture", "layer", "head", "token", "rows", "cols" };
    const cJSON *of = json_get(json, "condition");
    const double condition = of ? read_number(of) : 0;
    int64_t n[6];
    for (int i = 0; i < 6; i++)
        if (json_int(json, keys[i], i < 4 ? -2 : 1, INT32_MAX, -1, &n[i], err) < 0) return false;
    if (!name || json_text(json, "tile", NULL, &tile, err) < 0 ||
        (of && !(condition >= 0 && condition < (double)r->condition_count)) ||
        cJSON_GetArraySize(values) != n[4] * n[5] ||
        (dropped && cJSON_GetArraySize(dropped) != n[4] * n[5]) ||
        (words && cJSON_GetArraySize(words) != n[4] * n[5]))
        return false;
    struct result_map *m = results_map(r, name, (int)n[4], (int)n[5]);
    m->tile = tile ? xstrdup(tile) : NULL;
    m->picture = (int)n[0], m->layer = (int)n[1], m->head = (int)n[2], m->token = (int)n[3];
    m->condition = (int)condition;
    float *to = m->values;
    cJSON_ArrayForEach(x, values) *to++ = (float)read_number(x);
    uint8_t *state = m->state = dropped ? xcalloc((size_t)(n[4] * n[5]), 1) : NULL;
    cJSON_ArrayForEach(x, dropped) *state++ = cJSON_IsNumber(x) && x->valuedouble > 0;
    char **word = m->words = words ? xcalloc((size_t)(n[4] * n[5]), sizeof *word) : NULL;
    cJSON_ArrayForEach(x, words)
    {
        const char *text = cJSON_GetStringValue(x);
        *word++ = text && *text ? xstrdup(text) : NULL;
    }
    return true;
}

// Reads [[title, text, starts], [title, text, starts]], or []. The starts of tokens are offsets in
// the text, in order.
static bool read_texts(struct results *r, const cJSON *json)
{
    const char *title[2], *text[2];
    const int sides = cJSON_GetArraySize(json);
    if (sides != 0 && sides != 2) return false;
    for (int k = 0; k < sides; k++) {
        const cJSON *side = cJSON_GetArrayItem(json, k);
        title[k] = cJSON_GetStringValue(cJSON_GetArrayItem(side, 0));
        text[k] = cJSON_GetStringValue(cJSON_GetArrayItem(side, 1));
        if (!title[k] || !text[k]) return false;
    }
    if (sides) results_texts(r, title, text);
    for (int k = 0; k < sides; k++) {
        const cJSON *array = cJSON_GetArrayItem(cJSON_GetArrayItem(json, k), 2), *x;
        const double most = (double)strlen(text[k]);
        double last = 0;
        size_t n = 0;
        if (!array) continue;
        if (!cJSON_IsArray(array)) return false;
        size_t *starts = xcalloc((size_t)cJSON_GetArraySize(array) + 1, sizeof *starts);
        cJSON_ArrayForEach(x, array)
        {
            const double at = read_number(x);
            if (!(at >= last && at <= most)) break;
            starts[n++] = (size_t)at;
            last = at;
        }
        if (!x) results_starts(r, k, starts, n);
        free(starts);
        if (x) return false;
    }
    return true;
}

int results_read(struct results *r, const char *json, struct err *err)
{
    cJSON *all = json_parse(json, strlen(json), "result", err);
    const cJSON *x;
    bool good = true;
    if (!all) return -1;
    const char *arithmetic = cJSON_GetStringValue(json_get(all, "arithmetic"));
    if (arithmetic) results_arithmetic(r, arithmetic, NULL);
    cJSON_ArrayForEach(x, json_get(all, "conditions"))
    {
        good = good && cJSON_IsString(x);
        r->conditions = xreallocarray(r->conditions, r->condition_count + 1, sizeof *r->conditions);
        if (good) r->conditions[r->condition_count++] = xstrdup(x->valuestring);
    }
    cJSON_ArrayForEach(x, json_get(all, "tables")) good = good && read_table(r, x);
    cJSON_ArrayForEach(x, json_get(all, "maps")) good = good && read_map(r, x, err);
    cJSON_ArrayForEach(x, json_get(all, "notes"))
    {
        good = good && cJSON_IsString(x);
        if (good) results_note(r, "%s", x->valuestring);
    }
    good = good && read_texts(r, json_get(all, "texts"));
    cJSON_Delete(all);
    return good ? 0 : err_set(err, "the result is damaged");
}
