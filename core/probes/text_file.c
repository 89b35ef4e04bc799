// core/probes/text_file.c -- a text file with one text per line.
#include "core/probes/text_file.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/file_in.h"
#include "core/base/mem.h"
#include "core/base/text.h"

int text_file_open(struct text_file *f, const char *path, struct err *err)
{
    enum { TEXT_MOST = 64 << 20 }; // bytes
    size_t size;
    *f = (struct text_file){ 0 };
    if (!(f->text = file_read(path, TEXT_MOST, &size, err)) ||
        text_check(f->text, size, path, err) < 0)
        return -1;
    char *rest = f->text + text_mark(f->text, size);
    for (char *line; (line = strsep(&rest, "\n"));) {
        size_t n = strlen(line);
        while (n && (line[n - 1] == '\r' || line[n - 1] == ' ' || line[n - 1] == '\t'))
            line[--n] = '\0';
        if (!n) continue;
        f->line = xreallocarray(f->line, (size_t)f->count + 1, sizeof *f->line);
        f->line[f->count++] = line;
    }
    return 0;
}

void text_file_close(struct text_file *f)
{
    free(f->line);
    free(f->text);
    *f = (struct text_file){ 0 };
}
