// commands/calibrate.c -- /calibrate collects statistics of a model for methods and probes;
// /calibration loads, lists and shows the resulting files.
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "commands/jobs.h"
#include "core/base/hash.h"
#include "core/eval/evaluate_job.h"
#include "core/methods/calibration.h"
#include "sessions/records.h"

// --- /calibrate ----------------------------------------------------------------------------------

static int merge(struct shell *shell, int argc, char **argv, struct err *err)
{
    const char *out = argv[0];
    if (access(out, F_OK) == 0)
        return err_set(err, "'%s' already exists: choose another name", out);
    if (calibration_merge((const char *const *)argv + 1, (size_t)argc - 1, out, err) < 0) return -1;
    sinks_written(shell->sinks, "calibration", out, NULL);
    sinks_notice(shell->sinks, "merged %d calibrations into '%s'", argc - 1, out);
    return 0;
}

static int calibrate_run(struct shell *shell, int argc, char **argv, struct err *err)
{
    const bool once = !strcmp(argv[argc - 1], "--once"); // read here, only as the last word
    if (command_check_needs(shell, NEEDS_STORE, err) < 0) return -1;
    if (once && argc > 3 && access(argv[2], F_OK) == 0) {
        sinks_notice(shell->sinks, "'%s' already exists: nothing to do", argv[2]);
        return 0;
    }
    return shell_start_job(shell, "calibrate", argc - once, argv, err);
}

static const struct command_action calibrate_actions[] = {
    { "merge", "OUT FILE...", "combines calibrations of parts of the data into OUT", 2, -1,
      .run = merge },
    { 0 },
};

const struct command command_calibrate = {
    .name = "calibrate",
    .usage = "/calibrate ffn|norms|sinks|phases|lens DATA OUT " SET_SOURCE_USAGE
             " [--images DIR] [--limit N] [--once] | merge OUT FILE...",
    .help = "Measures FFN redundancy, norms, sinks or phases, or fits lenses, on a data set.",
    .details =
        "Runs as a job (/jobs, /wait).\n"
        "ffn          per layer: redundancy of the FFN for visual and text tokens, and the\n"
        "             least-squares factor of each dimension (alpha), for ffn.approx and\n"
        "             ffn.layers auto\n"
        "norms        norms of visual and text tokens by layer, and cosines between layers;\n"
        "             /norms shows the norms for comparison\n"
        "sinks        the first token's largest dimensions by layer, for /sinks\n"
        "phases       by layer: contribution of visual tokens, and how far the layer's prediction\n"
        "             of the next token is from the model's (Hellinger distance); from these,\n"
        "             the early, transition and late layers, for prune.layer auto\n"
        "lens         by layer: the affine map from the layer's output to the last layer's,\n"
        "             fitted by least squares, for /lens --tuned; the file has five matrices of\n"
        "             hidden size x hidden size for each layer: the map, and sums for `merge`\n"
        "/calibration load OUT uses the result.",
    .options = calibrate_rows,
    .min = 1,
    .writes = true,
    .complete = COMPLETE_PATH,
    .actions = calibrate_actions,
    .run = calibrate_run,
};

// --- /calibration --------------------------------------------------------------------------------

// Records the file for /calibration list.
static int note(struct shell *shell, const struct calibration *c, const char *path, struct err *err)
{
    char hash[HASH_HEX];
    if (hash_file(path, hash, err) < 0) return -1;
    const struct calibration_row row = { .path = (char *)path,
                                         .hash = hash,
                                         .kind = (char *)calibration_kind_of(c)->name,
                                         .model = (char *)(c->model ? c->model : ""),
                                         .data = (char *)(c->data ? c->data : ""),
                                         .count = c->count };
    return store_calibration_note(shell->store, &row, err);
}

static int load(struct shell *shell, int argc, char **argv, struct err *err)
{
    struct calibration c;
    char *path = realpath(argv[0], NULL); // a session may resume in another folder
    if (!path) return err_set(err, "cannot read '%s': %s", argv[0], strerror(errno));
    if (calibration_open(&c, path, err) < 0) {
        free(path);
        return -1;
    }
    const struct model *m = engine_model(shell->engine);
    const struct calibration_kind *kind = calibration_kind_of(&c);
    char *key = xasprintf("%s.calibration", kind->name);
    int status = m ? calibration_fits(&c, m, err) : 0;
    if (status == 0) status = engine_set(shell->engine, key, path, err);
    if (status == 0 && shell->store) status = note(shell, &c, path, err);
    if (status == 0 && !c.model)
        sinks_notice(shell->sinks, "'%s' does not record its model: assuming that it fits", path);
    calibration_close(&c);
    free(key);
    free(path);
    return status;
}

