// core/methods/hide.c -- hides tokens: no other position attends to them in the chosen layers.
//
//   row i attends to the keys that it would see, without those of hidden positions except its own
//
// Recurrent layers leave the hidden positions out of their state. Rows before the first row that
// would see a hidden position other than its own are computed as always, and so keep their bits.
//
// All rows share one list of keys, of which row i sees the first count[i], so that attention
// computes them together (core/model/attend.c). A hidden row has a list of its own, with its own
// key.
#include <stdlib.h>
#include <string.h>

#include "core/methods/hide.h"
#include "core/methods/kit.h"
#include "core/model/layer.h"
#include "core/model/pass.h"

static const char *const none[] = { "none", NULL };

static const struct setting hide_settings[] = {
    { .key = "hide.tokens",
      .type = SETTING_LIST,
      .def = "none",
      .choices = none,
      .stale = STALE_KV,
      .help = "Positions of the conversation to which no other position attends, counted from 0: "
              "78,91-94; /hide POSITIONS sets it.",
      .also = "mask remove drop visual tokens attention knockout intervention" },
    { .key = "hide.layers",
      .type = SETTING_LIST,
      .def = "0%-100%",
      .stale = STALE_KV,
      .help = "Layers in which the positions of hide.tokens are hidden." },
    { 0 },
};

// More positions than any conversation has.
enum { POSITIONS = 1 << 22 };

struct hide {
    const struct decoder_config *config;
    bool *hidden;     // [end] by position of the sequence
    int64_t end;      // one past the last hidden position
    int64_t reusable; // cached rows that do not depend on a change of hide.tokens
    // The lists of the current layer, valid until the next one begins.
    int32_t *visible;     // [P] the keys that are not hidden
    const int32_t **keys; // [N]
    int64_t *count;       // [N]
    int32_t **own;        // [N] lists of hidden rows; NULL: the shared list
    int64_t owned;        // length of `own`
    int32_t *only;        // [N] for SITE_STATE
};

static bool hides(const struct hide *h, int64_t position)
{
    return position < h->end && h->hidden[position];
}

// Returns one more than the largest number in the text, at most POSITIONS.
static int64_t count_positions(const char *text)
{
    int64_t count = 1;
    for (const char *p = text; *(p += strcspn(p, "0123456789"));) {
        char *behind;
        const long long number = strtoll(p, &behind, 10);
        if (number >= count) count = number < POSITIONS ? number + 1 : POSITIONS;
        p = behind;
    }
    return count;
}

bool *hide_positions(const struct settings *s, int64_t *end, struct err *err)
{
    const char *text = settings_text(s, "hide.tokens");
    const int64_t count = count_positions(text);
    bool *hidden = xcalloc((size_t)count, sizeof *hidden);
    int status = 0;
    *end = 0;
    if (strchr(text, '%'))
        status = err_set(err, "hide.tokens takes positions such as 78,91-94, not shares: %s", text);
    else if (!settings_is(s, "hide.tokens", "none"))
        status = settings_numbers(s, "hide.tokens", count, "conversation", "position", hidden, err);
    for (int64_t i = 0; i < count; i++)
        if (hidden[i]) *end = i + 1;
    if (status >= 0) return xreallocarray(hidden, (size_t)*end + 1, sizeof *hidden);
    free(hidden);
    return NULL;
}

static int hide_possible(const struct settings *s, struct err *err)
{
    int64_t end;
    bool *hidden = hide_positions(s, &end, err);
    free(hidden);
    return hidden ? 0 : -1;
}

static int hide_check(const struct method_env *env, struct err *err)
{
    return hide_possible(env->settings, err);
}

static void clear_lists(struct hide *h)
{
    for (int64_t i = 0; i < h->owned; i++) free(h->own[i]);
    h->owned = 0;
}

static void hide_release(void *state)
{
    struct hide *h = state;
    clear_lists(h);
    free(h->hidden);
    free(h->visible);
    free(h->keys);
    free(h->count);
    free(h->own);
    free(h->only);
    free(h);
}

static int hide_start(void **state, const struct method_env *env, struct err *err)
{
    struct hide *h = *state;
    int64_t end, first = 0;
    bool *hidden = hide_positions(env->settings, &end, err);
    if (!hidden) return -1;
    if (!h) {
        *state = h = xcalloc(1, sizeof *h);
        h->reusable = INT64_MAX;
    }
    h->config = &env->model->decoder.config;
    // Rows before the first position that changes do not see it. Its own row sees it in any case,
    // but leaves another recurrent state.
    const int64_t own = !decoder_uses(h->config, &attention_delta);
    while ((first < h->end || first < end) && hides(h, first) == (first < end && hidden[first]))
        first++;
    if ((first < h->end || first < end) && first + own < h->reusable) h->reusable = first + own;
    free(h->hidden);
    h->hidden = hidden;
    h->end = end;
    return 0;
}

static bool hide_keeps(const void *state, const char *key, const struct settings *s)
{
    return !strcmp(key, "hide.tokens");
}

