// core/base/text.c -- questions about texts.
#include "core/base/text.h"

#include <string.h>

bool text_ends(const char *text, const char *end)
{
    const size_t n = strlen(text), m = strlen(end);
    return n >= m && !strcmp(text + n - m, end);
}
