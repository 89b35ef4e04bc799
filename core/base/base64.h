// core/base/base64.h -- converts bytes to and from base64 text (RFC 4648, with padding).
#ifndef CORE_BASE_BASE64_H
#define CORE_BASE_BASE64_H

#include "core/base/mem.h"

// Appends the bytes in base64.
void base64_encode(struct buf *out, const void *bytes, size_t size);
// Appends the bytes of a base64 text. -1 if the text has other characters or is not padded to whole
// groups of four; some of the bytes before the error may stay appended.
int base64_decode(struct buf *out, const char *text, size_t length);

#endif
