// core/files/gguf_beside.c -- which picture encoder beside a GGUF model is the model's.
//
//   Qwen2.5-VL-3B-Instruct-Q4_K_M.gguf
//   mmproj-Qwen2.5-VL-3B-Instruct-f16.gguf     its own: all its words are in the model's name
//   mmproj-Qwen2.5-VL-7B-Instruct-f16.gguf     another's
//
// Among those that fit the model (kind and width) the one whose name is most like the model's is
// taken; of two that differ only in the type of their weights, the more exact 16-bit one.
#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/base/text.h"
#include "core/files/gguf_parts.h"

// --- names ---------------------------------------------------------------------------------------

static const char *base(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

// Lower-case words of a file's name without ".gguf", "mmproj" and the type of its weights.
struct words {
    char list[32][64];
    int count;
    char type[64]; // "f16", "q8"; "": the name says none
};

static bool is_type(const char *word)
{
    static const char *const floats[] = { "f16", "bf16", "f32", "fp16", "fp32" };
    for (size_t i = 0; i < sizeof floats / sizeof *floats; i++)
        if (!strcmp(word, floats[i])) return true;
    if (*word == 'i' || *word == 't') word++;
    return *word == 'q' && isdigit((unsigned char)word[1]);
}

// What follows in names of types of blocks: q4_k_m, iq4_xs, q8_0.
static bool is_form(const char *word)
{
    static const char *const forms[] = { "0", "1", "k", "s", "m", "l", "xl", "xs", "xxs", "nl" };
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
        if (!strcmp(word, forms[i])) return true;
    return false;
}

static void take_word(struct words *w, const char *start, size_t length, bool *in_type)
{
    char word[sizeof *w->list];
    if (length >= sizeof word || w->count == (int)(sizeof w->list / sizeof *w->list)) return;
    for (size_t i = 0; i < length; i++) word[i] = (char)tolower((unsigned char)start[i]);
    word[length] = 0;
    if (*in_type && is_form(word)) return;
    *in_type = is_type(word);
    if (*in_type)
        snprintf(w->type, sizeof w->type, "%s", word);
    else if (strcmp(word, "mmproj") != 0 && strcmp(word, "gguf") != 0 && strcmp(word, "model") != 0)
        snprintf(w->list[w->count++], sizeof *w->list, "%s", word);
}

static void read_words(const char *path, struct words *w)
{
    bool in_type = false;
    *w = (struct words){ 0 };
    for (const char *p = base(path); *p;) {
        const char *start = p;
        while (isalnum((unsigned char)*p) || (*p & 0x80)) p++;
        if (p > start) take_word(w, start, (size_t)(p - start), &in_type);
        if (*p) p++;
    }
}

static bool has_word(const struct words *w, const char *word)
{
    for (int i = 0; i < w->count; i++)
        if (!strcmp(w->list[i], word)) return true;
    return false;
}

// "mmproj-NAME" for NAME.
static bool is_named_after(const char *encoder, const char *model)
{
    const char *name = base(encoder);
    return !strncmp(name, "mmproj-", 7) && !strcmp(name + 7, base(model));
}

// How like the model's name an encoder's is; greater is nearer.
struct likeness {
    bool same;    // mmproj-NAME.gguf
    bool within;  // all its words are the model's: it names no other model
    bool named;   // and there are some
    double share; // of the words of both names, those in both: 0..1
};

static struct likeness likeness_of(const char *encoder, const char *model)
{
    struct words a, b;
    int common = 0;
    read_words(encoder, &a);
    read_words(model, &b);
    for (int i = 0; i < a.count; i++) common += has_word(&b, a.list[i]);
    const int all = a.count + b.count;
    return (struct likeness){ .same = is_named_after(encoder, model),
                              .within = common == a.count,
                              .named = a.count && common == a.count,
                              .share = all ? 2 * common / (double)all : 0 };
}

static int type_rank(const char *path)
{
    static const char *const order[] = { "f16", "fp16", "bf16", "f32", "fp32", "" };
    const int n = sizeof order / sizeof *order;
    struct words w;
    read_words(path, &w);
    for (int i = 0; i < n; i++)
        if (!strcmp(w.type, order[i])) return n - i;
    return 0;
}

// --- candidates ----------------------------------------------------------------------------------

struct candidate {
    char *path;
    struct likeness likeness;
    struct gguf *file; // NULL: it does not fit
    const struct gguf_encoder *kind;
    struct err why; // it does not
};

struct candidates {
    struct candidate *list;
    size_t count, fitting;
};

static int nearness(const struct candidate *a, const struct candidate *b)
{
    const struct likeness *x = &a->likeness, *y = &b->likeness;
    if (!a->file != !b->file) return a->file ? -1 : 1;
    if (x->same != y->same) return x->same ? -1 : 1;
    if (x->within != y->within) return x->within ? -1 : 1;
    return x->share > y->share ? -1 : x->share < y->share;
}

static bool same_words(const char *path, const char *other)
{
    struct words a, b;
    read_words(path, &a);
    read_words(other, &b);
    if (a.count != b.count) return false;
    for (int i = 0; i < a.count; i++)
        if (!has_word(&b, a.list[i])) return false;
    return true;
}

static int compare_candidates(const void *a, const void *b)
{
    const struct candidate *x = a, *y = b;
    const int near = nearness(x, y), rank = type_rank(y->path) - type_rank(x->path);
    return near ? near : rank ? rank : strcmp(x->path, y->path);
}

static void add_candidate(struct candidates *all, char *path, const char *model,
                          const struct gguf *text)
{
    all->list = xreallocarray(all->list, all->count + 1, sizeof *all->list);
    struct candidate *c = &all->list[all->count++];
    *c = (struct candidate){ .path = path, .likeness = likeness_of(path, model) };
    c->file = gguf_open(path, &c->why);
    c->kind = c->file ? gguf_encoder_find(c->file, &c->why) : NULL;
    if (c->kind && gguf_encoder_fits(c->kind, c->file, text, &c->why) == 0) {
        all->fitting++;
        return;
    }
    gguf_close(c->file);
    c->file = NULL;
}

// The *mmproj*.gguf in the model's folder, the nearest first.
static struct candidates find_all(const char *model, const struct gguf *text)
{
    const char *name = base(model);
    char *folder = name > model ? xstrndup(model, (size_t)(name - model)) : xstrdup("./");
    struct candidates all = { 0 };
    DIR *dir = opendir(folder);
    for (struct dirent *entry; dir && (entry = readdir(dir));)
        if (strstr(entry->d_name, "mmproj") && text_ends(entry->d_name, ".gguf"))
            add_candidate(&all, xasprintf("%s%s", folder, entry->d_name), model, text);
    if (dir) closedir(dir);
    free(folder);
    if (all.count) qsort(all.list, all.count, sizeof *all.list, compare_candidates);
    return all;
}

static void release(struct candidates *all)
{
    for (size_t i = 0; i < all->count; i++) {
        gguf_close(all->list[i].file);
        free(all->list[i].path);
    }
    free(all->list);
}

// --- the choice ----------------------------------------------------------------------------------

static char *names_from(const struct candidates *all, size_t first, size_t end)
{
    struct buf b = { 0 };
    for (size_t i = first; i < end; i++)
        buf_printf(&b, "%s%s", i > first ? ", " : "", base(all->list[i].path));
    return b.data;
}

// Several are equally near, and not one encoder with weights of several types.
static int check_one(const struct candidates *all, const char *model, struct err *err)
{
    size_t equal = 1;
    const struct candidate *first = all->list;
    while (equal < all->fitting && nearness(first, &all->list[equal]) == 0) equal++;
    bool unclear = false;
    for (size_t i = 1; i < equal; i++)
        unclear |= !same_words(first->path, all->list[i].path) ||
                   (i == 1 && type_rank(first->path) == type_rank(all->list[i].path));
    if (!unclear) return 0;
    char *names = names_from(all, 0, equal);
    err_set(err,
            "'%s': several picture encoders beside it fit, and their names do not say which is its "
            "own: choose one with --mmproj FILE, or --mmproj none for text only (there are %s)",
            model, names);
    free(names);
    return -1;
}

// Says what was chosen where there was a choice.
static char *choice_notice(const struct candidates *all)
{
    if (all->fitting < 2) return NULL;
    char *others = names_from(all, 1, all->fitting);
    char *text = xasprintf("picture encoder: %s, whose name is the nearest to the model's; others "
                           "that fit: %s (--mmproj FILE chooses)",
                           base(all->list[0].path), others);
    free(others);
    return text;
}

// None fits. One that carries the model's name was meant for it: an error. The others may belong to
// other models in the folder.
static int none_fits(const struct candidates *all, struct gguf_beside *found, struct err *err)
{
    const struct candidate *first = all->list;
    if (!all->count) return 0;
    if (first->likeness.same || first->likeness.named)
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
    struct candidates all = find_all(model, text);
    *found = (struct gguf_beside){ 0 };
    int status = all.fitting ? check_one(&all, model, err) : none_fits(&all, found, err);
    if (status == 0 && all.fitting) {
        *found = (struct gguf_beside){ all.list->file, all.list->kind, choice_notice(&all) };
        all.list->file = NULL;
    }
    release(&all);
    return status;
}
