// core/probes/text_file.h -- a text file with one text per line.
#ifndef CORE_PROBES_TEXT_FILE_H
#define CORE_PROBES_TEXT_FILE_H

#include <stdint.h>

#include "core/base/err.h"

struct text_file {
    char *text;
    char **line; // [count] without trailing spaces; no line is empty
    int64_t count;
};

// Reads a file; call text_file_close even after a failure.
int text_file_open(struct text_file *f, const char *path, struct err *err);
void text_file_close(struct text_file *f);

#endif
