// core/data/mix.c -- mixes several data sets into one.
#include "core/data/mix.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/file_out.h"
#include "core/base/items.h"
#include "core/data/dataset.h"
#include "core/data/order.h"
#include "core/picture/source.h"

static const double rounding = 1e-12; // shares such as 0.1, 0.2, 0.7 do not add up exactly

struct source {
    struct dataset data;
    bool open;
    char *folder;    // absolute
    int64_t *usable; // [count] samples of the chosen kinds
    int64_t *order;  // [count] of the current round
    int64_t count, wanted;
    int64_t round; // of `order`, from 0; -1: none
};

struct mix {
    struct source *sources;
    size_t count;
    const struct mix_options *options;
    bool *met; // [options->kind_count] whether a sample has the kind
    FILE *out;
};

// --- sources -------------------------------------------------------------------------------------

static bool has_kind(struct mix *m, const cJSON *json)
{
    const struct mix_options *o = m->options;
    bool has = !o->kind_count;
    char *kind = has ? NULL : sample_kind(json);
    for (size_t i = 0; kind && i < o->kind_count; i++)
        if (!strcmp(kind, o->kinds[i])) has = m->met[i] = true;
    free(kind);
    return has;
}

static int open_source(struct mix *m, struct source *s, const struct mix_source *from,
                       struct err *err)
{
    const struct mix_options *o = m->options;
    if (dataset_open(&s->data, from->path, NULL, err) < 0) return -1;
    s->open = true;
    s->round = -1;
    s->folder = realpath(s->data.folder, NULL);
    if (!s->folder) return err_set(err, "the folder '%s' no longer exists", s->data.folder);
    s->usable = xreallocarray(NULL, (size_t)s->data.count, sizeof *s->usable);
    s->order = xreallocarray(NULL, (size_t)s->data.count, sizeof *s->order);
    for (int64_t i = 0; i < s->data.count; i++) {
        cJSON *json = o->kind_count ? dataset_json(&s->data, i, err) : NULL;
        if (o->kind_count && !json) return err_in(err, "'%s'", from->path);
        if (has_kind(m, json)) s->usable[s->count++] = i;
        cJSON_Delete(json);
    }
    return s->count ? 0 : err_set(err, "'%s' has no sample of these kinds", from->path);
}

// --- sample counts -------------------------------------------------------------------------------

// Rounds the shares of the total by the largest remainder method. Returns the total: the requested
// one, or the largest for which no source repeats a sample.
static int64_t share_out(struct mix *m, const struct mix_source *from)
{
    double sum = 0, most = MIX_SAMPLES_MAX;
    for (size_t i = 0; i < m->count; i++) sum += from[i].share;
    for (size_t i = 0; i < m->count; i++)
        most = fmin(most, (double)m->sources[i].count * sum / from[i].share);
    const int64_t total = m->options->count ? m->options->count : (int64_t)(most * (1 + rounding));
    int64_t left = total;
    for (size_t i = 0; i < m->count; i++) {
        m->sources[i].wanted = (int64_t)floor((double)total * from[i].share / sum);
        left -= m->sources[i].wanted;
    }
    for (; left > 0; left--) {
        size_t next = 0;
        double lost = -1;
        for (size_t i = 0; i < m->count; i++) {
            const double d = (double)total * from[i].share / sum - (double)m->sources[i].wanted;
            if (d > lost) lost = d, next = i;
        }
        m->sources[next].wanted++;
    }
    return total;
}

// --- samples -------------------------------------------------------------------------------------

// Makes picture paths absolute in a string, an object that names a picture, or a list of these.
static void place_picture(cJSON *item, const char *folder)
{
    const char *path = cJSON_GetStringValue(item);
    cJSON *each;
    if (path && *path && picture_source_is_file(path)) {
        char *whole = picture_source(path, folder);
        cJSON_SetValuestring(item, whole);
        free(whole);
    }
    cJSON_ArrayForEach(each, item)
    {
        // Keys that name a picture's file (dialogue_picture), and MiniCPM-V's marks.
        const char *key = each->string;
        if (!key || items_has("path url image", key, " ") || *key == '<')
            place_picture(each, folder);
    }
}

