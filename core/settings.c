// core/settings.c -- the table of settings, and sets of values.
#include "core/settings.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "core/mem.h"

static const char *const word_auto[] = { "auto", NULL };
static const char *const word_today[] = { "today", NULL };
static const char *const matmul_modes[] = { "f32", "bf16", NULL };
static const char *const resize_orders[] = { "pillow13", "pillow12", NULL };

static const struct setting rows[] = {
    { "sample.temperature", SETTING_REAL, 0, 100, "0", NULL, NULL, STALE_NOTHING,
      "Randomness of the choice of each token; 0 always takes the likeliest (greedy)." },
    { "sample.top_k", SETTING_INTEGER, 0, 1e9, "0", "tokens", NULL, STALE_NOTHING,
      "Chooses among this many likeliest tokens; 0 among all." },
    { "sample.top_p", SETTING_REAL, 0, 1, "1", NULL, NULL, STALE_NOTHING,
      "Chooses among the fewest likeliest tokens whose probabilities reach this sum; 1 among "
      "all." },
    { "sample.min_p", SETTING_REAL, 0, 1, "0", NULL, NULL, STALE_NOTHING,
      "Leaves out tokens less likely than this share of the likeliest one's probability." },
    { "sample.repeat_penalty", SETTING_REAL, 0.01, 100, "1", NULL, NULL, STALE_NOTHING,
      "Makes tokens that already stand in the context less likely; 1 changes nothing." },
    { "sample.seed", SETTING_INTEGER, 0, 9007199254740991, "0", NULL, NULL, STALE_NOTHING,
      "Same seed, same conversation, same answer; /regen raises it when tokens are drawn." },
    { "sample.max_tokens", SETTING_INTEGER, 1, 1e9, "512", "tokens", NULL, STALE_NOTHING,
      "Longest answer." },
    { "sample.ignore_eos", SETTING_FLAG, 0, 0, "off", NULL, NULL, STALE_NOTHING,
      "Goes on where the model would end its answer, up to sample.max_tokens." },
    { "chat.template", SETTING_TEXT, 0, 0, "auto", NULL, word_auto, STALE_PROMPT,
      "Prompt layout: auto (the folder's own), vicuna, llama-3, llama-3.2, chatml, plain ..." },
    { "chat.date", SETTING_TEXT, 0, 0, "today", NULL, word_today, STALE_PROMPT,
      "Date for layouts that tell it to the model (Llama-3.2): today, or text as \"26 Jul "
      "2024\"." },
    { "ctx.max", SETTING_INTEGER, 1, 1e8, "auto", "tokens", word_auto, STALE_NOTHING,
      "Tokens a conversation may hold; auto is the smaller of the model's limit and 8192." },
    { "image.resize_order", SETTING_CHOICE, 0, 0, "pillow13", NULL, resize_orders, STALE_VISUAL,
      "Which axis a picture is resized along first, as Pillow 13 or as Pillow 12 and older did." },
    { "compute.matmul", SETTING_CHOICE, 0, 0, "f32", NULL, matmul_modes, STALE_KV,
      "Arithmetic of matrix products: f32, or bf16 where the CPU multiplies it (faster, "
      "rounded)." },
};

enum { ROWS = sizeof rows / sizeof rows[0] };

struct settings {
    char *text[ROWS]; // plain spelling of each value
};

int settings_count(void)
{
    return ROWS;
}

const struct setting *settings_row(int index)
{
    return index >= 0 && index < ROWS ? &rows[index] : NULL;
}

const struct setting *settings_find(const char *key)
{
    for (int i = 0; i < ROWS; i++)
        if (!strcmp(rows[i].key, key)) return &rows[i];
    return NULL;
}

const char *settings_nearest(const char *key)
{
    const char *best = NULL;
    size_t best_distance = 4; // a longer way is no typing error
    for (int i = 0; i < ROWS; i++) {
        // The part after the group's name alone is near as well: "top_p".
        const char *tail = strchr(rows[i].key, '.') + 1;
        size_t distance = !strcasecmp(tail, key) ? 0 : text_distance(key, rows[i].key);
        if (distance < best_distance) {
            best_distance = distance;
            best = rows[i].key;
        }
    }
    return best;
}

struct settings *settings_new(void)
{
    struct settings *s = xcalloc(1, sizeof *s);
    for (int i = 0; i < ROWS; i++) s->text[i] = xstrdup(rows[i].def);
    return s;
}

