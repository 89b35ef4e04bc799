// core/files/checkpoint_pages.c -- brings the weights of a checkpoint into memory.
#include <errno.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/files/checkpoint.h"
#include "core/files/content.h"
#include "core/files/safetensors.h"

enum { FETCH_STEP = 64 << 20 }; // bytes between two reports

// Asks for pages of 2 MB: weights are read a tenth faster through them. The kernel has them for
// files that it reads anew (not for what lies in memory already) from Linux 6.16 on with ext4, and
// earlier with XFS; elsewhere nothing changes.
static void prefer_large_pages(const struct safetensors *f)
{
    (void)madvise((void *)(uintptr_t)f->map, f->size, MADV_HUGEPAGE);
}

// A model that does not fit into memory is left to be read as it is used.
static bool fits_memory(uint64_t bytes)
{
    long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    return pages <= 0 || page <= 0 || bytes / (uint64_t)page < (uint64_t)pages / 10 * 9;
}

// A file of holes (/new --zeros) has nothing to bring.
static bool is_hollow(const struct safetensors *f)
{
    struct stat st;
    return stat(f->path, &st) == 0 && (uint64_t)st.st_blocks * 512 < f->size / 2;
}

// Brings `size` bytes of a mapping of `path` into memory. -1 if its disk cannot read them.
static int fetch(const void *start, uint64_t size, const char *path, struct err *err)
{
#ifdef MADV_POPULATE_READ // maps whole ranges in one call (Linux 5.14)
    if (madvise((void *)(uintptr_t)start, size, MADV_POPULATE_READ) == 0) return 0;
    if (errno == EFAULT || errno == EIO || errno == ENOMEM)
        return err_set(err, "cannot read '%s': the file was truncated, or its disk is failing",
                       path);
#endif
    for (uint64_t i = 0; i < size; i += 4096) (void)*((const volatile char *)start + i);
    return 0;
}

int checkpoint_fetch(const struct checkpoint *c, int first, const struct load_progress *progress,
                     struct err *err)
{
    uint64_t total = 0, done = 0;
    for (int s = first; s < c->shard_count; s++) total += c->shards[s]->size;
    if (!fits_memory(total)) return 0;
    for (int s = first; s < c->shard_count; s++) {
        const struct safetensors *f = c->shards[s];
        if (is_hollow(f)) {
            done += f->size;
            continue;
        }
        prefer_large_pages(f);
        for (uint64_t at = 0; at < f->size; at += FETCH_STEP) {
            uint64_t size = f->size - at < FETCH_STEP ? f->size - at : FETCH_STEP;
            if (fetch((const char *)f->map + at, size, f->path, err) < 0) return -1;
            done += size;
            if (progress && !progress->report(progress->self, done, total))
                return err_set(err, "cancelled");
        }
    }
    return 0;
}
