// core/probes/results_json.c -- results as the session database keeps them.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/json.h"
#include "core/probes/results.h"

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
    if (m->state) buf_putc(b, ']');
    for (int i = 0; m->words && i < m->rows * m->cols; i++) {
        buf_puts(b, i ? "," : ",\"words\":[");
        json_put_text(b, m->words[i] ? m->words[i] : "");
    }
    buf_puts(b, m->words ? "]}" : "}");
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
    const cJSON *words = json_get(json, "words");
    const char *name = cJSON_GetStringValue(json_get(json, "name")), *tile;
    static const char *const keys[] = { "picture", "layer", "head", "token", "rows", "cols" };
    int64_t n[6];
    for (int i = 0; i < 6; i++)
        if (json_int(json, keys[i], i < 4 ? -2 : 1, INT32_MAX, -1, &n[i], err) < 0) return false;
    if (!name || json_text(json, "tile", NULL, &tile, err) < 0 ||
        cJSON_GetArraySize(values) != n[4] * n[5] ||
        (dropped && cJSON_GetArraySize(dropped) != n[4] * n[5]) ||
        (words && cJSON_GetArraySize(words) != n[4] * n[5]))
        return false;
    struct result_map *m = results_map(r, name, (int)n[4], (int)n[5]);
    m->tile = tile ? xstrdup(tile) : NULL;
    m->picture = (int)n[0], m->layer = (int)n[1], m->head = (int)n[2], m->token = (int)n[3];
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
