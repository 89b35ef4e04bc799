// tui/threads.c -- threads that wait asleep.
//
// OpenMP's threads wait spinning by default. With two programs on the same cores (a chat and a job)
// each then waits for threads that the other's spinning keeps from running: both lose most of their
// speed. libgomp reads the environment before main, so the program starts once more with it set.
#include "tui/threads.h"

#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

void threads_wait_asleep(char **argv)
{
    char program[PATH_MAX];
    if (getenv("OMP_WAIT_POLICY") || getenv("GOMP_SPINCOUNT")) return;
    const ssize_t n = readlink("/proc/self/exe", program, sizeof program - 1);
    if (n <= 0 || setenv("OMP_WAIT_POLICY", "passive", 1) < 0) return;
    program[n] = 0;
    execv(program, argv);
}