// Makes the picture paths of a sample absolute: in "image", "images" and the items of messages.
static void place_pictures(cJSON *json, const char *folder)
{
    cJSON *message, *part;
    place_picture(cJSON_GetObjectItemCaseSensitive(json, "image"), folder);
    place_picture(cJSON_GetObjectItemCaseSensitive(json, "images"), folder);
    cJSON *messages =
        cJSON_IsArray(json) ? json : cJSON_GetObjectItemCaseSensitive(json, "messages");
    if (!messages) messages = cJSON_GetObjectItemCaseSensitive(json, "conversations");
    if (!cJSON_IsArray(messages)) return;
    cJSON_ArrayForEach(message, messages)
    {
        cJSON *content = cJSON_GetObjectItemCaseSensitive(message, "content");
        if (!cJSON_IsArray(content)) continue;
        cJSON_ArrayForEach(part, content)
        {
            place_picture(cJSON_GetObjectItemCaseSensitive(part, "image_url"), folder);
            if (cJSON_IsObject(part)) place_picture(part, folder);
        }
    }
}

// Prefixes the id of a sample, or its index in the file, with the source.
static void name_sample(cJSON *json, size_t source, int64_t index, int64_t round)
{
    static const char *const keys[] = { "id", "question_id" };
    const cJSON *id = NULL;
    char *old = NULL;
    if (!cJSON_IsObject(json)) return;
    for (size_t i = 0; i < sizeof keys / sizeof *keys && !id; i++) id = json_get(json, keys[i]);
    if (cJSON_IsString(id)) old = xstrdup(id->valuestring);
    if (cJSON_IsNumber(id)) old = json_number_text(id);
    if (!old) old = xasprintf("#%lld", (long long)index);
    char *name = round ? xasprintf("%zu/%s/%lld", source + 1, old, (long long)round + 1)
                       : xasprintf("%zu/%s", source + 1, old);
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        cJSON_DeleteItemFromObjectCaseSensitive(json, keys[i]);
    cJSON_AddStringToObject(json, "id", name);
    free(old);
    free(name);
}

// Writes sample n of a source, counted over all its rounds, as a line.
static int put_sample(struct mix *m, size_t number, int64_t n, struct err *err)
{
    struct source *s = &m->sources[number];
    const int64_t round = n / s->count;
    if (round != s->round)
        order_epoch(s->order, s->count, true, m->options->seed + number, s->round = round);
    const int64_t index = s->usable[s->order[n % s->count]];
    cJSON *json = dataset_json(&s->data, index, err);
    if (!json) return err_in(err, "'%s'", s->data.path);
    place_pictures(json, s->folder);
    name_sample(json, number, index, round);
    char *line = json_print(json);
    fprintf(m->out, "%s\n", line);
    free(line);
    cJSON_Delete(json);
    return 0;
}

// --- the file ------------------------------------------------------------------------------------

// Shuffles the positions of all samples: each source has a range of positions, and its samples
// follow its own order.
static int put_all(struct mix *m, int64_t total, struct err *err)
{
    int64_t *place = xreallocarray(NULL, (size_t)total + 1, sizeof *place);
    int64_t *done = xcalloc(m->count, sizeof *done);
    int status = 0;
    order_epoch(place, total, true, m->options->seed + m->count, 0);
    for (int64_t p = 0; p < total && status == 0; p++) {
        size_t number = 0;
        for (int64_t end = m->sources[0].wanted; place[p] >= end;)
            end += m->sources[++number].wanted;
        status = put_sample(m, number, done[number]++, err);
    }
    free(place);
    free(done);
    return status;
}

int mix_write(const struct mix_source *sources, size_t count, const struct mix_options *options,
              const char *path, int64_t *written, struct err *err)
{
    struct mix m = { .sources = xcalloc(count, sizeof *m.sources),
                     .count = count,
                     .options = options,
                     .met = xcalloc(options->kind_count + 1, sizeof *m.met) };
    int status = 0;
    for (size_t i = 0; i < count && status == 0; i++)
        status = open_source(&m, &m.sources[i], &sources[i], err);
    for (size_t i = 0; i < options->kind_count && status == 0; i++)
        if (!m.met[i]) status = err_set(err, "no sample is of the kind '%s'", options->kinds[i]);
    if (status == 0) {
        const int64_t total = share_out(&m, sources);
        m.out = file_out_open(path, err);
        status = m.out ? put_all(&m, total, err) : -1;
        if (m.out && status == 0)
            status = file_out_close_work(m.out, path, err);
        else if (m.out)
            file_out_abandon(m.out, path);
    }
    for (size_t i = 0; i < count; i++) {
        written[i] = m.sources[i].wanted;
        if (m.sources[i].open) dataset_close(&m.sources[i].data);
        free(m.sources[i].folder);
        free(m.sources[i].usable);
        free(m.sources[i].order);
    }
    free(m.sources);
    free(m.met);
    return status;
}
