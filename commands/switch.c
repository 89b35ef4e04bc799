// commands/switch.c -- /capa, /align, /ira, /baseline: whole methods in one word.
//
// A word is a row of `rows` and a command below: its methods get their defaults and are switched
// on.
#include <string.h>

#include "commands/command.h"
#include "core/engine/presets.h"

enum { METHODS_MOST = 2 };

static const struct row {
    const char *word;
    const char *methods[METHODS_MOST]; // as struct method names them; the second where it can be on
    const char *kept; // a setting that says where parameters are, not what is done; or NULL
} rows[] = {
    { "capa", { "prune", "ffn_approx" }, "ffn.calibration" },
    { "align", { "norm_align" }, NULL },
    { "ira", { "ira" }, NULL },
};

static const struct row *row_of(const char *word)
{
    const struct row *row = rows;
    while (strcmp(row->word, word) != 0) row++;
    return row;
}

// Method k of a row; NULL: it has no more.
static const struct method *method_in(const struct row *row, int k)
{
    const struct method *m = NULL;
    if (k >= METHODS_MOST || !row->methods[k]) return NULL;
    for (int i = 0; (m = method_at(i)); i++)
        if (!strcmp(m->name, row->methods[k])) break;
    return m;
}

static void add_defaults(struct preset_values *v, const struct row *row)
{
    const struct method *m;
    for (int k = 0; (m = method_in(row, k)); k++)
        for (const struct setting *s = m->settings; s->key; s++)
            if (!row->kept || strcmp(s->key, row->kept) != 0) preset_add(v, s->key, s->def);
}

// The first `count` methods of the row on, the others as their defaults say: off.
static int set(struct shell *shell, const struct row *row, int count, struct err *err)
{
    struct preset_values v = { 0 };
    const struct method *m;
    add_defaults(&v, row);
    for (int k = 0; k < count && (m = method_in(row, k)); k++)
        preset_add(&v, m->toggle.key, m->toggle.on);
    const int status = engine_set_all(shell->engine, v.list, v.count, err);
    preset_values_release(&v);
    return status;
}

static int switch_on(struct shell *shell, const struct row *row, struct err *err)
{
    const struct method *first = method_in(row, 0), *second = method_in(row, 1);
    struct err why;
    if (second && set(shell, row, 2, &why) == 0) return 0;
    if (set(shell, row, 1, err) < 0) return -1;
    if (second)
        sinks_notice(shell->sinks, "%s=%s without %s=%s: %s", first->toggle.key, first->toggle.on,
                     second->toggle.key, second->toggle.on, why.text);
    return 0;
}

static int switch_off(struct shell *shell, const struct row *row, struct err *err)
{
    struct preset_values v = { 0 };
    const struct method *m;
    for (int k = 0; (m = method_in(row, k)); k++) preset_add(&v, m->toggle.key, m->toggle.off);
    const int status = engine_set_all(shell->engine, v.list, v.count, err);
    preset_values_release(&v);
    return status;
}

static int run(struct shell *shell, int argc, char **argv, struct err *err)
{
    const struct row *row = row_of(shell->running->name);
    const bool off = argc && !strcmp(argv[0], "off");
    if (argc && !off && strcmp(argv[0], "on") != 0)
        return err_set(err, "/%s takes on or off, not '%s'", row->word, argv[0]);
    return off ? switch_off(shell, row, err) : switch_on(shell, row, err);
}

static const char *const words[] = { "on", "off", NULL };

#define SWITCH(id, text, more)            \
    const struct command command_##id = { \
        .name = #id,                      \
        .usage = "/" #id " [on|off]",     \
        .help = text,                     \
        .details = more,                  \
        .max = 1,                         \
        .needs = NEEDS_MODEL,             \
        .live = "",                       \
        .complete = COMPLETE_WORDS,       \
        .words = words,                   \
        .run = run,                       \
    };

SWITCH(
    capa, "Enables CAPA with its defaults: pruning by contribution, Hadamard FFNs.",
    "Needs a calibration for the FFN approximation, which stays off without one, with a notice.\n"
    "/preset load capa loads the paper's recipe.")
SWITCH(align, "Enables norm alignment with its defaults.", NULL)
SWITCH(ira, "Enables IRA (information-regularized attention) with its defaults.",
       "Needs an adapter that was trained with train.ira.")

static int baseline_run(struct shell *shell, int argc, char **argv, struct err *err)
{
    struct preset_values v = { 0 };
    int status = preset_read(&v, preset_find("baseline")->set, NULL, err);
    if (status == 0) status = engine_set_all(shell->engine, v.list, v.count, err);
    preset_values_release(&v);
    return status;
}

const struct command command_baseline = {
    .name = "baseline",
    .usage = "/baseline",
    .help = "Disables every method; the adapter stays.",
    .live = "",
    .run = baseline_run,
};
