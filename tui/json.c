// tui/json.c -- writes events as JSON lines. One function per kind of event fills an object; a
// table lists the functions with the names and types of their fields.
#include "tui/json.h"

#include <cjson/cJSON.h>
#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/err.h"
#include "core/base/mem.h"
#include "core/picture/boxes.h"
#include "core/template/message.h"
#include "tui/event_text.h"
#include "tui/text.h"

struct json_sink {
    FILE *out;
    struct throttle throttle; // limits progress events
    char *request;            // the running line's id, as JSON; NULL: none
};

// --- values --------------------------------------------------------------------------------------

static cJSON *text_value(const char *text)
{
    struct buf b = { 0 };
    text_repair(&b, text ? text : "");
    cJSON *value = cJSON_CreateString(b.data ? b.data : "");
    buf_release(&b);
    return value;
}

static void add_text(cJSON *object, const char *key, const char *text)
{
    cJSON_AddItemToObject(object, key, text_value(text));
}

static void add_integer(cJSON *object, const char *key, int64_t value)
{
    char text[24]; // a double is exact only up to 2^53
    snprintf(text, sizeof text, "%" PRId64, value);
    cJSON_AddRawToObject(object, key, text);
}

// Unknown (NaN) and infinite values become null: JSON cannot express them.
static void add_real(cJSON *object, const char *key, double value)
{
    if (isfinite(value))
        cJSON_AddNumberToObject(object, key, value);
    else
        cJSON_AddNullToObject(object, key);
}

// Adds a number with six digits, for values computed in single precision.
static void add_rounded(cJSON *object, const char *key, double value)
{
    char text[32];
    snprintf(text, sizeof text, "%.6g", value);
    add_real(object, key, strtod(text, NULL));
}

static void add_ids(cJSON *object, const int32_t *ids, size_t count)
{
    struct buf b = { 0 };
    buf_putc(&b, '[');
    for (size_t i = 0; i < count; i++) buf_printf(&b, i ? ",%d" : "%d", ids[i]);
    buf_putc(&b, ']');
    cJSON_AddRawToObject(object, "ids", b.data);
    buf_release(&b);
}

// Returns whether the text is a JSON number, which is then copied with all its digits.
static bool is_json_number(const char *p)
{
    if (*p == '-') p++;
    if (!isdigit((unsigned char)*p)) return false;
    if (p[0] == '0' && isdigit((unsigned char)p[1])) return false;
    while (isdigit((unsigned char)*p)) p++;
    if (*p == '.') {
        if (!isdigit((unsigned char)*++p)) return false;
        while (isdigit((unsigned char)*p)) p++;
    }
    if (*p == 'e' || *p == 'E') {
        p++;
        if (*p == '+' || *p == '-') p++;
        if (!isdigit((unsigned char)*p)) return false;
        while (isdigit((unsigned char)*p)) p++;
    }
    return !*p;
}

static cJSON *cell_value(const char *cell, bool numeric)
{
    if (!cell || (numeric && !*cell)) return cJSON_CreateNull();
    if (!numeric) return text_value(cell);
    return is_json_number(cell) ? cJSON_CreateRaw(cell) : text_value(cell);
}

// --- one function per event ----------------------------------------------------------------------

static void fill_token(cJSON *o, const struct event *e)
{
    add_text(o, "text", e->text);
    if (e->reasoning && *e->reasoning) add_text(o, "reasoning", e->reasoning);
    if (e->ok) cJSON_AddTrueToObject(o, "was_reasoning");
    add_integer(o, "id", e->id);
    if (!e->token) return;
    add_rounded(o, "probability", e->token->probability);
    add_rounded(o, "entropy", e->token->entropy);
    if (!isnan(e->token->share)) add_rounded(o, "picture_share", e->token->share);
}

// Adds boxes (corner, width and height) or points (x and y), in pixels of the original picture.
static void add_boxes(cJSON *o, const char *key, const struct boxes *b, bool points)
{
    cJSON *list = NULL;
    for (size_t i = 0; i < b->count; i++) {
        const struct picture_box *box = &b->list[i];
        if (box->point != points) continue;
        if (!list) list = cJSON_AddArrayToObject(o, key);
        cJSON_AddItemToArray(list, box_json(box));
    }
}

