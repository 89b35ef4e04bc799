// commands/numbers.c -- reading lists of token ids.
#include "commands/numbers.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const char between[] = " \t\r\n,[]";

static int read_list(struct ids *ids, const char *text, int64_t limit, struct err *err)
{
    for (const char *p = text + strspn(text, between); *p; p += strspn(p, between)) {
        char *end;
        errno = 0;
        const long long id = strtoll(p, &end, 10);
        if (!isdigit((unsigned char)*p) || (*end && !strchr(between, *end)))
            return err_set(err, "'%.*s' is not a token id", (int)strcspn(p, between), p);
        if (errno || id >= limit)
            return err_set(err, "token id %.*s is not in the vocabulary (0 to %lld)",
                           (int)(end - p), p, (long long)limit - 1);
        ids_add(ids, (int32_t)id);
        p = end;
    }
    return 0;
}

int numbers_read(struct ids *ids, int argc, char **argv, int64_t limit, struct err *err)
{
    for (int i = 0; i < argc; i++)
        if (read_list(ids, argv[i], limit, err) < 0) return -1;
    return 0;
}
