// core/picture/image_child.c -- decodes in a forked child, so that a hostile picture only causes an
// error message.
//
// Parent and child share one anonymous mapping: a report and memory for the pixels. The parent
// sends a byte over a socket, the child decodes and replies with a byte. The child has limits on
// memory and time, no files and no terminal; it ends with _exit, which neither runs the parent's
// exit handlers nor flushes its stdio buffers. The parent does not trust the report: a compromised
// child can at worst deliver a wrong picture.
//
// A fork takes milliseconds in a large process. So a struct image_decoder, meant for the many small
// pictures of a data set, reuses its child and copies each file into the mapping. A child made for
// one picture inherits the file's bytes.
//
// After the fork only this thread exists in the child; decoding needs malloc (glibc keeps it
// usable) and takes no lock that another thread may have held at the fork. The address sanitizer
// takes such locks: under it, a process with threads decodes without a child.
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/picture/image_parts.h"

enum {
    CHILD_SECONDS = 20, // processor time of a picture
    WAIT_SECONDS = 200, // wall-clock time of a picture: longer, because the machine may be busy
    // Limits of a struct image_decoder's child; a larger picture gets a child of its own. After a
    // fork every page that the parent writes is copied once, so a training run should fork rarely.
    SERVED_AREA = 1 << 20, // pixels
    SERVED_BYTES = 4 << 20,
};

// The address sanitizer reserves terabytes: no limit on address space can be set under it.
#if defined(__SANITIZE_ADDRESS__)
enum { ADDRESS_SANITIZER = 1 };
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
enum { ADDRESS_SANITIZER = 1 };
#else
enum { ADDRESS_SANITIZER = 0 };
#endif
#else
enum { ADDRESS_SANITIZER = 0 };
#endif

// GCC 12's address sanitizer leaves its locks in a forked child as they were: the child waits
// forever for one that another thread held. Pictures are then decoded in this process, where the
// sanitizer checks the decoders.
static bool fork_may_hang(void)
{
    struct stat tasks;
    return ADDRESS_SANITIZER && stat("/proc/self/task", &tasks) == 0 &&
           tasks.st_nlink > 2 + 1; // a folder has two links, and one for each folder in it
}

// Returns the address space in use, including the model that the parent has mapped.
static rlim_t address_space(void)
{
    char text[64] = "";
    int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    if (fd >= 0) close(fd);
    return n <= 0 ? 0 : (rlim_t)strtoull(text, NULL, 10) * (rlim_t)sysconf(_SC_PAGESIZE);
}

static void limit(int resource, rlim_t value)
{
    struct rlimit now;
    if (getrlimit(resource, &now) < 0) return;
    if (now.rlim_max != RLIM_INFINITY && value > now.rlim_max) value = now.rlim_max;
    setrlimit(resource, &(struct rlimit){ .rlim_cur = value, .rlim_max = value });
}

// Gives the next picture CHILD_SECONDS. The limit is soft: the kernel does not announce a hard one
// by SIGXCPU.
static void limit_time(void)
{
    struct rusage used;
    struct rlimit time;
    if (getrusage(RUSAGE_SELF, &used) < 0 || getrlimit(RLIMIT_CPU, &time) < 0) return;
    time.rlim_cur = (rlim_t)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) + 1 + CHILD_SECONDS;
    if (time.rlim_max != RLIM_INFINITY && time.rlim_cur >= time.rlim_max)
        time.rlim_cur = time.rlim_max > 1 ? time.rlim_max - 1 : time.rlim_max;
    setrlimit(RLIMIT_CPU, &time);
}

// Sets the child's limits. `keep` stays open, as descriptor 3; 0 to 2 become /dev/null; all others
// are closed.
static void child_confine(size_t area, size_t size, int keep)
{
    // Two cases need the most memory: a 16-bit RGBA PNG (inflated, unfiltered, converted to 8 bits,
    // turned upright), and a progressive JPEG (its coefficients beside its planes).
    rlim_t need = (rlim_t)area * 32 + 4 * (rlim_t)size + (64 << 20);
    rlim_t used = address_space();
    if (used && !ADDRESS_SANITIZER) limit(RLIMIT_AS, used + need);
    limit(RLIMIT_CORE, 0);
    limit(RLIMIT_FSIZE, 0);
    // The messages of a decoder that aborts must not reach the screen.
    int null = open("/dev/null", O_RDWR);
    for (int fd = 0; fd < 3 && null >= 0; fd++) dup2(null, fd);
    if (keep != 3) dup2(keep, 3);
    close_range(4, ~0U, 0);
}

