// core/eval/compare_state.c -- samples that were compared, as lines of a file that a resumed job
// reads.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/eval/compare_parts.h"
#include "core/jobs/job_data.h"

// --- writing -------------------------------------------------------------------------------------

static void add_text(cJSON *o, const char *key, const char *text)
{
    if (text) cJSON_AddStringToObject(o, key, text);
}

static void add_list(cJSON *o, const char *key, const double *list, size_t count)
{
    cJSON *a = cJSON_AddArrayToObject(o, key);
    for (size_t i = 0; i < count; i++) cJSON_AddItemToArray(a, job_data_number(list[i]));
}

static cJSON *asked_json(const struct asked *q)
{
    cJSON *o = cJSON_CreateObject();
    const double numbers[] = { q->turn, q->class, q->scored,        q->answered,      q->score,
                               q->mean, q->most,  (double)q->steps, (double)q->agreed };
    add_list(o, "numbers", numbers, sizeof numbers / sizeof *numbers);
    add_list(o, "cost", q->cost.of, COMPARE_COSTS);
    if (q->steps) add_list(o, "distances", q->distances, (size_t)q->steps);
    if (q->cut) cJSON_AddNumberToObject(o, "cut", q->cut);
    add_text(o, "metric", q->metric ? q->metric->name : NULL);
    add_text(o, "id", q->id);
    add_text(o, "kind", q->kind);
    add_text(o, "prompt", q->prompt);
    add_text(o, "reference", q->reference);
    add_text(o, "answer", q->answer);
    add_text(o, "skipped", q->skipped);
    cJSON *ids = cJSON_AddArrayToObject(o, "ids");
    for (size_t i = 0; i < q->ids.count; i++)
        cJSON_AddItemToArray(ids, cJSON_CreateNumber(q->ids.data[i]));
    return o;
}

cJSON *compare_state_line(int64_t done, const char *pictures, const struct asked *const list[2],
                          const size_t count[2])
{
    cJSON *line = cJSON_CreateObject();
    cJSON_AddNumberToObject(line, "done", (double)done);
    cJSON_AddStringToObject(line, "pictures", pictures);
    cJSON *sides = cJSON_AddArrayToObject(line, "sides");
    for (int k = 0; k < 2; k++) {
        cJSON *side = cJSON_CreateArray();
        for (size_t i = 0; i < count[k]; i++) cJSON_AddItemToArray(side, asked_json(&list[k][i]));
        cJSON_AddItemToArray(sides, side);
    }
    return line;
}

// --- reading -------------------------------------------------------------------------------------

static bool read_list(const cJSON *o, const char *key, double *list, int count)
{
    const cJSON *a = json_get(o, key), *x;
    int n = 0;
    if (cJSON_GetArraySize(a) != count) return false;
    cJSON_ArrayForEach(x, a) list[n++] = cJSON_IsNumber(x) ? x->valuedouble : NAN;
    return true;
}

static char *read_text(const cJSON *o, const char *key)
{
    const char *text = cJSON_GetStringValue(json_get(o, key));
    return text ? xstrdup(text) : NULL;
}

// As many as there are steps: a list's length is what bounds them.
static bool read_distances(struct asked *q, const cJSON *a)
{
    const cJSON *x;
    int64_t n = 0;
    if (cJSON_GetArraySize(a) != q->steps) return false;
    q->distances = xcalloc((size_t)q->steps + 1, sizeof *q->distances);
    cJSON_ArrayForEach(x, a) q->distances[n++] = cJSON_IsNumber(x) ? x->valuedouble : NAN;
    return true;
}

static bool read_asked(struct asked *q, const cJSON *o)
{
    double n[9] = { 0 }, *cost = q->cost.of;
    const char *metric = cJSON_GetStringValue(json_get(o, "metric"));
    const cJSON *x;
    *q = (struct asked){ 0 };
    if (!read_list(o, "numbers", n, 9) || !read_list(o, "cost", cost, COMPARE_COSTS)) return false;
    // Those that are integers.
    const double counts[] = { n[7],
                              n[8],
                              cost[COST_PROMPT_TOKENS],
                              cost[COST_VISUAL_TOKENS],
                              cost[COST_KEPT],
                              cost[COST_KV_BYTES] };
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        if (!(counts[i] >= 0 && counts[i] <= 1e15)) return false;
    if (!(fabs(n[0]) <= 1e9 && fabs(n[1]) <= 1e9)) return false;
    q->turn = (int)n[0], q->class = (int)n[1];
    q->scored = n[2] > 0, q->answered = n[3] > 0;
    if (q->scored && !isfinite(n[4])) return false;
    q->score = n[4], q->mean = n[5], q->most = n[6];
    q->steps = (int64_t)n[7], q->agreed = (int64_t)n[8];
    if (!read_distances(q, json_get(o, "distances"))) return false;
    q->metric = metric ? metric_find(metric) : NULL;
    const int64_t cut = json_whole(json_get(o, "cut"), CUT_NONE);
    q->cut = cut > CUT_NONE && cut < CUTS ? (enum cut)cut : CUT_NONE;
    q->id = read_text(o, "id");
    q->kind = read_text(o, "kind");
    q->prompt = read_text(o, "prompt");
    q->reference = read_text(o, "reference");
    q->answer = read_text(o, "answer");
    q->skipped = read_text(o, "skipped");
    cJSON_ArrayForEach(x, json_get(o, "ids"))
    {
        const int32_t id = cJSON_IsNumber(x) ? x->valueint : -1;
        ids_append(&q->ids, &id, 1);
    }
    return q->id && q->kind &&
           (!q->scored || (q->metric && q->prompt && q->reference && q->answer));
}

bool compare_state_read(const cJSON *line, struct asked *list[2], size_t count[2])
{
    const cJSON *sides = json_get(line, "sides"), *o;
    bool good = cJSON_GetArraySize(sides) == 2;
    for (int k = 0; k < 2; k++) {
        const cJSON *side = good ? cJSON_GetArrayItem(sides, k) : NULL;
        list[k] = xcalloc((size_t)cJSON_GetArraySize(side) + 1, sizeof **list);
        count[k] = 0;
        cJSON_ArrayForEach(o, side) good = read_asked(&list[k][count[k]++], o) && good;
    }
    for (int k = 0; k < 2 && !good; k++) {
        for (size_t i = 0; i < count[k]; i++) asked_release(&list[k][i]);
        free(list[k]);
        list[k] = NULL;
        count[k] = 0;
    }
    return good;
}
