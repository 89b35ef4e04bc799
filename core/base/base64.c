// core/base/base64.c -- converts bytes to and from base64 text.
#include "core/base/base64.h"

enum { GROUPS = 256 }; // groups of four characters appended together

static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

void base64_encode(struct buf *out, const void *bytes, size_t size)
{
    const unsigned char *p = bytes;
    char text[4 * GROUPS];
    size_t n = 0;
    for (size_t i = 0; i < size; i += 3) {
        const size_t rest = size - i;
        const uint32_t bits = (uint32_t)p[i] << 16 | (rest > 1 ? (uint32_t)p[i + 1] << 8 : 0) |
                              (rest > 2 ? p[i + 2] : 0);
        for (size_t k = 0; k < 4; k++)
            text[n++] = (char)(k <= rest ? letters[bits >> (18 - 6 * k) & 63] : '=');
        if (n == sizeof text || rest <= 3) {
            buf_add(out, text, n);
            n = 0;
        }
    }
}

static int digit_of(char c)
{
    if (c >= 'A' && c <= 'Z') return c - 'A';
    if (c >= 'a' && c <= 'z') return c - 'a' + 26;
    if (c >= '0' && c <= '9') return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

int base64_decode(struct buf *out, const char *text, size_t length)
{
    char bytes[3 * GROUPS];
    size_t n = 0;
    if (length % 4) return -1;
    for (size_t i = 0; i < length; i += 4) {
        uint32_t bits = 0;
        const size_t pad =
            i + 4 < length ? 0 : (size_t)(text[i + 3] == '=') + (size_t)(text[i + 2] == '=');
        for (size_t k = 0; k < 4; k++) {
            const int digit = k + pad < 4 ? digit_of(text[i + k]) : 0;
            if (digit < 0) return -1;
            bits = bits << 6 | (uint32_t)digit;
        }
        for (size_t k = 0; k + pad < 3; k++) bytes[n++] = (char)(bits >> (16 - 8 * k));
        if (n > sizeof bytes - 3 || i + 4 == length) {
            buf_add(out, bytes, n);
            n = 0;
        }
    }
    return 0;
}
