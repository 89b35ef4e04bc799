// core/probes/dump.h -- the probe behind /dump: copies the taps that match, and writes them as
// safetensors.
#ifndef CORE_PROBES_DUMP_H
#define CORE_PROBES_DUMP_H

#include "core/base/err.h"
#include "core/base/event.h"

struct sequence;

// `patterns`: tap names with * and ?, separated by commas or spaces. Returns NULL if the list is
// empty, if a name matches no tap, or if the file cannot be written or is not a dump.
struct dump *dump_new(const char *patterns, const char *path, struct err *err);
struct hook dump_hook(struct dump *d);
bool dump_wants_all_logits(const struct dump *d);
// Adds the prompt's ids and positions, if requested. `self` is the dump (answer_options.sequence).
void dump_sequence(void *self, const struct sequence *s);
// Writes the file (tensors in name order) and frees d; names the patterns that matched no tensor in
// a notice. -1 if no requested tensor was computed or writing failed.
int dump_finish(struct dump *d, const struct sinks *sinks, struct err *err);
void dump_free(struct dump *d);
const char *dump_path(const struct dump *d); // of its file; borrowed

#endif
