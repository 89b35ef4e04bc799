// core/files/parquet_encoding.c -- decompression of pages, and decoding of runs of levels and
// dictionary indexes (apache/parquet-format, Compression.md, Encodings.md).
#include <snappy-c.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#include "core/files/parquet_parts.h"

// --- runs ----------------------------------------------------------------------------------------

// Unpacks `count` numbers, the lowest bits first.
static void unpack_bits(const uint8_t *at, int width, size_t count, uint32_t *out)
{
    const uint64_t mask = ((uint64_t)1 << width) - 1;
    uint64_t bits = 0;
    int have = 0;
    for (size_t i = 0; i < count; i++) {
        for (; have < width; have += 8) bits |= (uint64_t)*at++ << have;
        out[i] = (uint32_t)(bits & mask);
        bits >>= width;
        have -= width;
    }
}

static const uint8_t *run_head(const uint8_t *at, const uint8_t *end, uint32_t *head)
{
    uint64_t value = 0;
    for (int shift = 0; shift < 35 && at < end; shift += 7) {
        value |= (uint64_t)(*at & 127) << shift;
        if (*at++ < 128) {
            *head = (uint32_t)value;
            return value <= UINT32_MAX ? at : NULL;
        }
    }
    return NULL;
}

const uint8_t *parquet_hybrid(const uint8_t *at, const uint8_t *end, int width, size_t count,
                              uint32_t *out)
{
    const size_t bytes = ((size_t)width + 7) / 8;
    for (size_t done = 0; done < count;) {
        uint32_t head;
        at = run_head(at, end, &head);
        if (!at) return NULL;
        // An odd head begins bit-packed groups of eight numbers; an even head begins one number
        // that is repeated.
        const size_t length = head & 1 ? (size_t)(head >> 1) * 8 : head >> 1;
        const size_t take = length < count - done ? length : count - done;
        // The data may end within the last group, after the last number that is needed.
        const size_t need = head & 1 ? (take * (size_t)width + 7) / 8 : bytes;
        if (need > (size_t)(end - at)) return NULL;
        if (head & 1) {
            const size_t whole = length / 8 * (size_t)width;
            unpack_bits(at, width, take, out + done);
            at += whole < (size_t)(end - at) ? whole : (size_t)(end - at);
        } else {
            uint32_t value = 0;
            memcpy(&value, at, bytes);
            for (size_t i = 0; i < take; i++) out[done + i] = value;
            at += bytes;
        }
        done += take;
    }
    return at;
}

// --- compression ---------------------------------------------------------------------------------

enum codec { PLAIN, SNAPPY, ZSTD = 6 };

// Snappy's densest element writes 64 bytes from 3, so data grows at most 22-fold.
enum { SNAPPY_DENSEST = 22 };

char *parquet_unpack(int codec, const uint8_t *from, size_t size, size_t unpacked, struct err *err)
{
    static const char *const names[] = { "none",   "Snappy", "gzip", "LZO",
                                         "Brotli", "LZ4",    "zstd", "LZ4 (raw)" };
    const size_t known = sizeof names / sizeof *names;
    if (codec != PLAIN && codec != SNAPPY && codec != ZSTD) {
        err_set(
            err,
            "it is compressed with %s, which is not supported: write the file with Snappy or zstd",
            codec > 0 && (size_t)codec < known ? names[codec] : "an unknown method");
        return NULL;
    }
    // zstd refuses empty input.
    if (!size && !unpacked) return xcalloc(1, 1);
    // Checks a stated size first, so that a wrong one allocates nothing.
    const char *bytes = (const char *)from;
    bool good = codec == PLAIN && size == unpacked;
    size_t length = unpacked;
    if (codec == SNAPPY)
        good = snappy_uncompressed_length(bytes, size, &length) == SNAPPY_OK &&
               length == unpacked && unpacked / SNAPPY_DENSEST <= size;
    if (codec == ZSTD) {
        const unsigned long long content = ZSTD_getFrameContentSize(from, size);
        good = content == ZSTD_CONTENTSIZE_UNKNOWN || content == unpacked;
    }
    char *to = good ? malloc(unpacked + 1) : NULL;
    if (to && codec == PLAIN) memcpy(to, from, size);
    if (to && codec == SNAPPY)
        good = snappy_uncompress(bytes, size, to, &length) == SNAPPY_OK && length == unpacked;
    if (to && codec == ZSTD) good = ZSTD_decompress(to, unpacked, from, size) == unpacked;
    if (to && good) return to;
    free(to);
    err_set(err, "a page of %zu bytes cannot be decompressed to %zu (%s)", size, unpacked,
            names[codec]);
    return NULL;
}

size_t parquet_search(const void *items, size_t count, size_t size, size_t offset, int64_t at)
{
    size_t low = 0, high = count;
    while (high - low > 1) {
        const size_t middle = low + (high - low) / 2;
        const int64_t first =
            *(const int64_t *)(const void *)((const char *)items + middle * size + offset);
        if (first <= at)
            low = middle;
        else
            high = middle;
    }
    return low;
}
