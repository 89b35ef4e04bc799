// tests/fuzz/csv.c -- reads arbitrary bytes as a CSV file: a table that can be read is the same
// after writing and reading it again.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/csv.h"

static void compare(const struct csv *a, const struct csv *b)
{
    if (a->column_count != b->column_count || a->row_count != b->row_count) abort();
    for (int c = 0; c < a->column_count; c++)
        if (strcmp(a->columns[c], b->columns[c]) != 0) abort();
    for (size_t r = 0; r < a->row_count; r++)
        for (int c = 0; c < a->column_count; c++)
            if (strcmp(csv_cell(a, r, c), csv_cell(b, r, c)) != 0) abort();
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);
int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
    struct csv t, back;
    struct err err;
    char path[512];
    if (csv_parse(&t, (const char *)data, size, NULL, "fuzz", &err) < 0) return 0;
    const char *folder = getenv("TMPDIR");
    snprintf(path, sizeof path, "%s/vlmsh-fuzz.csv", folder ? folder : "/tmp");
    if (csv_write(&t, path, &err) < 0 || csv_read(&back, path, &err) < 0) abort();
    compare(&t, &back);
    csv_release(&t);
    csv_release(&back);
    unlink(path);
    return 0;
}
