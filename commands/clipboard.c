// commands/clipboard.c -- asks wl-paste or xclip for the picture in the clipboard.
//
// A terminal gives no pictures: OSC 52 is for text, and most terminals do not answer it at all. So
// the desktop is asked, through the program that its user has for that.
#include "commands/clipboard.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/mem.h"
#include "core/picture/image.h"

static const double patience_s = 5;

static const struct source {
    const char *display; // variable of the environment that says it can be asked
    const char *package;
    const char *argv[8];
} sources[] = {
    { "WAYLAND_DISPLAY", "wl-clipboard", { "wl-paste", "--no-newline", "--type", "image", NULL } },
    { "DISPLAY",
      "xclip",
      { "xclip", "-selection", "clipboard", "-target", "image/png", "-out", NULL } },
};

static _Noreturn void become(const struct source *s, int out)
{
    const int null = open("/dev/null", O_RDWR);
    if (dup2(null, 0) == 0 && dup2(out, 1) == 1 && dup2(null, 2) == 2)
        execvp(s->argv[0], (char **)(uintptr_t)s->argv);
    _exit(127);
}

// All that it writes, in time and up to the limit of a picture. Ctrl-C may reach another thread: it
// is looked for now and then.
static bool read_all(int from, const atomic_bool *cancel, struct buf *bytes)
{
    const double until = clock_seconds() + patience_s;
    char part[65536];
    for (;;) {
        struct pollfd one = { .fd = from, .events = POLLIN };
        if (atomic_load(cancel) || clock_seconds() >= until) return false;
        const int ready = poll(&one, 1, 50);
        if (ready < 0 && errno != EINTR) return false;
        if (ready <= 0) continue;
        const ssize_t n = read(from, part, sizeof part);
        if (n == 0) return true;
        if (n < 0 && errno != EINTR) return false;
        if (n > 0) buf_add(bytes, part, (size_t)n);
        if (bytes->length > IMAGE_MAX_FILE) return false;
    }
}

// 0: *bytes; 127: the program is missing; another number: it has no picture; -1 with a message.
static int ask(const struct source *s, const atomic_bool *cancel, struct buf *bytes,
               struct err *err)
{
    int ends[2], status = 0;
    if (pipe2(ends, O_CLOEXEC) < 0)
        return err_set(err, "cannot create a pipe: %s", strerror(errno));
    const pid_t child = fork();
    if (child == 0) become(s, ends[1]);
    close(ends[1]);
    const bool whole = child > 0 && read_all(ends[0], cancel, bytes);
    close(ends[0]);
    if (child < 0) return err_set(err, "cannot start %s: %s", s->argv[0], strerror(errno));
    if (!whole) kill(child, SIGKILL);
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
    if (!whole && atomic_load(cancel)) return err_set(err, "stopped");
    if (!whole)
        return err_set(err, "%s gave no whole picture within %.0f seconds", s->argv[0], patience_s);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

char *clipboard_picture(const atomic_bool *cancel, size_t *size, struct err *err)
{
    struct buf bytes = { 0 };
    const struct source *missing = NULL;
    for (size_t i = 0; i < sizeof sources / sizeof *sources; i++) {
        const struct source *s = &sources[i];
        const char *display = getenv(s->display);
        if (!display || !*display) continue;
        buf_clear(&bytes);
        const int status = ask(s, cancel, &bytes, err);
        if (status == 0 && bytes.length) {
            *size = bytes.length;
            return buf_take(&bytes);
        }
        buf_release(&bytes);
        if (status == 127) {
            missing = missing ? missing : s; // where both can be asked, the other may be there
            continue;
        }
        if (status >= 0) err_set(err, "the clipboard holds no picture");
        return NULL;
    }
    if (missing)
        err_set(err, "cannot read the clipboard: install %s, or give the picture's file",
                missing->package);
    else
        err_set(err,
                "there is no clipboard here: neither WAYLAND_DISPLAY nor DISPLAY is set (over ssh "
                "the clipboard stays with your desktop); copy the picture's file here instead");
    return NULL;
}
