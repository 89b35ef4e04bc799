// core/engine/device.c -- finds a backend by name; opens the GPU library on demand.
#include "core/engine/device.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/err.h"
#include "core/base/mem.h"
#include "kernels/backend.h"
#include "kernels/cuda_library.h"

// --- the library ---------------------------------------------------------------------------------

// Paths of the library, relative to the program's folder.
static const char *const library_paths[] = { "libvlmsh_cuda.so", "build/cuda/libvlmsh_cuda.so",
                                             "../lib/vlmsh/libvlmsh_cuda.so" };

// Returns the library's path, which the caller frees; NULL: not found.
static char *find_library(void)
{
    const char *named = getenv("VLMSH_CUDA");
    char program[PATH_MAX];
    if (named && *named) return xstrdup(named);
    const ssize_t n = readlink("/proc/self/exe", program, sizeof program - 1);
    if (n <= 0) return NULL;
    program[n] = '\0';
    *(strrchr(program, '/') + 1) = '\0';
    for (size_t i = 0; i < sizeof library_paths / sizeof *library_paths; i++) {
        char *path = xasprintf("%s%s", program, library_paths[i]);
        if (access(path, R_OK) == 0) return path;
        free(path);
    }
    return NULL;
}

// Never closes the library: its threads and device memory last as long as the process.
static const struct cuda_library *open_library(struct err *err)
{
    char *path = find_library();
    const struct cuda_library *library = NULL;
    if (!path) {
        err_set(err, "libvlmsh_cuda.so was not found: build it with `make cuda` (needs nvcc of "
                     "CUDA 12 or 13)");
        return NULL;
    }
    void *file = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    cuda_library_fn *get = NULL;
    if (file) *(void **)&get = dlsym(file, CUDA_LIBRARY_SYMBOL);
    if (!get)
        err_set(err, "cannot open '%s': %s", path, dlerror());
    else if (library = get(),
             strcmp(library->version, VERSION) != 0 || library->table != sizeof(struct backend))
        library = NULL,
        err_set(err, "'%s' does not match this build: rebuild it with `make cuda`", path);
    free(path);
    return library;
}

static const struct cuda_library *opened;

void *device_stream(void)
{
    return opened->stream();
}

// --- instruction sets ----------------------------------------------------------------------------

const struct backend *device_find_isa(const char *isa, struct err *err)
{
    const struct backend *b = backend_cpu_isa(isa);
    if (b) return b;
    struct buf has = { 0 };
    bool known = false;
    for (int i = 0; backend_isa_name(i); i++) {
        const char *name = backend_isa_name(i);
        known |= !strcmp(name, isa);
        if (backend_cpu_isa(name)) buf_printf(&has, "%s%s", has.length ? ", " : "", name);
    }
    err_set(err, "%s '%s': this CPU has %s",
            known ? "this CPU lacks the instruction set" : "unknown instruction set", isa,
            has.data);
    buf_release(&has);
    return NULL;
}

int device_check_isa(struct err *err)
{
    const char *isa = getenv("VLMSH_ISA");
    if (!isa || !*isa || device_find_isa(isa, err)) return 0;
    return err_in(err, "VLMSH_ISA");
}

// --- names ---------------------------------------------------------------------------------------

// Reads "0,1"; returns the number of GPUs, or -1.
static int read_numbers(const char *text, int numbers[CUDA_GPUS_MOST], struct err *err)
{
    int count = 0;
    for (const char *p = text; p; count++) {
        char *end;
        const long number = strtol(p, &end, 10);
        bool good = *p >= '0' && *p <= '9' && number < 1024 && (!*end || *end == ',');
        for (int i = 0; i < count; i++) good &= numbers[i] != number;
        if (!good || count == CUDA_GPUS_MOST)
            return err_set(err,
                           "'%s' is not a list of GPUs: use --device cuda:0, or cuda:0,1 to split "
                           "a model over several",
                           text);
        numbers[count] = (int)number;
        p = *end ? end + 1 : NULL;
    }
    return count;
}

// Opens the GPUs of a list; NULL if it is no list. If they are not available, returns the CPU, and
// *err says why.
static const struct backend *open_cuda(const char *list, struct err *err)
{
    int numbers[CUDA_GPUS_MOST];
    char text[256];
    struct err why = { 0 };
    const int count = read_numbers(list, numbers, err);
    if (count < 0) return NULL;
    const struct cuda_library *library = open_library(&why);
    const struct backend *b = library ? library->open(numbers, count, text, sizeof text) : NULL;
    if (b) {
        opened = library;
        return b;
    }
    err_set(err, "no GPU available: %s", library ? text : why.text);
    return backend_cpu();
}

char *device_of_rank(const char *name, int local)
{
    int numbers[CUDA_GPUS_MOST] = { 0 }, count = 1;
    if (!name || strncmp(name, "cuda", 4) != 0 || (name[4] && name[4] != ':'))
        return name ? xstrdup(name) : NULL;
    if (name[4]) count = read_numbers(name + 5, numbers, NULL);
    if (count < 0) return xstrdup(name);
    const int number = local < count ? numbers[local] : numbers[count - 1] + local - (count - 1);
    return xasprintf("cuda:%d", number);
}

const struct backend *device_find(const char *name, struct err *err)
{
    err->text[0] = '\0';
    if (!name || !strcmp(name, "cpu")) return backend_cpu();
    if (!strcmp(name, "cuda") || !strncmp(name, "cuda:", 5))
        return open_cuda(name[4] ? name + 5 : "0", err);
    if (!strncmp(name, "cpu:", 4))
        err_set(err, "the CPU is a single device: use --device cpu");
    else
        err_set(err, "unknown device '%s': use cpu or cuda[:N[,N...]]", name);
    return NULL;
}

const char *device_name(const struct backend *b)
{
    return b->name;
}

const char *device_text(const struct backend *b)
{
    return b->describe();
}

bool device_has_memory(const struct backend *b)
{
    return b->own_memory;
}

void device_set_threads(int count)
{
    backend_cpu()->set_threads(count);
}

// --- the list of devices -------------------------------------------------------------------------

void device_each(void (*add)(void *self, const struct device_row *row), void *self, struct err *why)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char text[160];
    why->text[0] = '\0';
    add(self, &(struct device_row){ "cpu", backend_cpu()->describe(),
                                    page * (size_t)sysconf(_SC_AVPHYS_PAGES),
                                    page * (size_t)sysconf(_SC_PHYS_PAGES) });
    const struct cuda_library *library = open_library(why);
    if (!library) return;
    const int count = library->count(text, sizeof text);
    if (count <= 0) err_set(why, "%s", count < 0 ? text : "the driver sees no GPU");
    for (int i = 0; i < count; i++) {
        struct cuda_gpu gpu = { 0 };
        char name[32];
        snprintf(name, sizeof name, "cuda:%d", i);
        if (library->look(i, &gpu, text, sizeof text) < 0)
            snprintf(gpu.text, sizeof gpu.text, "%s", text);
        add(self, &(struct device_row){ name, gpu.text, gpu.unused, gpu.total });
    }
}
