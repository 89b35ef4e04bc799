// core/base/places.c -- XDG folders, and the folder of the program.
#include "core/base/places.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/mem.h"

char *places_file(const char *variable, const char *otherwise, const char *name)
{
    const char *base = getenv(variable), *home = getenv("HOME");
    if (base && *base == '/') return xasprintf("%s/vlmsh/%s", base, name);
    if (home && *home == '/') return xasprintf("%s/%s/vlmsh/%s", home, otherwise, name);
    return NULL;
}

int places_make_parents(const char *path, struct err *err)
{
    char *folder = xstrdup(path);
    int status = 0;
    for (char *slash = strchr(folder + 1, '/'); slash && status == 0;
         slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        if (mkdir(folder, 0700) < 0 && errno != EEXIST)
            status = err_set(err, "cannot create the folder '%s': %s", folder, strerror(errno));
        *slash = '/';
    }
    free(folder);
    return status;
}

char *places_installed(const char *name, const char *file)
{
    static const char *const folders[] = { "", "../../", "../share/vlmsh/" };
    char program[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", program, sizeof program - 1);
    if (n <= 0) return NULL;
    program[n] = '\0';
    char *slash = strrchr(program, '/');
    if (slash) *slash = '\0';
    for (size_t i = 0; slash && i < sizeof folders / sizeof *folders; i++) {
        char *path = xasprintf("%s/%s%s/%s", program, folders[i], name, file);
        char *folder = xasprintf("%s/%s%s", program, folders[i], name);
        char *plain = access(path, R_OK) == 0 ? realpath(folder, NULL) : NULL;
        free(path);
        free(folder);
        if (plain) return plain;
    }
    return NULL;
}
