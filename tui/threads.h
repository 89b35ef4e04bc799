// tui/threads.h -- the threads of this process: how they wait for one another, and their signals.
#ifndef TUI_THREADS_H
#define TUI_THREADS_H

#include <pthread.h>
#include <stdbool.h>

// Starts the program again with threads that soon sleep while they wait, unless the environment
// says how they shall wait. First thing in main; returns if they do already (or if it cannot be
// done).
void threads_wait_asleep(char **argv);
// Signals are the main thread's: they would interrupt system calls of this one. Faults are its own,
// or the system would end the program before the terminal is given back.
// The name is shown by ps -L and debuggers.
void threads_start(pthread_t *thread, const char *name, void *(*run)(void *self), void *self);
// Waits for its end; false: it did not end within the seconds.
bool threads_join(pthread_t thread, int seconds);

#endif
