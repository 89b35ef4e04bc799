// tui/graphics_tmux.c -- whether tmux can show sixels on the terminal around it.
//
// A tmux built with sixels says so in its DA1 whatever the terminal around it can; where that has
// none, or does not tell the size of its cells, tmux writes "SIXEL IMAGE" and plus signs instead.
// What it knows of its client it tells only by a command.
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "tui/graphics.h"

static const double patience_s = 0.5; // tmux answers within a few milliseconds, or hangs

// At most size - 1 bytes of what comes until the end or in time.
static void read_text(int from, char *text, size_t size)
{
    const double until = clock_seconds() + patience_s;
    size_t length = 0;
    while (length + 1 < size) {
        struct pollfd one = { .fd = from, .events = POLLIN };
        const int left = (int)((until - clock_seconds()) * 1000);
        if (left <= 0 || poll(&one, 1, left) <= 0) break;
        const ssize_t n = read(from, text + length, size - 1 - length);
        if (n <= 0) break;
        length += (size_t)n;
    }
    text[length] = 0;
}

static pid_t start(char *const argv[], int out)
{
    posix_spawn_file_actions_t files;
    pid_t child = -1;
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&files, out, 1);
    posix_spawn_file_actions_addopen(&files, 2, "/dev/null", O_WRONLY, 0);
    if (posix_spawnp(&child, argv[0], &files, NULL, argv, environ)) child = -1;
    posix_spawn_file_actions_destroy(&files);
    return child;
}

bool graphics_tmux_sixel(void)
{
    char *const argv[] = { "tmux", "display-message", "-p",
                           "#{client_cell_width} #{client_termfeatures}", NULL };
    char text[1024] = "";
    int ends[2], width = 0;
    if (pipe2(ends, O_CLOEXEC) < 0) return false;
    const pid_t child = start(argv, ends[1]);
    close(ends[1]);
    if (child > 0) read_text(ends[0], text, sizeof text);
    close(ends[0]);
    if (child > 0) {
        kill(child, SIGKILL); // it has ended, or hangs
        waitpid(child, NULL, 0);
    }
    // NOLINTNEXTLINE(cert-err34-c): four digits cannot overflow
    return sscanf(text, "%4d", &width) == 1 && width > 0 && strstr(text, "sixel");
}