static void child_signals(pid_t parent)
{
    // Leaves SIGINT blocked: Ctrl-C signals the whole process group, but only the parent reacts to
    // it.
    static const int ours[] = { SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGTERM, SIGXCPU };
    for (size_t i = 0; i < sizeof ours / sizeof *ours; i++) signal(ours[i], SIG_DFL);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(1);
    sigset_t open;
    sigemptyset(&open);
    for (size_t i = 0; i < sizeof ours / sizeof *ours; i++) sigaddset(&open, ours[i]);
    sigprocmask(SIG_UNBLOCK, &open, NULL);
}

// Blocks all signals until the child has reset the parent's handlers.
static pid_t child_fork(void)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pid_t parent = getpid(), child = fork();
    if (child == 0) {
        child_signals(parent);
        return 0;
    }
    int why = errno;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    errno = why;
    return child;
}

enum { LATE = -1 }; // wait status of a child that had to be killed

struct image_decoder {
    pid_t child; // 0: none
    int socket;
    size_t area, capacity; // limits: pixels; bytes of a copied file (0: the child inherits the
                           // file)
    struct shared {
        const uint8_t *bytes; // of the file
        size_t size;
        const char *name;
        char name_copy[256];
        bool done;
        struct image image;          // without the pixels
        struct err err;              // set if image.channels is 0
        _Alignas(64) uint8_t data[]; // [4 * area] pixels, then [capacity] bytes
    } * shared;
};

static size_t shared_size(const struct image_decoder *d)
{
    return sizeof(struct shared) + 4 * d->area + d->capacity;
}

static _Noreturn void child_serve(const struct image_decoder *d, size_t size, int socket)
{
    struct shared *s = d->shared;
    char byte;
    child_confine(d->area, size, socket);
    while (read(3, &byte, 1) == 1) {
        struct image image;
        limit_time();
        s->image = (struct image){ 0 };
        if (image_decode_here(&image, s->bytes, s->size, s->name, &s->err) == 0) {
            memcpy(s->data, image.pixels,
                   (size_t)(image.width * image.height) * (size_t)image.channels);
            s->image = image;
            image_release(&image);
        }
        s->done = true;
        if (send(3, &byte, 1, MSG_NOSIGNAL) != 1) break;
    }
    _exit(0);
}