static void fill_answer(cJSON *o, const struct event *e)
{
    const struct event_answer *a = e->answer;
    add_text(o, "text", a->text);
    if (a->reasoning && *a->reasoning) add_text(o, "reasoning", a->reasoning);
    if (a->reasoning_tokens) add_integer(o, "reasoning_tokens", a->reasoning_tokens);
    add_ids(o, a->ids, a->count);
    add_integer(o, "prompt_tokens", a->prompt_tokens);
    add_integer(o, "visual_tokens", a->visual_tokens);
    add_integer(o, "computed_tokens", a->computed_tokens);
    add_integer(o, "drafted", a->drafted);
    add_integer(o, "accepted", a->accepted);
    add_real(o, "vision_s", a->vision_s);
    add_real(o, "prefill_s", a->prefill_s);
    add_real(o, "decode_s", a->decode_s);
    add_text(o, "stop", a->stop);
    if (!a->boxes || !a->boxes->count) return;
    add_integer(o, "picture", a->boxed);
    add_boxes(o, "boxes", a->boxes, false);
    add_boxes(o, "points", a->boxes, true);
}

static void fill_text(cJSON *o, const struct event *e)
{
    add_text(o, "text", e->text);
}

static void fill_ids(cJSON *o, const struct event *e)
{
    add_ids(o, e->ids, (size_t)e->count);
}

static void fill_table(cJSON *o, const struct event *e)
{
    const struct event_table *t = e->table;
    add_text(o, "name", t->name);
    cJSON *columns = cJSON_AddArrayToObject(o, "columns");
    for (int c = 0; c < t->column_count; c++)
        cJSON_AddItemToArray(columns, text_value(t->columns[c]));
    cJSON *rows = cJSON_AddArrayToObject(o, "rows");
    for (int r = 0; r < t->row_count; r++) {
        cJSON *row = cJSON_CreateArray();
        for (int c = 0; c < t->column_count; c++) {
            const char *cell = t->cells[(size_t)r * (size_t)t->column_count + (size_t)c];
            cJSON_AddItemToArray(row, cell_value(cell, t->numeric && t->numeric[c]));
        }
        cJSON_AddItemToArray(rows, row);
    }
}

static void fill_heatmap(cJSON *o, const struct event *e)
{
    const struct event_heatmap *h = e->heatmap;
    add_text(o, "name", h->name);
    if (h->condition) add_text(o, "condition", h->condition);
    add_integer(o, "picture", h->picture);
    add_integer(o, "layer", h->layer);
    add_integer(o, "head", h->head);
    add_integer(o, "token", h->token);
    add_integer(o, "rows", h->rows);
    add_integer(o, "cols", h->cols);
    struct buf b = { 0 };
    buf_putc(&b, '[');
    size_t count = (size_t)h->rows * (size_t)h->cols;
    for (size_t i = 0; i < count; i++) {
        if (i) buf_putc(&b, ',');
        if (isfinite(h->values[i]))
            buf_printf(&b, "%.9g", h->values[i]);
        else
            buf_puts(&b, "null");
    }
    buf_putc(&b, ']');
    cJSON_AddRawToObject(o, "values", b.data);
    buf_release(&b);
    add_real(o, "min", h->min);
    add_real(o, "max", h->max);
    if (h->tile) add_text(o, "tile", h->tile);
    cJSON *words = h->words ? cJSON_AddArrayToObject(o, "words") : NULL;
    for (size_t i = 0; words && i < count; i++)
        cJSON_AddItemToArray(words, text_value(h->words[i] ? h->words[i] : ""));
    if (!h->dropped) return;
    cJSON *dropped = cJSON_AddArrayToObject(o, "dropped"); // indices of cells, row by row
    for (size_t i = 0; i < count; i++)
        if (h->dropped[i]) cJSON_AddItemToArray(dropped, cJSON_CreateNumber((double)i));
}

static void add_pair(cJSON *o, const char *key, const char *const *texts)
{
    cJSON *list = cJSON_AddArrayToObject(o, key);
    for (int k = 0; k < 2; k++) cJSON_AddItemToArray(list, text_value(texts[k]));
}

static void fill_columns(cJSON *o, const struct event *e)
{
    const struct event_columns *c = e->columns;
    add_pair(o, "titles", c->title);
    add_pair(o, "texts", c->text);
    add_integer(o, "common", (int64_t)c->common);
    if (!c->starts[0] && !c->starts[1]) return;
    cJSON *sides = cJSON_AddArrayToObject(o, "starts"); // byte offset of each token
    for (int k = 0; k < 2; k++) {
        cJSON *side = cJSON_CreateArray();
        for (size_t i = 0; c->starts[k] && i < c->tokens[k]; i++)
            cJSON_AddItemToArray(side, cJSON_CreateNumber((double)c->starts[k][i]));
        cJSON_AddItemToArray(sides, side);
    }
}

