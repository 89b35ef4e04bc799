// core/files/parquet_thrift.c -- Thrift's compact protocol.
#include "core/files/parquet_parts.h"

#include "core/base/cancel.h"

enum {
    DEPTH = 32,     // deepest nesting
    LOOK = 1 << 16, // bytes read between checks for Ctrl-C
};

static int byte(struct thrift *t)
{
    if (++t->taken % LOOK == 0 && cancel_requested()) t->cancelled = t->broken = true;
    if (!t->broken && t->at < t->end) return *t->at++;
    t->broken = true;
    return 0;
}

// Seven bits per byte, the lowest first.
static uint64_t varint(struct thrift *t)
{
    uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
        const int b = byte(t);
        value |= (uint64_t)(b & 127) << shift;
        if (b < 128) return t->broken ? 0 : value;
    }
    t->broken = true;
    return 0;
}

// 0, -1, 1, -2 ... are written as 0, 1, 2, 3 ...
static int64_t zigzag(struct thrift *t)
{
    const uint64_t v = varint(t);
    return (int64_t)((v >> 1) ^ (0 - (v & 1)));
}

static void jump(struct thrift *t, uint64_t bytes)
{
    if (bytes > (uint64_t)(t->end - t->at)) t->broken = true;
    if (!t->broken) t->at += bytes;
}

bool thrift_next(struct thrift *t, struct thrift_field *f)
{
    const int head = byte(t);
    f->type = head & 15;
    if (!f->type || f->type > THRIFT_STRUCT) {
        t->broken |= head != 0;
        return false;
    }
    const int64_t id = head >> 4 ? f->id + (head >> 4) : zigzag(t);
    if (id < INT16_MIN || id > INT16_MAX) t->broken = true;
    f->id = t->broken ? 0 : (int)id;
    return !t->broken;
}

static bool expect(struct thrift *t, bool good)
{
    if (!good) t->broken = true;
    return !t->broken;
}

int64_t thrift_int(struct thrift *t, const struct thrift_field *f)
{
    return expect(t, f->type >= THRIFT_I16 && f->type <= THRIFT_I64) ? zigzag(t) : 0;
}

int64_t thrift_within(struct thrift *t, const struct thrift_field *f, int64_t least, int64_t most)
{
    const int64_t v = thrift_int(t, f);
    return expect(t, v >= least && v <= most) ? v : least;
}

bool thrift_bool(struct thrift *t, const struct thrift_field *f)
{
    return expect(t, f->type <= THRIFT_FALSE) && f->type == THRIFT_TRUE;
}

const char *thrift_binary(struct thrift *t, const struct thrift_field *f, size_t *size)
{
    const uint64_t n = expect(t, f->type == THRIFT_BINARY) ? varint(t) : 0;
    const char *bytes = (const char *)t->at;
    jump(t, n);
    *size = t->broken ? 0 : (size_t)n;
    return bytes;
}

// An element takes at least one byte, so the count cannot exceed the number of bytes left.
static size_t list_head(struct thrift *t, int *type)
{
    const int head = byte(t);
    const uint64_t n = head >> 4 == 15 ? varint(t) : (uint64_t)(head >> 4);
    *type = head & 15;
    return expect(t, n <= (uint64_t)(t->end - t->at)) ? (size_t)n : 0;
}

size_t thrift_list(struct thrift *t, const struct thrift_field *f, int type)
{
    int found = type;
    const size_t n = expect(t, f->type == THRIFT_LIST) ? list_head(t, &found) : 0;
    return expect(t, !n || found == type) ? n : 0;
}

bool thrift_struct(struct thrift *t, const struct thrift_field *f)
{
    return expect(t, f->type == THRIFT_STRUCT);
}

// --- skipping ------------------------------------------------------------------------------------

static void skip(struct thrift *t, int type, int depth);

// Skips an element of a list, set or map. A boolean element takes one byte; a boolean field takes
// none, because its type is its value. If elements took none either, a short file could demand long
// loops that read nothing.
// NOLINTNEXTLINE(misc-no-recursion): at most DEPTH deep
static void skip_element(struct thrift *t, int type, int depth)
{
    if (type == THRIFT_TRUE || type == THRIFT_FALSE)
        byte(t);
    else
        skip(t, type, depth);
}

// NOLINTNEXTLINE(misc-no-recursion): at most DEPTH deep
static void skip(struct thrift *t, int type, int depth)
{
    struct thrift_field f = { 0 };
    uint64_t n;
    int types;
    if (!expect(t, depth < DEPTH)) return;
    switch (type) {
    case THRIFT_TRUE:
    case THRIFT_FALSE: break;
    case THRIFT_BYTE: byte(t); break;
    case THRIFT_I16:
    case THRIFT_I32:
    case THRIFT_I64: varint(t); break;
    case THRIFT_DOUBLE: jump(t, sizeof(double)); break;
    case THRIFT_BINARY: jump(t, varint(t)); break;
    case THRIFT_LIST:
    case THRIFT_SET:
        n = list_head(t, &types);
        for (uint64_t i = 0; i < n && !t->broken; i++) skip_element(t, types, depth + 1);
        break;
    case THRIFT_MAP:
        n = varint(t);
        types = n ? byte(t) : 0;
        expect(t, n <= (uint64_t)(t->end - t->at));
        for (uint64_t i = 0; i < n && !t->broken; i++) {
            skip_element(t, types >> 4, depth + 1);
            skip_element(t, types & 15, depth + 1);
        }
        break;
    case THRIFT_STRUCT:
        while (thrift_next(t, &f)) skip(t, f.type, depth + 1);
        break;
    default: t->broken = true;
    }
}

void thrift_skip(struct thrift *t, const struct thrift_field *f)
{
    skip(t, f->type, 0);
}
