// tests/fuzz/score_plan.c -- parses arbitrary text as a plan of scores: sets, rows, lines that
// multiply rows, comparisons, and the settings of rows. No folder is read.
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "core/eval/score_plan.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct err err;
    struct score_plan p;
    char *text = xstrndup((const char *)data, size);
    // Skips texts that may name a folder: the sets and runs found there would depend on the
    // machine.
    const bool reads = strstr(text, "sets") || strstr(text, "checkpoints") || strchr(text, '/');
    if (!reads && score_plan_parse(&p, text, "fuzz", 0, &err) == 0) {
        struct settings *s = settings_new();
        for (size_t i = 0; i < p.row_count && i < 10; i++)
            settings_free(score_row_settings(
                &p.rows[i], &(struct proposal){ .from = s, .training = true }, NULL, &err));
        settings_free(s);
        score_plan_release(&p);
    }
    free(text);
    return 0;
}
