// core/train/select.c -- selects weights by rules like "@projector; *layernorm*; lora:q_proj:8". A
// training method is a row of a table with its rules (methods_list.h), so it trains exactly what
// these rules select.
#include "core/train/select.h"

#include <errno.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/model/weights.h"

static const struct method_row {
    const char *name;
    double rate; // learning rate if train.lr is auto
    const char *rules;
} methods[] = {
#define X(name, rate, rules) { name, rate, rules },
#include "core/train/methods_list.h"
#undef X
};

static const struct method_row *method_find(const char *name)
{
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++)
        if (!strcmp(methods[i].name, name)) return &methods[i];
    return NULL;
}

const char *select_method_name(int index)
{
    return index >= 0 && index < (int)(sizeof methods / sizeof *methods) ? methods[index].name
                                                                         : NULL;
}

// Returns the rules of a method; NULL: no such method.
static const char *select_method_rules(const char *name)
{
    const struct method_row *row = method_find(name);
    return row ? row->rules : NULL;
}

double select_method_rate(const char *name)
{
    const struct method_row *row = method_find(name);
    if (!row) BUG("no training method %s", name);
    return row->rate;
}

static const char *const part_words[MODEL_PARTS] = {
    [PART_VISION] = "vision",   [PART_PROJECTOR] = "projector", [PART_EMBEDDING] = "embedding",
    [PART_DECODER] = "decoder", [PART_HEAD] = "head",
};

struct selecting {
    struct selection *s;
    const struct select_item *items;
    char **plain; // [count] common names
    const struct select_lora *lora;
    bool typed; // the user wrote the rules: a pattern without a match is an error
};

// --- names ---------------------------------------------------------------------------------------

static bool matches(const struct selecting *k, size_t i, const char *pattern)
{
    char *own = weight_plain_name(k->items[i].name);
    const bool found = fnmatch(pattern, k->items[i].name, 0) == 0 ||
                       fnmatch(pattern, own, 0) == 0 || fnmatch(pattern, k->plain[i], 0) == 0;
    free(own);
    return found;
}

// Returns the name of a weight's layer, for LoRA: the weight's name without ".weight", such as
// "layers.0.self_attn.q_proj"; NULL if the name does not end in ".weight". The caller frees it.
static char *layer_of(const char *plain)
{
    const size_t n = strlen(plain), tail = strlen(".weight");
    return n > tail && !strcmp(plain + n - tail, ".weight") ? xstrndup(plain, n - tail) : NULL;
}

static const char *last_level(const char *name)
{
    const char *dot = strrchr(name, '.');
    return dot ? dot + 1 : name;
}

// "lora:*" and "lora:@PART" exclude routers of experts: a small change to a router sends rows to
// other experts, and other programs attach no LoRA to a router that is not a linear layer.
static bool is_router(const char *plain)
{
    return !strcmp(last_level(plain), "gate");
}

static bool part_named(const char *word, enum model_part_kind part)
{
    return !strcmp(word, "all") || !strcmp(word, part_words[part]);
}

static int check_part(const char *rule, const char *word, struct err *err)
{
    if (!strcmp(word, "all")) return 0;
    for (int part = 0; part < MODEL_PARTS; part++)
        if (!strcmp(word, part_words[part])) return 0;
    return err_set(
        err, "'%s': the parts are @decoder, @embedding, @head, @projector, @vision and @all", rule);
}

static bool layer_matches(const struct selecting *k, size_t i, const char *pattern)
{
    if (!k->items[i].linear) return false;
    char *plain = layer_of(k->plain[i]), *full = layer_of(k->items[i].name);
    bool found = false;
    if (plain && *pattern == '@') {
        found = part_named(pattern + 1, k->items[i].part) && !is_router(plain);
    } else if (plain && strchr(pattern, '.')) {
        found = fnmatch(pattern, plain, 0) == 0 || fnmatch(pattern, full, 0) == 0;
    } else if (plain && k->items[i].part == PART_DECODER) {
        found = (fnmatch(pattern, last_level(plain), 0) == 0 ||
                 fnmatch(pattern, last_level(full), 0) == 0) &&
                (strcmp(pattern, "*") != 0 || !is_router(plain));
    }
    free(plain);
    free(full);
    return found;
}

