// core/train/given.c -- answers of a file, by the ids of their questions.
#include "core/train/given.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/names.h"
#include "core/data/dataset.h"

struct given {
    struct names ids;
    size_t *first;     // [ids.count] the first line of an id
    char **id, **text; // [count] of every line
    size_t count, capacity;
};

void given_free(struct given *g)
{
    if (!g) return;
    for (size_t i = 0; i < g->count; i++) {
        free(g->id[i]);
        free(g->text[i]);
    }
    free(g->id);
    free(g->text);
    free(g->first);
    names_release(&g->ids);
    free(g);
}

// A text, or a whole number as it is written.
static char *read_text(const cJSON *line, const char *const *keys)
{
    for (; *keys; keys++) {
        const cJSON *item = json_get(line, *keys);
        if (cJSON_IsString(item)) return xstrdup(item->valuestring);
        if (cJSON_IsNumber(item)) return json_number_text(item);
    }
    return NULL;
}

// Takes text over.
static void add(struct given *g, const char *written, char *text)
{
    bool known;
    char *id = json_number_key(written);
    if (g->count == g->capacity) {
        g->capacity = g->capacity ? 2 * g->capacity : 256;
        g->id = xreallocarray(g->id, g->capacity, sizeof *g->id);
        g->text = xreallocarray(g->text, g->capacity, sizeof *g->text);
        g->first = xreallocarray(g->first, g->capacity, sizeof *g->first);
    }
    const size_t number = names_add(&g->ids, id, &known);
    if (!known) g->first[number] = g->count;
    g->id[g->count] = id;
    g->text[g->count++] = text;
}

static int read_line(struct given *g, const struct dataset *d, int64_t i, struct err *err)
{
    static const char *const ids[] = { "question_id", "id", "index", NULL }, *const texts[] = {
        "text", "answer", "prediction", "response", NULL
    };
    cJSON *line = dataset_json(d, i, err);
    if (!line) return -1;
    char *id = read_text(line, ids), *text = read_text(line, texts);
    cJSON_Delete(line);
    if (id && text) {
        add(g, id, text);
        free(id);
        return 0;
    }
    free(id);
    free(text);
    return err_set(err, "line %lld of '%s' needs \"question_id\" and \"text\"",
                   (long long)d->entries[i].line, d->path);
}

struct given *given_read(const char *path, struct err *err)
{
    struct dataset d;
    if (dataset_open(&d, path, NULL, err) < 0) return NULL;
    struct given *g = xcalloc(1, sizeof *g);
    int status = 0;
    for (int64_t i = 0; i < d.count && status == 0; i++) status = read_line(g, &d, i, err);
    dataset_close(&d);
    if (status == 0) return g;
    given_free(g);
    return NULL;
}

const char *given_answer(const struct given *g, const char *written, int64_t number)
{
    size_t name;
    const char *text = NULL;
    char *id = json_number_key(written);
    if (number >= 0 && (size_t)number < g->count && !strcmp(g->id[number], id))
        text = g->text[number];
    else if (names_find(&g->ids, id, &name))
        text = g->text[g->first[name]];
    free(id);
    return text;
}
