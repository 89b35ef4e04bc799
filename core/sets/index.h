// core/sets/index.h -- indexes the rows of a large TSV file in one pass. Without --columns, caches
// the index of a file of 64 MB or more in $XDG_CACHE_HOME/vlmsh/sets until the file changes.
//
//   struct set_index x;
//   if (set_index_open(&x, "MMBench_DEV_EN.tsv", columns, &err) < 0) ...
//   x.rows[3].at, x.rows[3].image_at ...
//   set_index_close(&x);
#ifndef CORE_SETS_INDEX_H
#define CORE_SETS_INDEX_H

#include "core/base/err.h"
#include "core/base/hash.h"
#include "core/base/mem.h"
#include "core/base/names.h"
#include "core/base/scratch.h"

// Offsets and sizes in bytes of the file. A row is `size` bytes from `at`, without its newline;
// its picture is image_size bytes (0: no picture) at `at` + `image_at`.
struct set_row {
    uint64_t at, size, image_at, image_size;
};

enum { SET_ROWS = -1 };

struct set_columns;

struct set_index {
    int file;
    char *path;
    struct names columns; // of the first row
    struct set_row *rows;
    int64_t count;
    struct names keys; // the rows' "index", each once; a row may have none
    int64_t *key_rows; // [keys.count] the row of a key; SET_ROWS: several rows
    char hash[HASH_HEX];
    bool kept; // read from the cache
};

// Renames columns as --columns says; refuses columns that the file lacks.
int set_index_open(struct set_index *x, const char *path, const struct set_columns *columns,
                   struct err *err);
void set_index_close(struct set_index *x);
// Appends to `text` the bytes of a row without its picture.
int set_index_read(const struct set_index *x, int64_t row, struct buf *text, struct err *err);
// Appends the picture column of a row.
int set_index_image(const struct set_index *x, int64_t row, struct buf *text, struct err *err);
// Returns the next field of a row without quotes and advances *row. "" at the end.
const char *set_index_field(struct scratch *s, const char **row);

#endif