void settings_free(struct settings *s)
{
    for (int i = 0; s && i < ROWS; i++) free(s->text[i]);
    free(s);
}

// The word of `words` that was typed, in any case of letters; NULL if none.
static const char *word_find(const char *const *words, const char *typed)
{
    for (; words && *words; words++)
        if (!strcasecmp(*words, typed)) return *words;
    return NULL;
}

static void words_list(struct buf *b, const char *const *words)
{
    for (const char *const *w = words; *w; w++) buf_printf(b, "%s%s", w == words ? "" : ", ", *w);
}

static int refuse_choice(const struct setting *row, const char *value, struct err *err)
{
    struct buf b = { 0 };
    words_list(&b, row->choices);
    err_set(err, "%s cannot be '%s': choose one of %s", row->key, value, b.data);
    buf_release(&b);
    return -1;
}

static char *spell_number(const struct setting *row, const char *value, struct err *err)
{
    bool whole = row->type == SETTING_INTEGER;
    char *end;
    double x = strtod(value, &end);
    if (*value && !*end && x >= row->min && x <= row->max && (!whole || x == floor(x)))
        return whole ? xasprintf("%.0f", x) : xasprintf("%.15g", x);
    struct buf b = { 0 };
    if (row->choices) {
        buf_puts(&b, " or ");
        words_list(&b, row->choices);
    }
    err_set(err, "%s cannot be '%s': it takes a %s from %.16g to %.16g%s", row->key, value,
            whole ? "whole number" : "number", row->min, row->max, b.data ? b.data : "");
    buf_release(&b);
    return NULL;
}

static const char *const words_on[] = { "on", "true", "yes", "1", NULL };
static const char *const words_off[] = { "off", "false", "no", "0", NULL };

// The plain spelling of a typed value; NULL with a message when it is not allowed.
static char *spell(const struct setting *row, const char *value, struct err *err)
{
    const char *word = word_find(row->choices, value);
    if (word) return xstrdup(word);
    switch (row->type) {
    case SETTING_FLAG:
        if (word_find(words_on, value)) return xstrdup("on");
        if (word_find(words_off, value)) return xstrdup("off");
        err_set(err, "%s cannot be '%s': it is on or off", row->key, value);
        return NULL;
    case SETTING_INTEGER:
    case SETTING_REAL: return spell_number(row, value, err);
    case SETTING_CHOICE: refuse_choice(row, value, err); return NULL;
    case SETTING_TEXT: return xstrdup(value);
    }
    BUG("setting %s has no type", row->key);
}

int settings_unknown(const char *key, struct err *err)
{
    const char *near = settings_nearest(key);
    return near ? err_set(err, "there is no setting '%s': did you mean '%s'?", key, near)
                : err_set(err, "there is no setting '%s' (/settings lists them)", key);
}

int settings_set(struct settings *s, const char *key, const char *value, struct err *err)
{
    const struct setting *row = settings_find(key);
    if (!row) return settings_unknown(key, err);
    char *text = spell(row, value, err);
    if (!text) return -1;
    free(s->text[row - rows]);
    s->text[row - rows] = text;
    return 0;
}

void settings_reset(struct settings *s, const char *key)
{
    const struct setting *row = settings_find(key);
    if (!row) BUG("no setting %s", key);
    free(s->text[row - rows]);
    s->text[row - rows] = xstrdup(row->def);
}

bool settings_changed(const struct settings *s, const char *key)
{
    const struct setting *row = settings_find(key);
    if (!row) BUG("no setting %s", key);
    return strcmp(s->text[row - rows], row->def) != 0;
}

const char *settings_text(const struct settings *s, const char *key)
{
    const struct setting *row = settings_find(key);
    if (!row) BUG("no setting %s", key);
    return s ? s->text[row - rows] : row->def;
}

bool settings_is(const struct settings *s, const char *key, const char *word)
{
    return !strcmp(settings_text(s, key), word);
}

bool settings_flag(const struct settings *s, const char *key)
{
    return settings_is(s, key, "on");
}

int64_t settings_integer(const struct settings *s, const char *key)
{
    return strtoll(settings_text(s, key), NULL, 10);
}

double settings_real(const struct settings *s, const char *key)
{
    return strtod(settings_text(s, key), NULL);
}
