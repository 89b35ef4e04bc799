// core/base/base64.h -- bytes as text of 64 letters (RFC 4648, with padding).
#ifndef CORE_BASE_BASE64_H
#define CORE_BASE_BASE64_H

#include "core/base/mem.h"

// Appends the bytes in base64.
void base64_encode(struct buf *out, const void *bytes, size_t size);
// Appends the bytes of a text in base64; -1 if it is none (nothing but the 64 letters, padded to
// whole groups of four). What was appended until then stays.
int base64_decode(struct buf *out, const char *text, size_t length);

#endif
