// core/files/parquet_parts.h -- shared by the files of the parquet reader.
#ifndef CORE_FILES_PARQUET_PARTS_H
#define CORE_FILES_PARQUET_PARTS_H

#include "core/files/parquet.h"

// Limits that keep a small malicious file from exhausting memory or time. Files written by Hugging
// Face's `datasets` stay far below them.
enum {
    PARQUET_MAX_LEVELS = 1 << 23, // levels of a page or chunk; values of a dictionary
    PARQUET_MAX_BYTES = 1 << 30,  // of all decoded pages that one row needs
    PARQUET_MAX_ROW = 1 << 26,    // bytes of a row's JSON: many values may repeat one long text
    PARQUET_MAX_LEAVES = 4096,    // of the schema
};

struct parquet_page {
    bool v2, compressed;
    int encoding, rep_encoding, def_encoding;
    uint32_t size, unpacked;     // bytes in the file, and decompressed
    uint32_t rep_size, def_size; // v2
    int64_t first, values;       // index of its first level in the chunk; number of levels
    uint64_t at;                 // offset of its bytes in the file, after the header
};

union parquet_value {
    int64_t integer; // also a boolean
    double real;
    struct {
        const char *at;
        uint32_t size;
    } bytes;
};

// The decoded pages of a leaf column that hold certain complete rows.
struct parquet_block {
    size_t group, leaf;
    int64_t first, rows;         // in the group
    size_t count;                // of levels
    uint8_t *rep, *def;          // [count]; NULL: all 0
    union parquet_value *values; // [count]; 0 where there is no value
    uint32_t *starts;            // [rows + 1] the first level of each row; NULL: one level per row
    char **buffers;              // that the values point into
    size_t buffer_count, buffer_capacity;
    uint64_t bytes, used; // memory; parquet.clock when it was last used
};

// Returns the block that contains row `row` of the group. NULL with a message.
struct parquet_block *parquet_block(struct parquet *p, size_t group, size_t leaf, int64_t row,
                                    struct err *err);
// Releases the least recently used blocks while all together are too many or too large, but none
// that one of the last rows used.
void parquet_trim(struct parquet *p);

// Returns the index of the last item whose int64_t member at `offset` is at most `at`. The items
// are sorted by that member.
size_t parquet_search(const void *items, size_t count, size_t size, size_t offset, int64_t at);
// Reads `count` numbers of `width` bits from bit-packed runs and runs of one repeated number.
// Returns the position after them, or NULL if the bytes are cut off.
const uint8_t *parquet_hybrid(const uint8_t *at, const uint8_t *end, int width, size_t count,
                              uint32_t *out);
// Returns the decompressed bytes; free() them. NULL with a message.
char *parquet_unpack(int codec, const uint8_t *from, size_t size, size_t unpacked, struct err *err);
// Prepends the file and the column, as in "'a.parquet', column 'answers.list.element'".
void parquet_err_in(const struct parquet *p, size_t leaf, struct err *err);

// --- Thrift's compact protocol -------------------------------------------------------------------
//
// Parquet files describe themselves in this protocol (apache/thrift,
// doc/specs/thrift-compact-protocol.md).
//
//   struct thrift t = { bytes, bytes + size };
//   struct thrift_field f = { 0 };
//   while (thrift_next(&t, &f))
//       if (f.id == 3)
//           rows = thrift_int(&t, &f);
//       else
//           thrift_skip(&t, &f);
//   if (t.broken) ...
//
// After the first fault, numbers are 0 (thrift_within: `least`), booleans are false, texts and
// lists are empty, and no field follows.

struct thrift {
    const uint8_t *at, *end;
    bool broken;    // cut off, malformed, not of the requested type or range, or cancelled
    bool cancelled; // broken because Ctrl-C was pressed
    uint32_t taken; // bytes read one by one; does not count skipped bytes
};

enum thrift_type {
    THRIFT_TRUE = 1,
    THRIFT_FALSE,
    THRIFT_BYTE,
    THRIFT_I16,
    THRIFT_I32,
    THRIFT_I64,
    THRIFT_DOUBLE,
    THRIFT_BINARY,
    THRIFT_LIST,
    THRIFT_SET,
    THRIFT_MAP,
    THRIFT_STRUCT,
};

// The caller zeroes it before the first field of a struct.
struct thrift_field {
    int id, type;
};

bool thrift_next(struct thrift *t, struct thrift_field *f); // false at the end of the struct
void thrift_skip(struct thrift *t, const struct thrift_field *f);

// Returns the value of a field, which must have the function's type.
int64_t thrift_int(struct thrift *t, const struct thrift_field *f);
// Like thrift_int; a number outside least..most is a fault.
int64_t thrift_within(struct thrift *t, const struct thrift_field *f, int64_t least, int64_t most);
bool thrift_bool(struct thrift *t, const struct thrift_field *f);
// Returns borrowed bytes that are not NUL-terminated.
const char *thrift_binary(struct thrift *t, const struct thrift_field *f, size_t *size);
// Returns the number of elements of type `type` that follow. It never exceeds the number of bytes
// left, because each element takes at least one.
size_t thrift_list(struct thrift *t, const struct thrift_field *f, int type);
bool thrift_struct(struct thrift *t, const struct thrift_field *f);

#endif
