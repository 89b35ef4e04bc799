// tui/threads.c -- makes OpenMP's waiting threads spin briefly, then sleep; starts threads that
// block signals.
//
// By default, OpenMP's threads spin while they wait. If two programs share the cores (a chat and a
// job), one program's spinning threads keep the other's threads from running, and both lose most of
// their speed. But sleeping at once slows down a single program: a token of a 1B model takes 113
// matrix products, and in a virtual machine waking a thread takes as long as some of these products
// (on two cores of Zen 4, all wake-ups took a tenth of the token's time). So threads spin for about
// the time between two products, some microseconds, and then sleep; spinning seven times as long
// halved the speed of two concurrent chats. libgomp reads the environment before main, so the
// program sets it and restarts itself.
#include "tui/threads.h"

#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>
#include <unistd.h>

#include "core/base/err.h"

void threads_wait_asleep(char **argv)
{
    char program[PATH_MAX];
    const char *policy = getenv("OMP_WAIT_POLICY");
    const bool job = argv[0] && argv[1] && !strcmp(argv[1], "job");
    const bool spins = policy && !strcasecmp(policy, "active");
    if ((policy || getenv("GOMP_SPINCOUNT")) && !(job && spins)) return;
    const ssize_t n = readlink("/proc/self/exe", program, sizeof program - 1);
    if (n <= 0 || setenv("OMP_WAIT_POLICY", "passive", 1) < 0 ||
        setenv("GOMP_SPINCOUNT", "1500", 1) < 0)
        return;
    program[n] = 0;
    execv(program, argv);
}

void threads_start(pthread_t *thread, const char *name, void *(*run)(void *self), void *self)
{
    static const int faults[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP, SIGSYS };
    sigset_t blocked, former;
    sigfillset(&blocked);
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) sigdelset(&blocked, faults[i]);
    pthread_sigmask(SIG_BLOCK, &blocked, &former);
    const int failed = pthread_create(thread, NULL, run, self);
    pthread_sigmask(SIG_SETMASK, &former, NULL);
    if (failed) fatal("cannot start a thread: %s", strerror(failed));
    pthread_setname_np(*thread, name);
}

bool threads_join(pthread_t thread, int seconds)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += seconds;
    return pthread_timedjoin_np(thread, NULL, &until) == 0;
}
