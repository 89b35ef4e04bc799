// commands/batch.h -- answers every sample of a data file in one loaded process (/ask --data).
#ifndef COMMANDS_BATCH_H
#define COMMANDS_BATCH_H

#include <stdint.h>

#include "commands/command.h"

struct batch_options {
    const char *data, *out;
    const char *images; // folder of relative picture paths; NULL = that of data
    int64_t limit;      // new samples; 0 = all
    bool again;         // all is answered anew, beside out, and takes its place when it is whole
};

// One JSON line per sample is appended to out, flushed to disk at once. Samples that are there
// already are skipped, a line cut off by a crash is written again. A broken sample becomes a line
// with "error". Cancelling an answer ends the run; what is written stays. Each line says what
// model, adapter and settings gave it (core/adapter/provenance.h) and the SHA-256 of its pictures:
// a file with lines of others, or that do not say, or of other questions or pictures, is refused. A
// setting that changes under the run ends it with an error.
int batch_run(struct shell *shell, const struct batch_options *options, struct err *err);

#endif
