// tui/threads.h -- starts and joins threads; sets how OpenMP's threads wait.
#ifndef TUI_THREADS_H
#define TUI_THREADS_H

#include <pthread.h>
#include <stdbool.h>

// Restarts the program with OpenMP threads that sleep soon after they begin to wait, unless the
// environment sets another policy. A job ignores an inherited OMP_WAIT_POLICY=active: its spinning
// threads would take the cores from the chat. Called early in main; returns if the policy is set
// already, or on failure.
void threads_wait_asleep(char **argv);
// Starts a thread that blocks all signals except faults: the main thread handles signals, but a
// blocked fault would end the program before the terminal is restored. ps -L and debuggers show the
// name.
void threads_start(pthread_t *thread, const char *name, void *(*run)(void *self), void *self);
// Waits for the thread's end; false: it did not end in time.
bool threads_join(pthread_t thread, int seconds);

#endif
