// tui/threads.h -- starts and joins this process's threads; sets how they wait and their signals.
#ifndef TUI_THREADS_H
#define TUI_THREADS_H

#include <pthread.h>
#include <stdbool.h>

// Restarts the program with OpenMP threads that soon sleep while they wait, unless the environment
// chooses otherwise. A job ignores an inherited OMP_WAIT_POLICY=active: its spinning threads would
// take the cores from the chat. Called first in main; returns if the policy is already set, or on
// failure.
void threads_wait_asleep(char **argv);
// Starts a thread with all signals blocked except faults: the main thread handles signals, and a
// blocked fault would end the program before the terminal is restored. ps -L and debuggers show the
// name.
void threads_start(pthread_t *thread, const char *name, void *(*run)(void *self), void *self);
// Waits for its end; false: it did not end in time.
bool threads_join(pthread_t thread, int seconds);

#endif