static void hide_trim(void *state, int64_t rows)
{
    struct hide *h = state;
    if (rows <= h->reusable) h->reusable = INT64_MAX;
}

static int64_t hide_reusable(void *state, const struct sequence *cached, int64_t rows)
{
    const struct hide *h = state;
    // If the tokens of a picture see each other, earlier tokens of it change too.
    const int64_t limit =
        h->reusable < cached->n ? pass_start(h->config, cached, h->reusable) : cached->n;
    return rows < limit ? rows : limit;
}

// --- attention -----------------------------------------------------------------------------------

// Returns the position in its sample of a row of the sequence.
static int64_t position_of(const struct site_args *args, int64_t row)
{
    const int32_t *start = site_sequence(args)->start;
    return start ? row - start[row] : row;
}

// The keys of a pass: before[j] of the keys before key j are visible.
struct keys {
    int64_t n, all;  // N, P
    int32_t *before; // [P+1]
};

static int64_t end_of(const struct site_args *args, int64_t i)
{
    return args->end ? args->end[i] : args->past + i + 1;
}

// Lists the keys of row i, whose own key is hidden.
static int32_t *own_list(const struct hide *h, const struct site_args *args, const struct keys *k,
                         int64_t i)
{
    const int64_t own = args->past + i, before = k->before[own], all = k->before[end_of(args, i)];
    int32_t *list = xreallocarray(NULL, (size_t)all + 1, sizeof *list);
    memcpy(list, h->visible, (size_t)before * sizeof *list);
    list[before] = (int32_t)own;
    memcpy(list + before + 1, h->visible + before, (size_t)(all - before) * sizeof *list);
    return list;
}

static void list_keys(struct hide *h, struct site_args *args, const struct keys *k)
{
    int64_t from = k->n;
    h->keys = xreallocarray(h->keys, (size_t)k->n + 1, sizeof *h->keys);
    h->count = xreallocarray(h->count, (size_t)k->n + 1, sizeof *h->count);
    h->own = xreallocarray(h->own, (size_t)k->n + 1, sizeof *h->own);
    for (int64_t i = 0; i < k->n; i++) {
        const int64_t own = args->past + i, end = end_of(args, i);
        const bool hidden = k->before[own + 1] == k->before[own];
        if (from == k->n && k->before[end] + hidden == end) continue; // sees no hidden position
        if (from == k->n) from = i;
        h->own[h->owned] = hidden ? own_list(h, args, k, i) : NULL;
        h->keys[h->owned] = hidden ? h->own[h->owned] : h->visible;
        h->count[h->owned++] = k->before[end] + hidden;
    }
    if (from < k->n)
        args->seen = (struct seen_keys){ .from = from, .keys = h->keys, .count = h->count };
}

static int hide_values(void *state, struct graph *g, struct site_args *args)
{
    struct hide *h = state;
    struct keys k = { .n = args->q->shape[0], .all = args->k->shape[0] };
    k.before = xcalloc((size_t)k.all + 1, sizeof *k.before);
    h->visible = xreallocarray(h->visible, (size_t)k.all + 1, sizeof *h->visible);
    clear_lists(h);
    for (int64_t j = 0; j < k.all; j++) {
        const bool hidden = hides(h, position_of(args, site_key(args, j)));
        k.before[j + 1] = k.before[j] + !hidden;
        if (!hidden) h->visible[k.before[j]] = (int32_t)j;
    }
    if (k.before[k.all] < k.all) list_keys(h, args, &k);
    free(k.before);
    return 0;
}

static int hide_state(void *state, struct graph *g, struct site_args *args)
{
    struct hide *h = state;
    const int64_t n = args->x->shape[0];
    int64_t count = 0;
    h->only = xreallocarray(h->only, (size_t)n + 1, sizeof *h->only);
    for (int64_t i = 0; i < n; i++)
        if (!hides(h, position_of(args, site_row(args, i)))) h->only[count++] = (int32_t)i;
    if (count == n) return 0;
    if (g->tape) {
        graph_fail(g, "gradients cannot leave tokens out of a recurrent state: /hide off, or /set "
                      "hide.layers to the layers with attention");
        return -1;
    }
    args->only = h->only, args->only_count = count;
    return 0;
}

static void hide_badge(struct buf *b, const struct settings *s, int layer)
{
    int64_t end, count = 0;
    bool *hidden = hide_positions(s, &end, NULL);
    if (!hidden) return;
    for (int64_t i = 0; i < end; i++) count += hidden[i];
    buf_printf(b, "HIDE %lld token%s", (long long)count, count == 1 ? "" : "s");
    free(hidden);
}

const struct method method_hide = {
    .name = "hide",
    .title = "hidden tokens",
    .settings = hide_settings,
    .toggle = { "hide.tokens", "none", NULL },
    .text = true,
    .badge = hide_badge,
    .possible = hide_possible,
    .check = hide_check,
    .keeps = hide_keeps,
    .start = hide_start,
    .release = hide_release,
    .trim = hide_trim,
    .reusable = hide_reusable,
    .layers = "hide.layers",
    .at = { { SITE_VALUES, hide_values }, { SITE_STATE, hide_state } },
};
