// commands/csv.c -- writes tables as comma-separated values (RFC 4180: quotes are doubled).
#include "commands/csv.h"

#include "core/file_out.h"

FILE *csv_create(const char *path, const char *head, struct err *err)
{
    FILE *f = file_out_open(path, err);
    if (f) fputs(head, f);
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
    return file_out_close(f, path, err);
}

void csv_abandon(FILE *f, const char *path)
{
    file_out_abandon(f, path);
}
