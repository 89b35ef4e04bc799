// core/scenes/pope.c -- draws pictures and objects, and writes POPE's questions about them.
#include "core/scenes/pope.h"

#include <cjson/cJSON.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/file_out.h"
#include "core/base/mem.h"
#include "core/base/random.h"
#include "core/sets/annotated.h"

const char *const pope_ways[POPE_WAYS] = { "random", "popular", "adversarial" };

enum { RANDOM_WAY, POPULAR, ADVERSARIAL };

struct pope {
    const struct annotated *a;
    const struct pope_request *request;
    size_t names;
    int64_t *have;     // [names] number of pictures that have the object
    int64_t *together; // [names, names] number of pictures that have both objects
    size_t *picture;   // [count] drawn pictures, in order
    int64_t count;
};

// Draws `count` elements of list[n] without repetition and moves them to the start of the list.
// Calls with different values of `place` give independent draws.
static void draw(const struct pope *p, uint64_t place, int *list, int64_t n, int64_t count)
{
    for (int64_t i = 0; i < count && i < n; i++) {
        const uint64_t bits = random_bits(p->request->seed, RANDOM_POPE, place << 20 | (uint64_t)i);
        const int64_t k = i + (int64_t)(bits % (uint64_t)(n - i));
        const int object = list[k];
        list[k] = list[i];
        list[i] = object;
    }
}

static void count_pictures(struct pope *p)
{
    const struct annotated *a = p->a;
    p->have = xcalloc(p->names + 1, sizeof *p->have);
    p->together = xcalloc(p->names * p->names + 1, sizeof *p->together);
    for (size_t i = 0; i < a->ids.count; i++) {
        const struct annotated_picture *x = &a->picture[i];
        for (size_t j = 0; j < x->count; j++) {
            p->have[x->objects[j]]++;
            for (size_t k = 0; k < x->count; k++)
                p->together[(size_t)x->objects[j] * p->names + (size_t)x->objects[k]]++;
        }
    }
}

static int choose_pictures(struct pope *p, struct err *err)
{
    const struct annotated *a = p->a;
    int *list = xreallocarray(NULL, a->ids.count + 1, sizeof *list);
    int64_t n = 0;
    for (size_t i = 0; i < a->ids.count; i++)
        if ((int64_t)a->picture[i].count >= p->request->each) list[n++] = (int)i;
    p->count = n < p->request->pictures ? n : p->request->pictures;
    draw(p, 0, list, n, p->count);
    p->picture = xreallocarray(NULL, (size_t)p->count + 1, sizeof *p->picture);
    for (int64_t i = 0; i < p->count; i++) p->picture[i] = (size_t)list[i];
    free(list);
    if (p->count) return 0;
    return err_set(err, "no picture has %" PRId64 " objects", p->request->each);
}

// --- absent objects ------------------------------------------------------------------------------

struct ranked {
    int object;
    int64_t score;
};

static int by_rank(const void *a, const void *b)
{
    const struct ranked *x = a, *y = b;
    if (x->score != y->score) return x->score > y->score ? -1 : 1;
    return x->object < y->object ? -1 : 1;
}

static int64_t score_of(const struct pope *p, int way, const struct annotated_picture *x,
                        int object)
{
    int64_t sum = 0;
    if (way == POPULAR) return p->have[object];
    for (size_t i = 0; way == ADVERSARIAL && i < x->count; i++)
        sum += p->together[(size_t)x->objects[i] * p->names + (size_t)object];
    return sum;
}

// Lists a picture's absent objects in the order in which questions ask for them; returns their
// number.
static int64_t absent(const struct pope *p, int way, size_t picture, int *list)
{
    const struct annotated_picture *x = &p->a->picture[picture];
    struct ranked *all = xreallocarray(NULL, p->names + 1, sizeof *all);
    int64_t n = 0;
    for (size_t object = 0, at = 0; object < p->names; object++) {
        if (at < x->count && x->objects[at] == (int)object)
            at++;
        else
            all[n++] = (struct ranked){ (int)object, score_of(p, way, x, (int)object) };
    }
    qsort(all, (size_t)n, sizeof *all, by_rank);
    for (int64_t i = 0; i < n; i++) list[i] = all[i].object;
    free(all);
    if (way == RANDOM_WAY) draw(p, 2 * picture + 2, list, n, p->request->each);
    return n;
}

// --- the files -----------------------------------------------------------------------------------

static void put_question(const struct pope *p, struct buf *b, size_t picture, int object,
                         bool there, int64_t number)
{
    const char *name = p->a->names.list[object];
    const char *article = strchr("aeiouAEIOU", *name) ? "an" : "a";
    char *text = xasprintf("Is there %s %s in the image?", article, name);
    cJSON *json = cJSON_CreateObject();
    cJSON_AddNumberToObject(json, "question_id", (double)number);
    cJSON_AddStringToObject(json, "image", p->a->picture[picture].file);
    cJSON_AddStringToObject(json, "text", text);
    cJSON_AddStringToObject(json, "label", there ? "yes" : "no");
    char *line = cJSON_PrintUnformatted(json);
    if (line) buf_printf(b, "%s\n", line);
    cJSON_free(line);
    cJSON_Delete(json);
    free(text);
}

// Alternates questions with the answers yes and no; omits those with no once all absent objects are
// used.
static int64_t put_picture(const struct pope *p, int way, struct buf *b, size_t picture,
                           int64_t number)
{
    const struct annotated_picture *x = &p->a->picture[picture];
    int *there = xreallocarray(NULL, x->count + 1, sizeof *there);
    int *not_there = xreallocarray(NULL, p->names + 1, sizeof *not_there);
    memcpy(there, x->objects, x->count * sizeof *there);
    draw(p, 2 * picture + 1, there, (int64_t)x->count, p->request->each);
    const int64_t n = absent(p, way, picture, not_there), before = number;
    for (int64_t i = 0; i < p->request->each; i++) {
        put_question(p, b, picture, there[i], true, ++number);
        if (i < n) put_question(p, b, picture, not_there[i], false, ++number);
    }
    free(there);
    free(not_there);
    return number - before;
}

static int write_way(const struct pope *p, int way, int64_t *questions, struct err *err)
{
    struct buf b = { 0 };
    *questions = 0;
    for (int64_t i = 0; i < p->count; i++)
        *questions += put_picture(p, way, &b, p->picture[i], *questions);
    char *path = xasprintf("%s/pope_%s.json", p->request->folder, pope_ways[way]);
    const int status = file_out_write(path, b.data, b.length, err);
    free(path);
    buf_release(&b);
    return status;
}

int pope_write(const struct annotated *a, const struct pope_request *request,
               struct pope_report *report, struct err *err)
{
    struct pope p = { .a = a, .request = request, .names = a->names.count };
    *report = (struct pope_report){ 0 };
    int status = choose_pictures(&p, err);
    if (status == 0) count_pictures(&p);
    for (int way = 0; way < POPE_WAYS && status == 0; way++)
        status = write_way(&p, way, &report->questions[way], err);
    report->pictures = p.count;
    free(p.have);
    free(p.together);
    free(p.picture);
    return status;
}