// Returns the edit distance between a typed pattern (without its stars) and as many last levels of
// a name as the pattern has.
static size_t distance(const char *pattern, const char *name)
{
    struct buf typed = { 0 };
    size_t levels = 0;
    for (const char *c = pattern; *c; c++)
        if (*c != '*') buf_putc(&typed, *c);
    const char *word = typed.data ? typed.data : "";
    while (*word == '.') word++;
    for (const char *c = word; *c; c++) levels += *c == '.';
    const char *tail = name + strlen(name);
    for (size_t seen = 0; tail > name; tail--)
        if (tail[-1] == '.' && seen++ == levels) break;
    const size_t d = text_distance(word, tail);
    buf_release(&typed);
    return d;
}

// Sets an error that suggests the nearest name ("did you mean 'X'").
static int nothing_found(const struct selecting *k, const char *rule, const char *pattern,
                         bool layers, struct err *err)
{
    const char *best = NULL;
    char *layer = NULL;
    size_t least = (size_t)-1;
    for (size_t i = 0; i < k->s->count; i++) {
        if (layers && !k->items[i].linear) continue;
        char *shown = layers ? layer_of(k->plain[i]) : xstrdup(k->plain[i]);
        // Also compares without ".weight", which a user may leave out.
        char *shorter = layers || !shown ? NULL : layer_of(shown);
        size_t d = shown ? distance(pattern, shown) : (size_t)-1;
        if (shorter && distance(pattern, shorter) < d) d = distance(pattern, shorter);
        if (d < least) {
            least = d;
            best = k->items[i].name;
            free(layer);
            layer = shown;
            shown = NULL;
        }
        free(shown);
        free(shorter);
    }
    err_set(err, "'%s' matches no weight of this model%s%s%s", rule, best ? "; did you mean '" : "",
            layer ? layer : "", best ? "' (\"*\" matches any characters)" : "");
    free(layer);
    return -1;
}

// --- rules ---------------------------------------------------------------------------------------

// Applies @PART or @PART:PATTERN.
static int apply_part(struct selecting *k, const char *rule, struct err *err)
{
    const char *colon = strchr(rule, ':');
    char *word = colon ? xstrndup(rule + 1, (size_t)(colon - rule - 1)) : xstrdup(rule + 1);
    const int status = check_part(rule, word, err);
    bool found = false;
    for (size_t i = 0; status == 0 && i < k->s->count; i++) {
        if (k->items[i].extra || !part_named(word, k->items[i].part)) continue;
        if (colon && !matches(k, i, colon + 1)) continue;
        k->s->item[i].trained = found = true;
    }
    free(word);
    if (status < 0) return -1;
    if (colon && !found && k->typed) return nothing_found(k, rule, colon + 1, false, err);
    return 0;
}

// Applies lora:LAYERS[:RANK]; commas separate layers.
static int apply_lora(struct selecting *k, const char *rule, struct err *err)
{
    const char *layers = rule + strlen("lora:"), *colon = strchr(layers, ':');
    int64_t rank = k->lora->rank;
    if (colon) {
        char *end;
        errno = 0;
        rank = strtoll(colon + 1, &end, 10);
        if (end == colon + 1 || *end || errno || rank < 1 || rank > 65536)
            return err_set(err, "'%s': the rank after ':' must be a whole number from 1 to 65536",
                           rule);
    }
    char *list = colon ? xstrndup(layers, (size_t)(colon - layers)) : xstrdup(layers), *save;
    int status = 0;
    bool any = false;
    for (char *one = strtok_r(list, ", \t", &save); one && status == 0;
         one = strtok_r(NULL, ", \t", &save)) {
        bool found = false;
        if (*one == '@' && check_part(rule, one + 1, err) < 0) status = -1;
        for (size_t i = 0; status == 0 && i < k->s->count; i++)
            if (layer_matches(k, i, one)) {
                k->s->item[i].rank = rank;
                k->s->item[i].stabilised = k->lora->stabilised;
                k->s->item[i].alpha = k->lora->stabilised
                                          ? k->lora->alpha
                                          : k->lora->alpha / (double)k->lora->rank * (double)rank;
                found = true;
            }
        any = true;
        if (status == 0 && !found) status = nothing_found(k, rule, one, true, err);
    }
    if (status == 0 && !any)
        status = err_set(err, "'%s' names no layer; write lora:q_proj,v_proj:8 or lora:*", rule);
    free(list);
    return status;
}

// Applies a rule: PATTERN, @..., or lora:...
static int apply(struct selecting *k, const char *rule, struct err *err)
{
    bool found = false;
    if (!strncmp(rule, "lora:", 5)) return apply_lora(k, rule, err);
    if (*rule == '@') return apply_part(k, rule, err);
    for (size_t i = 0; i < k->s->count; i++)
        if (matches(k, i, rule)) k->s->item[i].trained = found = true;
    return found || !k->typed ? 0 : nothing_found(k, rule, rule, false, err);
}

