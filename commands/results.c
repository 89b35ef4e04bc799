// commands/results.c -- /results: shows measurements stored in the session database.
#include <inttypes.h>
#include <string.h>

#include "commands/command.h"
#include "core/probes/results.h"
#include "sessions/records.h"

enum { SHOWN = 50 };

static int list(struct shell *shell, const char *name, struct err *err)
{
    struct result_entry *entries;
    struct table_builder t;
    size_t count;
    if (store_results(shell->store, name, 0, &entries, &count, err) < 0) return -1;
    if (!count)
        sinks_text(shell->sinks, "no results%s%s yet", name ? " of " : "", name ? name : "");
    table_begin(&t, "results", "result#|time|session#|command");
    for (size_t i = 0; i < count && i < SHOWN; i++) {
        table_row(&t, "%" PRId64 "|%s", entries[i].id, entries[i].time);
        table_add(&t, entries[i].session ? "%" PRId64 : "", entries[i].session);
        table_add(&t, "%s", entries[i].name);
    }
    table_emit(&t, shell->sinks);
    if (count > SHOWN)
        sinks_notice(shell->sinks, "and %zu older result%s (/results NAME lists one command's)",
                     count - SHOWN, count - SHOWN == 1 ? "" : "s");
    result_entries_free(entries, count);
    return 0;
}

static int show(struct shell *shell, int64_t id, const char *csv, struct err *err)
{
    struct result_entry *entries;
    struct results r = { 0 };
    size_t count;
    if (store_results(shell->store, NULL, id, &entries, &count, err) < 0) return -1;
    int status = count ? results_read(&r, entries[0].json, err)
                       : err_set(err, "no result %" PRId64 " (/results lists them)", id);
    if (status == 0) results_show_tables(&r, shell->sinks);
    for (size_t i = 0; i < r.map_count && status == 0; i++) {
        struct event_heatmap map = results_heatmap(&r.maps[i]);
        map.condition = results_condition(&r, r.maps[i].condition);
        sinks_emit(shell->sinks, &(struct event){ .kind = EVENT_HEATMAP, .heatmap = &map });
    }
    if (status == 0) results_show_notes(&r, shell->sinks);
    if (status == 0 && *r.arithmetic) sinks_notice(shell->sinks, "computed in %s", r.arithmetic);
    if (status == 0 && csv) status = results_write_csv(&r, csv, shell->sinks, err);
    results_release(&r);
    result_entries_free(entries, count);
    return status;
}

struct results_options {
    const char *what, *csv;
};

static const struct option_row options[] = {
    { "NAME", NULL, NULL, OPTION_TEXT, .at = offsetof(struct results_options, what),
      .optional = true },
    { "--csv", "FILE",
      "writes the result's table; if there are several, writes a file for each, such as "
      "x-norms.layers.csv for x.csv",
      OPTION_TEXT, .at = offsetof(struct results_options, csv) },
    { 0 },
};

static int results_run(struct shell *shell, int argc, char **argv, struct err *err)
{
    struct results_options o = { 0 };
    int64_t id;
    if (options_parse(options, &o, argc, argv, err) < 0) return -1;
    if (o.what && o.what[0] >= '0' && o.what[0] <= '9')
        return option_integer(o.what, 1, INT64_MAX, &id, "a result", err) < 0
                   ? -1
                   : show(shell, id, o.csv, err);
    if (o.csv) return err_set(err, "--csv needs the number of a result: /results N --csv FILE");
    return list(shell, o.what, err);
}

const struct command command_results = {
    .name = "results",
    .usage = "/results [NAME | N [--csv FILE]]",
    .help = "Shows saved measurements, newest first.",
    .details = "Every measuring command stores its results in the session database. NAME lists the "
               "results of one command, such as /results norms. N shows a result by its number in "
               "the list.",
    .options = options,
    .writes = true,
    .needs = NEEDS_STORE,
    .complete = COMPLETE_PATH,
    .run = results_run,
};
