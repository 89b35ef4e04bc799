// core/files/gguf_beside.c -- chooses a GGUF model's picture encoder among the files beside it.
//
//   Qwen2.5-VL-3B-Instruct-Q4_K_M.gguf
//   mmproj-Qwen2.5-VL-3B-Instruct-f16.gguf     for this model: all words are in the model's name
//   mmproj-Qwen2.5-VL-7B-Instruct-f16.gguf     for another model
// Chooses the encoder with the most similar name among those that fit the model (type and width).
// If names differ only in the weight type, f16 is preferred to bf16, bf16 to f32.
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/folder.h"
#include "core/base/mem.h"
#include "core/base/text.h"
#include "core/files/gguf_parts.h"

// --- names ---------------------------------------------------------------------------------------

// Lower-case words of a file's name without ".gguf", "mmproj" and the type of its weights.
struct words {
    char list[32][64];
    int count;
    char type[64]; // "f16", "q8"; "" if the name has none
};

static bool is_weight_type(const char *word)
{
    static const char *const floats[] = { "f16", "bf16", "f32", "fp16", "fp32", NULL };
    if (text_listed(floats, word)) return true;
    if (*word == 'i' || *word == 't') word++;
    return *word == 'q' && isdigit((unsigned char)word[1]);
}

static void read_words(const char *path, struct words *w)
{
    // Words that continue a type's name: q4_k_m, iq4_xs, q8_0.
    static const char *const forms[] = {
        "0", "1", "k", "s", "m", "l", "xl", "xs", "xxs", "nl", NULL
    };
    static const char *const ignored[] = { "mmproj", "gguf", "model", NULL };
    const int most = sizeof w->list / sizeof *w->list;
    bool in_type = false;
    *w = (struct words){ 0 };
    for (const char *p = text_file_name(path); *p; p += *p != 0) {
        char word[sizeof *w->list];
        size_t length = 0;
        for (; isalnum((unsigned char)*p) || (*p & 0x80); p++, length++)
            if (length < sizeof word) word[length] = (char)tolower((unsigned char)*p);
        if (!length || length >= sizeof word || w->count == most) continue;
        word[length] = 0;
        if (in_type && text_listed(forms, word)) continue;
        in_type = is_weight_type(word);
        if (in_type)
            snprintf(w->type, sizeof w->type, "%s", word);
        else if (!text_listed(ignored, word))
            snprintf(w->list[w->count++], sizeof *w->list, "%s", word);
    }
}

// Number of words of `a` that are also in `b`.
static int count_common(const struct words *a, const struct words *b)
{
    int common = 0;
    for (int i = 0; i < a->count; i++) {
        int k = 0;
        while (k < b->count && strcmp(a->list[i], b->list[k]) != 0) k++;
        common += k < b->count;
    }
    return common;
}

// --- candidates ----------------------------------------------------------------------------------

struct candidate {
    char *path;
    struct words words;
    bool same;         // its name is mmproj-NAME.gguf
    bool within;       // all its words are in the model's name: it names no other model
    double share;      // share of the two names' words that occur in both: 0..1
    int exactness;     // rank of its weight type; the highest is preferred
    struct gguf *file; // NULL if it does not fit
    const struct gguf_encoder *kind;
    struct err why; // why it does not fit
};

struct candidates {
    struct candidate *list; // the best first
    size_t count, fitting;
};

static int compare_names(const struct candidate *a, const struct candidate *b)
{
    if (!a->file != !b->file) return a->file ? -1 : 1;
    if (a->same != b->same) return a->same ? -1 : 1;
    if (a->within != b->within) return a->within ? -1 : 1;
    return a->share > b->share ? -1 : a->share < b->share;
}

static int compare_candidates(const void *a, const void *b)
{
    const struct candidate *x = a, *y = b;
    const int names = compare_names(x, y);
    if (names) return names;
    return x->exactness != y->exactness ? y->exactness - x->exactness : strcmp(x->path, y->path);
}