static void fill_changed(cJSON *o, const struct event *e)
{
    const struct event_changed *c = e->changed;
    add_integer(o, "number", c->number);
    add_integer(o, "count", c->count);
    add_text(o, "which", c->which);
    add_pair(o, "titles", c->title);
    add_text(o, "id", c->id);
    add_text(o, "kind", c->kind);
    add_text(o, "question", c->question);
    add_text(o, "reference", c->reference);
    add_pair(o, "answers", c->answer);
    add_text(o, "metric", c->metric);
    cJSON *scores = cJSON_AddArrayToObject(o, "scores");
    for (int k = 0; k < 2; k++) cJSON_AddItemToArray(scores, cJSON_CreateNumber(c->score[k]));
    cJSON *pictures = cJSON_AddArrayToObject(o, "pictures");
    for (size_t i = 0; i < c->picture_count; i++)
        cJSON_AddItemToArray(pictures, text_value(e->pictures[i].path));
}

static void fill_progress(cJSON *o, const struct event *e)
{
    const struct event_progress *p = e->progress;
    add_integer(o, "job", p->job);
    add_text(o, "what", p->what);
    add_real(o, "step", p->step);
    add_real(o, "steps", p->steps);
    add_real(o, "loss", p->loss);
    add_real(o, "eta_s", p->eta_s);
}

static void fill_setting(cJSON *o, const struct event *e)
{
    add_text(o, "key", e->key);
    add_text(o, "value", e->value);
}

static void fill_error(cJSON *o, const struct event *e)
{
    add_text(o, "where", e->where);
    add_text(o, "message", e->text);
}

static void fill_attached(cJSON *o, const struct event *e)
{
    const struct picture *p = e->pictures;
    add_integer(o, "picture", e->id);
    add_text(o, "file", p->path);
    add_integer(o, "width", p->image.width);
    add_integer(o, "height", p->image.height);
    if (p->tokens) // unknown before a model is loaded
        add_integer(o, "visual_tokens", p->tokens);
    else
        cJSON_AddNullToObject(o, "visual_tokens");
    add_text(o, "sha256", p->sha256);
}

// Adds seconds since 1970; 0 (not yet) becomes null.
static void add_time(cJSON *o, const char *key, int64_t seconds)
{
    add_real(o, key, seconds ? (double)seconds : NAN);
}

static void fill_job(cJSON *o, const struct event *e)
{
    const struct event_job *j = e->job;
    add_integer(o, "job", j->job);
    add_text(o, "change", j->change);
    add_text(o, "kind", j->kind);
    add_text(o, "state", j->state);
    add_text(o, "message", j->message);
    add_real(o, "step", j->step);
    add_real(o, "steps", j->steps);
    add_real(o, "loss", j->loss);
    add_real(o, "eta_s", j->eta_s);
    add_time(o, "created", j->created);
    add_time(o, "started", j->started);
    add_time(o, "ended", j->ended);
    add_text(o, "folder", j->folder);
    add_text(o, "model", j->model);
    cJSON *words = cJSON_AddArrayToObject(o, "arguments");
    for (int i = 0; i < j->argument_count; i++)
        cJSON_AddItemToArray(words, text_value(j->arguments[i]));
}

static void maybe_text(cJSON *o, const char *key, const char *text)
{
    if (text) add_text(o, key, text);
}

static void fill_session(cJSON *o, const struct event *e)
{
    const struct event_session *s = e->session;
    add_text(o, "change", s->change);
    if (s->name)
        add_text(o, "name", s->name);
    else
        cJSON_AddNullToObject(o, "name");
    add_text(o, "database", s->database);
    maybe_text(o, "file", s->file);
    maybe_text(o, "model", s->model);
    if (s->began) add_integer(o, "began", s->began);
    if (s->ended) add_integer(o, "ended", s->ended);
    maybe_text(o, "title", s->title);
    if (s->turns >= 0) add_integer(o, "turns", s->turns);
    if (s->pictures >= 0) add_integer(o, "pictures", s->pictures);
}

