// core/base/err.c -- error messages, and ending the program.
#include "core/base/err.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void (*fatal_hook)(void);
static int fatal_file = -1;

// Drops a partial character at the end of a message that was cut off.
static void cut_torn(char *text, size_t size)
{
    size_t n = strlen(text), start = n;
    if (n + 1 < size) return;
    while (start && n - start < 4 && ((unsigned char)text[start - 1] & 0xC0) == 0x80) start--;
    const unsigned char lead = start ? (unsigned char)text[start - 1] : 0;
    const size_t whole = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : lead >= 0xC0 ? 2 : 1;
    if (n - start + 1 < whole) text[start - 1] = 0;
}

int err_set(struct err *err, const char *format, ...)
{
    if (err) {
        va_list args;
        va_start(args, format);
        vsnprintf(err->text, sizeof err->text, format, args);
        va_end(args);
        cut_torn(err->text, sizeof err->text);
    }
    return -1;
}

int err_in(struct err *err, const char *format, ...)
{
    if (!err) return -1;
    char former[sizeof err->text];
    memcpy(former, err->text, sizeof former);
    va_list args;
    va_start(args, format);
    vsnprintf(err->text, sizeof err->text, format, args);
    va_end(args);
    size_t used = strlen(err->text), left = sizeof err->text - used;
    if (left > 2) {
        memcpy(err->text + used, ": ", 3);
        strncat(err->text, former, left - 3);
    }
    cut_torn(err->text, sizeof err->text);
    return -1;
}

void fatal_set_hook(void (*hook)(void))
{
    fatal_hook = hook;
}

void fatal_set_file(int file)
{
    fatal_file = file;
}

// Replaces control characters, for example of a file name, which a terminal would interpret, and
// all bytes beyond ASCII.
void fatal(const char *format, ...)
{
    char text[1024];
    va_list args;
    if (fatal_hook) fatal_hook();
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    for (char *c = text; *c; c++)
        if ((unsigned char)*c < ' ' || (unsigned char)*c >= 0x7f) *c = *c == '\n' ? ' ' : '?';
    if (fatal_file >= 0 && write(fatal_file, text, strlen(text)) < 0) fatal_file = -1;
    fprintf(stderr, "vlmsh: %s\n", text);
    abort();
}
