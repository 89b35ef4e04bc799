// tests/fuzz/parquet.c -- reads arbitrary bytes as a parquet file. The file is refused; or its
// first rows, then the pictures of its last ones in reverse, then texts can be read or are refused,
// and all returned pointers are valid.
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/files/parquet.h"

enum { ROWS = 40 };

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static void read_row(struct parquet *p, int64_t row, enum parquet_part part)
{
    volatile unsigned sum = 0;
    struct parquet_row r;
    struct err err;
    if (parquet_row_read(p, row, part, &r, &err) == 0)
        for (size_t i = 0; i < r.picture_count; i++) {
            const struct parquet_picture *q = &r.pictures[i];
            for (size_t k = 0; k < q->size; k++) sum += (unsigned char)q->bytes[k];
            for (size_t k = 0; k < q->path_size; k++) sum += (unsigned char)q->path[k];
        }
    parquet_row_release(&r);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    struct parquet p;
    struct err err;
    char path[64];
    const int file = memfd_create("parquet", MFD_CLOEXEC);
    if (file < 0 || write(file, bytes, size) != (ssize_t)size) abort();
    snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    if (parquet_open(&p, path, &err) == 0) {
        for (int64_t i = 0; i < p.rows && i < ROWS; i++) read_row(&p, i, PARQUET_ALL);
        for (int64_t i = 0; i < p.rows && i < ROWS; i++)
            read_row(&p, p.rows - 1 - i, PARQUET_PICTURES);
        for (int64_t i = 0; i < p.rows && i < ROWS; i++) read_row(&p, i, PARQUET_TEXTS);
        parquet_close(&p);
    }
    close(file);
    return 0;
}
