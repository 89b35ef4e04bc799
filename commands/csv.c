// commands/csv.c -- writes tables as comma-separated values (RFC 4180: quotes are doubled).
#include "commands/csv.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

FILE *csv_create(const char *path, const char *head, struct err *err)
{
    FILE *f = fopen(path, "wxe");
    if (f)
        fputs(head, f);
    else if (errno == EEXIST)
        err_set(err, "'%s' exists: nothing is overwritten, choose another name", path);
    else
        err_set(err, "cannot write '%s': %s", path, strerror(errno));
    return f;
}

void csv_text(FILE *f, const char *text, char end)
{
    putc('"', f);
    for (; text && *text; text++) {
        if (*text == '"') putc('"', f);
        putc(*text, f);
    }
    putc('"', f);
    putc(end, f);
}

int csv_close(FILE *f, const char *path, struct err *err)
{
    const bool failed = ferror(f);
    if (fclose(f) || failed) return err_set(err, "cannot write '%s': %s", path, strerror(errno));
    return 0;
}
