// tui/threads.h -- how the threads of this process wait for one another.
#ifndef TUI_THREADS_H
#define TUI_THREADS_H

// Starts the program again with threads that soon sleep while they wait, unless the environment
// says how they shall wait. First thing in main; returns if they do already (or if it cannot be
// done).
void threads_wait_asleep(char **argv);

#endif
