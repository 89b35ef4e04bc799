// core/base/program.c -- runs another program and reads its output.
#include "core/base/program.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/clock.h"

enum { LOOK_MS = 50 }; // time between checks of *cancel

static int start(const struct program *p, int out, pid_t *child)
{
    posix_spawn_file_actions_t files;
    posix_spawnattr_t group;
    posix_spawn_file_actions_init(&files);
    posix_spawnattr_init(&group);
    posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&files, out, 1);
    if (p->errors)
        posix_spawn_file_actions_adddup2(&files, out, 2);
    else
        posix_spawn_file_actions_addopen(&files, 2, "/dev/null", O_WRONLY, 0);
    posix_spawnattr_setflags(&group, POSIX_SPAWN_SETPGROUP); // a process group of its own
    const int failure = posix_spawnp(child, p->argv[0], &files, &group, p->argv, environ);
    posix_spawnattr_destroy(&group);
    posix_spawn_file_actions_destroy(&files);
    return failure;
}

static bool is_cancelled(const struct program *p)
{
    return p->cancel && atomic_load(p->cancel);
}

// Reads until the program closes its output. Returns false on a timeout, a failed read or
// cancellation.
static bool read_all(const struct program *p, int from, struct buf *out)
{
    const double until = clock_seconds() + p->patience_s;
    char text[65536];
    while (!is_cancelled(p) && clock_seconds() < until) {
        struct pollfd one = { .fd = from, .events = POLLIN };
        const int ready = poll(&one, 1, LOOK_MS);
        if (ready < 0 && errno != EINTR) return false;
        if (ready <= 0) continue;
        const ssize_t n = read(from, text, sizeof text);
        if (n == 0) return true;
        if (n < 0 && errno != EINTR) return false;
        const size_t left = out->length < p->most ? p->most - out->length : 0;
        if (n > 0) buf_add(out, text, (size_t)n < left ? (size_t)n : left);
    }
    return false;
}

int program_run(const struct program *p, struct buf *out, struct err *err)
{
    pid_t child;
    int ends[2], status = 0;
    if (pipe2(ends, O_CLOEXEC) < 0)
        return err_set(err, "cannot create a pipe: %s", strerror(errno));
    const int failure = start(p, ends[1], &child);
    close(ends[1]);
    const bool done = !failure && read_all(p, ends[0], out);
    close(ends[0]);
    if (failure == EAGAIN || failure == ENOMEM)
        return err_set(err, "cannot start %s: %s", p->argv[0], strerror(failure));
    if (failure) return PROGRAM_MISSING;
    if (!done) kill(child, SIGKILL);
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
    if (!done && is_cancelled(p)) return err_set(err, "stopped");
    if (!done) return err_set(err, "%s has not answered for %.3g s", p->argv[0], p->patience_s);
    return WIFEXITED(status) ? WEXITSTATUS(status)
                             : err_set(err, "%s was killed by a signal", p->argv[0]);
}