// Returns the next rule without surrounding spaces and advances; NULL at the end. In a lora rule,
// commas before the rank separate layers, not rules.
static char *next_rule(const char **rules)
{
    const char *at = *rules + strspn(*rules, " \t\r\n,;");
    if (!*at) return NULL;
    const bool lora = !strncmp(at, "lora:", 5);
    const char *from = at;
    bool ranked = false;
    for (at += lora ? 5 : 0; *at && *at != ';' && (*at != ',' || (lora && !ranked)); at++)
        ranked |= *at == ':';
    *rules = at;
    while (at > from && strchr(" \t\r\n", at[-1])) at--;
    return xstrndup(from, (size_t)(at - from));
}

// --- sums ----------------------------------------------------------------------------------------

// Selects the parameters of methods that are trained together with the selected weights, and counts
// all parameters.
static void sum_up(struct selection *s, const struct select_item *items)
{
    bool part[MODEL_PARTS] = { false };
    for (size_t i = 0; i < s->count; i++)
        if (!items[i].extra && s->item[i].trained) part[items[i].part] = true;
    s->whole = true;
    for (size_t i = 0; i < s->count; i++) {
        if (items[i].extra && (items[i].always || (items[i].with_part && part[items[i].part])))
            s->item[i].trained = true;
        const int64_t lora = s->item[i].rank * (items[i].shape[0] + items[i].shape[1]);
        int64_t own = 1;
        for (int r = 0; r < items[i].rank; r++) own *= items[i].shape[r];
        for (int k = 0; k < 2; k++) {
            struct params_count *c = &s->parameters[k ? MODEL_PARTS : items[i].part];
            c->total += own + lora;
            c->trained += (s->item[i].trained ? own : 0) + lora;
        }
        s->lora |= lora > 0;
        const bool language = items[i].part == PART_DECODER || items[i].part == PART_EMBEDDING ||
                              items[i].part == PART_HEAD;
        if (language && !items[i].extra && !s->item[i].trained) s->whole = false;
    }
}

static int run(struct selection *s, const char *rules, bool typed, const struct select_lora *lora,
               const struct select_item *items, size_t count, struct err *err)
{
    *s = (struct selection){ .item = xcalloc(count + 1, sizeof *s->item), .count = count };
    struct selecting k = { .s = s, .items = items, .lora = lora, .typed = typed };
    k.plain = xcalloc(count + 1, sizeof *k.plain);
    for (size_t i = 0; i < count; i++)
        k.plain[i] = weight_plain_name(items[i].common ? items[i].common : items[i].name);
    int status = 0;
    char *rule;
    for (const char *at = rules; status == 0 && (rule = next_rule(&at)); free(rule))
        status = apply(&k, rule, err);
    if (status == 0) {
        sum_up(s, items);
        // A weight that is trained in full needs no LoRA. If all weights of decoder, embedding and
        // head are trained, the result is a model folder, which holds no LoRA.
        for (size_t i = 0; i < count && status == 0; i++)
            if (s->item[i].rank && (s->item[i].trained || s->whole))
                status = err_set(err, "'%s' would get a LoRA %s: choose one", k.plain[i],
                                 s->item[i].trained
                                     ? "and be trained in full"
                                     : "although decoder, embedding and head are trained in full, "
                                       "and their model folder holds no LoRA");
        if (status == 0 && !s->parameters[MODEL_PARTS].trained)
            status = err_set(err, "'%s' trains nothing in this model", rules);
    }
    for (size_t i = 0; i < count; i++) free(k.plain[i]);
    free(k.plain);
    if (status < 0) selection_release(s);
    return status;
}

int select_method(struct selection *s, const char *method, const struct select_lora *lora,
                  const struct select_item *items, size_t count, struct err *err)
{
    const char *rules = select_method_rules(method);
    *s = (struct selection){ 0 };
    if (!rules) return err_set(err, "no training method '%s'", method);
    if (run(s, rules, false, lora, items, count, err) < 0)
        return err_in(err, "train.method %s", method);
    return 0;
}

int select_spelled(struct selection *s, const char *rules, const struct select_lora *lora,
                   const struct select_item *items, size_t count, struct err *err)
{
    if (run(s, rules, true, lora, items, count, err) < 0) return err_in(err, "train.params");
    return 0;
}

void selection_release(struct selection *s)
{
    free(s->item);
    *s = (struct selection){ 0 };
}
