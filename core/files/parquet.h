// core/files/parquet.h -- parquet files as `datasets` writes them: rows of texts, numbers, lists,
// structs and pictures (apache/parquet-format: README.md, Encodings.md, src/main/thrift).
//
//   struct parquet p;
//   if (parquet_open(&p, "test-00000-of-00001.parquet", &err) < 0) ...
//   struct parquet_row r;
//   if (parquet_row_read(&p, 3, PARQUET_ALL, &r, &err) == 0) ... json_get(r.json, "question") ...
//   parquet_row_release(&r);
//   parquet_close(&p);
//
// A file is row groups; a group has one chunk of pages for each leaf of the schema. Rows are read
// in any order. About 64 MB of decoded pages are kept, and in addition those of the last rows read,
// at most 1 GB in all. A page is decoded as a whole; for a leaf inside a list, so is the whole
// chunk.
//
// Supports pages v1 and v2; plain, dictionary and (for booleans) RLE encoding; uncompressed, Snappy
// and zstd data. Refuses anything else with a message that names it. The file is untrusted. Only
// one thread at a time may use a struct parquet.
#ifndef CORE_FILES_PARQUET_H
#define CORE_FILES_PARQUET_H

#include "core/base/json.h"

enum parquet_type {
    PARQUET_GROUP = -1, // not a leaf
    PARQUET_BOOLEAN,
    PARQUET_INT32,
    PARQUET_INT64,
    PARQUET_INT96,
    PARQUET_FLOAT,
    PARQUET_DOUBLE,
    PARQUET_BYTES,
    PARQUET_FIXED,
};

enum parquet_repetition { PARQUET_REQUIRED, PARQUET_OPTIONAL, PARQUET_REPEATED };

// A node of the schema's tree; its descendants follow it in the list.
struct parquet_node {
    char *name;
    enum parquet_type type;
    enum parquet_repetition repetition;
    bool text;    // bytes that are UTF-8
    bool list;    // its only child, the items, is repeated
    bool picture; // struct of bytes and path, or bytes in a column "image..."
    bool unread;  // a column that parquet_row_read leaves out
    int size;     // of PARQUET_FIXED
    int def, rep; // its maximum definition and repetition levels
    size_t end;   // its descendants: nodes [own index + 1, end)
    size_t leaf;  // the first leaf at or below it
};

struct parquet_page;

// The pages of a leaf in a group.
struct parquet_chunk {
    int codec;
    uint64_t at, size; // bytes of the file
    int64_t values;    // number of levels
    // The data pages, without the dictionary; found when first needed.
    struct parquet_page *pages;
    size_t page_count;
    uint64_t dictionary;       // its offset in the file; 0: none
    uint64_t dictionary_bytes; // of memory, decoded
    char *fault;               // why its pages were not found; NULL: found, or not searched
};

struct parquet_group {
    int64_t first, rows;
    struct parquet_chunk *chunks; // [leaf_count]
};

struct parquet_block;

struct parquet {
    char *path;
    const uint8_t *map;
    uint64_t size;
    struct parquet_node *nodes; // [0] is the root
    size_t node_count;
    size_t *leaves; // their indexes in `nodes`
    size_t leaf_count;
    struct parquet_group *groups;
    size_t group_count;
    int64_t rows;
    struct parquet_block **blocks; // decoded pages
    size_t block_count;
    uint64_t clock;     // counts rows read
    uint64_t row_bytes; // bytes decoded for the current row
};

int parquet_open(struct parquet *p, const char *path, struct err *err);
void parquet_close(struct parquet *p); // *p may be zeroed
// Releases decoded pages, which are decoded again when needed.
void parquet_release_pages(struct parquet *p);

// A picture of a row, valid until the next row is read.
struct parquet_picture {
    const char *bytes, *path; // NULL: none; path is not NUL-terminated
    const char *column;       // name of the column
    size_t size, path_size;
};

struct parquet_row {
    cJSON *json;                      // an object, with null in place of each picture
    struct parquet_picture *pictures; // [picture_count], in the order of the columns
    size_t picture_count;
};

// Makes parquet_row_read leave out the columns that have no pictures and whose names are not
// needed.
void parquet_leave_out(struct parquet *p, bool (*needed)(const char *name));

// PARQUET_PICTURES: only columns with pictures; PARQUET_TEXTS: only the other columns.
enum parquet_part { PARQUET_ALL, PARQUET_PICTURES, PARQUET_TEXTS };

// Reads a row; the caller releases *r, even after a failure. Leaves of type INT96 or of fixed size
// become null; no known data set has them. Bytes with a zero byte become null; in a column of texts
// they are an error.
int parquet_row_read(struct parquet *p, int64_t row, enum parquet_part part, struct parquet_row *r,
                     struct err *err);
void parquet_row_release(struct parquet_row *r);

#endif