static void add_candidate(struct candidates *all, char *path, const char *model,
                          const struct gguf *text)
{
    static const char *const order[] = { "", "fp32", "f32", "bf16", "fp16", "f16" };
    struct words words;
    all->list = xreallocarray(all->list, all->count + 1, sizeof *all->list);
    struct candidate *c = &all->list[all->count++];
    *c = (struct candidate){ .path = path };
    read_words(path, &c->words);
    read_words(model, &words);
    const int common = count_common(&c->words, &words), both = c->words.count + words.count;
    const char *name = text_file_name(path);
    c->same = !strncmp(name, "mmproj-", 7) && !strcmp(name + 7, text_file_name(model));
    c->within = common == c->words.count;
    c->share = both ? 2 * common / (double)both : 0;
    for (int i = 0; i < (int)(sizeof order / sizeof *order); i++)
        if (!strcmp(c->words.type, order[i])) c->exactness = i + 1;
    c->file = gguf_open(path, &c->why);
    c->kind = c->file ? gguf_encoder_find(c->file, text, &c->why) : NULL;
    if (c->kind && gguf_encoder_fits(c->kind, c->file, text, &c->why) == 0) {
        all->fitting++;
        return;
    }
    gguf_close(c->file);
    c->file = NULL;
}

// --- the choice ----------------------------------------------------------------------------------

static char *names_from(const struct candidates *all, size_t first, size_t end)
{
    struct buf b = { 0 };
    for (size_t i = first; i < end; i++)
        buf_printf(&b, "%s%s", i > first ? ", " : "", text_file_name(all->list[i].path));
    return b.data;
}

// Refuses several encoders with equally similar names, unless they are the same encoder with
// different weight types.
static int check_one(const struct candidates *all, const char *model, struct err *err)
{
    size_t equal = 1;
    const struct candidate *first = all->list;
    bool unclear = false;
    for (; equal < all->fitting && compare_names(first, first + equal) == 0; equal++) {
        const struct candidate *other = first + equal;
        unclear |= first->words.count != other->words.count ||
                   count_common(&first->words, &other->words) != first->words.count ||
                   (equal == 1 && first->exactness == other->exactness);
    }
    if (!unclear) return 0;
    char *names = names_from(all, 0, equal);
    err_set(err,
            "'%s': several picture encoders beside it fit equally well: choose one with --mmproj "
            "FILE, or --mmproj none for text only (found: %s)",
            model, names);
    free(names);
    return -1;
}

static int choose(const struct candidates *all, const char *model, struct gguf_beside *found,
                  struct err *err)
{
    struct candidate *first = all->list;
    if (!all->count) return 0;
    if (all->fitting) {
        if (check_one(all, model, err) < 0) return -1;
        *found = (struct gguf_beside){ .file = first->file, .kind = first->kind };
        first->file = NULL;
        if (all->fitting < 2) return 0;
        char *others = names_from(all, 1, all->fitting);
        found->notice = xasprintf("picture encoder: %s, whose name is the most similar to the "
                                  "model's; others that fit: %s (choose with --mmproj FILE)",
                                  text_file_name(first->path), others);
        free(others);
        return 0;
    }
    // An encoder with the model's name was made for it; others may belong to other models.
    if (first->same || (first->within && first->words.count))
        return err_set(err,
                       "%s; --mmproj FILE names another encoder, --mmproj none loads the "
                       "language model alone",
                       first->why.text);
    found->notice = xasprintf("no picture encoder: %s", first->why.text);
    return 0;
}

int gguf_beside(const char *model, const struct gguf *text, struct gguf_beside *found,
                struct err *err)
{
    struct candidates all = { 0 };
    char *folder = text_folder(model), **names = folder_list(folder);
    *found = (struct gguf_beside){ 0 };
    for (char **name = names; *name; name++)
        if (strstr(*name, "mmproj") && text_ends(*name, ".gguf"))
            add_candidate(&all, xasprintf("%s%s", folder, *name), model, text);
    folder_list_free(names);
    free(folder);
    if (all.count) qsort(all.list, all.count, sizeof *all.list, compare_candidates);
    const int status = choose(&all, model, found, err);
    for (size_t i = 0; i < all.count; i++) {
        gguf_close(all.list[i].file);
        free(all.list[i].path);
    }
    free(all.list);
    return status;
}
