// core/files/parquet_parts.h -- between the parts of the reader of parquet files.
#ifndef CORE_FILES_PARQUET_PARTS_H
#define CORE_FILES_PARQUET_PARTS_H

#include "core/files/parquet.h"
#include "core/files/parquet_thrift.h"

// Files of `datasets` stay far below; more is refused, so that a small file cannot ask for all
// memory or time: values of one page or chunk; bytes of all decoded pages of a row together; bytes
// of its JSON (many values may repeat one long text of a dictionary); leaves of the schema.
enum {
    PARQUET_MAX_LEVELS = 1 << 23,
    PARQUET_MAX_BYTES = 1 << 30,
    PARQUET_MAX_ROW = 1 << 26,
    PARQUET_MAX_LEAVES = 4096,
};

struct parquet_page {
    bool v2, compressed;
    int encoding, rep_encoding, def_encoding;
    uint32_t size, unpacked;     // bytes in the file, and of these decompressed
    uint32_t rep_size, def_size; // v2
    int64_t first, values;       // levels in the chunk
    uint64_t at;                 // of its bytes, behind the header
};

union parquet_value {
    int64_t integer; // also a boolean
    double real;
    struct {
        const char *at;
        uint32_t size;
    } bytes;
};

// Decoded pages of a leaf: complete rows.
struct parquet_block {
    size_t group, leaf;
    int64_t first, rows;         // in the group
    size_t count;                // of levels
    uint8_t *rep, *def;          // [count]; NULL: all 0
    union parquet_value *values; // [count]; 0 where there is no value
    uint32_t *starts;            // [rows + 1] the first level of each row; NULL: one level a row
    char **buffers;              // that values point into
    size_t buffer_count;
    uint64_t bytes, used; // memory; parquet.clock when it was last used
};

// Finds the pages of a chunk, unless they were found before.
int parquet_find_pages(struct parquet *p, size_t group, size_t leaf, struct err *err);
// The block that has that row of the group. NULL with a message.
struct parquet_block *parquet_block(struct parquet *p, size_t group, size_t leaf, int64_t row,
                                    struct err *err);
// Releases blocks that were not used lately, if there is too much.
void parquet_trim(struct parquet *p);

// Reads `count` numbers of `width` bits, in runs of one number and bit-packed. NULL: cut off.
// Otherwise where it stopped.
const uint8_t *parquet_hybrid(const uint8_t *at, const uint8_t *end, int width, size_t count,
                              uint32_t *out);
// Decompressed bytes, free() them. NULL with a message.
char *parquet_unpack(int codec, const uint8_t *from, size_t size, size_t unpacked, struct err *err);
// "'FILE', column answers.list.element"
void parquet_err_in(const struct parquet *p, size_t leaf, struct err *err);

#endif
