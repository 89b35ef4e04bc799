// commands/batch.h -- answers every sample of a data file in one loaded process (/ask --data).
#ifndef COMMANDS_BATCH_H
#define COMMANDS_BATCH_H

#include <stdint.h>

#include "commands/command.h"

struct batch_options {
    const char *data, *out;
    const char *images; // folder of relative picture paths; NULL = that of data
    int64_t limit;      // number of new samples; 0 = all
    bool again;         // answers all samples again into a file beside `out`, which replaces it
                        // once complete
};

// Appends one JSON line per sample to `out` and flushes it to disk. Skips samples that are already
// there and rewrites a line that a crash cut off. A broken sample becomes a line with "error".
// Cancelling an answer ends the run; lines already written stay. Each line records the model,
// adapter and settings (core/adapter/provenance.h) and the SHA-256 of its pictures: a file whose
// lines have other or no provenance, other questions or other pictures is refused. A setting that
// changes during the run ends it with an error.
int batch_run(struct shell *shell, const struct batch_options *options, struct err *err);

#endif
