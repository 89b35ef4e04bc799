// sessions/results.h -- stored measurements: tables and maps as JSON.
//
//   struct result_entry *list; size_t count;
//   if (store_results(store, "norms", 0, &list, &count, &err) < 0) ...    // newest first
//   result_entries_free(list, count);
#ifndef SESSIONS_RESULTS_H
#define SESSIONS_RESULTS_H

#include "sessions/store.h"

struct result_entry {
    int64_t id, session; // session 0: none had started
    char *time, *name, *json;
};

// Reads the entries of one name (NULL: all names); with an id only that entry, with id 0 all of
// them, without json (NULL).
int store_results(struct store *s, const char *name, int64_t id, struct result_entry **list,
                  size_t *count, struct err *err);
void result_entries_free(struct result_entry *list, size_t count);

#endif
