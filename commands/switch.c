// commands/switch.c -- /capa, /align, /ira, /baseline: whole methods in one word.
//
// A word is a row of `rows` and a command below: its methods get their defaults, then what `on`
// says.
#include <string.h>

#include "commands/command.h"
#include "core/engine/presets.h"

static const struct row {
    const char *word;
    const char *methods[5]; // as struct method names them
    const char *kept;       // a setting that says where parameters are, not what is done; or NULL
    const char *on, *more;  // more: what is switched on besides where it can be
    const char *off;
} rows[] = {
    { "capa",
      { "prune", "ffn_approx" },
      "ffn.calibration",
      "prune.score=contribution",
      "ffn.approx=hadamard",
      "prune.score=off ffn.approx=off" },
    { "align", { "norm_align" }, NULL, "norm.align=on", NULL, "norm.align=off" },
    { "ira", { "ira" }, NULL, "ira.on=on", NULL, "ira.on=off" },
};

static const struct row *row_of(const char *word)
{
    const struct row *row = rows;
    while (strcmp(row->word, word) != 0) row++;
    return row;
}

// The defaults of the row's methods.
static void add_defaults(struct preset_values *v, const struct row *row)
{
    const struct method *m;
    for (int k = 0; row->methods[k]; k++)
        for (int i = 0; (m = method_at(i)); i++) {
            if (strcmp(m->name, row->methods[k]) != 0) continue;
            for (const struct setting *s = m->settings; s->key; s++)
                if (!row->kept || strcmp(s->key, row->kept) != 0) preset_add(v, s->key, s->def);
        }
}

static int set(struct shell *shell, const struct row *row, const char *more, struct err *err)
{
    struct preset_values v = { 0 };
    add_defaults(&v, row);
    int status = preset_read(&v, row->on, NULL, err);
    if (status == 0 && more) status = preset_read(&v, more, NULL, err);
    if (status == 0) status = engine_set_all(shell->engine, v.list, v.count, err);
    preset_values_release(&v);
    return status;
}

static int switch_on(struct shell *shell, const struct row *row, struct err *err)
{
    struct err why;
    if (row->more && set(shell, row, row->more, &why) == 0) return 0;
    if (set(shell, row, NULL, err) < 0) return -1;
    if (row->more)
        sinks_notice(shell->sinks, "%s alone, without %s: %s", row->on, row->more, why.text);
    return 0;
}

static int switch_off(struct shell *shell, const char *off, struct err *err)
{
    struct preset_values v = { 0 };
    int status = preset_read(&v, off, NULL, err);
    if (status == 0) status = engine_set_all(shell->engine, v.list, v.count, err);
    preset_values_release(&v);
    return status;
}

static int run(struct shell *shell, const struct row *row, int argc, char **argv, struct err *err)
{
    const bool off = argc && !strcmp(argv[0], "off");
    if (argc && !off && strcmp(argv[0], "on") != 0)
        return err_set(err, "/%s is on or off, not '%s'", row->word, argv[0]);
    return off ? switch_off(shell, row->off, err) : switch_on(shell, row, err);
}

static const char *const words[] = { "on", "off", NULL };

static int capa_run(struct shell *shell, int argc, char **argv, struct err *err)
{
    return run(shell, row_of("capa"), argc, argv, err);
}

const struct command command_capa = {
    .name = "capa",
    .usage = "/capa [on|off]",
    .help = "Enables CAPA with its defaults: pruning by contribution, Hadamard FFNs.",
    .details = "The FFN approximation needs a calibration; without one it stays off, which is "
               "said.\n/preset load capa is the paper's recipe.",
    .max = 1,
    .needs = NEEDS_MODEL,
    .live = "",
    .complete = COMPLETE_WORDS,
    .words = words,
    .run = capa_run,
};

static int align_run(struct shell *shell, int argc, char **argv, struct err *err)
{
    return run(shell, row_of("align"), argc, argv, err);
}

const struct command command_align = {
    .name = "align",
    .usage = "/align [on|off]",
    .help = "Enables norm alignment with its defaults.",
    .max = 1,
    .needs = NEEDS_MODEL,
    .live = "",
    .complete = COMPLETE_WORDS,
    .words = words,
    .run = align_run,
};

static int ira_run(struct shell *shell, int argc, char **argv, struct err *err)
{
    return run(shell, row_of("ira"), argc, argv, err);
}

const struct command command_ira = {
    .name = "ira",
    .usage = "/ira [on|off]",
    .help = "Enables IRA (information-regularized attention) with its defaults.",
    .details = "It needs the parameters of an adapter that was trained with train.ira.",
    .max = 1,
    .needs = NEEDS_MODEL,
    .live = "",
    .complete = COMPLETE_WORDS,
    .words = words,
    .run = ira_run,
};

static int baseline_run(struct shell *shell, int argc, char **argv, struct err *err)
{
    return switch_off(shell, preset_find("baseline")->set, err);
}

const struct command command_baseline = {
    .name = "baseline",
    .usage = "/baseline",
    .help = "Disables every method; the adapter stays.",
    .live = "",
    .run = baseline_run,
};
