// tui/json.h -- the JSON lines sink: one object per line, as documented for --json.
//
//   struct json_sink *j = json_sink_new(stream);
//   sinks_add(&sinks, json_sink(j));
//
// Every object has "event". Lines are valid JSON whatever bytes the texts contain, and each is
// flushed at once.
#ifndef TUI_JSON_H
#define TUI_JSON_H

#include <stdio.h>

#include "core/base/event.h"

struct json_sink;

struct json_sink *json_sink_new(FILE *out); // `out` stays the caller's
void json_sink_free(struct json_sink *j);
struct sink json_sink(struct json_sink *j);

// Writes the JSON Schema of all events, from the table of their fields (docs/events.schema.json).
void json_schema(FILE *out);

#endif