// Records the calibrations in use, which /set or a preset may have loaded.
static void note_used(struct shell *shell)
{
    const struct calibration_kind *kind;
    for (int i = 0; (kind = calibration_kind_at(i)); i++) {
        struct calibration c;
        char *key = xasprintf("%s.calibration", kind->name);
        const char *path = settings_text(engine_settings(shell->engine), key);
        free(key);
        if (!strcmp(path, "none") || calibration_open(&c, path, NULL) < 0) continue;
        note(shell, &c, path, NULL);
        calibration_close(&c);
    }
}

static int list(struct shell *shell, int argc, char **argv, struct err *err)
{
    note_used(shell);
    struct calibration_row *rows;
    struct table_builder t;
    size_t count;
    if (store_calibrations(shell->store, &rows, &count, err) < 0) return -1;
    if (!count)
        sinks_text(shell->sinks, "no calibration has been used yet: /calibration load FILE");
    table_begin(&t, "calibrations", "kind|samples#|model|in use|file");
    for (size_t i = 0; i < count; i++) {
        char key[64];
        snprintf(key, sizeof key, "%s.calibration", rows[i].kind);
        const bool used = settings_find(key) &&
                          !strcmp(settings_text(engine_settings(shell->engine), key), rows[i].path);
        table_add(&t, "%s", rows[i].kind);
        table_add(&t, rows[i].count < 0 ? "?" : "%" PRId64, rows[i].count);
        table_row(&t, "%.12s|%s|%s", rows[i].model, used ? "yes" : "", rows[i].path);
    }
    table_emit(&t, shell->sinks);
    calibration_rows_free(rows, count);
    return 0;
}

static int show_file(struct shell *shell, const char *path, struct err *err)
{
    struct calibration c;
    if (calibration_open(&c, path, err) < 0) return -1;
    sinks_text(shell->sinks,
               "%s: kind %s, weights %.12s, data %.12s, %" PRId64 " sample%s, arithmetic %s", path,
               calibration_kind_of(&c)->name, c.model ? c.model : "unknown",
               c.data ? c.data : "unknown", c.count, c.count == 1 ? "" : "s",
               c.arithmetic ? c.arithmetic : "unknown");
    calibration_show(&c, shell->sinks);
    calibration_close(&c);
    return 0;
}

// Shows a file, or the calibrations in use.
static int show(struct shell *shell, int argc, char **argv, struct err *err)
{
    const struct calibration_kind *kind;
    int shown = 0, status = 0;
    if (argc) return show_file(shell, argv[0], err);
    for (int i = 0; (kind = calibration_kind_at(i)) && status == 0; i++) {
        char *key = xasprintf("%s.calibration", kind->name);
        const char *path = settings_text(engine_settings(shell->engine), key);
        if (strcmp(path, "none") != 0) {
            status = show_file(shell, path, err);
            shown++;
        }
        free(key);
    }
    if (shown) return status;
    return err_set(err,
                   "no calibration is in use: /calibration load FILE, or /calibration show FILE");
}

static const struct command_action actions[] = {
    { "list", NULL, "lists all calibrations used so far", 0, 0, .needs = NEEDS_STORE, .run = list },
    { "load", "FILE", "uses this file: sets KIND.calibration to its path", 1, 1, .run = load },
    { "show", "[FILE]", "shows a file's contents; without FILE, the calibrations in use", 0, 1,
      .run = show },
    { 0 },
};

const struct command command_calibration = {
    .name = "calibration",
    .usage = "/calibration load FILE|list|show [FILE]",
    .help = "Loads, lists or shows calibration files.",
    .details =
        "The setting KIND.calibration holds the path of the file in use; /set ffn.calibration "
        "none stops using it. A file that was made with other weights is rejected. A file "
        "without metadata is loaded, with a notice.",
    .complete = COMPLETE_WORDS,
    .actions = actions,
    .action_at = 1,
    .usual = "load",
};