static void fill_info(cJSON *o, const struct event *e)
{
    const struct event_info *i = e->info;
    add_text(o, "family", i->family);
    add_text(o, "path", i->path);
    add_text(o, "fingerprint", i->fingerprint);
    add_text(o, "device", i->device);
    add_text(o, "arithmetic", i->arithmetic);
    add_integer(o, "parameters", i->parameters);
    add_integer(o, "layers", i->layers);
    add_integer(o, "width", i->width);
    add_integer(o, "heads", i->heads);
    add_integer(o, "kv_heads", i->kv_heads);
    add_integer(o, "ffn", i->ffn);
    add_integer(o, "vocabulary", i->vocabulary);
    add_integer(o, "positions", i->positions);
    add_integer(o, "visual_layers", i->visual_layers);
    add_integer(o, "visual_width", i->visual_width);
    add_integer(o, "patch", i->patch);
    add_integer(o, "side", i->side);
    add_integer(o, "visual_tokens", i->visual_tokens);
}

static void fill_written(cJSON *o, const struct event *e)
{
    add_text(o, "what", e->key);
    add_text(o, "file", e->text);
}

static void fill_done(cJSON *o, const struct event *e)
{
    cJSON_AddBoolToObject(o, "ok", e->ok);
}

// Lists the fields by name and JSON Schema type. "number?" may be null; a field "name?" may be
// missing.
static const struct kind {
    const char *name, *fields;
    void (*fill)(cJSON *object, const struct event *event);
} kinds[] = {
    [EVENT_TOKEN] = { "token",
                      "text:string reasoning?:string was_reasoning?:boolean id:integer "
                      "probability?:number? entropy?:number? picture_share?:number?",
                      fill_token },
    [EVENT_ANSWER] = { "answer",
                       "text:string reasoning?:string reasoning_tokens?:integer ids:array "
                       "prompt_tokens:integer visual_tokens:integer computed_tokens:integer "
                       "drafted:integer accepted:integer vision_s:number? "
                       "prefill_s:number? decode_s:number? stop:string picture?:integer "
                       "boxes?:array points?:array",
                       fill_answer },
    [EVENT_TEXT] = { "text", "text:string", fill_text },
    [EVENT_IDS] = { "ids", "ids:array", fill_ids },
    [EVENT_RENDERED] = { "rendered", "text:string", fill_text },
    [EVENT_TABLE] = { "table", "name:string columns:array rows:array", fill_table },
    [EVENT_HEATMAP] = { "heatmap",
                        "name:string picture:integer layer:integer head:integer token:integer "
                        "rows:integer cols:integer values:array min:number? max:number? "
                        "tile?:string condition?:string words?:array dropped?:array",
                        fill_heatmap },
    [EVENT_COLUMNS] = { "columns", "titles:array texts:array common:integer starts?:array",
                        fill_columns },
    [EVENT_CHANGED] = { "changed",
                        "number:integer count:integer which:string titles:array id:string "
                        "kind:string question:string reference:string answers:array metric:string "
                        "scores:array pictures:array",
                        fill_changed },
    [EVENT_PROGRESS] = { "progress",
                         "job:integer what:string step:number? steps:number? loss:number? "
                         "eta_s:number?",
                         fill_progress },
    [EVENT_SETTING] = { "setting", "key:string value:string", fill_setting },
    [EVENT_NOTICE] = { "notice", "text:string", fill_text },
    [EVENT_ERROR] = { "error", "where:string message:string", fill_error },
    [EVENT_DONE] = { "done", "ok:boolean", fill_done },
    [EVENT_ATTACHED] = { "attached",
                         "picture:integer file:string width:integer height:integer "
                         "visual_tokens:integer? sha256:string",
                         fill_attached },
    [EVENT_JOB] = { "job",
                    "job:integer change:string kind:string state:string message:string "
                    "step:number? steps:number? loss:number? eta_s:number? created:number? "
                    "started:number? ended:number? folder:string model:string arguments:array",
                    fill_job },
    [EVENT_SESSION] = { "session",
                        "change:string name:string? database:string file?:string model?:string "
                        "began?:integer ended?:integer title?:string turns?:integer "
                        "pictures?:integer",
                        fill_session },
    [EVENT_INFO] = { "model",
                     "family:string path:string fingerprint:string device:string "
                     "arithmetic:string parameters:integer layers:integer width:integer "
                     "heads:integer kv_heads:integer ffn:integer vocabulary:integer "
                     "positions:integer visual_layers:integer visual_width:integer "
                     "patch:integer side:integer visual_tokens:integer",
                     fill_info },
    [EVENT_WRITTEN] = { "written", "what:string file:string", fill_written },
};

// --- the schema ----------------------------------------------------------------------------------

