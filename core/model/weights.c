// core/model/weights.c -- a model's weights by name.
#include "core/model/weights.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/base/names.h"
#include "kernels/tensor.h"

const char *part_name(enum model_part_kind part)
{
    static const char *const names[MODEL_PARTS] = { "vision encoder", "projector", "embedding",
                                                    "decoder", "head" };
    return names[part];
}

static uint64_t plain_hash(const char *name)
{
    char *plain = weight_plain_name(name);
    const uint64_t hash = names_hash(plain);
    free(plain);
    return hash;
}

static void put_slot(struct weights *w, size_t number)
{
    uint64_t i = plain_hash(w->list[number].name);
    while (w->slots[i & (w->slot_count - 1)]) i++;
    w->slots[i & (w->slot_count - 1)] = number + 1;
}

struct weight *weights_add(struct weights *w, const char *name)
{
    w->list = xgrow(w->list, &w->capacity, w->count, sizeof *w->list);
    w->list[w->count] = (struct weight){ .name = xstrdup(name) };
    if (2 * w->count >= w->slot_count) {
        free(w->slots);
        w->slot_count = w->slot_count ? 2 * w->slot_count : 64;
        w->slots = xcalloc(w->slot_count, sizeof *w->slots);
        for (size_t i = 0; i < w->count; i++) put_slot(w, i);
    }
    put_slot(w, w->count);
    return &w->list[w->count++];
}

struct tensor *weights_add_gain(struct weights *w, struct tensor *gain, int gpu)
{
    struct tensor *stored = xcalloc(1, sizeof *stored);
    w->gains = xgrow(w->gains, &w->gain_capacity, w->gain_count, sizeof *w->gains);
    w->gains[w->gain_count++] = (struct gain_from_1){ gain, stored, gpu };
    return stored;
}

const struct tensor *weights_gain(const struct weights *w, const struct tensor *stored)
{
    for (size_t i = 0; i < w->gain_count; i++)
        if (w->gains[i].stored == stored) return w->gains[i].gain;
    return NULL;
}

void weights_release(struct weights *w)
{
    for (size_t i = 0; i < w->count; i++) {
        free(w->list[i].name);
        free(w->list[i].whole);
        free(w->list[i].common);
    }
    for (size_t i = 0; i < w->gain_count; i++) free(w->gains[i].stored);
    free(w->list);
    free(w->slots);
    free(w->gains);
    *w = (struct weights){ 0 };
}

// Returns the length of the first level of `name`, with its dot, if comparisons ignore that level;
// else 0.
static size_t idle_level(const char *name)
{
    static const char *const idle[] = { "model.", "language_model.", "text_model.",
                                        "vision_model." };
    for (size_t i = 0; i < sizeof idle / sizeof *idle; i++)
        if (!strncmp(name, idle[i], strlen(idle[i]))) return strlen(idle[i]);
    return 0;
}

// Returns the next character of a plain name; *level: whether a level begins here.
static char plain_next(const char **name, bool *level)
{
    size_t skip;
    while (*level && (skip = idle_level(*name))) *name += skip;
    *level = **name == '.';
    return **name ? *(*name)++ : 0;
}

int weight_layer(const struct weight *w)
{
    const bool vision = w->part == PART_VISION;
    const char *name = vision ? w->name : w->common, *at = NULL;
    if (vision || w->part == PART_DECODER) at = strstr(name, "layers.");
    if (!at && vision) at = strstr(name, "blocks.");
    if (!at) return -1;
    at += strlen("layers."); // as long as "blocks."
    char *end;
    const long layer = strtol(at, &end, 10);
    return end > at && *end == '.' && layer >= 0 && layer < INT_MAX ? (int)layer : -1;
}

char *weight_plain_name(const char *name)
{
    char *plain = xstrdup(name), *to = plain;
    bool level = true;
    while ((*to = plain_next(&name, &level))) to++;
    return plain;
}

static bool same_name(const char *a, const char *b)
{
    bool level_a = true, level_b = true;
    for (;;) {
        char c = plain_next(&a, &level_a);
        if (c != plain_next(&b, &level_b)) return false;
        if (!c) return true;
    }
}

const struct weight *weights_find(const struct weights *w, const char *name)
{
    const struct weight *similar = NULL;
    if (!w->count) return NULL;
    for (uint64_t i = plain_hash(name); w->slots[i & (w->slot_count - 1)]; i++) {
        const struct weight *one = &w->list[w->slots[i & (w->slot_count - 1)] - 1];
        if (!strcmp(one->name, name)) return one;
        if (!similar && same_name(one->name, name)) similar = one;
    }
    return similar;
}

const struct weight *weights_find_after(const struct weights *w, const struct weight *last,
                                        const char *name)
{
    enum { NEAR = 3 };
    const size_t first = last ? (size_t)(last - w->list) + 1 : w->count;
    for (size_t i = first; i < w->count && i < first + NEAR; i++)
        if (!strcmp(w->list[i].name, name)) return &w->list[i];
    for (size_t i = first; i < w->count && i < first + NEAR; i++)
        if (same_name(w->list[i].name, name)) return &w->list[i];
    return weights_find(w, name);
}

const struct weight *weights_of(const struct weights *w, enum model_part_kind part)
{
    for (size_t i = 0; i < w->count; i++)
        if (w->list[i].part == part) return &w->list[i];
    return NULL;
}
