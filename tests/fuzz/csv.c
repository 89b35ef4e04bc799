// tests/fuzz/csv.c -- reads arbitrary bytes as a CSV file, with and without a head line: a table
// that can be read is the same after writing it, also as Markdown and LaTeX, and reading it again.
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
    static const char *const ends[] = { ".csv", ".md", ".tex" };
    char stem[500], path[512];
    if (csv_parse(&t, (const char *)data, size, "a,b", "fuzz", &err) == 0) csv_release(&t);
    if (csv_parse(&t, (const char *)data, size, NULL, "fuzz", &err) < 0) return 0;
    const char *folder = getenv("TMPDIR");
    snprintf(stem, sizeof stem, "%s/vlmsh-fuzz", folder ? folder : "/tmp");
    snprintf(path, sizeof path, "%s.csv", stem);
    if (csv_write_documents(&t, stem, &err) < 0 || csv_read(&back, path, &err) < 0) abort();
    compare(&t, &back);
    csv_release(&t);
    csv_release(&back);
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        snprintf(path, sizeof path, "%s%s", stem, ends[i]);
        unlink(path);
    }
    return 0;
}
