// core/files/parquet_thrift.h -- reads Thrift's compact protocol, in which parquet files describe
// themselves (apache/thrift, doc/specs/thrift-compact-protocol.md). The bytes are untrusted.
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
// Once something is broken, all numbers are 0, all lists are empty and no field follows.
#ifndef CORE_FILES_PARQUET_THRIFT_H
#define CORE_FILES_PARQUET_THRIFT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct thrift {
    const uint8_t *at, *end;
    bool broken;    // cut off, or not what was asked for
    bool cancelled; // broken because Ctrl-C was pressed
    uint32_t taken; // bytes, but for those that were jumped over
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

// Zeroed before the first field of a struct.
struct thrift_field {
    int id, type;
};

bool thrift_next(struct thrift *t, struct thrift_field *f); // false: the struct ends
void thrift_skip(struct thrift *t, const struct thrift_field *f);

// The value of a field, which must have that type.
int64_t thrift_int(struct thrift *t, const struct thrift_field *f);
bool thrift_bool(struct thrift *t, const struct thrift_field *f);
// Not NUL-terminated, borrowed.
const char *thrift_binary(struct thrift *t, const struct thrift_field *f, size_t *size);
// Number of elements of that type that follow, each at least a byte.
size_t thrift_list(struct thrift *t, const struct thrift_field *f, int type);
bool thrift_struct(struct thrift *t, const struct thrift_field *f);

#endif