// `size`: bytes of the largest file. -1 with a message about the picture `name`.
static int decoder_start(struct image_decoder *d, size_t size, const char *name, struct err *err)
{
    int ends[2];
    if (!d->shared) {
        void *map =
            mmap(NULL, shared_size(d), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        if (map == MAP_FAILED) return err_set(err, "out of memory for the pixels of '%s'", name);
        d->shared = map;
    }
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
        return err_set(err, "cannot start the picture decoder: %s", strerror(errno));
    const pid_t child = child_fork();
    if (child == 0) child_serve(d, size, ends[1]);
    const int why = errno;
    close(ends[1]);
    if (child < 0) {
        close(ends[0]);
        return err_set(err, "cannot start the picture decoder: %s", strerror(why));
    }
    d->child = child;
    d->socket = ends[0];
    return 0;
}

// Ends the child and returns its wait status; if `late`, kills it.
static int decoder_stop(struct image_decoder *d, bool late)
{
    int status = 0;
    close(d->socket);
    if (late) kill(d->child, SIGKILL);
    while (waitpid(d->child, &status, 0) < 0)
        if (errno != EINTR) { // SIGCHLD is ignored, so there is no status: relies on the report
            late = false;
            break;
        }
    d->child = 0;
    return late ? LATE : status;
}

static void decoder_release(struct image_decoder *d)
{
    if (d->child) decoder_stop(d, true);
    if (d->shared) munmap(d->shared, shared_size(d));
}

// Waits until the child sends something or closes its side of the socket, which also happens when
// it exits.
static bool child_wait(int end)
{
    const double until = clock_seconds() + WAIT_SECONDS;
    for (;;) {
        const int left = (int)(1000 * (until - clock_seconds()));
        struct pollfd p = { .fd = end, .events = POLLIN };
        const int n = left > 0 ? poll(&p, 1, left) : 0;
        if (n > 0 || (n < 0 && errno != EINTR)) return true;
        if (n == 0 && left <= 0) return false;
    }
}

static int decoder_request(struct image_decoder *d, struct image *image,
                           const struct image_header *h, const void *bytes, size_t size,
                           const char *name, struct err *err)
{
    struct shared *s = d->shared;
    char byte = 0;
    const size_t area = (size_t)(h->width * h->height);
    // NOLINTNEXTLINE(clang-analyzer-*): a decoder with a child has s
    s->bytes = d->capacity ? memcpy(s->data + 4 * d->area, bytes, size) : bytes;
    s->size = size;
    s->name = d->capacity ? s->name_copy : name;
    snprintf(s->name_copy, sizeof s->name_copy, "%s", name);
    s->done = false;
    const bool requested = send(d->socket, &byte, 1, MSG_NOSIGNAL) == 1;
    const bool late = requested && !child_wait(d->socket);
    const bool answered = requested && !late && read(d->socket, &byte, 1) == 1;
    const int status = answered ? 0 : decoder_stop(d, late);
    if (status == LATE || (WIFSIGNALED(status) && WTERMSIG(status) == SIGXCPU))
        return err_set(err, "cannot read '%s': decoding took more than %d seconds", name,
                       late ? WAIT_SECONDS : CHILD_SECONDS);
    if (status > 0 || !s->done)
        return err_set(err, "cannot read '%s': it crashes the decoder (%s), so the file is damaged",
                       name, WIFSIGNALED(status) ? strsignal(WTERMSIG(status)) : "early exit");
    struct image got = s->image;
    if (got.channels == 0) {
        struct err message = s->err;
        message.text[sizeof message.text - 1] = 0;
        return err_set(err, "%s", message.text);
    }
    // The area must be the header's; rotation may have swapped the sides.
    if ((got.channels != 3 && got.channels != 4) || got.width < 1 || got.height < 1 ||
        got.width > IMAGE_MAX_SIDE || got.height > IMAGE_MAX_SIDE ||
        (size_t)got.width * (size_t)got.height != area)
        return err_set(err, "cannot read '%s': the decoder failed, so the file is damaged", name);
    got.pixels = malloc(area * (size_t)got.channels);
    if (!got.pixels) return err_set(err, "out of memory for the pixels of '%s'", name);
    memcpy(got.pixels, s->data, area * (size_t)got.channels);
    *image = got;
    return 0;
}

// Decodes in a child of its own, with limits for this picture.
int image_decode_child(struct image *image, const struct image_header *h, const void *bytes,
                       size_t size, const char *name, struct err *err)
{
    struct image_decoder d = { .area = (size_t)(h->width * h->height) };
    int rc = decoder_start(&d, size, name, err);
    if (rc == 0) rc = decoder_request(&d, image, h, bytes, size, name, err);
    decoder_release(&d);
    return rc;
}

int image_decode(struct image *image, const void *bytes, size_t size, const char *name,
                 struct err *err)
{
    struct image_header h;
    *image = (struct image){ 0 };
    if (image_header_read(&h, bytes, size, name, err) < 0) return -1;
    return fork_may_hang() ? image_decode_here(image, bytes, size, name, err)
                           : image_decode_child(image, &h, bytes, size, name, err);
}

struct image_decoder *image_decoder_new(void)
{
    struct image_decoder *d = xcalloc(1, sizeof *d);
    d->area = SERVED_AREA;
    d->capacity = SERVED_BYTES;
    return d;
}

void image_decoder_free(struct image_decoder *d)
{
    if (!d) return;
    decoder_release(d);
    free(d);
}

int image_decoder_run(struct image_decoder *d, struct image *image, const void *bytes, size_t size,
                      const char *name, struct err *err)
{
    struct image_header h;
    *image = (struct image){ 0 };
    if (image_header_read(&h, bytes, size, name, err) < 0) return -1;
    if (fork_may_hang()) return image_decode_here(image, bytes, size, name, err);
    if ((size_t)(h.width * h.height) > SERVED_AREA || size > SERVED_BYTES ||
        (!d->child && decoder_start(d, SERVED_BYTES, name, NULL) < 0))
        return image_decode_child(image, &h, bytes, size, name, err);
    return decoder_request(d, image, &h, bytes, size, name, err);
}
