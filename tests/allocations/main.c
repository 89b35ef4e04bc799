// tests/allocations/main.c -- lets allocations fail one by one while a file is read, as SQLite's
// tests do.
//
//   readers READER MOST FILE...
//
// READER is one of the fuzz targets (tests/fuzz/NAME.c; the Makefile lists them in READERS). For
// each file and many n, a child process reads the file and its nth allocation fails, even if a
// library makes it. Allowed ends: the reader returns, or the process ends with "out of memory". The
// first MOST values of n follow each other; later ones lie further and further apart. With MOST 0
// no allocation fails, and the reader must return: so the sanitizers see each file of the fuzzers.
#include <dlfcn.h>
#include <errno.h>
#include <glob.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { NOT_REACHED = 3, SECONDS = 30 };

static volatile long left = -1; // allocations until one fails; negative: none fails
static bool failed;             // an allocation has failed

#ifndef __SANITIZE_ADDRESS__ // which has its own allocator
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *memory, size_t size);

static int fails(void)
{
    if (left < 0 || left-- > 0) return 0;
    errno = ENOMEM;
    failed = true;
    return 1;
}

void *malloc(size_t size)
{
    return fails() ? NULL : __libc_malloc(size);
}

void *calloc(size_t count, size_t size)
{
    return fails() ? NULL : __libc_calloc(count, size);
}

void *realloc(void *memory, size_t size)
{
    return fails() ? NULL : __libc_realloc(memory, size);
}

// No allocation fails in glob: glibc frees names twice if there is no memory to prefix them with
// their folder.
int glob(const char *pattern, int flags, int (*error)(const char *, int), glob_t *found)
{
    int (*next)(const char *, int, int (*)(const char *, int), glob_t *);
    const long before = left;
    left = -1;
    *(void **)&next = dlsym(RTLD_NEXT, "glob");
    const int status = next(pattern, flags, error, found);
    left = before;
    return status;
}
#endif

// Targets call this instead of abort: without memory some of their own calls fail.
void give_up(void);
void give_up(void)
{
    if (!failed) abort();
    _exit(0);
}

typedef int reader(const unsigned char *data, size_t size);
#define X(NAME)                                                \
    int NAME##_reader(const unsigned char *data, size_t size); \
    __attribute__((weak)) int NAME##_initialize(int *argc, char ***argv);
READERS
#undef X

static const struct {
    const char *name;
    reader *read;
    int (*initialize)(int *argc, char ***argv); // opens what all files need; NULL: nothing
} readers[] = {
#define X(NAME) { #NAME, NAME##_reader, NAME##_initialize },
    READERS
#undef X
};

static unsigned char *contents(const char *path, size_t *size)
{
    FILE *f = fopen(path, "rb");
    if (!f || fseek(f, 0, SEEK_END)) exit(2);
    *size = (size_t)ftell(f);
    rewind(f);
    unsigned char *data = malloc(*size + 1);
    if (!data || fread(data, 1, *size, f) != *size) exit(2);
    fclose(f);
    return data;
}

// Reads the file in a child whose nth allocation fails (none if n < 0); returns its status, *said
// its output.
static int try_one(reader *read_file, const unsigned char *data, size_t size, long n, char *said,
                   size_t room)
{
    int ends[2], status;
    if (pipe(ends)) exit(2);
    const pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], 1);
        dup2(ends[1], 2);
        close(ends[0]);
        close(ends[1]);
        alarm(SECONDS);
        left = n;
        read_file(data, size);
        _exit(left >= 0 ? NOT_REACHED : 0);
    }
    close(ends[1]);
    size_t have = 0;
    for (ssize_t got; (got = read(ends[0], said + have, room - 1 - have)) > 0;) have += (size_t)got;
    said[have] = 0;
    close(ends[0]);
    if (child < 0 || waitpid(child, &status, 0) < 0) exit(2);
    return status;
}

int main(int argc, char **argv)
{
    if (argc < 3) return 2;
    reader *read_file = NULL;
    for (size_t i = 0; i < sizeof readers / sizeof *readers; i++)
        if (!strcmp(readers[i].name, argv[1])) {
            read_file = readers[i].read;
            if (readers[i].initialize) readers[i].initialize(&argc, &argv);
        }
    if (!read_file) return 2;
    const long most = atol(argv[2]);
    long tried = 0;
    int wrong = 0;
    for (int i = 3; i < argc; i++) {
        size_t size;
        unsigned char *data = contents(argv[i], &size);
        for (long n = most ? 0 : -1;; n += n < most ? 1 : 1 + n / 16) {
            char said[4096];
            const int status = try_one(read_file, data, size, n, said, sizeof said);
            if (WIFEXITED(status) && WEXITSTATUS(status) == NOT_REACHED) break;
            tried++;
            if (!most) {
                if (status) printf("%s, %s: status %d %s\n", argv[1], argv[i], status, said);
                wrong += status != 0;
                break;
            }
            if (WIFEXITED(status)) continue;
            if (WTERMSIG(status) == SIGABRT && strstr(said, "out of memory")) continue;
            printf("%s, %s: allocation %ld fails: signal %d %s\n", argv[1], argv[i], n,
                   WTERMSIG(status), said);
            if (++wrong >= 20) return 1;
        }
        free(data);
    }
    printf("%-7s %s %s (%ld)\n", wrong ? "FAILED" : "ok", most ? "allocations" : "files", argv[1],
           tried);
    return wrong > 0;
}
