// tui/threads.h -- this process's threads: how they wait for one another, and their signals.
#ifndef TUI_THREADS_H
#define TUI_THREADS_H

#include <pthread.h>
#include <stdbool.h>

// Restarts the program with threads that soon sleep while they wait, unless the environment says
// otherwise. OMP_WAIT_POLICY=active is meant for the chat: a job, which inherits it, would take the
// cores from the chat while it waits. First call in main; returns if they already do (or if it
// fails).
void threads_wait_asleep(char **argv);
// Signals go to the main thread: they would interrupt system calls of this one. Faults stay
// enabled, or the system would end the program before the terminal is restored. The name is shown
// by ps -L and debuggers.
void threads_start(pthread_t *thread, const char *name, void *(*run)(void *self), void *self);
// Waits for its end; false: it did not end in time.
bool threads_join(pthread_t thread, int seconds);

#endif
