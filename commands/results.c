// commands/results.c -- /results: measurements stored in the session database.
#include <inttypes.h>
#include <string.h>

#include "commands/command.h"
#include "commands/option_table.h"
#include "core/probes/results.h"
#include "sessions/results.h"

enum { SHOWN = 50 };

static int list(struct shell *shell, const char *name, struct err *err)
{
    static const char *const columns[] = { "result", "time", "session", "what" };
    static const bool numeric[] = { true, false, true, false };
    struct result_entry *entries;
    struct table_builder t;
    size_t count;
    if (store_results(shell->store, name, 0, &entries, &count, err) < 0) return -1;
    if (!count)
        sinks_text(shell->sinks, "no results%s%s yet", name ? " of " : "", name ? name : "");
    table_begin(&t, "results", 4, columns, numeric);
    for (size_t i = 0; i < count && i < SHOWN; i++) {
        table_add(&t, "%" PRId64, entries[i].id);
        table_add(&t, "%s", entries[i].time);
        table_add(&t, entries[i].session ? "%" PRId64 : "", entries[i].session);
        table_add(&t, "%s", entries[i].name);
    }
    table_emit(&t, shell->sinks);
    if (count > SHOWN) sinks_notice(shell->sinks, "and %zu older results", count - SHOWN);
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
                       : err_set(err, "no result %" PRId64 " (/results)", id);
    if (status == 0) results_show(&r, shell->sinks);
    if (status == 0 && *r.arithmetic) sinks_notice(shell->sinks, "computed in %s", r.arithmetic);
    for (size_t i = 0; i < r.map_count && status == 0; i++) {
        const struct event_heatmap map = results_heatmap(&r.maps[i]);
        sinks_emit(shell->sinks, &(struct event){ .kind = EVENT_HEATMAP, .heatmap = &map });
    }
    if (status == 0 && csv) status = results_write_csv(&r, csv, shell->sinks, err);
    results_release(&r);
    result_entries_free(entries, count);
    return status;
}

static int results_run(struct shell *shell, int argc, char **argv, struct err *err)
{
    long long id;
    if (!argc || argv[0][0] < '0' || argv[0][0] > '9') {
        if (argc > 1) return err_set(err, "unexpected '%s': see /help results", argv[1]);
        return list(shell, argc ? argv[0] : NULL, err);
    }
    if (option_integer(argv[0], 1, INT64_MAX, &id, "a result", err) < 0) return -1;
    if (argc == 1) return show(shell, id, NULL, err);
    if (argc != 3 || strcmp(argv[1], "--csv") != 0)
        return err_set(err, "/results N takes no arguments but --csv FILE");
    return show(shell, id, argv[2], err);
}

const struct command command_results = {
    .name = "results",
    .usage = "/results [NAME | N [--csv FILE]]",
    .help = "Shows saved measurements, newest first.",
    .details =
        "Every measuring command stores its results in the session database. NAME is that of a\n"
        "command: /results norms. --csv FILE writes one table; several go to FILE-TABLE.csv\n"
        "each.",
    .writes = true,
    .max = 3,
    .needs = NEEDS_STORE,
    .complete = COMPLETE_PATH,
    .run = results_run,
};