// Adds a field "name?:type?" as a property, and its name to `required` unless it may be missing.
static void add_property(cJSON *properties, cJSON *required, char *field)
{
    char *type = strchr(field, ':');
    *type++ = '\0';
    char *maybe = strchr(field, '?'), *null = strchr(type, '?');
    if (maybe) *maybe = '\0';
    if (null) *null = '\0';
    cJSON *property = cJSON_AddObjectToObject(properties, field);
    if (null) {
        cJSON *types = cJSON_AddArrayToObject(property, "type");
        cJSON_AddItemToArray(types, cJSON_CreateString(type));
        cJSON_AddItemToArray(types, cJSON_CreateString("null"));
    } else {
        cJSON_AddStringToObject(property, "type", type);
    }
    if (!maybe) cJSON_AddItemToArray(required, cJSON_CreateString(field));
}

static cJSON *schema_of(const struct kind *k)
{
    cJSON *o = cJSON_CreateObject(), *name;
    char *fields = xstrdup(k->fields), *rest = fields, *field;
    cJSON_AddStringToObject(o, "type", "object");
    cJSON *properties = cJSON_AddObjectToObject(o, "properties");
    cJSON *required = cJSON_AddArrayToObject(o, "required");
    name = cJSON_AddObjectToObject(properties, "event");
    cJSON_AddStringToObject(name, "const", k->name);
    cJSON_AddItemToArray(required, cJSON_CreateString("event"));
    while ((field = strsep(&rest, " "))) add_property(properties, required, field);
    cJSON_AddObjectToObject(properties, "request"); // any value: the id that the client sent
    cJSON_AddFalseToObject(o, "additionalProperties");
    free(fields);
    return o;
}

void json_schema(FILE *out)
{
    cJSON *o = cJSON_CreateObject();
    cJSON_AddStringToObject(o, "$schema", "https://json-schema.org/draft/2020-12/schema");
    cJSON_AddStringToObject(o, "title", "Events of vlmsh --json, one per line");
    cJSON *any = cJSON_AddArrayToObject(o, "oneOf");
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (kinds[i].name) cJSON_AddItemToArray(any, schema_of(&kinds[i]));
    char *text = cJSON_Print(o);
    if (!text) fatal("out of memory while writing the schema");
    fprintf(out, "%s\n", text);
    cJSON_free(text);
    cJSON_Delete(o);
}

// Escapes DEL and U+0080..U+009F too, which terminals interpret; of control characters, cJSON
// escapes only those below U+0020.
static char *spell_controls(const char *line)
{
    struct buf b = { 0 };
    for (const char *p = line; *p; p++) {
        const unsigned char c = (unsigned char)*p, next = (unsigned char)p[1];
        const bool high = c == 0xc2 && next >= 0x80 && next < 0xa0;
        if (c == 0x7f || high)
            buf_printf(&b, "\\u%04x", high ? next : c);
        else
            buf_putc(&b, *p);
        p += high;
    }
    return buf_take(&b);
}

// Writes an event. Events for the database (EVENT_MODEL and after) have no row in the table, so
// programs do not receive them.
static void json_emit(void *self, const struct event *event)
{
    struct json_sink *j = self;
    size_t kind = (size_t)event->kind;
    if (event->kind == EVENT_REQUEST) {
        free(j->request);
        j->request = event->text ? xstrdup(event->text) : NULL;
    }
    if (kind >= sizeof kinds / sizeof kinds[0] || !kinds[kind].name) return;
    if (event->kind == EVENT_PROGRESS && !throttle_pass(&j->throttle, event->progress)) return;
    cJSON *object = cJSON_CreateObject();
    cJSON_AddStringToObject(object, "event", kinds[kind].name);
    kinds[kind].fill(object, event);
    if (j->request) cJSON_AddRawToObject(object, "request", j->request);
    char *text = cJSON_PrintUnformatted(object);
    cJSON_Delete(object);
    if (!text) fatal("out of memory while writing an event");
    char *line = spell_controls(text);
    cJSON_free(text);
    fprintf(j->out, "%s\n", line);
    fflush(j->out); // between lines, tui/lines.c checks for a failed write
    free(line);
}

struct json_sink *json_sink_new(FILE *out)
{
    struct json_sink *j = xcalloc(1, sizeof *j);
    j->out = out;
    return j;
}

void json_sink_free(struct json_sink *j)
{
    if (j) free(j->request);
    free(j);
}

struct sink json_sink(struct json_sink *j)
{
    return (struct sink){ .emit = json_emit, .self = j, .reads_token = true };
}
